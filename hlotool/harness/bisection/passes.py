"""Which pass makes it fail, and which of its rewrites.

First the whole is tried, and the module as it is: what fails without a pass is no fault of any.  Where the evaluator,
too, sees that what the passes made is wrong, it tries the modules in between as well: that leaves code generation out,
and costs less.  Otherwise code is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hlotool.analysis.decisions import Decision
from hlotool.harness.bisection.answers import Answers, LostError
from hlotool.harness.bisection.course import Run, rewrites_at, run_behind, runs_of, text_at
from hlotool.harness.bisection.question import Culprit, Finding, Question, whole_outcome
from hlotool.harness.bisection.search import boundary
from hlotool.harness.failure import GOOD, Outcome, bad, undecided

__all__ = ["find_pass"]


def find_pass(
    answers: Answers, question: Question, rewrites: bool = False, confidence: float = 0.95, times: int = 1
) -> Finding:
    """The pass that turns good into bad, and with `rewrites` the rewrite in it.

    With `times` above 1 the failure comes only sometimes: so often the whole is tried, to know how often.
    """
    whole, chance = whole_outcome(answers, question, confidence, times)
    if whole.verdict != "bad":
        return Finding(verdict="no-failure" if whole.verdict == "good" else "undecided", why=whole.why, chance=chance)
    found = _Search(answers, question).found(rewrites)
    rows = answers.memory.answers.values()
    goods = sum(row["outcome"].verdict == "good" and row["tries"] == answers.tries for row in rows)
    sure = None if chance is None else float(chance.confidence(answers.tries) ** goods)
    return replace(found, failure=answers.sought, chance=chance, confidence=sure)


class _Unsure(Exception):  # noqa: N818
    """The search ends without a culprit: `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__()
        self.finding = finding


class _Search:
    """One search.  `judge` tries the modules between passes."""

    def __init__(self, answers: Answers, question: Question) -> None:
        self.answers, self.question = answers, question
        self.judge: str | None = None if question.command is not None else question.backend

    def found(self, rewrites: bool) -> Finding:
        try:
            runs = self.answers.work(runs_of, self.question.course)
        except LostError:
            return self.lost()
        try:
            run, before = self.guilty_run(runs)
            culprit = Culprit(run=run, runs=len(runs), total=run.rewrites)
            culprit = self.guilty_rewrite(culprit) if rewrites else self.shown(culprit, before, None)
        except _Unsure as unsure:
            return replace(unsure.finding, judge=self.name)
        return Finding(verdict="code-generation" if culprit.by_code else "found", culprit=culprit, judge=self.name)

    def lost(self) -> Finding:
        """A run of a pass that never ends, or takes the process with it: how many runs come ahead of it?"""
        course = self.question.course

        def ask(runs: int) -> Outcome:
            try:
                return GOOD if self.answers.work(run_behind, course, runs) else undecided("there are no more")
            except LostError as lost:
                return undecided(lost.message) if self.answers.sought is None else bad(self.answers.sought)

        end = 1
        while (outcome := ask(end)).verdict == "good":
            end *= 2
        if outcome.verdict != "bad":
            return Finding(verdict="unstable", why="the passes ended the second time: does it fail only sometimes?")
        good = boundary(end // 2, end, ask).good
        run = self.answers.work(run_behind, course, good)
        assert run is not None
        before = self.answers.work(text_at, course, good)
        return Finding(verdict="found", culprit=Culprit(run=run, runs=run.number, before=before), judge="passes")

    @property
    def name(self) -> str:
        return "command" if self.question.command is not None else self.judge or "passes"

    # ---- passes

    def guilty_run(self, runs: list[Run]) -> tuple[Run, int]:
        """The run that turns good into bad, and the number of the one that was good ahead of it."""
        if runs and runs[-1].failure is not None:
            self.judge = None
            return runs[-1], len(runs) - 1
        places = [0, *(run.number for run in runs if run.changed)]
        self.check_ends(places[-1])
        found = boundary(0, len(places) - 1, lambda place: self.after(runs, places[place]))
        if not found.is_exact:
            names = [_words(runs[number - 1], len(runs)) for number in places[found.good + 1 : found.bad + 1]]
            raise _Unsure(Finding(verdict="candidates", why="the modules between them are undecided",
                candidates=tuple(names)))  # fmt: skip
        good, number = places[found.good], places[found.bad]
        self.confirm(lambda: self.after(runs, good, again=True), lambda: self.after(runs, number, again=True))
        return runs[number - 1], good

    def check_ends(self, last: int) -> None:
        """See that what all passes make is bad, and the module itself good; who sees the former is to judge."""
        sought, backend = self.answers.sought, self.judge
        assert sought is not None
        if backend not in (None, "evaluate"):
            first = self.at(0)
            if first.verdict == "bad":
                raise _Unsure(Finding(verdict="code-generation", why="it fails with an empty pipeline too"))
            self.judge = "evaluate" if sought.kind == "mismatch" else backend
            if self.judge == "evaluate" and self.at(last).verdict != "bad":
                self.judge = backend
        end = self.at(last)
        if end.verdict != "bad":
            raise _Unsure(Finding(verdict="undecided", why="the failure does not show when passes run one by one"
                + (f": {end.why}" if end.why else "")))  # fmt: skip
        start = self.at(0)
        if start.verdict == "bad":
            raise _Unsure(Finding(verdict="module", why="it fails on the module as it is, without any pass"))
        if start.verdict == "undecided":
            raise _Unsure(Finding(verdict="undecided", why=f"of the module as it is nothing is known: {start.why}"))

    def after(self, runs: list[Run], number: int, again: bool = False) -> Outcome:
        words = f"after {_words(runs[number - 1], len(runs))}" if number else "the module as it is"
        return self.at(number, None, words, again)

    def at(self, number: int, rewrites: int | None = None, words: str = "", again: bool = False) -> Outcome:
        said = words or ("after all passes" if number else "the module as it is")
        limit = "" if rewrites is None else f":{rewrites}"
        trial = self.question.at(self.judge, number, rewrites)
        sure = self.question.command is None and self.judge in (None, "evaluate")
        return self.answers.ask(f"{self.name}:{number}{limit}", f"{said} ({self.name})", trial, again=again, sure=sure)

    def confirm(self, good: Callable[[], Outcome], bad: Callable[[], Outcome]) -> None:
        """See that both sides of what was found answer as before."""
        for ask, wanted in ((good, "good"), (bad, "bad")):
            outcome = ask()
            if outcome.verdict != wanted:
                why = f"what was {wanted} is {outcome.verdict} the second time: does it fail only sometimes?"
                raise _Unsure(Finding(verdict="unstable", why=why))

    # ---- rewrites

    def guilty_rewrite(self, culprit: Culprit) -> Culprit:
        """The rewrite in a run, between whose absence and presence it turns.

        The place behind the last one is the whole run, which may do more than it records.
        """
        run = culprit.run
        made = run.rewrites

        def limit(place: int) -> int | None:
            return place if place <= made else None

        def ask(place: int, again: bool = False) -> Outcome:
            words = f"{run.name} with {place} of {made} rewrites" if place <= made else f"all of {run.name}"
            return self.at(run.number, limit(place), words, again)

        if ask(made + 1).verdict != "bad":
            why = f"{run.name} is bad in the pipeline, but not on a copy of the module ahead of it"
            raise _Unsure(Finding(verdict="unstable", why=why, culprit=culprit))
        none = ask(0)
        if none.verdict == "bad":  # it does not ask the log, or changes more than rewrites
            return self.shown(culprit, run.number - 1, None)
        if none.verdict == "undecided":
            why = f"of {run.name} without rewrites nothing is known: {none.why}"
            raise _Unsure(Finding(verdict="undecided", why=why))
        found = boundary(0, made + 1, ask)
        after = self.rewrites(run, limit(found.bad))
        before = self.rewrites(run, found.good)
        blamed = after[len(before) :]
        if not found.is_exact:
            names = tuple(f"{n}: {decision}" for n, decision in enumerate(blamed, len(before) + 1))
            raise _Unsure(Finding(verdict="candidates", why="the modules between them are undecided", candidates=names,
                culprit=culprit))  # fmt: skip
        self.confirm(lambda: ask(found.good, again=True), lambda: ask(found.bad, again=True))
        first, last = (len(before) + 1, len(after)) if blamed else (None, None)
        culprit = replace(culprit, first=first, last=last, decisions=tuple(blamed))
        return self.shown(culprit, run.number, found.good, limit(found.bad))

    def rewrites(self, run: Run, limit: int | None) -> list[Decision]:
        return self.answers.work(rewrites_at, self.question.course, run.number, limit)

    def shown(self, culprit: Culprit, runs: int, limit: int | None, bad_limit: int | None = None) -> Culprit:
        """The culprit with the modules before and after; whether the evaluator has them compute the same."""
        course, number = self.question.course, culprit.run.number
        before = self.answers.work(text_at, course, runs, limit)
        after = "" if self.judge is None and self.question.command is None else self.answers.work(
            text_at, course, number, bad_limit
        )  # fmt: skip
        culprit = replace(culprit, before=before, after=after)
        if self.judge in (None, "evaluate") or self.question.command is not None:
            return culprit
        trial = self.question.at("evaluate", number, bad_limit)
        limited = "" if bad_limit is None else f":{bad_limit}"
        outcome = self.answers.ask(f"evaluate:{number}{limited}", "the same, evaluated", trial, sure=True)
        return replace(culprit, by_code=outcome.verdict == "good")


def _words(run: Run, runs: int) -> str:
    return f"pass {run.number} of {runs}, {run.name}"
