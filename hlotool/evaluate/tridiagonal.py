"""Tridiagonal systems that may be singular, as JAX's inverse iteration for eigenvectors gives them to a custom call.

LAPACK has them in xLAGTF and xLAGTS, of which SciPy has no wrappers.  All systems of a batch, and all their right-hand
sides, are solved at the same time, row by row.
"""

from __future__ import annotations

import numpy as np

from hlotool.evaluate.custom_call import Array, CustomCall
from hlotool.ir import ExecutionError

__all__ = ["solve_perturbed"]


def solve_perturbed(inputs: tuple[Array, ...], call: CustomCall) -> tuple[Array, ...]:
    """X of A X = B from the diagonals of A below, on and above its own, [..., m] each, and B, [..., m, n].

    Elimination with rows exchanged.  A pivot that is zero, or by which a division would overflow, is moved away from
    zero by the rounding error of the largest number in U, or a multiple of it: X is finite, and
    large in the directions in which the matrix is nearly singular.
    """
    if len(inputs) != 4 or inputs[3].ndim < 2 or any(a.shape != inputs[3].shape[:-1] for a in inputs[:3]):
        shapes = ", ".join(str(list(array.shape)) for array in inputs)
        raise ExecutionError(f"{call.target}: operands of shapes {shapes}, expected three of [..., m] and [..., m, n]")
    below, diagonal, above, right = inputs
    if right.size == 0:
        return (right.copy(),)
    with np.errstate(all="ignore"):  # NaN and infinities go where they go
        return (_substituted(*_eliminated(below, diagonal, above, right)),)


def _eliminated(below: Array, diagonal: Array, above: Array, right: Array) -> tuple[list[Array], Array]:
    """The three diagonals of U, [m, ..., 1] each, and what elimination makes of B, [m, ..., n]."""
    low, first, second = (np.moveaxis(a, -1, 0)[..., None].copy() for a in (below, diagonal, above))
    third, b = np.zeros_like(first), np.moveaxis(right, -2, 0).copy()
    second[-1] = 0
    for row in range(len(first) - 1):
        exchanged = np.abs(first[row]) < np.abs(low[row + 1])
        upper = [np.where(exchanged, *pair) for pair in _pairs(row, low, first, second)]
        lower = [np.where(exchanged, *reversed(pair)) for pair in _pairs(row, low, first, second)]
        b_upper, b_lower = np.where(exchanged, b[row + 1], b[row]), np.where(exchanged, b[row], b[row + 1])
        done = lower[0] == 0  # also where the row above is not finite
        factor = np.where(done, 0, lower[0] / upper[0])
        first[row], second[row], third[row] = upper
        first[row + 1] = np.where(done, lower[1], lower[1] - factor * upper[1])
        second[row + 1] = np.where(done, lower[2], lower[2] - factor * upper[2])
        b[row], b[row + 1] = b_upper, np.where(done, b_lower, b_lower - factor * b_upper)
    return [first, second, third], b


def _pairs(row: int, low: Array, first: Array, second: Array) -> list[tuple[Array, Array]]:
    """Of three columns, what stands in the row below and in this one."""
    return [(low[row + 1], first[row]), (first[row + 1], second[row]), (second[row + 1], np.zeros_like(second[row]))]


def _substituted(factors: list[Array], b: Array) -> Array:
    """X of U X = B, [..., m, n]."""
    first, second, third = factors
    limits = np.finfo(b.dtype)
    largest = np.max([np.abs(factor).max(axis=0) for factor in factors], axis=0)
    step = np.maximum(largest * limits.eps, limits.tiny)
    for row in reversed(range(len(b))):
        value = b[row]
        for other, factor in enumerate((second[row], third[row]), row + 1):
            if other < len(b):
                value = np.where(factor == 0, value, value - factor * b[other])
        b[row] = value / _away_from_zero(first[row], value, step, limits.tiny)
    return np.ascontiguousarray(np.moveaxis(b, 0, -2))


def _away_from_zero(pivot: Array, value: Array, step: Array, tiny: np.floating) -> Array:
    """The pivot that `value` can be divided by."""
    pivot, size = np.broadcast_to(pivot, value.shape), np.where(np.isfinite(value), np.abs(value), 0)
    away = np.sign(pivot) if pivot.dtype.kind == "c" else np.copysign(1, pivot)
    step = (step * np.where(away == 0, 1, away)).astype(pivot.dtype)
    while (small := (pivot == 0) | (size * tiny > np.abs(pivot))).any():
        pivot, step = np.where(small, pivot + step, pivot), np.where(small, step * 2, step)
    return pivot
