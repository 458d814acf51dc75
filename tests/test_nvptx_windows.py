"""Reduce-window on graphics processors: scans by blocks and by threads, and other windows, in all orders of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Module
from hlotool.text.parser import parse

ORDERS = ["emulate", "emulate-reversed", "emulate-shuffled"]
BLOCKS, THREADS = "threads neighbouring elements", "every line of the scan"


def scan_of(
    dimensions: tuple[int, ...], along: int, kind: str, opcode: str = "add", *, backward: bool = False, cut: int = 0
) -> Module:
    """A cumulative reduction; with `cut` it starts so many elements late, with the initial value."""
    size = dimensions[along]
    window, low = [1] * len(dimensions), ["0_0"] * len(dimensions)
    window[along] = size
    low[along] = f"{-cut}_{size - 1 + cut}" if backward else f"{size - 1 + cut}_{-cut}"
    shape = f"{kind}{list(dimensions)}"
    return parse(f"""combine {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] {opcode}(a, b)
}}
ENTRY e {{
  x = {shape} parameter(0)
  z = {kind}[] parameter(1)
  ROOT w = {shape} reduce-window(x, z), to_apply=combine,
    window={{size={"x".join(map(str, window))} pad={"x".join(low)}}}
}}""")


def check(module: Module, words: str, rtol: float) -> None:
    inputs = random_inputs(module, 3)
    (wanted,) = evaluate(module, inputs)
    bits = set()
    for name in ORDERS:
        executable = compile_module(module, f"nvptx:{name}")
        assert words in next(d.reason for d in executable.decisions if d.rule == "windows")
        (got,) = executable(*inputs)
        bits.add(got.tobytes())
        if np.issubdtype(wanted.dtype, np.integer) or wanted.dtype == bool:
            np.testing.assert_array_equal(got, wanted)
        else:
            wide = np.asarray(wanted).astype(np.complex128)
            scale = float(np.abs(wide).max())
            np.testing.assert_allclose(np.asarray(got).astype(np.complex128), wide, rtol=rtol, atol=rtol * scale)
    assert len(bits) == 1


@settings(max_examples=30, deadline=None)
@given(
    shape=st.sampled_from(
        [((3, 70), 1), ((1, 5000), 1), ((2, 4097), 1), ((300, 5), 0), ((2, 3000, 3), 1), ((2048,), 0)]
    ),
    kind=st.sampled_from(["f32", "f64", "s32", "u8", "bf16", "c64"]), backward=st.booleans(),
    cut=st.sampled_from([0, 1, 3]), opcode=st.sampled_from(["add", "maximum", "multiply"]),
)  # fmt: skip
def test_blocks_scan_lines(
    shape: tuple[tuple[int, ...], int], kind: str, backward: bool, cut: int, opcode: str
) -> None:
    if (kind == "c64" and opcode == "maximum") or (kind not in ("s32", "u8") and opcode == "multiply"):
        opcode = "add"  # products of many floats leave their range
    module = scan_of(*shape, kind, opcode, backward=backward, cut=cut)
    check(module, BLOCKS, {"bf16": 2e-2, "f64": 1e-10}.get(kind, 1e-4))


@pytest.mark.parametrize("opcode", ["and", "or"])
def test_blocks_scan_truths(opcode: str) -> None:
    check(scan_of((2, 700), 1, "pred", opcode), BLOCKS, 0.0)


@pytest.mark.parametrize(("shape", "along"), [((40, 4096), 0), ((2, 9), 1), ((3, 20, 7), 1)])
def test_threads_scan_short_lines_and_many_side_by_side(shape: tuple[int, ...], along: int) -> None:
    check(scan_of(shape, along, "f32"), THREADS, 1e-5)


def test_where_order_matters_a_thread_goes_through_a_line() -> None:
    check(scan_of((3, 200), 1, "f32", "subtract"), THREADS, 1e-5)


def test_results_that_repeat_the_whole_sum() -> None:
    """The window reaches beyond the line: the last results are those of all elements."""
    module = parse("""add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[2,100] parameter(0)
  z = f32[] constant(0)
  ROOT w = f32[2,120] reduce-window(x, z), window={size=1x130 pad=0_0x129_20}, to_apply=add
}""")
    check(module, THREADS, 1e-5)


@pytest.mark.parametrize("window", ["{size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0}", "{size=1x2x2x1}"])
@pytest.mark.parametrize("opcode", ["maximum", "add"])
def test_other_windows_have_a_thread_for_each_result(window: str, opcode: str) -> None:
    size = "8,8" if "stride" in window else "15,15"
    module = parse(f"""combine {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] {opcode}(a, b) }}
ENTRY e {{
  x = f32[2,16,16,5] parameter(0)
  z = f32[] parameter(1)
  ROOT w = f32[2,{size},5] reduce-window(x, z), window={window}, to_apply=combine
}}""")
    inputs = random_inputs(module, 3)
    (wanted,) = evaluate(module, inputs)
    for name in ORDERS:
        np.testing.assert_allclose(compile_module(module, f"nvptx:{name}")(*inputs)[0], wanted, rtol=1e-5, atol=1e-6)
