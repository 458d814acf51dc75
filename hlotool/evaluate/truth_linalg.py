"""fft, cholesky, triangular-solve and batch norms on values with error bounds.

Their bounds are a priori: what analysis says of every sensible algorithm, not of the steps of one.  Where such a bound
needs a small perturbation and there is none, the result is undecided.
"""

from __future__ import annotations

from math import log2, prod
from typing import Any

import numpy as np

from hlotool.evaluate import linalg
from hlotool.evaluate.batch_norm import epsilon_of
from hlotool.evaluate.bounds import Bounded, exact, growth, rounded, unit, wide_dtype
from hlotool.evaluate.truth_elementwise import add, divide, multiply, rsqrt, subtract
from hlotool.evaluate.truth_sums import retyped, total
from hlotool.evaluate.values import AnyArray, Operands
from hlotool.ir import ELEMENT_TYPES, Instruction

__all__ = ["LINALG", "SMALL", "accurate", "roundoff"]

SMALL = 0.25
"""Perturbations up to this size (relative to where a matrix becomes singular) are bounded to first order, doubled."""


def accurate(array: AnyArray) -> AnyArray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _in_double(instruction: Instruction, operands: list[AnyArray], context: Any) -> AnyArray:
    kind = "c128" if ELEMENT_TYPES[instruction.shape.element_type].is_complex else "f64"
    stub = retyped(instruction, instruction.shape.with_type(kind))
    rule = linalg.RULES[instruction.opcode]
    return np.asarray(rule(stub, operands, context.plain))


def roundoff(kind: str) -> float:
    """Of the computation, and of this one in f64."""
    return unit("f32" if ELEMENT_TYPES[kind].bits <= 16 else kind) + 2.0**-53


def _fft(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    """``|X - computed|_2 <= c log2(n) u |X|_2`` (Higham, theorem 24.2, has c = 7 for powers of two); lengths with
    other factors may take a convolution by several transforms of up to four times the length."""
    (x,) = operands
    array, kind = accurate(x.value), instruction.shape.element_type
    lengths, form = tuple(instruction.attributes["fft_length"]), instruction.attributes["fft_type"]
    value = _in_double(instruction, [array], context)
    if 0 in value.shape or 0 in array.shape:
        return exact(value, kind)
    size = prod(lengths)
    axes = tuple(range(array.ndim - len(lengths), array.ndim))
    mirrored = 2.0 if form == "IRFFT" else 1.0
    norm = mirrored * np.sqrt((np.abs(array) ** 2).sum(axes, keepdims=True))
    error = norm * 8 * log2(2 * size) * roundoff(kind) * (1 if not size & (size - 1) else 4) * size**0.5
    error = error + mirrored * np.asarray(x.errors()).sum(axes, keepdims=True)
    if form in ("IFFT", "IRFFT"):
        error = error / size
    error = np.where(np.isfinite(error), error, np.inf)
    return rounded(value, np.array(np.broadcast_to(error, value.shape)), kind)


def _cholesky(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    """Higham, theorems 10.3 (the backward error) and 10.8 (how the factor moves: Sun, 1991), in the Frobenius norm."""
    (a,) = operands
    kind = instruction.shape.element_type
    value = _in_double(instruction, [accurate(a.value)], context)
    if not value.size:
        return exact(value, kind)
    size = value.shape[-1]
    factors = value.reshape(-1, size, size)
    errors = np.broadcast_to(a.errors(), a.shape).reshape(-1, size, size)
    bound = np.full(factors.shape, np.inf)
    gamma = growth(size + 2, roundoff(kind)) * (4 if ELEMENT_TYPES[kind].is_complex else 1)
    for number, factor in enumerate(factors):
        if not np.isfinite(factor).all() or not np.diagonal(factor).all():
            continue
        backward = gamma * float(np.linalg.norm(factor)) ** 2 + 2 * float(np.linalg.norm(errors[number]))
        inverse = float(np.linalg.norm(np.linalg.inv(factor), 2)) ** 2
        if inverse * backward < SMALL:
            bound[number] = 2 * inverse * float(np.linalg.norm(factor, 2)) * backward
    keep = np.tril(np.ones((size, size), np.bool_))
    keep = keep if instruction.attributes.get("lower") else keep.T
    outside = np.broadcast_to(~keep, factors.shape)
    failed = ~np.isfinite(factors)
    bound = np.where(outside & ~failed & np.isfinite(bound).any(axis=(-1, -2), keepdims=True), 0.0, bound)
    return rounded(value, bound.reshape(value.shape), kind)


def _triangular_solve(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    """``|x - computed| <= |T^-1| (gamma |T| |x| + errors)`` (Higham, section 8.2 and theorem 8.5), doubled for blocked
    substitutions and higher orders."""
    matrix, right = operands
    attributes, kind = instruction.attributes, instruction.shape.element_type
    lower, left_side = bool(attributes.get("lower")), bool(attributes.get("left_side"))
    transpose = attributes.get("transpose_a") or "NO_TRANSPOSE"
    a, b = accurate(matrix.value), accurate(right.value)
    value = _in_double(instruction, [a, b], context)
    size = a.shape[-1]
    if not value.size or not size:
        return exact(value, kind)
    triangle, spread = (np.tril if lower else np.triu), np.broadcast_to(matrix.errors(), a.shape)
    a, spread = triangle(a), triangle(spread)
    if attributes.get("unit_diagonal"):
        whole = np.eye(size, dtype=np.bool_)
        a, spread = np.where(whole, 1.0, a), np.where(whole, 0.0, spread)
    if (transpose != "NO_TRANSPOSE") == left_side:
        a, spread, lower = np.swapaxes(a, -1, -2), np.swapaxes(spread, -1, -2), not lower
    columns, errors = np.abs(value), np.broadcast_to(right.errors(), b.shape)
    if not left_side:
        columns, errors = np.swapaxes(columns, -1, -2), np.swapaxes(errors, -1, -2)
    inverse = np.abs(linalg.substitute(a, np.broadcast_to(np.eye(size, dtype=a.dtype), a.shape), lower, False))
    gamma = growth(size + 2, roundoff(kind)) * (4 if ELEMENT_TYPES[kind].is_complex else 1)
    moved = gamma * np.abs(a) + spread
    nearness = np.max(inverse @ moved, axis=(-1, -2), keepdims=True)
    bound = 2 * (inverse @ (moved @ columns + errors))
    bound = np.where((nearness * size < 2) & np.isfinite(bound), bound, np.inf)
    return rounded(value, bound if left_side else np.swapaxes(bound, -1, -2), kind)


# ---- batch norms: the steps of the expansion, each with its own rounding


class _Norm:
    """Per-feature vectors and whole arrays of one batch norm; everything computes in `kind` (f32 at least)."""

    def __init__(self, instruction: Instruction, array: Bounded, kind: str) -> None:
        self.rank = len(array.shape)
        self.feature: int = instruction.attributes["feature_index"]
        self.others = [axis for axis in range(self.rank) if axis != self.feature]
        self.count = prod(array.shape[axis] for axis in self.others)  # 0 makes means of nothing: NaN
        self.kind = kind
        self.epsilon = self.scalar(epsilon_of(instruction))

    def scalar(self, value: float) -> Bounded:
        return rounded(np.asarray(value, wide_dtype(self.kind)), None, self.kind)

    def column(self, x: Bounded) -> Bounded:
        sizes = [-1 if axis == self.feature else 1 for axis in range(self.rank)]
        return Bounded(x.value.reshape(sizes), None if x.error is None else x.error.reshape(sizes))

    def mean(self, x: Bounded) -> Bounded:
        return divide(total(x, self.others, self.kind), self.scalar(self.count), self.kind)

    def deviation(self, variance: Bounded) -> Bounded:
        return rsqrt(add(variance, self.epsilon, self.kind), self.kind)


def _norm_of(instruction: Instruction, operands: Operands) -> tuple[_Norm, list[Bounded], str]:
    kind = instruction.operands[0].shape.element_type
    steps = "f32" if ELEMENT_TYPES[kind].bits <= 16 else kind
    return _Norm(instruction, operands[0], steps), list(operands), kind


def _rounded_to(x: Bounded, kind: str) -> Bounded:
    return rounded(x.value, x.error, kind)


def _step(x: Bounded) -> Bounded:
    """An intermediate result.  Where it is infinite, other ways to compute may not come by such a number."""
    infinite = np.isinf(x.value)
    return Bounded(x.value, np.where(infinite, np.inf, x.errors())) if infinite.any() else x


def _either(x: Bounded, other: Bounded) -> Bounded:
    """A number in two ways to compute it: the bound reaches both."""
    same = (x.value == other.value) | (np.isnan(x.value) & np.isnan(other.value))
    apart = np.where(same, 0.0, np.abs(x.value - other.value))
    error = np.maximum(x.errors(), apart + other.errors()).astype(np.float64)
    return Bounded(x.value, np.where(np.isnan(error), np.inf, error))


def _training(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """The variance is bounded as the mean of squares minus the square of the mean, the less accurate of both ways."""
    norm, (array, scale, offset), kind = _norm_of(instruction, operands)
    steps = norm.kind
    mean = norm.mean(array)
    centred = _step(subtract(array, norm.column(_step(mean)), steps))
    variance = norm.mean(multiply(centred, centred, steps))
    loose = subtract(_step(norm.mean(multiply(array, array, steps))), _step(multiply(mean, mean, steps)), steps)
    variance = Bounded(variance.value, np.maximum(variance.errors(), loose.errors()))
    spread = _step(multiply(scale, norm.deviation(_step(variance)), steps))
    normalised = add(_step(multiply(centred, norm.column(spread), steps)), norm.column(offset), steps)
    return tuple(_rounded_to(x, kind) for x in (normalised, mean, variance))


def _inference(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    norm, (array, scale, offset, mean, variance), kind = _norm_of(instruction, operands)
    steps = norm.kind
    spread = _step(multiply(scale, norm.deviation(variance), steps))
    centred = _step(subtract(array, norm.column(mean), steps))
    made = add(_step(multiply(centred, norm.column(spread), steps)), norm.column(offset), steps)
    return _rounded_to(made, kind)


def _gradient(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """Differences from the mean are divided by the deviation before they are summed up, or after."""
    norm, (array, scale, mean, variance, upstream), kind = _norm_of(instruction, operands)
    steps = norm.kind
    deviation = norm.deviation(variance)
    difference = _step(subtract(array, norm.column(mean), steps))
    centred = _step(multiply(difference, norm.column(deviation), steps))
    of_offset, count = total(upstream, norm.others, steps), norm.scalar(norm.count)
    of_scale = total(_step(multiply(upstream, centred, steps)), norm.others, steps)
    projection = _step(total(_step(multiply(upstream, difference, steps)), norm.others, steps))
    of_scale = _either(of_scale, multiply(projection, deviation, steps))
    slope = _step(multiply(deviation, deviation, steps))
    slope = _step(multiply(slope, _step(divide(projection, count, steps)), steps))
    pulled = subtract(upstream, norm.column(_step(divide(_step(of_offset), count, steps))), steps)
    shared = multiply(centred, norm.column(_step(divide(_step(of_scale), count, steps))), steps)
    shared = _either(shared, _step(multiply(difference, norm.column(slope), steps)))
    factor = norm.column(_step(multiply(scale, deviation, steps)))
    of_operand = multiply(_step(subtract(_step(pulled), _step(shared), steps)), factor, steps)
    return tuple(_rounded_to(x, kind) for x in (of_operand, of_scale, of_offset))


LINALG: dict[str, Any] = {
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "batch-norm-training": _training,
    "batch-norm-inference": _inference,
    "batch-norm-grad": _gradient,
}
