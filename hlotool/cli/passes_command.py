"""``hlotool passes``."""

from __future__ import annotations

import json
from dataclasses import asdict
from difflib import get_close_matches

import click

from hlotool.cli.completion import pass_or_pipeline
from hlotool.cli.options import format_option
from hlotool.cli.words import say
from hlotool.ir import UnsupportedError
from hlotool.passes.framework.registry import PIPELINES, find_pass, pass_help, pass_names, pass_options

__all__ = ["command"]


@click.command("passes")
@click.argument("name", required=False, shell_complete=pass_or_pipeline)
@click.option("--thresholds", "numbers", is_flag=True, help="List the sizes from which on the compiler does otherwise.")
@format_option
def command(name: str | None, numbers: bool, form: str) -> None:
    """List the passes and named pipelines, or explain the pass or pipeline NAME.

    A pipeline is text: simplify,fusion{max-ops=64},fixpoint(cse,dce).
    """
    if numbers:
        if name is not None:
            raise click.UsageError("--thresholds lists those of all passes: it takes no NAME.")
        _list_thresholds(form)
        return
    known = [*pass_names(), *PIPELINES]
    if name is not None and name not in known:
        near = get_close_matches(name, known, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"No such pass or pipeline {name!r}.{hint}")
    chosen = [name] if name is not None else known
    rows = [_row(n) if name is not None else _row_of_all(n) for n in chosen]
    if form == "json":
        click.echo(json.dumps({"schema_version": 1, "kind": "passes", "passes": rows}, indent=1))
    elif name is not None:
        _explain(rows[0])
    else:
        width = max(len(n) for n in known)
        for row in rows:
            say(f"{row['name']:{width}}  {str(row['help']).partition(chr(10))[0]}")


def _list_thresholds(form: str) -> None:
    from hlotool.inspect.thresholds import thresholds

    found = thresholds()
    if form == "json":
        rows = [asdict(row) for row in found]
        click.echo(json.dumps({"schema_version": 1, "kind": "thresholds", "thresholds": rows}, indent=1))
        return
    names = [f"{row.owner.removeprefix('hlotool.')}.{row.name}" for row in found]
    width = max(map(len, names))
    for name, row in zip(names, found, strict=True):
        click.echo(f"{name:{width}}  {row.value:>9.9g} {row.unit:15} {row.meaning}")


def _row(name: str) -> dict[str, object]:
    if name in PIPELINES:
        return {"name": name, "kind": "pipeline", "help": f"pipeline: {PIPELINES[name] or 'no passes'}", "options": {}}
    found = find_pass(name)
    options = {o.name: {"type": o.type.__name__, "default": o.default} for o in pass_options(found).values()}
    return {"name": name, "kind": "pass", "help": pass_help(found), "options": options}


def _row_of_all(name: str) -> dict[str, object]:
    """As `_row`, but all others are listed where a pass of another package cannot be loaded."""
    try:
        return _row(name)
    except UnsupportedError as error:
        return {"name": name, "kind": "pass", "help": f"({error})", "options": {}}


def _explain(row: dict[str, object]) -> None:
    say(f"{row['name']}\n\n{row['help']}")
    options = row["options"]
    assert isinstance(options, dict)
    if options:
        say("\nOptions:")
        for name, option in options.items():
            say(f"  {name}={option['default']}  ({option['type']})")
