"""From names to their definitions and uses, and other names for them."""

from __future__ import annotations

import re

from hlotool.lazy_dataclass import dataclass
from hlotool.lsp.document import Document, Edit, Refused
from hlotool.lsp.scan import Part, Scope
from hlotool.text.lexer import NAME

__all__ = ["Symbol", "definition", "named_part", "references", "rename", "symbols"]

_INSTRUCTIONS = ("definition", "operand", "signature")
_COMPUTATIONS = ("computation", "called")
_NAME = re.compile(rf"%?({NAME})", re.ASCII)
_MOST = 5000  # instructions in an outline, which editors ask for after each edit
_KEPT = ("ROOT", "ENTRY", "HloModule")


def named_part(document: Document, offset: int) -> Part | None:
    """The name of an instruction, a computation or the module at `offset`."""
    part = document.part_at(offset)
    return part if part is not None and part.kind in (*_INSTRUCTIONS, *_COMPUTATIONS, "module") else None


def definition(document: Document, part: Part) -> Part | None:
    """Where the name `part` is defined."""
    if part.kind in _INSTRUCTIONS:
        return document.definitions.get((part.scope, document.word(part)))
    if part.kind in _COMPUTATIONS:
        return document.computations.get((document.module_of(part), document.word(part)))
    return part if part.kind == "module" else None


def references(document: Document, part: Part, declaration: bool = True) -> list[Part]:
    """All places that have the name of `part` and mean the same, in the order of the text."""
    word = document.word(part)
    if part.kind == "module":
        return [part] if declaration else []
    kinds = _INSTRUCTIONS if part.kind in _INSTRUCTIONS else _COMPUTATIONS
    left_out = () if declaration else ("definition", "computation")
    found = [
        other
        for other in document.scan.parts
        if other.kind in kinds
        and other.kind not in left_out
        and other.end - other.start == len(word)
        and (other.scope == part.scope or kinds is _COMPUTATIONS)
        and document.word(other) == word
    ]
    if kinds is _INSTRUCTIONS:
        return found
    module = document.module_of(part)
    return [other for other in found if document.module_of(other) == module]


def rename(document: Document, part: Part, name: str) -> list[Edit]:
    """The edits that give what `part` names another name; Refused where it cannot have that."""
    match = _NAME.fullmatch(name.strip())
    if match is None:
        raise Refused(f"{name!r} is no name: letters, digits, '_', '.' and '-', no digit first")
    new = match[1]
    if new in _KEPT:
        raise Refused(f"{new} is a word of the language")
    if new == document.word(part):
        return []
    if part.kind in _INSTRUCTIONS and (part.scope, new) in document.definitions:
        raise Refused(f"the computation already has an instruction '{new}'")
    if part.kind in _COMPUTATIONS and (document.module_of(part), new) in document.computations:
        raise Refused(f"the module already has a computation '{new}'")
    if part.kind != "module" and definition(document, part) is None:
        raise Refused(f"'{document.word(part)}' is not defined")
    return [Edit(other.start, other.end, new) for other in references(document, part)]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A computation with its instructions, or one of these: `detail` is its opcode; `name_range` is in `range`."""

    name: str
    detail: str
    range: tuple[int, int]
    name_range: tuple[int, int]
    inside: tuple[Symbol, ...] = ()


def symbols(document: Document) -> list[Symbol]:
    """The outline of a text; of one with many instructions, computations alone."""
    found: dict[int, list[Symbol]] = {number: [] for number in range(len(document.scan.scopes))}
    statements = document.scan.statements
    for statement in statements if len(statements) <= _MOST else ():
        part = document.definitions.get((statement.scope, statement.name))
        if part is not None and statement.scope in found:
            own = (part.start, part.end) if statement.start <= part.start <= statement.end else (statement.start,) * 2
            symbol = Symbol(statement.name, statement.opcode, (statement.start, max(statement.end, own[1])), own)
            found[statement.scope].append(symbol)
    return [
        Symbol(
            scope.name, "ENTRY" if scope.is_entry else "", (scope.start, scope.end), _name_of(document, scope),
            tuple(found[number]),
        )
        for number, scope in enumerate(document.scan.scopes)
        if scope.name
    ]  # fmt: skip


def _name_of(document: Document, scope: Scope) -> tuple[int, int]:
    part = next(iter(p for p in document.parts_between(scope.start, scope.body) if p.kind == "computation"), None)
    return (part.start, part.end) if part is not None else (scope.start, scope.start)
