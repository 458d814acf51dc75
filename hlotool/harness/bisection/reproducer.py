"""The reproducer of what was found: the module just ahead of the guilty rewrite, with the pass that does it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import hlotool
from hlotool.harness.bisection.answers import Answers
from hlotool.harness.bisection.course import text_at
from hlotool.harness.bisection.question import Culprit, Finding, Question
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.pipeline import carry_pipeline, parse_pipeline

__all__ = ["Reproducer", "reproducer"]


@dataclass(frozen=True, slots=True)
class Reproducer:
    """The text of a file, and what to run on it; ``FILE`` stands for it."""

    text: str
    command: str


def reproducer(answers: Answers, question: Question, finding: Finding) -> Reproducer | None:
    """The smallest module that was seen to fail with the guilty pass alone, or with the passes that suffice; None where
    none does."""
    culprit = finding.culprit
    if finding.verdict == "found" and finding.pipeline:
        command = _command(question, finding, finding.pipeline, None)
        return _written(question.text, finding.pipeline, f"these passes suffice: {finding.failure}", command)
    if culprit is None:
        return None
    for text, limit in _candidates(answers, question, culprit):
        alone = _asked_of(question, culprit, text)
        judge = finding.judge if finding.judge in ("command", "passes") else finding.judge or "evaluate"
        trial = alone.at(None if judge in ("command", "passes") else judge, 1, limit)
        said = f"the reproducer with {culprit.run.name}" + ("" if limit is None else f" and {limit} rewrite")
        key = f"reproducer:{culprit.run.text}:{limit}:{judge}"
        if answers.ask(key, said, trial, text).verdict == "bad":
            what = [f"pass {culprit.run.name}"]
            what += [f"{decision.code} {decision.rule}: {', '.join(decision.before)}" for decision in culprit.decisions]
            command = _command(question, finding, culprit.run.text, limit)
            return _written(text, culprit.run.text, f"{'; '.join(what)}: {finding.failure}", command)
    return None


def _asked_of(question: Question, culprit: Culprit, text: str) -> Question:
    return Question(
        text=text, pipeline=culprit.run.text, backend=question.backend, seed=question.seed,
        arguments=question.arguments, max_undecided=question.max_undecided, command=question.command,
    )  # fmt: skip


def _candidates(answers: Answers, question: Question, culprit: Culprit) -> Iterator[tuple[str, int | None]]:
    """Modules, and how many rewrites the pass may make of them."""
    yield culprit.before, None
    if culprit.first is not None and culprit.first == culprit.last:
        yield culprit.before, 1
    ahead = answers.work(text_at, question.course, culprit.run.number - 1)
    if ahead != culprit.before:
        yield ahead, None
        yield ahead, culprit.last


def _written(text: str, pipeline: str, what: str, command: str) -> Reproducer:
    head = [f"hlotool {hlotool.__version__} bisect: {what}", f"to see it: {command.replace('FILE', 'reproducer.hlo')}"]
    lines = "".join(f"// {' '.join(line.split())}\n" for line in head)
    return Reproducer(lines + carry_pipeline(text, parse_pipeline(pipeline)), command)


def _command(question: Question, finding: Finding, pipeline: str, limit: int | None) -> str:
    """What shows the failure of ``FILE``."""
    passes = f"-p {shlex.quote(pipeline)}" + ("" if limit is None else f" --rewrite-limit {limit}")
    inputs = f"--random {question.seed}" if question.arguments is None else "--inputs IN.npz"
    if question.command is not None:
        asked = question.command.command
        line = asked.replace("{}", "after.hlo") if "{}" in asked else f"{asked} < after.hlo"
        return f"hlotool opt FILE {passes} -o after.hlo; {line}"
    if finding.judge == "passes":
        return "hlotool repro FILE --no-check" if limit is None else f"hlotool opt FILE {passes} --strict"
    if finding.judge != "evaluate":
        made = f"hlotool opt FILE {passes} | hlotool run - -O0" if limit is not None else f"hlotool run FILE {passes}"
        named = "" if finding.judge == "cpu" else f" --backend {finding.judge}"
        return f"{made}{named} {inputs} --compare evaluate"
    if limit is None and question.arguments is None:
        return f"hlotool repro FILE {inputs}"
    return f"hlotool opt FILE {passes} --check-each evaluate {inputs}"
