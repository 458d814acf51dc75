"""Every boundary to the system, to LLVM and to Python, with everything that can fail there.

For each call that is made there the fault is tried, until there are no more calls.  What must be seen: the right result
or an error of the fault's kind, no wrong number, no part of a file, and a next call that works.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from faults import failing
from llvmlite import binding

import hlotool
from hlotool.cli import cli
from hlotool.driver import CompilerWarning, compile_module
from hlotool.evaluate import devices, evaluate
from hlotool.evaluate import feeds as queues
from hlotool.inspect import files
from hlotool.ir import ExecutionError
from hlotool.runtime import cache, compile_queue, custom_calls, entry, fastcall, image, object_code
from hlotool.text.parser import parse

SMALL = """HloModule small
ENTRY main {
  x = f32[1000] parameter(0)
  y = f32[1000] tanh(x)
  z = f32[1000] reverse(y), dimensions={0}
  ROOT w = f32[1000] add(z, x)
}
"""
X = np.linspace(-2, 2, 1000, dtype=np.float32)

MANY = "HloModule many\nENTRY main {\n x = f32[4000] parameter(0)\n" + "".join(
    f"s{i} = f32[{100 + i}] slice(x), slice={{[{i}:{100 + 2 * i}]}}\nt{i} = f32[{100 + i}] tanh(s{i})\n"
    f"r{i} = f32[{100 + i}] reverse(t{i}), dimensions={{0}}\n" for i in range(20)
) + f"ROOT t = ({', '.join(f'f32[{100 + i}]' for i in range(20))}) tuple({', '.join(f'r{i}' for i in range(20))})\n}}\n"
"""Of several units."""


def results(text: str, strict: bool = True, **options: Any) -> list[np.ndarray[Any, Any]]:
    module = parse(text)
    x = np.resize(X, module.entry.parameters[0].shape.dimensions)
    return [*compile_module(module, strict=strict, threads=2, **options)(x)]


def wanted(text: str) -> list[np.ndarray[Any, Any]]:
    module = parse(text)
    return [*evaluate(module, [np.resize(X, module.entry.parameters[0].shape.dimensions)])]


def same(got: list[np.ndarray[Any, Any]], text: str) -> None:
    for one, other in zip(got, wanted(text), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


# ---- what is done without: the cache, more threads

@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("error", ["full disk", "read-only", "cut off", "memory", "interrupt"])
@pytest.mark.parametrize("name", ["tempfile.mkstemp", "os.fdopen", "os.replace", "os.stat", "os.utime", "os.open"])
def test_no_cache_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: str) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", str(tmp_path))
    home, _, function = name.partition(".")
    for warm in (False, True):
        for number in range(20):
            with failing(getattr(cache, home), function, error, number) as fault:
                try:
                    same(results(SMALL), SMALL)
                    assert error != "interrupt" or not fault.fired
                except KeyboardInterrupt:
                    assert error == "interrupt"
                except (MemoryError, ExecutionError):
                    assert error == "memory"
            assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
            if not fault.fired:
                break
            if not warm:
                for path in tmp_path.iterdir():
                    path.unlink()
        same(results(SMALL), SMALL)


class _Writer:
    """A file whose second write fails."""

    def __init__(self, file: Any, error: Callable[[], BaseException]) -> None:
        self.file, self.error, self.writes = file, error, 0

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()

    def write(self, data: bytes) -> int:
        self.writes += 1
        if self.writes > 1:
            raise self.error()
        return int(self.file.write(data))


@pytest.mark.parametrize("error", [lambda: OSError(errno.ENOSPC, "full"), MemoryError, KeyboardInterrupt])
def test_half_an_entry_of_the_cache_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any) -> None:
    usual = os.fdopen
    monkeypatch.setattr(cache.os, "fdopen", lambda *arguments: _Writer(usual(*arguments), error))
    ours = cache.Cache(tmp_path)
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            ours.put("key", b"code")
    else:
        assert not ours.put("key", b"code")
    assert not [*tmp_path.iterdir()]


REFUSED = {
    "0": ("i32 @pthread_create(ptr %word, ptr %b, ptr %c, ptr %d)", "store i64 77, ptr %word ret i32 11"),
    "1": ("i64 @PyThread_start_new_thread(ptr %function, ptr %argument)", "ret i64 -1"),
}
"""What tells that there is no thread, as POSIX has it and as Python has it on every system."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("portable", REFUSED)
def test_llvm_works_with_the_threads_that_there_are(monkeypatch: pytest.MonkeyPatch, portable: str) -> None:
    """The system gives no others."""
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    monkeypatch.setenv("HLOTOOL_PORTABLE", portable)
    head, body = REFUSED[portable]
    name = head.partition("(")[0]
    text = compile_queue._parts(compile_queue.host())
    refused = re.sub(rf"declare {name}\(.*\)", f"define internal {head} {{ {body} }}", text)
    assert refused != text
    monkeypatch.setattr(compile_queue, "_parts", lambda machine: refused)
    monkeypatch.setattr(compile_queue, "_code", compile_queue._code.__wrapped__)
    same(results(MANY), MANY)


TWO = """HloModule two, replica_count=4
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), replica_groups={}, to_apply=add
}
"""


OWN = TWO.replace("ROOT s = f32[] add(a, b)", "p = f32[] multiply(b, b) ROOT s = f32[] add(a, p)")
"""The same numbers where all are ones, by a reducer for which devices do not take turns."""


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
def test_devices_whose_threads_cannot_be_started(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    executable = hlotool.compile(parse(OWN), backend=backend)
    x = np.ones((4, 4), np.float32)
    executable(x)
    for number in range(4):
        message = "the threads of 4 devices cannot be started"
        with (
            failing(devices.threading.Thread, "start", "threads", number) as fault,
            pytest.raises(ExecutionError, match=message),
        ):
            executable(x)
        assert fault.fired
        assert not [t for t in devices.threading.enumerate() if "(body)" in t.name]
        assert executable(x)[0].tolist() == [[4.0] * 4] * 4


# ---- LLVM

@pytest.mark.parametrize("error", ["llvm", "memory", "interrupt"])
@pytest.mark.parametrize(
    ("home", "name"),
    [
        (object_code, "_compile_unlocked"), (binding, "create_context"), (object_code, "with_header"),
        (image, "load"), (binding, "JITLibraryBuilder"), (image, "Entry"), (fastcall, "builtin"),
    ],
)  # fmt: skip
def test_llvm_fails(monkeypatch: pytest.MonkeyPatch, home: Any, name: str, error: str) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    same(results(SMALL), SMALL)
    kinds = {"llvm": RuntimeError, "memory": (ExecutionError, MemoryError), "interrupt": KeyboardInterrupt}
    for number in range(8):
        with failing(home, name, error, number) as fault:
            try:
                same(results(SMALL), SMALL)
                assert not fault.fired
            except kinds[error]:  # type: ignore[misc]
                assert fault.fired
        if not fault.fired:
            return
        if error != "interrupt":
            with failing(home, name, error, number), warnings.catch_warnings():
                warnings.simplefilter("ignore", CompilerWarning)
                same(results(SMALL, strict=False), SMALL)
    raise AssertionError("there are always more calls")


@pytest.mark.parametrize("name", ["add", "objects"])
@pytest.mark.parametrize("error", ["llvm", "memory", "interrupt"])
def test_a_unit_that_fails_on_its_way(monkeypatch: pytest.MonkeyPatch, name: str, error: str) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    kinds = {"llvm": RuntimeError, "memory": (ExecutionError, MemoryError), "interrupt": KeyboardInterrupt}
    with failing(compile_queue.Queue, name, error) as fault, pytest.raises(kinds[error]):  # type: ignore[arg-type]
        results(MANY)
    assert fault.fired
    same(results(MANY), MANY)


STEP = """HloModule step, input_output_alias={ {1}: (0, {}, must-alias) }
ENTRY main {
  w = f32[500] parameter(0)
  g = f32[500] parameter(1)
  k = s32[7] parameter(2)
  better = f32[500] subtract(w, g)
  ROOT r = (f32[500], f32[500], s32[7]) tuple(w, better, k)
}
"""


def test_arguments_are_overwritten_by_the_evaluator_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where code generation fails, a donated argument is the result, and others are as they were."""
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    monkeypatch.setattr(image, "load", None)
    with pytest.warns(CompilerWarning, match="the evaluator runs the module"):
        executable = compile_module(parse(STEP), donate=[0, 2], strict=False)
    assert executable.donated == {1: 0, 2: 2}
    w, g, k = np.full(500, 5, np.float32), np.full(500, 2, np.float32), np.arange(7, dtype=np.int32)
    before, better, kept = executable(w, g, k)
    assert better is w
    assert kept is k
    assert (before[0], better[0], g[0], kept.tolist()) == (5, 3, 2, [*range(7)])
    w.flags.writeable = False
    with pytest.raises(hlotool.InputError, match="parameter 0: it is donated"):
        executable(w, g, k)


# ---- callbacks

TALK = """HloModule talk
more { p = (s32[], f32[4], token[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3)
  ROOT go = pred[] compare(i, n), direction=LT }
step { p = (s32[], f32[4], token[]) parameter(0) i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1) j = s32[] add(i, one) x = f32[4] get-tuple-element(p), index=1
  t = token[] get-tuple-element(p), index=2
  f = ((f32[4], f32[4]), token[]) infeed(t)
  d = (f32[4], f32[4]) get-tuple-element(f), index=0 a = f32[4] get-tuple-element(d), index=0
  b = f32[4] get-tuple-element(d), index=1 u = token[] get-tuple-element(f), index=1
  c = f32[4] custom-call(a), custom_call_target="test_boundary"
  s = f32[4] add(c, b) y = f32[4] add(s, x) o = (f32[4], f32[4]) tuple(y, c)
  q = token[] outfeed(o, u), outfeed_shape=(f32[4], f32[4])
  v = (f32[4], u32[], token[]) recv(q), channel_id=1, is_host_transfer=true
  e = (f32[4], token[]) recv-done(v), channel_id=1, is_host_transfer=true
  h = f32[4] get-tuple-element(e), index=0 w = token[] get-tuple-element(e), index=1
  k = (f32[4], u32[], token[]) send(h, w), channel_id=2, is_host_transfer=true
  l = token[] send-done(k), channel_id=2, is_host_transfer=true
  z = f32[4] add(y, h) ROOT r = (s32[], f32[4], token[]) tuple(j, z, l) }
ENTRY main {
  x = f32[4] parameter(0) zero = s32[] constant(0) t = token[] after-all()
  i = (s32[], f32[4], token[]) tuple(zero, x, t)
  w = (s32[], f32[4], token[]) while(i), condition=more, body=step
  ROOT y = f32[4] get-tuple-element(w), index=1
}
"""


def talk_feeds() -> hlotool.Feeds:
    return hlotool.Feeds(
        infeed=[np.full(4, n, np.float32) for n in range(6)],
        received={1: [np.full(4, 10 * n, np.float32) for n in range(3)]},
    )


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
@pytest.mark.parametrize("error", ["interrupt", "memory", "llvm"])
@pytest.mark.parametrize(
    ("home", "name"),
    [
        (queues.np, "array"), (queues, "_fitting"), (queues, "leaves_of"), (queues, "value_from_leaves"),
        (custom_calls, "array_at"), (custom_calls, "nested"), (custom_calls, "run_custom_call"),
        (custom_calls, "_kept"), (custom_calls, "evaluate_instruction"), (custom_calls, "leaves_of"),
        (custom_calls, "value_from_leaves"),
    ],
)  # fmt: skip
def test_callbacks_that_fail(home: Any, name: str, error: str, backend: str) -> None:
    """Queues have what whole instructions took and gave; the run ends with the error."""
    hlotool.register_custom_call("test_boundary", lambda inputs, call: [inputs[0] * 2])
    try:
        executable = hlotool.compile(parse(TALK), backend=backend)
        x = np.ones(4, np.float32)
        full = talk_feeds()
        expected = [array.tolist() for array in executable(x, feeds=full)]
        kinds = {"llvm": (RuntimeError, ExecutionError), "memory": (MemoryError, ExecutionError),
                 "interrupt": KeyboardInterrupt}  # fmt: skip
        for number in range(0, 200, 2):
            feeds = talk_feeds()
            with failing(home, name, error, number) as fault:
                try:
                    got = executable(x, feeds=feeds)
                    assert not fault.fired
                    assert [array.tolist() for array in got] == expected
                except kinds[error]:  # type: ignore[misc]
                    assert fault.fired
            for given, whole in ((feeds.outfeed(), full.outfeed()), (feeds.sent(2), full.sent(2))):
                assert [a.tolist() for a in given] == [a.tolist() for a in whole[: len(given)]]
            assert len(feeds.outfeed()) % 2 == 0
            if not fault.fired:
                break
        assert [array.tolist() for array in executable(x, feeds=talk_feeds())] == expected
    finally:
        custom_calls.unregister_custom_call("test_boundary")


def test_what_does_not_fit_stays_in_its_queue() -> None:
    text = "HloModule m\nENTRY e { t = token[] after-all() f = ((f32[2], f32[]), token[]) infeed(t) " \
        "d = (f32[2], f32[]) get-tuple-element(f), index=0 ROOT r = f32[2] get-tuple-element(d), index=0 }"
    given: list[Any] = [np.ones(2, np.float32), np.ones((), np.int32)]
    feeds = hlotool.Feeds(infeed=given)
    executable = hlotool.compile(parse(text), backend="evaluate")
    with pytest.raises(ExecutionError, match="array 1 in the infeed"):
        executable(feeds=feeds)
    given[1] = np.ones((), np.float32)
    assert executable(feeds=feeds)[0].tolist() == [1, 1]


# ---- memory

@pytest.mark.parametrize("usable", [True, False])
def test_results_and_temporaries_that_find_no_memory(monkeypatch: pytest.MonkeyPatch, usable: bool) -> None:
    if not usable:
        monkeypatch.setattr(fastcall, "usable", lambda: False)
    usable = fastcall.usable()
    executable = hlotool.compile(parse(MANY))
    x = np.resize(X, 4000)
    for number in range(40):
        with failing(entry, "empty", "memory", number) as fault:
            if usable:
                executable(x)
                assert not fault.fired  # native code takes its memory itself
                break
            if number < 20:
                with pytest.raises(MemoryError):
                    executable(x)
            else:
                same([*executable(x)], MANY)
        assert fault.fired or number >= 20


NATIVE = """
import sys
import ctypes
import numpy as np
import hlotool
from hlotool.runtime import memory, pool

usual, usual_pool = memory._text, pool.pool_text
COUNTED = '''
@left = global i64 -1
define internal ptr @counted(i64 %size) nounwind {
entry:
  %left = load i64, ptr @left
  %less = sub i64 %left, 1
  store i64 %less, ptr @left
  %fails = icmp eq i64 %left, 0
  br i1 %fails, label %none, label %some
none:
  ret ptr null
some:
  %data = call ptr @malloc(i64 %size)
  ret ptr %data
}
'''
NO_THREADS = '''
define internal i32 @no_thread(ptr %thread, ptr %how, ptr %function, ptr %name) nounwind {
  ret i32 11
}
'''
memory._text = lambda machine, limit: usual(machine, 0).replace("= call ptr @malloc(", "= call ptr @counted(") + COUNTED
if sys.argv[2] == "threads":
    pool.pool_text = lambda machine: usual_pool(machine).replace("call i32 @pthread_create(", "call i32 @no_thread(") \\
        + NO_THREADS
executable = hlotool.compile(hlotool.parse(sys.argv[1]), threads=4)
x = np.linspace(0, 1, 40000, dtype=np.float32)
expected = [array.copy() for array in executable(x)]
left = ctypes.c_int64.from_address(memory.allocator().library.address("left"))
assert executable.memory.arena_bytes
failed = 0
for number in range(20):
    left.value = number
    try:
        got = executable(x)
    except MemoryError:
        failed += 1
    else:
        assert all((a == b).all() for a, b in zip(got, expected))
    left.value = -1
    assert all((a == b).all() for a, b in zip(executable(x), expected))
print(failed)
"""

LARGE = """HloModule large
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }
ENTRY main {
  x = f32[40000] parameter(0)
  t = f32[40000] sine(x)
  r = f32[40000] sort(t), dimensions={0}, to_apply=less
  u = f32[40000] sine(r)
  v = f32[40000] reverse(u), dimensions={0}
  z = f32[] constant(0)
  s = f32[] reduce(v, z), dimensions={0}, to_apply=add
  b = f32[40000] broadcast(s), dimensions={}
  c = f32[40000] add(r, b)
  ROOT w = (f32[40000], f32[40000]) tuple(c, u)
}
"""


@pytest.mark.parametrize("what", ["memory", "threads"])
def test_native_allocations_and_threads_fail(what: str) -> None:
    """Each allocation of a call in turn; and no worker of the pool can be had."""
    run = subprocess.run([sys.executable, "-c", NATIVE, LARGE, what], capture_output=True, text=True)
    assert run.stderr == ""
    assert int(run.stdout) == 3  # two results, and one block of temporaries


# ---- files that commands write

@pytest.mark.parametrize("error", ["full disk", "read-only", "cut off", "memory", "interrupt"])
@pytest.mark.parametrize(
    "command",
    [
        "run IN -o OUT.npz", "opt IN -o OUT.hlo", "compile IN --emit object -o OUT.o", "compile IN --dump-to OUT",
        "fmt --in-place IN", "graph IN -o OUT.html", "report IN -o OUT", "emit IN -o OUT.ll",
    ],
)  # fmt: skip
def test_commands_that_cannot_write(tmp_path: Path, command: str, error: str) -> None:
    source, target = tmp_path / "in.hlo", tmp_path / "out"
    source.write_text(SMALL.replace("  y", "       y"))
    line = [word.replace("IN", str(source)).replace("OUT", str(target)) for word in command.split()]
    whole = "--dump-to" not in line and "report" not in line
    for number in (0, 1, 4):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with failing(files, "_write", error, number) as fault:
            ended = CliRunner().invoke(cli, line, standalone_mode=False)
        after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert not [path for path in after if path.suffix == ".tmp"]
        if fault.fired:
            assert isinstance(ended.exception, (click.Abort, MemoryError, ExecutionError, OSError)), ended.exception
            assert not whole or after == before
    assert CliRunner().invoke(cli, line).exit_code == 0
