"""Which pieces of a program's text LLVM compiles together.

Units are compiled at the same time, and while the next ones are being written; but each takes a millisecond for being
one.  Plumbing has units of its own, which LLVM does not optimise, where a program is worth several at all.  So have
functions whose variables become registers: passes go over the whole of a unit, but for plumbing.  How a program is cut
follows from its text alone, not from how many threads there are to compile it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import is_plumbing, is_promoted
from hlotool.lazy_dataclass import dataclass

__all__ = ["Piece", "Units"]

_UNIT: Annotated[int, Threshold("microseconds")] = 6_000
"""About how many microseconds make a unit."""

_LEAST: Annotated[int, Threshold("microseconds")] = _UNIT // 2
"""Less than this waits for more, even if that makes the unit much too long."""

_FIRST: Annotated[int, Threshold("microseconds")] = _UNIT // 3
"""So much is enough for the first unit of all, for which LLVM has been waiting."""

_QUICK = 2
"""How many times as fast LLVM is with plumbing."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Functions that stay together: what they declare, their text, and how other units declare those of them that are
    called from there."""

    declarations: tuple[str, ...]
    definitions: str
    offers: tuple[str, ...] = ()


@dataclass(slots=True)
class _Waiting:
    """Pieces that wait for others to make a unit with: their numbers among all, they, and how long they take."""

    pieces: dict[int, Piece] = field(default_factory=dict)
    size: int = 0


class Units:
    """Pieces on their way to units.  `begin` is given a unit as soon as it is whole, so that LLVM can begin with it.

    If the program is to stay `whole`, as where nothing links units, there is but one.
    """

    __slots__ = ("_begin", "_begun", "_called", "_count", "_plumbing", "_promoted", "_whole", "_work")

    def __init__(self, begin: Callable[[str], None], whole: bool = False) -> None:
        self._begin = begin
        self._whole = whole
        self._begun: list[str] = []
        self._called: set[str] = set()
        self._count = 0
        self._work, self._plumbing, self._promoted = _Waiting(), _Waiting(), _Waiting()

    def add(self, piece: Piece) -> None:
        """Take another piece; those of its kind that are there make a unit once they take long enough."""
        text = "\n".join([*piece.declarations, piece.definitions])
        plumbing = is_plumbing(text)
        waiting = self._plumbing if plumbing else self._promoted if is_promoted(text) else self._work
        size = 0 if self._whole else _microseconds(piece) // (_QUICK if plumbing else 1)
        if waiting.size >= _LEAST and waiting.size + size > _UNIT:
            self._cut(waiting)
        waiting.pieces[self._count] = piece
        waiting.size += size
        self._count += 1
        if waiting.size >= (_UNIT if self._begun or plumbing else _FIRST):
            self._cut(waiting)

    def _cut(self, waiting: _Waiting) -> None:
        pieces = list(waiting.pieces.values())
        self._begun.append(_text(pieces, {line for one in pieces for line in one.offers}))
        self._begin(self._begun[-1])
        self._called.update(line for one in pieces for line in one.declarations)
        waiting.pieces, waiting.size = {}, 0

    def finish(self) -> tuple[str, ...]:
        """All units: those that have begun, and what is left; pieces of a kind keep their order."""
        left = [self._plumbing.pieces, self._work.pieces, self._promoted.pieces]
        if not self._begun and self._plumbing.size + self._work.size + self._promoted.size < _LEAST:
            with_plumbing = 2 if self._promoted.pieces else 1
            left[with_plumbing] = dict(sorted((left[0] | left[with_plumbing]).items()))
            left[0] = {}
        texts = []
        for pieces in filter(None, left):
            others = (one for rest in left if rest is not pieces for one in rest.values())
            called = self._called.union(line for one in others for line in one.declarations)
            texts.append(_text(list(pieces.values()), called))
        return *self._begun, *texts


def _microseconds(piece: Piece) -> int:
    """About how long LLVM takes: for its blocks as much as for its instructions (fitted to 2000 functions)."""
    time = 0
    for text in (piece.definitions, *(line for line in piece.declarations if line.startswith("define"))):
        data = sum(len(line) for line in text.split("\n") if line.startswith("@")) if " constant [" in text else 0
        time += (len(text) - data) // 4 + 150 * text.count(":\n")
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
