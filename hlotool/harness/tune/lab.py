"""What measures for a search: in child processes, so that no candidate takes the search down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Protocol

from hlotool.harness.children import ChildDied, Children, TimeLimit
from hlotool.harness.tune import trial
from hlotool.harness.tune.space import Change
from hlotool.harness.tune.subjects import Subject
from hlotool.harness.tune.trial import Check, Race, Setting, Values
from hlotool.ir import HloError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Answer", "Lab", "Local"]

_TOGETHER = 8
"""Candidates whose code one job writes: the time limit is for a job."""

Answer = Check | Race | str
"""What came of a job; words where there was no answer: the candidate crashed, or took too long."""


class Lab(Protocol):
    """Answers what a search asks."""

    def distinct(self, subject: Subject, changes: Sequence[Change], beside: Values) -> list[Change]:
        """Those of single choices that make a difference beside others."""
        ...

    def check(self, subject: Subject, candidates: Sequence[Values]) -> list[Check | str]:
        """Whether each of several candidates gives right numbers; they may be looked at side by side."""
        ...

    def race(self, subject: Subject, best: Values, candidate: Values, seconds: float, seed: int) -> Race | str:
        """Time a candidate that gives right numbers against the best so far."""
        ...


@dataclass(slots=True)
class Local:
    """A lab on this machine.

    Candidates are timed one at a time in a child of its own.  They are compiled and checked by `checkers`, if given: an
    executor that runs pickled functions, which may be on other machines of the same kind; else in the same child.  What
    takes longer than `limit` seconds is ended.
    """

    setting: Setting
    limit: float = 60.0
    checkers: Executor | None = None
    _child: Children | None = None

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.shutdown()

    def distinct(self, subject: Subject, changes: Sequence[Change], beside: Values) -> list[Change]:
        steps: list[Values] = [beside, *({**beside, name: value} for name, value in changes)]
        found: list[str | None] = []
        for at in range(0, len(steps), _TOGETHER):
            found += self._digests(subject, steps[at : at + _TOGETHER])
        return trial.distinct(found, changes)

    def check(self, subject: Subject, candidates: Sequence[Values]) -> list[Check | str]:
        jobs = [self._start(trial.check, subject, dict(one), self.setting, on=self.checkers) for one in candidates]
        return [self._answer(job) for job in jobs]

    def race(self, subject: Subject, best: Values, candidate: Values, seconds: float, seed: int) -> Race | str:
        job = self._start(trial.race, subject, dict(best), dict(candidate), self.setting, seconds, seed)
        found: Race | str = self._answer(job)
        return found

    def _digests(self, subject: Subject, steps: Sequence[Values]) -> list[str | None]:
        """Digests of the code of candidates; None for one that crashes or hangs when it is asked about alone."""
        found = self._answer(self._start(trial.digests, subject, list(steps), self.setting))
        if not isinstance(found, str):
            return list(found)
        return [None] if len(steps) == 1 else [digest for one in steps for digest in self._digests(subject, [one])]

    def _start(self, function: Callable[..., Any], *arguments: object, on: Executor | None = None) -> Future[Any]:
        if on is None:
            self._child = self._child or Children(1, self.limit)
            on = self._child
        return on.submit(function, *arguments)

    @staticmethod
    def _answer(job: Future[Any]) -> Any:
        """What a job answered, or why it did not."""
        try:
            return job.result()
        except ChildDied as death:
            return f"crashed: the process died of {'signal' if death.code > 0 else 'exit code'} {abs(death.code)}"
        except TimeLimit as late:
            return f"hung: {late}"
        except HloError as error:
            return f"failed: {error}"
