"""How far off a module is from another: over all samples, one number, the smaller the better."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hlotool.driver import compile_module
from hlotool.harness.quantise.options import Sample
from hlotool.ir import InputError, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["AccuracyLost", "Metric", "ModuleMetric", "RelativeError", "accuracy", "decibels", "metric_module"]

Arrays = Sequence[npt.NDArray[Any]]


class Metric(Protocol):
    """`words` says what it measures."""

    @property
    def words(self) -> str: ...

    def of(self, wanted: Sequence[Arrays], found: Sequence[Arrays], samples: Sequence[Sample]) -> float:
        """The error of what was found for each sample."""
        ...


@dataclass(frozen=True, slots=True)
class RelativeError:
    """The root mean square of differences over that of the wanted values: of the result that is the worst.

    Integers and predicates count as the numbers that they are.
    """

    words: str = "relative error of results, root mean square"

    def of(self, wanted: Sequence[Arrays], found: Sequence[Arrays], samples: Sequence[Sample]) -> float:
        worst = 0.0
        for number in range(len(wanted[0])):
            noise = signal = 0.0
            for good, bad in zip(wanted, found, strict=True):
                a, b = _wide(good[number]), _wide(bad[number])
                with np.errstate(all="ignore"):
                    noise += float((np.abs(a - b) ** 2).sum())
                    signal += float((np.abs(a) ** 2).sum())
            if not math.isfinite(noise):
                return math.inf
            worst = max(worst, math.sqrt(noise / signal) if signal else (math.inf if noise else 0.0))
        return worst


@dataclass(frozen=True, slots=True)
class AccuracyLost:
    """By how much fewer samples are told right: the largest number along the last dimension of the first result."""

    words: str = "accuracy lost"

    def of(self, wanted: Sequence[Arrays], found: Sequence[Arrays], samples: Sequence[Sample]) -> float:
        return max(0.0, accuracy(wanted, samples) - accuracy(found, samples))


def accuracy(results: Sequence[Arrays], samples: Sequence[Sample]) -> float:
    """The share of labels that the first result names.  InputError where labels do not fit it."""
    right = count = 0
    for arrays, sample in zip(results, samples, strict=True):
        assert sample.labels is not None
        named = np.argmax(np.asarray(arrays[0], np.float32), axis=-1)
        if sample.labels.size != named.size:
            raise InputError(f"{sample.labels.size} labels for a result that names {named.size}")
        right += int((named.reshape(-1) == sample.labels.reshape(-1)).sum())
        count += named.size
    return right / max(1, count)


@dataclass(frozen=True, slots=True)
class ModuleMetric:
    """The mean over samples of what a module gives for the wanted results, followed by those that were found."""

    run: Callable[..., Any]
    words: str

    def of(self, wanted: Sequence[Arrays], found: Sequence[Arrays], samples: Sequence[Sample]) -> float:
        values = []
        for good, bad in zip(wanted, found, strict=True):
            (value,) = self.run(*map(np.asarray, good), *map(np.asarray, bad))
            values.append(float(value))
        mean = sum(values) / len(values)
        return mean if math.isfinite(mean) else math.inf


def metric_module(metric: Module, module: Module) -> ModuleMetric:
    """What a module computes; InputError unless it takes the results of `module` twice and gives a number."""
    results = [leaf.without_layout() for leaf in module.entry.root.shape.leaves() if leaf.is_array]
    given = [leaf.without_layout() for one in metric.entry.parameters for leaf in one.shape.leaves() if leaf.is_array]
    if given != results * 2:
        wanted = ", ".join(map(str, results * 2))
        raise InputError(f"--metric: {metric.name} takes {', '.join(map(str, given))}; expected the results of the "
                         f"module, wanted and found: {wanted}")  # fmt: skip
    root = metric.entry.root.shape
    if not root.is_array or root.dimensions or root.element_type not in ("f32", "f64"):
        raise InputError(f"--metric: {metric.name} gives {root}; expected f32[] or f64[]")
    return ModuleMetric(compile_module(metric).run, metric.name)


def decibels(signal: float, noise: float) -> float:
    """The signal to quantisation noise ratio of two sums of squares, in dB; infinite without noise."""
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal and math.isfinite(noise) else -math.inf


def _wide(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(array).astype(np.complex128 if np.iscomplexobj(array) else np.float64)
