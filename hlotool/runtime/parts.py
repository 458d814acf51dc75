"""What native code asks of the system: a clock, naps, threads, memory.

It declares nothing of that itself but has a part of LLVM IR appended, of which there are two twins (``*_posix.ll`` and
``*_python.ll`` in ``native``):

=========  ====================================  =========================================================
part       POSIX                                 what Python has on every system, without the interpreter
=========  ====================================  =========================================================
clock      ``clock_gettime``                     the clock of ``time.perf_counter_ns``
nap        ``usleep``                            a lock that is not released, waited for
thread     ``pthread_self``                      ``PyThread_get_thread_ident``
threads    ``pthread_create``, ``pthread_join``  ``PyThread_start_new_thread``
(memory)   ``malloc``, ``free``, ``memcpy``...   ``PyMem_RawMalloc``, ``PyMem_RawFree``, ``ctypes.memmove``
=========  ====================================  =========================================================

Memory is no text: the names are the same, and `imports` says where they are.  Which twin a process has is said by
`hlotool.system`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping

from hlotool.codegen.machine import Machine
from hlotool.runtime.native_text import monotonic_clock, native_text
from hlotool.system import system

__all__ = ["imports", "long_bits", "part", "python_function"]

_FUNCTIONS = (
    "PyThread_start_new_thread", "PyThread_get_thread_ident", "PyThread_allocate_lock", "PyThread_free_lock",
    "PyThread_acquire_lock_timed", "PyThread_release_lock",
)  # fmt: skip
_MEMORY = {"malloc": "PyMem_RawMalloc", "calloc": "PyMem_RawCalloc", "free": "PyMem_RawFree"}
_CLOCK = "PyTime_PerfCounterRaw" if sys.version_info >= (3, 13) else "_PyTime_GetPerfCounter"


def part(name: str, machine: Machine) -> str:
    """LLVM IR of one of the parts above, for code that runs in this process; functions of it are internal.

    ``clock`` gives ``i64 @hlo_clock()`` in nanoseconds, ``nap`` ``void @hlo_nap(i32)`` of microseconds, ``thread``
    ``i64 @hlo_thread()``, a number of the thread that this is; ``threads``, which takes a nap, ``@hlo_start(word,
    function, argument)``, ``@hlo_end(word)`` for the thread to call last, and ``@hlo_join(word)``.
    """
    if not system().portable:
        values = {"MONOTONIC": monotonic_clock(machine)} if name == "clock" else {}
        return native_text(f"{name}_posix", **values)
    if name == "clock":
        return native_text("clock_python" if _CLOCK == "PyTime_PerfCounterRaw" else "clock_older_python")
    if name == "nap":
        return native_text("nap_python")
    bits = long_bits(machine)
    wide = "%number = " + ("add i64 %thread, 0" if bits == 64 else f"zext i{bits} %thread to i64")
    return native_text(f"{name}_python", LONG=bits, **({"WIDEN": wide} if name == "thread" else {}))


def long_bits(machine: Machine) -> int:
    """How wide C's ``long`` is."""
    return 32 if "windows" in machine.triple else 64


def imports() -> Mapping[str, int]:
    """The addresses of what code that this process loads may call without saying where it is.

    Empty where the names are those of the C library, which the linker finds itself.
    """
    here = system()
    if not here.portable:
        return {}
    found = {name: python_function(name) for name in (*_FUNCTIONS, _CLOCK)}
    found |= {name: python_function(own) for name, own in _MEMORY.items()}
    moves, sets = (int(ctypes.cast(own, ctypes.c_void_p).value or 0) for own in (ctypes.memmove, ctypes.memset))
    found |= {"memcpy": moves, "memmove": moves, "memset": sets}
    if here.name == "windows":  # what functions call first that have more than a page of variables
        found["__chkstk"] = int(ctypes.cast(ctypes.CDLL("ntdll").__chkstk, ctypes.c_void_p).value or 0)
    return found


def python_function(name: str) -> int:
    """The address of a function of Python's C API."""
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)
