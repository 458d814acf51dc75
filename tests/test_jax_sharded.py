"""Programs of JAX for several devices, on the plug-in: divided by hlotool's partitioner, beside stock JAX."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, environment

pytest.importorskip("jax", reason="jax is not installed: pip install 'hlotool[jax]'")

CASES = ROOT / "tests" / "jax_sharded_cases.py"
_FUNCTIONS = [node for node in ast.parse(CASES.read_text()).body if isinstance(node, ast.FunctionDef)]
_NAMES = [node.name for node in _FUNCTIONS if ast.unparse(node.decorator_list[:1]) == "case"]
_PARTS = 2  # so that two processes of tests share the work
_FALL_BACK: dict[str, str] = {}
"""Programs that jaxlib runs, and what the reason says."""


def python(text: str, **changes: str) -> subprocess.CompletedProcess[str]:
    given = {"JAX_PLATFORMS": "hlotool", "JAX_NUM_CPU_DEVICES": "8", "HLOTOOL_FALLBACK": "error", **changes}
    return subprocess.run(
        [sys.executable, "-c", text], text=True, capture_output=True, check=False, env=environment(**given)
    )


@cache
def results(platform: str, part: int) -> dict[str, Any]:
    changes = {"JAX_PLATFORMS": platform, "JAX_NUM_CPU_DEVICES": "8", "HLOTOOL_FALLBACK": "silent"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results"
        command = [sys.executable, str(CASES), str(file), *_NAMES[part::_PARTS]]
        done = subprocess.run(command, text=True, capture_output=True, check=False, env=environment(**changes))
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = pickle.loads(file.read_bytes())
    return found


@pytest.mark.parametrize("part", range(_PARTS))
def test_programs_give_what_stock_jax_gives(part: int) -> None:
    """Every result, on every device; they are compiled, but for those of which it is known that they are not."""
    stock, ours = results("cpu", part), results("hlotool", part)
    wrong = []
    for name in _NAMES[part::_PARTS]:
        (wanted, failed, _), (found, problem, reasons) = stock[name], ours[name]
        assert not failed, failed
        expected = _FALL_BACK.get(name)
        if problem:
            wrong.append(f"{name}: {problem}")
        elif len(found) != len(wanted):
            wrong.append(f"{name}: {len(found)} results, not {len(wanted)}")
        elif (expected is None) != (not reasons) or any(expected not in reason for reason in reasons):
            wrong.append(f"{name}: fell back: {reasons}")
        else:
            for number, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
                try:
                    _same(mine, theirs)
                except AssertionError as error:
                    wrong.append(f"{name}, result {number}: {error}")
    assert not wrong, "\n".join(wrong)


def _same(mine: Any, theirs: Any) -> None:
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
    loose = 2e-2 if mine.dtype.itemsize < 4 and mine.dtype.kind == "f" else 3e-5
    if mine.dtype.kind in "fc":
        np.testing.assert_allclose(mine, theirs, rtol=loose, atol=loose)
    else:
        np.testing.assert_array_equal(mine, theirs)


_HEAD = """
import os, signal, threading, time
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), "x")
x = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), NamedSharding(mesh, P("x")))
def each(f, **options):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), **options))
"""

_INTERRUPTED = """
endless = each(lambda x: lax.while_loop(lambda c: lax.psum(c.sum(), "x") < 1e30, lambda c: c * 0 + x, x))
alone = each(lambda x: lax.while_loop(lambda c: c.sum() < 1e30, lambda c: jnp.sin(c) * 0 + x, x))
ends = each(lambda x: lax.psum(x, "x") + x)
for step in (endless.lower(x).compile(), alone.lower(x).compile()):
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        step(x)
    except KeyboardInterrupt:
        print("interrupted", float(ends(x)[1, 2]), threading.active_count())
"""


def test_interrupts_end_all_devices() -> None:
    """In collectives and outside of them; nothing is left running, and the next program works."""
    done = python(_HEAD + _INTERRUPTED)
    assert (done.stdout, done.stderr) == ("interrupted 134.0 1\n" * 2, "")


_TOGETHER = """
step = each(lambda x: lax.scan(lambda c, _: (lax.psum(jnp.sin(c), "x") + x, None), x, None, length=20)[0])
wanted = np.asarray(step(x))
found = []
def run():
    for _ in range(250):
        found.append(np.array_equal(np.asarray(step(x)), wanted))
threads = [threading.Thread(target=run) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found), all(found))
"""


def test_more_devices_than_threads_and_runs_at_once() -> None:
    done = python(_HEAD + _TOGETHER, HLOTOOL_THREADS="1")
    assert (done.stdout, done.stderr) == ("1000 True\n", "")


_CALLBACKS = """
def inside(x):  # runs programs of JAX itself, among all devices, while other devices wait
    rows = jax.device_put(np.zeros((8, 4), np.float32) + np.asarray(x), NamedSharding(mesh, P("x")))
    return np.asarray(jax.jit(lambda rows: rows + rows.sum(0) / 8)(rows))[:1]
shape = jax.ShapeDtypeStruct((1, 4), np.float32)
step = each(lambda x: lax.psum(jax.pure_callback(inside, shape, x), "x") + x)
print(float(step(x)[0, 0]))
def bad(x):
    if x[0, 0] == 12:
        raise ValueError("boom")
    time.sleep(0.01)
    return x
fails = each(lambda x: lax.psum(jax.pure_callback(bad, shape, x), "x") + x)
for _ in range(2):
    try:
        jax.block_until_ready(fails(x))
    except jax.errors.JaxRuntimeError as error:
        print("CpuCallback error" in str(error), "boom" in str(error))
print(float(each(lambda x: lax.psum(x, "x") + x)(x)[1, 2]))
"""


def test_callbacks_that_run_programs_and_callbacks_that_fail() -> None:
    """One device fails, the others wait for it: all of them end."""
    done = python(_HEAD + _CALLBACKS)
    assert done.stdout == "224.0\nTrue True\nTrue True\n134.0\n", done.stderr


_TOLD = """
both = NamedSharding(Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y")), P("x", "y"))
step = jax.jit(lambda x, y: (x @ y, x + 1, x.sum()), donate_argnums=1)
given = jax.device_put(np.ones((8, 8), np.float32), both), jax.device_put(np.ones((8, 8), np.float32), both)
compiled = step.lower(*given).compile()
print([tuple(sharding.spec) for sharding in jax.tree.leaves(compiled.input_shardings)])
print([tuple(sharding.spec) for sharding in compiled.output_shardings])
print("num_partitions=8" in compiled.as_text(), "f32[4,2]" in compiled.as_text())
print(compiled.memory_analysis().argument_size_in_bytes, compiled.cost_analysis()["flops"] < 8 * 8 * 8 * 2)
made = compiled(*given)
print(made[1].sharding.is_equivalent_to(both, 2), given[1].is_deleted(), given[0].is_deleted())
import hlotool.jax
print([row["note"] for row in hlotool.jax.explain().as_json()][-1])
from jax.experimental.serialize_executable import deserialize_and_load, serialize
plain = jax.jit(lambda x: x.T @ x).lower(given[0]).compile()
print(np.array_equal(deserialize_and_load(*serialize(plain))(given[0]), plain(given[0])))
"""


def test_what_is_told_of_a_program_for_several_devices() -> None:
    done = python(_HEAD + _TOLD)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[('x', 'y'), ('x', 'y')]", "[('x', 'y'), ('x', 'y'), ()]", "True True", "64 True", "True True False",
        "on 8 partitions", "True",
    ]  # fmt: skip


_REFUSED = """
step = jax.jit(lambda x: jax.ffi.ffi_call("somebody_elses", jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
step(x)
"""


def test_refusals_name_what_and_where() -> None:
    done = python(_HEAD + _REFUSED, HLOTOOL_FALLBACK="warn")
    line = next(line for line in done.stderr.splitlines() if line.startswith("hlotool:"))
    assert "somebody_elses" in line
    assert "jaxlib runs it" in line


_SHOWN = """
grid = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
for spec in (P("x"), P("y", "x"), P(("y", "x"))):
    step = jax.jit(lambda x: x * 2, out_shardings=NamedSharding(grid, spec))
    print(step.lower(jax.ShapeDtypeStruct((8, 8), np.float32)).compile().input_shardings[0][0])
"""


def test_axes_of_any_name() -> None:
    """JAX calls the axis of a pmap that has no name of its own after an object's address, in angle brackets."""
    text = (
        "for name in ('<axis 0x7f>', 'a]', '{b', 'c=1, \\'d'):\n"
        "    print(float(jax.pmap(lambda x: lax.psum(x, name), name)(np.arange(8.0))[3]))\n"
        "print(float(jax.pmap(lambda x: x + 1)(np.arange(8.0))[3]))"
    )
    done = python(_HEAD + text)
    assert done.stdout == "28.0\n" * 4 + "4.0\n", done.stderr


_SOME_ARE_FREE = """
cut, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
for left in (whole, cut):
    for out in ((None, left), (left, None)):
        print([r.sharding.spec for r in jax.jit(lambda x: (x + 1, x * 2), out_shardings=out)(x)])
pinned = jax.jit(lambda x: (lax.with_sharding_constraint(x, whole), x * 2), out_shardings=(None, cut))
print([r.sharding.spec for r in pinned(x)], jax.jit(lambda x: lax.with_sharding_constraint(x, whole))(x).sharding.spec)
"""


def test_results_that_are_left_to_the_compiler_beside_others() -> None:
    done, stock = python(_HEAD + _SOME_ARE_FREE), python(_HEAD + _SOME_ARE_FREE, JAX_PLATFORMS="cpu")
    assert done.stdout.count("'x'") == 7, done.stderr
    assert done.stdout == stock.stdout


def test_shardings_are_shown_as_stock_jax_shows_them() -> None:
    """Devices that are a transposed iota, as one."""
    done, stock = python(_HEAD + _SHOWN), python(_HEAD + _SHOWN, JAX_PLATFORMS="cpu")
    assert done.stdout.count("<=[") == 3, done.stderr
    assert done.stdout == stock.stdout
