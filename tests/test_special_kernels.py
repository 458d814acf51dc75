"""The kernels of sort, topk, scatter, windows, fft, cholesky, triangular-solve and random bits.

Each runs at three vector widths, with all tasks at once and one by one from the last to the first, on buffers that were
filled with rubbish; the results are compared with the reference evaluator, NumPy, or values taken from XLA.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from arguments import table
from hypothesis import given, settings
from hypothesis import strategies as st
from models import model

from hlotool.codegen.algorithms.fft import emit_fft
from hlotool.codegen.algorithms.keys import recognise
from hlotool.codegen.algorithms.linear import emit_cholesky, emit_triangular_solve
from hlotool.codegen.algorithms.reduce_window import emit_reduce_window
from hlotool.codegen.algorithms.rng import emit_rng, emit_rng_bit_generator, emit_rng_get_and_update_state
from hlotool.codegen.algorithms.scatter import emit_scatter
from hlotool.codegen.algorithms.select_and_scatter import emit_select_and_scatter
from hlotool.codegen.algorithms.sort import emit_sort
from hlotool.codegen.algorithms.topk import emit_topk
from hlotool.codegen.algorithms.windows import blocks
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.machine import named
from hlotool.evaluate import evaluate
from hlotool.evaluate.context import Rule
from hlotool.evaluate.rules import RULES
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Instruction, Module, UnsupportedError, dtype_of
from hlotool.runtime import callback
from hlotool.runtime.compile import compile_units
from hlotool.runtime.load import load
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]
Emitter = Callable[..., Kernel]
WIDTHS = ("host", "x86-64-v3", "x86-64-v2")
EMITTERS: dict[str, Emitter] = {
    "cholesky": emit_cholesky,
    "fft": emit_fft,
    "reduce-window": emit_reduce_window,
    "rng-bit-generator": emit_rng_bit_generator,
    "scatter": emit_scatter,
    "select-and-scatter": emit_select_and_scatter,
    "sort": emit_sort,
    "topk": emit_topk,
    "triangular-solve": emit_triangular_solve,
}


# ---- running kernels


def memory(array: Array) -> Array:
    """The bytes of an array as kernels see them, 64-byte aligned; signed 4-bit elements are sign-extended bytes."""
    array = np.ascontiguousarray(array)
    data = np.frombuffer((array.astype(np.int8) if array.dtype.name in ("int2", "int4") else array).tobytes(), np.uint8)
    buffer = rubbish(data.size)
    buffer[:] = data
    return buffer


def rubbish(size: int) -> Array:
    raw = np.full(size + 64, 0xCD, np.uint8)
    return raw[-raw.ctypes.data % 64 :][:size]


def run(instruction: Instruction, operands: Sequence[Array], cpu: str = "host", in_place: bool = False) -> list[Array]:
    """The results of the instruction's kernel; the same bits for two ways to split the tasks."""
    machine = named(cpu)
    kernel = EMITTERS[instruction.opcode]("kernel", instruction, machine, in_place)
    library = load(compile_units([kernel.text], machine), callback.symbols())
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    leaves = list(instruction.shape.leaves())
    found: list[list[Array]] = []
    for one_by_one in (False, True):
        inputs = [memory(a) for a in operands]
        outputs = inputs[: len(leaves)] if in_place else [rubbish(leaf.byte_size) for leaf in leaves]
        scratch = rubbish(kernel.scratch + 8)
        pointers = [b.ctypes.data for b in (*inputs, *outputs, scratch)]
        arguments = table(pointers)
        for step in kernel.steps:
            function = kind(library.address(step.function))
            for task in reversed(range(step.tasks)) if one_by_one else ():
                function(arguments, task, task + 1)
            if not one_by_one:
                function(arguments, 0, step.tasks)
        pairs = zip(outputs, leaves, strict=True)
        found.append([o.view(dtype_of(leaf.element_type)).reshape(leaf.dimensions) for o, leaf in pairs])
    assert [a.tobytes() for a in found[0]] == [a.tobytes() for a in found[1]], "the result depends on the split"
    return found[0]


def parsed(body: str, regions: str = "") -> Module:
    """A module whose entry computation is `body`."""
    return parse(f"HloModule test\n{regions}\nENTRY main {{\n{body}\n}}\n")


def check(module: Module, operands: Sequence[Array], cpu: str, tolerance: float = 0.0) -> list[Array]:
    """Compare the root's kernel with the evaluator; `tolerance` is relative to the largest element."""
    results = run(module.entry.root, operands, cpu)
    for got, wanted in zip(results, evaluate(module, list(operands)), strict=True):
        agree(got, np.asarray(wanted), tolerance)
    return results


def agree(got: Array, wanted: Array, tolerance: float) -> None:
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    ours, theirs = (a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in (got, wanted))
    if tolerance == 0.0 or got.size == 0:
        np.testing.assert_array_equal(ours, theirs)
        return
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    present = ~np.isnan(theirs)
    if present.any():
        scale = max(1e-30, float(np.abs(theirs[present]).max()))
        assert float(np.abs(ours[present] - theirs[present]).max()) <= tolerance * scale


def region(name: str, opcode: str, kind: str, attributes: str = "") -> str:
    result = "pred" if opcode == "compare" else kind
    return (
        f"{name} {{ a = {kind}[] parameter(0)\n b = {kind}[] parameter(1)\n"
        f" ROOT r = {result}[] {opcode}(a, b){attributes}\n}}\n"
    )


def dims(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))


def whole_numbers(kind: str, sizes: Sequence[int], seed: int = 0, low: int = -5, high: int = 6) -> Array:
    """Small whole numbers, which every type and every order of additions treats exactly."""
    low = max(low, 0) if kind[0] == "u" or kind == "pred" else low
    values = np.random.default_rng(seed).integers(low, 2 if kind == "pred" else high, sizes)
    return values.astype(dtype_of(kind))


def noise(kind: str, sizes: Sequence[int], seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(sizes)
    if kind[0] == "c":
        values = values + 1j * rng.standard_normal(sizes)
    return np.asarray(values).astype(dtype_of(kind))


# ---- sort

FRAMEWORK_COMPARATOR = """less {{
  a = {0}[] parameter(0)
  na = pred[] compare(a, a), direction=NE
  nan = {0}[] constant(nan)
  zero = {0}[] constant(0)
  za = pred[] compare(a, zero), direction=EQ
  sa = {0}[] select(za, zero, a)
  ca = {0}[] select(na, nan, sa)
  b = {0}[] parameter(1)
  nb = pred[] compare(b, b), direction=NE
  zb = pred[] compare(b, zero), direction=EQ
  sb = {0}[] select(zb, zero, b)
  cb = {0}[] select(nb, nan, sb)
  {1}
  ROOT r = pred[] compare(ca, cb), direction=LT, type=TOTALORDER
}}
"""
LATE_COMPARATOR = "\n".join(
    line for line in FRAMEWORK_COMPARATOR.replace("  ca =", "  na = pred[] compare(sa, sa), direction=NE\n  ca =")
    .replace("  cb =", "  nb = pred[] compare(sb, sb), direction=NE\n  cb =").splitlines()
    if "compare(a, a)" not in line and "compare(b, b)" not in line
)
"""The same, which looks for NaNs among what has its zeros made equal."""
UNUSED = "c = s32[] parameter(2)\n d = s32[] parameter(3)"


def sort_module(kinds: Sequence[str], sizes: Sequence[int], dimension: int, comparator: str) -> Module:
    shapes = [f"{k}[{dims(sizes)}]" for k in kinds]
    lines = [f"p{i} = {s} parameter({i})" for i, s in enumerate(shapes)]
    result = shapes[0] if len(kinds) == 1 else f"({', '.join(shapes)})"
    names = ", ".join(f"p{i}" for i in range(len(kinds)))
    lines.append(f"ROOT s = {result} sort({names}), dimensions={{{dimension}}}, is_stable=true, to_apply=less")
    return parsed("\n".join(lines), comparator)


def plain(kind: str, direction: str, payload: bool) -> str:
    unused = UNUSED if payload else ""
    return (
        f"less {{ a = {kind}[] parameter(0)\n b = {kind}[] parameter(1)\n {unused}\n"
        f" ROOT r = pred[] compare(a, b), direction={direction}\n}}\n"
    )


@pytest.mark.parametrize("cpu", WIDTHS)
@pytest.mark.parametrize("kind", ["s32", "u8", "s4", "s64", "f16", "bf16", "f64", "pred", "u16"])
def test_sort_by_one_key_carries_the_payload(kind: str, cpu: str) -> None:
    cases: list[tuple[tuple[int, ...], int, str]] = [((3, 7), 1, "LT"), ((300, 2), 0, "GT"), ((2, 40, 3), 1, "LT")]
    for sizes, dimension, direction in cases:
        module = sort_module([kind, "s32"], sizes, dimension, plain(kind, direction, True))
        assert recognise(module.entry.root.attributes["to_apply"])
        key, payload = whole_numbers(kind, sizes), np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes)
        got = run(module.entry.root, [key, payload], cpu)
        wide = key.astype(np.float64) * (1 if direction == "LT" else -1)
        order = np.argsort(wide, axis=dimension, kind="stable")
        np.testing.assert_array_equal(got[1], np.take_along_axis(payload, order, dimension))
        np.testing.assert_array_equal(got[0], np.take_along_axis(key, order, dimension))


@pytest.mark.parametrize("comparator", [FRAMEWORK_COMPARATOR, LATE_COMPARATOR], ids=["early", "late"])
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "f16"])
def test_sort_of_floats_as_frameworks_write_it(kind: str, comparator: str) -> None:
    """Zeros are equal and keep their order, NaNs come last: on one operand and on two."""
    values = noise(kind, [20000])
    values[::7] = -0.0
    values[3::7] = 0.0
    values[5::70] = np.nan
    values[6::70] = -np.inf
    order = np.argsort(values.astype(np.float64), kind="stable")
    single = sort_module([kind], [20000], 0, comparator.format(kind, ""))
    assert recognise(single.entry.root.attributes["to_apply"])
    (got,) = run(single.entry.root, [values])
    assert np.array_equal(got.view(f"u{got.itemsize}"), values[order].view(f"u{got.itemsize}"))
    pair = sort_module([kind, "s32"], [20000], 0, comparator.format(kind, UNUSED))
    np.testing.assert_array_equal(run(pair.entry.root, [values, np.arange(20000, dtype=np.int32)])[1], order)


@pytest.mark.parametrize("kinds", [("s32", "s32"), ("f64", "s64"), ("s8", "f16")])
def test_sort_by_two_keys(kinds: tuple[str, str]) -> None:
    comparator = f"""less {{
      a = {kinds[0]}[] parameter(0)
      b = {kinds[0]}[] parameter(1)
      l = pred[] compare(a, b), direction=LT
      e = pred[] compare(a, b), direction=EQ
      c = {kinds[1]}[] parameter(2)
      d = {kinds[1]}[] parameter(3)
      m = pred[] compare(c, d), direction=GT
      n = pred[] and(m, e)
      ROOT r = pred[] or(l, n)
    }}
    """
    module = sort_module(kinds, [1500], 0, comparator)
    assert len(recognise(module.entry.root.attributes["to_apply"])) == 2
    first, second = whole_numbers(kinds[0], [1500], 1), whole_numbers(kinds[1], [1500], 2, -90, 90)
    order = np.lexsort((-second.astype(np.float64), first.astype(np.float64)))
    got = run(module.entry.root, [first, second])
    np.testing.assert_array_equal(got[0], first[order])
    np.testing.assert_array_equal(got[1], second[order])


SUM_COMPARATOR = """less {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  x = s32[] add(a, c)
  y = s32[] add(b, d)
  ROOT r = pred[] compare(x, y), direction=LT
}
"""


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 130), st.integers(1, 4), st.booleans())
def test_sort_by_any_comparator(length: int, lines: int, minor: bool) -> None:
    sizes, dimension = ((lines, length), 1) if minor else ((length, lines), 0)
    module = sort_module(["s32", "s32"], sizes, dimension, SUM_COMPARATOR)
    assert not recognise(module.entry.root.attributes["to_apply"])
    a, b = whole_numbers("s32", sizes, 1), whole_numbers("s32", sizes, 2)
    order = np.argsort(a + b, axis=dimension, kind="stable")
    for got, operand in zip(run(module.entry.root, [a, b]), (a, b), strict=True):
        np.testing.assert_array_equal(got, np.take_along_axis(operand, order, dimension))


@pytest.mark.parametrize("answer", ["direction=EQ", "direction=NE", "direction=LE"])
def test_sort_with_a_comparator_that_is_no_ordering_gives_a_permutation(answer: str) -> None:
    comparator = f"""less {{ a = s32[] parameter(0)
      b = s32[] parameter(1)
      ROOT r = pred[] compare(a, a), {answer}
    }}
    """
    values = np.random.default_rng(0).permutation(1000).astype(np.int32)
    (got,) = run(sort_module(["s32"], [1000], 0, comparator).entry.root, [values])
    np.testing.assert_array_equal(np.sort(got), np.arange(1000))


def test_sort_of_complex_numbers_by_their_real_parts() -> None:
    comparator = """less { a = c64[] parameter(0)
      b = c64[] parameter(1)
      x = f32[] real(a)
      y = f32[] real(b)
      ROOT r = pred[] compare(x, y), direction=LT
    }
    """
    values = noise("c64", [200])
    (got,) = run(sort_module(["c64"], [200], 0, comparator).entry.root, [values])
    np.testing.assert_array_equal(got, values[np.argsort(values.real, kind="stable")])


# ---- topk


def topk_module(kind: str, sizes: Sequence[int], k: int, largest: bool) -> Module:
    out = dims([*sizes[:-1], k])
    return parsed(
        f"p = {kind}[{dims(sizes)}] parameter(0)\n"
        f"ROOT t = ({kind}[{out}], s32[{out}]) topk(p), k={k}, largest={'true' if largest else 'false'}"
    )


@pytest.mark.parametrize("cpu", WIDTHS)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["f32", "s32", "u8", "f64", "bf16"])
def test_topk(kind: str, largest: bool, cpu: str) -> None:
    for length, k in ((1, 1), (10, 10), (700, 5), (3000, 40)):
        check(topk_module(kind, [3, length], k, largest), [whole_numbers(kind, (3, length), k, -90, 90)], cpu)


def test_topk_orders_nan_and_zeros_as_xla_does() -> None:
    values = np.array([[np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0]], np.float32)
    got = run(topk_module("f32", [1, 7], 7, True).entry.root, [values])
    np.testing.assert_array_equal(got[1], [[0, 4, 6, 2, 3, 5, 1]])


def test_topk_that_takes_long_looks_whether_to_go_on() -> None:
    row = np.arange(1_100_000, dtype=np.float32)
    values, places = run(topk_module("f32", row.shape, 1_000_000, True).entry.root, [row])
    np.testing.assert_array_equal(values, row[:99_999:-1])
    np.testing.assert_array_equal(places, np.arange(1_099_999, 99_999, -1))


@pytest.mark.parametrize("k", [3, 100])
def test_topk_of_a_rising_row_where_every_element_passes(k: int) -> None:
    values = np.arange(5000, dtype=np.float32)[None]
    got = run(topk_module("f32", [1, 5000], k, True).entry.root, [values])
    np.testing.assert_array_equal(got[1][0], np.arange(4999, 4999 - k, -1))


# ---- scatter

ScatterCase = tuple[list[int], list[int], list[int], str]


def scatter_case(
    operand: list[int], indices: list[int], updates: list[int], dimensions: tuple[str, str, str, int], more: str = ""
) -> ScatterCase:
    window, inserted, scattered, vector = dimensions
    return operand, indices, updates, (
        f"update_window_dims={{{window}}}, inserted_window_dims={{{inserted}}}, "
        f"scatter_dims_to_operand_dims={{{scattered}}}, index_vector_dim={vector}{more}"
    )


SCATTERS = [
    scatter_case([20, 70], [9, 1], [9, 70], ("1", "0", "0", 1)),
    scatter_case([20, 70], [9], [20, 9], ("0", "1", "1", 1)),
    scatter_case([20, 7], [40, 2], [40], ("", "0,1", "1,0", 1)),
    scatter_case([20, 30], [2], [5, 6], ("0,1", "", "0,1", 0)),
    scatter_case([20, 30], [2, 7], [5, 7, 6], ("0,2", "", "1,0", 0)),
    scatter_case(
        [6, 30], [6, 3, 1], [6, 3], ("", "1", "1", 2), ", input_batching_dims={0}, scatter_indices_batching_dims={0}"
    ),
    scatter_case([5, 300], [9, 1], [9, 300], ("1", "0", "0", 1)),
    scatter_case([5, 4, 3], [7, 1], [7, 4, 3], ("1,2", "0", "0", 1)),
]


def scatter_module(kind: str, index: str, case: ScatterCase, opcode: str) -> Module:
    operand, indices, updates, attributes = case
    return parsed(
        f"p = {kind}[{dims(operand)}] parameter(0)\n i = {index}[{dims(indices)}] parameter(1)\n"
        f"u = {kind}[{dims(updates)}] parameter(2)\n"
        f"ROOT s = {kind}[{dims(operand)}] scatter(p, i, u), {attributes}, to_apply=combine",
        region("combine", opcode, kind),
    )


@pytest.mark.parametrize("cpu", WIDTHS)
@pytest.mark.parametrize(
    ("kind", "index", "opcode"), [("f32", "s32", "add"), ("s8", "s64", "subtract"), ("bf16", "u8", "maximum")]
)
def test_scatter(kind: str, index: str, opcode: str, cpu: str) -> None:
    """Indices repeat, and some windows do not fit."""
    for number, case in enumerate(SCATTERS):
        operand, update = whole_numbers(kind, case[0], number), whole_numbers(kind, case[2], number + 2)
        indices = whole_numbers(index, case[1], number, -2, max(case[0]) + 2)
        check(scatter_module(kind, index, case, opcode), [operand, indices, update], cpu)


def test_scatter_in_place_writes_over_its_operand() -> None:
    module = scatter_module("f32", "s32", SCATTERS[0], "add")
    arrays = [noise("f32", [20, 70]), whole_numbers("s32", [9, 1], 0, 0, 20), noise("f32", [9, 70], 1)]
    (apart,), (over,) = run(module.entry.root, arrays), run(module.entry.root, arrays, in_place=True)
    np.testing.assert_array_equal(apart, over)


def test_scatter_of_two_operands_and_of_complex_numbers() -> None:
    combine = """combine { a = f32[] parameter(0)
      b = s32[] parameter(1)
      c = f32[] parameter(2)
      d = s32[] parameter(3)
      g = pred[] compare(c, a), direction=GT
      x = f32[] select(g, c, a)
      y = s32[] select(g, d, b)
      ROOT t = (f32[], s32[]) tuple(x, y)
    }
    """
    text = """p = f32[10,40] parameter(0)
      q = s32[10,40] parameter(1)
      i = s32[30,1] parameter(2)
      u = f32[30,40] parameter(3)
      v = s32[30,40] parameter(4)
      ROOT s = (f32[10,40], s32[10,40]) scatter(p, q, i, u, v), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine
    """
    operands = [
        whole_numbers("f32", [10, 40]), whole_numbers("s32", [10, 40], 1), whole_numbers("s32", [30, 1], 2, 0, 10),
        whole_numbers("f32", [30, 40], 3), whole_numbers("s32", [30, 40], 4),
    ]  # fmt: skip
    check(parsed(text, combine), operands, "host")
    case = scatter_case([5, 20], [9, 1], [9, 20], ("1", "0", "0", 1))
    complex_operands = [noise("c64", [5, 20]), whole_numbers("s32", [9, 1]), noise("c64", [9, 20])]
    check(scatter_module("c64", "s32", case, "add"), complex_operands, "host", 1e-6)


# ---- windows

WINDOWS = [
    ([2, 9, 9, 24], "size=1x3x2x1 stride=1x2x2x1 pad=0_0x0_1x0_0x0_0"),
    ([2, 7, 40], "size=1x3x3 pad=0_0x1_1x1_1"),
    ([3, 41], "size=1x3 stride=1x2 pad=0_0x1_1"),
    ([3, 50], "size=1x3 stride=1x3 rhs_dilate=1x2"),
    ([5, 20], "size=1x20 pad=0_0x19_0"),
    ([20, 6], "size=20x1 pad=19_0x0_0"),
    ([9, 20], "size=1x20 pad=0_0x0_19"),
    ([9, 20, 33], "size=1x20x1 pad=0_0x0_19x0_0"),
    ([5, 20], "size=1x30 pad=0_0x25_8"),
    ([5, 20], "size=1x26 pad=0_0x40_8"),
    ([5, 20], "size=1x26 pad=0_0x2_12"),
    ([5, 6], "size=2x3 pad=1_1x2_2 lhs_dilate=2x3 rhs_dilate=1x2"),
    ([4, 8], "size=2x3 stride=1x2 pad=-1_1x-1_-2"),
    ([3, 5, 10], "size=1x2x1 stride=1x3x1 pad=0_0x2_2x0_0 lhs_dilate=1x2x1 rhs_dilate=1x3x1"),
    ([4, 3], "size=1x2 pad=0_0x3_3 rhs_dilate=1x2"),
]


def window_module(kind: str, sizes: Sequence[int], window: str, opcode: str) -> Module:
    return parsed(
        f"p = {kind}[{dims(sizes)}] parameter(0)\n z = {kind}[] parameter(1)\n"
        f"ROOT r = reduce-window(p, z), window={{{window}}}, to_apply=reducer",
        region("reducer", opcode, kind),
    )


@pytest.mark.parametrize("cpu", WIDTHS)
@pytest.mark.parametrize(
    ("kind", "opcode", "start"), [("f32", "maximum", -99), ("s32", "add", 2), ("bf16", "add", 0), ("f64", "minimum", 9)]
)
def test_reduce_window(kind: str, opcode: str, start: int, cpu: str) -> None:
    for number, (sizes, window) in enumerate(WINDOWS):
        initial = np.array(start).astype(dtype_of(kind))
        check(window_module(kind, sizes, window, opcode), [whole_numbers(kind, sizes, number), initial], cpu)


@pytest.mark.parametrize("columns", [24, 56, 23, 61, 8, 5])
def test_vectors_of_columns_that_are_left_over_go_side_by_side(columns: int) -> None:
    """An element of a window is found once for as many of them as there are."""
    parts = blocks(columns, 8, 4)
    assert [start for start, *_ in parts] == [0, *(stop for _, stop, *_ in parts[:-1])]
    assert parts[-1][1] == columns
    trips = [(stop - start) // (lanes * times) for start, stop, lanes, times in parts]
    assert sum(trips) == -(-(columns // 8) // 4) + (columns % 8).bit_count()
    sizes, window = (2, 6, columns), "size=1x3x1 pad=0_0x1_1x0_0"
    x = whole_numbers("f32", sizes, 1)
    for cpu in WIDTHS:
        check(window_module("f32", sizes, window, "maximum"), [x, np.float32(-99)], cpu)


def test_reduce_window_of_two_operands() -> None:
    reducer = """reducer { a = s32[] parameter(0)
      i = s64[] parameter(1)
      b = s32[] parameter(2)
      j = s64[] parameter(3)
      g = pred[] compare(a, b), direction=GE
      x = s32[] select(g, a, b)
      y = s64[] select(g, i, j)
      ROOT t = (s32[], s64[]) tuple(x, y)
    }
    """
    for sizes, window in (WINDOWS[0], WINDOWS[1], WINDOWS[5], WINDOWS[11]):
        text = f"""p = s32[{dims(sizes)}] parameter(0)
          q = s64[{dims(sizes)}] parameter(1)
          y = s32[] constant(-1)
          z = s64[] constant(-7)
          ROOT r = reduce-window(p, q, y, z), window={{{window}}}, to_apply=reducer
        """
        count = int(np.prod(sizes))
        values = np.random.default_rng(0).permutation(count).astype(np.int32).reshape(sizes)
        module = parsed(text, reducer)
        places = np.arange(count).reshape(sizes)
        got = run(module.entry.root, [values, places, np.array(-1, np.int32), np.array(-7, np.int64)])
        for one, wanted in zip(got, evaluate(module, [values, places]), strict=True):
            agree(one, np.asarray(wanted), 0.0)


POOLS = [
    ([2, 8, 8, 24], "size=1x2x2x1 stride=1x2x2x1"),
    ([2, 9, 9, 5], "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"),
    ([2, 3, 9, 8], "size=1x1x3x3 stride=1x1x2x1 pad=0_0x0_0x1_1x1_1"),
    ([11], "size=4 stride=2 pad=3_3"),
    ([4, 7, 3], "size=2x1x2 pad=0_0x0_0x0_1"),
]


@pytest.mark.parametrize("cpu", WIDTHS)
@pytest.mark.parametrize("kind", ["f32", "s32", "bf16"])
def test_select_and_scatter(kind: str, cpu: str) -> None:
    """Ties are many: the first element of a window that no other beats is selected."""
    regions = region("select", "compare", kind, ", direction=GE") + region("combine", "add", kind)
    for number, (sizes, window) in enumerate(POOLS):
        out = window_module(kind, sizes, window, "add").entry.root.shape.dimensions
        module = parsed(
            f"p = {kind}[{dims(sizes)}] parameter(0)\n s = {kind}[{dims(out)}] parameter(1)\n"
            f"z = {kind}[] parameter(2)\n ROOT r = {kind}[{dims(sizes)}] select-and-scatter(p, s, z), "
            f"window={{{window}}}, select=select, scatter=combine",
            regions,
        )
        initial = np.array(1).astype(dtype_of(kind))
        check(module, [whole_numbers(kind, sizes, number, -3, 4), whole_numbers(kind, out, 9), initial], cpu)


# ---- linear algebra

TOLERANCE = {"f32": 1e-5, "c64": 1e-5, "f64": 1e-12, "c128": 1e-12, "bf16": 4e-2, "f16": 5e-3}


@pytest.mark.parametrize("cpu", WIDTHS)
@pytest.mark.parametrize("kind", ["f32", "f64", "c64", "c128", "bf16", "f16"])
def test_cholesky_reads_one_triangle(kind: str, cpu: str) -> None:
    for sizes, lower in (([1, 1], True), ([3, 5, 5], False), ([17, 17], True), ([2, 33, 33], False)):
        factor = noise("c128" if kind[0] == "c" else "f64", sizes)
        n = sizes[-1]
        matrix = (factor @ np.swapaxes(factor, -1, -2).conj() + n * np.eye(n)).astype(dtype_of(kind))
        ones = np.ones((n, n))
        unread = (np.triu(ones, 1) if lower else np.tril(ones, -1)) > 0
        spoilt = np.where(unread, np.array(np.nan).astype(matrix.dtype), matrix).astype(matrix.dtype)
        shape = f"{kind}[{dims(sizes)}]"
        module = parsed(f"p = {shape} parameter(0)\n ROOT r = {shape} cholesky(p), lower={str(lower).lower()}")
        (got,) = run(module.entry.root, [spoilt], cpu)
        exact = np.linalg.cholesky(matrix.astype(factor.dtype))
        agree(got.astype(factor.dtype), exact if lower else np.swapaxes(exact, -1, -2).conj(), TOLERANCE[kind])


def test_cholesky_of_an_indefinite_matrix_is_nan_throughout_and_spares_the_rest_of_the_batch() -> None:
    module = parsed("p = f32[2,2,2] parameter(0)\n ROOT r = f32[2,2,2] cholesky(p), lower=true")
    (got,) = run(module.entry.root, [np.array([[[1, 2], [2, 1]], [[4, 2], [2, 5]]], np.float32)])
    assert np.isnan(got[0]).all()
    np.testing.assert_array_equal(got[1], [[2, 0], [1, 2]])


@pytest.mark.parametrize("cpu", WIDTHS)
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("kind", ["f32", "c64", "f64", "bf16"])
def test_triangular_solve(kind: str, transpose: str, cpu: str) -> None:
    for number, (batch, m, n) in enumerate([([3], 10, 4), ([], 13, 1), ([2], 9, 37)]):
        for left, lower, unit in ((True, True, False), (False, True, True), (True, False, True), (False, False, False)):
            sides = [*batch, *((m, n) if left else (n, m))]
            entries = noise("c128" if kind[0] == "c" else "f64", [*batch, m, m], number)
            matrix = (0.3 * entries + 2 * np.eye(m)).astype(dtype_of(kind))
            flags = f"left_side={left}, lower={lower}, unit_diagonal={unit}".lower()
            module = parsed(
                f"a = {kind}[{dims([*batch, m, m])}] parameter(0)\n b = {kind}[{dims(sides)}] parameter(1)\n"
                f"ROOT r = {kind}[{dims(sides)}] triangular-solve(a, b), {flags}, transpose_a={transpose}"
            )
            ones = np.ones((m, m))
            read = (np.tril(ones, -1 if unit else 0) if lower else np.triu(ones, 1 if unit else 0)) > 0
            spoilt = np.where(read, matrix, np.array(np.nan).astype(matrix.dtype)).astype(matrix.dtype)
            right = noise(kind, sides, 7)
            (got,) = run(module.entry.root, [spoilt, right], cpu)
            agree(got, np.asarray(evaluate(module, [matrix, right])[0]), TOLERANCE[kind])


# ---- fft


def fft_module(how: str, kind: str, sizes: Sequence[int], count: int) -> Module:
    real = {"c64": "f32", "c128": "f64"}[kind]
    bins = [*sizes[:-1], sizes[-1] // 2 + 1]
    source = f"{real}[{dims(sizes)}]" if how == "RFFT" else f"{kind}[{dims(bins if how == 'IRFFT' else sizes)}]"
    result = f"{real}[{dims(sizes)}]" if how == "IRFFT" else f"{kind}[{dims(bins if how == 'RFFT' else sizes)}]"
    return parsed(
        f"p = {source} parameter(0)\n ROOT r = {result} fft(p), fft_type={how}, fft_length={{{dims(sizes[-count:])}}}"
    )


FFT_SIZES = [
    ([1], 1), ([3, 2], 1), ([13], 1), ([20, 17], 1), ([60], 1), ([20, 64], 1), ([101], 1), ([3, 45], 1), ([1000], 1),
    ([2, 17, 8], 2), ([40, 32], 2), ([3, 4, 6, 10], 3),
]  # fmt: skip


@pytest.mark.parametrize("cpu", WIDTHS)
@pytest.mark.parametrize("how", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("kind", ["c64", "c128"])
def test_fft(kind: str, how: str, cpu: str) -> None:
    for sizes, count in FFT_SIZES if cpu == "host" else FFT_SIZES[3::3] if kind == "c64" else FFT_SIZES[4::5]:
        module = fft_module(how, kind, sizes, count)
        source = module.entry.parameters[0].shape
        check(module, [noise(source.element_type, source.dimensions)], cpu, 2e-6 if kind == "c64" else 1e-14)


@pytest.mark.parametrize("n", [2500, 4096, 4099])
def test_fft_of_long_lines_stays_accurate(n: int) -> None:
    """Two-level twiddle tables, and a prime length."""
    check(fft_module("FFT", "c128", [n], 1), [noise("c128", [n])], "host", 1e-14)


# ---- random bits


def random_module(algorithm: str, words: int, kind: str, sizes: Sequence[int]) -> Module:
    return parsed(
        f"p = u64[{words}] parameter(0)\n"
        f"ROOT r = (u64[{words}], {kind}[{dims(sizes)}]) rng-bit-generator(p), algorithm={algorithm}"
    )


def test_philox_bits_are_those_of_xla() -> None:
    state, bits = run(random_module("rng_philox", 2, "u32", [5]).entry.root, [np.array([1, 2], np.uint64)])
    np.testing.assert_array_equal(state, [1, 4])
    np.testing.assert_array_equal(bits, [2100602697, 2847456232, 2074354647, 800269529, 1828267006])
    state, bits = run(random_module("rng_default", 3, "u64", [3]).entry.root, [np.array([1, 2**64 - 1, 5], np.uint64)])
    np.testing.assert_array_equal(state, np.array([1, 1, 6], np.uint64))
    wanted = [7817518265658059944, 1986313938756746217, 14337406390971315179]
    np.testing.assert_array_equal(bits, np.array(wanted, np.uint64))


@pytest.mark.parametrize("cpu", WIDTHS)
@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox"])
def test_random_bits(algorithm: str, cpu: str) -> None:
    shapes: list[tuple[str, list[int]]] = [
        ("u32", []), ("u32", [0]), ("u32", [5]), ("u32", [3, 37]), ("u32", [5, 3, 7]), ("u32", [4, 33]),
        ("u64", [3, 40]), ("u16", [9001]), ("u8", [6, 50]),
    ]  # fmt: skip
    for kind, sizes in shapes:
        check(random_module(algorithm, 2, kind, sizes), [np.array([0x1234567890ABCDEF, 2**64 - 7], np.uint64)], cpu)


def random_numbers(text: str, operands: Sequence[Array], cpu: str) -> Array:
    """What the first two runs after loading give; they must differ."""
    instruction = parsed(text).entry.root
    machine = named(cpu)
    emit = emit_rng if instruction.opcode == "rng" else emit_rng_get_and_update_state
    kernel = emit("kernel", instruction, machine)
    library = load(compile_units([kernel.text], machine), callback.symbols())
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    results = []
    for _ in range(2):
        buffers = [*map(memory, operands), rubbish(instruction.shape.byte_size), rubbish(kernel.scratch + 8)]
        arguments = table(b.ctypes.data for b in buffers)
        for step in kernel.steps:
            for task in reversed(range(step.tasks)):
                kind(library.address(step.function))(arguments, task, task + 1)
        results.append(buffers[-2].view(dtype_of(instruction.shape.element_type)).reshape(instruction.shape.dimensions))
    assert not np.array_equal(results[0], results[1])
    return np.stack(results)


@pytest.mark.parametrize("cpu", WIDTHS)
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s32", "u8"])
def test_rng_uniform_fills_its_interval(kind: str, cpu: str) -> None:
    text = f"""a = {kind}[] parameter(0)
      b = {kind}[] parameter(1)
      ROOT r = {kind}[9001] rng(a, b), distribution=rng_uniform
    """
    low, high = np.array(2).astype(dtype_of(kind)), np.array(6).astype(dtype_of(kind))
    drawn = random_numbers(text, [low, high], cpu).astype(np.float64)
    assert drawn.min() >= 2
    assert drawn.max() < 6
    bins = np.bincount(drawn.astype(np.int64).reshape(-1) - 2, minlength=4)
    assert bins.min() > 0.95 * drawn.size / 4
    np.testing.assert_array_equal(drawn, random_numbers(text, [low, high], cpu).astype(np.float64))


@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
def test_rng_normal_has_the_moments_of_the_distribution(kind: str) -> None:
    text = f"""a = {kind}[] parameter(0)
      b = {kind}[] parameter(1)
      ROOT r = {kind}[40000] rng(a, b), distribution=rng_normal
    """
    mean, deviation = np.array(1).astype(dtype_of(kind)), np.array(2).astype(dtype_of(kind))
    standard = (random_numbers(text, [mean, deviation], "host").astype(np.float64) - 1) / 2
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3)):
        assert abs((standard**power).mean() - moment) < 0.15


def test_rng_state_moves_on_by_delta() -> None:
    first, second = random_numbers("ROOT r = u64[2] rng-get-and-update-state(), delta=7", [], "host")
    assert first.tolist() == [0x7012395, 0]  # XLA's, low word first
    assert second.tolist() == [0x7012395 + 7, 0]


# ---- everything


def test_results_without_elements() -> None:
    check(sort_module(["s32"], [0, 3], 1, plain("s32", "LT", False)), [np.zeros((0, 3), np.int32)], "host")
    check(topk_module("f32", [0, 3], 2, True), [np.zeros((0, 3), np.float32)], "host")
    check(fft_module("FFT", "c64", [0, 4], 1), [np.zeros((0, 4), np.complex64)], "host")
    empty = [np.zeros((0, 4), np.float32), np.array(0, np.float32)]
    check(window_module("f32", [0, 4], "size=1x2", "add"), empty, "host")


def test_what_has_no_kernel_is_refused_by_name() -> None:
    module = parsed("p = s32[4] parameter(0)\n ROOT r = s32[4] cholesky(p), lower=true")
    with pytest.raises(UnsupportedError, match="r: cholesky"):
        emit_cholesky("k", module.entry.root, named("host"))


def test_the_same_instruction_gives_the_same_text() -> None:
    module = fft_module("FFT", "c64", [60], 1)
    texts = {emit_fft("k", module.entry.root, named("x86-64-v3")).definitions for _ in range(2)}
    assert len(texts) == 1


MODELS = [
    "argsort_pairs", "cholesky_native", "embedding_grad_scatter", "gather_scatter_modes", "maxpool_grad", "pooling",
    "rfft_conv", "rng_bit_generator", "sort_100k", "top_k", "triangular_solve_native",
]  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_kernels_inside_real_models(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every instruction with such a kernel, on the operands that it has in the model."""
    compared = []

    def compared_with_kernel(rule: Rule) -> Rule:
        def both(instruction: Instruction, operands: Any, context: Any) -> Any:
            value = rule(instruction, operands, context)
            got = run(instruction, [np.asarray(o) for o in operands])
            for one, wanted in zip(got, value if isinstance(value, tuple) else (value,), strict=True):
                agree(one, np.asarray(wanted), 1e-5)
            compared.append(instruction.name)
            return value

        return both

    for opcode in EMITTERS:
        monkeypatch.setitem(RULES, opcode, compared_with_kernel(RULES[opcode]))
    module = parse(model(name).read_text())
    evaluate(module, random_inputs(module, 1))
    assert compared
