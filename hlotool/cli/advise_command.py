"""``hlotool advise``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

import hlotool
from hlotool.cli.common import read_module
from hlotool.cli.interruptible import interruptible
from hlotool.cli.options import cpu_option, file_argument, format_option, strict_option, threads_option
from hlotool.cli.progress import progress
from hlotool.cli.tables import time_text
from hlotool.cli.words import say
from hlotool.codegen.machine import Machine, default_machine
from hlotool.driver.predict import Forecast
from hlotool.harness.advice import Advice, advise, measured
from hlotool.ir import Module
from hlotool.runtime.pool import default_threads
from hlotool.text.sources import Sources

__all__ = ["command"]


@click.command("advise")
@file_argument
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="How many changes.")
@click.option("--measure", is_flag=True, help="Make the changed programs, and run both in turns on random inputs.")
@click.option(
    "--time", "seconds", type=click.FloatRange(0), default=0.5, show_default=True,
    help="Of --measure: seconds for each change.",
)  # fmt: skip
@cpu_option
@threads_option
@strict_option
@format_option
def command(
    file: str, top: int, measure: bool, seconds: float, machine: Machine | None, threads: int | None, form: str
) -> None:
    """Show which changes to the program in FILE would gain most, and how much.

    Changes are to what is written, not to how it is compiled: smells that lint mends, barriers that keep operations
    apart, types wider than need be, scatters that promise nothing of their indices, arguments that come in the wrong
    order, what is computed again in every run, and batches too small.  Each is predicted: the changed program is made,
    where that can be done, and optimised; the difference to this one is the gain.  'hlotool doctor --calibrate' makes
    predictions those of this machine.

    With --measure both programs run in turns, and results are compared: 'ok' says they are equal within the bounds of
    their types.  A change to a narrower type gives results of another type, which are 'not comparable'; what changes
    the arguments is 'not tried', and says why.

    \b
        hlotool advise samples/attention.hlo
        hlotool advise samples/mlp_step.hlo --measure --time 0.2
    """
    module = read_module(file, runs=True)
    machine, threads = machine or default_machine(), threads or default_threads()
    with progress(after=0) as tell:
        before, found = interruptible(lambda: advise(module, machine, threads, top, tell))
        for number, one in enumerate(found if measure else ()):
            tell(f"measuring {one.kind}: {number + 1} of {len(found)} ...")
            found[number] = interruptible(partial(measured, module, one, machine, threads, seconds))
    if form == "json":
        click.echo(json.dumps(_json(file, module, before, found), indent=1))
    else:
        say(_text(module, before, found))


def _text(module: Module, before: Forecast, found: Sequence[Advice]) -> str:
    performance = before.performance
    lines = [
        f"{module.name}: {time_text(before.seconds)} predicted, by figures that are {performance.origin}"
        + ("; 'hlotool doctor --calibrate' measures this machine" if performance.origin == "built in" else "")
    ]
    if before.note:
        lines.append(before.note)
    if before.prediction.unknown:
        count = len(before.prediction.unknown)
        lines.append(f"{count} loops of unknown length, which count once, or calls of the runtime, which do not count")
    if not found:
        lines.append("no change is known that would gain something")
    sources = Sources(module)
    for number, one in enumerate(found, 1):
        place = _place(one, sources)
        lines += [
            "",
            f"{number}. {one.kind}{f' at {place}' if place else ''}: {one.message}",
            f"   {one.hint}",
            f"   predicted: {_gain(one.gain, before.seconds)}; results: {one.effect}",
        ]
        if one.trial is not None:
            trial = one.trial
            lines.append(
                f"   measured: {_gain(trial.gain, trial.before.median)} "
                f"(95 %: {_signed(trial.low)} to {_signed(trial.high)}); results: {trial.verdict}"
            )
        elif one.failure:
            lines.append(f"   not measured: {one.failure}")
    return "\n".join(lines)


def _gain(seconds: float, whole: float) -> str:
    return f"{_signed(seconds)}, {seconds / whole:.1%} of a run" if whole else _signed(seconds)


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{time_text(abs(seconds))}"


def _place(one: Advice, sources: Sources) -> str:
    """The instruction, and where it stands in the file and in the program's own source."""
    if one.instruction is None:
        return ""
    place, written = one.instruction.location, sources.of(one.instruction)
    where = [f"{place.file}:{place.line}"] if place is not None else []
    where += [f"{written.file}:{written.line}"] if written is not None else []
    return one.instruction.name + (f" ({', '.join(where)})" if where else "")


def _json(file: str, module: Module, before: Forecast, found: Sequence[Advice]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "advise",
        "tool_version": hlotool.__version__,
        "file": file,
        "module": module.name,
        "seconds": before.seconds,
        "figures": before.performance.origin,
        "note": before.note,
        "unknown": [i.name for i in before.prediction.unknown],
        "changes": [_change(one, Sources(module)) for one in found],
    }


def _change(one: Advice, sources: Sources) -> dict[str, Any]:
    instruction, trial = one.instruction, one.trial
    place = instruction.location if instruction is not None else None
    written = sources.of(instruction) if instruction is not None else None
    return {
        "change": one.kind,
        "instruction": instruction.name if instruction is not None else None,
        "line": place.line if place is not None else None,
        "source": f"{written.file}:{written.line}" if written is not None else "",
        "message": one.message,
        "hint": one.hint,
        "effect": one.effect,
        "predicted_gain": one.gain,
        "measured": None if trial is None else {
            "gain": trial.gain, "low": trial.low, "high": trial.high, "before": trial.before.median,
            "after": trial.after.median, "verdict": trial.verdict,
        },
        "failure": one.failure,
    }  # fmt: skip
