"""Padded copies: an array framed with zeros, or cropped, for a convolution to read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hlotool.codegen.cpu.addressing import Place, advance, argument, offset, unravel
from hlotool.codegen.cpu.elements import Arithmetic, load, store, vector_type
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm import Function, Unit

__all__ = ["PadAxis", "emit_pad"]


@dataclass(frozen=True, slots=True)
class PadAxis:
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
    f = Function(unit, signature(name))
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
    start = inner.low + first
    end = start + count
    clear, after = f.fresh("clear"), f.fresh("after")
    if inside:
        test = inside[0]
        for more in inside[1:]:
            test = f.let(f"and i1 {test}, {more}")
        within = f.fresh("within")
        f.branch(test, within, clear)
        f.label(within)
    if not count:
        _zeros(f, write, inner.target, target, how)
    else:
        _zeros(f, write, start, target, how)
        _zeros(f, offset(f, write, end * held.bytes), inner.target - end, target, how)
    if count:
        read, at = offset(f, read, first * inner.stride), offset(f, write, start * held.bytes)
        _spread(f, read, at, count, inner, source, target, how)
    if inside:
        f.jump(after)
        f.label(clear)
        _zeros(f, write, inner.target, target, how)
        f.jump(after)
        f.label(after)
    f.end_loop(task)
    f.finish()
    tasks = math.prod(axis.target for axis in outer)
    return Step(name, tasks, tasks * inner.target * held.bytes / 10.0)


def _merged(axes: Sequence[PadAxis]) -> list[PadAxis]:
    """Neighbouring dimensions joined where the inner one is copied whole and the source has them as one."""
    merged = [axes[-1]]
    for axis in reversed(axes[:-1]):
        inner = merged[-1]
        short = inner.target < 64 or inner.target * axis.target <= 16384  # a row is a task; leave some
        if short and inner.plain and axis.stride == inner.extent * inner.stride:
            size = inner.extent
            merged[-1] = PadAxis(axis.extent * size, inner.stride, axis.target * size, axis.low * size)
        else:
            merged.append(axis)
    return merged[::-1]


def _zeros(f: Function, write: str, count: int, target: Place, how: Arithmetic) -> None:
    """Clear `count` elements."""
    scalars = count * target.element.components
    trips, rest = divmod(scalars, how.lanes)
    size = how.lanes * target.element.size
    kind = vector_type(how.type, how.lanes)
    if trips:
        loop = f.begin_loop(0, trips, 1, [("ptr", write)])
        f.do(f"store {kind} zeroinitializer, ptr {loop.values[0]}, align {target.element.size}")
        (write,) = f.end_loop(loop, [offset(f, loop.values[0], size)])
    if rest:
        store(f, "zeroinitializer", write, target.element, how, how.lanes, rest)


def _spread(
    f: Function, read: str, write: str, count: int, axis: PadAxis, source: Place, target: Place, how: Arithmetic
) -> None:
    """Copy `count` elements of the innermost dimension."""
    held, kept = source.element, target.element
    if axis.stride == held.bytes:
        trips, rest = divmod(count * held.components, how.lanes)
        if trips:
            loop = f.begin_loop(0, trips, 1, [("ptr", read), ("ptr", write)])
            value = load(f, loop.values[0], held, how, how.lanes)
            store(f, value, loop.values[1], kept, how, how.lanes)
            steps = (how.lanes * held.size, how.lanes * kept.size)
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
