"""Verdicts in the forms that people and other programs read: text, JSON, JUnit XML, annotations of GitHub Actions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from hlotool.checks.run import VERDICTS, Verdict
from hlotool.ir import Diagnostic, Location
from hlotool.text.reports import github

__all__ = ["as_json", "github_lines", "junit", "summary", "verdict_text"]

_CONTROL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 has no way to say


def verdict_text(verdict: Verdict) -> str:
    """One verdict for people: where each problem is, and the lines that show it."""
    if not verdict.problems:
        return f"{verdict.verdict}: {verdict.name}"
    lines = []
    for problem in verdict.problems:
        lines.append(f"{verdict.file}:{problem.line}:{problem.column}: {verdict.verdict}: {problem.message}")
        lines += [f"    {detail}" for detail in problem.details]
    return "\n".join(lines)


def summary(verdicts: Sequence[Verdict], without: int) -> str:
    """How many checks came out how; `without` files had none."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    parts = [f"{counts[word]} {word}" for word in VERDICTS if counts[word] or word == "passed"]
    parts += [f"{without} file{'' if without == 1 else 's'} without checks"] if without else []
    return ", ".join(parts)


def as_json(verdicts: Sequence[Verdict], without: int, updated: Sequence[str]) -> dict[str, Any]:
    """For programs: `hlotool schema check`."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    return {
        "schema_version": 1,
        "kind": "check",
        "counts": {word: counts[word] for word in VERDICTS},
        "without_checks": without,
        "updated": list(updated),
        "checks": [
            {
                "file": one.file,
                "name": one.name,
                "line": one.line,
                "verdict": one.verdict,
                "seconds": round(one.seconds, 4),
                "problems": [
                    {"line": p.line, "column": p.column, "message": p.message, "details": list(p.details)}
                    for p in one.problems
                ],
            }
            for one in verdicts
        ],
    }


def github_lines(verdict: Verdict) -> list[str]:
    """Workflow commands of GitHub Actions, one for each problem."""
    found = []
    for problem in verdict.problems:
        place = Location(verdict.file, problem.line, problem.column, problem.line, problem.column)
        message = "\n".join([problem.message, *problem.details])
        found.append(github(Diagnostic(message, place, None, f"hlotool check: {verdict.verdict}")))
    return found


def junit(verdicts: Sequence[Verdict]) -> bytes:
    """A report in JUnit's XML: invalid is an error there, and everything else that did not pass a failure."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    errors = counts["invalid"]
    suite = ElementTree.Element(
        "testsuite",
        name="hlotool check",
        tests=str(len(verdicts)),
        failures=str(len(verdicts) - counts["passed"] - errors),
        errors=str(errors),
        time=f"{sum(verdict.seconds for verdict in verdicts):.3f}",
    )
    for one in verdicts:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_clean(one.file), name=_clean(one.name), file=_clean(one.file),
            line=str(one.line), time=f"{one.seconds:.3f}",
        )  # fmt: skip
        if one.problems:
            kind = "error" if one.verdict == "invalid" else "failure"
            node = ElementTree.SubElement(case, kind, type=one.verdict, message=_clean(one.problems[0].message))
            node.text = _clean(verdict_text(one))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _clean(text: str) -> str:
    return _CONTROL.sub("�", text)
