"""What the probes of one program have seen: how often each was passed, how long it took, and when (`Probe`).

The code is ``native/probes.ll``, loaded once for every program, and writes to arrays of this process.  Its clock is the
processor's counter where Linux itself goes by that, which says that it runs at one rate on all cores; else the clock
that never goes back.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.codegen.machine import Machine, host
from hlotool.runtime.cache import default_cache
from hlotool.runtime.load import load
from hlotool.runtime.native_text import native_text
from hlotool.runtime.object_code import compiled
from hlotool.runtime.parts import part
from hlotool.system import system

__all__ = ["Recorder"]

_WORDS = 8  # of a probe: those of two threads have no line of the caches in common
_EVENT = 4
_CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_LEAST_SPAN = 5_000_000
"""Nanoseconds over which the rate of the clock is measured at least."""

Words: TypeAlias = npt.NDArray[np.int64]


class Recorder:
    """Arrays for `probes` probes, and for `room` events, of which each probe has at most `each` in a run."""

    __slots__ = ("_events", "_head", "_library", "_now", "_probes", "_start")

    def __init__(self, probes: int, room: int = 1 << 16, each: int = 256) -> None:
        machine = host()
        self._library = load(compiled([_text(machine)], machine, cache=default_cache()))
        self._head = np.array([0, room, each], np.int64)
        self._probes = np.zeros((max(1, probes), _WORDS), np.int64)
        self._events = np.zeros((room, _EVENT), np.int64)
        attach = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(self._library.address("hlo_probes"))
        attach(*(array.ctypes.data for array in (self._head, self._probes, self._events)))
        self._now = ctypes.CFUNCTYPE(ctypes.c_int64)(self._library.address("hlo_now"))
        self._start = self._pair()

    @property
    def symbols(self) -> dict[str, int]:
        """What code with probes calls."""
        return {name: self._library.address(name) for name in ("hlo_now", "hlo_mark", "hlo_span")}

    def reset(self) -> None:
        """Forget what was seen; no run may be on."""
        self._head[0] = 0
        self._probes[:] = 0

    @property
    def counts(self) -> Words:
        """How often each probe was passed."""
        return self._probes[:, 0].copy()

    @property
    def ticks(self) -> Words:
        """How long each took, all times together."""
        return self._probes[:, 1].copy()

    @property
    def looks(self) -> Words:
        """How long it took to look at the clock and write that down, which is in the ticks of no probe."""
        return self._probes[:, 2].copy()

    @property
    def events(self) -> Words:
        """Rows of a probe, the thread, and when it began and ended (ticks), in order of their ends, about."""
        return self._events[: min(int(self._head[0]), len(self._events))].copy()

    def nanoseconds_per_tick(self) -> float:
        """The rate of the clock, by what has passed since this object was made."""
        while True:
            ticks, now = self._pair()
            if now - self._start[1] >= _LEAST_SPAN:
                return (now - self._start[1]) / (ticks - self._start[0])
            time.sleep(_LEAST_SPAN * 1e-9)

    def _pair(self) -> tuple[int, int]:
        """The two clocks at one time, of three looks the one that took the least."""
        looks = []
        for _ in range(3):
            before, ticks, after = time.perf_counter_ns(), self._now(), time.perf_counter_ns()
            looks.append((after - before, ticks, (before + after) // 2))
        _, ticks, now = min(looks)
        return ticks, now

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a Recorder is memory that code of this process writes to: it cannot be pickled")


def _text(machine: Machine) -> str:
    """The code for this machine."""
    counter = machine.architecture == "x86_64" and _source() == "tsc"
    clock = native_text("clock_tsc") if counter else part("clock", machine)
    return native_text("probes") + part("thread", machine) + clock


def _source() -> str:
    """What Linux takes the time from."""
    if system().portable:
        return ""
    try:
        return _CLOCK_SOURCE.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
