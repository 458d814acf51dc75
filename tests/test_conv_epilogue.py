"""Convolutions fused with what reads them: which are, and the same numbers to the bit; infinities under padding."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from test_gemm import MACHINES, every_machine
from test_product_fusion import fused, kinds, module, same_numbers

from hlotool.codegen.machine import Machine, host, named
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.ir import Module


def convolution(
    image: str, kernel: str, out: str, window: str, labels: str = "b01f_01io->b01f", more: str = "",
    *, kind: str = "f32",
) -> str:
    features = out.rsplit(",", 1)[1]
    return (
        f"a = {kind}[{image}] parameter(0)\nb = {kind}[{kernel}] parameter(1)\nc = {kind}[{features}] parameter(2)\n"
        f"r = {kind}[{out}] parameter(3)\n"
        f"d = {kind}[{out}] convolution(a, b), window={{{window}}}, dim_labels={labels}{more}\n"
        f"cb = {kind}[{out}] broadcast(c), dimensions={{{out.count(',')}}}\ns = {kind}[{out}] add(d, cb)\n"
    )


def block(*arguments: str) -> Module:
    """Bias, residual and relu behind a convolution."""
    kind, out = "f32", arguments[2]
    return module(
        convolution(*arguments) + f"t = {kind}[{out}] add(s, r)\nz = {kind}[] constant(0)\n"
        f"zb = {kind}[{out}] broadcast(z), dimensions={{}}\nROOT y = {kind}[{out}] maximum(t, zb)"
    )


BLOCKS = {
    "same": ("2,9,11,5", "3,3,5,7", "2,9,11,7", "size=3x3 pad=1_1x1_1"),
    "wide": ("1,8,30,24", "3,3,24,230", "1,8,30,230", "size=3x3 pad=1_1x1_1"),
    "deep": ("1,7,7,130", "3,3,130,200", "1,7,7,200", "size=3x3 pad=1_1x1_1"),
    "strided": ("1,20,20,3", "7,7,3,33", "1,10,10,33", "size=7x7 stride=2x2 pad=3_2x3_2"),
    "pointwise": ("2,6,7,5", "1,1,5,9", "2,6,7,9", "size=1x1"),
    "pointwise-strided": ("2,6,8,5", "1,1,5,9", "2,3,4,9", "size=1x1 stride=2x2"),
    "dilated": ("3,17,4", "2,4,5", "3,17,5", "size=2 pad=4_0 rhs_dilate=4", "b0f_0io->b0f"),
    "turned": ("2,5,9,11", "3,3,5,7", "9,2,11,7", "size=3x3 pad=1_1x1_1", "bf01_01io->0b1f"),
    "inside": ("4,12,12,8", "5,5,8,20", "4,8,8,20", "size=5x5"),
    "volume": ("2,5,6,7,3", "2,3,2,3,17", "2,4,4,6,17", "size=2x3x2", "b012f_012io->b012f"),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_bias_residual_and_relu_are_part_of_the_convolution(case: str) -> None:
    made = block(*BLOCKS[case])
    result, log = fused(made)
    assert kinds(result) == ["kOutput"]
    assert [d.code for d in log if d.pass_name == "product-fusion"] == ["HLO4033"]
    for machine in MACHINES:
        same_numbers(made, machine, exact=False)
    same_numbers(made, exact=False)


@pytest.mark.parametrize(("image", "out"), [("1,7,7,48", "1,7,7,262"), ("2,4,5,48", "2,4,5,250")])
def test_sums_that_come_in_pieces_are_complete_before_anything_reads_them(image: str, out: str) -> None:
    features = out.rsplit(",", 1)[1]
    made = block(image, f"3,3,48,{features}", out, "size=3x3 pad=1_1x1_1")
    assert kinds(fused(made)[0]) == ["kOutput"]
    for machine in (named("x86-64-v3,l2=32K"), named("x86-64-v2,l2=32K")):
        if machine.vector_bits <= host().vector_bits:
            same_numbers(made, machine, exact=False)


@pytest.mark.parametrize("kind", ["f64", "bf16", "f16", "s32", "c64"])
def test_types(kind: str) -> None:
    body = convolution(*BLOCKS["same"], kind=kind) + f"ROOT y = {kind}[2,9,11,7] multiply(s, r)"
    made = module(body)
    assert "kOutput" in kinds(fused(made)[0])
    same_numbers(made, exact=False)


def test_rows_of_features() -> None:
    """A softmax over the features of each pixel."""
    body = convolution(*BLOCKS["same"]) + (
        "z = f32[] constant(0)\nx = f32[2,9,11,7] exponential(s)\n"
        "t = f32[2,9,11] reduce(x, z), dimensions={3}, to_apply=add\n"
        "tb = f32[2,9,11,7] broadcast(t), dimensions={0,1,2}\nROOT y = f32[2,9,11,7] divide(x, tb)"
    )
    made = module(body, "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n\n")
    assert kinds(fused(made)[0]) == ["kOutput"]
    same_numbers(made, exact=False)


@pytest.mark.parametrize("arguments", [
    ("2,5,9,11", "3,3,5,7", "2,7,9,11", "size=3x3 pad=1_1x1_1", "bf01_01io->bf01"),  # features are not the last
    ("2,9,11,6", "3,3,2,9", "2,9,11,9", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ", feature_group_count=3"),
    ("2,5,6,5", "3,3,5,7", "2,9,11,7", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2"),
], ids=["nchw", "groups", "transposed"])
def test_others_stay_alone(arguments: tuple[str, ...]) -> None:
    made = block(*arguments)
    result, log = fused(made)
    assert "kOutput" not in kinds(result)
    assert [d.rule for d in log if d.action == "refuse" and d.pass_name == "product-fusion"] == ["product-form"]
    same_numbers(made)


@every_machine
@pytest.mark.parametrize("case", BLOCKS)
def test_padding_adds_nothing_to_infinities(machine: Machine, case: str) -> None:
    made = block(*BLOCKS[case])
    random = np.random.default_rng(Random(case).randrange(1 << 30))
    shapes = [p.shape.dimensions for p in made.entry.parameters]
    arguments = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    arguments[0] = np.abs(arguments[0]) + 1
    where = random.random(shapes[1]) < 0.1
    arguments[1][where] = random.choice([np.inf, -np.inf, np.nan], shapes[1])[where]
    found = compile_module(made, machine=machine, threads=2)(*arguments)
    expected = evaluate(made, arguments)
    assert all(one.ok for one in compare_all(found, expected))
    np.testing.assert_array_equal(np.isnan(np.asarray(found[0])), np.isnan(np.asarray(expected[0])))
