"""Linear algebra and distances."""

from __future__ import annotations

from math import isinf

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, broadcast_dimensions, lowering
from hlotool.torch.ops.pieces import dimension_of, narrow, sizes
from hlotool.torch.ops.term import Term
from hlotool.torch.refusal import Refused

__all__: list[str] = []


@lowering("aten.linalg_solve_triangular.default")
def solve_triangular(
    c: Context, self: Instruction, B: Instruction, *, upper: bool, left: bool = True, unitriangular: bool = False  # noqa: N803
) -> Instruction:
    lead = broadcast_dimensions((sizes(self)[:-2], sizes(B)[:-2]))
    if not self.shape.size or not B.shape.size:
        raise Refused("a system without elements")
    a, b = (c.expand(one, (*lead, *sizes(one)[-2:])) for one in (self, B))
    attributes = {
        "left_side": left, "lower": not upper, "unit_diagonal": unitriangular, "transpose_a": "NO_TRANSPOSE",
    }  # fmt: skip
    return c.builder.add("triangular-solve", None, (a, b), attributes)


@lowering("aten._cdist_forward.default")
def cdist(c: Context, x1: Instruction, x2: Instruction, p: float, compute_mode: int | None) -> Instruction:
    """Distances of all pairs of rows."""
    b, dimensions = c.builder, c.dimensions
    rank, width = len(dimensions), sizes(x1)[-1]
    lead = dimensions[:-2]
    first = c.expand(x1, (*lead, *sizes(x1)[-2:]))
    second = c.expand(x2, (*lead, *sizes(x2)[-2:]))
    kept = tuple(range(rank - 2))
    whole = (*dimensions, width)
    away = b.unary(
        "abs",
        b.binary(
            "subtract",
            b.broadcast(first, (*kept, rank - 2, rank), whole),
            b.broadcast(second, (*kept, rank - 1, rank), whole),
        ),
    )
    over = (rank,)
    if p == 0:
        return c.reduce(c.convert(c.convert(away, "pred"), c.type), over, "add", 0)
    if p == 1:
        return c.reduce(away, over, "add", 0)
    if isinf(p):
        return c.reduce(away, over, "maximum", 0)
    if p == 2:
        return b.unary("sqrt", c.reduce(b.binary("multiply", away, away), over, "add", 0))
    total = c.reduce(b.binary("power", away, c.like(p, away)), over, "add", 0)
    return b.binary("power", total, c.like(1 / p, total))


@lowering("aten._cdist_backward.default")
def cdist_backward(
    c: Context, x1: Instruction, x2: Instruction, p: float, cdist: Instruction, **gradient: Instruction
) -> Instruction:
    """The gradient by the first rows; zero where a distance is.  PyTorch 2.14 gave `gradient` another name."""
    (upstream,) = gradient.values()
    lead, width = c.dimensions[:-2], sizes(x1)[-1]
    rank = len(lead) + 2
    if not (x1.shape.size and x2.shape.size):
        return c.full(0, c.type, c.dimensions)
    pairs = (*lead, sizes(x1)[-2], sizes(x2)[-2])
    whole, kept = (*pairs, width), tuple(range(rank - 2))
    b = c.builder
    first = b.broadcast(c.expand(x1, (*lead, *sizes(x1)[-2:])), (*kept, rank - 2, rank), whole)
    second = b.broadcast(c.expand(x2, (*lead, *sizes(x2)[-2:])), (*kept, rank - 1, rank), whole)
    away = Term(c, b.binary("subtract", first, second))
    size = abs(away)
    share, distance = (
        Term(c, b.broadcast(c.expand(one, pairs), range(rank), whole)) for one in (upstream, cdist)
    )
    sign = away.call("sign")
    if p == 0:
        return c.full(0, c.type, c.dimensions)
    if p == 1:
        found = share * sign
    elif isinf(p):
        found = (share * sign).put((size < distance) | (size > distance), 0)
    elif p == 2:
        found = share * away / distance
    else:
        found = share * sign * (size / distance) ** (p - 1)
    if not isinf(p) and p != 1:
        found = found.put(distance.equals(0), 0)
    if p < 1:
        found = found.put(size.equals(0), 0)
    return c.reduce(found.value, (rank - 1,), "add", 0)


@lowering("aten.linalg_cross.default")
def cross(c: Context, self: Instruction, other: Instruction, *, dim: int = -1) -> Instruction:
    """Of vectors of three elements along a dimension; narrow floats are rounded after every step."""
    if self.shape.element_type != other.shape.element_type:
        raise Refused("a cross product of two types")
    b, along = c.builder, dimension_of(dim, len(c.dimensions))

    def turned(a: Instruction, by: int) -> Instruction:
        whole = c.tensor(a, c.type, c.dimensions)
        return b.concatenate((narrow(c, whole, along, by, 3), narrow(c, whole, along, 0, by)), along)

    def product(x: Instruction, y: Instruction) -> Instruction:
        wide = b.binary("multiply", c.computed(x), c.computed(y))
        return c.computed(c.convert(wide, c.type))

    first, second = product(turned(self, 1), turned(other, 2)), product(turned(self, 2), turned(other, 1))
    return c.convert(b.binary("subtract", first, second), c.type)
