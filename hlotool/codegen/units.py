"""Which pieces of a program's text LLVM compiles together.

Units are compiled at the same time, so they should take equally long; but each takes a millisecond for being one.
How a program is cut follows from its text alone, not from how many threads there are to compile it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlotool.codegen.kernel import PLUMBING

__all__ = ["Piece", "gather"]

_UNIT = 15_500
"""About how many microseconds make a unit."""

_LEAST = 5_000
"""Less than this is not worth a unit: one takes a millisecond for being one, and a thread three to get going."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Functions that stay together: what they declare, their text, and how other units declare those of them that are
    called from there."""

    declarations: tuple[str, ...]
    definitions: str
    offers: tuple[str, ...] = ()


def gather(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """The texts of units of similar size; pieces keep their order in them."""
    units = _balanced([_microseconds(piece) for piece in pieces])
    parts = [[pieces[number] for number in sorted(unit)] for unit in sorted(units, key=min)]
    called = [{line for piece in part for line in piece.declarations} for part in parts]
    return tuple(
        _text(part, set[str]().union(*(lines for other, lines in enumerate(called) if other != number)))
        for number, part in enumerate(parts)
    )


def _balanced(sizes: Sequence[int]) -> list[list[int]]:
    """Numbers of pieces, shared out: the longest first, each to where there is least so far."""
    units: list[list[int]] = [[] for _ in range(2 * -(-sum(sizes) // (2 * _UNIT)))]
    filled = [0] * len(units)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        least = filled.index(min(filled))
        units[least].append(number)
        filled[least] += sizes[number]
    while len(units) > 1 and min(filled) < _LEAST:
        least = filled.index(min(filled))
        unit, size = units.pop(least), filled.pop(least)
        least = filled.index(min(filled))
        units[least] += unit
        filled[least] += size
    return units


def _microseconds(piece: Piece) -> int:
    """About how long LLVM takes: for its blocks as much as for its instructions (fitted to 2000 functions)."""
    time = 0
    for text in (piece.definitions, *(line for line in piece.declarations if line.startswith("define"))):
        data = sum(len(line) for line in text.split("\n") if line.startswith("@")) if " constant [" in text else 0
        own = (len(text) - data) // 4 + 150 * text.count(":\n")
        time += own * 3 // 4 if PLUMBING in text else own
    return time


def _text(pieces: Sequence[Piece], called: set[str]) -> str:
    """One unit, in which nothing is both declared and defined; other units declare what is in `called`."""
    offered = {line for piece in pieces for line in piece.offers}
    declared = dict.fromkeys(line for piece in pieces for line in piece.declarations if line not in offered)
    return "\n".join([*declared, *(_open(piece, called) for piece in pieces)]) + "\n"


def _open(piece: Piece, called: set[str]) -> str:
    """The text of `piece`, where nothing is internal that others call."""
    text = piece.definitions
    for line in piece.offers:
        if line in called:
            head = line[len("declare ") : line.index("(") + 1]
            text = text.replace(f"define internal {head}", f"define {head}")
    return text
