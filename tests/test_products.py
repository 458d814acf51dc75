"""Products of all kinds: native code against the evaluator, the evaluator against formulas and against XLA."""

from __future__ import annotations

import re
from itertools import product
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import semantics.families_contraction  # registers the families
from semantics.check import Setting, draw, run_cells
from semantics.sample import CLASSES, FAMILIES, class_of
from semantics.values import Array
from semantics.xla_oracle import missing, run_xla
from test_gemm import MACHINES

from hlotool.analysis.contraction import sum_type
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare
from hlotool.ir import ELEMENT_TYPES, Module, UnsupportedError, VerificationError
from hlotool.ir.dot_algorithms import ALGORITHMS
from hlotool.ir.opcodes import DOT_ALGORITHMS
from hlotool.ir.verifier import check
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

assert semantics.families_contraction
OPCODES = ("dot", "scaled-dot", "ragged-dot", "convolution")


@pytest.mark.parametrize(
    ("opcode", "kind"), [(opcode, kind) for opcode in OPCODES for kind in FAMILIES[opcode][0].types], ids=str
)
def test_all_element_types(opcode: str, kind: str) -> None:
    failure = run_cells([(FAMILIES[opcode][0], kind)] * 2, 7, rounds=2)
    assert failure is None, str(failure)


@pytest.mark.parametrize("machine", MACHINES[1:], ids=lambda machine: f"{machine.vector_bits}")
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("opcode", ["dot", "convolution"])
def test_other_machines(machine: Any, name: str, opcode: str) -> None:
    for seed in (3, 4):
        kind = Random(f"{name} {opcode} {seed}").choice(CLASSES[name])
        failure = run_cells([(FAMILIES[opcode][0], kind)] * 2, seed, rounds=2, setting=Setting(machine))
        assert failure is None, str(failure)


def module(body: str) -> Module:
    return parse(f"HloModule m\nENTRY e {{\n{body}\n}}")


def both(body: str, *arguments: Array) -> tuple[Array, Array]:
    """What native code and the evaluator give."""
    made = module(body)
    return compile_module(made)(*arguments)[0], evaluate(made, arguments)[0]


# ---- independent formulas


def small(generator: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    return generator.integers(-3, 4, sizes).astype(np.float32)


@pytest.mark.parametrize("seed", range(40))
def test_dots_by_einsum(seed: int) -> None:
    sample = draw([(0, (FAMILIES["dot"][0], "f32"))], seed)
    dot = next(i for i in sample.module.entry if i.opcode == "dot")
    generator = np.random.default_rng(seed)
    left, right = (small(generator, o.shape.dimensions) for o in dot.operands)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    attributes = dot.attributes
    names: tuple[list[str], list[str]] = ([""] * left.ndim, [""] * right.ndim)
    for sort in ("batch", "contracting"):
        pairs = zip(attributes.get(f"lhs_{sort}_dims", ()), attributes.get(f"rhs_{sort}_dims", ()), strict=True)
        for a, b in pairs:
            names[0][a] = names[1][b] = next(letters)
    batch = [names[0][d] for d in attributes.get("lhs_batch_dims", ())]
    free = []
    for side in names:
        for d, name in enumerate(side):
            if not name:
                side[d] = next(letters)
                free.append(side[d])
    formula = f"{''.join(names[0])},{''.join(names[1])}->{''.join([*batch, *free])}"
    numbers = ", ".join(
        f"{name}={{{','.join(map(str, dims))}}}" for name, dims in attributes.items() if name.endswith("_dims")
    )
    shapes = [f"f32[{','.join(map(str, sizes))}]" for sizes in (left.shape, right.shape, dot.shape.dimensions)]
    body = f"p = {shapes[0]} parameter(0)\nq = {shapes[1]} parameter(1)\nROOT r = {shapes[2]} dot(p, q), {numbers}"
    native, evaluated = both(body, left, right)
    want = np.einsum(formula, left.astype(np.float64), right.astype(np.float64))
    np.testing.assert_array_equal(native, want)
    np.testing.assert_array_equal(evaluated, want)


def convolve(left: Array, right: Array, window: list[tuple[int, ...]], groups: int, batch_groups: int) -> Array:
    """[batch, feature, spatial...] by [output, input, spatial...], one product of numbers after the other.

    `window` has (stride, low, high, base dilation, window dilation, reversal) for each dimension.
    """
    counts = [
        max(0, ((n - 1) * base + 1 if n else 0) + low + high - (size - 1) * dilation - 1 + stride) // stride
        for n, size, (stride, low, high, base, dilation, _) in zip(left.shape[2:], right.shape[2:], window, strict=True)
    ]
    images, outputs = left.shape[0] // batch_groups, right.shape[0]
    result = np.zeros((images, outputs, *counts))
    for image, output in product(range(images), range(outputs)):
        part = output * batch_groups // outputs
        first = output * groups // outputs * right.shape[1]
        for pixel in product(*map(range, counts)):
            for tap in product(*map(range, right.shape[2:])):
                places = []
                for at, (n, (stride, low, _, base, dilation, reversal)) in enumerate(
                    zip(left.shape[2:], window, strict=True)
                ):
                    step = right.shape[2 + at] - 1 - tap[at] if reversal else tap[at]
                    place, hole = divmod(pixel[at] * stride + step * dilation - low, base)
                    places.append(place if hole == 0 and 0 <= place < n else -1)
                if min(places, default=0) >= 0:
                    features = left[(part * images + image, slice(first, first + right.shape[1]), *places)]
                    result[(image, output, *pixel)] += features @ right[(output, slice(None), *tap)]
    return result


@pytest.mark.parametrize("seed", range(40))
def test_convolutions_by_definition(seed: int) -> None:
    rng, generator = Random(seed), np.random.default_rng(seed)
    rank = rng.choice((0, 1, 2, 2, 3))
    groups, batch_groups = rng.choice(((1, 1), (1, 1), (3, 1), (1, 2)))
    sizes, kernel = ([rng.randint(1, most) for _ in range(rank)] for most in (5, 3))
    left = small(generator, (2 * batch_groups, 2 * groups, *sizes))
    right = small(generator, (2 * groups * batch_groups, 2, *kernel))
    window = [
        (rng.randint(1, 3), rng.randint(-2, 3), rng.randint(-2, 3), rng.randint(1, 3), rng.randint(1, 2),
         rng.randint(0, 1)) for _ in range(rank)
    ]  # fmt: skip
    want = convolve(left.astype(np.float64), right.astype(np.float64), window, groups, batch_groups)
    digits = "".join(map(str, range(rank)))
    columns = list(zip(*window, strict=True))
    keys = ("stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")
    texts = ["x".join(map(str, kernel))]
    if rank:
        pads = "x".join(f"{low}_{high}" for _, low, high, *_ in window)
        rows = [columns[0], (), columns[3], columns[4], columns[5]]
        texts = [f"size={texts[0]}"] + [
            f"{key}={pads if key == 'pad' else 'x'.join(map(str, row))}" for key, row in zip(keys, rows, strict=True)
        ]
    shapes = [f"f32[{','.join(map(str, a.shape))}]" for a in (left, right, want)]
    body = (
        f"p = {shapes[0]} parameter(0)\nq = {shapes[1]} parameter(1)\nROOT r = {shapes[2]} convolution(p, q), "
        f"dim_labels=bf{digits}_oi{digits}->bf{digits}, window={{{' '.join(texts)}}}, feature_group_count={groups}, "
        f"batch_group_count={batch_groups}"
    )
    native, evaluated = both(body, left, right)
    np.testing.assert_array_equal(native, want)
    np.testing.assert_array_equal(evaluated, want)


@pytest.mark.parametrize(
    "result",
    [
        "f8e8m0fnu[2,1] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "f8e8m0fnu[2,1] ragged-dot(p, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
        "rhs_group_dims={0}",
        "f8e8m0fnu[1,2,1] ragged-dot(p, q, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}",
        "f8e8m0fnu[2,1] scaled-dot(p, q, s, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "f8e8m0fnu[2,1] convolution(p, q), dim_labels=bf_io->bf",
    ],
)
def test_products_that_underflow_in_a_type_without_zero(result: str) -> None:
    """What f32 takes for zero is NaN, all else below the least number is the least number."""
    body = f"""p = f8e8m0fnu[2,2] parameter(0)
 q = f8e8m0fnu[2,1] parameter(1)
 w = f8e8m0fnu[1,2,1] reshape(q)
 g = s32[1] constant({{2}})
 s = f8e8m0fnu[] constant(1)
 ROOT r = {result}"""
    left = np.exp2([[-127.0, -126], [-70, -75]]).astype(ml_dtypes.float8_e8m0fnu)
    right = np.exp2([[-127.0], [-76]]).astype(ml_dtypes.float8_e8m0fnu)
    for got in both(body, left, right):
        assert np.isnan(got.reshape(-1).astype(np.float32)).tolist() == [True, True]
    for got in both(body, left, np.exp2([[-127.0], [-70]]).astype(ml_dtypes.float8_e8m0fnu)):
        values = got.reshape(-1).astype(np.float32)
        assert np.isnan(values[0])
        assert values[1] == 2.0**-127


# ---- ragged and scaled dots


def test_group_sizes_that_do_not_add_up() -> None:
    left, right = small(np.random.default_rng(0), (6, 3)), small(np.random.default_rng(1), (3, 3, 2))
    body = """p = f32[6,3] parameter(0)
 q = f32[3,3,2] parameter(1)
 g = s8[3] parameter(2)
 ROOT r = f32[6,2] ragged-dot(p, q, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0},
    rhs_group_dims={0}"""
    for sizes in ((2, 2, 2), (1, 0, 2), (5, 100, 100), (4, -2, 3), (-3, 4, 2), (0, 0, 0)):
        want = np.zeros((6, 2), np.float32)
        for group, size in enumerate(sizes):
            start = sum(sizes[:group])
            for row in range(max(0, start), min(6, start + size)):
                want[row] += left[row] @ right[group]
        for got in both(body, left, right, np.array(sizes, np.int8)):
            np.testing.assert_array_equal(got, want, str(sizes))


def test_group_sizes_for_each_batch() -> None:
    left, right = small(np.random.default_rng(0), (2, 6, 3)), small(np.random.default_rng(1), (2, 2, 3, 2))
    body = """p = f32[2,6,3] parameter(0)
 q = f32[2,2,3,2] parameter(1)
 g = s32[2,2] parameter(2)
 ROOT r = f32[2,6,2] ragged-dot(p, q, g), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={1}"""
    sizes = np.array([[1, 4], [3, 3]], np.int32)
    want = np.zeros((2, 6, 2), np.float32)
    for batch in range(2):
        first, second = sizes[batch]
        want[batch, :first] = left[batch, :first] @ right[batch, 0]
        want[batch, first : first + second] = left[batch, first : first + second] @ right[batch, 1]
    for got in both(body, left, right, sizes):
        np.testing.assert_array_equal(got, want)


def test_scaled_dot_of_eight_bits() -> None:
    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal(s).astype(ml_dtypes.float8_e4m3fn) for s in ((4, 64), (64, 5)))
    scales = [np.exp2(generator.integers(-9, 9, s)).astype(ml_dtypes.float8_e8m0fnu) for s in ((4, 2), (1, 5))]
    body = """p = f8e4m3fn[4,64] parameter(0)
 q = f8e4m3fn[64,5] parameter(1)
 s = f8e8m0fnu[4,2] parameter(2)
 t = f8e8m0fnu[1,5] parameter(3)
 ROOT r = f32[4,5] scaled-dot(p, q, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    wide = [a.astype(np.float64) for a in (left, right, *scales)]
    want = (wide[0] * wide[2].repeat(32, axis=1)) @ (wide[1] * wide[3])
    for got in both(body, left, right, *scales):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-3)


# ---- algorithms


LOST = {  # the largest relative error of one product that an algorithm allows, in units of the product
    "dot_f16_f16_f16": 2**-9, "dot_f16_f16_f32": 2**-10, "dot_bf16_bf16_bf16": 2**-6, "dot_bf16_bf16_f32": 2**-7,
    "dot_bf16_bf16_f32_x3": 2**-14, "dot_bf16_bf16_f32_x6": 2**-21, "dot_bf16_bf16_f32_x9": 2**-21,
    "dot_tf32_tf32_f32": 2**-9, "dot_tf32_tf32_f32_x3": 2**-19, "dot_f32_f32_f32": 2**-21,
    "dot_f64_f64_f64": 2**-22, "dot_any_f8_any_f8_f32": 2**-21, "dot_any_f8_any_f8_f32_fast_accum": 2**-21,
}  # fmt: skip


def test_every_algorithm_has_a_meaning() -> None:
    assert set(ALGORITHMS) == set(DOT_ALGORITHMS) == set(LOST)
    counts = {name: len(algorithm.pairs) for name, algorithm in ALGORITHMS.items()}
    assert {name: count for name, count in counts.items() if count > 1} == {
        "dot_bf16_bf16_f32_x3": 3, "dot_bf16_bf16_f32_x6": 6, "dot_bf16_bf16_f32_x9": 9, "dot_tf32_tf32_f32_x3": 3,
    }  # fmt: skip


@pytest.mark.parametrize("name", DOT_ALGORITHMS)
def test_algorithms_lose_what_they_may(name: str) -> None:
    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal(s).astype(np.float32) for s in ((9, 40), (40, 11)))
    body = f"""p = f32[9,40] parameter(0)
 q = f32[40,11] parameter(1)
 ROOT r = f32[9,11] dot(p, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, algorithm={name}"""
    exact = left.astype(np.float64) @ right.astype(np.float64)
    size = np.abs(left).astype(np.float64) @ np.abs(right).astype(np.float64)
    native, evaluated = both(body, left, right)
    for got in (native, evaluated):
        assert (np.abs(got - exact) <= LOST[name] * size).all()
    algorithm = ALGORITHMS[name]
    if algorithm.parts == 1 and algorithm.operand in ("f16", "bf16", "tf32"):  # native code rounds as well
        assert (np.abs(native - exact)).max() > 2**-16
        assert compare(native, evaluated).ok
    if algorithm.parts > 1:  # no product may be left out that the algorithm keeps
        assert (np.abs(evaluated - exact) / size).max() < 2**-15


# ---- the verifier


@pytest.mark.parametrize(("attributes", "shapes", "message"), [
    ("window={size=0}, dim_labels=b0f_0io->b0f", "f32[3,7,4] f32[0,4,5] f32[3,8,5]", "window cannot be empty"),
    ("window={size=2}, dim_labels=b0f_0io->b0f, feature_group_count=2, batch_group_count=2",
     "f32[4,7,4] f32[2,2,4] f32[2,6,4]", "in groups"),
    ("window={size=2}, dim_labels=b0f_0io->b0f", "bf16[3,7,4] f16[2,4,5] f32[3,6,5]", "neither of bf16 and f16"),
    ("window={size=2}, dim_labels=b0f?_0io?->b0f?", "f32[3,7,4,1] f32[2,4,5,1] f32[3,6,5,1]", "unknown dimensions"),
])  # fmt: skip
def test_convolutions_that_are_refused(attributes: str, shapes: str, message: str) -> None:
    left, right, result = shapes.split()
    body = f"p = {left} parameter(0)\nq = {right} parameter(1)\nROOT r = {result} convolution(p, q), {attributes}"
    with pytest.raises(VerificationError) as caught:
        check(module(body))
    assert any(re.search(message, found.message) for found in caught.value.diagnostics)


@pytest.mark.parametrize(("attributes", "shapes", "message"), [
    ("lhs_ragged_dims={0}, rhs_group_dims={0}", "f32[11,5] f32[3,5,7] f32[3] f32[11,7]", "are integers"),
    ("lhs_ragged_dims={0}, rhs_group_dims={0}", "f32[11,5] f32[3,5,7] s32[4] f32[11,7]", "4 groups"),
    ("lhs_ragged_dims={0}, rhs_group_dims={0}", "f32[11,5] f32[3,5,7] s32[1,3] f32[11,7]", "group sizes are"),
    ("lhs_ragged_dims={1}, rhs_group_dims={0}", "f32[11,5] f32[3,5,7] s32[3] f32[3,11,3,7]", "no group dimension"),
])  # fmt: skip
def test_ragged_dots_that_are_refused(attributes: str, shapes: str, message: str) -> None:
    left, right, groups, result = shapes.split()
    body = (
        f"p = {left} parameter(0)\nq = {right} parameter(1)\ng = {groups} parameter(2)\n"
        f"ROOT r = {result} ragged-dot(p, q, g), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}, {attributes}"
    )
    with pytest.raises(VerificationError, match=message):
        check(module(body))


def test_scales_that_are_refused() -> None:
    for scale, message in (("f32[3,32]", "into blocks"), ("f32[8]", "into blocks"), ("s32[8,1]", "floats")):
        body = f"""p = f32[8,32] parameter(0)
 q = f32[32,5] parameter(1)
 s = {scale} parameter(2)
 t = f32[] parameter(3)
 ROOT r = f32[8,5] scaled-dot(p, q, s, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
        with pytest.raises(VerificationError, match=message):
            check(module(body))


def test_sums_hold_what_is_asked_for() -> None:
    names = [name for name, row in ELEMENT_TYPES.items() if row.is_array]
    for left, right, result in product(names, names, names):
        total = ELEMENT_TYPES[sum_type(left, right, result)]
        for name in (left, right):
            row = ELEMENT_TYPES[name]
            assert total.is_complex or not row.is_complex
            assert total.is_float or total.is_complex or not row.is_float
            assert not (row.is_float and row.bits > total.bits)
        assert sum_type(left, right, result) == sum_type(right, left, result)


# ---- XLA


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("opcode", ["dot", "convolution"])
def test_against_xla(opcode: str) -> None:
    """What XLA takes, and does in more than eight bits; s1 is pred to the dialect in which it gets its modules."""
    jobs, modules = [], []
    for kind in FAMILIES[opcode][0].types:
        if class_of(kind) == "narrow" or kind in ("s1", "u1"):
            continue
        for seed in (0, 1):
            sample = draw([(0, (FAMILIES[opcode][0], kind))], seed)
            text = print_module(sample.module)
            if all(word not in text for word in ("s1[", "f8e", "f4e", "algorithm")):
                jobs.append((text, sample.arguments(np.random.default_rng(seed))))
                modules.append(sample.module)
    compared = 0
    for (text, arguments), made, answer in zip(jobs, modules, run_xla(jobs), strict=True):
        if isinstance(answer, UnsupportedError):
            continue
        for got, want in zip(answer, evaluate(made, arguments), strict=True):
            comparison = compare(np.asarray(got).astype(want.dtype), want)
            assert comparison.ok, f"{comparison}\n{text}"
            compared += 1
    assert compared > len(jobs) // 2
