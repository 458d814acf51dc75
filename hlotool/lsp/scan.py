"""What stands where in a text of HLO that may be half typed.

The parser wants whole statements; an editor asks about texts that are not whole yet.  This scan takes any text, in one
pass, and says what its words are: names with the computation that they are in, opcodes, attributes, shapes.  It
begins anew at every line that looks like an instruction or the head of a computation, so that what is broken in one
statement says nothing about the next.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import field, replace
from operator import attrgetter
from typing import NamedTuple

from hlotool.ir import COMMON_ATTRIBUTES, OPCODES
from hlotool.lazy_dataclass import dataclass
from hlotool.text.lexer import NAME

__all__ = ["NOWHERE", "Part", "Scan", "Scope", "State", "Statement", "rescan", "scan", "state_at"]

NOWHERE = -1
"""The scope of what is in no computation."""

_NUMBER = r"-?\d[\w.]*+(?:(?<=[eE])[+\-]\d++)?"
_TOKEN = re.compile(
    rf"""
      (?P<comment>//[^\r\n]*|/\*(?s:.*?)(?:\*/|\Z))
    | (?P<block>metadata=\{{(?:[^{{}}"\r\n]|"(?:[^"\\\r\n]|\\.)*+")*+\}})
    | (?P<string>"(?:[^"\\\r\n]|\\.)*+"?)
    | (?P<shape>[a-z][a-z0-9_]*\[[^\[\](){{}}"=\r\n]*\](?:\{{[ \t]*[\d:][^{{}}\r\n]*\}})?)
    | (?P<name>%?{NAME})
    | (?P<number>{_NUMBER}(?:[ \t]*,[ \t]*{_NUMBER})*+)
    | (?P<mark>->|[()\[\]{{}}=,])
    """,
    re.ASCII | re.VERBOSE,
)
_SEPARATOR = re.compile(r"//[ \t]?-{5,}[ \t]*\Z")
_HEADER = re.compile(rf"(?:ENTRY[ \t]+)?%?{NAME}[ \t]*(?:\([^\r\n]*->[^\r\n]*)?\{{[ \t]*(?:[\r\n]|\Z)", re.ASCII)
_STATEMENT = re.compile(
    rf"(?:ROOT[ \t]+)?%?{NAME}[ \t]*=[ \t]*(?:[a-z][a-z0-9_]*\[|\(|[a-z][a-z0-9\-]*\()", re.ASCII
)
_ASSIGNMENT = re.compile(rf"(?:ROOT[ \t]+)?%?{NAME}[ \t]*=", re.ASCII)
_CALLED = re.compile(r"[ \t]*\(")
_EQUALS = re.compile(r"[ \t]*=")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_KINDS = {
    **{row.name: row.kind for row in COMMON_ATTRIBUTES.values()},
    **{row.name: row.kind for opcode in OPCODES.values() for row in opcode.attributes if "comp" in row.kind},
}
"""The attributes whose values have names in them, and those that all opcodes have."""


class Part(NamedTuple):
    """``text[start:end]``, the percent sign of names left out.

    `kind` is one of ``keyword module computation called definition operand signature opcode attribute value shape
    number string comment``: names where they are defined (computation, definition), and used (called, operand;
    signature: a parameter in the head of a computation).  `scope` is the number of the computation that it is in.
    """

    kind: str
    start: int
    end: int
    scope: int


@dataclass(slots=True)
class Scope:
    """A computation: its name (empty where it has none), its range, where its body begins, and which module of the
    text it is of."""

    name: str
    start: int
    body: int
    end: int
    is_entry: bool
    module: int


@dataclass(slots=True)
class Statement:
    """An instruction: its name and opcode as far as they are written, and its range."""

    name: str
    start: int
    end: int
    scope: int
    opcode: str = ""


@dataclass(slots=True)
class Scan:
    """All parts of a text, in its order, and the computations and instructions in it."""

    parts: list[Part] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    modules: list[int] = field(default_factory=list)
    """Where the modules of the text begin."""


@dataclass(slots=True)
class State:
    """What is open at a place.

    `kind`: ``top``, ``body`` (between the braces of a computation), ``signature``, ``tuple`` (the parentheses of a
    shape), ``operands``, ``names`` and ``called`` (lists of instructions and of computations), ``value`` (brackets in
    anything else).  `phase` in a body is what has been read of the statement: ``start``, ``named``, ``equals``,
    ``typed``, ``opcode``, ``after`` (its operands), ``comma``, ``attribute``, ``value``.
    """

    kind: str
    opening: str
    scope: int
    phase: str = "start"
    opcode: str = ""
    attribute: str = ""
    statement: Statement | None = None


def scan(text: str) -> Scan:
    """What stands where in `text`."""
    reader = _Reader(text)
    reader.read()
    return reader.found


def rescan(old: Scan, text: str, start: int, end: int, shift: int) -> Scan | None:
    """The scan of `text`, which had the scan `old` before what stood at `start` to `end` became `shift` longer.

    Only the instructions that were touched are read again; None where others may be concerned, too.
    """
    by_start = attrgetter("start")
    first = bisect_left(old.statements, start, key=by_start) - 1
    while first >= 0 and not _STATEMENT.match(text, old.statements[first].start):
        first -= 1  # whether this is an instruction depends on the ones before
    if first < 0:
        return None
    touched = old.statements[first]
    scope = old.scopes[touched.scope]
    following = bisect_left(old.statements, max(end, touched.start + 1), key=by_start)
    stop = scope.end - 1
    if following < len(old.statements) and old.statements[following].scope == touched.scope:
        stop = old.statements[following].start
    inside = text[touched.start : stop + shift]
    if not scope.name or end > stop or "/*" in inside or "*/" in inside or "-----" in inside:
        return None
    at_end = text[stop + shift : stop + shift + 1] == "}" and text[stop + shift - 1] in "\r\n"
    goes_on = _begins_line(text, stop + shift) and _STATEMENT.match(text, stop + shift)
    if not (at_end or goes_on) or not _begins_line(text, touched.start):
        return None
    reader = _Reader(text[: stop + shift], touched.start)
    reader.stack.append(State("body", "{", touched.scope))
    reader.read()
    body = reader.stack[1] if len(reader.stack) > 1 else None
    if body is None or body.kind != "body" or body.scope != touched.scope or reader.found.scopes:
        return None
    return _joined(old, reader.found, touched.start, stop, shift)


def _begins_line(text: str, at: int) -> bool:
    return not text[max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1 : at].strip(" \t")


def _joined(old: Scan, new: Scan, start: int, stop: int, shift: int) -> Scan:
    """The scan in which `new` stands for what was at `start` to `stop`, and all behind that has moved."""
    by_start = attrgetter("start")
    first, last = (bisect_left(old.parts, at, key=by_start) for at in (start, stop))
    parts = old.parts[:first] + new.parts
    parts += [Part(kind, begin + shift, end + shift, scope) for kind, begin, end, scope in old.parts[last:]]
    first, last = (bisect_left(old.statements, at, key=by_start) for at in (start, stop))
    statements = old.statements[:first] + new.statements
    statements += [replace(one, start=one.start + shift, end=one.end + shift) for one in old.statements[last:]]

    def moved(at: int) -> int:
        return at + shift if at >= stop else at

    scopes = [replace(one, start=moved(one.start), body=moved(one.body), end=moved(one.end)) for one in old.scopes]
    return Scan(parts, scopes, statements, [moved(at) for at in old.modules])


def state_at(text: str, start: int, scope: int, end: int) -> list[State]:
    """What is open at `end`, outermost first, where `start` is at the start of a statement of the computation `scope`,
    or, with `NOWHERE`, outside of all."""
    reader = _Reader(text[:end], start)
    if scope != NOWHERE:
        reader.stack.append(State("body", "{", scope))
    reader.read()
    return reader.stack


class _Reader:
    """One pass over a text."""

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self.start = start
        self.found = Scan(modules=[start])
        self.stack = [State("top", "", NOWHERE)]
        self.end = start  # of the last word
        self.last = ""  # the last mark, if it was the last word
        self.entry = NOWHERE  # where ENTRY stands
        self.head = ("", 0)  # a computation of which the body has not begun

    def read(self) -> None:
        text, found = self.text, self.found
        for match in _TOKEN.finditer(text, self.start):
            kind, start, end = match.lastgroup, match.start(), match.end()
            if kind == "comment":
                self._comment(start, end)
                continue
            if kind == "mark":
                self._mark(match.group(), start)
                self.last = match.group()
            elif kind == "name":
                self._name(match.group(), start, end)
                self.last = ""
            elif kind == "block":
                found.parts.append(Part("attribute", start, start + len("metadata"), self.stack[-1].scope))
                self.stack[-1].phase = "after"
                self.last = ""
            else:
                self._plain(str(kind), start, end)
                self.last = ""
            self.end = end
        for state in self.stack:
            if state.statement is not None:
                state.statement.end = max(self.end, state.statement.start)

    def _comment(self, start: int, end: int) -> None:
        self.found.parts.append(Part("comment", start, end, self.stack[-1].scope))
        if self.text.startswith("//", start) and _SEPARATOR.match(self.text[start:end]):
            self._to_top(start)
            self.found.modules.append(end)
            self.stack[0].phase = "start"

    def _plain(self, kind: str, start: int, end: int) -> None:
        """Shapes, numbers and strings."""
        state = self.stack[-1]
        self.found.parts.append(Part(kind, start, end, state.scope))
        if state.kind == "body":
            state.phase = "typed" if kind == "shape" and state.phase == "equals" else state.phase
            state.phase = "after" if state.phase == "value" else state.phase

    # ---- names

    def _name(self, word: str, start: int, end: int) -> None:
        if self._is_first(start):
            self._first_of_line(start)
        state = self.stack[-1]
        kind = getattr(self, f"_name_in_{state.kind}")(state, word, start, end)
        if word[0] == "%":
            start += 1
        scope = len(self.found.scopes) if kind == "computation" else self.stack[-1].scope
        self.found.parts.append(Part(kind, start, end, scope))

    def _is_first(self, start: int) -> bool:
        between = self.text[self.end : start]
        return "\n" in between or "\r" in between or self.end == self.start

    def _first_of_line(self, start: int) -> None:
        """Leave what is open where a line begins that is a statement, or the head of a computation."""
        text, state = self.text, self.stack[-1]
        at_margin = start == 0 or text[start - 1] in "\r\n"
        if at_margin and state.kind != "top" and _HEADER.match(text, start):
            self._to_top(start)
        elif state.kind not in ("body", "top"):
            if _STATEMENT.match(text, start):
                while self.stack[-1].kind not in ("body", "top"):
                    self.stack.pop()
                self._end_statement()
        elif state.kind == "body":
            new = self.last != "," and (state.phase in ("start", "named", "after") or _ASSIGNMENT.match(text, start))
            if new or _STATEMENT.match(text, start):
                self._end_statement()

    def _name_in_top(self, state: State, word: str, start: int, end: int) -> str:
        if word == "HloModule":
            state.phase = "module"
            return "keyword"
        if word == "ENTRY":
            self.entry = start
            return "keyword"
        if state.phase == "module":
            state.phase = "header"
            return "module"
        if self.last == ",":
            state.attribute = word
            return "attribute"
        if self.last == "=":
            return "value"
        if word in _TABLES and not self.text[end : end + 1].strip():
            return "keyword"
        if _STATEMENT.match(self.text, start) or word == "ROOT":  # an instruction without a computation around it
            self._open_body("", start, start)
            return self._name_in_body(self.stack[-1], word, start, end)
        state.phase = "computation"
        self.head = (word.lstrip("%"), start if self.entry == NOWHERE else self.entry)
        return "computation"

    def _name_in_body(self, state: State, word: str, start: int, end: int) -> str:
        phase = state.phase
        if phase in ("start", "named"):
            if state.statement is None:
                state.statement = Statement("", start, end, state.scope)
                self.found.statements.append(state.statement)
            if word == "ROOT" and not _EQUALS.match(self.text, end):
                return "keyword"
            state.statement.name = word.lstrip("%")
            state.phase = "named"
            return "definition"
        if phase in ("equals", "typed", "opcode"):
            state.phase, state.opcode = "opcode", word
            if state.statement is not None:
                state.statement.opcode = word
            return "opcode"
        if phase == "value":
            state.phase = "after"
            return "called" if _KINDS.get(state.attribute, "").startswith("comp") else "value"
        state.phase, state.attribute = "attribute", word
        return "attribute"

    def _name_in_operands(self, state: State, word: str, start: int, end: int) -> str:
        if _CALLED.match(self.text, end):
            state.attribute = word  # the opcode of an instruction that is written in the place of an operand
            return "opcode" if word in OPCODES else "shape"
        return "value" if state.opcode in ("constant", "parameter") else "operand"

    def _name_in_signature(self, state: State, word: str, start: int, end: int) -> str:
        return "signature"

    def _name_in_tuple(self, state: State, word: str, start: int, end: int) -> str:
        return "shape"

    def _name_in_names(self, state: State, word: str, start: int, end: int) -> str:
        return "operand"

    def _name_in_called(self, state: State, word: str, start: int, end: int) -> str:
        return "called"

    def _name_in_value(self, state: State, word: str, start: int, end: int) -> str:
        return "value"

    # ---- marks

    def _mark(self, mark: str, start: int) -> None:
        state = self.stack[-1]
        if mark in ("(", "{", "["):
            self._open(state, mark, start)
        elif mark in (")", "}", "]"):
            self._close(mark, start)
        elif state.kind == "body":
            if mark == "=":
                state.phase = {"named": "equals", "attribute": "value"}.get(state.phase, state.phase)
            elif mark == "," and state.phase in ("after", "value", "attribute"):
                state.phase = "comma"

    def _open(self, state: State, mark: str, start: int) -> None:
        kind = "value"
        if state.kind == "top" and state.phase == "computation":
            if mark == "{":
                self._open_body(*self.head, start)
                return
            kind = "tuple" if self.last == "->" else "signature"
        elif state.kind in ("signature", "tuple"):
            kind = "tuple"
        elif state.kind == "operands" and mark == "(":
            kind = "operands" if self.last == "" and self.end == start and state.attribute in OPCODES else "tuple"
        elif state.kind == "called" and mark == "{":
            self._open_body("", start, start)
            return
        elif state.kind == "body" and mark == "(":
            kind = {"equals": "tuple", "opcode": "operands"}.get(state.phase, "value")
        elif state.kind == "body" and mark == "{" and state.phase == "value":
            form = _KINDS.get(state.attribute)
            if form == "computation":
                self._open_body("", start, start)
                return
            kind = {"computations": "called", "names": "names"}.get(form or "", "value")
        inner = state.attribute if state.kind == "operands" and kind == "operands" else state.opcode
        scope = len(self.found.scopes) if kind in ("signature", "tuple") and state.kind == "top" else state.scope
        scope = state.scope if state.kind in ("signature", "tuple") else scope
        self.stack.append(State(kind, mark, scope, opcode=inner))

    def _open_body(self, name: str, start: int, body: int) -> None:
        scopes = self.found.scopes
        top = len(self.stack) == 1
        entry = top and self.entry != NOWHERE
        self.stack.append(State("body", "{", len(scopes)))
        scopes.append(Scope(name, start, body, len(self.text), entry, len(self.found.modules) - 1))
        if top:
            self.entry = NOWHERE
            self.stack[0].phase = "start"

    def _close(self, mark: str, start: int) -> None:
        if mark == "}" and len(self.stack) > 1 and (start == 0 or self.text[start - 1] in "\r\n"):
            outermost = self.stack[1]
            del self.stack[2:]
            if outermost.kind == "body":
                self._close_body(start)
                return
        opening = {"}": "{", ")": "(", "]": "["}[mark]
        at = next((n for n in range(len(self.stack) - 1, 0, -1) if self.stack[n].opening == opening), 0)
        if not at or (mark != "}" and any(state.kind == "body" for state in self.stack[at:])):
            return  # it closes nothing
        del self.stack[at + 1 :]
        if self.stack[at].kind == "body":
            self._close_body(start)
            return
        self.stack.pop()
        outer = self.stack[-1]
        if outer.kind == "body":
            outer.phase = {"equals": "typed", "opcode": "after", "value": "after"}.get(outer.phase, outer.phase)

    def _close_body(self, start: int) -> None:
        """The body on top of the stack ends at the brace at `start`."""
        self._end_statement()
        state = self.stack.pop()
        if state.scope < len(self.found.scopes):
            self.found.scopes[state.scope].end = start + 1
        outer = self.stack[-1]
        if outer.kind == "body":
            outer.phase = "after"

    def _end_statement(self) -> None:
        """The statement of the innermost body ends with the last word."""
        state = self.stack[-1]
        if state.statement is not None:
            state.statement.end = max(self.end, state.statement.start)
            state.statement = None
        if state.kind == "body":
            state.phase, state.opcode, state.attribute = "start", "", ""

    def _to_top(self, start: int) -> None:
        while len(self.stack) > 1:
            if self.stack[-1].kind == "body":
                self._close_body(start - 1)
            else:
                self.stack.pop()
