"""The options of ``hlotool bench --suite``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from hlotool.cli.bench_programs import Against
from hlotool.suites.names import PEERS, SUITES

__all__ = ["AgainstType", "suite_options"]

_KNOWN = ("evaluate", "op-by-op", *PEERS)


class AgainstType(click.ParamType[Against]):
    """Another contestant: ``xla``, or ``torch=PYTHON``."""

    name = "against"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Against:
        if isinstance(value, Against):
            return value
        name, _, python = str(value).partition("=")
        if name not in _KNOWN:
            self.fail(f"{name!r} is not one of {', '.join(sorted(_KNOWN))}", param, ctx)
        if python and name not in PEERS:
            self.fail(f"{name} is in this process: it takes no Python", param, ctx)
        return Against(name, python or None)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        return [click.shell_completion.CompletionItem(name) for name in _KNOWN if name.startswith(incomplete)]


def _pattern(context: click.Context, parameter: click.Parameter, value: str | None) -> re.Pattern[str] | None:
    try:
        return None if value is None else re.compile(value)
    except re.error as error:
        raise click.BadParameter(f"{value!r} is no regular expression: {error}", context, parameter) from None


def suite_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --suite and what goes with it."""
    folder = click.Path(file_okay=False)
    for option in reversed((
        click.option(
            "--suite", "suites", type=click.Choice([*SUITES, "all", "list"]), multiple=True,
            help="Time the cases of this suite; list shows which there are.",
        ),
        click.option("--cases", metavar="RE", callback=_pattern, help="Of a suite, those cases whose names have RE."),
        click.option("--headlines", is_flag=True, help="Of a suite, the few cases that stand for it."),
        click.option("--small", is_flag=True, help="The cases at sizes below ten: a test of all that takes part."),
        click.option(
            "--quick", is_flag=True,
            help="A tenth of a second for each, in two rounds, and cases above 20 GFLOP are left out.",
        ),
        click.option(
            "--max-seconds", type=click.FloatRange(0), metavar="S", help="Begin no case of a suite after so long."
        ),
        click.option("--emit-to", type=folder, metavar="DIR", help="Write the modules of a suite, and time nothing."),
        click.option("--site", type=folder, metavar="DIR", help="Add the run to the history of these pages."),
    )):  # fmt: skip
        command = option(command)
    return command
