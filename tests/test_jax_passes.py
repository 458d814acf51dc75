"""hlotool's passes within JAX's compiler."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, environment

jax = pytest.importorskip("jax", reason="jax is not installed: pip install 'hlotool[jax]'")
pytest.importorskip("jax.extend.xla", reason="passes within jax's compiler need jax 0.10.2")

import jax.numpy as jnp  # noqa: E402

from hlotool.ir import InputError, Module  # noqa: E402
from hlotool.jax import passes  # noqa: E402
from hlotool.text.parser import parse  # noqa: E402
from hlotool.text.printer import print_module  # noqa: E402


def test_a_pass_changes_what_xla_compiles() -> None:
    def doubled(module: Module) -> Module:
        text = print_module(module)
        assert "constant(41)" in text
        return parse(text.replace("constant(41)", "constant(42)"))

    def function(x: Any) -> Any:
        return x + 41

    with passes.registered(doubled):
        assert float(jax.jit(function)(np.float32(1))) == 43  # as a number: JAX compiles its comparisons, too
    jax.clear_caches()
    assert float(jax.jit(function)(np.float32(1))) == 42


def test_a_pipeline_as_text_leaves_results_as_they_are() -> None:
    seen: list[str] = []

    def look(module: Module) -> None:
        seen.append(print_module(module))

    x = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    with passes.registered("algebraic-simplifier,cse,dce"), passes.registered(look, name="look"):
        found = jax.jit(lambda x: jnp.tanh(x @ x.T).sum(0))(x)
    np.testing.assert_allclose(found, np.tanh(x @ x.T).sum(0), rtol=1e-5)
    assert any("dot" in text for text in seen)


def test_nothing_is_handed_back_where_nothing_changes() -> None:
    data = jax.jit(lambda x: x + 1).lower(1.0).compiler_ir("hlo").as_serialized_hlo_module_proto()
    assert passes.transformation("dce")(data) is None
    assert passes.transformation(lambda module: None)(data) is None


def test_errors_of_a_pass_are_those_of_the_call() -> None:
    def broken(module: Module) -> Module:
        raise RuntimeError("this pass is broken")

    with passes.registered(broken, name="broken"), pytest.raises(Exception, match="this pass is broken"):
        jax.jit(lambda x: x - 7)(1.0)
    assert jax.jit(lambda x: x - 7)(1.0) == -6


def test_what_is_no_pass_is_refused() -> None:
    with pytest.raises(InputError, match="expected a pipeline or a function"):
        passes.register(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pre-scheduler"):
        passes.register("dce", stage="late")
    with pytest.raises(Exception, match="no-such-pass"):
        passes.register("no-such-pass")
    assert not passes.unregister("nobody registered this")


def test_the_sample() -> None:
    command = [sys.executable, "samples/jax/xla_pass.py"]
    run = subprocess.run(command, env=environment(), capture_output=True, text=True, cwd=ROOT, check=True)
    assert "fusion" in run.stdout
    assert "loss 0.144" in run.stdout
