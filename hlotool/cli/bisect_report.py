"""What ``hlotool bisect`` says of a finding: as text, as JSON, and as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt

from hlotool.analysis.decisions import Decision
from hlotool.harness.bisection.inputs import GuiltyInputs
from hlotool.harness.bisection.question import Culprit, Finding
from hlotool.harness.bisection.reproducer import Reproducer
from hlotool.inspect.rewrite_page import RewritePage, rewrite_diff, rewrite_page
from hlotool.text.parser import parse

__all__ = ["bisect_json", "bisect_text", "pages_of"]

_LINES = 60
"""Of a difference that are shown; all of it is in a file."""


def pages_of(module: str, finding: Finding) -> dict[str, str]:
    """The modules before and after the guilty rewrite, by the name of the file; their difference; and a page of it."""
    culprit = finding.culprit
    assert culprit is not None
    found = {"before.hlo": culprit.before}
    if culprit.after:
        before, after = parse(culprit.before), parse(culprit.after)
        page = RewritePage(module, _headline(finding))
        found |= {
            "after.hlo": culprit.after,
            "rewrite.diff": rewrite_diff(before, after),
            "rewrite.html": rewrite_page(before, after, page, culprit.run.name, culprit.decisions),
        }
    return found


def bisect_text(
    finding: Finding,
    guilty: GuiltyInputs | None,
    repro: Reproducer | None,
    folder: Path,
    files: list[str],
    tries: int,
    seconds: float,
) -> str:
    """The finding for people."""
    lines = [f"{finding.verdict}: {_headline(finding, guilty)}"]
    lines += [f"  {candidate}" for candidate in finding.candidates]
    if finding.failure is not None and finding.verdict != "no-failure":
        lines.append(f"it fails with {finding.failure}")
    culprit = finding.culprit
    if culprit is not None:
        lines += [f"  {decision}" for decision in culprit.decisions]
        if "rewrite.diff" in files:
            shown = (folder / "rewrite.diff").read_text(encoding="utf-8", errors="replace").splitlines()
            lines += shown[:_LINES]
            if len(shown) > _LINES:
                lines.append(f"... {len(shown) - _LINES} more lines are in {folder / 'rewrite.diff'}")
        if not culprit.after:
            lines.append(f"the module that it fails on is in {folder / 'before.hlo'}")
        elif "rewrite.html" in files:
            lines.append(f"before and after as a page: {folder / 'rewrite.html'}")
    if repro is not None:
        path = folder / "reproducer.hlo"
        lines.append(f"a module that shows it is in {path}; to run it: {repro.command.replace('FILE', str(path))}")
    if guilty is not None:
        lines.append(f"{folder / 'good.npz'} and {folder / 'bad.npz'} differ in that element alone")
    if finding.chance is not None and finding.chance.bad:
        chance = finding.chance
        least = f"at least {chance.least:.1%} of the time, in 95 of 100 cases"
        lines.append(f"it fails in {chance.bad} of {chance.tries} tries: {least}")
    if finding.confidence is not None:
        lines.append(f"confidence that nothing was taken for good that is not: {finding.confidence:.1%}")
    by = {"command": "the command", "evaluate": "the evaluator", "passes": "running the pass"}.get(finding.judge)
    lines.append(f"{tries} tries, {seconds:.1f} s" + (f"; judged by {by or finding.judge}" if finding.judge else ""))
    return "\n".join(lines)


def _headline(finding: Finding, guilty: GuiltyInputs | None = None) -> str:
    """What was found, in one line."""
    culprit = finding.culprit
    if guilty is not None:
        return _inputs(guilty)
    if culprit is not None and not finding.candidates:
        return _culprit(culprit)
    if finding.verdict == "found" and finding.pipeline:
        return f"these passes suffice, and each is needed: {finding.pipeline}"
    if finding.verdict == "candidates":
        of = f" of {culprit.run.name}" if culprit is not None else ""
        return f"one of these {len(finding.candidates)}{of}: {finding.why}"
    if finding.verdict == "no-failure":
        return "nothing fails"
    return finding.why + (" (--repeats 20 tries more often)" if finding.verdict == "unstable" else "")


def _culprit(culprit: Culprit) -> str:
    run = culprit.run
    words = f"pass {run.number} of {culprit.runs}, {run.text}"
    if culprit.first is not None:
        several = culprit.last != culprit.first
        number = f"{culprit.first} to {culprit.last}" if several else str(culprit.first)
        rules = ", ".join(dict.fromkeys(f"{row.code} {row.rule}" for row in culprit.decisions))
        words = f"rewrite{'s' if several else ''} {number} of {culprit.total} of {words}: {rules}"
    if culprit.by_code:
        words += ": what it makes is right, the code made of that is wrong"
    return words


def _inputs(guilty: GuiltyInputs) -> str:
    good, bad = _value(guilty.good[guilty.number], guilty.index), _value(guilty.bad[guilty.number], guilty.index)
    place = f"{guilty.parameter}{list(guilty.index) if guilty.index else ''}"
    needed = ", ".join(guilty.parameters)
    rest = f"all else {guilty.right}" if guilty.alone else f"given {needed} ahead of it, behind it {guilty.right}"
    return f"{place} = {bad} is wrong, {good} is right; {rest}"


def _value(array: npt.NDArray[Any], index: tuple[int, ...]) -> str:
    return str(array[index])


def bisect_json(
    what: str,
    module: str,
    finding: Finding,
    guilty: GuiltyInputs | None,
    repro: Reproducer | None,
    files: list[str],
    tries: int,
) -> dict[str, Any]:
    """The finding for programs: ``hlotool schema bisect``."""
    failure, chance = finding.failure, finding.chance
    return {
        "schema_version": 1,
        "kind": "bisect",
        "what": what,
        "module": module,
        "verdict": finding.verdict,
        "why": finding.why,
        "failure": None if failure is None else {
            "kind": failure.kind, "what": failure.what, "where": failure.where, "message": failure.message,
        },
        "judge": finding.judge,
        "pass": None if finding.culprit is None else _pass(finding.culprit),
        "rewrite": None if finding.culprit is None or finding.culprit.first is None else _rewrite(finding.culprit),
        "candidates": list(finding.candidates),
        "pipeline": finding.pipeline or None,
        "inputs": None if guilty is None else _guilty(guilty),
        "chance": None if chance is None else {"bad": chance.bad, "tries": chance.tries, "least": chance.least},
        "confidence": finding.confidence,
        "reproduce": None if repro is None else repro.command.replace("FILE", "reproducer.hlo"),
        "tries": tries,
        "files": files,
    }  # fmt: skip


def _pass(culprit: Culprit) -> dict[str, Any]:
    run = culprit.run
    return {"run": run.number, "of": culprit.runs, "name": run.name, "text": run.text, "rewrites": run.rewrites}


def _rewrite(culprit: Culprit) -> dict[str, Any]:
    return {
        "first": culprit.first, "last": culprit.last, "of": culprit.total,
        "decisions": [_decision(row) for row in culprit.decisions],
    }  # fmt: skip


def _decision(row: Decision) -> dict[str, Any]:
    return {
        "code": row.code, "rule": row.rule, "before": list(row.before), "after": list(row.after), "reason": row.reason,
    }  # fmt: skip


def _guilty(guilty: GuiltyInputs) -> dict[str, Any]:
    return {
        "seed": guilty.seed, "right": guilty.right, "parameters": list(guilty.parameters),
        "parameter": guilty.parameter, "index": list(guilty.index), "alone": guilty.alone,
        "good": _value(guilty.good[guilty.number], guilty.index),
        "bad": _value(guilty.bad[guilty.number], guilty.index),
    }  # fmt: skip
