"""``hlotool schema``."""

from __future__ import annotations

from importlib.resources import files

import click

from hlotool.cli.words import say

__all__ = ["command"]

_SCHEMAS = {entry.name.removesuffix(".json"): entry for entry in (files("hlotool.cli") / "schemas").iterdir()}


@click.command("schema")
@click.argument("kind", required=False, type=click.Choice(sorted(_SCHEMAS)))
def command(kind: str | None) -> None:
    """Print the JSON Schema of what commands print with --format json; without KIND, the kinds that have one.

    KIND is what the answer calls itself under "kind".  Fields may be added while "schema_version" stays the same.
    """
    for name in sorted(_SCHEMAS) if kind is None else ():
        say(name)
    if kind is not None:
        click.echo(_SCHEMAS[kind].read_text(encoding="utf-8"), nl=False)
