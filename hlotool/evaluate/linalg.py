"""cholesky, triangular-solve and fft, batched over leading dimensions, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.rounding import as_accurate, round_to
from hlotool.evaluate.values import AnyArray, Operands
from hlotool.ir import Instruction

__all__ = ["RULES", "substitute"]


def _cholesky(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Factor from one triangle, zeros in the other; NaN throughout where a matrix is not positive semidefinite."""
    lower = bool(instruction.attributes.get("lower"))
    wide = as_accurate(operands[0])
    factor = _factor(wide if lower else np.swapaxes(wide, -1, -2).conj())
    return round_to(factor if lower else np.swapaxes(factor, -1, -2).conj(), instruction.shape.element_type)


def _factor(matrices: AnyArray) -> AnyArray:
    """Lower factors from lower triangles, column by column (Golub and Van Loan, Matrix Computations, 4.2)."""
    rest = np.tril(matrices)
    result = np.zeros_like(rest)
    for k in range(rest.shape[-1]):
        root = np.sqrt(rest[..., k, k].real)
        column = rest[..., k + 1 :, k] / root[..., None]
        result[..., k, k], result[..., k + 1 :, k] = root, column
        rest[..., k + 1 :, k + 1 :] -= column[..., :, None] * column[..., None, :].conj()
    failed = np.isnan(np.diagonal(result, axis1=-2, axis2=-1)).any(-1)
    return np.where(failed[..., None, None], np.nan, result)


def _triangular_solve(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """``op(a) x = b``, or ``x op(a) = b``; only the named triangle of `a` is read."""
    attributes = instruction.attributes
    matrix, right = map(as_accurate, operands)
    lower, left_side = bool(attributes.get("lower")), bool(attributes.get("left_side"))
    transpose = attributes.get("transpose_a") or "NO_TRANSPOSE"
    if transpose == "ADJOINT":
        matrix = matrix.conj()
    # x op(a) = b is op(a)^T x^T = b^T: one transposition more.
    if (transpose != "NO_TRANSPOSE") == left_side:
        matrix, lower = np.swapaxes(matrix, -1, -2), not lower
    columns = right if left_side else np.swapaxes(right, -1, -2)
    solution = substitute(matrix, columns, lower, bool(attributes.get("unit_diagonal")))
    return round_to(
        solution if left_side else np.swapaxes(solution, -1, -2), instruction.shape.element_type
    )


def substitute(matrix: AnyArray, right: AnyArray, lower: bool, unit_diagonal: bool) -> AnyArray:
    """Forward (lower) or backward substitution, row by row."""
    size = matrix.shape[-1]
    solution = np.array(right)
    for row in range(size) if lower else range(size - 1, -1, -1):
        known = slice(0, row) if lower else slice(row + 1, size)
        rest = solution[..., row, :] - (matrix[..., row : row + 1, known] @ solution[..., known, :])[..., 0, :]
        solution[..., row, :] = rest if unit_diagonal else rest / matrix[..., row, row, None]
    return solution


_TRANSFORMS: dict[str, Any] = {
    "FFT": np.fft.fftn,
    "IFFT": np.fft.ifftn,
    "RFFT": np.fft.rfftn,
    "IRFFT": np.fft.irfftn,
}


def _fft(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    lengths = tuple(instruction.attributes["fft_length"])
    array = as_accurate(operands[0])
    element_type = instruction.shape.element_type
    if 0 in instruction.shape.dimensions or 0 in array.shape:
        return round_to(np.zeros(instruction.shape.dimensions), element_type)
    axes = tuple(range(array.ndim - len(lengths), array.ndim))
    return round_to(_TRANSFORMS[instruction.attributes["fft_type"]](array, lengths, axes), element_type)


RULES: dict[str, Rule] = {"cholesky": _cholesky, "triangular-solve": _triangular_solve, "fft": _fft}
