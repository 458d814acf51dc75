"""Which passes of a pipeline it takes to make it fail."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from hlotool.harness.bisection.answers import Answers
from hlotool.harness.bisection.question import Finding, Question, Verdict, whole_outcome
from hlotool.harness.bisection.search import boundary, fewest
from hlotool.harness.failure import Outcome
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.select import map_passes
from hlotool.passes.framework.steps import Pass, Pipeline, pipeline_text

__all__ = ["find_pipeline"]


def find_pipeline(answers: Answers, question: Question, confidence: float = 0.95, times: int = 1) -> Finding:
    """The shortest failing beginning of the pipeline, then without each pass that is not needed: it fails, and no
    longer does where any one of its passes is left out."""
    whole, chance = whole_outcome(answers, question, confidence, times)
    if whole.verdict != "bad":
        return Finding(verdict="no-failure" if whole.verdict == "good" else "undecided", why=whole.why, chance=chance)
    judge = "command" if question.command is not None else question.backend
    finding = Finding(verdict="found", failure=answers.sought, judge=judge, chance=chance)
    pipeline = parse_pipeline(question.pipeline)
    places = range(len(list(pipeline.passes())))

    def ask(chosen: Pipeline) -> Outcome:
        text = pipeline_text(chosen, names=False)
        return answers.ask(f"pipeline:{text}", _short(text), question.whole(text))

    empty = ask(Pipeline(()))
    if empty.verdict == "bad":
        by_code = question.command is None and question.backend != "evaluate"
        word: Verdict = "code-generation" if by_code else "module"
        return replace(finding, verdict=word, why="it fails with an empty pipeline too")
    if empty.verdict == "undecided":
        return replace(finding, verdict="undecided", why=f"of the empty pipeline nothing is known: {empty.why}")
    end = boundary(0, len(places), lambda count: ask(_kept(pipeline, places[:count]))).bad
    needed = fewest(places[:end], lambda chosen: ask(_kept(pipeline, chosen)).verdict == "bad")
    found = _kept(pipeline, needed)
    flat = Pipeline(tuple(found.passes()))
    if flat.steps != found.steps and ask(flat).verdict == "bad":
        found = flat
    return replace(finding, pipeline=pipeline_text(found, names=False))


def _kept(pipeline: Pipeline, places: Sequence[int] | range) -> Pipeline:
    """The pipeline with the passes at these places, counted as they are written, alone."""
    wanted: Collection[int] = set(places)
    count = -1

    def keep(pass_: Pass) -> Pass | None:
        nonlocal count
        count += 1
        return pass_ if count in wanted else None

    return map_passes(pipeline, keep)


def _short(text: str, most: int = 60) -> str:
    return (text if len(text) <= most else f"{text[: most - 3]}...") or "the empty pipeline"
