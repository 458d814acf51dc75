"""The thread pool that emitted code calls: ``void @hlo_parallel(ptr fn, ptr args, i64 tasks, ptr status)``.

`fn` is a step function ``(ptr args, i64 begin, i64 end)``; `status` is the word of an execution that may be stopped
(`hlotool.codegen.llvm.polling`), or null: whoever waits long for others asks whether to go on meanwhile.  The pool is
LLVM IR like the code it serves, so forking and joining does not touch the interpreter.  It is *late-join*: the caller
publishes a job and works on it at once; workers that are awake join; when no task is left the caller waits only for
workers that have joined.  A worker that is asleep or not scheduled costs nothing but its help.

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

from hlotool.codegen.machine import Machine, host
from hlotool.runtime import callback
from hlotool.runtime.cache import default_cache
from hlotool.runtime.load import Library, load
from hlotool.runtime.object_code import compiled

__all__ = ["default_threads", "pool_text", "symbols"]

_SPIN_NANOSECONDS = 70_000
_MOST_THREADS = 256
_PARTS = 64  # of a range
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
    return {name: library.address(name) for name in ("hlo_parallel", "hlo_parallel_awake")}


@cache
def _binding(threads: int) -> Library:
    """A library whose ``hlo_parallel`` is the pool's, at a fixed number of threads."""
    machine = host()
    if threads <= 1 or not _has_threads(machine.triple):
        return load(compiled([_SERIAL], machine, cache=default_cache()))
    text = f"""declare void @hlo_parallel_n(ptr, ptr, i64, ptr, i64, i1)
define void @hlo_parallel(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {{
  tail call void @hlo_parallel_n(ptr %fn, ptr %args, i64 %tasks, ptr %status, i64 {threads}, i1 true)
  ret void
}}
define void @hlo_parallel_awake(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {{
  tail call void @hlo_parallel_n(ptr %fn, ptr %args, i64 %tasks, ptr %status, i64 {threads}, i1 false)
  ret void
}}
"""
    objects = compiled([text], machine, cache=default_cache())
    return load(objects, {"hlo_parallel_n": _pool().address("hlo_parallel_n")})


@cache
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


def _has_threads(triple: str) -> bool:
    return "windows" not in triple and "wasm" not in triple


_SERIAL = """define void @hlo_parallel(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {
  tail call void %fn(ptr %args, i64 0, i64 %tasks)
  ret void
}
define void @hlo_parallel_awake(ptr %fn, ptr %args, i64 %tasks, ptr %status) nounwind {
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
        "@PAUSE": pause, "@MODE": mode, "@MONOTONIC": str(monotonic), "@SPIN": str(_SPIN_NANOSECONDS),
        "@WORDS": str(_MOST_THREADS // 64), "@LESS": str(_PARTS - 1),
        "@THREADS": str(_MOST_THREADS), "@PARTS": str(_PARTS), "@MISSES": str(_MISSES),
    }  # fmt: skip
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


# Every hot word has a cache line (pair) of its own: see `%job`, `%range` (a word, and the job that the worker is in).
# Ranges are numbered by thread, and 0 is the caller.  A range's word is a ticket times 2^16, and parts.
_POOL = """
; ticket, function, its arguments, tasks, tasks of a part, threads, the caller's processor
%job = type { i64, ptr, ptr, i64, i64, i64, i32 }
%range = type { i64, i64, [112 x i8] }
%line = type { i64, [120 x i8] }

@busy = internal global i32 0, align 128
@job = internal global %job zeroinitializer, align 128
@ranges = internal global [@THREADS x %range] zeroinitializer, align 128
@outs = internal global [@THREADS x %line] zeroinitializer, align 128
@asleep = internal global [@WORDS x i64] zeroinitializer, align 128
@started = internal global i64 0, align 128
@missed = internal global i32 0

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @sched_yield()
declare i32 @hlo_poll(ptr, ptr)
declare i32 @clock_gettime(i32, ptr)

define void @hlo_parallel_n(ptr %fn, ptr %args, i64 %tasks, ptr %status, i64 %most, i1 %wakes) nounwind {
entry:
  %many = icmp sgt i64 %tasks, 1
  br i1 %many, label %acquire, label %few
few:
  %one = icmp eq i64 %tasks, 1
  br i1 %one, label %serial, label %nothing
nothing:
  ret void
acquire:
  %got = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %got, 1
  br i1 %mine, label %own, label %serial
serial:
  call void %fn(ptr %args, i64 0, i64 %tasks)
  ret void
own:
  %asked = call i64 @llvm.smin.i64(i64 %most, i64 %tasks)
  %threads = call i64 @llvm.smin.i64(i64 %asked, i64 @THREADS)
  %helpers = sub i64 %threads, 1
  %have = load i64, ptr @started
  %enough = icmp sge i64 %have, %helpers
  %resting = call i1 @any_asleep(i64 %threads)
  %awake = xor i1 %resting, true
  %ready = and i1 %enough, %awake
  %go = or i1 %ready, %wakes
  br i1 %go, label %begin, label %miss
miss:
  %before = load i32, ptr @missed
  %misses = add i32 %before, 1
  %often = icmp sge i32 %misses, @MISSES
  %kept = select i1 %often, i32 0, i32 %misses
  store i32 %kept, ptr @missed
  br i1 %often, label %begin, label %alone
alone:
  store atomic i32 0, ptr @busy release, align 4
  br label %serial
begin:
  br i1 %enough, label %publish, label %start
start:
  call void @start_workers(i64 %helpers)
  br label %publish
publish:
  %rounded = add i64 %tasks, %helpers
  %share = udiv i64 %rounded, %threads
  %filled = add i64 %share, @LESS
  %part = udiv i64 %filled, @PARTS
  %end = call i64 @start_of(i64 1, i64 %tasks, i64 %threads)
  %whole = call i64 @parts_of(i64 0, i64 %end, i64 %part)
  %half = call i64 @half(i64 %whole)
  %left = sub i64 %whole, %half
  %old = load i64, ptr @job
  %odd = or i64 %old, 1
  %ticket = add i64 %odd, 1
  %shifted = shl i64 %ticket, 16
  %word = or i64 %shifted, %left
  store atomic i64 %word, ptr @ranges monotonic, align 8
  store atomic i64 %odd, ptr @job monotonic, align 8
  fence release
  store atomic ptr %fn, ptr getelementptr (%job, ptr @job, i32 0, i32 1) monotonic, align 8
  store atomic ptr %args, ptr getelementptr (%job, ptr @job, i32 0, i32 2) monotonic, align 8
  store atomic i64 %tasks, ptr getelementptr (%job, ptr @job, i32 0, i32 3) monotonic, align 8
  store atomic i64 %part, ptr getelementptr (%job, ptr @job, i32 0, i32 4) monotonic, align 8
  store atomic i64 %threads, ptr getelementptr (%job, ptr @job, i32 0, i32 5) monotonic, align 8
  call void @say_where()
  store atomic i64 %ticket, ptr @job release, align 8
  call void @wake_some(i64 %threads)
  %reach = mul i64 %half, %part
  %first = call i64 @llvm.smin.i64(i64 %reach, i64 %end)
  call void %fn(ptr %args, i64 0, i64 %first)
  call void @wake_some(i64 %threads)
  call void @work(i64 0, i64 %ticket, ptr %fn, ptr %args, i64 %tasks, i64 %part, i64 %threads)
  br label %others
others:
  %r = phi i64 [ 1, %publish ], [ %r1, %out ]
  %waits = icmp slt i64 %r, %threads
  br i1 %waits, label %look, label %release
look:
  %left_already = call i1 @await(i64 %r, i64 %ticket, i64 1, ptr null)
  br i1 %left_already, label %out, label %ask
ask:
  %in_at = getelementptr [@THREADS x %range], ptr @ranges, i64 0, i64 %r, i32 1
  %in = load atomic i64, ptr %in_at acquire, align 8
  %joined = icmp eq i64 %in, %ticket
  br i1 %joined, label %join, label %out
join:
  call void @await(i64 %r, i64 %ticket, i64 0, ptr %status)
  br label %out
out:
  %r1 = add i64 %r, 1
  br label %others
release:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

; Where range %r begins.
define internal i64 @start_of(i64 %r, i64 %tasks, i64 %threads) nounwind {
  %before = mul i64 %tasks, %r
  %start = udiv i64 %before, %threads
  ret i64 %start
}

define internal i64 @parts_of(i64 %start, i64 %end, i64 %part) nounwind {
  %length = sub i64 %end, %start
  %more = add i64 %length, %part
  %rounded = sub i64 %more, 1
  %parts = udiv i64 %rounded, %part
  ret i64 %parts
}

define internal i64 @half(i64 %left) nounwind {
  %more = add i64 %left, 1
  %half = lshr i64 %more, 1
  ret i64 %half
}

; Whether worker %r is out of a job; with a limit (not 0) only so many looks.
define internal i1 @await(i64 %r, i64 %ticket, i64 %limit, ptr %status) nounwind {
entry:
  %watched = icmp ne ptr %status, null
  %at = getelementptr [@THREADS x %line], ptr @outs, i64 0, i64 %r
  br label %look
look:
  %tries = phi i64 [ 0, %entry ], [ %more, %relax ]
  %out = load atomic i64, ptr %at acquire, align 8
  %done = icmp eq i64 %out, %ticket
  br i1 %done, label %leave, label %wait
wait:
  %more = add nuw nsw i64 %tries, 1
  %enough = icmp eq i64 %more, %limit
  br i1 %enough, label %leave, label %stay
stay:
  %patient = icmp ult i64 %tries, 2000
  br i1 %patient, label %pause, label %yield
pause:
  @PAUSE
  br label %relax
yield:
  %ignored = call i32 @sched_yield()
  %low = and i64 %tries, 255
  %often = icmp eq i64 %low, 0
  %due = and i1 %often, %watched
  br i1 %due, label %poll, label %relax
poll:
  %told = call i32 @hlo_poll(ptr %status, ptr null)
  br label %relax
relax:
  br label %look
leave:
  ret i1 %done
}

; Take from range %own, then from the others, until there is nothing left.  Workers leave it to the caller to look at
; ranges of one part: all that is taken from such a one is its owner's, or the owner is not there.
define internal void @work(i64 %own, i64 %ticket, ptr %fn, ptr %args, i64 %tasks, i64 %part, i64 %threads) nounwind {
entry:
  %all = mul i64 %part, %threads
  %single = icmp sge i64 %all, %tasks
  %worker = icmp ne i64 %own, 0
  %only = and i1 %single, %worker
  %count = select i1 %only, i64 1, i64 %threads
  br label %ranges
ranges:
  %n = phi i64 [ 0, %entry ], [ %n1, %next ]
  %r = phi i64 [ %own, %entry ], [ %r1, %next ]
  %some = icmp slt i64 %n, %count
  br i1 %some, label %range, label %leave
range:
  ; the caller gives a worker that is about to end a moment: a look at its range would take the line from it
  %first = icmp eq i64 %n, 0
  %polite = or i1 %first, %worker
  br i1 %polite, label %look, label %moment
moment:
  %out = call i1 @await(i64 %r, i64 %ticket, i64 2, ptr null)
  br i1 %out, label %next, label %look
look:
  %start = call i64 @start_of(i64 %r, i64 %tasks, i64 %threads)
  %following = add i64 %r, 1
  %end = call i64 @start_of(i64 %following, i64 %tasks, i64 %threads)
  %whole = call i64 @parts_of(i64 %start, i64 %end, i64 %part)
  %at = getelementptr [@THREADS x %range], ptr @ranges, i64 0, i64 %r
  br label %again
again:
  %word = load atomic i64, ptr %at acquire, align 8
  %seen = lshr i64 %word, 16
  %over = icmp ugt i64 %seen, %ticket
  br i1 %over, label %next, label %count_parts
count_parts:
  %begun = icmp eq i64 %seen, %ticket
  %low = and i64 %word, 65535
  %left = select i1 %begun, i64 %low, i64 %whole
  %empty = icmp eq i64 %left, 0
  br i1 %empty, label %next, label %take
take:
  %half = call i64 @half(i64 %left)
  %rest = sub i64 %left, %half
  %shifted = shl i64 %ticket, 16
  %new = or i64 %shifted, %rest
  %took = cmpxchg ptr %at, i64 %word, i64 %new acq_rel acquire
  %mine = extractvalue { i64, i1 } %took, 1
  br i1 %mine, label %run, label %again
run:
  %gone = sub i64 %whole, %left
  %skipped = mul i64 %gone, %part
  %from = add i64 %start, %skipped
  %length = mul i64 %half, %part
  %reach = add i64 %from, %length
  %to = call i64 @llvm.smin.i64(i64 %reach, i64 %end)
  call void %fn(ptr %args, i64 %from, i64 %to)
  %last = icmp eq i64 %rest, 0
  br i1 %last, label %next, label %again
next:
  %n1 = add i64 %n, 1
  %up = add i64 %r, 1
  %wraps = icmp eq i64 %up, %threads
  %r1 = select i1 %wraps, i64 0, i64 %up
  br label %ranges
leave:
  ret void
}

; Whether a worker is asleep of those that help `threads` - 1 of them.
define internal i1 @any_asleep(i64 %threads) nounwind {
entry:
  br label %look
look:
  %at = phi ptr [ @asleep, %entry ], [ %at1, %more ]
  %left = phi i64 [ %threads, %entry ], [ %left1, %more ]
  %word = load atomic i64, ptr %at monotonic, align 8
  %last = icmp slt i64 %left, 64
  %count = and i64 %left, 63
  %bit = shl i64 1, %count
  %low = sub i64 %bit, 1
  %mask = select i1 %last, i64 %low, i64 -1
  %found = and i64 %word, %mask
  %any = icmp ne i64 %found, 0
  %left1 = sub i64 %left, 64
  %none = icmp sle i64 %left1, 0
  %done = or i1 %any, %none
  br i1 %done, label %leave, label %more
more:
  %at1 = getelementptr i64, ptr %at, i64 1
  br label %look
leave:
  ret i1 %any
}

define internal void @wake_some(i64 %threads) nounwind {
entry:
  %any = call i1 @any_asleep(i64 %threads)
  br i1 %any, label %call, label %leave
call:
  call void @wake(i64 %threads)
  br label %leave
leave:
  ret void
}

define internal ptr @worker(ptr %number) nounwind {
entry:
  %clock = alloca { i64, i64 }
  @MODE
  %own = ptrtoint ptr %number to i64
  %in_at = getelementptr [@THREADS x %range], ptr @ranges, i64 0, i64 %own, i32 1
  %out_at = getelementptr [@THREADS x %line], ptr @outs, i64 0, i64 %own
  %quotient = lshr i64 %own, 6
  %asleep_at = getelementptr [@WORDS x i64], ptr @asleep, i64 0, i64 %quotient
  %place = and i64 %own, 63
  %bit = shl i64 1, %place
  %others = xor i64 %bit, -1
  br label %idle
idle:
  %known = phi i64 [ 0, %entry ], [ %ticket, %join ]
  %idle_since = call i64 @now(ptr %clock)
  br label %look
look:
  %seen = phi i64 [ %known, %idle ], [ %seen, %again ], [ %ticket, %whole ]
  %looks = phi i32 [ 0, %idle ], [ %looks1, %again ], [ %looks, %whole ]
  %ticket = load atomic i64, ptr @job acquire, align 8
  %same = icmp eq i64 %ticket, %seen
  %low = and i64 %ticket, 1
  %changing = icmp ne i64 %low, 0
  %nothing = or i1 %same, %changing
  br i1 %nothing, label %spin, label %called
spin:
  @PAUSE
  %more = add i32 %looks, 1
  %sixteenth = and i32 %more, 15
  %due = icmp eq i32 %sixteenth, 0
  br i1 %due, label %watch, label %again
watch:
  %time = call i64 @now(ptr %clock)
  %spent = sub i64 %time, %idle_since
  %tired = icmp sgt i64 %spent, @SPIN
  br i1 %tired, label %rest, label %again
rest:
  %lying = atomicrmw or ptr %asleep_at, i64 %bit seq_cst
  call void @sleep_until_other(i64 %ticket, i64 %own)
  %rising = atomicrmw and ptr %asleep_at, i64 %others seq_cst
  br label %again
again:
  %looks1 = phi i32 [ %more, %spin ], [ %more, %watch ], [ 0, %rest ], [ %looks, %called ]
  br label %look
called:
  %fn = load atomic ptr, ptr getelementptr (%job, ptr @job, i32 0, i32 1) monotonic, align 8
  %args = load atomic ptr, ptr getelementptr (%job, ptr @job, i32 0, i32 2) monotonic, align 8
  %tasks = load atomic i64, ptr getelementptr (%job, ptr @job, i32 0, i32 3) monotonic, align 8
  %part = load atomic i64, ptr getelementptr (%job, ptr @job, i32 0, i32 4) monotonic, align 8
  %threads = load atomic i64, ptr getelementptr (%job, ptr @job, i32 0, i32 5) monotonic, align 8
  fence acquire
  %still = load atomic i64, ptr @job monotonic, align 8
  %stable = icmp eq i64 %still, %ticket
  br i1 %stable, label %whole, label %again
whole:
  %wanted = icmp slt i64 %own, %threads
  br i1 %wanted, label %join, label %look
join:
  store atomic i64 %ticket, ptr %in_at monotonic, align 8
  call void @work(i64 %own, i64 %ticket, ptr %fn, ptr %args, i64 %tasks, i64 %part, i64 %threads)
  store atomic i64 %ticket, ptr %out_at release, align 8
  call void @keep_apart()
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
  %own = add i64 %number, 1
  %name = inttoptr i64 %own to ptr
  %error = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %name)
  %made = icmp eq i32 %error, 0
  br i1 %made, label %detach, label %next_one
detach:
  %handle = load ptr, ptr %thread
  %ignored = call i32 @pthread_detach(ptr %handle)
  br label %next_one
next_one:
  %following = add i64 %number, 1
  br label %each
leave:
  store i64 %number, ptr @started
  ret void
}

; Before the first job, and in the child of a fork, where only the forking thread is left and the job that may have been
; open is nobody's.
define void @hlo_pool_reset() nounwind {
  store i64 0, ptr @started
  store [@WORDS x i64] zeroinitializer, ptr @asleep
  %old = load i64, ptr @job
  %odd = or i64 %old, 1
  store atomic i64 %odd, ptr @job seq_cst, align 8
  store atomic i32 0, ptr @busy seq_cst, align 4
  call void @reset_sleep()
  ret void
}

declare i64 @llvm.smin.i64(i64, i64)
"""


def _futex_text(number: int) -> str:
    """Sleeping on the low half of the ticket with Linux futexes, and moving to other cores.

    Workers sleep with a bit of their own (FUTEX_WAIT_BITSET and FUTEX_WAKE_BITSET, private: 137 and 138), so that only
    those are woken that are wanted, or some more of many.  A worker may run wherever the process may, but for the
    processor of its caller.  Processors are bits of a mask; 1024 are the most that the C library's type has.
    """
    return f"""
declare i64 @syscall(i64, ...)
declare i32 @getpid()
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal void @say_where() nounwind {{
  %here = call i32 @sched_getcpu()
  store atomic i32 %here, ptr getelementptr (%job, ptr @job, i32 0, i32 6) monotonic, align 4
  ret void
}}

define internal void @keep_apart() nounwind {{
entry:
  %mask = alloca [16 x i64]
  %there = load atomic i32, ptr getelementptr (%job, ptr @job, i32 0, i32 6) monotonic, align 4
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

define internal void @sleep_until_other(i64 %seen, i64 %own) nounwind {{
  %word = trunc i64 %seen to i32
  %small = trunc i64 %own to i32
  %place = and i32 %small, 31
  %bit = shl i32 1, %place
  %r = call i64 (i64, ...) @syscall(i64 {number}, ptr @job, i32 137, i32 %word, ptr null, ptr null, i32 %bit)
  ret void
}}

define internal void @wake(i64 %threads) nounwind {{
  %few = icmp slt i64 %threads, 32
  %small = trunc i64 %threads to i32
  %place = and i32 %small, 31
  %bit = shl i32 1, %place
  %low = sub i32 %bit, 1
  %bits = select i1 %few, i32 %low, i32 -1
  %r = call i64 (i64, ...) @syscall(i64 {number}, ptr @job, i32 138, i32 2147483647, ptr null, ptr null, i32 %bits)
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

define internal void @sleep_until_other(i64 %seen, i64 %own) nounwind {
entry:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %look
look:
  %ticket = load atomic i64, ptr @job seq_cst, align 8
  %same = icmp eq i64 %ticket, %seen
  br i1 %same, label %wait, label %leave
wait:
  %w = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %look
leave:
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}

define internal void @wake(i64 %threads) nounwind {
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
