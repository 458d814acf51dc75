"""A text at one moment: its lines, places in it as editors count them, and what stands where."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

from hlotool.ir import Location
from hlotool.ir.collector import collector_paused
from hlotool.ir.errors import line_starts
from hlotool.lsp.scan import NOWHERE, Part, Scan, Scope, Statement, rescan, scan
from hlotool.text.load import without_log_prefixes

__all__ = ["Document", "Edit", "Refused", "smallest_edit"]


class Refused(Exception):  # noqa: N818
    """What was asked for cannot be done with this text, for the reason in the message."""


class Edit(NamedTuple):
    """``text[start:end]`` is to become another text."""

    start: int
    end: int
    text: str


class Document:
    """A text that does not change, with the version that the editor gave it.

    Places are offsets into the text here; an editor's are lines and columns from 0, where columns count the units of
    `encoding` (``utf-8``, ``utf-16`` or ``utf-32``).
    """

    def __init__(self, text: str, version: int = 0, encoding: str = "utf-16") -> None:
        self.text = text
        self.version = version
        self.encoding = encoding

    @cached_property
    def starts(self) -> list[int]:
        """Where the lines begin."""
        return line_starts(self.text)

    @cached_property
    def is_plain(self) -> bool:
        """Whether columns are just differences of offsets."""
        return self.encoding == "utf-32" or self.text.isascii()

    # ---- places

    def line(self, number: int) -> str:
        """A line without its end, counted from 0."""
        if not 0 <= number < len(self.starts):
            return ""
        stop = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
        return self.text[self.starts[number] : stop].rstrip("\r\n")

    def offset(self, line: int, character: int) -> int:
        """The offset of an editor's place; places behind the end of a line, or of the text, are its end."""
        if line >= len(self.starts):
            return len(self.text)
        text = self.line(line)
        column = min(character, len(text))
        if not self.is_plain and not text.isascii():
            units = 0
            for column, letter in enumerate(text):  # noqa: B007
                if units >= character:
                    break
                units += self._units(letter)
            else:
                column = len(text)
        return self.starts[line] + max(0, column)

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column, as the editor counts them, of an offset."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self.starts, offset) - 1
        before = self.text[self.starts[line] : offset]
        if self.is_plain or before.isascii():
            return line, len(before)
        return line, sum(map(self._units, before))

    def _units(self, letter: str) -> int:
        if self.encoding == "utf-16":
            return 2 if letter > "\uffff" else 1
        if self.encoding == "utf-8":
            return 1 if letter < "\x80" else 2 if letter < "\u0800" else 3 if letter <= "\uffff" else 4
        return 1

    def range_of(self, place: Location) -> tuple[int, int]:
        """The offsets of a place of a diagnostic, at least one character where there is one."""
        start = self._offset_of(place.line, place.column)
        end = max(start, self._offset_of(place.end_line, place.end_column))
        return start, end

    def _offset_of(self, line: int, column: int) -> int:
        if line > len(self.starts):
            return len(self.text)
        start = self.starts[max(0, line - 1)]
        return min(start + max(0, column - 1), start + len(self.line(max(0, line - 1))))

    def changed(self, edit: Edit, version: int) -> Document:
        """The text after an edit."""
        start, end, new = edit.start, max(edit.start, edit.end), edit.text
        after = Document(self.text[:start] + new + self.text[end:], version, self.encoding)
        known = self.__dict__.get("scan")
        if known is not None:
            with collector_paused():
                found = rescan(known, without_log_prefixes(after.text), start, end, len(new) - (end - start))
            if found is not None:
                after.__dict__["scan"] = found
        return after

    # ---- what stands where

    @cached_property
    def scan(self) -> Scan:
        with collector_paused():
            return scan(without_log_prefixes(self.text))

    @cached_property
    def _part_starts(self) -> list[int]:
        return [part.start for part in self.scan.parts]

    def part_at(self, offset: int) -> Part | None:
        """The part that holds `offset`, or that ends there."""
        parts = self.scan.parts
        at = bisect_right(self._part_starts, offset) - 1
        if at >= 0 and offset <= parts[at].end:
            before = parts[at - 1] if at else None
            starts_here = parts[at].start == offset and parts[at].kind in ("comment", "number", "shape", "string")
            return before if starts_here and before is not None and before.end == offset else parts[at]
        return None

    def parts_between(self, start: int, end: int) -> list[Part]:
        """The parts that begin in a range."""
        first = bisect_right(self._part_starts, start - 1)
        return self.scan.parts[first : bisect_right(self._part_starts, end - 1)]

    def word(self, part: Part) -> str:
        return self.text[part.start : part.end]

    def scope_at(self, offset: int) -> int:
        """The innermost computation between whose braces `offset` is."""
        found = NOWHERE
        for number, scope in enumerate(self.scan.scopes):
            if scope.start > offset:
                break
            if scope.body < offset < scope.end or (offset == scope.end == len(self.text) and not self._closed(scope)):
                found = number
        return found

    def _closed(self, scope: Scope) -> bool:
        return self.text[scope.end - 1 : scope.end] == "}"

    def statement_at(self, offset: int) -> Statement | None:
        """The innermost instruction that holds `offset`."""
        statements = self.scan.statements
        at = bisect_right(self._statement_starts, offset) - 1
        while at >= 0 and offset > statements[at].end:
            if self.scan.scopes[statements[at].scope].name:
                return None  # only instructions of bodies without names are inside others
            at -= 1
        return statements[at] if at >= 0 else None

    @cached_property
    def _statement_starts(self) -> list[int]:
        return [statement.start for statement in self.scan.statements]

    # ---- names

    @cached_property
    def definitions(self) -> dict[tuple[int, str], Part]:
        """Instructions by computation and name; the first of those with one name."""
        found: dict[tuple[int, str], Part] = {}
        for part in self.scan.parts:
            if part.kind == "definition":
                found.setdefault((part.scope, self.word(part)), part)
        return found

    @cached_property
    def computations(self) -> dict[tuple[int, str], Part]:
        """Computations by module and name."""
        found: dict[tuple[int, str], Part] = {}
        for part in self.scan.parts:
            if part.kind == "computation":
                found.setdefault((self.module_of(part), self.word(part)), part)
        return found

    def module_of(self, part: Part) -> int:
        """Which module of the text a part is of."""
        if 0 <= part.scope < len(self.scan.scopes):
            return self.scan.scopes[part.scope].module
        return bisect_right(self.scan.modules, part.start) - 1

    @cached_property
    def has_percent(self) -> bool:
        """Whether names are written with percent signs."""
        named = [part for part in self.scan.parts[:200] if part.kind in ("definition", "computation")]
        return bool(named) and all(self.text[part.start - 1 : part.start] == "%" for part in named)


def smallest_edit(before: str, after: str) -> Edit | None:
    """The edit that makes one text of another, ends that are alike left out."""
    if before == after:
        return None
    shorter = min(len(before), len(after))
    start = _alike(before[:shorter], after[:shorter])
    rest = shorter - start
    end = _alike(before[len(before) - rest :][::-1], after[len(after) - rest :][::-1])
    return Edit(start, len(before) - end, after[start : len(after) - end])


def _alike(one: str, other: str) -> int:
    """How many characters at the start are the same in two texts of one length."""
    low, high = 0, len(one)
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
