"""Operands: names, names with shapes, nested instructions, parameter numbers and literals."""

from __future__ import annotations

import re
from typing import Any

from hlotool.ir import (
    OPCODES,
    WRITTEN,
    Computation,
    HloError,
    Instruction,
    Opcode,
    Shape,
    Verbatim,
    array,
)
from hlotool.ir.shape import UnknownShape
from hlotool.ir.shape_inference import infer
from hlotool.text.lexer import NAME, SPACE, SyntaxFailure, did_you_mean
from hlotool.text.literals import read_literal
from hlotool.text.recovery import find_closing, find_separator
from hlotool.text.shapes import ARRAY, read_known_shape
from hlotool.text.state import OPERAND_NAME, POISON, REQUIRED, Scope, State

__all__ = [
    "anonymous_name", "default", "infer_shape", "kept_operands", "no_shape", "read_operands", "shape_follows",
]  # fmt: skip

_TUPLE_START = re.compile(r"\((?:[\s(]|/\*(?s:.*?)\*/)*(?:\)|[a-z][a-z0-9_]*\s*\[|b\()")
_NAMED_OPERAND = re.compile(rf"\s*(?:/\*[^*]*\*/\s*)?(?:{ARRAY}\s+)?%?({NAME})\s*", re.ASCII)
_LONGEST_NAME = 1000  # names that are looked for further down
_BODY_END = re.compile(r"[\r\n]\}")
_SHAPE_START = re.compile(rf"[a-zA-Z][a-zA-Z0-9_]*{SPACE}\[|\(|b\(")


def read_operands(
    state: State,
    scope: Scope,
    opcode: str,
    span: tuple[int, int],
    shape: Shape | None,
    attributes: dict[str, Any],
    free: bool,
) -> list[Instruction]:
    """What stands in the parentheses after the opcode, whose word spans `span`."""
    cursor = state.cursor
    cursor.expect("(", f"after {opcode}")
    if opcode == "parameter":
        start = cursor.skip()
        number = cursor.integer("the number of the parameter")
        if not 0 <= number < 1 << 31:
            raise cursor.fail("a parameter number cannot be negative or huge", start, cursor.position, code="HLO0144")
        attributes["parameter_number"] = number
        cursor.expect(")", "after a parameter number")
        return []
    if opcode == "constant":
        if shape is None:
            raise cursor.fail("a constant needs its shape written before it", *span, code="HLO0114")
        _constant(state, shape, attributes)
        return []
    found: list[Instruction] = []
    while cursor.accept(","):
        pass  # XLA takes any number of commas ahead, and between operands
    while not cursor.accept(")"):
        if cursor.position >= len(cursor.text):
            end = cursor.position
            raise cursor.fail(f"the text ends inside the operands of {opcode}", end, end, code="HLO0101")
        start, depth = cursor.position, cursor.depth
        try:
            if found:
                cursor.expect(",", f"or ')' after operand {len(found) - 1} of {opcode}")
                while cursor.accept(","):
                    pass
                if cursor.accept(")"):
                    break
                start = cursor.position
            found.append(_operand(state, scope, free, len(found)))
        except SyntaxFailure as failure:
            if failure.ends_statement:
                raise
            cursor.depth = depth
            _past_operand(state, failure, start)
            found.append(Instruction("custom-call", POISON))
    return found


def kept_operands(state: State, scope: Scope, attributes: dict[str, Any]) -> list[Instruction]:
    """The operands of an opcode that does not exist: instructions, or else among `attributes` as they are written."""
    cursor = state.cursor
    cursor.expect("(")
    start = cursor.position
    end = find_closing(cursor, start, ")")
    if end is None:
        raise cursor.fail("'(' is not closed", start - 1, start, code="HLO0106")
    inside = cursor.text[start:end]
    cursor.position = end + 1
    names = [_NAMED_OPERAND.fullmatch(part) for part in inside.split(",")] if inside.strip() else []
    found = [scope.names.get(match.group(1)) for match in names if match is not None]
    operands = [operand for operand in found if operand is not None]
    if len(operands) < len(names):
        attributes[f"{WRITTEN}operands"] = Verbatim(inside.strip())
    return operands


def _past_operand(state: State, failure: SyntaxFailure, start: int) -> None:
    """Report an operand that cannot be read and go to the next; fails where no end of the list is in sight."""
    cursor = state.cursor
    end = find_separator(cursor, start, ")")
    if end is None:
        raise failure
    cursor.report(failure.diagnostic)
    cursor.position = end
    state.unread.add("operands")


def _constant(state: State, shape: Shape, attributes: dict[str, Any]) -> None:
    """A literal and the parenthesis after it."""
    cursor = state.cursor
    start, depth, before = cursor.position, cursor.depth, len(cursor.diagnostics)
    if shape == POISON or isinstance(shape, UnknownShape):  # nothing is known of its literal
        _past_literal(state, SyntaxFailure(None), start, attributes)
        return
    try:
        literal = read_literal(cursor, shape)
        key = cursor.text[start : cursor.position]
        cursor.expect(")", "after a literal")
    except SyntaxFailure as failure:
        cursor.depth = depth
        _past_literal(state, failure, start, attributes)
        return
    if cursor.only_noted(before):
        _past_literal(state, SyntaxFailure(None), start, attributes)
        return
    if shape.is_scalar and shape.layout is not None and len(cursor.diagnostics) == before:
        state.literals[str(shape), key] = literal
    attributes["literal"] = literal


def _past_literal(state: State, failure: SyntaxFailure, start: int, attributes: dict[str, Any]) -> None:
    """Report a literal that cannot be read and go past its parenthesis, where there is one.

    Where the text is only looked at, `attributes` keep the literal as it is written.
    """
    cursor = state.cursor
    end = find_closing(cursor, start, ")")
    if end is None:
        raise failure
    cursor.not_known(failure.diagnostic)
    cursor.position = end + 1
    state.unread.add("literal")
    if cursor.notes is not None:
        attributes[f"{WRITTEN}operands"] = Verbatim(cursor.text[start:end].strip())


def _operand(state: State, scope: Scope, free: bool, index: int) -> Instruction:
    """``name``, ``shape name``, a nested instruction, or (in the single form) a bare shape."""
    cursor = state.cursor
    start = cursor.skip()
    shape: Shape | None = None
    if cursor.peek("(") and not _tuple_shape_follows(state):
        raise cursor.fail("an operand cannot stand in parentheses", start, start + 1)
    if shape_follows(state):
        shape = read_known_shape(cursor)
    match = cursor.match(OPERAND_NAME)
    if match is None:
        if free and shape is not None:
            return _free_parameter(state, scope, f"_{index}", shape, start)
        raise cursor.unexpected("an operand")
    name = match.group(1)
    if cursor.peek("(") and name in OPCODES:
        return _nested(state, scope, name, shape, match.start(1), free)
    operand = scope.names.get(name)
    if operand is None:
        if free and shape is not None:
            return _free_parameter(state, scope, name, shape, start)
        _undefined(state, scope, name, match.start())
        return Instruction("custom-call", POISON, name=name)
    unknown = operand.shape == POISON or isinstance(operand.shape, UnknownShape)
    if shape is not None and not unknown and not _agree(shape, operand.shape):
        related = (("defined here", operand.location),) if operand.location else ()
        cursor.not_known(
            cursor.diagnostic(
                f"operand '{name}' is {operand.shape}, not {shape}", start, match.end(), None, related, code="HLO0154"
            )
        )
    return operand


def _agree(written: Shape, shape: Shape) -> bool:
    """Whether the shape before an operand is its own: in XLA layouts do not count, nor which dimensions are dynamic."""
    return written.compatible(shape) or _bounds(written) == _bounds(shape)


def _bounds(shape: Shape) -> Shape:
    if shape.elements:
        return Shape(shape.element_type, elements=tuple(map(_bounds, shape.elements)))
    return array(shape.element_type, shape.dimensions) if shape.is_array else shape.without_layout()


def _tuple_shape_follows(state: State) -> bool:
    return _TUPLE_START.match(state.cursor.text, state.cursor.position) is not None


def _undefined(state: State, scope: Scope, name: str, start: int) -> None:
    """Report a name that stands for nothing, or for something further down."""
    cursor = state.cursor
    if len(name) > _LONGEST_NAME:
        cursor.report(
            cursor.diagnostic(f"operand '{name[:40]}...' is not defined", start, cursor.position, code="HLO0141")
        )
        return
    stop = _BODY_END.search(cursor.text, start)
    later = re.compile(rf"[\r\n][ \t]*(?:ROOT[ \t]+)?%?({re.escape(name)})[ \t]*=", re.ASCII)
    match = later.search(cursor.text, start, stop.start() if stop else len(cursor.text))
    if match is not None:
        place = cursor.location(match.start(1), match.end(1))
        message = f"operand '{name}' is used before its definition"
        diagnostic = cursor.diagnostic(message, start, cursor.position, None, (("defined here", place),), "HLO0142")
    else:
        hint = did_you_mean(name, reversed(scope.names))
        message = f"operand '{name}' is not defined"
        diagnostic = cursor.diagnostic(message, start, cursor.position, hint, code="HLO0141")
    cursor.report(diagnostic)


def _free_parameter(state: State, scope: Scope, name: str, shape: Shape, start: int) -> Instruction:
    number = len(scope.computation.parameters)
    location = state.cursor.location(start, state.cursor.position)
    parameter = Instruction("parameter", shape, (), {"parameter_number": number}, name, None, location)
    scope.names[name] = parameter
    return scope.computation.add(parameter)


def _nested(state: State, scope: Scope, opcode: str, shape: Shape | None, start: int, free: bool) -> Instruction:
    """An operand written as an instruction without attributes."""
    cursor = state.cursor
    depth = cursor.depth
    cursor.deeper()
    attributes: dict[str, Any] = {}
    span = (start, start + len(opcode))
    operands = read_operands(state, scope, opcode, span, shape, attributes, free)
    row = OPCODES[opcode]
    missing = [n for n in REQUIRED[opcode] if n not in attributes and not default(opcode, n, operands, attributes)]
    if missing:
        raise cursor.fail(f"{opcode} needs the attribute '{missing[0]}'", *span, code="HLO0135")
    shape = shape or infer_shape(state, row, operands, attributes, span)
    name = anonymous_name(state, scope, opcode)
    instruction = Instruction(opcode, shape, operands, attributes, name, None, cursor.location(*span))
    scope.names[name] = scope.computation.add(instruction)
    cursor.depth = depth
    return instruction


def default(opcode: str, name: str, operands: list[Instruction], attributes: dict[str, Any]) -> bool:
    """Fill in what the broadcast of a scalar may leave out."""
    if opcode != "broadcast" or name != "dimensions" or len(operands) != 1 or not operands[0].shape.is_scalar:
        return False
    attributes["dimensions"] = ()
    return True


def shape_follows(state: State) -> bool:
    """Whether a shape stands here; an opcode otherwise."""
    cursor = state.cursor
    return _SHAPE_START.match(cursor.text, cursor.skip()) is not None


def infer_shape(
    state: State, row: Opcode, operands: list[Instruction], attributes: dict[str, Any], span: tuple[int, int]
) -> Shape:
    """The shape of an instruction that is written without one; errors point at the opcode, at `span`."""
    cursor = state.cursor
    if "inferable" not in row.traits:
        cursor.not_known(
            cursor.diagnostic(f"{row.name} needs its result shape written before it", *span, code="HLO0114")
        )
        return no_shape(state)
    if any(o.shape == POISON or isinstance(o.shape, UnknownShape) for o in operands):
        return no_shape(state)
    called = [v for v in attributes.values() if isinstance(v, Computation)]
    if any(c.root.shape == POISON or isinstance(c.root.shape, UnknownShape) for c in called):
        return no_shape(state)
    try:
        return infer(row.name, [o.shape for o in operands], attributes)
    except HloError as error:
        cursor.not_known(cursor.diagnostic(error.message, *span, code=error.code))
        return no_shape(state)


def no_shape(state: State) -> Shape:
    """What stands for a shape that is not written and cannot be inferred."""
    return POISON if state.cursor.notes is None else UnknownShape("opaque")


def anonymous_name(state: State, scope: Scope, opcode: str) -> str:
    """A name for an instruction written without one."""
    number = scope.anonymous.get(opcode, 0)
    name = f"{opcode}.anon.{number}" if number else f"{opcode}.anon"
    while name in scope.names:
        number += 1
        name = f"{opcode}.anon.{number}"
    scope.anonymous[opcode] = number
    return name
