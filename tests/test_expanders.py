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
from hlotool.harness.compare import compare_all
from hlotool.ir import HloError, Module, clone_module, dtype_of
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.passes.instruments import VerifyEach
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


GATHERS = [
    "p0 = f32[8,4] parameter(0)\np1 = s32[5] parameter(1)\n"
    "ROOT r = f32[5,4] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,4}",
    "p0 = f32[8,4,3] parameter(0)\np1 = s64[2,3,2] parameter(1)\n"
    "ROOT r = f32[3,2,2,3] gather(p0, p1), offset_dims={0,2}, collapsed_slice_dims={1}, start_index_map={1,0}, "
    "index_vector_dim=2, slice_sizes={3,1,2}",
    "p0 = f32[2,8,4] parameter(0)\np1 = s32[3,2,1] parameter(1)\n"
    "ROOT r = f32[3,2,2] gather(p0, p1), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, "
    "operand_batching_dims={0}, start_indices_batching_dims={1}, index_vector_dim=2, slice_sizes={1,1,2}",
    "p0 = f32[8,4] parameter(0)\np1 = u8[] parameter(1)\n"
    "ROOT r = f32[4] gather(p0, p1), offset_dims={0}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=0, slice_sizes={1,4}",
    "p0 = f32[0,4] parameter(0)\np1 = s32[0] parameter(1)\n"
    "ROOT r = f32[0,0,4] gather(p0, p1), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={0,4}",
]  # fmt: skip


@pytest.mark.parametrize("body", GATHERS)
def test_gather_expander(body: str) -> None:
    assert "gather" not in opcodes(expanded("gather-expander", body, exact=True))


SCATTERS = [
    "p0 = f32[8,4] parameter(0)\np1 = s32[5] parameter(1)\np2 = f32[5,4] parameter(2)\n"
    "ROOT r = f32[8,4] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "p0 = f32[8,4] parameter(0)\np1 = u8[6,2] parameter(1)\np2 = f32[2,6,2] parameter(2)\n"
    "ROOT r = f32[8,4] scatter(p0, p1, p2), update_window_dims={0,2}, inserted_window_dims={}, "
    "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=second",
    "p0 = f32[2,8] parameter(0)\np1 = s64[3,2,1] parameter(1)\np2 = f32[3,2] parameter(2)\n"
    "ROOT r = f32[2,8] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={1}, "
    "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={1}, "
    "index_vector_dim=2, to_apply=max",
    "p0 = f32[8] parameter(0)\np1 = s32[0,1] parameter(1)\np2 = f32[0] parameter(2)\n"
    "ROOT r = f32[8] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=max",
]


@pytest.mark.parametrize("body", SCATTERS)
def test_scatter_expander(body: str) -> None:
    assert "scatter" not in opcodes(expanded("scatter-expander", body, exact=True))


@pytest.mark.parametrize("body", [body for body in GATHERS if "batching" not in body and "f32[0," not in body])
def test_gather_simplifier(body: str) -> None:
    after = expanded("gather-simplifier", body, exact=True)
    (gather,) = (i for i in after.entry if i.opcode == "gather")
    assert gather.operands[1].shape.rank == 2
    assert not gather.attributes["collapsed_slice_dims"]
    assert list(gather.attributes["offset_dims"]) == list(range(1, gather.shape.rank))


@pytest.mark.parametrize("body", [body for body in SCATTERS if "batching" not in body])
def test_scatter_simplifier(body: str) -> None:
    after = expanded("scatter-simplifier", body, exact=True)
    (scatter,) = (i for i in after.entry if i.opcode == "scatter")
    assert scatter.operands[1].shape.rank == 2
    assert not scatter.attributes["inserted_window_dims"]
    assert list(scatter.attributes["update_window_dims"]) == list(range(1, scatter.operands[2].shape.rank))


@pytest.mark.parametrize(("body", "pipeline"), [(GATHERS[2], "gather-simplifier"), (SCATTERS[2], "scatter-simplifier")])
def test_batching_dimensions_go_first(body: str, pipeline: str) -> None:
    module = parse(f"{REDUCERS}ENTRY main {{\n{body}\n}}\n")
    assert not run_pipeline(clone_module(module), parse_pipeline(pipeline))
    expanded(f"batched-gather-scatter-normalizer,{pipeline}", body, exact=True)


def test_scatter_of_several_arrays_in_plain_form() -> None:
    body = (
        "p0 = f32[8] parameter(0)\np1 = f32[8] parameter(1)\np2 = s32[3] parameter(2)\np3 = f32[3] parameter(3)\n"
        "ROOT r = (f32[8], f32[8]) scatter(p0, p1, p2, p3, p3), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=pair"
    )
    expanded("scatter-simplifier", body, exact=True)


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


def test_computations_of_scalar_arithmetic_stay() -> None:
    for body in (SCATTERS[0], "p0 = f32[8] parameter(0)\nROOT r = f32[8] map(p0, p0), dimensions={0}, to_apply=add"):
        module = parse(f"{REDUCERS}ENTRY main {{\n{body}\n}}\n")
        assert not run_pipeline(module, parse_pipeline("element-loop-expander"))


def test_scatter_of_several_arrays_is_a_map_for_each() -> None:
    body = (
        "p0 = f32[8] parameter(0)\np1 = s32[3,1] parameter(1)\np2 = f32[3] parameter(2)\n"
        "ROOT r = (f32[8], f32[8]) scatter(p0, p0, p1, p2, p2), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=pair"
    )
    assert "scatter" not in opcodes(expanded("scatter-expander", body, exact=True))


@pytest.mark.parametrize(
    ("size", "window", "source"),
    [
        ("6,8", "size=2x2 stride=2x2", "3,4"),
        ("6,8", "size=3x3 stride=2x2 pad=1_1x0_1", "3,4"),
        ("6,8", "size=1x3 pad=0_0x1_1", "6,8"),
    ],
)
def test_select_and_scatter_expander(size: str, window: str, source: str) -> None:
    body = (
        f"p0 = f32[{size}] parameter(0)\np1 = f32[{source}] parameter(1)\nc = f32[] constant(0.5)\n"
        f"ROOT r = f32[{size}] select-and-scatter(p0, p1, c), window={{{window}}}, select=ge, scatter=add"
    )
    after = expanded("select-and-scatter-expander", body)
    assert "select-and-scatter" not in opcodes(after)
    assert {"reduce-window", "scatter"} <= opcodes(after)


# ---- windows


@pytest.mark.parametrize("size", [17, 32, 100, 300])
@pytest.mark.parametrize("low", [True, False])
def test_cumulative_reductions_in_two_levels(size: int, low: bool) -> None:
    pad = f"{size - 1}_0" if low else f"0_{size - 1}"
    body = (
        f"p0 = f32[3,{size},2] parameter(0)\nc = f32[] constant(0)\n"
        f"ROOT r = f32[3,{size},2] reduce-window(p0, c), window={{size=1x{size}x1 pad=0_0x{pad}x0_0}}, to_apply=add"
    )
    after = expanded("reduce-window-rewriter", body)
    sizes = [max(d.size for d in i.attributes["window"].dimensions) for i in after.entry if i.opcode == "reduce-window"]
    assert len(sizes) >= 2
    assert max(sizes) <= 16


def test_other_windows_stay() -> None:
    module = parse(
        f"{REDUCERS}ENTRY main {{\np0 = f32[100] parameter(0)\nc = f32[] constant(0)\nd = f32[] constant(1)\n"
        "a = f32[81] reduce-window(p0, c), window={size=20}, to_apply=add\n"
        "b = f32[100] reduce-window(p0, d), window={size=100 pad=99_0}, to_apply=add\n"
        "ROOT r = (f32[81], f32[100]) tuple(a, b)\n}\n"
    )
    assert not run_pipeline(module, parse_pipeline("reduce-window-rewriter"))


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


# ---- narrow floats


@pytest.mark.parametrize("kind", ["bf16", "f16", "f8e4m3fn", "f8e5m2"])
def test_float_normalization(kind: str) -> None:
    body = (
        f"p0 = {kind}[4,6] parameter(0)\np1 = {kind}[4,6] parameter(1)\na = {kind}[4,6] add(p0, p1)\n"
        f"b = {kind}[4,6] multiply(a, p1)\nc = {kind}[4,6] maximum(b, p0)\nd = {kind}[4,6] tanh(c)\n"
        f"ROOT r = {kind}[6,6] dot(d, p1), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
    )
    after = expanded(f"float-normalization{{type={kind}}}", body)
    rounding = [i for i in after.entry if i.opcode in ("add", "multiply", "tanh", "dot")]
    assert len(rounding) == 4
    assert all(i.shape.element_type == "f32" for i in rounding)
    assert [i.shape.element_type for i in after.entry if i.opcode == "maximum"] == [kind]


@pytest.mark.parametrize("options", ["{type=s32}", "{type=f32,to=bf16}", "{type=nonsense}"])
def test_float_normalization_wants_float_types(options: str) -> None:
    with pytest.raises(HloError):
        run_pipeline(parse(f"{REDUCERS}ENTRY m {{\nROOT p = f32[] parameter(0)\n}}\n"),
                     parse_pipeline(f"float-normalization{options}"))  # fmt: skip


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


# ---- canonical forms


def test_dynamic_index_splitter() -> None:
    body = (
        "p0 = f32[8,4] parameter(0)\np1 = s32[2] parameter(1)\np2 = f32[2,2] parameter(2)\n"
        "a = f32[8,4] dynamic-update-slice(p0, p2, p1)\n"
        "ROOT r = f32[3,2] dynamic-slice(a, p1), dynamic_slice_sizes={3,2}"
    )
    after = expanded("dynamic-index-splitter", body, exact=True)
    assert all(len(i.operands) > 2 for i in after.entry if i.opcode.startswith("dynamic"))


def test_broadcast_canonicalizer() -> None:
    body = "p0 = f32[2,3,4] parameter(0)\nROOT r = f32[4,5,2,3] broadcast(p0), dimensions={2,3,0}"
    after = expanded("broadcast-canonicalizer", body, exact=True)
    assert after.entry.root.attributes["dimensions"] == (0, 2, 3)


@pytest.mark.parametrize(
    ("left", "right", "result"), [("bf16", "f32", "f32"), ("s8", "s8", "s32"), ("u8", "s8", "s32")]
)
def test_operand_upcaster(left: str, right: str, result: str) -> None:
    body = (
        f"p0 = {left}[3,4] parameter(0)\np1 = {right}[4,5] parameter(1)\n"
        f"ROOT r = {result}[3,5] dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    )
    after = expanded("operand-upcaster", body)
    assert {o.shape.element_type for o in after.entry.root.operands} == {result}


def test_operands_that_would_be_rounded_stay() -> None:
    module = parse(
        "HloModule m\nENTRY main {\np0 = f32[3,4] parameter(0)\np1 = f32[4,5] parameter(1)\n"
        "ROOT r = bf16[3,5] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"
    )
    assert not run_pipeline(module, parse_pipeline("operand-upcaster"))


@pytest.mark.parametrize("body", [GATHERS[2], SCATTERS[2], GATHERS[2].replace("s32[3,2,1]", "u8[3,2,1]")])
def test_batched_gather_scatter_normalizer(body: str) -> None:
    after = expanded("batched-gather-scatter-normalizer", body, exact=True)
    assert not any("batching" in name and value for i in after.entry for name, value in i.attributes.items())


@pytest.mark.parametrize("sizes", ["33", "3,1000", "100,5"])
def test_tree_reduction_rewriter(sizes: str) -> None:
    dimensions = ",".join(str(d) for d in range(sizes.count(",") + 1))
    body = (
        f"p0 = f32[{sizes}] parameter(0)\nc = f32[] constant(0)\n"
        f"ROOT r = f32[] reduce(p0, c), dimensions={{{dimensions}}}, to_apply=add"
    )
    after = expanded("tree-reduction-rewriter", body)
    reduces = [i for i in after.entry if i.opcode == "reduce"]
    assert len(reduces) >= 2
    assert all(max(i.operands[0].shape.dimensions[d] for d in i.attributes["dimensions"]) <= 32 for i in reduces)


GROUPED = [
    "p0 = f32[2,9,6] parameter(0)\np1 = f32[3,2,12] parameter(1)\n"
    "ROOT r = f32[2,8,12] convolution(p0, p1), window={size=3 pad=1_0}, dim_labels=b0f_0io->b0f, feature_group_count=3",
    "p0 = f32[6,9,4] parameter(0)\np1 = f32[12,3,4] parameter(1)\n"
    "ROOT r = f32[12,4,3] convolution(p0, p1), window={size=3 stride=2}, dim_labels=b0f_o0i->f0b, batch_group_count=2",
]


@pytest.mark.parametrize("body", GROUPED)
def test_convolution_group_converter(body: str) -> None:
    after = expanded("convolution-group-converter", body)
    parts = [i for i in after.entry if i.opcode == "convolution"]
    assert len(parts) > 1
    assert not any((i.attributes.get(f"{kind}_group_count") or 1) > 1 for i in parts for kind in ("feature", "batch"))


def test_many_groups_stay() -> None:
    module, log = parse(f"{REDUCERS}ENTRY main {{\n{GROUPED[0]}\n}}\n"), DecisionLog()
    assert not run_pipeline(module, parse_pipeline("convolution-group-converter{max-groups=2}"), log)
    assert [d.rule for d in log] == ["many-groups"]


# ---- types and roundings


@pytest.mark.parametrize(("kind", "total"), [("bf16", "f32"), ("f16", "f32"), ("s8", "s32")])
def test_result_caster(kind: str, total: str) -> None:
    body = (
        f"p0 = {kind}[3,4] parameter(0)\np1 = {kind}[4,5] parameter(1)\n"
        f"ROOT r = {kind}[3,5] dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    )
    after = expanded("result-caster", body, exact=True)
    assert [i.shape.element_type for i in after.entry if i.opcode == "dot"] == [total]
    assert after.entry.root.opcode == "convert"


def test_wide_products_need_no_cast() -> None:
    for left, result in (("f32", "f32"), ("s8", "s32"), ("f32", "f64")):
        module = parse(
            f"ENTRY main {{\np0 = {left}[3,4] parameter(0)\np1 = {left}[4,5] parameter(1)\n"
            f"ROOT r = {result}[3,5] dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}"
        )
        assert not run_pipeline(module, parse_pipeline("result-caster"))


@pytest.mark.parametrize(
    ("source", "bits", "target"),
    [("f32", "u32", "s8"), ("f64", "u64", "u32"), ("f16", "u16", "s64"), ("bf16", "u8", "u4")],
)
def test_stochastic_convert_decomposer(source: str, bits: str, target: str) -> None:
    body = (
        f"p0 = {source}[64] parameter(0)\np1 = {bits}[64] parameter(1)\n"
        f"ROOT r = {target}[64] stochastic-convert(p0, p1)"
    )
    generator = np.random.default_rng(2)
    values = (generator.standard_normal(64) * 40).astype(dtype_of(source))
    values[:8] = np.array([np.nan, np.inf, -np.inf, -0.0, 0.5, -0.5, 3e4, -3e4]).astype(dtype_of(source))
    random_bits = generator.integers(0, 2 ** int(bits[1:]), 64, np.uint64).astype(dtype_of(bits))
    after = expanded("stochastic-convert-decomposer", body, [values, random_bits], exact=True)
    assert "stochastic-convert" not in opcodes(after)


def test_stochastic_convert_to_float_stays() -> None:
    module, log = parse("ENTRY e {\na = f32[8] parameter(0)\nb = u32[8] parameter(1)\n"
                        "ROOT r = bf16[8] stochastic-convert(a, b)\n}"), DecisionLog()  # fmt: skip
    assert not run_pipeline(module, parse_pipeline("stochastic-convert-decomposer"), log)
    assert [d.rule for d in log] == ["float"]


def test_simplify_fp_conversions() -> None:
    body = "p0 = f32[8] parameter(0)\na = bf16[8] convert(p0)\nb = f32[8] convert(a)\nROOT c = f32[8] negate(b)"
    module = parse(f"ENTRY e {{\n{body}\n}}")
    assert run_pipeline(module, parse_pipeline("simplify-fp-conversions"))
    check(module)
    assert [i.opcode for i in module.entry] == ["parameter", "negate"]
    body = "p0 = s32[8] parameter(0)\na = f32[8] convert(p0)\nROOT b = s32[8] convert(a)"
    assert not run_pipeline(parse(f"ENTRY e {{\n{body}\n}}"), parse_pipeline("simplify-fp-conversions"))


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
