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
from hlotool.ir import HloError, InputError, Module, UnsupportedError
from hlotool.ir.dynamic import regroups
from hlotool.ir.verifier import check
from hlotool.passes.manager import run_pipeline
from hlotool.passes.pipeline import parse_pipeline
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
    given = sample.arguments(np.random.default_rng(5))
    for got, want in zip(evaluate(after, given), evaluate(before, given), strict=True):
        assert got.shape == want.shape
        assert not distance(got, want).any()


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
    ("kind", "operation", "message"),
    [
        ("c64[<=4]", "fft(c), fft_type=FFT, fft_length={4}", "r: fft along a dimension of dynamic size"),
        ("f32[<=4,4]", "triangular-solve(y, z), left_side=true, lower=true, unit_diagonal=false, "
         "transpose_a=NO_TRANSPOSE", "r: triangular-solve where not all dimensions"),
        ("f32[1,4,2]", "convolution(b, k), window={size=1}, dim_labels=b0f_0io->b0f, feature_group_count=2",
         "r: a convolution with a window or groups of dynamic size"),
        ("f32[<=4,4]", "collective-permute(z), source_target_pairs={}", "r: collective-permute of an array of dynamic"),
    ],
)  # fmt: skip
def test_what_stays_unsupported_is_named(kind: str, operation: str, message: str) -> None:
    module = entry(
        "c = c64[<=4] parameter(0)\n  y = f32[4,4] parameter(1)\n  z = f32[<=4,4] parameter(2)\n"
        "  b = f32[1,4,<=2] parameter(3)\n  k = f32[1,1,2] parameter(4)\n"
        f"  ROOT r = {kind} {operation}"
    )
    shapes = [(3,), (4, 4), (3, 4), (1, 4, 1), (1, 1, 2)]
    given = [np.zeros(n, np.complex64 if n == (3,) else np.float32) for n in shapes]
    for backend in ("evaluate", "cpu"):
        with pytest.raises(UnsupportedError, match=message):
            hlotool.compile(module, backend=backend)(*given)


def test_what_cannot_be_padded_is_named() -> None:
    module = entry("x = f32[<=4,4] parameter(0)\n  ROOT r = f32[<=4,4] cholesky(x), lower=true")
    for backend in ("evaluate", "cpu"):
        with pytest.raises(UnsupportedError, match="r: cholesky of a matrix of which only one dimension"):
            hlotool.compile(module, backend=backend)(np.eye(3, 4, dtype=np.float32))


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
        ("ROOT r = f32[4] custom-call(), custom_call_target=\"PadToStatic\"", "PadToStatic takes 1 operand"),
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
