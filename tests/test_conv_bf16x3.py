"""Convolutions of f32 numbers in three bf16 parts, against a direct sum over the window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_bf16x3 import UNIT
from test_conv import check, of_types, reference, run, spec_of

import hlotool
from hlotool.codegen.cpu.products import bf16x3, conv_bf16x3
from hlotool.codegen.cpu.products.conv import emit_conv
from hlotool.codegen.cpu.products.conv_spec import ConvSpec
from hlotool.codegen.machine import host
from hlotool.evaluate import evaluate

pytestmark = pytest.mark.skipif(not host().has_tiles, reason="no AMX here, or not for this process")
SWAPPED = [(0, 1, 2, 3), (0, 1, 3, 2), (0, 1, 2, 3)]  # the kernel with its input features last


@pytest.fixture(autouse=True)
def small_products_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bf16x3, "PAYS", 0)
    monkeypatch.setattr(bf16x3, "LEAST", 0)
    monkeypatch.setattr(conv_bf16x3, "FRAMED", 1000)


def in_bf16x3(spec: ConvSpec) -> bool:
    return any("bf16x3_multiply" in helper.definitions for helper in emit_conv("conv", spec, host()).helpers)


SPECS = [
    spec_of(1, (9, 11), 32, 32, (3, 3), low=(1, 1)),
    spec_of(2, (7, 7), 64, 40, (3, 3), low=(1, 1)),
    spec_of(1, (33, 40), 32, 70, (3, 3), low=(1, 0), high=(0, 2)),
    spec_of(2, (14, 15), 32, 48, (3, 3), low=(1, 1), strides=(2, 2)),
    spec_of(1, (17, 16), 32, 32, (5, 4), low=(2, 1), strides=(3, 2)),
    spec_of(1, (15, 15), 64, 32, (1, 1), low=(1, 1), strides=(2, 2)),
    spec_of(1, (12, 13), 32, 32, (3, 2), low=(4, 1), window=(2, 3)),
    spec_of(1, (12, 13), 32, 32, (3, 3), low=(2, 2), window=(3, 2), strides=(2, 3)),
    spec_of(1, (12, 13), 32, 32, (3, 3), low=(-1, 1), high=(1, -2)),
    spec_of(1, (9, 9), 32, 64, (3, 3), low=(1, 1), reversal=(True, True), orders=SWAPPED),
    spec_of(1, (9, 9), 64, 32, (3, 2), low=(1, 1), reversal=(False, True)),
    spec_of(3, (50,), 32, 33, (7,), low=(3,), strides=(2,)),
    spec_of(2, (5, 6, 7), 32, 32, (3, 3, 3), low=(1, 1, 1)),
    spec_of(1, (6, 6, 7), 32, 36, (2, 3, 3), low=(0, 1, 1), strides=(2, 1, 2), window=(2, 1, 1)),
    spec_of(1, (3, 3), 32, 32, (2, 2), low=(6, 0), high=(0, 0)),
    spec_of(1, (1, 2), 32, 32, (3, 3), low=(3, 4)),
]


@pytest.mark.parametrize("spec", SPECS, ids=range(len(SPECS)))
def test_windows(spec: ConvSpec) -> None:
    assert in_bf16x3(spec)
    check(spec, host())


@pytest.mark.parametrize("spec", [SPECS[0], SPECS[3], SPECS[8], SPECS[11], SPECS[12]], ids=range(5))
def test_kernels_that_are_not_finite(spec: ConvSpec) -> None:
    assert in_bf16x3(spec)
    check(spec, host(), [np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("types", [
    ("f16", "f16", "f32", "f32"), ("f16", "f16", "f16", "f32"), ("f32", "bf16", "bf16", "f32"),
    ("bf16", "f16", "f32", "f32"),
], ids="-".join)  # fmt: skip
def test_numbers_of_16_bits_are_converted_first(types: tuple[str, str, str, str]) -> None:
    for spec in (SPECS[0], SPECS[3], SPECS[9], SPECS[11]):
        assert in_bf16x3(of_types(spec, types))
        check(of_types(spec, types), host())
        check(of_types(spec, types), host(), [np.inf, -np.inf, np.nan])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_window(data: st.DataObject) -> None:
    def some(low: int, high: int, count: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    rank = data.draw(st.integers(1, 3))
    size, kernel = some(1, 12 if rank < 3 else 6, rank), some(1, 4 if rank < 3 else 2, rank)
    strides, window = some(1, 3, rank), some(1, 3, rank)
    low, high = some(-1, 4, rank), some(-1, 4, rank)
    reach = [size[i] + low[i] + high[i] - (kernel[i] - 1) * window[i] for i in range(rank)]
    assume(min(reach) > 0 and max(kernel) > 1)
    every = list(range(rank + 2))
    turned = [*every[:-2], every[-1], every[-2]]
    lhs_order = [*data.draw(st.permutations(every[:-1])), every[-1]]
    spec = spec_of(
        data.draw(st.integers(1, 3)), size, data.draw(st.sampled_from([32, 64])), data.draw(st.integers(32, 70)),
        kernel, strides=strides, low=low, high=high, window=window,
        reversal=data.draw(st.lists(st.booleans(), min_size=rank, max_size=rank)),
        orders=[lhs_order, data.draw(st.sampled_from([every, turned])), every],
    )
    assert in_bf16x3(spec)
    check(spec, host())


def test_not_for_frames_of_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv_bf16x3, "FRAMED", 4)
    assert in_bf16x3(SPECS[0])
    assert not in_bf16x3(SPECS[-1])


def test_as_exact_as_f32_numbers() -> None:
    spec, rng = spec_of(1, (20, 20), 64, 64, (3, 3), low=(1, 1)), np.random.default_rng(0)
    lhs, rhs = rng.standard_normal((1, 20, 20, 64), np.float32), rng.standard_normal((3, 3, 64, 64), np.float32)
    exact = reference(spec, lhs.astype(np.float64), rhs.astype(np.float64))
    size = reference(spec, np.abs(lhs.astype(np.float64)), np.abs(rhs.astype(np.float64)))
    assert (np.abs(run(spec, host(), lhs, rhs) - exact) <= (21 + 6 * 18) * UNIT * size).all()


PROGRAM = """HloModule block
ENTRY e {
  x = f32[2,14,14,32]{3,2,1,0} parameter(0)
  w = f32[3,3,32,64]{3,2,1,0} parameter(1)
  b = f32[64]{0} parameter(2)
  r = f32[2,14,14,64]{3,2,1,0} parameter(3)
  c = f32[2,14,14,64]{3,2,1,0} convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  bs = f32[2,14,14,64]{3,2,1,0} broadcast(b), dimensions={3}
  s = f32[2,14,14,64]{3,2,1,0} add(c, bs)
  ROOT t = f32[2,14,14,64]{3,2,1,0} add(s, r)
}"""
KEPT = PROGRAM.replace("ROOT t", "t").rstrip("}") + "  ROOT u = (f32[2,14,14,64], f32[2,14,14,64]) tuple(c, t)\n}"


@pytest.mark.parametrize("text", [PROGRAM, KEPT], ids=["epilogue", "both"])
@pytest.mark.parametrize("strange", [0.0, np.inf], ids=str)
def test_epilogues(text: str, strange: float) -> None:
    module, rng = hlotool.parse(text), np.random.default_rng(0)
    shapes = [(2, 14, 14, 32), (3, 3, 32, 64), (64,), (2, 14, 14, 64)]
    arguments: list[Any] = [rng.standard_normal(shape, np.float32) for shape in shapes]
    arguments[1][0, 1, 3, 5] += strange
    expected = evaluate(module, arguments)
    results = []
    for threads in (1, 2):
        executable = hlotool.compile(module, threads=threads)
        assert any("bf16x3_multiply" in unit for unit in executable.program.units)
        results.append(executable(*arguments))
        for result, value in zip(results[-1], expected, strict=True):
            np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-3)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
