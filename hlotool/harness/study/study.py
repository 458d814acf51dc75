"""The study of perceptrons as a whole: which configurations, in which order, and what is known of all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from hlotool.harness.journal import Journal
from hlotool.harness.study.mlp import Configuration
from hlotool.harness.study.point import COMPILED, EAGER, Point, point_json, read_point
from hlotool.ir import InputError

__all__ = [
    "BATCHES", "LAYERS", "QUICK", "WIDTHS", "configurations", "facts_of", "geometric_mean", "measure_all",
    "slower_points",
]  # fmt: skip

LAYERS, WIDTHS, BATCHES = (1, 2, 3), (10, 30, 100, 300, 1000), (1, 4, 16, 64, 256)
"""The grid of the experiment, widths and batches on a scale of logarithms."""
QUICK = ((1,), (10, 100), (1, 64))
"""Layers, widths and batches of a small grid."""


def configurations(layers: Sequence[int], widths: Sequence[int], batches: Sequence[int]) -> list[Configuration]:
    """All of them, small ones first."""
    return [Configuration(*one) for one in product(sorted(layers), sorted(widths), sorted(batches))]


def measure_all(
    wanted: Sequence[Configuration],
    measure: Callable[[Configuration], Point],
    journal: Journal | None = None,
    budget: float = math.inf,
    tell: Callable[[str], None] = lambda words: None,
) -> list[Point]:
    """The points that are wanted: those of the journal, and others, which it gets as they are measured.

    No point is begun after `budget` seconds, so that there may be fewer; there is at least one more than before.
    InputError where the journal holds something else than points.
    """
    begin = time.monotonic()
    try:
        known = [read_point(row) for row in journal.rows] if journal is not None else []
    except (KeyError, TypeError) as error:
        raise InputError(f"the journal of the study has a row that is no point: {error}") from error
    points = {point.configuration: point for point in known}
    begun = False
    for number, configuration in enumerate(wanted):
        if configuration in points:
            continue
        if begun and time.monotonic() - begin >= budget:
            break
        tell(f"{number + 1} of {len(wanted)}: {configuration} ...")
        point = points[configuration] = measure(configuration)
        begun = True
        if journal is not None:
            journal.add(point_json(point))
    return [points[configuration] for configuration in wanted if configuration in points]


def geometric_mean(values: Sequence[float]) -> float:
    """Of numbers above zero; 1 of none."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 1.0


def slower_points(points: Sequence[Point], least: float) -> list[Point]:
    """Those whose compiled step is not at least so many times as quick as that op by op, compile time excluded."""
    return [point for point in points if not (point.relative(EAGER) or 0.0) >= least]


def facts_of(point: Point) -> dict[str, Any]:
    """What is computed from a point, by way."""
    return {
        way.label: {
            "relative": point.relative(way.label),
            "relative_with_compile": point.relative(way.label, with_compile=True),
            "break_even_steps": point.break_even(way.label),
        }
        for way in point.ways
        if way.label != COMPILED
    }
