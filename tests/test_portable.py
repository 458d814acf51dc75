"""What hlotool does with on systems other than Linux, on this one: by the switch, and in processes that are told they
are elsewhere (`other_systems`); objects for such systems are looked into."""

from __future__ import annotations

import ast
import ctypes
import json
import platform
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, Run, environment
from libraries import COPIES, ROUNDING
from llvmlite import binding
from object_symbols import symbols_of

import hlotool as library
from hlotool.codegen.machine import _processor, host, named, of_triple, runs_here, to_link
from hlotool.runtime.aot.symbols import function_sizes
from hlotool.runtime.compile import compile_units
from hlotool.runtime.load import Library, load
from hlotool.runtime.parts import part
from hlotool.system import System, caches_in, memory_bytes, processors, system
from hlotool.text.parser import parse

SAMPLES = ROOT / "samples"
PORTABLE: dict[str, str | None] = {"HLOTOOL_PORTABLE": "1"}
LARGE = """HloModule large
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[256,512] parameter(0)
  y = f32[512,256] parameter(1)
  d = f32[256,256] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[256,256] tanh(d)
  z = f32[] constant(0)
  r = f32[256] reduce(t, z), dimensions={1}, to_apply=add
  s = f32[256,256] sort(t), dimensions={1}, to_apply=less
  e = f32[256,256] exponential(s)
  ROOT o = (f32[256], f32[256,256]) tuple(r, e)
}
"""
"""What takes two threads, and several units."""


# ---- the system, and the switch


def test_the_switch(monkeypatch: pytest.MonkeyPatch, hlotool: Run) -> None:
    monkeypatch.setenv("HLOTOOL_PORTABLE", "1")
    assert system().forced
    assert system().portable
    assert system().plain_calls
    monkeypatch.setenv("HLOTOOL_PORTABLE", "0")
    assert not system().forced
    monkeypatch.setenv("HLOTOOL_PORTABLE", "yes")
    with pytest.raises(ValueError, match=r"HLOTOOL_PORTABLE='yes': expected 0 or 1"):
        system()
    done = hlotool("opcodes", env={"HLOTOOL_PORTABLE": "yes"})
    assert done.returncode == 2
    for text, said in (("1", "portable"), ("0", "of Linux")):
        done = hlotool("doctor", "--format", "json", env={"HLOTOOL_PORTABLE": text})
        facts = {fact["name"]: fact["value"] for fact in json.loads(done.stdout)["facts"]}
        assert facts["runtime"] == said


@pytest.mark.parametrize("name", ["darwin", "windows", "other"])
def test_systems_that_are_not_linux(name: str) -> None:
    elsewhere = System(name)  # type: ignore[arg-type]
    assert elsewhere.portable
    assert not elsewhere.plain_calls
    assert elsewhere.suffix == ("-elf" if name == "windows" else "")


def test_one_file_looks_at_the_system() -> None:
    """Others ask it, or for a function by its name (``hasattr``)."""
    looking = set()
    for path in (ROOT / "hlotool").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in {"sys.platform", "os.name", "platform.system"}:
                looking.add(path.name)
    assert looking == {"system.py"}


def test_facts_of_the_system() -> None:
    assert processors() == host().cores
    memory = memory_bytes()
    assert memory is not None
    assert memory > 64 << 20


def test_caches_as_windows_tells_them() -> None:
    def record(relationship: int, level: int, size: int, kind: int) -> bytes:
        return struct.pack("<2I2BH2I", relationship, 52, level, 8, 64, size, kind).ljust(52, b"\0")

    core = struct.pack("<2I", 0, 48).ljust(48, b"\1")
    first = [core, record(2, 1, 48 << 10, 2), record(2, 1, 32 << 10, 1), record(2, 2, 2 << 20, 0)]
    second = [core, record(2, 1, 64 << 10, 2), record(2, 3, 30 << 20, 0)]  # another core, which is not looked at
    assert caches_in(b"".join([*first, *second])) == {"l1": 48 << 10, "l2": 2 << 20, "l3": 30 << 20}
    assert caches_in(b"".join(first)) == {"l1": 48 << 10, "l2": 2 << 20}
    assert caches_in(b"") == {}


def test_code_for_other_systems_does_not_run_here() -> None:
    mine = host()
    for triple in (f"{mine.architecture}-pc-windows-msvc", f"{mine.architecture}-apple-darwin"):
        assert not runs_here(of_triple(triple))
    if mine.architecture:
        usual = {"x86_64": "x86-64", "aarch64": "aarch64"}[mine.architecture]
        assert named(usual).triple == mine.triple
    windows = of_triple("x86_64-pc-windows-msvc-elf")
    assert to_link(windows).triple == "x86_64-pc-windows-msvc"
    assert to_link(mine) == mine
    executable = library.compile(parse((SAMPLES / "mean.hlo").read_text()), machine=windows, to_run=False)
    assert executable.objects[0][:2] == b"\x64\x86"  # COFF, for the system's linker


def test_a_processor_that_llvm_cannot_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> None:
        raise RuntimeError("failed to get host cpu features.")

    monkeypatch.setattr(binding, "get_host_cpu_features", unknown)
    plain = _processor.__wrapped__()
    assert (plain.features, plain.vector_bits) == ("", 128)
    assert not plain.has_tiles


# ---- the parts of native code


@pytest.fixture(params=["0", "1"], ids=["posix", "python"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Library:
    """One function each for what parts offer."""
    monkeypatch.setenv("HLOTOOL_PORTABLE", request.param)
    machine = host()
    text = """define i64 @clock() { %t = call i64 @hlo_clock() ret i64 %t }
define void @nap(i32 %n) { call void @hlo_nap(i32 %n) ret void }
define i64 @thread() { %t = call i64 @hlo_thread() ret i64 %t }
define void @start(ptr %w, ptr %f, ptr %a) { call void @hlo_start(ptr %w, ptr %f, ptr %a) ret void }
define void @join(ptr %w) { call void @hlo_join(ptr %w) ret void }
define ptr @busy(ptr %a) { call void @hlo_nap(i32 3000)
  %done = getelementptr i64, ptr %a, i64 1
  store i64 42, ptr %done
  call void @hlo_end(ptr %a)
  ret ptr null }
"""
    text += "".join(part(name, machine) for name in ("clock", "nap", "thread", "threads"))
    return load(compile_units([text], machine))


def test_clock_nap_and_thread(parts: Library) -> None:
    clock = ctypes.CFUNCTYPE(ctypes.c_int64)(parts.address("clock"))
    before, first, again = time.perf_counter_ns(), clock(), clock()
    after = time.perf_counter_ns()
    assert before <= first <= again <= after
    ctypes.CFUNCTYPE(None, ctypes.c_int32)(parts.address("nap"))(2000)
    assert clock() - again >= 2_000_000
    assert ctypes.CFUNCTYPE(ctypes.c_uint64)(parts.address("thread"))() == threading.get_ident()


def test_threads_are_waited_for(parts: Library) -> None:
    start = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(parts.address("start"))
    join = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(parts.address("join"))
    for _ in range(20):
        record = np.zeros(2, np.int64)
        start(record.ctypes.data, parts.address("busy"), record.ctypes.data)
        join(record.ctypes.data)
        assert record.tolist() == [0, 42]


# ---- programs


@pytest.mark.parametrize("sample", ["mean", "mlp_step", "while_loop", "conv_net"])
def test_samples_with_the_switch(hlotool: Run, sample: str) -> None:
    done = hlotool("run", SAMPLES / f"{sample}.hlo", "--compare", "evaluate", "--threads", "2", env=PORTABLE)
    assert done.returncode == 0, done.stderr
    assert ": ok" in done.stdout


_SWITCHED = """
import sys, threading
import numpy as np
import hlotool
from hlotool.runtime import fastcall, pool
executable = hlotool.compile(hlotool.parse(sys.argv[1]), threads=2)
rng = np.random.default_rng(0)
x, y = rng.random((256, 512), np.float32), rng.random((512, 256), np.float32)
once = executable(x, y)
wrong = []
def call():
    for _ in range(20):
        if not all((a == b).all() for a, b in zip(executable(x, y), once)):
            wrong.append(1)
threads = [threading.Thread(target=call) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(wrong), fastcall.usable(), "PyThread_start_new_thread" in pool.pool_text(executable.machine))
"""


def test_several_threads_call_at_once_with_the_switch() -> None:
    command = [sys.executable, "-c", _SWITCHED, LARGE]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(**PORTABLE), check=False)
    assert (done.stdout, done.stderr) == ("0 False True\n", "")


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="border functions are for x86-64")
@pytest.mark.parametrize(
    ("name", "triple"), [("darwin", "x86_64-apple-darwin23.0.0"), ("win32", "x86_64-pc-windows-msvc-elf")]
)
def test_all_is_imported_and_programs_run_on_other_systems(name: str, triple: str, tmp_path: Path) -> None:
    large = tmp_path / "large.hlo"
    large.write_text(LARGE)
    rounding = tmp_path / "rounding.hlo"
    rounding.write_text(ROUNDING)
    samples = ("mean", "mlp_step", "while_loop", "lstm_cell")
    files = [large, rounding, *(SAMPLES / f"{sample}.hlo" for sample in samples)]
    command = [sys.executable, ROOT / "tests" / "other_systems.py", name, *files]
    changes: dict[str, str | None] = {"HLOTOOL_CACHE": "off", "HLOTOOL_PORTABLE": None, "HLOTOOL_CPU": None}
    done = subprocess.run(command, capture_output=True, text=True, env=environment(**changes), check=False)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first.startswith("imported ")
    assert int(first.split()[1]) > 600
    assert lines == [*(f"{file.name} ok {triple}" for file in files), "parts ok"]


# ---- objects for other systems

ASKED = {
    "x86_64-apple-darwin23": COPIES | {"__bzero"},
    "aarch64-apple-darwin23": COPIES | {"bzero"},
    "x86_64-pc-windows-msvc": COPIES | {"__chkstk", "_fltused"},
    "aarch64-pc-windows-msvc": COPIES | {"__chkstk"},
    "x86_64-pc-windows-gnu": COPIES | {"___chkstk_ms"},
}
"""What objects may ask the system for, which each C library there has."""


@pytest.mark.parametrize("sample", ["attention", "conv_net"])
@pytest.mark.parametrize("triple", ASKED)
def test_objects_ask_for_nothing_but_what_every_c_library_has(
    hlotool: Run, triple: str, sample: str, tmp_path: Path
) -> None:
    options = ["--kind", "object", "--triple", triple, "--name", "m"]
    done = hlotool("build", SAMPLES / f"{sample}.hlo", "-o", tmp_path, *options)
    assert done.returncode == 0, done.stderr
    data = (tmp_path / "m.o").read_bytes()
    symbols = symbols_of(data)
    assert {symbol.name for symbol in symbols if symbol.is_asked} <= ASKED[triple]
    sizes = {symbol.name: symbol.size for symbol in symbols if symbol.is_function and not symbol.is_asked}
    assert {"m_run", "m_message"} <= set(sizes)
    assert all(size > 0 for size in sizes.values())
    assert function_sizes(data) == sizes
    assert (b"\0_m_run\0" in data) == ("apple" in triple)
    assert "m_run(" in (tmp_path / "m.h").read_text()
    said = hlotool("inspect", tmp_path / "m.o", "--format", "json")
    (library,) = json.loads(said.stdout)["libraries"]
    assert library["triple"] == triple
    assert library["functions"]
    assert all(sizes.get(name) == size for name, size in library["functions"].items() if name in sizes)


@pytest.mark.parametrize("triple", ASKED)
def test_archives_for_other_systems(hlotool: Run, triple: str, tmp_path: Path) -> None:
    done = hlotool("build", SAMPLES / "mean.hlo", "-o", tmp_path, "--triple", triple, "--name", "m")
    assert done.returncode == 0, done.stderr
    archive = tmp_path / ("m.lib" if "windows" in triple else "libm.a")
    assert archive.read_bytes().startswith(b"!<arch>\n")
    assert hlotool("inspect", archive).returncode == 0
