"""The low-level runtime: compile, load, cache, pool, memory, entry, custom calls."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlotool.codegen.llvm.status import COMPLETE
from hlotool.codegen.machine import default_machine
from hlotool.ir import ExecutionError, InputError
from hlotool.runtime import callback, compile_queue, fastcall, memory, object_code, pool
from hlotool.runtime.cache import Cache, code_key, default_cache, pack, unpack
from hlotool.runtime.compile import Compiler, compile_units
from hlotool.runtime.custom_calls import CallSite, CustomCall, register_custom_call, unregister_custom_call
from hlotool.runtime.entry import Entry
from hlotool.runtime.load import Library, load
from hlotool.runtime.object_code import assembly, compiled, has_raw_functions
from hlotool.system import system

MACHINE = default_machine()


@pytest.fixture(scope="module", autouse=True)
def _no_cache() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HLOTOOL_CACHE", "off")
        yield


def library(text: str, symbols: Mapping[str, int] | None = None) -> Library:
    return load(compile_units([text], MACHINE), symbols)


# ---- compile


def test_compile_is_the_same_at_any_thread_count_and_with_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"define i64 @f{i}(i64 %x) {{ %y = add i64 %x, {i} ret i64 %y }}" for i in range(8)]
    serial = compile_units(texts, MACHINE, 1)
    assert has_raw_functions()
    assert compile_units(texts, MACHINE, 4) == serial
    monkeypatch.setattr(object_code, "_raw_functions", lambda: None)
    assert compile_units(texts, MACHINE, 4) == serial


def test_texts_are_compiled_while_more_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than a queue takes; some belong to the thread that waits for all."""
    monkeypatch.setattr(compile_queue, "_CAPACITY", 3)
    texts = [f"define i64 @f{i}(i64 %x) {{ %y = add i64 %x, {i} ret i64 %y }}" for i in range(11)]
    serial = [compile_units([text], MACHINE)[0] for text in texts]
    for threads in (1, 2, 5):
        with Compiler(MACHINE, threads) as compiler:
            for text in texts[:9]:
                compiler.add(text)
            assert compiler.finish(texts[9:]) == serial


@pytest.mark.parametrize("threads", [1, 3])
def test_nobody_compiles_for_those_who_gave_up(threads: int) -> None:
    before = _threads()
    with Compiler(MACHINE, threads) as compiler:
        for number in range(20):
            compiler.add(f"define void @f{number}() {{ ret void }}")
    while _threads() > before:  # the system forgets a thread a little after it has ended
        time.sleep(0.001)


def _threads() -> int:
    """How many this process has, those that Python does not know of among them."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "define void @f() { ret i32 0 }",
        "define void @f() { br label %nowhere }",
        # parses, but only the verifier sees that the phi lacks an incoming edge
        "define i32 @f(i1 %c) {\nentry:\n br i1 %c, label %a, label %b\na:\n br label %b\n"
        "b:\n %x = phi i32 [ 1, %a ]\n ret i32 %x\n}",
    ],
)
def test_invalid_text_raises(text: str, locked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if locked:
        monkeypatch.setattr(object_code, "_raw_functions", lambda: None)
    with pytest.raises(RuntimeError):
        compile_units([text, "define void @g() { ret void }"], MACHINE, 2)


def test_assembly_has_the_function() -> None:
    assert "answer:" in assembly("define i64 @answer() { ret i64 42 }", MACHINE)


# ---- load


def test_load_links_objects_imports_and_the_process() -> None:
    text = """
declare double @cos(double)
declare double @given(double)
@far = external global double
define double @f(double %x) {
  %a = call double @cos(double %x)
  %b = call double @given(double %a)
  %c = load double, ptr @far
  %d = fadd double %b, %c
  ret double %d
}"""
    given = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: 10 * x)
    address = ctypes.cast(given, ctypes.c_void_p).value or 0
    loaded = load(compile_units([text, "@far = global double 0.5"], MACHINE), {"given": address})
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.address("f"))
    assert function(0.0) == 10.5
    assert loaded.address("f") == loaded.address("f")


def test_load_errors() -> None:
    (good,) = compile_units(["define void @f() { ret void }"], MACHINE)
    for bad in (b"", b"nonsense", good[: len(good) // 2]):
        with pytest.raises(RuntimeError):
            load([bad])
    with pytest.raises(RuntimeError, match="duplicate"):
        load([good, good])
    with pytest.raises(KeyError):
        load([good]).address("g")
    with pytest.raises(KeyError):
        library("declare void @not_there()\ndefine void @f() { call void @not_there() ret void }").address("f")


def test_libraries_are_apart_and_can_be_dropped() -> None:
    for number in range(50):
        loaded = library(f"define i64 @f() {{ ret i64 {number} }}")
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(loaded.address("f"))() == number
        del loaded
    gc.collect()


# ---- cache


def test_cache_round_trip_damage_and_pruning(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new", limit=100_000)
    assert cache.get("k1") is None
    assert cache.put("k1", b"content" * 100)
    assert cache.get("k1") == b"content" * 100
    (path,) = (tmp_path / "new").iterdir()
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:10], b"", whole[:-1] + b"?", b"x" + whole[1:]):
        path.write_bytes(damaged)
        assert cache.get("k1") is None
        assert not path.exists()
    for number in range(8):
        cache.put(f"p{number}", bytes(20_000))
        os.utime(cache.directory / f"p{number}.hlo-cache", (number, number))
    cache.prune()
    held = [cache.get(f"p{number}") is not None for number in range(8)]
    assert held == sorted(held)
    assert 1 <= sum(held) <= 4


def test_cache_directory_that_cannot_be_written_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "below")
    assert not cache.put("k", b"x")
    assert cache.get("k") is None
    cache.prune()
    text = "define void @f() { ret void }"
    assert compiled([text], MACHINE, cache=cache) == compile_units([text], MACHINE)


def test_compiled_takes_objects_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["define i64 @f() { ret i64 1 }", "define i64 @g() { ret i64 2 }"]
    cache = Cache(tmp_path)
    objects = compiled(texts, MACHINE, cache=cache)
    for text, data in zip(texts, objects, strict=True):  # entries are read alike whoever has written them
        assert unpack(cache.get(code_key([text], MACHINE).digest) or b"") == [data]

    def unwanted(*_: object) -> list[bytes]:
        raise AssertionError("compiled again")

    monkeypatch.setattr(object_code, "_compile_unlocked", unwanted)
    assert compiled(texts, MACHINE, cache=cache) == objects
    assert compiled(texts[1:], MACHINE, cache=cache) == objects[1:]
    with pytest.raises(AssertionError):
        compiled(["define i64 @h() { ret i64 3 }"], MACHINE, cache=cache)


def test_cache_keys_and_packing() -> None:
    assert code_key(["ab"], MACHINE).digest != code_key(["a", "b"], MACHINE).digest
    assert code_key(["ab"], MACHINE).digest == code_key(["ab"], MACHINE).digest
    for parts in ([], [b""], [b"a", b"", b"bcd"]):
        assert unpack(pack(parts)) == parts


def test_default_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert default_cache() is None
    monkeypatch.setenv("HLOTOOL_CACHE", str(tmp_path))
    assert default_cache() == Cache(tmp_path)
    monkeypatch.delenv("HLOTOOL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == Cache(tmp_path / "hlotool")


# ---- pool

POOL_TEXT = """
declare void @hlo_parallel(ptr, ptr, i64, ptr)
declare void @hlo_parallel_awake(ptr, ptr, i64, ptr)

; args: an array of i64 to be counted up.  Every fourth task takes a while.
define void @step(ptr %args, i64 %begin, i64 %end) {
entry:
  %cells = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %done ]
  %kind = and i64 %i, 3
  %slow = icmp eq i64 %kind, 0
  %turns = select i1 %slow, i64 50, i64 1
  br label %spin
spin:
  %turn = phi i64 [ 0, %loop ], [ %turn_next, %spin ]
  %turn_next = add i64 %turn, 1
  %again = icmp slt i64 %turn_next, %turns
  br i1 %again, label %spin, label %done
done:
  %cell = getelementptr i64, ptr %cells, i64 %i
  %old = atomicrmw add ptr %cell, i64 1 monotonic
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %leave
leave:
  ret void
}

define void @regions(ptr %args, i64 %tasks, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @hlo_parallel(ptr @step, ptr %args, i64 %tasks, ptr null)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %leave
leave:
  ret void
}

define void @awake(ptr %args, i64 %tasks, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @hlo_parallel_awake(ptr @step, ptr %args, i64 %tasks, ptr null)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %leave
leave:
  ret void
}

define void @outer(ptr %args, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  call void @hlo_parallel(ptr @step, ptr %args, i64 16, ptr null)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %leave
leave:
  ret void
}

define void @nested(ptr %args, i64 %tasks, i64 %unused) {
  call void @hlo_parallel(ptr @outer, ptr %args, i64 %tasks, ptr null)
  ret void
}
"""
POOL_OBJECTS = compile_units([POOL_TEXT], MACHINE)


class Counter:
    """Runs parallel regions over an array of counters."""

    def __init__(self, tasks: int, symbols: Mapping[str, int]) -> None:
        self.cells = np.zeros(max(tasks, 16), np.int64)
        self.tasks = tasks
        self.arguments = (ctypes.c_void_p * 1)(self.cells.ctypes.data)
        self.library = load(POOL_OBJECTS, symbols)

    def run(self, count: int, function: str = "regions") -> None:
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        kind(self.library.address(function))(self.arguments, self.tasks, count)


_KEPT: list[Library] = []  # never unloaded: the threads of a pool run its code until the process ends


@pytest.fixture(scope="module", params=["native", "condition", "python"])
def symbols_for(request: pytest.FixtureRequest) -> Callable[[int], Mapping[str, int]]:
    """The process's pool, and those that sleep on a condition variable, and on locks of Python's."""
    if request.param == "native":
        return pool.symbols
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HLOTOOL_PORTABLE", str(int(request.param == "python")))
        own = load(compile_units([pool.pool_text(MACHINE, request.param)], MACHINE), callback.symbols())
    ctypes.CFUNCTYPE(None)(own.address("hlo_pool_reset"))()

    def symbols(threads: int) -> Mapping[str, int]:
        text = f"""declare void @hlo_parallel_n(ptr, ptr, i64, ptr, i64, i1)
define void @hlo_parallel(ptr %fn, ptr %args, i64 %tasks, ptr %status) {{
  call void @hlo_parallel_n(ptr %fn, ptr %args, i64 %tasks, ptr %status, i64 {threads}, i1 true) ret void }}
define void @hlo_parallel_awake(ptr %fn, ptr %args, i64 %tasks, ptr %status) {{
  call void @hlo_parallel_n(ptr %fn, ptr %args, i64 %tasks, ptr %status, i64 {threads}, i1 false) ret void }}"""
        bound = library(text, {"hlo_parallel_n": own.address("hlo_parallel_n")})
        _KEPT.append(bound)
        return {name: bound.address(name) for name in ("hlo_parallel", "hlo_parallel_awake")}

    _KEPT.append(own)
    return symbols


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 70])
def test_every_task_runs_once(symbols_for: Callable[[int], Mapping[str, int]], threads: int) -> None:
    for tasks in (1, 2, 7, 64, 1000):
        counter = Counter(tasks, symbols_for(threads))
        count = 10_000 // tasks + 10
        counter.run(count)
        assert (counter.cells[:tasks] == count).all()
        assert not counter.cells[tasks:].any()


@pytest.mark.parametrize("threads", [1, 2, 70])
def test_short_work_runs_once_whoever_is_awake(
    symbols_for: Callable[[int], Mapping[str, int]], threads: int
) -> None:
    """Workers are not woken for it every time, fall asleep in between, and are woken once in a while."""
    counter = Counter(37, symbols_for(threads))
    generator = random.Random(2)
    for _ in range(60):
        counter.run(9, "awake")
        counter.run(1, "regions")
        time.sleep(generator.choice([0, 0.00005, 0.0005]))
    assert (counter.cells == 600).all()


def test_jobs_of_different_sizes_and_threads_follow_one_another(
    symbols_for: Callable[[int], Mapping[str, int]],
) -> None:
    """What a late worker remembers of a job that is over fits none of the next ones."""
    generator = random.Random(3)
    counters = [Counter(tasks, symbols_for(threads)) for tasks in (2, 3, 16, 33, 500) for threads in (2, 5, 9)]
    runs = dict.fromkeys(counters, 0)
    for _ in range(2000):
        counter = generator.choice(counters)
        counter.run(2)
        runs[counter] += 2
    assert all((counter.cells[: counter.tasks] == times).all() for counter, times in runs.items())


def test_first_calls_from_several_threads() -> None:
    """In a process of its own: there is one pool, whoever asks for it first."""
    program = f"""
        import sys, threading
        sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
        import test_runtime as t
        def work():
            counter = t.Counter(40, t.pool.symbols(3))
            counter.run(500)
            assert (counter.cells == 500).all()
            done.append(1)
        done = []
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(done))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=600,
        env={**os.environ, "HLOTOOL_CACHE": "off"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")


def test_no_tasks_run_nothing(symbols_for: Callable[[int], Mapping[str, int]]) -> None:
    counter = Counter(0, symbols_for(2))
    counter.run(1)
    assert not counter.cells.any()


def test_pool_with_idle_gaps(symbols_for: Callable[[int], Mapping[str, int]]) -> None:
    counter = Counter(37, symbols_for(2))
    generator = random.Random(1)
    for _ in range(150):
        counter.run(2)
        time.sleep(generator.choice([0, 0.00002, 0.00007, 0.0005]))
    assert (counter.cells == 300).all()


def test_pool_from_several_python_threads(symbols_for: Callable[[int], Mapping[str, int]]) -> None:
    counters = [Counter(33, symbols_for(threads)) for threads in (2, 4, 2)]
    workers = [threading.Thread(target=lambda c=c: [c.run(20) for _ in range(100)]) for c in counters]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for counter in counters:
        assert (counter.cells == 2000).all()


def test_nested_regions(symbols_for: Callable[[int], Mapping[str, int]]) -> None:
    counter = Counter(9, symbols_for(3))
    for _ in range(50):
        counter.run(0, "nested")
    assert (counter.cells == 50 * 9).all()


def test_step_runs_on_more_than_one_thread() -> None:
    """A step that waits for the other task can only end when two threads are in it."""
    if MACHINE.cores < 2:
        pytest.skip("one processor")
    text = """
declare void @hlo_parallel(ptr, ptr, i64, ptr)
declare i32 @sched_yield()
define void @meet(ptr %cell, i64 %begin, i64 %end) {
entry:
  %one = sub i64 %end, %begin
  %arrived = atomicrmw add ptr %cell, i64 %one seq_cst
  br label %wait
wait:
  %n = phi i64 [ 0, %entry ], [ %n1, %wait ]
  %y = call i32 @sched_yield()
  %n1 = add i64 %n, 1
  %all = load atomic i64, ptr %cell seq_cst, align 8
  %lonely = icmp slt i64 %all, 2
  %patient = icmp slt i64 %n1, 20000000
  %go = and i1 %lonely, %patient
  br i1 %go, label %wait, label %leave
leave:
  %met = icmp sge i64 %all, 2
  br i1 %met, label %record, label %out
record:
  %flag = getelementptr i64, ptr %cell, i64 1
  %m = atomicrmw add ptr %flag, i64 1 seq_cst
  br label %out
out:
  ret void
}
define void @go(ptr %cell) {
  call void @hlo_parallel(ptr @meet, ptr %cell, i64 2, ptr null)
  ret void
}"""
    loaded = library(text, pool.symbols(2))
    cells = np.zeros(2, np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address("go"))(cells.ctypes.data)
    assert cells.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("triple", "sleep"),
    [
        ("x86_64-unknown-linux-gnu", "futex"), ("aarch64-unknown-linux-gnu", "futex"), ("riscv64-linux-gnu", "futex"),
        ("s390x-linux-gnu", "condition"), ("arm64-apple-darwin23", "python"), ("x86_64-apple-darwin23", "python"),
        ("x86_64-pc-windows-msvc-elf", "python"), ("aarch64-pc-windows-msvc-elf", "python"),
    ],
)  # fmt: skip
def test_pool_compiles_for_other_machines(triple: str, sleep: pool.Sleep) -> None:
    machine = replace(MACHINE, triple=triple, cpu="", features="")
    text = pool.pool_text(machine, sleep)
    assert ("@syscall" in text) == (sleep == "futex")
    assert ("@pthread_" in text) == (sleep != "python")
    assert "hlo_parallel_n" in assembly(text, machine)


def test_threads_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_THREADS", "3")
    assert pool.default_threads() == 3
    monkeypatch.delenv("HLOTOOL_THREADS")
    assert pool.default_threads() == MACHINE.cores
    for wrong in ("0", "many", "-1", "99999"):
        monkeypatch.setenv("HLOTOOL_THREADS", wrong)
        with pytest.raises(ValueError, match="HLOTOOL_THREADS"):
            pool.default_threads()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_fork_and_exit_with_workers_alive() -> None:
    """In a process of its own: children forked while another thread is in the pool work; exit does not hang."""
    program = f"""
        import os, sys, threading, time
        sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
        import test_runtime as t
        first, busy = t.Counter(40, t.pool.symbols(2)), t.Counter(40, t.pool.symbols(4))
        first.run(10)
        worker = threading.Thread(target=lambda: [busy.run(200) for _ in range(200)])
        worker.start()
        statuses = []
        for _ in range(4):
            time.sleep(0.004)
            child = os.fork()
            if child == 0:
                mine = t.Counter(40, t.pool.symbols(2))
                mine.run(500)
                os._exit(0 if (mine.cells == 500).all() else 1)
            statuses.append(os.waitpid(child, 0)[1])
        worker.join()
        assert statuses == [0] * 4, statuses
        assert (busy.cells == 40000).all()
        busy.run(3)
        print("end")
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.skipif(system().portable or MACHINE.cores < 2, reason="no two processors to choose")
def test_worker_leaves_the_processor_of_its_caller() -> None:
    """In a process of its own: a caller held on one processor finds its worker there and then elsewhere."""
    program = f"""
        import os, sys, threading, time
        sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
        import test_runtime as t
        allowed = os.sched_getaffinity(0)
        here = min(allowed)
        def call():
            os.sched_setaffinity(0, {{here}})
            counter, before = t.Counter(40, t.pool.symbols(2)), set(os.listdir("/proc/self/task"))
            counter.run(1)
            (worker,) = map(int, set(os.listdir("/proc/self/task")) - before)
            os.sched_setaffinity(worker, {{here}})
            for _ in range(5000):
                counter.run(1)
                time.sleep(0.001)
                if os.sched_getaffinity(worker) == allowed - {{here}}:
                    print("apart")
                    break
        caller = threading.Thread(target=call)
        caller.start()
        caller.join()
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "apart\n", "")


# ---- memory


def test_aligned_and_recycled() -> None:
    for size in (0, 1, 63, 64, 65, 100, 4095, 4096, 100_000, (2 << 20) + 1):
        array = memory.empty((size,), np.uint8)
        array[:] = 1
        address = array.ctypes.data
        assert address % (4096 if size >= 4096 else 64) == 0
        del array
        assert memory.empty((size,), np.uint8).ctypes.data == address
        assert memory.aligned(size).nbytes == size
        assert memory.aligned(size).ctypes.data % 64 == 0


def test_views_keep_memory_and_blocks_do_not_overlap() -> None:
    generator = random.Random(2)
    live: list[tuple[Any, int]] = []
    for _ in range(3000):
        array = memory.empty((generator.randrange(1, 1 << generator.randrange(1, 16)),), np.uint8)
        value = generator.randrange(256)
        array[:] = value
        live.append((array[::2], value))
        del array
        if len(live) > 60:
            view, value = live.pop(generator.randrange(len(live)))
            assert (view == value).all()
    grown = memory.empty((10,), np.int64)
    grown[:] = np.arange(10)
    grown.resize((5000,))
    assert grown[:10].tolist() == list(range(10))
    assert not grown[10:].any()


def test_kept_memory_is_counted_and_released() -> None:
    del_me = memory.empty((1 << 20,), np.uint8)
    del del_me
    assert memory.kept_bytes() >= 1 << 20
    memory.release_kept()
    assert memory.kept_bytes() == 0


# ---- entry

def done(slot: int) -> str:
    """Say that the execution is complete."""
    return (
        f"%status = getelementptr ptr, ptr %frame, i64 {slot}\n"
        f"  store i64 {COMPLETE}, ptr %status\n"
        "  ret void"
    )


# out0 = arena copy of (a + b), out1 = first constant
ENTRY_TEXT = f"""
define void @entry(ptr %frame) {{
  %a = load ptr, ptr %frame
  %b_at = getelementptr ptr, ptr %frame, i64 1
  %b = load ptr, ptr %b_at
  %out_at = getelementptr ptr, ptr %frame, i64 2
  %out = load ptr, ptr %out_at
  %one_at = getelementptr ptr, ptr %frame, i64 3
  %one = load ptr, ptr %one_at
  %arena_at = getelementptr ptr, ptr %frame, i64 4
  %arena = load ptr, ptr %arena_at
  %constants_at = getelementptr ptr, ptr %frame, i64 5
  %constants = load ptr, ptr %constants_at
  %x = load <4 x float>, ptr %a, align 4
  %y = load <4 x float>, ptr %b, align 4
  %s = fadd <4 x float> %x, %y
  store <4 x float> %s, ptr %arena, align 64
  %t = load <4 x float>, ptr %arena, align 64
  store <4 x float> %t, ptr %out, align 64
  %c = load i32, ptr %constants, align 64
  store i32 %c, ptr %one, align 64
  {done(6)}
}}"""


@pytest.fixture(scope="module", params=["usable", "not usable"])
def entry(request: pytest.FixtureRequest) -> Entry:
    """An entry; also as it is on an interpreter where no builtin can be made."""
    loaded = library(ENTRY_TEXT)
    constants = np.array([42, 43], np.int32).view(np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "not usable":
            patch.setattr(fastcall, "usable", lambda: False)
        return make_entry(loaded, constants)


def make_entry(loaded: Library, constants: Any) -> Entry:
    return Entry(
        loaded.address("entry"), [("f4", (2, 2)), ("f4", (4,))], [("f4", (4,)), ("i4", ())], 64, constants,
        keep=loaded, alignment=16,
    )  # fmt: skip


@pytest.fixture(params=["python", "builtin", "builtin without the GIL"])
def call(entry: Entry, request: pytest.FixtureRequest) -> Callable[..., Any]:
    assert fastcall.usable() is not system().plain_calls
    return entry if request.param == "python" else entry.function(release_gil="without" in request.param)


A = np.arange(4, dtype=np.float32).reshape(2, 2)
B = np.array([10, 20, 30, 40], np.float32)


def test_entry_gives_fresh_aligned_arrays(call: Callable[..., Any]) -> None:
    first, constant = call(A, B)
    second, _ = call(A, B * 2)
    assert first.tolist() == [10, 21, 32, 43]
    assert second.tolist() == [20, 41, 62, 83]
    assert constant.shape == ()
    assert constant == 42
    for array in (first, second, constant):
        assert array.ctypes.data % 64 == 0
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert array.flags.owndata


def test_entry_converts_strided_and_misaligned_arrays(call: Callable[..., Any]) -> None:
    raw = np.zeros(4 * 4 + 1, np.uint8)
    misaligned = raw[1:].view(np.float32)
    misaligned[:] = B
    assert call(A.T, misaligned)[0].tolist() == [10, 22, 31, 43]
    assert call(np.asfortranarray(A), B[::-1])[0].tolist() == [40, 31, 22, 13]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((A,), "expected 2 arguments, got 1"),
        ((A, B, B), "expected 2 arguments, got 3"),
        ((A, [1, 2, 3, 4]), r"parameter 1: expected float32 of shape \(4,\), got a list"),
        ((1.5, B), "parameter 0: .* got a float"),
        ((None, B), "parameter 0: .* got a NoneType"),
        ((A, B.astype(np.float64)), r"parameter 1: .* got float64 of shape \(4,\)"),
        ((A, B.astype(">f4")), "parameter 1: .* got >f4"),
        ((A, A), r"parameter 1: .* got float32 of shape \(2, 2\)"),
        ((B, B), r"parameter 0: .* got float32 of shape \(4,\)"),
        ((A, np.float32(1)), r"parameter 1: .* got float32 of shape \(\)"),
    ],
)
def test_entry_names_what_does_not_fit(call: Callable[..., Any], arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(*arguments)


def test_entry_in_many_threads(call: Callable[..., Any]) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        mine = np.full(4, number, np.float32)
        for _ in range(500):
            if call(A, mine)[0].tolist() != [number, number + 1, number + 2, number + 3]:
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


_FIRST = """
import threading
import numpy as np
import hlotool
text = "ENTRY e { x = f32[64,512] parameter(0)\\n y = f32[64,512] add(x, x)\\n ROOT z = f32[64,512] tanh(y) }"
x = np.ones((64, 512), np.float32)
begin, right = threading.Barrier(6), []
def call():
    begin.wait()
    executable = hlotool.compile(hlotool.parse(f"HloModule m\\n{text}"), threads=2)
    right.append(all(np.allclose(executable(x)[0], np.tanh(np.float32(2))) for _ in range(20)))
threads = [threading.Thread(target=call) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sum(right))
"""


@pytest.mark.parametrize("portable", ["0", "1"])
def test_several_threads_may_come_first(portable: str) -> None:
    """In a process of its own: native code that it has once is not made twice, and one thrown away under a caller."""
    command = [sys.executable, "-c", _FIRST]
    env = {**os.environ, "HLOTOOL_PORTABLE": portable, "HLOTOOL_CACHE": "off"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "6\n", "")


def test_builtin_keeps_all_it_needs_and_leaks_nothing() -> None:
    loaded = library(ENTRY_TEXT)
    constants = np.array([7], np.int32).view(np.uint8)
    parameters, outputs = [("f4", (2, 2)), ("f4", (4,))], [("f4", (4,)), ("i4", ())]
    entry = Entry(loaded.address("entry"), parameters, outputs, 64, constants, keep=loaded, alignment=4)
    function = entry.function()
    del entry, loaded, constants
    gc.collect()
    function(A, B)
    watched = (A, B, A.dtype, memory.allocator().handler)
    before = [sys.getrefcount(thing) for thing in watched]
    for _ in range(1000):
        assert function(A, B)[1] == 7
        with pytest.raises(InputError):
            function(A, A)
    assert [sys.getrefcount(thing) for thing in watched] == before


SCALAR_TEXT = f"""
define void @entry(ptr %frame) {{
  %a = load ptr, ptr %frame
  %out_at = getelementptr ptr, ptr %frame, i64 1
  %out = load ptr, ptr %out_at
  %x = load i16, ptr %a
  store i16 %x, ptr %out
  {done(4)}
}}"""


def test_entry_takes_scalars_and_bits() -> None:
    loaded = library(SCALAR_TEXT)
    bf16 = np.dtype(ml_dtypes.bfloat16)
    leaf = [(bf16, ())]
    strict = Entry(loaded.address("entry"), leaf, leaf, keep=loaded)
    value = ml_dtypes.bfloat16(1.5)
    for function in (strict, strict.function()):
        (result,) = function(value)
        assert result.dtype == bf16
        assert result == value
        with pytest.raises(InputError, match=r"parameter 0: expected bfloat16 .* got uint16"):
            function(np.array(0x3FC0, np.uint16))
    relaxed = Entry(loaded.address("entry"), leaf, leaf, keep=loaded, allow_bits=True)
    assert relaxed.function()(np.array(0x3FC0, np.uint16))[0] == value
    with pytest.raises(InputError, match="got int16"):
        relaxed(np.array(0x3FC0, np.int16))


def test_dtypes_that_are_equal_but_not_the_same_object() -> None:
    loaded = library(SCALAR_TEXT)
    for function in (entry := Entry(loaded.address("entry"), [("l", ())], [("i2", ())], keep=loaded), entry.function()):
        assert function(np.array(5, np.longlong))[0] == 5
        assert function(np.int64(6))[0] == 6


def test_entry_without_parameters_or_outputs() -> None:
    loaded = library(f"define void @entry(ptr %frame) {{ {done(2)} }}")
    entry = Entry(loaded.address("entry"), [], [], keep=loaded)
    assert entry() == ()
    assert entry.function()() == ()


def test_entry_with_empty_arrays() -> None:
    loaded = library(f"define void @entry(ptr %frame) {{ {done(5)} }}")
    entry = Entry(loaded.address("entry"), [("f4", (0, 3)), ("f4", (0,))], [("f4", (2, 0))], keep=loaded)
    for function in (entry, entry.function()):
        (result,) = function(np.zeros((0, 3), np.float32), np.zeros(5, np.float32)[5:])
        assert result.shape == (2, 0)


def test_entry_reports_memory_that_cannot_be_had() -> None:
    loaded = library("define void @entry(ptr %frame) { ret void }")
    entry = Entry(loaded.address("entry"), [], [("u1", (1 << 59,))], keep=loaded)
    for function in (entry, entry.function()):
        with pytest.raises(MemoryError):
            function()


# ---- custom calls

CALL_TEXT = f"""
@site = external global i8
declare i64 @hlo_host(ptr, ptr)
define void @entry(ptr %frame) {{
  %first = call i64 @hlo_host(ptr @site, ptr %frame)
  %fine = icmp eq i64 %first, {COMPLETE}
  br i1 %fine, label %again, label %leave
again:
  %second = call i64 @hlo_host(ptr @site, ptr %frame)
  %well = icmp eq i64 %second, {COMPLETE}
  br i1 %well, label %complete, label %leave
complete:
  {done(5)}
leave:
  ret void
}}"""

F4 = np.dtype(np.float32)


@pytest.fixture
def site() -> Iterator[tuple[Callable[[Any], None], Callable[..., Any]]]:
    """How to set the handler, and a function that runs it."""

    def unset(*_: object) -> tuple[Any, ...]:
        raise NotImplementedError

    register_custom_call("test_site", unset)
    call = CustomCall("test_site", ((F4, (3,)),), ((F4, (3,)), (np.dtype(bool), ())))
    site = CallSite(call)
    loaded = library(CALL_TEXT, {"site": site.address, **callback.symbols()})
    entry = Entry(loaded.address("entry"), call.operands, call.outputs, keep=loaded, custom_calls=[site], alignment=4)
    yield lambda handler: register_custom_call("test_site", handler, replace=True), entry.function()
    unregister_custom_call("test_site")


def test_custom_call_from_native_code(site: tuple[Callable[[Any], None], Callable[..., Any]]) -> None:
    set_handler, function = site
    seen = []

    def double(inputs: tuple[Any, ...], call: CustomCall) -> tuple[Any, ...]:
        seen.append((call.target, inputs[0].flags.writeable))
        return inputs[0] * 2, np.array(True)

    set_handler(double)
    values, flag = function(np.array([1, 2, 3], np.float32))
    assert values.tolist() == [2, 4, 6]
    assert flag.dtype == bool
    assert flag
    assert seen == [("test_site", False)] * 2


def test_custom_call_errors_arrive(site: tuple[Callable[[Any], None], Callable[..., Any]]) -> None:
    set_handler, function = site
    calls = []

    def failing(inputs: tuple[Any, ...], call: CustomCall) -> tuple[Any, ...]:
        calls.append(1)
        raise KeyError("oh no")

    argument = np.zeros(3, np.float32)
    set_handler(failing)
    with pytest.raises(ExecutionError, match="custom call 'test_site' failed: KeyError: 'oh no'") as caught:
        function(argument)
    assert isinstance(caught.value.__cause__, KeyError)
    assert len(calls) == 1
    for result, message in [
        ((argument,), "returned 1 arrays, expected 2"),
        ((argument, np.array(1)), r"returned int64\[\] for output 1, expected bool\[\]"),
        ((argument[:2], np.array(True)), r"returned float32\[2\] for output 0, expected float32\[3\]"),
        (argument, "must return a tuple"),
    ]:
        set_handler(lambda inputs, call, result=result: result)
        with pytest.raises(ExecutionError, match=message):
            function(argument)
    set_handler(lambda inputs, call: (inputs[0], np.array(False)))
    assert function(argument)[0].tolist() == [0, 0, 0]


def test_keyboard_interrupt_in_a_handler_arrives(site: tuple[Callable[[Any], None], Callable[..., Any]]) -> None:
    set_handler, function = site

    def interrupted(inputs: tuple[Any, ...], call: CustomCall) -> tuple[Any, ...]:
        raise KeyboardInterrupt

    set_handler(interrupted)
    with pytest.raises(KeyboardInterrupt):
        function(np.zeros(3, np.float32))
