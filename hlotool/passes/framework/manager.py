"""The pass manager: how a pipeline of passes runs.

Dumps, timings, verification and the like are instruments: they are told about every pass from outside, and no pass
knows of them.

Most passes have nothing to do most of the time, so two kinds of run are known to change nothing and are left out.
A pass with a class variable `opcodes` works on instructions with these opcodes: a module without any is as it should
be.  And a pass that found nothing to do finds nothing in the same module again.  To instruments such a run looks like
any other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from math import inf
from typing import Protocol

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ExecutionError, HloError, Module, ParseError, VerificationError
from hlotool.ir.shape_checks import ShapeError
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.steps import Fixpoint, Pass, Pipeline, PipelineElement

__all__ = [
    "BUDGET",
    "Instrument",
    "PassCrash",
    "Progress",
    "StopPipeline",
    "budget_of",
    "changes_program",
    "drops_roundings",
    "run_pipeline",
]

BUDGET, _ANYWAY = 50, 400
"""Instructions that a run of a pass may make for each that there is, and for so many more.

Passes are bounded in what they make, not in the time that they take: the same module has to compile to the same code on
a slow machine, or on a busy one.  A pass that goes round and round makes instructions.  Of large models no pass makes
more than two for each; what expands a module of few instructions makes hundreds.
"""


def budget_of(pass_: Pass) -> float:
    """Instructions that the pass may make for each that there is: its own `budget`, else the usual one."""
    budget: float = getattr(pass_, "budget", BUDGET)
    return budget


def changes_program(pass_: Pass) -> bool:
    """Whether the pass makes a program that computes something else."""
    return bool(getattr(pass_, "changes_program", False))


def drops_roundings(pass_: Pass) -> bool:
    """Whether results have excess precision after the pass."""
    return bool(getattr(pass_, "drops_roundings", False))


class Instrument(Protocol):
    """Something that watches passes from outside."""

    def before(self, pass_: Pass, module: Module) -> bool:
        """Called ahead of a pass; False leaves the pass out."""
        ...

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        """Called when a pass has run.  May raise `StopPipeline`."""
        ...


class StopPipeline(Exception):  # noqa: N818
    """Raised by an instrument to end the whole pipeline early, without an error."""


class PassCrash(Exception):  # noqa: N818
    """A pass failed, which is a bug in it: the `run`-th pass of the pipeline, counting from 1.  The cause says how.

    `limit` is the number of rewrites that were allowed; a pass that is `required` cannot be left out.  `module` is the
    input of the whole pipeline; the compiler driver sets it, so that the failure can be reproduced.
    """

    def __init__(self, pass_: Pass, run: int, pipeline: Pipeline, limit: int | None, required: bool = False) -> None:
        super().__init__(f"pass {pass_.name} failed")
        self.pass_, self.run, self.pipeline, self.limit, self.required = pass_, run, pipeline, limit, required
        self.module: Module | None = None


@dataclass(slots=True)
class Progress:
    """Where a run stands, for instruments that want to know: `runs` counts the passes begun.

    `later` holds, for every sequence of steps that is being run, outermost first, those of its steps that come after
    the one that runs now.
    """

    runs: int = 0
    later: list[tuple[PipelineElement, ...]] = field(default_factory=list)

    @property
    def remaining(self) -> Pipeline:
        """What a later run has to do to come to the same end from the module as it is after the pass that runs now."""
        return Pipeline(tuple(step for later in reversed(self.later) for step in later))


def run_pipeline(
    module: Module,
    pipeline: Pipeline,
    log: DecisionLog | None = None,
    instruments: Sequence[Instrument] = (),
    progress: Progress | None = None,
    required: Pipeline | None = None,
) -> bool:
    """Run all steps on `module` in place; whether anything changed.  `progress` is kept up to date for instruments.
    The passes of `required` come behind those of `pipeline`.

    PassCrash where a pass raises anything but an HloError, makes more instructions than its budget, or an instrument
    finds the module invalid after a pass.
    """
    log = DecisionLog() if log is None else log
    whole = pipeline if required is None else Pipeline((pipeline, required))
    runner = _Runner(module, whole, log, tuple(instruments), progress or Progress(), required)
    try:
        with suppress(StopPipeline):
            runner.run_all(whole.steps)
    finally:
        module.allowance = inf
    return runner.changes > 0


class _Runner:
    """One run of a pipeline; `changes` counts the passes that changed something.

    `idle` has the passes that found nothing to do, with `changes` at that time; `opcodes` are those of the module, once
    somebody has asked.
    """

    __slots__ = (
        "changes", "idle", "in_required", "instruments", "log", "module", "opcodes", "pipeline", "progress", "required",
    )  # fmt: skip

    def __init__(
        self,
        module: Module,
        pipeline: Pipeline,
        log: DecisionLog,
        instruments: tuple[Instrument, ...],
        progress: Progress,
        required: Pipeline | None = None,
    ) -> None:
        self.module, self.pipeline, self.log = module, pipeline, log
        self.required, self.in_required = required, False
        self.instruments, self.progress = instruments, progress
        self.changes = 0
        self.idle: dict[tuple[type[Pass], Pass], int] = {}
        self.opcodes: frozenset[str] | None = None
        if module.given_size is None:
            module.given_size = module.instruction_count()

    def run(self, step: PipelineElement, later: tuple[PipelineElement, ...]) -> bool:
        self.progress.later.append(later)
        if isinstance(step, Pipeline):
            before = self.changes
            self.in_required |= step is self.required
            self.run_all(step.steps)
            changed = self.changes > before
        elif isinstance(step, Fixpoint):
            changed = self.fixpoint(step)
        else:
            changed = self.run_pass(step)
        self.progress.later.pop()
        return changed

    def run_all(self, steps: tuple[PipelineElement, ...]) -> None:
        for number, step in enumerate(steps):
            self.run(step, steps[number + 1 :])

    def fixpoint(self, step: Fixpoint) -> bool:
        """Round-robin until every step in a row left the module alone: the last rounds skip what cannot change."""
        quiet, changed = 0, False
        for _ in range(step.limit):
            for number, inner in enumerate(step.steps):
                if self.run(inner, (*step.steps[number + 1 :], step)):
                    quiet, changed = 0, True
                else:
                    quiet += 1
                if quiet >= len(step.steps):
                    return changed
        self.log.note("fixpoint-limit", self.module.entry.name, "still changing at the limit", limit=step.limit)
        return changed

    def run_pass(self, pass_: Pass) -> bool:
        for instrument in self.instruments:
            if not instrument.before(pass_, self.module):
                return False
        self.progress.runs += 1
        self.log.start_pass(pass_.name, self.progress.runs, self.module)
        start = time.perf_counter()
        ran = False
        try:
            changed = ran = self.may_change(pass_)
            if ran:
                size = _ANYWAY + self.module.instruction_count()
                self.module.allowance = inf if self.in_required else budget_of(pass_) * size
                changed = pass_.run(self.module, self.log)
        except (ExecutionError, ParseError, ShapeError, VerificationError) as error:
            raise self.crash(pass_) from error  # the module was valid: it is the pass that made something wrong
        except HloError:
            raise
        except Exception as error:
            raise self.crash(pass_) from error
        if changed:
            self.module.remove_unreachable()  # and callees stand before callers again, as in the text
            self.changes += 1
            self.opcodes = None
        elif ran:
            self.idle[type(pass_), pass_] = self.changes
        self.log.end_pass(changed)
        seconds = time.perf_counter() - start
        for instrument in self.instruments:
            try:
                instrument.after(pass_, self.module, changed, seconds)
            except VerificationError as error:
                raise self.crash(pass_) from error
        return changed

    def may_change(self, pass_: Pass) -> bool:
        """Whether the pass could find anything to do in the module as it is now."""
        wanted: frozenset[str] | None = getattr(pass_, "opcodes", None)
        if wanted is not None:
            if self.opcodes is None:
                self.opcodes = self.module.opcodes()
            if wanted.isdisjoint(self.opcodes):
                return False
        return self.idle.get((type(pass_), pass_)) != self.changes

    def crash(self, pass_: Pass) -> PassCrash:
        return PassCrash(pass_, self.progress.runs, self.pipeline, self.log.limit, self.in_required)
