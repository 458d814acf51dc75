"""Padded copies: an array framed with zeros, or cropped, for a convolution to read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.addressing import Place, advance, argument, load, offset, store, unravel, vector_type, when
from hlotool.codegen.llvm.elements import Arithmetic
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


def emit_pad(unit: Unit, name: str, axes: Sequence[PadAxis], source: Place, target: Place, how: Arithmetic) -> Step:
    """Define step function `name`: fill the dense row-major target, whose dimensions `axes` are from outermost in."""
    *outer, inner = _merged(axes)
    held = target.element
    f = Function(unit, signature(name, plumbing=inner.stride == held.bytes and source.element == held))
    task = f.begin_loop("%begin", "%end")
    read, write = argument(f, source), argument(f, target)
    write = advance(f, write, task.index, inner.target * held.bytes)
    where = unravel(f, task.index, [axis.target for axis in outer])
    inside: list[str] = []
    for axis, at in zip(outer, where, strict=True):
        if axis.plain:
            read = advance(f, read, at, axis.stride)
            continue
        at = f.let(f"sub i64 {at}, {axis.low}")
        inside.append(f.let(f"icmp ult i64 {at}, {axis.extent}"))
        read = advance(f, read, at, axis.stride)
    first, count = inner.inside()
    start, end = (inner.low + first, inner.low + first + count) if count else (inner.target,) * 2
    test = inside[0] if inside and count else None
    for more in inside[1:] if count else ():
        test = f.let(f"and i1 {test}, {more}")
    parts = held.components
    _frame(f, write, start * parts, end * parts, inner.target * parts, test, target, how)
    if count:
        read, at = offset(f, read, first * inner.stride), offset(f, write, start * held.bytes)
        when(f, test or "true", lambda: _spread(f, read, at, count, inner, source, target, how))
    f.end_loop(task)
    f.finish()
    tasks = math.prod(axis.target for axis in outer)
    return Step(name, tasks, tasks * inner.target * held.bytes / 10.0)


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
    f: Function, write: str, start: int, end: int, size: int, inside: str | None, target: Place, how: Arithmetic
) -> None:
    """Clear a row of `size` scalars but for those from `start` to `end`, or all of it where it is not `inside`.

    Whole vectors may reach into the part that is copied later.
    """
    most = size // how.lanes
    behind = min(end, most * how.lanes)
    _zeros(f, offset(f, write, behind * target.element.size), size - behind, target, how)
    before, every = min(-(-start // how.lanes), most), -(-behind // how.lanes)
    if inside is None or before == every:
        _zeros(f, write, before * how.lanes, target, how)
        return
    vector = how.lanes * target.element.size
    length = f.let(f"select i1 {inside}, i64 {before * vector}, i64 {every * vector}")
    f.clear(write, length)


def _zeros(f: Function, write: str, count: int, target: Place, how: Arithmetic) -> None:
    """Clear `count` scalars."""
    trips, rest = divmod(count, how.lanes)
    size = how.lanes * target.element.size
    kind = vector_type(how.type, how.lanes)
    at_once = trips if trips <= _STRAIGHT else 1  # a loop takes LLVM as long as some twenty stores
    if trips:
        loop = f.begin_loop(0, trips, at_once, [("ptr", write)])
        for at in range(at_once):
            to = offset(f, loop.values[0], at * size)
            f.do(f"store {kind} zeroinitializer, ptr {to}, align {target.element.size}")
        (write,) = f.end_loop(loop, [offset(f, loop.values[0], at_once * size)])
    if rest:
        store(f, "zeroinitializer", write, target.element, how, how.lanes, rest)


def _spread(
    f: Function, read: str, write: str, count: int, axis: PadAxis, source: Place, target: Place, how: Arithmetic
) -> None:
    """Copy `count` elements of the innermost dimension."""
    held, kept = source.element, target.element
    size = count * held.bytes
    if axis.stride == held.bytes and held == kept and size > SHORT_BYTES:
        f.copy(write, read, size)
        return
    if axis.stride == held.bytes:
        rest = count * held.components
        for scalars in (8 * how.lanes, how.lanes):
            trips, rest = divmod(rest, scalars)
            if trips:
                loop = f.begin_loop(0, trips, 1, [("ptr", read), ("ptr", write)])
                for at in range(0, scalars, how.lanes):
                    value = load(f, offset(f, loop.values[0], at * held.size), held, how, how.lanes)
                    store(f, value, offset(f, loop.values[1], at * kept.size), kept, how, how.lanes)
                steps = (scalars * held.size, scalars * kept.size)
                read, write = f.end_loop(loop, [offset(f, p, by) for p, by in zip(loop.values, steps, strict=True)])
        if rest:
            store(f, load(f, read, held, how, how.lanes, rest), write, kept, how, how.lanes, rest)
        return
    loop = f.begin_loop(0, count, 1, [("ptr", read), ("ptr", write)])
    for part in range(held.components):
        value = load(f, offset(f, loop.values[0], part * held.size), held, how, 0)
        store(f, value, offset(f, loop.values[1], part * kept.size), kept, how, 0)
    steps = (axis.stride, kept.bytes)
    f.end_loop(loop, [offset(f, p, by) for p, by in zip(loop.values, steps, strict=True)])
