"""What can go wrong, as values: places in a text, diagnostics, and the exceptions that carry them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = [
    "BudgetExceeded",
    "Diagnostic",
    "ExecutionError",
    "HloError",
    "InputError",
    "Location",
    "ParseError",
    "UnsupportedError",
    "VerificationError",
]


@dataclass(frozen=True, slots=True)
class Location:
    """A range of characters in a source text.  Lines and columns count from 1; ends are exclusive columns."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


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
