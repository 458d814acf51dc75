"""The directives of a file: comments that say what a command must print.

Those of LLVM's FileCheck: ``CHECK: text``, ``-NEXT``, ``-SAME``, ``-NOT``, ``-DAG``, ``-LABEL``, ``-EMPTY`` and
``-COUNT-3``; other prefixes than CHECK belong to commands that name them.  And structural ones, of the module that is
printed (`hlotool.checks.structure`):

    // CHECK-COUNT fusion 2                              instructions: of an opcode, or that a query matches
    // CHECK-COUNT opcode == dot and bytes > 1MiB <= 3
    // CHECK-PEAK <= 4MiB                                bytes that its code takes
    // CHECK-KERNEL dot 0                                kernels of its code: all, or for which instructions
    // CHECK-EQUAL evaluate                              its code computes what the module of the case means
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from hlotool.checks.patterns import MatchOptions, Pattern, PatternError, pattern_of
from hlotool.lazy_dataclass import dataclass

__all__ = ["STRUCTURAL", "Directive", "Problem", "directives_in", "without_directives"]

TEXTUAL = ("NEXT", "SAME", "NOT", "DAG", "LABEL", "EMPTY", "COUNT-N")
STRUCTURAL = ("COUNT", "PEAK", "KERNEL", "EQUAL")

_LINE = r"^[ \t]*//[ \t]*({prefixes})(?:-([A-Z]+)(?:-(\d+))?)?(\{{LITERAL\}})?(?:(:)|(?=[ \t\n]|$))[ \t]?"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a place of a file: `line` and `column` from 1; `details` are lines to show below."""

    line: int
    message: str
    details: tuple[str, ...] = ()
    column: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """One directive: `kind` is empty or what follows the prefix, `text` what it says, `count` that of COUNT-3.

    `pattern` is None for the structural ones and for EMPTY.
    """

    prefix: str
    kind: str
    text: str
    line: int
    pattern: Pattern | None = None
    count: int = 1

    @property
    def is_structural(self) -> bool:
        return self.pattern is None and self.kind in STRUCTURAL

    @property
    def name(self) -> str:
        """As it is written."""
        count = f"-{self.count}" if self.kind == "COUNT" and self.pattern is not None else ""
        return self.prefix + (f"-{self.kind}" if self.kind else "") + count


def directives_in(text: str, first: int, options: MatchOptions) -> tuple[list[Directive], list[Problem]]:
    """The directives of the prefixes in `text`, whose first line is `first`, and what is wrong with others."""
    found: list[Directive] = []
    wrong: list[Problem] = []
    expression = _expression(options.prefixes)
    for number, line in enumerate(text.split("\n"), first):
        match = expression.match(line)
        if match is None:
            continue
        try:
            directive = _directive(match, line[match.end() :], number, options)
        except PatternError as error:
            wrong.append(Problem(number, error.message, (line,), match.end() + error.column + 1))
            continue
        if directive is not None:
            found.append(directive)
    if not wrong:
        first_text = next((one for one in found if not one.is_structural), None)
        if first_text is not None and first_text.kind in ("NEXT", "SAME", "EMPTY"):
            message = f"{first_text.name} has no directive before it whose line it could follow"
            wrong.append(Problem(first_text.line, message))
    return found, wrong


def without_directives(text: str, prefixes: Sequence[str]) -> str:
    """The text with empty lines in the place of directives, which then match nothing themselves."""
    expression = _expression(prefixes)
    return "\n".join("" if expression.match(line) and _says(expression, line) else line for line in text.split("\n"))


def _expression(prefixes: Sequence[str]) -> re.Pattern[str]:
    longest = sorted(prefixes, key=len, reverse=True)
    return re.compile(_LINE.format(prefixes="|".join(map(re.escape, longest))))


def _says(expression: re.Pattern[str], line: str) -> bool:
    match = expression.match(line)
    return match is not None and (match[5] is not None or match[2] in STRUCTURAL)


def _directive(match: re.Match[str], rest: str, line: int, options: MatchOptions) -> Directive | None:
    """What one line says; None for prose that begins with the prefix."""
    prefix, kind, count, literal, colon = match.groups()
    name = match.start(1) - match.end()  # where the name is, from the pattern on
    if kind in STRUCTURAL and count is None:
        if literal:
            raise PatternError(f"{prefix}-{kind} takes no {{LITERAL}}", name)
        return Directive(prefix=prefix, kind=kind, text=rest.strip(), line=line)
    if colon is None:
        return None
    if kind not in (None, "NEXT", "SAME", "NOT", "DAG", "LABEL", "EMPTY") and not (kind == "COUNT" and count):
        close = get_close_matches(kind, (*TEXTUAL, *STRUCTURAL), 1)
        hint = f"; did you mean {prefix}-{close[0]}?" if close else ""
        raise PatternError(f"there is no directive {prefix}-{kind}{hint}", name)
    if count is not None and kind != "COUNT":
        raise PatternError(f"only {prefix}-COUNT takes a number", name)
    if count is not None and int(count) == 0:
        raise PatternError(f"{prefix}-COUNT-0 matches nothing; {prefix}-NOT says that a text is not there", name)
    if kind == "EMPTY":
        if rest.strip():
            raise PatternError(f"{prefix}-EMPTY takes no pattern", name)
        return Directive(prefix=prefix, kind=kind, text="", line=line)
    pattern = pattern_of(rest.rstrip("\r"), options, bool(literal))
    if kind == "LABEL" and (pattern.defines or pattern.uses):
        raise PatternError(f"{prefix}-LABEL takes no variables: it divides the text before they are known", name)
    return Directive(
        prefix=prefix, kind=kind or "", text=rest.strip(), line=line, pattern=pattern, count=int(count or 1)
    )
