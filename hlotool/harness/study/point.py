"""One configuration of the study: ways to train it are checked against each other, then timed in turns.

What is measured are steps, of which each way trains on; an epoch, and the whole training, is computed from them.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.driver import compile_module
from hlotool.harness.bench import Contestant, Started, Timing, measure
from hlotool.harness.op_by_op import op_by_op
from hlotool.harness.profile import Measurement
from hlotool.harness.study.counters import CACHE_MISSES, counted
from hlotool.harness.study.mlp import Configuration, initial_state, training_module
from hlotool.harness.study.peers import Framework, Peer
from hlotool.harness.study.trainers import Trainer, batches, compiled, numpy_step, one_by_one
from hlotool.harness.study.worth import call_seconds
from hlotool.ir import HloError, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["COMPILED", "EAGER", "LABELS", "Effort", "Laboratory", "Point", "Way", "Where", "point_json", "read_point"]

COMPILED, EAGER = "hlotool", "op-by-op"
LABELS = (COMPILED, EAGER, "numpy")
"""What is always timed."""

_LOSS, _WEIGHTS = 1e-3, 2e-2
"""How far losses may lie apart, and weights: relative to how far these have moved since the beginning (norms over an
array).  Adam moves a weight by its rate even where the gradient is nothing but rounding, so that single weights
differ by all of that."""

_TINY = Configuration(1, 3, 2)
_SPREAD, _ATTEMPTS = 1.2, 3
"""Where the interval of a median reaches from one number to more than so many times that, something disturbed the
machine: all ways are timed again, so often at most, and the times count that lie closest together."""
_PROFILED = 16
"""Runs after which a profile begins the training again."""
_COUNTED = 20
"""Steps whose cache misses are counted."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: seconds for each way, in so many rounds, after at most `warmup` seconds; `profile` seconds
    are for where the time goes."""

    rounds: int = 5
    seconds: float = 0.4
    warmup: float = 0.4
    profile: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to train.  `compile_s` are the seconds from nothing to code, zero where operations are ready-made, `step_s`
    is the median of a step with its interval, from so many `samples`; None where `difference` says how its numbers are
    not those of op by op, or why it did not run."""

    label: str
    compile_s: float
    step_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    samples: int = 0
    steady: bool = False
    difference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where a step's time goes, in seconds.  Of the compiled one, by a profile: Python's call, kernels, and what is in
    between.  Op by op: so many calls, each of which takes `eager_call_s` before it computes anything, and the rest.

    Cache misses are of one step, on the calling thread; None where `no_misses` says why they are not counted.
    """

    call_s: float
    kernels_s: float
    between_s: float
    eager_calls: int
    eager_call_s: float
    eager_kernels_s: float
    misses: float | None
    eager_misses: float | None
    no_misses: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A configuration: its ways, the compiled one first, and where the time goes.

    `cached_compile_s` is what compiling takes once the code is in the cache.  The ways were timed `attempts` times:
    more than once where something disturbed the machine.
    """

    configuration: Configuration
    cached_compile_s: float
    attempts: int
    ways: tuple[Way, ...]
    where: Where

    def way(self, label: str) -> Way:
        """The way with that label; KeyError where there is none."""
        return {way.label: way for way in self.ways}[label]

    def relative(self, label: str, with_compile: bool = False) -> float | None:
        """How many times as long as the compiled training takes another one: a step, or all steps and compiling."""
        ours, other = self.way(COMPILED), self.way(label)
        if ours.step_s is None or other.step_s is None:
            return None
        if not with_compile:
            return other.step_s / ours.step_s
        steps = self.configuration.steps
        return (other.compile_s + steps * other.step_s) / (ours.compile_s + steps * ours.step_s)

    def break_even(self, label: str) -> int | None:
        """The steps from which on the compiled training is ahead, compile time included; None: never."""
        ours, other = self.way(COMPILED), self.way(label)
        if ours.step_s is None or other.step_s is None:
            return None
        late, gain = ours.compile_s - other.compile_s, other.step_s - ours.step_s
        return 0 if late <= 0 <= gain else None if gain <= 0 else int(np.ceil(late / gain))


class Laboratory:
    """Measures configurations; `peers` are the processes of other frameworks."""

    def __init__(self, effort: Effort, threads: int | None, peers: Sequence[Framework]) -> None:
        self._effort, self._threads, self._peers, self._warm = effort, threads, peers, False

    def measure(self, configuration: Configuration) -> Point:
        """The point of a configuration."""
        effort, threads = self._effort, self._threads
        with tempfile.TemporaryDirectory() as folder, _cache_in(folder):
            if not self._warm:  # what a process sets up once is nobody's compile time
                Trainer(COMPILED, _TINY, compiled(_TINY, threads)).start()
                for peer in self._peers:
                    peer.warm_up()
                self._warm = True
            module = training_module(configuration)
            contestants: list[Contestant] = [
                Trainer(COMPILED, configuration, compiled(configuration, threads)),
                Trainer(EAGER, configuration, one_by_one(module, threads)),
                Trainer("numpy", configuration, lambda: numpy_step(configuration)),
                *(Peer(process, configuration) for process in self._peers),
            ]
            begun = [_Begun(one) for one in contestants]
            cached = Trainer(COMPILED, configuration, compiled(configuration, threads)).start().compile
            ways, attempts = _ways(configuration, begun, effort)
            eager = next(way for way in ways if way.label == EAGER)
            where = _where(module, configuration, effort, threads, eager)
        return Point(
            configuration=configuration, cached_compile_s=cached, attempts=attempts, ways=tuple(ways), where=where
        )  # fmt: skip


class _Begun:
    """A contestant that has started already; `error` says why it could not."""

    def __init__(self, contestant: Contestant) -> None:
        self.label, self._contestant, self.error = contestant.label, contestant, ""
        try:
            self.started = contestant.start()
        except HloError as error:
            if contestant.label in LABELS:
                raise
            self.error, self.started = str(error), Started(0.0, 0.0, 0.0, ())

    def start(self) -> Started:
        return self.started

    def sample(self, seconds: float, batch: int) -> list[float]:
        return self._contestant.sample(seconds, batch)


def _ways(configuration: Configuration, begun: Sequence[_Begun], effort: Effort) -> tuple[list[Way], int]:
    """The ways, of which those that compute the same are timed, and how often they were."""
    expected = next(one.started.outputs for one in begun if one.label == EAGER)
    first = initial_state(configuration)
    differences = {one.label: one.error or _difference(one.started.outputs, expected, first) for one in begun}
    ready = [one for one in begun if not differences[one.label]]
    attempts: list[list[Timing]] = []
    while not attempts or (len(attempts) < _ATTEMPTS and _spread(attempts[-1]) > _SPREAD):
        attempts.append(measure(ready, effort.rounds, effort.seconds, effort.warmup))
    timings = {timing.label: timing for timing in min(attempts, key=_spread)}
    found = []
    for one in begun:
        seconds = 0.0 if one.label in (EAGER, "numpy") else one.started.compile
        timing = timings.get(one.label)
        if timing is None:
            found.append(Way(label=one.label, compile_s=seconds, difference=differences[one.label]))
            continue
        steady = timing.steady
        found.append(
            Way(
                label=one.label, compile_s=seconds, step_s=steady.median, low_s=steady.low, high_s=steady.high,
                samples=steady.count, steady=timing.warm,
            )
        )  # fmt: skip
    return found, len(attempts)


def _spread(timings: Sequence[Timing]) -> float:
    """The widest interval of a median, its end over its beginning."""
    return max((timing.steady.high / timing.steady.low for timing in timings), default=1.0)


def _difference(
    found: Sequence[npt.NDArray[Any]], expected: Sequence[npt.NDArray[Any]], first: Sequence[npt.NDArray[Any]]
) -> str:
    """How losses or weights differ, in words; nothing where they do not by more than they may."""
    losses = float(np.max(np.abs(found[0] / expected[0] - 1)))
    if not losses <= _LOSS:
        return f"losses lie apart by {losses:.2g} of themselves, more than {_LOSS:g}"
    for number, (one, other, begin) in enumerate(zip(found[1:], expected[1:], first, strict=False)):
        moved = float(np.linalg.norm(other - begin))
        apart = float(np.linalg.norm(one.reshape(other.shape) - other))
        if not apart <= _WEIGHTS * moved:
            kind = "biases" if number % 2 else "weights"
            return f"{kind} of layer {number // 2} lie apart by {apart:.2g}, having moved by {moved:.2g}"
    return ""


def _where(
    module: Module, configuration: Configuration, effort: Effort, threads: int | None, eager: Way
) -> Where:
    count = len(module.entry.parameters) - 2
    bare, probed = (
        compile_module(module, threads=threads, donate=range(count), profiled=profiled) for profiled in (False, True)
    )
    first = initial_state(configuration)
    arguments = [*(one.copy() for one in first), *batches(configuration)[0]]
    measurement = Measurement(bare, probed, arguments, threads)
    end = time.perf_counter() + effort.profile
    while not measurement.runs or time.perf_counter() < end:
        for one, begin in zip(arguments, first, strict=False):  # again and again as the training begins
            np.copyto(one, begin)
        measurement.run(runs=_PROFILED)
    profile = measurement.profile()
    kinds = {"call": 0.0, "kernel": 0.0}
    for step in profile.steps:
        kinds[step.kind] = kinds.get(step.kind, 0.0) + step.seconds
    call = call_seconds(threads, effort.profile / 4)
    one_by_one_ = op_by_op(module, threads)
    calls = sum(i.opcode not in ("parameter", "constant", "tuple", "get-tuple-element") for i in module.entry)
    with counted(CACHE_MISSES) as ours:
        for _ in range(_COUNTED):
            bare.run(*arguments)
    with counted(CACHE_MISSES) as theirs:
        for _ in range(_COUNTED):
            one_by_one_(*arguments)
    return Where(
        call_s=kinds.pop("call"), kernels_s=kinds.pop("kernel"), between_s=sum(kinds.values()), eager_calls=calls,
        eager_call_s=call, eager_kernels_s=max(0.0, (eager.step_s or 0.0) - calls * call),
        misses=None if ours.count is None else ours.count / _COUNTED,
        eager_misses=None if theirs.count is None else theirs.count / _COUNTED,
        no_misses=ours.why_not or theirs.why_not,
    )  # fmt: skip


@contextmanager
def _cache_in(folder: str) -> Iterator[None]:
    """Code is cached in an empty folder meanwhile, so that what is compiled first is compiled."""
    before = os.environ.get("HLOTOOL_CACHE")
    os.environ["HLOTOOL_CACHE"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["HLOTOOL_CACHE"]
        else:
            os.environ["HLOTOOL_CACHE"] = before


def point_json(point: Point) -> dict[str, Any]:
    """The point as JSON has it."""
    return asdict(point)


def read_point(found: Mapping[str, Any]) -> Point:
    """What `point_json` wrote; KeyError, TypeError where it is something else."""
    return Point(
        configuration=Configuration(**found["configuration"]),
        cached_compile_s=found["cached_compile_s"],
        attempts=found["attempts"],
        ways=tuple(Way(**way) for way in found["ways"]),
        where=Where(**found["where"]),
    )
