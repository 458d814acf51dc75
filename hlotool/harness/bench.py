"""Timing programs against each other: compile, first and steady runs apart, variants taking turns.

After Chen and Revels (Robust benchmarking in noisy environments, 2016) short calls are timed in batches; after
Kalibera and Jones (Rigorous benchmarking in reasonable time, 2013) runs are warmed up until they are steady, and the
rounds of all variants interleave in random order, so that what disturbs the machine disturbs all alike.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hlotool.harness.statistics import Summary, summarise
from hlotool.lazy_dataclass import dataclass

__all__ = ["Contestant", "Native", "Started", "Timing", "measure", "take_turns"]

_BATCH_SECONDS = 50e-6
"""What one clock reading should cover at least."""
_MOST_SAMPLES = 2000
"""Samples of one round that are kept."""


@dataclass(frozen=True, slots=True)
class Started:
    """What happened before the steady state, in seconds; `outputs` are those of the first run."""

    parse: float
    compile: float
    first: float
    outputs: tuple[npt.NDArray[Any], ...]


class Contestant(Protocol):
    """A program to be timed."""

    label: str

    def start(self) -> Started:
        """Compile it, and run it once."""
        ...

    def sample(self, seconds: float, batch: int) -> list[float]:
        """Run for so long, in batches of calls; the seconds that one call takes, for each batch."""
        ...


@dataclass(slots=True)
class Timing:
    """A contestant's results: `samples` are seconds per call in the steady state, each of `batch` calls; `warm` is
    whether that state was reached."""

    label: str
    started: Started
    warm: bool = False
    batch: int = 1
    samples: list[float] = field(default_factory=list)

    @property
    def steady(self) -> Summary:
        return summarise(self.samples)


class Native:
    """A program of this process: `compile` makes a callable of the text, `arguments` are its inputs.

    `overwritten` tells which arguments that callable writes to: every call gets copies of them, made before the time
    is taken.
    """

    def __init__(
        self,
        label: str,
        parse: Callable[[], Any],
        compile_: Callable[[Any], Callable[..., tuple[npt.NDArray[Any], ...]]],
        arguments: Sequence[npt.NDArray[Any]],
        overwritten: Callable[[Any], Sequence[int]] = lambda run: (),
    ) -> None:
        self.label, self._parse, self._compile, self._arguments = label, parse, compile_, tuple(arguments)
        self._overwritten = overwritten
        self._run: Callable[..., tuple[npt.NDArray[Any], ...]] | None = None
        self._lost: Sequence[int] = ()  # numbers of arguments that are gone after a call

    def start(self) -> Started:
        clock = time.perf_counter
        begin = clock()
        module = self._parse()
        parsed = clock()
        self._run = self._compile(module)
        compiled = clock()
        self._lost = self._overwritten(self._run)
        (arguments,) = self._calls(1)
        ready = clock()
        outputs = self._run(*arguments)
        return Started(parsed - begin, compiled - parsed, clock() - ready, outputs)

    def sample(self, seconds: float, batch: int) -> list[float]:
        run, calls, clock = self._run, self._calls(batch), time.perf_counter
        assert run is not None
        found = []
        end = clock() + seconds
        while True:
            for number in self._lost:
                for arguments in calls:
                    np.copyto(arguments[number], self._arguments[number])
            begin = clock()
            for arguments in calls:
                run(*arguments)
            now = clock()
            found.append((now - begin) / batch)
            if now >= end:
                return found

    def _calls(self, count: int) -> list[list[npt.NDArray[Any]]]:
        """Arguments for so many calls."""
        return [
            [array.copy() if number in self._lost else array for number, array in enumerate(self._arguments)]
            for _ in range(count)
        ]


def measure(
    contestants: Sequence[Contestant], rounds: int, seconds: float, warmup: float, seed: int = 0
) -> list[Timing]:
    """Start the contestants and time them: `seconds` of steady runs for each, in `rounds` turns, after at most `warmup`
    seconds."""
    timings = [Timing(c.label, c.start()) for c in contestants]
    take_turns(contestants, timings, rounds, seconds, warmup, seed)
    return timings


def take_turns(
    contestants: Sequence[Contestant], timings: Sequence[Timing], rounds: int, seconds: float, warmup: float,
    seed: int = 0,
) -> None:  # fmt: skip
    """Time contestants that were started, as `measure` does, into their `timings`."""
    order = random.Random(seed)
    for contestant, timing in zip(contestants, timings, strict=True):
        timing.warm = _warm_up(contestant, warmup)
        once = min(contestant.sample(0.0, 1) + contestant.sample(0.0, 1))
        timing.batch = max(1, round(_BATCH_SECONDS / max(once, 1e-9)))
    turns = list(range(len(contestants)))
    for _ in range(rounds):
        order.shuffle(turns)
        for turn in turns:
            found = contestants[turn].sample(seconds / rounds, timings[turn].batch)
            timings[turn].samples += found[:: 1 + len(found) // _MOST_SAMPLES]


def _warm_up(contestant: Contestant, seconds: float) -> bool:
    """Run until three medians in a row lie within two per cent of each other; whether that came before the time."""
    end = time.perf_counter() + seconds
    medians: list[float] = []
    while time.perf_counter() < end:
        medians.append(summarise(contestant.sample(seconds / 20, 1)).median)
        last = medians[-3:]
        if len(last) == 3 and max(last) <= 1.02 * min(last):
            return True
    return False
