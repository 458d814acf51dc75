"""dot, ragged-dot and scaled-dot.

A product is the exact sum converted to the type of the result, as ``convert`` does it.  Predicates are summed up as the
numbers 0 and 1, but by `or` where all is pred.  Integers are summed modulo 2**64.  As soon as the operands or the
result are floats (complex numbers), all are: multiplied and summed in f64 (c128), unless that would take long: then in
f32 by BLAS.  A sum of narrow floats for f8e8m0fnu, which has no zero, is what f32 makes of it (see `rounding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hlotool.evaluate.bits import reduce_precision
from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.rounding import as_accurate, computed, convert, widen
from hlotool.evaluate.values import AnyArray, Operands
from hlotool.ir import Instruction, dtype_of, element_type
from hlotool.ir.dot_algorithms import ALGORITHMS, TF32_BITS, scaled_type
from hlotool.ir.ragged import ragged_mode

__all__ = ["RULES", "matrix_multiply", "spread"]

_ACCURATE_MULTIPLICATIONS = 10_000_000_000
_EXACT_IN_FLOAT64 = 2**53


def matrix_multiply(left: AnyArray, right: AnyArray, kind: str) -> AnyArray:
    """``left @ right`` over the last two axes, in element type `kind`."""
    if left.dtype == right.dtype == np.bool_ and kind == "pred":
        return np.asarray(np.matmul(left.astype(np.float64), right.astype(np.float64)) > 0)
    left, right = widen(left), widen(right)
    kinds, result = left.dtype.kind + right.dtype.kind, element_type(kind)
    with np.errstate(all="ignore"):
        if "c" in kinds or result.is_complex:
            return convert(np.matmul(left.astype(np.complex128), right.astype(np.complex128)), kind)
        if "f" not in kinds and not result.is_float:
            return convert(_multiply_integers(left, right), kind)
        work = prod(left.shape) * right.shape[-1]
        narrow = {left.dtype, right.dtype} == {np.dtype(np.float32)} and result.is_float
        if work <= _ACCURATE_MULTIPLICATIONS or not narrow:
            left, right = left.astype(np.float64), right.astype(np.float64)
        total = np.matmul(left, right)
        return computed(total, kind) if narrow else convert(total, kind)


def _multiply_integers(left: AnyArray, right: AnyArray) -> AnyArray:
    """Through BLAS in f64 where no sum can leave its exact integers, else in wrapping s64."""
    bound = _largest(left) * _largest(right) * left.shape[-1]
    if bound < _EXACT_IN_FLOAT64:
        return np.asarray(np.matmul(left.astype(np.float64), right.astype(np.float64))).astype(np.int64)
    return np.asarray(np.matmul(left.astype(np.int64), right.astype(np.int64)))


def _largest(array: AnyArray) -> int:
    return max(abs(int(array.max())), abs(int(array.min()))) if array.size else 0


# ---- dot


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


def _product(instruction: Instruction, left: AnyArray, right: AnyArray, kind: str) -> AnyArray:
    """Batch dimensions, then the left's free ones, then the right's."""
    left_batch, right_batch = _dims(instruction, "lhs_batch_dims"), _dims(instruction, "rhs_batch_dims")
    left_sum, right_sum = _dims(instruction, "lhs_contracting_dims"), _dims(instruction, "rhs_contracting_dims")
    left_free, right_free = _rest(left, left_batch, left_sum), _rest(right, right_batch, right_sum)
    made = matrix_multiply(
        _grouped(left, [left_batch, left_free, left_sum]), _grouped(right, [right_batch, right_sum, right_free]), kind
    )
    sizes = [left.shape[d] for d in (*left_batch, *left_free)] + [right.shape[d] for d in right_free]
    return made.reshape(sizes)


def _dot(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    left, right = operands
    kind, algorithm = instruction.shape.element_type, ALGORITHMS.get(instruction.attributes.get("algorithm", ""))
    if algorithm is None or not all(element_type(o.shape.element_type).is_float for o in instruction.operands):
        return _product(instruction, left, right, kind)
    lefts, rights = (_parts(x, algorithm.operand, algorithm.parts) for x in (left, right))
    with np.errstate(all="ignore"):
        total = sum(_product(instruction, lefts[i], rights[j], "f64") for i, j in algorithm.pairs)
    return convert(convert(np.asarray(total), algorithm.total), kind)


def _parts(array: AnyArray, kind: str, count: int) -> list[AnyArray]:
    """`count` numbers of type `kind` for each element, in f64 (see `hlotool.ir.dot_algorithms`)."""
    rest = as_accurate(array)
    if not kind:
        return [rest]
    parts = []
    with np.errstate(all="ignore"):
        for _ in range(count):
            if kind == "tf32":
                part = as_accurate(reduce_precision(convert(rest, "f32"), *TF32_BITS))
            else:
                part = as_accurate(convert(rest, kind))
            parts.append(part)
            rest = np.where(np.isfinite(part), rest - part, 0.0)
    return parts


# ---- scaled-dot


def _scaled_dot(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Each operand is multiplied by its scale, with one element for each block of the operand's, and rounded."""
    left, right, left_scale, right_scale = map(as_accurate, operands)
    kind = instruction.shape.element_type
    rounded = scaled_type([o.shape.element_type for o in instruction.operands], kind)
    with np.errstate(all="ignore"):
        left = convert(left * spread(left_scale, left.shape), rounded)
        right = convert(right * spread(right_scale, right.shape), rounded)
    return _product(instruction, left, right, kind)


def spread(scale: AnyArray, sizes: Sequence[int]) -> AnyArray:
    for axis, size in enumerate(sizes):
        if scale.ndim and scale.shape[axis] not in (1, size):
            scale = np.repeat(scale, size // scale.shape[axis], axis=axis)
    return scale


# ---- ragged-dot


def _ragged_dot(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Positions of the ragged dimension in consecutive groups; each group has a product of its own.

    Group g begins where the sizes before it add up to, and ends its size later; the sum of negative sizes may lie
    before the beginning.  A position may so be in no group, or in several: their products are added up.

    Three cases by what kind of left dimension is ragged: free (each group meets its own part of the right operand),
    contracting (one result per group) and batch (where the groups change nothing).  Sizes are the same everywhere, or
    given for each batch and for each position of the free (contracted) dimensions before the ragged one.
    """
    left, right, sizes = widen(operands[0]), widen(operands[1]), operands[2]
    kind = instruction.shape.element_type
    mode, outer = ragged_mode(instruction.attributes, left.ndim)
    if mode == "batch":
        return _product(instruction, left, right, kind)
    (ragged,) = _dims(instruction, "lhs_ragged_dims")
    left_batch, right_batch = _dims(instruction, "lhs_batch_dims"), _dims(instruction, "rhs_batch_dims")
    left_sum, right_sum = _dims(instruction, "lhs_contracting_dims"), _dims(instruction, "rhs_contracting_dims")
    lengths = sizes.astype(np.int64)
    ends = np.cumsum(lengths, axis=-1)[..., None]
    position = np.arange(left.shape[ragged])
    inside = np.moveaxis((position >= ends - lengths[..., None]) & (position < ends), -2, 0)
    axes = [*(outer if sizes.ndim > 1 else ()), ragged]
    ours = [_placed(mask, axes, left.ndim) for mask in inside]  # for each group, over the left operand
    wide = _sum_type(instruction)
    results = np.zeros((len(ours), *instruction.shape.dimensions[mode == "contracting" :]), dtype_of(wide))
    if mode == "contracting":
        theirs = dict(zip((*left_batch, *left_sum), (*right_batch, *right_sum), strict=True))
        for group, mask in enumerate(ours):
            other = _placed(inside[group], [theirs[d] for d in axes], right.ndim)
            parts = np.where(mask, left, left.dtype.type(0)), np.where(other, right, right.dtype.type(0))
            results[group] = _product(instruction, *parts, wide)
        return convert(results, kind)
    (group_dim,) = _dims(instruction, "rhs_group_dims")
    order = [*left_batch, *_rest(left, left_batch, left_sum)]
    at = len(order) + _rest(right, right_batch, right_sum).index(group_dim)  # of size 1 in the product with one group
    for group, mask in enumerate(inside):
        whole = _product(instruction, left, np.take(right, [group], axis=group_dim), wide)
        where = _placed(mask, [order.index(d) for d in axes], instruction.shape.rank)
        results[group] = np.where(where, whole.squeeze(at), whole.dtype.type(0))
    with np.errstate(all="ignore"):
        total = np.any(results, axis=0) if wide == "pred" else np.sum(results, axis=0, dtype=results.dtype)
        return convert(np.asarray(total), kind)


def _placed(array: AnyArray, axes: Sequence[int], rank: int) -> AnyArray:
    """`array` with its dimensions at `axes` of `rank` dimensions, the others being 1."""
    sizes = [1] * rank
    for axis, size in zip(axes, array.shape, strict=True):
        sizes[axis] = size
    return array.transpose(np.argsort(axes)).reshape(sizes)


def _sum_type(instruction: Instruction) -> str:
    """The element type of exact sums of products."""
    left, right, _ = (element_type(o.shape.element_type) for o in instruction.operands)
    rows = left, right, element_type(instruction.shape.element_type)
    if all(row.kind == "pred" for row in rows):
        return "pred"
    if any(row.is_complex for row in rows):
        return "c128"
    if instruction.shape.element_type == "f8e8m0fnu" and all(row.bits < 64 for row in rows):
        return "f32"
    return "f64" if any(row.is_float for row in rows) else "s64"


RULES: dict[str, Rule] = {"dot": _dot, "ragged-dot": _ragged_dot, "scaled-dot": _scaled_dot}
