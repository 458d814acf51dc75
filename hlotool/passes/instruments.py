"""Instruments that come with the pass manager: timing, verification, stopping and leaving passes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hlotool.ir import HloError, Module, VerificationError
from hlotool.passes.manager import Pass, StopPipeline

__all__ = ["ChangeLog", "LeaveOut", "StopAfter", "Timing", "VerifyEach"]


@dataclass(slots=True)
class Timing:
    """Adds up the seconds and the runs of each pass, in order of first run."""

    seconds: dict[str, float] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        self.seconds[pass_.name] = self.seconds.get(pass_.name, 0.0) + seconds
        self.runs[pass_.name] = self.runs.get(pass_.name, 0) + 1


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
class LeaveOut:
    """Leaves out the passes called `names`: to find the one that is to blame."""

    names: frozenset[str]

    def before(self, pass_: Pass, module: Module) -> bool:
        return pass_.name not in self.names

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        return None
