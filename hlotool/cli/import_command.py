"""``hlotool import``: programs in other formats as HLO."""

from __future__ import annotations

from typing import Any

import click

from hlotool.cli.common import read_source, warn_of_elided
from hlotool.cli.options import Setting, file_argument
from hlotool.cli.output import write_text
from hlotool.ir import HloError, Shape
from hlotool.ir.verifier import check
from hlotool.text.load import SEPARATOR, import_modules
from hlotool.text.parser import parse_shape
from hlotool.text.printer import print_module

__all__ = ["FORMS", "command"]

FORMS: dict[str, tuple[str, ...]] = {
    "onnx": ("settings", "folder"), "stablehlo": ("function", "arguments"),
    "bytecode": ("function", "arguments", "python"),
}  # fmt: skip
"""The options that go with what a file is found to be; files of HLO take none."""

_OPTIONS = {
    "settings": ("--set", "models in ONNX"),
    "folder": ("--external-data", "models in ONNX"),
    "function": ("--function", "programs of StableHLO"),
    "arguments": ("--argument", "programs of StableHLO"),
    "python": ("--xla-python", "bytecode of MLIR"),
}


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
@click.option("--function", metavar="NAME", help="StableHLO: the function that is the entry, where it is not main.")
@click.option(
    "--argument", "arguments", multiple=True, type=_Shape(), metavar="SHAPE",
    help="StableHLO: the shape of an argument, once for each, in order: sizes that are left open (?) become these.",
)  # fmt: skip
@click.option(
    "--set", "settings", multiple=True, type=Setting(), metavar="NAME=VALUE",
    help="ONNX: batch=8: dimensions of this name.  x=8,3,224,224: the shape of an input.  shape=[2,3]: its values, "
    "where the program depends on them.",
)  # fmt: skip
@click.option(
    "--external-data", "folder", type=click.Path(file_okay=False, exists=True), metavar="DIR",
    help="ONNX: where the files with weights are, if not beside FILE.",
)  # fmt: skip
@click.option(
    "--xla-python", "python", metavar="PYTHON",
    help="StableHLO in bytecode: a Python with jax, which makes text of it; else HLOTOOL_XLA_PYTHON, else this one.",
)
def command(
    file: str, output: str | None, function: str | None, arguments: tuple[Shape, ...],
    settings: tuple[tuple[str, str], ...], folder: str | None, python: str | None,
) -> None:  # fmt: skip
    """Print FILE, a program of StableHLO or a model in ONNX, as HLO.

    Text of StableHLO and CHLO is read in its pretty and its generic form, with functions, regions, locations,
    shardings and quantised types.  Parameters of models in ONNX have the names of the model's inputs, and instructions
    say in their metadata which node they are from.  Bytecode of MLIR, as jax.export serialises programs, is made text
    by jaxlib in a process of its own first (--xla-python).  Other commands take such files as they are, too; what this
    one adds is that entry, sizes and values can be chosen, and that the HLO can be kept.  Files of HLO are printed as
    HLO.

    All that is wrong is said at once (exit code 3), and so is all that has no counterpart in HLO, or is not supported
    (exit code 4).

    \b
        hlotool import model.mlir -o model.hlo
        hlotool import tests.mlir --function add_test
        hlotool import exported.mlir --argument 'f32[8,3]' --argument 'f32[3,5]'
        hlotool import exported.bin --xla-python venv/bin/python -o model.hlo
        hlotool import model.onnx --set batch=8 -o model.hlo
    """
    source = read_source(file)
    chosen = {"function": function, "arguments": arguments, "settings": _by_name(settings), "folder": folder}
    chosen["python"] = python
    given = {name: value for name, value in chosen.items() if value}
    for name in given:
        if name not in FORMS.get(source.form, ()):
            option, what = _OPTIONS[name]
            raise click.UsageError(f"{option} is for {what}; {file} is none")
    modules = import_modules(source, **given)
    for module in modules:
        check(module)
        warn_of_elided(module)
    write_text(output, f"\n{SEPARATOR}\n\n".join(map(print_module, modules)))


def _by_name(settings: tuple[tuple[str, str], ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in settings:
        if found.setdefault(name, text) != text:
            raise click.UsageError(f"--set {name} is given twice, as {found[name]} and {text}")
    return found
