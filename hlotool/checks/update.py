"""Rewriting what files expect, so that it is what was found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hlotool.checks.cases import Case
from hlotool.checks.directives import Directive
from hlotool.lazy_dataclass import dataclass

__all__ = ["Edit", "edit_expected", "edit_number", "edit_text", "edited"]

_NUMBER = re.compile(r"[\d.]+(?:[KMGT]i?B)?[ \t]*$")


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines from `first` (from 1) to before `end` become `lines`; `number` in place of the last number of a line."""

    first: int
    end: int
    lines: tuple[str, ...] = ()
    number: int | None = None


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text after the edits, of which the first counts where two are about the same lines."""
    lines = text.split("\n")
    done: set[int] = set()
    chosen = []
    for edit in edits:
        touched = set(range(edit.first, max(edit.end, edit.first + 1)))
        if not touched & done:
            done |= touched
            chosen.append(edit)
    for edit in sorted(chosen, key=lambda one: one.first, reverse=True):
        new = edit.lines
        if edit.number is not None:
            new = (_NUMBER.sub(str(edit.number), lines[edit.first - 1]),)
        lines[edit.first - 1 : edit.end - 1] = new
    return "\n".join(lines)


def edit_expected(case: Case, text: str) -> Edit:
    """What is expected to the letter."""
    count = case.expected.count("\n")
    return Edit(case.expected_line, case.expected_line + count, tuple(text.rstrip("\n").split("\n")))


def edit_number(directive: Directive, number: int) -> Edit:
    """The number of a structural directive."""
    return Edit(directive.line, directive.line + 1, number=number)


def edit_text(case: Case, directives: Sequence[Directive], output: str) -> list[Edit]:
    """The directives that match text become all of the output, line by line; those of the head are for all cases."""
    own = [one for one in directives if one.line >= case.line]
    if not own or len(own) < len(directives) or len({one.prefix for one in own}) > 1:
        return []
    prefix = own[0].prefix
    made: list[str] = []
    for line in output.rstrip("\n").split("\n"):
        if not line.strip():
            made += [f"// {prefix}-EMPTY:"] if made else []
            continue
        literal = "{LITERAL}" if "{{" in line or "[[" in line else ""
        made.append(f"// {prefix}{'-NEXT' if made else ''}{literal}: {line.rstrip()}")
    first, *rest = own
    return [Edit(first.line, first.line + 1, tuple(made)), *(Edit(one.line, one.line + 1) for one in rest)]
