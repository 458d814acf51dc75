"""Alternatives as points over two figures, on scales of logarithms: which of them nothing beats, and the chosen one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hlotool.inspect.labels import short
from hlotool.inspect.svg import escaped, picture, text
from hlotool.lazy_dataclass import dataclass

__all__ = ["Alternative", "Axis", "pareto_picture"]

_MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LEFT, _TOP, _WIDE, _HIGH = 92, 44, 860, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A point: what it is, where, and whether it was `measured` (else predicted), is on the `front`, is `chosen`."""

    name: str
    x: float
    y: float
    measured: bool
    front: bool = False
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """What a figure is, and how a number of it reads."""

    name: str
    words: Callable[[float], str]


def pareto_picture(points: Sequence[Alternative], across: Axis, up: Axis, title: str) -> str:
    """An SVG file.  Points on the front are joined, marked by letters and listed below; those that are only predicted
    are hollow."""
    shown = [point for point in points if point.x > 0 and point.y > 0]
    front = sorted((point for point in shown if point.front), key=lambda point: (point.x, point.y, point.name))
    columns, rows = _scale([point.x for point in shown]), _scale([point.y for point in shown])

    def place(point: Alternative) -> tuple[float, float]:
        return _LEFT + _WIDE * _share(columns, point.x), _TOP + _HIGH * (1 - _share(rows, point.y))

    parts = [text(_LEFT, 24, title, "title")]
    for value, share in _ticks(columns):
        x = _LEFT + _WIDE * share
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_TOP + _HIGH}"/>')
        parts.append(text(x, _TOP + _HIGH + 18, across.words(value), "axis", "middle"))
    for value, share in _ticks(rows):
        y = _TOP + _HIGH * (1 - share)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(_LEFT - 8, y + 4, up.words(value), "axis", "end"))
    parts.append(text(_LEFT + _WIDE / 2, _TOP + _HIGH + 36, across.name, "axis", "middle"))
    parts.append(text(_LEFT, _TOP - 6, up.name, "axis"))
    if len(front) > 1:
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, front))
        parts.append(f'<polyline class="roof" points="{line}" stroke-dasharray="4 4"/>')
    for point in sorted(shown, key=lambda point: (point.measured, point.front, point.chosen)):
        x, y = place(point)
        words = f"{point.name}\n{across.name}: {across.words(point.x)}\n{up.name}: {up.words(point.y)}"
        fill = "var(--mark)" if point.chosen else "var(--fill)" if point.measured else "none"
        stroke = "var(--ink)" if point.front else "var(--grey)"
        parts.append(
            f'<g><title>{escaped(words)}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if point.measured else 3.5}" '
            f'fill="{fill}" stroke="{stroke}"/></g>'
        )
    below = _TOP + _HIGH + 62
    for mark, point in zip(_MARKS, front, strict=False):
        x, y = place(point)
        parts.append(text(x + 9, y - 7, mark))
        said = f"{mark}  {short(point.name, 60)}: {across.words(point.x)}, {up.words(point.y)}"
        parts.append(text(_LEFT, below, said + (" (chosen)" if point.chosen else "")))
        below += 18
    note = "filled: measured, the chosen one in red; hollow: predicted only; dashed: what nothing beats"
    parts.append(text(_LEFT, below + 6, note, "dim"))
    return picture(_LEFT + _WIDE + 48, below + 24, title, parts)


def _scale(values: Sequence[float]) -> tuple[float, float]:
    """Logarithms from and to which an axis reaches."""
    if not values:
        return 0.0, 1.0
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.08 * (high - low), 0.05)
    return low - room, high + room


def _share(scale: tuple[float, float], value: float) -> float:
    return (math.log10(value) - scale[0]) / (scale[1] - scale[0])


def _ticks(scale: tuple[float, float]) -> list[tuple[float, float]]:
    """Round numbers of an axis, a few for every power of ten where there are few of these, and where they are."""
    low, high = scale
    steps = (1,) if high - low > 3 else (1, 2, 5) if high - low > 0.5 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    values = [step * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    return [(value, share) for value in values if 0 <= (share := _share(scale, value)) <= 1]
