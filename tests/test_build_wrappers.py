"""The wrappers of libraries in C++, Rust and Python, and linkers for shared ones."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, environment
from libraries import DRIVER, Built, build, machine, needs_cc, ran
from models import model

from hlotool.driver import compile_module
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Module, UnsupportedError
from hlotool.runtime.aot import linker
from hlotool.text.load import one_module, open_source
from hlotool.text.parser import parse

PROGRAMS = DRIVER.parent
STEP = """HloModule step, input_output_alias={ {0}: (0, {}, must-alias) }
ENTRY e {
  w = f32[4] parameter(0)
  g = f32[4] parameter(1)
  p = pred[3] parameter(2)
  z = c64[2] parameter(3)
  empty = s32[0] parameter(4)
  n = f32[4] subtract(w, g)
  q = pred[3] not(p)
  y = c64[2] multiply(z, z)
  ROOT t = (f32[4], pred[3], c64[2], s32[0]) tuple(n, q, y, empty)
}
"""
LINES = ["0 1 2 3 | 0 1 0 | (0,2) (-3,4)", "the workspace is too short", "wrong"]


def step(folder: Path, kind: str = "static") -> Built:
    return build(parse(STEP), folder, kind=kind, donate="declared")


@needs_cc
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_cpp(tmp_path: Path) -> None:
    step(tmp_path)
    shutil.copy(PROGRAMS / "wrapper.cpp", tmp_path)
    words = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsanitize=address,undefined"]
    ran([*words, "wrapper.cpp", "libmodel.a", "-o", "wrapper"], tmp_path)
    assert ran(["./wrapper"], tmp_path).splitlines() == LINES
    # What does not fit is refused when it is compiled.
    (tmp_path / "wrong.cpp").write_text((PROGRAMS / "wrapper.cpp").read_text().replace("float, 4> g", "float, 5> g"))
    done = subprocess.run([*words, "-c", "wrong.cpp"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0


@pytest.mark.skipif(shutil.which("rustc") is None, reason="no Rust compiler")
def test_rust(tmp_path: Path) -> None:
    step(tmp_path)
    shutil.copy(PROGRAMS / "wrapper.rs", tmp_path / "main.rs")
    words = ["rustc", "--edition", "2021", "-D", "warnings", "-L", ".", "-l", "static=model", "main.rs"]
    ran(words, tmp_path)
    assert ran(["./main"], tmp_path).splitlines() == LINES


def python(folder: Path, text: str, code: int = 0) -> str:
    """What a program prints that has the folder's modules, and NumPy."""
    path = folder / "program.py"
    path.write_text(text)
    done = subprocess.run(
        [sys.executable, path.name], cwd=folder, env=environment(PYTHONPATH=None), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout


@needs_cc
def test_python(tmp_path: Path) -> None:
    step(tmp_path, "shared")
    text = (PROGRAMS / "wrapper.py").read_text()
    assert python(tmp_path, text).splitlines() == [
        "run(w: f32[4], g: f32[4], p: pred[3], z: c64[2], empty: s32[0])"
        " -> n: f32[4], q: pred[3], y: c64[2], empty: s32[0]",
        "True [0.0, 1.0, 2.0, 3.0] [False, True, False] [2j, (-3+4j)] []",
        "argument 1, g: f32[4]: got an array of shape [5]",
        "argument 1, g: f32[4]: got an array of float64",
        "argument 0, w: f32[4], is overwritten: it has to be dense, and may be written to",
        "expected 5 arguments",
        "expected 5 arguments",
    ]


@needs_cc
@pytest.mark.parametrize("name", ["bert_block", "mlp_bf16_fwd", "rng_bit_generator"])
def test_python_runs_models(name: str, tmp_path: Path) -> None:
    module = one_module(open_source(model(name)))
    arrays = random_inputs(module, 1)
    build(module, tmp_path, kind="shared")
    np.savez(tmp_path / "in.npz", *[np.frombuffer(array.tobytes(), np.uint8) for array in arrays])
    python(tmp_path, """import numpy as np
import model
bits = np.load("in.npz")
arrays = [bits[f"arr_{n}"].view(a.dtype).reshape(a.shape) for n, a in enumerate(model.run.arguments)]
found = [model.run(*arrays)]
model.set_threads(3)
found.append(model.run(*arrays))
model.set_threads(1)
found = [out if isinstance(out, tuple) else (out,) for out in found]
assert all(a.tobytes() == b.tobytes() for a, b in zip(*found))
np.savez("out.npz", *[np.frombuffer(a.tobytes(), np.uint8) for a in found[0]])
""")
    wanted = compile_module(module, machine=machine())(*arrays)
    with np.load(tmp_path / "out.npz") as found:
        assert [found[f"arr_{n}"].tobytes() for n in range(len(wanted))] == [array.tobytes() for array in wanted]


@needs_cc
def test_python_with_weights_and_functions(tmp_path: Path) -> None:
    rows = ", ".join("{" + ", ".join(str((i * 7 + j) % 5) for j in range(64)) + "}" for i in range(300))
    module = parse(f"""HloModule m
ENTRY e {{
  x = f32[2,300] parameter(0)
  w = f32[300,64] constant({{{rows}}})
  d = f32[2,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT y = f32[2,64] custom-call(d), custom_call_target="double it"
}}
""")
    built = build(module, tmp_path, kind="shared")
    assert built.library.weights
    said = python(tmp_path, (PROGRAMS / "functions.py").read_text()).splitlines()
    assert said == [
        "nothing was put into functions['double it']", "ZeroDivisionError", "1200.0",
        "the weights are damaged: their hash is another one",
    ]  # fmt: skip


# ---- linkers


def test_a_missing_linker_is_said_with_ways_to_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(linker, "find_spec", lambda name: None)
    module: Module = one_module(open_source(ROOT / "samples" / "mean.hlo"))
    with pytest.raises(UnsupportedError, match=r"a C compiler \(cc\), LLVM's linker.*pip install 'hlotool\[build\]'"):
        build(module, tmp_path / "out", kind="shared")


@pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang is not installed")
def test_zig_links(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    step(tmp_path, "shared")
    assert (tmp_path / "libmodel.so").read_bytes().startswith(b"\x7fELF")
