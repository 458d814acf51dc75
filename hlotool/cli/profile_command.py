"""``hlotool profile``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click
import numpy.typing as npt

from hlotool.analysis.cost import ModuleCost
from hlotool.cli.common import read_run
from hlotool.cli.input_options import input_arrays, inputs_options
from hlotool.cli.interruptible import interruptible
from hlotool.cli.options import (
    cpu_option,
    elided_option,
    file_argument,
    finite_loops_option,
    format_option,
    numerics_options,
    strict_option,
    threads_option,
    tune_option,
)
from hlotool.cli.output import write_text
from hlotool.cli.passes_options import named_pipeline, passes_options
from hlotool.cli.progress import progress
from hlotool.cli.tables import Table, plain_table, time_text
from hlotool.codegen.kernel import KernelCrash
from hlotool.codegen.machine import Machine, default_machine, host
from hlotool.codegen.prediction import predicted
from hlotool.driver import compile_module
from hlotool.harness.elided import filled
from hlotool.harness.input_files import recorded_arrays
from hlotool.harness.inputs import inputs_of
from hlotool.harness.inside import Inside, Part, estimated, read_values, remeasured
from hlotool.harness.profile import Measurement, Profile, Step
from hlotool.harness.times import times_json
from hlotool.harness.trace import trace_json
from hlotool.inspect.flame import flame_page, folded
from hlotool.inspect.stacks import Timed, by_op_name, by_source, by_structure, source_text
from hlotool.ir import HloError, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable
from hlotool.runtime.performance import performance_of
from hlotool.text.sources import Sources

__all__ = ["command"]

_LEAST_SHARE = 0.05
"""Of all time: what is inside of a fusion that takes less is not shown in the table."""
_LEAST_PART = 0.02
_MOST_SOURCES = 10
_MOST_RERUN = 5
"""Fusions that are measured inside: the hottest ones of those that take so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """What the user asks for, by the names of the command line's parameters."""

    file: str
    inputs: str | None
    values: tuple[str, ...]
    seed: int | None
    edges: float | None
    seconds: float
    runs: int | None
    inside: bool
    top: int
    trace: str | None
    flame: str | None
    output: str | None
    elided: str | None
    machine: Machine | None
    threads: int | None
    excess_precision: bool
    flush_denormals: bool
    passes: str
    finite_loops: bool
    form: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A profile, and what is inside of its fusions; `reruns` are those that were measured, in so many `seconds`.  Of
    kernels there are the seconds that the model would have `predicted`."""

    profile: Profile
    inside: Mapping[Instruction, tuple[Part, ...]]
    reruns: Mapping[Instruction, Inside]
    predicted: Mapping[Instruction, float]
    seconds: float
    interrupted: bool


@click.command("profile")
@file_argument
@inputs_options
@click.option(
    "--time", "seconds", type=click.FloatRange(0), default=1.0, show_default=True,
    help="Seconds to run for; at least three runs.",
)  # fmt: skip
@click.option("--runs", type=click.IntRange(1), metavar="N", help="So many runs, whatever time they take.")
@click.option("--inside", is_flag=True, help="Measure inside of the hottest fusions, by re-runs without parts of them.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="Rows of the table.")
@click.option(
    "--trace", type=click.Path(dir_okay=False, allow_dash=True), metavar="OUT.json",
    help="Write one run as a trace, with threads, for ui.perfetto.dev or chrome://tracing.",
)  # fmt: skip
@click.option(
    "--flame", type=click.Path(dir_okay=False, allow_dash=True), metavar="OUT.html|OUT.folded",
    help="Write a flame graph: a page, or else folded stacks, as speedscope and flamegraph.pl read them.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write the report here.")
@elided_option
@cpu_option
@threads_option
@numerics_options
@format_option
@passes_options()
@finite_loops_option
@tune_option
@strict_option
def command(**given: Any) -> None:
    """Show where the time of FILE goes: native time per instruction, and inside of fusions.

    The program runs in turns with and without probes, which take the time between steps; all numbers are medians. The
    first line says how much the probes cost, and what the times of all steps add up to relative to the program without
    them. Where steps run side by side, what passes is divided by the time that threads work for each; 'busy' is the
    latter. Arithmetic on single elements counts with the step behind it, unless there is much of it.

    Times inside of a fusion are estimated from operations and bytes, and the column 'how' says so.  With --inside those
    of the five hottest fusions are measured: each is run alone on the values that it reads in the program, whole and
    without one instruction after the other, in turns. What an instruction takes is by how much quicker it is without.
    These times ('re-run', with the half of their 95 % interval) are scaled to add up to the kernel's in the program;
    both are shown. What went together is one row; what is left over (loads, stores, loops, reductions) is one, too.

    With --format json the report has "times" that graph and cost take (--times), as seconds by COMPUTATION/INSTRUCTION
    of the optimised module.  Interrupted, it shows the runs so far.  'predicted' is what the model of cost and advise
    would have said of a kernel, by the figures of 'hlotool doctor --calibrate' or those built in.

    \b
        hlotool profile samples/mean.hlo --time 0.1
        hlotool profile samples/attention.hlo --inside --time 0.2
        hlotool profile samples/attention.hlo --trace trace.json --flame flame.html
        hlotool profile samples/mlp_step.hlo --threads 1 --format json
    """
    options = ProfileOptions(**given)
    if "-" in (options.trace, options.flame) and options.output in (None, "-"):
        if options.output == "-" or options.trace == options.flame:
            raise click.UsageError("only one of --trace, --flame and -o can be standard output")
        shown = False
    else:
        shown = True
    measurement, interrupted = _measurement(options), False
    try:
        with progress(after=0) as tell:
            tell(f"profiling {options.file} ...")
            interruptible(lambda: measurement.run(options.seconds, options.runs))
    except KeyboardInterrupt:
        if not measurement.runs:
            raise
        interrupted = True
    profile = measurement.profile()
    costs = ModuleCost(profile.module)
    fusions = {s.instruction for s in profile.steps if s.instruction is not None and s.instruction.opcode == "fusion"}
    inside = {fusion: estimated(fusion, costs) for fusion in fusions}
    reruns: dict[Instruction, Inside] = {}
    begin = time.perf_counter()
    if options.inside and not interrupted:
        try:
            with progress(after=0) as tell:
                _rerun(options, profile, measurement.arguments, reruns, tell)
        except KeyboardInterrupt:
            interrupted = True
    inside |= {fusion: found.parts for fusion, found in reruns.items()}
    report = Report(
        profile=profile, inside=inside, reruns=reruns, predicted=_predicted(profile, options.machine),
        seconds=time.perf_counter() - begin, interrupted=interrupted,
    )  # fmt: skip
    if options.trace is not None:
        write_text(options.trace, json.dumps(trace_json(profile, inside)) + "\n")
    if options.flame is not None:
        write_text(options.flame, _flame(report, options.flame))
    if shown:
        text = json.dumps(_json(report), indent=1) + "\n" if options.form == "json" else _text(report, options.top)
        write_text(options.output, text)
    if interrupted:
        raise KeyboardInterrupt


def _predicted(profile: Profile, machine: Machine | None) -> dict[Instruction, float]:
    """Seconds by instruction, all runs together; none where kernels cannot be written one by one."""
    machine = default_machine() if machine is None else machine
    performance = performance_of(machine, profile.threads).performance
    try:
        kernels = predicted(profile.module, performance, machine, profile.threads).kernels
    except (HloError, KernelCrash):
        return {}
    return {kernel.instruction: kernel.seconds for kernel in kernels}


def _rerun(
    options: ProfileOptions,
    profile: Profile,
    arguments: Sequence[npt.NDArray[Any]],
    found: dict[Instruction, Inside],
    tell: Callable[[str], None],
) -> None:
    """Measure inside of the hottest fusions; what cannot run alone stays estimated."""
    steps = sorted(profile.steps, key=lambda step: -step.seconds)
    large = [
        step.instruction for step in steps
        if step.instruction is not None and step.instruction.opcode == "fusion"
        and step.seconds >= _LEAST_SHARE * profile.seconds
    ]
    fusions = list(dict.fromkeys(large))[:_MOST_RERUN]
    if not fusions:
        return

    def compiled(module: Module, profiled: bool) -> Executable:
        return compile_module(
            module, pipeline="none", threads=options.threads, machine=options.machine,
            excess_precision=options.excess_precision, flush_denormals=options.flush_denormals, profiled=profiled,
        )  # fmt: skip

    tell("reading what fusions read ...")
    values = interruptible(
        lambda: read_values(profile.module, arguments, fusions, lambda module: compiled(module, False).run)
    )
    for number, fusion in enumerate(fusions, 1):
        tell(f"inside of {fusion.name}: {number} of {len(fusions)} ...")
        with suppress(HloError):
            inside = interruptible(
                lambda: remeasured(fusion, values, lambda module: compiled(module, True), options.seconds)  # noqa: B023
            )
            if inside is not None:
                found[fusion] = inside


def _measurement(options: ProfileOptions) -> Measurement:
    """The two programs and their arguments."""
    _, snapshot = read_run(options.file)
    module = snapshot.module if options.elided is None else filled(snapshot.module, options.elided)
    bare, probed = (
        compile_module(
            module, pipeline=named_pipeline(options.passes), threads=options.threads, machine=options.machine,
            excess_precision=options.excess_precision, flush_denormals=options.flush_denormals,
            finite_loops=options.finite_loops, profiled=profiled,
        )
        for profiled in (False, True)
    )  # fmt: skip
    inputs, recorded = inputs_of(module), None
    if options.inputs is None and options.seed is None and options.edges is None:
        recorded = recorded_arrays(snapshot, probed.devices, len(inputs))
    rows: list[list[npt.NDArray[Any]]] = input_arrays(
        inputs, probed.parameters, probed.devices, options.inputs, options.values, options.seed, recorded,
        options.edges,
    )  # fmt: skip
    return Measurement(bare, probed, rows[0], options.threads)


# ---- flame graphs


def _flame(report: Report, path: str) -> str:
    rows = _timed(report)
    module = report.profile.module
    if not path.lower().endswith((".html", ".htm")):
        return folded(by_structure(module, rows))
    views = {"structure": by_structure(module, rows), "op_name": by_op_name(rows), "source": by_source(module, rows)}
    return flame_page(module.name, _head(report), views)


def _timed(report: Report) -> list[Timed]:
    found = []
    for step in report.profile.steps:
        parts = report.inside.get(step.instruction, ()) if step.instruction is not None else ()
        inner = tuple((part.instruction, part.share * step.seconds) for part in parts)
        how = parts[0].how if parts else ""
        found.append(Timed(step.computation, step.instruction, step.name, step.seconds, inner, how))
    return found


# ---- text


def _head(report: Report) -> str:
    profile = report.profile
    words = "one thread" if profile.threads == 1 else f"{profile.threads} threads"
    return (
        f"{profile.module.name}: {time_text(profile.bare.median)} a run (median of {profile.bare.count}, {words}); "
        f"steps add up to {time_text(profile.seconds)}, {profile.explained:.1%} of it; "
        f"probes cost {profile.overhead:.1%}"
        + (f"; {_rerun_words(report)}" if report.reruns else "")
        + ("; interrupted" if report.interrupted else "")
    )


def _rerun_words(report: Report) -> str:
    count, programs = len(report.reruns), sum(inside.programs for inside in report.reruns.values())
    fusions = "one fusion" if count == 1 else f"{count} fusions"
    return f"inside of {fusions} by re-runs of {programs} programs, which took {time_text(report.seconds)}"


def _text(report: Report, top: int) -> str:
    profile, sources = report.profile, Sources(report.profile.module)
    total = profile.seconds or 1.0
    steps = sorted(profile.steps, key=lambda step: -step.seconds)
    rows: list[tuple[str, ...]] = []
    for step in steps[:top]:
        rows.append(_row(report, step, total, sources))
        for part in _large_parts(report, step, total):
            rows.append(_part_row(part, step, total, sources))
    rest = steps[top:]
    if rest:
        seconds = sum(step.seconds for step in rest)
        rows.append((time_text(seconds), f"{seconds / total:.1%}", "", "", "", "measured", f"{len(rest)} more", "", ""))
    headings = ("time", "share", "busy", "predicted", "count", "how", "instruction", "opcode", "source")
    tables = [Table(_head(report), headings, rows, frozenset(("time", "share", "busy", "predicted", "count")))]
    places = _by_place(report, sources)
    if places:
        ordered = sorted(places.items(), key=lambda item: -item[1])[:_MOST_SOURCES]
        lines = [(time_text(seconds), f"{seconds / total:.1%}", place) for place, seconds in ordered]
        how = "as re-runs and estimates say" if report.reruns else "as estimated"
        title = f"by source (time of fusions divided {how})"
        tables.append(Table(title, ("time", "share", "source"), lines, frozenset(("time", "share"))))
    return "\n\n".join(plain_table(table) for table in tables) + "\n"


def _row(report: Report, step: Step, total: float, sources: Sources) -> tuple[str, ...]:
    instruction = step.instruction
    name = step.name if step.kind in ("kernel", "loop", "scalars", "rest", "call") else f"{step.name} ({step.kind})"
    opcode = instruction.opcode if instruction is not None else ""
    source = source_text(sources, instruction) if instruction is not None else ""
    share = f"{step.seconds / total:.1%}"
    guess = _guess(report, step)
    return (
        time_text(step.seconds), share, time_text(step.busy), "" if guess is None else time_text(guess),
        f"{step.count:,}", "measured", name, opcode, source,
    )  # fmt: skip


def _guess(report: Report, step: Step) -> float | None:
    """What was predicted of a kernel."""
    return report.predicted.get(step.instruction) if step.kind == "kernel" and step.instruction is not None else None


def _large_parts(report: Report, step: Step, total: float) -> list[Part]:
    if step.instruction is None or step.seconds < _LEAST_SHARE * total:
        return []
    parts = report.inside.get(step.instruction, ())
    shown = [part for part in parts if part.share * step.seconds >= _LEAST_PART * total]
    return sorted(shown, key=lambda part: -part.share) if len(parts) > 1 else []


def _part_row(part: Part, step: Step, total: float, sources: Sources) -> tuple[str, ...]:
    seconds = part.share * step.seconds
    alone = ""
    if part.seconds is not None and part.noise is not None:
        with_ = "".join(f" + {one.name}" for one in part.others[:3]) + (" + ..." if len(part.others) > 3 else "")
        alone = f"{with_} (alone {time_text(part.seconds)} ± {time_text(part.noise)})"
    name, opcode, source = "(loads, stores, loops)", "", ""
    if part.instruction is not None:
        opcode, source = part.instruction.opcode, source_text(sources, part.instruction)
        name = f"read {part.instruction.name}" if opcode == "parameter" else part.instruction.name
    return (time_text(seconds), f"{seconds / total:.1%}", "", "", "", part.how, f"  {name}{alone}", opcode, source)


def _by_place(report: Report, sources: Sources) -> dict[str, float]:
    """Seconds by source line; what has no metadata goes with the fusion that it is in."""
    found: dict[str, float] = {}
    for row in _timed(report):
        outer = source_text(sources, row.instruction) if row.instruction is not None else ""
        for instruction, seconds in row.parts or ((row.instruction, row.seconds),):
            place = (source_text(sources, instruction) if instruction is not None else "") or outer
            if place:
                found[place] = found.get(place, 0.0) + seconds
    return found


# ---- JSON


def _json(report: Report) -> dict[str, Any]:
    profile, sources = report.profile, Sources(report.profile.module)
    return {
        "schema_version": 1,
        "kind": "profile",
        "module": profile.module.name,
        "processor": host().cpu,
        "threads": profile.threads,
        "runs": profile.bare.count,
        "interrupted": report.interrupted,
        "uninstrumented": _summary(profile.bare),
        "instrumented": _summary(profile.probed),
        "overhead": profile.overhead,
        "sum": profile.seconds,
        "sum_of_uninstrumented": profile.explained,
        "steps": [_step_json(report, step, sources) for step in profile.steps],
        "measured": "native",
        "times": times_json(profile.times())["times"],
    }


def _summary(summary: Any) -> dict[str, float]:
    return {"median": summary.median, "low": summary.low, "high": summary.high, "best": summary.best}


def _step_json(report: Report, step: Step, sources: Sources) -> dict[str, Any]:
    parts = report.inside.get(step.instruction, ()) if step.instruction is not None else ()
    inside = [
        {
            **_instruction_json(part.instruction, sources), "seconds": part.share * step.seconds, "how": part.how,
            "alone": part.seconds, "noise": part.noise, "with": [one.name for one in part.others],
        }
        for part in parts
    ]  # fmt: skip
    return {
        "step": step.kind, "computation": step.computation, **_instruction_json(step.instruction, sources),
        "kernel": step.kernel, "count": step.count, "seconds": step.seconds, "how": "measured", "busy": step.busy,
        "whole": step.whole or step.seconds, "predicted": _guess(report, step),
        "inside": inside, "rerun": _rerun_json(report, step.instruction),
    }  # fmt: skip


def _rerun_json(report: Report, fusion: Instruction | None) -> dict[str, Any] | None:
    inside = report.reruns.get(fusion) if fusion is not None else None
    return None if inside is None else {"seconds": inside.seconds, "programs": inside.programs, "runs": inside.runs}


def _instruction_json(instruction: Instruction | None, sources: Sources) -> dict[str, Any]:
    if instruction is None:
        return {"instruction": None, "opcode": None, "op_name": "", "source": ""}
    op_name = instruction.metadata.op_name if instruction.metadata is not None else ""
    return {
        "instruction": instruction.name, "opcode": instruction.opcode, "op_name": op_name,
        "source": source_text(sources, instruction),
    }  # fmt: skip
