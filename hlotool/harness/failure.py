"""What a failure is, and what trying for it answers: the vocabulary of whoever looks for the cause of one.

A trial takes the text of a module and tries for a failure (`hlotool.harness.trials` has those that there are); its
`Outcome` is good, bad with a `Failure`, or undecided, which is neither.  Two failures are the same when they compare
equal: numbers and names, which change while a module is cut down, are no part of that.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import field
from pathlib import PurePath
from typing import Literal, TypeAlias

from hlotool.ir import ExecutionError, HloError, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.manager import PassCrash

__all__ = ["GOOD", "Failure", "Outcome", "Sought", "Trial", "bad", "failure_of", "undecided"]

Kind: TypeAlias = Literal["mismatch", "crash", "error", "exit", "signal", "timeout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The signature of a failure; `message` is for people, and two failures are the same whatever it says.

    ==========  ==========================================================  =================================
    `kind`      what happened                                               `what` tells them apart by
    ==========  ==========================================================  =================================
    mismatch    numbers are not those that the module means                 ``wrong``, ``nan``, ``shape``
    crash       a pass failed, or left an invalid module                    the exception, and who raised it
    error       compiling or running ended with an error                    the exception, and who raised it
    exit        a command ended with the exit code `code`                   the pattern of its message
    signal      native code died of the signal `code`
    timeout     it took longer than the time limit
    ==========  ==========================================================  =================================

    `where` is the pass that failed.  `code` is the exit code of a command, or that with which hlotool would end.
    """

    kind: Kind
    what: str = ""
    where: str = ""
    code: int = 1
    message: str = field(default="", compare=False)

    def __str__(self) -> str:
        words = {
            "mismatch": "wrong numbers",
            "crash": f"pass {self.where} fails",
            "error": "an error",
            "exit": f"exit code {self.code}",
            "signal": f"death by signal {self.code}",
            "timeout": "the time limit",
        }
        return f"{words[self.kind]}: {self.message}" if self.message else words[self.kind]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What trying answers: ``good``, ``bad`` with the failure, or ``undecided``; `why` says the latter in words."""

    verdict: Literal["good", "bad", "undecided"]
    failure: Failure | None = None
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.failure or self.why}" if self.failure or self.why else self.verdict


Trial: TypeAlias = Callable[[str], Outcome]
"""Tries for a failure of the module whose text it gets.  Trials that run in child processes can be pickled."""

GOOD = Outcome("good")


def bad(failure: Failure) -> Outcome:
    return Outcome("bad", failure)


def undecided(why: str) -> Outcome:
    return Outcome("undecided", None, why)


@dataclass(frozen=True, slots=True)
class Sought:
    """A trial that is bad where `trial` shows this very failure; another failure leaves it undecided."""

    trial: Trial
    failure: Failure

    def __call__(self, text: str) -> Outcome:
        return self.judged(self.trial(text))

    def judged(self, outcome: Outcome) -> Outcome:
        """What an outcome of `trial` says of the failure."""
        if outcome.failure is None or outcome.failure == self.failure:
            return outcome
        return undecided(f"another failure: {outcome.failure}")


def failure_of(error: Exception) -> Failure:
    """The failure that an exception of the compiler, or of a run of compiled code, is."""
    if isinstance(error, PassCrash):
        cause = error.__cause__ or error
        said = _one_line(f"{type(cause).__name__}: {cause}")
        return Failure(kind="crash", what=_raised(cause), where=error.pass_.name, code=70, message=said)
    code = 70
    if isinstance(error, HloError):
        code = 4 if isinstance(error, UnsupportedError) else 5 if isinstance(error, ExecutionError) else 3
    elif isinstance(error, (OSError, MemoryError)):
        code = 5
    return Failure(kind="error", what=_raised(error), code=code, message=_one_line(f"{type(error).__name__}: {error}"))


def _raised(error: BaseException) -> str:
    """The type of an exception with the function that raised it, and the codes of its diagnostics."""
    if isinstance(error, HloError):
        return " ".join([type(error).__name__, *dict.fromkeys(row.code for row in error.diagnostics[:1])])
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {PurePath(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    if isinstance(error, RecursionError):
        place = ""  # wherever the stack happened to end
    return type(error).__name__ + place


def _one_line(text: str) -> str:
    return " ".join(text.split()).removesuffix(":")
