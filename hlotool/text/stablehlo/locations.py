"""Locations, as metadata: ``loc("jit(f)/add"(#loc3))``, files with lines, call sites, fused ones."""

from __future__ import annotations

import contextlib
import re

from hlotool.ir import Metadata
from hlotool.text.lexer import Cursor, SyntaxFailure
from hlotool.text.stablehlo.attributes import Aliases, skip_angles

__all__ = ["Locations"]

_RANGE = re.compile(r":(\d{1,18})(?::(\d{1,18})(?:\s+to\s+(?:(\d{1,18}))?:(\d{1,18}))?)?", re.ASCII)
_ALIAS = re.compile(r"#([A-Za-z_][\w$.\-]*)", re.ASCII)
_DEEPEST = 200


class Locations:
    """Reads locations when somebody asks; `cursor` is one of its own."""

    __slots__ = ("aliases", "cursor", "known")

    def __init__(self, cursor: Cursor, aliases: Aliases) -> None:
        self.cursor = cursor
        self.aliases = aliases
        self.known: dict[int, Metadata | None] = {}

    def metadata(self, start: int) -> Metadata | None:
        """What the location that begins at `start` (after ``loc(``) says; None where that is nothing, or malformed."""
        if start not in self.known:
            self.known[start] = None  # of locations that need themselves
            before = self.cursor.position
            self.cursor.position = start
            with contextlib.suppress(SyntaxFailure):
                self.known[start] = self._read(0)
            self.cursor.position = before
        return self.known[start]

    def _read(self, depth: int) -> Metadata | None:
        cursor = self.cursor
        if depth > _DEEPEST:
            return None
        alias = cursor.match(_ALIAS)
        if alias is not None:
            place = self.aliases.get(alias.group(1))
            if place is None:
                return None
            if place[0] in self.known:
                return self.known[place[0]]
            before, cursor.position = cursor.position, place[0]
            self.known[place[0]] = None
            cursor.accept("loc(")
            found = self.known[place[0]] = self._read(depth + 1)
            cursor.position = before
            return found
        if cursor.peek('"'):
            return self._named(depth)
        if cursor.accept("callsite("):
            inner = self._read(depth + 1)
            if cursor.accept("at"):
                self._read(depth + 1)
            cursor.accept(")")
            return inner
        if cursor.accept("fused"):
            if cursor.peek("<"):
                skip_angles(cursor, cursor.position)
            cursor.expect("[")
            first: Metadata | None = None
            while not cursor.accept("]"):
                cursor.accept(",")
                one = self._read(depth + 1)
                first = first or one
            return first
        cursor.accept("unknown")
        return None

    def _named(self, depth: int) -> Metadata | None:
        cursor = self.cursor
        text = cursor.string()
        lines = cursor.match(_RANGE)
        if lines is not None:
            line, column, end_line, end_column = (int(number or 0) for number in lines.groups())
            return Metadata(
                source_file=text, source_line=line, source_column=column,
                source_end_line=end_line or line, source_end_column=end_column or column,
            )  # fmt: skip
        inner = None
        if cursor.accept("("):
            inner = self._read(depth + 1)
            cursor.accept(")")
        return inner.named(text) if inner is not None and not inner.op_name else Metadata(op_name=text)
