"""Loops over the taps of a window: which base elements a window position covers.

Tap k of the window at output position o lies at dilated position ``o * stride + k * window_dilation - padding_low``;
it exists if that is a multiple of the base dilation inside the base.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.codegen.llvm.access import Index, add, maximum, minimum, multiply, quotient, strides, subtract
from hlotool.codegen.llvm.writer import Function
from hlotool.ir import Window, WindowDimension

__all__ = ["Carried", "Visit", "blocks", "for_each_tap", "window_dimensions"]

Carried = list[tuple[str, str]]
"""Values carried through the loops: (LLVM type, value)."""

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
    f: Function,
    window: Sequence[WindowDimension],
    base: Sequence[int],
    outputs: Sequence[Index],
    carried: Carried,
    visit: Visit,
    interior: Sequence[bool] = (),
) -> Carried:
    """Write loops over the existing taps of the window at `outputs`, in row-major order of taps.

    `interior` promises for a dimension that all taps exist there.
    """
    base_strides = strides(base)
    tap_strides = strides([d.size for d in window])

    def level(dimension: int, element: Index, tap: Index, values: Carried) -> Carried:
        if dimension == len(window):
            return visit(element, tap, values)
        row, size = window[dimension], base[dimension]
        start = subtract(f, multiply(f, outputs[dimension], row.stride), row.padding_low)
        if row.is_trivial:
            return level(dimension + 1, add(f, element, multiply(f, start, base_strides[dimension])), tap, values)
        inside = bool(interior) and interior[dimension]
        first, after = (0, row.size) if inside else _existing(f, row, size, start)
        loop = f.begin_loop(first, after, 1, values)
        kinds = [kind for kind, _ in values]
        here = list(zip(kinds, loop.values, strict=True))
        position = add(f, start, multiply(f, loop.index, row.window_dilation))
        skip: tuple[str, str] | None = None
        if row.base_dilation > 1:
            quotient_ = quotient(f, position, row.base_dilation)
            whole = f.let(f"icmp eq i64 {multiply(f, quotient_, row.base_dilation)}, {position}")
            exists = f.let(f"and i1 {whole}, {f.let(f'icmp ult i64 {quotient_}, {size}')}")
            work, done = f.fresh("tap"), f.fresh("skip")
            skip = (f.block, done)
            f.branch(exists, work, done)
            f.label(work)
            position = quotient_
        element = add(f, element, multiply(f, position, base_strides[dimension]))
        tap = add(f, tap, multiply(f, loop.index, tap_strides[dimension]))
        after_visit = level(dimension + 1, element, tap, here)
        if skip is not None:
            after_visit = _join(f, skip, here, after_visit)
        return list(zip(kinds, f.end_loop(loop, [value for _, value in after_visit]), strict=True))

    return level(0, 0, 0, carried)


def _existing(f: Function, row: WindowDimension, size: int, start: Index) -> tuple[Index, Index]:
    """The range of taps that lie inside the base (with base dilation: that are not negative)."""
    reach = maximum(f, subtract(f, 0, start), 0)
    first = quotient(f, add(f, reach, row.window_dilation - 1), row.window_dilation)
    span = (size - 1) * row.base_dilation + 1 if size else 0
    left = maximum(f, subtract(f, span, start), 0)
    after = quotient(f, add(f, left, row.window_dilation - 1), row.window_dilation)
    return first, minimum(f, after, row.size)


def _join(f: Function, skip: tuple[str, str], before: Carried, after: Carried) -> Carried:
    """Meet at the end of a skipped region: the values of whichever way was taken."""
    source, label = skip
    last = f.block
    f.jump(label)
    f.label(label)
    return [
        (kind, f.let(f"phi {kind} [ {old}, %{source} ], [ {new}, %{last} ]"))
        for (kind, old), (_, new) in zip(before, after, strict=True)
    ]
