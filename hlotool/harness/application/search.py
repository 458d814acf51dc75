"""The search: a model ranks all configurations, the best are measured while the budget lasts, the best of those again.

Meanwhile the kernels of the best one so far are tuned, if that is wanted, for those that read the database.

What was measured corrects the model: for each value of each knob by how much the model was off on average, so that the
next to be measured is the one that is then expected to be the best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import exp, log
from statistics import median
from typing import Any

from hlotool.harness.application.measure import Figures, Result, measure_configuration, result_of
from hlotool.harness.application.pareto import GOALS, cost_for
from hlotool.harness.application.predict import Expectation, expect, figures_for, form_of
from hlotool.harness.application.space import Configuration, Space, configuration_of
from hlotool.harness.children import ChildDied, Children, TimeLimit
from hlotool.harness.journal import Journal
from hlotool.ir import HloError, InputError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Entry", "Row", "Settings", "best_of", "entry_of", "search"]

_PREDICTING, _UNTUNED, _FIRST_ROUND = 0.25, 0.45, 0.8
"""The shares of the budget after which nothing more is predicted, those are measured that read a database, and no
configuration is measured for the first time."""
_TUNING = 0.25
"""The share in which kernels are tuned."""
_LEAST_TUNING = 5.0
"""Seconds for which that is worth a start."""
_CONFIRMED = 3
"""How many of the best are measured again, and the usual one with them."""
_ONCE = 3.0
"""Seconds that a measurement is taken to need before there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is asked for: the `goal`, the `budget` in seconds (those of the journal count), how far results may be off,
    how long a replica runs, and how long it may take to get there and back."""

    goal: str
    budget: float
    accuracy: float
    seconds: float = 1.0
    limit: float = 120.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A measurement, as the journal has it, and the seconds that it took of the budget."""

    configuration: Configuration
    result: Result
    seconds: float

    def json(self) -> dict[str, Any]:
        return {
            "configuration": self.configuration.json(), "result": self.result.json(),
            "seconds": round(self.seconds, 3),
        }  # fmt: skip


def entry_of(row: Mapping[str, Any]) -> Entry:
    """What `json` gave; InputError where that is none."""
    try:
        return Entry(configuration_of(row["configuration"]), result_of(row["result"]), float(row["seconds"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"a row of the journal is no measurement: {error}") from None


@dataclass(slots=True)
class Row:
    """A configuration: what is expected of it, if that is known, and how it went each time that it was measured."""

    configuration: Configuration
    predicted: Figures | None = None
    results: list[Result] = field(default_factory=list)

    @property
    def result(self) -> Result | None:
        """All measurements together: medians; or the first that did not go well."""
        if not self.results:
            return None
        bad = next((result for result in self.results if result.status != "measured"), None)
        if bad is not None:
            return bad
        figures = {
            name: median(found) if (found := [v for r in self.results if (v := getattr(r.figures, name)) is not None])
            else None
            for name in ("latency", "throughput", "memory", "energy")
        }  # fmt: skip
        error = max(result.error or 0.0 for result in self.results)
        return Result(status="measured", error=error, figures=Figures(**figures))

    @property
    def word(self) -> str:
        """``measured``, ``predicted only``, ``not predicted``, or what went wrong: ``refused: ...``."""
        found = self.result
        if found is None:
            return "not predicted" if self.predicted is None else "predicted only"
        return f"{found.status}: {found.reason}" if found.reason else found.status


def search(
    folder: str, space: Space, settings: Settings, journal: Journal, tell: Callable[[str], None],
    tune: Callable[[Configuration, float], None] | None = None,
) -> list[Row]:  # fmt: skip
    """All configurations of the space, as far as the budget goes; `tell` hears what is being done.

    The usual configuration is measured in any case.  `folder` holds the application, the cases of its batches, and a
    database of tuned kernels, into which `tune` puts those of a configuration, for which it has so many seconds.
    """
    rows = {configuration: Row(configuration) for configuration in space.configurations()}
    used = 0.0
    for entry in map(entry_of, journal.rows):
        used += entry.seconds
        if entry.configuration in rows:
            rows[entry.configuration].results.append(entry.result)
    begin = time.monotonic() - used

    def left(share: float = 1.0) -> float:
        return share * settings.budget - (time.monotonic() - begin)

    _predict(folder, list(rows.values()), lambda: left(_PREDICTING), tell)
    took: list[float] = []

    def measure(row: Row) -> None:
        count = sum(1 for other in rows.values() if other.results)
        tell(f"{count} of {len(rows)} measured, {max(0, left()):.0f} s left: {row.configuration}")
        start = time.monotonic()
        result = measure_configuration(
            folder, row.configuration, settings.seconds, settings.limit, settings.accuracy, settings.goal == "energy"
        )
        took.append(time.monotonic() - start)
        row.results.append(result)
        journal.add(Entry(row.configuration, result, took[-1]).json())

    usual = rows[space.usual]
    if not usual.results:
        measure(usual)
    every, untuned = list(rows.values()), [row for row in rows.values() if row.configuration.tuning == "off"]

    def measure_new(some: Sequence[Row], share: float) -> None:
        while left(share) > _typical(took) and (chosen := _next(some, settings.goal)) is not None:
            measure(chosen)

    if len(untuned) < len(every):
        measure_new(untuned, _UNTUNED)
        best, seconds = best_of(untuned, settings.goal), min(_TUNING * settings.budget, left(_FIRST_ROUND))
        tuned = any(row.results for row in every if row.configuration.tuning == "read")  # before it was stopped
        if tune is not None and not tuned and best is not None and seconds >= _LEAST_TUNING:
            tune(best.configuration, seconds)
            own = [row for row in every if form_of(row.configuration) == form_of(best.configuration)]
            _predict(folder, own, lambda: left(_FIRST_ROUND), tell)
    measure_new(every, _FIRST_ROUND)
    while left() > _typical(took):
        again = _to_confirm(every, usual, settings.goal)
        if again is None:
            break
        measure(again)
    return every


def _typical(took: Sequence[float]) -> float:
    return median(took) if took else _ONCE


def _predict(folder: str, rows: Sequence[Row], left: Callable[[], float], tell: Callable[[str], None]) -> None:
    """Ask the model for every form that there is time for, in a process of its own."""
    forms: dict[tuple[str, str, str, int], list[Row]] = {}
    for row in rows:
        forms.setdefault(form_of(row.configuration), []).append(row)
    threads = tuple(sorted({row.configuration.threads for row in rows}))
    with Children(1) as children:
        for number, own in enumerate(forms.values()):
            seconds = left()
            if number and seconds <= 0:
                return
            tell(f"{number} of {len(forms)} forms predicted: {own[0].configuration}")
            children.allow(max(30.0, seconds))
            expected: Expectation
            try:
                expected = children.submit(expect, folder, own[0].configuration, threads).result()
            except (ChildDied, TimeLimit, HloError):
                continue  # its measurement says what is wrong with it
            for row in own:
                row.predicted = figures_for(row.configuration, expected)


def _next(rows: Sequence[Row], goal: str) -> Row | None:
    """The configuration that is expected to be the best of those that were not measured; None where all were.

    Those come last of which one that differs in threads and replicas alone could not be made or was wrong, or of whose
    precision all were; and those without an expectation.
    """
    waiting = [row for row in rows if not row.results]
    if not waiting:
        return None
    factors = _corrections(rows, goal)
    bad = {_made_as(row) for row in rows if row.results and row.result and row.result.status != "measured"}
    precisions: dict[str, list[bool]] = {}
    for row in rows:
        if row.result is not None:
            precisions.setdefault(row.configuration.precision, []).append(row.result.status == "measured")
    hopeless = {name for name, good in precisions.items() if not any(good)}

    def rank(row: Row) -> tuple[bool, bool, float]:
        doubtful = _made_as(row) in bad or row.configuration.precision in hopeless
        cost = None if row.predicted is None else GOALS[_ranked_by(goal)](row.predicted)
        if cost is None:
            return doubtful, True, 0.0
        factor = _factor(row.configuration, factors)
        return doubtful, False, cost * factor if cost > 0 else cost / factor

    return min(waiting, key=rank)


def _made_as(row: Row) -> tuple[object, ...]:
    """What is compiled alike, whatever threads and replicas."""
    return *form_of(row.configuration), row.configuration.tuning


def best_of(rows: Sequence[Row], goal: str) -> Row | None:
    """The best of those that were measured."""
    costs = [
        (cost, number, row)
        for number, row in enumerate(rows)
        if (result := row.result) is not None and result.status == "measured"
        and (cost := cost_for(goal, result.figures)) is not None
    ]  # fmt: skip
    return min(costs)[2] if costs else None


def _ranked_by(goal: str) -> str:
    """What the model is asked for: it knows nothing of energy, which follows throughput at a given power."""
    return "throughput" if goal == "energy" else goal


def _corrections(rows: Sequence[Row], goal: str) -> Mapping[tuple[str, object], float]:
    """By how much measurements were above what was predicted: a logarithm for each value of each knob, fitted knob by
    knob to what the knobs before it leave over."""
    attribute = "memory" if goal == "memory" else "latency"
    left: dict[Configuration, float] = {}
    for row in rows:
        found = row.result
        if found is None or row.predicted is None:
            continue
        got, expected = getattr(found.figures, attribute), getattr(row.predicted, attribute)
        if got and expected:
            left[row.configuration] = log(got / expected)
    factors: dict[tuple[str, object], float] = {}
    for knob in ("", "precision", "level", "threads", "replicas", "target", "batch", "tuning"):
        groups: dict[object, list[Configuration]] = {}
        for configuration in left:
            groups.setdefault(getattr(configuration, knob) if knob else "", []).append(configuration)
        for value, own in groups.items():
            mean = sum(left[one] for one in own) / len(own)
            factors[knob, value] = mean
            for one in own:
                left[one] -= mean
    return factors


def _factor(configuration: Configuration, factors: Mapping[tuple[str, object], float]) -> float:
    own = configuration.json()
    return exp(sum(mean for (knob, value), mean in factors.items() if not knob or own[knob] == value))


def _to_confirm(rows: Sequence[Row], usual: Row, goal: str) -> Row | None:
    """The one of the best, and of the usual configuration, that was measured least often, up to three times."""
    good = [row for row in rows if row.result is not None and row.result.status == "measured"]
    costs = {id(row): cost for row in good if row.result and (cost := cost_for(goal, row.result.figures)) is not None}
    best = sorted((row for row in good if id(row) in costs), key=lambda row: costs[id(row)])[:_CONFIRMED]
    if usual in good and all(row is not usual for row in best):
        best.append(usual)
    waiting = [row for row in best if len(row.results) < 3]
    return min(waiting, key=lambda row: len(row.results)) if waiting else None
