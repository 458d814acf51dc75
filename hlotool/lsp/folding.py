"""What can be folded away: computations, values of many lines, comments, tables."""

from __future__ import annotations

import re
from typing import NamedTuple

from hlotool.lsp.document import Document

__all__ = ["Fold", "folds"]

_TABLE = re.compile(r"(?:FileNames|FunctionNames|FileLocations|StackFrames)[ \t]*\Z")


class Fold(NamedTuple):
    """Lines, counted from 0, that become one; `kind` is ``region`` or ``comment``."""

    first: int
    last: int
    kind: str = "region"


def folds(document: Document) -> list[Fold]:
    """All that can be folded, in the order of the text."""
    found = [_fold(document, scope.start, scope.end) for scope in document.scan.scopes]
    found += [_fold(document, statement.start, statement.end) for statement in document.scan.statements]
    return sorted({fold for fold in (*found, *_tables(document), *_comments(document)) if fold.last > fold.first})


def _fold(document: Document, start: int, end: int) -> Fold:
    first, last = document.position(start)[0], document.position(end)[0]
    closes = document.line(last).strip() == "}"  # which stays in sight
    return Fold(first, last - 1 if closes and last > first + 1 else last)


def _tables(document: Document) -> list[Fold]:
    """The tables of stack frames: from a name to the line ahead of an empty one."""
    found: list[Fold] = []
    first: int | None = None
    end = document.scan.scopes[0].start if document.scan.scopes else len(document.text)
    if "FileNames" not in document.text[:end] and "StackFrames" not in document.text[:end]:
        return found
    for number in range(document.position(end)[0] + 1):
        line = document.line(number)
        if _TABLE.match(line):
            first = number
        elif not line.strip() and first is not None:
            found.append(Fold(first, number - 1))
            first = None
    return found


def _comments(document: Document) -> list[Fold]:
    """Comments of several lines, and lines of comments that follow each other."""
    found: list[Fold] = []
    for part in document.scan.parts:
        if part.kind != "comment":
            continue
        first, last = document.position(part.start)[0], document.position(part.end)[0]
        if document.line(first)[: document.position(part.start)[1]].strip():
            continue  # behind something else
        if found and found[-1].last == first - 1:
            found[-1] = Fold(found[-1].first, last, "comment")
        else:
            found.append(Fold(first, last, "comment"))
    return found
