"""Products with weights of few bits, computed where they are read, in strips; convolutions of bytes as dots; both with
the evaluator's numbers.

Values are whole numbers and scales powers of two, so that sums are exact in any order.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_gemm import DTYPES, MACHINES, every_machine
from test_product_fusion import fused, kinds, module
from test_product_prologue import same_numbers

from hlotool.analysis.contraction import matrix_views
from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.product_prologue import STREAMED, STREAMED_ALONG, streams
from hlotool.codegen.cpu.products.blocking import STRIP_BYTES, STRIP_COLUMNS, STRIP_ROWS, strip_to_pack
from hlotool.codegen.machine import Machine, host, named
from hlotool.driver import compile_module, optimise
from hlotool.driver.specialise import bind
from hlotool.evaluate import evaluate
from hlotool.ir import Module, element_type, literal
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

FLOATS = {
    "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e3m4": ml_dtypes.float8_e3m4, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
ALL = {**DTYPES, **FLOATS}
KINDS = ("s4", "u4", "s8", "u8", "f8e4m3fn", "f8e5m2", "bf16", "f16")
SERVER = named("x86-64-v4,l1=32K,cores=2")


def decode_step(m: int, k: int, n: int, kind: str, group: int = 0, zero: bool = False, turned: bool = False) -> Module:
    """``x @ dequantised(w)``: a scale for each column, or for each `group` of its terms, with a `zero` point or not;
    weights lie in rows of columns or, `turned`, of terms."""
    groups = (k // group, group) if group else (1, k)
    at, sizes, scales = "0,1" if turned else "0,2", (*groups, n), (groups[0], n)
    if turned:
        sizes, scales = (n, *groups), (n, groups[0])
    full, few = (f"[{','.join(map(str, x))}]" for x in (sizes, scales))
    subtract = (
        f"z = {kind}{few} parameter(3)\nzf = f32{few} convert(z)\nzb = f32{full} broadcast(zf), dimensions={{{at}}}\n"
        f"c = f32{full} subtract(b, zb)\n"
    ) if zero else f"c = f32{full} copy(b)\n"
    matrix = f"[{n},{k}]" if turned else f"[{k},{n}]"
    return module(
        f"x = f32[{m},{k}] parameter(0)\nw = {kind}{full} parameter(1)\ns = f32{few} parameter(2)\n"
        f"b = f32{full} convert(w)\n{subtract}sb = f32{full} broadcast(s), dimensions={{{at}}}\n"
        f"q = f32{full} multiply(c, sb)\nd = f32{matrix} reshape(q)\n"
        f"ROOT y = f32[{m},{n}] dot(x, d), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{int(turned)}}}"
    )


def numbers(made: Module, seed: int = 1) -> list[np.ndarray[Any, Any]]:
    """Small whole numbers; of scales, powers of two."""
    generator = np.random.default_rng(seed)
    found = []
    for p in made.entry.parameters:
        kind, size = p.shape.element_type, p.shape.dimensions
        drawn = generator.integers(0 if kind[0] == "u" else -4, 5, size)
        found.append((2.0 ** (drawn % 3 - 1) if p.name == "s" else drawn).astype(ALL[kind]))
    return found


def checked(made: Module, machine: Machine) -> None:
    same_numbers(made, machine, numbers(made))


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_weights_of_all_types(number: int) -> None:
    """Rows on both sides of what strips serve, in both orientations, on one machine after the other."""
    kind, m, machine = KINDS[number], (1, 3, 8, 9, 16, 17)[number % 6], MACHINES[number % len(MACHINES)]
    checked(decode_step(m, 514, 530, kind), machine)
    checked(decode_step(m, 520, 40, kind, turned=True), machine)


@every_machine
@pytest.mark.parametrize(("kind", "group", "m"), [("s4", 32, 1), ("u4", 128, 5), ("s8", 64, 16)])
def test_scales_for_groups(machine: Machine, kind: str, group: int, m: int) -> None:
    checked(decode_step(m, 512, 520, kind, group, zero=True), machine)
    checked(decode_step(m, 512, 24, kind, group, zero=True, turned=True), machine)


def test_strips_are_for_large_matrices_in_rows() -> None:
    def view(m: int, k: int, n: int, turned: bool = False) -> Any:
        dot = decode_step(m, k, n, "s8", turned=turned).entry.root
        return matrix_views(dot)

    assert not streams(view(1, 512, 512), (1,))
    assert streams(view(1, 511, 512), (1,))
    assert streams(view(1, 1024, 511), (1,))
    assert streams(view(1, 512, 512, turned=True), (1,))
    assert streams(view(8, 100, 100), (1,))
    assert not streams(view(9, 100, 100), (1,))


def test_few_rows_meet_a_large_matrix_along_their_terms() -> None:
    def meets(m: int, k: int, n: int) -> bool:
        view = matrix_views(decode_step(m, k, n, "s8", turned=True).entry.root)
        return view is not None and streams(view, (1,))

    assert meets(STREAMED_ALONG, 512, 512)
    assert not meets(STREAMED_ALONG + 1, 512, 512)
    assert not meets(STREAMED_ALONG, 511, 512)
    assert meets(STREAMED, 100, 100)


@every_machine
@pytest.mark.parametrize("kinds", [
    ("f32", "f32", "f32"), ("bf16", "bf16", "f32"), ("bf16", "bf16", "bf16"), ("f16", "f16", "f16"),
    ("f32", "bf16", "f32"),
], ids="-".join)  # fmt: skip
def test_few_rows_meet_long_ones(machine: Machine, kinds: tuple[str, str, str]) -> None:
    """On both sides of what is packed in strips: rows, columns, and what stays in the caches."""
    few = replace(machine, l2=64 << 10, l3=64 << 10)
    for m, k, n in ((1, 130, 512), (2, 67, 700), (7, 131, 511), (16, 90, 530), (17, 64, 512), (3, 14, 513)):
        made = module(
            f"x = {kinds[0]}[{m},{k}] parameter(0)\nw = {kinds[1]}[{k},{n}] parameter(1)\n"
            f"ROOT y = {kinds[2]}[{m},{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        )
        checked(made, few)


@pytest.mark.parametrize(("kind", "n", "cpu", "packed"), [
    ("f32", 1000, "v4", False), ("f32", 1000, "v3", False), ("f32", 1024, "v4", False), ("f32", 1024, "v3", True),
    ("bf16", 2000, "v4", False), ("bf16", 2048, "v4", True),
])  # fmt: skip
def test_long_rows_in_the_last_cache_are_read_in_place(kind: str, n: int, cpu: str, packed: bool) -> None:
    """Rows of whole pages fall on few sets of it; from memory all are packed."""
    made = module(
        f"x = f32[4,1000] parameter(0)\nw = {kind}[1000,{n}] parameter(1)\n"
        f"ROOT y = f32[4,{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    )
    for l3, expected in ((32 << 20, packed), (1 << 20, True)):
        machine = named(f"x86-64-{cpu},l1=32K,l2=1M,l3={l3 >> 20}M,cores=2")
        text = compile_module(made, machine=machine, threads=1, to_run=False).text("llvm")
        assert ("pack_rhs" in text) == expected, l3


@every_machine
@pytest.mark.parametrize(("m", "k", "kind", "group"), [(16, 1024, "s4", 64), (9, 1031, "u4", 0), (3, 4100, "s8", 0)])
def test_rows_too_large_for_the_nearest_cache_are_copied(
    machine: Machine, m: int, k: int, kind: str, group: int
) -> None:
    """Parts of the sum that divide it, and some that do not; more rows than registers."""
    small = replace(machine, l1=32 << 10)
    made = decode_step(m, k, 260, kind, group, turned=True)
    checked(made, small)
    program = compile_module(made, machine=small, threads=1)
    assert program.memory is not None
    assert program.memory.arena_bytes > m * k * 4


@pytest.mark.parametrize(("n", "turned"), [(4096, True), (4096, False), (1024, True)])
def test_large_weights_are_asked_for_ahead(n: int, turned: bool) -> None:
    """A line at a time, if a core's own caches do not hold them."""
    large = replace(host(), l2=1 << 19)
    made = decode_step(1, 1024, n, "s4", 64, turned=turned)
    text = compile_module(stored(made, numbers(made)), machine=large, threads=1).text("llvm")
    assert ("call void @llvm.prefetch" in text) == (n == 4096)


@pytest.mark.parametrize("rows", [1, 7, STRIP_ROWS])
def test_strips_stay_in_the_nearest_cache(rows: int) -> None:
    for columns in (512, 4096, 1 << 16):
        panels, piece = strip_to_pack(rows, columns, 4096, width=64, size=4, machine=SERVER)
        assert panels * 64 <= min(STRIP_COLUMNS, columns // SERVER.cores)
        assert panels * 64 * piece * 4 <= SERVER.l1
        assert panels == 1 or rows * panels * 64 * 4 <= STRIP_BYTES
    assert strip_to_pack(rows, 4096, 4, width=64, size=4, machine=SERVER)[1] == 0


def test_wide_weights_are_never_written() -> None:
    result, _ = fused(decode_step(1, 512, 512, "s4", 32))
    assert kinds(result) == ["kOutput"]
    program = compile_module(decode_step(1, 512, 2048, "s4", 32), machine=replace(host(), cores=2), threads=1)
    assert program.memory is not None
    assert program.memory.arena_bytes < 512 * 2048 * 4 // 8


@every_machine
@pytest.mark.parametrize("kind", FLOATS)
def test_every_code_of_eight_bits(machine: Machine, kind: str) -> None:
    codes = np.arange(256, dtype=np.uint8).view(FLOATS[kind])
    text = f"HloModule m\nENTRY e {{\n x = {kind}[256] parameter(0)\n ROOT y = f32[256] convert(x)\n}}"
    (got,) = compile_module(parse(text), machine=machine, threads=1)(codes)
    want = codes.astype(np.float32)
    np.testing.assert_array_equal(np.asarray(got), want)
    np.testing.assert_array_equal(np.signbit(np.asarray(got)), np.signbit(want))


# ---- tables

FEW_BITS = {
    "s4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "s2": ml_dtypes.int2, "u2": ml_dtypes.uint2,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
}  # fmt: skip


@every_machine
@pytest.mark.parametrize("kind", FEW_BITS)
def test_what_follows_from_four_bits_is_looked_up(machine: Machine, kind: str) -> None:
    """Alone, with a scale and a zero for each row, in bf16, beside a scale for each lane, and in the loop of a sum; a
    row has a rest, part of one is padding, and the upper bits in memory are anything."""
    made = module(
        f"w = {kind}[5,70] parameter(0)\ns = f32[5] parameter(1)\nv = f32[70] parameter(2)\n"
        "c = f32[5,70] convert(w)\nsb = f32[5,70] broadcast(s), dimensions={0}\n"
        "z = f32[5,70] subtract(c, sb)\nm = f32[5,70] multiply(z, sb)\n"
        "vb = f32[5,70] broadcast(v), dimensions={1}\nn = f32[5,70] multiply(c, vb)\n"
        "h = bf16[5,70] convert(m)\ng = bf16[5,70] multiply(h, h)\n"
        f"o = {kind}[] constant(1)\np = {kind}[5,90] pad(w, o), padding=0_0x7_13\nq = f32[5,90] convert(p)\n"
        "k = f32[] constant(0)\nr = f32[5] reduce(m, k), dimensions={1}, to_apply=add\n"
        "ROOT t = (f32[5,70], f32[5,70], bf16[5,70], f32[5,90], f32[5]) tuple(m, n, g, q, r)",
        "add {\na = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT r = f32[] add(a, b)\n}\n\n",
    )
    codes = np.random.default_rng(4).integers(0, 256, (5, 70)).astype(np.uint8)
    codes[3] = np.arange(70)
    scales = [np.array([0.5, -2, 1, 4, 0.25], np.float32), 2.0 ** np.arange(-35, 35).astype(np.float32)]
    same_numbers(made, machine, [codes.view(FEW_BITS[kind]), *scales])
    text = compile_module(made, machine=machine, threads=1).text("llvm")
    assert ("permvar" in text) == (machine.instructions.picked == 16)


@pytest.mark.skipif(host().instructions.picked < 16, reason="this processor has no AVX-512")
def test_a_scale_for_a_group_meets_its_table_once() -> None:
    """Not each vector of weights: what differs from group to group are 16 entries, for two lines at a time."""
    text = compile_module(decode_step(1, 512, 8, "s4", 64, turned=True), threads=1).text("llvm")
    assert text.count("call <16 x float> @llvm.x86.avx512.permvar") == 8
    assert text.count("fmul <16 x float>") == text.count("sitofp <16 x i8>") == 2


# ---- convolutions

NHWC, NCHW = "b01f_01io->b01f", "bf01_oi01->bf01"


def convolution(
    kinds: tuple[str, str], labels: str = NHWC, size: int = 9, inputs: int = 5, outputs: int = 12, batch: int = 2,
    window: str = "size=3x2 pad=1_1x0_1", result: tuple[int, int] = (9, 9), after: str = "", groups: int = 1,
) -> Module:
    """Numbers of eight bits as s32, in a convolution."""
    share = inputs // groups
    image, kernel, out = (batch, size, size, inputs), (3, 2, share, outputs), (batch, *result, outputs)
    if labels == NCHW:
        image, kernel, out = ((x[0], x[3], x[1], x[2]) for x in (image, kernel, out))
        kernel = (outputs, share, 3, 2)
    one, two, three = (f"[{','.join(map(str, x))}]" for x in (image, kernel, out))
    text = (
        f"x = {kinds[0]}{one} parameter(0)\nw = {kinds[1]}{two} parameter(1)\na = s32{one} convert(x)\n"
        f"b = s32{two} convert(w)\n"
        f"ROOT y = s32{three} convolution(a, b), window={{{window}}}, dim_labels={labels}, "
        f"feature_group_count={groups}"
    )
    return module(text.replace("ROOT y", "y") + after if after else text)


CONVOLUTIONS = [
    (("s8", "s8"), {}),
    (("u8", "s8"), {"labels": NCHW}),
    (("s8", "u8"), {"inputs": 32, "outputs": 40}),
    (("u8", "u8"), {"inputs": 16, "outputs": 3, "batch": 1, "labels": NCHW}),
    (("s4", "s8"), {"inputs": 1, "outputs": 1}),
    (("u8", "s8"), {"window": "size=3x2 stride=2x3 pad=2_1x1_0", "result": (5, 3)}),
    (("s8", "s8"), {"window": "size=3x2 rhs_dilate=2x3 pad=-1_2x0_0", "result": (6, 6), "labels": NCHW}),
    (("u8", "s8"), {"inputs": 32, "outputs": 40, "groups": 4}),
    (("u8", "u8"), {"inputs": 27, "outputs": 30, "groups": 3, "labels": NCHW}),
    (("s8", "s8"), {"inputs": 16, "outputs": 2, "groups": 2, "batch": 1, "labels": NCHW}),
]


@every_machine
@pytest.mark.parametrize(("kinds", "options"), CONVOLUTIONS)
def test_convolutions_of_bytes(machine: Machine, kinds: tuple[str, str], options: dict[str, Any]) -> None:
    made = convolution(kinds, **options)
    assert [i.opcode for i in optimise(made).instructions()].count("convolution") == 0
    same_numbers(made, machine, extremes(made))


@pytest.mark.parametrize("kind", ["u16", "pred"])
def test_conversions_that_change_numbers_stay(kind: str) -> None:
    """-1 of s8 is 65535 in u16, and true as a pred."""
    text = print_module(convolution(("s8", "s8")))
    made = parse(re.sub(r"s32(\[\S+ convert)", rf"{kind}\1", text))
    assert sum(i.shape.element_type == kind for i in made.instructions()) == 2
    same_numbers(made, host(), extremes(made))


def extremes(made: Module) -> list[np.ndarray[Any, Any]]:
    """Numbers of all sizes, of the operands of a product: sums are exact, or wrap."""
    generator, found = np.random.default_rng(2), []
    for p in made.entry.parameters[:2]:
        row = element_type(p.shape.element_type)
        low = -(1 << (row.bits - 1)) if row.kind == "signed" else 0
        found.append(generator.integers(low, low + (1 << row.bits), p.shape.dimensions).astype(ALL[row.name]))
    return found


def test_a_convolution_of_bytes_is_quantised_again_where_it_is_made() -> None:
    """Scale, bias, activation, rounding and the way to eight bits are the epilogue of the dot."""
    f, s = "f32[2,9,9,12]", "s8[2,9,9,12]"
    after = (
        f"\nf = {f} convert(y)\np = f32[12] parameter(2)\nq = {f} broadcast(p), dimensions={{3}}\n"
        f"g = {f} multiply(f, q)\nc = f32[12] parameter(3)\nd = {f} broadcast(c), dimensions={{3}}\n"
        f"h = {f} add(g, d)\nz = f32[] constant(0)\nzb = {f} broadcast(z), dimensions={{}}\n"
        f"r = {f} maximum(h, zb)\no = {f} round-nearest-even(r)\nt = f32[] constant(127)\n"
        f"tb = {f} broadcast(t), dimensions={{}}\nm = {f} clamp(zb, o, tb)\nROOT k = {s} convert(m)"
    )
    made = convolution(("u8", "s8"), after=after)
    result, _ = fused(made)
    products = [i for i in result.instructions() if i.opcode == "fusion" and i.attributes["kind"] == "kOutput"]
    assert [p.shape.element_type for p in products] == ["s8"]
    generator = np.random.default_rng(3)
    scales = [2.0 ** generator.integers(-9, -6, 12), generator.integers(-3, 4, 12)]
    same_numbers(made, None, [*extremes(made), *(x.astype(np.float32) for x in scales)])


# ---- two elements in a byte


def stored(made: Module, arrays: list[np.ndarray[Any, Any]]) -> Module:
    """The module with all but its first argument as constants."""
    others = zip(made.entry.parameters[1:], arrays[1:], strict=True)
    return bind(made, {p.name: literal(value, p.shape.element_type) for p, value in others})


def packed_bytes(made: Module) -> int:
    """Bytes of the constants of an optimised module whose elements share bytes."""
    log = DecisionLog()
    optimise(made, "default", log)
    return int(sum(dict(one.numbers)["bytes"] for one in log if one.pass_name == "sub-byte-packing"))


@every_machine
@pytest.mark.parametrize(("kind", "group", "zero"), [("s4", 32, False), ("u4", 64, True), ("s4", 0, True)])
def test_constants_of_four_bits_share_bytes(machine: Machine, kind: str, group: int, zero: bool) -> None:
    """Rows of an even and of an odd number of elements, few and many of them, in both orientations."""
    for m, k, n, turned in ((1, 512, 130, True), (3, 448, 257, False), (16, 320, 211, True), (17, 257, 259, False)):
        if group and k % group:
            continue
        made = decode_step(m, k, n, kind, group, zero, turned)
        arrays = numbers(made)
        module = stored(made, arrays)
        assert packed_bytes(module) >= k * n // 2
        same_numbers(module, machine, arrays[:1])


@every_machine
@pytest.mark.parametrize("kind", ["s4", "u4", "f4e2m1fn"])
def test_halves_of_bytes_are_read_however_they_lie(machine: Machine, kind: str) -> None:
    """In rows that begin in the middle of a byte, backwards, apart, turned, gathered, padded; as bytes and floats."""
    made = module(
        f"p = u8[1575] parameter(0)\ni = s32[6,1] parameter(1)\nb = {kind}[1575,2] bitcast-convert(p)\n"
        f"w = {kind}[45,70] reshape(b)\ns = {kind}[45,33] slice(w), slice={{[0:45],[3:36]}}\n"
        f"d = {kind}[45,35] slice(w), slice={{[0:45],[0:70:2]}}\nr = {kind}[45,70] reverse(w), dimensions={{0,1}}\n"
        f"t = {kind}[70,45] transpose(w), dimensions={{1,0}}\no = {kind}[] constant(1)\n"
        f"a = {kind}[47,71] pad(w, o), padding=1_1x-1_2\n"
        f"g = {kind}[6,70] gather(w, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
        "index_vector_dim=1, slice_sizes={1,70}\n"
        "c1 = f32[45,33] convert(s)\nc2 = f32[45,35] convert(d)\nc3 = s8[45,70] convert(r)\n"
        "c4 = f32[70,45] convert(t)\nc5 = f32[47,71] convert(a)\nc6 = f64[6,70] convert(g)\n"
        "ROOT y = (f32[45,33], f32[45,35], s8[45,70], f32[70,45], f32[47,71], f64[6,70]) "
        "tuple(c1, c2, c3, c4, c5, c6)"
    )
    halves = np.random.default_rng(3).integers(0, 256, 1575).astype(np.uint8)
    same_numbers(made, machine, [halves, np.array([[0], [44], [7], [7], [3], [60]], np.int32)])


def test_what_a_product_reads_keeps_whole_bytes() -> None:
    made = module(
        "x = s8[4,512] parameter(0)\nw = s4[512,512] parameter(1)\n"
        "ROOT y = s32[4,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    log = DecisionLog()
    optimise(stored(made, numbers(made)), "default", log)
    assert [one.rule for one in log if one.pass_name == "sub-byte-packing"] == ["whole-bytes"]


@pytest.mark.parametrize("between", ["u16", "pred", "s16", "u32", "f32"])
def test_dots_keep_conversions_that_change_numbers(between: str) -> None:
    """-1 as u16 is 65535, and as pred 1: a product of the bytes ahead of the conversion would be another one."""
    module = parse(
        f"HloModule m\n\nENTRY e {{\n a = s8[4,8] parameter(0)\n b = s8[8,4] parameter(1)\n x = s32[4,8] convert(a)\n"
        f" y = {between}[8,4] convert(b)\n"
        " ROOT d = s32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"
    )
    generator = np.random.default_rng(0)
    arrays = [generator.integers(-5, 5, shape).astype(np.int8) for shape in ((4, 8), (8, 4))]
    np.testing.assert_array_equal(compile_module(module)(*arrays)[0], evaluate(module, arrays)[0])
