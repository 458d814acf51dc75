"""The thread pool that emitted code calls: ``void @hlo_parallel(ptr fn, ptr args, i64 tasks, ptr status)``.

`fn` is a step function ``(ptr args, i64 begin, i64 end)``; `status` is the word of an execution that may be stopped
(`hlotool.codegen.llvm.polling`), or null: whoever waits long for others asks whether to go on meanwhile.  The pool is
LLVM IR like the code it serves (``native/pool.ll``), so forking and joining does not touch the interpreter.  It is
*late-join*: the caller publishes a job and works on it at once; workers that are awake join; when no task is left the
caller waits only for workers that have joined.  A worker that is asleep or not scheduled costs nothing but its help.

Tasks are dealt out by affinity (Markatos and LeBlanc, "Using Processor Affinity in Loop Scheduling on Shared-Memory
Multiprocessors", 1994).  Each thread has a range of neighbouring tasks, always the same part of a job: what one job
leaves in a core's caches the next one finds there.  It takes half of what is left of its range again and again, and
then of what is left of others: few calls, and all threads end at nearly the same time whatever their speeds.

What a fork and join costs is cache lines that go from core to core.  Here that is one line with all of the job, and one
word back: what a thread takes from its own range touches no line of others.

How a job is guarded:

* ``ticket`` numbers the jobs, by twos.  While the fields of ``job`` change it is odd; a worker looks at it before and
  after it reads them.
* A range is one word, the ticket of the last job in which something was taken from it, and how many parts that left.
  With an older ticket the range is whole.  Taking is an exchange of that word.  A job is over when all of its ranges
  are empty, so that who comes too late finds nothing to take.
* A worker says that it is ``in`` a job before it takes, and that it is out of it when there is nothing left to take and
  what it took is done.  The caller, when all ranges are empty, waits for those that are in.
* A worker that has seen a ticket spins on it for a while and then sleeps on it.  It sets its bit in ``asleep``
  before it sleeps.  The caller looks there after it has published a job, and again after its first tasks: there is
  nothing between the two that puts its reading after its writing, as that would take as long as the rest.
* A worker that finds itself on the processor of its caller moves away, where Linux lets it: both are always
  busy, so schedulers leave the two there for seconds, sharing one processor beside an idle one.  The job says
  which processor that is.
* ``busy`` is held by the one caller that has the workers.  Any other call (from a second Python
  thread, or from inside a step) runs its tasks itself, one range after the other.

``hlo_parallel_awake`` is for work so short that waking a worker takes longer: workers get it if they are awake.  Calls
that found none are counted, and one of many wakes them: programs of nothing but short steps are run over and over.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from typing import Literal, TypeAlias

from hlotool.codegen.machine import Machine, host
from hlotool.runtime import callback
from hlotool.runtime.cache import default_cache
from hlotool.runtime.load import Library, load
from hlotool.runtime.native_text import monotonic_clock, native_text
from hlotool.runtime.object_code import compiled
from hlotool.runtime.once import once
from hlotool.runtime.parts import long_bits, part
from hlotool.system import system

__all__ = ["LIBRARY_THREADS", "NAMES", "default_threads", "has_threads", "library_pool", "pool_text", "symbols"]

Sleep: TypeAlias = Literal["futex", "condition", "python"]
"""What threads sleep on: a word, as on Linux; a condition variable of POSIX; locks, as Python has them everywhere."""

NAMES = ("hlo_parallel", "hlo_parallel_awake")
"""Its functions that code calls."""

_SPIN_NANOSECONDS = 70_000
_MOST_THREADS = 256
LIBRARY_THREADS = 64
"""The most threads of a pool that belongs to a caller."""
_PARTS = 64  # of a range
_PATIENCE_MICROSECONDS = 10_000
"""Between two looks after an execution by a caller that sleeps."""
_MISSES = 16  # calls that found no worker awake, of which the last one wakes them
_building = threading.RLock()
_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98}


def default_threads() -> int:
    """Threads per parallel step: ``HLOTOOL_THREADS``, else the processors this process may run on."""
    text = os.environ.get("HLOTOOL_THREADS", "").strip()
    if not text:
        return host().cores
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise ValueError(f"HLOTOOL_THREADS={text!r}: expected a whole number from 1 to 1024")
    return int(text)


def symbols(threads: int | None = None) -> dict[str, int]:
    """What to give `load` for code that calls the pool, with at most `threads` threads at work."""
    with _building:  # of two pools built at once one would be lost, and unloaded while its workers run
        library = _binding(threads or default_threads())
    return {name: library.address(name) for name in NAMES}


@cache
def _binding(threads: int) -> Library:
    """A library whose ``hlo_parallel`` is the pool's, at a fixed number of threads."""
    machine = host()
    if threads <= 1:
        return load(compiled([native_text("pool_serial")], machine, cache=default_cache()))
    text = native_text("pool_threads", THREADS=threads)
    objects = compiled([text], machine, cache=default_cache())
    return load(objects, {"hlo_parallel_n": _pool().address("hlo_parallel_n")})


@once
def _pool() -> Library:
    """The pool itself, loaded once and never unloaded: its threads live until the process ends."""
    machine = host()
    library = load(compiled([pool_text(machine)], machine, cache=default_cache()), callback.symbols())
    reset = ctypes.CFUNCTYPE(None)(library.address("hlo_pool_reset"))
    reset()
    if hasattr(os, "register_at_fork"):
        # The workers are not there in the child, and a job may have been open when it was forked.
        os.register_at_fork(after_in_child=reset)
    return library


def has_threads(triple: str) -> bool:
    """Whether a system has the threads of POSIX, which libraries ask for."""
    return "windows" not in triple and "wasm" not in triple


def pool_text(machine: Machine, sleep: Sleep | None = None) -> str:
    """LLVM IR of the pool of a process, whose threads `sleep` in a way of the system's, or as it is usual there."""
    if sleep is None:
        sleep = "python" if system().portable else _usual_sleep(machine)
    detach, declared = "%detached = call i32 @pthread_detach(i64 %handle)", "declare i32 @pthread_detach(i64)"
    text = _text(machine, sleep, _MOST_THREADS, detach)
    return text + native_text("pool_process", WORDS=_MOST_THREADS // 64, DECLARE="" if sleep == "python" else declared)


def library_pool(name: str, machine: Machine, **values: object) -> tuple[str, int]:
    """LLVM IR of a pool in memory of its caller, whose functions begin with `name`, and how many bytes it takes."""
    text = _text(machine, _usual_sleep(machine), LIBRARY_THREADS, "store i64 %handle, ptr %thread_at")
    size = 128 * (4 + 2 * LIBRARY_THREADS) + 16 + 2 * 256  # what %pool is
    return text + native_text("pool_library", NAME=name, THREADS=LIBRARY_THREADS, **values), size


def _usual_sleep(machine: Machine) -> Sleep:
    """How threads of POSIX sleep."""
    known = "linux" in machine.triple and machine.triple.split("-")[0] in _FUTEX_NUMBERS
    return "futex" if known else "condition"


def _text(machine: Machine, sleep: Sleep, threads: int, keep: str) -> str:
    """A pool of at most so many `threads`, whose handles, where they have some, it keeps by the instruction `keep`."""
    architecture = machine.triple.split("-")[0]
    if sleep == "python":
        rest = native_text("pool_python", LONG=long_bits(machine), PATIENCE=_PATIENCE_MICROSECONDS)
        rest += part("clock", machine)
    else:
        number = {"FUTEX": _FUTEX_NUMBERS[architecture]} if sleep == "futex" else {}
        rest = native_text("pool_posix", KEEP=keep) + native_text(f"pool_{sleep}", **number)
        rest += native_text("clock_posix", MONOTONIC=monotonic_clock(machine))
    pause, declaration = _pause(architecture)
    mode, more = _default_mode(architecture)
    words = threads // 64
    text = native_text(
        "pool", PAUSE=pause, MODE=mode, SPIN=_SPIN_NANOSECONDS, WORDS=words, ROOM=128 - 8 * words, THREADS=threads,
        PARTS=_PARTS, LESS=_PARTS - 1, MISSES=_MISSES,
    )  # fmt: skip
    return declaration + more + text + rest


def _default_mode(architecture: str) -> tuple[str, str]:
    """Instructions that give a thread the usual rounding and denormals, and their declaration: it is born with the mode
    of the thread that made it."""
    if architecture == "x86_64":
        text = "%mode = alloca i32\n  store i32 8064, ptr %mode\n  call void @llvm.x86.sse.ldmxcsr(ptr %mode)"
        return text, "declare void @llvm.x86.sse.ldmxcsr(ptr)\n"
    if architecture in ("aarch64", "arm64"):
        return "call void @llvm.aarch64.set.fpcr(i64 0)", "declare void @llvm.aarch64.set.fpcr(i64)\n"
    return "", ""


def _pause(architecture: str) -> tuple[str, str]:
    """The instruction that tells the processor that this is a spin loop, and its declaration."""
    if architecture == "x86_64":
        return "call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()\n"
    if architecture in ("aarch64", "arm64"):
        return "call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)\n"
    return "fence seq_cst", ""
