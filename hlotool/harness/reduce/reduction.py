"""Reducing a module, from the first trial to the self-checked result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from hlotool.harness.children import ChildDied, Children, TimeLimit, outcome_of
from hlotool.harness.failure import Failure, Outcome, Sought, Trial
from hlotool.harness.jobs import Jobs
from hlotool.harness.reduce.narrow import ahead_of_crash, ahead_of_culprit, fewer_passes, plainer_options
from hlotool.harness.reduce.search import OutOfTime, Search, Step
from hlotool.harness.reduce.strategies import FIRST, LAST, STRATEGIES, Strategy
from hlotool.harness.trials import CommandTrial, PipelineTrial
from hlotool.ir import ExecutionError, HloError
from hlotool.ir.collector import collector_paused
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.manager import PassCrash
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

__all__ = ["Found", "NoFailure", "Reduction", "find_failure", "reduce_text"]

_ROUNDS = (0.2, 0.05, 0.01, 0.0)
"""The share of the edits of one kind that are at least made at once, round by round: first what makes modules small
quickly, and single edits once they are."""


class NoFailure(Exception):  # noqa: N818
    """There is nothing to reduce: `outcome` is what trying the module itself answers."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Found:
    """A failure to reduce: the trial that finds it, and the seconds that it took."""

    trial: Trial
    failure: Failure
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """What became of a module: `text` fails with `failure` when `trial` tries it, as the whole does.

    `before` and `after` count instructions.  `stopped` says why there may be more to leave out: the ``time`` was over,
    or somebody pressed Ctrl-C (``interrupt``).
    """

    text: str
    failure: Failure
    trial: Trial
    before: int
    after: int
    trials: int
    seconds: float
    stopped: Literal["", "time", "interrupt"] = ""


def find_failure(text: str, trials: Sequence[Trial], executor: Executor) -> Found:
    """The failure that the first of `trials` to be bad finds; NoFailure, with the last answer, where none is."""
    for trial in trials:
        begin = time.monotonic()
        outcome = outcome_of(executor.submit(trial, text))
        if outcome.failure is not None:
            return Found(trial, outcome.failure, time.monotonic() - begin)
    raise NoFailure(outcome)


def reduce_text(
    text: str,
    found: Found,
    executor: Executor,
    *,
    width: int = 1,
    seconds: float | None = None,
    patient: bool = False,
    narrow: bool = True,
    strategies: tuple[Strategy, ...] = STRATEGIES,
    seen: Callable[[Step], None] = lambda step: None,
) -> Reduction:
    """Leave out of the module in `text` what the failure that was `found` in it does not need.

    Trials run on `executor`, `width` at a time: `Jobs` or `Children` for those that run compiled code.  The result is
    the same for any `width`.  With `narrow` a PipelineTrial gets fewer passes as well, the module being the one ahead
    of them.  After so many `seconds`, and after KeyboardInterrupt, the best so far is the result; `seen` hears of each
    step.
    Unless one is `patient`, trials that take much longer than the first one are given up.

    ExecutionError where the result, read again, does not fail: a failure that comes and goes.
    """
    begin = time.monotonic()
    trial, patient = found.trial, patient or found.failure.kind == "timeout"
    most = max(_LEAST_SECONDS, _PATIENCE * found.seconds)
    if not patient and isinstance(executor, (Children, Jobs)):
        executor.allow(most)
    if not patient and isinstance(trial, CommandTrial) and trial.timeout is None:
        trial = replace(trial, timeout=most)
    module = parse(text)
    before = module.instruction_count()
    module.remove_unreachable()
    end = None if seconds is None else begin + seconds
    search = Search(module, text, Sought(trial, found.failure), executor, width, seen, end, not patient, 0, set())
    stopped: Literal["", "time", "interrupt"] = ""
    try:
        with collector_paused():
            _run(search, strategies, narrow)
    except OutOfTime:
        stopped = "time"
    except KeyboardInterrupt:
        stopped = "interrupt"
    if stopped != "interrupt":
        _check(search)
    after = parse(search.text).instruction_count()
    return Reduction(
        text=search.text, failure=found.failure, trial=search.sought.trial, before=before, after=after,
        trials=search.trials, seconds=time.monotonic() - begin, stopped=stopped,
    )  # fmt: skip


_LEAST_SECONDS, _PATIENCE = 10.0, 10.0
"""How long a trial may take: so many seconds, or so many times what the first one took."""


def _run(search: Search, strategies: tuple[Strategy, ...], narrow: bool) -> None:
    if narrow and search.sought.failure.kind == "crash":
        _narrow(search, ahead_of_crash)
    size = search.module.instruction_count() + 1
    while search.module.instruction_count() < size:  # halves of halves, which is most of the way
        size = search.module.instruction_count() // 2 + 1
        for strategy in FIRST:
            search.apply(strategy, _ROUNDS[0])
    rounds = list(_ROUNDS)
    while rounds:
        smallest = rounds.pop(0)
        changed = True
        while changed:
            size = search.module.instruction_count()
            changed = sum(search.apply(strategy, smallest) for strategy in strategies) > 0
            if smallest and search.module.instruction_count() > 0.9 * size:
                break
        if narrow and smallest == _ROUNDS[0] and search.sought.failure.kind != "crash":
            _narrow(search, ahead_of_culprit)
        elif narrow and _plainer(search) and not rounds:
            rounds = [smallest]  # a pass may need less with other options
    if narrow and isinstance(search.sought.trial, PipelineTrial):
        trial = fewer_passes(search.sought.trial, search.text, lambda trial, text: _attempt(search, trial, text))
        search.sought = replace(search.sought, trial=trial)
    for strategy in LAST:
        search.apply(strategy, 0.0)


def _narrow(search: Search, find: Callable[..., tuple[PipelineTrial, str] | None]) -> None:
    trial = search.sought.trial
    if not isinstance(trial, PipelineTrial):
        return

    def ask(function: Callable[..., Any], *arguments: Any) -> Any:
        with suppress(HloError, PassCrash, ChildDied, TimeLimit):
            return search.wait(search.executor.submit(function, *arguments))
        return None

    def attempt(trial: Trial, text: str) -> Outcome:
        return _attempt(search, trial, text)

    found = find(trial, search.text, ask, attempt)
    alone, text = (trial, search.text) if found is None else found
    search.sought = replace(search.sought, trial=plainer_options(alone, text, attempt))
    if found is not None:
        module = parse(found[1])
        module.remove_unreachable()
        search.tried.clear()
        search.accept(module, found[1], "passes")


def _plainer(search: Search) -> bool:
    """Take the defaults of options that do not matter, or no longer; whether there were any."""
    trial = search.sought.trial
    if not isinstance(trial, PipelineTrial):
        return False
    found = plainer_options(trial, search.text, lambda trial, text: _attempt(search, trial, text))
    if found == trial:
        return False
    search.sought = replace(search.sought, trial=found)
    search.tried.clear()
    return True


def _attempt(search: Search, trial: Trial, text: str) -> Outcome:
    sought = replace(search.sought, trial=trial)
    search.trials += 1
    return sought.judged(search.outcome(search.executor.submit(sought, text)))


def _check(search: Search) -> None:
    """The result is what it says: it reads back, and fails again."""
    text = print_module(parse(search.text)) if search.changed else search.text
    search.end = None
    again = search.outcome(search.executor.submit(search.sought, text))
    if again.verdict != "bad":
        raise ExecutionError(f"the failure comes and goes: tried once more, the reduced module is {again}")
