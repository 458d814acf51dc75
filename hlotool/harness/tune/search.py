"""The search itself: whose turn it is, which candidates are tried, and what is kept in the end.

A kernel has its turn by the time that it takes in a run, the less the longer nothing was gained there, and the longer
a candidate of it takes.  In a turn some candidates, each one or two choices away from the best so far, are checked,
and those that are right are timed against it.  Which ones goes by what their choices gain: as they were timed for
this kernel, against what was the best then, or else by the model, and worse where the values of a knob became worse
and worse.  So what nearly gained something is tried again beside another choice, and what lost much is left to the
end.  What one kernel gained by all together, those most like it try first.  What was found for each kernel is timed
once more against the untuned one then, longer: only what is clearly quicker is a result.  Nothing hangs on chance but
what is drawn by the seed, and on time but what the journal has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field
from itertools import combinations
from typing import Any

from hlotool.codegen.choices import knobs
from hlotool.harness.journal import Journal
from hlotool.harness.tune.lab import Lab
from hlotool.harness.tune.model import Model, ModelName
from hlotool.harness.tune.space import Change, changes
from hlotool.harness.tune.subjects import Subject
from hlotool.harness.tune.trial import Check, Race
from hlotool.ir import ExecutionError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Budget", "Found", "Plan", "Result", "Try", "search"]

_TOGETHER = 6
"""Candidates of a turn."""
_PATIENCE = 0.8
"""What a turn without a gain leaves of a kernel's weight."""
_LAST = 0.25
"""Share of the time that is kept for timing once more, at most."""
_LONGER = 4.0
"""How many times longer that is, if there is time."""
_STARTS = 0.5
"""Seconds that a race takes beside its measurements."""
_ALIKE = 3
"""Kernels most like another whose choices it tries ahead of all others."""
_BETTER = 0.02
"""How much more than the value next to it one may gain, as a logarithm of times, where values become worse."""
_FORMULA = -1
"""In a step, that the formula decides again about a knob."""
_NEAR = 0.03
"""A loss, as a logarithm of times, up to which a choice may gain something beside others."""
_CANDIDATE_SECONDS, _RUNS = 0.15, 50
"""What a candidate takes beside its runs, and how many of these there are, about."""
_WAYS = frozenset(name for name, knob in knobs().items() if knob.values == (0, 1))
"""Choices between ways to compute something, each with choices of its own."""
_GAIN = 0.99
"""What a candidate's time has to be of that of the best so far: clearly less than this."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How long to search: so many seconds, or candidates, whichever is over first."""

    seconds: float | None = None
    trials: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to search: the `seed` of all that is drawn, whether results must stay the same to the last bit, the model
    that ranks candidates, and for how many seconds two are timed at most."""

    seed: int = 0
    exact: bool = False
    model: ModelName = "linear"
    race_seconds: float = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """A candidate that was tried: number of its subject, the choices that it adds to the best so far, what came of it,
    and the ratio of times.

    That is ``faster``, ``no gain``, ``wrong``, ``undecided``, ``refused``, ``crashed``, ``hung`` or ``failed``.
    """

    subject: int
    change: tuple[Change, ...]
    word: str
    ratio: float
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The best choices for a subject, as timed once more at the end: a run takes ``1 - gain`` of the time without,
    which was `seconds`.  If `exact`, it gives the same bits."""

    subject: Subject
    values: Mapping[str, int]
    gain: float
    seconds: float
    exact: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What a search found, all that it tried, in order, and for how many seconds it measured."""

    found: tuple[Found, ...]
    tries: tuple[Try, ...]
    seconds: float


@dataclass(slots=True)
class _State:
    """How far the search is with a subject."""

    number: int
    subject: Subject
    weight: float
    left: list[Change] | None = None
    best: dict[str, int] = field(default_factory=dict)
    exact: dict[frozenset[Change], bool] = field(default_factory=dict)
    tried: set[frozenset[Change]] = field(default_factory=set)
    gains: dict[Change, float] = field(default_factory=dict)
    """What single choices gain, as logarithms of times, as far as they were timed; infinitely little where that did not
    work."""
    has_single: bool = True
    """Whether there are single choices to try that may gain something: those of all subjects come ahead of pairs."""

    def candidates(self) -> list[tuple[Change, ...]]:
        """The choices that can be added to the best so far, or left out of it if there are several, and were not tried
        with it: single ones, and any two."""
        other = [change for change in self.left or () if self.best.get(change[0]) != change[1]]
        steps: list[tuple[Change, ...]] = [(one,) for one in other]
        steps += [((knob, _FORMULA),) for knob in self.best if len(self.best) > 1]
        steps += [two for two in combinations(other, 2) if two[0][0] != two[1][0]]
        return [step for step in steps if self._is_new(step)]

    def bound(self, change: Change) -> float | None:
        """What a choice hardly gains more than: as much as the nearest value to one side, where that gained less than
        the next one, as values mostly become worse and worse to both sides of the best; None where nothing says so."""
        knob, value = change
        known = sorted((at, gain) for (name, at), gain in self.gains.items() if name == knob and at != _FORMULA)
        timed = [row for row in known if row[1] > -math.inf]
        below, above = [gain for at, gain in timed if at < value][::-1], [gain for at, gain in timed if at > value]
        return min((near[0] for near in (below, above) if len(near) > 1 and near[0] < near[1]), default=None)

    def adopted(self, other: Mapping[str, int]) -> tuple[Change, ...]:
        """The step to the choices of another subject; none where that is nothing new."""
        step = tuple(change for change in sorted(other.items()) if self.best.get(change[0]) != change[1])
        return step if step and self._is_new(step) else ()

    def note(self, step: tuple[Change, ...], gain: float, kept: bool) -> None:
        """A step gained so much, and is kept or not; other values of its knobs are held against it then."""
        if len(step) == 1:
            self.gains[step[0]] = gain
        if kept:
            self.gains |= dict.fromkeys(step, gain)
            for change in self.gains:
                if change[0] in dict(step):
                    self.gains[change] -= gain

    def after(self, step: tuple[Change, ...]) -> dict[str, int]:
        """The best so far with a step."""
        return {knob: value for knob, value in {**self.best, **dict(step)}.items() if value != _FORMULA}

    def _is_new(self, step: tuple[Change, ...]) -> bool:
        return frozenset(self.after(step).items()) not in self.tried


class _Search:
    """Asks the lab, by way of the journal, and counts what that costs."""

    def __init__(
        self, lab: Lab, budget: Budget, plan: Plan, journal: Journal, tell: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self.lab, self.budget, self.plan, self.journal, self.tell, self.clock = lab, budget, plan, journal, tell, clock
        self.model = Model(plan.model)
        self.spent = 0.0
        self.tries: list[Try] = []
        self.states: tuple[_State, ...] = ()

    def ask(self, question: dict[str, Any], measure: Callable[[], Any]) -> Any:
        """An answer of the lab, or that of the journal."""

        def timed() -> dict[str, Any]:
            begin = self.clock()
            value = measure()
            end = self.clock()
            if not end >= begin:
                raise ExecutionError(f"the clock went back by {begin - end:g} s; run it again, it goes on from there")
            if isinstance(value, (Check, Race)):
                value = {type(value).__name__: asdict(value)}
            return {"value": value, "seconds": end - begin}

        answer = self.journal.answer(question, timed)
        self.spent += float(answer["seconds"])
        return answer["value"]

    def goes_on(self, states: Sequence[_State]) -> bool:
        """Whether there is time for one more turn."""
        if self.budget.trials is not None and len(self.tries) >= self.budget.trials:
            return False
        if self.budget.seconds is None:
            return True
        last = sum(1 for state in states if state.best) * (self.plan.race_seconds * _LONGER + _STARTS)
        return self.spent + min(last, _LAST * self.budget.seconds) < self.budget.seconds

    def last_seconds(self, states: Sequence[_State]) -> float:
        """How long each race of those at the end is: longer than others, if the share of the time lasts for all."""
        longest, count = self.plan.race_seconds * _LONGER, sum(1 for state in states if state.best)
        if self.budget.seconds is None or count == 0:
            return longest
        return max(self.plan.race_seconds, min(longest, _LAST * self.budget.seconds / count - _STARTS))

    def turn(self, state: _State) -> bool:
        """Try some candidates for a subject; whether one was quicker."""
        subject = state.subject
        if state.left is None:
            every, best = changes(subject, self.plan.exact), dict(state.best)
            question: dict[str, Any] = {"distinct": subject.key, "beside": best}
            found = self.ask(question, lambda: self.lab.distinct(subject, every, best))
            state.left = [(str(name), int(value)) for name, value in found]
        ranked, _ = self._ranked(state)
        ranked = ranked[:_TOGETHER]
        if self.budget.trials is not None:
            ranked = ranked[: self.budget.trials - len(self.tries)]
        candidates = [state.after(step) for step in ranked]
        if not candidates:
            state.has_single = False
            return False
        question = {"check": subject.key, "candidates": candidates}
        answers = self.ask(question, lambda: [_plain(one) for one in self.lab.check(subject, candidates)])
        gained = False
        for change, candidate, answer in zip(ranked, candidates, answers, strict=True):
            state.tried.add(frozenset(candidate.items()))
            words = (f"{name}={value}" if value != _FORMULA else f"no {name}" for name, value in change)
            what = f"{subject.about[:40]}: {' '.join(words)}"
            self.tell(f"{len(self.tries)} candidates, {self.spent:.0f} s: {what}")
            if isinstance(answer, str) or answer["word"] != "ok":
                word, _, why = answer.partition(":") if isinstance(answer, str) else (answer["word"], "", answer["why"])
                self.tries.append(Try(subject=state.number, change=change, word=word, ratio=math.nan, why=why.strip()))
                state.note(change, -math.inf, False)
                continue
            state.exact[frozenset(candidate.items())] = bool(answer["exact"])
            gained |= self._race(state, change, state.after(change))
        _, state.has_single = self._ranked(state)
        return gained

    def _ranked(self, state: _State) -> tuple[list[tuple[Change, ...]], bool]:
        """The candidates of a subject for its turn, the most promising first: single choices, or pairs if none of those
        may gain something; and whether there are any such single ones."""
        alike = [one for one in self.states if one.best and one.subject.kind == state.subject.kind and one is not state]
        alike.sort(key=lambda one: _distance(one.subject, state.subject))
        adopted = dict.fromkeys(filter(None, (state.adopted(one.best) for one in alike[:_ALIKE])))
        if adopted:
            return list(adopted), True
        steps = state.candidates()
        gains = {change: self._expected(state, change) for change in {change for step in steps for change in step}}

        def place(step: tuple[Change, ...]) -> tuple[bool, int, float]:
            gain = sum(gains[change] for change in step)
            return gain <= -_NEAR, len(step), -gain

        ranked = sorted(((place(step), step) for step in steps), key=lambda row: row[0])
        together = [step for at, step in ranked if at[:2] == ranked[0][0][:2]]
        return together, bool(ranked) and ranked[0][0][:2] == (False, 1)

    def _expected(self, state: _State, change: Change) -> float:
        """What a choice may gain, as far as that is known."""
        if change in state.gains:
            return state.gains[change]
        if change[1] == _FORMULA:
            return 0.0
        rank, bound = self.model.rank(state.subject, change), state.bound(change)
        return rank if bound is None else min(rank, bound + _BETTER)

    def _race(self, state: _State, change: tuple[Change, ...], candidate: dict[str, int]) -> bool:
        """Time a candidate that is right; whether it is the best from now on.  One that another of the same turn has
        made better was not checked as it is now."""
        subject, together = state.subject, frozenset(candidate.items())
        if together not in state.exact:
            asked = {"check": subject.key, "candidates": [candidate]}
            again = self.ask(asked, lambda: [_plain(one) for one in self.lab.check(subject, [candidate])])[0]
            state.tried.add(together)
            if isinstance(again, str) or again["word"] != "ok":
                word, _, why = again.partition(":") if isinstance(again, str) else (again["word"], "", again["why"])
                self.tries.append(Try(subject=state.number, change=change, word=word, ratio=math.nan, why=why.strip()))
                return False
            state.exact[together] = bool(again["exact"])
        row = self.timed(subject, state.best, candidate, self.plan.race_seconds)
        if isinstance(row, str):
            word, _, why = row.partition(":")
            self.tries.append(Try(subject=state.number, change=change, word=word, ratio=math.nan, why=why.strip()))
            return False
        for one in change:
            if one[1] != _FORMULA:
                self.model.learn(subject, one, -math.log(row["ratio"]) / len(change))
        faster = row["high"] < _GAIN
        state.note(change, -math.log(row["ratio"]), faster)
        word = "faster" if faster else "no gain"
        self.tries.append(Try(subject=state.number, change=change, word=word, ratio=row["ratio"]))
        if faster:
            state.best = candidate
            if any(name in _WAYS for name, _ in change):
                state.left = None  # other choices make a difference now
        return bool(faster)

    def timed(self, subject: Subject, best: Mapping[str, int], candidate: Mapping[str, int], seconds: float) -> Any:
        """A race, as a dictionary; words where there was none."""
        seed = self.plan.seed + len(self.tries)
        sides = {"best": dict(best), "candidate": dict(candidate)}
        question = {"race": subject.key, **sides, "seconds": seconds, "seed": seed}
        answer = self.ask(question, lambda: self.lab.race(subject, best, candidate, seconds, seed))
        return answer if isinstance(answer, str) else answer["Race"]

    def last(self, state: _State, seconds: float) -> Found | None:
        """What was found for a subject, timed once more against the untuned one; None where that is not clear."""
        if not state.best:
            return None
        self.tell(f"once more: {state.subject.about[:60]}")
        row = self.timed(state.subject, {}, state.best, seconds)
        if isinstance(row, str) or not row["high"] < _GAIN:
            return None
        exact = state.exact.get(frozenset(state.best.items()), False)
        return Found(
            subject=state.subject, values=dict(sorted(state.best.items())), gain=1 - row["ratio"],
            seconds=row["seconds"], exact=exact,
        )


def _distance(one: Subject, other: Subject) -> float:
    """How unlike the work of two subjects of a kind is."""
    pairs = ((one.flops, other.flops), (one.bytes, other.bytes))
    return sum(abs(math.log((a + 1) / (b + 1))) for a, b in pairs)


def _cost(subject: Subject) -> float:
    """Seconds that a candidate takes, about."""
    return _CANDIDATE_SECONDS + _RUNS * subject.seconds


def _plain(answer: Check | str) -> Any:
    return answer if isinstance(answer, str) else asdict(answer)


def search(
    subjects: Sequence[Subject], lab: Lab, budget: Budget, plan: Plan, journal: Journal,
    tell: Callable[[str], None] = lambda words: None, clock: Callable[[], float] = time.monotonic,
) -> Result:  # fmt: skip
    """Look for the best choices for all subjects.

    The same answers of the lab give the same result: those that `journal` has are not asked for again.  ExecutionError
    where the journal cannot be written, or the clock goes back; what was measured before is in the journal.
    """
    total = sum(subject.seconds for subject in subjects) or 1.0
    states = [_State(number, one, math.sqrt(one.seconds / total / _cost(one))) for number, one in enumerate(subjects)]
    one = _Search(lab, budget, plan, journal, tell, clock)
    one.states = tuple(states)
    open_ = list(states)
    while open_ and one.goes_on(states):
        state = max(open_, key=lambda state: (state.has_single, state.weight, -state.number))
        gained = one.turn(state)
        state.weight *= 1.0 if gained else _PATIENCE
        if state.left is not None and not state.candidates():
            open_.remove(state)
    seconds = one.last_seconds(states)
    found = [one.last(state, seconds) for state in states]
    return Result(tuple(row for row in found if row is not None), tuple(one.tries), one.spent)
