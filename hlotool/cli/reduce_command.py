"""``hlotool reduce``."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from typing import Any

import click

from hlotool.cli.common import read_module
from hlotool.cli.errors import CheckFailed
from hlotool.cli.executor_options import EXECUTORS, executor_name, opened_jobs
from hlotool.cli.failing_options import choose_trials, trial_options
from hlotool.cli.options import file_argument, format_option
from hlotool.cli.output import write_text
from hlotool.cli.passes_options import passes_options
from hlotool.cli.progress import progress
from hlotool.cli.session import current
from hlotool.cli.words import say
from hlotool.codegen.machine import host
from hlotool.harness.jobs import Jobs
from hlotool.harness.reduce import NoFailure, Reduction, Step, find_failure, reduce_text
from hlotool.harness.reduce.report import see_command, with_head
from hlotool.harness.trials import CommandTrial, PipelineTrial
from hlotool.text.printer import print_module

__all__ = ["command"]


def _executor(context: click.Context, parameter: click.Parameter, value: str) -> str:
    return value if value in ("processes", "inline") else executor_name(context, parameter, value) or value


@click.command("reduce")
@file_argument
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="OUT.hlo", help="Write the result there.")
@click.option("--force", is_flag=True, help="Write it even where there is such a file.")
@passes_options()
@trial_options
@click.option("--narrow/--no-narrow", default=True, show_default=True, help="Whether to leave out passes, too.")
@click.option(
    "--max-time", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Stop then with what there is."
)
@click.option(
    "-j", "--jobs", type=click.IntRange(1, 256), metavar="N", help="Trials at a time (default: as many as cores)."
)
@click.option(
    "--executor", callback=_executor, default="processes", show_default=True, metavar=f"processes|{EXECUTORS}|inline",
    help="Where trials run: in as many processes as there are jobs, or N; on the workers of a scheduler of Dask, the "
    "ranks of MPI, or what FUNCTION gives; or inline, one after the other in this process.",
)  # fmt: skip
@click.option(
    "--journal", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="What trials answered so far, so that a search that was cut off goes on.",
)  # fmt: skip
@format_option
def command(
    file: str, output: str | None, force: bool, passes: str, backend: str | None, seed: int, asked: str | None,
    code: int | None, message: str | None, timeout: float | None, narrow: bool, max_time: float | None,
    jobs: int | None, executor: str, journal: Path | None, form: str,
) -> None:  # fmt: skip
    """Cut FILE down to what its failure needs, and print that module.

    A failure is that a pass crashes, leaves an invalid module or never ends; that what the passes make of FILE computes
    other numbers, as run --compare evaluate finds; or that compiling or running it fails.  Passes are those of -p or
    -O, else those that FILE names in its header, as reproducers do.  With --cmd it is whatever a command says it is, by
    its exit code, as for git bisect run: 0 is good, 1 to 124, 126 and 127 are bad, 125 is undecided, others end the
    search.

    Results, instructions, computations, loop trips, sizes, element types, constants, attributes and passes are left
    out, or made plainer, as long as the same failure is still there: the same pass and exception, exit code and
    message, or kind of wrong numbers.  The result carries the passes in its header and says how to see the failure; it
    was read back and tried once more.  It is the same for any number of jobs.  Ctrl-C ends with the best so far, and
    exit code 130.

    \b
        hlotool reduce bad.hlo -o small.hlo               a crash, or numbers that are wrong
        hlotool reduce hlotool-repro-cse.hlo -p cse       with these passes
        hlotool reduce bad.hlo --backend cpu --random 3   native code on inputs of seed 3
        hlotool reduce bad.hlo --cmd 'my-compiler {}' --message 'LLVM ERROR'

    Exit code 0: reduced; 1: FILE does not fail, or that is undecided.
    """
    if output is not None and not force and os.path.lexists(output):
        raise click.UsageError(f"{output} is there already; --force writes over it")
    module = read_module(file, runs=True)
    text = current().sources.get("<stdin>" if file == "-" else file) or print_module(module)
    stop = Event()
    trials = choose_trials(text, passes, backend, seed, asked, code, message, timeout, stop)
    begin = time.monotonic()
    with ExitStack() as stack, progress() as tell:
        workers, width = _workers(executor, jobs, timeout, journal, asked is not None, stack)
        if not isinstance(workers, ThreadPoolExecutor):
            trials = [replace(one, stop=None) if isinstance(one, CommandTrial) else one for one in trials]
        try:
            found = find_failure(text, trials, workers)
            reduction = reduce_text(
                text, found, workers, width=width, seconds=max_time, patient=timeout is not None, narrow=narrow,
                seen=lambda step: tell(_where(file, step, begin)),
            )  # fmt: skip
            if isinstance(workers, Jobs):
                workers.keeps_journal = reduction.stopped != ""
        except NoFailure as nothing:
            _say_nothing(nothing, file, form)
            raise CheckFailed from None
        finally:
            stop.set()
    result = with_head(reduction, file, "FILE" if output is None else output)
    if form == "text" or output is not None:
        write_text(output, result)
    if form == "json":
        click.echo(json.dumps(_answer(reduction, file, result, output)))
    ending = {"": "", "time": "; the time was over", "interrupt": "; interrupted"}[reduction.stopped]
    counts = f"{reduction.before} -> {reduction.after} instructions, {reduction.trials} trials"
    say(f"{file}: {reduction.failure}\n{counts}, {reduction.seconds:.1f} s{ending}", err=True)
    if output is not None:
        say(f"to see it: {see_command(reduction.trial, output)}", err=True)
    if reduction.stopped == "interrupt":
        raise KeyboardInterrupt


def _workers(
    name: str, jobs: int | None, limit: float | None, journal: Path | None, is_command: bool, stack: ExitStack
) -> tuple[Executor, int]:
    """Who does the trials, and how many at a time: commands run in processes of their own anyway, so that threads of
    this one start them."""
    if name == "inline" or (name == "processes" and is_command):
        if journal is not None:
            raise click.UsageError("--journal goes with jobs: --executor processes:N, or another one")
        width = 1 if name == "inline" and not is_command else jobs or host().cores
        return stack.enter_context(ThreadPoolExecutor(width)), width
    if name == "processes":
        name = f"processes:{jobs or host().cores}"
    doing = stack.enter_context(opened_jobs(name, "reduce", limit, journal, again=0))
    return doing, jobs or doing.width


def _where(file: str, step: Step, begin: float) -> str:
    """How far the search has come, for a terminal."""
    counts = f"{step.instructions} instructions, {step.trials} trials"
    return f"{file}: {counts}, {time.monotonic() - begin:.0f} s: {step.strategy}"


def _say_nothing(nothing: NoFailure, file: str, form: str) -> None:
    outcome = nothing.outcome
    if form == "json":
        verdict = "no failure" if outcome.verdict == "good" else "undecided"
        rows = {"schema_version": 1, "kind": "reduce", "file": file, "verdict": verdict, "why": outcome.why}
        click.echo(json.dumps(rows))
    say(f"{file}: " + ("no failure" if outcome.verdict == "good" else f"UNDECIDED: {outcome.why}"), err=True)


def _answer(reduction: Reduction, file: str, result: str, output: str | None) -> dict[str, Any]:
    trial = reduction.trial
    return {
        "schema_version": 1,
        "kind": "reduce",
        "file": file,
        "verdict": "reduced",
        "failure": asdict(reduction.failure),
        "passes": trial.pipeline if isinstance(trial, PipelineTrial) else None,
        "to_see_it": see_command(trial, output or "FILE"),
        "instructions": {"before": reduction.before, "after": reduction.after},
        "trials": reduction.trials,
        "seconds": reduction.seconds,
        "stopped": reduction.stopped or None,
        "output": output,
        "module": result if output is None else None,
    }
