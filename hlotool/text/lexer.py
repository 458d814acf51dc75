"""Reading HLO text: positions, blanks, names, numbers, strings, balanced text, and errors with places.

There is no separate token list: parsers match small compiled patterns at a position of the text.  That keeps exact
ranges for messages for free and leaves the work of lexing to the regular-expression engine.  Nothing here is
recursive, and every pattern is linear.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches

from hlotool.ir import Diagnostic, Location, Shape
from hlotool.ir.errors import Lines
from hlotool.text.names import NAME

__all__ = ["NAME", "SPACE", "Cursor", "SyntaxFailure", "did_you_mean", "escape", "unescape"]

SPACE = r"(?:[ \t\r\n\f\v]++|/\*(?s:.*?)\*/|//[^\r\n]*+)*+"
"""Blanks and comments; possessive, as what follows is never a part of them."""

_SPACE = re.compile(SPACE)
_MAYBE_SPACE = " \t\r\n\f\v/"  # what blanks and comments begin with
_WORD = re.compile(r"%?[^\s(){}\[\],=\"]+|.", re.ASCII | re.DOTALL)
_NAME = re.compile(rf"%?({NAME})", re.ASCII)
_INTEGER = re.compile(r"-?\d+(?![\w.])", re.ASCII)
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"' r"|'[^'\\\r\n]*(?:\\[^\r\n][^'\\\r\n]*)*'", re.DOTALL)
_BALANCE = re.compile(r'[{}()\[\]]|"[^"\\]*(?:\\.[^"\\]*)*("?)', re.DOTALL)
_SWALLOWED = re.compile(r"[\r\n]\}\Z")
_CLOSING = {"{": "}", "(": ")", "[": "]"}
_MOST_NAMES = 2000  # how many candidates a suggestion looks at
_MOST_ERRORS = 100
_DEEPEST = 100


class SyntaxFailure(Exception):  # noqa: N818 - a control-flow signal that never leaves this package
    """Parsing cannot go on at this place; carries what to say (None: it has been said)."""

    def __init__(self, diagnostic: Diagnostic | None) -> None:
        super().__init__(diagnostic.message if diagnostic else "")
        self.diagnostic = diagnostic

    @property
    def ends_statement(self) -> bool:
        """Whether there is nothing to go on with: enough errors have been found, or brackets are nested too deep."""
        return self.diagnostic is None or self.diagnostic.code == "HLO0104"


class Cursor:
    """A text, a position in it, and the diagnostics found so far."""

    __slots__ = ("depth", "diagnostics", "lines", "location", "notes", "position", "shapes", "text")

    def __init__(self, text: str, file: str, first_line: int = 1, notes: list[Diagnostic] | None = None) -> None:
        self.text = text
        self.lines = Lines(text, file, first_line)
        self.location = self.lines.location
        self.position = 0
        self.depth = 0
        self.diagnostics: list[Diagnostic] = []
        self.notes = notes  # what is unknown is said here and kept, where the text is only looked at
        self.shapes: dict[str, Shape] = {}  # shapes by their exact text

    # ---- places and errors

    def line_end(self, position: int) -> int:
        """Where the line of `position` ends, line break and trailing blanks left out."""
        starts = self.lines.starts
        line = bisect_right(starts, position)
        stop = starts[line] if line < len(starts) else len(self.text)
        return max(position, starts[line - 1] + len(self.text[starts[line - 1] : stop].rstrip()))

    def diagnostic(
        self,
        message: str,
        start: int,
        end: int | None = None,
        hint: str | None = None,
        related: tuple[tuple[str, Location], ...] = (),
        code: str = "HLO0100",
    ) -> Diagnostic:
        """A diagnostic for ``text[start:end]``; without `end` for the word at `start`."""
        if end is None:
            word = _WORD.match(self.text, start)
            end = word.end() if word else start
        return Diagnostic(message, self.location(start, end), hint, code, related=related)

    def fail(
        self,
        message: str,
        start: int,
        end: int | None = None,
        hint: str | None = None,
        related: tuple[tuple[str, Location], ...] = (),
        code: str = "HLO0100",
    ) -> SyntaxFailure:
        """The exception to raise where parsing cannot go on."""
        return SyntaxFailure(self.diagnostic(message, start, end, hint, related, code))

    def not_known(self, diagnostic: Diagnostic | None) -> None:
        """Something is of no known form or name: an error, or only a note where the text is looked at."""
        if self.notes is None:
            self.report(diagnostic)
        elif diagnostic is not None:
            self.notes.append(replace(diagnostic, severity="note"))

    def only_noted(self, before: int) -> bool:
        """Whether the text is only looked at, and errors were found since there were `before`: they become notes."""
        found = self.diagnostics[before:]
        if self.notes is None or not found:
            return False
        del self.diagnostics[before:]
        for diagnostic in found:
            self.not_known(diagnostic)
        return True

    def report(self, diagnostic: Diagnostic | None) -> None:
        """Note an error and go on; stops the parse after the limit by raising `SyntaxFailure`."""
        if diagnostic is not None:
            self.diagnostics.append(diagnostic)
        if self.full:
            raise SyntaxFailure(None)

    @property
    def full(self) -> bool:
        """As many errors as are worth showing have been found."""
        return len(self.diagnostics) >= _MOST_ERRORS

    def unexpected(self, wanted: str) -> SyntaxFailure:
        """The failure for finding something else than `wanted` here."""
        self.skip()
        start, text = self.position, self.text
        if start >= len(text):
            return self.fail(f"the text ends where {wanted} is expected", start, start, code="HLO0101")
        if text.startswith("/*", start):
            return self.fail("the comment is never closed", start, self.line_end(start), code="HLO0102")
        if text[start] == '"' and not _STRING.match(text, start):
            return self.fail("the string is never closed", start, self.line_end(start), code="HLO0103")
        word = _WORD.match(text, start)
        found = word.group()[:40] if word else ""
        return self.fail(f"expected {wanted}, found '{found}'", start)

    def deeper(self) -> None:
        """Enter a nested form; callers restore `depth` when they leave it."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.fail(f"nested more than {_DEEPEST} levels deep", self.position, code="HLO0104")

    # ---- reading

    def skip(self) -> int:
        """Go past blanks and comments; the new position."""
        if self.text[self.position : self.position + 1] not in _MAYBE_SPACE:
            return self.position
        match = _SPACE.match(self.text, self.position)
        if match is not None:
            self.position = match.end()
        return self.position

    def peek(self, text: str) -> bool:
        """Whether `text` comes next, blanks aside."""
        return self.text.startswith(text, self.skip())

    def accept(self, text: str) -> bool:
        """Go past `text` if it comes next."""
        if self.text.startswith(text, self.position) or self.text.startswith(text, self.skip()):
            self.position += len(text)
            return True
        return False

    def expect(self, text: str, where: str = "") -> None:
        if not self.accept(text):
            raise self.unexpected(f"'{text}'{where and ' ' + where}")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Go past `pattern` if it comes next."""
        match = pattern.match(self.text, self.skip())
        if match is not None:
            self.position = match.end()
        return match

    def name(self, wanted: str) -> str:
        """An identifier, its percent sign dropped."""
        match = self.match(_NAME)
        if match is None:
            raise self.unexpected(wanted)
        return match.group(1)

    def integer(self, wanted: str = "a number") -> int:
        """A decimal integer that 64 bits can hold (signed or unsigned)."""
        match = self.match(_INTEGER)
        if match is None:
            raise self.unexpected(wanted)
        return self.to_integer(match.group(), match.start())

    def to_integer(self, text: str, start: int) -> int:
        """The value of matched digits; more than 64 bits is an error."""
        value = int(text) if len(text) <= 24 else 1 << 64
        if not -(1 << 63) <= value < 1 << 64:
            raise self.fail("the number does not fit into 64 bits", start, start + len(text), code="HLO0105")
        return value

    def string(self) -> str:
        """A quoted string, unescaped."""
        match = self.match(_STRING)
        if match is None:
            raise self.unexpected("a quoted string")
        return unescape(match.group()[1:-1])

    def balanced(self, what: str, lines: bool = False) -> str:
        """The exact text of a bracketed form: brackets pair up, quoted strings are skipped; `lines`: whether its last
        brace may be the first of a line."""
        start = self.skip()
        stack: list[str] = []
        for match in _BALANCE.finditer(self.text, start):
            found = match.group()[0]
            if found == '"':
                if not match.group(1):
                    self.position = match.start()
                    raise self.fail("the string is never closed", match.start(), self.line_end(match.start()))
            elif found in _CLOSING:
                stack.append(_CLOSING[found])
            elif not stack or stack.pop() != found:
                raise self.fail(f"{what}: '{found}' closes nothing", match.start(), match.end(), code="HLO0106")
            if not stack:
                value = self.text[start : match.end()]
                if not lines and _SWALLOWED.search(value):
                    break  # the last brace is the one that ends the computation
                self.position = match.end()
                return value
        raise self.fail(
            f"{what}: '{self.text[start : start + 1]}' is not closed", start, self.line_end(start), code="HLO0106"
        )


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """The closest of `candidates` as a hint (one with the same first letter if possible), None when none is close."""
    some = [c for _, c in zip(range(_MOST_NAMES), candidates, strict=False)]
    close = get_close_matches(word[:80], some, n=3, cutoff=0.6)
    if not close:
        return None
    return f"did you mean '{next((c for c in close if c[0] == word[0]), close[0])}'?"


_ESCAPED = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_CONTROL = {
    b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v", b"0": b"\0",
}  # fmt: skip
_TO_ESCAPE = re.compile(r'[\\"\x00-\x1f\x7f\ud800-\udfff]')
_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def unescape(text: str) -> str:
    """The value of the inside of a quoted string: C escapes; escaped bytes form UTF-8.

    Bytes that are no UTF-8 become lone surrogates (Python's ``surrogateescape``), which `escape` writes back.
    """
    if "\\" not in text:
        return text

    def one(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, other = match.groups()
        if octal is not None:
            return bytes([int(octal, 8) & 255])
        if hexadecimal is not None:
            return bytes([int(hexadecimal, 16)])
        return _CONTROL.get(other, other)

    return _ESCAPED.sub(one, text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def escape(text: str) -> str:
    """The inside of a quoted string for `text`; what `unescape` reads back."""

    def one(match: re.Match[str]) -> str:
        character = match.group()
        return _SHORT.get(character) or f"\\{ord(character) & 255:03o}"

    return _TO_ESCAPE.sub(one, text)
