"""``hlotool doctor``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby

import click

import hlotool
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import format_option
from hlotool.cli.progress import progress
from hlotool.cli.variables import VARIABLES
from hlotool.cli.words import say
from hlotool.harness.facts import Fact, facts, shortened
from hlotool.harness.self_test import Check, processors, self_test

__all__ = ["command"]


@click.command("doctor")
@click.option(
    "--test",
    type=click.Choice(["all", "host", "none"]),
    default="all",
    show_default=True,
    help="The self-test: with code for other processors that this one can run, for this one alone, or not at all.",
)
@format_option
def command(test: str, form: str) -> None:
    """Facts for a report of a bug, and a self-test: what runs here, and whether it computes right.

    The facts are versions, the processor as code generation sees it, limits, the environment that hlotool reads, the
    cache and programs that it calls.  The user's home is shown as ~.  The self-test compiles and runs a small module
    for each kind of kernel, for every processor whose code this one can run, in child processes, and compares with the
    evaluator; shares work among threads; writes to the cache and reads from it; loads what other packages add; and asks
    XLA, where there is a Python with jax.

    Each check is ok, failed, or skipped, which says why.  Exits 1 where one failed.

    \b
    Examples:
        hlotool doctor                          all of it, to be put into a report
        hlotool doctor --test none              facts alone, in a second
        hlotool doctor --format json > doctor.json
    """
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
