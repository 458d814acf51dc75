"""Native time per instruction: a program with probes runs in turns with the same program without.

Probes (`hlotool.codegen.plan.probes`) take all time of the entry function among them, but what they need themselves.
Where steps run side by side, or several calls share a routine, the time that passed is divided in proportion to the
time that threads worked for each.
What probes cost is the difference between the two programs, which take turns call by call, so that what disturbs the
machine disturbs both alike.  Numbers are medians over the runs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from graphlib import TopologicalSorter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.codegen.plan.probes import Probe
from hlotool.display import shown_by
from hlotool.harness.statistics import Summary, summarise
from hlotool.ir import Instruction, Module, UnsupportedError
from hlotool.ir.brief import one_line
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable
from hlotool.runtime.pool import default_threads
from hlotool.runtime.recorder import Recorder

__all__ = ["Measurement", "Profile", "Step", "shared"]

_FEWEST = 3
_MOST = 2000
"""Runs of each program."""
_MOST_TIMES = 20_000_000
"""Times that are kept, of all probes in all runs."""

Numbers: TypeAlias = npt.NDArray[np.float64]
Call: TypeAlias = Callable[..., tuple[npt.NDArray[Any], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What takes time in a run: of `instruction` its kernel, the runtime's part (``host``), copies of its state
    (``copy``), a loop's control and arithmetic on single elements (``loop``); without one such arithmetic elsewhere
    (``scalars``) or the end of a function (``rest``), of `computation`; or what Python's call takes around the native
    code (``call``): arguments are looked at, results made.

    `count` is how often it runs, `seconds` what passes meanwhile, all times together, `busy` what threads work for
    it, `whole` seconds with all that is in a loop.
    """

    kind: str
    computation: str
    instruction: Instruction | None
    kernel: str
    count: int
    seconds: float
    busy: float
    whole: float

    @property
    def name(self) -> str:
        return self.instruction.name if self.instruction is not None else f"({self.kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Where the time of `module` goes, as code generation got it; `steps` are in the order of the code.

    `bare` are the runs of the program without probes, `probed` of that with, in which the probes themselves took
    `looks` seconds.  `events` are of one run: probe, thread,
    begin and end in nanoseconds since its start; `passed` says how often probes were passed in it, which may be more.
    """

    module: Module
    threads: int
    bare: Summary
    probed: Summary
    looks: float
    steps: tuple[Step, ...]
    probes: tuple[Probe, ...]
    events: npt.NDArray[np.int64]
    passed: npt.NDArray[np.int64]

    def __repr__(self) -> str:
        words = f"{len(self.steps)} steps, {self.bare.median:.3g} s a run, {self.threads} threads"
        return f"Profile('{one_line(self.module.name)}', {words})"

    _repr_html_ = shown_by("profile_html")

    @property
    def seconds(self) -> float:
        """All steps together."""
        return sum(step.seconds for step in self.steps)

    @property
    def overhead(self) -> float:
        """How much longer a run takes with probes, as a share."""
        return self.probed.median / self.bare.median - 1

    @property
    def explained(self) -> float:
        """The sum of the steps relative to a run without probes."""
        return self.seconds / self.bare.median

    def times(self) -> dict[tuple[str, str], float]:
        """Seconds by computation and instruction, for `hlotool.harness.times`."""
        found: dict[tuple[str, str], float] = {}
        for step in self.steps:
            if step.instruction is not None:
                key = step.computation, step.instruction.name
                found[key] = found.get(key, 0.0) + step.seconds
        return found


@dataclass(slots=True)
class Measurement:
    """Runs of two programs of one module, without and with probes, in turns; what there is after any number of them.

    UnsupportedError where there is no native code, or no arrays of one device alone.
    """

    bare: Executable
    probed: Executable
    arguments: Sequence[npt.NDArray[Any]]
    threads: int | None = None
    _bare: list[float] = field(default_factory=list)
    _probed: list[float] = field(default_factory=list)
    _ticks: list[npt.NDArray[np.int64]] = field(default_factory=list)
    _looks: list[npt.NDArray[np.int64]] = field(default_factory=list)
    _kept: list[tuple[float, npt.NDArray[np.int64], npt.NDArray[np.int64]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.probed.program is None or self.probed.recorder is None:
            raise UnsupportedError("there is no native code to profile: the evaluator runs the module")
        if self.probed.devices > 1:
            raise UnsupportedError("a profile is of one device; --replicas 1 --partitions 1 makes it one")

    @property
    def runs(self) -> int:
        """Runs of each program so far."""
        return min(len(self._bare), len(self._ticks))

    def run(self, seconds: float = 1.0, runs: int | None = None) -> None:
        """Go on for so long, or for so many `runs` of each program, after one that is not counted."""
        recorder = self.probed.recorder
        assert recorder is not None
        most = max(_FEWEST, min(_MOST, _MOST_TIMES // max(1, len(recorder.ticks))))
        order, clock = random.Random(0), time.perf_counter
        for executable in (self.bare, self.probed):
            executable(*self.arguments)
        end, done = clock() + seconds, 0
        while (done < runs) if runs is not None else (done < _FEWEST or (clock() < end and done < most)):
            for probed in (True, False) if order.random() < 0.5 else (False, True):
                if probed:
                    self._run_probed(recorder)
                else:
                    begin = clock()
                    self.bare(*self.arguments)
                    self._bare.append(clock() - begin)
            done += 1

    def _run_probed(self, recorder: Recorder) -> None:
        recorder.reset()
        begin = time.perf_counter()
        self.probed(*self.arguments)
        took = time.perf_counter() - begin
        self._probed.append(took)
        self._ticks.append(recorder.ticks)
        self._looks.append(recorder.looks)
        # Events of the run in the middle are wanted; those of three runs around it are enough to keep.
        self._kept.append((took, recorder.events, recorder.counts))
        middle = float(np.median(self._probed))
        self._kept = sorted(self._kept, key=lambda run: abs(run[0] - middle))[:3]

    def profile(self) -> Profile:
        """What the runs so far say; at least one of each is needed."""
        program, recorder, runs = self.probed.program, self.probed.recorder, self.runs
        assert program is not None
        assert program.probes is not None
        assert recorder is not None
        assert runs
        probes, rate = program.probes, recorder.nanoseconds_per_tick()
        count = len(probes)
        own = np.array(self._ticks[:runs], float)[:, :count] * rate * 1e-9
        divided = shared(probes, program.entry, own)
        ahead = [number for number, probe in enumerate(probes) if probe.scope == program.entry]
        looks = np.array(self._looks[:runs], float)[:, ahead].sum(axis=1) * rate * 1e-9
        around = float(np.median(np.array(self._probed[:runs]) - divided.sum(axis=1) - looks))
        _, events, passed = self._kept[0]
        first = events[:, 2].min() if len(events) else 0
        events[:, 2:] = np.round((events[:, 2:] - first) * rate)
        call = Step(
            kind="call", computation=self.probed.module.entry.name, instruction=None, kernel="", count=1,
            seconds=max(0.0, around), busy=max(0.0, around), whole=0.0,
        )  # fmt: skip
        return Profile(
            module=self.probed.module,
            threads=self.threads or default_threads(),
            bare=summarise(self._bare[:runs]),
            probed=summarise(self._probed[:runs]),
            looks=float(np.median(looks)),
            steps=(call, *_steps(probes, np.median(divided, axis=0), np.median(own, axis=0), passed[:count])),
            probes=probes,
            events=events,
            passed=passed[:count],
        )


def shared(probes: Sequence[Probe], entry: str, own: Numbers) -> Numbers:
    """Divide the time of the entry function among its probes and those of the scopes that they open.

    `own` has what each probe took, run by run; so has the result, whose rows add up to the probes of scope `entry`.
    """
    scopes: dict[str, list[int]] = {}
    graph: TopologicalSorter[str] = TopologicalSorter()
    for number, probe in enumerate(probes):
        if probe.scope is not None:
            scopes.setdefault(probe.scope, []).append(number)
            graph.add(probe.scope)
            if probe.opens is not None:
                graph.add(probe.opens, probe.scope)
    result = np.zeros_like(own)
    total = {scope: np.zeros(len(own)) for scope in scopes}
    work = {scope: own[:, numbers].sum(axis=1) for scope, numbers in scopes.items()}
    if entry in scopes:
        total[entry] = work[entry]
    for scope in graph.static_order():
        for number in scopes.get(scope, ()):
            known = work[scope] > 0
            share = np.where(known, own[:, number] / np.where(known, work[scope], 1.0), 0.0) * total[scope]
            opens = probes[number].opens
            if opens in scopes:
                divides = work[opens] > 0
                total[opens] += np.where(divides, share, 0.0)
                share = np.where(divides, 0.0, share)
            result[:, number] = share
    return result


_KIND = {"tasks": "kernel", "call": "kernel", "region": "rest", "span": "loop"}


def _steps(
    probes: Sequence[Probe], seconds: Numbers, own: Numbers, passed: npt.NDArray[np.int64]
) -> tuple[Step, ...]:
    """Probes of one kind and instruction together."""
    rows: dict[tuple[str, str, Instruction | None], list[int]] = {}
    openers: dict[str, list[int]] = {}
    for number, probe in enumerate(probes):
        rows.setdefault((_KIND.get(probe.kind, probe.kind), probe.computation, probe.instruction), []).append(number)
        if probe.opens is not None:
            openers.setdefault(probe.opens, []).append(number)
    found = []
    for (kind, computation, instruction), numbers in rows.items():
        tasks = [n for n in numbers if probes[n].kind == "tasks"]
        spans = [n for n in numbers if probes[n].kind == "span"]
        direct = [n for n in numbers if n not in tasks]
        at = spans or direct or openers.get(probes[numbers[0]].scope or "", [])
        step = Step(
            kind=kind, computation=computation, instruction=instruction,
            kernel=next((probes[n].kernel for n in numbers if probes[n].kernel), ""),
            count=int(sum(passed[n] for n in at)),
            seconds=float(sum(seconds[n] for n in numbers)),
            busy=float(sum(own[n] for n in tasks or [n for n in numbers if n not in spans])),
            whole=float(sum(own[n] for n in spans)),
        )  # fmt: skip
        if step.count:
            found.append(step)
    return tuple(found)

