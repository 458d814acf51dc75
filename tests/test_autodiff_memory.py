"""What gradients keep: values that are computed again, where a program asks for it and where a bound does."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy
import pytest
from conftest import environment

import hlotool
import hlotool.numpy as np
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import InputError, Module, UnsupportedError
from hlotool.passes.autodiff import gradient_module
from hlotool.passes.framework.manager import run_pipeline
from hlotool.passes.framework.pipeline import parse_pipeline


def _deep(block: Any) -> Any:
    def loss(weights: list[Any], x: Any) -> Any:
        for w, v in weights:
            x = block(x, w, v)
        return np.mean(x**2)

    return loss


def _block(x: Any, w: Any, v: Any) -> Any:
    return x + np.tanh(x @ w) @ v


def _arguments(layers: int, rows: int = 256) -> tuple[Any, Any]:
    rng = numpy.random.default_rng(0)
    shapes = [(16, 64), (64, 16)] * layers
    flat = [rng.standard_normal(shape).astype("float32") * numpy.float32(0.1) for shape in shapes]
    return list(zip(flat[::2], flat[1::2], strict=True)), rng.standard_normal((rows, 16)).astype("float32")


def _leaves(arguments: tuple[Any, Any]) -> list[Any]:
    return [*(one for pair in arguments[0] for one in pair), arguments[1]]


@pytest.mark.parametrize("pipeline", ["O1", "O2", "O3"])
def test_what_is_computed_again_takes_no_memory(pipeline: str) -> None:
    """Of twelve blocks with their inner values, compiled: without `checkpoint` all are kept, with it those of one.

    Sizes are far beyond the 256 KiB that steps may take to run side by side, on some processors.
    """
    arguments = _arguments(12, rows=2048)
    found, sizes = [], []
    for block in (_block, hlotool.checkpoint(_block)):
        module = hlotool.value_and_grad(_deep(block)).module(*arguments)
        compiled = hlotool.compile(module, pipeline=pipeline)
        sizes.append(compiled.memory.arena_bytes)
        found.append(compiled(*_leaves(arguments)))
    assert sizes[1] < 0.4 * sizes[0]
    for one, other in zip(*found, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_bound() -> None:
    """What is compiled stays below it, and computes the same; the tighter it is, the more is computed again."""
    arguments = _arguments(16)
    whole = hlotool.value_and_grad(_deep(_block))
    plain = hlotool.compile(whole.module(*arguments))
    expected = plain(*_leaves(arguments))
    dots = []
    for bound in (2_000_000, 1_000_000, 700_000):
        assert plain.memory.arena_bytes > 1_000_000
        module = hlotool.value_and_grad(_deep(_block), memory=bound).module(*arguments)
        compiled = hlotool.compile(module)
        assert compiled.memory.arena_bytes <= bound
        for one, other in zip(compiled(*_leaves(arguments)), expected, strict=True):
            numpy.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
        dots.append(sum(one.opcode == "dot" for one in module.instructions()))
    assert dots == sorted(dots)
    assert dots[-1] > sum(one.opcode == "dot" for one in whole.module(*arguments).instructions())
    assert dots[-1] <= 6 * 16 + 2 * 16  # nothing is computed more than twice


def test_bounds_that_do_not_bind_and_that_cannot_be_met() -> None:
    arguments = _arguments(4)
    roomy, free = (
        hlotool.print_module(hlotool.value_and_grad(_deep(_block), memory=bound).module(*arguments))
        for bound in ("1GiB", None)
    )
    assert roomy == free
    with pytest.raises(UnsupportedError, match=r"does not fit into 1000 bytes: it takes \d+ as it is, and \d+ where"):
        hlotool.grad(_deep(_block), memory="1kB")(*arguments)
    with pytest.raises((InputError, ValueError), match="memory is a size"):
        hlotool.grad(_deep(_block), memory="much")


def _chain(length: int) -> Module:
    """A chain of cheap and dear instructions."""
    lines = ["x0 = f32[64,64] parameter(0)"]
    over = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for n in range(1, length):
        what = f"dot(x{n - 1}, x{n - 1}), {over}" if n % 4 == 0 else f"sine(x{n - 1})"
        lines.append(f"x{n} = f32[64,64] {what}")
    add = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
    end = f"z = f32[] constant(0)\nROOT r = f32[] reduce(x{length - 1}, z), dimensions={{0,1}}, to_apply=add"
    return hlotool.parse(f"HloModule m\n{add}\nENTRY main {{\n" + "\n".join([*lines, end]) + "\n}\n")


def test_decisions_say_what_is_computed_again_and_why() -> None:
    module, log = _chain(60), DecisionLog()
    run_pipeline(module, parse_pipeline("grad{memory=400kB}"), log)
    hlotool.verify(module)
    found = [decision for decision in log if decision.rule == "compute-again"]
    assert found
    for decision in found:
        numbers = dict(decision.numbers)
        assert decision.code == "HLO4194"
        assert numbers["peak_after"] <= 400_000 < numbers["peak_before"]
        assert "so that they need not be kept" in decision.reason


def test_work_counts() -> None:
    """Products, which are dear, are kept where there is room for some: sines are computed again first."""
    module = _chain(60)
    plain, bound = gradient_module(module), gradient_module(module, memory=900_000)
    dots, sines = (
        [sum(one.opcode in opcodes for one in each.instructions()) for each in (plain, bound)]
        for opcodes in (("dot",), ("sine",))
    )
    assert sines[1] > sines[0]
    assert dots[1] - dots[0] < (sines[1] - sines[0]) / 3


def test_gradients_of_large_modules_are_as_large_as_they() -> None:
    sizes = []
    for length in (1000, 4000):
        module = _chain(length)
        count = module.instruction_count()
        sizes.append(gradient_module(module, memory=5_000_000).instruction_count() / count)
        assert gradient_module(module).instruction_count() < 8 * count
    assert sizes[1] < 1.2 * sizes[0]


def test_the_text_is_the_same_at_any_hash_seed(tmp_path: Any) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(hlotool.print_module(_chain(40)))
    texts = {
        subprocess.run(
            [sys.executable, "-m", "hlotool", "opt", str(path), "-p", "grad{memory=300kB}"],
            capture_output=True, text=True, check=True, env={**environment(), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "77")
    }  # fmt: skip
    assert len(texts) == 1
    assert "opt-barrier" in texts.pop()
