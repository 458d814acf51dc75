"""Exponentials of numbers that are surely not positive: softmax, Gaussians."""

import numpy as np
import pytest

import hlotool
from hlotool.analysis.signs import is_nonpositive
from hlotool.codegen.machine import named, runs_here
from hlotool.ir import Module, dtype_of
from hlotool.text.parser import parse

MAXIMUM = "m { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] maximum(a, b) }\n"
MINIMUM = MAXIMUM.replace("maximum", "minimum")


def module(body: str, reducer: str = MAXIMUM, shape: str = "f32[5,48]") -> Module:
    return parse(f"HloModule t\n\n{reducer}\nENTRY e {{\n x = {shape} parameter(0)\n {body}\n}}\n")


TOP = "low = f32[] constant(-inf)\n t = f32[5] reduce(x, low), dimensions={1}, to_apply=m\n "
SPREAD = "b = f32[5,48] broadcast(t), dimensions={0}\n d = f32[5,48] subtract(x, b)\n ROOT r = f32[5,48] exponential(d)"


@pytest.mark.parametrize(
    ("body", "reducer", "yes"),
    [
        (TOP + SPREAD, MAXIMUM, True),
        (TOP + SPREAD, MINIMUM, False),
        (TOP + SPREAD.replace("(x, b)", "(b, x)"), MAXIMUM, False),
        (TOP + "y = f32[5,48] negate(x)\n " + SPREAD.replace("(x, b)", "(y, b)"), MAXIMUM, False),
        ("d = f32[5,48] negate(x)\n ROOT r = f32[5,48] exponential(d)", MAXIMUM, False),
        ("s = f32[5,48] multiply(x, x)\n d = f32[5,48] negate(s)\n ROOT r = f32[5,48] exponential(d)", MAXIMUM, True),
        ("n = f32[5,48] negate(x)\n d = f32[5,48] multiply(n, x)\n ROOT r = f32[5,48] exponential(d)", MAXIMUM, True),
        ("n = f32[5,48] abs(x)\n d = f32[5,48] negate(n)\n ROOT r = f32[5,48] exponential(d)", MAXIMUM, True),
    ],
)
def test_what_is_surely_not_positive(body: str, reducer: str, yes: bool) -> None:
    root = module(body, reducer).entry.root
    assert is_nonpositive(root.operands[0]) == yes


def test_a_maximum_along_another_dimension_of_a_square_is_not_the_one_at_each_place() -> None:
    body = (TOP + SPREAD).replace("48", "5")
    assert is_nonpositive(module(body, shape="f32[5,5]").entry.root.operands[0])
    turned = body.replace("dimensions={0}\n", "dimensions={1}\n")
    assert not is_nonpositive(module(turned, shape="f32[5,5]").entry.root.operands[0])


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_exponentials_of_what_is_not_positive_are_those_of_all_numbers(cpu: str, kind: str) -> None:
    machine = named(cpu)
    if not runs_here(machine):
        pytest.skip(f"this processor does not run {cpu}")
    lengths = {"f32": 110.0, "f64": 760.0, "f16": 20.0, "bf16": 110.0}
    values = np.concatenate([-np.geomspace(1e-8, lengths[kind], 4000), [0.0, -0.0, -np.inf, np.nan, -3e4]])
    shape = f"{kind}[{len(values)}]"
    text = "HloModule t\n\nENTRY e {{\n x = {0} parameter(0)\n {1}\n ROOT r = {0} exponential(d)\n}}\n"
    one, other = f"n = {shape} abs(x)\n d = {shape} negate(n)", f"d = {shape} copy(x)"
    array = values.astype(dtype_of(kind))
    found, wanted = (
        np.asarray(hlotool.compile(parse(text.format(shape, body)), machine=machine)(array)) for body in (one, other)
    )
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
