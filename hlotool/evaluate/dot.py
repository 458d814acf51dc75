"""dot, ragged-dot and scaled-dot.

Floats are multiplied and summed in f64 and rounded once, unless that would take long: then in f32 by BLAS.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from hlotool.evaluate.rounding import as_accurate, round_to, widen
from hlotool.evaluate.values import AnyArray, Context, Operands, Rule
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["RULES", "matrix_multiply"]

_ACCURATE_MULTIPLICATIONS = 10_000_000_000
_EXACT_IN_FLOAT64 = 2**53


def matrix_multiply(left: AnyArray, right: AnyArray, element_type: str) -> AnyArray:
    """``left @ right`` over the last two axes, in `element_type`; integers wrap, predicates are or-of-ands."""
    if element_type == "pred":
        return np.asarray(np.matmul(left.astype(np.float64), right.astype(np.float64)) > 0)
    if "c" in (left.dtype.kind, right.dtype.kind):
        return round_to(np.matmul(left.astype(np.complex128), right.astype(np.complex128)), element_type)
    left, right = widen(left), widen(right)
    if left.dtype.kind in "iub" and right.dtype.kind in "iub":
        return _multiply_integers(left, right, element_type)
    work = prod(left.shape) * right.shape[-1]
    if work <= _ACCURATE_MULTIPLICATIONS or np.float64 in (left.dtype, right.dtype):
        left, right = as_accurate(left), as_accurate(right)
    return round_to(np.matmul(left.astype(left.dtype), right.astype(left.dtype)), element_type)


def _multiply_integers(left: AnyArray, right: AnyArray, element_type: str) -> AnyArray:
    """Through BLAS in f64 where no sum can leave its exact integers, else in wrapping s64."""
    bound = _largest(left) * _largest(right) * left.shape[-1]
    if bound < _EXACT_IN_FLOAT64:
        exact = np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64)
    else:
        exact = np.matmul(left.astype(np.int64), right.astype(np.int64))
    return round_to(exact, element_type)


def _largest(array: AnyArray) -> int:
    return max(abs(int(array.max())), abs(int(array.min()))) if array.size else 0


def _grouped(array: AnyArray, groups: Sequence[Sequence[int]]) -> AnyArray:
    """Transpose so that the groups of dimensions follow one another, each flattened into one."""
    order = [dimension for group in groups for dimension in group]
    sizes = [prod(array.shape[dimension] for dimension in group) for group in groups]
    return array.transpose(order).reshape(sizes)


def _rest(array: AnyArray, *used: Sequence[int]) -> list[int]:
    taken = {dimension for group in used for dimension in group}
    return [dimension for dimension in range(array.ndim) if dimension not in taken]


def _dims(instruction: Instruction, name: str) -> tuple[int, ...]:
    return tuple(instruction.attributes.get(name) or ())


def _product(instruction: Instruction, left: AnyArray, right: AnyArray) -> AnyArray:
    """Batch dimensions, then the left's free ones, then the right's."""
    left_batch, right_batch = _dims(instruction, "lhs_batch_dims"), _dims(instruction, "rhs_batch_dims")
    left_sum, right_sum = _dims(instruction, "lhs_contracting_dims"), _dims(instruction, "rhs_contracting_dims")
    left_free, right_free = _rest(left, left_batch, left_sum), _rest(right, right_batch, right_sum)
    product = matrix_multiply(
        _grouped(left, [left_batch, left_free, left_sum]),
        _grouped(right, [right_batch, right_sum, right_free]),
        instruction.shape.element_type,
    )
    sizes = [left.shape[d] for d in (*left_batch, *left_free)] + [right.shape[d] for d in right_free]
    return product.reshape(sizes)


def _dot(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    left, right = operands
    return _product(instruction, left, right)


def _scaled_dot(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Each operand is multiplied by its scale, an array that has one element for each block of the operand's."""
    left, right, left_scale, right_scale = map(as_accurate, operands)
    return _product(instruction, left * _spread(left_scale, left.shape), right * _spread(right_scale, right.shape))


def _spread(scale: AnyArray, sizes: Sequence[int]) -> AnyArray:
    for axis, size in enumerate(sizes):
        if scale.ndim and scale.shape[axis] not in (1, size):
            scale = np.repeat(scale, size // scale.shape[axis], axis=axis)
    return scale


def _ragged_dot(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Rows of the left in consecutive groups; each group meets its own matrix of the right.

    Three cases by what kind of left dimension is ragged: free (rows pick a right matrix), contracting (one
    result per group) and batch (where the groups change nothing).
    """
    left, right, sizes = operands
    (ragged,) = _dims(instruction, "lhs_ragged_dims")
    if ragged in _dims(instruction, "lhs_batch_dims"):
        return _product(instruction, left, right)
    contracting = ragged in _dims(instruction, "lhs_contracting_dims")
    group_dims = _dims(instruction, "rhs_group_dims")
    if sizes.ndim != 1:
        raise UnsupportedError(f"{instruction.name}: ragged-dot with group sizes per batch is not supported")
    ends = np.cumsum(sizes.astype(np.int64))
    starts = ends - sizes
    result = np.zeros(instruction.shape.dimensions, np.float64)
    for group, (start, end) in enumerate(zip(starts, ends, strict=True)):
        rows: tuple[Any, ...] = (slice(None),) * ragged + (slice(start, end),)
        if contracting:
            place = _dims(instruction, "lhs_contracting_dims").index(ragged)
            other = _dims(instruction, "rhs_contracting_dims")[place]
            columns = (slice(None),) * other + (slice(start, end),)
            result[group] = _product(instruction, as_accurate(left[rows]), as_accurate(right[columns]))
            continue
        result_axis = len(_dims(instruction, "lhs_batch_dims")) + _rest(
            left, _dims(instruction, "lhs_batch_dims"), _dims(instruction, "lhs_contracting_dims")
        ).index(ragged)
        part = _grouped_product(instruction, left[rows], np.take(right, group, axis=group_dims[0]), group_dims[0])
        result[(slice(None),) * result_axis + (slice(start, end),)] = part
    return round_to(result, instruction.shape.element_type)


def _grouped_product(instruction: Instruction, left: AnyArray, right: AnyArray, group_dim: int) -> AnyArray:
    """The product with a right operand that has lost its group dimension."""

    def moved(dims: Sequence[int]) -> list[int]:
        return [d - (d > group_dim) for d in dims]

    left_batch, right_batch = _dims(instruction, "lhs_batch_dims"), moved(_dims(instruction, "rhs_batch_dims"))
    left_sum, right_sum = _dims(instruction, "lhs_contracting_dims"), moved(_dims(instruction, "rhs_contracting_dims"))
    left_free, right_free = _rest(left, left_batch, left_sum), _rest(right, right_batch, right_sum)
    product = np.matmul(
        as_accurate(_grouped(left, [left_batch, left_free, left_sum])),
        as_accurate(_grouped(right, [right_batch, right_sum, right_free])),
    )
    sizes = [left.shape[d] for d in (*left_batch, *left_free)] + [right.shape[d] for d in right_free]
    return np.asarray(product).reshape(sizes)


RULES: dict[str, Rule] = {"dot": _dot, "ragged-dot": _ragged_dot, "scaled-dot": _scaled_dot}
