"""Patterns of directives, as LLVM's FileCheck has them: text, ``{{regular expressions}}``, ``[[NAME:expression]]``,
which gives what it matches a name, and ``[[NAME]]``, which is the same text again.

Regular expressions are Python's.  Spaces and tabs match any number of spaces and tabs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hlotool.lazy_dataclass import dataclass

__all__ = ["DEFAULT", "MatchOptions", "Pattern", "PatternError", "pattern_of"]

_NAME = re.compile(r"\$?[A-Za-z_][A-Za-z0-9_]*")
_SPACE = re.compile(r"[ \t]+")


class PatternError(Exception):
    """A pattern that says nothing; `column` counts from 0 in its text."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchOptions:
    """How directives are matched: the options of FileCheck with these names."""

    prefixes: tuple[str, ...] = ("CHECK",)
    match_full_lines: bool = False
    strict_whitespace: bool = False
    ignore_case: bool = False
    allow_empty: bool = False
    implicit_check_not: tuple[str, ...] = ()


DEFAULT = MatchOptions()


@dataclass(frozen=True, slots=True)
class Pattern:
    """`parts` are pieces of a regular expression, and names of values to fill in; `defines` maps groups to names."""

    text: str
    parts: tuple[tuple[str, bool], ...]
    defines: Mapping[str, str]
    flags: int

    def expression(self, values: Mapping[str, str]) -> re.Pattern[str]:
        """The regular expression, where names have these values; KeyError for a name that has none."""
        return re.compile("".join(re.escape(values[part]) if named else part for part, named in self.parts), self.flags)

    @property
    def uses(self) -> tuple[str, ...]:
        """The names that must have a value."""
        return tuple(part for part, named in self.parts if named)


def pattern_of(text: str, options: MatchOptions, literal: bool = False) -> Pattern:
    """The pattern that a directive says; PatternError where it says none."""
    text = text.strip(" \t") if not options.strict_whitespace else text.removeprefix(" ")
    if not text:
        raise PatternError("there is nothing to match", 0)
    parts: list[tuple[str, bool]] = []
    defines: dict[str, str] = {}
    position = 0
    while position < len(text):
        start = len(text) if literal else _next(text, position)
        if start > position:
            parts.append((_plain(text[position:start], options), False))
            position = start
        elif text.startswith("{{", position):
            end = text.find("}}", position + 2)
            while end >= 0 and text.startswith("}}}", end):
                end += 1  # the expression ends with a brace
            if end < 0:
                raise PatternError("'{{' begins a regular expression that no '}}' ends; CHECK{LITERAL}: takes text",
                                   position)  # fmt: skip
            parts.append((f"(?:{_expression(text[position + 2 : end], position + 2)})", False))
            position = end + 2
        else:
            position = _variable(text, position, parts, defines)
    if options.match_full_lines:
        parts = [(r"(?m:^)[ \t]*" if not options.strict_whitespace else "(?m:^)", False), *parts,
                 (r"[ \t]*(?m:$)" if not options.strict_whitespace else "(?m:$)", False)]  # fmt: skip
    flags = re.IGNORECASE if options.ignore_case else re.NOFLAG
    return Pattern(text, tuple(parts), defines, flags)


def _next(text: str, position: int) -> int:
    """Where the next expression or variable begins."""
    places = [place for place in (text.find("{{", position), text.find("[[", position)) if place >= 0]
    start = min(places, default=len(text))
    while text.startswith("[[[", start):
        start += 1  # as in f32[[[N]]]: a bracket, then a variable
    return start


def _plain(text: str, options: MatchOptions) -> str:
    if options.strict_whitespace:
        return re.escape(text)
    return r"[ \t]+".join(map(re.escape, _SPACE.split(text)))


def _expression(text: str, column: int) -> str:
    try:
        compiled = re.compile(f"(?:{text})")
    except re.error as error:
        place = column + max(0, (error.pos or 3) - 3)
        raise PatternError(f"this is no regular expression: {error.msg}", place) from None
    if compiled.groupindex or re.search(r"(?<!\\)(?:\\\\)*\\[1-9]", text):
        raise PatternError("groups have no names or numbers here; [[NAME:expression]] gives a name", column)
    return text


def _variable(text: str, position: int, parts: list[tuple[str, bool]], defines: dict[str, str]) -> int:
    """Read ``[[NAME]]`` or ``[[NAME:expression]]``; where it ends."""
    if text.startswith("[[#", position):
        raise PatternError("numeric variables [[#...]] are not supported; [[NAME:[0-9]+]] matches digits", position)
    match = _NAME.match(text, position + 2)
    if match is None:
        raise PatternError("expected the name of a variable after '[['; CHECK{LITERAL}: takes text", position + 2)
    name, place = match[0], match.end()
    groups = {known: group for group, known in defines.items()}
    if text.startswith("]]", place):
        parts.append((f"(?P={groups[name]})", False) if name in groups else (name, True))
        return place + 2
    if not text.startswith(":", place):
        raise PatternError(f"expected ':' or ']]' after [[{name}", place)
    end = _closing(text, place + 1)
    if end < 0:
        raise PatternError("no ']]' ends this variable", position)
    if name in groups:
        raise PatternError(f"{name} is defined twice in one line", position)
    group = f"v{len(defines)}"
    defines[group] = name
    parts.append((f"(?P<{group}>{_expression(text[place + 1 : end], place + 1)})", False))
    return end + 2


def _closing(text: str, position: int) -> int:
    """Where ``]]`` closes what began before `position`, with brackets of expressions in between; -1 without."""
    depth = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
        elif character == "[":
            depth += 1
        elif character == "]":
            if depth == 0:
                return position if text.startswith("]]", position) else -1
            depth -= 1
        position += 1
    return -1
