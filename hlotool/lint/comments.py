"""Comments that silence rules: ``// lint: off`` or ``// lint: off HLO6005, HLO6101`` at the end of the line of an
instruction, or on a line of its own ahead of it; ``// lint: off-file ...`` anywhere, for the whole file."""

from __future__ import annotations

import re

from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["Silence", "silence_of"]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//([^\n]*)|/\*(.*?)\*/', re.DOTALL)
_WORDS = re.compile(r"\s*lint:\s*off(-file)?\b[\s:=]*([A-Za-z0-9,\s]*)\Z")


@dataclass(frozen=True, slots=True)
class Silence:
    """The codes that are silent by line (counted from 1), and in the whole file; an empty set stands for all codes."""

    lines: dict[int, frozenset[str]]
    file: frozenset[str] | None = None

    def covers(self, code: str, first: int, last: int) -> bool:
        """Whether `code` is silent for what stands on these lines."""
        sets = [self.lines[line] for line in range(first, last + 1) if line in self.lines]
        sets += [self.file] if self.file is not None else []
        return any(not codes or code in codes for codes in sets)

    def hides(self, code: str, instruction: Instruction) -> bool:
        """Whether `code` is silent for an instruction."""
        place = instruction.location
        return place is not None and self.covers(code, place.line, place.end_line)


def silence_of(text: str) -> Silence:
    """What the comments of a text silence."""
    lines: dict[int, frozenset[str]] = {}
    file: frozenset[str] | None = None
    if "lint:" not in text:
        return Silence(lines)
    number, at = 1, 0
    for token in _TOKEN.finditer(text):
        comment = token[1] if token[1] is not None else token[2]
        found = _WORDS.match(comment) if comment is not None else None
        if found is None:
            continue
        number, at = number + text.count("\n", at, token.start()), token.start()
        codes = frozenset(found[2].upper().replace(",", " ").split())
        if found[1]:
            file = codes if file is None else file | codes if file and codes else frozenset()
            continue
        alone = not text[text.rfind("\n", 0, at) + 1 : at].strip()
        lines[number + 1 if alone else number] = codes
    return Silence(lines, file)
