"""What can go wrong, as values: places in a text, diagnostics, and the exceptions that carry them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field
from itertools import accumulate

from hlotool.lazy_dataclass import dataclass

__all__ = [
    "BudgetExceeded",
    "Diagnostic",
    "ExecutionError",
    "HloError",
    "InputError",
    "Lines",
    "Location",
    "ParseError",
    "UnsupportedError",
    "VerificationError",
    "Written",
    "line_starts",
]

_LINE_END = r"\r\n|\r|\n"


@dataclass(frozen=True, slots=True)
class Location:
    """A range of characters in a source text.  Lines and columns count from 1; ends are exclusive columns."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


def line_starts(text: str) -> list[int]:
    """Where the lines of a text start; they end in a line feed, a carriage return, or both."""
    if "\r" in text:
        return [0, *(m.end() for m in re.finditer(_LINE_END, text))]
    return [0, *accumulate(len(line) + 1 for line in text.split("\n")[:-1])]


class Lines:
    """Finds the lines and columns of a text; it looks for them when somebody asks."""

    __slots__ = ("_ends", "_starts", "above", "file", "text")

    def __init__(self, text: str, file: str, first_line: int = 1) -> None:
        self.text = text
        self.file = file
        self.above = first_line - 1  # lines of the file ahead of the text
        self._ends = len(text.rstrip())
        self._starts: list[int] | None = None

    @property
    def starts(self) -> list[int]:
        if self._starts is None:
            self._starts = line_starts(self.text)
        return self._starts

    def location(self, start: int, end: int) -> Location:
        """The place of ``text[start:end]``; places in the blanks at the end move up to the last character."""
        start = min(start, self._ends)
        end = min(end, max(start, self._ends))
        starts = self.starts
        line = bisect_right(starts, start)
        column = start - starts[line - 1] + 1
        above = self.above
        if line == len(starts) or end < starts[line]:
            return Location(self.file, line + above, column, line + above, end - starts[line - 1] + 1)
        end_line = bisect_right(starts, end)
        return Location(self.file, line + above, column, end_line + above, end - starts[end_line - 1] + 1)


Written = tuple[Lines, int, int]
"""A place as offsets into a text, which cost nothing until somebody wants the `Location`."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing to say about an input: what, where, and what to do about it."""

    message: str
    location: Location | None = None
    hint: str | None = None
    code: str = "HLO0990"
    severity: str = "error"
    related: tuple[tuple[str, Location], ...] = field(default=())


class HloError(Exception):
    """Base of all errors that this package raises on purpose.

    `code` is the code of the diagnostic of errors that are raised with a message alone.
    """

    code = "HLO0990"

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics) or (Diagnostic(message, code=self.code),)

    def __str__(self) -> str:
        return self.message


class BudgetExceeded(Exception):  # noqa: N818
    """More instructions were added to a module than it allows (`Module.allowance`): a mistake in who adds them."""


class ParseError(HloError):
    """The text is not HLO, or cannot be read."""

    code = "HLO0001"


class VerificationError(HloError):
    """The module is HLO text but not a valid program."""

    code = "HLO0200"


class UnsupportedError(HloError):
    """The module is valid, but this package (or this machine) cannot do what was asked."""

    code = "HLO0800"


class InputError(HloError):
    """The arrays given to an executable do not fit its parameters."""

    code = "HLO0700"


class ExecutionError(HloError):
    """Running a compiled or evaluated program failed."""

    code = "HLO0900"
