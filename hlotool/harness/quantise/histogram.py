"""What calibration keeps of an array that it sees again and again: range, counts by value, means."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.ir import InputError
from hlotool.lazy_dataclass import dataclass

__all__ = ["BINS", "Histogram"]

BINS = 4096
"""Bins from -reach to reach."""

_LEAST_REACH = 2.0**-126


@dataclass(slots=True)
class Histogram:
    """Counts of values in `BINS` bins of equal width between -reach and reach, for any number of arrays in one pass.

    The reach is a power of two, so that bins merge in pairs where a later array reaches further.  `means` are
    of the elements at each place in the dimensions that `add` was told to keep.
    """

    name: str
    low: float = math.inf
    high: float = -math.inf
    reach: float = 0.0
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    sums: npt.NDArray[np.float64] | None = None
    rows: int = 0

    def add(self, values: npt.NDArray[Any], kept: tuple[int, ...] = ()) -> None:
        """Count the elements of an array, and add it up over all dimensions but `kept`.

        InputError where one is infinite or NaN.
        """
        if not values.size:
            return
        wide = np.asarray(values, np.float32)
        low, high = float(wide.min()), float(wide.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            bad = int(np.size(wide) - np.isfinite(wide).sum())
            raise InputError(f"calibration: {self.name} has {bad:,} values of {wide.size:,} that are infinite or NaN")
        self.low, self.high = min(self.low, low), max(self.high, high)
        most = max(-low, high, _LEAST_REACH)
        reach = 2.0 ** math.ceil(math.log2(most))
        if not self.reach:
            self.reach = reach
        while self.reach < reach:
            self._widen()
        places = np.floor((wide.astype(np.float64) + self.reach) * (BINS / 2 / self.reach)).astype(np.int64)
        self.counts += np.bincount(np.clip(places, 0, BINS - 1).reshape(-1), minlength=BINS)
        if kept:
            others = tuple(axis for axis in range(wide.ndim) if axis not in kept)
            total: npt.NDArray[Any] = wide.sum(axis=others, dtype=np.float64)
            self.sums = total if self.sums is None else self.sums + total
            self.rows += math.prod(wide.shape[axis] for axis in others)

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    @property
    def means(self) -> npt.NDArray[np.float64] | None:
        """The mean for each place in the dimensions that `add` kept."""
        return None if self.sums is None or not self.rows else self.sums / self.rows

    @property
    def centres(self) -> npt.NDArray[np.float64]:
        """The value in the middle of each bin."""
        found: npt.NDArray[Any] = (np.arange(BINS) + 0.5) * (2 * self.reach / BINS) - self.reach
        return found

    def magnitudes(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """The middles of bins of absolute values, from 0 up, and their counts."""
        half = BINS // 2
        return self.centres[half:], self.counts[half:] + self.counts[half - 1 :: -1]

    def _widen(self) -> None:
        """Twice the reach: bins merge in pairs, from the middle outwards."""
        pairs = self.counts.reshape(BINS // 2, 2).sum(1)
        self.counts = np.zeros(BINS, np.int64)
        self.counts[BINS // 4 : BINS // 4 + BINS // 2] = pairs
        self.reach *= 2
