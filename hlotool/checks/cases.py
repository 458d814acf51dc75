"""Files with checks: modules, the commands that they are for, and what those print.

    // Why this file is there, in a sentence or two.
    // RUN: hlotool opt %s -p cse,dce

    // What this case shows.
    HloModule m
    ...
    // OUTPUT:
    // HloModule m
    // ...

    // -----

    // The next case.
    ...

The head, comments up to the first empty line, is for all cases; a case may have ``RUN`` lines of its own instead.  What
a command must give can be said by directives (`hlotool.checks.directives`), or to the letter, after the module:

    // EXIT: 3            the exit code, where it is not 0
    // OUTPUT:            standard output
    // UNCHANGED          in its place, where the output is the module itself, in the normal form
    // MESSAGES:          standard error
    // NOTHING            where it says nothing at all

With several commands these words are numbered.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from hlotool.ir import HloError
from hlotool.lazy_dataclass import dataclass
from hlotool.text.load import SEPARATOR
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

__all__ = ["Case", "Result", "cases_in", "difference", "read_text"]

_EXPECTED = re.compile(
    r"^// (?:EXIT(?: \d+)?: *\d+|(?:OUTPUT|MESSAGES)(?: \d+)?:|(?:UNCHANGED|NOTHING)(?: \d+)?) *$", re.MULTILINE
)
_NOTE = re.compile(r"^// ([A-Z][A-Z-]*): *(.*)$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^// [A-Z][A-Z-]+(?:[0-9{][\w{}-]*)?(?::|\b(?= *[<>=\w]+ ))")
_HEAD = re.compile(r"(?://[^\n]*\n)+(?=\n)")


@dataclass(frozen=True, slots=True)
class Result:
    """What a command gives."""

    code: int
    output: str
    messages: str


@dataclass(frozen=True, slots=True)
class Case:
    """One module of a file: `text` is all of it but what is expected to the letter; `head` that of the file.

    `line` is where the text begins in the file, counted from 1, `expected_line` where what is expected would.
    """

    path: Path
    number: int
    head: str
    text: str
    expected: str
    line: int = 1
    expected_line: int = 1

    @property
    def title(self) -> str:
        """The first sentence of the case."""
        prose = [line[2:].strip() for line in self.text.splitlines() if line.startswith("//")]
        return next((line for line in prose if line and not _DIRECTIVE.match(f"// {line}")), "")

    @property
    def slug(self) -> str:
        """Number and title as one word: ``2-random-numbers-are-apart``."""
        words = "-".join(re.findall(r"[a-z0-9]+", self.title.lower()))
        return f"{self.number}-{words[:60].strip('-')}".rstrip("-")

    def notes(self, name: str) -> list[tuple[int, str]]:
        """What the lines ``// NAME: ...`` of the case say, else those of the head, with their lines in the file."""
        for text, first in ((self.text, self.line), (self.head, 1)):
            found = [
                (first + text.count("\n", 0, match.start()), match[2])
                for match in _NOTE.finditer(text)
                if match[1] == name
            ]
            if found:
                return found
        return []

    def rendered(self, results: Sequence[Result]) -> str:
        """What is expected, as comments, where the commands give `results`."""
        lines: list[str] = []
        for number, result in enumerate(results, 1):
            which = f" {number}" if len(results) > 1 else ""
            if result.code:
                lines.append(f"EXIT{which}: {result.code}")
            if result.output and result.output == self.as_given():
                lines.append(f"UNCHANGED{which}")
            elif result.output:
                lines += [f"OUTPUT{which}:", *result.output.splitlines()]
            if result.messages:
                lines += [f"MESSAGES{which}:", *result.messages.splitlines()]
            if result == Result(0, "", ""):
                lines.append(f"NOTHING{which}")
        return "".join(f"// {line}".rstrip() + "\n" for line in lines)

    def as_given(self) -> str | None:
        """The module of the case in the normal form; None where it cannot be read."""
        try:
            return print_module(parse(self.text))
        except HloError:
            return None


def read_text(path: Path) -> str:
    """The text of a file, whatever ends its lines; bytes that are no UTF-8 stay."""
    data = path.read_bytes().decode("utf-8", "surrogateescape")
    return data.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def cases_in(path: Path, text: str) -> list[Case]:
    """The cases of the file `path`, which holds `text`, in order."""
    match = _HEAD.match(text)
    head = match.group() if match else ""
    found: list[Case] = []
    start = len(head)
    for number, piece in enumerate(re.split(rf"^{SEPARATOR}\n", text[start:], flags=re.MULTILINE), 1):
        expected = _EXPECTED.search(piece)
        split = expected.start() if expected else len(piece)
        body = piece[:split].lstrip("\n")
        first = text.count("\n", 0, start + split - len(body)) + 1
        body = f"{body.rstrip()}\n"
        rest = f"{piece[split:].strip()}\n" if expected else ""
        found.append(Case(path, number, head, body, rest, first, text.count("\n", 0, start + split) + 1))
        start += len(piece) + len(SEPARATOR) + 1
    return found


def difference(expected: str, found: str) -> str:
    """What is expected and what was found, line by line."""
    names = ("expected", "found")
    return "\n".join(difflib.unified_diff(expected.splitlines(), found.splitlines(), *names, lineterm="", n=5))
