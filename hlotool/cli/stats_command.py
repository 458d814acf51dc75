"""``hlotool stats``."""

from __future__ import annotations

import json

import click

import hlotool
from hlotool.cli.options import file_argument, format_option
from hlotool.cli.signature_command import signature_tables
from hlotool.cli.tables import Table, amount, at_least, byte_text, show_tables
from hlotool.cli.viewing import view_module
from hlotool.inspect.stats import Stats, as_json, stats

__all__ = ["command"]

_NUMBERS = frozenset(
    ("instructions", "runs", "count", "flops", "transcendentals", "bytes", "trips", "values", "calls", "line")
)


@click.command("stats")
@file_argument
@click.option("--largest", type=click.IntRange(0), default=10, show_default=True, help="How many large values to list.")
@format_option
def command(file: str, largest: int, form: str) -> None:
    """Show what is in FILE: opcodes, computations, loops, constants, inputs and outputs, with what they cost.

    Flops, transcendentals and bytes are those of one run: loop bodies count as often as they run.  Where a trip count
    or the work of a custom call is not known, the numbers are lower bounds and say so.
    """
    view = view_module(file)
    found = stats(view.module, largest)
    if form == "json":
        head = {"schema_version": 1, "kind": "stats", "tool_version": hlotool.__version__, "file": file}
        click.echo(json.dumps({**head, **as_json(found), **view.as_json()}, indent=1))
    else:
        show_tables([_summary(found), *signature_tables(found.signature), *_tables(found)])


def _summary(found: Stats) -> Table:
    total = found.total
    missing = [f"{total.unknown} instructions of unknown cost are left out"] if total.unknown else []
    missing += [f"{total.loops} loops of unknown length are counted once"] if total.loops else []
    rows = [
        ("computations", str(len(found.computations))),
        ("instructions", str(found.instructions)),
        ("constants", f"{found.constants}, {byte_text(found.constant_bytes)}"),
        ("inputs", f"{len(found.signature.inputs)}, {byte_text(found.input_bytes)}"),
        ("outputs", f"{len(found.signature.outputs)}, {byte_text(found.output_bytes)}"),
        ("flops", at_least(amount(total.flops), total.unknown + total.loops)),
        ("transcendentals", at_least(amount(total.transcendentals), total.unknown + total.loops)),
        ("bytes read", byte_text(total.bytes_read)),
        ("bytes written", byte_text(total.bytes_written)),
        *(("note", text) for text in missing),
    ]
    return Table(f"module {found.name}", ("what", "value"), rows)


def _tables(found: Stats) -> list[Table]:
    return [
        Table(
            "opcodes", ("opcode", "group", "count", "runs", "flops", "transcendentals", "bytes"),
            [
                (r.opcode, r.group, str(r.count), str(r.runs), at_least(amount(r.flops), r.unknown),
                 amount(r.transcendentals), byte_text(r.bytes))
                for r in found.opcodes
            ], _NUMBERS,
        ),
        Table(
            "computations", ("computation", "role", "instructions", "runs", "flops", "bytes"),
            [
                (r.name, r.role, str(r.instructions), str(r.runs), at_least(amount(r.cost.flops), r.cost.unknown),
                 byte_text(r.cost.bytes))
                for r in found.computations
            ], _NUMBERS,
        ),
        Table(
            "loops", ("loop", "computation", "trips", "runs", "flops", "bytes"),
            [
                (r.name, r.computation, "unknown" if r.trips is None else str(r.trips), str(r.runs),
                 at_least(amount(r.cost.flops), r.cost.unknown + r.cost.loops), byte_text(r.cost.bytes))
                for r in found.loops
            ], _NUMBERS,
        ),
        Table(
            "element types", ("type", "values", "bytes"),
            [(r.element_type, str(r.values), byte_text(r.bytes)) for r in found.element_types], _NUMBERS,
        ),
        Table(
            "custom calls", ("target", "calls"),
            [(target, str(count)) for target, count in found.custom_calls.items()], _NUMBERS,
        ),
        Table(
            "largest values", ("instruction", "computation", "opcode", "shape", "bytes", "line"),
            [
                (r.name, r.computation, r.opcode, r.shape, byte_text(r.bytes), str(r.line or ""))
                for r in found.largest
            ], _NUMBERS,
        ),
    ]  # fmt: skip
