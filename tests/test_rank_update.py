"""Products of few rows as updates of a result that stays in a cache, and convolutions of few pixels likewise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_conv import check, spec_of
from test_conv_epilogue import block
from test_gemm import MACHINES, close, dense, every_machine, multiply, normal
from test_product_fusion import same_numbers

import hlotool
from hlotool.analysis.contraction import MatrixView
from hlotool.codegen.cpu.products.conv import emit_conv
from hlotool.codegen.cpu.products.conv_spec import ConvSpec
from hlotool.codegen.cpu.products.dot import emit_dot
from hlotool.codegen.cpu.products.rank_update import columns_of
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.llvm.elements import arithmetic
from hlotool.codegen.machine import Machine, host, named
from hlotool.evaluate import evaluate

DENSE: tuple[Any, ...] = ((0, 1),) * 3
F32 = ("f32",) * 4
NARROW = [machine for machine in MACHINES if machine.vector_bits < 512]


def small(machine: Machine) -> Machine:
    return replace(machine, l1=16 << 10, l2=8 << 10)


def updates(kernel: Kernel) -> bool:
    return any(definition.name.startswith("spots_") for definition in kernel.definitions)


def product(m: int, k: int, n: int, types: tuple[str, str, str, str] = F32) -> MatrixView:
    return dense(m, n, k, types)


@every_machine
@pytest.mark.parametrize("m", [8, 9, 10, 31, 48, 64])
def test_products_of_few_rows(machine: Machine, m: int) -> None:
    machine = small(machine)
    lhs, rhs = normal((m, 100), np.float32), normal((100, 256), np.float32, 1)
    assert updates(emit_dot("dot", product(m, 100, 256), machine)) == (machine.vector_bits < 512 or 8 < m < 32)
    for orders in (DENSE, ((1, 0), (0, 1), (0, 1))):
        whole = multiply(lhs, rhs, machine, F32, orders)
        close(whole, lhs, rhs)
        np.testing.assert_array_equal(whole, multiply(lhs, rhs, machine, F32, orders, 3))


def test_cores_share_columns() -> None:
    """Tiles are narrower where there are many, with the same bits."""
    lhs, rhs = normal((20, 64), np.float32), normal((64, 512), np.float32, 1)
    few, many = (small(replace(named("x86-64-v2"), cores=cores)) for cores in (2, 32))
    how = arithmetic("f32", few)
    assert [columns_of(20, 512, how, machine) for machine in (few, many)] == [32, 16]
    np.testing.assert_array_equal(*(multiply(lhs, rhs, machine, F32, DENSE) for machine in (few, many)))


@pytest.mark.parametrize("machine", NARROW, ids=lambda machine: str(machine.vector_bits))
def test_terms_are_added_up_in_their_order(machine: Machine) -> None:
    """Bits are those of one multiply-add at a time, as they are of tiles of registers; wider vectors have no updates,
    and there blocks of terms follow the cache."""
    lhs, rhs = normal((20, 64), np.float32), normal((64, 256), np.float32, 1)
    both = [multiply(lhs, rhs, replace(machine, l2=size), F32, DENSE) for size in (8 << 10, 1 << 20)]
    np.testing.assert_array_equal(*both)


@every_machine
def test_other_types_batches_and_columns(machine: Machine) -> None:
    machine = small(machine)
    for lhs, rhs, kinds, orders in (
        (normal((12, 80), np.float64), normal((80, 384), np.float64, 1), ("f64",) * 4, DENSE),
        (normal((3, 12, 80), np.float32), normal((3, 80, 256), np.float32, 1), F32, ((0, 1, 2),) * 3),
        (normal((3, 12, 80), np.float32), normal((3, 80, 256), np.float32, 1), F32, ((1, 0, 2), (0, 1, 2), (1, 0, 2))),
        (normal((12, 80), np.float32), normal((80, 768), np.float32, 1), F32, DENSE),
        (normal((60, 80), np.float32), normal((80, 1280), np.float32, 1), F32, DENSE),
    ):
        close(multiply(lhs, rhs, machine, kinds, orders, 3), lhs, rhs)
    assert not updates(emit_dot("dot", product(12, 80, 256, ("s32",) * 4), machine))
    assert not updates(emit_dot("dot", product(12, 82, 256), machine))  # two terms are left over
    assert not updates(emit_dot("dot", product(12, 80, 250), machine))  # and columns that are no vector


def test_what_is_made_for_the_product_and_what_is_made_of_it() -> None:
    text = (
        "HloModule m\nENTRY e {\nx = f32[24,128] parameter(0)\nw = f32[128,512] parameter(1)\n"
        "v = f32[512] parameter(2)\nt = f32[24,128] tanh(x)\n"
        "d = f32[24,512] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "b = f32[24,512] broadcast(v), dimensions={1}\ns = f32[24,512] add(d, b)\nROOT r = f32[24,512] tanh(s)\n}\n"
    )
    module = hlotool.parse(text)
    inputs = [normal((24, 128), np.float32), normal((128, 512), np.float32, 1) / 16, normal((512,), np.float32, 2)]
    (expected,) = evaluate(module, inputs)
    for machine in NARROW:
        (got,) = hlotool.compile(module, machine=small(machine))(*inputs)
        np.testing.assert_allclose(got, expected, atol=2e-6)


SPECS = [
    spec_of(1, (7, 7), 16, 128, (3, 3), low=(1, 1)),
    spec_of(2, (4, 5), 32, 136, (3, 3), low=(1, 1)),
    spec_of(1, (14, 14), 16, 128, (3, 3), low=(1, 1), strides=(2, 2)),
    spec_of(1, (7, 9), 16, 256, (3, 3), low=(1, 1)),
    spec_of(1, (8, 8), 16, 256, (3, 3), low=(1, 1)),
    spec_of(1, (9, 8), 16, 128, (3, 2), low=(4, 1), window=(2, 3)),
    spec_of(1, (12, 13), 16, 128, (3, 3), low=(-1, 1), high=(1, -2)),
    spec_of(1, (6, 6), 16, 128, (3, 2), low=(1, 1), reversal=(False, True)),
    spec_of(3, (9,), 16, 192, (7,), low=(3,), strides=(2,)),
    spec_of(1, (3, 3, 4), 16, 128, (3, 3, 3), low=(1, 1, 1)),
    spec_of(1, (2, 2), 64, 128, (2, 2), low=(6, 0), high=(0, 0)),  # some pixels see nothing
    spec_of(1, (1, 2), 64, 128, (3, 3), low=(3, 4)),
    spec_of(1, (6, 6), 16, 128, (3, 3), low=(1, 1), orders=((0, 3, 1, 2), (2, 0, 1, 3), (0, 1, 2, 3))),
    spec_of(1, (6, 6), 16, 128, (3, 3), low=(1, 1), types=("f64",) * 4),
    spec_of(1, (6, 6), 16, 128, (3, 3), low=(1, 1), types=("bf16", "f32", "bf16", "f32")),
]


@every_machine
@pytest.mark.parametrize("spec", SPECS, ids=range(len(SPECS)))
def test_convolutions_of_few_pixels(machine: Machine, spec: ConvSpec) -> None:
    machine = small(machine)
    lanes, pixels = machine.vector_bits // (64 if spec.types[0] == "f64" else 32), math.prod(spec.result[:-1])
    wide = spec.output_features >= 16 * lanes and pixels < 64
    assert updates(emit_conv("conv", spec, machine)) == (machine.vector_bits < 512 or wide)
    check(spec, machine)
    check(spec, machine, strange=(np.inf, -np.inf, np.nan))


@pytest.mark.parametrize("spec", [
    spec_of(1, (12, 12), 16, 128, (3, 3), low=(1, 1)),  # 144 pixels
    spec_of(1, (7, 7), 18, 128, (3, 3), low=(1, 1)),
    spec_of(1, (7, 7), 16, 130, (3, 3), low=(1, 1)),
    spec_of(1, (7, 7), 16, 128, (3, 3), low=(1, 1), base=(2, 1)),
    spec_of(1, (7, 7), 32, 256, (3, 3), low=(1, 1), feature_groups=2),
    spec_of(1, (7, 7), 16, 128, (3, 3), low=(1, 1), orders=((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))),
])  # fmt: skip
def test_others_are_made_by_tiles_of_registers(spec: ConvSpec) -> None:
    assert not updates(emit_conv("conv", spec, small(named("x86-64-v3"))))


def test_what_is_made_of_a_convolution() -> None:
    made = block("1,7,7,48", "3,3,48,264", "1,7,7,264", "size=3x3 pad=1_1x1_1")
    for machine in NARROW:
        same_numbers(made, small(machine), exact=False)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_convolution_of_few_pixels(data: st.DataObject) -> None:
    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    rank = draw(1, 3)
    size, kernel, low, high, strides, window = (
        [draw(*bounds) for _ in range(rank)] for bounds in ((1, 6), (1, 3), (-1, 4), (-1, 4), (1, 3), (1, 2))
    )
    extents = zip(size, low, high, kernel, window, strict=True)
    assume(all(extent + before + after > (k - 1) * dilation for extent, before, after, k, dilation in extents))
    reversal = [data.draw(st.booleans()) for _ in range(rank)]
    spec = spec_of(
        draw(1, 3), size, 4 * draw(1, 5), 128 + 8 * draw(0, 9), kernel, strides=strides, low=low, high=high,
        window=window, reversal=reversal,
    )  # fmt: skip
    check(spec, replace(host(), l2=1 << 10))
