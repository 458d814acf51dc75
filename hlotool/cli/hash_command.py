"""``hlotool hash``."""

from __future__ import annotations

import json

import click

from hlotool.cli.options import format_option
from hlotool.cli.viewing import view_modules
from hlotool.cli.words import say
from hlotool.text.fingerprint import content_hash

__all__ = ["command"]


@click.command("hash")
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, allow_dash=True))
@format_option
def command(files: tuple[str, ...], form: str) -> None:
    """Print a SHA-256 of what the modules in FILES compute, one line per module.

    Names, metadata, source paths and the order of independent instructions make no difference; shapes, layouts,
    constants, attributes and backend configurations do.  The second module of a file is FILE#2.
    """
    rows: list[tuple[str, str]] = []
    for file in files:
        for number, module in enumerate(view_modules(file), 1):
            name = file if number == 1 else f"{file}#{number}"
            rows.append((content_hash(module), name))
    if form == "json":
        modules = [{"sha256": digest, "module": name} for digest, name in rows]
        click.echo(json.dumps({"schema_version": 1, "kind": "hash", "modules": modules}))
    else:
        for digest, name in rows:
            say(f"{digest}  {name}")
