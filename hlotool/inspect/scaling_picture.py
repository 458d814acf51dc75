"""How the time of a program goes with the number of devices: what they compute, and for what they wait."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.inspect.svg import count_words, escaped, picture, text, time_words
from hlotool.lazy_dataclass import dataclass

__all__ = ["ScalingPoint", "scaling_picture"]

_LEFT, _TOP, _WIDE, _HIGH = 84, 56, 820, 340


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """So many devices: `seconds` of a run, of which a device computes, and waits; `efficiency` beside the first one."""

    devices: int
    seconds: float
    computing: float
    exposed: float
    efficiency: float


def scaling_picture(points: Sequence[ScalingPoint], title: str) -> str:
    """An SVG file: a bar for each number of devices, in two parts, and the efficiency as a line over them."""
    most = max((point.seconds for point in points), default=0.0) or 1.0
    step = _WIDE / max(1, len(points))
    parts = [
        text(_LEFT, 24, title, "title"),
        text(_LEFT, 44, "bars: a run, below what a device computes, above it what it waits; line: efficiency", "axis"),
    ]
    for tenth in range(0, 11, 2):
        y = _TOP + _HIGH * (1 - tenth / 10)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(_LEFT - 8, y + 4, time_words(most * tenth / 10) if tenth else "0", "axis", "end"))
        parts.append(text(_LEFT + _WIDE + 8, y + 4, f"{10 * tenth}%", "axis"))
    line = []
    for number, point in enumerate(points):
        x, wide = _LEFT + step * (number + 0.2), step * 0.6
        computed, whole = _HIGH * min(point.computing, point.seconds) / most, _HIGH * point.seconds / most
        words = (
            f"{point.devices:,} devices: {time_words(point.seconds)}\ncomputes {time_words(point.computing)}\n"
            f"waits {time_words(point.exposed)}\nefficiency {point.efficiency:.1%}"
        )
        parts.append(
            f"<g><title>{escaped(words)}</title>"
            f'<rect class="level" x="{x:.1f}" y="{_TOP + _HIGH - computed:.1f}" width="{wide:.1f}" '
            f'height="{computed:.1f}"/><rect x="{x:.1f}" y="{_TOP + _HIGH - whole:.1f}" width="{wide:.1f}" '
            f'height="{whole - computed:.1f}" fill="none" stroke="var(--grey)"/></g>'
        )
        parts.append(text(x + wide / 2, _TOP + _HIGH + 18, count_words(point.devices, 4), "axis", "middle"))
        line.append(f"{x + wide / 2:.1f},{_TOP + _HIGH * (1 - min(1.0, point.efficiency)):.1f}")
    parts.append(f'<polyline class="mark" fill="none" stroke-width="2" points="{" ".join(line)}"/>')
    parts.append(text(_LEFT + _WIDE / 2, _TOP + _HIGH + 38, "devices", "axis", "middle"))
    return picture(_LEFT + _WIDE + 60, _TOP + _HIGH + 56, title, parts)
