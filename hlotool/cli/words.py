"""Words for people, without what commands a terminal.

A name or a string in a module may hold what moves a cursor, sets a title or turns the direction of writing: wherever it
comes from, it goes through here.  Data (modules as text, JSON) is written as it is (`hlotool.cli.output`).
"""

from __future__ import annotations

import re

import click

from hlotool.cli.session import current

__all__ = ["say", "visible"]

_COLOURS = re.compile(r"(\x1b\[(?:0|1|1;3[14])m)")
"""Those of `hlotool.text.diagnostics`."""

_LINES = re.compile(r"([\n\t])")


def say(text: str, err: bool = False) -> None:
    """Print words for people."""
    if current().use_colour():
        shown = "".join(part if n % 2 else visible(part) for n, part in enumerate(_COLOURS.split(text)))
    else:
        shown = visible(text)
    click.echo(shown.encode("utf-8", "replace"), err=err)


def visible(text: str) -> str:
    """`text` with every character that is not printable written as an escape (``\\x1b``); lines and tabs stay."""
    if text.isprintable():
        return text
    parts = _LINES.split(text)
    return "".join(part if n % 2 or part.isprintable() else _escaped(part) for n, part in enumerate(parts))


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
