"""Instruments that come with the pass manager: measuring, verification, stopping, and finding the pass to blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from hlotool.ir import HloError, Module, VerificationError
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.manager import Progress, StopPipeline
from hlotool.passes.framework.steps import Pass

__all__ = ["ChangeLog", "PassRun", "Statistics", "StopAfter", "StopBefore", "VerifyEach"]


@dataclass(frozen=True, slots=True)
class PassRun:
    """One run of a pass.  `before` and `after` are what was measured, the same where nothing changed."""

    name: str
    changed: bool
    seconds: float
    before: Mapping[str, int]
    after: Mapping[str, int]


class Statistics:
    """Records every run of a pass: its seconds, and what `measure` says of the module before and after it."""

    def __init__(self, module: Module, measure: Callable[[Module], Mapping[str, int]] = lambda module: {}) -> None:
        self.measure = measure
        self.runs: list[PassRun] = []
        self.now = measure(module)

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        before, self.now = self.now, self.measure(module) if changed else self.now
        self.runs.append(PassRun(pass_.name, changed, seconds, before, self.now))


@dataclass(slots=True)
class ChangeLog:
    """Lists (pass name, changed, instructions after it) for every pass that ran."""

    entries: list[tuple[str, bool, int]] = field(default_factory=list)

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        self.entries.append((pass_.name, changed, module.instruction_count()))


@dataclass(frozen=True, slots=True)
class VerifyEach:
    """Verifies the module after every pass that changed it; a failure names the pass.

    `verify` raises HloError for an invalid module.
    """

    verify: Callable[[Module], None]

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        if not changed:
            return
        try:
            self.verify(module)
        except HloError as error:
            raise VerificationError(f"after pass {pass_.name}: {error.message}", error.diagnostics) from error


@dataclass(slots=True)
class StopAfter:
    """Ends the pipeline after the `count`-th run of the pass `name` (any pass when the name is empty)."""

    name: str = ""
    count: int = 1

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        if self.name in ("", pass_.name):
            self.count -= 1
            if self.count <= 0:
                raise StopPipeline


@dataclass(frozen=True, slots=True)
class StopBefore:
    """Ends the pipeline ahead of the `run`-th pass that it runs, counting from 1."""

    progress: Progress
    run: int

    def before(self, pass_: Pass, module: Module) -> bool:
        if self.progress.runs + 1 >= self.run:
            raise StopPipeline
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        return None
