"""The first line of a module and the tables that may follow it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hlotool.ir import WRITTEN, Attribute, Shape, StackFrames, Verbatim
from hlotool.text.lexer import NAME, Cursor, SyntaxFailure, did_you_mean, unescape
from hlotool.text.recovery import find_attribute
from hlotool.text.shapes import read_known_shape
from hlotool.text.values import READERS

__all__ = ["HEADER_ATTRIBUTES", "read_header", "read_stack_frames"]

HEADER_ATTRIBUTES: dict[str, Attribute] = {
    name: Attribute(name, kind)
    for name, kind in (
        ("is_scheduled", "bool"),
        ("input_output_alias", "aliasing"),
        ("buffer_donor", "verbatim"),
        ("alias_passthrough_params", "bool"),
        ("entry_computation_layout", "entry_layout"),
        ("allow_spmd_sharding_propagation_to_parameters", "flags"),
        ("allow_spmd_sharding_propagation_to_output", "flags"),
        ("replica_count", "int"),
        ("num_partitions", "int"),
        ("frontend_attributes", "map"),
        ("origin_recovery_table", "verbatim"),
    )
}
"""Attributes of the header line in the order in which they are printed."""

_NAME = re.compile(rf"%?({NAME})(?::(?=[\s,]|$))?", re.ASCII)
_KEY = re.compile(r"([A-Za-z_][\w\-]*)\s*=\s*", re.ASCII)
_FLAG = re.compile(r"true|false", re.ASCII)
_TABLE = re.compile(r"(FileNames|FunctionNames|FileLocations|StackFrames)\b(?!\s*[({=.\-])", re.ASCII)
_ROW = re.compile(
    r'\s*(\d{1,18})\s+(?:"([^"\\]*(?:\\.[^"\\]*)*)"|\{((?:\s*[A-Za-z_]+\s*=\s*\d{1,18},?)*)\s*\})', re.ASCII | re.DOTALL
)
_ITEM = re.compile(r"([A-Za-z_]+)\s*=\s*(\d+)", re.ASCII)


def read_header(cursor: Cursor) -> tuple[str, dict[str, Any]]:
    """What follows ``HloModule``: the name and the attributes."""
    match = cursor.match(_NAME)
    if match is None:
        raise cursor.unexpected("the name of the module")
    name = match.group(1)
    attributes: dict[str, Any] = {}
    places: dict[str, int] = {}
    while cursor.accept(","):
        key = cursor.match(_KEY)
        if key is None:
            raise cursor.unexpected("an attribute of the module")
        word, start = key.group(1), key.start(1)
        row = HEADER_ATTRIBUTES.get(word)
        if row is None:
            hint = did_you_mean(word, HEADER_ATTRIBUTES) or f"a module takes {', '.join(HEADER_ATTRIBUTES)}"
            message = f"unknown attribute '{word}' for a module"
            cursor.not_known(cursor.diagnostic(message, start, key.end(1), hint, code="HLO0136"))
            _keep(cursor, word, key.end(), attributes)
            continue
        if word in places:
            first = cursor.location(places[word], places[word] + len(word))
            related = (("first given here", first),)
            message = f"attribute '{word}' is given twice"
            cursor.report(cursor.diagnostic(message, start, key.end(1), None, related, "HLO0138"))
        places[word] = start
        try:
            attributes[word] = _READERS[row.kind](cursor, row)
        except SyntaxFailure as failure:
            cursor.not_known(failure.diagnostic)
            cursor.depth = 0
            _keep(cursor, word, key.end(), attributes)
    return name, attributes


def _keep(cursor: Cursor, name: str, start: int, attributes: dict[str, Any]) -> None:
    """Go past a value that cannot be read; where the text is only looked at, keep it as it is written."""
    cursor.position = find_attribute(cursor, start, HEADER_ATTRIBUTES)
    if cursor.notes is not None:
        attributes[f"{WRITTEN}{name}"] = Verbatim(cursor.text[start : cursor.position].strip())


def _entry_layout(cursor: Cursor, row: Attribute) -> tuple[tuple[Shape, ...], Shape]:
    """``{(f32[2]{0}, s32[])->f32[]}``."""
    cursor.expect("{", f"at the start of '{row.name}'")
    cursor.expect("(", "before the shapes of the parameters")
    parameters: list[Shape] = []
    while not cursor.accept(")"):
        if parameters:
            cursor.expect(",", f"or ')' in '{row.name}'")
        parameters.append(_known(cursor))
    cursor.expect("->", f"in '{row.name}'")
    result = _known(cursor)
    cursor.expect("}", f"at the end of '{row.name}'")
    return tuple(parameters), result


def _known(cursor: Cursor) -> Shape:
    """A shape of the layout; where the text is only looked at, one that is unknown makes the whole layout so."""
    shape = read_known_shape(cursor)
    if shape is None:
        raise SyntaxFailure(None)
    return shape


def _flags(cursor: Cursor, row: Attribute) -> Verbatim:
    """A bool or a list of bools, kept as text."""
    if cursor.peek("{"):
        return Verbatim(cursor.balanced(row.name))
    match = cursor.match(_FLAG)
    if match is None:
        raise cursor.unexpected(f"true, false or a list of them for '{row.name}'")
    return Verbatim(match.group())


_READERS: dict[str, Callable[[Cursor, Attribute], Any]] = {**READERS, "entry_layout": _entry_layout, "flags": _flags}


def read_stack_frames(cursor: Cursor) -> StackFrames | None:
    """The tables FileNames, FunctionNames, FileLocations and StackFrames, if there are any."""
    tables: dict[str, list[tuple[int, Any]]] = {}
    while match := cursor.match(_TABLE):
        table = match.group(1)
        if table in tables:
            raise cursor.fail(f"a second table {table}", match.start(), match.end(), code="HLO0153")
        named = table in ("FileNames", "FunctionNames")
        rows: list[tuple[int, Any]] = []
        while row := _ROW.match(cursor.text, cursor.skip()):
            number, quoted, items = row.groups()
            if named != (quoted is not None):
                wanted = "a quoted name" if named else "{key=number ...}"
                raise cursor.fail(f"a row of {table} is a number and {wanted}", row.start(1), row.end(), code="HLO0153")
            value: Any = unescape(quoted) if named else tuple((k, int(v)) for k, v in _ITEM.findall(items))
            rows.append((int(number), value))
            cursor.position = row.end()
        tables[table] = rows
    if not any(tables.values()):
        return None
    order = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
    return StackFrames(*(tuple(tables.get(table, ())) for table in order))
