"""Bounded dynamic dimensions: the evaluator, the dynamic padder, and arrays of any size at the border of a program."""

from __future__ import annotations

import re
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest
from semantics.check import draw, run_cells
from semantics.dynamic import DYNAMIC
from semantics.sample import CLASSES, Family
from semantics.units import distance

import hlotool
from hlotool.driver import optimise
from hlotool.evaluate import evaluate
from hlotool.harness.check_each import CheckEach
from hlotool.harness.inputs import random_inputs
from hlotool.ir import HloError, InputError, Module, UnsupportedError, dtype_of
from hlotool.ir.devices import topology_of
from hlotool.ir.dynamic import regroups
from hlotool.ir.shape_checks import flags_of
from hlotool.ir.verifier import check
from hlotool.passes.framework.manager import run_pipeline
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.registry import PASSES
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

Array = np.ndarray[Any, Any]

TEXT = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  rows = f32[<=8,4] parameter(0)
  pair = (f32[<=3,4], s32[]) parameter(1)
  more = f32[<=3,4] get-tuple-element(pair), index=0
  count = s32[] get-tuple-element(pair), index=1
  all = f32[<=11,4] concatenate(rows, more), dimensions={0}
  zero = f32[] constant(0)
  sums = f32[4] reduce(all, zero), dimensions={0}, to_apply=add
  first = f32[<=8,4] set-dimension-size(rows, count), dimensions={0}
  size = s32[] get-dimension-size(first), dimensions={0}
  last = (f32[<=8,4], s32[]) tuple(first, size)
  ROOT result = (f32[<=11,4], f32[4], (f32[<=8,4], s32[])) tuple(all, sums, last)
}
"""


def arguments(rows: int, more: int, count: int) -> list[Array]:
    numbers = np.arange(44, dtype=np.float32).reshape(11, 4)
    return [numbers[:rows], numbers[8 : 8 + more], np.array(count, np.int32)]


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
@pytest.mark.parametrize("pipeline", ["none", "default"])
@pytest.mark.parametrize(("rows", "more", "count"), [(8, 3, 8), (5, 2, 3), (0, 3, 1), (0, 0, -7), (2, 1, 99)])
def test_arrays_of_any_size_come_and_go(backend: str, pipeline: str, rows: int, more: int, count: int) -> None:
    executable = hlotool.compile(hlotool.parse(TEXT), backend=backend, pipeline=pipeline)
    given = arguments(rows, more, count)
    both = np.concatenate(given[:2])
    limited = max(0, min(count, 8))
    first = np.zeros((8, 4), np.float32)
    first[:rows] = given[0]
    everything, sums, top, size = executable(*given)
    assert everything.tolist() == both.tolist()
    assert sums.tolist() == both.sum(axis=0).tolist()
    assert top.tolist() == first[:limited].tolist()
    assert size == limited
    assert [str(shape) for shape in executable.parameters] == ["f32[<=8,4]", "f32[<=3,4]", "s32[]"]
    assert [str(shape) for shape in executable.outputs] == ["f32[<=11,4]", "f32[4]", "f32[<=8,4]", "s32[]"]


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: [np.zeros((9, 4), np.float32), *a[1:]], r"parameter 0: expected .*f32\[<=8,4\], got \[9, 4\]"),
        (lambda a: [a[0], np.zeros((3, 3), np.float32), a[2]], r"parameter 1: expected .*f32\[<=3,4\], got \[3, 3\]"),
        (lambda a: [a[0].astype(np.float64), *a[1:]], "parameter 0: expected float32"),
        (lambda a: [a[0].ravel(), *a[1:]], "parameter 0"),
        (lambda a: [*a[:2], np.zeros(1, np.int32)], "parameter 2"),
        (lambda a: a[:2], "expected 3 arguments, got 2"),
        (lambda a: [[1.0], *a[1:]], "parameter 0"),
    ],
)
def test_what_does_not_fit_is_named(backend: str, change: Any, message: str) -> None:
    executable = hlotool.compile(hlotool.parse(TEXT), backend=backend)
    with pytest.raises(InputError, match=message):
        executable(*change(arguments(3, 2, 1)))


def test_the_padder_keeps_the_signature_and_the_meaning() -> None:
    before = hlotool.parse(TEXT)
    after = optimise(before, "dynamic-padder")
    check(after)
    inside = [i for i in after.entry if i.opcode not in ("parameter", "tuple", "get-tuple-element", "custom-call")]
    assert all(i.shape.is_static for i in inside)
    assert {i.attributes["custom_call_target"] for i in after.entry if i.opcode == "custom-call"} == {
        "PadToStatic", "SliceToDynamic",
    }  # fmt: skip
    again = optimise(after, "dynamic-padder")
    assert print_module(again) == print_module(after)
    for sizes in ((8, 3, 8), (5, 0, 3)):
        given = arguments(*sizes)
        for got, want in zip(evaluate(after, given), evaluate(before, given), strict=True):
            assert got.tolist() == want.tolist()


@pytest.mark.parametrize(
    "body",
    [
        "n = s32[] parameter(1)\n  s = f32[4] set-dimension-size(x, n), dimensions={0}\n  z = f32[] constant(0)\n"
        "  ROOT r = f32[] reduce(s, z), dimensions={0}, to_apply=add",  # a dimension that is not said to be dynamic
        "n = s32[] parameter(1)\n  s = f32[<=4] set-dimension-size(x, n), dimensions={0}\n"
        "  ROOT r = f32[<=4] fusion(s), kind=kLoop, calls=twice",
        "n = s32[] parameter(1)\n  s = f32[<=4] set-dimension-size(x, n), dimensions={0}\n"
        "  ROOT r = f32[<=4] opt-barrier(s)",
        "n = s32[] parameter(1)\n  t = (f32[4], s32[]) tuple(x, n)\n  ROOT r = f32[<=4] call(t), to_apply=cut",
        "n = s32[] parameter(1)\n  s = f32[<=4] set-dimension-size(x, n), dimensions={0}\n"
        "  ROOT r = f32[<=4] conditional(n, s, s, s), branch_computations={twice, same, twice}",
    ],
)
def test_sizes_pass_through_computations(body: str) -> None:
    text = """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
twice {
  a = f32[<=4] parameter(0)
  ROOT b = f32[<=4] add(a, a)
}
same {
  ROOT a = f32[<=4] parameter(0)
}
cut {
  t = (f32[4], s32[]) parameter(0)
  x = f32[4] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  ROOT b = f32[<=4] set-dimension-size(x, n), dimensions={0}
}
"""
    module = hlotool.parse(f"{text}ENTRY main {{\n  x = f32[4] parameter(0)\n  {body}\n}}\n")
    for pipeline in ("none", "default"):
        executable = hlotool.compile(module, pipeline=pipeline)
        for count in (-1, 0, 1, 3, 9):
            given = [np.array([1, 2, 4, 8], np.float32), np.array(count, np.int32)]
            (got,), (want,) = executable(*given), evaluate(module, given)
            assert got.tolist() == want.tolist(), count


@pytest.mark.parametrize("family", DYNAMIC, ids=lambda family: family.opcode)
def test_native_code_and_evaluator_agree(family: Family) -> None:
    """On every class of element types that the opcode has."""
    kinds = [Random(f"{family.opcode} {name}").choice([k for k in types if k in family.types])
             for name, types in CLASSES.items() if set(types) & set(family.types)]  # fmt: skip
    failure = run_cells([(family, kind) for kind in kinds * 2], DYNAMIC.index(family), rounds=10)
    assert failure is None, str(failure)


@pytest.mark.parametrize("family", DYNAMIC, ids=lambda family: family.opcode)
def test_the_padder_keeps_what_opcodes_mean(family: Family) -> None:
    """Also as text."""
    kinds = [family.types[n % len(family.types)] for n in (1, 5, 14)]
    sample = draw([(n, (family, kind)) for n, kind in enumerate(kinds)], 3)
    before = parse(print_module(sample.module))
    after = parse(print_module(optimise(before, "async-to-sync,trivial-collective-remover,dynamic-padder")))
    check(after)
    generator = np.random.default_rng(5)
    old, new = (hlotool.compile(module, backend="evaluate") for module in (before, after))
    rows = [sample.arguments(generator) for _ in range(old.devices)]
    for found, wanted in zip(new.run_devices(rows), old.run_devices(rows), strict=True):
        for got, want in zip(found, wanted, strict=True):
            assert got.shape == want.shape
            assert not distance(got, want).any()


@pytest.mark.parametrize("family", DYNAMIC, ids=lambda family: family.opcode)
def test_no_pass_changes_what_has_sizes(family: Family) -> None:
    """Whatever goes ahead of the padder."""
    kind = family.types[DYNAMIC.index(family) % len(family.types)]
    sample = draw([(0, (family, kind))], 4)
    if topology_of(sample.module).devices > 1:
        pytest.skip("the check runs on one device")
    given = sample.arguments(np.random.default_rng(6))
    others = sorted(set(PASSES) - {"dynamic-padder", "dynamic-entry", "grad", "jvp", "spmd-partitioner", "vjp", "vmap"})
    for name in others:
        optimise(sample.module, name, instruments=[CheckEach(sample.module, given)])


@pytest.mark.parametrize(
    "body",
    [
        "ROOT r = c64[<=3,4,4] fft(c), fft_type=FFT, fft_length={4}",
        "ROOT r = f32[<=3,4,4] cholesky(e), lower=true",
        "ROOT r = f32[<=3,4,4] triangular-solve(e, x), left_side=true, lower=true, unit_diagonal=false, "
        "transpose_a=NO_TRANSPOSE",
        "ROOT r = (f32[<=3,4,2], s32[<=3,4,2]) topk(x), k=2, largest=true",
    ],
)
def test_batches_have_sizes(body: str) -> None:
    module = entry(
        "x = f32[<=3,4,4] parameter(0)\n  y = f32[<=3,4,4] parameter(1)\n  c = c64[<=3,4,4] complex(x, y)\n"
        f"  e = f32[<=3,4,4] parameter(2)\n  {body}"
    )
    generator = np.random.default_rng(1)
    for size in (0, 2, 3):
        x, y = generator.standard_normal((2, size, 4, 4)).astype(np.float32)
        given = [x, y, x @ x.transpose(0, 2, 1) + 4 * np.eye(4, dtype=np.float32)]
        for got, want in zip(hlotool.compile(module)(*given), evaluate(module, given), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "body",
    [
        "s = f32[<=4] all-reduce-start(x), to_apply=add\n  ROOT r = f32[<=4] all-reduce-done(s)",
        "s = (f32[<=4], f32[<=4]) all-gather-start(x), dimensions={0}\n  ROOT r = f32[<=4] all-gather-done(s)",
        "s = (f32[<=4], f32[<=4]) collective-permute-start(x), source_target_pairs={{0,0}}\n"
        "  ROOT r = f32[<=4] collective-permute-done(s)",
    ],
)
def test_collectives_of_a_lone_device_in_flight(body: str) -> None:
    module = hlotool.parse(f"{TEXT.split('ENTRY')[0]}ENTRY main {{\n  x = f32[<=4] parameter(0)\n  {body}\n}}\n")
    given = np.array([1, 2, 4], np.float32)
    for backend in ("evaluate", "cpu"):
        (got,) = hlotool.compile(module, backend=backend)(given)
        assert got.tolist() == given.tolist()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("ROOT r = f32[4] negate(x)", "the result has a dimension of dynamic size where f32"),
        ("ROOT r = (f32[4]) tuple(x)", "r: a dimension of dynamic size goes where f32"),
        ("t = (f32[<=4]) tuple(x)\n  ROOT r = (f32[4]) opt-barrier(t)", "r: a value of another dynamic shape goes"),
    ],
)
def test_a_dynamic_size_goes_nowhere_where_none_is_declared(body: str, words: str) -> None:
    module = entry(f"y = f32[<=4] parameter(0)\n  x = f32[<=4] negate(y)\n  {body}")
    with pytest.raises(UnsupportedError, match=words):
        hlotool.compile(module, pipeline="none")


@pytest.mark.parametrize("call", ["fusion(x), kind=kLoop, calls=f", "call(x), to_apply=f"])
@pytest.mark.parametrize("shape", ["f32[4]", "(f32[4], f32[4])"])
def test_a_computation_gives_no_dynamic_size_where_none_is_declared(call: str, shape: str) -> None:
    result = "ROOT t = (f32[4], f32[<=4]) tuple(p, a)" if shape.startswith("(") else "ROOT b = f32[<=4] negate(a)"
    module = hlotool.parse(
        f"f {{\n  p = f32[4] parameter(0)\n  a = f32[<=4] add(p, p)\n  {result}\n}}\n"
        f"ENTRY main {{\n  x = f32[4] parameter(0)\n  ROOT r = {shape} {call}\n}}\n"
    )
    with pytest.raises(UnsupportedError, match=r"r: .* is declared with other dynamic dimensions elsewhere"):
        optimise(module, "dynamic-padder")


@pytest.mark.parametrize(
    "body",
    [
        "x = f32[?,3] parameter(0)\n  ROOT r = f32[?,3] negate(x)",
        "x = f32[0,?] parameter(0)\n  ROOT r = f32[0,?] copy(x)",
        "x = f32[4] parameter(0)\n  y = f32[?] negate(x)\n  ROOT r = f32[4] tanh(x)",
    ],
)
def test_nothing_runs_what_has_no_bound(body: str) -> None:
    module = hlotool.parse(f"ENTRY main {{\n  {body}\n}}\n")
    words = r"[xy]: .* has a dimension without a bound"
    for backend in ("evaluate", "cpu"):
        with pytest.raises(UnsupportedError, match=words):
            hlotool.compile(module, backend=backend)
    if not module.entry.parameters[0].shape.is_static:
        with pytest.raises(UnsupportedError, match=words):
            random_inputs(module, 0)


def test_what_is_in_flight_must_land_first() -> None:
    module = entry(
        "x = f32[<=4] parameter(0)\n  s = (f32[<=4], f32[<=4], u32[]) copy-start(x)\n"
        "  ROOT r = f32[<=4] copy-done(s)"
    )
    with pytest.raises(UnsupportedError, match="s: copy-start of an array of dynamic size: async-to-sync must go"):
        optimise(module, "dynamic-padder")


def test_matrices_dynamic_in_one_dimension() -> None:
    """The factor of the leading block, and zeros where the other dimension goes on."""
    matrix = np.array([[4, 2, 0, 1], [2, 5, 1, 0], [0, 1, 3, 1], [1, 0, 1, 6]], np.float32)
    want = np.zeros((3, 4), np.float32)
    want[:, :3] = np.linalg.cholesky(matrix[:3, :3])
    module = entry("x = f32[<=4,4] parameter(0)\n  ROOT r = f32[<=4,4] cholesky(x), lower=true")
    for backend in ("evaluate", "cpu"):
        (got,) = hlotool.compile(module, backend=backend)(matrix[:3])
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_transform_has_the_length_that_it_states() -> None:
    given = np.array([1, 2j, 3], np.complex64)
    module = entry("x = c64[<=4] parameter(0)\n  ROOT r = c64[<=4] fft(x), fft_type=FFT, fft_length={4}")
    for backend in ("evaluate", "cpu"):
        (got,) = hlotool.compile(module, backend=backend)(given)
        np.testing.assert_allclose(got, np.fft.fft(given, 4), rtol=1e-6, atol=1e-6)


RAGGED = "lhs_contracting_dims={1}, rhs_contracting_dims={CONTRACTED}, lhs_ragged_dims={RAGGED}"


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
def test_ragged_dots_have_the_sizes_of_their_operands(backend: str) -> None:
    """Rows, columns, what is added up and groups: of three groups of two rows each, two have a matrix."""
    numbers = RAGGED.replace("CONTRACTED", "1").replace("RAGGED", "0")
    module = entry(
        "x = f32[<=8,<=4] parameter(0)\n  w = f32[<=3,4,<=5] parameter(1)\n  n = s32[3] parameter(2)\n"
        f"  ROOT r = f32[<=8,<=5] ragged-dot(x, w, n), {numbers}, rhs_group_dims={{0}}"
    )
    left, right = np.arange(18, dtype=np.float32).reshape(6, 3), np.full((2, 4, 2), np.inf, np.float32)
    right[:, :3] = np.arange(12).reshape(2, 3, 2)
    (got,) = hlotool.compile(module, backend=backend)(left, right, np.array([2, 2, 2], np.int32))
    np.testing.assert_array_equal(got[:2], left[:2] @ right[0, :3])
    np.testing.assert_array_equal(got[2:4], left[2:4] @ right[1, :3])
    np.testing.assert_array_equal(got[4:], np.zeros((2, 2)))
    numbers = RAGGED.replace("CONTRACTED", "0").replace("RAGGED", "1")
    module = entry(
        "x = f32[2,<=8] parameter(0)\n  w = f32[8,<=5] parameter(1)\n  n = s32[<=3] parameter(2)\n"
        f"  ROOT r = f32[<=3,2,<=5] ragged-dot(x, w, n), {numbers}"
    )
    left, right = np.arange(12, dtype=np.float32).reshape(2, 6), np.full((8, 1), np.inf, np.float32)
    right[:6] = 1
    (got,) = hlotool.compile(module, backend=backend)(left, right, np.array([4, 4], np.int32))
    np.testing.assert_array_equal(got, [[[0 + 1 + 2 + 3], [6 + 7 + 8 + 9]], [[4 + 5], [10 + 11]]])


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
def test_scaled_dots_have_the_sizes_of_their_operands(backend: str) -> None:
    """A scale is that of a block of the bounds; the last of them is infinite, and has no element."""
    module = entry(
        "x = f32[<=3,<=8] parameter(0)\n  w = f32[8,<=2] parameter(1)\n  s = f32[1,<=4] parameter(2)\n"
        "  t = f32[] parameter(3)\n"
        "  ROOT r = f32[<=3,<=2] scaled-dot(x, w, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    executable = hlotool.compile(module, backend=backend)
    left, right = np.ones((2, 5), np.float32), np.ones((8, 1), np.float32)
    two = np.array(2, np.float32)
    (got,) = executable(left, right, np.array([[1, 10, 100, np.inf]], np.float32), two)
    assert got.tolist() == [[2 * (2 + 20 + 100)]] * 2
    (got,) = executable(left, right, np.array([[1, 10]], np.float32), two)
    assert got.tolist() == [[2 * (2 + 20)]] * 2


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
@pytest.mark.parametrize(
    "product",
    [
        "f8e8m0fnu[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "f8e8m0fnu[1] ragged-dot(x, y, n), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}",
        "f8e8m0fnu[] scaled-dot(x, y, s, s), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    ],
)
def test_sums_of_a_type_without_zero_add_up_what_there_is(product: str, backend: str) -> None:
    module = entry(
        "x = f8e8m0fnu[<=4] parameter(0)\n  y = f8e8m0fnu[4] parameter(1)\n  n = s32[1] constant({4})\n"
        f"  s = f8e8m0fnu[] constant(1)\n  ROOT r = {product}"
    )
    left, right = (np.exp2(a).astype(dtype_of("f8e8m0fnu")) for a in ([-1.0, -1], [-5.0, -5, 127, 127]))
    (got,) = hlotool.compile(module, backend=backend)(left, right)
    assert got.astype(np.float32) == 2.0**-5


def test_a_custom_call_sees_the_bounds() -> None:
    body = "x = s64[<=4] parameter(0)\n  ROOT r = u32[<=4] custom-call(x), custom_call_target=\"X64SplitLow\""
    for backend in ("evaluate", "cpu"):
        (got,) = hlotool.compile(entry(body), backend=backend)(np.array([5, 6], np.int64))
        assert got.tolist() == [5, 6, 0, 0]


@pytest.mark.parametrize(
    "body",
    [
        "i = s32[<=2] parameter(0)\n  x = f32[3,4] parameter(1)\n"
        "  ROOT r = f32[2,2] dynamic-slice(x, i), dynamic_slice_sizes={2,2}",
        "i = s32[<=2] parameter(0)\n  x = f32[3,4] parameter(1)\n  u = f32[<=2,<=2] parameter(2)\n"
        "  ROOT r = f32[3,4] dynamic-update-slice(x, u, i)",
        "x = f32[<=4,<=3] parameter(0)\n  v = f32[<=3] parameter(1)\n"
        "  ROOT r = (f32[<=4,<=3], f32[<=3], f32[<=3]) batch-norm-training(x, v, v), epsilon=1, feature_index=1",
        "x = f32[<=4] parameter(0)\n  ROOT r = f32[4] custom-call(x), custom_call_target=\"Sharding\"",
        "x = f32[<=4] parameter(0)\n  n = s32[1] parameter(1)\n  o = f32[<=5] parameter(2)\n"
        "  ROOT r = f32[<=5] ragged-all-to-all(x, o, n, n, n, n), replica_groups={{0}}",
        "x = s4[<=8,<=3] parameter(0)\n  t = (s4[<=8,<=3], (s4[<=8,<=3])) tuple(x, (s4[<=8,<=3]) tuple(x))\n"
        "  ROOT r = (s4[<=8,<=3], (s4[<=8,<=3])) copy(t)",
        "x = f32[<=1] parameter(0)\n  ROOT r = f32[] reshape(x)",
    ],
)
def test_any_sizes(body: str) -> None:
    module = entry(body)
    shapes = [p.shape for p in module.entry.parameters]
    choice, generator = Random(2), np.random.default_rng(2)
    compiled = [hlotool.compile(module, pipeline=name) for name in ("default", "none")]
    for _ in range(6):
        given = []
        for shape in shapes:
            sizes = [choice.randint(0, n) if f else n for n, f in zip(shape.dimensions, flags_of(shape), strict=True)]
            given.append(generator.integers(0, 3, sizes).astype(dtype_of(shape.element_type)))
        want = evaluate(module, given)
        for executable in compiled:
            for got, expected in zip(executable(*given), want, strict=True):
                assert got.shape == expected.shape
                assert (distance(got, expected) <= 2).all()


@pytest.mark.parametrize(
    ("kind", "operation", "want"),
    [
        ("f32[<=4]", "all-reduce(x), to_apply=add", [[11, 22], [11, 22]]),
        ("f32[<=8]", "all-gather(x), dimensions={0}", [[1, 2, 3, 10, 20], [1, 2, 3, 10, 20]]),
        ("f32[<=2]", "reduce-scatter(x), dimensions={0}, to_apply=add", [[11, 22], []]),
        ("f32[<=4]", "all-to-all(x), dimensions={0}", [[1, 2, 10, 20], [3]]),
        ("f32[<=4]", "collective-permute(x), source_target_pairs={{0,1}}", [[], [1, 2, 3]]),
        ("f32[<=4]", "collective-broadcast(x), replica_groups={{1,0}}", [[10, 20], [10, 20]]),
    ],
)
def test_sizes_differ_among_devices(kind: str, operation: str, want: list[list[float]]) -> None:
    text = TEXT.split("ENTRY")[0].replace("HloModule m", "HloModule m, replica_count=2")
    module = hlotool.parse(f"{text}ENTRY main {{\n  x = f32[<=4] parameter(0)\n  ROOT r = {kind} {operation}\n}}\n")
    given = [[np.array(values, np.float32)] for values in ([1, 2, 3], [10, 20])]
    for backend in ("evaluate", "cpu"):
        results = hlotool.compile(module, backend=backend).run_devices(given)
        assert [result.tolist() for (result,) in results] == want, backend


def test_only_the_operand_is_of_dynamic_size() -> None:
    text = f"{TEXT.split('ENTRY')[0]}ENTRY main {{\n  x = f32[<=4] parameter(0)\n  z = f32[] constant(0)\n"
    module = hlotool.parse(f"{text}  ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply=add\n}}\n")
    for backend in ("evaluate", "cpu"):
        (got,) = hlotool.compile(module, backend=backend)(np.array([1, 2, 4], np.float32))
        assert got == 7


def test_static_modules_are_left_alone() -> None:
    module = entry("x = f32[4] parameter(0)\n  ROOT r = f32[4] negate(x)")
    assert not run_pipeline(module, parse_pipeline("dynamic-padder,dynamic-entry"))


def entry(body: str) -> Module:
    return hlotool.parse(f"HloModule m\n\nENTRY main {{\n  {body}\n}}\n")


@pytest.mark.parametrize(
    ("source", "target", "parts"),
    [
        ("f32[<=8,4]", "f32[<=32]", [((0, 1), (0,), 0)]),
        ("f32[<=8,4]", "f32[<=8,2,2]", [((0,), (0,), 0), ((1,), (1, 2), None)]),
        ("f32[2,<=12]", "f32[2,3,<=4]", [((0,), (0,), None), ((1,), (1, 2), 2)]),
        ("f32[6,1,1,<=1,1]", "f32[6,1,<=1]", [((0,), (0,), None), ((1,), (1,), None), ((2, 3, 4), (2,), 2)]),
        ("f32[<=8]", "f32[1,8]", [((), (0,), None), ((0,), (1,), 1)]),
        ("f32[<=6]", "f32[3,2]", [((0,), (0, 1), 0)]),
    ],
)
def test_a_reshape_says_which_dimension_takes_up_the_size(
    source: str, target: str, parts: list[tuple[tuple[int, ...], tuple[int, ...], int | None]]
) -> None:
    module = entry(f"x = {source} parameter(0)\n  ROOT r = {target} reshape(x)")
    shape = module.entry.parameters[0].shape
    found = regroups(module.entry.root, [d for d, flag in enumerate(shape.dynamic) if flag])
    assert [(p.inputs, p.outputs, p.free) for p in found] == parts


def test_parts_of_a_reshape_have_equal_products() -> None:
    rng = Random(1)
    for _ in range(300):
        source = [rng.choice((1, 1, 2, 2, 3, 4)) for _ in range(rng.randint(1, 4))]
        rest, target = prod(source), list[int]()
        while rest > 1 or rng.random() < 0.5:
            target.append(rng.choice([n for n in range(1, rest + 1) if rest % n == 0]))
            rest //= target[-1]
        sizes = [",".join(map(str, dims)) for dims in (source, target)]
        module = entry(f"x = f32[{sizes[0]}] parameter(0)\n  ROOT r = f32[{sizes[1]}] reshape(x)")
        parts = regroups(module.entry.root, ())
        assert [d for p in parts for d in p.inputs] == list(range(len(source)))
        assert [d for p in parts for d in p.outputs] == list(range(len(target)))
        for part in parts:
            assert prod(source[d] for d in part.inputs) == prod(target[d] for d in part.outputs)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("ROOT r = (f32[4], s32[], s32[]) custom-call(x), custom_call_target=\"PadToStatic\"", "PadToStatic gives"),
        ("ROOT r = (f32[5], s32[]) custom-call(x), custom_call_target=\"PadToStatic\"", "PadToStatic gives"),
        ("ROOT r = (f32[4], s32[]) custom-call(), custom_call_target=\"PadToStatic\"", "PadToStatic takes 1 operand"),
        ("ROOT r = f32[<=4] custom-call(x), custom_call_target=\"SliceToDynamic\"", "SliceToDynamic takes 2 operands"),
        ("ROOT r = f32[<=4] custom-call(x, x), custom_call_target=\"SliceToDynamic\"", "a size must be s32"),
        ("ROOT r = f32[<=5] custom-call(x, n), custom_call_target=\"SliceToDynamic\"", "SliceToDynamic gives"),
    ],
)
def test_wrong_border_calls_are_refused(body: str, words: str) -> None:
    with pytest.raises(HloError, match=words):
        check(entry(f"x = f32[<=4] parameter(0)\n  n = s32[] parameter(1)\n  {body}"))


def test_a_reshape_that_could_mean_either_is_refused() -> None:
    module = entry("x = f32[<=6] parameter(0)\n  ROOT r = f32[<=2,<=3] reshape(x)")
    for backend in ("evaluate", "cpu"):
        with pytest.raises(UnsupportedError, match=re.escape("r: nothing says which dimension of f32[<=2,<=3]")):
            hlotool.compile(module, backend=backend)(np.zeros(5, np.float32))
