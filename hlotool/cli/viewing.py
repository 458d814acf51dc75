"""Reading modules that are only looked at: what is unknown or wrong in them is said and shown, and stops nothing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hlotool.cli.common import read_source, show_diagnostics, warn_of_elided
from hlotool.ir import NOTE, UNKNOWN, WRITTEN, Diagnostic, Module
from hlotool.ir.verifier import is_valid, verify
from hlotool.lazy_dataclass import dataclass
from hlotool.text.diagnostics import to_json
from hlotool.text.load import one_module, read_modules

__all__ = ["View", "view_module", "view_modules"]

_SHOWN = 20  # notes on standard error


@dataclass(frozen=True, slots=True)
class View:
    """A module to look at, and what is unknown or wrong in it: empty where it could also be run."""

    module: Module
    notes: Sequence[Diagnostic]

    def as_json(self) -> dict[str, Any]:
        """The notes under their key, where there are any."""
        return {"notes": [to_json(note) for note in self.notes]} if self.notes else {}


def view_module(file: str) -> View:
    """The only module in `file`, with notes on standard error instead of errors.

    Instructions that break a rule are made instructions of the opcode `UNKNOWN`, as nothing can be concluded from them;
    all that a note is about carry it among their attributes.  ParseError where the text has no such form at all.
    """
    notes: list[Diagnostic] = []
    module = one_module(read_source(file), notes)
    notes += [replace(diagnostic, severity="note") for diagnostic in verify(module)]
    warn_of_elided(module)
    if not notes:
        return View(module, ())
    for instruction in module.instructions():
        if not is_valid(instruction):
            instruction.attributes = {WRITTEN: instruction.opcode, **instruction.attributes}
            instruction.opcode = UNKNOWN
    _mark(module, notes)
    _show(notes)
    return View(module, notes)


def view_modules(file: str) -> list[Module]:
    """All modules in `file`, as they are written: notes say what is unknown, and rules are not asked."""
    notes: list[Diagnostic] = []
    modules = read_modules(read_source(file), notes)
    _show(notes)
    return modules


def _show(notes: Sequence[Diagnostic]) -> None:
    show_diagnostics(notes[:_SHOWN])
    if len(notes) > _SHOWN:
        show_diagnostics([Diagnostic(f"{len(notes) - _SHOWN} more; 'hlotool verify' shows them", severity="note")])


def _mark(module: Module, notes: Sequence[Diagnostic]) -> None:
    """Let every instruction carry the first note about it; a place belongs to the instruction of its line."""
    placed = [(one.location.line, one.location.column, one) for one in module.instructions() if one.location]
    placed.sort(key=lambda entry: entry[:2])
    lines, places = [entry[0] for entry in placed], [entry[:2] for entry in placed]
    for note in notes:
        if note.location is None:
            continue
        line, column = note.location.line, note.location.column
        index = max(bisect_right(places, (line, column)) - 1, bisect_left(lines, line))
        if index < len(placed) and (lines[index] <= line):
            placed[index][2].attributes.setdefault(NOTE, note.message)
