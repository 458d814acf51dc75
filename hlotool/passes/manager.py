"""The pass manager: what a pass is, and how a pipeline of passes runs.

A pass is a frozen dataclass with slots.  Its fields are its options, its docstring is its help, and `run` rewrites a
module in place and says whether anything changed.  Dumps, timings, verification and the like are instruments: they
are told about every pass from outside, and no pass knows of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module

__all__ = ["Fixpoint", "Instrument", "Pass", "Pipeline", "Step", "StopPipeline", "run_pipeline"]


@runtime_checkable
class Pass(Protocol):
    """A rewrite of modules."""

    name: ClassVar[str]

    def run(self, module: Module, log: DecisionLog) -> bool:
        """Rewrite `module` in place; whether it changed."""
        ...


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


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """Repeats its steps until none of them changes anything, at most `limit` times."""

    steps: tuple[Step, ...]
    limit: int = 25


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps in order.  `name` is set for the named pipelines, which print as their name."""

    steps: tuple[Step, ...]
    name: str = ""

    def passes(self) -> Iterator[Pass]:
        """The passes in order of first mention, nested ones included."""
        for step in self.steps:
            if isinstance(step, Pipeline):
                yield from step.passes()
            elif isinstance(step, Fixpoint):
                yield from Pipeline(step.steps).passes()
            else:
                yield step

    def __str__(self) -> str:
        from hlotool.passes.pipeline import pipeline_text

        return pipeline_text(self)


Step = Pass | Pipeline | Fixpoint


def run_pipeline(
    module: Module,
    pipeline: Pipeline,
    log: DecisionLog | None = None,
    instruments: Sequence[Instrument] = (),
) -> bool:
    """Run all steps on `module` in place; whether anything changed."""
    log = DecisionLog() if log is None else log
    runner = _Runner(module, log, tuple(instruments))
    try:
        for step in pipeline.steps:
            runner.run(step)
    except StopPipeline:
        pass
    return runner.changes > 0


class _Runner:
    """One run of a pipeline; `changes` counts the passes that changed something."""

    __slots__ = ("changes", "instruments", "log", "module")

    def __init__(self, module: Module, log: DecisionLog, instruments: tuple[Instrument, ...]) -> None:
        self.module, self.log, self.instruments = module, log, instruments
        self.changes = 0

    def run(self, step: Step) -> bool:
        if isinstance(step, Pipeline):
            before = self.changes
            for inner in step.steps:
                self.run(inner)
            return self.changes > before
        if isinstance(step, Fixpoint):
            return self.fixpoint(step)
        return self.run_pass(step)

    def fixpoint(self, step: Fixpoint) -> bool:
        """Round-robin until every step in a row left the module alone: the last rounds skip what cannot change."""
        quiet, changed = 0, False
        for _ in range(step.limit):
            for inner in step.steps:
                if self.run(inner):
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
        self.log.pass_name = pass_.name
        start = time.perf_counter()
        changed = pass_.run(self.module, self.log)
        if changed:
            self.module.remove_unreachable()  # and callees stand before callers again, as in the text
        seconds = time.perf_counter() - start
        self.changes += changed
        for instrument in self.instruments:
            instrument.after(pass_, self.module, changed, seconds)
        return changed
