"""Asking trials in a child process, several times where they fail only sometimes, and remembering what they said.

What was asked is kept in a file, so that a search which was interrupted goes on where it stood.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, field
from math import ceil, comb, log
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from hlotool.harness.children import ChildDied, Children, TimeLimit, outcome_of
from hlotool.harness.failure import Failure, Outcome, Trial, undecided
from hlotool.ir import ExecutionError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Answers", "Asked", "Chance", "LostError", "Memory", "chance_of"]

_T = TypeVar("_T")


@runtime_checkable
class Asked(Protocol):
    """A trial that is made from this process, so that what it starts ends with it: a command of the user's."""

    def asked(self, text: str, children: Children) -> Outcome:
        """What comes of it for a module; what may die is done in `children`."""
        ...


@dataclass(frozen=True, slots=True)
class Chance:
    """How often something fails that fails only sometimes: `bad` of `tries`.

    `least` is a bound that its probability is above in 95 of 100 cases (Clopper and Pearson, 1934).
    """

    bad: int
    tries: int

    @property
    def least(self) -> float:
        if not self.bad:
            return 0.0
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            tail = sum(
                comb(self.tries, n) * middle**n * (1 - middle) ** (self.tries - n)
                for n in range(self.bad, self.tries + 1)
            )
            low, high = (middle, high) if tail < 0.05 else (low, middle)
        return low

    def tries_for(self, confidence: float) -> int:
        """How many tries without a failure say, with that confidence, that there is none."""
        return max(1, ceil(log(1 - confidence) / log(1 - self.least) - 1e-9))

    def confidence(self, tries: int) -> float:
        """How sure so many tries without a failure are."""
        return 1 - float((1 - self.least) ** tries)


def chance_of(outcomes: list[Outcome]) -> Chance:
    return Chance(sum(outcome.verdict == "bad" for outcome in outcomes), len(outcomes))


class LostError(ExecutionError):
    """The child process died, or took too long."""


@dataclass(slots=True)
class Memory:
    """The answers to one question, by what was tried; `save` writes them, whole or not at all.

    A file about another question, or one that cannot be read, is as none.
    """

    question: dict[str, Any]
    path: Path | None = None
    save: Callable[[Path, str], None] | None = None
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def load(self) -> int:
        """Take what the file holds of this question; how many answers."""
        if self.path is None:
            return 0
        try:
            kept = json.loads(self.path.read_bytes())
            if kept["schema_version"] == 1 and kept["question"] == self.question:
                rows = kept["answers"].items()
                self.answers = {key: dict(row, outcome=_outcome(row["outcome"])) for key, row in rows}
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            self.answers = {}
        return len(self.answers)

    def forget(self) -> None:
        """Remove the file: the question is answered, and a later one is about what may have been mended."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def put(self, key: str, outcome: Outcome, tries: int, failed: int) -> None:
        self.answers[key] = {"outcome": outcome, "tries": tries, "bad": failed}
        if self.path is not None and self.save is not None:
            rows = {key: dict(row, outcome=asdict(row["outcome"])) for key, row in self.answers.items()}
            kept = {"schema_version": 1, "kind": "bisect-state", "question": self.question, "answers": rows}
            self.save(self.path, json.dumps(kept, indent=1) + "\n")


def _outcome(row: dict[str, Any]) -> Outcome:
    if row["verdict"] not in ("good", "bad", "undecided"):
        raise ValueError(row["verdict"])
    return Outcome(row["verdict"], row["failure"] and Failure(**row["failure"]), row["why"])


@dataclass(slots=True)
class Answers:
    """Asks trials about `text` in a child process.

    Once it is known which failure is `sought`, another one leaves a trial undecided.  With `tries`, what does not fail
    so often is good.  `tell` is told what is asked, and what came of it.
    """

    text: str
    children: Children
    memory: Memory
    tell: Callable[[str, Outcome | None], None] = lambda what, outcome: None
    sought: Failure | None = None
    tries: int = 1
    asked: int = 0

    def ask(
        self, key: str, what: str, trial: Trial | Asked, text: str | None = None, *, again: bool = False,
        sure: bool = False,
    ) -> Outcome:  # fmt: skip
        """What `trial` says of the module (or of another `text`); `what` describes it to people.

        What was asked before is not asked again, unless `again` says so; what is `sure` to answer alike is tried once.
        """
        tries = 1 if sure else self.tries
        if text is not None:
            key += " " + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        known = self.memory.answers.get(key)
        enough = known is not None and (known["outcome"].verdict != "good" or known["tries"] >= tries)
        if known is not None and enough and not again:
            self.tell(what, known["outcome"])
            return known["outcome"]  # type: ignore[no-any-return]
        self.tell(what, None)
        outcomes: list[Outcome] = []
        while len(outcomes) < tries and not any(one.verdict == "bad" for one in outcomes):
            outcomes.append(self.once(trial, text))
        return self._keep(key, what, outcomes)

    def often(self, key: str, what: str, trial: Trial | Asked, times: int) -> Chance:
        """How often `trial` fails."""
        known = self.memory.answers.get(key)
        if known is not None and known["tries"] == times:
            self.sought = known["outcome"].failure
            return Chance(known["bad"], times)
        self.tell(what, None)
        outcomes: list[Outcome] = []
        for _ in range(times):
            outcomes.append(self.once(trial))
            if self.sought is None:
                self.sought = outcomes[-1].failure
        self._keep(key, what, outcomes)
        return chance_of(outcomes)

    def once(self, trial: Trial | Asked, text: str | None = None) -> Outcome:
        self.asked += 1
        given = self.text if text is None else text
        if isinstance(trial, Asked):
            outcome = trial.asked(given, self.children)
        else:
            outcome = outcome_of(self.children.submit(trial, given))
        failure, sought = outcome.failure, self.sought
        if failure is None or sought is None or _alike(failure, sought):
            return outcome
        return undecided(f"another failure: {failure}")

    def work(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """The result of `function` on the module, in the child process; LostError where it dies or takes too long."""
        try:
            return self.children.submit(function, self.text, *arguments).result()
        except ChildDied as death:
            raise LostError(f"the child process ended with {death.code}: {death.said}") from None
        except TimeLimit as late:
            raise LostError(f"running the passes takes {late}") from None

    def _keep(self, key: str, what: str, outcomes: list[Outcome]) -> Outcome:
        """The gravest of them: bad, then undecided."""
        order = {"bad": 0, "undecided": 1, "good": 2}
        found = min(outcomes, key=lambda outcome: order[outcome.verdict])
        self.memory.put(key, found, len(outcomes), chance_of(outcomes).bad)
        self.tell(what, found)
        return found


def _alike(failure: Failure, sought: Failure) -> bool:
    """Whether it is the same failure; numbers may be wrong in other ways as more is wrong."""
    return failure == sought or failure.kind == sought.kind == "mismatch"
