"""The evaluator against other definitions: formulas and loops written down once more, and XLA where there is jax."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import semantics.families  # noqa: F401
from semantics.check import draw
from semantics.differences import known
from semantics.sample import FAMILIES
from semantics.xla_oracle import missing, run_xla

from hlotool.evaluate import evaluate
from hlotool.evaluate.bounds import Bounded
from hlotool.evaluate.truth import truth
from hlotool.harness.compare import compare_with_truth
from hlotool.ir import ELEMENT_TYPES, Module, UnsupportedError
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

Array = np.ndarray[Any, Any]


def run(body: str, *arrays: Any, before: str = "") -> list[Array]:
    """The results of an entry computation on its parameters."""
    given = [np.asarray(a) for a in arrays]
    return list(evaluate(parse(f"HloModule m\n{before}\nENTRY main {{\n{body}\n}}"), given))


# ---- elementwise: one number at a time, by the mathematics of Python


def _sign(x: float) -> float:
    return x if x == 0 or x != x else math.copysign(1, x)


def _away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


REAL: dict[str, Callable[..., float]] = {
    "abs": abs, "negate": lambda x: -x, "sign": _sign, "ceil": math.ceil, "floor": math.floor,
    "round-nearest-afz": _away, "round-nearest-even": round, "exponential": math.exp,
    "exponential-minus-one": math.expm1, "log": math.log, "log-plus-one": math.log1p,
    "logistic": lambda x: 1 / (1 + math.exp(-x)), "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x),
    "cbrt": math.cbrt, "sine": math.sin, "cosine": math.cos, "tan": math.tan, "sinh": math.sinh, "cosh": math.cosh,
    "tanh": math.tanh, "asin": math.asin, "acos": math.acos, "asinh": math.asinh, "acosh": math.acosh,
    "atanh": math.atanh, "erf": math.erf, "add": lambda x, y: x + y, "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y, "divide": lambda x, y: x / y, "remainder": math.fmod, "power": math.pow,
    "atan2": math.atan2, "maximum": max, "minimum": min,
}  # fmt: skip
DOMAINS = {
    "sqrt": (0, 50), "log": (0.01, 50), "rsqrt": (0.1, 50), "log-plus-one": (-0.9, 50), "asin": (-1, 1),
    "acos": (-1, 1), "acosh": (1, 50), "atanh": (-0.99, 0.99), "power": (0.1, 8),
}  # fmt: skip
TWO = frozenset({"add", "subtract", "multiply", "divide", "remainder", "power", "atan2", "maximum", "minimum"})


@pytest.mark.parametrize("opcode", sorted(REAL))
def test_real_functions(opcode: str) -> None:
    low, high = DOMAINS.get(opcode, (-9.0, 9.0))
    count = 2 if opcode in TWO else 1
    random = np.random.default_rng(3)
    arrays = [random.uniform(low, high, 300) for _ in range(count)]
    names = ", ".join(f"p{n}" for n in range(count))
    head = "\n".join(f"p{n} = f64[300] parameter({n})" for n in range(count))
    (got,) = run(f"{head}\nROOT r = f64[300] {opcode}({names})", *arrays)
    want = [REAL[opcode](*values) for values in zip(*(a.tolist() for a in arrays), strict=True)]
    np.testing.assert_allclose(got, want, rtol=4e-15, atol=0 if opcode not in ("sine", "cosine", "tan") else 1e-15)


COMPLEX: dict[str, Callable[[complex], complex]] = {
    "exponential": cmath.exp, "log": cmath.log, "sqrt": cmath.sqrt, "sine": cmath.sin, "cosine": cmath.cos,
    "tan": cmath.tan, "sinh": cmath.sinh, "cosh": cmath.cosh, "tanh": cmath.tanh, "asin": cmath.asin,
    "acos": cmath.acos, "asinh": cmath.asinh, "acosh": cmath.acosh, "atanh": cmath.atanh,
    "exponential-minus-one": lambda z: cmath.exp(z) - 1, "log-plus-one": lambda z: cmath.log(1 + z),
    "logistic": lambda z: 1 / (1 + cmath.exp(-z)), "rsqrt": lambda z: 1 / cmath.sqrt(z),
    "negate": lambda z: -z, "sign": lambda z: z / abs(z),
}  # fmt: skip


@pytest.mark.parametrize("opcode", sorted(COMPLEX))
def test_complex_functions(opcode: str) -> None:
    random = np.random.default_rng(4)
    z = random.uniform(-3, 3, 200) + 1j * random.uniform(-3, 3, 200)
    (got,) = run(f"p = c128[200] parameter(0)\nROOT r = c128[200] {opcode}(p)", z)
    np.testing.assert_allclose(got, [COMPLEX[opcode](v) for v in z.tolist()], rtol=1e-13)


def _wrapped(value: int, kind: str) -> int:
    row = ELEMENT_TYPES[kind]
    low = value % (1 << row.bits)
    return low - (1 << row.bits) if row.kind == "signed" and low >> (row.bits - 1) else low


def _divide(x: int, y: int) -> int:
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _shift(x: int, y: int, bits: int, kind: str, arithmetic: bool) -> int:
    inside = 0 <= y < bits
    if arithmetic:
        signed = _wrapped(x, f"s{bits}")
        return signed >> y if inside else -1 if signed < 0 else 0
    return x % (1 << bits) >> y if inside else 0


INTEGER: dict[str, Callable[[int, int, int, str], int]] = {
    "add": lambda x, y, b, k: x + y, "subtract": lambda x, y, b, k: x - y, "multiply": lambda x, y, b, k: x * y,
    "mulhi": lambda x, y, b, k: (x * y) >> b,
    "divide": lambda x, y, b, k: _divide(x, y), "remainder": lambda x, y, b, k: x - y * _divide(x, y) if y else x,
    "maximum": lambda x, y, b, k: max(x, y), "minimum": lambda x, y, b, k: min(x, y),
    "and": lambda x, y, b, k: x & y, "or": lambda x, y, b, k: x | y, "xor": lambda x, y, b, k: x ^ y,
    "shift-left": lambda x, y, b, k: x << y if 0 <= y < b else 0,
    "shift-right-logical": lambda x, y, b, k: _shift(x, y, b, k, False),
    "shift-right-arithmetic": lambda x, y, b, k: _shift(x, y, b, k, True),
    "not": lambda x, y, b, k: ~x, "negate": lambda x, y, b, k: -x, "abs": lambda x, y, b, k: abs(x),
    "popcnt": lambda x, y, b, k: (x % (1 << b)).bit_count(),
    "count-leading-zeros": lambda x, y, b, k: b - (x % (1 << b)).bit_length(),
    "sign": lambda x, y, b, k: (x > 0) - (x < 0),
    "power": lambda x, y, b, k: pow(x, y, 1 << b) if y >= 0 else _negative_power(x, y),
}  # fmt: skip


def _negative_power(x: int, y: int) -> int:
    return {1: 1, -1: 1 if y % 2 == 0 else -1, 0: -1}.get(x, 0)


@pytest.mark.parametrize("kind", ["s8", "u8", "s32", "u32"])
@pytest.mark.parametrize("opcode", sorted(INTEGER))
def test_integer_functions(opcode: str, kind: str) -> None:
    row = ELEMENT_TYPES[kind]
    if kind.startswith("u") and opcode in ("abs", "sign"):
        pytest.skip("not legal HLO")
    low, high = (-(1 << row.bits - 1), (1 << row.bits - 1) - 1) if row.kind == "signed" else (0, (1 << row.bits) - 1)
    edges = [v for v in (low, low + 1, -3, -2, -1, 0, 1, 2, 3, 5, 7, 31, 33, high - 1, high) if low <= v <= high]
    pairs = [(x, y) for x in edges for y in edges if opcode != "power" or (y < 40 and (x, y < 0) != (0, True))]
    unary = opcode in ["not", "negate", "abs", "popcnt", "count-leading-zeros", "sign"]
    arrays = [np.array(column, row.dtype) for column in zip(*pairs, strict=True)][: 1 if unary else 2]
    head = "\n".join(f"p{n} = {kind}[{len(pairs)}] parameter({n})" for n in range(len(arrays)))
    names = ", ".join(f"p{n}" for n in range(len(arrays)))
    (got,) = run(f"{head}\nROOT r = {kind}[{len(pairs)}] {opcode}({names})", *arrays)
    assert got.tolist() == [_wrapped(INTEGER[opcode](x, y, row.bits, kind), kind) for x, y in pairs]


# ---- shapes: by loops over every element of the result

ADD = "add {\na = f64[] parameter(0)\nb = f64[] parameter(1)\nROOT s = f64[] add(a, b)\n}"
LESS = "less {\na = f64[] parameter(0)\nb = f64[] parameter(1)\nROOT s = pred[] compare(a, b), direction=LT\n}"
RANDOM = np.random.default_rng(5)
A = RANDOM.standard_normal((3, 4, 5))


def test_movement() -> None:
    p = "p = f64[3,4,5] parameter(0)\n"
    (got,) = run(p + "ROOT r = f64[5,3,4] transpose(p), dimensions={2,0,1}", A)
    assert all(got[k, i, j] == A[i, j, k] for i, j, k in np.ndindex(3, 4, 5))
    (got,) = run(p + "ROOT r = f64[3,4,5] reverse(p), dimensions={0,2}", A)
    assert all(got[i, j, k] == A[2 - i, j, 4 - k] for i, j, k in np.ndindex(3, 4, 5))
    (got,) = run(p + "ROOT r = f64[3,2,4,5] broadcast(p), dimensions={0,2,3}", A)
    assert all(got[i, n, j, k] == A[i, j, k] for i, n, j, k in np.ndindex(3, 2, 4, 5))
    (got,) = run(p + "ROOT r = f64[12,5] reshape(p)", A)
    assert all(got[n // 5, n % 5] == A[n // 20, n // 5 % 4, n % 5] for n in range(60))
    (got,) = run(p + "ROOT r = f64[2,2,2] slice(p), slice={[0:3:2], [1:3], [0:5:3]}", A)
    assert all(got[i, j, k] == A[2 * i, 1 + j, 3 * k] for i, j, k in np.ndindex(2, 2, 2))
    (got,) = run(p + "ROOT r = f64[3,8,5] concatenate(p, p), dimensions={1}", A)
    assert all(got[i, j, k] == A[i, j % 4, k] for i, j, k in np.ndindex(3, 8, 5))
    (got,) = run("ROOT r = s32[3,4] iota(), iota_dimension=1")
    assert all(got[i, j] == j for i, j in np.ndindex(3, 4))


def test_pad_with_negative_edges_and_interior() -> None:
    x = RANDOM.standard_normal((4, 5))
    (got,) = run(
        "p = f64[4,5] parameter(0)\nv = f64[] constant(7)\nROOT r = f64[12,8] pad(p, v), padding=1_1_2x-2_1_1", x
    )
    for i, j in np.ndindex(12, 8):
        row, row_hole = divmod(i - 1, 3)
        column, column_hole = divmod(j + 2, 2)
        there = not (row_hole or column_hole) and 0 <= row < 4 and 0 <= column < 5
        assert got[i, j] == (x[row, column] if there else 7)


def test_dynamic_slices_stay_inside() -> None:
    x = RANDOM.standard_normal((6, 7))
    body = """p = f64[6,7] parameter(0)
    i = s32[] parameter(1)
    j = s32[] parameter(2)
    u = f64[2,3] parameter(3)
    a = f64[2,3] dynamic-slice(p, i, j), dynamic_slice_sizes={2,3}
    b = f64[6,7] dynamic-update-slice(p, u, i, j)
    ROOT r = (f64[2,3], f64[6,7]) tuple(a, b)"""
    update = RANDOM.standard_normal((2, 3))
    for i, j in product((-5, 0, 2, 4, 5, 9), (-1, 0, 3, 4, 6)):
        top, left = min(max(i, 0), 4), min(max(j, 0), 4)
        cut, changed = run(body, x, np.int32(i), np.int32(j), update)
        assert all(cut[m, n] == x[top + m, left + n] for m, n in np.ndindex(2, 3))
        for m, n in np.ndindex(6, 7):
            inside = 0 <= m - top < 2 and 0 <= n - left < 3
            assert changed[m, n] == (update[m - top, n - left] if inside else x[m, n])


def test_reduce() -> None:
    body = "p = f64[3,4,5] parameter(0)\ni = f64[] constant(2)\n"
    (got,) = run(body + "ROOT r = f64[4] reduce(p, i), dimensions={0,2}, to_apply=add", A, before=ADD)
    want = [2 + math.fsum(A[i, j, k] for i, k in np.ndindex(3, 5)) for j in range(4)]
    np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize(
    ("size", "stride", "low", "high", "base", "window"),
    [(3, 1, 0, 0, 1, 1), (3, 2, 1, 2, 1, 1), (2, 1, 0, 1, 3, 1), (3, 2, 2, 3, 2, 2), (2, 3, -1, 2, 1, 4)],
)
def test_reduce_window(size: int, stride: int, low: int, high: int, base: int, window: int) -> None:
    x = RANDOM.standard_normal(9)
    count = (((9 - 1) * base + 1 + low + high) - ((size - 1) * window + 1)) // stride + 1
    text = f"size={size} stride={stride} pad={low}_{high} lhs_dilate={base} rhs_dilate={window}"
    body = "p = f64[9] parameter(0)\ni = f64[] constant(0.5)\n"
    (got,) = run(
        body + f"ROOT r = f64[{count}] reduce-window(p, i), window={{{text}}}, to_apply=add", x, before=ADD
    )
    for n in range(count):
        places = [n * stride + m * window - low for m in range(size)]
        taken = [x[p // base] for p in places if p % base == 0 and 0 <= p // base < 9]
        assert got[n] == pytest.approx(0.5 + sum(taken), rel=1e-13)


def test_select_and_scatter() -> None:
    x, source = RANDOM.standard_normal(8), RANDOM.standard_normal(4)
    ge = "ge {\na = f64[] parameter(0)\nb = f64[] parameter(1)\nROOT s = pred[] compare(a, b), direction=GE\n}\n"
    body = "p = f64[8] parameter(0)\ns = f64[4] parameter(1)\ni = f64[] constant(1)\n"
    attributes = "window={size=3 stride=2 pad=1_0}, select=ge, scatter=add"
    (got,) = run(
        body + f"ROOT r = f64[8] select-and-scatter(p, s, i), {attributes}", x, source, before=ge + ADD
    )
    want = [1.0] * 8
    for n in range(4):
        window = [p for p in range(2 * n - 1, 2 * n + 2) if 0 <= p < 8]
        want[max(window, key=lambda p: x[p])] += source[n]
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_dot() -> None:
    x, y = RANDOM.standard_normal((2, 3, 4)), RANDOM.standard_normal((4, 2, 5))
    body = "x = f64[2,3,4] parameter(0)\ny = f64[4,2,5] parameter(1)\n"
    dims = "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={0}"
    (got,) = run(body + f"ROOT r = f64[2,3,5] dot(x, y), {dims}", x, y)
    for b, m, n in np.ndindex(2, 3, 5):
        assert got[b, m, n] == pytest.approx(sum(x[b, m, k] * y[k, b, n] for k in range(4)), rel=1e-12, abs=1e-13)


def test_convolution() -> None:
    x, w = RANDOM.standard_normal((2, 7, 4)), RANDOM.standard_normal((3, 2, 6))
    body = "x = f64[2,7,4] parameter(0)\nw = f64[3,2,6] parameter(1)\n"
    window = "window={size=3 stride=2 pad=2_1 lhs_dilate=2 rhs_dilate=2 rhs_reversal=1}"
    text = f"ROOT r = f64[2,6,6] convolution(x, w), {window}, dim_labels=b0f_0io->b0f, feature_group_count=2"
    (got,) = run(body + text, x, w)
    for b, o, f in np.ndindex(2, 6, 6):
        total = 0.0
        for tap, c in np.ndindex(3, 2):
            place = 2 * o + 2 * tap - 2
            if place % 2 == 0 and 0 <= place // 2 < 7:
                total += x[b, place // 2, f // 3 * 2 + c] * w[2 - tap, c, f]
        assert got[b, o, f] == pytest.approx(total, rel=1e-12, abs=1e-13)


def test_gather_and_scatter() -> None:
    x, indices = RANDOM.standard_normal((6, 5)), np.array([[0, 1], [9, 2], [3, -1]], np.int32)
    body = "p = f64[6,5] parameter(0)\ni = s32[3,2] parameter(1)\n"
    dims = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,3}"
    (got,) = run(body + f"ROOT r = f64[3,3] gather(p, i), {dims}", x, indices)
    for n, k in np.ndindex(3, 3):
        row, column = min(max(indices[n, 0], 0), 5), min(max(indices[n, 1], 0), 2)
        assert got[n, k] == x[row, column + k]
    updates = RANDOM.standard_normal((3, 3))
    dims = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1"
    body += "u = f64[3,3] parameter(2)\n"
    (got,) = run(body + f"ROOT r = f64[6,5] scatter(p, i, u), {dims}, to_apply=add", x, indices, updates, before=ADD)
    want = x.copy()
    for n in range(3):
        row, column = indices[n]
        if 0 <= row <= 5 and 0 <= column <= 2:  # a window that leaves the operand is left out whole
            want[row, column : column + 3] += updates[n]
    np.testing.assert_array_equal(got, want)


def test_sort_and_topk() -> None:
    x = RANDOM.integers(0, 9, (4, 12)).astype(np.float64)
    (got,) = run(
        "p = f64[4,12] parameter(0)\nROOT r = f64[4,12] sort(p), dimensions={1}, to_apply=less", x, before=LESS
    )
    assert got.tolist() == [sorted(row) for row in x.tolist()]
    values, places = run("p = f64[4,12] parameter(0)\nROOT r = (f64[4,5], s32[4,5]) topk(p), k=5, largest=true", x)
    for row, value, place in zip(x.tolist(), values.tolist(), places.tolist(), strict=True):
        order = sorted(range(12), key=lambda n: (-row[n], n))[:5]
        assert place == order
        assert value == [row[n] for n in order]


def test_linear_algebra() -> None:
    m = RANDOM.standard_normal((4, 4))
    spd = m @ m.T + 4 * np.eye(4)
    (factor,) = run("p = f64[4,4] parameter(0)\nROOT r = f64[4,4] cholesky(p), lower=true", spd)
    assert (np.triu(factor, 1) == 0).all()
    np.testing.assert_allclose(factor @ factor.T, spd, rtol=1e-12)
    b = RANDOM.standard_normal((4, 3))
    attributes = "left_side=true, lower=true, transpose_a=TRANSPOSE"
    body = "a = f64[4,4] parameter(0)\nb = f64[4,3] parameter(1)\n"
    (solution,) = run(body + f"ROOT r = f64[4,3] triangular-solve(a, b), {attributes}", factor, b)
    np.testing.assert_allclose(factor.T @ solution, b, rtol=1e-12)
    z = RANDOM.standard_normal(7) + 1j * RANDOM.standard_normal(7)
    (found,) = run("p = c128[7] parameter(0)\nROOT r = c128[7] fft(p), fft_type=FFT, fft_length={7}", z)
    want = [sum(z[n] * cmath.exp(-2j * cmath.pi * n * k / 7) for n in range(7)) for k in range(7)]
    np.testing.assert_allclose(found, want, rtol=1e-12)


def test_batch_norm() -> None:
    x = RANDOM.standard_normal((5, 3))
    body = "x = f64[5,3] parameter(0)\ns = f64[3] parameter(1)\no = f64[3] parameter(2)\n"
    text = "ROOT r = (f64[5,3], f64[3], f64[3]) batch-norm-training(x, s, o), epsilon=0.5, feature_index=1"
    scale, offset = RANDOM.standard_normal(3), RANDOM.standard_normal(3)
    normal, mean, variance = run(body + text, x, scale, offset)
    for f in range(3):
        column = x[:, f].tolist()
        m = sum(column) / 5
        v = sum((value - m) ** 2 for value in column) / 5
        assert (mean[f], variance[f]) == (pytest.approx(m, rel=1e-12), pytest.approx(v, rel=1e-12))
        want = [(value - m) / math.sqrt(v + 0.5) * scale[f] + offset[f] for value in column]
        np.testing.assert_allclose(normal[:, f], want, rtol=1e-11)


def test_conversions() -> None:
    x = np.array([1.5, -1.5, 300.7, -300.7, np.inf, -np.inf, np.nan, 0.0])
    (got,) = run("p = f64[8] parameter(0)\nROOT r = s8[8] convert(p)", x)
    assert got.tolist() == [1, -1, 127, -128, 127, -128, 0, 0]
    (got,) = run("p = f64[8] parameter(0)\nROOT r = pred[8] convert(p)", x)
    assert got.tolist() == [True] * 7 + [False]


# ---- XLA

KINDS = ("f32", "s32", "u32", "c64", "pred", "f64")
NEEDS_MORE = frozenset({
    "infeed", "outfeed", "send", "send-done", "recv", "recv-done", "after-all", "add-dependency", "domain",
    "copy-start", "copy-done", "async-start", "async-update", "async-done", "custom-call", "rng",
    "rng-get-and-update-state", "partition-id", "replica-id", "fusion",
})  # fmt: skip
"""Opcodes that XLA's CPU client refuses (or dies of), cannot be asked about through it, or leaves open."""


def _xla_samples() -> list[tuple[str, str, Module, list[Array], tuple[Bounded, ...]]]:
    made = []
    for opcode, families in FAMILIES.items():
        kinds = [k for k in KINDS if any(k in f.types for f in families)][:2] if opcode not in NEEDS_MORE else []
        for kind in kinds:
            family = next(f for f in families if kind in f.types)
            sample = draw([(0, (family, kind))], 0)
            module = sample.module
            devices = module.attributes.get("replica_count", 1) * module.attributes.get("num_partitions", 1)
            if sample.queue or devices > 1:
                continue
            arguments = [_without_subnormals(a) for a in sample.arguments(np.random.default_rng(0))]
            try:
                made.append((opcode, kind, module, arguments, truth(module, arguments)))
            except UnsupportedError:
                continue
    return made


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_xla_agrees() -> None:
    samples = _xla_samples()
    answers = run_xla([(print_module(module), arguments) for _, _, module, arguments, _ in samples])
    wrong, compared = [], 0
    for (opcode, kind, module, _, bounds), answer in zip(samples, answers, strict=True):
        if isinstance(answer, UnsupportedError) or known(opcode, kind):
            continue
        leaves = [leaf.element_type for leaf in module.entry.root.shape.leaves() if leaf.is_array]
        limits = [_looser(bound, leaf) for bound, leaf in zip(bounds, leaves, strict=True)]
        compared += 1
        wrong += [f"{opcode} on {kind}: {c}" for c in compare_with_truth(answer, limits, max_undecided=1.0) if not c.ok]
    assert compared > 100
    assert not wrong, "\n".join(wrong)


def _without_subnormals(array: Array) -> Array:
    """XLA takes them for zeros, which a step or a sign may make a whole of."""
    if array.dtype.kind not in "fc":
        return array
    parts = array.view(array.real.dtype) if array.ndim else array.reshape(1).view(array.real.dtype)
    flushed = np.where(np.abs(parts) < np.finfo(parts.dtype).tiny, np.copysign(parts.dtype.type(0), parts), parts)
    return flushed.view(array.dtype).reshape(array.shape)


def _looser(bound: Bounded, kind: str) -> Bounded:
    """Four times the bound and two units in the last place, and what subnormal numbers lose that are taken for zero."""
    row = ELEMENT_TYPES[kind]
    if not (row.is_float or row.is_complex):
        return bound
    part: Any = {"c64": np.float32, "c128": np.float64}.get(kind) or row.dtype
    info: Any = ml_dtypes.finfo(part)
    size = np.where(np.isfinite(bound.value), np.abs(bound.value), 0).astype(np.float64)
    return Bounded(bound.value, 4 * bound.errors() + 2 * float(info.eps) * size + 2 * float(info.tiny))
