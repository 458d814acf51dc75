"""Instructions: the careful way for everything that can be written, and asynchronous sugar."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from hlotool.ir import (
    COMMON_ATTRIBUTES,
    OPCODES,
    UNKNOWN,
    WRITTEN,
    Attribute,
    Computation,
    Instruction,
    Opcode,
    Shape,
)
from hlotool.ir.shape import UnknownShape
from hlotool.text.attributes import read_attributes
from hlotool.text.lexer import NAME, SyntaxFailure, did_you_mean
from hlotool.text.operands import (
    anonymous_name,
    default,
    infer_shape,
    kept_operands,
    no_shape,
    read_operands,
    shape_follows,
)
from hlotool.text.recovery import find_opcode
from hlotool.text.shapes import read_known_shape
from hlotool.text.sparse_dots import dense_operands
from hlotool.text.state import ANONYMOUS, POISON, REQUIRED, ROWS, START, Scope, State

__all__ = ["read_instruction"]

_NAMED = re.compile(rf"(?:ROOT\s+)?%?({NAME})", re.ASCII)
_WORD = re.compile(r"[A-Za-z_][\w\-.]*", re.ASCII)
_ASYNC = re.compile(r"(.+)-(start|update|done)")
_ALMOST = 0.75  # how alike a word and the opcode are that it is read as
_OF_THE_START = ("async_execution_thread", "output_to_operand_aliasing")


def read_instruction(state: State, scope: Scope, free: bool = False) -> Instruction:
    """Read one instruction into `scope`; with `free`, operands that carry a shape become parameters."""
    cursor = state.cursor
    rows: dict[str, Attribute] | None = None
    begin = cursor.skip()
    match = START.match(cursor.text, begin)
    if match is not None:
        root, name = match.groups()
        cursor.position = match.end()
        start = match.start(2)
    elif free:
        root, name, start = None, "", begin
    else:
        raise _no_instruction(state, begin)
    shape: Shape | None = _shape(state) if shape_follows(state) else None
    opcode, row, span = _opcode(state)
    if cursor.text[start] == "%":
        start += 1
    location = cursor.location(start, span[1])
    if name in scope.names:
        _report_repeated(state, scope.names[name], start)
    if root and scope.root is not None:
        _report_second_root(state, scope.root, begin)
    attributes: dict[str, Any] = {}
    wrapped = None
    if row.name == UNKNOWN:
        operands, rows = _unknown(state, scope, opcode, span, attributes)
        shape, opcode = shape or no_shape(state), UNKNOWN
    else:
        operands = read_operands(state, scope, opcode, span, shape, attributes, free)
    rows = rows or ROWS.get(opcode)
    if rows is None:
        wrapped, rows = _sugar_attributes(opcode)
        row = OPCODES[f"async-{opcode.rpartition('-')[2]}"]
    all_known = read_attributes(state, opcode, rows, attributes)
    metadata, state.metadata = state.metadata, None
    if "sparsity" in attributes:
        operands = dense_operands(state, scope, operands, attributes.pop("sparsity"), span)
    if _lacks_attributes(state, opcode, row, operands, attributes, span):
        shape = shape or no_shape(state)
    if shape is None:
        shape = infer_shape(state, row, operands, attributes, span) if all_known else no_shape(state)
    if wrapped is not None:
        _wrap(state, wrapped, row, shape, operands, attributes, span)
    if cursor.notes is not None and row.name != UNKNOWN and (state.unread or _is_unknown(opcode, shape, operands)):
        row, attributes = OPCODES[UNKNOWN], {WRITTEN: opcode, **attributes}
        state.unread = set()
    instruction = Instruction(row.name, shape, operands, attributes, name, metadata, location)
    if not name:
        instruction.name = anonymous_name(state, scope, opcode)
    if state.unread:
        _note_damage(state, scope, instruction)
    scope.computation.add(instruction)
    scope.names[instruction.name] = instruction
    if root and scope.root is None:
        scope.root = (begin, begin + 4)
        scope.computation.root = instruction
    if state.controls is not None:
        scope.controls.append((instruction, state.controls))
        state.controls = None
    return instruction


def _lacks_attributes(
    state: State,
    opcode: str,
    row: Opcode,
    operands: list[Instruction],
    attributes: dict[str, Any],
    span: tuple[int, int],
) -> bool:
    """Whether attributes are missing that have no default, which is reported; defaults are put in."""
    absent = [name for name in REQUIRED[row.name] if name not in attributes]
    missing = [name for name in absent if not default(opcode, name, operands, attributes)]
    for name in missing:
        message = f"{opcode} needs the attribute '{name}'"
        state.cursor.not_known(state.cursor.diagnostic(message, *span, code="HLO0135"))
    state.unread.update(missing)
    return bool(missing)


def _shape(state: State) -> Shape:
    """The shape before an opcode; where it cannot be read, the cursor stands at the opcode."""
    cursor = state.cursor
    start, depth = cursor.skip(), cursor.depth
    try:
        shape = read_known_shape(cursor)
    except SyntaxFailure as failure:
        opcode = find_opcode(cursor, start)
        if opcode is None:
            raise
        cursor.not_known(failure.diagnostic)
        cursor.position, cursor.depth = opcode, depth
        shape = None if cursor.notes is not None else POISON
    return shape or UnknownShape("opaque", written=cursor.text[start : cursor.position].strip())


def _is_unknown(opcode: str, shape: Shape, operands: Sequence[Instruction]) -> bool:
    """Whether nothing can be concluded from an instruction, as its shape, or that of an operand, is unknown."""
    shapes = (shape, *(operand.shape for operand in operands))
    return opcode != "parameter" and any(isinstance(one, UnknownShape) for one in shapes)


def _unknown(
    state: State, scope: Scope, opcode: str, span: tuple[int, int], attributes: dict[str, Any]
) -> tuple[list[Instruction], dict[str, Attribute]]:
    """The operands of an opcode that does not exist, and the attributes that may follow."""
    attributes[WRITTEN] = opcode
    if state.cursor.notes is not None:
        return kept_operands(state, scope, attributes), ROWS[UNKNOWN]
    meant = get_close_matches(opcode[:80], OPCODES, 1, _ALMOST)
    if not meant or meant[0] in ("parameter", "constant"):
        return kept_operands(state, scope, attributes), ROWS[UNKNOWN]
    return read_operands(state, scope, meant[0], span, None, {}, False), ROWS[meant[0]]


def _note_damage(state: State, scope: Scope, instruction: Instruction) -> None:
    """Remember what of an instruction could not be read."""
    if "operands" in state.unread:
        state.damage.operands.add(instruction)
    state.damage.attributes[instruction] = frozenset(state.unread)
    state.unread = set()


def _report_second_root(state: State, first: tuple[int, int], begin: int) -> None:
    cursor = state.cursor
    related = (("the first ROOT is here", cursor.location(*first)),)
    message = "a second ROOT in one computation"
    cursor.report(cursor.diagnostic(message, begin, begin + 4, None, related, "HLO0151"))


def _report_repeated(state: State, first: Instruction, start: int) -> None:
    related = (("first defined here", first.location),) if first.location else ()
    message = f"instruction '{first.name}' is defined twice"
    state.cursor.report(state.cursor.diagnostic(message, start, start + len(first.name), None, related, "HLO0143"))


def _no_instruction(state: State, begin: int) -> SyntaxFailure:
    cursor = state.cursor
    match = _NAMED.match(cursor.text, begin)
    if match is None:
        return cursor.unexpected("an instruction or '}'")
    return cursor.fail(f"expected '=' after the instruction name {match.group(1)}", *match.span())


def _opcode(state: State) -> tuple[str, Opcode, tuple[int, int]]:
    """The opcode, or the one that is meant, its row, and the span of the word as it is written."""
    cursor = state.cursor
    match = cursor.match(_WORD)
    if match is None:
        raise cursor.unexpected("an opcode")
    opcode = match.group()
    row = OPCODES.get(opcode)
    if row is None:
        sugar = _ASYNC.fullmatch(opcode)
        if sugar is not None and sugar.group(1) in OPCODES and sugar.group(1) not in ("parameter", "constant"):
            return opcode, OPCODES[f"async-{sugar.group(2)}"], match.span()
        if not cursor.peek("("):
            raise cursor.unexpected(f"'(' after {opcode}")
        hint = did_you_mean(opcode, OPCODES)
        cursor.not_known(cursor.diagnostic(f"unknown opcode '{opcode}'", *match.span(), hint, code="HLO0108"))
        if cursor.notes is None and hint in ("did you mean 'parameter'?", "did you mean 'constant'?"):
            opcode = hint.split("'")[1]
        row = OPCODES.get(opcode, OPCODES[UNKNOWN])
    return opcode, row, match.span()


def _sugar_attributes(opcode: str) -> tuple[str, dict[str, Attribute]]:
    """The wrapped opcode of ``<opcode>-start`` (``-update``, ``-done``) and the attributes that may follow."""
    wrapped = opcode.rpartition("-")[0]
    start = ROWS["async-start"]
    return wrapped, {**{name: start[name] for name in _OF_THE_START}, **ROWS[wrapped]}


def _wrap(
    state: State,
    opcode: str,
    row: Opcode,
    shape: Shape,
    operands: list[Instruction],
    attributes: dict[str, Any],
    span: tuple[int, int],
) -> None:
    """Turn the attributes of a sugared start into a generated computation of one operation."""
    thread = attributes.pop("async_execution_thread", None)
    if row.name == "async-start":
        if not shape.is_tuple or len(shape.elements) < 2:
            raise state.cursor.fail(
                f"{opcode}-start has the shape ((operands), result, ...), not {shape}", *span, code="HLO0152"
            )
        missing = [n for n in REQUIRED[opcode] if n not in attributes]
        if missing:
            raise state.cursor.fail(f"{opcode} needs the attribute '{missing[0]}'", *span, code="HLO0135")
        computation = Computation(f"{ANONYMOUS}async_{opcode}")
        computation.execution_thread = thread
        inner: list[Instruction] = []
        for number, operand in enumerate(operands):
            parameter = Instruction("parameter", operand.shape, (), {"parameter_number": number}, f"param_{number}")
            inner.append(computation.add(parameter))
        wrapped = {k: v for k, v in attributes.items() if k not in COMMON_ATTRIBUTES}
        own = {k: v for k, v in wrapped.items() if k not in _OF_THE_START or k in ROWS[opcode]}
        computation.root = computation.add(Instruction(opcode, shape.elements[1], inner, own, f"{opcode}.0"))
        state.order.append(computation)
        for key in own:
            del attributes[key]
        attributes["calls"] = computation
    else:
        _check_wrapped(state, opcode, operands, span)
        for key in [k for k in attributes if k not in COMMON_ATTRIBUTES]:
            del attributes[key]  # the start says them
    if thread is not None:
        attributes["async_execution_thread"] = thread


def _check_wrapped(state: State, opcode: str, operands: list[Instruction], span: tuple[int, int]) -> None:
    """Report that an update or the end of an operation names another than was started."""
    start = operands[0] if operands else None
    while start is not None and start.opcode == "async-update":
        start = start.operands[0] if start.operands else None
    called = start.attributes.get("calls") if start is not None and start.opcode == "async-start" else None
    if isinstance(called, Computation) and called.root.opcode != opcode and called.root.shape != POISON:
        message = f"{start.name if start else ''} started {called.root.opcode}, not {opcode}"
        state.cursor.report(state.cursor.diagnostic(message, *span, code="HLO0206"))
