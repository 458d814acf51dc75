"""The thread pool that emitted code calls: ``void @hlo_parallel(ptr fn, ptr args, i64 tasks)``.

`fn` is a step function ``(ptr args, i64 begin, i64 end)``.  The pool is LLVM IR like the code it
serves, so forking and joining never touches the interpreter.  It is *late-join*: the caller publishes
a job and takes chunks of it at once; workers that are awake check in and take chunks too; when no
chunk is left the caller closes the job and waits only for workers that have checked in.  A worker
that is asleep or not scheduled costs nothing but its help.

Tasks are dealt out by affinity (Markatos and LeBlanc, "Using Processor Affinity in Loop Scheduling on Shared-Memory
Multiprocessors", 1994).  Each thread has a queue of neighbouring tasks, always the same part of a job: what one job
leaves in a core's caches the next one finds there.  It takes half of what is left in its queue again and again, and
then of what is left in others: few chunks, and all threads end at nearly the same time whatever their speeds.

How a job is guarded, all with sequentially consistent atomics (queues need less: they are filled before the job opens):

* ``state`` counts the workers that are checked in, plus OPEN while a job may be joined.  A worker checks in by
  adding one; if OPEN was not set it takes its one back and touches nothing.  The caller closes by
  subtracting OPEN and waits until the count is zero; so a job's fields never change under a worker.
* ``epoch`` changes with every job.  A worker that has seen the epoch spins on it for a while and then
  sleeps on it.  It counts itself in ``sleepers`` before it sleeps and the caller looks there after changing
  the epoch, so that one of the two always notices the other.
* A worker that finds itself on the processor of its caller moves away, where Linux lets it: both are always
  busy, so schedulers leave the two there for seconds, sharing one processor beside an idle one.  ``caller`` says
  which processor that is.
* ``busy`` is held by the one caller that has the workers.  Any other call (from a second Python
  thread, or from inside a step) runs its tasks itself, one range after the other.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

from hlotool.codegen.machine import Machine, host
from hlotool.runtime.cache import compiled, default_cache
from hlotool.runtime.load import Library, load

__all__ = ["default_threads", "pool_text", "symbols"]

_SPIN_NANOSECONDS = 70_000
_QUEUES = 64  # more threads than that share them
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
    """What to give `load` for code that calls ``hlo_parallel``, with at most `threads` threads at work."""
    return {"hlo_parallel": _binding(threads or default_threads()).address("hlo_parallel")}


@cache
def _binding(threads: int) -> Library:
    """A library whose ``hlo_parallel`` is the pool's, at a fixed number of threads."""
    machine = host()
    if threads <= 1 or not _has_threads(machine.triple):
        return load(compiled([_SERIAL], machine, cache=default_cache()))
    text = f"""declare void @hlo_parallel_n(ptr, ptr, i64, i64)
define void @hlo_parallel(ptr %fn, ptr %args, i64 %tasks) nounwind {{
  tail call void @hlo_parallel_n(ptr %fn, ptr %args, i64 %tasks, i64 {threads})
  ret void
}}
"""
    objects = compiled([text], machine, cache=default_cache())
    return load(objects, {"hlo_parallel_n": _pool().address("hlo_parallel_n")})


@cache
def _pool() -> Library:
    """The pool itself, loaded once and never unloaded: its threads live until the process ends."""
    machine = host()
    library = load(compiled([pool_text(machine)], machine, cache=default_cache()))
    reset = ctypes.CFUNCTYPE(None)(library.address("hlo_pool_reset"))
    reset()
    if hasattr(os, "register_at_fork"):
        # The workers are not there in the child, and a job may have been open when it was forked.
        os.register_at_fork(after_in_child=reset)
    return library


def _has_threads(triple: str) -> bool:
    return "windows" not in triple and "wasm" not in triple


_SERIAL = """define void @hlo_parallel(ptr %fn, ptr %args, i64 %tasks) nounwind {
  tail call void %fn(ptr %args, i64 0, i64 %tasks)
  ret void
}
"""


def pool_text(machine: Machine, futex: bool | None = None) -> str:
    """The pool's LLVM IR for `machine`; `futex` False takes a condition variable where Linux has futexes."""
    architecture = machine.triple.split("-")[0]
    if futex is None:
        futex = "linux" in machine.triple and architecture in _FUTEX_NUMBERS
    sleeping = _futex_text(_FUTEX_NUMBERS[architecture]) if futex else _CONDITION
    monotonic = 6 if "apple" in machine.triple or "darwin" in machine.triple else 1
    pause, declaration = _pause(architecture)
    mode, more = _default_mode(architecture)
    replaced = {
        "@PAUSE": pause,
        "@MODE": mode,
        "@MONOTONIC": str(monotonic),
        "@SPIN": str(_SPIN_NANOSECONDS),
        "@MOST": str(_QUEUES),
    }
    text = _POOL
    for name, value in replaced.items():
        text = text.replace(name, value)
    return declaration + more + text + sleeping


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


# Every hot word has a cache line (pair) of its own.  OPEN is 1 << 20.
_POOL = """
@busy = internal global i32 0, align 128
@state = internal global i32 0, align 128
@queues = internal global [@MOST x [16 x i64]] zeroinitializer, align 128
@epoch = internal global i32 0, align 128
@sleepers = internal global i32 0, align 128
@job = internal global { ptr, ptr, i64, i64, i32 } zeroinitializer, align 128
@started = internal global i64 0, align 128
@caller = internal global i32 -1, align 128

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)

define void @hlo_parallel_n(ptr %fn, ptr %args, i64 %tasks, i64 %threads) nounwind {
entry:
  %many = icmp sgt i64 %tasks, 1
  br i1 %many, label %acquire, label %few
few:
  %one = icmp eq i64 %tasks, 1
  br i1 %one, label %serial, label %nothing
nothing:
  ret void
acquire:
  %got = cmpxchg ptr @busy, i32 0, i32 1 seq_cst monotonic
  %mine = extractvalue { i32, i1 } %got, 1
  br i1 %mine, label %own, label %serial
serial:
  call void %fn(ptr %args, i64 0, i64 %tasks)
  ret void
own:
  %useful = call i64 @llvm.smin.i64(i64 %threads, i64 %tasks)
  %helpers = sub i64 %useful, 1
  %have = load i64, ptr @started
  %enough = icmp sge i64 %have, %helpers
  br i1 %enough, label %publish, label %start
start:
  call void @start_workers(i64 %helpers)
  br label %publish
publish:
  %queues = call i64 @llvm.smin.i64(i64 %useful, i64 @MOST)
  %allowed = trunc i64 %helpers to i32
  store ptr %fn, ptr @job
  store ptr %args, ptr getelementptr ({ ptr, ptr, i64, i64, i32 }, ptr @job, i32 0, i32 1)
  store i64 %tasks, ptr getelementptr ({ ptr, ptr, i64, i64, i32 }, ptr @job, i32 0, i32 2)
  store i64 %queues, ptr getelementptr ({ ptr, ptr, i64, i64, i32 }, ptr @job, i32 0, i32 3)
  store i32 %allowed, ptr getelementptr ({ ptr, ptr, i64, i64, i32 }, ptr @job, i32 0, i32 4)
  call void @fill_queues(i64 %tasks, i64 %queues)
  call void @say_where()
  %opened = atomicrmw add ptr @state, i32 1048576 seq_cst
  %before = atomicrmw add ptr @epoch, i32 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %none = icmp eq i32 %asleep, 0
  br i1 %none, label %work, label %wake
wake:
  %count = call i32 @llvm.smin.i32(i32 %asleep, i32 %allowed)
  call void @wake(i32 %count)
  br label %work
work:
  call void @take_chunks(ptr %fn, ptr %args, i64 %tasks, i64 %queues, i64 0)
  %closed = atomicrmw sub ptr @state, i32 1048576 seq_cst
  br label %join
join:
  %tries = phi i32 [ 0, %work ], [ %more, %relax ]
  %left = load atomic i32, ptr @state seq_cst, align 4
  %done = icmp eq i32 %left, 0
  br i1 %done, label %release, label %wait
wait:
  %more = add nuw nsw i32 %tries, 1
  %patient = icmp ult i32 %tries, 2000
  br i1 %patient, label %pause, label %yield
pause:
  @PAUSE
  br label %relax
yield:
  %ignored = call i32 @sched_yield()
  br label %relax
relax:
  br label %join
release:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

; Queue q of n holds the next of the tasks q * tasks / n to (q + 1) * tasks / n - 1.
define internal void @fill_queues(i64 %tasks, i64 %queues) nounwind {
entry:
  br label %each
each:
  %queue = phi i64 [ 0, %entry ], [ %following, %each ]
  %place = getelementptr [16 x i64], ptr @queues, i64 %queue
  %scaled = mul i64 %tasks, %queue
  %first = udiv i64 %scaled, %queues
  store atomic i64 %first, ptr %place monotonic, align 8
  %following = add i64 %queue, 1
  %more = icmp slt i64 %following, %queues
  br i1 %more, label %each, label %leave
leave:
  ret void
}

define internal void @take_chunks(ptr %fn, ptr %args, i64 %tasks, i64 %queues, i64 %own) nounwind {
entry:
  br label %choose
choose:
  %queue = phi i64 [ %own, %entry ], [ %other, %empty ]
  %emptied = phi i64 [ 0, %entry ], [ %one_more, %empty ]
  %following = add i64 %queue, 1
  %place = getelementptr [16 x i64], ptr @queues, i64 %queue
  %scaled = mul i64 %tasks, %following
  %stop = udiv i64 %scaled, %queues
  %first = load atomic i64, ptr %place monotonic, align 8
  br label %look
look:
  %begin = phi i64 [ %first, %choose ], [ %taken, %claim ], [ %next, %run ]
  %left = sub i64 %stop, %begin
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %claim, label %empty
claim:
  %up = add i64 %left, 1
  %half = lshr i64 %up, 1
  %end = add i64 %begin, %half
  %claimed = cmpxchg ptr %place, i64 %begin, i64 %end monotonic monotonic
  %taken = extractvalue { i64, i1 } %claimed, 0
  %mine = extractvalue { i64, i1 } %claimed, 1
  br i1 %mine, label %run, label %look
run:
  call void %fn(ptr %args, i64 %begin, i64 %end)
  %next = load atomic i64, ptr %place monotonic, align 8
  br label %look
empty:
  %one_more = add i64 %emptied, 1
  %last = icmp eq i64 %following, %queues
  %other = select i1 %last, i64 0, i64 %following
  %all = icmp eq i64 %one_more, %queues
  br i1 %all, label %leave, label %choose
leave:
  ret void
}

define internal ptr @worker(ptr %which) nounwind {
entry:
  %number = ptrtoint ptr %which to i64
  %clock = alloca { i64, i64 }
  @MODE
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %epoch, %back ], [ %epoch, %full ]
  %idle_since = call i64 @now(ptr %clock)
  br label %look
look:
  %epoch = load atomic i32, ptr @epoch seq_cst, align 4
  %same = icmp eq i32 %epoch, %seen
  br i1 %same, label %spin, label %called
called:
  call void @keep_apart()
  br label %check_in
spin:
  @PAUSE
  @PAUSE
  @PAUSE
  @PAUSE
  %time = call i64 @now(ptr %clock)
  %spent = sub i64 %time, %idle_since
  %tired = icmp sgt i64 %spent, @SPIN
  br i1 %tired, label %rest, label %look
rest:
  %lying = atomicrmw add ptr @sleepers, i32 1 seq_cst
  call void @sleep_until_other(i32 %seen)
  %rising = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %look
check_in:
  %state = atomicrmw add ptr @state, i32 1 seq_cst
  %open = icmp uge i32 %state, 1048576
  br i1 %open, label %joined, label %full
joined:
  %allowed = load i32, ptr getelementptr ({ ptr, ptr, i64, i64, i32 }, ptr @job, i32 0, i32 4)
  %present = sub i32 %state, 1048576
  %welcome = icmp slt i32 %present, %allowed
  br i1 %welcome, label %help, label %full
help:
  %fn = load ptr, ptr @job
  %args = load ptr, ptr getelementptr ({ ptr, ptr, i64, i64, i32 }, ptr @job, i32 0, i32 1)
  %tasks = load i64, ptr getelementptr ({ ptr, ptr, i64, i64, i32 }, ptr @job, i32 0, i32 2)
  %queues = load i64, ptr getelementptr ({ ptr, ptr, i64, i64, i32 }, ptr @job, i32 0, i32 3)
  %own = urem i64 %number, %queues
  call void @take_chunks(ptr %fn, ptr %args, i64 %tasks, i64 %queues, i64 %own)
  br label %back
back:
  %out = atomicrmw sub ptr @state, i32 1 seq_cst
  br label %idle
full:
  %out_again = atomicrmw sub ptr @state, i32 1 seq_cst
  br label %idle
}

define internal i64 @now(ptr %clock) nounwind {
  %ok = call i32 @clock_gettime(i32 @MONOTONIC, ptr %clock)
  %seconds = load i64, ptr %clock
  %fraction_at = getelementptr i64, ptr %clock, i64 1
  %fraction = load i64, ptr %fraction_at
  %scaled = mul i64 %seconds, 1000000000
  %time = add i64 %scaled, %fraction
  ret i64 %time
}

; Called with @busy held.  A thread that cannot be had is not asked for again: @started counts it as there.
define internal void @start_workers(i64 %wanted) nounwind {
entry:
  %thread = alloca ptr
  %have = load i64, ptr @started
  br label %each
each:
  %number = phi i64 [ %have, %entry ], [ %following, %next_one ]
  %lacking = icmp slt i64 %number, %wanted
  br i1 %lacking, label %create, label %leave
create:
  %following = add i64 %number, 1
  %which = inttoptr i64 %following to ptr
  %error = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %which)
  %made = icmp eq i32 %error, 0
  br i1 %made, label %detach, label %next_one
detach:
  %handle = load ptr, ptr %thread
  %ignored = call i32 @pthread_detach(ptr %handle)
  br label %next_one
next_one:
  br label %each
leave:
  store i64 %number, ptr @started
  ret void
}

; Before the first job, and in the child of a fork, where only the forking thread is left.
define void @hlo_pool_reset() nounwind {
  store i64 0, ptr @started
  store atomic i32 0, ptr @sleepers seq_cst, align 4
  store atomic i32 0, ptr @state seq_cst, align 4
  store atomic i32 0, ptr @busy seq_cst, align 4
  call void @reset_sleep()
  ret void
}

declare i64 @llvm.smin.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
"""


def _futex_text(number: int) -> str:
    """Sleeping on ``epoch`` with Linux futexes (private: FUTEX_WAIT 128, FUTEX_WAKE 129), and moving to other cores.

    A worker may run wherever the process may, but for the processor of its caller.  Processors are the bits of a mask;
    1024 of them are the most that the C library's type has.
    """
    return f"""
declare i64 @syscall(i64, ...)
declare i32 @getpid()
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal void @say_where() nounwind {{
  %here = call i32 @sched_getcpu()
  store atomic i32 %here, ptr @caller monotonic, align 4
  ret void
}}

define internal void @keep_apart() nounwind {{
entry:
  %mask = alloca [16 x i64]
  %there = load atomic i32, ptr @caller monotonic, align 4
  %here = call i32 @sched_getcpu()
  %same = icmp eq i32 %here, %there
  %known = icmp ult i32 %here, 1024
  %together = and i1 %same, %known
  br i1 %together, label %ask, label %leave
ask:
  store [16 x i64] zeroinitializer, ptr %mask
  %process = call i32 @getpid()
  %error = call i32 @sched_getaffinity(i32 %process, i64 128, ptr %mask)
  %failed = icmp slt i32 %error, 0
  br i1 %failed, label %leave, label %choose
choose:
  %byte = lshr i32 %here, 3
  %at = getelementptr i8, ptr %mask, i32 %byte
  %bit = and i32 %here, 7
  %one = shl i32 1, %bit
  %small = trunc i32 %one to i8
  %others = xor i8 %small, -1
  %before = load i8, ptr %at
  %after = and i8 %before, %others
  store i8 %after, ptr %at
  %moved = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask) ; refused where nothing is left
  br label %leave
leave:
  ret void
}}

define internal void @sleep_until_other(i32 %seen) nounwind {{
  %r = call i64 (i64, ...) @syscall(i64 {number}, ptr @epoch, i32 128, i32 %seen, ptr null, ptr null, i32 0)
  ret void
}}

define internal void @wake(i32 %count) nounwind {{
  %r = call i64 (i64, ...) @syscall(i64 {number}, ptr @epoch, i32 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}}

define internal void @reset_sleep() nounwind {{
  ret void
}}
"""


# 256 bytes hold a mutex or a condition variable of every libc.
_CONDITION = """
@mutex = internal global [256 x i8] zeroinitializer, align 16
@condition = internal global [256 x i8] zeroinitializer, align 16
@ready = internal global i32 0

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

define internal void @sleep_until_other(i32 %seen) nounwind {
entry:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %look
look:
  %epoch = load atomic i32, ptr @epoch seq_cst, align 4
  %same = icmp eq i32 %epoch, %seen
  br i1 %same, label %wait, label %leave
wait:
  %w = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %look
leave:
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}

define internal void @wake(i32 %count) nounwind {
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %b = call i32 @pthread_cond_broadcast(ptr @condition)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}

define internal void @say_where() nounwind {
  ret void
}

define internal void @keep_apart() nounwind {
  ret void
}

define internal void @reset_sleep() nounwind {
  %m = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %c = call i32 @pthread_cond_init(ptr @condition, ptr null)
  ret void
}
"""
