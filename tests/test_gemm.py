"""Matrix-product kernels against NumPy, on every vector width that this processor can run."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from arguments import table
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.analysis.contraction import MatrixView, Strides
from hlotool.codegen.cpu.products.dot import emit_dot
from hlotool.codegen.cpu.products.pack import Axis, Copy, emit_copy
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.llvm.arguments import Place
from hlotool.codegen.llvm.elements import arithmetic, element, multiplies_pairs, multiplies_tiles
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import Machine, host, named
from hlotool.ir import UnsupportedError, byte_size
from hlotool.runtime import callback
from hlotool.runtime.compile import compile_units
from hlotool.runtime.load import load

Array = np.ndarray[Any, Any]

DTYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "pred": np.bool_,
    "s4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16,
    "s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64, "c64": np.complex64, "c128": np.complex128,
}
STEP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
MACHINES = [host()]
if "x86_64" in host().triple:
    MACHINES += [m for m in (named("x86-64-v3"), named("x86-64-v2")) if m.vector_bits <= host().vector_bits]
# Pairs of bf16 are multiplied one by one where that is fast; the instruction itself runs on more processors.
PAIRS = replace(host(), features=host().features.replace("+amx", "-amx"))
with_pairs = [
    pytest.param(PAIRS, id="pairs", marks=pytest.mark.skipif(
        not multiplies_pairs("bf16", "bf16", "f32", PAIRS), reason="this processor has no AVX512-BF16"
    )),
    pytest.param(host(), id="tiles", marks=pytest.mark.skipif(
        not multiplies_tiles("bf16", "bf16", "f32", host()), reason="no AMX here, or not for this process"
    )),
]
bf16_machines = pytest.mark.parametrize("machine", with_pairs)
# Bytes are multiplied four at a time in tiles, and in vectors of each width.
_VECTORS = [replace(named("host"), vector_bits=bits) for bits in (512, 256, 128) if bits <= host().vector_bits]
BYTE_MACHINES = [machine for machine in [host(), *_VECTORS] if machine.has_byte_tiles or machine.has_dot_bytes]
with_bytes = pytest.mark.skipif(not BYTE_MACHINES, reason="this processor has neither VNNI nor AMX-INT8")
every_machine = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: f"{machine.vector_bits}")


def run_kernel(kernel: Kernel, machine: Machine, arrays: Sequence[Array], pieces: int = 1) -> None:
    """Run all steps, each in `pieces` ranges of its tasks from the last to the first; scratch starts as garbage."""
    texts = [kernel.text]
    texts += ["\n".join([*helper.declarations, helper.definitions]) + "\n" for helper in kernel.helpers]
    library = load(compile_units(texts, machine), callback.symbols())
    scratch = np.full(kernel.scratch + 64, 0xA5, np.uint8)
    arguments = table([*(a.ctypes.data for a in arrays), scratch.ctypes.data + -scratch.ctypes.data % 64])
    for step in kernel.steps:
        function = STEP(library.address(step.function))
        cuts = sorted({step.tasks * i // pieces for i in range(pieces + 1)})
        for begin, end in reversed(list(itertools.pairwise(cuts))):
            function(arguments, begin, end)


def guarded(shape: Sequence[int], dtype: Any) -> tuple[Array, Array]:
    """An array and the larger one around it, filled with a pattern that a kernel must leave alone."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    around = np.full(size + 256, 0x5A, np.uint8)
    return around[128 : 128 + size].view(dtype).reshape(shape), around


def view(
    batch: Sequence[int], m: int, n: int, k: int, lhs: Sequence[int], rhs: Sequence[int], out: Sequence[int],
    types: tuple[str, str, str, str] = ("f32",) * 4,
) -> MatrixView:
    """A product of arrays with these strides in elements: of the batch, then those of the two matrix dimensions."""
    left, right, to = (
        [stride * byte_size(kind) for stride in strides]
        for kind, strides in zip(types, (lhs, rhs, out), strict=False)
    )
    return MatrixView(
        batch=tuple(batch), m=m, n=n, k=k, types=types,
        lhs=Strides(batch=tuple(left[:-2]), row=left[-2], terms=(left[-1],)),
        rhs=Strides(batch=tuple(right[:-2]), column=right[-1], terms=(right[-2],)),
        out=Strides(batch=tuple(to[:-2]), row=to[-2], column=to[-1]),
    )


def dense(m: int, n: int, k: int, types: tuple[str, str, str, str] = ("f32",) * 4) -> MatrixView:
    return view((), m, n, k, (k, 1), (n, 1), (n, 1), types)


def multiply(
    lhs: Array, rhs: Array, machine: Machine, types: tuple[str, str, str, str], orders: Sequence[Any],
    pieces: int = 1,
) -> Array:
    """``lhs @ rhs`` over the last two dimensions; `orders` permute the dimensions of the arrays in memory."""
    *batch, m, k = lhs.shape
    n = rhs.shape[-1]
    stored, strides = [], []
    out, around = guarded([[*batch, m, n][at] for at in orders[2]], DTYPES[types[2]])
    for array, order in ((lhs, orders[0]), (rhs, orders[1])):
        stored.append(np.ascontiguousarray(array.transpose(order)))
    stored.append(out)
    for array, order in zip(stored, orders, strict=True):
        back = np.argsort(order)
        dense = [math.prod(array.shape[at + 1 :]) for at in range(array.ndim)]
        strides.append([dense[at] for at in back])
    left, right, to = strides
    spec = view(batch, m, n, k, left, right, to, types)
    kernel = emit_dot("dot", spec, machine)
    run_kernel(kernel, machine, stored, pieces)
    assert (around[:128] == 0x5A).all()
    assert (around[-128:] == 0x5A).all()
    return np.asarray(out.transpose(np.argsort(orders[2])))


def close(got: Array, lhs: Array, rhs: Array) -> None:
    """Within the error of any order of summation in the type of `got`."""
    wide = np.complex128 if np.iscomplexobj(got) else np.float64
    expected = lhs.astype(wide) @ rhs.astype(wide)
    bound = np.abs(lhs).astype(np.float64) @ np.abs(rhs).astype(np.float64)
    epsilon = float(np.finfo(got.dtype).eps)
    assert (np.abs(got - expected) <= epsilon * (4 + lhs.shape[-1] ** 0.5) * bound + 1e-300).all()


def normal(shape: Sequence[int], dtype: Any, seed: int = 0) -> Array:
    generator = np.random.default_rng(seed)
    values = generator.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype)


SIZES = [
    (1, 1, 1), (2, 3, 5), (13, 17, 31), (33, 100, 7), (1, 100, 128), (100, 1, 33), (1, 1, 1000), (128, 128, 128),
    (3, 200, 130), (40, 230, 70), (30, 3, 100), (20, 40, 300),
]


@every_machine
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_all_stride_orders(machine: Machine, size: tuple[int, int, int]) -> None:
    m, n, k = size
    lhs, rhs = normal((m, k), np.float32), normal((k, n), np.float32, 1)
    for orders in itertools.product([(0, 1), (1, 0)], repeat=3):
        close(multiply(lhs, rhs, machine, ("f32",) * 4, orders, 3), lhs, rhs)


@every_machine
@pytest.mark.parametrize("kind", ["f64", "c64", "c128"])
def test_other_floats(machine: Machine, kind: str) -> None:
    for m, n, k in [(5, 7, 3), (1, 33, 40), (17, 1, 65), (37, 45, 29), (70, 210, 90)]:
        lhs, rhs = normal((m, k), DTYPES[kind]), normal((k, n), DTYPES[kind], 1)
        for orders in [((0, 1),) * 3, ((1, 0), (0, 1), (0, 1)), ((0, 1), (1, 0), (0, 1)), ((1, 0),) * 3]:
            close(multiply(lhs, rhs, machine, (kind,) * 4, orders, 2), lhs, rhs)


@every_machine
def test_large_with_all_packing(machine: Machine) -> None:
    lhs, rhs = normal((300, 1100), np.float32), normal((1100, 520), np.float32, 1)
    for orders in [((0, 1),) * 3, ((1, 0), (1, 0), (0, 1))]:
        close(multiply(lhs, rhs, machine, ("f32",) * 4, orders), lhs, rhs)
    lhs, rhs = normal((100, 1024), np.float32), normal((1024, 210), np.float32, 1)
    close(multiply(lhs, rhs, machine, ("f32",) * 4, ((0, 1),) * 3, 4), lhs, rhs)


@every_machine
@pytest.mark.parametrize("types", [("f32", "f32", "f32", "f32"), ("f32", "f32", "bf16", "f32")], ids="-".join)
def test_tasks_that_pack_their_own_panels(machine: Machine, types: tuple[str, str, str, str]) -> None:
    """All at once where the result is rounded, else in pieces of the sum; calls of a step reuse the place."""
    lhs, rhs = normal((70, 1100), np.float32), normal((1100, 1024), np.float32, 1)
    check = close if types[2] == "f32" else close_in_bf16
    for left, right in itertools.product(((0, 1), (1, 0)), repeat=2):
        whole = multiply(lhs, rhs, machine, types, (left, right, (0, 1)))
        check(whole, lhs, rhs)
        for pieces in (3, 1000):
            again = multiply(lhs, rhs, machine, types, (left, right, (0, 1)), pieces)
            np.testing.assert_array_equal(whole.view(np.uint8), again.view(np.uint8))


@every_machine
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=str)
def test_rest_of_the_rows_is_made_with_rows_before_it(machine: Machine, order: tuple[int, int]) -> None:
    lhs, rhs = normal((317, 90), np.float32), normal((90, 150), np.float32, 1)
    spec = view((), 317, 150, 90, ((90, 1), (1, 317))[order[0]], (150, 1), (150, 1))
    tiles = {line.split("tile")[1].split("x")[0] for line in emit_dot("dot", spec, machine).text.splitlines()
             if line.startswith("define") and "tile" in line}
    assert len(tiles) == 1
    for pieces in (1, 7):
        close(multiply(lhs, rhs, machine, ("f32",) * 4, [order, (0, 1), (0, 1)], pieces), lhs, rhs)


@every_machine
@pytest.mark.parametrize(
    "types", [("f32",) * 4, ("f32", "f32", "bf16", "f32"), ("s8", "s8", "s32", "s32")], ids="-".join
)
@pytest.mark.parametrize("size", [(300, 40, 127), (20, 33, 500), (7, 700, 39), (70, 1100, 1015), (130, 9, 31)], ids=str)
def test_rest_of_the_columns_is_made_with_columns_before_it(
    machine: Machine, types: tuple[str, str, str, str], size: tuple[int, int, int]
) -> None:
    """In any task, from panels that end with the last column, and with nothing added twice to sums in pieces."""
    m, k, n = size
    generator = np.random.default_rng(0)
    lhs, rhs = (generator.integers(-3, 4, shape).astype(DTYPES[types[0]]) for shape in ((m, k), (k, n)))
    expected = (lhs.astype(np.int64) @ rhs.astype(np.int64)).astype(DTYPES[types[2]])
    for order in itertools.product(((0, 1), (1, 0)), repeat=2):
        for pieces in (1, 1000):
            got = multiply(lhs, rhs, machine, types, (*order, (0, 1)), pieces)
            np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


def test_columns_left_over_need_no_code_of_their_own() -> None:
    for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        for stride in ((700, 1), (1, 500)):  # packed by tasks ahead, in rows and in columns
            spec = view((), 300, 700, 500, (1, 300), stride, (700, 1))
            text = emit_dot("dot", spec, named(level)).text
            assert text.count("define internal void @tile") == 1, (level, stride)


@every_machine
@pytest.mark.parametrize("size", [(3, 70), (61, 5), (61, 70), (64, 64), (131, 300), (141, 300)], ids=str)
def test_turned_panels(machine: Machine, size: tuple[int, int]) -> None:
    """Blocks begin earlier at the end, but where the last task has less than a block: three of 131 rows."""
    rows, columns = size
    source, width = normal((columns, rows), np.float32), 48
    panels = -(-columns // width)
    target = np.zeros((panels, rows, width), np.float32)
    unit, held = Unit(machine), element("f32")
    copy = Copy(
        outer=(), rows=Axis(rows, 4, 4 * width), columns=Axis(columns, 4 * rows, 4), width=width,
        panel=4 * width * rows, source=Place(0, 0, held), target=Place(1, 0, held),
        arithmetic=arithmetic("f32", machine),
    )
    step = emit_copy(unit, "copy", copy)
    assert unit.text().count("_copy(ptr noalias %source") == (2 if rows == 131 else 1)
    kernel = finish_kernel(unit, [step])
    run_kernel(kernel, machine, [source, target], step.tasks)
    written = target.transpose(0, 2, 1).reshape(panels * width, rows)
    np.testing.assert_array_equal(written[:columns], source)


@every_machine
def test_small_second_level_cache(machine: Machine) -> None:
    lhs, rhs = normal((300, 1024), np.float32), normal((1024, 520), np.float32, 1)
    for orders in [((0, 1),) * 3, ((1, 0), (1, 0), (0, 1))]:
        close(multiply(lhs, rhs, replace(machine, l2=128 << 10), ("f32",) * 4, orders, 3), lhs, rhs)


@every_machine
@pytest.mark.parametrize("m", [25, 121, 128, 130, 256])
def test_rows_left_over_of_sums_in_pieces(machine: Machine, m: int) -> None:
    """A whole tile makes them, together with rows that are there already: to those nothing is added twice."""
    small = replace(machine, l2=128 << 10)
    lhs, rhs = normal((m, 1000), np.float32), normal((1000, 130), np.float32, 1)
    for orders in [((0, 1),) * 3, ((1, 0), (0, 1), (0, 1)), ((1, 0), (1, 0), (1, 0))]:
        whole = multiply(lhs, rhs, small, ("f32",) * 4, orders)
        close(whole, lhs, rhs)
        np.testing.assert_array_equal(whole, multiply(lhs, rhs, small, ("f32",) * 4, orders, 7))


def test_few_rows_left_over_need_no_code_of_their_own() -> None:
    spec = dense(1024, 1152, 1024)
    for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        for depth in (64, 1024):
            text = emit_dot("dot", replace(spec, k=depth), named(f"{level},l2=512K")).text
            assert text.count("define internal void @tile") == 1, (level, depth)


EXACT = [
    ("bf16", "bf16", "bf16", "f32"), ("bf16", "bf16", "f32", "f32"), ("f16", "f16", "f16", "f32"),
    ("f32", "bf16", "f16", "f32"), ("s8", "s8", "s32", "s32"), ("s8", "u8", "s32", "s32"), ("s8", "s8", "s8", "s8"),
    ("u8", "u8", "u8", "u8"), ("s16", "s16", "s16", "s16"), ("u16", "u16", "u32", "u32"), ("s32", "s32", "s32", "s32"),
    ("u32", "u32", "u64", "u64"), ("s64", "s64", "s64", "s64"), ("s4", "s4", "s4", "s4"), ("u4", "u4", "u4", "u4"),
    ("s4", "u4", "s32", "s32"), ("pred", "pred", "pred", "pred"),
]


@every_machine
@pytest.mark.parametrize("types", EXACT, ids="-".join)
def test_exact_types(machine: Machine, types: tuple[str, str, str, str]) -> None:
    """Sums of small integers are exact in the accumulator: the one rounding at the end can be compared by bits."""
    generator = np.random.default_rng(3)
    for (m, n, k), orders in itertools.product(
        [(5, 7, 3), (1, 70, 45), (40, 1, 37), (81, 210, 90)],
        [((0, 1),) * 3, ((1, 0), (1, 0), (0, 1)), ((0, 1), (1, 0), (1, 0))],
    ):
        def draw(kind: str, shape: tuple[int, int]) -> Array:
            low = 0 if kind[0] in "up" else -7
            high = 2 if kind == "pred" else 8
            values = generator.integers(low, high, shape)
            if kind in ("s32", "s64", "u32", "u64"):
                values = values * 0x6543210F
            return values.astype(DTYPES[kind])

        lhs, rhs = draw(types[0], (m, k)), draw(types[1], (k, n))
        got = multiply(lhs, rhs, machine, types, orders, 2)
        expected: Array
        with np.errstate(over="ignore"):
            if types[2] == "pred":
                expected = (lhs.astype(np.int64) @ rhs.astype(np.int64)) > 0
            elif types[0][0] in "su":
                expected = lhs.astype(np.int64) @ rhs.astype(np.int64)
                if types[2] in ("s4", "u4"):
                    expected = (expected + 8) % 16 - 8 if types[2] == "s4" else expected % 16
            else:
                expected = (lhs.astype(np.float64) @ rhs.astype(np.float64)).astype(np.float32)
            expected = expected.astype(DTYPES[types[2]])
        np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


NARROW = ["s4", "u4", "s8", "u8", "s16"]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(MACHINES), st.integers(1, 70), st.integers(1, 150), st.integers(1, 90), st.integers(1, 3),
    st.permutations(range(3)), st.permutations(range(3)), st.permutations(range(3)),
    st.sampled_from(NARROW), st.sampled_from(NARROW), st.sampled_from(["s8", "u16", "s32"]),
)
def test_narrow_integers_of_any_shape_and_order(
    machine: Machine, m: int, n: int, k: int, batch: int, left: list[int], right: list[int], to: list[int],
    lhs_type: str, rhs_type: str, kind: str,
) -> None:
    """All values, and often the least ones: two products of those do not fit 32 bits, and wrap."""
    generator = np.random.default_rng(m)
    sides = []
    for name, shape in ((lhs_type, (batch, m, k)), (rhs_type, (batch, k, n))):
        bits = int(name[1:])
        low = 0 if name[0] == "u" else -(1 << (bits - 1))
        values = generator.integers(low, low + (1 << bits), shape)
        sides.append(np.where(generator.random(shape) < 0.3, low, values))
    arrays = [side.astype(DTYPES[name]) for side, name in zip(sides, (lhs_type, rhs_type), strict=True)]
    got = multiply(*arrays, machine, (lhs_type, rhs_type, kind, "s32"), (left, right, to), 3)
    np.testing.assert_array_equal(got, (sides[0] @ sides[1]).astype(DTYPES[kind]))


def test_narrow_integers_are_multiplied_in_pairs() -> None:
    spec = dense(64, 64, 64, ("s8", "u8", "s32", "s32"))
    for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        assert "pmadd" in emit_dot("dot", spec, named(level)).text
        assert "pmadd" not in emit_dot("dot", dense(64, 64, 64, ("u16", "u8", "s32", "s32")), named(level)).text
    assert "pmadd" not in emit_dot("dot", spec, named("aarch64")).text


BYTES = ["s8", "u8", "s4", "u4"]


def extreme(generator: np.random.Generator, kind: str, shape: Sequence[int]) -> Array:
    """Any numbers of a type, and every third one of the two that are furthest from zero."""
    bits = int(kind[1:])
    low = 0 if kind[0] == "u" else -(1 << (bits - 1))
    high = low + (1 << bits) - 1
    values = generator.integers(low, high + 1, shape)
    return np.where(generator.random(shape) < 0.3, generator.choice([low, high], shape), values)


def check_bytes(
    machine: Machine, lhs: tuple[str, Array], rhs: tuple[str, Array], kind: str, orders: Sequence[Any]
) -> None:
    """All bits of a product of narrow integers."""
    arrays = [side.astype(DTYPES[name]) for name, side in (lhs, rhs)]
    got = multiply(*arrays, machine, (lhs[0], rhs[0], kind, "s32"), orders, 3)
    np.testing.assert_array_equal(got, (lhs[1] @ rhs[1]).astype(DTYPES[kind]))


@with_bytes
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 3), st.integers(1, 70), st.integers(1, 150), st.integers(1, 150), st.integers(1, 3),
    st.permutations(range(3)), st.permutations(range(3)), st.permutations(range(3)),
    st.sampled_from(BYTES), st.sampled_from(BYTES), st.sampled_from(["s8", "u16", "s32"]),
)
def test_bytes_of_any_shape_and_order(
    which: int, m: int, n: int, k: int, batch: int, left: list[int], right: list[int], to: list[int],
    lhs_type: str, rhs_type: str, kind: str,
) -> None:
    generator, machine = np.random.default_rng(m), BYTE_MACHINES[which % len(BYTE_MACHINES)]
    lhs, rhs = extreme(generator, lhs_type, (batch, m, k)), extreme(generator, rhs_type, (batch, k, n))
    check_bytes(machine, (lhs_type, lhs), (rhs_type, rhs), kind, (left, right, to))


@with_bytes
@pytest.mark.parametrize("types", [*itertools.product(["s8", "u8"], repeat=2)], ids="-".join)
def test_bytes_around_the_edges_of_tiles(types: tuple[str, str]) -> None:
    """Rows, columns and terms about one and two tile registers, in the two ways that operands mostly lie."""
    generator = np.random.default_rng(7)
    sizes = [(15, 17, 63), (16, 16, 64), (17, 15, 65), (31, 33, 127), (32, 32, 128), (33, 31, 129), (8, 64, 4)]
    for machine, (m, n, k), right in itertools.product(BYTE_MACHINES, sizes, ((0, 1), (1, 0))):
        lhs, rhs = extreme(generator, types[0], (m, k)), extreme(generator, types[1], (k, n))
        check_bytes(machine, (types[0], lhs), (types[1], rhs), "s32", ((0, 1), right, (0, 1)))


@with_bytes
@pytest.mark.parametrize("types", [*itertools.product(["s8", "u8"], repeat=2)], ids="-".join)
def test_long_sums_of_bytes_wrap(types: tuple[str, str]) -> None:
    """The numbers furthest from zero, so many of them that their products do not fit 32 bits."""
    worst = {"s8": -128, "u8": 255}
    for machine, k in itertools.product(BYTE_MACHINES, (70_001, 140_000)):
        lhs, rhs = np.full((9, k), worst[types[0]]), np.full((k, 33), worst[types[1]])
        assert abs(int(lhs[0] @ rhs[:, 0])) > 1 << 30
        check_bytes(machine, (types[0], lhs), (types[1], rhs), "s32", ((0, 1), (0, 1), (0, 1)))


def test_bytes_are_multiplied_by_what_the_processor_has() -> None:
    triple = "x86_64-unknown-linux-gnu"
    zen = Machine(triple, "znver4", "+avx512f,+avx512vl,+avx512vnni", 512)
    tiles = Machine(triple, "sapphirerapids", "+avx512vnni,+amx-tile,+amx-int8", 512)
    lake = Machine(triple, "alderlake", "+avx2,+avxvnni", 256)
    for left, right in itertools.product("su", repeat=2):
        spec = dense(64, 64, 70, (f"{left}8", f"{right}8", "s32", "s32"))
        assert f"tdpb{left}{right}d" in emit_dot("dot", spec, tiles).text
        assert "vpdpbusd.512" in emit_dot("dot", spec, zen).text
        assert "vpdpbusd.256" in emit_dot("dot", spec, lake).text
        thin = view((), 4, 64, 70, (70, 1), (1, 70), (64, 1), spec.types)
        assert "vpdpbusd.512" in emit_dot("dot", thin, tiles).text
        older = emit_dot("dot", spec, replace(lake, features="+avx2")).text
        assert "pmadd.wd" in older
        assert "vpdpbusd" not in older
    wide = dense(64, 64, 70, ("s16", "s8", "s32", "s32"))
    for machine in (tiles, zen, lake):
        assert "pmadd" in emit_dot("dot", wide, machine).text
    # Objects for other programs to link do not rely on what this process was granted.
    assert "+amx-int8" not in named("host").features


@every_machine
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_every_16_bit_float_survives(machine: Machine, kind: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[kind]).reshape(-1, 1)
    every = every[every.view(np.uint16) != 0x8000].reshape(-1, 1)  # 0 + -0 is 0
    one = np.ones((1, 1), DTYPES[kind])
    got = multiply(every, one, machine, (kind, kind, kind, "f32"), ((0, 1),) * 3)
    numbers = ~np.isnan(every.astype(np.float32))
    np.testing.assert_array_equal(got.view(np.uint16)[numbers], every.view(np.uint16)[numbers])
    assert np.isnan(got.astype(np.float32)[~numbers]).all()


@every_machine
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_rounding_to_16_bits(machine: Machine, kind: str) -> None:
    bits = np.random.default_rng(5).integers(0, 1 << 32, 20000, dtype=np.uint32)
    bits[:4000] = bits[:4000] & 0xFFFFF000 | 0x1000  # halfway cases of f16
    bits[4000:8000] = bits[4000:8000] & 0xFFFF0000 | 0x8000  # and of bf16
    bits[8000:16000] = bits[8000:16000] & 0x87FFFFFF | 0x30000000  # about the range of f16 and its denormals
    values = bits.view(np.float32)
    values = values[~np.isnan(values)].reshape(-1, 1)
    got = multiply(values, np.ones((1, 1), np.float32), machine, ("f32", "f32", kind, "f32"), ((0, 1),) * 3)
    with np.errstate(over="ignore"):
        expected = values.astype(DTYPES[kind])
    np.testing.assert_array_equal(got.view(np.uint16), expected.view(np.uint16))


@every_machine
def test_batches(machine: Machine) -> None:
    lhs, rhs = normal((2, 3, 20, 9), np.float32), normal((2, 3, 9, 40), np.float32, 1)
    orders = [(0, 1, 2, 3), (2, 0, 3, 1), (3, 1, 2, 0), (0, 2, 1, 3)]
    for left, right, to in [(0, 0, 0), (1, 2, 3), (2, 1, 0), (3, 3, 1), (0, 3, 2)]:
        got = multiply(lhs, rhs, machine, ("f32",) * 4, (orders[left], orders[right], orders[to]), 4)
        close(got, lhs, rhs)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(MACHINES), st.integers(1, 70), st.integers(1, 150), st.integers(1, 90), st.integers(1, 3),
    st.permutations(range(3)), st.permutations(range(3)), st.permutations(range(3)),
    st.sampled_from(["f32", "f64", "c64"]),
)
def test_any_shape_and_order(
    machine: Machine, m: int, n: int, k: int, batch: int, left: list[int], right: list[int], to: list[int], kind: str
) -> None:
    lhs, rhs = normal((batch, m, k), DTYPES[kind]), normal((batch, k, n), DTYPES[kind], 1)
    close(multiply(lhs, rhs, machine, (kind,) * 4, (left, right, to), 3), lhs, rhs)


def test_results_do_not_depend_on_the_split() -> None:
    lhs, rhs = normal((150, 700), np.float32), normal((700, 333), np.float32, 1)
    whole = multiply(lhs, rhs, host(), ("f32",) * 4, ((0, 1),) * 3)
    for pieces in (2, 7, 1000):
        np.testing.assert_array_equal(whole, multiply(lhs, rhs, host(), ("f32",) * 4, ((0, 1),) * 3, pieces))


def close_in_bf16(got: Array, lhs: Array, rhs: Array) -> None:
    """Within the error of an f32 sum and of one rounding to the type of `got`."""
    left, right = lhs.astype(np.float64), rhs.astype(np.float64)
    expected, bound = left @ right, np.abs(left) @ np.abs(right)
    single = float(np.finfo(np.float32).eps) * (4 + lhs.shape[-1] ** 0.5)
    epsilon = 0.0 if got.dtype == np.float32 else 2.0**-8
    assert (np.abs(got.astype(np.float64) - expected) <= epsilon * np.abs(expected) + 2 * single * bound).all()


PAIR_SIZES = [
    (8, 1, 8), (9, 17, 31), (33, 100, 64), (3, 70, 33), (70, 3, 33), (1, 200, 90), (8, 260, 129), (20, 20, 129),
    (8, 1, 32), (9, 17, 96), (35, 100, 64), (40, 33, 32),
]


@bf16_machines
@pytest.mark.parametrize("size", PAIR_SIZES, ids=str)
def test_pairs_in_all_stride_orders(machine: Machine, size: tuple[int, int, int]) -> None:
    m, n, k = size
    lhs, rhs = normal((m, k), ml_dtypes.bfloat16), normal((k, n), ml_dtypes.bfloat16, 1)
    for left, right, (kind, to) in itertools.product(
        [(0, 1), (1, 0)], [(0, 1), (1, 0)], [("f32", (0, 1)), ("bf16", (1, 0))]
    ):
        got = multiply(lhs, rhs, machine, ("bf16", "bf16", kind, "f32"), (left, right, to), 3)
        close_in_bf16(got, lhs, rhs)


@bf16_machines
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_large_pairs_do_not_depend_on_the_split(machine: Machine, kind: str) -> None:
    types = ("bf16", "bf16", kind, "f32")
    for (m, n, k), left, right in [
        ((300, 520, 2210), (0, 1), (0, 1)), ((150, 333, 1303), (1, 0), (1, 0)), ((150, 300, 2208), (0, 1), (0, 1)),
        ((300, 200, 1088), (1, 0), (1, 0)),
    ]:
        lhs, rhs = normal((m, k), ml_dtypes.bfloat16), normal((k, n), ml_dtypes.bfloat16, 1)
        whole = multiply(lhs, rhs, machine, types, (left, right, (0, 1)))
        close_in_bf16(whole, lhs, rhs)
        split = multiply(lhs, rhs, machine, types, (left, right, (0, 1)), 7)
        np.testing.assert_array_equal(whole.astype(np.float32), split.astype(np.float32))


@bf16_machines
@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 70), st.integers(1, 150), st.integers(1, 90), st.integers(1, 3),
    st.permutations(range(3)), st.permutations(range(3)), st.permutations(range(3)), st.sampled_from(["f32", "bf16"]),
)
def test_pairs_of_any_shape_and_order(
    machine: Machine, m: int, n: int, k: int, batch: int,
    left: list[int], right: list[int], to: list[int], kind: str,
) -> None:
    k = k if machine is PAIRS else 32 * (k % 4 + 1)
    lhs, rhs = normal((batch, m, k), ml_dtypes.bfloat16), normal((batch, k, n), ml_dtypes.bfloat16, 1)
    close_in_bf16(multiply(lhs, rhs, machine, ("bf16", "bf16", kind, "f32"), (left, right, to), 3), lhs, rhs)


def test_pairs_only_where_they_are_fast() -> None:
    spec = dense(64, 64, 64, ("bf16", "bf16", "f32", "f32"))
    zen = Machine("x86_64-unknown-linux-gnu", "znver4", "+avx512f,+avx512bf16", 512)
    assert "dpbf16ps.512" in emit_dot("dot", spec, zen).text
    for other in (
        replace(zen, features="+avx512f,-avx512bf16"), replace(zen, features="+avx512bf16,+amx-tile"),
        replace(zen, vector_bits=256),
    ):
        assert "dpbf16ps" not in emit_dot("dot", spec, other).text
    assert "dpbf16ps" not in emit_dot("dot", dense(64, 64, 64, ("f32", "bf16", "f32", "f32")), zen).text


def test_tiles_only_where_they_may_be_used() -> None:
    spec = dense(64, 64, 64, ("bf16", "bf16", "f32", "f32"))
    machine = Machine("x86_64-unknown-linux-gnu", "sapphirerapids", "+avx512bf16,+amx-tile,+amx-bf16", 512)
    assert "tdpbf16ps" in emit_dot("dot", spec, machine).text
    refused = replace(machine, features="+avx512bf16,+amx-tile,-amx-bf16")
    mixed = dense(64, 64, 64, ("f32", "bf16", "f32", "f32"))
    for other, which in ((spec, refused), (replace(spec, k=63), machine), (mixed, machine)):
        assert "tdpbf16ps" not in emit_dot("dot", other, which).text
    # Objects for other programs to link do not rely on what this process was granted.
    assert "+amx-bf16" not in named("host").features


def test_large_products_have_tasks_to_share() -> None:
    spec = dense(512, 512, 512)
    assert all(step.tasks >= 8 for step in emit_dot("dot", spec, host()).steps)


@every_machine
def test_last_rows_come_in_a_whole_tile(machine: Machine) -> None:
    """Some rows are made twice, and no function is for the last ones alone; not where that would take long."""

    def functions(m: int, n: int, k: int, items: int = 1) -> int:
        spec = view((items,), m, n, k, (m * k, k, 1), (k * n, n, 1), (m * n, n, 1))
        return emit_dot("dot", spec, machine).text.count("define internal void @tile")

    for m in (31, 37, 61):
        lhs, rhs = normal((m, 50), np.float32), normal((50, 16), np.float32, 1)
        close(multiply(lhs, rhs, machine, ("f32",) * 4, [(0, 1)] * 3, 4), lhs, rhs)
        assert functions(m, 16, 50) == 1
    assert functions(31, 16, 500, 500) == 2
    assert functions(3011, 16, 500) == 1


@every_machine
def test_empty(machine: Machine) -> None:
    lhs, rhs = np.zeros((4, 0), np.float32), np.zeros((0, 5), np.float32)
    assert (multiply(lhs, rhs, machine, ("f32",) * 4, ((0, 1), (0, 1), (1, 0))) == 0).all()
    nothing = multiply(np.zeros((0, 3), np.float32), np.zeros((3, 5), np.float32), machine, ("f32",) * 4, ((0, 1),) * 3)
    assert nothing.shape == (0, 5)


def test_same_spec_same_text() -> None:
    spec = dense(40, 50, 60)
    assert emit_dot("a", spec, host()) == emit_dot("a", spec, host())
    assert "@b(" in emit_dot("b", spec, host()).text


def test_types_that_do_not_combine() -> None:
    spec = dense(4, 5, 6, ("f8e4m3fn", "f32", "f32", "f32"))
    with pytest.raises(UnsupportedError, match="f8e4m3fn"):
        emit_dot("dot", spec, host())
    spec = dense(4, 5, 6, ("f32", "f32", "s32", "s32"))
    with pytest.raises(UnsupportedError, match="f32"):
        emit_dot("dot", spec, host())
