"""Matching directives with a text, in the way of LLVM's FileCheck.

Labels are found first and divide text and directives into blocks; in each, every directive goes on where the one before
it ended, and those that say NOT hold between.  A group of DAG directives matches in any order, without overlaps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from difflib import SequenceMatcher
from itertools import pairwise

from hlotool.checks.directives import Directive, Problem
from hlotool.checks.patterns import MatchOptions, pattern_of
from hlotool.lazy_dataclass import dataclass

__all__ = ["match_text"]

_NEAR = 0.5  # how alike a line must be to be shown as what may have been meant
_LINES = 2000  # among which such a line is looked for
_CONTEXT = 3


def match_text(directives: Sequence[Directive], text: str, options: MatchOptions) -> Problem | None:
    """The first of `directives` that `text` does not satisfy, and how; None where all hold."""
    implicit = tuple(
        Directive(prefix="--implicit-check-not", kind="NOT", text=one, line=1, pattern=pattern_of(one, options))
        for one in options.implicit_check_not
    )
    state = _State(text, implicit)
    if not text.strip() and not options.allow_empty:
        return Problem(directives[0].line, "there is no output to match") if directives else None
    labels = [one for one in directives if one.kind == "LABEL"]
    places: list[tuple[int, int]] = []
    position = 0
    for label in labels:
        found = state.search(label, position, len(text))
        if found is None:
            return state.missing(label, position, len(text))
        places.append(found.span())
        position = found.end()
    bounds = [(0, 0), *places, (len(text), len(text))]
    blocks: list[list[Directive]] = [[]]
    for directive in directives:
        if directive.kind == "LABEL":
            blocks.append([])
        else:
            blocks[-1].append(directive)
    for block, (before, after) in zip(blocks, pairwise(bounds), strict=True):
        problem = state.block(block, before[1], after[0])
        if problem is not None:
            return problem
    return None


@dataclass(slots=True)
class _State:
    """The text, what must be nowhere between matches, and what names stand for."""

    text: str
    implicit: tuple[Directive, ...]
    values: dict[str, str] = field(default_factory=dict)

    def search(self, directive: Directive, start: int, end: int) -> re.Match[str] | None:
        assert directive.pattern is not None
        try:
            return directive.pattern.expression(self.values).search(self.text, start, end)
        except KeyError:
            return None

    def block(self, directives: Sequence[Directive], position: int, end: int) -> Problem | None:
        """The first problem of the directives between two labels."""
        nots: list[Directive] = []
        index = 0
        while index < len(directives):
            directive = directives[index]
            if directive.kind == "NOT":
                nots.append(directive)
                index += 1
                continue
            begin = position
            if directive.kind == "DAG":
                group = [directive]
                while index + len(group) < len(directives) and directives[index + len(group)].kind == "DAG":
                    group.append(directives[index + len(group)])
                index += len(group)
                spans = self.unordered(group, position, end)
                if isinstance(spans, Problem):
                    return spans
                first, position = min(span[0] for span in spans), max(span[1] for span in spans)
            else:
                index += 1
                found = self.ordered(directive, position, end)
                if isinstance(found, Problem):
                    return found
                first, position = found
            problem = self.absent(nots, begin, first)
            if problem is not None:
                return problem
            nots = []
        return self.absent(nots, position, end)

    def ordered(self, directive: Directive, position: int, end: int) -> tuple[int, int] | Problem:
        """Where a directive matches: the begin of the first match and the end of the last."""
        if directive.kind == "EMPTY":
            return self.empty(directive, position, end)
        first = -1
        start = position
        for number in range(directive.count):
            found = self.search(directive, position, end)
            if found is None:
                if number:
                    more = f"{directive.name}: found {number} of {directive.count}"
                    return self.missing(directive, position, end, more)
                return self.missing(directive, position, end)
            self.learn(directive, found)
            first = found.start() if first < 0 else first
            position = max(found.end(), found.start() + (directive.count > 1))
        between = self.text.count("\n", start, first)
        wanted = {"NEXT": 1, "SAME": 0}.get(directive.kind)
        if wanted is not None and between != wanted:
            where = "on the next line" if wanted else "on the same line"
            line = self.line_of(start) + wanted
            return Problem(
                directive.line,
                f"{directive.name}: what matches is not {where}, but in line {self.line_of(first)} of the output",
                (f"expected: {directive.text}", *self.shown(line, "output")),
            )
        return first, position

    def empty(self, directive: Directive, position: int, end: int) -> tuple[int, int] | Problem:
        newline = self.text.find("\n", position, end)
        after = newline + 1
        if newline >= 0 and (self.text.startswith("\n", after) or after >= len(self.text)):
            return after, after
        line = self.line_of(position) + 1
        message = f"{directive.name}: line {line} of the output is not empty"
        return Problem(directive.line, message, self.shown(line, "output"))

    def unordered(self, group: Sequence[Directive], position: int, end: int) -> list[tuple[int, int]] | Problem:
        """Where the directives of a group match: each as early as it can, without overlaps."""
        spans: list[tuple[int, int]] = []
        for directive in group:
            start = position
            while True:
                found = self.search(directive, start, end)
                if found is None:
                    return self.missing(directive, position, end)
                overlap = [span for span in spans if found.start() < span[1] and span[0] < found.end()]
                if not overlap:
                    break
                start = max(span[1] for span in overlap)
            self.learn(directive, found)
            spans.append(found.span())
        return spans

    def absent(self, nots: Sequence[Directive], start: int, end: int) -> Problem | None:
        """The first of the directives that say NOT, and of the options that do, which matches in between."""
        for directive in (*nots, *self.implicit):
            found = self.search(directive, start, end)
            if found is not None:
                line = self.line_of(found.start())
                message = f"{directive.name}: this is in line {line} of the output"
                return Problem(directive.line, message, (f"excluded: {directive.text}", *self.shown(line, "output")))
        return None

    def learn(self, directive: Directive, found: re.Match[str]) -> None:
        assert directive.pattern is not None
        for group, name in directive.pattern.defines.items():
            self.values[name] = found[group]

    def missing(self, directive: Directive, position: int, end: int, message: str = "") -> Problem:
        """A directive that matches nothing: from where on, and what it may have meant."""
        assert directive.pattern is not None
        undefined = [name for name in directive.pattern.uses if name not in self.values]
        if undefined:
            return Problem(directive.line, f"{directive.name}: no [[{undefined[0]}:...]] has matched before")
        start = self.line_of(position)
        last = self.line_of(max(position, end - 1))
        details = [f"expected: {directive.text}"]
        details += [f"[[{name}]] is {self.values[name]!r}" for name in directive.pattern.uses]
        near = self.near(directive.text, start, last)
        if near is not None:
            details += ["may be meant:", *self.shown(near, "output", 0)]
        details += ["looked from:", *self.shown(start, "output")]
        whole = f"{directive.name}: expected this in lines {start} to {last} of the output"
        return Problem(directive.line, message or whole, tuple(details))

    def near(self, text: str, start: int, last: int) -> int | None:
        """The number of the line that is most like a pattern."""
        matcher = SequenceMatcher(autojunk=False)
        matcher.set_seq2(text)
        best, found = _NEAR, None
        for number, line in enumerate(self.text.split("\n")[start - 1 : min(last, start + _LINES)], start):
            matcher.set_seq1(line.strip())
            if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
                best, found = matcher.ratio(), number
        return found

    def line_of(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    def shown(self, line: int, name: str, context: int = _CONTEXT) -> tuple[str, ...]:
        """Lines of the output with their numbers."""
        lines = self.text.split("\n")
        return tuple(
            f"{name}:{number}: {lines[number - 1]}" for number in range(line, min(line + context, len(lines)) + 1)
        )
