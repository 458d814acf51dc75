"""Executables out of the cache: they run as those that left them there, and are taken for no other program."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import environment

import hlotool
from hlotool.numpy.compiling import compile_or_recall
from hlotool.runtime.executable import Executable
from hlotool.runtime.recalled import Recalled

MODULE = """HloModule step

ENTRY main {
  x = f32[4,4] parameter(0)
  y = f32[4,4] parameter(1)
  c = f32[4,4] constant({VALUES})
  d = f32[4,4] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[4,4] add(d, y)
  ROOT r = (f32[4,4], f32[4,4]) tuple(s, d)
}
"""
X, Y = np.arange(16, dtype=np.float32).reshape(4, 4), np.ones((4, 4), np.float32)


def step(scale: float = 1.0) -> hlotool.Module:
    rows = (np.arange(16).reshape(4, 4) * scale).tolist()
    return hlotool.parse(MODULE.replace("{VALUES}", str(rows).replace("[", "{").replace("]", "}")))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", str(tmp_path))


def test_an_executable_from_the_cache_is_like_the_one_that_was_compiled() -> None:
    made, found = compile_or_recall(step(), (1,)), compile_or_recall(step(), (1,))
    assert (type(made), type(found)) == (Executable, Recalled)
    assert found.donated == made.donated == {0: 1}
    results = [executable(X, Y.copy()) for executable in (made, found)]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    out = [Y.copy(), np.empty((4, 4), np.float32)]
    np.testing.assert_array_equal(found(X, out[0], out=out)[1], results[0][1])
    with pytest.raises(hlotool.InputError, match="parameter 0"):
        found(X[:2], Y)
    # These need no compiler; the rest comes from one.
    same = ("parameters", "outputs", "memory", "objects", "devices", "donated", "machine")
    assert [getattr(found, name) for name in same] == [getattr(made, name) for name in same]
    assert hlotool.print_module(found.module) == hlotool.print_module(made.module)
    assert [d.rule for d in found.decisions] == [d.rule for d in made.decisions] != []
    assert found.text("llvm") == made.text("llvm")
    assert repr(found) == repr(made)
    assert all(hasattr(found, field.name) for field in fields(Executable))
    with pytest.raises(AttributeError):
        getattr(found, "nothing")  # noqa: B009


def test_what_differs_is_another_program() -> None:
    compile_or_recall(step())
    for module, donate in ((step(2.0), ()), (step(), (1,))):  # the text is the same without its constants
        executable = compile_or_recall(module, donate)
        assert type(executable) is Executable
        wanted = X @ (np.arange(16, dtype=np.float32).reshape(4, 4) * (1 if donate else 2))
        np.testing.assert_allclose(executable(X, Y.copy())[1], wanted)
    renamed = hlotool.parse(hlotool.print_module(step()).replace("f32[4,4] add", "f32[4,4] subtract"))
    assert type(compile_or_recall(renamed)) is Executable


def test_where_there_is_no_cache_programs_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    assert [type(compile_or_recall(step())) for _ in range(2)] == [Executable] * 2


def test_programs_with_custom_calls_are_compiled_each_time() -> None:
    text = 'HloModule m\n\nENTRY main {\n  x = f32[4]{0} parameter(0)\n  ROOT r = f32[4]{0} custom-call(x), ' \
        'custom_call_target="Sharding"\n}\n'
    assert [type(compile_or_recall(hlotool.parse(text))) for _ in range(2)] == [Executable] * 2


_NUMPY = """
import json, sys, numpy, hlotool, hlotool.numpy as np
def loss(w, x): return np.mean((np.tanh(x @ w[0]) @ w[1]) ** 2)
w = [numpy.full((3, 4), 0.1, numpy.float32), numpy.ones((4, 1), numpy.float32)]
call, arguments = hlotool.jit(hlotool.value_and_grad(loss)), (w, numpy.ones((2, 3), numpy.float32))
value, slopes = call(*arguments)
found = [float(value), numpy.asarray(slopes[0]).tolist()]
loaded = [name for name in ("driver", "passes.fuse.fusion", "codegen.plan") if f"hlotool.{name}" in sys.modules]
kernels = len(call.executable(*arguments).program.kernels)
print(json.dumps([found, loaded, kernels]))
"""
_JAX = """
import json, sys, numpy, jax.numpy as np, jax, hlotool.jax
def loss(w, x): return np.mean((np.tanh(x @ w[0]) @ w[1]) ** 2)
w = [numpy.full((3, 4), 0.1, numpy.float32), numpy.ones((4, 1), numpy.float32)]
call, arguments = hlotool.jax.jit(jax.value_and_grad(loss)), (w, numpy.ones((2, 3), numpy.float32))
value, slopes = call(*arguments)
found = [float(value), slopes[0].tolist()]
loaded = [name for name in ("driver", "passes", "text", "codegen.plan") if f"hlotool.{name}" in sys.modules]
kernels = len(call.program(*arguments).executable.program.kernels)
print(json.dumps([found, loaded, kernels]))
"""


@pytest.mark.parametrize("text", [_NUMPY, _JAX], ids=["numpy", "jax"])
def test_a_second_process_compiles_nothing(text: str, tmp_path: Path) -> None:
    if text is _JAX:
        pytest.importorskip("jax", reason="jax is not installed: pip install 'hlotool[jax]'")

    def run(text: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", text], text=True, capture_output=True, check=True,
            env=environment(HLOTOOL_CACHE=str(tmp_path)),
        )  # fmt: skip
        return json.loads(done.stdout)

    first = run(text)
    second = run("\n\n" + text)  # on other lines it is the same program
    assert second[0] == first[0]
    assert first[1] != [] == second[1]
    assert first[2] == second[2] > 0
