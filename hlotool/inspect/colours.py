"""The colours of drawings: one per group of opcodes, for light and dark pages, a scale, and ones that differ."""

from __future__ import annotations

from colorsys import hls_to_rgb

from hlotool.lazy_dataclass import dataclass

__all__ = ["CHANGED", "GROUPS", "Group", "distinct_colour", "heat_colour"]


@dataclass(frozen=True, slots=True)
class Group:
    """What a group is called in legends, and its fill on white paper and in the dark."""

    legend: str
    light: str
    dark: str


_DOT = Group("dot, convolution, linear algebra", "#aecbf0", "#234a7a")
_REDUCTION = Group("reduction, sort, gather, scatter", "#dfcbf2", "#4f3670")
_CONTROL = Group("control, custom call", "#a9dcc3", "#1f5a45")
_MOVEMENT = Group("data movement", "#d3efd3", "#2c5530")
_CONSTANT = Group("constant, tuple", "#ededed", "#3a3d42")
_COLLECTIVE = Group("collective, feed", "#e3c8ac", "#5e4426")

GROUPS = {
    "parameter": Group("parameter", "#ffd6a5", "#6b4a1a"),
    "constant": _CONSTANT,
    "tuple": _CONSTANT,
    "elementwise": Group("elementwise", "#ffffff", "#2b2f36"),
    "broadcast": Group("broadcast", "#fff0b3", "#5a5020"),
    "data-movement": _MOVEMENT,
    "dot": _DOT,
    "linalg": _DOT,
    "reduction": _REDUCTION,
    "sort": _REDUCTION,
    "gather": _REDUCTION,
    "rng": Group("random numbers", "#f7cfe0", "#6b2c48"),
    "control": _CONTROL,
    "custom": _CONTROL,
    "dynamic": _MOVEMENT,
    "token": _CONTROL,
    "async": _CONTROL,
    "collective": _COLLECTIVE,
    "feed": _COLLECTIVE,
    "fusion": Group("fusion", "#e8e8e8", "#26292e"),
    "unknown": Group("unknown or wrong", "#f4b6b6", "#7a2c2c"),
}
"""By the opcode table's group; groups that share an entry share a colour."""

CHANGED = "#c62828"

_COLD, _WARM, _HOT = (255, 255, 255), (255, 214, 120), (226, 74, 51)


def heat_colour(fraction: float) -> str:
    """White for 0, over amber, to red for 1."""
    start, end, part = (_COLD, _WARM, fraction * 2) if fraction < 0.5 else (_WARM, _HOT, fraction * 2 - 1)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(start, end, strict=True))


def distinct_colour(number: int) -> str:
    """A light colour for each of many things: the next is always far from those before (by the golden ratio)."""
    red, green, blue = hls_to_rgb((0.58 + number * 0.618034) % 1, 0.82, 0.62)
    return "#" + "".join(f"{round(part * 255):02x}" for part in (red, green, blue))
