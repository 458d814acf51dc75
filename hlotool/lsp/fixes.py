"""What mends a diagnostic: the word that was meant, what lint proposes, a comment that silences it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hlotool.ir import Computation, Diagnostic, HloError, Instruction, clone_module
from hlotool.lazy_dataclass import dataclass
from hlotool.lint import apply_fixes, lint
from hlotool.lsp.diagnostics import Smell
from hlotool.lsp.document import Document, Edit, Refused
from hlotool.lsp.known import Known
from hlotool.lsp.scan import Scope, Statement
from hlotool.text.diagnostics import suggestion
from hlotool.text.load import parse_all
from hlotool.text.printer import PrintOptions, print_computation, print_instruction

__all__ = ["Fix", "apply", "error_fix", "lint_edits", "silence_fix"]

_LINT = re.compile(r"//\s*lint:\s*off\b")


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits, and what they do in words."""

    title: str
    edits: tuple[Edit, ...]


def error_fix(document: Document, diagnostic: Diagnostic) -> Fix | None:
    """The word that was meant in the place of the one that is wrong."""
    meant = suggestion(diagnostic)
    if meant is None or diagnostic.location is None:
        return None
    start, end = document.range_of(diagnostic.location)
    if document.text[start : start + 1] == "%" and not meant.startswith("%"):
        start += 1
    return Fix(f"change to '{meant}'", (Edit(start, end, meant),))


def silence_fix(document: Document, smell: Smell) -> Fix | None:
    """A comment at the end of the line that silences the rule there."""
    place = smell.diagnostic.location
    if place is None or place.line != place.end_line:
        return None
    line = document.line(place.line - 1)
    end = document.starts[place.line - 1] + len(line.rstrip())
    if "//" in line:
        if not _LINT.search(line):
            return None
        comment = f", {smell.rule.code}"
    else:
        comment = f"  // lint: off {smell.rule.code}"
    return Fix(f"silence {smell.rule.code} here", (Edit(end, end, comment),))


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits, which do not overlap."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def lint_edits(document: Document, known: Known, smell: Smell) -> list[Edit]:
    """The edits that do to the text what lint's fix does to the module; Refused where that cannot be written so."""
    parent = smell.finding.instruction.parent
    number = next((n for n, module in enumerate(known.modules) if parent in module.computations.values()), None)
    if number is None or parent is None:
        raise Refused("the text has changed since")
    old = known.modules[number]
    new = clone_module(old)
    same = [
        finding
        for rule, finding in lint(new, [smell.rule])
        if finding.instruction.name == smell.finding.instruction.name
        and finding.instruction.parent is not None
        and finding.instruction.parent.name == parent.name
        and finding.message == smell.finding.message
    ]
    if not same or not apply_fixes(new, same[:1]):
        raise Refused("there is nothing to mend")
    edits: list[Edit] = []
    options = PrintOptions(percent=document.has_percent, index_comments=False)
    for at, scope in _scopes(document, number):
        before, after = old.computations.get(scope.name), new.computations.get(scope.name)
        if scope.name == parent.name:
            added = [one for name, one in new.computations.items() if name not in old.computations]
            text = "".join(f"{print_computation(one, options).strip()}\n\n" for one in added)
            edits += [Edit(scope.start, scope.start, text)] if text else []
        if before is None:
            raise Refused("the text has changed since")
        if after is None:
            edits.append(_without(document, scope.start, scope.end))
        else:
            edits += _differences(document, at, before, after, options)
    _check(apply(document.text, edits))
    return edits


def _scopes(document: Document, module: int) -> list[tuple[int, Scope]]:
    """The computations of the n-th module of the text."""
    scopes = document.scan.scopes
    numbers = sorted({scope.module for scope in scopes})
    wanted = numbers[module] if module < len(numbers) else -1
    return [(at, scope) for at, scope in enumerate(scopes) if scope.module == wanted]


def _differences(
    document: Document, scope: int, before: Computation, after: Computation, options: PrintOptions
) -> list[Edit]:
    """The edits that turn the text of one computation into that of another."""
    statements = {s.name: s for s in document.scan.statements if s.scope == scope}
    old, new = {i.name: i for i in before}, {i.name: i for i in after}
    if any(name not in statements for name in old):
        raise Refused("the text has changed since")
    edits = [_without(document, statements[name].start, statements[name].end) for name in old if name not in new]
    waiting: list[Instruction] = []
    for name, instruction in new.items():
        if name not in old:
            waiting.append(instruction)
            continue
        place = statements[name]
        if waiting:
            edits.append(_inserted(document, place, [_line(one, options) for one in waiting]))
            waiting = []
        if _reads(instruction) != _reads(old[name]) or instruction.is_root != old[name].is_root:
            edits.append(Edit(place.start, place.end, _line(instruction, options)))
    if waiting:
        last = statements[next(reversed(old))]
        edits.append(_appended(document, last, [_line(one, options) for one in waiting]))
    return edits


def _reads(instruction: Instruction) -> list[str]:
    return [operand.name for operand in instruction.operands]


def _line(instruction: Instruction, options: PrintOptions) -> str:
    return ("ROOT " if instruction.is_root else "") + print_instruction(instruction, options)


def _inserted(document: Document, place: Statement, lines: list[str]) -> Edit:
    """Lines ahead of a statement, as far in as that is."""
    margin = document.text[document.starts[document.position(place.start)[0]] : place.start]
    if margin.strip():
        raise Refused("several instructions stand in one line: hlotool fmt gives each its own")
    return Edit(place.start, place.start, "".join(f"{line}\n{margin}" for line in lines))


def _appended(document: Document, last: Statement, lines: list[str]) -> Edit:
    """Lines of their own after those of the last statement, as far in as that is."""
    margin = document.text[document.starts[document.position(last.start)[0]] : last.start]
    below = document.position(last.end)[0] + 1
    if margin.strip() or below >= len(document.starts) or document.text[last.end : document.starts[below]].strip():
        raise Refused("several instructions stand in one line: hlotool fmt gives each its own")
    return Edit(document.starts[below], document.starts[below], "".join(f"{margin}{line}\n" for line in lines))


def _without(document: Document, start: int, end: int) -> Edit:
    """A statement or computation left out, with its lines where nothing else is on them."""
    first, last = document.position(start)[0], document.position(end)[0]
    stop = document.starts[last + 1] if last + 1 < len(document.starts) else len(document.text)
    alone = not document.text[document.starts[first] : start].strip() and not document.text[end:stop].strip()
    return Edit(document.starts[first], stop, "") if alone else Edit(start, end, "")


def _check(text: str) -> None:
    try:
        parse_all(text)
    except HloError as error:
        raise Refused(f"the fix does not fit into this text ({error.message}): hlotool lint --fix makes it") from None
