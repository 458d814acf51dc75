"""What the passes of a pipeline do to a module, run by run, and the module in the middle of that.

Passes are deterministic: a module after so many runs of passes is had by running them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy.typing as npt

from hlotool.analysis.costs import Costs
from hlotool.analysis.decisions import Decision, DecisionLog
from hlotool.codegen.machine import default_machine
from hlotool.codegen.target import target_of
from hlotool.driver import compile_module
from hlotool.driver.optimise import optimised
from hlotool.harness.children import ChildDied, Children, TimeLimit
from hlotool.harness.failure import GOOD, Failure, Outcome, bad, failure_of, undecided
from hlotool.harness.inputs import inputs_of, random_arrays
from hlotool.harness.trials import CommandTrial, PipelineTrial
from hlotool.ir import HloError, Module, clone_module
from hlotool.ir.collector import collector_paused
from hlotool.ir.depth import room
from hlotool.ir.devices import topology_of
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.instruments import VerifyEach
from hlotool.passes.framework.manager import Instrument, PassCrash, Progress, StopPipeline, run_pipeline
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.steps import Pass, Pipeline, pipeline_text
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

__all__ = ["CommandAt", "Course", "Run", "TrialAt", "rewrites_at", "run_behind", "runs_of", "text_at"]

Rows: TypeAlias = list[list[npt.NDArray[Any]]]
"""Arrays of each device."""


@dataclass(frozen=True, slots=True)
class Course:
    """A pipeline (its text); with `lowered` also what code generation for this processor needs behind it, and passes go
    by what work costs there."""

    pipeline: str
    lowered: bool = False

    @property
    def required(self) -> Pipeline | None:
        return parse_pipeline("lowering") if self.lowered else None

    @property
    def costs(self) -> Costs | None:
        return target_of(default_machine()).costs if self.lowered else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The `number`-th run of a pass, counting from 1.  `text` is the pass with its options; `rewrites` it recorded,
    behind the `before` of those ahead of it; `failure` is how it crashed."""

    number: int
    name: str
    text: str
    changed: bool
    before: int
    rewrites: int
    failure: Failure | None = None


@dataclass(slots=True)
class _Recorder:
    """Notes every run."""

    log: DecisionLog
    progress: Progress
    runs: list[Run] = field(default_factory=list)
    rewrites: int = 0

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        self.note(pass_, changed)

    def note(self, pass_: Pass, changed: bool, failure: Failure | None = None) -> None:
        before, self.rewrites = self.rewrites, self.log.rewrites
        self.runs.append(
            Run(
                number=self.progress.runs, name=pass_.name, text=pipeline_text(pass_), changed=changed, before=before,
                rewrites=self.rewrites - before, failure=failure,
            )
        )  # fmt: skip


@dataclass(slots=True)
class _StopAhead:
    """Ends the pipeline after so many runs, and keeps the pass that comes next."""

    progress: Progress
    runs: int
    next: Pass | None = None

    def before(self, pass_: Pass, module: Module) -> bool:
        if self.progress.runs == self.runs:
            self.next = pass_
            raise StopPipeline
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        return None


def runs_of(text: str, course: Course) -> list[Run]:
    """All runs of passes on a module; the last one failed where a pass crashes or leaves an invalid module."""
    log, progress = DecisionLog(), Progress()
    recorder = _Recorder(log, progress)
    try:
        _run(_read(text), course, log, progress, [VerifyEach(check), recorder])
    except PassCrash as crash:
        recorder.note(crash.pass_, True, failure_of(crash))
    return recorder.runs


def run_behind(text: str, course: Course, runs: int) -> Run | None:
    """The run that comes behind so many others, of which no more is known than the pass; None where there is none."""
    log, progress = DecisionLog(), Progress()
    stop = _StopAhead(progress, runs)
    _run(_read(text), course, log, progress, [stop])
    if stop.next is None:
        return None
    name, options = stop.next.name, pipeline_text(stop.next)
    return Run(number=runs + 1, name=name, text=options, changed=True, before=log.rewrites, rewrites=0)


def text_at(text: str, course: Course, runs: int | None, rewrites: int | None = None) -> str:
    """The text of the module after so many runs of passes (None: all), the last of which may make so many rewrites."""
    return print_module(_at(text, course, runs, rewrites)[0])


def rewrites_at(text: str, course: Course, runs: int, rewrites: int | None = None) -> list[Decision]:
    """What the last of so many runs of passes does when it may make so many rewrites."""
    try:
        log = _at(text, course, runs, rewrites)[1]
    except _Stopped as stopped:
        log = stopped.log
    return [decision for decision in log if decision.action == "rewrite"]


class _Stopped(Exception):  # noqa: N818
    """A pass failed; `log` is what it had recorded, and the cause how."""

    def __init__(self, log: DecisionLog) -> None:
        super().__init__()
        self.log = log


def _at(
    text: str, course: Course, runs: int | None, rewrites: int | None, verify: bool = True
) -> tuple[Module, DecisionLog]:
    """The module, and what the last run (None: all runs) did to it; it need not be verified for who does so anyway."""
    if runs is None:
        log = DecisionLog()
        return _run(_read(text), course, log, Progress(), [VerifyEach(check)]), log
    if runs == 0:
        return _read(text), DecisionLog()
    before, pass_, required = _ahead(text, course, runs - 1)
    module, log = clone_module(before), DecisionLog(rewrites)
    alone, instruments = Pipeline((pass_,)), [VerifyEach(check)] if verify else []
    try:
        with room(module), collector_paused():
            if required:
                run_pipeline(module, Pipeline(()), log, instruments, required=alone)
            else:
                run_pipeline(module, alone, log, instruments)
    except PassCrash as crash:
        raise _Stopped(log) from crash
    return module, log


@lru_cache(maxsize=1)  # the search for a rewrite asks for the same module over and over
def _ahead(text: str, course: Course, runs: int) -> tuple[Module, Pass, bool]:
    """The module after so many runs, the pass that comes next, and whether it is one that code generation needs."""
    log, progress = DecisionLog(), Progress()
    stop = _StopAhead(progress, runs)
    module = _run(_read(text), course, log, progress, [stop])
    assert stop.next is not None
    return module, stop.next, course.lowered and progress.later[0] == ()


def _run(
    module: Module, course: Course, log: DecisionLog, progress: Progress, instruments: Sequence[Instrument]
) -> Module:
    with room(module), collector_paused():
        return optimised(
            module, parse_pipeline(course.pipeline), course.required, log, instruments, progress, True,
            costs=course.costs,
        )  # fmt: skip


@lru_cache(maxsize=1)
def _parsed(text: str) -> Module:
    module = parse(text)
    check(module)
    return module


def _read(text: str) -> Module:
    return clone_module(_parsed(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialAt(PipelineTrial):
    """Tries the module after the first `passes` runs of passes, the last of which may make `rewrites` rewrites (None:
    all): by `backend`, without which the failure of the last pass itself is sought.  `lowered`: see `Course`."""

    lowered: bool = False

    def __call__(self, text: str) -> Outcome:
        assert self.passes is not None
        try:
            alone = self.backend is None
            module = _at(text, Course(self.pipeline, self.lowered), self.passes, self.rewrites, verify=alone)[0]
            if self.backend is None:
                return GOOD
            executable = compile_module(module, self.backend, "none", strict=True)
            rows = executable.run_devices(self._rows(text), None)
        except _Stopped as stopped:
            return bad(failure_of(stopped.__cause__))  # type: ignore[arg-type]
        except Exception as error:
            return bad(failure_of(error))
        return self._judged(text, [list(row) for row in rows])

    def _rows(self, text: str) -> Rows:
        return _random_rows(text, self.seed) if self.arguments is None else [list(self.arguments)]


@lru_cache(maxsize=1)
def _random_rows(text: str, seed: int) -> Rows:
    module = _read(text)
    inputs = inputs_of(module)
    return [random_arrays(inputs, seed, device) for device in range(topology_of(module).devices)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAt:
    """Asks `trial` about the module after the first `passes` runs of passes (None: all of them): see `TrialAt`."""

    trial: CommandTrial
    pipeline: str
    passes: int | None = None
    rewrites: int | None = None

    def asked(self, text: str, children: Children) -> Outcome:
        course = Course(self.pipeline)
        try:
            at = children.submit(_text_or_why, text, course, self.passes, self.rewrites).result()
        except (ChildDied, TimeLimit) as error:
            return undecided(f"no module to ask about: {type(error).__name__}: {error}")
        return self.trial(at) if isinstance(at, str) else at


def _text_or_why(text: str, course: Course, runs: int | None, rewrites: int | None) -> str | Outcome:
    """The text of the module, or why there is none."""
    try:
        return text_at(text, course, runs, rewrites)
    except _Stopped as stopped:
        cause: BaseException | None = stopped.__cause__
    except (HloError, PassCrash) as error:
        cause = error
    return undecided(f"no module to ask about: {failure_of(cause)}" if isinstance(cause, Exception) else "")
