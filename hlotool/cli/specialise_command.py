"""``hlotool specialise``."""

from __future__ import annotations

import click

from hlotool.cli.common import read_module, show_diagnostics
from hlotool.cli.options import Setting, file_argument
from hlotool.cli.output import write_text
from hlotool.driver.specialise import specialise
from hlotool.text.printer import print_module

__all__ = ["command"]


@click.command("specialise")
@file_argument
@click.option(
    "--set", "settings", multiple=True, required=True, type=Setting(), metavar="NAME=VALUE",
    help="x.0=8: dimension 0 of parameter x (p2.0: of parameter 2).  32=8: every dimension of 32 of the parameters.  "
    "batch=8: every dimension of theirs without a fixed size.  x=0.5: the scalar x becomes a constant.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write here.")
def command(file: str, settings: tuple[tuple[str, str], ...], output: str | None) -> None:
    """Print FILE for other sizes: those of parameters are set, all others follow.

    Shapes, slices of whole dimensions and constants of equal elements take the new sizes.  Nothing is guessed: where it
    cannot be told what follows (windows, padding, parts of a dimension, constants of different elements, custom calls),
    the instruction is named and nothing is printed (exit code 4).  The values of constants stay; a note names those
    that may have been computed from an old size.  What is printed has been verified.

    \b
        hlotool specialise model.hlo --set x.0=8
        hlotool specialise model.hlo --set 32=8 -o small.hlo
        hlotool specialise model.hlo --set rate=0.5 | hlotool run -
    """
    module = read_module(file)
    chosen: dict[str, str] = {}
    for name, text in settings:
        if chosen.setdefault(name, text) != text:
            raise click.UsageError(f"--set {name} is given twice, as {chosen[name]} and {text}")
    found = specialise(module, chosen)
    show_diagnostics(found.notes)
    write_text(output, print_module(found.module))
