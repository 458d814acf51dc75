"""``hlotool verify``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import click

import hlotool
from hlotool.cli.common import read_source, show_diagnostics
from hlotool.cli.options import diagnostics_format_option
from hlotool.cli.session import current
from hlotool.cli.words import say
from hlotool.ir import Diagnostic, HloError
from hlotool.ir.verifier import verify
from hlotool.text.diagnostics import to_json
from hlotool.text.load import each_module
from hlotool.text.reports import concise, github, sarif
from hlotool.text.sources import with_source

__all__ = ["command"]

_ALL = 1 << 30


@click.command("verify")
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, allow_dash=True))
@diagnostics_format_option
@click.option(
    "--max-errors",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    metavar="N",
    help="Per file; 0: all of them.",
)
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...], form: str, max_errors: int) -> None:
    """Parse FILES and check every rule of HLO: shapes, types, attributes, structure.

    Prints all errors found.  'hlotool explain CODE' says more about one.  Exits 0 when there are none, 3 otherwise.
    """
    limit = max_errors or _ALL
    found: list[Diagnostic] = []
    dropped = 0
    for file in files:
        these = _errors(file)
        dropped += max(0, len(these) - limit)
        found += these[:limit]
    _FORMS[form](found)
    if dropped:
        say(f"{dropped} more errors; --max-errors 0 shows all", err=True)
    if found:
        ctx.exit(3)


def _errors(file: str) -> Sequence[Diagnostic]:
    try:
        source = read_source(file)
    except HloError as error:
        return error.diagnostics
    found: list[Diagnostic] = []
    for module in each_module(source):
        found += module.diagnostics if isinstance(module, HloError) else verify(module)
    return found


def _text(found: Sequence[Diagnostic]) -> None:
    show_diagnostics(found)
    if found:
        first = found[0].code
        say(f"{len(found)} error{'' if len(found) == 1 else 's'}; 'hlotool explain {first}' says more", err=True)


def _concise(found: Sequence[Diagnostic]) -> None:
    for diagnostic in found:
        say(concise(diagnostic))


def _json(found: Sequence[Diagnostic]) -> None:
    errors = [to_json(diagnostic) for diagnostic in _noted(found)]
    head = {"schema_version": 1, "kind": "verify", "tool_version": hlotool.__version__}
    click.echo(json.dumps({**head, "errors": errors}, indent=1))


def _github(found: Sequence[Diagnostic]) -> None:
    for diagnostic in found:
        say(github(diagnostic))


def _sarif(found: Sequence[Diagnostic]) -> None:
    click.echo(json.dumps(sarif(_noted(found), hlotool.__version__), indent=1))


def _noted(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics with what the metadata says about their lines."""
    texts = current().sources
    return [
        with_source(d, texts[d.location.file]) if d.location is not None and d.location.file in texts else d
        for d in found
    ]


_FORMS: dict[str, Callable[[Sequence[Diagnostic]], None]] = {
    "text": _text,
    "concise": _concise,
    "json": _json,
    "github": _github,
    "sarif": _sarif,
}
