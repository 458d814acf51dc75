"""Programs of JAX that an earlier process compiled: taken from the cache, without the compiler, and no others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import environment

pytest.importorskip("jax", reason="jax is not installed: pip install 'hlotool[jax]'")

HEAD = "import json, sys, numpy as np, jax, jax.numpy as jnp, hlotool.jax\n"
TAIL = """
records = hlotool.jax.explain().as_json()
loaded = [name for name in ("passes", "text", "driver", "evaluate") if f"hlotool.{name}" in sys.modules]
print(json.dumps({"found": np.asarray(found).tolist(), "notes": [r["note"] for r in records], "loaded": loaded}))
"""
STORED = "compiled by an earlier process"


def run(text: str, cache: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + text + TAIL], text=True, capture_output=True, check=False,
        env=environment(JAX_PLATFORMS="hlotool", HLOTOOL_CACHE=cache),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    text = "found = jax.jit(lambda x, y: (x * 2 + y).sum(0), donate_argnums=1)(jnp.ones((3, 4)), jnp.ones((3, 4)))"
    first = run(text, str(tmp_path))
    assert first["found"] == [9.0] * 4
    assert STORED not in first["notes"]
    # Other lines of the same program are the same program.
    second = run("\n\n" + text, str(tmp_path))
    assert second["found"] == first["found"]
    assert set(second["notes"]) == {STORED}
    assert not second["loaded"]


COUNTED = """
from hlotool.runtime import compile_queue, fastcall, pool
made = [fastcall._library.is_made, pool._pool.is_made, compile_queue._code.is_made]
print(json.dumps({"made": made, "names": sorted(name for name in sys.modules if name.startswith("hlotool"))}))
"""


def test_a_first_program_reads_and_compiles_little(tmp_path: Path) -> None:
    """Where nothing is in the cache: native code around the program, and files of Python, are most of what there is."""
    text = "import json, sys, jax\nprint(jax.jit(lambda x: x + 1)(1.0))"
    done = subprocess.run(
        [sys.executable, "-c", text + COUNTED], text=True, capture_output=True, check=True,
        env=environment(JAX_PLATFORMS="hlotool", HLOTOOL_CACHE=str(tmp_path)),
    )  # fmt: skip
    result, counted = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(counted)
    assert (result, found["made"]) == ("2.0", [False, False, False])
    needless = (
        "hlotool.codegen.cpu.fusions.", "hlotool.codegen.cpu.products.", "hlotool.codegen.loops.",
        "hlotool.codegen.nests.", "hlotool.codegen.llvm.math.exp", "hlotool.passes.expand.", "hlotool.passes.loops.",
        "hlotool.passes.collectives.", "hlotool.passes.simplify.algebra.identities_", "hlotool.evaluate.devices",
        "hlotool.text.lexer", "hlotool.text.parser", "hlotool.text.printer", "hlotool.harness",
        "hlotool.analysis.clusters", "hlotool.analysis.decision_codes", "hlotool.evaluate.custom_call",
    )  # fmt: skip
    assert [name for name in found["names"] if name.startswith(needless)] == []
    assert len(found["names"]) <= 230


def test_what_came_before_makes_no_other_program(tmp_path: Path) -> None:
    """Programs are read in one MLIR context, which remembers; here the first process has one for each program."""
    text = "found = jax.jit(lambda x: jnp.sin(x) @ x + jnp.arange(4.0))(jnp.ones((4, 4)))"
    first = run("from hlotool.jax.pjrt import lowering\nlowering._SEEN = -1\n" + text, str(tmp_path))
    assert STORED not in first["notes"]
    for ahead in ("", "jnp.linalg.norm(jnp.arange(5.0)) + jnp.arange(4.0).sum()\n"):
        again = run(ahead + text, str(tmp_path))
        assert again["found"] == first["found"]
        assert set(again["notes"][-len(first["notes"]) :]) == {STORED}


def test_another_program_is_compiled(tmp_path: Path) -> None:
    text = "found = jax.jit(lambda x: x + {})(jnp.ones(4))"
    assert run(text.format(1), str(tmp_path))["found"] == [2.0] * 4
    changed = run(text.format(2), str(tmp_path))
    assert changed["found"] == [3.0] * 4
    assert changed["notes"][-1] == ""


def test_donated_arguments_of_stored_programs_are_gone(tmp_path: Path) -> None:
    text = (
        "x = jnp.arange(4.0)\ny = jax.jit(lambda x: x + 1, donate_argnums=0)(x)\n"
        "found = [*map(float, y), x.is_deleted()]"
    )
    assert run(text, str(tmp_path))["found"] == [1.0, 2.0, 3.0, 4.0, 1.0]
    second = run(text, str(tmp_path))
    assert second["found"] == [1.0, 2.0, 3.0, 4.0, 1.0]
    assert STORED in second["notes"]


@pytest.mark.parametrize("body", ["jax.pure_callback(lambda x: x + 1, x, x)", "jnp.linalg.cholesky(jnp.diag(x))[0]"])
def test_what_calls_others_is_compiled_anew(tmp_path: Path, body: str) -> None:
    text = f"x = jnp.ones(4)\nfound = jax.jit(lambda x: {body})(x)"
    first, second = (run(text, str(tmp_path)) for _ in range(2))
    assert first["found"] == second["found"]
    assert "" in second["notes"]


def test_without_a_cache(tmp_path: Path) -> None:
    text = "found = jax.jit(lambda x: x + 1)(jnp.ones(4))"
    for _ in range(2):
        answer = run(text, "off")
        assert answer["found"] == [2.0] * 4
        assert STORED not in answer["notes"]


def test_a_damaged_entry_is_a_miss(tmp_path: Path) -> None:
    text = "found = jax.jit(lambda x: x + 1)(jnp.ones(4))"
    run(text, str(tmp_path))
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:-7])
    assert run(text, str(tmp_path))["found"] == [2.0] * 4
