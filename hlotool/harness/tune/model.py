"""Which candidate to try next: a model of what choices gain, learnt over all kernels of a search as it goes.

The model is linear in features of a choice and of the kernel that it is for; a candidate's rank is what it should gain
and how little is known of it (LinUCB; Li, Chu, Langford and Schapire, "A contextual-bandit approach to personalized
news article recommendation", 2010).  With scikit-learn, gradient-boosted trees say what a candidate should gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hlotool.harness.tune.subjects import Subject
from hlotool.ir import UnsupportedError

__all__ = ["Model", "ModelName"]

ModelName = Literal["linear", "trees"]

_PRIOR = 0.3
"""How much is made of what was measured once."""
_CURIOSITY = 0.05
"""What a candidate of which nothing is known may gain, as a logarithm of times."""
_PARTS = ("alone", "with bytes", "with operations")
_ENOUGH = 20
"""Candidates measured from which trees are grown."""
_MORE = 1.2
"""How many times as many there are when they are grown anew: their time is a small part of that of measurements."""


class Model:
    """Learns the logarithm of what a candidate's time is divided by, from one choice more that it has."""

    def __init__(self, name: ModelName = "linear") -> None:
        self._names: dict[tuple[str, str, int], int] = {}  # of features
        self._trees = _trees() if name == "trees" else None
        self._knobs: dict[str, int] = {}
        self._rows: list[list[float]] = []  # that trees are grown from, and their gains
        self._gains: list[float] = []
        self._grown = 0
        self._inverse: npt.NDArray[np.float64] = np.zeros((0, 0))
        self._moments: npt.NDArray[np.float64] = np.zeros(0)

    def learn(self, subject: Subject, change: tuple[str, int], gain: float) -> None:
        """One measurement: the logarithm of the ratio of times, cut to what a single choice may do."""
        places, values = self._features(subject, change)
        gain = min(max(gain, -0.5), 0.5)
        x = self._row(places, values)
        self._grow(len(x))
        ahead = self._inverse @ x
        self._inverse -= np.outer(ahead, ahead) / (1.0 + float(x @ ahead))  # Sherman and Morrison
        self._moments += gain * x
        if self._trees is not None:
            self._rows.append(self._numbers(subject, change))
            self._gains.append(gain)
            if len(self._rows) >= max(_ENOUGH, _MORE * self._grown):
                self._grown = len(self._rows)
                self._trees.fit(np.array(self._rows), np.array(self._gains))

    def rank(self, subject: Subject, change: tuple[str, int]) -> float:
        """What a choice may gain; the more, the sooner it is worth a try."""
        places, values = self._features(subject, change)
        x = self._row(places, values)
        self._grow(len(x))
        doubt = math.sqrt(max(0.0, float(x @ self._inverse @ x)) * _PRIOR)
        gain = float(self._inverse @ self._moments @ x)
        if self._trees is not None and self._grown:
            gain = float(self._trees.predict(np.array([self._numbers(subject, change)]))[0])
        return gain + _CURIOSITY * doubt

    def _features(self, subject: Subject, change: tuple[str, int]) -> tuple[list[int], list[float]]:
        """Places of features and their values: the choice by itself, and with the size of the kernel."""
        sizes = (1.0, *_sizes(subject))
        name = f"{subject.kind} {change[0]}"
        places = [
            self._names.setdefault((name, _PARTS[n], change[1]), len(self._names)) for n in range(3)
        ]
        return places, list(sizes)

    def _numbers(self, subject: Subject, change: tuple[str, int]) -> list[float]:
        """What trees go by: the knob, its value, and the size of the kernel."""
        knob = self._knobs.setdefault(f"{subject.kind} {change[0]}", len(self._knobs))
        return [float(knob), math.log2(change[1] + 1), *_sizes(subject)]

    def _row(self, places: Sequence[int], values: Sequence[float]) -> npt.NDArray[np.float64]:
        row = np.zeros(len(self._names))
        row[list(places)] = values
        return row

    def _grow(self, size: int) -> None:
        """Room for features that were not seen before, of which nothing is known."""
        before = len(self._moments)
        if size > before:
            inverse = np.eye(size) / _PRIOR
            inverse[:before, :before] = self._inverse
            self._inverse, self._moments = inverse, np.pad(self._moments, (0, size - before))


def _sizes(subject: Subject) -> tuple[float, float]:
    """The bytes and operations of a kernel, as numbers about as large as 1."""
    return (math.log10(subject.bytes + 1) - 6) / 2, (math.log10(subject.flops + 1) - 7) / 2


def _trees() -> Any:
    try:
        from sklearn.ensemble import GradientBoostingRegressor
    except ImportError:
        raise UnsupportedError("--model trees needs scikit-learn: pip install 'hlotool[tune]'") from None
    return GradientBoostingRegressor(n_estimators=60, max_depth=4, random_state=0)
