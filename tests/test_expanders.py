"""Passes that spell out one instruction in terms of simpler ones: what is left, and the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.ir import HloError, Module, clone_module, dtype_of
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.passes.instruments import VerifyEach
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]

REDUCERS = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}

ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}

second {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}

pair {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  e = f32[] add(a, c)
  f = f32[] add(b, d)
  ROOT g = (f32[], f32[]) tuple(e, f)
}

"""


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


# ---- gather and scatter


GATHERS = [
    "p0 = f32[8,4] parameter(0)\np1 = s32[5] parameter(1)\n"
    "ROOT r = f32[5,4] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,4}",
    "p0 = f32[8,4,3] parameter(0)\np1 = s64[2,3,2] parameter(1)\n"
    "ROOT r = f32[3,2,2,2] gather(p0, p1), offset_dims={0,2}, collapsed_slice_dims={1}, start_index_map={1,0}, "
    "index_vector_dim=2, slice_sizes={3,1,2}".replace("f32[3,2,2,2]", "f32[3,2,2,3]"),
    "p0 = f32[2,8,4] parameter(0)\np1 = s32[3,2,1] parameter(1)\n"
    "ROOT r = f32[3,2,2] gather(p0, p1), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, "
    "operand_batching_dims={0}, start_indices_batching_dims={1}, index_vector_dim=2, slice_sizes={1,1,2}",
    "p0 = f32[8,4] parameter(0)\np1 = u8[] parameter(1)\n"
    "ROOT r = f32[4] gather(p0, p1), offset_dims={0}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=0, slice_sizes={1,4}",
    "p0 = f32[0,4] parameter(0)\np1 = s32[0] parameter(1)\n"
    "ROOT r = f32[0,4] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={0,4}".replace("f32[0,4] gather", "f32[0,4,0] gather").replace("{1}, coll", "{1,2}, coll")
    .replace("f32[0,4,0] gather", "f32[0,0,4] gather"),
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


def test_scatter_of_several_arrays_stays() -> None:
    module = parse(
        f"{REDUCERS}ENTRY main {{\np0 = f32[8] parameter(0)\np1 = s32[3,1] parameter(1)\np2 = f32[3] parameter(2)\n"
        "ROOT r = (f32[8], f32[8]) scatter(p0, p0, p1, p2, p2), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=pair\n}\n"
    )
    log = DecisionLog()
    assert not run_pipeline(module, parse_pipeline("scatter-expander"), log)
    assert [d.rule for d in log] == ["several-arrays"]


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
    body = (
        f"p0 = {state} parameter(0)\n"
        f"ROOT r = ({state}, {shape}) rng-bit-generator(p0), algorithm={algorithm}"
    )
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
