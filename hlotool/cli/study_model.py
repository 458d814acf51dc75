"""``hlotool study model``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

import hlotool
from hlotool.analysis.elided import refuse_elided
from hlotool.cli.common import read_module
from hlotool.cli.errors import CheckFailed
from hlotool.cli.interruptible import interruptible
from hlotool.cli.options import elided_option, file_argument, form_option, module_inputs_options, threads_option
from hlotool.cli.output import write_text
from hlotool.cli.progress import progress
from hlotool.cli.tables import Table, plain_table, time_text
from hlotool.cli.words import say
from hlotool.codegen.machine import host
from hlotool.driver import on_devices
from hlotool.harness.elided import filled
from hlotool.harness.facts import processor_name
from hlotool.harness.input_files import module_inputs
from hlotool.harness.study.worth import ModuleWorth, study_module
from hlotool.ir.brief import one_line
from hlotool.lazy_dataclass import dataclass

__all__ = ["model_command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What the user asks for, by the names of the command line's parameters."""

    file: str
    inputs: str | None
    seed: int
    fusions: int
    clusters: int
    seconds: float
    top: int
    elided: str | None
    threads: int | None
    output: str | None
    form: str


@click.command("model")
@file_argument
@module_inputs_options()
@click.option("--fusions", type=click.IntRange(0), default=8, show_default=True, help="So many are left out in turn.")
@click.option("--clusters", type=click.IntRange(0), default=15, show_default=True, help="So many are run, at most.")
@click.option(
    "--time", "seconds", type=click.FloatRange(0), default=0.1, show_default=True,
    help="Seconds for each way to run each part.",
)  # fmt: skip
@click.option("--top", type=click.IntRange(1), default=12, show_default=True, metavar="N", help="Instructions shown.")
@elided_option
@threads_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write the report here.")
@form_option("text", "json")
def model_command(**given: Any) -> None:
    """Measure what compiling brings to FILE: per instruction, fusion and cluster, predicted and measured.

    A fusion is measured by leaving it out: the program runs in turns with it and without, when what is in it has
    kernels of its own.  A cluster (the whole, its halves, quarters and so on) runs in turns one by one, with a native
    call for each operation, and compiled.  Numbers are compared before anything is timed; exit code 1 says that some
    differ, or that a part does not run alone.

    Predictions are sums over operations: calls that are saved, and what fusions need not write and read, at the roof
    of this machine.  That is the rule by which backends with `least_gain` leave clusters to their fallback.  The last
    table says how often it is wrong, compile time included: a cluster pays when what it saves in so many runs is more
    than compiling it took, which the rule takes from the other clusters.

    \b
        hlotool study model samples/mlp_step.hlo
        hlotool study model samples/attention.hlo --fusions 3 --clusters 7 --format json
    """
    options = ModelOptions(**given)
    module = on_devices(read_module(options.file, runs=True), None, None)
    if options.elided is not None:
        module = filled(module, options.elided)
    refuse_elided(module)
    arguments = module_inputs(module, options.inputs, options.seed)
    os.environ["HLOTOOL_CACHE"] = "off"  # of this process: compile times are those of a first compilation
    with progress(after=0) as tell:
        found = interruptible(
            lambda: study_module(
                module, arguments, fusions=options.fusions, clusters=options.clusters, seconds=options.seconds,
                threads=options.threads, tell=tell,
            )
        )  # fmt: skip
    write_text(options.output, _json(options, found) if options.form == "json" else _text(options, found))
    problems = [f"without {one.name}: {one.problem}" for one in found.fusions if one.problem]
    problems += [f"{one.first} to {one.last}: {one.problem}" for one in found.clusters if one.problem]
    for line in problems:
        say(one_line(line), err=True)
    if problems:
        raise CheckFailed


def _json(options: ModelOptions, found: ModuleWorth) -> str:
    machine, figures = host(), found.figures
    report = {
        "schema_version": 1,
        "kind": "study-model",
        "tool_version": hlotool.__version__,
        "file": options.file,
        "machine": {"name": processor_name(), "cpu": machine.cpu, "cores": machine.cores},
        "eager_s": found.eager_s,
        "compiled_s": found.compiled_s,
        "compile_s": found.compile_s,
        "figures": {
            "call_s": figures.call, "start_s": figures.start, "flops_per_s": figures.roof.flops,
            "bytes_per_s": dict(figures.roof.rates), "compile_s": figures.compile,
            "compile_operation_s": figures.compile_operation,
        },
        "instructions": [{**asdict(one), "gain_s": one.gain_s} for one in found.instructions],
        "fusions": [{**asdict(one), "gain_s": one.gain_s} for one in found.fusions],
        "clusters": [{**asdict(one), "gain_s": one.gain_s} for one in found.clusters],
        "errors": [asdict(one) for one in found.errors],
    }  # fmt: skip
    return json.dumps(report, indent=1) + "\n"


def _text(options: ModelOptions, found: ModuleWorth) -> str:
    figures = found.figures
    lines = [
        f"{processor_name() or host().cpu} ({host().cpu})",
        f"one by one {time_text(found.eager_s)}, compiled {time_text(found.compiled_s)}: "
        f"{found.eager_s / found.compiled_s:.3g} times as quick; compiling took {time_text(found.compile_s)}",
        f"a call takes {time_text(figures.call)}, a further kernel {time_text(figures.start)}; compiling a cluster "
        f"{time_text(figures.compile)} and {time_text(figures.compile_operation)} for each operation",
        "",
        _instructions(found, options.top),
        "",
        _table("fusions: seconds of a run with and without each", ("fusion", "operations", "with", "without"), [
            (one.name, str(one.operations), _time(one.with_s), _time(one.without_s), _time(one.gain_s),
             time_text(one.predicted_s))
            for one in found.fusions
        ]),
        "",
        _table(
            "clusters: one by one and compiled", ("from", "to", "operations", "one by one", "compiled", "compile"), [
                (one.first, one.last, str(one.operations), _time(one.eager_s), _time(one.compiled_s),
                 _time(one.compile_s), _time(one.gain_s), time_text(one.predicted_s))
                for one in found.clusters
            ],
        ),
        "",
    ]  # fmt: skip
    for one in found.errors:
        wrong = one.compiled_in_vain + one.left
        share = f", {wrong / one.clusters:.0%}" if one.clusters else ""
        lines.append(
            f"over {one.runs:,} runs the rule is wrong about {wrong} of {one.clusters} clusters{share}: "
            f"{one.compiled_in_vain} compiled in vain, {one.left} left that would have paid"
        )
    return "\n".join(lines) + "\n"


def _instructions(found: ModuleWorth, top: int) -> str:
    rows = sorted(found.instructions, key=lambda one: -(one.gain_s if one.gain_s is not None else -1.0))
    more = f" (the first {top} of {len(rows)})" if len(rows) > top else ""
    return plain_table(
        Table(
            f"instructions: in a call of its own, predicted, and as a part of the compiled program{more}",
            ("instruction", "opcode", "alone", "predicted", "compiled", "gain"),
            [
                (one.name, one.opcode, time_text(one.eager_s), time_text(one.predicted_s), _time(one.compiled_s),
                 _time(one.gain_s))
                for one in rows[:top]
            ],
            frozenset({"alone", "predicted", "compiled", "gain"}),
        )
    )  # fmt: skip


def _table(title: str, headings: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    every = (*headings, "gain", "predicted")
    return plain_table(Table(title, every, rows, frozenset(every) - {"fusion", "from", "to"}))


def _time(seconds: float | None) -> str:
    return "none" if seconds is None else time_text(seconds)
