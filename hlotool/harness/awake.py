"""Time that counts only while this process runs: not while it is stopped, or the machine sleeps.

Clocks of the system go on meanwhile.  So a process that was stopped for an hour would find its budget spent, and that
all which it waits for hangs.  Looking at the clock often tells: a stop is a look that comes much too late.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from types import TracebackType

__all__ = ["Awake", "elapses"]

_EVERY = 0.25
"""Seconds between looks at the clock."""
_LATE = 2.0
"""Seconds that may lie between two: with more, the process was stopped, and this is what counts."""


class Awake:
    """A clock, in seconds, that stands still while the process is stopped; a context, in which it runs.

    It goes back where `clock` does.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._last, self._ran = clock, clock(), 0.0
        self._lock, self._closed = Lock(), Event()
        self._looks = Thread(target=self._look, daemon=True)

    def __enter__(self) -> Awake:
        self._looks.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._looks.join()

    def __call__(self) -> float:
        with self._lock:
            now = self._clock()
            self._ran += min(now - self._last, _LATE)
            self._last = now
            return self._ran

    def _look(self) -> None:
        while not self._closed.wait(_EVERY):
            self()


def elapses(seconds: float, done: Event) -> bool:
    """Wait until so many seconds are over in which the process ran, or until it is `done`; whether they are over."""
    left = seconds
    while left > 0:
        begin = time.monotonic()
        if done.wait(min(left, _EVERY)):
            return False
        left -= min(time.monotonic() - begin, _LATE)
    return True
