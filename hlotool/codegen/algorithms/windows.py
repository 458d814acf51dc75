"""Loops over the taps of a window: which base elements a window position covers.

Tap k of the window at output position o lies at dilated position ``o * stride + k * window_dilation - padding_low``;
it exists if that is a multiple of the base dilation inside the base.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.analysis.indexing import row_major_strides
from hlotool.codegen.llvm.control import begin_loop, conditional
from hlotool.codegen.llvm.values import Index, Truth, Vector, equal, maximum, minimum
from hlotool.codegen.llvm.writer import Function
from hlotool.ir import Window, WindowDimension

__all__ = ["Carried", "Visit", "blocks", "for_each_tap", "window_dimensions"]

Carried = tuple[Vector, ...]
"""Values carried through the loops."""

Visit = Callable[[Index, Index, Carried], Carried]
"""Code for one tap: (element number in the base, tap number, carried values) -> carried values."""


def window_dimensions(window: Window | None, rank: int) -> tuple[WindowDimension, ...]:
    """The window of every dimension; no window is a window of one element."""
    return window.dimensions if window and window.dimensions else (WindowDimension(1),) * rank


def blocks(count: int, lanes: int, unroll: int) -> list[tuple[int, int, int, int]]:
    """Split `count` columns into (start, stop, lanes, vectors at once), with fewer vectors, then fewer lanes."""
    rest = count // lanes % unroll
    result: list[tuple[int, int, int, int]] = []
    start = 0
    for width, times in [(lanes, unroll), (lanes, rest or 1)] + [(lanes >> i, 1) for i in range(1, lanes.bit_length())]:
        step = width * times
        stop = start + (count - start) // step * step
        if stop > start and (not result or result[-1][2:] != (width, times)):
            result.append((start, stop, width, times))
            start = stop
    return result


def for_each_tap(
    f: Function, window: Sequence[WindowDimension], base: Sequence[int], outputs: Sequence[Index], carried: Carried,
    visit: Visit, interior: Sequence[bool] = (),
) -> Carried:  # fmt: skip
    """Write loops over the existing taps of the window at `outputs`, in row-major order of taps.

    `interior` promises for a dimension that all taps exist there.
    """
    base_strides = row_major_strides(base)
    tap_strides = row_major_strides([d.size for d in window])

    def level(dimension: int, element: Index, tap: Index, values: Carried) -> Carried:
        if dimension == len(window):
            return visit(element, tap, values)
        row, size = window[dimension], base[dimension]
        start = outputs[dimension] * row.stride - row.padding_low
        if row.is_trivial:
            return level(dimension + 1, element + start * base_strides[dimension], tap, values)
        inside = bool(interior) and interior[dimension]
        first, after = (0, row.size) if inside else _existing(row, size, start)
        loop = begin_loop(f, first, after, 1, *values)
        position = start + loop.index * row.window_dilation
        exists: Truth = True
        if row.base_dilation > 1:
            position, exists = _undilated(position, row.base_dilation, size)

        def inner() -> Carried:
            place = element + position * base_strides[dimension]
            return level(dimension + 1, place, tap + loop.index * tap_strides[dimension], loop.values)

        return loop.end(*conditional(exists, inner, *loop.values))

    return level(0, 0, 0, carried)


def _undilated(position: Index, dilation: int, size: int) -> tuple[Index, Truth]:
    """The element of the base at a dilated position, and whether there is one."""
    element = position // dilation
    whole = equal(element * dilation, position)
    return element, whole & (0 <= element < size if isinstance(element, int) else element.below(size))


def _existing(row: WindowDimension, size: int, start: Index) -> tuple[Index, Index]:
    """The range of taps that lie inside the base (with base dilation: that are not negative)."""
    reach = maximum(0 - start, 0)
    first = (reach + (row.window_dilation - 1)) // row.window_dilation
    span = (size - 1) * row.base_dilation + 1 if size else 0
    left = maximum(span - start, 0)
    after = (left + (row.window_dilation - 1)) // row.window_dilation
    return first, minimum(after, row.size)
