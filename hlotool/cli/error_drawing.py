"""``hlotool compare --graph``: the optimised module in the colours of its errors."""

from __future__ import annotations

import math
from pathlib import Path

import click

from hlotool.cli.compare_values import Values, path_of
from hlotool.cli.output import write_bytes, write_text
from hlotool.cli.pictures import drawn_picture
from hlotool.harness.all_values import ValueRow
from hlotool.inspect.graph import draw_scene
from hlotool.inspect.page import PageOptions, drawing_page
from hlotool.inspect.records import Records
from hlotool.inspect.scene import build_scene
from hlotool.inspect.scopes import add_scopes
from hlotool.ir import Instruction

__all__ = ["check_drawing", "draw_errors"]

_FORMS = ("html", "svg", "png", "pdf", "dot")

_MOST_BITS = 64.0
"""What a NaN or infinity on one side alone counts for."""


def check_drawing(path: str) -> str:
    """The form of the drawing that `path` ends in; UsageError for others."""
    form = Path(path).suffix.lower().lstrip(".")
    if form not in _FORMS:
        raise click.UsageError(f"--graph {path}: expected a name that ends in .{', .'.join(_FORMS)}")
    return form


def draw_errors(values: Values, path: str) -> None:
    """Write the drawing: the more of the last bits are wrong, the redder; what is MISMATCH has a red outline."""
    form = check_drawing(path)
    bits = {row.instruction: _bits(row) for row in values.rows}
    wrong = [row.instruction for row in values.rows if row.verdict == "MISMATCH"]
    scene = build_scene(values.made)
    if form == "html":
        add_scopes(scene, always=False)
        records = Records(errors={one: (bits[one], _words(row)) for one, row in _rows(values).items()})
        records.add(scene, values.made.name, wrong)
        name = values.made.name
        note = f"{len(values.rows):,} values compared, {len(wrong):,} wrong"
        write_text(path, drawing_page(records, PageOptions(name, note, heat="error", errors=True)))
        return
    text = draw_scene(scene, wrong, bits, changed_as="wrong", heat_as="wrong bits")
    if form == "dot":
        write_text(path, text)
    else:
        content = drawn_picture(text, form)
        write_bytes(path, lambda stream: stream.write(content))


def _rows(values: Values) -> dict[Instruction, ValueRow]:
    return {row.instruction: row for row in values.rows}


def _bits(row: ValueRow) -> float:
    bits = row.shown.bits if row.shown is not None else 0.0
    return bits if math.isfinite(bits) else _MOST_BITS


def _words(row: ValueRow) -> str:
    """What the panel of the page says of a value."""
    kind = "native" if row.kernel is not None else "evaluated"
    match = f" with {path_of(row.counterpart.instruction)} ({row.counterpart.how})" if row.counterpart else ""
    other = ", another value than that" if row.other else ""
    worst = row.shown.ulp or row.shown.absolute if row.shown is not None else None
    far = f", up to {worst.largest:.3g}{' ulp' if row.shown is not None and row.shown.ulp else ''}" if worst else ""
    return f"{row.verdict or 'not compared'}: {kind}{match}{other}{far}"
