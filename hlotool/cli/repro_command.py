"""``hlotool repro``."""

from __future__ import annotations

import click

from hlotool.analysis.decisions import DecisionLog
from hlotool.cli.common import read_module
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import file_argument
from hlotool.cli.passes_options import named_pipeline
from hlotool.cli.session import current
from hlotool.cli.words import say
from hlotool.driver import optimise
from hlotool.harness.check_each import CheckEach, NumbersChanged, NumbersUndecided
from hlotool.harness.inputs import random_inputs
from hlotool.ir.verifier import check
from hlotool.passes.framework.instruments import VerifyEach
from hlotool.passes.framework.manager import Instrument
from hlotool.passes.framework.pipeline import carried_pipeline

__all__ = ["command"]


@click.command("repro")
@file_argument
@click.option("--check/--no-check", "checked", default=True, help="Evaluate the module after every pass, too.")
@click.option("--random", "seed", type=click.IntRange(0), default=0, metavar="SEED", help="Inputs for that.")
def command(file: str, checked: bool, seed: int) -> None:
    """Run the passes that FILE names in its header: does a pass still fail on it?

    Failing passes, and those that opt --check-each finds to be wrong, leave such a file.  Exit code 0: the module
    stays valid and computes the same; 1: its numbers change, or nothing is known of them; 70: a pass crashes or leaves
    an invalid module.
    """
    module = read_module(file)
    name = "<stdin>" if file == "-" else file
    text = carried_pipeline(current().sources.get(name, ""))
    if text is None:
        raise click.UsageError(f"{file} carries no pipeline: there is no line '// pipeline: ...' ahead of its header")
    pipeline = named_pipeline(text)
    instruments: list[Instrument] = [VerifyEach(check)]
    try:
        if checked:
            instruments.append(CheckEach(module, random_inputs(module, seed)))
        optimise(module, pipeline, DecisionLog(), instruments, strict=True)
    except NumbersChanged as change:
        say(f"MISMATCH: {change}", err=True)
        raise CheckFailed from None
    except NumbersUndecided as nothing:
        say(f"UNDECIDED: {nothing}", err=True)
        raise CheckFailed from None
    say(f"{file}: {pipeline}: no failure")
