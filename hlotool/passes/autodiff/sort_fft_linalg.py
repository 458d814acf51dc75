"""Derivatives of sorting, Fourier transforms and factorisations.

The derivative of a Cholesky factor: Murray, "Differentiation of the Cholesky decomposition" (2016).  As the opcode
reads one triangle of its operand, the gradient is zero in the other one.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, array, clone_computation, literal
from hlotool.ir.builder import Builder
from hlotool.ir.shape import scalar
from hlotool.ir.types import dtype_of
from hlotool.passes.autodiff.forward import Forward
from hlotool.passes.autodiff.matrices import (
    adjoint,
    conjugate,
    conjugated,
    product,
    real_diagonal,
    transposed,
    triangle,
)
from hlotool.passes.autodiff.movement import jointly
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import Writer

__all__ = ["RULES"]

_PLAIN, _TRANSPOSED, _ADJOINT = "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"


# ---- sort


def _comparator(at: Writer, sort: Instruction, types: list[str]) -> Computation:
    """The comparator of `sort` for operands of `types` behind those that it has, which it does not look at."""
    comparator = clone_computation(sort.attributes["to_apply"])
    inside = Builder(comparator, next(iter(comparator)))
    for name in types:
        for _ in range(2):
            inside.parameter(len(comparator.parameters), scalar(name))
    return at.module.add(comparator)


def _sort_reverse(at: Reverse, sort: Instruction, cotangents: ByLeaf) -> None:
    """The sort moves the places along; sorting by these brings cotangents back."""
    operands = list(sort.operands)
    (dimension,) = sort.attributes["dimensions"]
    ahead = at.ahead_of(sort)
    places = ahead.iota(array("s32", operands[0].shape.dimensions), dimension)
    attributes = {**sort.attributes, "to_apply": _comparator(at, sort, ["s32"])}
    new = ahead.add("sort", None, [*operands, places], attributes)
    values = [ahead.gte(new, number) for number in range(len(operands))]
    permutation = ahead.gte(new, len(operands))
    at.replace(sort, ahead.tuple(values) if sort.shape.is_tuple else values[0])
    moved = at.primal(permutation)
    paths = list(cotangents)
    by_place = at.module.add(_by_first([cotangents[path].shape.element_type for path in paths]))
    attributes = {"dimensions": (dimension,), "to_apply": by_place}
    back = at.build.add("sort", None, [moved, *cotangents.values()], attributes)
    for number, path in enumerate(paths):
        at.give(operands[path[0] if path else 0], at.build.gte(back, 1 + number))


def _by_first(types: list[str]) -> Computation:
    computation = Computation("by_place")
    build = Builder(computation)
    first, second = (build.parameter(number, scalar("s32")) for number in range(2))
    for number, name in enumerate(types):
        build.parameter(2 + 2 * number, scalar(name))
        build.parameter(3 + 2 * number, scalar(name))
    computation.root = build.compare(first, second, "LT")
    return computation


def _sort_forward(at: Forward, sort: Instruction) -> ByLeaf:
    """Tangents are moved along."""
    moving = [number for number, operand in enumerate(sort.operands) if at.tangent(operand) is not None]
    tangents = [at.tangent_or_zeros(sort.operands[number]) for number in moving]
    types = [tangent.shape.element_type for tangent in tangents]
    attributes = {**sort.attributes, "to_apply": _comparator(at, sort, types)}
    new = at.build.add("sort", None, [*map(at.primal, sort.operands), *tangents], attributes)
    count = len(sort.operands)
    values = [at.build.gte(new, number) for number in range(count)]
    at.settle(sort, at.build.tuple(values) if sort.shape.is_tuple else values[0])
    paths = [(number,) if sort.shape.is_tuple else () for number in moving]
    return {path: at.build.gte(new, count + number) for number, path in enumerate(paths)}


# ---- fft


def _fft_reverse(at: Reverse, fft: Instruction, cotangents: ByLeaf) -> None:
    (operand,) = fft.operands
    g, attributes = cotangents[()], fft.attributes
    lengths = attributes["fft_length"]
    if not g.shape.size or not operand.shape.size:
        at.give(operand, at.zeros(operand.shape))
    elif attributes["fft_type"] == "RFFT":
        edges = [(0, 0)] * (g.shape.rank - 1) + [(0, lengths[-1] - g.shape.dimensions[-1])]
        padded = at.build.pad(g, at.zeros(scalar(g.shape.element_type)), edges)
        whole = at.build.add("fft", None, (padded,), {**attributes, "fft_type": "FFT"})
        at.give(operand, at.build.unary("real", whole))
    elif attributes["fft_type"] == "IRFFT":
        found = at.written(at.build.add("fft", None, (g,), {**attributes, "fft_type": "RFFT"}))
        at.give(operand, (conjugate(at, found.value) * at.written(_halves(at, fft))).value)
    else:
        at.give(operand, at.build.add("fft", None, (g,), attributes))


def _halves(at: Writer, fft: Instruction) -> Instruction:
    """How often each coefficient counts in an IRFFT: twice but for those that are their own mirror image."""
    shape, lengths = fft.operands[0].shape, fft.attributes["fft_length"]
    count = shape.dimensions[-1]
    weights = np.full(count, 2.0)
    weights[0] = 1.0
    if lengths[-1] % 2 == 0:
        weights[-1] = 1.0
    row = (weights / prod(lengths)).astype(dtype_of(shape.element_type))
    return at.build.broadcast(at.build.constant(literal(row, shape.element_type)), (shape.rank - 1,), shape.dimensions)


# ---- matrices


def _halved(at: Writer, value: Instruction) -> Instruction:
    """The lower triangle with half of the diagonal."""
    strict = at.written(triangle(at, value, True, strict=True))
    whole = at.written(triangle(at, value, True))
    return ((strict + whole) * 0.5).value


def _solve(
    at: Writer, a: Instruction, b: Instruction, *, left: bool, lower: bool, form: str = _PLAIN, unit: bool = False
) -> Instruction:
    attributes = {"left_side": left, "lower": lower, "unit_diagonal": unit, "transpose_a": form}
    return at.build.add("triangular-solve", b.shape, (a, b), attributes)


def _factor(at: Writer, cholesky: Instruction) -> Instruction:
    """The factor as a lower triangle."""
    lower = bool(cholesky.attributes.get("lower"))
    factor = triangle(at, at.primal(cholesky), lower)
    return factor if lower else transposed(at, factor)


def _cholesky_reverse(at: Reverse, cholesky: Instruction, cotangents: ByLeaf) -> None:
    lower = bool(cholesky.attributes.get("lower"))
    g = conjugated(at, cotangents[()] if lower else transposed(at, cotangents[()]))
    factor = _factor(at, cholesky)
    inner = _halved(at, product(at, conjugated(at, factor), triangle(at, g, True), (0, 0)))
    first = _solve(at, factor, inner, left=True, lower=True, form=_ADJOINT)
    both = _solve(at, factor, first, left=False, lower=True)
    own = at.written(real_diagonal(at, triangle(at, both, True)))
    mirrored = at.written(triangle(at, adjoint(at, both), True, strict=True))
    total = conjugated(at, (own + mirrored).value)
    at.give(cholesky.operands[0], total if lower else transposed(at, total))


def _cholesky_forward(at: Forward, cholesky: Instruction) -> ByLeaf:
    lower = bool(cholesky.attributes.get("lower"))
    tangent = at.tangent_or_zeros(cholesky.operands[0])
    read = real_diagonal(at, triangle(at, tangent if lower else transposed(at, tangent), True))
    whole = at.written(read) + at.written(adjoint(at, triangle(at, read, True, strict=True)))
    factor = _factor(at, cholesky)
    first = _solve(at, factor, whole.value, left=True, lower=True)
    both = _solve(at, factor, first, left=False, lower=True, form=_ADJOINT)
    result = product(at, factor, _halved(at, both))
    return {(): result if lower else transposed(at, result)}


def _how(solve: Instruction) -> tuple[bool, bool, bool, bool]:
    """Whether the matrix is on the left, a lower triangle, transposed, and has ones on its diagonal."""
    attributes = solve.attributes
    left, lower, unit = (bool(attributes.get(name)) for name in ("left_side", "lower", "unit_diagonal"))
    return left, lower, attributes.get("transpose_a", _PLAIN) != _PLAIN, unit


def _is_conjugated(solve: Instruction) -> bool:
    """Whether it is the conjugate of the matrix that the system is of."""
    of_complex = ELEMENT_TYPES[solve.shape.element_type].is_complex
    return of_complex and solve.attributes.get("transpose_a") == _ADJOINT


def _matrix(at: Writer, solve: Instruction) -> Instruction:
    """The matrix of the system, but for its transposition."""
    a = at.primal(solve.operands[0])
    return conjugated(at, a) if _is_conjugated(solve) else a


def _solve_reverse(at: Reverse, solve: Instruction, cotangents: ByLeaf) -> None:
    left, lower, turned, unit = _how(solve)
    a, b = solve.operands
    form = _PLAIN if turned else _TRANSPOSED
    back = _solve(at, _matrix(at, solve), cotangents[()], left=left, lower=lower, form=form, unit=unit)
    at.give(b, back)
    if at.wants(a):
        x = at.primal(solve)
        first, second = (back, x) if left != turned else (x, back)
        outer = product(at, first, second, (1, 1) if left else (0, 0))
        found = (-at.written(triangle(at, outer, lower, strict=unit))).value
        at.give(a, conjugated(at, found) if _is_conjugated(solve) else found)


def _solve_forward(at: Forward, solve: Instruction) -> ByLeaf:
    left, lower, turned, unit = _how(solve)
    a, b = solve.operands
    right = at.tangent_or_zeros(b)
    if at.tangent(a) is not None:
        moved = triangle(at, at.tangent_or_zeros(a), lower, strict=unit)
        if _is_conjugated(solve):
            moved = conjugated(at, moved)
        x = at.primal(solve)
        if left:
            gained = product(at, moved, x, (0 if turned else 1, 0))
        else:
            gained = product(at, x, moved, (1, 1 if turned else 0))
        right = (at.written(right) - at.written(gained)).value
    form = _TRANSPOSED if turned else _PLAIN
    return {(): _solve(at, _matrix(at, solve), right, left=left, lower=lower, form=form, unit=unit)}


RULES: dict[str, Rule] = {
    "sort": Rule(_sort_reverse, _sort_forward),
    "fft": Rule(_fft_reverse, jointly(lambda fft: (0,))),
    "cholesky": Rule(_cholesky_reverse, _cholesky_forward),
    "triangular-solve": Rule(_solve_reverse, _solve_forward),
}
