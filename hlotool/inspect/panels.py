"""A grid of small diagrams with the same scales, of logarithms both: ratios over sizes, a line for each series.

After Tufte's small multiples: panels beside each other differ in one thing, those below each other in another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlotool.inspect.svg import escaped, picture, text
from hlotool.lazy_dataclass import dataclass

__all__ = ["Panel", "Series", "panels_picture"]

_PALETTE = ("#2f7bd1", "#c9741c", "#2f9a4e", "#8b54c9", "#c94a72", "#2a8aa3", "#97841b", "#69788c")
_LEFT, _TOP, _WIDE, _HIGH = 76, 78, 270, 170
"""Of the first panel, and the sizes of all."""
_ACROSS, _DOWN = 22, 40
"""Between panels."""
_LEAST_WIDTH = 660
"""For the title and the notes."""


@dataclass(frozen=True, slots=True)
class Series:
    """A line: its name, and points in the order of x."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """A diagram: its title, and lines, of which those of one name have one colour in all panels."""

    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class _Scale:
    """What the axes reach from and to, as logarithms to base 10."""

    left: float
    right: float
    bottom: float
    top: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is in its panel, as shares of its width and height from the upper left."""
        return (
            (math.log10(x) - self.left) / (self.right - self.left),
            1 - (math.log10(y) - self.bottom) / (self.top - self.bottom),
        )


def panels_picture(rows: Sequence[Sequence[Panel]], title: str, notes: Sequence[str], x_title: str) -> str:
    """An SVG file: rows of panels.  The line at 1 is drawn in each; `notes` stand below; values are above zero."""
    points = [point for row in rows for panel in row for one in panel.series for point in one.points]
    scale = _scale(points)
    names = list(dict.fromkeys(one.name for row in rows for panel in row for one in panel.series))
    colours = {name: _PALETTE[number % len(_PALETTE)] for number, name in enumerate(names)}
    columns = max(map(len, rows), default=0)
    width = max(_LEAST_WIDTH, _LEFT + columns * (_WIDE + _ACROSS) + 14)
    parts = [text(_LEFT, 24, title, "title")]
    x = float(_LEFT)
    for name in names:
        parts.append(f'<circle cx="{x + 5:.1f}" cy="44" r="4.5" fill="{colours[name]}"/>')
        parts.append(text(x + 14, 48, name))
        x += 34 + 7 * len(name)
    for down, row in enumerate(rows):
        for across, panel in enumerate(row):
            left, top = _LEFT + across * (_WIDE + _ACROSS), _TOP + down * (_HIGH + _DOWN)
            parts += _panel(panel, scale, left, top, colours, down == len(rows) - 1, across == 0)
    below = _TOP + len(rows) * (_HIGH + _DOWN)
    parts.append(text(_LEFT + (width - _LEFT) / 2, below + 8, x_title, "axis", "middle"))
    for number, note in enumerate(notes):
        parts.append(text(_LEFT, below + 30 + 16 * number, note, "dim"))
    return picture(width, below + 40 + 16 * len(notes), title, parts)


def _scale(points: Sequence[tuple[float, float]]) -> _Scale:
    xs, ys = [x for x, _ in points] or [1.0], [y for _, y in points] or [1.0]
    left, right = math.log10(min(xs)), math.log10(max(xs))
    bottom, top = min(0.0, math.log10(min(ys))), max(0.0, math.log10(max(ys)))
    return _Scale(left - 0.12, right + 0.12, bottom - 0.15, top + 0.15)


def _panel(
    panel: Panel, scale: _Scale, left: float, top: float, colours: dict[str, str], last: bool, first: bool
) -> list[str]:
    def place(x: float, y: float) -> tuple[float, float]:
        across, down = scale.place(x, y)
        return left + across * _WIDE, top + down * _HIGH

    parts = [text(left, top - 7, panel.title)]
    for x in dict.fromkeys(x for one in panel.series for x, _ in one.points):
        across, _ = place(x, 1)
        parts.append(f'<line class="grid" x1="{across:.1f}" x2="{across:.1f}" y1="{top}" y2="{top + _HIGH}"/>')
        if last:
            parts.append(text(across, top + _HIGH + 15, f"{x:g}", "axis", "middle"))
    for y in _ticks(scale):
        _, down = place(10**scale.left, y)
        kind = "roof" if y == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{left}" x2="{left + _WIDE}" y1="{down:.1f}" y2="{down:.1f}"/>')
        if first:
            parts.append(text(left - 7, down + 4, f"{y:g} ×", "axis", "end"))
    for one in panel.series:
        places = [place(*point) for point in one.points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour = colours[one.name]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for (x, y), (across, down) in zip(one.points, places, strict=True):
            words = f"{panel.title}, {one.name}, {x:g}: {y:.4g}"
            parts.append(
                f'<g><title>{escaped(words)}</title><circle cx="{across:.1f}" cy="{down:.1f}" r="3.5" '
                f'fill="{colour}" stroke="var(--paper)"/></g>'
            )
    return parts


def _ticks(scale: _Scale) -> list[float]:
    """1, 2 and 5 times powers of ten; powers alone where these would be many."""
    decades = range(math.floor(scale.bottom), math.ceil(scale.top) + 1)
    within = [(factor, 10.0**power) for power in decades for factor in (1, 2, 5)]
    found = [(f, f * p) for f, p in within if scale.bottom <= math.log10(f * p) <= scale.top]
    return [value for factor, value in found if factor == 1 or len(found) <= 8]
