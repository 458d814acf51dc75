"""Computations: headers, bodies, roots, and going on after an error."""

from __future__ import annotations

import re

from hlotool.ir import (
    Computation,
    Instruction,
    Location,
    Shape,
)
from hlotool.ir.shape import UnknownShape
from hlotool.text.instructions import read_instruction
from hlotool.text.lexer import NAME, SyntaxFailure, did_you_mean
from hlotool.text.shapes import read_known_shape
from hlotool.text.state import ANONYMOUS, HEADER_LINE, POISON, START, Scope, State
from hlotool.text.usual import USUAL, read_usual, remember

__all__ = ["finish", "read_body", "read_computations"]

_ENTRY = re.compile(r"ENTRY\b")
_THREAD = re.compile(r'\s*,\s*execution_thread\s*=\s*"([^"\\\r\n]*)"', re.ASCII)
_RESUME = re.compile(rf"[\r\n][ \t]*(?:(?:ROOT[ \t]+)?%?{NAME}[ \t]*=|\}})", re.ASCII)
_NEXT_COMPUTATION = re.compile(
    rf"[\r\n]\}}|[\r\n](?:ENTRY[ \t]+)?%?{NAME}[ \t]*(?:\([^\r\n]*->[^\r\n]*)?\{{[ \t]*[\r\n]", re.ASCII
)


def read_computations(state: State) -> Computation | None:
    """All computations of the text; the one marked ENTRY."""
    cursor = state.cursor
    entry: Computation | None = None
    entry_place: Location | None = None
    while cursor.skip() < len(cursor.text):
        match = _ENTRY.match(cursor.text, cursor.position)
        if match is not None:
            cursor.position = match.end()
            place = cursor.location(match.start(), match.end())
            if entry_place is not None:
                related = (("the first ENTRY is here", entry_place),)
                cursor.report(
                    cursor.diagnostic(
                        "a second ENTRY computation", match.start(), match.end(), None, related, "HLO0151"
                    )
                )
            entry_place = entry_place or place
        try:
            computation = _computation(state)
        except SyntaxFailure as failure:
            cursor.report(failure.diagnostic)
            cursor.depth = 0
            state.damage.entry |= match is not None or entry is None
            _next_computation(state)
            continue
        if match is not None and entry is None:
            entry = computation
    return entry


def _next_computation(state: State) -> None:
    """Go on after the closing brace at the start of a line, or before something like a computation header."""
    cursor = state.cursor
    match = _NEXT_COMPUTATION.search(cursor.text, cursor.position)
    if match is None:
        cursor.position = len(cursor.text)
    else:
        cursor.position = match.end() if match.group().endswith("}") else match.start()


def _computation(state: State) -> Computation:
    cursor = state.cursor
    start = cursor.skip()
    name = cursor.name("a computation")
    computation = Computation(name)
    computation.location = cursor.location(start, cursor.position)
    first = state.computations.get(name)
    if first is not None:
        related = (("first defined here", first.location),) if first.location else ()
        cursor.report(
            cursor.diagnostic(
                f"computation '{name}' is defined twice", start, cursor.position, None, related, "HLO0143"
            )
        )
    result = _signature(state)
    if not cursor.peek("{"):
        raise cursor.unexpected(f"'{{' at the start of computation {name}")
    read_body(state, computation)
    state.computations.setdefault(name, computation)
    state.order.append(computation)
    if result is not None:
        _check_result(state, computation, *result)
    match = _THREAD.match(cursor.text, cursor.position)
    if match is not None:
        computation.execution_thread = match.group(1)
        cursor.position = match.end()
    return computation


def _signature(state: State) -> tuple[Shape, int, int] | None:
    """``(p: f32[2]) -> f32[]``: parameters are read and dropped, as XLA does; the result is compared."""
    cursor = state.cursor
    if not cursor.accept("("):
        return None
    while not cursor.accept(")"):
        cursor.name("a parameter of the signature")
        cursor.accept(":")
        read_known_shape(cursor)
        if not cursor.peek(")"):
            cursor.expect(",", "or ')' in a signature")
    cursor.expect("->", "after the parameters of a signature")
    start = cursor.skip()
    result = read_known_shape(cursor)
    return None if result is None else (result, start, cursor.position)


def _check_result(state: State, computation: Computation, declared: Shape, start: int, end: int) -> None:
    root = computation.root.shape
    unknown = root == POISON or isinstance(root, UnknownShape)
    if not unknown and not state.cursor.diagnostics and not root.compatible(declared):
        state.cursor.not_known(
            state.cursor.diagnostic(
                f"the signature of {computation.name} gives {declared}, its root is {root}", start, end,
                f"did you mean '{root}'?", code="HLO0155",
            )
        )  # fmt: skip


def read_body(state: State, computation: Computation) -> None:
    """Braces and the instructions in them."""
    cursor = state.cursor
    scope = Scope(computation)
    opening, depth = cursor.position, cursor.depth
    cursor.expect("{")
    text = cursor.text
    named = computation.name.lstrip(ANONYMOUS)
    closed = True
    while True:
        match = USUAL.match(text, cursor.position)
        if match is None:
            if cursor.accept("}"):
                break
            here = cursor.position
            header = HEADER_LINE.match(text, here)
            if here >= len(text) or (
                header and not START.match(text, here) and (header.group(1) or header.group(3) == "{")
            ):
                related = (("the computation starts here", cursor.location(opening, opening + 1)),)
                message = f"'}}' is missing at the end of computation {named}"
                end = None if here < len(text) else here
                cursor.report(cursor.diagnostic(message, here, end, None, related, code="HLO0106"))
                closed = False
                state.damage.computations.add(computation)
                break
        elif read_usual(state, scope, match):
            continue
        before, said = cursor.position, state.said
        try:
            instruction = read_instruction(state, scope)
        except SyntaxFailure as failure:
            cursor.report(failure.diagnostic)
            cursor.depth = depth
            _resume(state, scope, before)
            continue
        if match is not None and state.said == said and not text[cursor.position : match.end()].strip():
            remember(state, match, instruction)
    if closed and not len(computation) and not scope.names:
        end = cursor.position
        cursor.report(
            cursor.diagnostic(f"computation {named} has no instructions, so no root", end - 1, end, code="HLO0140")
        )
    finish(state, scope)


def _resume(state: State, scope: Scope, before: int) -> None:
    """Leave a placeholder under the name of the broken instruction and go to the next one."""
    cursor = state.cursor
    state.metadata = state.controls = None
    state.unread = set()
    state.damage.computations.add(scope.computation)
    cursor.position = before
    begin = cursor.skip()
    match = START.match(cursor.text, begin)
    if match is not None and match.group(2) not in scope.names:
        name = match.group(2)
        scope.names[name] = poison = Instruction("custom-call", POISON, name=name)
        poison.location = cursor.location(match.start(2), match.end(2))
        if match.group(1) and scope.root is None:
            scope.root = (begin, begin + 4)
            scope.computation.root = poison
    following = _RESUME.search(cursor.text, begin)
    cursor.position = following.start() if following else len(cursor.text)


def finish(state: State, scope: Scope) -> None:
    """Resolve control predecessors and the root of a computation whose instructions have all been read."""
    computation, cursor = scope.computation, state.cursor
    for instruction, names in scope.controls:
        for name, start in names:
            before = scope.names.get(name)
            if before is None:
                hint = did_you_mean(name, scope.names)
                message = f"control predecessor '{name}' is not defined"
                cursor.report(cursor.diagnostic(message, start, start + len(name), hint, code="HLO0141"))
            elif before is instruction:
                message = f"'{name}' must come after itself: a cycle"
                cursor.report(cursor.diagnostic(message, start, start + len(name), code="HLO0146"))
            else:
                instruction.add_control_predecessor(before)
    if scope.root is None:
        last = next(reversed(computation), None)
        if last is not None:
            computation.root = last
        else:
            computation.root = Instruction("custom-call", POISON)
            state.damage.computations.add(computation)
