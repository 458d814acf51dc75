"""``hlotool import``."""

from __future__ import annotations

from typing import Any

import click

from hlotool.cli.common import read_source
from hlotool.cli.options import Setting, file_argument
from hlotool.cli.output import write_text
from hlotool.ir.verifier import check
from hlotool.text.load import read_snapshot
from hlotool.text.printer import print_module

__all__ = ["FORMS", "command"]

FORMS: dict[str, tuple[str, ...]] = {"onnx": ("settings", "folder")}
"""The options that go with what a file is found to be; files of HLO take none."""

_OPTIONS = {"settings": "--set", "folder": "--external-data"}


@click.command("import")
@file_argument
@click.option(
    "--set", "settings", multiple=True, type=Setting(), metavar="NAME=VALUE",
    help="ONNX: batch=8: dimensions of this name.  x=8,3,224,224: the shape of an input.  shape=[2,3]: its values, "
    "where the program depends on them.",
)  # fmt: skip
@click.option(
    "--external-data", "folder", type=click.Path(file_okay=False, exists=True), metavar="DIR",
    help="ONNX: where the files with weights are, if not beside FILE.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write here.")
def command(file: str, settings: tuple[tuple[str, str], ...], folder: str | None, output: str | None) -> None:
    """Print a model in another format as HLO: one in ONNX.

    Parameters have the names of the model's inputs, and instructions say in their metadata which node they are from.
    Other commands take such files as they are, too; what this one adds is that sizes and values can be set, and
    that the HLO can be kept.  Nodes that are not supported are listed, all of them (exit code 4).  HLO stays HLO.

    \b
        hlotool import model.onnx --set batch=8 -o model.hlo
        hlotool run model.onnx --inputs inputs.npz
    """
    source = read_source(file)
    given: dict[str, Any] = {}
    chosen = {"settings": _by_name(settings), "folder": folder}
    for name, value in chosen.items():
        if value and name not in FORMS.get(source.form, ()):
            raise click.UsageError(f"{_OPTIONS[name]} is for models in ONNX; {file} is none")
        if value:
            given[name] = value
    module = read_snapshot(source, **given).module
    check(module)
    write_text(output, print_module(module))


def _by_name(settings: tuple[tuple[str, str], ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in settings:
        if found.setdefault(name, text) != text:
            raise click.UsageError(f"--set {name} is given twice, as {found[name]} and {text}")
    return found
