"""Products with weights of few bits: computed where they are read, in strips, with the evaluator's numbers.

Values are whole numbers and scales powers of two, so that sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_gemm import DTYPES, MACHINES, every_machine
from test_product_prologue import fused, kinds, module, same_numbers

from hlotool.analysis.contraction import matrix_views
from hlotool.analysis.product_prologue import streams
from hlotool.codegen.cpu.products.blocking import STRIP_BYTES, STRIP_COLUMNS, STRIP_ROWS, strip_to_pack
from hlotool.codegen.machine import Machine, host, named
from hlotool.driver import compile_module
from hlotool.ir import Module
from hlotool.text.parser import parse

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
