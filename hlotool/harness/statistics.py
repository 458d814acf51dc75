"""Statistics of timings: medians, their intervals, and whether one program is slower than another.

Nothing is assumed about the distribution, which has a long tail: order statistics and ranks only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hlotool.lazy_dataclass import dataclass

__all__ = ["Summary", "larger", "median_interval", "quantile", "summarise"]


@dataclass(frozen=True, slots=True)
class Summary:
    """Of samples in seconds: the median with its interval, and what else is worth knowing of them.

    `outliers` is the share of samples above the third quartile by more than three times the quartiles' distance
    (Tukey's far-out values).
    """

    median: float
    low: float
    high: float
    best: float
    p90: float
    count: int
    outliers: float


def quantile(ordered: Sequence[float], share: float) -> float:
    """A quantile of sorted samples, interpolated between neighbours."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def median_interval(ordered: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The distribution-free interval of the median of sorted samples: two order statistics, whose ranks leave out no
    more of the binomial distribution than they may (David and Nagaraja, Order Statistics, 2003, section 7.1).

    All samples where there are too few of them for the confidence.
    """
    count = len(ordered)
    if count > 100:
        width = _normal_quantile(0.5 + confidence / 2) * math.sqrt(count) / 2
        rank = max(0, math.floor(count / 2 - width) - 1)
    else:
        rank, tail = 0, 0.5**count
        while 2 * (tail + math.comb(count, rank + 1) * 0.5**count) <= 1 - confidence:
            rank += 1
            tail += math.comb(count, rank) * 0.5**count
    return ordered[rank], ordered[count - 1 - rank]


def _normal_quantile(share: float) -> float:
    """Where the standard normal distribution reaches `share`, by halving."""
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        if 0.5 * math.erfc(-middle / math.sqrt(2)) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def summarise(samples: Sequence[float], confidence: float = 0.95) -> Summary:
    """The summary of at least one sample."""
    ordered = sorted(samples)
    first, third = quantile(ordered, 0.25), quantile(ordered, 0.75)
    limit = third + 3 * (third - first)
    low, high = median_interval(ordered, confidence)
    outliers = sum(s > limit for s in ordered) / len(ordered)
    return Summary(quantile(ordered, 0.5), low, high, ordered[0], quantile(ordered, 0.9), len(ordered), outliers)


def larger(samples: Sequence[float], others: Sequence[float]) -> float:
    """The one-sided p-value of the Mann-Whitney test that `samples` tend to be larger than `others`: the probability
    of such ranks if they do not.  Normal approximation with the correction for ties (Annals of Math. Statistics 18,
    1947); 1 where either is empty or all are equal."""
    n, m = len(samples), len(others)
    merged = sorted([*((s, True) for s in samples), *((s, False) for s in others)])
    ranks, ties, at = 0.0, 0.0, 0
    while at < len(merged):
        end = at
        while end < len(merged) and merged[end][0] == merged[at][0]:
            end += 1
        rank = (at + 1 + end) / 2
        ranks += rank * sum(own for _, own in merged[at:end])
        ties += (end - at) ** 3 - (end - at)
        at = end
    total = n + m
    if not n or not m:
        return 1.0
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    statistic = ranks - n * (n + 1) / 2
    z = (statistic - n * m / 2 - 0.5) / math.sqrt(variance)
    return 0.5 * math.erfc(z / math.sqrt(2))
