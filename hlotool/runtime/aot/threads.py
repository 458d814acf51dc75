"""Threads for a library: the pool that this process has, too, in memory of whoever calls the library.

It is an object of its own, which asks for POSIX threads: programs that bring their own, or have none, leave it out.
"""

from __future__ import annotations

from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.aot.errors import CODES
from hlotool.runtime.aot.interface import ALIGNMENT
from hlotool.runtime.aot.processors import baseline
from hlotool.runtime.object_code import object_of
from hlotool.runtime.pool import has_threads, library_pool

__all__ = ["Threads", "threads_of"]


@dataclass(frozen=True, slots=True)
class Threads:
    """The object, the functions that it offers, and how many bytes a pool takes."""

    object: bytes
    offered: tuple[str, ...]
    bytes: int


def threads_of(name: str, machine: Machine) -> Threads | None:
    """The threads of library `name`; None where a system has none."""
    if not has_threads(machine.triple):
        return None
    errors = {code: list(CODES).index(code) for code in ("NULL", "MISALIGNED", "SHORT")}
    text, size = library_pool(name, machine, LESS=ALIGNMENT - 1, **errors)
    offered = tuple(f"{name}_threads_{word}" for word in ("start", "run", "run_short", "stop"))
    return Threads(object_of(text, baseline(machine)), offered, size)
