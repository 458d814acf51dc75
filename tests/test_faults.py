"""Interrupts, full disks, no memory, LLVM that fails: the right result or a clear error, never anything else."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import has_worked
from faults import failing
from tiny_modules import ENDLESS

import hlotool
from hlotool.inspect import files
from hlotool.ir import ExecutionError, HloError
from hlotool.runtime import cache, callback, custom_calls, fastcall, object_code
from hlotool.runtime.cache import Cache
from hlotool.text.parser import parse

COUNTING = """HloModule counting
more {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(500)
  ROOT go = pred[] compare(i, n), direction=LT
}
step {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[] get-tuple-element(p), index=1
  y = f32[] custom-call(x), custom_call_target="test_fault"
  ROOT t = (s32[], f32[]) tuple(j, y)
}
ENTRY main {
  zero = s32[] constant(0)
  x = f32[] parameter(0)
  t = (s32[], f32[]) tuple(zero, x)
  w = (s32[], f32[]) while(t), condition=more, body=step
  ROOT r = f32[] get-tuple-element(w), index=1
}
"""

ADD = """HloModule adding
ENTRY main {
  x = f32[1000] parameter(0)
  ROOT y = f32[1000] add(x, x)
}
"""

X = np.arange(1000, dtype=np.float32)


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """A background job starts with SIGINT ignored, and its children do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def handler() -> Iterator[Callable[[Any], None]]:
    """How to say what the custom call of `COUNTING` does."""
    hlotool.register_custom_call("test_fault", lambda inputs, call: [inputs[0] + 1])
    yield lambda function: hlotool.register_custom_call("test_fault", function, replace=True)
    custom_calls.unregister_custom_call("test_fault")


@pytest.mark.parametrize("usable", [True, False])
@pytest.mark.parametrize("error", ["interrupt", "memory"])
def test_an_error_at_any_instruction_of_a_callback_is_that_of_the_call(
    handler: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, error: str, usable: bool
) -> None:
    """The error comes where a signal would: ahead of each line that runs below native code, from the first on."""
    if not usable:
        monkeypatch.setattr(fastcall, "usable", lambda: False)
    executable = hlotool.compile(parse(COUNTING))
    wanted = KeyboardInterrupt if error == "interrupt" else (MemoryError, ExecutionError)
    zero = np.zeros((), np.float32)
    raised = 0
    for number in range(0, 120, 3):
        seen = 0

        def trace(frame: Any, event: str, argument: object, number: int = number) -> Any:
            nonlocal seen
            if frame.f_code.co_filename == custom_calls.__file__:
                seen += 1
                if seen == number + 1:
                    sys.settrace(None)
                    raise KeyboardInterrupt if error == "interrupt" else MemoryError
            return trace

        sys.settrace(trace)
        try:
            with pytest.raises(wanted):  # type: ignore[arg-type]
                executable(zero)
            raised += 1
        finally:
            sys.settrace(None)
    assert raised == 40
    assert executable(zero)[0] == 500


def test_signals_during_custom_calls_are_never_lost(handler: Callable[[Any], None]) -> None:
    """As a person does it: whenever the signal comes, it is raised, or the result is right."""
    executable = hlotool.compile(parse(COUNTING))
    zero = np.zeros((), np.float32)
    started = time.perf_counter()
    executable(zero)
    whole = time.perf_counter() - started
    arrived = 0
    for number in range(30):
        pending = True

        def kill(delay: float = whole * number / 30) -> None:
            time.sleep(delay)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=kill)
        try:
            thread.start()
            (result,) = executable(zero)
            assert result == 500
            while pending:  # the signal is still to come
                time.sleep(0.001)
        except KeyboardInterrupt:
            pending = False
            arrived += 1
        thread.join()
    assert arrived == 30


def test_a_callback_that_returns_nothing_but_success_by_accident(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry function that ends without saying that it is complete gives no result."""
    loaded = object_code.compiled(["define void @entry(ptr %frame) { ret void }"], llvm_host())
    from hlotool.runtime.entry import Entry
    from hlotool.runtime.load import load

    library = load(loaded)
    entry = Entry(library.address("entry"), [], [("f4", (3,))], keep=library)
    for function in (entry, entry.function()):
        with pytest.raises(ExecutionError, match="ended early"):
            function()


def llvm_host() -> Any:
    from hlotool.codegen.machine import host

    return host()


def test_a_handler_may_run_its_own_executable(handler: Callable[[Any], None]) -> None:
    text = """HloModule again
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] custom-call(x), custom_call_target="test_fault"
  ROOT z = f32[4] add(y, y)
}"""
    executable = hlotool.compile(parse(text))
    handler(lambda inputs, call: [inputs[0] if inputs[0][0] > 4 else executable(inputs[0] + 1)[0]])
    assert executable(np.zeros(4, np.float32))[0].tolist() == [5 * 2**6] * 4
    handler(lambda inputs, call: executable(inputs[0]))
    with pytest.raises(ExecutionError, match="50 deep"):
        executable(np.zeros(4, np.float32))
    handler(lambda inputs, call: [inputs[0]])
    assert executable(np.ones(4, np.float32))[0].tolist() == [2.0] * 4


def test_a_handler_may_keep_its_arrays(handler: Callable[[Any], None]) -> None:
    kept: list[Any] = []

    def keep(inputs: Any, call: Any) -> Any:
        kept.append(inputs[0])
        return [inputs[0]]

    handler(keep)
    text = """HloModule keeping
ENTRY main {
  x = f32[300000] parameter(0)
  m = f32[300000] negate(x)
  y = f32[300000] custom-call(m), custom_call_target="test_fault"
  ROOT z = f32[300000] add(y, y)
}"""
    executable = hlotool.compile(parse(text))
    for number in range(5):
        executable(np.full(300000, number, np.float32))
    del executable
    assert [array.max() for array in kept] == [-0.0, -1.0, -2.0, -3.0, -4.0]
    assert not kept[0].flags.writeable


# ---- long work

LONG = {
    "a sum of many numbers that lie nowhere": """HloModule sums
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[] parameter(0)
  i = f32[200000,2000000] broadcast(x), dimensions={}
  s = f32[200000,2000000] sine(i)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(s, z), dimensions={0,1}, to_apply=add
}""",
    "one row of them": """HloModule row
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[] parameter(0)
  i = f32[400000000000] iota(), iota_dimension=0
  b = f32[400000000000] broadcast(x), dimensions={}
  m = f32[400000000000] multiply(i, b)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(m, z), dimensions={0}, to_apply=add
}""",
    "windows": """HloModule windows
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }
ENTRY main {
  s = f32[] parameter(0)
  x = f32[4000,4000] broadcast(s), dimensions={}
  z = f32[] constant(0)
  ROOT r = f32[2001,2001] reduce-window(x, z), window={size=2000x2000}, to_apply=max
}""",
    "a loop without end": ENDLESS.replace("x = s32[] parameter(0)", "y = f32[] parameter(0)\n  x = s32[] convert(y)"),
    "a loop that counts": """HloModule counts
more { p = (s64[], f32[16]) parameter(0) i = s64[] get-tuple-element(p), index=0 n = s64[] constant(1000000000000)
  ROOT l = pred[] compare(i, n), direction=LT }
step { p = (s64[], f32[16]) parameter(0) i = s64[] get-tuple-element(p), index=0
  x = f32[16] get-tuple-element(p), index=1 s = f32[16] sine(x) o = s64[] constant(1) j = s64[] add(i, o)
  ROOT t = (s64[], f32[16]) tuple(j, s) }
ENTRY main {
  y = f32[] parameter(0)
  z = s64[] constant(0)
  x = f32[16] broadcast(y), dimensions={}
  t = (s64[], f32[16]) tuple(z, x)
  w = (s64[], f32[16]) while(t), condition=more, body=step
  ROOT r = f32[16] get-tuple-element(w), index=1
}""",
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", LONG)
def test_long_work_is_interrupted_and_leaves_other_threads_their_turn(name: str, threads: int) -> None:
    executable = hlotool.compile(parse(LONG[name]), threads=threads)
    ticks = 0
    over = threading.Event()

    def tick() -> None:  # only with the GIL
        nonlocal ticks
        while not over.is_set():
            time.sleep(0.005)
            ticks += 1
            if ticks == 10:
                os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=tick)

    def go() -> None:
        try:
            thread.start()
            executable(np.ones((), np.float32))
        finally:
            over.set()

    with pytest.raises(KeyboardInterrupt):  # else this takes hours
        go()
    thread.join()


@pytest.mark.parametrize("name", LONG)
def test_a_time_limit_ends_one_long_kernel(name: str) -> None:
    executable = hlotool.compile(parse(LONG[name]), timeout=0.1)
    with pytest.raises(ExecutionError, match=r"the time limit of 0.1 s is over"):
        executable(np.ones((), np.float32))


@pytest.mark.parametrize("length", [1 << 25, (1 << 22) - 3])
def test_transforms_look_within_a_line(length: int) -> None:
    """Also by a prime length, whose line is one convolution."""
    shape = f"c64[{length}]"
    text = f"HloModule m\nENTRY e {{ x = {shape} parameter(0)\n ROOT y = {shape} fft(x), fft_type=FFT, "
    executable = hlotool.compile(parse(text + f"fft_length={{{length}}} }}"), timeout=0.001)
    parts = re.split(r"\ndefine (?:internal )?void @", executable.text("llvm"))
    assert any(callback.POLL in part for part in parts if re.match(r"\w+_(item|task)", part))
    with pytest.raises(ExecutionError, match=r"the time limit of 0.001 s is over"):
        executable(np.zeros(length, np.complex64))


def test_short_kernels_do_not_look() -> None:
    text = hlotool.compile(parse(ADD)).text("llvm")
    assert callback.POLL not in text


# ---- files, the cache, LLVM

@pytest.mark.parametrize("error", ["full disk", "read-only", "memory", "interrupt"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, error: str, number: int) -> None:
    target = tmp_path / "module.hlo"
    target.write_text("old")
    with failing(files, "_write", error, number) as fault:
        for text in ("new", "newer")[: number + 1]:
            with suppress(OSError, MemoryError, KeyboardInterrupt):
                files.write_file(target, text)
    assert fault.fired
    assert target.read_text() == ("old", "new")[number]
    assert [path.name for path in tmp_path.iterdir()] == ["module.hlo"]


def test_files_follow_no_link_that_others_put_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(files, "token_hex", lambda count: "0")
    (tmp_path / ".out.0.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        files.write_file(tmp_path / "out", "evil")
    assert victim.read_text() == "precious"
    assert (tmp_path / ".out.0.tmp").is_symlink()


@pytest.mark.parametrize("error", ["full disk", "read-only"])
@pytest.mark.parametrize("name", ["mkstemp", "replace"])
def test_the_cache_makes_nothing_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, name: str
) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", str(tmp_path))
    home = cache.tempfile if name == "mkstemp" else cache.os
    with failing(home, name, error) as fault:
        executable = hlotool.compile(parse(ADD))
    assert fault.fired
    np.testing.assert_array_equal(executable(X)[0], X + X)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".new")]


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_cache_that_others_may_write_to_is_not_used(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "cache"
    ours = Cache(folder)
    assert ours.put("key", b"code")
    folder.chmod(mode)
    with pytest.warns(RuntimeWarning, match="others may write to it"):
        assert ours.get("key") is None
    assert not ours.put("other", b"code")
    folder.chmod(0o700)
    assert ours.get("key") == b"code"
    (path,) = folder.iterdir()
    path.chmod(mode & 0o777)
    assert ours.get("key") is None
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert ours.get("key") is None


@pytest.mark.parametrize("error", ["llvm", "memory", "interrupt"])
@pytest.mark.parametrize("number", [0, 1])
def test_llvm_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, error: str, number: int) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    hlotool.compile(parse(ADD))
    with failing(object_code, "_compile_unlocked", error, number):
        try:
            (result,) = hlotool.compile(parse(ADD))(X)
            np.testing.assert_array_equal(result, X + X)
        except (KeyboardInterrupt, MemoryError, RuntimeError, HloError):
            pass
    np.testing.assert_array_equal(hlotool.compile(parse(ADD))(X)[0], X + X)


def test_results_that_find_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ADD.replace("1000", "1152921504606846")
    executable = hlotool.compile(parse(text.replace("x = f32[1152921504606846] parameter(0)", "s = f32[] parameter(0)\n"
        "  x = f32[1152921504606846] broadcast(s), dimensions={}")))  # fmt: skip
    with pytest.raises(MemoryError):
        executable(np.ones((), np.float32))


def test_compiling_again_and_again_takes_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded code goes with its executable, and what its linker knows of it with the linker."""
    from hlotool.runtime import load

    monkeypatch.setattr(load, "_LIBRARIES", 16)
    objects = object_code.compiled(["define i32 @f() { ret i32 7 }"], llvm_host())

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if not Path("/proc/self/statm").exists():
        pytest.skip("resident memory is read from /proc")
    for _ in range(500):
        load.load(objects).address("f")
    before = resident()
    for _ in range(1000):
        load.load(objects).address("f")
    assert resident() - before < 3_000_000  # 9 MB, where linkers stay


# ---- the library and the shell

@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"donate": [1.5]}, "donate: expected numbers"),
        ({"donate": ["declared"]}, "donate: expected numbers"),
        ({"donate": 0}, "donate: expected numbers"),
        ({"donate": [True]}, "donate: expected numbers"),
        ({"donate": "all"}, "donate: expected numbers"),
        ({"threads": 0}, "threads: expected a whole number"),
        ({"threads": 1.5}, "threads: expected a whole number"),
        ({"threads": "2"}, "threads: expected a whole number"),
        ({"replicas": 0}, "replicas: expected a whole number"),
        ({"partitions": -1}, "partitions: expected a whole number"),
        ({"replicas": True}, "replicas: expected a whole number"),
        ({"timeout": "1"}, "a time limit is"),
        ({"timeout": float("nan")}, "a time limit is"),
        ({"timeout": True}, "a time limit is"),
        ({"backend": 3}, "backend: expected a name"),
        ({"pipeline": None}, "pipeline: expected"),
        ({"pipeline": ["dce"]}, "pipeline: expected"),
        ({"machine": 7}, "machine: expected a Machine"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(hlotool.InputError, match=message):
        hlotool.compile(parse(ADD), **options)


def test_arguments_of_a_call_that_make_no_sense() -> None:
    executable = hlotool.compile(parse(ADD), threads=np.int64(1))  # type: ignore[arg-type]
    with pytest.raises(hlotool.InputError, match="out: expected one array"):
        executable(X, out=5)  # type: ignore[arg-type]
    with pytest.raises(hlotool.InputError, match="feeds: expected"):
        executable(X, feeds=5)  # type: ignore[arg-type]
    with pytest.raises(hlotool.InputError, match="compile takes a module"):
        hlotool.compile(ADD)  # type: ignore[arg-type]


def test_an_executable_is_copied_and_not_pickled() -> None:
    import copy
    import pickle

    executable = hlotool.compile(parse(ADD))
    assert copy.deepcopy({"it": executable})["it"] is executable
    assert copy.copy(executable) is executable
    with pytest.raises(TypeError, match=r"pickle the text of its module"):
        pickle.dumps(executable)


def test_a_forked_process_goes_on(tmp_path: Path) -> None:
    program = """
import os, sys
import numpy as np
import hlotool
executable = hlotool.compile(hlotool.parse(sys.argv[1]), threads=2)
x = np.ones((2000, 500), np.float32)
executable(x)
child = os.fork()
assert executable(x)[0].sum() == 3_000_000 * 2 // 3
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("fine")
"""
    text = ADD.replace("f32[1000]", "f32[2000,500]")
    run = subprocess.run([sys.executable, "-c", program, text], capture_output=True, text=True)
    assert run.stdout == "fine\n", run.stderr


def shell(line: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    tool = f"{sys.executable} -m hlotool"
    command = ["bash", "-c", line.replace("hlotool", tool), "bash", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("command", ["run", "fmt", "stats", "emit", "graph -o -", "--help", "passes"])
def test_a_reader_that_goes_away_is_no_failure(tmp_path: Path, command: str) -> None:
    path = tmp_path / "add.hlo"
    path.write_text(ADD)
    file = "" if command in ("--help", "passes") else '"$1"'
    run = shell(f"hlotool {command} {file} | true; echo ${{PIPESTATUS[0]}}", str(path))
    assert (run.stdout, run.stderr) == ("0\n", "")


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="processor time is read from /proc")
def test_bench_is_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "add.hlo"
    path.write_text(ADD)
    command = [sys.executable, "-m", "hlotool", "bench", str(path), "--no-roof", "--time", "10000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        has_worked(process, 2)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "interrupted" in said


EVIL = "\x1b]0;owned\x07\x1b[2J\u202egpj"


@pytest.mark.parametrize(
    "command", ["verify", "stats", "run", "signature", "query 'opcode == parameter'", "explain y --file"]
)
def test_no_text_of_a_module_commands_a_terminal(tmp_path: Path, command: str) -> None:
    path = tmp_path / "evil.hlo"
    for text in (
        ADD.replace("add(x, x)", f"add(x, x), metadata={{op_name=\"{EVIL}\"}}"),
        ADD.replace("adding", f'"{EVIL}"'),
        ADD.replace("add(x, x)", f"add(x, {EVIL})"),
        ADD.replace("add(", f"{EVIL}("),
        ADD.replace("add(x, x)", f'custom-call(x), custom_call_target="{EVIL}"'),
    ):
        path.write_text(text)
        run = shell(f'hlotool {command} "$1"', str(path))
        shown = run.stdout + run.stderr
        assert "\x1b" not in shown, (command, text)
        assert "\x07" not in shown
        assert "\u202e" not in shown


def test_archives_are_looked_at_before_they_are_read(tmp_path: Path) -> None:
    import io
    import zipfile

    from hlotool.harness.archive import read_array, read_arrays

    (shape,) = [p.shape for p in parse(ADD).entry.parameters]

    def header(descr: str, sizes: str) -> bytes:
        text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {sizes}, }}".ljust(117) + "\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()

    def archive(content: bytes) -> str:
        path = tmp_path / "in.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("arg0.npy", content)
        return str(path)

    bomb = archive(header("<f4", "(1099511627776,)") + bytes(100))
    (found,) = read_arrays(bomb, "arg", [shape])  # a terabyte, of which nothing is there
    assert found.shape == (1 << 40,)
    assert found.strides == (0,)
    for content in (
        header("<f4", "(1000,)") + bytes(3999),
        header("|O", "(1000,)") + bytes(4000),
        b"\x93NUMPY\x02\x00" + (1 << 31).to_bytes(4, "little"),
        b"\x93NUMPY\x01\x00",
        b"",
    ):
        with pytest.raises(hlotool.InputError):
            read_arrays(archive(content), "arg", [shape])
        (tmp_path / "one.npy").write_bytes(content)
        with pytest.raises(hlotool.InputError):
            read_array(str(tmp_path / "one.npy"), shape)
    good = io.BytesIO()
    np.save(good, np.asfortranarray(np.arange(1000, dtype=np.float32)))
    np.testing.assert_array_equal(read_arrays(archive(good.getvalue()), "arg", [shape])[0], X)


def test_ctypes_has_no_part_in_success() -> None:
    """What ctypes makes of an exception in a callback is zero: that is no word for success."""
    assert callback.COMPLETE not in (0, 1)
    assert ctypes.c_int64(callback.COMPLETE).value == callback.COMPLETE
