"""The roofline as a picture and as text: what is reached, or can be, over operations per byte, both on scales of
logarithms; one mark for each row that computes and moves something, larger where it takes more of the time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlotool.analysis.roofline import Roof, intensity, operations
from hlotool.inspect.cost_table import CostRow
from hlotool.inspect.labels import short
from hlotool.inspect.svg import byte_words, count_words, escaped, picture, text, time_words
from hlotool.lazy_dataclass import dataclass

__all__ = ["roofline_picture", "roofline_text"]

_MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LISTED = 10
"""Marks that are explained where there are only characters."""
_PALETTE = ("#2f7bd1", "#c9741c", "#2f9a4e", "#8b54c9", "#c94a72", "#2a8aa3", "#97841b", "#69788c")


@dataclass(frozen=True, slots=True)
class _Point:
    """A row: operations per byte, operations per second, and its share of the time."""

    mark: str
    row: CostRow
    x: float
    y: float
    share: float


@dataclass(frozen=True, slots=True)
class _Scale:
    """Powers of ten that the axes reach from and to."""

    left: float
    right: float
    bottom: float
    top: float


def roofline_picture(rows: Sequence[CostRow], roof: Roof, title: str) -> str:
    """An SVG file; the rows that come first are marked by letters, and listed below."""
    points, rest = _points(rows, roof)
    scale = _scale(points, roof)
    marked = [point for point in points if point.mark]
    width, left, top, wide, high = 1000, 84, 44, 880, 420
    lines = (len(marked) + 1) // 2

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - scale.left) / (scale.right - scale.left)
        up = (math.log10(y) - scale.bottom) / (scale.top - scale.bottom)
        return left + across * wide, top + (1 - up) * high

    parts = [text(left, 24, title, "title"), *_axes(scale, left, top, wide, high)]
    seen: set[int] = set()
    for number, (size, rate) in enumerate(reversed(roof.rates)):
        start = max(10**scale.left, 10**scale.bottom / rate)
        knee = roof.flops / rate
        (x, y), (kx, ky) = place(start, start * rate), place(knee, roof.flops)
        ex, ey = place(10**scale.right, roof.flops)
        dash = ' stroke-dasharray="5 4"' if number else ' stroke-width="2"'
        parts.append(f'<polyline class="roof" points="{x:.1f},{y:.1f} {kx:.1f},{ky:.1f} {ex:.1f},{ey:.1f}"{dash}/>')
        words = f"{count_words(rate)}B/s" + (f" on {byte_words(size)}" if size else "")
        line = round(y)
        while seen & set(range(line - 12, line + 13)):
            line -= 13
        seen.add(line)
        parts.append(text(x + 6, line - 4, words, "axis"))
    parts.append(text(left + wide, place(1, roof.flops)[1] - 6, f"{count_words(roof.flops)}FLOP/s", "axis", "end"))
    for point in reversed(points):
        x, y = place(point.x, point.y)
        radius = 4 + 16 * math.sqrt(point.share)
        colour = _PALETTE[_MARKS.index(point.mark) % len(_PALETTE)] if point.mark else "#8a929e"
        parts.append(
            f'<g><title>{escaped(_words(point))}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" '
            f'fill="{colour}" fill-opacity=".75" stroke="var(--paper)"/>'
            + (text(x, y + 4, point.mark, anchor="middle") if point.mark else "")
            + "</g>"
        )
    below = top + high + 58
    for number, point in enumerate(marked):
        x, y = left + (number // lines) * wide / 2, below + 18 * (number % lines)
        colour = _PALETTE[_MARKS.index(point.mark) % len(_PALETTE)]
        parts.append(
            f'<g><title>{escaped(_words(point))}</title><circle cx="{x + 7:.1f}" cy="{y - 4:.1f}" r="8" '
            f'fill="{colour}" fill-opacity=".75"/>{text(x + 7, y, point.mark, anchor="middle")}'
            f"{text(x + 21, y, short(_line(point), 62))}</g>"
        )
    below += 18 * lines
    note = _left_out(points, rest)
    if note:
        parts.append(text(left, below + 6, note, "dim"))
    return picture(width, below + 24, title, parts)


def roofline_text(rows: Sequence[CostRow], roof: Roof, width: int = 78, height: int = 16) -> str:
    """The same in characters: ``/`` and ``-`` are the roof, letters the rows that come first, ``.`` others."""
    points, rest = _points(rows, roof)
    scale = _scale(points, roof)
    grid = [[" "] * width for _ in range(height)]

    def column(x: float) -> int:
        return round((math.log10(x) - scale.left) / (scale.right - scale.left) * (width - 1))

    def line(y: float) -> int:
        return height - 1 - round((math.log10(y) - scale.bottom) / (scale.top - scale.bottom) * (height - 1))

    rate = roof.rates[-1][1]
    for number in range(width):
        x = 10 ** (scale.left + (scale.right - scale.left) * number / (width - 1))
        y = min(roof.flops, x * rate)
        if line(y) < height:
            grid[line(y)][number] = "-" if x * rate > roof.flops else "/"
    for point in reversed(points):
        grid[min(height - 1, max(0, line(point.y)))][min(width - 1, max(0, column(point.x)))] = point.mark or "."
    labels = {line(10.0**power): f"{count_words(10.0**power)}FLOP/s" for power in _powers(scale.bottom, scale.top)}
    margin = max(map(len, labels.values()), default=0)
    lines = [f"{labels.get(number, ''):>{margin}} |{''.join(row)}".rstrip() for number, row in enumerate(grid)]
    ticks = [" "] * (width + 10)
    for power in _powers(scale.left, scale.right):
        words, at = f"{10.0**power:g}", column(10.0**power)
        if not "".join(ticks[max(0, at - 1) : at + len(words) + 1]).strip():
            ticks[at : at + len(words)] = words
    lines += [f"{'':>{margin}} +{'-' * width}", f"{'':>{margin}}  {''.join(ticks).rstrip()}  FLOP per byte"]
    lines += [f"{point.mark}  {_line(point)}" for point in points[:_LISTED]]
    note = _left_out(points, rest)
    return "\n".join([*lines, note] if note else lines)


def _points(rows: Sequence[CostRow], roof: Roof) -> tuple[list[_Point], list[CostRow]]:
    """The marks, the first rows' first, and the rows that have no place: they do not compute, or do not move."""
    total = sum(_time(row) for row in rows) or 1.0
    points: list[_Point] = []
    rest = []
    for row in rows:
        x, time = intensity(row.cost), _time(row)
        if x and time:
            mark = _MARKS[len(points)] if len(points) < len(_MARKS) else ""
            points.append(_Point(mark, row, x, operations(row.cost) / time, time / total))
        else:
            rest.append(row)
    return points, rest


def _time(row: CostRow) -> float:
    return (row.seconds if row.seconds is not None else row.roof_seconds) or 0.0


def _scale(points: Sequence[_Point], roof: Roof) -> _Scale:
    """Decades that hold the marks, and where the roofs bend."""
    xs = [point.x for point in points] + [roof.flops / rate for _, rate in roof.rates]
    ys = [point.y for point in points] + [roof.flops]
    left, right = math.floor(math.log10(min(xs)) - 0.3), math.ceil(math.log10(max(xs)) + 0.7)
    return _Scale(left, right, math.floor(math.log10(min(ys)) - 0.3), math.log10(roof.flops) + 0.4)


def _powers(low: float, high: float) -> range:
    return range(math.ceil(low), math.floor(high) + 1)


def _axes(scale: _Scale, left: float, top: float, wide: float, high: float) -> list[str]:
    parts = []
    for power in _powers(scale.left, scale.right):
        x = left + wide * (power - scale.left) / (scale.right - scale.left)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + high}"/>')
        parts.append(text(x, top + high + 18, f"{10.0**power:g}", "axis", "middle"))
    for power in _powers(scale.bottom, scale.top):
        y = top + high * (1 - (power - scale.bottom) / (scale.top - scale.bottom))
        parts.append(f'<line class="grid" x1="{left}" x2="{left + wide}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(left - 8, y + 4, f"{count_words(10.0**power)}FLOP/s", "axis", "end"))
    parts.append(text(left + wide / 2, top + high + 34, "operations per byte moved", "axis", "middle"))
    return parts


def _line(point: _Point) -> str:
    row = point.row
    reached = f"{count_words(point.y)}FLOP/s"
    if row.seconds is not None and row.roof_seconds is not None:
        reached += f", {row.roof_seconds / row.seconds:.0%} of the roof" if row.seconds else ""
    return f"{short(row.name, 28)}: {point.share:.0%} of the time, {point.x:.3g} FLOP/B, {reached}"


def _words(point: _Point) -> str:
    row = point.row
    lines = [f"{row.opcode or 'group'} {row.name} {row.shape}".strip(), _line(point), row.op_name, row.source]
    times = [("at the roof", row.roof_seconds), ("measured", row.seconds), ("could be saved", row.saving)]
    lines += [f"{words}: {time_words(time)}" for words, time in times if time is not None]
    return "\n".join(filter(None, lines))


def _left_out(points: Sequence[_Point], rest: Sequence[CostRow]) -> str:
    moved = sum(row.cost.bytes for row in rest)
    parts = [f"{len(points) - len(_MARKS)} more have no letter"] if len(points) > len(_MARKS) else []
    if rest:
        parts.append(f"{len(rest)} that only move data ({byte_words(moved)}), or only compute, have no place here")
    return "; ".join(parts)
