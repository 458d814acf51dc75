"""Products of f32 numbers in three bf16 parts: as exact as products of f32 numbers, whatever the numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_gemm import Array, dense, guarded, run_kernel, view

import hlotool
from hlotool.codegen.choices import Choices
from hlotool.codegen.cpu.products import bf16x3
from hlotool.codegen.cpu.products.bf16x3_product import library
from hlotool.codegen.cpu.products.dot import emit_dot
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.machine import Machine, host, named
from hlotool.evaluate import evaluate
from hlotool.runtime.cache import Cache
from hlotool.runtime.compilation import Compilation
from hlotool.runtime.object_code import compiled

UNIT = 2.0**-24
ORDERS = ((0, 1), (1, 0))
pytestmark = pytest.mark.skipif(not host().has_tiles, reason="no AMX here, or not for this process")


@pytest.fixture(autouse=True)
def small_products_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bf16x3, "PAYS", 0)
    monkeypatch.setattr(bf16x3, "LEAST", 0)


def in_order(values: Array, order: Sequence[int]) -> Array:
    """The same matrix, its dimensions in this order in memory."""
    return np.ascontiguousarray(values.transpose(order)).transpose(np.argsort(order))


def kernel_of(lhs: Array, rhs: Array, machine: Machine | None = None) -> Kernel:
    *batch, m, k = lhs.shape
    n = rhs.shape[-1]
    (*lb, lm, lk), (*rb, rk, rn) = ([stride // 4 for stride in array.strides] for array in (lhs, rhs))
    size = [m * n * int(np.prod(batch[at + 1 :])) for at in range(len(batch))]
    spec = view(batch, m, n, k, (*lb, lm, lk), (*rb, rk, rn), (*size, n, 1))
    kernel = emit_dot("dot", spec, machine or host())
    assert any("bf16x3_multiply" in helper.definitions for helper in kernel.helpers)
    return kernel


def multiply(lhs: Array, rhs: Array, pieces: int = 1, machine: Machine | None = None) -> Array:
    out, around = guarded((*lhs.shape[:-1], rhs.shape[-1]), np.float32)
    run_kernel(kernel_of(lhs, rhs, machine), host(), [memory(lhs), memory(rhs), out], pieces)
    assert (around[:128] == 0x5A).all()
    assert (around[-128:] == 0x5A).all()
    return out


def memory(array: Array) -> Array:
    return array if array.base is None else memory(array.base)


def check(out: Array, lhs: Array, rhs: Array) -> None:
    """Compare with the product of f64 numbers: see the module's description for the bound."""
    with np.errstate(all="ignore"):
        exact, size = lhs.astype(np.float64) @ rhs, np.abs(lhs.astype(np.float64)) @ np.abs(rhs)
        bound = (21 + 6 * -(-lhs.shape[-1] // 32)) * UNIT * size + 8 * lhs.shape[-1] * 2.0**-149
        fine = np.isfinite(exact) & (size < 1e38)
        assert (np.abs(out - exact) <= bound)[fine].all()
    assert (np.isnan(out) == np.isnan(exact))[fine | np.isnan(exact)].all()


@pytest.mark.parametrize("size", [(32, 32, 64), (33, 47, 65), (300, 64, 70), (64, 300, 1000), (100, 515, 96)])
def test_all_stride_orders(size: tuple[int, int, int]) -> None:
    m, n, k = size
    rng = np.random.default_rng(m)
    whole = rng.integers(-8, 9, (m, k)).astype(np.float32), rng.integers(-8, 9, (k, n)).astype(np.float32)
    parts = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    for orders in itertools.product(ORDERS, ORDERS):
        lhs, rhs = (in_order(array, order) for array, order in zip(whole, orders, strict=True))
        np.testing.assert_array_equal(multiply(lhs, rhs), lhs @ rhs)
        lhs, rhs = (in_order(array, order) for array, order in zip(parts, orders, strict=True))
        check(multiply(lhs, rhs), lhs, rhs)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("group", [1, 2, 4, 8, 16])
def test_groups_and_what_is_fetched_leave_every_bit(group: int, order: tuple[int, int]) -> None:
    """More blocks to a task than formulas give it, and numbers behind the end of the matrix that are fetched."""
    rng = np.random.default_rng(group)
    for m, n, k, fetched in ((70, 32 * 17 - 5, 70, 96), (33, 256, 65, 0), (600, 32 * 9, 64, 64)):
        lhs, rhs = rng.standard_normal((m, k), np.float32), in_order(rng.standard_normal((k, n), np.float32), order)
        machine = replace(host(), choices=Choices(own_panels=1, split_group=group, fetch_terms=fetched))
        usual = multiply(lhs, rhs)
        check(usual, lhs, rhs)
        for pieces in (1, 3):
            np.testing.assert_array_equal(multiply(lhs, rhs, pieces, machine), usual)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("terms", [64, 128, 1024])
@pytest.mark.parametrize("group", [1, 8])
def test_pieces_of_panels_leave_every_bit(group: int, terms: int, order: tuple[int, int]) -> None:
    """Sums wait in the result for the next piece; numbers without parts lie in some of the pieces."""
    rng = np.random.default_rng(terms)
    for m, n, k, strange in ((70, 32 * 17 - 5, 1100, 0), (33, 256, 129, 0), (600, 288, 1056, 0), (70, 300, 700, 3)):
        lhs, rhs = rng.standard_normal((m, k), np.float32), in_order(rng.standard_normal((k, n), np.float32), order)
        for _ in range(strange):
            rhs[rng.integers(k), rng.integers(n)] = rng.choice(np.array([np.inf, 3e38, 1e-42], np.float32))
        machine = replace(host(), choices=Choices(own_panels=1, split_group=group, terms=terms))
        made = multiply(lhs, rhs, machine=machine)
        check(made, lhs, rhs)
        if not strange:
            np.testing.assert_array_equal(made, multiply(lhs, rhs))
        np.testing.assert_array_equal(multiply(lhs, rhs, 3, machine), made)


def test_more_exact_than_f32_sums() -> None:
    rng = np.random.default_rng(0)
    lhs, rhs = rng.standard_normal((64, 512), np.float32), rng.standard_normal((512, 64), np.float32)
    exact = lhs.astype(np.float64) @ rhs
    one_by_one = np.zeros((64, 64), np.float32)
    for at in range(512):
        one_by_one += np.outer(lhs[:, at], rhs[at])
    assert np.abs(multiply(lhs, rhs) - exact).max() < np.abs(one_by_one - exact).max()


@pytest.mark.parametrize("orders", [*itertools.product(ORDERS, ORDERS)])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38, 1e-42, -2e-38, 0.0, 1.5e15, 7e-31])
def test_numbers_that_have_no_parts(value: float, orders: tuple[tuple[int, int], tuple[int, int]]) -> None:
    rng = np.random.default_rng(1)
    lhs, rhs = (in_order(rng.standard_normal((70, 70), np.float32), order) for order in orders)
    lhs[3, 5] = lhs[69, 69] = lhs[40, 32] = rhs[66, 1] = value
    check(multiply(lhs, rhs), lhs, rhs)
    only = in_order(np.zeros((70, 70), np.float32), orders[0])
    only[3, 5] = only[40, 66] = value
    with np.errstate(invalid="ignore"):
        expected = only @ np.eye(70)
    np.testing.assert_array_equal(multiply(only, in_order(np.eye(70, dtype=np.float32), orders[1])), expected)


def test_small_numbers_of_both() -> None:
    """Each has parts, but not their products."""
    rng = np.random.default_rng(2)
    lhs = rng.standard_normal((64, 64), np.float32)
    check(multiply(lhs * np.float32(2.0**-60), lhs * np.float32(2.0**-60)), lhs * 2.0**-60, lhs * 2.0**-60)
    check(multiply(lhs * np.float32(2.0**-80), lhs * np.float32(2.0**70)), lhs * 2.0**-80, lhs * 2.0**70)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 120), st.integers(0, 120), st.sampled_from([0.0, 0.01, 1.0]))
def test_any_numbers(seed: int, wide: int, deep: int, strange: float) -> None:
    """Numbers of all sizes about 1 (`wide` binary orders up and down), some of them of any bits at all."""
    rng = np.random.default_rng(seed)
    made = []
    for spread in (wide, deep):
        values = rng.standard_normal((40, 72)) * 2.0 ** rng.uniform(-spread, spread / 2, (40, 72))
        values = values.astype(np.float32)
        anything = rng.integers(0, 1 << 32, (40, 72), np.uint32).view(np.float32)
        made.append(np.where(rng.random((40, 72)) < strange * (spread % 2), anything, values))
    with np.errstate(invalid="ignore"):
        check(multiply(made[0], in_order(made[1].T, (1, 0))), made[0], made[1].T)


def test_batches_and_splits_give_the_same_bits() -> None:
    rng = np.random.default_rng(3)
    lhs, rhs = rng.standard_normal((3, 70, 90), np.float32), rng.standard_normal((3, 90, 300), np.float32)
    out = multiply(lhs, rhs)
    for item in range(3):
        check(out[item], lhs[item], rhs[item])
    for pieces in (2, 3, 7):
        np.testing.assert_array_equal(multiply(lhs, rhs, pieces), out)


@pytest.mark.parametrize("rows", [70, 300])
def test_batches_that_share_a_matrix(rows: int) -> None:
    rng = np.random.default_rng(6)
    lhs, rhs = rng.standard_normal((3, rows, 90), np.float32), rng.standard_normal((90, 300), np.float32)
    every = np.broadcast_to(rhs, (3, 90, 300))
    out = multiply(lhs, every)
    for item in range(3):
        check(out[item], lhs[item], rhs)
    whole = kernel_of(lhs, np.ascontiguousarray(every)).scratch
    assert kernel_of(lhs, every).scratch < whole


def test_columns_in_panels() -> None:
    rng = np.random.default_rng(4)
    lhs, rhs = rng.standard_normal((300, 96), np.float32), rng.standard_normal((96, 64), np.float32)
    spec = view((), 300, 64, 96, (96, 1), (16, 1), (64, 1))
    spec = replace(spec, rhs=replace(spec.rhs, lines=96 * 64))
    kernel, out = emit_dot("dot", spec, host()), np.zeros((300, 64), np.float32)
    run_kernel(kernel, host(), [lhs, np.ascontiguousarray(rhs.reshape(96, 4, 16).transpose(1, 0, 2)), out])
    check(out, lhs, rhs)


def programs() -> Sequence[tuple[str, Callable[[Any], list[Array]]]]:
    def arrays(*shapes: tuple[int, ...]) -> Callable[[Any], list[Array]]:
        return lambda rng: [rng.standard_normal(shape, np.float32) for shape in shapes]

    relu = """HloModule relu
    ENTRY e {
      x = f32[96,80]{1,0} parameter(0)
      w = f32[80,200]{1,0} parameter(1)
      b = f32[200]{0} parameter(2)
      d = f32[96,200]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      c = f32[96,200]{1,0} broadcast(b), dimensions={1}
      s = f32[96,200]{1,0} add(d, c)
      z = f32[] constant(0)
      zs = f32[96,200]{1,0} broadcast(z), dimensions={}
      ROOT r = f32[96,200]{1,0} maximum(s, zs)
    }"""
    rows = """HloModule rows
    more { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
    ENTRY e {
      x = f32[320,64]{1,0} parameter(0)
      w = f32[64,96]{1,0} parameter(1)
      d = f32[320,96]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      z = f32[] constant(0)
      s = f32[320]{0} reduce(d, z), dimensions={1}, to_apply=more
      c = f32[320,96]{1,0} broadcast(s), dimensions={0}
      ROOT r = f32[320,96]{1,0} subtract(d, c)
    }"""
    deep = relu.replace("80", "3000").replace("200", "288").replace("HloModule relu", "HloModule deep")
    return [
        (relu, arrays((96, 80), (80, 200), (200,))), (rows, arrays((320, 64), (64, 96))),
        (deep, arrays((96, 3000), (3000, 288), (288,))),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(len(programs())))
def test_programs(number: int) -> None:
    text, make = programs()[number]
    module, arguments = hlotool.parse(text), make(np.random.default_rng(5))
    (expected,) = evaluate(module, arguments)
    results = []
    for threads in (1, 2):
        executable = hlotool.compile(module, threads=threads)
        assert any("bf16x3_multiply" in text for text in executable.program.units)
        (result,) = executable(*arguments)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
        results.append(result)
    np.testing.assert_array_equal(*results)


def test_only_where_there_are_tiles() -> None:
    spec = dense(64, 64, 64)
    for machine in (named("host"), named("x86-64-v3"), replace(host(), features="+avx512bf16,+amx-tile,-amx-bf16")):
        assert not emit_dot("dot", spec, machine).helpers
        assert not library(machine)
    assert emit_dot("dot", dense(64, 64, 64, ("f64",) * 4), host()).helpers == ()


def test_functions_of_many_programs_are_compiled_once(tmp_path: Any) -> None:
    cache, texts = Cache(tmp_path), library(host())

    def made() -> list[bytes]:
        with Compilation(host(), library, 1, cache) as compilation:
            return compilation.finish(["define void @f() { ret void }\n"], texts[:2])

    once, again = made(), made()
    assert once == again
    assert len(once) == 3
    for text, code in zip(texts[:2], once[1:], strict=True):
        assert compiled([text], host()) == [code]


@pytest.mark.parametrize("orders", [*itertools.product(ORDERS, ORDERS)])
@pytest.mark.parametrize("result", ["f32", "f16"])
def test_f16_numbers_are_made_wide(result: str, orders: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """In the order in which they lie; a narrow result is rounded once."""
    rng = np.random.default_rng(3)
    whole = rng.integers(-8, 9, (70, 96)), rng.integers(-8, 9, (96, 47))
    lhs, rhs = (in_order(array.astype(np.float16), order) for array, order in zip(whole, orders, strict=True))
    lhs[3, 5] = np.inf
    (lm, lk), (rk, rn) = ([stride // 2 for stride in array.strides] for array in (lhs, rhs))
    spec = view((), 70, 47, 96, (lm, lk), (rk, rn), (47, 1), ("f16", "f16", result, "f32"))
    kernel = emit_dot("dot", spec, host())
    assert any("bf16x3_multiply" in helper.definitions for helper in kernel.helpers)
    out, _ = guarded((70, 47), np.dtype(result.replace("f", "float")))
    run_kernel(kernel, host(), [memory(lhs), memory(rhs), out], 1)
    with np.errstate(invalid="ignore"):
        wanted = (lhs.astype(np.float32) @ rhs.astype(np.float32)).astype(out.dtype)
    np.testing.assert_array_equal(out, wanted)
