"""reduce-window and select-and-scatter.

Where the reducer's grouping does not matter (see `combiner`) a window reduction is done one dimension after another,
and each dimension in O(n log w): runs of 1, 2, 4... elements are combined by doubling, and a window is put together
from the runs of its size's binary digits.  Other reducers are called for each position in the window, in row-major
order; reversal of a window, which XLA does not look at, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from hlotool.evaluate.combiner import Combiner, choice_of, combiners_of
from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.gather import combine_at
from hlotool.evaluate.movement import pad
from hlotool.evaluate.reduction import spread
from hlotool.evaluate.rounding import computed
from hlotool.evaluate.values import AnyArray, Operands, Value, one_or_tuple
from hlotool.ir import Computation, Instruction, PaddingDimension, Window, WindowDimension
from hlotool.ir.window import window_of

__all__ = ["RULES", "padded_base", "reduce_window_with", "reduce_windows", "window_of", "window_positions"]

Combine = Callable[[Sequence[AnyArray]], Sequence[AnyArray]]


def padded_base(array: AnyArray, value: object, window: Window) -> AnyArray:
    """The base area that windows slide over: dilated with and surrounded by `value`."""
    padding = [PaddingDimension(d.padding_low, d.padding_high, d.base_dilation - 1) for d in window.dimensions]
    return pad(array, value, padding)


def _reduce_axis(
    combine: Combine, arrays: list[AnyArray], axis: int, window: WindowDimension, count: int
) -> list[AnyArray]:
    """Combine the elements of each of `count` windows along `axis`, in order."""

    def shifted(run: Sequence[AnyArray], start: int, length: int, stride: int = 1) -> list[AnyArray]:
        picked = (slice(None),) * axis + (slice(start, start + (length - 1) * stride + 1, stride),)
        return [a[picked] for a in run]

    run: Sequence[AnyArray] = arrays  # run[i] combines `length` elements from position i on
    length, covered = 1, 0
    result: Sequence[AnyArray] | None = None
    while True:
        if window.size & length:
            part = shifted(run, covered * window.window_dilation, count, window.stride)
            result = part if result is None else combine([*result, *part])
            covered += length
        if covered == window.size:
            return list(result or part)
        step = length * window.window_dilation
        remaining = run[0].shape[axis] - step
        run = combine([*shifted(run, 0, remaining), *shifted(run, step, remaining)])
        length *= 2


def reduce_windows(combine: Combine, arrays: list[AnyArray], window: Window, counts: Sequence[int]) -> list[AnyArray]:
    for axis, (dimension, count) in reversed(list(enumerate(zip(window.dimensions, counts, strict=True)))):
        if dimension.size > 1 or dimension.stride > 1 or arrays[0].shape[axis] != count:
            arrays = _reduce_axis(combine, arrays, axis, dimension, count)
    return arrays


def _reduce_window(instruction: Instruction, operands: Operands, context: Context) -> Value:
    count = len(operands) // 2
    arrays, initial = operands[:count], operands[count:]
    window, computation = window_of(instruction, arrays[0].ndim), instruction.attributes["to_apply"]
    sizes = tuple(d.output_size(n) for d, n in zip(window.dimensions, arrays[0].shape, strict=True))
    if 0 in sizes or not arrays[0].size:
        return one_or_tuple(instruction, spread(instruction, initial, sizes))
    combiners = combiners_of(computation)
    if combiners is not None:
        each = zip(combiners, arrays, initial, strict=True)
        results = [reduce_window_with(c, array, start, window, sizes) for c, array, start in each]
        return one_or_tuple(instruction, results)
    starts = [np.broadcast_to(value, sizes) for value in initial]
    if choice_of(computation, context.map) is None:
        return one_or_tuple(instruction, _fold_windows(computation, arrays, starts, window, context))

    def combine_present(sides: Sequence[AnyArray]) -> Sequence[AnyArray]:
        """Both sides end with a mask of what is there: padding and holes take no part."""
        *left, left_there = sides[: count + 1]
        *right, right_there = sides[count + 1 :]
        merged = context.map(computation, [*left, *right])
        chosen = [
            np.where(left_there & right_there, m, np.where(left_there, x, y))
            for m, x, y in zip(merged, left, right, strict=True)
        ]
        return [*chosen, left_there | right_there]

    bases = [padded_base(a, value, window) for a, value in zip(arrays, initial, strict=True)]
    there = padded_base(np.ones(arrays[0].shape, np.bool_), False, window)
    *reduced, any_there = reduce_windows(combine_present, [*bases, there], window, sizes)
    chosen = context.map(computation, [*starts, *reduced])
    return one_or_tuple(instruction, [np.where(any_there, r, s) for r, s in zip(chosen, starts, strict=True)])


def _fold_windows(
    computation: Computation, arrays: Sequence[AnyArray], totals: Sequence[AnyArray], window: Window, context: Context
) -> Sequence[AnyArray]:
    """`totals` combined with one element of every window after another."""
    sizes = totals[0].shape
    for position, inside in window_positions(arrays[0].shape, sizes, window):
        merged = context.map(
            computation, [*totals, *(np.broadcast_to(a.reshape(-1)[position], sizes) for a in arrays)]
        )
        totals = [np.where(inside, new, old) for new, old in zip(merged, totals, strict=True)]
    return totals


def reduce_window_with(
    combiner: Combiner, array: AnyArray, initial: AnyArray, window: Window, sizes: Sequence[int]
) -> AnyArray:
    """Reduce each of `sizes` windows by one operation, beginning with a scalar."""
    wide = combiner.prepare(array)
    base = padded_base(wide, combiner.identity(wide.dtype), window)
    (total,) = reduce_windows(lambda pair: [combiner.ufunc(*pair)], [base], window, sizes)
    return computed(combiner.ufunc(combiner.prepare(initial), total), combiner.element_type)


def _select_and_scatter(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Each window of the operand selects one element, at which its element of the source is scattered."""
    array, source, initial = operands
    if not array.size:
        return np.array(array)
    window, select = window_of(instruction, array.ndim), instruction.attributes["select"]
    best: AnyArray | None = None
    place, found = np.zeros(source.shape, np.int64), np.zeros(source.shape, np.bool_)
    flat = np.ascontiguousarray(array).reshape(-1)
    for position, inside in window_positions(array.shape, source.shape, window):
        value = flat[position]
        if best is None:
            best, place, found = value, position, inside
            continue
        (keeps,) = context.map(select, [best, value])
        takes = inside & (~found | ~keeps)
        best, place, found = np.where(takes, value, best), np.where(takes, position, place), found | inside
    result = np.array(np.broadcast_to(initial, array.shape))
    chosen = found.reshape(-1)
    (scattered,) = combine_at(
        [result.reshape(-1)],
        place.reshape(-1)[chosen],
        [source.reshape(-1)[chosen]],
        instruction.attributes["scatter"],
        context,
    )
    return scattered.reshape(array.shape)


def window_positions(
    base: Sequence[int], counts: Sequence[int], window: Window
) -> Iterator[tuple[AnyArray, AnyArray]]:
    """For each position in the window, in row-major order: the flat indices of the elements there, and which exist."""
    strides = [int(np.prod(base[axis + 1 :], dtype=np.int64)) for axis in range(len(base))]
    for offsets in product(*(range(d.size) for d in window.dimensions)):
        position, inside = np.zeros((1,) * len(base), np.int64), np.ones((1,) * len(base), np.bool_)
        for axis, (offset, dimension) in enumerate(zip(offsets, window.dimensions, strict=True)):
            dilated = np.arange(counts[axis]) * dimension.stride
            dilated = dilated + offset * dimension.window_dilation - dimension.padding_low
            index, hole = np.divmod(dilated, dimension.base_dilation)
            there = (hole == 0) & (index >= 0) & (index < base[axis])
            column = [-1 if other == axis else 1 for other in range(len(base))]
            position = position + (np.where(there, index, 0) * strides[axis]).reshape(column)
            inside = inside & there.reshape(column)
        yield position, inside


RULES: dict[str, Rule] = {"reduce-window": _reduce_window, "select-and-scatter": _select_and_scatter}
