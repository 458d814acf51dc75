"""Derivatives of LAPACK's custom calls: eigenvalues of Hermitian matrices and singular values.

Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation" (2008).  Vectors
have no derivative where values are equal: the part that would be infinite counts as zero, which is right for all that
does not depend on which vectors of such a space were chosen.
"""

from __future__ import annotations

import re

from hlotool.evaluate.backend_config import parse_backend_config
from hlotool.ir import Instruction, array, clone_instruction, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.passes.autodiff.forward import Forward
from hlotool.passes.autodiff.matrices import adjoint, conjugated, product, real_diagonal, triangle
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import Path, Writer, real_type, refusal

__all__ = ["rule_of"]

_TARGET = re.compile(r"lapack_[sdcz](syevd|heevd|gesdd)_ffi")


def rule_of(target: str) -> Rule | None:
    """The rule of a custom call of LAPACK, where there is one."""
    found = _TARGET.fullmatch(target)
    if found is None:
        return None
    return Rule(_svd_reverse, _svd_forward) if found[1] == "gesdd" else Rule(_eigh_reverse, _eigh_forward)


def _option(call: Instruction, name: str) -> str:
    config = parse_backend_config(call.attributes.get("backend_config", ""))
    value = None if isinstance(config, str) else config.get(name)
    letters = {ord(letter): letter for letter in "ANSVLU"}
    if value not in letters:
        raise refusal(call, f"its config does not say which {name} it has")
    return letters[value]


def _with_vectors(build: Builder, call: Instruction, operand: Instruction, mode: str) -> Instruction:
    """The call that computes vectors, too."""
    config = re.sub(r"\bmode\s*=\s*\d+", f"mode = {ord(mode)}", call.attributes["backend_config"])
    new = clone_instruction(call, (operand,))
    new.attributes["backend_config"] = config
    if mode == "S":
        first, values, _, _, info = call.shape.elements
        *lead, rows, columns = first.dimensions
        least = min(rows, columns)
        kind = first.element_type
        u, vh = array(kind, (*lead, rows, least)), array(kind, (*lead, least, columns))
        new.shape = tuple_shape([first, values, u, vh, info])
    return build.put(new)


def _parts(at: Writer, call: Instruction, numbers: tuple[int, ...], mode: str) -> list[Instruction]:
    """Some results of the call with vectors; in reverse mode that call takes its place."""
    has_vectors = _option(call, "mode") != "N"
    if isinstance(at, Reverse):
        ahead = at.ahead_of(call)
        old = ahead.put(clone_instruction(call, call.operands))
        new = old if has_vectors else _with_vectors(ahead, call, call.operands[0], mode)
        results = [ahead.gte(old, number) for number in range(len(call.shape.elements))]
        found = [ahead.gte(new, number) for number in numbers]
        at.replace(call, ahead.tuple(results))
        return [at.primal(one) for one in found]
    new = at.primal(call) if has_vectors else _with_vectors(at.build, call, at.primal(call.operands[0]), mode)
    return [at.build.gte(new, number) for number in numbers]


# ---- values along rows and columns, and on diagonals


def _columns(at: Writer, values: Instruction, like: Instruction) -> Instruction:
    """Element j of `values` in column j of every row, in the type of `like`."""
    return _spread(at, values, like, like.shape.rank - 1)


def _rows(at: Writer, values: Instruction, like: Instruction) -> Instruction:
    """Element i of `values` in all of row i."""
    return _spread(at, values, like, like.shape.rank - 2)


def _spread(at: Writer, values: Instruction, like: Instruction, dimension: int) -> Instruction:
    lead = list(range(like.shape.rank - 2))
    wide = at.build.broadcast(values, [*lead, dimension], like.shape.dimensions)
    element_type = like.shape.element_type
    return wide if element_type == wide.shape.element_type else at.build.convert(wide, element_type)


def _on_diagonal(at: Writer, value: Instruction) -> Instruction:
    """Which elements are on the diagonal."""
    shape = array("s32", value.shape.dimensions)
    return at.build.compare(at.build.iota(shape, shape.rank - 2), at.build.iota(shape, shape.rank - 1), "EQ")


def _diagonal_part(at: Writer, value: Instruction) -> Instruction:
    """The real parts of the diagonal, as vectors."""
    kept = at.build.select(_on_diagonal(at, value), value, at.zeros(value.shape))
    total = at.sum_over(kept, [value.shape.rank - 1])
    real = real_type(value.shape.element_type)
    return total if total.shape.element_type == real else at.build.unary("real", total)


def _inverse(at: Writer, value: Instruction) -> Instruction:
    """One by each number; zero of zero."""
    term = at.written(value)
    is_zero = term.compare("EQ", 0.0)
    return is_zero.where(0.0, 1.0 / is_zero.where(1.0, term)).value


def _gaps(at: Writer, values: Instruction, like: Instruction) -> Instruction:
    """1 / (v_j - v_i) in place (i, j); zero where the two are equal, as on the diagonal."""
    real = array(values.shape.element_type, like.shape.dimensions)
    lead = list(range(real.rank - 2))
    along = at.build.broadcast(values, [*lead, real.rank - 1], real.dimensions)
    across = at.build.broadcast(values, [*lead, real.rank - 2], real.dimensions)
    found = _inverse(at, at.build.binary("subtract", along, across))
    kind = like.shape.element_type
    return found if kind == real.element_type else at.build.convert(found, kind)


def _times(at: Writer, a: Instruction, b: Instruction) -> Instruction:
    return at.build.binary("multiply", a, b)


def _plus(at: Writer, *values: Instruction | None) -> Instruction | None:
    """The sum of those that there are."""
    total: Instruction | None = None
    for value in values:
        if value is not None:
            total = value if total is None else at.add(total, value)
    return total


def _both(at: Writer, value: Instruction) -> Instruction:
    """A matrix and its adjoint, added up."""
    return at.add(value, adjoint(at, value))


def _diagonal_of(at: Writer, values: Instruction, like: Instruction) -> Instruction:
    return at.build.select(_on_diagonal(at, like), _columns(at, values, like), at.zeros(like.shape))


# ---- eigenvalues


def _is_lower(call: Instruction) -> bool:
    return _option(call, "uplo") == "L"


def _eigh_forward(at: Forward, call: Instruction) -> ByLeaf:
    lower = _is_lower(call)
    read = real_diagonal(at, triangle(at, at.tangent_or_zeros(call.operands[0]), lower))
    moved = at.add(read, adjoint(at, triangle(at, read, lower, strict=True)))
    vectors, values = _parts(at, call, (0, 1), "V")
    inner = product(at, product(at, adjoint(at, vectors), moved), vectors)
    turned = product(at, vectors, _times(at, _gaps(at, values, inner), inner))
    return {(0,): turned, (1,): _diagonal_part(at, inner)}


def _eigh_reverse(at: Reverse, call: Instruction, cotangents: ByLeaf) -> None:
    operand, lower = call.operands[0], _is_lower(call)
    vectors, values = _parts(at, call, (0, 1), "V")
    inner: Instruction | None = None
    if (1,) in cotangents:
        inner = _diagonal_of(at, cotangents[1,], vectors)
    if (0,) in cotangents:
        by_vectors = product(at, adjoint(at, vectors), conjugated(at, cotangents[0,]))
        inner = _plus(at, inner, _times(at, _gaps(at, values, by_vectors), by_vectors))
    if inner is not None:
        whole = product(at, product(at, vectors, inner), adjoint(at, vectors))
        own = real_diagonal(at, triangle(at, whole, lower))
        at.give(operand, conjugated(at, at.add(own, triangle(at, adjoint(at, whole), lower, strict=True))))


# ---- singular values


def _check_vectors(call: Instruction, wanted: bool) -> None:
    *_, rows, columns = call.operands[0].shape.dimensions
    if wanted and rows != columns and _option(call, "mode") == "A":
        raise refusal(
            call, "its vectors beyond the rank of the matrix are any that fit", "full_matrices=False leaves them out"
        )


def _svd_forward(at: Forward, call: Instruction) -> ByLeaf:
    wanted = {path[0] for path in at.active.get(call, ())} & {2, 3} and _option(call, "mode") != "N"
    _check_vectors(call, bool(wanted))
    moved = at.tangent_or_zeros(call.operands[0])
    if not wanted and _option(call, "mode") == "A":
        values, u, vh = _thin(at, call)
    else:
        values, u, vh = _parts(at, call, (1, 2, 3), "S")
    v = adjoint(at, vh)
    inner = product(at, product(at, adjoint(at, u), moved), v)
    found: dict[Path, Instruction] = {(1,): _diagonal_part(at, inner)}
    if not wanted:
        return found
    gaps = _gaps(at, _times(at, values, values), inner)
    columns, rows = _columns(at, values, inner), _rows(at, values, inner)
    inverse = _inverse(at, values)
    by_u = _times(at, gaps, _both(at, _times(at, inner, columns)))
    by_v = _times(at, gaps, _both(at, _times(at, rows, inner)))
    if real_type(inner.shape.element_type) != inner.shape.element_type:
        turned = at.build.binary("subtract", inner, adjoint(at, inner))
        turned = at.build.select(_on_diagonal(at, inner), turned, at.zeros(inner.shape))
        half = at.splat(0.5, inner.shape)
        by_u = at.add(by_u, _times(at, _times(at, turned, half), _columns(at, inverse, inner)))
    du, dv = product(at, u, by_u), product(at, v, by_v)
    *_, m, n = moved.shape.dimensions
    if m > n:
        du = at.add(du, _beside(at, u, product(at, moved, v), inverse))
    if n > m:
        dv = at.add(dv, _beside(at, v, product(at, adjoint(at, moved), u), inverse))
    return {**found, (2,): du, (3,): adjoint(at, dv)}


def _beside(at: Writer, basis: Instruction, value: Instruction, inverse: Instruction) -> Instruction:
    """What of `value` lies outside the space of `basis`, its columns by the singular values."""
    inside = product(at, basis, product(at, adjoint(at, basis), value))
    return _times(at, at.build.binary("subtract", value, inside), _columns(at, inverse, value))


def _thin(at: Writer, call: Instruction) -> list[Instruction]:
    """Values and vectors as without full_matrices, of a call with: by a call of its own."""
    operand = at.primal(call.operands[0])
    new = _with_vectors(at.build, call, operand, "S")
    return [at.build.gte(new, number) for number in (1, 2, 3)]


def _svd_reverse(at: Reverse, call: Instruction, cotangents: ByLeaf) -> None:
    (operand,) = call.operands
    mode = _option(call, "mode")
    by_vectors = {path for path in cotangents if path in ((2,), (3,))} if mode != "N" else set()
    _check_vectors(call, bool(by_vectors))
    if not by_vectors and (1,) not in cotangents:
        return
    values, u, vh = _thin(at, call) if mode == "A" and not by_vectors else _parts(at, call, (1, 2, 3), "S")
    v = adjoint(at, vh)
    square = product(at, adjoint(at, u), u)
    inner: Instruction | None = None
    rest: Instruction | None = None
    if (1,) in cotangents:
        inner = _diagonal_of(at, cotangents[1,], square)
    gaps = _gaps(at, _times(at, values, values), square)
    inverse = _inverse(at, values)
    *_, m, n = operand.shape.dimensions
    if (2,) in by_vectors:
        g = conjugated(at, cotangents[2,])
        own = product(at, adjoint(at, u), g)
        part = _times(at, _both(at, _times(at, gaps, own)), _columns(at, values, square))
        if real_type(own.shape.element_type) != own.shape.element_type:
            turned = at.build.binary("subtract", own, adjoint(at, own))
            turned = at.build.select(_on_diagonal(at, own), turned, at.zeros(own.shape))
            scaled = _times(at, turned, _columns(at, inverse, own))
            part = at.add(part, _times(at, scaled, at.splat(0.5, own.shape)))
        inner = _plus(at, inner, part)
        if m > n:
            rest = product(at, _beside(at, u, g, inverse), vh)
    if (3,) in by_vectors:
        g = adjoint(at, conjugated(at, cotangents[3,]))
        own = product(at, vh, g)
        inner = _plus(at, inner, _times(at, _rows(at, values, square), _both(at, _times(at, gaps, own))))
        if n > m:
            rest = _plus(at, rest, product(at, u, adjoint(at, _beside(at, v, g, inverse))))
    assert inner is not None
    total = _plus(at, product(at, product(at, u, inner), vh), rest)
    assert total is not None
    at.give(operand, conjugated(at, total))
