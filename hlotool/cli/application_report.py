"""What a search for an application's configuration found: as a table, as JSON, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.cli.tables import Table, byte_text, plain_table, time_text
from hlotool.harness.application.measure import Figures
from hlotool.harness.application.pareto import cost_for, nothing_beats
from hlotool.harness.application.search import Row, Settings
from hlotool.harness.application.space import Space
from hlotool.inspect.pareto_picture import Alternative, Axis, pareto_picture
from hlotool.inspect.svg import byte_words, count_words, time_words
from hlotool.lazy_dataclass import dataclass

__all__ = ["Found", "report_json", "report_picture", "report_text"]

_ONLY_PREDICTED = 8
"""Rows of the table that were not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All rows of a search, the usual one among them, and the chosen one if any was good."""

    name: str
    settings: Settings
    space: Space
    rows: tuple[Row, ...]
    usual: Row
    chosen: Row | None


def _figures(row: Row) -> Figures | None:
    """What was measured; None where nothing was."""
    found = row.result
    return found.figures if found is not None and found.status == "measured" else None


def _front(rows: Sequence[Row]) -> set[int]:
    """The numbers of rows that were measured and that none of those beats."""
    measured = [(number, figures) for number, row in enumerate(rows) if (figures := _figures(row)) is not None]
    good = nothing_beats([figures for _, figures in measured])
    return {number for (number, _), is_good in zip(measured, good, strict=True) if is_good}


def report_json(found: Found) -> dict[str, Any]:
    front = _front(found.rows)
    return {
        "schema_version": 1,
        "kind": "optimise-app",
        "name": found.name,
        "goal": found.settings.goal,
        "budget": found.settings.budget,
        "accuracy": found.settings.accuracy,
        "space": found.space.json(),
        "usual": found.usual.configuration.json(),
        "chosen": None if found.chosen is None else found.chosen.configuration.json(),
        "rows": [_row_json(row, number in front) for number, row in enumerate(found.rows)],
    }


def _row_json(row: Row, front: bool) -> dict[str, Any]:
    result, figures = row.result, _figures(row)
    status = row.word.partition(":")[0]
    return {
        "configuration": row.configuration.json(),
        "pipeline": row.configuration.pipeline,
        "predicted": None if row.predicted is None else row.predicted.json(),
        "status": status,
        "reason": "" if result is None else result.reason,
        "error": None if result is None else result.error,
        "measured": None if figures is None else figures.json(),
        "runs": len(row.results),
        "front": front,
    }


def report_text(found: Found) -> str:
    """A table: what was measured, best first; then what went wrong; then the first of what was only predicted."""
    front = _front(found.rows)
    numbered = list(enumerate(found.rows))
    goal = found.settings.goal

    def order(pair: tuple[int, Row]) -> tuple[int, tuple[float, float], int]:
        number, row = pair
        figures = _figures(row)
        if figures is not None:
            return 0, cost_for(goal, figures) or (0.0, 0.0), number
        if row.result is not None:
            return 1, (0.0, 0.0), number
        ranked_by = "throughput" if goal == "energy" else goal
        cost = None if row.predicted is None else cost_for(ranked_by, row.predicted)
        return (2, cost, number) if cost is not None else (3, (0.0, 0.0), number)

    ordered = sorted(numbered, key=order)
    tried = [pair for pair in ordered if pair[1].result is not None]
    others = [pair for pair in ordered if pair[1].result is None]
    shown = tried + others[:_ONLY_PREDICTED]
    has_energy = any((figures := _figures(row)) is not None and figures.energy is not None for row in found.rows)
    headings = (
        "", "configuration", "latency", "predicted", "items/s", "predicted", "memory", "predicted",
        *(("energy",) if has_energy else ()), "error", "how it is known",
    )  # fmt: skip
    rows = [_cells(row, number in front, row is found.chosen, has_energy) for number, row in shown]
    title = f"{found.name}: for {goal}, error at most {found.settings.accuracy:g}"
    lines = [plain_table(Table(title, headings, rows, frozenset(headings[2:-1])))]
    if len(others) > _ONLY_PREDICTED:
        lines.append(f"  and {len(others) - _ONLY_PREDICTED} more that were not measured")
    lines.append("  * nothing that was measured beats it; > chosen")
    if found.chosen is not None:
        lines += ["", _summary(found)]
    return "\n".join(lines) + "\n"


def _cells(row: Row, front: bool, chosen: bool, has_energy: bool) -> tuple[str, ...]:
    got, expected = _figures(row), row.predicted
    error = None if row.result is None else row.result.error
    mark = ">" if chosen else "*" if front else ""
    return (
        mark, str(row.configuration), *_pair(got, expected, "latency", time_text),
        *_pair(got, expected, "throughput", count_words), *_pair(got, expected, "memory", byte_text),
        *((_one(got, "energy", lambda joules: f"{joules:.3g} J"),) if has_energy else ()),
        "" if error is None else f"{error:.2g}", row.word,
    )  # fmt: skip


def _pair(got: Figures | None, expected: Figures | None, name: str, words: Any) -> tuple[str, str]:
    return _one(got, name, words), _one(expected, name, words)


def _one(figures: Figures | None, name: str, words: Any) -> str:
    value = None if figures is None else getattr(figures, name)
    return "" if value is None else str(words(value))


def _summary(found: Found) -> str:
    chosen, usual = found.chosen, found.usual
    assert chosen is not None
    said = f"chosen: {chosen.configuration} (passes: {chosen.configuration.pipeline})"
    mine, others = _figures(chosen), _figures(usual)
    if chosen is usual or mine is None or others is None:
        return said + ("; it is the usual configuration" if chosen is usual else "")
    name = found.settings.goal
    a, b = getattr(mine, name), getattr(others, name)
    if not a or not b:
        return said
    ratio = a / b if name == "throughput" else b / a
    better = {"latency": "as fast as", "throughput": "the throughput of", "memory": "less memory than",
              "energy": "less energy than"}[name]  # fmt: skip
    return f"{said}: {ratio:.2f} times {better} the usual configuration ({usual.configuration})"


def report_picture(found: Found) -> str:
    """Latency against throughput, or against what the goal is about."""
    name, axis = {
        "memory": ("memory", Axis("memory of all replicas", byte_words)),
        "energy": ("energy", Axis("energy of an item", lambda joules: f"{count_words(joules * 1e3)} mJ")),
    }.get(found.settings.goal, ("throughput", Axis("items per second", count_words)))
    front = _front(found.rows)
    points = []
    for number, row in enumerate(found.rows):
        measured = _figures(row)
        figures = measured or (row.predicted if row.result is None else None)
        if figures is None or figures.latency is None or getattr(figures, name) is None:
            continue
        points.append(
            Alternative(
                name=str(row.configuration), x=figures.latency, y=float(getattr(figures, name)),
                measured=measured is not None, front=number in front, chosen=row is found.chosen,
            )
        )
    title = f"{found.name}: configurations for {found.settings.goal}"
    return pareto_picture(points, Axis("latency of a request", time_words), axis, title)
