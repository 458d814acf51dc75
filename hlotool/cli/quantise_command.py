"""``hlotool quantise``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from hlotool.analysis.elided import refuse_elided
from hlotool.cli.common import read_module
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import Amount, form_option
from hlotool.cli.output import write_bytes, write_text
from hlotool.cli.progress import progress
from hlotool.cli.quantise_report import Speed, report_json, report_text, write_pages
from hlotool.cli.words import say
from hlotool.driver import compile_module
from hlotool.driver.predict import predict
from hlotool.harness.application.replica import bound
from hlotool.harness.archive import from_bits, write_named
from hlotool.harness.bench import Native, measure
from hlotool.harness.input_files import arrays_named
from hlotool.harness.inputs import random_inputs
from hlotool.harness.quantise.engine import Quantised, quantise
from hlotool.harness.quantise.metric import AccuracyLost, Metric, RelativeError, metric_module
from hlotool.harness.quantise.options import TARGETS, Options, Sample
from hlotool.harness.quantise.ranges import METHODS
from hlotool.harness.quantise.samples import read_samples
from hlotool.harness.quantise.weights import with_weights_outside
from hlotool.ir import ExecutionError, InputError, Module, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.text.printer import print_module

__all__ = ["command"]

_ROUNDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantiseOptions:
    """What the user asks for, by the names of the command line's parameters."""

    file: str
    output: str
    to: str
    calibrate: tuple[str, ...]
    weights: str | None
    weights_to: str | None
    per_channel: bool
    symmetric: bool
    calibration: str
    percentile: float
    group: str
    keep: str
    correct: bool
    max_error: float | None
    metric: str | None
    labels: str | None
    report: str | None
    seconds: float
    form: str


def _pattern(context: click.Context, parameter: click.Parameter, value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise click.BadParameter(f"{value} is no regular expression: {error}", context, parameter) from None
    return value


@click.command("quantise")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, allow_dash=True), metavar="OUT",
    help="Write the module here (-: to standard output, and what was found to standard error).",
)
@click.option(
    "--to", type=click.Choice(list(TARGETS)), default="int8", show_default=True,
    help="What products are to read: " + "; ".join(f"{name}: {row.meaning}" for name, row in TARGETS.items()) + ".",
)
@click.option(
    "--calibrate", multiple=True, type=click.Path(exists=True), metavar="FILE",
    help="Inputs of one run, as for run --inputs; again for more, or a folder of archives.",
)
@click.option(
    "--weights", type=click.Path(dir_okay=False), metavar="FILE",
    help="Parameters that are weights, by their names (.npz, .safetensors); they become constants.",
)
@click.option(
    "--weights-to", type=click.Path(dir_okay=False), metavar="FILE",
    help="Write large constants of the result here (.npz); the module takes them as its last parameters.",
)
@click.option(
    "--per-channel/--per-tensor", default=True, show_default=True,
    help="A scale for each channel of weights, or one for all.",
)
@click.option(
    "--symmetric/--asymmetric", default=True, show_default=True,
    help="Of int8: values that the program computes without a zero point, or with one.",
)
@click.option(
    "--calibration", type=click.Choice(METHODS), default="mse", show_default=True,
    help="What of the values that were seen numbers reach.",
)
@click.option(
    "--percentile", type=click.FloatRange(50, 100), default=99.99, show_default=True, metavar="P",
    help="With --calibration percentile: what is represented.",
)
@click.option(
    "--group-size", "group", type=click.Choice(["0", "32", "64", "128"]), default="0", show_default=True,
    help="Of weights alone: so many in a row of a sum share a scale; 0 for all.",
)
@click.option(
    "--keep", default="", callback=_pattern, metavar="REGEX",
    help="Products whose name or op_name this finds keep their type.",
)
@click.option("--correct/--no-correct", default=True, help="Add what rounding weights takes off each channel.")
@click.option(
    "--max-error", type=Amount(), metavar="X",
    help="Leave out the products that hurt most until the error of results is at most this.",
)
@click.option(
    "--metric", type=click.Path(dir_okay=False), metavar="FILE",
    help="The error is what this module gives for the results as they were, followed by those of the quantised one.",
)
@click.option(
    "--labels", metavar="NAME",
    help="The error is the accuracy lost: each --calibrate has the right answers of the first result in this array.",
)
@click.option("--report", type=click.Path(file_okay=False), metavar="DIR", help="Write pages about accuracy here.")
@click.option(
    "--time", "seconds", type=click.FloatRange(0), default=0.2, show_default=True,
    help="Seconds for which each module is timed; 0: not at all.",
)
@form_option("text", "json")
def command(**given: Any) -> None:
    """Make the products of FILE cheap: dots and convolutions of small numbers with scales.

    FILE runs on inputs (--calibrate) while the operands of its products are watched; of what was seen come scales.
    Weights are what products read that only depends on constants, and on the parameters that --weights names.  Batch
    norms go into weights first.  With --to int8 or fp8 operands are stored in 8 bits where they are made, products are
    of these, and their sums are scaled; with int8-weights and int4-weights only weights are stored so, which needs no
    inputs; bf16 and f16 round operands.  What is written is plain HLO: the evaluator says what it means.

    Every product that keeps its type has a reason.  Where there are inputs, each is measured alone and all together,
    and with --max-error those that hurt most keep their type; exit code 1 where the error stays above the bound.

    \b
        hlotool quantise model.hlo --calibrate inputs/ -o q.hlo
        hlotool quantise model.hlo --calibrate a.npz --max-error 1e-2 --report pages/ -o q.hlo
        hlotool quantise model.hlo --weights w.npz --to int4-weights --group-size 64 --weights-to q.npz -o q.hlo
    """
    options = QuantiseOptions(**given)
    if options.metric is not None and options.labels is not None:
        raise click.UsageError("--metric and --labels are two ways to say what the error is: give one")
    for name, value in (("--metric", options.metric), ("--labels", options.labels)):
        if value is not None and not options.calibrate:
            raise click.UsageError(f"{name} needs inputs: --calibrate FILE")
    if options.group != "0" and TARGETS[options.to].values:
        raise click.UsageError("--group-size goes with --to int8-weights and int4-weights")
    module = _read(options)
    samples = read_samples(module, options.calibrate, options.labels)
    metric = _metric(options, module)
    chosen = Options(
        to=options.to, per_channel=options.per_channel, symmetric=options.symmetric, calibration=options.calibration,
        percentile=options.percentile, group=int(options.group), keep=options.keep, correct=options.correct,
        max_error=options.max_error,
    )  # fmt: skip
    with progress() as tell:
        found = quantise(module, samples, chosen, metric, tell)
        tell("timing")
        speed = _speed(found, samples, options.seconds)
    if not found.within:
        _show(options, found, speed, [])
        bound = f"--max-error {options.max_error:g}"
        say(f"the error, {found.error:.4g}, stays above {bound}: nothing is written", err=True)
        raise CheckFailed
    _show(options, found, speed, _written(options, found, speed))


def _read(options: QuantiseOptions) -> Module:
    """The module, with its weights in it."""
    module = read_module(options.file, runs=True)
    refuse_elided(module)
    if options.weights is None:
        return module
    arrays = arrays_named(options.weights)
    by_name = {one.name: one for one in module.entry.parameters}
    missing = sorted(set(arrays) - set(by_name))
    if missing:
        known = ", ".join(list(by_name)[:12]) or "none"
        raise InputError(f"{options.weights}: no parameter is called {', '.join(missing)}; there are {known}")
    if not arrays:
        raise InputError(f"{options.weights}: no arrays in it")
    return bound(module, {name: from_bits(array, by_name[name].shape) for name, array in arrays.items()})


def _metric(options: QuantiseOptions, module: Module) -> Metric:
    if options.metric is not None:
        return metric_module(read_module(options.metric, runs=True), module)
    return RelativeError() if options.labels is None else AccuracyLost()


def _speed(found: Quantised, samples: Sequence[Sample], seconds: float) -> Speed:
    """What both modules take; predictions are left out where a kernel has none."""
    pair = (found.source, found.module)
    predicted = None
    try:
        predicted = predict(pair[0]).seconds, predict(pair[1]).seconds
    except UnsupportedError as error:
        say(f"no prediction of speed: {error.message}", err=True)
    if not seconds:
        return Speed(predicted=predicted)
    arrays = samples[0].arrays if samples else random_inputs(found.source, 0)
    runs = [
        Native(name, lambda one=one: one, lambda one: compile_module(one).run, arrays)  # type: ignore[misc]
        for name, one in zip(("before", "after"), pair, strict=True)
    ]
    before, after = measure(runs, _ROUNDS, seconds, seconds)
    return Speed(predicted=predicted, measured=(before.steady.median, after.steady.median))


def _written(options: QuantiseOptions, found: Quantised, speed: Speed) -> list[str]:
    """Write all files, the module last; their names."""
    module, files = found.module, []
    if options.report is not None:
        try:
            write_pages(found, speed, Path(options.report))
        except OSError as error:
            raise ExecutionError(f"cannot write {options.report}: {error.strerror or error}") from error
        files.append(str(Path(options.report) / "index.html"))
    if options.weights_to is not None:
        module, arrays = with_weights_outside(module)
        write_bytes(options.weights_to, lambda stream: write_named(stream, arrays.items()))
        files.append(options.weights_to)
    write_text(options.output, print_module(module))
    return files if options.output == "-" else [*files, options.output]


def _show(options: QuantiseOptions, found: Quantised, speed: Speed, files: Sequence[str]) -> None:
    aside = options.output == "-"
    if options.form == "json":
        click.echo(json.dumps(report_json(found, speed, files), indent=1), err=aside)
        return
    say(report_text(found, speed), err=aside)
    if files:
        say("\n" + "\n".join(files), err=aside)
