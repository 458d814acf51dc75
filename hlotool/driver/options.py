"""What a compilation is asked for, and the checks of what callers ask for."""

from __future__ import annotations

from dataclasses import field
from operator import index
from typing import Protocol

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import NOTHING_DONATED, Donation
from hlotool.codegen.machine import Machine, default_machine, named
from hlotool.codegen.target import Target
from hlotool.ir import InputError, Module
from hlotool.ir.given import kind_of
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.manager import Instrument
from hlotool.passes.framework.steps import Pipeline
from hlotool.runtime.executable import Executable
from hlotool.runtime.tuning import Tuning, tuning_of

__all__ = ["CompileOptions", "Devices", "checked_count", "checked_limit", "checked_tuning", "chosen_machine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """What every backend is told about a compilation.

    The module goes through `pipeline`, watched by `instruments`, into code for `machine`, made by `target` (None: the
    machine's own), which runs on `threads` (None: as many as there are) and may take `timeout` seconds.  What is
    decided goes into `log`.  `donation` names arguments that may be overwritten.  If `strict`, a part of the compiler
    that fails ends the compilation.  If not `to_run`, what comes of it is looked at only.  If `profiled`, native code
    says how long its steps take.  If not `quick_calls`, native code is called by its address, and seldom from Python.
    `tuning` says which tuned choices are taken (None: none).
    """

    pipeline: Pipeline
    machine: Machine
    target: Target | None = None
    log: DecisionLog = field(default_factory=DecisionLog)
    instruments: tuple[Instrument, ...] = ()
    threads: int | None = None
    timeout: float | None = None
    donation: Donation = NOTHING_DONATED
    strict: bool = True
    to_run: bool = True
    profiled: bool = False
    quick_calls: bool = True
    tuning: Tuning | None = None


class Devices(Protocol):
    """Where the devices of a program are, if not in threads of this process alone."""

    def attach(self, executable: Executable, module: Module, options: str) -> Executable:
        """`executable`, made of `module` with `options`, on these devices."""
        ...


_MOST = 1024
"""Threads, replicas, partitions."""


def checked_count(name: str, count: int | None) -> int | None:
    if count is None:
        return None
    if isinstance(count, bool) or not hasattr(type(count), "__index__") or not 1 <= index(count) <= _MOST:
        raise InputError(f"{name}: expected a whole number from 1 to {_MOST}, not {kind_of(count)}")
    return index(count)


def chosen_machine(machine: Machine | None, cpu: str | None) -> Machine:
    if machine is not None and cpu is not None:
        raise InputError("a program is compiled for one processor: give machine or cpu, not both")
    try:
        return machine or (default_machine() if cpu is None else named(cpu))
    except ValueError as error:
        raise InputError(str(error)) from None


def checked_tuning(tune: str | Tuning | None) -> Tuning:
    if isinstance(tune, Tuning):
        return tune
    if tune is not None and not isinstance(tune, str):
        raise InputError(f"tune: expected a word, not {kind_of(tune)}")
    try:
        return tuning_of(tune)
    except ValueError as error:
        raise InputError(str(error)) from None


def checked_limit(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    number = not isinstance(timeout, (bool, str, bytes)) and hasattr(type(timeout), "__float__")
    if not number or not 0 < float(timeout) < float("inf"):
        raise InputError(f"a time limit is a positive number of seconds, not {kind_of(timeout)}")
    return float(timeout)
