"""``hlotool study``."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import hlotool
from hlotool.cli.durations import Seconds
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import form_option, threads_option
from hlotool.cli.output import write_text
from hlotool.cli.progress import progress
from hlotool.cli.study_model import model_command
from hlotool.cli.tables import Table, plain_table, time_text
from hlotool.cli.words import say
from hlotool.codegen.machine import host
from hlotool.harness.facts import processor_name
from hlotool.harness.study.journal import Journal
from hlotool.harness.study.mlp import EPOCHS, SAMPLES
from hlotool.harness.study.peers import PEERS, PeerProcess
from hlotool.harness.study.point import COMPILED, EAGER, LABELS, Effort, Laboratory, Point, point_json
from hlotool.harness.study.study import (
    BATCHES,
    LAYERS,
    QUICK,
    WIDTHS,
    configurations,
    facts_of,
    geometric_mean,
    measure_all,
    slower_points,
)
from hlotool.inspect.panels import Panel, Series, panels_picture
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.pool import default_threads

__all__ = ["command"]


@click.group("study")
def command() -> None:
    """When does compiling pay?  Of the training of perceptrons (mlp), and of the parts of any module (model).

    \b
    Examples:
        hlotool study mlp --quick                     a small grid, in half a minute
        hlotool study mlp -o study                    all of it: picture, table, JSON; goes on where it was stopped
        hlotool study mlp -o study --peer torch=/opt/torch/bin/python
        hlotool study model samples/mlp_step.hlo      what each fusion and cluster brings
    """


command.add_command(model_command)


class Numbers(click.ParamType[tuple[int, ...]]):
    """Numbers between commas: ``10,100``."""

    name = "numbers"

    def __init__(self, most: int) -> None:
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isascii() and part.isdecimal() and 1 <= int(part[:9]) <= self._most for part in parts):
            self.fail(f"{value!r}: expected numbers from 1 to {self._most} between commas, as in 10,100", param, ctx)
        return tuple(sorted({int(part) for part in parts}))


def _peers(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Label -> Python."""
    found = {}
    for value in values:
        label, _, python = value.partition("=")
        if label not in PEERS:
            raise click.BadParameter(f"{label!r} is none of {', '.join(PEERS)}", context, parameter)
        python = python or sys.executable
        if shutil.which(python) is None:
            raise click.BadParameter(f"there is no program {python!r}", context, parameter)
        found[label] = python
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MlpOptions:
    """What the user asks for, by the names of the command line's parameters."""

    quick: bool
    layers: tuple[int, ...] | None
    widths: tuple[int, ...] | None
    batches: tuple[int, ...] | None
    peers: dict[str, str]
    rounds: int
    seconds: float | None
    budget: float | None
    fail_below: float | None
    folder: str | None
    restart: bool
    threads: int | None
    form: str


@dataclass(frozen=True, slots=True)
class _Study:
    """Points, those that are `wanted`, and what the study is of."""

    points: Sequence[Point]
    wanted: int
    about: dict[str, Any]


@command.command("mlp")
@click.option("--quick", is_flag=True, help="A small grid, measured for a tenth of the time.")
@click.option("--layers", type=Numbers(16), metavar="N,...", help="Hidden layers; by default 1,2,3.")
@click.option("--widths", type=Numbers(10_000), metavar="N,...", help="Units of a layer; by default 10,30,...,1000.")
@click.option("--batches", type=Numbers(506), metavar="N,...", help="Samples of a step; by default 1,4,16,64,256.")
@click.option(
    "--peer", "peers", multiple=True, callback=_peers, metavar="NAME[=PYTHON]",
    help="Time a framework, too, under a Python that has it: tensorflow, tensorflow-xla, torch, torch-compile.",
)  # fmt: skip
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Turns that each way takes.")
@click.option("--time", "seconds", type=click.FloatRange(0), help="Seconds for each way; by default 0.4.")
@click.option(
    "--budget", type=Seconds(), metavar="TIME",
    help="Begin no point after so long (90s, 4min); the next call with the same -o goes on.",
)  # fmt: skip
@click.option(
    "--fail-below", type=click.FloatRange(0), metavar="RATIO",
    help="Exit 1 where a compiled step is not so many times as quick as one op by op.",
)  # fmt: skip
@click.option(
    "-o", "--output", "folder", type=click.Path(file_okay=False), metavar="FOLDER",
    help="Write mlp.svg, mlp.csv and mlp.json there once all is measured, and mlp.jsonl on the way.",
)  # fmt: skip
@click.option("--restart", is_flag=True, help="Forget what FOLDER/mlp.jsonl has.")
@threads_option
@form_option("text", "json", "csv")
def mlp_command(**given: Any) -> None:
    """Train perceptrons compiled and uncompiled: how many times as fast is a step, and from when on does it pay?

    After Neill, Drebes and Pop: 13 features, one to three hidden layers, mean squared error, Adam, 20 epochs over 506
    samples (drawn here, the same each time).  The step is made by hlotool itself, with the gradient of its own, and
    runs compiled; with one native call for every operation (op-by-op); written with NumPy; and in the frameworks that
    --peer names, without and with their compilers.  All begin with the same weights.  Before anything is timed the
    losses and weights of the first steps are compared with those op by op; what differs is not timed, and exit code 1
    says so.

    Measured are single steps (medians of samples that take turns) and the time to compile, without a cache; the time
    of 20 epochs is computed from these.  Operations of op-by-op and NumPy count as ready-made.  Break-even is the
    number of steps from which on compiling has paid.

    Killed or out of its --budget, the same command with -o goes on where it was; exit code 1 says that it is not
    finished.

    \b
        hlotool study mlp --quick
        hlotool study mlp --layers 2 --widths 10,1000 --batches 1,256 --format csv
        hlotool study mlp -o study --budget 10min --fail-below 1
    """
    options = MlpOptions(**given)
    if options.restart and options.folder is None:
        raise click.UsageError("--restart goes with -o FOLDER")
    if options.budget is not None and options.folder is None:
        raise click.UsageError("--budget goes with -o FOLDER: what is measured would be lost")
    study = _study(options)
    finished = len(study.points) == study.wanted
    if options.folder is not None and finished:
        for name, content in (("svg", _picture(study)), ("csv", _csv(study)), ("json", _json(study))):
            write_text(str(Path(options.folder) / f"mlp.{name}"), content)
    write_text(None, {"text": _text, "json": _json, "csv": _csv}[options.form](study))
    failing = [f"{p.configuration}: {w.label}: {w.difference}" for p in study.points for w in p.ways if w.difference]
    if options.fail_below is not None:
        failing += [
            f"{point.configuration}: compiled it is {point.relative(EAGER) or 0.0:.3g} times as quick as op by op, "
            f"less than {options.fail_below:g}"
            for point in slower_points(study.points, options.fail_below)
        ]
    if not finished:
        failing.append(f"{len(study.points)} of {study.wanted} points are measured; the same command goes on")
    for line in failing:
        say(line, err=True)
    if failing:
        raise CheckFailed


def _study(options: MlpOptions) -> _Study:
    layers, widths, batches = QUICK if options.quick else (LAYERS, WIDTHS, BATCHES)
    wanted = configurations(options.layers or layers, options.widths or widths, options.batches or batches)
    seconds = options.seconds if options.seconds is not None else 0.04 if options.quick else 0.4
    effort = Effort(options.rounds, seconds, seconds, seconds / 2)
    with ExitStack() as stack:
        peers = []
        for label, python in options.peers.items():
            peers.append(peer := PeerProcess(label, python, options.threads))
            stack.callback(peer.close)
        about = {
            "kind": "study-mlp-journal",
            "tool_version": hlotool.__version__,
            "machine": {"name": processor_name(), "cpu": host().cpu, "cores": host().cores},
            "threads": options.threads or default_threads(),
            "effort": asdict(effort),
            "peers": {peer.label: peer.version for peer in peers},
        }
        journal = None
        if options.folder is not None:
            path = Path(options.folder) / "mlp.jsonl"
            if options.restart:
                path.unlink(missing_ok=True)
            journal = Journal(path, about)
        laboratory = Laboratory(effort, options.threads, peers)
        budget = math.inf if options.budget is None else options.budget
        tell = stack.enter_context(progress(after=0))
        return _Study(measure_all(wanted, laboratory.measure, journal, budget, tell), len(wanted), about)


# ---- reports


def _labels(study: _Study) -> list[str]:
    """What the compiled training is compared with."""
    return [*LABELS[1:], *study.about["peers"]]


def _json(study: _Study) -> str:
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


def _csv(study: _Study) -> str:
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


def _picture(study: _Study) -> str:
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


def _panels(study: _Study, label: str, with_compile: bool) -> list[Panel]:
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


def _text(study: _Study) -> str:
    labels = _labels(study)
    machine = study.about["machine"]
    headings = (
        "layers", "width", "batch", "step", *(f"/ {label}" for label in labels), "with compile", "compile", "cached",
        "break-even", "of steps",
    )  # fmt: skip
    rows, where = [], []
    for point in study.points:
        c, ours, w = point.configuration, point.way(COMPILED), point.where
        place = (str(c.layers), str(c.width), str(c.batch))
        even = point.break_even(EAGER)
        rows.append(
            (
                *place, _seconds(ours.step_s) + ("" if ours.steady else " ~"),
                *(_number(point.relative(label)) or "none" for label in labels),
                _number(point.relative(EAGER, with_compile=True)) or "none", _seconds(ours.compile_s),
                _seconds(point.cached_compile_s), "never" if even is None else str(even), str(c.steps),
            )
        )  # fmt: skip
        total = max(w.call_s + w.kernels_s + w.between_s, 1e-12)
        eager = max(w.eager_calls * w.eager_call_s + w.eager_kernels_s, 1e-12)
        all_s = ours.compile_s + c.steps * (ours.step_s or 0.0)
        where.append(
            (
                *place, f"{ours.compile_s / all_s:.0%}" if all_s else "none",
                *(f"{part / total:.0%}" for part in (w.call_s, w.kernels_s, w.between_s)),
                "none" if w.misses is None else f"{w.misses:.0f}", str(w.eager_calls),
                f"{min(1.0, w.eager_calls * w.eager_call_s / eager):.0%}", f"{w.eager_kernels_s / eager:.0%}",
                "none" if w.eager_misses is None else f"{w.eager_misses:.0f}",
            )
        )  # fmt: skip
    spent = (
        "layers", "width", "batch", "compiling", "call", "kernels", "between", "misses", "calls", "dispatch",
        "their kernels", "their misses",
    )  # fmt: skip
    lines = [
        f"{machine['name'] or machine['cpu']} ({machine['cpu']}), {study.about['threads']} threads; "
        f"{len(study.points)} of {study.wanted} points",
        "",
        plain_table(Table("compiled training, and how many times as long others take for a step", headings, rows,
                          frozenset(headings))),
        "",
        plain_table(Table("where the time goes: of 20 epochs, of a compiled step, of a step op by op", spent, where,
                          frozenset(spent))),
        "",
    ]  # fmt: skip
    for label in labels:
        for with_compile in (False, True):
            values = [v for p in study.points if (v := p.relative(label, with_compile)) is not None]
            if values:
                lines.append(
                    f"{label}, compile time {'included' if with_compile else 'excluded'}: "
                    f"{sum(v > 1 for v in values)} of {len(values)} points above 1, least {min(values):.3g}, "
                    f"geometric mean {geometric_mean(values):.3g}"
                )
    lines += [
        f"measured: steps and compiling.  Computed: {EPOCHS} epochs over {SAMPLES} samples, as compiling and so many"
        " steps at the median; dispatch of op by op, as calls times what one takes that computes next to nothing.",
        "~: the median had not settled within the warm-up; 'cached' is compiling with the code in the cache.",
    ]
    missing = {p.where.no_misses for p in study.points if p.where.no_misses}
    lines += [f"cache misses are not counted: {why}" for why in sorted(missing)]
    return "\n".join(lines) + "\n"


def _seconds(value: float | None) -> str:
    return "none" if value is None else time_text(value)
