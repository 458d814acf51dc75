"""What is wrong with a text, in two steps: errors first, then smells, which take longer."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import Diagnostic, HloError
from hlotool.ir.verifier import verify
from hlotool.lazy_dataclass import dataclass
from hlotool.lint import Finding, Rule, lint
from hlotool.lint.comments import silence_of
from hlotool.lsp.known import Known
from hlotool.text.load import parse_all
from hlotool.text.sources import with_source

__all__ = ["Report", "Smell", "errors", "smells"]


@dataclass(frozen=True, slots=True)
class Report:
    """The errors of a text, and what could be read of it; `known` is None where that is nothing."""

    diagnostics: tuple[Diagnostic, ...]
    known: Known | None


@dataclass(frozen=True, slots=True)
class Smell:
    """Something that lint found, and that as a diagnostic."""

    rule: Rule
    finding: Finding
    diagnostic: Diagnostic


def errors(text: str, file: str) -> Report:
    """What hlotool's parser and verifier say of a text.  Of a text with errors as much is known as can be looked at:
    opcodes and attributes that do not exist are kept."""
    try:
        modules = parse_all(text, file)
    except HloError as error:
        return Report(_noted(error.diagnostics, text), _looked_at(text, file))
    found = [verify(module) for module in modules]
    return Report(_noted([one for these in found for one in these], text), Known(modules, [not one for one in found]))


def _looked_at(text: str, file: str) -> Known | None:
    try:
        modules = parse_all(text, file, [])
        return Known(modules, [False] * len(modules))
    except HloError:
        return None


def _noted(found: Sequence[Diagnostic], text: str) -> tuple[Diagnostic, ...]:
    """Diagnostics with what the metadata says about their lines."""
    return tuple(with_source(diagnostic, text) for diagnostic in found)


def smells(known: Known, text: str) -> list[Smell]:
    """What lint says of modules without errors; nothing of others."""
    if not known.is_whole:
        return []
    silence = silence_of(text)
    return [
        Smell(rule, finding, _diagnostic(rule, finding))
        for module in known.modules
        for rule, finding in lint(module)
        if not silence.hides(rule.code, finding.instruction)
    ]


def _diagnostic(rule: Rule, finding: Finding) -> Diagnostic:
    severity = "note" if rule.note else "warning"
    return Diagnostic(finding.message, finding.instruction.location, finding.hint, rule.code, severity)
