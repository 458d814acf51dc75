"""What is asked, and what is found."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

from hlotool.analysis.decisions import Decision
from hlotool.harness.bisection.answers import Answers, Asked, Chance
from hlotool.harness.bisection.course import CommandAt, Course, Run, TrialAt
from hlotool.harness.compare import MAX_UNDECIDED
from hlotool.harness.failure import Failure, Outcome, Trial
from hlotool.harness.trials import CommandTrial, PipelineTrial
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache import compiler_identity

__all__ = ["Culprit", "Finding", "Question", "Verdict", "whole_outcome"]

Verdict: TypeAlias = Literal[
    "found", "code-generation", "module", "always", "candidates", "no-failure", "undecided", "unstable"
]
"""``found``: what was looked for.  ``code-generation``: what the passes made is right, the code made of it is wrong.
``module``: it fails on the module as it is, ``always``: with whatever inputs.  ``candidates``: it is one of several,
which could not be told apart.  ``no-failure``, ``undecided``: of the whole.  ``unstable``: answers did not repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A module (its text), a pipeline (without names of ``hlotool.toml``), and how to try for the failure.

    With a `command` that is asked about what the passes made of the module; otherwise `backend` makes code of it, whose
    results for random inputs of `seed`, or for `arguments`, are compared with what the module means.
    """

    text: str
    pipeline: str
    backend: str = "cpu"
    seed: int = 0
    arguments: tuple[npt.NDArray[Any], ...] | None = None
    max_undecided: float = MAX_UNDECIDED
    command: CommandTrial | None = None

    @property
    def course(self) -> Course:
        return Course(self.pipeline, self.command is None and self.backend == "cpu")

    def key(self, what: str) -> dict[str, Any]:
        """What answers to the question depend on: for `Memory`."""
        identity = _digest(json.dumps(compiler_identity(), sort_keys=True))
        given = hashlib.sha256()
        for array in self.arguments or ():
            given.update(repr((str(array.dtype), array.shape)).encode() + array.tobytes())
        return {
            "what": what, "module": _digest(self.text), "pipeline": self.pipeline, "backend": self.backend,
            "seed": self.seed, "arguments": None if self.arguments is None else given.hexdigest(),
            "max_undecided": self.max_undecided, "compiler": identity,
            "command": None if self.command is None else repr(self.command),
        }  # fmt: skip

    def whole(self, pipeline: str | None = None) -> Trial | Asked:
        """Tries for the failure as users meet it, with that pipeline or another one."""
        chosen = self.pipeline if pipeline is None else pipeline
        if self.command is not None:
            return CommandAt(trial=self.command, pipeline=chosen)
        return PipelineTrial(
            pipeline=chosen, backend=self.backend, seed=self.seed, arguments=self.arguments,
            max_undecided=self.max_undecided,
        )  # fmt: skip

    def at(self, judge: str | None, runs: int, rewrites: int | None = None) -> Trial | Asked:
        """Tries the module after so many runs of passes, the last of which may make so many rewrites: by the backend
        `judge`, or, without one, whether that last run fails."""
        if self.command is not None:
            return CommandAt(trial=self.command, pipeline=self.pipeline, passes=runs, rewrites=rewrites)
        return TrialAt(
            pipeline=self.pipeline, backend=judge, seed=self.seed, arguments=self.arguments, passes=runs,
            rewrites=rewrites, max_undecided=self.max_undecided, lowered=self.course.lowered,
        )  # fmt: skip


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A run of a pass, one of `runs`, and the rewrites of it to blame: numbers `first` to `last` of its `total`.

    `decisions` are these rewrites: more than one where a pass makes several in one step, none where it changes the
    module without recording a rewrite.  `before` and `after` are the module without them and with them.  `by_code` says
    that both compute the same, and only the code that is made of `after` is wrong.
    """

    run: Run
    runs: int
    first: int | None = None
    last: int | None = None
    total: int = 0
    decisions: tuple[Decision, ...] = ()
    before: str = ""
    after: str = ""
    by_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What came of a question.

    `failure` is what was looked for; `why` says in words what stood in the way.  `candidates` are runs, or rewrites,
    one of which it is.  `judge` is what tried modules between passes.  `chance` and `confidence` are of failures that
    come sometimes.
    """

    verdict: Verdict
    failure: Failure | None = None
    why: str = ""
    culprit: Culprit | None = None
    candidates: tuple[str, ...] = ()
    judge: str = ""
    pipeline: str = ""
    chance: Chance | None = None
    confidence: float | None = None


def whole_outcome(answers: Answers, question: Question, confidence: float, times: int) -> tuple[Outcome, Chance | None]:
    """Whether the failure is there, and, where it is asked for `times` tries, how often; from then on it is sought.

    What fails sometimes only is good from so many tries on as that confidence takes.
    """
    if times == 1:
        outcome = answers.ask("whole", "the whole pipeline", question.whole())
        answers.sought = outcome.failure
        return outcome, None
    chance = answers.often("whole", f"the whole pipeline, {times} times", question.whole(), times)
    if chance.bad:
        answers.tries = chance.tries_for(confidence)
    return answers.memory.answers["whole"]["outcome"], chance
