"""What one replica does, in a process of its own: compile an application, check its numbers, and run it on and on.

Everything that it needs is in a folder, so that a replica that dies takes nothing along.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.codegen.machine import Machine, default_machine, named, without_tiles
from hlotool.driver import compile_module
from hlotool.driver.specialise import bind
from hlotool.evaluate import evaluate
from hlotool.harness.application.batching import Arrays, Case, case_of, with_batch
from hlotool.harness.application.energy import Reading, joules_between, read_energy
from hlotool.harness.application.space import INT8, Configuration
from hlotool.harness.resident import measure_resident
from hlotool.ir import ExecutionError, Module, UnsupportedError, literal
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable
from hlotool.runtime.tuning import Tuning
from hlotool.text.parser import parse

__all__ = [
    "DATABASE", "Application", "Job", "Report", "bound", "error_of", "load_application", "machine_for", "make_case",
    "place_of", "run_replica", "tuning_for",
]  # fmt: skip

_SAMPLES = 2000
"""Times of a replica that are kept."""
_BARRIER_SECONDS = 600.0
DATABASE = "tuning.jsonl"
"""The database of tuned kernels in the folder of an application."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The modules by the names of their entries, as text; the parameters of each that are constants of the program; and
    what has a batch (`batching`)."""

    entries: Mapping[str, str]
    weights: Mapping[str, Mapping[str, npt.NDArray[Any]]]
    over: tuple[str, ...] = ()

    def modules(self) -> dict[str, Module]:
        return {name: bound(parse(text), self.weights[name]) for name, text in self.entries.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A replica's part: `number` of those of a configuration, the processors that it is to stay on, how long it runs,
    and how far results may be off.  `folder` holds the application and its cases, `meeting` is where replicas wait for
    each other."""

    configuration: Configuration
    number: int
    cores: tuple[int, ...]
    folder: str
    meeting: str
    seconds: float
    accuracy: float
    energy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a replica saw: the `error` of its results; unless that is too large, the seconds of some `calls`, how many
    there were in `window` seconds, the energy that all took meanwhile, in joules, and the bytes that a run took at
    most."""

    error: float
    calls: int = 0
    window: float = 0.0
    seconds: tuple[float, ...] = ()
    joules: float | None = None
    peak_bytes: int | None = None


def bound(module: Module, weights: Mapping[str, npt.NDArray[Any]]) -> Module:
    """The module with weights, by the names of parameters, as constants; InputError where one does not fit."""
    return bind(module, {name: literal(array) for name, array in weights.items()})


def place_of(folder: str, precision: str) -> Path:
    """Where the application of a precision is, in its folder: the one in integers has modules of its own."""
    return Path(folder) / (f"application.{INT8}" if precision == INT8 else "application")


def load_application(folder: str, precision: str = "f32") -> Application:
    """The application that a precision begins with; UnsupportedError where there is none of integers."""
    found: Application | str = pickle.loads(place_of(folder, precision).read_bytes())
    if isinstance(found, str):
        raise UnsupportedError(found)
    return found


def machine_for(target: str, threads: int) -> Machine:
    """The processor that libraries are made for: `host` without tile registers, or another one by name; ValueError
    where there is none of that name."""
    machine = without_tiles(default_machine()) if target == "host" else named(target)
    return replace(machine, cores=threads)


def tuning_for(folder: str | Path, tuning: str) -> Tuning:
    """How a configuration compiles: by formulas alone (``off``), or by the database in `folder` and the one that
    hlotool brings along (``read``)."""
    return Tuning(tuning, Path(folder) / DATABASE)


def make_case(folder: str, batch: int, given: Mapping[str, Arrays], seed: int, by_evaluator: bool) -> None:
    """Write the case of a batch: for each entry arguments, and what the unchanged module gives for them by the
    evaluator, or as native code without optional passes."""
    application = load_application(folder)
    cases: dict[str, Case] = {}
    for name, module in application.modules().items():
        run = _evaluated(module) if by_evaluator else _plain(module)
        cases[name] = case_of(module, application.over, batch, given.get(name), seed, run)
    (Path(folder) / f"case{batch}").write_bytes(pickle.dumps(cases))


def _evaluated(module: Module) -> Any:
    return lambda arrays: [np.asarray(array) for array in evaluate(module, arrays)]


def _plain(module: Module) -> Any:
    executable = compile_module(module, pipeline="none")
    return lambda arrays: [np.asarray(array) for array in executable(*arrays)]


def error_of(found: Sequence[npt.NDArray[Any]], wanted: Sequence[npt.NDArray[Any]]) -> float:
    """The least x with |found - wanted| <= x (rms + |wanted|) for all elements, rms being that of the wanted array.

    Integers have to be equal, NaN and infinities to be where they are wanted; else it is infinite.
    """
    return max((_error(np.asarray(a), np.asarray(b)) for a, b in zip(found, wanted, strict=True)), default=0.0)


def _error(found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> float:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    if not found.size:
        return 0.0
    if found.dtype.kind in "biu":
        return 0.0 if np.array_equal(found, wanted) else float("inf")
    wide: Any = np.complex128 if found.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        a, b = found.astype(wide), wanted.astype(wide)
        finite = np.isfinite(b)
        if not np.array_equal(finite, np.isfinite(a)) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return float("inf")
        a, b = a[finite], b[finite]
        if not a.size:
            return 0.0
        scale = np.sqrt(np.mean(np.abs(b) ** 2)) + np.abs(b)
        off = np.abs(a - b)
        return float(np.max(np.where(off == 0, 0.0, off / np.where(scale > 0, scale, np.finfo(np.float64).tiny))))


def run_replica(job: Job) -> Report:
    """Compile, check, meet the other replicas, run.  UnsupportedError where the configuration cannot be made."""
    chosen = job.configuration
    machine = machine_for(chosen.target, chosen.threads)  # as a library has it: a process on few cores sees less cache
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, job.cores)
    application = load_application(job.folder, chosen.precision)
    cases: dict[str, Case] = pickle.loads((Path(job.folder) / f"case{chosen.batch}").read_bytes())
    programs: list[tuple[Executable, Arrays]] = []
    worst = 0.0
    for name, module in application.modules().items():
        changed = with_batch(module, application.over, chosen.batch)
        program = compile_module(
            changed, pipeline=chosen.pipeline, threads=chosen.threads, machine=machine, strict=True,
            tune=tuning_for(job.folder, chosen.tuning),
        )  # fmt: skip
        worst = max(worst, error_of(program(*cases[name].arguments), cases[name].expected))
        programs.append((program, cases[name].arguments))
    said = [one for program, _ in programs for one in program.decisions]
    if chosen.tuning == "read" and not any(one.pass_name == "tuning" and one.action == "note" for one in said):
        raise UnsupportedError("no database has choices for its kernels")
    if not worst <= job.accuracy:
        return Report(error=worst)
    _round(programs)
    _meet(job)
    before = read_energy() if job.energy and job.number == 0 else None
    seconds: list[float] = []
    begin = last = time.perf_counter()
    while last - begin < job.seconds or len(seconds) < 3:
        _round(programs)
        now = time.perf_counter()
        seconds.append(now - last)
        last = now
    joules = None if before is None else joules_between(before, _read())
    peak = _peak(programs, chosen.threads) if job.number == 0 else None
    step = 1 + len(seconds) // _SAMPLES
    return Report(
        error=worst, calls=len(seconds), window=last - begin, seconds=tuple(seconds[::step]), joules=joules,
        peak_bytes=peak,
    )  # fmt: skip


def _read() -> Reading:
    return read_energy()


def _round(programs: Sequence[tuple[Executable, Arrays]]) -> None:
    for program, arguments in programs:
        program(*arguments)


def _meet(job: Job) -> None:
    """Wait until all replicas are here, so that they run at the same time."""
    place = Path(job.meeting)
    (place / f"{job.number}").touch()
    end = time.monotonic() + _BARRIER_SECONDS
    while len(list(place.iterdir())) < job.configuration.replicas:
        if time.monotonic() > end:
            raise ExecutionError("the other replicas did not come")
        time.sleep(0.005)


def _peak(programs: Sequence[tuple[Executable, Arrays]], threads: int) -> int | None:
    """The bytes that the entry that takes the most takes; None where that cannot be measured."""
    found = None
    for program, arguments in programs:
        with suppress(UnsupportedError):
            found = max(found or 0, measure_resident(program, arguments, threads).peak_bytes)
    return found
