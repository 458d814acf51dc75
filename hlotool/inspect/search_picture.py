"""A search as a picture: for each candidate how it did against the best so far, and how much quicker all kernels have
become together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlotool.inspect.svg import escaped, picture, text

__all__ = ["search_picture"]

_COLOURS = {"faster": "#2f9a4e", "no gain": "#69788c"}
_OTHER = "#c94a72"
"""Of candidates that were never timed: wrong, refused, crashed or hung."""


def search_picture(steps: Sequence[tuple[str, str, float]], title: str) -> str:
    """An SVG file of candidates in order: the kernel that each is for, what came of it, and its time over that of the
    best before it (not a number where there is none)."""
    width, left, top, wide, high = 1000, 70, 60, 880, 380
    gained: dict[str, float] = {}
    kernels = len({about for about, *_ in steps}) or 1
    line: list[float] = []
    for about, word, ratio in steps:
        if word == "faster":
            gained[about] = gained.get(about, 0.0) + math.log(ratio)
        line.append(math.exp(-sum(gained.values()) / kernels))
    most = max([1.1, *line, *(min(1 / ratio, 2.0) for _, _, ratio in steps if ratio == ratio)]) * 1.05
    least = 0.5

    def place(number: float, value: float) -> tuple[float, float]:
        share = (min(max(value, least), most) - least) / (most - least)
        return left + wide * number / max(1, len(steps)), top + (1 - share) * high

    parts = [text(left, 26, title, "title"), text(left, 44, _legend(steps), "axis")]
    for tick in range(5, int(most * 10) + 1):
        _, y = place(0, tick / 10)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + wide}" y1="{y:.1f}" y2="{y:.1f}"/>')
        if tick % 2 == 0:
            parts.append(text(left - 8, y + 4, f"{tick / 10:.1f}", "axis", "end"))
    for number, (about, word, ratio) in enumerate(steps):
        x, y = place(number + 0.5, 1 / ratio if ratio == ratio else least)
        colour = _COLOURS.get(word, _OTHER)
        radius = 4 if word == "faster" else 2.5
        told = f"{about}: {word}" + (f", {1 / ratio:.2f} times as quick" if ratio == ratio else "")
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"><title>{escaped(told)}</title></circle>'
        )
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(n + 1, value) for n, value in enumerate(line)))
    if points:
        parts.append(f'<polyline class="roof" stroke-width="2" points="{points}"/>')
    parts.append(text(left + wide, top + high + 24, f"{len(steps)} candidates", "axis", "end"))
    return picture(width, top + high + 40, title, parts)


def _legend(steps: Sequence[tuple[str, str, float]]) -> str:
    words = [word for _, word, _ in steps]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return f"line: all kernels together, times as quick as without; dots: {counts or 'none'}"
