"""Every elementwise function is as accurate as the manual says: all numbers of narrow types, a sample of others."""

from __future__ import annotations

from typing import Any

import accuracy
import ml_dtypes
import numpy as np
import pytest
from semantics.units import distance

import hlotool
from hlotool.ir import dtype_of
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES

Array = np.ndarray[Any, Any]

EXACT = {name for name in accuracy.FUNCTIONS if (ELEMENTWISE_OPCODES[name].ulps or 0) <= 1}
"""Correctly rounded in every type."""
SAMPLE_STRIDE = 16381


@pytest.mark.parametrize("function", sorted(accuracy.FUNCTIONS))
def test_functions_are_accurate(function: str) -> None:
    for kind in accuracy.KINDS:
        found = accuracy.measure(function, kind, stride=SAMPLE_STRIDE)
        limit = 0.5 if function in EXACT else 0.51 if kind in accuracy.NARROW else 4.0
        assert found.normal <= limit, found
        assert found.subnormal <= max(limit, 1.0 if function == "exponential-minus-one" else 0.0), found


def test_wrong_results_are_seen() -> None:
    """The measure is not blind: one unit up, a lost sign, a missing NaN."""
    identity = accuracy.FUNCTIONS["negate"]

    def engine(change: Any) -> accuracy.Engine:
        return lambda opcode, kind, size: lambda x: change(identity(x))

    def upwards(x: Array) -> Array:
        return (x.view(np.uint16) + np.uint16(1)).view(x.dtype)

    assert accuracy.measure("negate", "bf16", engine(lambda x: x)).normal == 0
    assert accuracy.measure("negate", "bf16", engine(upwards)).normal >= 1
    assert accuracy.measure("negate", "f16", engine(np.negative)).normal > 1000
    assert accuracy.measure("log", "f16", engine(np.abs)).normal == np.inf


@pytest.mark.parametrize("function", ["acos", "exponential", "sine", "sqrt", "tanh"])
def test_the_compiled_judge_finds_what_numpy_finds(function: str) -> None:
    """Of right results, of neighbours, and of wrong ones: at zero, one, infinity, and where exp overflows."""
    random, judge = np.random.default_rng(5), accuracy.judge(function)
    specials = np.asarray([np.inf, -np.inf, np.nan, 0, 3.4028235e38, -3.4028235e38], np.float32)
    for start in (0, 0x3F7FC000, 0x42B17000, 0x7F7FC000, 0x80000000, 0xC2AE8000):
        x = (np.arange(accuracy.BLOCK, dtype=np.uint32) * np.uint32(3) + np.uint32(start)).view(np.float32)
        with np.errstate(all="ignore"):
            want = accuracy.FUNCTIONS[function](x.astype(np.float64))
            right = want.astype(np.float32)
        near = (right.view(np.uint32) + random.integers(0, 3, x.size).astype(np.uint32)).view(np.float32)
        wrong = np.where(random.random(x.size) < 1e-4, random.choice(specials, x.size), right)
        for got in (right, near, wrong):
            with np.errstate(all="ignore"):
                error, tiny = accuracy.errors(got, want, x)
            (normal, subnormal), off = judge(got, start, 3)
            for one, other in ((normal, error[~tiny]), (subnormal, error[tiny])):
                most = other.max(initial=0)
                assert one == most or abs(one - most) < 2.0**-12
            assert abs(off - np.count_nonzero(error > 0.5 + 2.0**-10)) <= 2


NARROWEST = [kind for kind in accuracy.NARROW if dtype_of(kind).itemsize == 1]


def both(text: str, *arguments: Array) -> Array:
    """How many numbers of the type native code and evaluator are apart."""
    module = hlotool.parse(text)
    (got,), (want,) = hlotool.compile(module, threads=1)(*arguments), hlotool.compile(module, "evaluate")(*arguments)
    return distance(got, want)


@pytest.mark.parametrize("kind", accuracy.NARROW)
def test_narrow_functions_are_those_of_the_evaluator(kind: str) -> None:
    """All functions of all numbers: the same, but where a result lies next to the middle of two numbers."""
    codes = np.arange(1 << 8 * dtype_of(kind).itemsize, dtype=f"u{dtype_of(kind).itemsize}")
    x = codes[: 16 if kind == "f4e2m1fn" else None].view(dtype_of(kind))
    lines = [f"HloModule m\nENTRY e {{\n  x = {kind}[{x.size}] parameter(0)"]
    names = sorted(accuracy.FUNCTIONS)
    lines += [f"  r{n} = {kind}[{x.size}] {name}(x)" for n, name in enumerate(names)]
    results = ", ".join(f"r{n}" for n in range(len(names)))
    module = hlotool.parse("\n".join([*lines, f"  ROOT all = tuple({results})", "}"]))
    pairs = zip(names, hlotool.compile(module)(x), hlotool.compile(module, "evaluate")(x), strict=True)
    for name, got, want in pairs:
        apart = distance(got, want, signed_zeros=name in EXACT)
        assert apart.max() <= (0 if name in EXACT else 1), (name, x[np.argmax(apart)])
        assert np.count_nonzero(apart) <= 32, (name, x[apart > 0])


@pytest.mark.parametrize("kind", NARROWEST)
def test_narrow_binary_functions_are_those_of_the_evaluator(kind: str) -> None:
    """Every pair of numbers of eight bits."""
    codes = np.arange(16 if kind == "f4e2m1fn" else 256, dtype=np.uint8).view(dtype_of(kind))
    x, y = (np.ascontiguousarray(part).reshape(-1) for part in np.meshgrid(codes, codes))
    for opcode in ("add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract"):
        text = (
            f"HloModule m\nENTRY e {{\n  x = {kind}[{x.size}] parameter(0)\n  y = {kind}[{x.size}] parameter(1)\n"
            f"  ROOT r = {kind}[{x.size}] {opcode}(x, y)\n}}"
        )
        apart = both(text, x, y)
        assert apart.max() <= (1 if opcode in ("atan2", "power") else 0), (opcode, x[np.argmax(apart)])
        assert np.count_nonzero(apart) <= 64, opcode  # quotients at the middle, whose angle lies just below


def test_types_have_the_numbers_that_ml_dtypes_says() -> None:
    for kind, dtype in accuracy.KINDS.items():
        assert dtype_of(kind) == np.dtype(dtype)
    assert ml_dtypes.finfo(dtype_of("f8e8m0fnu")).nmant == 0  # type: ignore[no-untyped-call]
