"""Passes that spell out one instruction in terms of simpler ones: what is left, and the same numbers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import Generator
from reducers import REDUCERS

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import compare_all, compare_with_truth
from hlotool.ir import HloError, Module, clone_module, dtype_of
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.passes.framework.instruments import VerifyEach
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]

def arguments_of(module: Module) -> list[Array]:
    generator = np.random.default_rng(3)
    found = []
    for parameter in module.entry.parameters:
        dtype = dtype_of(parameter.shape.element_type)
        sizes = parameter.shape.dimensions
        if dtype.kind in "iu":
            found.append(generator.integers(0 if dtype.kind == "u" else -3, 9, sizes).astype(dtype))
        elif dtype.kind == "c":
            found.append((generator.standard_normal(sizes) + 1j * generator.standard_normal(sizes)).astype(dtype))
        else:
            found.append(generator.standard_normal(sizes).astype(dtype))
    return found


def expanded(pipeline: str, body: str, arguments: list[Array] | None = None, exact: bool = False) -> Module:
    """The module of an entry computation after a pipeline that must change it and keep what it computes."""
    before = parse(f"{REDUCERS}ENTRY main {{\n{body}\n}}\n")
    check(before)
    after = clone_module(before)
    assert run_pipeline(after, parse_pipeline(pipeline), DecisionLog(), [VerifyEach(check)])
    given = arguments_of(before) if arguments is None else arguments
    expected, found = evaluate(before, given), evaluate(after, given)
    if exact:
        for left, right in zip(expected, found, strict=True):
            assert left.tobytes() == right.tobytes()
    rows = compare_all(found, expected)
    assert all(row.ok for row in rows), [str(row) for row in rows]
    assert not run_pipeline(clone_module(after), parse_pipeline(pipeline))
    return after


def opcodes(module: Module) -> set[str]:
    return {i.opcode for i in module.instructions()}


# ---- scan


SCANS = """HloModule m

plus {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}

total {
  x = f32[] parameter(0)
  c = f32[] parameter(1)
  s = f32[] add(c, x)
  ROOT r = (f32[], f32[]) tuple(s, s)
}

mixed {
  x = s32[3] parameter(0)
  y = f32[3] parameter(1)
  c = f32[2] parameter(2)
  d = s32[] parameter(3)
  zero = s32[] constant(0)
  n = s32[] reduce(x, zero), dimensions={0}, to_apply=plus
  e = s32[] add(d, n)
  half = f32[] constant(0.5)
  halves = f32[2] broadcast(half), dimensions={}
  f = f32[2] multiply(c, halves)
  ROOT r = (f32[3], f32[2], s32[]) tuple(y, f, e)
}

twice {
  x = f32[] parameter(0)
  ROOT y = f32[] add(x, x)
}

count {
  c = s32[] parameter(0)
  one = s32[] constant(1)
  d = s32[] add(c, one)
  ROOT r = (s32[], s32[]) tuple(c, d)
}

ENTRY main {
  x = f32[5] parameter(0)
  a = f32[] parameter(1)
  m = s32[3,4] parameter(2)
  n = f32[3,4] parameter(3)
  v = f32[2] parameter(4)
  i = s32[] parameter(5)
  none = f32[0] parameter(6)
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("(f32[5], f32[]) scan(x, a), num_carries=1, to_apply=total", ([11, 13, 16, 20, 25], 25)),
        ("(f32[5], f32[]) scan(x, a), num_carries=1, is_reverse=true, to_apply=total", ([25, 24, 22, 19, 15], 25)),
        ("(f32[0], f32[]) scan(none, a), num_carries=1, to_apply=total", ([], 10)),
        ("f32[5] scan(x), num_carries=0, to_apply=twice", ([2, 4, 6, 8, 10],)),
        ("(s32[4], s32[]) scan(i), num_carries=1, to_apply=count", ([7, 8, 9, 10], 11)),
        ("scan(x, a), num_carries=1, to_apply=total", ([11, 13, 16, 20, 25], 25)),
        (
            "(f32[3,4], f32[2], s32[]) scan(m, n, v, i), num_carries=2, to_apply=mixed",
            (np.arange(12).reshape(3, 4).tolist(), [0.0625, 0.125], 73),
        ),
    ],
)
def test_scan(line: str, expected: tuple[Any, ...]) -> None:
    """Facts of the opcode: XLA 0.10's own results of these modules are the same."""
    dimension = 1 if "mixed" in line else 0
    module = parse(f"{SCANS}  ROOT r = {line}, dimensions={{{dimension}}}\n}}\n")
    check(module)
    m = np.arange(12, dtype=np.int32).reshape(3, 4)
    given = [
        np.arange(1, 6, dtype=np.float32), np.float32(10), m, m.astype(np.float32), np.array([1, 2], np.float32),
        np.int32(7), np.zeros(0, np.float32),
    ]  # fmt: skip
    arguments = [np.asarray(one) for one in given]
    assert [one.tolist() for one in evaluate(module, arguments)] == list(expected)
    assert [one.tolist() for one in compile_module(module)(*arguments)] == list(expected)
    assert run_pipeline(module, parse_pipeline("scan-expander"), DecisionLog(), [VerifyEach(check)])
    assert "scan" not in opcodes(module)
    assert [one.tolist() for one in evaluate(module, arguments)] == list(expected)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(f32[5], f32[]) scan(x, a), dimensions={1}, num_carries=1, to_apply=total", "out of range for rank 1"),
        ("(f32[5], f32[]) scan(x, a), dimensions={}, num_carries=1, to_apply=total", "along one dimension, not 0"),
        ("(f32[5], f32[]) scan(x, a), dimensions={0}, num_carries=3, to_apply=total", "num_carries is 3, scan has 2"),
        ("(f32[6], f32[]) scan(x, a), dimensions={0}, num_carries=1, to_apply=total", "scan gives (f32[5], f32[])"),
        ("(f32[5], f32[]) scan(x), dimensions={0}, num_carries=1, to_apply=total", "must take 1 parameter"),
        ("(f32[5], f32[]) scan(x, v), dimensions={0}, num_carries=1, to_apply=total", "scan gives it f32[2]"),
        ("s32[] scan(i), dimensions={0}, num_carries=1, to_apply=twice", "is f32[], scan gives it s32[]"),
        ("scan(i), dimensions={0}, num_carries=1, to_apply=count", "cannot be inferred"),
    ],
)
def test_wrong_scans(line: str, message: str) -> None:
    with pytest.raises(HloError) as caught:
        check(parse(f"{SCANS}  ROOT r = {line}\n}}\n"))
    assert any(message in found.message for found in caught.value.diagnostics)


# ---- gather and scatter


LOOPING = """
below { p = s32[] parameter(0)
  five = s32[] constant(5)
  ROOT r = pred[] compare(p, five), direction=LT }
more { p = s32[] parameter(0)
  two = s32[] constant(2)
  ROOT r = s32[] add(p, two) }
grown { a = s32[] parameter(0)
  b = s32[] parameter(1)
  s = s32[] subtract(a, b)
  ROOT r = s32[] while(s), condition=below, body=more }
both_grown { a = s32[] parameter(0)
  x = f32[] parameter(1)
  b = s32[] parameter(2)
  y = f32[] parameter(3)
  w = s32[] while(b), condition=below, body=more
  s = s32[] add(a, w)
  m = f32[] maximum(x, y)
  ROOT r = (s32[], f32[]) tuple(s, m) }
grown_first { a = s32[] parameter(0)
  b = s32[] parameter(1)
  x = s32[] while(a), condition=below, body=more
  y = s32[] while(b), condition=below, body=more
  ROOT r = pred[] compare(x, y), direction=GT }
by_place { a = s32[] parameter(0)
  b = s32[] parameter(1)
  table = s32[4] constant({7, -3, 0, 9})
  part = s32[1] dynamic-slice(table, a), dynamic_slice_sizes={1}
  value = s32[] reshape(part)
  ROOT r = s32[] add(value, b) }
"""
X = "p0 = s32[4,6] parameter(0)\n"
ONE_BY_ONE = {
    "map": f"{X}n = s32[4,6] negate(p0)\nROOT r = s32[4,6] map(p0, n), dimensions={{0,1}}, to_apply=grown",
    "map of nothing": "p0 = s32[0,6] parameter(0)\nROOT r = s32[0,6] map(p0, p0), dimensions={0,1}, to_apply=grown",
    "map of one": "p0 = s32[] parameter(0)\nROOT r = s32[] map(p0, p0), dimensions={}, to_apply=by_place",
    "reduce": f"{X}z = s32[] constant(1)\nROOT r = s32[6] reduce(p0, z), dimensions={{0}}, to_apply=grown",
    "reduce to one": f"{X}z = s32[] constant(1)\nROOT r = s32[] reduce(p0, z), dimensions={{1,0}}, to_apply=by_place",
    "reduce of nothing": "p0 = s32[0,3] parameter(0)\nz = s32[] constant(1)\n"
    "ROOT r = s32[3] reduce(p0, z), dimensions={0}, to_apply=grown",
    "reduce of several": f"{X}q = f32[4,6] convert(p0)\nz = s32[] constant(1)\ny = f32[] constant(-inf)\n"
    "ROOT r = (s32[4], f32[4]) reduce(p0, q, z, y), dimensions={1}, to_apply=both_grown",
    "reduce-window": f"{X}z = s32[] constant(1)\nROOT r = s32[2,5] reduce-window(p0, z), "
    "window={size=2x3 stride=2x2 pad=1_0x-1_2 lhs_dilate=1x2 rhs_dilate=2x1}, to_apply=grown",
    "reduce-window of several": f"{X}q = f32[4,6] convert(p0)\nz = s32[] constant(1)\ny = f32[] constant(-inf)\n"
    "ROOT r = (s32[4,5], f32[4,5]) reduce-window(p0, q, z, y), window={size=1x2}, to_apply=both_grown",
    "scatter": f"{X}i = s32[3] constant({{1, 1, 9}})\nu = s32[3,6] slice(p0), slice={{[0:3], [0:6]}}\n"
    "ROOT r = s32[4,6] scatter(p0, i, u), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=grown",
    "scatter of several": f"{X}q = f32[4,6] convert(p0)\ni = s32[3] constant({{1, 1, 3}})\n"
    "u = s32[3,2] slice(p0), slice={[0:3], [0:2]}\nv = f32[3,2] slice(q), slice={[1:4], [0:2]}\n"
    "ROOT r = (s32[4,6], f32[4,6]) scatter(p0, q, i, u, v), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=both_grown",
    "select-and-scatter": f"{X}u = s32[2,3] constant({{{{1,2,3}},{{4,5,6}}}})\nz = s32[] constant(0)\n"
    "ROOT r = s32[4,6] select-and-scatter(p0, u, z), window={size=2x2 stride=2x2}, select=grown_first, scatter=grown",
    "sort": f"{X}k = s32[4,6] iota(), iota_dimension=1\n"
    "ROOT r = (s32[4,6], s32[4,6]) sort(p0, k), dimensions={1}, is_stable=true, to_apply=pair_grown",
    "sort of two": "p0 = s32[2,3] parameter(0)\nROOT r = s32[2,3] sort(p0), dimensions={0}, to_apply=grown_first",
}  # fmt: skip
PAIR_GROWN = """
pair_grown { a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  x = s32[] while(a), condition=below, body=more
  y = s32[] while(b), condition=below, body=more
  ROOT r = pred[] compare(x, y), direction=LT }
"""


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_computations_with_loops_are_called_element_by_element(name: str) -> None:
    module = parse(f"{LOOPING}{PAIR_GROWN}ENTRY main {{\n{ONE_BY_ONE[name]}\n}}\n")
    check(module)
    after = clone_module(module)
    assert run_pipeline(after, parse_pipeline("element-loop-expander"), DecisionLog(), [VerifyEach(check)])
    assert name.split()[0] not in opcodes(after)
    arguments = arguments_of(module)
    expected = evaluate(module, arguments)
    native = [compile_module(module, pipeline=p, threads=1)(*arguments) for p in ("default", "none")]
    for found in (evaluate(after, arguments), *native):
        assert all(left.tobytes() == right.tobytes() for left, right in zip(expected, found, strict=True))


SORTED = [((1,), 0), ((5,), 0), ((3, 17), 1), ((8, 3), 0), ((2, 13, 3), 1), ((33,), 0)]


@pytest.mark.parametrize(("sizes", "axis"), SORTED)
def test_sorts_merge_runs_and_keep_the_order_of_equals(sizes: tuple[int, ...], axis: int) -> None:
    """Few keys, so that many are equal; the second operand says where each was."""
    shape = f"s32[{','.join(map(str, sizes))}]"
    body = (
        f"p0 = {shape} parameter(0)\nk = {shape} iota(), iota_dimension={axis}\n"
        f"ROOT r = ({shape}, {shape}) sort(p0, k), dimensions={{{axis}}}, is_stable=true, to_apply=pair_grown"
    )
    module = parse(f"{LOOPING}{PAIR_GROWN}ENTRY main {{\n{body}\n}}\n")
    check(module)
    assert run_pipeline(module, parse_pipeline("element-loop-expander"), DecisionLog(), [VerifyEach(check)])
    keys = np.random.default_rng(sizes[axis]).integers(20, 26, sizes, dtype=np.int32)
    order = np.argsort(keys, axis, kind="stable")
    for found in (evaluate(module, [keys]), compile_module(module, threads=1)(keys)):
        np.testing.assert_array_equal(found[0], np.take_along_axis(keys, order, axis))
        np.testing.assert_array_equal(found[1], order)


# ---- random bits


@pytest.mark.parametrize("state", ["u64[2]", "u64[3]"])
@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox", "rng_default"])
@pytest.mark.parametrize("shape", ["u32[7]", "u32[3,4]", "u64[5]", "u8[3,3]", "s16[6]", "f32[9]", "u32[]", "s64[2,3]"])
def test_random_bits_are_the_same(algorithm: str, state: str, shape: str) -> None:
    if algorithm == "rng_three_fry" and state == "u64[3]":
        pytest.skip("ThreeFry has a state of two words")
    words = np.array([0x0123456789ABCDEF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF][: int(state[4])], np.uint64)
    body = f"p0 = {state} parameter(0)\nROOT r = ({state}, {shape}) rng-bit-generator(p0), algorithm={algorithm}"
    after = expanded("rng-bit-generator-expander", body, [words], exact=True)
    assert "rng-bit-generator" not in opcodes(after)


# ---- computations in wider types


WIDER = """HloModule m

combine {{
  a = {wide}[] parameter(0)
  b = {wide}[] parameter(1)
  ROOT c = {wide}[] {operation}(a, b)
}}

mixed {{
  a = {wide}[] parameter(0)
  b = {narrow}[] parameter(1)
  d = {wide}[] convert(b)
  e = {wide}[] multiply(a, d)
  ROOT c = {wide}[] {operation}(e, d)
}}

after {{
  a = {narrow}[] parameter(0)
  b = {narrow}[] parameter(1)
  c = {narrow}[] {operation}(a, b)
  ROOT d = {wide}[] convert(c)
}}

first {{
  a = {narrow}[] parameter(0)
  b = {narrow}[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}}

ENTRY main {{
  x = {narrow}[5,40] parameter(0)
  s = {narrow}[] parameter(1)
  i = s32[60,1] parameter(2)
  u = {narrow}[60,40] parameter(3)
  none = {narrow}[5,0] slice(x), slice={{[0:5], [7:7]}}
  rows = {wide}[5] reduce(x, s), dimensions={{1}}, to_apply=combine
  columns = {wide}[40] reduce(x, s), dimensions={{0}}, to_apply=mixed
  narrow = {wide}[40] reduce(x, s), dimensions={{0}}, to_apply=after
  nothing = {wide}[5] reduce(none, s), dimensions={{1}}, to_apply=combine
  windows = {wide}[5,39] reduce-window(x, s), window={{size=1x3 pad=0_0x1_0}}, to_apply=combine
  scattered = {narrow}[5,40] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=mixed
  few = {narrow}[5,38] slice(x), slice={{[0:5], [0:38]}}
  selected = {narrow}[5,40] select-and-scatter(x, few, s), window={{size=1x3}}, select=first, scatter=combine
  ROOT t = ({wide}[5], {wide}[40], {wide}[40], {wide}[5], {wide}[5,39], {narrow}[5,40], {narrow}[5,40]) tuple(rows, columns, narrow, nothing, windows, scattered, selected)
}}
"""  # noqa: E501 - as HLO has it


@pytest.mark.parametrize("pipeline", ["default", "none", "simplify"])
@pytest.mark.parametrize("operation", ["add", "maximum", "multiply"])
@pytest.mark.parametrize(("narrow", "wide"), [("s8", "s32"), ("u16", "u64"), ("bf16", "f32"), ("f16", "f64")])
def test_computations_work_in_their_own_types(narrow: str, wide: str, operation: str, pipeline: str) -> None:
    """What is combined may have narrower types than the computation that combines it."""
    text = WIDER.format(narrow=narrow, wide=wide, operation=operation)
    module, kind = parse(text), dtype_of(narrow)
    generator = np.random.default_rng(5)
    x, u = (generator.integers(1, 5, sizes).astype(kind) for sizes in ((5, 40), (60, 40)))
    given = [x, np.asarray(3, kind), generator.integers(0, 5, (60, 1)).astype(np.int32), u]
    if kind.kind != "i" and kind.kind != "u":
        given[0], given[3] = (x.astype(np.float32) / 2).astype(kind), (u.astype(np.float32) / 4).astype(kind)
    expected = evaluate(module, given)
    function = {"add": np.sum, "maximum": np.max, "multiply": np.prod}[operation]
    data = np.concatenate([np.full((5, 1), 3), given[0].astype(np.float64)], axis=1)
    if kind.kind in "iu":  # in these bits
        data = data.astype(np.uint64)
    assert np.allclose(expected[0], function(data, axis=1).astype(dtype_of(wide)), 1e-6)
    found = compile_module(module, pipeline=pipeline, strict=True)(*given)
    rows = compare_with_truth(found, bounded_results(module, given))
    assert all(row.ok for row in rows), [str(row) for row in rows]
    rows = compare_with_truth(expected, bounded_results(module, given))
    assert all(row.ok for row in rows), [str(row) for row in rows]


# ---- linear algebra


@pytest.mark.parametrize("kind", ["f32", "f64", "c64", "f16"])
@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("sizes", [(5, 5), (2, 3, 4, 4), (1, 1), (2, 0, 0)])
def test_cholesky_expander(kind: str, lower: str, sizes: tuple[int, ...]) -> None:
    generator = np.random.default_rng(1)
    values: Array = generator.standard_normal(sizes)
    if kind == "c64":
        values = values + 1j * generator.standard_normal(sizes)
    matrix = values @ np.swapaxes(values.conj(), -1, -2) + 3 * np.eye(sizes[-1])
    shape = f"{kind}[{','.join(map(str, sizes))}]"
    body = f"p0 = {shape} parameter(0)\nROOT r = {shape} cholesky(p0), lower={lower}"
    if not matrix.size:
        assert "cholesky" not in opcodes(expanded("cholesky-expander", body, [matrix.astype(dtype_of(kind))]))
        return
    if len(sizes) > 2:
        matrix[(0,) * (len(sizes) - 2)] *= -1  # not positive: NaN throughout
    assert "cholesky" not in opcodes(expanded("cholesky-expander", body, [matrix.astype(dtype_of(kind))]))


@pytest.mark.parametrize("kind", ["f32", "c128", "bf16"])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("left", ["true", "false"])
@pytest.mark.parametrize("unit", ["true", "false"])
def test_triangular_solve_expander(kind: str, transpose: str, lower: str, left: str, unit: str) -> None:
    generator = np.random.default_rng(1)
    matrix: Array = generator.standard_normal((2, 4, 4)) / 4 + 2 * np.eye(4)
    right: Array = generator.standard_normal((2, 4, 3) if left == "true" else (2, 3, 4))
    if kind == "c128":
        matrix = matrix + 0.3j * generator.standard_normal(matrix.shape)
    shape = f"{kind}[{','.join(map(str, right.shape))}]"
    body = (
        f"p0 = {kind}[2,4,4] parameter(0)\np1 = {shape} parameter(1)\n"
        f"ROOT r = {shape} triangular-solve(p0, p1), left_side={left}, lower={lower}, unit_diagonal={unit}, "
        f"transpose_a={transpose}"
    )
    after = expanded("triangular-solve-expander", body, [a.astype(dtype_of(kind)) for a in (matrix, right)])
    assert "triangular-solve" not in opcodes(after)


# ---- distributions


RNG = """HloModule m
ENTRY main {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[100,200] rng(a, b), distribution={distribution}
}}"""


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s32", "u8", "s64", "u64", "pred"])
def test_uniform_numbers(kind: str) -> None:
    low, high = (False, True) if kind == "pred" else (-3, 5) if kind[0] != "u" else (2, 250 if kind == "u8" else 2**63)
    before = parse(RNG.format(kind=kind, distribution="rng_uniform"))
    after = clone_module(before)
    run_pipeline(after, parse_pipeline("rng-expander"), DecisionLog(), [VerifyEach(check)])
    assert "rng" not in opcodes(after)
    bounds = [np.array(bound, dtype_of(kind)) for bound in (low, high)]
    found = np.asarray(evaluate(after, bounds)[0]).astype(np.float64)
    assert found.min() >= low
    assert found.max() <= high if kind == "pred" else found.max() < high
    middle = 0.5 if kind == "pred" else (low + high - (kind[0] != "f" and kind != "bf16")) / 2
    assert abs(found.mean() - middle) < 0.02 * (high - low)
    expected = np.asarray(evaluate(before, bounds)[0]).astype(np.float64)
    assert abs(found.std() - expected.std()) < 0.02 * (high - low)


@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
def test_normal_numbers(kind: str) -> None:
    after = parse(RNG.format(kind=kind, distribution="rng_normal"))
    run_pipeline(after, parse_pipeline("rng-expander"), DecisionLog(), [VerifyEach(check)])
    found = np.asarray(evaluate(after, [np.array(v, dtype_of(kind)) for v in (2, 3)])[0]).astype(np.float64)
    assert np.isfinite(found).all()
    assert abs(found.mean() - 2) < 0.1
    assert abs(found.std() - 3) < 0.1
    standard = (found - 2) / 3
    assert abs((np.abs(standard) < 1).mean() - 0.6827) < 0.02
    assert abs((standard**3).mean()) < 0.1


def test_empty_ranges_give_their_lower_end() -> None:
    after = parse(RNG.format(kind="s32", distribution="rng_uniform"))
    run_pipeline(after, parse_pipeline("rng-expander"))
    found = evaluate(after, [np.array(v, np.int32) for v in (4, 4)])[0]
    assert (np.asarray(found) == 4).all()


# ---- random programs


EXPANDERS = (
    "gather-expander,scatter-expander,float-normalization,operand-upcaster,dynamic-index-splitter,"
    "broadcast-canonicalizer,tree-reduction-rewriter{window=2},reduce-window-rewriter{base=2}"
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(2, 25))
def test_random_programs_spelled_out(choice: random.Random, length: int) -> None:
    program = Generator(choice, length)
    before = parse(program.text)
    after = clone_module(before)
    run_pipeline(after, parse_pipeline(EXPANDERS), DecisionLog(), [VerifyEach(check)])
    assert not opcodes(after) & {"gather", "scatter"}
    generator = np.random.default_rng(0)
    arguments = []
    for value in program.parameters:
        low, high = (0, 2) if value.kind == "pred" else (0, 5) if value.kind == "u8" else (-4, 5)
        arguments.append(np.asarray(generator.integers(low, high, value.sizes)).astype(dtype_of(value.kind)))
    results = zip(program.results, evaluate(before, arguments), evaluate(after, arguments), strict=True)
    for value, expected, found in results:
        if not value.rough:
            np.testing.assert_array_equal(found, expected, err_msg=program.text)
            continue
        left, right = (np.asarray(a).astype(np.float64) for a in (expected, found))
        tolerance = 0.1 if value.kind == "bf16" else 1e-4
        scale = max(1.0, float(np.abs(left).max(initial=0)))
        np.testing.assert_allclose(right, left, rtol=tolerance, atol=tolerance * scale, err_msg=program.text)
