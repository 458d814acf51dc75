"""The text format of protocol buffers: ``name: value``, ``name { ... }``, lists in brackets, comments with ``#``.

Format: the Protocol Buffers text format specification.  Unknown field names are errors with a suggestion; numbers
as field names (how the libraries print fields that they do not know) are passed over.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from hlotool.text.lexer import did_you_mean, unescape
from hlotool.text.proto.fields import Field, enum_names, enum_numbers, fields_by_name
from hlotool.text.proto.message import DEEPEST, Message, ProtoFailure

__all__ = ["parse_text"]

_BLANK = re.compile(r"(?:[ \t\r\n\f\v]+|#[^\n]*)*")
_KEY = re.compile(r"[A-Za-z_]\w*|\d+|\[[\w./ ]*\]", re.ASCII)
_STRING = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|\'[^\'\\\n]*(?:\\.[^\'\\\n]*)*\'', re.DOTALL)
_WORD = re.compile(r"-?\s*(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?|[A-Za-z_]\w*)", re.ASCII)
_SEPARATOR = re.compile(r"[,;]?")
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,16}|\d{1,20})", re.ASCII)
_OCTAL = re.compile(r"-?0[0-7]+", re.ASCII)
_SUFFIX = re.compile(r"(?<=[\d.])[fF]\Z", re.ASCII)
_LONGEST = 400  # digits of a number
_RANGES = {
    "int32": (-(1 << 31), (1 << 31) - 1), "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1), "uint64": (0, (1 << 64) - 1),
}  # fmt: skip


def parse_text(text: str, name: str) -> Message:
    """The message of type `name` that `text` describes; ProtoFailure with the offset where it does not."""
    reader = _Reader(text)
    message = reader.message(name, "", 0)
    if reader.position < len(text):
        raise reader.unexpected("a field name")
    return message


class _Reader:
    __slots__ = ("position", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def skip(self) -> int:
        match = _BLANK.match(self.text, self.position)
        if match is not None:
            self.position = match.end()
        return self.position

    def accept(self, options: str) -> str:
        """Go past one of the characters in `options` if it comes next; it, or nothing."""
        found = self.text[self.skip() : self.position + 1]
        if not found or found not in options:
            return ""
        self.position += 1
        return found

    def unexpected(self, wanted: str) -> ProtoFailure:
        found = self.text[self.skip() : self.position + 20].split("\n")[0]
        what = f"'{found}'" if self.position < len(self.text) else "the end"
        return ProtoFailure(f"expected {wanted}, found {what}", self.position)

    def message(self, name: str, close: str, depth: int) -> Message:
        """The fields up to `close`, or to the end of the text."""
        if depth > DEEPEST:
            raise ProtoFailure(f"messages are nested more than {DEEPEST} deep", self.position)
        message = Message(name, self.position)
        fields = fields_by_name(name)
        while True:
            start = self.skip()
            if close and self.accept(close):
                return message
            key = _KEY.match(self.text, start)
            if key is None:
                if not close:
                    return message
                raise self.unexpected(f"a field of {name} or '{close}'")
            self.position = key.end()
            field = fields.get(key.group())
            if field is None and not key.group().isdigit() and key.group()[0] != "[":
                hint = did_you_mean(key.group(), fields)
                raise ProtoFailure(f"{name} has no field '{key.group()}'", start, hint)
            colon = self.accept(":")
            if field is None or field.kind == "skip":
                self.pass_over(bool(colon))
            elif field.repeated and self.accept("["):
                while not self.accept("]"):
                    self.put(message, field, self.value(field, bool(colon), depth))
                    if not self.accept(",") and self.text[self.skip() : self.position + 1] != "]":
                        raise self.unexpected("',' or ']'")
            else:
                self.put(message, field, self.value(field, bool(colon), depth))
            match = _SEPARATOR.match(self.text, self.skip())
            if match is not None:
                self.position = match.end()

    def put(self, message: Message, field: Field, value: Any) -> None:
        values = message.values
        if not field.repeated:
            values[field.name] = value
        elif field.kind in ("float", "double"):
            try:
                raw = struct.pack("<f" if field.kind == "float" else "<d", value)
            except OverflowError:
                raw = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
            values.setdefault(field.name, bytearray()).extend(raw)
        else:
            values.setdefault(field.name, []).append(value)

    def value(self, field: Field, colon: bool, depth: int) -> Any:
        if field.kind == "message":
            opening = self.accept("{<")
            if not opening:
                raise self.unexpected(f"'{{' and the fields of '{field.name}'")
            return self.message(field.message, "}" if opening == "{" else ">", depth + 1)
        if not colon:
            raise self.unexpected(f"':' after '{field.name}'")
        if field.kind in ("string", "bytes"):
            return self.string(field)
        match = _WORD.match(self.text, self.skip())
        if match is None:
            raise self.unexpected(f"the value of '{field.name}'")
        self.position = match.end()
        return _scalar(field, "".join(match.group().split()), match.start())

    def string(self, field: Field) -> Any:
        """Adjacent quoted strings, as one."""
        found: list[str] = []
        while match := _STRING.match(self.text, self.skip()):
            found.append(unescape(match.group()[1:-1]))
            self.position = match.end()
        if not found:
            raise self.unexpected(f"a quoted string for '{field.name}'")
        return "".join(found) if field.kind == "string" else "".join(found).encode("utf-8", "surrogateescape")

    def pass_over(self, colon: bool) -> None:
        """Go past a value of unknown type."""
        closing: list[str] = []
        while True:
            start = self.skip()
            if opening := self.accept("{<["):
                closing.append({"{": "}", "<": ">", "[": "]"}[opening])
            elif closing and self.accept(closing[-1]):
                closing.pop()
            elif match := _STRING.match(self.text, start) or _WORD.match(self.text, start):
                self.position = match.end()
                if not closing and colon:
                    while more := _STRING.match(self.text, self.skip()):
                        self.position = more.end()
            elif not (closing and self.accept(",;:")):
                raise self.unexpected("a value")
            if not closing:
                return


def _scalar(field: Field, word: str, start: int) -> Any:
    kind = field.kind
    if kind == "bool":
        if word in ("true", "True", "t", "1"):
            return True
        if word in ("false", "False", "f", "0"):
            return False
        raise ProtoFailure(f"'{field.name}' wants true or false, not {word[:40]}", start)
    if kind == "enum":
        numbers = enum_numbers(field.enum)
        if word in numbers:
            return word
        if word.lstrip("-").isdecimal() and len(word) < 12:
            return enum_names(field.enum).get(int(word), word)
        raise ProtoFailure(f"{field.enum} has no value '{word[:40]}'", start, did_you_mean(word, numbers))
    if kind in ("float", "double"):
        try:
            return float(_SUFFIX.sub("", word)[:_LONGEST])
        except ValueError:
            raise ProtoFailure(f"'{field.name}' wants a number, not {word[:40]}", start) from None
    if not _INTEGER.fullmatch(word):
        raise ProtoFailure(f"'{field.name}' wants a whole number, not {word[:40]}", start)
    low, high = _RANGES[kind]
    octal = _OCTAL.fullmatch(word) is not None
    value = int(word, 16 if "x" in word.lower() else 8 if octal else 10)
    if not low <= value <= high:
        raise ProtoFailure(f"{word[:40]} is out of range for '{field.name}' ({kind})", start)
    return value
