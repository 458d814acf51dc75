"""The options that say which failure of a module is looked for, and how it is tried for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

import click

from hlotool.cli.completion import backends
from hlotool.cli.options import check_backend, is_given
from hlotool.cli.passes_options import named_pipeline

__all__ = ["choose_trials", "trial_options"]


def _expression(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    try:
        re.compile(value or "")
    except re.error as error:
        raise click.BadParameter(f"no regular expression: {error}", context, parameter) from None
    return value


_OPTIONS = [
    click.option(
        "--backend",
        metavar="NAME",
        help="What runs the module: cpu, evaluate, or an installed one. [default: the first with which it fails of "
        "none (passes alone), evaluate and cpu]",
        shell_complete=backends,
    ),
    click.option(
        "--random", "seed", type=click.IntRange(0), default=0, show_default=True, metavar="SEED",
        help="Inputs to run it on.",
    ),
    click.option(
        "--cmd", "asked", metavar="COMMAND",
        help="Ask a command instead; {} stands for the file with the module, which else is its standard input.",
    ),
    click.option(
        "--code", type=click.IntRange(0, 255), metavar="N", help="With --cmd: this exit code is the failure."
    ),
    click.option(
        "--message", callback=_expression, metavar="RE",
        help="With --cmd: a failure only where what the command says has RE.",
    ),
    click.option(
        "--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
        help="A trial that takes longer is a failure of its own. [default: none at first, then what is far longer]",
    ),
]  # fmt: skip


def trial_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--backend, --random, --cmd (as `asked`), --code, --message and --timeout."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def choose_trials(
    text: str, passes: str, backend: str | None, seed: int, asked: str | None, code: int | None, message: str | None,
    timeout: float | None, stop: Event | None = None,
) -> Sequence[Any]:  # fmt: skip
    """The trials that the options ask for, in the order in which they are to be made; `stop` ends commands."""
    from hlotool.harness.trials import CommandTrial, PipelineTrial
    from hlotool.passes.framework.pipeline import carried_pipeline
    from hlotool.passes.framework.steps import pipeline_text

    chosen = is_given("passes", "level", "disable", "only")
    if asked is not None:
        if backend is not None or is_given("seed") or chosen:
            raise click.UsageError("--cmd alone says what fails: no passes, --backend or --random")
        return [CommandTrial(command=asked, code=code, message=message, timeout=timeout, stop=stop)]
    if code is not None or message is not None:
        raise click.UsageError("--code and --message say what --cmd has to answer")
    if backend is not None:
        check_backend(backend)
    carried = None if chosen else carried_pipeline(text)
    pipeline = pipeline_text(named_pipeline(passes if carried is None else carried), names=False) or "none"
    backends = [None, "evaluate", "cpu"] if backend is None else [backend]
    return [PipelineTrial(pipeline=pipeline, backend=one, seed=seed) for one in backends]
