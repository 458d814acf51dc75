"""The attributes of an instruction: names, called computations, and values of every kind."""

from __future__ import annotations

import re
from typing import Any

from hlotool.ir import (
    UNKNOWN,
    Attribute,
    Computation,
    Diagnostic,
    Instruction,
    Verbatim,
)
from hlotool.text.lexer import SyntaxFailure, did_you_mean
from hlotool.text.recovery import find_attribute
from hlotool.text.state import ANONYMOUS, OPERAND_NAME, POISON, State
from hlotool.text.values import READERS, read_sparsity

__all__ = ["read_attributes"]

_ATTRIBUTE = re.compile(r"\s*,\s*([A-Za-z_][\w\-]*)\s*=[ \t]*", re.ASCII)
_NO_MORE = re.compile(r"\s*[A-Za-z_%}]")
_NO_VALUE = ("HLO0101", "HLO0102", "HLO0103", "HLO0106")  # there is no telling where these values end
_LONGEST_NAME = 1000  # names that are looked for further down
_CLOSED = re.compile(r"^\}", re.MULTILINE)
_NO_COMMA = re.compile(r"[ \t]+([A-Za-z_][\w\-]*)\s*=[ \t]*", re.ASCII)
_ATTRIBUTE_NAME = re.compile(r"([A-Za-z_][\w\-]*)\s*=", re.ASCII)
_READERS = {**READERS, "sparsity": read_sparsity}  # and what is read alone, never kept


def read_attributes(
    state: State, opcode: str, rows: dict[str, Attribute], attributes: dict[str, Any]
) -> bool:
    """``, name=value`` until there is no more comma; whether all of them are known and could be read.

    What could not be read is None among `attributes`, and noted in ``state.unread``.
    """
    cursor = state.cursor
    text = cursor.text
    places: dict[str, int] = {}
    known = True
    while True:
        match = _ATTRIBUTE.match(text, cursor.position)
        if match is None and (match := _without_comma(state, rows)) is None:
            if _NO_MORE.match(text, cursor.position) or not cursor.accept(","):
                return known
            cursor.skip()
            match = _ATTRIBUTE_NAME.match(text, cursor.position)
            if match is None:
                raise cursor.unexpected("an attribute")
        name = match[1]
        cursor.position = match.end()
        row = rows.get(name)
        start = match.start(1)
        if row is None:
            if opcode != UNKNOWN:
                close = _report_unknown(state, opcode, rows, name, start)
                if close is not None and close not in attributes and cursor.notes is None:
                    known = False
                    attributes[close] = None  # no second message that it is missing
                    state.unread.add(close)
            cursor.position = find_attribute(cursor, match.end(), rows)
            if cursor.notes is not None:
                attributes[name] = Verbatim(text[match.end() : cursor.position].strip())
            continue
        if name in places:
            _report_repeated(state, name, places[name], start)
        places[name] = start
        depth, before = cursor.depth, len(cursor.diagnostics)
        try:
            _read_value(state, opcode, row, attributes, start)
            if len(cursor.diagnostics) > before and not row.kind.startswith("computation"):
                known = False
                state.unread.add(name)
                if cursor.only_noted(before):
                    raise SyntaxFailure(None)
        except SyntaxFailure as failure:
            if failure.ends_statement and cursor.notes is None:
                raise
            if failure.diagnostic is not None and failure.diagnostic.code in _NO_VALUE:
                cursor.report(failure.diagnostic)
            else:
                cursor.not_known(failure.diagnostic)
            cursor.depth, known = depth, False
            cursor.position = find_attribute(cursor, match.end(), rows)
            attributes[name] = None
            state.unread.add(name)
            if cursor.notes is not None:
                attributes[name] = Verbatim(text[match.end() : cursor.position].strip())
            elif row.kind == "computation":
                attributes[name] = _unread_computation(state, name)


def _report_repeated(state: State, name: str, first: int, again: int) -> None:
    cursor = state.cursor
    related = (("first given here", cursor.location(first, first + len(name))),)
    message = f"attribute '{name}' is given twice"
    cursor.not_known(cursor.diagnostic(message, again, again + len(name), None, related, "HLO0138"))


def _report_unknown(state: State, opcode: str, rows: dict[str, Attribute], name: str, start: int) -> str | None:
    """Say that the opcode has no such attribute; the one that may have been meant."""
    cursor = state.cursor
    allowed = [n for n in rows if n not in ("parameter_number", "literal") or opcode == "custom-call"]
    hint = did_you_mean(name, allowed) or f"{opcode} takes {', '.join(allowed)}"
    message = f"unknown attribute '{name}' for {opcode}"
    cursor.not_known(cursor.diagnostic(message, start, start + len(name), hint, code="HLO0136"))
    close = hint.removeprefix("did you mean '").removesuffix("'?")
    return close if close in rows else None


def _unread_computation(state: State, name: str) -> Computation:
    """A placeholder for a called computation."""
    computation = Computation(name)
    computation.root = Instruction("custom-call", POISON)
    state.damage.computations.add(computation)
    return computation


def _read_value(state: State, opcode: str, row: Attribute, attributes: dict[str, Any], start: int) -> None:
    """The value of one attribute: into `attributes`, or where the caller looks for it."""
    cursor, name, kind = state.cursor, row.name, row.kind
    if kind == "computation":
        attributes[name] = _called(state, opcode, name)
    elif kind == "metadata":
        state.metadata_start = start
        state.metadata = READERS[kind](cursor, row)
    elif kind == "names":
        state.controls = _names(state)
    elif kind == "computations":
        attributes[name] = _called_list(state, opcode, name)
    else:
        attributes[name] = _READERS[kind](cursor, row)


def _without_comma(state: State, rows: dict[str, Attribute]) -> re.Match[str] | None:
    """An attribute of this opcode that follows without a comma, which is reported."""
    cursor = state.cursor
    match = _NO_COMMA.match(cursor.text, cursor.position)
    if match is None or match.group(1) not in rows:
        return None
    message = f"expected ',' before the attribute '{match.group(1)}'"
    cursor.report(cursor.diagnostic(message, *match.span(1)))
    return match


def _names(state: State) -> list[tuple[str, int]]:
    """``{a, %b}``: names and their places."""
    cursor = state.cursor
    cursor.expect("{", "at the start of a list of names")
    found: list[tuple[str, int]] = []
    while not cursor.accept("}"):
        if found:
            cursor.expect(",", "or '}' in a list of names")
        name = cursor.name("an instruction name")
        found.append((name, cursor.position - len(name)))
    return found


def _called(state: State, opcode: str, attribute: str) -> Computation:
    """A computation by name, or its body in braces."""
    cursor = state.cursor
    match = cursor.match(OPERAND_NAME)
    if match is not None:
        computation = state.computations.get(match.group(1))
        if computation is None:
            computation = _unread_computation(state, match.group(1))
            cursor.report(_unknown_computation(state, match.group(1), match.start()))
        return computation
    if not cursor.peek("{"):
        raise cursor.unexpected(f"a computation for '{attribute}'")
    computation = Computation(f"{ANONYMOUS}{opcode}_{attribute}")
    computation.location = cursor.location(cursor.position, cursor.position + 1)
    depth, metadata, controls, unread = cursor.depth, state.metadata, state.controls, state.unread
    cursor.deeper()
    state.metadata = state.controls = None
    state.unread = set()
    state.body(state, computation)
    cursor.depth, state.metadata, state.controls, state.unread = depth, metadata, controls, unread
    state.order.append(computation)
    return computation


def _called_list(state: State, opcode: str, attribute: str) -> tuple[Computation, ...]:
    cursor = state.cursor
    cursor.expect("{", f"at the start of '{attribute}'")
    found: list[Computation] = []
    while not cursor.accept("}"):
        if found:
            cursor.expect(",", f"or '}}' in '{attribute}'")
        found.append(_called(state, opcode, attribute))
    return tuple(found)


def _unknown_computation(state: State, name: str, start: int) -> Diagnostic | None:
    cursor = state.cursor
    end = cursor.position
    if len(name) > _LONGEST_NAME:
        return cursor.diagnostic(f"computation '{name[:40]}...' is not defined", start, end, code="HLO0141")
    defined = re.compile(rf"^(?:ENTRY[ \t]+)?%?({re.escape(name)})[ \t]*[({{]", re.MULTILINE | re.ASCII)
    before = None
    for match in defined.finditer(cursor.text):
        before = match
    if before is None:
        hint = did_you_mean(name, state.computations)
        return cursor.diagnostic(f"computation '{name}' is not defined", start, end, hint, code="HLO0141")
    place = cursor.location(before.start(1), before.end(1))
    if before.start() > start:
        message = f"computation '{name}' is used before its definition"
    elif _CLOSED.search(cursor.text, before.end(), start) is None:
        message = f"computation {name} calls itself; HLO has no recursion"
    else:
        if cursor.diagnostics:
            return None  # it could not be read, which has been said
        return cursor.diagnostic(f"computation '{name}' could not be read", start, end, code="HLO0141")
    return cursor.diagnostic(message, start, end, None, (("defined here", place),), code="HLO0142")
