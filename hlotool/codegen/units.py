"""Which pieces of a program's text LLVM compiles together.

Units are compiled at the same time, and while the next ones are being written; but each takes a millisecond for being
one.  How a program is cut follows from its text alone, not from how many threads there are to compile it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import PLUMBING

__all__ = ["Piece", "Units"]

_UNIT: Annotated[int, Threshold("microseconds")] = 6_000
"""About how many microseconds make a unit."""

_LEAST: Annotated[int, Threshold("microseconds")] = _UNIT // 2
"""Less than this waits for more, even if that makes the unit much too long."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Functions that stay together: what they declare, their text, and how other units declare those of them that are
    called from there."""

    declarations: tuple[str, ...]
    definitions: str
    offers: tuple[str, ...] = ()


class Units:
    """Pieces on their way to units.  `begin` is given a unit as soon as it is whole, so that LLVM can begin with it."""

    __slots__ = ("_begin", "_begun", "_called", "_pieces", "_size")

    def __init__(self, begin: Callable[[str], None]) -> None:
        self._begin = begin
        self._begun: list[str] = []
        self._called: set[str] = set()
        self._pieces: list[Piece] = []
        self._size = 0

    def add(self, piece: Piece) -> None:
        """Take another piece; those that are there make a unit once they take long enough."""
        size = _microseconds(piece)
        if self._size >= _LEAST and self._size + size > _UNIT:
            self._cut()
        self._pieces.append(piece)
        self._size += size
        if self._size >= _UNIT:
            self._cut()

    def _cut(self) -> None:
        self._begun.append(_text(self._pieces, {line for one in self._pieces for line in one.offers}))
        self._begin(self._begun[-1])
        self._called.update(line for one in self._pieces for line in one.declarations)
        self._pieces, self._size = [], 0

    def finish(self) -> tuple[str, ...]:
        """All units: those that have begun, and what is left; pieces keep their order."""
        left = (_text(self._pieces, self._called),) if self._pieces else ()
        return *self._begun, *left


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
