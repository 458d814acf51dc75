"""Decoded messages, and the errors of reading them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hlotool.ir import Diagnostic, Location, ParseError
from hlotool.text.proto.fields import enum_names, fields_by_name

__all__ = ["DEEPEST", "Message", "ProtoFailure", "parse_error"]

DEEPEST = 100
"""Messages within messages, as the protocol-buffer libraries allow."""


class ProtoFailure(Exception):  # noqa: N818 - a control-flow signal that never leaves this package
    """What is wrong, and at which offset of the input."""

    def __init__(self, message: str, at: int, hint: str | None = None, code: str = "HLO0150") -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.hint = hint
        self.code = code


def parse_error(failure: ProtoFailure, where: Callable[[int], Location]) -> ParseError:
    """The error that users see."""
    place = where(failure.at)
    diagnostic = Diagnostic(failure.message, place, failure.hint, failure.code)
    return ParseError(f"{place.file}:{place.line}:{place.column}: {failure.message}", [diagnostic])


class Message:
    """The fields that were present, by name, and the offset at which the message begins.

    Repeated fields are lists; repeated float and double fields are their little-endian bytes; enumeration values
    are their names (digits where a number has none).
    """

    __slots__ = ("at", "name", "values")

    def __init__(self, name: str, at: int) -> None:
        self.name = name
        self.at = at
        self.values: dict[str, Any] = {}

    def __contains__(self, field: str) -> bool:
        return field in self.values

    def fail(self, message: str) -> ProtoFailure:
        return ProtoFailure(message, self.at)

    def number(self, field: str) -> int:
        """An integer field; 0 where absent."""
        value: int = self.values.get(field, 0)
        return value

    def real(self, field: str) -> float:
        value: float = self.values.get(field, 0.0)
        return value

    def flag(self, field: str) -> bool:
        return bool(self.values.get(field, False))

    def text(self, field: str) -> str:
        value: str = self.values.get(field, "")
        return value

    def data(self, field: str) -> bytes:
        """A bytes field, or a repeated float or double field."""
        value = self.values.get(field, b"")
        return bytes(value)

    def word(self, field: str) -> str:
        """The name of an enumeration value; that of 0 where the field is absent."""
        value: str | None = self.values.get(field)
        return enum_names(fields_by_name(self.name)[field].enum)[0] if value is None else value

    def numbers(self, field: str) -> tuple[int, ...]:
        return tuple(self.values.get(field, ()))

    def texts(self, field: str) -> tuple[str, ...]:
        return tuple(self.values.get(field, ()))

    def message(self, field: str) -> Message:
        """A message field; an empty message where absent."""
        value = self.values.get(field)
        return value if isinstance(value, Message) else Message(fields_by_name(self.name)[field].message, self.at)

    def messages(self, field: str) -> list[Message]:
        value: list[Message] = self.values.get(field, [])
        return value
