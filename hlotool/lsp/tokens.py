"""Semantic tokens: what kind of word stands where, for colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hlotool.lsp.document import Document
from hlotool.lsp.scan import Part

__all__ = ["MODIFIERS", "TYPES", "encoded"]

TYPES = (
    "keyword", "namespace", "function", "variable", "parameter", "method", "property", "enumMember", "type", "number",
    "string", "comment",
)  # fmt: skip
"""The kinds that the server announces, by number: those of the protocol."""

MODIFIERS = ("declaration",)

_TYPE_OF = {
    "keyword": "keyword", "module": "namespace", "computation": "function", "called": "function",
    "definition": "variable", "operand": "variable", "signature": "parameter", "opcode": "method",
    "attribute": "property", "value": "enumMember", "shape": "type", "number": "number", "string": "string",
    "comment": "comment",
}  # fmt: skip
_NUMBER_OF = {kind: TYPES.index(name) for kind, name in _TYPE_OF.items()}
_PARAMETER = TYPES.index("parameter")
_DECLARED = ("definition", "computation")


def encoded(document: Document, parts: Iterable[Part]) -> list[int]:
    """Five numbers for each part, as the protocol wants them: lines and columns since the one before, length, kind,
    and whether something is declared there."""
    parameters = {(s.scope, s.name) for s in document.scan.statements if s.opcode == "parameter"}
    found: list[int] = []
    line = character = 0
    for part in parts:
        kind = _NUMBER_OF[part.kind]
        if part.kind in ("definition", "operand") and (part.scope, document.word(part)) in parameters:
            kind = _PARAMETER
        declared = 1 if part.kind in _DECLARED else 0
        for at, column, length in _lines_of(document, part, line):
            if length > 0:
                found += (at - line, column - character if at == line else column, length, kind, declared)
                line, character = at, column
    return found


def _lines_of(document: Document, part: Part, line: int) -> Iterator[tuple[int, int, int]]:
    """Line, column and length of a part, cut at the ends of lines, as editors take tokens of one line.  It does not
    begin ahead of `line`."""
    starts = document.starts
    while line + 1 < len(starts) and starts[line + 1] <= part.start:
        line += 1
    if document.is_plain and (line + 1 == len(starts) or part.end < starts[line + 1]):
        yield line, part.start - starts[line], part.end - part.start
        return
    for number in range(line, document.position(part.end)[0] + 1):
        start = starts[number]
        first = document.position(max(part.start, start))[1]
        yield number, first, document.position(min(part.end, start + len(document.line(number))))[1] - first
