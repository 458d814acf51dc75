"""``hlotool signature``."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

import hlotool
from hlotool.cli.options import file_argument, format_option
from hlotool.cli.tables import Table, byte_text, show_tables
from hlotool.cli.viewing import view_module
from hlotool.inspect.signature import Port, Signature, signature

__all__ = ["command", "signature_tables"]


@click.command("signature")
@file_argument
@format_option
def command(file: str, form: str) -> None:
    """Show the inputs and outputs of FILE: names, shapes, layouts, bytes, and which share memory.

    Tuples are flattened depth first: the numbers are those of arg0, arg1... and out0, out1... in npz files.
    """
    view = view_module(file)
    module = view.module
    found = signature(module)
    if form == "json":
        head = {"schema_version": 1, "kind": "signature", "tool_version": hlotool.__version__, "file": file}
        ports = {"inputs": [p.as_json() for p in found.inputs], "outputs": [p.as_json() for p in found.outputs]}
        click.echo(json.dumps({**head, "name": module.name, **ports, **view.as_json()}, indent=1))
    else:
        show_tables(signature_tables(found))


def signature_tables(found: Signature) -> list[Table]:
    """Inputs and outputs as tables."""
    return [_table("inputs", "arg", found.inputs), _table("outputs", "out", found.outputs)]


def _table(title: str, prefix: str, ports: Sequence[Port]) -> Table:
    rows = [(f"{prefix}{p.number}", p.name, _where(p), p.shape, byte_text(p.bytes), _memory(p)) for p in ports]
    return Table(title, ("port", "name", "index", "shape", "bytes", "memory"), rows, frozenset({"bytes"}))


def _where(port: Port) -> str:
    path = f"{{{','.join(map(str, port.index))}}}" if port.index else ""
    return path if port.parameter is None else f"{port.parameter}{path}"


def _memory(port: Port) -> str:
    if port.alias is not None:
        return f"shared with {port.alias}"
    return "donated" if port.donated else ""
