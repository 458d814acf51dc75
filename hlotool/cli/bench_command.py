"""``hlotool bench``."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy.typing as npt

import hlotool
from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.donation import Donate
from hlotool.analysis.elided import refuse_elided
from hlotool.analysis.peak_memory import peak_bytes
from hlotool.analysis.roofline import Roof
from hlotool.cli.common import read_module
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import (
    cpus_option,
    devices_options,
    donate_option,
    elided_option,
    strict_option,
    threads_option,
)
from hlotool.cli.output import write_text
from hlotool.cli.passes_options import named_pipeline, variants_options
from hlotool.cli.pipeline_options import has_excess_precision
from hlotool.cli.tables import Table, byte_text, plain_table
from hlotool.cli.words import say
from hlotool.codegen.machine import Machine, host
from hlotool.driver import compile_module, on_devices, optimise
from hlotool.harness.archive import read_arrays
from hlotool.harness.bench import Contestant, Native, Timing, measure
from hlotool.harness.compare import Comparison, compare_all, compare_with_truth, verdict_of
from hlotool.harness.elided import filled
from hlotool.harness.inputs import check_arrays, inputs_of, random_inputs
from hlotool.harness.op_by_op import op_by_op
from hlotool.harness.roof import measure_roof
from hlotool.harness.statistics import larger, summarise
from hlotool.harness.xla import XlaPeer
from hlotool.ir import InputError, Module, UnsupportedError
from hlotool.ir.devices import topology_of
from hlotool.runtime.executable import Executable
from hlotool.text.printer import print_module

__all__ = ["command"]

_KEPT = 1000
"""Samples per case in JSON, for --baseline."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Fail where a case is slower than its baseline by more than `share`, with this confidence."""

    share: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What the user asks for, by the names of the command line's parameters."""

    files: tuple[str, ...]
    pipelines: dict[str, str]
    machines: dict[str, Machine | None]
    elided: str | None
    donate: Donate
    replicas: int | None
    partitions: int | None
    against: tuple[str, ...]
    xla_python: str | None
    inputs: str | None
    seed: int
    rounds: int
    seconds: float
    warmup: float
    roof: bool
    baseline: str | None
    gate: Gate | None
    threads: int | None
    form: str
    output: str | None


@dataclass(frozen=True, slots=True)
class Case:
    """One contestant on one file.  Operations, bytes moved and bytes touched are those of the optimised module."""

    file: str
    timing: Timing
    flops: int
    bytes: int
    touched: int
    ratio: float  # of its median to that of the first contestant


def _gate(context: click.Context, parameter: click.Parameter, value: str | None) -> Gate | None:
    if value is None:
        return None
    found = re.fullmatch(r"\s*>\s*([\d.]+)\s*%\s*(?:@\s*([\d.]+)\s*%)?\s*", value)
    try:
        share, confidence = float(found[1]) / 100, float(found[2] or "99") / 100  # type: ignore[index]
    except (TypeError, ValueError):
        share, confidence = 0.0, 2.0
    if not 0 < confidence < 1:
        raise click.BadParameter("expected something like '>5%' or '>5% @99%'", context, parameter)
    return Gate(share, confidence)


@click.command("bench")
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False), metavar="FILE...")
@variants_options
@devices_options
@click.option(
    "--against",
    type=click.Choice(["xla", "evaluate", "op-by-op"]),
    multiple=True,
    help="Time these too, taking turns: XLA, the evaluator, native code with one call for every instruction.",
)
@click.option("--xla-python", metavar="PYTHON", help="A Python with jax; else HLOTOOL_XLA_PYTHON, else this one.")
@click.option("--inputs", type=click.Path(dir_okay=False), metavar="IN.npz", help="Arrays arg0, arg1, ...")
@click.option("--random", "seed", type=click.IntRange(0), default=0, metavar="SEED", help="Random ones instead.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Turns that each variant takes.")
@click.option(
    "--time", "seconds", type=click.FloatRange(0), default=1.0, show_default=True, help="Seconds for each variant."
)
@click.option(
    "--warmup", type=click.FloatRange(0), default=1.0, show_default=True, help="Seconds ahead of that, at most."
)
@click.option("--roof/--no-roof", default=True, help="Measure the roofs of this machine, for the column 'of roof'.")
@click.option("--baseline", type=click.Path(dir_okay=False), metavar="OLD.json", help="Compare with an earlier run.")
@click.option(
    "--fail-if", "gate", callback=_gate, metavar="'>5% @99%'", help="Exit 1 if slower than that by so much, surely."
)
@elided_option
@cpus_option
@donate_option
@threads_option
@strict_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv", "markdown"]),
    default="text",
    show_default=True,
    help="Form of the report.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="OUT", help="Write the report here.")
def command(**given: Any) -> None:
    """Time each FILE: how long it takes to parse, to compile, to run first, and to run once it is warm.

    Variants take turns in random order.  Times are medians with 95 % intervals; compile times are without the cache.
    Results of all variants are compared with those of the first, and exit code 1 says that they differ: by more than
    64 epsilon, and one of them by more than its error bounds (MISMATCH, or UNDECIDED where those say nothing). Arrays
    that native code may overwrite (--donate) are renewed before each call, outside of the time; contestants keep
    theirs.
    """
    options = BenchOptions(**given)
    if options.gate is not None and options.baseline is None:
        raise click.UsageError("--fail-if needs --baseline")
    if options.inputs is not None and len(options.files) > 1:
        raise click.UsageError("--inputs goes with one FILE")
    old = _read_baseline(options.baseline) if options.baseline is not None else {}
    os.environ["HLOTOOL_CACHE"] = "off"  # of this process: compile times are those of a first compilation
    roof = measure_roof(options.threads) if options.roof else None
    cases: list[Case] = []
    verdicts: list[Verdict] = []
    for file in options.files:
        program = _load(file, options)
        contestants = _contestants(program, options)
        try:
            timings = measure(contestants, options.rounds, options.seconds, options.warmup)
            found = _cases(program, timings, has_excess_precision(list(options.pipelines.values())))
            for case, contestant in zip(found, contestants, strict=True):
                samples = old.get((Path(file).name, case.timing.label))
                if samples is not None:
                    verdicts.append(_judge(case, contestant, samples, options.gate, options.seconds))
        finally:
            for contestant in contestants:
                if isinstance(contestant, XlaPeer):
                    contestant.close()
        cases += found
    write_text(options.output, _REPORTS[options.form](cases, roof, verdicts))
    if options.gate is not None and any(v.word == "slower" for v in verdicts):
        raise CheckFailed


@dataclass(frozen=True, slots=True)
class Program:
    """What is timed: a module with the text it was read from, and arguments."""

    file: str
    text: str
    module: Module
    arguments: list[npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A case against its baseline: `word` is ``faster``, ``same``, ``slower`` or ``inconclusive``; `p` the probability
    of such samples if the case is not slower by more than the gate allows."""

    file: str
    label: str
    word: str
    ratio: float
    p: float


def _load(file: str, options: BenchOptions) -> Program:
    module = on_devices(read_module(file, runs=True), options.replicas, options.partitions)
    if options.elided is not None:
        module = filled(module, options.elided)
    refuse_elided(module)
    shapes = [leaf for p in module.entry.parameters for leaf in p.shape.leaves() if leaf.is_array]
    arrays = random_inputs(module, options.seed)
    if options.inputs is not None:
        arrays = read_arrays(options.inputs, "arg", shapes)
    check_arrays(inputs_of(module), arrays, shapes)
    return Program(file, print_module(module), module, arrays)


def _contestants(program: Program, options: BenchOptions) -> list[Contestant]:
    parse = partial(hlotool.parse, program.text)
    pipelines, threads = options.pipelines, options.threads
    found: list[Contestant] = []
    for (chosen, passes), (name, machine) in product(pipelines.items(), options.machines.items() or [("", None)]):
        label = "hlotool" if len(pipelines) == 1 else f"hlotool {chosen}"
        label += f" --cpu {name}" if name else ""
        compile_ = partial(
            compile_module, pipeline=named_pipeline(passes), threads=threads, machine=machine, donate=options.donate
        )
        found.append(Native(label, parse, compile_, program.arguments, _overwritten))
    if "evaluate" in options.against:
        found.append(Native("evaluate", parse, partial(compile_module, backend="evaluate"), program.arguments))
    if "op-by-op" in options.against:
        found.append(Native("op-by-op", parse, partial(op_by_op, threads=threads), program.arguments))
    if "xla" in options.against:
        if topology_of(program.module).devices > 1:
            raise click.UsageError("--against xla is for programs on one device")
        found.append(XlaPeer(program.text, program.arguments, options.xla_python))
    return found


def _overwritten(executable: Executable) -> Sequence[int]:
    """The arguments that a call writes to."""
    return executable.program.assignment.overwritten if executable.program is not None else ()


def _cases(program: Program, timings: Sequence[Timing], excess_precision: bool) -> list[Case]:
    first = timings[0]
    for timing in timings[1:]:
        wrong = [c for c in compare_all(timing.started.outputs, first.started.outputs) if not c.ok]
        if wrong:
            _explain(program, timing, first, wrong[0], excess_precision)
    optimised = optimise(program.module)
    cost, touched = ModuleCost(optimised).total, peak_bytes(optimised)
    base = first.steady.median
    operations = cost.flops + cost.transcendentals
    return [Case(program.file, t, operations, cost.bytes, touched, t.steady.median / base) for t in timings]


def _explain(
    program: Program, timing: Timing, first: Timing, difference: Comparison, excess_precision: bool
) -> None:
    """Results that differ by more than the tolerance: are both within the error bounds of the true ones?"""
    from hlotool.evaluate.truth import bounded_results

    rows = [difference]
    try:
        bounds = partial(bounded_results, program.module, program.arguments, None, excess_precision)
        once = bounds()
        rows = [row for t in (first, timing) for row in compare_with_truth(t.started.outputs, once, again=bounds)]
    except UnsupportedError:
        pass  # programs of dynamic sizes have no bounds: what differs is wrong
    verdict = verdict_of(rows)
    if verdict != "ok":
        say(f"{program.file}: {verdict}: {timing.label} and {first.label}: {difference}", err=True)
        raise CheckFailed


def _judge(
    case: Case, contestant: Contestant, old: Sequence[float], gate: Gate | None, seconds: float
) -> Verdict:
    """Compare with the baseline.  Slower is only what is slower again when it is measured once more."""
    gate = gate or Gate(0.0, 0.99)
    limit = [s * (1 + gate.share) for s in old]
    ratio = case.timing.steady.median / summarise(old).median
    p = larger(case.timing.samples, limit)
    label = case.timing.label
    if p > 1 - gate.confidence:
        if ratio > 1 + gate.share:
            return Verdict(case.file, label, "inconclusive", ratio, p)
        faster = larger(old, case.timing.samples) <= 1 - gate.confidence
        return Verdict(case.file, label, "faster" if faster else "same", ratio, p)
    again = contestant.sample(seconds, case.timing.batch)
    p = max(p, larger(again, limit))
    return Verdict(case.file, label, "slower" if p <= 1 - gate.confidence else "inconclusive", ratio, p)


def _read_baseline(path: str) -> dict[tuple[str, str], list[float]]:
    """Samples by file name and label; InputError where the file is no report of ours."""
    try:
        report = json.loads(Path(path).read_text("utf-8"))
        return {(Path(c["file"]).name, c["variant"]): [float(s) for s in c["samples"]] for c in report["cases"]}
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, LookupError, TypeError, UnicodeDecodeError):
        raise InputError(f"{path} is no report of hlotool bench --format json") from None


# ---- reports

_COLUMNS = (
    "file", "variant", "parse ms", "compile ms", "first ms", "median us", "low us", "high us", "best us", "p90 us",
    "ratio", "GFLOP/s", "GB/s", "of roof",
)  # fmt: skip


def _row(case: Case, roof: Roof | None) -> tuple[str, ...]:
    started, steady = case.timing.started, case.timing.steady
    times = (started.parse * 1e3, started.compile * 1e3, started.first * 1e3)
    microseconds = (steady.median, steady.low, steady.high, steady.best, steady.p90)
    share = "" if roof is None else f"{_share(case, roof):.0%}"
    return (
        case.file,
        case.timing.label + ("" if case.timing.warm else " (not steady)"),
        *(f"{t:.2f}" for t in times),
        *(f"{t * 1e6:.2f}" for t in microseconds),
        f"{case.ratio:.3f}",
        f"{case.flops / steady.median / 1e9:.2f}",
        f"{case.bytes / steady.median / 1e9:.2f}",
        share,
    )


def _share(case: Case, roof: Roof) -> float:
    """How much of the time is what the nearer roof would take."""
    return max(case.flops / roof.flops, case.bytes / roof.bytes(case.touched)) / case.timing.steady.median


def _text(cases: Sequence[Case], roof: Roof | None, verdicts: Sequence[Verdict]) -> str:
    tables = [Table("timings", _COLUMNS, [_row(c, roof) for c in cases], frozenset(_COLUMNS[2:]))]
    lines = [plain_table(table) for table in tables]
    if roof is not None:
        rates = ", ".join(f"{rate / 1e9:.1f} GB/s on {byte_text(size)}" for size, rate in roof.rates)
        lines.append(f"roofs: {roof.flops / 1e9:.0f} GFLOP/s (f32 product), {rates} (a + 3 b)")
    for case in cases:
        steady = case.timing.steady
        if steady.outliers > 0.05:
            lines.append(f"{case.file}, {case.timing.label}: {steady.outliers:.0%} of the samples are far out")
    lines += [
        f"{v.file}, {v.label}: {v.word}: {v.ratio:.3f} of the baseline (p = {v.p:.2g})" for v in verdicts
    ]
    return "\n".join(lines) + "\n"


def _json(cases: Sequence[Case], roof: Roof | None, verdicts: Sequence[Verdict]) -> str:
    rows = []
    for case in cases:
        timing, samples = case.timing, case.timing.samples
        rows.append(
            {
                "file": case.file,
                "variant": timing.label,
                "parse_s": timing.started.parse,
                "compile_s": timing.started.compile,
                "first_s": timing.started.first,
                "steady": {**asdict(timing.steady), "warm": timing.warm},
                "flops": case.flops,
                "bytes": case.bytes,
                "ratio": case.ratio,
                "of_roof": None if roof is None else _share(case, roof),
                "samples": samples[:: 1 + len(samples) // _KEPT],
            }
        )
    machine = host()
    report = {
        "schema_version": 1,
        "kind": "bench",
        "tool_version": hlotool.__version__,
        "machine": {
            "cpu": machine.cpu,
            "cores": machine.cores,
            "platform": platform.platform(),
            "python": platform.python_version(),
            "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        },
        "roof": None if roof is None else {"flops_per_s": roof.flops, "bytes_per_s": dict(roof.rates)},
        "cases": rows,
        "verdicts": [asdict(v) for v in verdicts],
    }
    return json.dumps(report, indent=1) + "\n"


def _csv(cases: Sequence[Case], roof: Roof | None, verdicts: Sequence[Verdict]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(_row(c, roof) for c in cases)
    return stream.getvalue()


def _markdown(cases: Sequence[Case], roof: Roof | None, verdicts: Sequence[Verdict]) -> str:
    rows = [_COLUMNS, ("---", "---", *["--:"] * (len(_COLUMNS) - 2)), *(_row(c, roof) for c in cases)]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


_REPORTS = {"text": _text, "json": _json, "csv": _csv, "markdown": _markdown}
