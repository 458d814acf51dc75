"""What quantising each product costs: a module that computes every product both ways, and a switch for each.

The module is compiled once; which products are small is an argument of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module
from hlotool.harness.native_values import ABOUT_RESULTS, with_results
from hlotool.harness.quantise.candidates import Candidate
from hlotool.harness.quantise.metric import Metric, decibels
from hlotool.harness.quantise.options import Sample
from hlotool.ir import Module, array, clone_module
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.quantise.placement import Recipe, place
from hlotool.passes.quantise.products import free_axes

__all__ = ["MOST_SAMPLES", "Layer", "Probe", "switched"]

MOST_SAMPLES = 16
"""Samples that single products are measured on; results are, over all."""
_WORST_CHANNELS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What quantising one product does.  `error` is that of the results with it alone; `own` is the signal to noise of
    its result with it alone, `total` with all that were chosen, in dB.  `channels` are the worst, each with that ratio
    of its own."""

    name: str
    error: float
    own: float
    total: float
    channels: tuple[tuple[int, float], ...] = ()


def switched(module: Module, recipes: Mapping[str, Recipe]) -> tuple[Module, list[str]]:
    """A copy of a module with one more parameter, pred[n], whose elements say which of n products are small, and the
    names of these, in order."""
    copy = clone_module(module)
    for name in ABOUT_RESULTS:
        copy.attributes.pop(name, None)
    entry = copy.entry
    names = [one.name for one in entry if one.name in recipes]
    first = next(iter(entry))
    build = Builder(entry, first)
    flags = build.parameter(len(entry.parameters), array("pred", (len(names),)), copy.unique_name("small"))
    switches = {
        name: build.reshape(build.slice(flags, (number,), (number + 1,)), ()) for number, name in enumerate(names)
    }
    place(entry, recipes, DecisionLog(), switches)
    return copy, names


class Probe:
    """The module with switches, run on some samples."""

    def __init__(
        self, module: Module, found: Sequence[Candidate], recipes: Mapping[str, Recipe], samples: Sequence[Sample],
        metric: Metric, tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.samples, self.metric, self.tell = samples[:MOST_SAMPLES], metric, tell
        made, self.names = switched(module, recipes)
        chosen = {one.operands[2].name: one for one in made.entry if one.opcode == "select"}
        variant, _ = with_results(made, [chosen[name] for name in self.names])
        self.program = compile_module(variant)
        self.axes = {
            one.product.name: free_axes(one.product, one.weights.operand).result
            for one in found if one.weights is not None
        }  # fmt: skip
        self.wanted = self.run(())

    def run(self, small: Sequence[str]) -> list[tuple[list[npt.NDArray[Any]], list[npt.NDArray[Any]]]]:
        """For each sample the results of the module with these products quantised, and those of all products."""
        flags = np.array([name in set(small) for name in self.names], np.bool_)
        rows = []
        for sample in self.samples:
            found = [np.asarray(one) for one in self.program(*sample.arrays, flags)]
            rows.append((found[: -len(self.names)], found[-len(self.names) :]))
        return rows

    def error(self, small: Sequence[str]) -> float:
        """The error of results with these products quantised."""
        return self._error(self.run(small))

    def _error(self, rows: Sequence[tuple[list[npt.NDArray[Any]], Any]]) -> float:
        return self.metric.of([row[0] for row in self.wanted], [row[0] for row in rows], self.samples)

    def alone(self) -> dict[str, Layer]:
        """What each product does alone (`total` is that, too)."""
        found = {}
        for number, name in enumerate(self.names):
            self.tell(f"measuring products: {number + 1} of {len(self.names)}")
            rows = self.run((name,))
            own, channels = self._ratio(rows, number, name)
            found[name] = Layer(name=name, error=self._error(rows), own=own, total=own, channels=channels)
        return found

    def together(self, small: Sequence[str]) -> dict[str, float]:
        """The signal to noise of every product with these ones quantised, in dB."""
        rows = self.run(small)
        return {name: self._ratio(rows, number, "")[0] for number, name in enumerate(self.names)}

    def _ratio(
        self, rows: Sequence[tuple[Any, list[npt.NDArray[Any]]]], number: int, name: str
    ) -> tuple[float, tuple[tuple[int, float], ...]]:
        """The signal to noise of a product, and its worst channels, if it has any."""
        axes = self.axes.get(name, ())
        signal = noise = np.zeros(())
        for (_, wanted), (_, found) in zip(self.wanted, rows, strict=True):
            good, bad = wanted[number].astype(np.float64), found[number].astype(np.float64)
            others = tuple(axis for axis in range(good.ndim) if axis not in axes)
            signal = signal + (good**2).sum(axis=others)
            noise = noise + ((good - bad) ** 2).sum(axis=others)
        whole = decibels(float(signal.sum()), float(noise.sum()))
        if not axes:
            return whole, ()
        each = [decibels(float(s), float(n)) for s, n in zip(signal.reshape(-1), noise.reshape(-1), strict=True)]
        worst = sorted(range(len(each)), key=lambda channel: (each[channel], channel))[:_WORST_CHANNELS]
        return whole, tuple((channel, each[channel]) for channel in worst)
