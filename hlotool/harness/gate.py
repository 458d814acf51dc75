"""Whether a program became slower: verdicts from the intervals of two medians, and what to do where they overlap.

A ratio lies between what the intervals of both medians allow (each wide enough that both hold together); only a ratio
that is above the limit anywhere in there is *slower*, and one that may lie on either side is *inconclusive*.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

from hlotool.harness.bench import Contestant
from hlotool.harness.statistics import larger, median_interval, summarise
from hlotool.lazy_dataclass import dataclass

__all__ = ["Gate", "Judgement", "Word", "confirm", "judge"]

Word = Literal["faster", "same", "slower", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Gate:
    """Slower means by more than `share`, with this confidence."""

    share: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """The ratio of a program's median to that of its baseline, between `low` and `high`; `p` is the probability of such
    samples if it is not slower by more than the gate allows."""

    word: Word
    ratio: float
    low: float
    high: float
    p: float


def judge(samples: Sequence[float], old: Sequence[float], gate: Gate | None) -> Judgement:
    """Hold samples against those of the baseline.  Without a gate nothing is inconclusive: where no difference is
    seen, they are the same."""
    share, confidence = (0.0, 0.99) if gate is None else (gate.share, gate.confidence)
    each = (1 + confidence) / 2
    new_low, new_high = median_interval(sorted(samples), each)
    old_low, old_high = median_interval(sorted(old), each)
    low, high = new_low / old_high, new_high / old_low
    ratio = summarise(samples).median / summarise(old).median
    p = larger(samples, [sample * (1 + share) for sample in old])
    enough = 2 * 0.5 ** min(len(samples), len(old)) <= 1 - each  # for intervals of that confidence
    word: Word = "faster" if high < 1 and enough else "same"
    if low > 1 + share and enough:
        word = "slower"
    elif gate is not None and (high > 1 + share or not enough):
        word = "inconclusive"
    return Judgement(word, ratio, low, high, p)


def confirm(
    first: Judgement, new: Contestant, old: Contestant | Sequence[float], gate: Gate, *, batches: tuple[int, int],
    seconds: float, rounds: int,
) -> tuple[Judgement, Sequence[float]]:
    """Measure once more, after a `first` judgement that does not pass; the judgement that holds, and the samples of
    `new` that it is from.

    Where the baseline is at hand the two take turns in random order, and what disturbs the machine disturbs both: that
    decides.  Where there are only its samples, slower is what is slower both times.
    """
    if isinstance(old, Sequence):
        again = new.sample(seconds, batches[0])
        second = judge(again, old, gate)
        if "slower" in (first.word, second.word) and first.word != second.word:
            second = Judgement("inconclusive", second.ratio, second.low, second.high, second.p)
        return second, again
    order = random.Random(0)
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for turn in order.sample((0, 1), 2):
            found[turn].extend((new, old)[turn].sample(seconds / rounds, batches[turn]))
    return judge(found[0], found[1], gate), found[0]
