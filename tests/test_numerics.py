"""How exactly programs compute: every result rounded to its type, unless the user asks for something else."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlotool
from hlotool.codegen.machine import named
from hlotool.ir import dtype_of

Array = np.ndarray[Any, Any]

CHAIN = """HloModule chain
ENTRY main {{
  x = {kind}[{size}] parameter(0)
  y = {kind}[{size}] parameter(1)
  sum = {kind}[{size}] add(x, y)
  product = {kind}[{size}] multiply(sum, y)
  ROOT difference = {kind}[{size}] subtract(product, x)
}}
"""


def operands(kind: str, size: int) -> tuple[Array, Array]:
    random = np.random.default_rng(3)
    first, second = (random.uniform(0.5, 2, size).astype(dtype_of(kind)) for _ in range(2))
    return first, second


def in_single(x: Array, y: Array) -> Array:
    """The chain in f32, rounded at its end."""
    a, b = x.astype(np.float32), y.astype(np.float32)
    return ((a + b) * b - a).astype(x.dtype)


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("kind", ["f16", "bf16", "f8e5m2", "f8e4m3fn"])
def test_every_narrow_result_is_rounded(kind: str, size: int) -> None:
    x, y = operands(kind, size)
    module = hlotool.parse(CHAIN.format(kind=kind, size=size))
    (got,), (want,) = hlotool.compile(module)(x, y), hlotool.compile(module, "evaluate")(x, y)
    assert got.tobytes() == want.tobytes()
    assert size == 1 or got.tobytes() != in_single(x, y).tobytes()


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_excess_precision_rounds_what_is_stored(kind: str, size: int) -> None:
    x, y = operands(kind, size)
    module = hlotool.parse(CHAIN.format(kind=kind, size=size))
    (got,) = hlotool.compile(module, excess_precision=True)(x, y)
    assert got.tobytes() == in_single(x, y).tobytes()


def test_excess_precision_ends_at_the_bits() -> None:
    """A bitcast-convert sees a number of the type."""
    text = """HloModule bits
    ENTRY main {
      x = bf16[64] parameter(0)
      y = bf16[64] parameter(1)
      sum = bf16[64] add(x, y)
      ROOT bits = u16[64] bitcast-convert(sum)
    }"""
    x, y = operands("bf16", 64)
    (got,) = hlotool.compile(hlotool.parse(text), excess_precision=True)(x, y)
    np.testing.assert_array_equal(got, (x + y).view(np.uint16))


FLUSHED = """HloModule flushed
plus {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT sum = {kind}[] add(a, b)
}}
ENTRY main {{
  x = {kind}[{size}] parameter(0)
  y = {kind}[{size}] parameter(1)
  product = {kind}[{size}] multiply(x, y)
  sum = {kind}[{size}] add(x, y)
  size = {kind}[{size}] abs(x)
  root = {kind}[{size}] sqrt(size)
  less = pred[{size}] compare(x, y), direction=NE
  zero = {kind}[] constant(0)
  total = {kind}[] reduce(x, zero), dimensions={{0}}, to_apply=plus
  moved = {kind}[{size}] reverse(x), dimensions={{0}}
  ROOT all = tuple(product, sum, root, less, total, moved)
}}
"""


def near_the_end(kind: str, size: int) -> tuple[Array, Array]:
    """Numbers whose products and sums lie on both sides of the smallest normal one."""
    random = np.random.default_rng(5)
    least = {"f64": -1022, "f32": -126, "bf16": -126}[kind]
    x = np.ldexp(random.uniform(-1, 1, size), least + random.integers(-4, 4, size))
    y = np.where(random.random(size) < 0.5, random.uniform(-1, 1, size), x * random.choice([0.5, -1, 1], size))
    return x.astype(dtype_of(kind)), y.astype(dtype_of(kind))


def around_zero(kind: str, x: Array) -> Array:
    """bf16 is flushed before it is rounded, so that its smallest normal number may come of a subnormal or not."""
    return np.where(np.abs(x.astype(np.float64)) <= 2.0**-126, 0, x) if kind == "bf16" else x


@pytest.mark.parametrize("size", [1, 37, 400_000])
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16"])
def test_denormals_are_flushed_on_every_thread(kind: str, size: int) -> None:
    module = hlotool.parse(FLUSHED.format(kind=kind, size=size))
    arguments = near_the_end(kind, size)
    kept, flushed = hlotool.compile(module), hlotool.compile(module, threads=2, flush_denormals=True)
    want = hlotool.compile(module, "evaluate", flush_denormals=True)(*arguments)
    got = flushed(*arguments)
    for number in (0, 1, 2, 3, 5):
        a, b = (around_zero(kind, array) for array in (got[number], want[number]))
        np.testing.assert_array_equal(a, b, err_msg=str(number))
    least = float(ml_dtypes.finfo(dtype_of(kind)).tiny)
    products = np.abs(got[0].astype(np.float64))
    assert not ((products > 0) & (products < least)).any()
    if size > 1:
        assert any(a.tobytes() != b.tobytes() for a, b in zip(got, kept(*arguments), strict=True))
    np.testing.assert_allclose(got[4].astype(float), want[4].astype(float), rtol=1e-2, atol=size * least)
    small = np.array([least / 2], dtype_of(kind)).astype(np.float64 if kind == "f64" else np.float32)
    assert (small + 0 != 0).all(), "the thread keeps its own mode"


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2"])  # with FMA, and without
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_functions_near_the_ends_of_the_range_need_no_denormals(kind: str, cpu: str) -> None:
    """Where arguments and results are normal numbers, what lies between them may not be lost to flushing."""
    opcodes = (
        "log", "log-plus-one", "exponential-minus-one", "asinh", "acosh", "atanh", "asin", "atan2", "cbrt", "rsqrt",
        "sqrt", "tanh", "erf", "sine", "sinh", "tan", "logistic", "divide", "remainder",
    )  # fmt: skip
    size, two = 1000, {"atan2", "divide", "remainder"}
    lines = [f"v{n} = {kind}[{size}] {o}(x{', y' if o in two else ''})" for n, o in enumerate(opcodes)]
    module = hlotool.parse(
        f"ENTRY e {{\nx = {kind}[{size}] parameter(0)\ny = {kind}[{size}] parameter(1)\n" + "\n".join(lines)
        + f"\nROOT all = tuple({', '.join(f'v{n}' for n in range(len(opcodes)))})\n}}"
    )  # fmt: skip
    random, limits = np.random.default_rng(6), np.finfo(dtype_of(kind))
    least, most, digits = limits.minexp, limits.maxexp - 1, limits.nmant
    low, high = random.integers(least, least + digits, (2, size)), most - random.integers(0, 3, (2, size))
    numbers = random.uniform(1, 2, (2, size)) * random.choice([-1, 1], (2, size))
    x, y = np.ldexp(numbers, np.where(random.random((2, size)) < 0.5, low, high)).astype(dtype_of(kind))
    with np.errstate(all="ignore"):
        for opcode, kept, got in zip(
            opcodes,
            hlotool.compile(module, cpu=cpu)(x, y),
            hlotool.compile(module, cpu=cpu, flush_denormals=True)(x, y),
            strict=True,
        ):
            normal = ~(np.abs(kept) < limits.tiny * (1 + 8 * limits.eps))
            np.testing.assert_allclose(got[normal], kept[normal], rtol=4 * limits.eps, err_msg=opcode)


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "c64"])
def test_the_sign_of_what_is_flushed_is_zero(kind: str) -> None:
    least = float(ml_dtypes.finfo(dtype_of("f32" if kind == "c64" else kind)).tiny)
    parts = np.array([0, -0.0, least / 2, -least / 4, least, -1, np.nan])
    x = (parts[:, None] + 1j * parts[:3] if kind == "c64" else parts).astype(dtype_of(kind)).reshape(-1)
    module = hlotool.parse(f"ENTRY e {{ x = {kind}[{x.size}] parameter(0)\n ROOT r = {kind}[{x.size}] sign(x) }}")
    (got,) = hlotool.compile(module, flush_denormals=True)(x)
    (want,) = hlotool.compile(module, "evaluate", flush_denormals=True)(x)
    if kind == "c64":
        np.testing.assert_allclose(got, want, rtol=1e-6)
        assert not ((np.abs(got) > 0) & (np.abs(got) < 0.5)).any()
    else:
        for signs in (got.astype(float), want.astype(float)):
            np.testing.assert_array_equal(signs, [0, 0, 0, 0, 1, -1, np.nan])
            assert np.signbit(signs[:-1]).tolist() == [False, True] * 3


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2"])
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16"])
def test_what_needs_no_rounding_keeps_subnormal_numbers(kind: str, cpu: str) -> None:
    """Remainders and conversions that keep the exponent, whatever stands beside a number; as in XLA."""
    least = float(ml_dtypes.finfo(dtype_of(kind)).tiny)
    edges = np.array([*(np.array([0, 0.01, 0.3, 0.99, 1, 1.5, 3, 2.0**24, 2.0**30]) * least), 1.5, 1e30, np.inf])
    edges = np.concatenate([edges, -edges]).astype(dtype_of(kind))
    x, y = (values.ravel() for values in np.meshgrid(edges, edges))
    size, others = x.size, {"f32": ("bf16", "f64", "c64"), "bf16": ("f32", "c64"), "f64": ("f32", "c128")}[kind]
    lines = [f"v{n} = {other}[{size}] convert(x)" for n, other in enumerate(others)]
    lines += [f"s = {kind}[{size}] sine(x)\nt = {kind}[{size}] tan(x)\nr = {kind}[{size}] remainder(x, y)"]
    names = [f"v{n}" for n in range(len(others))] + ["s", "t", "r"]
    module = hlotool.parse(
        f"ENTRY e {{\nx = {kind}[{size}] parameter(0)\ny = {kind}[{size}] parameter(1)\n" + "\n".join(lines)
        + f"\nROOT all = tuple({', '.join(names)})\n}}"
    )  # fmt: skip
    got = hlotool.compile(module, cpu=cpu, flush_denormals=True)(x, y)
    want = hlotool.compile(module, "evaluate", flush_denormals=True)(x, y)
    for name, mine, other in zip(names, got, want, strict=True):
        if name in "st":  # in the evaluator another library's, so that not all digits are the same
            tiny = np.abs(x.astype(float)) < 2 * least
            mine, other = mine[tiny], other[tiny]
        np.testing.assert_array_equal(mine.astype(complex), other.astype(complex), err_msg=name)
    with np.errstate(invalid="ignore"):
        divisor = np.where(np.abs(y.astype(float)) < least, 0, y.astype(float))
        exact = np.fmod(x.astype(np.float64), divisor).astype(x.dtype)
    np.testing.assert_array_equal(got[-1].astype(float), exact.astype(float))


@pytest.mark.parametrize("kind", ["f4e2m1fn", "f8e5m2", "f16", "f32", "f64"])
def test_of_two_zeros_the_first_is_the_larger_and_the_smaller(kind: str) -> None:
    """Whatever LLVM knows of the numbers: those of f4e2m1fn are no NaN, and are compared in either order then."""
    size = 40
    module = hlotool.parse(f"""ENTRY e {{
      low = {kind}[] parameter(0)
      high = {kind}[] parameter(1)
      x = {kind}[{size}] parameter(2)
      ROOT r = {kind}[{size}] clamp(low, x, high)
    }}""")
    x = np.where(np.arange(size) % 3 == 0, -0.0, 0.0).astype(dtype_of(kind))
    ends = [np.asarray(end, x.dtype) for end in (-0.0, 0.0)]
    for low, high in (ends, ends[::-1]):
        (got,) = hlotool.compile(module)(low, high, x)
        assert got.tobytes() == x.tobytes()


_SORTED = """less {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction={direction}{order}
}}
ENTRY e {{
  x = {kind}[{size}] parameter(0)
  i = s32[{size}] iota(), iota_dimension=0
  ROOT s = ({kind}[{size}], s32[{size}]) sort(x, i), dimensions={{0}}, to_apply=less
}}
"""


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("order", ["", ", type=TOTALORDER"])
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "f16"])
def test_sorting_takes_subnormal_numbers_for_what_comparing_takes_them(kind: str, order: str, direction: str) -> None:
    size, random = 200, np.random.default_rng(7)
    least = float(ml_dtypes.finfo(dtype_of(kind)).tiny)
    x = (random.integers(-6, 7, size) / 4 * least).astype(dtype_of(kind))
    module = hlotool.parse(_SORTED.format(kind=kind, order=order, direction=direction, size=size))
    for flush in (False, True):
        got = hlotool.compile(module, flush_denormals=flush)(x)
        want = hlotool.compile(module, "evaluate", flush_denormals=flush)(x)
        assert [a.tobytes() for a in got] == [a.tobytes() for a in want], flush


def test_flushing_is_emitted_for_other_processors() -> None:
    module = hlotool.parse(FLUSHED.format(kind="f32", size=8))
    text = hlotool.compile(module, machine=named("x86-64-v2"), flush_denormals=True).text("llvm")
    assert "llvm.x86.sse.ldmxcsr" in text
    assert "ldmxcsr" not in hlotool.compile(module).text("llvm")


def test_the_command_line_has_both(hlotool: Any, tmp_path: Any) -> None:
    (tmp_path / "chain.hlo").write_text(CHAIN.format(kind="bf16", size=100))
    assert hlotool("run", "chain.hlo", "--random", 1, "--compare", "evaluate", "--rtol", 0).returncode == 0
    excess = hlotool("run", "chain.hlo", "--random", 1, "--compare", "evaluate", "--rtol", 0, "--excess-precision")
    assert excess.returncode == 1, excess.stderr
    (tmp_path / "flushed.hlo").write_text(FLUSHED.format(kind="f32", size=40))
    tiny = ["--input", "x=1e-39", "--input", "y=1"]
    for option in ([], ["--flush-denormals"]):
        assert hlotool("run", "flushed.hlo", *tiny, "--compare", "evaluate", *option).returncode == 0
    assert "1e-39" not in hlotool("run", "flushed.hlo", *tiny, "--flush-denormals").stdout.split("out5")[0]
    done = hlotool("compile", "flushed.hlo", "--flush-denormals", "--excess-precision", "--emit", "llvm")
    assert "ldmxcsr" in done.stdout or "set.fpcr" in done.stdout


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2"])
def test_scales_keep_their_least_number(cpu: str) -> None:
    """2**-127 of f8e8m0fnu, which has no zero, is subnormal in f32 and bf16; conversions lose it nowhere."""
    x = np.arange(256, dtype=np.uint8).view(dtype_of("f8e8m0fnu"))
    kinds = ("f32", "bf16", "f64", "c64", "c128", "pred")
    lines = [f"v{n} = {kind}[256] convert(x)" for n, kind in enumerate(kinds)]
    names = ", ".join(f"v{n}" for n in range(len(kinds)))
    module = hlotool.parse(
        "ENTRY e {\nx = f8e8m0fnu[256] parameter(0)\n" + "\n".join(lines) + f"\nROOT all = tuple({names})\n}}"
    )
    want = [*[np.append(2.0 ** np.arange(-127, 128), np.nan)] * 5, np.ones(256)]
    for executable in (
        hlotool.compile(module, cpu=cpu, flush_denormals=True),
        hlotool.compile(module, "evaluate", flush_denormals=True),
        hlotool.compile(module, cpu=cpu),
    ):
        for kind, got, expected in zip(kinds, executable(x), want, strict=True):
            np.testing.assert_array_equal(got.astype(complex).real, expected, err_msg=kind)
