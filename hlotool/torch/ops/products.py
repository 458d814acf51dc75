"""Products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.ir import Instruction
from hlotool.ir.types import ELEMENT_TYPES
from hlotool.torch.lowering import Context, Number, lowering
from hlotool.torch.ops.pieces import element, is_complex, sizes
from hlotool.torch.refusal import Refused

__all__ = ["product"]


def product(
    c: Context, a: Instruction, b: Instruction, contracting: tuple[int, int], batch: int = 0, keep_wide: bool = False
) -> Instruction:
    """The product of two arrays over one dimension of each, the first `batch` dimensions of both kept.

    Half floats are added up in f32, which the result has where `keep_wide`.
    """
    _check(a, b)
    row = ELEMENT_TYPES[element(a)]
    kind = "f32" if row.is_float and row.bits < 32 and keep_wide else element(a)
    same = tuple(range(batch))
    return c.builder.dot(a, b, ((contracting[0],), (contracting[1],)), (same, same), kind)


def _check(*arrays: Instruction) -> None:
    """Refuses arrays of different types, of which PyTorch says that it has no product."""
    kinds = [element(array) for array in arrays]
    if any(kind != kinds[0] for kind in kinds):
        raise Refused(f"a product of {' and '.join(dict.fromkeys(kinds))}")


def _scaled(c: Context, a: Instruction, by: Number) -> Instruction:
    return a if by == 1 else c.builder.binary("multiply", a, c.like(by, a))


def _plus(c: Context, self: Instruction, made: Instruction, beta: Number, alpha: Number) -> Instruction:
    """``beta * self + alpha * made``, rounded once; what is multiplied by zero is not read."""
    made = _scaled(c, made, alpha)
    if beta != 0:
        added = c.expand(_scaled(c, c.convert(self, element(made)), beta), sizes(made))
        made = c.builder.binary("add", added, made)
    return c.convert(made, c.type)


@lowering("aten.mm.default", "aten.mm.dtype")
def mm(c: Context, self: Instruction, mat2: Instruction, out_dtype: Any = None) -> Instruction:
    return c.convert(product(c, self, mat2, (1, 0), keep_wide=out_dtype is not None), c.type)


@lowering("aten.bmm.default", "aten.bmm.dtype")
def bmm(c: Context, self: Instruction, mat2: Instruction, out_dtype: Any = None) -> Instruction:
    return c.convert(product(c, self, mat2, (2, 1), batch=1, keep_wide=out_dtype is not None), c.type)


@lowering("aten.addmm.default", "aten.addmm.dtype")
def addmm(
    c: Context, self: Instruction, mat1: Instruction, mat2: Instruction, out_dtype: Any = None, *,
    beta: Number = 1, alpha: Number = 1,
) -> Instruction:  # fmt: skip
    if out_dtype is None:
        _check(mat1, self)
    return _plus(c, self, product(c, mat1, mat2, (1, 0), keep_wide=True), beta, alpha)


@lowering("aten.baddbmm.default", "aten.baddbmm.dtype")
def baddbmm(
    c: Context, self: Instruction, batch1: Instruction, batch2: Instruction, out_dtype: Any = None, *,
    beta: Number = 1, alpha: Number = 1,
) -> Instruction:  # fmt: skip
    if out_dtype is None:
        _check(batch1, self)
    return _plus(c, self, product(c, batch1, batch2, (2, 1), batch=1, keep_wide=True), beta, alpha)


@lowering("aten.addmv.default")
def addmv(
    c: Context, self: Instruction, mat: Instruction, vec: Instruction, *, beta: Number = 1, alpha: Number = 1
) -> Instruction:
    _check(mat, self)
    return _plus(c, self, product(c, mat, vec, (1, 0), keep_wide=True), beta, alpha)


@lowering("aten.mv.default")
def mv(c: Context, self: Instruction, vec: Instruction) -> Instruction:
    return product(c, self, vec, (1, 0))


@lowering("aten.dot.default")
def dot(c: Context, self: Instruction, tensor: Instruction) -> Instruction:
    return product(c, self, tensor, (0, 0))


@lowering("aten.vdot.default")
def vdot(c: Context, self: Instruction, other: Instruction) -> Instruction:
    if is_complex(element(self)):
        parts = [c.builder.unary(part, self) for part in ("real", "imag")]
        self = c.builder.binary("complex", parts[0], c.builder.unary("negate", parts[1]))
    return product(c, self, other, (0, 0))


@lowering("aten.linear.default")
def linear(c: Context, input: Instruction, weight: Instruction, bias: Instruction | None = None) -> Instruction:
    last = (len(sizes(input)) - 1, len(sizes(weight)) - 1)
    made = product(c, input, weight, last, keep_wide=True)
    if bias is not None:
        _check(input, bias)
    return c.convert(made, c.type) if bias is None else _plus(c, bias, made, 1, 1)


@lowering("aten.addbmm.default")
def addbmm(
    c: Context, self: Instruction, batch1: Instruction, batch2: Instruction, *, beta: Number = 1, alpha: Number = 1
) -> Instruction:
    """The products of all pairs of matrices, added up."""
    _check(batch1, batch2, self)
    b, kind = c.builder, element(c.computed(batch1))
    if kind == "pred":
        raise Refused("products of booleans")
    if batch1.shape.size and batch2.shape.size:
        made = _scaled(c, b.dot(batch1, batch2, ((0, 2), (0, 1)), element_type=kind), alpha)
    else:
        made = c.full(0, kind, c.dimensions)
    if beta == 0:
        return c.convert(made, c.type)
    return c.convert(b.binary("add", made, _scaled(c, c.tensor(self, kind, c.dimensions), beta)), c.type)


@lowering("aten._trilinear.default")
def trilinear(
    c: Context, i1: Instruction, i2: Instruction, i3: Instruction, expand1: Sequence[int], expand2: Sequence[int],
    expand3: Sequence[int], sumdim: Sequence[int], unroll_dim: int = 1,
) -> Instruction:  # fmt: skip
    """The product of three tensors, each first given more dimensions, added up over some dimensions."""
    pairs = ((i1, expand1), (i2, expand2), (i3, expand3))
    grown = [c.computed(c.unsqueeze(one, added)) for one, added in pairs]
    first, second, third = c.together(*grown, element_type=element(grown[0]))
    made = c.builder.binary("multiply", c.builder.binary("multiply", first, second), third)
    return c.convert(c.reduce(made, tuple(sumdim), "add", 0), c.type)
