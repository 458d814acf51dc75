"""Colours by sharding: values that are cut alike among devices have one colour."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.inspect.colours import distinct_colour
from hlotool.ir import Instruction, Verbatim
from hlotool.ir.sharding import parse_sharding, print_sharding
from hlotool.ir.sharding_axes import ShardingValueError

__all__ = ["sharding_fills", "sharding_words"]

_PLAIN = ("", "{replicated}")
_LONGEST = 72


def sharding_words(instruction: Instruction) -> str:
    """The sharding of an instruction in one form, of a tuple that of its arrays where they have one; nothing where it
    has none, or one that cannot be read."""
    written = instruction.attributes.get("sharding")
    if not isinstance(written, Verbatim):
        return ""
    try:
        found = parse_sharding(written.text)
    except ShardingValueError:
        return ""
    parts = {one.bare() for one in (found if isinstance(found, tuple) else (found,))}
    if len(parts) > 1:
        return "a tuple of several"
    return print_sharding(parts.pop()) if parts else ""


def sharding_fills(instructions: Iterable[Instruction]) -> dict[Instruction, tuple[str, str]]:
    """The fill of every instruction, and its words in the legend: what is on all devices is white."""
    colours: dict[str, str] = {}
    fills: dict[Instruction, tuple[str, str]] = {}
    for one in instructions:
        words = sharding_words(one)
        if words in _PLAIN:
            fills[one] = "#ffffff", words or "no sharding"
            continue
        colour = colours.setdefault(words, distinct_colour(len(colours)))
        fills[one] = colour, words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
    return fills
