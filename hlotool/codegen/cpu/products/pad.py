"""Padded copies: an array framed with zeros, or cropped, for a convolution to read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Annotated, NamedTuple

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.arguments import Place, argument, begin_tasks, unravel
from hlotool.codegen.llvm.control import begin_loop, when
from hlotool.codegen.llvm.elements import Arithmetic, Element, load, store
from hlotool.codegen.llvm.values import Bool, Ptr, Truth, choose, number, zeros
from hlotool.codegen.llvm.writer import Function, Unit

__all__ = ["PadAxis", "emit_pad"]

SHORT_BYTES: Annotated[int, Threshold("bytes")] = 512
"""Bytes of a copy that takes no longer in place than the call of a library's function."""
_ROW: Annotated[int, Threshold("elements")] = 64  # of a row so short that it becomes one with the next
_ROWS: Annotated[int, Threshold("elements")] = 16384  # of both, likewise
_STRAIGHT: Annotated[int, Threshold("vectors")] = 16  # that are written without a loop


class PadAxis(NamedTuple):
    """A dimension: source element i (of `extent`, `stride` bytes apart) goes to element ``low + i`` of `target`."""

    extent: int
    stride: int
    target: int
    low: int = 0

    @property
    def plain(self) -> bool:
        return self.low == 0 and self.extent == self.target

    def inside(self) -> tuple[int, int]:
        """The first source element within the target, and how many there are."""
        first = max(0, -self.low)
        return first, max(0, min(self.extent, self.target - self.low) - first)


def emit_pad(
    unit: Unit, name: str, axes: Sequence[PadAxis], source: Place, target: Place, arithmetic: Arithmetic
) -> Step:
    """Define step function `name`: fill the dense row-major target, whose dimensions `axes` are from outermost in."""
    *outer, inner = _merged(axes)
    stored = target.element
    f = Function(unit, signature(name, plumbing=inner.stride == stored.bytes and source.element == stored))
    task = begin_tasks(f)
    read, write = argument(f, source), argument(f, target)
    write += task.index * (inner.target * stored.bytes)
    inside: list[Bool] = []
    for axis, at in zip(outer, unravel(task.index, [axis.target for axis in outer]), strict=True):
        if axis.plain:
            read += at * axis.stride
            continue
        place = number(f, at) - axis.low
        inside.append(place.below(axis.extent))
        read += place * axis.stride
    first, count = inner.inside()
    start, end = (inner.low + first, inner.low + first + count) if count else (inner.target,) * 2
    test: Truth = reduce(and_, inside, True) if count else True
    parts = stored.components
    _frame(write, start * parts, end * parts, inner.target * parts, test, stored, arithmetic)
    if count:
        read, at_start = read + first * inner.stride, write + start * stored.bytes
        when(test, lambda: _copy(read, at_start, count, inner.stride, source.element, stored, arithmetic))
    task.end()
    f.finish()
    tasks = math.prod(axis.target for axis in outer)
    return Step(name, tasks, tasks * inner.target * stored.bytes / 10.0)


def _merged(axes: Sequence[PadAxis]) -> list[PadAxis]:
    """Neighbouring dimensions joined where the inner one is copied whole and the source has them as one."""
    merged = [axes[-1]]
    for axis in reversed(axes[:-1]):
        inner = merged[-1]
        short = inner.target < _ROW or inner.target * axis.target <= _ROWS  # a row is a task; leave some
        if short and inner.plain and axis.stride == inner.extent * inner.stride:
            size = inner.extent
            merged[-1] = PadAxis(axis.extent * size, inner.stride, axis.target * size, axis.low * size)
        else:
            merged.append(axis)
    return merged[::-1]


def _frame(
    write: Ptr, start: int, end: int, size: int, inside: Truth, stored: Element, arithmetic: Arithmetic
) -> None:
    """Clear a row of `size` scalars but for those from `start` to `end`, or all of it where it is not `inside`.

    Whole vectors may reach into the part that is copied later.
    """
    lanes = arithmetic.lanes
    most = size // lanes
    behind = min(end, most * lanes)
    _clear(write + behind * stored.size, size - behind, stored, arithmetic)
    before, every = min(-(-start // lanes), most), -(-behind // lanes)
    if isinstance(inside, bool) or before == every:
        _clear(write, before * lanes, stored, arithmetic)
        return
    vector = lanes * stored.size
    write.clear(choose(inside, before * vector, every * vector))


def _clear(write: Ptr, count: int, stored: Element, arithmetic: Arithmetic) -> None:
    """Clear `count` scalars."""
    trips, rest = divmod(count, arithmetic.lanes)
    size, zero = arithmetic.lanes * stored.size, zeros(write.f, arithmetic.type, arithmetic.lanes)
    at_once = trips if trips <= _STRAIGHT else 1  # a loop takes LLVM as long as some twenty stores
    if trips:
        loop = begin_loop(write.f, 0, trips, at_once, write)
        (write,) = loop.values
        for at in range(at_once):
            (write + at * size).store(zero, stored.size)
        (write,) = loop.end(write + at_once * size)
    if rest:
        store(zero, write, stored, rest)


def _copy(
    read: Ptr, write: Ptr, count: int, stride: int, source: Element, target: Element, arithmetic: Arithmetic
) -> None:
    """Copy `count` elements of the innermost dimension, `stride` bytes apart in the source."""
    f, kind, lanes, size = read.f, arithmetic.type, arithmetic.lanes, count * source.bytes
    if stride != source.bytes:
        loop = begin_loop(f, 0, count, 1, read, write)
        read, write = loop.values
        for part in range(source.components):
            store(load(read + part * source.size, source, kind), write + part * target.size, target)
        loop.end(read + stride, write + target.bytes)
        return
    if source == target and size > SHORT_BYTES:
        write.copy_from(read, size)
        return
    rest = count * source.components
    for scalars in (8 * lanes, lanes):
        trips, rest = divmod(rest, scalars)
        if trips:
            loop = begin_loop(f, 0, trips, 1, read, write)
            read, write = loop.values
            for at in range(0, scalars, lanes):
                store(load(read + at * source.size, source, kind, lanes), write + at * target.size, target)
            read, write = loop.end(read + scalars * source.size, write + scalars * target.size)
    if rest:
        store(load(read, source, kind, lanes, rest), write, target, rest)
