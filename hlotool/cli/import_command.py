"""``hlotool import``."""

from __future__ import annotations

from typing import Any

import click

from hlotool.cli.common import read_source, warn_of_elided
from hlotool.cli.options import file_argument
from hlotool.cli.output import write_text
from hlotool.ir import HloError, Module, Shape
from hlotool.ir.verifier import check
from hlotool.text.load import SEPARATOR, import_modules
from hlotool.text.parser import parse_shape
from hlotool.text.printer import print_module

__all__ = ["command"]


class _Shape(click.ParamType[Shape]):
    """A shape such as ``f32[8,3]``."""

    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shape:
        if isinstance(value, Shape):
            return value
        try:
            return parse_shape(str(value))
        except HloError as error:
            self.fail(f"{value!r} is no shape such as f32[8,3]: {error.message}", param, ctx)


@click.command("import")
@file_argument
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write here.")
@click.option("--function", metavar="NAME", help="The function that is the entry, where it is not main.")
@click.option(
    "--argument", "arguments", multiple=True, type=_Shape(), metavar="SHAPE",
    help="The shape of an argument, once for each, in order: sizes that the program leaves open (?) become these.",
)  # fmt: skip
def command(file: str, output: str | None, function: str | None, arguments: tuple[Shape, ...]) -> None:
    """Print FILE, a program of StableHLO, as HLO.

    Text of StableHLO and CHLO is read in its pretty and its generic form, with functions, regions, locations,
    shardings and quantised types.  Other commands take such files directly; what this one adds is the choice of the
    entry and of sizes.  Files of HLO are printed as HLO.

    All that is wrong is said at once (exit code 3), and so is all that has no counterpart in HLO (exit code 4).

    \b
        hlotool import model.mlir -o model.hlo
        hlotool import tests.mlir --function add_test
        hlotool import exported.mlir --argument 'f32[8,3]' --argument 'f32[3,5]'
    """
    modules: list[Module] = import_modules(read_source(file), function, arguments or None)
    for module in modules:
        check(module)
        warn_of_elided(module)
    write_text(output, f"\n{SEPARATOR}\n\n".join(map(print_module, modules)))
