"""``hlotool bench``."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

import hlotool
from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.elided import refuse_elided
from hlotool.analysis.peak_memory import peak_bytes
from hlotool.analysis.roofline import Roof
from hlotool.cli.bench_programs import (
    BenchOptions,
    Entrant,
    Program,
    build_of,
    digest_of,
    native,
    own_entrants,
    shapes_of,
)
from hlotool.cli.command_jobs import (
    Splittable,
    answer_of,
    command_result,
    machine_words,
    option_words,
    sent_command,
)
from hlotool.cli.common import read_module
from hlotool.cli.completion import backends
from hlotool.cli.errors import CheckFailed
from hlotool.cli.executor_options import executor_options, opened_jobs
from hlotool.cli.options import (
    check_backend,
    cpus_option,
    devices_options,
    donate_option,
    elided_option,
    form_option,
    is_given,
    module_inputs_options,
    strict_option,
    threads_option,
    tune_option,
)
from hlotool.cli.output import write_text
from hlotool.cli.passes_options import variants_options
from hlotool.cli.pipeline_options import has_excess_precision
from hlotool.cli.suite_options import AgainstType, suite_options
from hlotool.cli.tables import Table, byte_text, plain_table
from hlotool.cli.words import say
from hlotool.codegen.machine import host, named
from hlotool.driver import on_devices, optimise
from hlotool.harness.bench import Contestant, Native, Started, Timing, measure
from hlotool.harness.compare import compare_all, verdict_of
from hlotool.harness.elided import filled
from hlotool.harness.gate import Gate, confirm, judge
from hlotool.harness.input_files import module_inputs
from hlotool.harness.inputs import check_arrays, inputs_of
from hlotool.harness.references import Rules, Truth, judge_by_arrays
from hlotool.harness.roof import measure_roof
from hlotool.harness.xla import XlaPeer
from hlotool.ir import HloError, InputError
from hlotool.ir.devices import topology_of
from hlotool.lazy_dataclass import dataclass
from hlotool.text.printer import print_module

__all__ = ["command"]

_KEPT = 1000
"""Samples per case in JSON, for --baseline."""


def _check_files(options: BenchOptions) -> None:
    if not options.files:
        raise click.UsageError("name a FILE, or a suite by --suite")
    for name in ("cases", "headlines", "small", "quick", "max_seconds", "emit_to", "site"):
        if is_given(name):
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --suite")
    for one in options.against:
        if one.name not in ("xla", "evaluate", "op-by-op"):
            raise click.UsageError(f"--against {one.name} goes with --suite: it has no program for a file")


@dataclass(frozen=True, slots=True)
class Case:
    """One contestant on one file.  Operations and bytes moved are those of the optimised module; `of_roof` is how much
    of the time is what the nearer roof of the machine would take, if that was measured, and `machine` says in words
    which one it was, if not this one.

    `outputs` is whether its results are those of the first contestant: ``ok``, ``MISMATCH`` or ``UNDECIDED``;
    `difference` says how they differ.  `pipeline` and `cpu` are what its code is made by, if it is ours.
    """

    file: str
    timing: Timing
    module: str
    pipeline: str | None
    cpu: str | None
    outputs: str
    difference: str
    flops: int
    bytes: int
    ratio: float  # of its median to that of the first contestant
    of_roof: float | None
    machine: str | None = None


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


@click.command("bench", cls=Splittable)
@click.argument("files", nargs=-1, type=click.Path(dir_okay=False), metavar="[FILE...]")
@suite_options
@variants_options
@devices_options
@click.option(
    "--backend", "backends", multiple=True, default=("cpu",), show_default=True, metavar="NAME",
    help="cpu, evaluate, or an installed one; several take turns.", shell_complete=backends,
)  # fmt: skip
@click.option(
    "--against",
    type=AgainstType(),
    multiple=True,
    metavar="NAME[=PYTHON]",
    help="Time these too, taking turns: xla, evaluate, or op-by-op, native code with one call for every instruction; "
    "with --suite also numpy, numba, torch, inductor, onnxruntime and iree, of that Python.",
)
@click.option("--xla-python", metavar="PYTHON", help="A Python with jax; else HLOTOOL_XLA_PYTHON, else this one.")
@module_inputs_options()
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Turns that each variant takes.")
@click.option(
    "--time", "seconds", type=click.FloatRange(0), default=1.0, show_default=True, help="Seconds for each variant."
)
@click.option(
    "--warmup", type=click.FloatRange(0), default=1.0, show_default=True, help="Seconds ahead of that, at most."
)
@click.option("--roof/--no-roof", default=True, help="Measure the roofs of this machine, for the column 'of roof'.")
@click.option(
    "--baseline", type=click.Path(dir_okay=False), metavar="OLD.json|OLD.hlo",
    help="Compare with an earlier run (--format json), or with another module, which takes turns.",
)  # fmt: skip
@click.option("--baseline-passes", metavar="PIPELINE", help="Compare with FILE, or OLD.hlo, by these passes.")
@click.option(
    "--fail-if", "gate", callback=_gate, metavar="'>5% @99%'",
    help="Exit 1 if slower than the baseline by so much, or if that cannot be told, measured twice.",
)  # fmt: skip
@click.option(
    "--inconclusive", type=click.Choice(["fail", "pass"]), default="fail", show_default=True,
    help="Whether what cannot be told is exit code 1.",
)  # fmt: skip
@executor_options("a FILE, or a case,")
@click.option(
    "--at-once", is_flag=True, help="With --executor: let jobs on one machine be timed at once, and disturb each other."
)
@elided_option
@cpus_option
@donate_option
@threads_option
@tune_option
@strict_option
@form_option("text", "json", "csv", "markdown")
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="OUT", help="Write the report here.")
def command(**given: Any) -> None:
    """Time each FILE, or the cases of a suite: how long it takes to parse, to compile, to run first, and to run once it
    is warm.

    Variants take turns in random order.  Times are medians with 95 % intervals; compile times are without the cache.
    Results of all variants are compared with those of the first, and exit code 1 says that they differ: by more than
    64 epsilon, and one of them by more than its error bounds (MISMATCH, or UNDECIDED where those say nothing); their
    times are there all the same.  Arrays that native code may overwrite (--donate) are renewed before each call,
    outside of the time; contestants keep theirs.

    With --fail-if a ratio of medians is ``slower`` only if all of its interval is above the limit.  One that is, or may
    be, is measured once more, taking turns with the baseline's code: a module, other passes, or that of a report made
    by this very hlotool from a file that is still there; else slower is what is slower than the old times twice.
    ``inconclusive`` is what may lie on either side even then: exit code 1, unless --inconclusive pass.

    Suites are named programs with arguments: --suite list tells which there are.  A peer's time counts only if its
    results are those of hlotool; else the report says why there is none.  --emit-to writes the modules and times
    nothing; --site adds the run to the history of a folder, and writes its pages anew.

    With --executor each FILE, or case, is timed on some machine, which the report names, with all its contestants; one
    at a time on each machine, unless --at-once.

    \b
    Examples:
        hlotool bench model.hlo --against xla
        hlotool bench --suite llm --cases 'decode' --against xla=PYTHON --against numpy
        hlotool bench --suite all --headlines --quick --site public/speed
    """
    options = BenchOptions(**given)
    if options.suites:
        from hlotool.cli.suite_bench import run_suites  # loads all that traces functions

        run_suites(options)
        return
    _check_files(options)
    if options.gate is not None and options.baseline is None and options.baseline_passes is None:
        raise click.UsageError("--fail-if needs --baseline")
    if options.inputs is not None and len(options.files) > 1:
        raise click.UsageError("--inputs goes with one FILE")
    old = Baseline()
    if options.baseline is not None and _is_report(options.baseline):
        if options.baseline_passes is not None:
            raise click.UsageError("--baseline-passes goes with a module: reports say what passes they are of")
        old = _read_baseline(options.baseline)
    elif options.baseline is not None and len(options.files) > 1:
        raise click.UsageError("--baseline OLD.hlo goes with one FILE")
    for backend in options.backends:
        check_backend(backend)
    roof, cases, verdicts = _timed_here(options, old) if options.executor is None else _timed_there(options)
    write_text(options.output, _REPORTS[options.form](cases, roof, verdicts))
    for case in cases:
        if case.difference:
            say(f"{case.file}: {case.outputs}: {case.difference}", err=True)
    failing = {"slower", "inconclusive"} if options.inconclusive == "fail" else {"slower"}
    slower = options.gate is not None and any(v.word in failing for v in verdicts)
    if slower or any(case.outputs != "ok" for case in cases):
        raise CheckFailed


def _timed_here(options: BenchOptions, old: Baseline) -> tuple[Roof | None, list[Case], list[Verdict]]:
    os.environ["HLOTOOL_CACHE"] = "off"  # of this process: compile times are those of a first compilation
    roof: Roof | None = None
    cases: list[Case] = []
    verdicts: list[Verdict] = []
    for file in options.files:
        program = _load(file, options)
        if options.roof and roof is None:  # now that there is something to time
            roof = measure_roof(options.threads)
        contestants = _contestants(program, options)
        try:
            timings = measure([c.contestant for c in contestants], options.rounds, options.seconds, options.warmup)
            cases += _cases(program, timings, contestants, has_excess_precision(list(options.pipelines.values())), roof)
            verdicts += _verdicts(program, timings, contestants, old, options)
        finally:
            for one in contestants:
                if isinstance(one.contestant, XlaPeer):
                    one.contestant.close()
    return roof, cases, verdicts


def _timed_there(options: BenchOptions) -> tuple[Roof | None, list[Case], list[Verdict]]:
    """The same on the machines of an executor, each of which has roofs of its own: a job is this command for one file,
    alone on its machine."""
    assert options.executor is not None
    words = option_words(click.get_current_context(), {*_OF_THE_WHOLE})
    named = [path for path in (options.inputs, options.baseline) if path is not None]
    machines = [""] * len(options.files)
    cases: list[Case] = []
    verdicts: list[Verdict] = []
    with opened_jobs(options.executor, "bench", options.job_limit, options.journal) as jobs:
        futures = [
            sent_command(
                jobs, ["bench", file, *words, "--format", "json"], files=[file, *named], alone=not options.at_once,
                machine=partial(_note_machine, machines, number),
            )
            for number, file in enumerate(options.files)
        ]  # fmt: skip
        for number, (file, future) in enumerate(zip(options.files, futures, strict=True)):
            report = answer_of(command_result(future, file), file)
            cases += [_case_of(row, machines[number]) for row in report["cases"]]
            verdicts += [Verdict(**row) for row in report["verdicts"]]
    return None, cases, verdicts


_OF_THE_WHOLE = ("executor", "job_limit", "journal", "at_once", "form", "output", "inconclusive")
"""Parameters that are no business of a job's."""


def _note_machine(machines: list[str], number: int, found: Mapping[str, Any]) -> None:
    machines[number] = machine_words(found)


def _case_of(row: Mapping[str, Any], machine: str) -> Case:
    """A case of the report of a job."""
    started = Started(row["parse_s"], row["compile_s"], row["first_s"], ())
    return Case(
        file=row["file"], timing=Timing(row["variant"], started, row["steady"]["warm"], samples=row["samples"]),
        module=row["module_sha256"], pipeline=row["pipeline"], cpu=row["cpu"], outputs=row["outputs"],
        difference=row["difference"] or "", flops=row["flops"], bytes=row["bytes"], ratio=row["ratio"],
        of_roof=row["of_roof"], machine=machine,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """A case against its baseline (`harness.gate`): the judgement, how often it was measured, and whether in turns with
    the baseline's code."""

    file: str
    label: str
    word: str
    ratio: float
    low: float
    high: float
    p: float
    measured: int
    in_turns: bool


@dataclass(frozen=True, slots=True)
class Old:
    """A case of an earlier run: its samples, and what its code was made of and by."""

    samples: Sequence[float]
    file: str = ""
    module: str | None = None
    pipeline: str | None = None
    cpu: str | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """An earlier run: `build` says which hlotool it was; cases by the names of files, and labels."""

    build: str | None = None
    cases: Mapping[tuple[str, str], Old] = field(default_factory=dict)


def _load(file: str, options: BenchOptions) -> Program:
    module = on_devices(read_module(file, runs=True), options.replicas, options.partitions)
    if options.elided is not None:
        module = filled(module, options.elided)
    refuse_elided(module)
    return Program(file, print_module(module), module, module_inputs(module, options.inputs, options.seed))


def _contestants(program: Program, options: BenchOptions) -> list[Entrant]:
    pipelines, digest = options.pipelines, digest_of(program.text)
    found = own_entrants(program, options)
    if options.asks_for("xla"):
        if topology_of(program.module).devices > 1:
            raise click.UsageError("--against xla is for programs on one device")
        found.append(Entrant(XlaPeer(program.text, program.arguments, options.pythons["xla"]), digest))
    other = options.baseline if options.baseline is not None and not _is_report(options.baseline) else None
    if other is not None or options.baseline_passes is not None:
        old = program if other is None else replace(_load(other, options), arguments=program.arguments)
        check_arrays(inputs_of(old.module), old.arguments, shapes_of(old.module))
        (name, machine), *_ = options.machines.items() or [("", None)]
        passes = options.baseline_passes or next(iter(pipelines.values()))
        own = native(_BASELINE, old, options, passes, machine, options.backends[0])
        found.append(Entrant(own, digest_of(old.text), passes, name))
    return found


def _cases(
    program: Program, timings: Sequence[Timing], entrants: Sequence[Entrant], excess_precision: bool,
    roof: Roof | None,
) -> list[Case]:  # fmt: skip
    first = timings[0]
    optimised = optimise(program.module)
    cost = ModuleCost(optimised).total
    flops = cost.flops + cost.transcendentals
    fastest = None if roof is None else max(flops / roof.flops, cost.bytes / roof.bytes(peak_bytes(optimised)))
    found = []
    for timing, entrant in zip(timings, entrants, strict=True):
        wrong = [c for c in compare_all(timing.started.outputs, first.started.outputs) if not c.ok]
        outputs = _explained(program, timing, first, excess_precision) if wrong else "ok"
        said = f"{timing.label} and {first.label}: {wrong[0]}" if outputs != "ok" else ""
        found.append(Case(
            program.file, timing, entrant.module, entrant.pipeline, entrant.cpu, outputs, said,
            flops, cost.bytes, timing.steady.median / first.steady.median,
            None if fastest is None else fastest / timing.steady.median,
        ))  # fmt: skip
    return found


def _explained(program: Program, timing: Timing, first: Timing, excess_precision: bool) -> str:
    """Results that differ by more than the tolerance: are both within the error bounds of the true ones?"""
    truth = Truth(program.module, program.arguments, excess_precision)
    return verdict_of(judge_by_arrays(timing.started.outputs, first.started.outputs, Rules(), truth).all)


def _verdicts(
    program: Program, timings: Sequence[Timing], entrants: Sequence[Entrant], old: Baseline, options: BenchOptions
) -> list[Verdict]:
    """The contestants that have a baseline against it, measured once more where they do not pass."""
    beside = next((n for n, timing in enumerate(timings) if timing.label == _BASELINE), None)
    found = []
    known = Old(())
    for number, (timing, entrant) in enumerate(zip(timings, entrants, strict=True)):
        if beside is not None:
            if number == beside or entrant.pipeline is None:
                continue
            samples: Sequence[float] = timings[beside].samples
        else:
            key = Path(program.file).name, timing.label
            if key not in old.cases:
                continue
            known = old.cases[key]
            samples = known.samples
        judgement, times, in_turns = judge(timing.samples, samples, options.gate), 1, beside is not None
        if options.gate is not None and judgement.word in ("slower", "inconclusive"):
            other: Contestant | Sequence[float]
            if beside is not None:
                other, batch = entrants[beside].contestant, timings[beside].batch
            else:
                rebuilt = _rebuilt(known, old.build, program, options)
                other, batch = rebuilt or known.samples, timing.batch
                in_turns = rebuilt is not None
            times = 2
            judgement, _ = confirm(
                judgement, entrant.contestant, other, options.gate, batches=(timing.batch, batch),
                seconds=max(options.seconds, 0.1), rounds=options.rounds,
            )  # fmt: skip
        found.append(Verdict(
            program.file, timing.label, judgement.word, judgement.ratio, judgement.low, judgement.high, judgement.p,
            times, in_turns,
        ))  # fmt: skip
    return found


def _rebuilt(old: Old, build: str | None, program: Program, options: BenchOptions) -> Native | None:
    """The code that an earlier run timed, started; None where it cannot be made: another hlotool made it, or the file
    is not as it was."""
    if build != build_of() or old.pipeline is None or old.cpu is None or not Path(old.file).is_file():
        return None
    source = program
    if old.module != digest_of(program.text):
        try:
            source = replace(_load(old.file, options), arguments=program.arguments)
        except HloError:
            return None
        if old.module != digest_of(source.text):
            return None
    machine = named(old.cpu) if old.cpu else None
    found = native(_BASELINE, source, options, old.pipeline, machine, "cpu")
    found.start()
    return found


_BASELINE = "baseline"


def _is_report(path: str) -> bool:
    """Whether it is to be read as a report: by its name, or by how it begins."""
    if path.endswith(".json"):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(64).lstrip()[:1] in (b"{", b"[")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def _read_baseline(path: str) -> Baseline:
    """Samples by file name and label; InputError where the file is no report of ours."""
    try:
        report = json.loads(Path(path).read_text("utf-8"))
        cases = {
            (Path(c["file"]).name, c["variant"]): Old(
                [float(s) for s in c["samples"]], c["file"], c.get("module_sha256"), c.get("pipeline"), c.get("cpu")
            )
            for c in report["cases"]
        }
        return Baseline(report.get("build"), {key: old for key, old in cases.items() if old.samples})
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, LookupError, TypeError, AttributeError, UnicodeDecodeError):
        raise InputError(f"{path} is no report of hlotool bench --format json") from None


# ---- reports

_COLUMNS = (
    "file", "variant", "parse ms", "compile ms", "first ms", "median us", "low us", "high us", "best us", "p90 us",
    "ratio", "GFLOP/s", "GB/s", "of roof", "outputs",
)  # fmt: skip


def _row(case: Case) -> tuple[str, ...]:
    started, steady = case.timing.started, case.timing.steady
    times = (started.parse * 1e3, started.compile * 1e3, started.first * 1e3)
    microseconds = (steady.median, steady.low, steady.high, steady.best, steady.p90)
    share = "" if case.of_roof is None else f"{case.of_roof:.0%}"
    return (
        case.file,
        case.timing.label + ("" if case.timing.warm else " (not steady)"),
        *(f"{t:.2f}" for t in times),
        *(f"{t * 1e6:.2f}" for t in microseconds),
        f"{case.ratio:.3f}",
        f"{case.flops / steady.median / 1e9:.2f}",
        f"{case.bytes / steady.median / 1e9:.2f}",
        share,
        case.outputs,
    )


def _text(cases: Sequence[Case], roof: Roof | None, verdicts: Sequence[Verdict]) -> str:
    tables = [Table("timings", _COLUMNS, [_row(c) for c in cases], frozenset(_COLUMNS[2:-1]))]
    lines = [plain_table(table) for table in tables]
    if roof is not None:
        rates = ", ".join(f"{rate / 1e9:.1f} GB/s on {byte_text(size)}" for size, rate in roof.rates)
        lines.append(f"roofs: {roof.flops / 1e9:.0f} GFLOP/s (f32 product), {rates} (a + 3 b)")
    for case in cases:
        steady = case.timing.steady
        if steady.outliers > 0.05:
            lines.append(f"{case.file}, {case.timing.label}: {steady.outliers:.0%} of the samples are far out")
    places = dict.fromkeys((c.file, c.machine) for c in cases)
    lines += [f"{file}: timed on {machine}" for file, machine in places if machine]
    lines += [f"{c.file}: {c.outputs}: {c.difference}" for c in cases if c.difference]
    for v in verdicts:
        again = ", measured twice" if v.measured > 1 else ""
        turns = ", in turns" if v.in_turns else ""
        interval = f"{v.low:.3f} to {v.high:.3f}, p = {v.p:.2g}"
        lines.append(f"{v.file}, {v.label}: {v.word}: {v.ratio:.3f} of the baseline ({interval}{again}{turns})")
    return "\n".join(lines) + "\n"


def _json(cases: Sequence[Case], roof: Roof | None, verdicts: Sequence[Verdict]) -> str:
    rows = []
    for case in cases:
        timing, samples = case.timing, case.timing.samples
        rows.append(
            {
                "file": case.file,
                "variant": timing.label,
                "module_sha256": case.module,
                "pipeline": case.pipeline,
                "cpu": case.cpu,
                "outputs": case.outputs,
                "difference": case.difference or None,
                "parse_s": timing.started.parse,
                "compile_s": timing.started.compile,
                "first_s": timing.started.first,
                "steady": {**asdict(timing.steady), "warm": timing.warm},
                "flops": case.flops,
                "bytes": case.bytes,
                "ratio": case.ratio,
                "of_roof": case.of_roof,
                "machine": case.machine,
                "samples": samples[:: 1 + len(samples) // _KEPT],
            }
        )
    machine = host()
    report = {
        "schema_version": 1,
        "kind": "bench",
        "tool_version": hlotool.__version__,
        "build": build_of(),
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
    writer.writerows(_row(c) for c in cases)
    return stream.getvalue()


def _markdown(cases: Sequence[Case], roof: Roof | None, verdicts: Sequence[Verdict]) -> str:
    rows = [_COLUMNS, ("---", "---", *["--:"] * (len(_COLUMNS) - 2)), *(_row(c) for c in cases)]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


_REPORTS = {"text": _text, "json": _json, "csv": _csv, "markdown": _markdown}
