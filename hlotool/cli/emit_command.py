"""``hlotool emit``."""

from __future__ import annotations

import click

from hlotool.cli.common import read_module
from hlotool.cli.options import cpu_option, file_argument, passes_option, strict_option
from hlotool.cli.output import write_text
from hlotool.codegen.machine import Machine, default_machine, without_tiles
from hlotool.driver import LOWERING, code_of, optimise
from hlotool.text.printer import print_module

__all__ = ["command"]


@click.command("emit")
@file_argument
@click.option(
    "--stage",
    type=click.Choice(["hlo", "llvm", "asm"]),
    default="llvm",
    show_default=True,
    help="Optimised HLO as code generation gets it, LLVM IR, or assembly.",
)
@passes_option
@strict_option
@cpu_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write here.")
def command(file: str, stage: str, passes: str, machine: Machine | None, output: str | None) -> None:
    """Print FILE at a stage of compilation: optimised HLO, LLVM IR or assembly."""
    module = optimise(optimise(read_module(file), passes), LOWERING)
    if stage == "hlo":
        write_text(output, print_module(module))
        return
    units = code_of(module, machine or without_tiles(default_machine()), assembly=stage == "asm")
    mark = ";" if stage == "llvm" else "#"
    write_text(output, "\n".join(f"{mark} unit {number}\n{text}" for number, text in enumerate(units)))
