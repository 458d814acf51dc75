"""What ``hlotool study mlp`` says: text, JSON, a table of CSV and the picture."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from hlotool.cli.tables import Table, plain_table, time_text
from hlotool.harness.study.mlp import EPOCHS, SAMPLES
from hlotool.harness.study.point import COMPILED, EAGER, LABELS, Point, point_json
from hlotool.harness.study.study import facts_of, geometric_mean
from hlotool.inspect.panels import Panel, Series, panels_picture
from hlotool.lazy_dataclass import dataclass

__all__ = ["Study", "csv_text", "json_text", "picture", "text"]


@dataclass(frozen=True, slots=True)
class Study:
    """Points, so many of which are `wanted`, and what the study is of: machine, threads, effort and peers."""

    points: Sequence[Point]
    wanted: int
    about: dict[str, Any]


def _labels(study: Study) -> list[str]:
    """What the compiled training is compared with."""
    return [*LABELS[1:], *study.about["peers"]]


def json_text(study: Study) -> str:
    about = {name: study.about[name] for name in ("tool_version", "machine", "threads", "effort", "peers")}
    points = [
        {
            **point_json(point), "parameters": point.configuration.parameters, "steps": point.configuration.steps,
            "against": facts_of(point),
        }
        for point in study.points
    ]  # fmt: skip
    report = {
        "schema_version": 1, "kind": "study-mlp", **about, "epochs": EPOCHS, "samples": SAMPLES,
        "wanted": study.wanted, "points": points,
    }  # fmt: skip
    return json.dumps(report, indent=1) + "\n"


_CSV = (
    "layers", "width", "batch", "parameters", "steps", "way", "compile_s", "step_s", "low_s", "high_s", "samples",
    "steady", "relative", "relative_with_compile", "break_even_steps", "difference",
)  # fmt: skip


def csv_text(study: Study) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_CSV)
    for point in study.points:
        c = point.configuration
        for way in point.ways:
            writer.writerow(
                (
                    c.layers, c.width, c.batch, c.parameters, c.steps, way.label,
                    *(_number(n) for n in (way.compile_s, way.step_s, way.low_s, way.high_s)), way.samples,
                    "yes" if way.steady else "no", _number(point.relative(way.label)),
                    _number(point.relative(way.label, with_compile=True)),
                    "" if way.label == COMPILED else point.break_even(way.label), way.difference,
                )
            )  # fmt: skip
    return stream.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def picture(study: Study) -> str:
    rows = [_panels(study, EAGER, False), _panels(study, EAGER, True)]
    rows += [_panels(study, label, False) for label in _labels(study) if label != EAGER]
    machine = study.about["machine"]
    notes = [
        f"{machine['name'] or machine['cpu']} ({machine['cpu']}), {study.about['threads']} threads, "
        f"hlotool {study.about['tool_version']}"
        + "".join(f", {label} {version}" for label, version in study.about["peers"].items()),
        f"Steps are measured; with compile time: {EPOCHS} epochs over {SAMPLES} samples, computed from these.",
    ]
    title = "Training of perceptrons: how many times as fast is it compiled?"
    return panels_picture([row for row in rows if row], title, notes, "width of the hidden layers")


def _panels(study: Study, label: str, with_compile: bool) -> list[Panel]:
    """A row: a panel for each number of layers, a line for each batch."""
    found = []
    for layers in dict.fromkeys(p.configuration.layers for p in study.points):
        series = []
        chosen = [p for p in study.points if p.configuration.layers == layers]
        for batch in dict.fromkeys(p.configuration.batch for p in chosen):
            values = [
                (float(p.configuration.width), p.relative(label, with_compile))
                for p in chosen if p.configuration.batch == batch
            ]  # fmt: skip
            points = tuple((x, y) for x, y in values if y is not None)
            if points:
                series.append(Series(f"batch {batch}", points))
        words = f"{layers} layer{'s' if layers > 1 else ''}, over {label}"
        found.append(Panel(words + (", with compiling" if with_compile else ""), tuple(series)))
    return found if any(panel.series for panel in found) else []


def text(study: Study) -> str:
    """The report for people."""
    machine = study.about["machine"]
    lines = [
        f"{machine['name'] or machine['cpu']} ({machine['cpu']}), {study.about['threads']} threads; "
        f"{len(study.points)} of {study.wanted} points",
        "",
        _speeds(study),
        "",
        _where(study),
        "",
    ]
    for label in _labels(study):
        for with_compile in (False, True):
            values = [v for p in study.points if (v := p.relative(label, with_compile)) is not None]
            if values:
                lines.append(
                    f"{label}, compile time {'included' if with_compile else 'excluded'}: "
                    f"{sum(v > 1 for v in values)} of {len(values)} points above 1, least {min(values):.3g}, "
                    f"geometric mean {geometric_mean(values):.3g}"
                )
    lines += [
        f"measured: steps and compiling.  Computed: {EPOCHS} epochs over {SAMPLES} samples, as compiling and so many",
        "steps at the median; dispatch of op by op, as calls times what one takes that computes next to nothing.",
        "~: the median had not settled within the warm-up; 'cached' is compiling with the code in the cache.",
    ]
    again = sum(point.attempts > 1 for point in study.points)
    if again:
        lines.append(f"{again} points were timed more than once, as something disturbed the machine")
    missing = {p.where.no_misses for p in study.points if p.where.no_misses}
    lines += [f"cache misses are not counted: {why}" for why in sorted(missing)]
    return "\n".join(lines) + "\n"


def _place(point: Point) -> tuple[str, ...]:
    c = point.configuration
    return str(c.layers), str(c.width), str(c.batch)


def _speeds(study: Study) -> str:
    labels = _labels(study)
    headings = (
        "layers", "width", "batch", "step", *(f"/ {label}" for label in labels), "with compile", "compile", "cached",
        "break-even", "of steps",
    )  # fmt: skip
    rows = []
    for point in study.points:
        ours, even = point.way(COMPILED), point.break_even(EAGER)
        rows.append(
            (
                *_place(point), _seconds(ours.step_s) + ("" if ours.steady else " ~"),
                *(_number(point.relative(label)) or "none" for label in labels),
                _number(point.relative(EAGER, with_compile=True)) or "none", _seconds(ours.compile_s),
                _seconds(point.cached_compile_s), "never" if even is None else str(even),
                str(point.configuration.steps),
            )
        )  # fmt: skip
    title = "compiled training, and how many times as long others take for a step"
    return plain_table(Table(title, headings, rows, frozenset(headings)))


def _where(study: Study) -> str:
    headings = (
        "layers", "width", "batch", "compiling", "call", "kernels", "between", "misses", "calls", "dispatch",
        "their kernels", "their misses",
    )  # fmt: skip
    rows = []
    for point in study.points:
        w, ours = point.where, point.way(COMPILED)
        total = ours.compile_s + point.configuration.steps * (ours.step_s or 0.0)
        compiled = w.call_s + w.kernels_s + w.between_s
        dispatch = w.eager_calls * w.eager_call_s
        eager = dispatch + w.eager_kernels_s
        rows.append(
            (
                *_place(point), _share(ours.compile_s, total),
                *(_share(part, compiled) for part in (w.call_s, w.kernels_s, w.between_s)), _count(w.misses),
                str(w.eager_calls), _share(dispatch, eager), _share(w.eager_kernels_s, eager), _count(w.eager_misses),
            )
        )  # fmt: skip
    title = f"where the time goes: of {EPOCHS} epochs, of a compiled step, of a step op by op"
    return plain_table(Table(title, headings, rows, frozenset(headings)))


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "none"


def _count(misses: float | None) -> str:
    return "none" if misses is None else f"{misses:.0f}"


def _seconds(value: float | None) -> str:
    return "none" if value is None else time_text(value)
