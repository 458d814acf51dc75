"""Halving: where good turns into bad, and the fewest of many things that fail together.

Nothing is taken to be monotone.  Both ends are known, and what is found are neighbours, of which one was tried and is
good, the other was tried and is bad: a place where it turns, of which there may be several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from hlotool.harness.failure import Outcome
from hlotool.lazy_dataclass import dataclass

__all__ = ["Boundary", "boundary", "fewest"]

_T = TypeVar("_T")

_MOST_SKIPPED = 32
"""Undecided places between two ends after which others there are not tried: they seem to be so all over."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """`good` and `bad` were tried and are so; all places between them that were tried are undecided."""

    good: int
    bad: int

    @property
    def is_exact(self) -> bool:
        """Whether there is nothing between them: `bad` is the place where it turns."""
        return self.bad == self.good + 1


def boundary(good: int, bad: int, ask: Callable[[int], Outcome]) -> Boundary:
    """Where good turns into bad between two places that are so; undecided places are gone around.

    It takes the binary logarithm of ``bad - good`` questions where none is undecided.
    """
    skipped: set[int] = set()
    while True:
        place = _next(good, bad, skipped)
        if place is None:
            return Boundary(good, bad)
        verdict = ask(place).verdict
        if verdict == "good":
            good = place
        elif verdict == "bad":
            bad = place
        else:
            skipped.add(place)


def _next(good: int, bad: int, skipped: set[int]) -> int | None:
    """The place to try: in the middle, else at the quarters, the eighths, ... and in the end anywhere."""
    inside = sum(good < place < bad for place in skipped)
    if inside == bad - good - 1 or inside >= _MOST_SKIPPED:
        return None
    for part in _parts():
        place = good + 1 + int(part * (bad - good - 1))
        if place not in skipped:
            return place
    raise AssertionError


def _parts() -> Iterator[float]:
    """1/2, 1/4, 3/4, 1/8, 3/8, ..."""
    below = 2
    while True:
        yield from (above / below for above in range(1, below, 2))
        below *= 2


def fewest(items: Sequence[_T], fails: Callable[[Sequence[_T]], bool]) -> list[_T]:
    """Items that fail together, and no longer do without any one of them; all of `items` fail.

    Delta debugging (Zeller and Hildebrandt, 2002) by leaving out parts, which get smaller.
    """
    kept, parts = list(items), 2
    while kept:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if fails(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(kept))
    return kept
