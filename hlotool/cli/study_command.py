"""``hlotool study``."""

from __future__ import annotations

import math
import shutil
import sys
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
from hlotool.cli.study_report import Study, csv_text, json_text, picture, text
from hlotool.cli.words import say
from hlotool.codegen.machine import host
from hlotool.harness.facts import processor_name
from hlotool.harness.journal import Journal
from hlotool.harness.study.peers import PEERS, Framework
from hlotool.harness.study.point import EAGER, Effort, Laboratory
from hlotool.harness.study.study import (
    BATCHES,
    LAYERS,
    QUICK,
    WIDTHS,
    configurations,
    measure_all,
    slower_points,
)
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
        for name, content in (("svg", picture(study)), ("csv", csv_text(study)), ("json", json_text(study))):
            write_text(str(Path(options.folder) / f"mlp.{name}"), content)
    write_text(None, {"text": text, "json": json_text, "csv": csv_text}[options.form](study))
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


def _study(options: MlpOptions) -> Study:
    layers, widths, batches = QUICK if options.quick else (LAYERS, WIDTHS, BATCHES)
    wanted = configurations(options.layers or layers, options.widths or widths, options.batches or batches)
    seconds = options.seconds if options.seconds is not None else 0.04 if options.quick else 0.4
    effort = Effort(options.rounds, seconds, seconds, seconds / 2)
    with ExitStack() as stack:
        peers = []
        for label, python in options.peers.items():
            peers.append(peer := Framework(label, python, options.threads))
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
            journal = Journal.open(path, about, "choose another folder, or --restart")
        laboratory = Laboratory(effort, options.threads, peers)
        budget = math.inf if options.budget is None else options.budget
        tell = stack.enter_context(progress(after=0))
        return Study(measure_all(wanted, laboratory.measure, journal, budget, tell), len(wanted), about)
