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


class Model:
    """Learns the logarithm of what a candidate's time is divided by, from one choice more that it has."""

    def __init__(self, name: ModelName = "linear") -> None:
        self._names: dict[tuple[str, str, int], int] = {}  # of features
        self._rows: list[tuple[list[int], list[float], float]] = []
        self._trees = _trees() if name == "trees" else None
        self._inverse: npt.NDArray[np.float64] = np.zeros((0, 0))
        self._moments: npt.NDArray[np.float64] = np.zeros(0)

    def learn(self, subject: Subject, change: tuple[str, int], gain: float) -> None:
        """One measurement: the logarithm of the ratio of times, cut to what a single choice may do."""
        places, values = self._features(subject, change)
        gain = min(max(gain, -0.5), 0.5)
        self._rows.append((places, values, gain))
        x = self._row(places, values)
        self._grow(len(x))
        ahead = self._inverse @ x
        self._inverse -= np.outer(ahead, ahead) / (1.0 + float(x @ ahead))  # Sherman and Morrison
        self._moments += gain * x
        if self._trees is not None and len(self._rows) >= _ENOUGH and len(self._rows) % 5 == 0:
            rows = np.array([np.pad(self._row(p, v), (0, len(x) - len(self._row(p, v)))) for p, v, _ in self._rows])
            self._trees.fit(rows, np.array([g for *_, g in self._rows]))

    def rank(self, subject: Subject, change: tuple[str, int]) -> float:
        """What a choice may gain; the more, the sooner it is worth a try."""
        places, values = self._features(subject, change)
        x = self._row(places, values)
        self._grow(len(x))
        doubt = math.sqrt(max(0.0, float(x @ self._inverse @ x)) * _PRIOR)
        gain = float(self._inverse @ self._moments @ x)
        if self._trees is not None and hasattr(self._trees, "estimators_"):
            width = self._trees.n_features_in_
            gain = float(self._trees.predict(np.resize(np.pad(x, (0, max(0, width - len(x)))), (1, width)))[0])
        return gain + _CURIOSITY * doubt

    def _features(self, subject: Subject, change: tuple[str, int]) -> tuple[list[int], list[float]]:
        """Places of features and their values: the choice by itself, and with the size of the kernel."""
        sizes = (1.0, (math.log10(subject.bytes + 1) - 6) / 2, (math.log10(subject.flops + 1) - 7) / 2)
        name = f"{subject.kind} {change[0]}"
        places = [
            self._names.setdefault((name, _PARTS[n], change[1]), len(self._names)) for n in range(3)
        ]
        return places, list(sizes)

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


def _trees() -> Any:
    try:
        from sklearn.ensemble import GradientBoostingRegressor
    except ImportError:
        raise UnsupportedError("--model trees needs scikit-learn: pip install 'hlotool[tune]'") from None
    return GradientBoostingRegressor(n_estimators=60, max_depth=3, random_state=0)
