"""sort and topk, both stable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hlotool.evaluate.bits import total_order_key
from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.rounding import widen
from hlotool.evaluate.values import AnyArray, Operands, Value, one_or_tuple
from hlotool.ir import Computation, Instruction

__all__ = ["RULES", "sorted_order", "top_positions"]

Before = Callable[[Sequence[AnyArray], Sequence[AnyArray]], AnyArray]
"""Whether the elements of the first arrays must stand before those of the second ones."""


def _sort(instruction: Instruction, operands: Operands, context: Context) -> Value:
    (axis,) = instruction.attributes["dimensions"]
    computation: Computation = instruction.attributes["to_apply"]

    def before(left: Sequence[AnyArray], right: Sequence[AnyArray]) -> AnyArray:
        pairs = [side for pair in zip(left, right, strict=True) for side in pair]
        return context.map(computation, pairs)[0]

    shape = operands[0].shape
    if shape[axis] < 2 or 0 in shape:
        return one_or_tuple(instruction, operands)
    lined = [np.moveaxis(a, axis, -1).reshape(-1, shape[axis]) for a in operands]
    order = sorted_order(lined, before)
    results = [np.take_along_axis(a, order, axis=-1) for a in lined]
    moved = [*(size for other, size in enumerate(shape) if other != axis), shape[axis]]
    return one_or_tuple(instruction, [np.moveaxis(r.reshape(moved), -1, axis) for r in results])


def sorted_order(arrays: Sequence[AnyArray], before: Before) -> AnyArray:
    """Where the elements of each row stand that come first, second... in stable order along the last axis."""
    order = _guessed_order(arrays, before)
    return _network_order(arrays, before) if order is None else order


def _guessed_order(arrays: Sequence[AnyArray], before: Before) -> AnyArray | None:
    """The order by the first array, ascending or descending, if the comparator agrees that it is the stable one.

    Asking it about neighbours is enough: no element may come before its predecessor, and equal neighbours must
    keep their original order.
    """
    key = widen(arrays[0])
    if key.dtype.kind == "c":
        return None
    for order in (np.argsort(key, axis=-1, kind="stable"), _descending(key)):
        ordered = [np.take_along_axis(a, order, axis=-1) for a in arrays]
        left, right = [a[..., :-1] for a in ordered], [a[..., 1:] for a in ordered]
        if before(right, left).any():
            continue
        if (before(left, right) | (order[..., :-1] < order[..., 1:])).all():
            return order
    return None


def _descending(key: AnyArray) -> AnyArray:
    """Stable descending order: the ascending one of the mirrored array, mirrored."""
    mirrored = np.argsort(key[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return np.asarray(key.shape[-1] - 1 - mirrored)


def _network_order(arrays: Sequence[AnyArray], before: Before) -> AnyArray:
    """Sort with Batcher's merge-exchange network ("Sorting networks and their applications", 1968).

    A network makes the same comparisons whatever their outcome, so that each stage is one call of the comparator
    on arrays, and it gives a permutation even where the comparator is no ordering at all.  Ties go by original
    position, which makes it stable.
    """
    length = arrays[0].shape[-1]
    order = np.broadcast_to(np.arange(length), arrays[0].shape).copy()
    for low, high in _merge_exchange(length):
        left_order, right_order = order[..., low], order[..., high]
        left = [np.take_along_axis(a, left_order, axis=-1) for a in arrays]
        right = [np.take_along_axis(a, right_order, axis=-1) for a in arrays]
        tie = ~before(left, right) & (right_order < left_order)
        swap = before(right, left) | tie
        order[..., low] = np.where(swap, right_order, left_order)
        order[..., high] = np.where(swap, left_order, right_order)
    return order


def _merge_exchange(length: int) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Stages of disjoint pairs that sort `length` elements (Knuth, TAOCP volume 3, 5.2.2, Algorithm M)."""
    positions = np.arange(length)
    top = 1 << max(0, (length - 1).bit_length() - 1)
    step = top
    while step > 0:
        distance, expected, reach = step, 0, top
        while True:
            low = positions[: length - distance]
            low = low[(low & step) == expected]
            yield low, low + distance
            if reach == step:
                break
            distance, expected, reach = reach - step, step, reach // 2
        step //= 2


def top_positions(array: AnyArray, count: int, largest: bool) -> AnyArray:
    """Where the `count` largest (or smallest) of each row stand, in order; NaN counts as largest, and ties go by
    position."""
    key = total_order_key(array)
    order = _descending(key) if largest else np.argsort(key, axis=-1, kind="stable")
    return order[..., :count]


def _topk(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """The `k` largest (or smallest) of each row, in order."""
    (array,) = operands
    order = top_positions(array, instruction.attributes["k"], instruction.attributes.get("largest") is not False)
    return np.take_along_axis(array, order, axis=-1), order.astype(np.int32)


RULES: dict[str, Rule] = {"sort": _sort, "topk": _topk}
