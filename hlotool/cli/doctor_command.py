"""``hlotool doctor``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby

import click

import hlotool
from hlotool.cli.errors import CheckFailed
from hlotool.cli.interruptible import interruptible
from hlotool.cli.options import cpu_option, format_option, threads_option
from hlotool.cli.progress import progress
from hlotool.cli.tables import Table, plain_table
from hlotool.cli.variables import VARIABLES
from hlotool.cli.words import say
from hlotool.codegen.machine import Machine
from hlotool.harness.facts import Fact, facts, shortened
from hlotool.harness.self_test import Check, processors, self_test
from hlotool.ir import UnsupportedError

__all__ = ["command"]


@click.command("doctor")
@click.option(
    "--test",
    type=click.Choice(["all", "host", "none"]),
    default="all",
    show_default=True,
    help="The self-test: with code for other processors that this one can run, for this one alone, or not at all.",
)
@click.option(
    "--calibrate", is_flag=True,
    help="Instead of all that: time kernels made for it, for half a minute, and keep what they say of this machine.",
)  # fmt: skip
@cpu_option
@threads_option
@format_option
def command(test: str, calibrate: bool, machine: Machine | None, threads: int | None, form: str) -> None:
    """Facts for a report of a bug, and a self-test: what runs here, and whether it computes right.

    The facts are versions, the processor as code generation sees it, limits, the environment that hlotool reads, the
    cache and programs that it calls.  The user's home is shown as ~.  The self-test compiles and runs a small module
    for each kind of kernel, for every processor whose code this one can run, in child processes, and compares with the
    evaluator; shares work among threads; writes to the cache and reads from it; loads what other packages add; and asks
    XLA, where there is a Python with jax.

    Each check is ok, failed, or skipped, which says why.  Exits 1 where one failed.

    With --calibrate it measures what predictions of cost, advise and profile go by: how long a byte takes from each
    cache and from memory, a vector of arithmetic, functions, steps of products, the start of a kernel and of a thread.
    The figures are kept in the cache, for this processor, this version and so many threads; others are built in. Let
    nothing else run meanwhile. --cpu and --threads go with it: figures for code that is compiled so.

    \b
    Examples:
        hlotool doctor                          all of it, to be put into a report
        hlotool doctor --test none              facts alone, in a second
        hlotool doctor --format json > doctor.json
        hlotool doctor --calibrate              make predictions those of this machine
    """
    if calibrate:
        _calibrate(machine, threads, form)
        return
    if machine is not None or threads is not None:
        raise click.UsageError("--cpu and --threads go with --calibrate")
    known = list(facts(VARIABLES))
    if form == "text":
        say(_facts_text(known))
    checks: list[Check] = []
    complete = False
    try:
        with progress() as tell:
            for check in self_test(("host",) if test == "host" else processors()) if test != "none" else ():
                checks.append(check)
                tell(f"{check.group}: {check.name}")
        complete = True
    finally:
        checks = [Check(c.group, c.name, c.verdict, shortened(c.reason)) for c in checks]
        if form == "json":
            _show_json(known, checks, complete)
        else:
            _show_text(checks, complete)
    if any(check.verdict == "failed" for check in checks):
        raise CheckFailed


def _calibrate(machine: Machine | None, threads: int | None, form: str) -> None:
    from hlotool.analysis.performance import FIGURES
    from hlotool.codegen.machine import default_machine, runs_here
    from hlotool.harness.calibration import calibrate
    from hlotool.runtime.performance import keep_performance
    from hlotool.runtime.pool import default_threads

    machine = default_machine() if machine is None else machine
    if not runs_here(machine):
        raise UnsupportedError(f"code for {machine.cpu} does not run here: there is nothing to measure")
    with progress(after=0) as tell:
        found = interruptible(
            lambda: calibrate(machine, threads or default_threads(), lambda name: tell(f"timing {name} ..."))
        )
    performance = found.performance
    kept = keep_performance(machine, performance)
    if form == "json":
        head = {"schema_version": 1, "kind": "doctor", "tool_version": hlotool.__version__}
        answer = {
            "cpu": performance.cpu, "threads": performance.threads, "kernels": found.kernels, "error": found.error,
            "error_before": found.error_before, "kept": kept, "figures": dict(performance.figures),
        }  # fmt: skip
        rest = {"verdict": "ok", "complete": True, "facts": [], "checks": [], "calibration": answer}
        click.echo(json.dumps({**head, **rest}, indent=1))
        return
    rows = [(f"{performance.figures[name]:.3g} ns", name, words) for name, words in FIGURES.items()]
    title = f"{performance.cpu}, {_threads(performance.threads)}: figures of {found.kernels} kernels"
    say(plain_table(Table(title, ("each", "figure", "what"), rows, frozenset(("each",)))))
    say(
        f"predictions of these kernels are off by {found.error:.0%} (median); by the figures built in, by "
        f"{found.error_before:.0%}; " + ("kept in the cache" if kept else "not kept: there is no cache to write to")
    )


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"


def _facts_text(known: Sequence[Fact]) -> str:
    width = max(len(fact.name) for fact in known)
    lines = []
    for group, rows in groupby(known, lambda fact: fact.group):
        lines += [group, *(f"  {fact.name:{width}}  {fact.value}" for fact in rows)]
    return "\n".join(lines)


def _show_text(checks: Sequence[Check], complete: bool) -> None:
    """A line for what failed or was skipped, and one for all of a group that is ok."""
    if checks:
        say("self-test")
    for group, rows in groupby(checks, lambda check: check.group):
        these = list(rows)
        well = [check.name for check in these if check.verdict == "ok"]
        if well:
            say(f"  ok       {group}: {', '.join(well)}")
        for check in these:
            if check.verdict != "ok":
                say(f"  {check.verdict:7}  {group}: {check.name}: {check.reason}")
    if checks:
        say(_summary(checks, complete))


def _summary(checks: Sequence[Check], complete: bool) -> str:
    counts = {word: sum(check.verdict == word for check in checks) for word in ("ok", "failed", "skipped")}
    end = "" if complete else "; interrupted"
    return f"{counts['ok']} ok, {counts['failed']} failed, {counts['skipped']} skipped{end}"


def _show_json(known: Sequence[Fact], checks: Sequence[Check], complete: bool) -> None:
    head = {"schema_version": 1, "kind": "doctor", "tool_version": hlotool.__version__}
    verdict = "failed" if any(check.verdict == "failed" for check in checks) else "ok" if complete else "interrupted"
    rows = {"facts": [asdict(fact) for fact in known], "checks": [asdict(check) for check in checks]}
    click.echo(json.dumps({**head, "verdict": verdict, "complete": complete, **rows}, indent=1))
