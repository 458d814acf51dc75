"""``hlotool export``."""

from __future__ import annotations

import click

from hlotool.cli.common import read_all_modules
from hlotool.cli.options import file_argument
from hlotool.cli.output import write_text
from hlotool.text.load import SEPARATOR
from hlotool.text.stablehlo.export import export_stablehlo

__all__ = ["command"]

_FORMATS = {"stablehlo": export_stablehlo}


@click.command("export")
@file_argument
@click.option(
    "--format", "form", type=click.Choice(tuple(_FORMATS)), default="stablehlo", show_default=True,
    help="What to write.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write here.")
def command(file: str, form: str, output: str | None) -> None:
    """Print FILE in the language of another tool.

    StableHLO is written in its generic form, which all versions of MLIR's tools read.  Importing what was exported
    gives the same module (hlotool hash).  What StableHLO cannot say, fusions and chosen layouts for example, is listed
    with its places, all of it, and nothing is written (exit code 4).

    \b
        hlotool export model.hlo -o model.mlir
        hlotool opt model.hlo -p simplify | hlotool export -
    """
    texts = [_FORMATS[form](module) for module in read_all_modules(file)]
    write_text(output, f"\n{SEPARATOR}\n\n".join(texts))
