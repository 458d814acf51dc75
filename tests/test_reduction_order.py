"""The order of reductions: where it is open, where it is from the first to the last, and what is known of reducers."""

from __future__ import annotations

from functools import reduce
from random import Random

import numpy as np
import pytest
from semantics.families_reduction import random_expression
from semantics.sample import Sample
from semantics.values import Array, anything

import hlotool
from hlotool.analysis.reducers import choice
from hlotool.evaluate import evaluate
from hlotool.evaluate.combiner import Choice, combiners_of
from hlotool.evaluate.interpreter import Interpreter
from hlotool.evaluate.rounding import widen
from hlotool.ir import Computation, dtype_of, scalar

DIGITS = """f {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ten = s32[] constant(10)
  shifted = s32[] multiply(a, ten)
  ROOT r = s32[] add(shifted, b)
}
"""


def argmax(kind: str, is_nan: str = "compare(v, v), direction=NE") -> str:
    """As JAX writes it: the first of equals, and a NaN before all numbers."""
    return f"""f {{
  v = {kind}[] parameter(0)
  i = s32[] parameter(1)
  w = {kind}[] parameter(2)
  j = s32[] parameter(3)
  greater = pred[] compare(v, w), direction=GT
  nan = pred[] {is_nan}
  better = pred[] or(greater, nan)
  same = pred[] compare(v, w), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, before)
  first = pred[] or(better, tie)
  x = {kind}[] select(better, v, w)
  y = s32[] select(first, i, j)
  ROOT r = ({kind}[], s32[]) tuple(x, y)
}}
"""


def both(text: str, *arguments: Array) -> list[Array]:
    """The outputs of native code, which must be those of the evaluator."""
    module = hlotool.parse(f"HloModule m\n{text}")
    got = hlotool.compile(module)(*arguments)
    for mine, other in zip(got, evaluate(module, arguments), strict=True):
        np.testing.assert_array_equal(mine, other)
    return list(got)


def reducer_of(text: str) -> Computation:
    """The computation in `text`, which must be named f."""
    return hlotool.parse(f"HloModule m\n{text}\nENTRY e {{ ROOT c = s32[] constant(0) }}").computations["f"]


def test_any_reducer_goes_from_the_first_element_to_the_last() -> None:
    x = np.arange(1, 7, dtype=np.int32)
    start = np.int32(9)

    def run(body: str, values: Array) -> Array:
        sizes = ",".join(map(str, values.shape))
        entry = f"ENTRY e {{ p = s32[{sizes}] parameter(0)\n i = s32[] parameter(1)\n ROOT r = {body}, to_apply=f }}"
        return both(DIGITS + entry, values, np.array(start))[0]

    # What XLA's CPU backend gives for the same modules.
    assert run("s32[] reduce(p, i), dimensions={1,0}", x.reshape(2, 3)) == 9123456
    assert run("s32[2] reduce(p, i), dimensions={0}", x.reshape(3, 2)).tolist() == [9135, 9246]
    assert run("s32[4] reduce-window(p, i), window={size=3}", x).tolist() == [9123, 9234, 9345, 9456]
    assert run("s32[4] reduce-window(p, i), window={size=3 rhs_reversal=1}", x).tolist() == [9123, 9234, 9345, 9456]
    early = [91, 912, 9123, 91234, 912345, 9123456]
    assert run("s32[6] reduce-window(p, i), window={size=6 pad=5_0}", x).tolist() == early
    late = [9123456, 923456, 93456, 9456, 956, 96]
    assert run("s32[6] reduce-window(p, i), window={size=6 pad=0_5}", x).tolist() == late
    holes = [912, 92, 923, 93, 934, 94, 945, 95, 956]
    assert run("s32[9] reduce-window(p, i), window={size=3 lhs_dilate=2}", x).tolist() == holes
    assert run("s32[1,2] reduce-window(p, i), window={size=2x2}", x.reshape(2, 3)).tolist() == [[91245, 92356]]


@pytest.mark.parametrize("sizes", [(1, 700), (37, 33), (3, 5001), (40000,)])
def test_long_folds_in_order(sizes: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(-99, 99, sizes).astype(np.int32)
    for dimension in range(len(sizes)):
        kept = ",".join(str(n) for d, n in enumerate(sizes) if d != dimension)
        shape = ",".join(map(str, sizes))
        text = f"""ENTRY e {{ p = s32[{shape}] parameter(0)
          i = s32[] parameter(1)
          ROOT r = s32[{kept}] reduce(p, i), dimensions={{{dimension}}}, to_apply=f }}"""
        module = hlotool.parse(f"HloModule m\n{DIGITS}{text}")
        (got,) = hlotool.compile(module)(values, np.array(7, np.int32))
        lines = np.moveaxis(values, dimension, 0).reshape(sizes[dimension], -1).astype(np.uint32)
        want = reduce(lambda a, b: a * np.uint32(10) + b, lines, np.full(lines.shape[1:], 7, np.uint32))
        np.testing.assert_array_equal(got.reshape(-1).view(np.uint32), want)


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 70000), (5, 1001), (300, 17), (2, 3)])
def test_argmax_finds_the_first_nan(kind: str, rows: int, columns: int) -> None:
    generator = np.random.default_rng(columns)
    values = generator.integers(-5, 5, (rows, columns)).astype(dtype_of(kind))
    values[generator.random((rows, columns)) < 3 / columns] = np.nan
    text = f"""{argmax(kind)}
ENTRY e {{
  p = {kind}[{rows},{columns}] parameter(0)
  q = s32[{rows},{columns}] iota(), iota_dimension=1
  i = {kind}[] constant(-inf)
  z = s32[] constant(0)
  ROOT r = ({kind}[{rows}], s32[{rows}]) reduce(p, q, i, z), dimensions={{1}}, to_apply=f
}}"""
    module = hlotool.parse(f"HloModule m\n{text}")
    _, places = hlotool.compile(module)(values)
    np.testing.assert_array_equal(places, np.argmax(values.astype(np.float64), axis=1))


def test_what_is_known_of_reducers() -> None:
    assert choice(reducer_of(argmax("s32"))) == Choice(True, (0, 1))
    assert choice(reducer_of(argmax("f32"))) == Choice(False, (1,))
    assert choice(reducer_of(DIGITS)) is None
    second = "f {\n a = c64[] parameter(0)\n ROOT b = c64[] parameter(1)\n}\n"
    assert choice(reducer_of(second)) == Choice(False, ())
    # Not associative: the smaller of two, but never a zero's neighbour.
    worse = "f {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n p = pred[] compare(a, b), direction=NE\n"
    assert choice(reducer_of(worse + " ROOT r = f32[] select(p, b, a)\n}\n")) == Choice(False, ())
    implies = "f {\n a = pred[] parameter(0)\n b = pred[] parameter(1)\n n = pred[] not(a)\n"
    assert choice(reducer_of(implies + " ROOT r = pred[] or(n, b)\n}\n")) is None


@pytest.mark.parametrize("seed", range(200))
def test_choices_hold_for_any_values(seed: int) -> None:
    """What `choice_of` proves on a few values, tried on others."""
    sample = Sample(Random(seed))
    kinds = sample.rng.choice((["f32"], ["s8"], ["f32", "s32"], ["pred", "u8"], ["bf16", "s32"]))

    def body(b, parameters):  # type: ignore[no-untyped-def]
        def chosen(number: int, depth: int = 3):  # type: ignore[no-untyped-def]
            pair = parameters[number], parameters[number + len(kinds)]
            if depth == 0 or sample.rng.random() < 0.2:
                return sample.rng.choice(pair)
            other = sample.rng.randrange(len(kinds))
            sides = parameters[other], parameters[other + len(kinds)]
            direction = sample.rng.choice(("LT", "LE", "GT", "GE", "EQ", "NE"))
            return b.select(b.compare(*sides, direction), chosen(number, depth - 1), chosen(number, depth - 1))

        roots = [chosen(number) for number in range(len(kinds))]
        return roots[0] if len(roots) == 1 else b.tuple(roots)

    computation = sample.computation([scalar(kind) for kind in (*kinds, *kinds)], body)
    known = choice(computation)
    if known is None:
        return
    generator = np.random.default_rng(seed)
    a, b, c = ([anything(generator, kind, (400,)) for kind in kinds] for _ in range(3))

    def join(left: list[Array], right: list[Array]) -> list[Array]:
        return list(Interpreter(None, None).map(computation, [*left, *right]))

    def same(left: list[Array], right: list[Array]) -> None:
        for x, y in zip(left, right, strict=True):
            np.testing.assert_array_equal(widen(x), widen(y))

    same(join(join(a, b), c), join(a, join(b, c)))
    same(join(a, a), a)
    if known.commutes:
        same(join(a, b), join(b, a))


def test_sums_and_products_of_narrow_floats_round_once() -> None:
    values = np.full(1000, 1 + 2**-7).astype(dtype_of("bf16"))
    add = "f {\n a = bf16[] parameter(0)\n b = bf16[] parameter(1)\n ROOT r = bf16[] add(a, b)\n}\n"
    assert combiners_of(reducer_of(add)) is not None
    entry = "ENTRY e { p = bf16[1000] parameter(0)\n i = bf16[] constant(0)\n ROOT r = bf16[] reduce(p, i), "
    (once,) = both(add + entry + "dimensions={0}, to_apply=f }", values)
    assert once == np.array(1000 * (1 + 2**-7)).astype(once.dtype)
    # The same with something in between is called for every element, and rounds every time.
    both_ways = """f {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  s = bf16[] add(a, b)
  p = pred[] compare(a, b), direction=EQ
  z = bf16[] constant(0)
  ROOT r = bf16[] select(p, z, s)
}
"""
    (each,) = both(both_ways + entry + "dimensions={0}, to_apply=f }", values)
    total = 0.0
    for value in values:
        total = 0.0 if total == value else float(np.array(total + float(value)).astype(values.dtype))
    assert float(each) == total


@pytest.mark.parametrize("length", [2, 13, 100, 1000, 4097])
@pytest.mark.parametrize("seed", range(6))
def test_a_comparator_that_is_no_ordering_gives_a_permutation(length: int, seed: int) -> None:
    """Nothing is promised but that nothing is lost or made up, by native code and by the evaluator."""
    sample = Sample(Random(f"{length} {seed}"))
    kinds = sample.rng.choice((["s32"], ["f32", "s32"], ["f64", "pred", "s32"], ["bf16", "c64", "u8", "f16", "s32"]))

    def body(b, parameters):  # type: ignore[no-untyped-def]
        return random_expression(sample.rng, b, parameters, "pred", 3)

    computation = sample.computation([scalar(kind) for kind in kinds for _ in (0, 1)], body)
    operands = [sample.operand(kind, (length,)) for kind in kinds]
    attributes = {"dimensions": (0,), "is_stable": False, "to_apply": computation}
    sample.results.append(sample.builder.add("sort", None, operands, attributes))
    module = sample.finish()
    arguments = sample.arguments(np.random.default_rng(seed))
    arguments[-1] = np.random.default_rng(seed).permutation(length).astype(np.int32)
    for results in (hlotool.compile(module)(*arguments), evaluate(module, arguments)):
        order = np.argsort(arguments[-1])[results[-1]]
        np.testing.assert_array_equal(np.sort(order), np.arange(length))
        for result, argument in zip(results, arguments, strict=True):
            assert result.tobytes() == argument[order].tobytes()


@pytest.mark.parametrize("direction", ["LT", "GT", "LE", "GE", "EQ", "NE"])
@pytest.mark.parametrize("kind", ["f8e4m3fn", "bf16", "f16", "f32", "f64"])
def test_nans_among_plain_comparisons_lose_nothing(kind: str, direction: str) -> None:
    text = f"""f {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction={direction}
}}
ENTRY e {{
  p = {kind}[3000] parameter(0)
  q = s32[3000] iota(), iota_dimension=0
  ROOT r = ({kind}[3000], s32[3000]) sort(p, q), dimensions={{0}}, to_apply=f
}}"""
    module = hlotool.parse(f"HloModule m\n{text}")
    values = anything(np.random.default_rng(0), kind, (3000,))
    for result, order in (hlotool.compile(module)(values), evaluate(module, [values])):
        np.testing.assert_array_equal(np.sort(order), np.arange(3000))
        assert result.tobytes() == values[order].tobytes()


def test_reduction_over_nothing() -> None:
    """A reduce of no dimensions combines every element with the initial value."""
    text = """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[3,5] parameter(0)
  two = f32[] constant(2)
  ROOT r = f32[3,5] reduce(x, two), dimensions={}, to_apply=add
}"""
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    (got,) = hlotool.compile(hlotool.parse(text), pipeline="none")(x)
    np.testing.assert_array_equal(got, x + 2)
