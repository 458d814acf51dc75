"""Cache misses as the processor counts them, of the calling thread: Linux's perf_event_open (2), where the kernel, its
settings and the processor (virtual ones often not) have it."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from hlotool.lazy_dataclass import dataclass
from hlotool.system import system

__all__ = ["CACHE_MISSES", "PAGE_FAULTS", "Counter", "Event", "counted"]

_NUMBER = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
"""Of the system call, by machine."""
_SIZE = 112
"""Of its record, as of version 5 of that."""
_USER_ONLY = 1 << 5 | 1 << 6  # exclude_kernel, exclude_hv
_WHY = {
    errno.ENOENT: "the processor does not count them, as virtual ones often do not",
    errno.EACCES: "/proc/sys/kernel/perf_event_paranoid does not allow it",
    errno.EPERM: "this process may not ask the kernel for them",
    errno.ENOSYS: "this kernel has no performance counters",
}


@dataclass(frozen=True, slots=True)
class Event:
    """What can be counted: its type and number for the kernel, and its name in words."""

    kind: int
    number: int
    name: str


CACHE_MISSES = Event(0, 3, "cache misses")
PAGE_FAULTS = Event(1, 2, "page faults")
"""The kernel counts these itself: they are there wherever it may be asked."""


@dataclass(slots=True)
class Counter:
    """How much was counted, or why nothing was (`why_not`)."""

    count: int | None = None
    why_not: str = ""


@contextmanager
def counted(event: Event) -> Iterator[Counter]:
    """Counts `event` while the block runs, in this thread, what the kernel does for it left out."""
    found = Counter()
    descriptor = _open(event, found)
    try:
        yield found
    finally:
        if descriptor is not None:
            found.count = int.from_bytes(os.read(descriptor, 8), "little")
            os.close(descriptor)


def _open(event: Event, found: Counter) -> int | None:
    number = _NUMBER.get(platform.machine())
    if system().name != "linux" or system().forced or number is None:
        found.why_not = "this system has no performance counters that hlotool knows"
        return None
    record = struct.pack("IIQQQQQ", event.kind, _SIZE, event.number, 0, 0, 0, _USER_ONLY).ljust(_SIZE, b"\0")
    library = ctypes.CDLL(None, use_errno=True)
    descriptor: int = library.syscall(number, ctypes.c_char_p(record), 0, -1, -1, 0)
    if descriptor < 0:
        code = ctypes.get_errno()
        found.why_not = _WHY.get(code, os.strerror(code))
        return None
    return descriptor
