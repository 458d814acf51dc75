"""The parser of HLO text: modules, computations, instructions.  Texts of StableHLO go to `hlotool.text.stablehlo`.

Recursion happens only through bracketed forms and is bounded by the cursor.  Parsing goes on after an error at the
next instruction: a broken instruction leaves a placeholder under its name, so that one mistake gives one message.
Syntax: XLA's ``hlo_parser.cc`` and ``docs/``, and the newer form with stack-frame tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from hlotool.ir import (
    Computation,
    Diagnostic,
    Literal,
    Module,
    ParseError,
    Shape,
)
from hlotool.ir.collector import collector_paused
from hlotool.ir.given import check_text
from hlotool.ir.verifier import verify
from hlotool.text.computations import finish, read_body, read_computations
from hlotool.text.foreign import is_mlir, refuse_foreign_text
from hlotool.text.header import read_header, read_stack_frames
from hlotool.text.instructions import read_instruction
from hlotool.text.lexer import Cursor, SyntaxFailure
from hlotool.text.literals import read_literal
from hlotool.text.operands import shape_follows
from hlotool.text.shapes import read_shape
from hlotool.text.state import ANONYMOUS, HEADER_LINE, START, Scope, State

__all__ = ["parse", "parse_literal", "parse_shape"]

_HEADER = re.compile(r"HloModule\b")
_BAD_CHARACTER = re.compile(r"[\x00\ud800-\udfff]")
_T = TypeVar("_T")


def parse(text: str, file: str = "<text>", first_line: int = 1, notes: list[Diagnostic] | None = None) -> Module:
    """The module that `text` describes; ParseError with all diagnostics where it is neither HLO nor StableHLO.

    `first_line` is the number of the first line in messages, for a text that is a part of a file.  With `notes`,
    unknown opcodes, attributes, shapes and literals are no errors: they are kept as they are written, in instructions
    of the opcode `UNKNOWN`, and said there.  Such a module can be looked at and printed, not run.
    """
    check_text(text, "parse")
    if is_mlir(text):
        from hlotool.text.stablehlo.parse import parse_stablehlo

        return parse_stablehlo(text, file, first_line)
    refuse_foreign_text(text, file, first_line)
    cursor = Cursor(text, file, first_line, notes)
    state = State(cursor, read_body)
    try:
        clean = text.isascii() and "\0" not in text  # a search of memory, as the pattern is not
        bad = None if clean else _BAD_CHARACTER.search(text)
        if bad is not None:
            raise cursor.fail(_describe_character(bad.group()), bad.start(), bad.end(), code="HLO0107")
        with collector_paused():
            module = read_module(state)
    except SyntaxFailure as failure:
        if failure.diagnostic is not None:
            cursor.diagnostics.append(failure.diagnostic)
        module = None
    if module is None:
        _raise(cursor.diagnostics)
        raise AssertionError("parsing failed without a message")
    module.source = text
    if cursor.diagnostics:
        _raise(_with_rules(cursor, module, state))
    return module


def _with_rules(cursor: Cursor, module: Module, state: State) -> list[Diagnostic]:
    """The errors of a text and, of what could be read of it, the violations of the rules, in the order of the text."""
    found = {_place(diagnostic): diagnostic for diagnostic in cursor.diagnostics}
    module.source = "\n" * cursor.lines.above + cursor.text
    for diagnostic in verify(module, state.damage):
        found.setdefault(_place(diagnostic), diagnostic)
    return [found[place] for place in sorted(found, key=lambda place: place[:2])]


def _place(diagnostic: Diagnostic) -> tuple[int, int, str]:
    place = diagnostic.location
    return (place.line, place.column, diagnostic.code) if place else (0, 0, diagnostic.message)


def _raise(found: list[Diagnostic]) -> None:
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        place = found[0].location
        where = f"{place.file}:{place.line}:{place.column}: " if place else ""
        raise ParseError(f"{where}{found[0].message}{more}", found)


def _describe_character(character: str) -> str:
    if character == "\0":
        return "the text has a NUL byte"
    return f"byte 0x{ord(character) & 255:02X} is not valid UTF-8"


def parse_shape(text: str) -> Shape:
    """A shape alone: ``parse_shape("(f32[2]{0}, s32[])")``."""
    cursor = Cursor(text, "<shape>")
    return _alone(cursor, lambda: read_shape(cursor))


def parse_literal(text: str, shape: Shape) -> Literal:
    """A literal of a known shape alone."""
    cursor = Cursor(f"({text})", "<literal>")  # a constant's literal always stands in parentheses
    cursor.position = 1
    return _alone(cursor, lambda: read_literal(cursor, shape), ")")


def _alone(cursor: Cursor, read: Callable[[], _T], end: str = "") -> _T:
    try:
        value = read()
        if end:
            cursor.expect(end)
        if cursor.skip() < len(cursor.text):
            raise cursor.unexpected("the end")
    except SyntaxFailure as failure:
        if failure.diagnostic is not None:
            cursor.diagnostics.append(failure.diagnostic)
    _raise(cursor.diagnostics)
    return value


# ---- modules


def read_module(state: State) -> Module:
    cursor = state.cursor
    cursor.skip()
    if cursor.position >= len(cursor.text):
        blank = not cursor.text.strip()
        message = "the text is empty" if blank else "the text has no instructions, only comments"
        raise cursor.fail(message, len(cursor.text), len(cursor.text), code="HLO0101")
    name: str | None = None
    attributes: dict[str, Any] = {}
    frames = None
    header = _HEADER.match(cursor.text, cursor.position)
    if header is not None:
        cursor.position = header.end()
        name, attributes = read_header(cursor)
        frames = read_stack_frames(cursor)
    elif _is_instruction(state):
        return _single(state)
    entry = read_computations(state)
    if entry is None:
        _check_found(state)
        state.damage.entry |= not state.order
        entry = state.order[-1] if state.order else Computation("")
    module = Module(name if name is not None else f"module_{entry.name}", attributes)
    module.stack_frames = frames
    return _assemble(state, module, entry)


def _check_found(state: State) -> None:
    cursor = state.cursor
    if not state.computations and not cursor.diagnostics:
        raise cursor.fail("the module has no computations", len(cursor.text), len(cursor.text), code="HLO0101")


def _assemble(state: State, module: Module, entry: Computation) -> Module:
    for computation in state.order:
        if not computation.name.startswith(ANONYMOUS):
            module.reserve(computation.name)
    for computation in state.order:
        if computation.name.startswith(ANONYMOUS):
            computation.name = module.unique_name(computation.name[1:])
        module.add(computation, entry=computation is entry)
    return module


def _is_instruction(state: State) -> bool:
    """Whether the text is one instruction instead of a list of computations."""
    cursor = state.cursor
    start = cursor.position
    if START.match(cursor.text, start):
        return True
    header = HEADER_LINE.match(cursor.text, start)
    if header is None:
        return shape_follows(state)
    if header.group(1) or header.group(3) == "{":
        return False
    return "->" not in cursor.text[start : cursor.line_end(start)]


def _single(state: State) -> Module:
    """The form of one instruction: operands that carry shapes become parameters."""
    cursor = state.cursor
    scope = Scope(Computation("_"))
    read_instruction(state, scope, free=True)
    if cursor.skip() < len(cursor.text):
        raise cursor.fail(
            "text after a single instruction", cursor.position,
            hint="a module with several instructions starts with 'HloModule name'",
        )  # fmt: skip
    finish(state, scope)
    state.order.append(scope.computation)
    return _assemble(state, Module("_", {"is_scheduled": True}), scope.computation)
