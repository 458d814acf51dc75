"""Fewer passes: the module as it is ahead of the pass that fails, and that pass alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from typing import Any

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import optimise
from hlotool.harness.failure import Outcome, Trial
from hlotool.harness.reproducer import reproducer
from hlotool.harness.trials import PipelineTrial
from hlotool.ir import HloError, Module
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.instruments import VerifyEach
from hlotool.passes.framework.manager import PassCrash, StopPipeline
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.steps import Pass, pipeline_text
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

__all__ = ["ahead_of_crash", "ahead_of_culprit", "fewer_passes", "plainer_options"]

_MANY = 12
"""Runs of passes are looked for up to two to this power."""

Try = Callable[[Trial, str], Outcome]
"""Tries a text for the failure that is sought, by another trial."""
Ask = Callable[..., Any]
"""Calls a function in a child process."""


def ahead_of_crash(trial: PipelineTrial, text: str, ask: Ask, attempt: Try) -> tuple[PipelineTrial, str] | None:
    """Where a pass crashes: the pass alone, and the module that it crashes on."""
    found = ask(_crash, text, trial)
    return None if found is None else _checked(trial, found, attempt)


def ahead_of_culprit(trial: PipelineTrial, text: str, ask: Ask, attempt: Try) -> tuple[PipelineTrial, str] | None:
    """Where a pass changes numbers, never ends or ends the process: the first with which the failure is there, by
    bisection, and the module ahead of it."""

    def fails(runs: int) -> bool:
        return attempt(replace(trial, passes=runs), text).verdict == "bad"

    runs: Sequence[int] | None = ask(_changing_runs, text, trial)
    if runs is None:  # not even listing them ends well
        last = next((1 << n for n in range(_MANY) if fails(1 << n)), 0)
        runs = range(1, last + 1)
    elif not runs or not fails(runs[-1]):
        return None
    guilty = bisect_left(runs, True, hi=len(runs) - 1, key=fails) if runs else 0
    found = ask(_ahead, text, trial, runs[guilty]) if runs else None
    return None if found is None else _checked(trial, found, attempt)


def fewer_passes(trial: PipelineTrial, text: str, attempt: Try) -> PipelineTrial:
    """As few passes as can be, each run once."""
    names = [pipeline_text(step) for step in parse_pipeline(trial.pipeline).passes()]
    flat = replace(trial, pipeline=",".join(names))
    if attempt(flat, text).verdict != "bad":
        return trial
    size = len(names)
    while size:
        at = 0
        while at < len(names):
            left = names[:at] + names[at + size :]
            if attempt(replace(trial, pipeline=",".join(left) or "none"), text).verdict == "bad":
                names = left
            else:
                at += size
        size = min(size // 2, len(names))
    return replace(trial, pipeline=",".join(names) or "none")


def plainer_options(trial: PipelineTrial, text: str, attempt: Try) -> PipelineTrial:
    """Passes as they are by default, where options do not matter: all of them, else pass by pass, else each option."""
    whole = list(parse_pipeline(trial.pipeline).passes())
    passes = list(whole)
    plain = [type(pass_)() if _has_defaults(pass_) else pass_ for pass_ in passes]

    def taken(number: int, pass_: Pass) -> bool:
        tried = [*passes[:number], pass_, *passes[number + 1 :]]
        if attempt(replace(trial, pipeline=_text(tried)), text).verdict != "bad":
            return False
        passes[number] = pass_
        return True

    if plain != passes and attempt(replace(trial, pipeline=_text(plain)), text).verdict == "bad":
        passes = plain
    for number, (pass_, other) in enumerate(zip(list(passes), plain, strict=True)):
        if pass_ == other or taken(number, other):
            continue
        for row in fields(pass_):  # type: ignore[arg-type]
            if getattr(passes[number], row.name) != row.default:
                with suppress(HloError, ValueError):  # options that do not go together
                    taken(number, replace(passes[number], **{row.name: row.default}))  # type: ignore[type-var]
    return trial if passes == whole else replace(trial, pipeline=_text(passes))


def _text(passes: Sequence[Pass]) -> str:
    return ",".join(map(pipeline_text, passes))


def _has_defaults(pass_: Pass) -> bool:
    return all(row.default is not MISSING for row in fields(pass_))  # type: ignore[arg-type]


def _checked(trial: PipelineTrial, found: tuple[str, str], attempt: Try) -> tuple[PipelineTrial, str] | None:
    text, pipeline = found
    alone = replace(trial, pipeline=pipeline, passes=None, rewrites=None)
    return (alone, text) if attempt(alone, text).verdict == "bad" else None


def _crash(text: str, trial: PipelineTrial) -> tuple[str, str] | None:
    module = parse(text)
    try:
        optimise(module, trial.pipeline, DecisionLog(trial.rewrites), [VerifyEach(check)], strict=True)
    except PassCrash as crash:
        return reproducer(module, crash.pipeline, crash.run, crash.pass_, "", crash.limit), pipeline_text(crash.pass_)
    return None


@dataclass(slots=True)
class _Runs:
    """Notes the numbers of the runs that change something."""

    count: int
    changing: list[int]

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        self.count += 1
        if changed:
            self.changing.append(self.count)


@dataclass(slots=True)
class _Ahead:
    """Stops ahead of the `run`-th run, and notes the pass."""

    run: int
    pass_: Pass | None

    def before(self, pass_: Pass, module: Module) -> bool:
        self.run -= 1
        if self.run == 0:
            self.pass_ = pass_
            raise StopPipeline
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        return None


def _changing_runs(text: str, trial: PipelineTrial) -> list[int] | None:
    watcher = _Runs(0, [])
    try:
        optimise(parse(text), trial.pipeline, DecisionLog(trial.rewrites), [watcher], strict=True)
    except PassCrash:
        return None
    return watcher.changing


def _ahead(text: str, trial: PipelineTrial, run: int) -> tuple[str, str] | None:
    watcher = _Ahead(run, None)
    module = optimise(parse(text), trial.pipeline, DecisionLog(trial.rewrites), [watcher], strict=True)
    return None if watcher.pass_ is None else (print_module(module), pipeline_text(watcher.pass_))
