"""Products on graphics processors: which way they go, their numbers, and what a thread hands to tensor cores."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from conftest import Run
from fake_cuda import on_fake
from hypothesis import given, settings
from hypothesis import strategies as st
from json_schemas import check_json

from hlotool.analysis.decisions import Decision
from hlotool.codegen.gpu.chip import EMULATED
from hlotool.codegen.gpu.grid import open_grid
from hlotool.codegen.gpu.matrix_tiles import FORMS, SIDE, MatrixTiles
from hlotool.codegen.launches import Multiply
from hlotool.codegen.llvm.arrays import load
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.elements import memory_type, vector
from hlotool.codegen.llvm.values import Int, Vector, number
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import host
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Module
from hlotool.runtime.executable import Executable
from hlotool.runtime.load import load as load_objects
from hlotool.runtime.object_code import object_of
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

Array = npt.NDArray[np.float64]


def dot(m: int, k: int, n: int, kind: str, result: str, other: str = "", more: str = "") -> Module:
    return parse(f"""ENTRY main {{
  x = {kind}[{m},{k}] parameter(0)
  y = {other or kind}[{k},{n}] parameter(1)
  ROOT d = {result}[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{more}
}}""")


def convolution(kind: str, channels: int = 32) -> Module:
    return parse(f"""ENTRY main {{
  x = {kind}[2,16,16,{channels}] parameter(0)
  k = {kind}[3,3,{channels},64] parameter(1)
  ROOT c = {kind}[2,16,16,64] convolution(x, k), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
}}""")


def chosen(executable: Executable) -> list[Decision]:
    return [decision for decision in executable.decisions if decision.pass_name == "grids"]


HIGHEST = ", operand_precision={highest,highest}"
WAYS = {  # a product, the rule of its decision, and words of the reason
    "f32": (dot(256, 256, 256, "f32", "f32"), "tensor-cores", "split"),
    "few": (dot(32, 64, 32, "f32", "f32"), "core-tiles", "too little work"),
    "highest": (dot(256, 256, 256, "f32", "f32", more=HIGHEST), "core-tiles", "as much precision"),
    "algorithm": (dot(256, 256, 256, "f32", "f32", more=", algorithm=dot_f32_f32_f32"), "core-tiles", "precision"),
    "tf32": (dot(96, 40, 80, "f32", "f32", more=", algorithm=dot_tf32_tf32_f32"), "tensor-cores", "rounded to TF32"),
    "bf16": (dot(70, 40, 80, "bf16", "f32"), "tensor-cores", "bf16"),
    "f16": (dot(70, 40, 80, "f16", "f16"), "tensor-cores", "f16"),
    "both": (dot(70, 40, 80, "f16", "f32", "bf16"), "tensor-cores", "bf16 and f16"),
    "s8": (dot(70, 90, 80, "s8", "s32"), "tensor-cores", "s8"),
    "u8": (dot(70, 90, 80, "u8", "u32"), "tensor-cores", "u8"),
    "s32": (dot(70, 90, 80, "s32", "s32"), "core-tiles", "s32"),
    "f64": (dot(70, 90, 80, "f64", "f64"), "core-tiles", "f64"),
    "conv-f32": (convolution("f32"), "tensor-cores", "split"),
    "conv-bf16": (convolution("bf16"), "tensor-cores", "bf16"),
    "conv-f16": (convolution("f16"), "tensor-cores", "f16"),
}


@pytest.mark.parametrize("name", WAYS)
def test_products_go_the_way_that_is_said(name: str) -> None:
    module, rule, words = WAYS[name]
    executable = compile_module(module, "nvptx:emulate")
    found = [decision for decision in chosen(executable) if decision.rule in ("tensor-cores", "core-tiles")]
    assert [decision.rule for decision in found] == [rule]
    assert words in found[0].reason
    inputs = random_inputs(module, 1)
    (got,), (wanted,) = executable(*inputs), evaluate(module, inputs)
    if np.issubdtype(wanted.dtype, np.integer):
        np.testing.assert_array_equal(got, wanted)
    else:
        rtol = {"bfloat16": 1e-2, "float16": 2e-3}.get(str(wanted.dtype), 4e-6)
        got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * float(np.abs(wanted).max()))


def test_chips_without_them_multiply_no_matrices() -> None:
    executable = compile_module(WAYS["bf16"][0], "nvptx:sm_70", to_run=False)
    (found,) = [decision for decision in chosen(executable) if decision.rule in ("tensor-cores", "core-tiles")]
    assert found.rule == "core-tiles"
    assert "sm_70" in found.reason


@pytest.mark.parametrize("scale", [1.0, 2.0**-70, 2.0**45])
def test_parts_of_f32_numbers_leave_out_little(scale: float) -> None:
    """Against sums in f64, relative to those of absolute values: 2^-21 for each product, and the rounding of sums."""
    module = dot(128, 512, 128, "f32", "f32")
    executable = compile_module(module, "nvptx:emulate")
    assert "tensor-cores" in {decision.rule for decision in chosen(executable)}
    x, y = (np.asarray(array, np.float32) for array in random_inputs(module, 3))
    x = x * np.float32(scale)
    (got,) = executable(x, y)
    exact, size = (f(x.astype(np.float64)) @ f(y.astype(np.float64)) for f in (np.positive, np.abs))
    error = np.abs(np.asarray(got, np.float64) - exact) / size
    assert error.max() < 2.0**-21


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38, 1e-39, 2.0**-110, 0.0])
@pytest.mark.parametrize("side", [0, 1])
def test_f32_numbers_without_parts_are_multiplied_as_they_are(value: float, side: int) -> None:
    module = dot(128, 256, 192, "f32", "f32")
    arrays = [np.array(array, np.float32) for array in random_inputs(module, 2)]
    arrays[side][7, 9] = value
    arrays[1 - side][100, 100] = 2.0**100  # which shows what is lost of a small one
    (got,), (wanted,) = compile_module(module, "nvptx:emulate")(*arrays), evaluate(module, arrays)
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(np.isfinite(got), finite)
    np.testing.assert_array_equal(np.asarray(got)[~finite], wanted[~finite])
    np.testing.assert_allclose(np.asarray(got)[finite], wanted[finite], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["f32", "bf16", "f16"])
def test_infinite_weights_beyond_a_border_add_nothing(kind: str) -> None:
    module = convolution(kind)
    x, k = (np.array(array) for array in random_inputs(module, 1))
    k[0, :, 5, 3] = np.inf
    executable = compile_module(module, "nvptx:emulate")
    assert chosen(executable)[0].rule == "tensor-cores"
    (got,), (wanted,) = executable(x, k), evaluate(module, [x, k])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted))
    assert np.isfinite(wanted[:, 0]).all()
    assert np.isinf(wanted[:, 1]).any()


@settings(max_examples=15, deadline=None)
@given(
    rows=st.sampled_from([1, 3, 16, 64]), columns=st.sampled_from([1, 5, 64]),
    terms=st.sampled_from([4096, 6144, 5000, 65536]), kind=st.sampled_from(["f32", "f64", "bf16", "s8"]),
)  # fmt: skip
def test_long_sums_are_divided_among_blocks(rows: int, columns: int, terms: int, kind: str) -> None:
    result = "s32" if kind == "s8" else kind
    module = dot(rows, terms, columns, kind, result)
    executable = compile_module(module, "nvptx:emulate")
    if min(rows, columns) >= 8:
        assert "partial-sums" in {decision.rule for decision in chosen(executable)}
    inputs = random_inputs(module, 1)
    (got,), (wanted,) = executable(*inputs), evaluate(module, inputs)
    if result == "s32":
        np.testing.assert_array_equal(got, wanted)
    else:
        rtol = {"bf16": 1e-2, "f64": 1e-12}.get(kind, 1e-4)
        got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * float(np.abs(wanted).max()))


TYPES = {
    "f32": np.float32, "tf32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "s8": np.int8, "u8": np.uint8,
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_threads_hand_over_what_the_instruction_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words that each thread of a block has for each instruction are written down, and multiplied as the PTX ISA
    says which elements of the matrices these are (see `multiplied`); the sums are those of the whole tile."""
    form, unit = FORMS[name], Unit(host())
    grid = open_grid(unit, "k", EMULATED["emulate"], 1, MatrixTiles.threads, 3)
    tiles = MatrixTiles(grid, form, left_out=False)
    running: list[Int] = []
    instructions = 0

    def write_down(
        self: MatrixTiles, left: Sequence[Vector], right: Sequence[Vector], sums: Sequence[Vector]
    ) -> Sequence[Vector]:
        nonlocal instructions
        for n, word in enumerate((*left, *right)):
            at = grid.argument(2).at("i32", (6 * instructions + n) * MatrixTiles.threads).at("i32", running[-1])
            at.store(word, 4)
        instructions += 1
        return sums

    monkeypatch.setattr(MatrixTiles, "_instruction", write_down)
    with grid.phase() as thread:
        tiles.clear(thread)
    with grid.phase() as thread:
        own = begin_loop(grid.f, thread, SIDE, MatrixTiles.threads)
        term = begin_loop(grid.f, 0, tiles.piece)
        for side in range(2):
            line = grid.argument(side).at(memory_type(form.factor), number(grid.f, own.index) * tiles.piece)
            tiles.put(side, own.index, term.index, vector(load(line, form.factor, term.index)), None)
        term.end()
        own.end()
    with grid.phase() as thread:
        running.append(thread)
        tiles._instructions(thread)
    grid.finish()
    drawn = np.random.default_rng(5).integers(0 if name == "u8" else -99, 99, (2, SIDE, tiles.piece))
    exact = drawn if form.total == "i32" else drawn / 64 if name == "tf32" else drawn / 7
    x, y = exact.astype(TYPES[name])
    words = np.zeros((instructions, 6, MatrixTiles.threads), np.uint32)
    run_blocks(unit, [x, y, words])
    wanted = x.astype(np.float64) @ y.astype(np.float64).T
    np.testing.assert_allclose(multiplied(words, TYPES[name], tiles.steps), wanted, rtol=2e-6, atol=1e-4)


def multiplied(words: npt.NDArray[np.uint32], kind: Any, steps: int) -> Array:
    """The tile that the instructions of all warps make (PTX ISA, "Matrix Fragments for mma.m16n8k8" and so on): of lane
    4 r + c word n of the left operand is of row r, plus 8 where n is odd, and word c of it, plus 4 in the last two; of
    the right operand word n is word c + 4 n of column r."""
    whole = np.zeros((SIDE, SIDE))
    lane = np.arange(32)
    row, place = lane // 4, lane % 4
    for warp in range(words.shape[2] // 32):
        for at, own in enumerate(words[:, :, 32 * warp : 32 * warp + 32]):
            left, right = np.zeros((16, 8), np.uint32), np.zeros((8, 8), np.uint32)
            for n in range(4):
                left[row + 8 * (n % 2), place + 4 * (n // 2)] = own[n]
            for n in range(2):
                right[row, place + 4 * n] = own[4 + n]
            piece = left.view(kind).astype(np.float64) @ right.view(kind).astype(np.float64).T
            per_step = len(words) // steps
            across = at % per_step // (per_step // 4)  # of a step four pieces, with one or three products each
            first, column = 16 * (warp // 2), 32 * (warp % 2) + 8 * across
            whole[first : first + 16, column : column + 8] += piece
    return whole


def run_blocks(unit: Unit, arrays: Sequence[npt.NDArray[Any]]) -> None:
    """Run the only block of kernel ``k`` on the memory of arrays."""
    library = load_objects([object_of(unit.text(), host())])
    table = (ctypes.c_void_p * (len(arrays) + 1))(None, *(array.ctypes.data for array in arrays))
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(library.address("k"))
    kernel(ctypes.addressof(table) + 8, 0, 1)


LARGE = {  # both factors, result, batch, which of them are turned, more
    "plain": ("f32", "f32", 1, (False, False), ""),
    "left": ("f32", "f32", 1, (True, False), ""),
    "right": ("f32", "f32", 1, (False, True), ""),
    "batch": ("f32", "f32", 3, (True, True), ""),
    "f64": ("f64", "f64", 1, (False, False), ""),
    "bf16": ("bf16", "bf16", 1, (False, True), ""),
    "f16": ("f16", "f32", 2, (False, False), ""),
    "tf32": ("f32", "f32", 1, (False, False), ", algorithm=dot_tf32_tf32_f32"),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("installed", [True, False])
def test_large_products_are_those_of_a_library(name: str, installed: bool) -> None:
    kind, result, batch, (left, right), more = LARGE[name]
    m, k, n = 520, 512, 528
    x, y = [k, m] if left else [m, k], [n, k] if right else [k, n]
    module = parse(f"""ENTRY main {{
  x = {kind}{[batch, *x]} parameter(0)
  y = {kind}{[batch, *y]} parameter(1)
  ROOT d = {result}{[batch, m, n]} dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{{1 if left else 2}}}, rhs_contracting_dims={{{2 if right else 1}}}{more}
}}""")
    program, _, run, library = on_fake(module, blas=installed)
    assert any(isinstance(done, Multiply) for done in program.at_once or ())
    inputs = random_inputs(module, 1)
    (got,), (wanted,) = run(inputs), evaluate(module, inputs)
    rtol = {"bfloat16": 1e-2, "float16": 2e-3}.get(str(wanted.dtype), 1e-5)
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * float(np.abs(wanted).max()))
    if library is not None:
        assert library.sums == [{"f64": 70, "tf32": 77}.get(name, 68)]
        run(inputs)
        assert len(library.sums) == 1  # it is in the graph


def test_a_handle_is_used_again_when_its_stream_is_done() -> None:
    """Of a program that is not one graph every execution has one for itself."""
    module = parse("""c {
  s = (s32[], f32[512,512], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=2
  ROOT r = pred[] compare(i, n), direction=LT
}
b {
  s = (s32[], f32[512,512], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[512,512] get-tuple-element(s), index=1
  n = s32[] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[512,512] dot(v, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[512,512], s32[]) tuple(j, d, n)
}
ENTRY e {
  x = f32[512,512] parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[512,512], s32[]) tuple(zero, x, n)
  l = (s32[], f32[512,512], s32[]) while(s), condition=c, body=b
  ROOT y = f32[512,512] get-tuple-element(l), index=1
}""")
    program, _, run, library = on_fake(module, blas=True)
    assert program.at_once is None
    assert library is not None
    x = np.random.default_rng(1).normal(size=(512, 512)).astype(np.float32) / 20
    for trips in (1, 2):
        (got,) = run([x, np.array(trips, np.int32)])
        wanted = np.linalg.matrix_power(x.astype(np.float64), 2**trips)
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)
    assert library.handles == [1]
    assert len(library.sums) == 3


def test_small_products_and_those_with_an_epilogue_have_grids() -> None:
    for module in (dot(256, 256, 256, "f32", "f32"), dot(512, 512, 512, "s8", "s32")):
        assert "library-product" not in {decision.rule for decision in chosen(compile_module(module, "nvptx:emulate"))}


def test_the_launches_say_what_a_library_may_do(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(print_module(dot(512, 512, 512, "f32", "f32")))
    listed = check_json(hlotool("emit", "m.hlo", "--target", "nvptx:sm_90", "--stage", "launches").stdout)
    (product,) = listed["routines"][listed["entry"]]
    assert product["do"] == "multiply"
    assert {launch["do"] for launch in product["otherwise"]} == {"launch"}
