"""Words for people, without what commands a terminal.

A name or a string in a module may hold what moves a cursor, sets a title or turns the direction of writing: wherever it
comes from, it goes through here.  Data (modules as text, JSON) is written as it is (`hlotool.cli.output`).
"""

from __future__ import annotations

import re

import click

from hlotool.cli.session import current
from hlotool.text.visible import visible

__all__ = ["say"]

_COLOURS = re.compile(r"(\x1b\[(?:0|1|1;3[14])m)")
"""Those of `hlotool.text.diagnostics`."""


def say(text: str, err: bool = False) -> None:
    """Print words for people."""
    if current().use_colour():
        shown = "".join(part if n % 2 else visible(part) for n, part in enumerate(_COLOURS.split(text)))
    else:
        shown = visible(text)
    click.echo(shown.encode("utf-8", "replace"), err=err)
