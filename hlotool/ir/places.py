"""Where the parts of an instruction stand in the text that it was read from.

Instructions keep one location only; messages that point at an operand or an attribute look it up here, in the
source text that the module keeps.  A text that does not fit (an edited module) gives the location of the instruction.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import field
from functools import cache

from hlotool.ir.errors import Location, line_starts
from hlotool.ir.module import Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["Places"]

_BLANK = r"(?:\s++|/\*(?s:.*?)\*/|//[^\r\n]*+)*+"
_HEAD = rf"%?[\w.\-]+{_BLANK}={_BLANK}"
_OPCODE = r"[a-z][a-z0-9\-]*(?=\s*\()"
_SHAPE = r"[a-z][a-z0-9_]*\[[^\[\]]*\](?:\{[\d:][^{}]*\})?"
_TOKEN = (
    r'(?P<skip>/\*(?s:.*?)\*/|//[^\r\n]*)|"(?:[^"\\]|\\.)*"|(?P<open>[({\[])|(?P<close>[)}\]])|(?P<comma>,)|(?P<line>[\r\n])'
)
_KEY = rf"{_BLANK}([A-Za-z_][\w\-]*){_BLANK}={_BLANK}"
_LEADING = _BLANK
_LONGEST = 1 << 20  # characters of one instruction that are looked at

Span = tuple[int, int]


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Most modules are right, and no place is looked for."""
    return re.compile(text)


@dataclass(slots=True)
class _Parts:
    shape: Span | None = None
    opcode: Span | None = None
    operands: list[Span] = field(default_factory=list)
    attributes: dict[str, Span] = field(default_factory=dict)


class Places:
    """Finds parts of instructions and of the module header in one source text."""

    def __init__(self, source: str | None, file: str = "<text>") -> None:
        self.source = source or ""
        self.file = file
        self._starts: list[int] | None = None
        self._cache: dict[Instruction, _Parts] = {}

    @property
    def starts(self) -> list[int]:
        """Where the lines start; looked for when something is to be said."""
        if self._starts is None:
            self._starts = line_starts(self.source)
        return self._starts

    def of(self, instruction: Instruction, part: str = "name") -> Location | None:
        """The place of ``name opcode shape operand:N attribute:NAME attribute:NAME:N`` of an instruction."""
        whole = instruction.location
        if whole is None or not self.source:
            return whole
        if instruction not in self._cache:
            self._cache[instruction] = self._parts(self._offset(whole), instruction)
        span = self._span(self._cache[instruction], part)
        return whole if span is None else self.location(*span)

    def within(self, instruction: Instruction, part: str, start: int, end: int) -> Location | None:
        """The place of some characters of a part of an instruction."""
        whole = self.of(instruction, part)
        if whole is None or not self.source:
            return whole
        offset = self._offset(whole)
        return self.location(offset + start, offset + max(end, start + 1))

    def header(self, attribute: str, *path: int) -> Location | None:
        """The place of an attribute of the header line, or of an entry (of an entry...) of its value."""
        match = re.search(rf"\b{attribute}\s*=\s*", self.source)
        if match is None:
            return None
        span = (match.end(), self._end(match.end()))
        for number in path:
            inside = self._entries(*span)
            if number >= len(inside):
                break
            span = inside[number]
        return self.location(*span)

    def entry_parameter(self, number: int) -> Location | None:
        """The place of the shape of an entry parameter in ``entry_computation_layout``."""
        return self.header("entry_computation_layout", 0, number)

    def entry_result(self) -> Location | None:
        """The place of the result shape in ``entry_computation_layout``."""
        match = re.search(r"\bentry_computation_layout\s*=\s*\{", self.source)
        if match is None:
            return None
        parameters = self._balanced(match.end())
        arrow = self.source.find("->", parameters)
        if arrow < 0:
            return None
        return self.location(*self._stripped(arrow + 2, self._balanced(match.end() - 1) - 1))

    def alias(self, number: int, part: int) -> Location | None:
        """The place of the output index (part 0), the parameter number (1) or its index (2) of an alias entry."""
        match = re.search(r"\binput_output_alias\s*=\s*", self.source)
        if match is None:
            return None
        entries = self._entries(match.end(), self._balanced(match.end()))
        if number >= len(entries):
            return self.location(match.start(), match.end())
        start = entries[number][0]
        inside = self._entries(start, self._balanced(start))
        if part == 0:
            return self.location(*inside[-1]) if inside else self.location(start, self._balanced(start))
        opening = self.source.find("(", self._balanced(start))
        parts = self._entries(opening, self._balanced(opening))
        return self.location(*parts[min(part, len(parts)) - 1])

    def location(self, start: int, end: int) -> Location:
        line = bisect_right(self.starts, start)
        last = bisect_right(self.starts, max(start, end - 1))
        return Location(self.file, line, start - self.starts[line - 1] + 1, last, end - self.starts[last - 1] + 1)

    def _offset(self, location: Location) -> int:
        if location.line > len(self.starts):
            return len(self.source)
        return self.starts[location.line - 1] + location.column - 1

    def _span(self, parts: _Parts, part: str) -> Span | None:
        kind, _, rest = part.partition(":")
        if kind == "operand":
            index = int(rest)
            return parts.operands[index] if index < len(parts.operands) else parts.opcode
        if kind == "attribute":
            name, _, number = rest.partition(":")
            span = parts.attributes.get(name, parts.opcode)
            if number and span is not None:
                inside = self._entries(*span)
                return inside[int(number)] if int(number) < len(inside) else span
            return span
        if kind == "shape":
            return parts.shape or parts.opcode
        return parts.opcode if kind == "opcode" else None

    def _parts(self, start: int, instruction: Instruction) -> _Parts:
        text, found = self.source, _Parts()
        head = _pattern(_HEAD).match(text, start)
        position = head.end() if head else start
        if not _pattern(_OPCODE).match(text, position):
            shape = _pattern(_SHAPE).match(text, position)
            end = shape.end() if shape else self._balanced(position)
            found.shape = (position, end)
            blank = _pattern(_LEADING).match(text, end)
            position = blank.end() if blank else end
        opcode = _pattern(_OPCODE).match(text, position)
        if opcode is None:
            return found
        found.opcode = opcode.span()
        opening = text.index("(", opcode.end())
        closing = self._balanced(opening)
        found.operands = self._entries(opening, closing)
        position = closing
        while True:
            blank = _pattern(_LEADING).match(text, position)
            position = blank.end() if blank else position
            if text[position : position + 1] != ",":
                return found
            key = _pattern(_KEY).match(text, position + 1)
            if key is None:
                return found
            position = self._end(key.end())
            found.attributes[key.group(1)] = (key.end(), position)

    def _balanced(self, start: int) -> int:
        """The end of the bracketed form at `start`."""
        depth = 0
        for match in _pattern(_TOKEN).finditer(self.source, start, min(len(self.source), start + _LONGEST)):
            if match["open"]:
                depth += 1
            elif match["close"]:
                depth -= 1
                if depth <= 0:
                    return match.end()
        return start

    def _end(self, start: int) -> int:
        """The end of an attribute value: a comma or line break outside brackets, or a bracket that closes more."""
        depth = 0
        for match in _pattern(_TOKEN).finditer(self.source, start, min(len(self.source), start + _LONGEST)):
            if match["open"]:
                depth += 1
            elif match["close"]:
                depth -= 1
                if depth < 0:
                    return match.start()
            elif depth == 0 and (match["comma"] or match["line"]):
                return self._stripped(start, match.start())[1]
        return min(len(self.source), start + _LONGEST)

    def _entries(self, start: int, end: int) -> list[Span]:
        """What commas separate inside the outer brackets of ``[start, end)``; without brackets the whole."""
        if start >= end or self.source[start] not in "({[":
            return [(start, end)]
        found: list[Span] = []
        depth, begin = 0, start + 1
        for match in _pattern(_TOKEN).finditer(self.source, start, end):
            if match["open"]:
                depth += 1
            elif match["close"]:
                depth -= 1
                if depth == 0:
                    span = self._stripped(begin, match.start())
                    return [*found, span] if span[0] < span[1] else found
            elif match["comma"] and depth == 1:
                found.append(self._stripped(begin, match.start()))
                begin = match.end()
        return found

    def _stripped(self, start: int, end: int) -> Span:
        blank = _pattern(_LEADING).match(self.source, start, end)
        start = blank.end() if blank else start
        return start, max(start, start + len(self.source[start:end].rstrip()))
