"""``hlotool compile``."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

import click

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import Donate
from hlotool.cli.compiling import compiling
from hlotool.cli.dump_options import DumpChoice, dump_options
from hlotool.cli.options import (
    backend_option,
    check_backend,
    cpu_option,
    devices_options,
    donate_option,
    format_option,
    is_given,
    numerics_options,
    optional_file_argument,
    threads_option,
    tune_option,
)
from hlotool.cli.output import write_bytes, write_text
from hlotool.cli.pipeline_options import PipelineChoice, pipeline_options
from hlotool.cli.trace_options import trace_option, traced
from hlotool.cli.words import say
from hlotool.codegen.machine import Machine
from hlotool.driver import compile_module, find_backend, on_devices
from hlotool.inspect.dump import Dump
from hlotool.inspect.memory import buffer_plan, plan_text
from hlotool.ir import UnsupportedError
from hlotool.passes.framework.manager import Progress
from hlotool.passes.fuse.fusion import fusible_computations
from hlotool.runtime.archive import archive_of
from hlotool.runtime.executable import Executable
from hlotool.text.printer import print_module

__all__ = ["command"]


@click.command("compile")
@optional_file_argument
@pipeline_options
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write what --emit names here.")
@click.option(
    "--emit",
    "stage",
    type=click.Choice(["hlo", "llvm", "asm", "object", "ptx", "launches"]),
    help="What to write: optimised HLO, LLVM IR, assembly, or the objects as one archive (default with -o: hlo); for "
    "nvptx:CHIP PTX, for amdgcn:CHIP one object, and what these launch.",
)
@backend_option("cpu, nvptx:CHIP (sm_70 to sm_100), amdgcn:CHIP (gfx90a, ...), or an installed one.")
@click.option("--decisions", is_flag=True, help="Say on standard error what was decided, and why.")
@donate_option
@devices_options
@cpu_option
@threads_option
@numerics_options
@tune_option
@format_option
@trace_option
@dump_options
def command(
    file: str | None,
    choice: PipelineChoice,
    output: str | None,
    stage: str | None,
    backend: str,
    decisions: bool,
    donate: Donate,
    replicas: int | None,
    partitions: int | None,
    machine: Machine | None,
    threads: int | None,
    excess_precision: bool,
    flush_denormals: bool,
    form: str,
    trace: str | None,
    dump: DumpChoice,
) -> None:
    """Compile FILE to native code and say what came of it.

    With --dump-to DIR the module is written and drawn after every pass that changed it; --dump-format all adds the
    buffers, LLVM IR and assembly.  --trace DIR has the rewrites of the chosen passes, not those of lowering.

    The archive of --emit object links by itself: void run_NAME(void **frame) takes the addresses of parameters,
    results, run_NAME_arena_bytes bytes aligned to 64, and run_NAME_constants, then two words that are zero.  Steps run
    one after the other unless hlo_parallel and hlo_parallel_awake (function, arguments, tasks, status) are defined
    elsewhere.

    A backend that compiles clusters of instructions gets the module as it is; the passes are for what it leaves.
    """
    if stage == "object" and output in (None, "-"):
        raise click.UsageError("--emit object needs -o FILE: it is binary")
    check_backend(backend)
    whole = _takes_whole_modules(backend)
    module = on_devices(choice.module(file), replicas, partitions)
    progress, log = Progress(), DecisionLog()
    name = file or choice.start_from or ""
    with dump.watching(module, progress, log=log) as instruments, compiling(name) as shown:
        start = time.perf_counter()
        with traced(trace, module, str(choice.pipeline())) as watched:
            watched.decisions = log.decisions  # the drawings of the dump have them as they come
            optimised = choice.apply(module, [*instruments, *shown], watched, progress) if whole else module
        log.rewrites = watched.rewrites
        executable = compile_module(
            optimised, backend, pipeline="none" if whole else choice.pipeline(), threads=threads, machine=machine,
            log=log, instruments=[*instruments, *shown],
            excess_precision=excess_precision, flush_denormals=flush_denormals, donate=donate,
            to_run=False,
        )  # fmt: skip
        seconds = time.perf_counter() - start
        for one in instruments:
            _dump_code(one, executable)
    for decision in log if decisions else ():
        say(str(decision), err=True)
    if output is not None or stage is not None:
        _write(executable, stage or "hlo", output)
    if output not in (None, "-") or (output is None and stage is None):
        summary = _summary(name, module.instruction_count(), executable, backend, seconds)
        click.echo(json.dumps(summary) if form == "json" else _text(summary))
        if executable.partition is not None and form != "json":
            say(f"{backend}: {executable.partition.report().text()}")


_WATCHING = (
    "start_from", "stop_after", "rewrite_limit", "check_each", "time_passes", "pass_statistics", "statistics_to",
    "trace",
)  # fmt: skip
"""Options that say what becomes of the module in passes ahead of the backend."""


def _takes_whole_modules(backend: str) -> bool:
    """Whether passes run ahead of the backend; UsageError for options about them where they do not."""
    whole = find_backend(backend).fallback is None
    if not whole and is_given(*_WATCHING):
        words = "what stops or watches passes is for backends that come after them"
        raise click.UsageError(f"--backend {backend} gets the module ahead of the passes: {words}")
    return whole


def _dump_code(dump: Dump, executable: Executable) -> None:
    """What code generation made, as the last steps of a dump."""
    if executable.program is not None:
        plan = buffer_plan(executable.program.assignment, executable.module)
        dump.add_text("buffers", "buffers", "txt", plan_text(plan))
        for form, name, suffix in (("llvm", "llvm", "ll"), ("asm", "assembly", "s")):
            if form in dump.formats:
                dump.add_text(form, name, suffix, executable.text(form))


def _write(executable: Executable, stage: str, output: str | None) -> None:
    match stage:
        case "hlo":
            write_text(output, print_module(executable.module))
        case "object":
            assert output is not None
            if executable.launches is not None:
                whole = executable.device_object()
                write_bytes(output, lambda stream: stream.write(whole))
                return
            program, machine = executable.program, executable.machine
            if executable.parts:
                raise UnsupportedError("several backends made parts of the program: there is no one archive of it")
            if program is None or machine is None:
                raise UnsupportedError("the evaluator runs the module: there is no native code to write")
            archive = archive_of(program, executable.objects, machine)
            write_bytes(output, lambda stream: stream.write(archive))
            if program.host_calls:
                names = ", ".join(["hlo_host", *(call.symbol for call in program.host_calls)])
                say(f"note: {output} calls Python: whoever links it defines {names}", err=True)
        case _:
            write_text(output, executable.text(stage))


def _summary(file: str, before: int, executable: Executable, backend: str, seconds: float) -> dict[str, Any]:
    program = executable.program or executable.launches
    programs = [one.program or one.launches for one in executable.parts] or [program]
    kernels = [use for one in programs if one is not None for use in one.kernels]
    cut = executable.partition
    clusters = {} if cut is None else {"clusters": asdict(cut.report())}
    return {
        "schema_version": 1,
        "kind": "compile",
        "file": file,
        "instructions": before,
        "instructions_after": executable.module.instruction_count(),
        "outside_fusions": sum(len(c) for c in fusible_computations(executable.module)),
        "backend": "evaluate" if program is None and not executable.parts else backend,
        "kernels": len(kernels),
        "parallel_kernels": sum(use.parallel for use in kernels),
        "arena_bytes": executable.memory.arena_bytes,
        "peak_bytes": executable.memory.peak_bytes,
        "code_bytes": sum(len(code) for one in executable.parts or [executable] for code in one.objects),
        "donated": {f"out{result}": f"arg{number}" for result, number in sorted(executable.donated.items())},
        "seconds": round(seconds, 4),
        **clusters,
    }


def _text(summary: dict[str, Any]) -> str:
    pairs = [f"{result} in {argument}" for result, argument in summary["donated"].items()]
    return (
        f"{summary['file']}: {summary['instructions']} instructions -> {summary['instructions_after']}, "
        f"{summary['outside_fusions']} outside of fusions, "
        f"{summary['kernels']} kernels ({summary['parallel_kernels']} parallel), "
        f"{summary['peak_bytes']:,} bytes at peak ({summary['arena_bytes']:,} temporary), {summary['seconds']:.3f} s"
        + (f"; {', '.join(pairs)}" if pairs else "")
    )
