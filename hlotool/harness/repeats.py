"""Whether a program gives the same bits every time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.lazy_dataclass import dataclass

__all__ = ["Differing", "first_differences"]


@dataclass(frozen=True, slots=True)
class Differing:
    """Result `output` had, in run number `run` (from 2), `count` elements with other bits than in the first one; the
    first of them is at `index`."""

    output: int
    run: int
    count: int
    index: tuple[int, ...]


def first_differences(
    first: Sequence[npt.NDArray[Any]], again: Callable[[], Iterable[npt.NDArray[Any]]], runs: int
) -> list[Differing]:
    """Run `again` until there were `runs` runs, and compare its results with the `first` ones, bit for bit.

    For each result the first run that differs is given.  Bits of NaNs count, and the signs of zeros.
    """
    found: dict[int, Differing] = {}
    for run in range(2, runs + 1):
        for number, (array, before) in enumerate(zip(again(), first, strict=True)):
            if number not in found:
                places = np.argwhere(_differ(array, before))
                if len(places):
                    found[number] = Differing(number, run, len(places), tuple(map(int, places[0])))
    return [found[number] for number in sorted(found)]


def _differ(array: npt.NDArray[Any], before: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Where two arrays of one type have other bits: everywhere if they differ in size."""
    if array.shape != before.shape:
        return np.ones(array.shape, np.bool_)
    words = [np.ascontiguousarray(a).reshape(*a.shape, 1).view(np.uint8) for a in (array, before)]
    return np.asarray((words[0] != words[1]).any(axis=-1))
