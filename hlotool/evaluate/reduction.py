"""reduce and map.

What order a reduction has, and where it rounds, stands in `combiner`; the initial value enters once, from the left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hlotool.evaluate.combiner import Combiner, choice_of, combiners_of
from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.rounding import computed, widen
from hlotool.evaluate.values import AnyArray, Operands, Value, one_or_tuple
from hlotool.ir import Instruction, dtype_of

__all__ = ["RULES", "reduce_with", "spread", "tree_reduce"]

Combine = Callable[[Sequence[AnyArray]], Sequence[AnyArray]]


def tree_reduce(combine: Combine, arrays: Sequence[AnyArray]) -> list[AnyArray]:
    """Reduce the last axis (at least one element) with an associative `combine(left + right)`."""
    current = list(arrays)
    while (length := current[0].shape[-1]) > 1:
        left = [a[..., 0 : length - 1 : 2] for a in current]
        right = [a[..., 1::2] for a in current]
        merged = combine([*left, *right])
        odd = length % 2
        current = [
            np.concatenate([m, a[..., -1:]], axis=-1) if odd else m for m, a in zip(merged, current, strict=True)
        ]
    return [a[..., 0] for a in current]


def spread(instruction: Instruction, initial: Operands, sizes: Sequence[int]) -> list[AnyArray]:
    """Initial values as the results of a reduction of nothing, whose types may be wider."""
    kinds = [dtype_of(leaf.element_type) for leaf in instruction.shape.leaves()]
    return [np.broadcast_to(value.astype(kind, copy=False), sizes) for value, kind in zip(initial, kinds, strict=True)]


def _reduce(instruction: Instruction, operands: Operands, context: Context) -> Value:
    count = len(operands) // 2
    arrays, initial = operands[:count], operands[count:]
    axes = tuple(instruction.attributes["dimensions"])
    computation = instruction.attributes["to_apply"]
    kept = tuple(size for axis, size in enumerate(arrays[0].shape) if axis not in axes)
    if any(arrays[0].shape[axis] == 0 for axis in axes) or 0 in kept:
        return one_or_tuple(instruction, spread(instruction, initial, kept))
    combiners = combiners_of(computation)
    if combiners is not None:
        each = zip(combiners, arrays, initial, strict=True)
        return one_or_tuple(instruction, [reduce_with(c, array, start, axes) for c, array, start in each])
    order = [axis for axis in range(arrays[0].ndim) if axis not in axes] + sorted(axes)
    lined = [a.transpose(order).reshape(*kept, -1) for a in arrays]
    total: Sequence[AnyArray] = [np.broadcast_to(value, kept) for value in initial]
    if choice_of(computation, context.map) is not None:
        reduced = tree_reduce(lambda pair: context.map(computation, pair), lined)
        return one_or_tuple(instruction, context.map(computation, [*total, *reduced]))
    for position in range(lined[0].shape[-1]):
        total = context.map(computation, [*total, *(a[..., position] for a in lined)])
    return one_or_tuple(instruction, total)


def reduce_with(combiner: Combiner, array: AnyArray, initial: AnyArray, axes: tuple[int, ...]) -> AnyArray:
    """Reduce the dimensions `axes` by one operation, beginning with a scalar."""
    start = combiner.prepare(initial)
    total = combiner.ufunc.reduce(widen(array), axis=axes, dtype=start.dtype)
    return computed(combiner.ufunc(start, total), combiner.element_type)


def _map(instruction: Instruction, operands: Operands, context: Context) -> Value:
    results = context.map(instruction.attributes["to_apply"], operands)
    return one_or_tuple(instruction, results)


RULES: dict[str, Rule] = {"reduce": _reduce, "map": _map}
