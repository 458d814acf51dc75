"""Which pieces of a program's text LLVM compiles together.

Units are compiled at the same time, so they should take equally long; but each costs a millisecond for being one.
How a program is cut follows from its text alone, not from how many threads there are to compile it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Piece", "gather"]

_BYTES = 40_000
"""About how much text makes a unit."""

_LEAST_BYTES = 4_000
"""Less text than this takes less long than a unit does for being one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Functions that stay together: what they declare, their text, and how other units declare those of them that are
    called from there."""

    declarations: tuple[str, ...]
    definitions: str
    offers: tuple[str, ...] = ()


def gather(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """The texts of units of similar size; pieces keep their order in them."""
    units = _balanced([len(piece.definitions) for piece in pieces])
    return tuple(_text([pieces[number] for number in sorted(unit)]) for unit in sorted(units, key=min))


def _balanced(sizes: Sequence[int]) -> list[list[int]]:
    """Numbers of pieces, shared out: the longest first, each to where there is least so far."""
    units: list[list[int]] = [[] for _ in range(2 * -(-sum(sizes) // (2 * _BYTES)))]
    filled = [0] * len(units)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        least = filled.index(min(filled))
        units[least].append(number)
        filled[least] += sizes[number]
    while len(units) > 1 and min(filled) < _LEAST_BYTES:
        least = filled.index(min(filled))
        unit, size = units.pop(least), filled.pop(least)
        least = filled.index(min(filled))
        units[least] += unit
        filled[least] += size
    return units


def _text(pieces: Sequence[Piece]) -> str:
    """One unit, in which nothing is both declared and defined."""
    offered = {line for piece in pieces for line in piece.offers}
    declared = dict.fromkeys(line for piece in pieces for line in piece.declarations if line not in offered)
    return "\n".join([*declared, *(piece.definitions for piece in pieces)]) + "\n"
