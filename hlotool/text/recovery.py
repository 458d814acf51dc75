"""Going on after an error: where the next part of a statement begins.

Nothing here is called while a text has no errors.
"""

from __future__ import annotations

import re
from collections.abc import Container

from hlotool.text.lexer import NAME, Cursor

__all__ = ["find_attribute", "find_closing", "find_opcode", "find_separator", "statement_end"]

_NEXT_STATEMENT = re.compile(
    rf"[\r\n](?:[ \t]*(?:ROOT[ \t]+)?%?{NAME}[ \t]*=|[ \t]*\}}|(?:ENTRY[ \t]+)?%?{NAME}[ \t]*[({{]|\s*[\r\n])", re.ASCII
)
_STEP = re.compile(r'/\*(?s:.*?)\*/|//[^\r\n]*|"(?:[^"\\\r\n]|\\.)*"?|[{(\[]|[})\]]|,')
_FARTHEST = 1 << 14  # characters that are looked at
_CLOSING = {"{": "}", "(": ")", "[": "]"}
_ATTRIBUTE = re.compile(r",\s*([A-Za-z_][\w\-]*)\s*=", re.ASCII)
_OPCODE = re.compile(r"(?<=[\s)\]}])[a-z][a-z0-9\-]*\s*\(", re.ASCII)


def statement_end(cursor: Cursor, start: int) -> int:
    """Where the statement that has `start` ends at the latest: before a line that begins something else."""
    far = min(start + _FARTHEST, len(cursor.text))
    following = _NEXT_STATEMENT.search(cursor.text, start, far)
    return following.start() if following else far


def find_separator(cursor: Cursor, start: int, closing: str) -> int | None:
    """The first comma, or bracket `closing`, outside brackets from `start` on; None where the statement has none."""
    text, stack = cursor.text, [""]
    for step in _STEP.finditer(text, start, statement_end(cursor, start)):
        found = step.group()
        if found in _CLOSING:
            stack.append(_CLOSING[found])
        elif found in ("}", ")", "]"):
            if len(stack) == 1:
                return step.start() if found == closing else None
            if stack.pop() != found:
                return None
        elif found == "," and len(stack) == 1:
            return step.start()
    return None


def find_closing(cursor: Cursor, start: int, closing: str) -> int | None:
    """The bracket `closing` that ends the list in which `start` is; None where the statement has none."""
    end = find_separator(cursor, start, closing)
    while end is not None and cursor.text[end] == ",":
        end = find_separator(cursor, end + 1, closing)
    return end


def find_attribute(cursor: Cursor, start: int, names: Container[str]) -> int:
    """Where the value at `start` ends: before ``, name=`` outside brackets, or where the statement ends.

    Where brackets do not pair up, before the next of `names`.
    """
    text, stack, end = cursor.text, [""], statement_end(cursor, start)
    for step in _STEP.finditer(text, start, end):
        found = step.group()
        if found in _CLOSING:
            stack.append(_CLOSING[found])
        elif found in ("}", ")", "]"):
            if len(stack) == 1:
                return step.start()
            if stack.pop() != found:
                break
        elif found == "," and len(stack) == 1 and _ATTRIBUTE.match(text, step.start()):
            return step.start()
    if len(stack) == 1:
        return end
    known = (match.start() for match in _ATTRIBUTE.finditer(text, start, end) if match.group(1) in names)
    return next(known, end)


def find_opcode(cursor: Cursor, start: int) -> int | None:
    """Where the opcode after a broken shape at `start` stands; None where the statement has none."""
    found = [match.start() for match in _OPCODE.finditer(cursor.text, start + 1, statement_end(cursor, start))]
    for place in found[:100]:
        between = cursor.text[start:place]
        if all(between.count(a) == between.count(b) for a, b in _CLOSING.items()):
            return place
    return found[0] if found else None
