"""The evaluator's reductions and windows against loops over their definitions."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from hlotool.evaluate import evaluate
from hlotool.ir import WindowDimension
from hlotool.text.parser import parse

ADD = "{op} {{\n x = {t}[] parameter(0)\n y = {t}[] parameter(1)\n ROOT z = {t}[] {op}(x, y)\n}}\n"
# An addition that is not recognised as one, so that it goes the general way.
SLOW_ADD = """slow {
 x = f32[] parameter(0)
 y = f32[] parameter(1)
 n = f32[] negate(y)
 ROOT z = f32[] subtract(x, n)
}
"""

KEEPS = """keeps {
 a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = pred[] compare(a, b), direction=GE
}
"""


def run(before, body, *arguments):
    return evaluate(parse(f"HloModule m\n{before}\nENTRY e {{\n{body}\n}}"), [np.asarray(a) for a in arguments])


def normal(*sizes):
    return np.random.default_rng(0).standard_normal(sizes).astype(np.float32)


@pytest.mark.parametrize(
    ("op", "function"), [("add", np.sum), ("multiply", np.prod), ("maximum", np.max), ("minimum", np.min)]
)
def test_one_opcode_reducers(op, function):
    array = normal(3, 4, 5)
    body = f"""p = f32[3,4,5] parameter(0)
 i = f32[] constant(1)
 ROOT r = f32[4] reduce(p, i), dimensions={{2,0}}, to_apply={op}"""
    (value,) = run(ADD.format(op=op, t="f32"), body, array)
    with_initial = np.concatenate([array.transpose(1, 0, 2).reshape(4, 15), np.ones((4, 1))], axis=1)
    np.testing.assert_allclose(value, function(with_initial, axis=1), rtol=1e-6)


def test_sums_keep_their_accuracy_and_their_type():
    body = """p = bf16[4096] parameter(0)
 i = bf16[] constant(0)
 ROOT r = bf16[] reduce(p, i), dimensions={0}, to_apply=add"""
    (value,) = run(ADD.format(op="add", t="bf16"), body, np.ones(4096, ml_dtypes.bfloat16))
    assert value.astype(float) == 4096
    body = "p = s8[3] parameter(0)\n i = s8[] constant(0)\n ROOT r = s8[] reduce(p, i), dimensions={0}, to_apply=add"
    assert run(ADD.format(op="add", t="s8"), body, np.array([100, 100, 100], np.int8))[0] == 44


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8])
def test_general_reducer_enters_the_initial_value_once(length):
    body = f"""p = f32[{length}] parameter(0)
 i = f32[] constant(10)
 ROOT r = f32[] reduce(p, i), dimensions={{0}}, to_apply=slow"""
    assert run(SLOW_ADD, body, np.arange(length, dtype=np.float32))[0] == 10 + length * (length - 1) // 2


def test_empty_reductions_give_the_initial_value():
    for before, name in ((ADD.format(op="maximum", t="f32"), "maximum"), (SLOW_ADD, "slow")):
        body = f"""p = f32[2,0] parameter(0)
 i = f32[] constant(5)
 ROOT r = f32[2] reduce(p, i), dimensions={{1}}, to_apply={name}"""
        assert run(before, body, np.zeros((2, 0), np.float32))[0].tolist() == [5, 5]


def test_reduction_of_pairs_keeps_order():
    """An associative reducer that does not commute: the later pair wins where its flag is set."""
    before = """last {
 v = f32[] parameter(0)
 s = pred[] parameter(1)
 w = f32[] parameter(2)
 t = pred[] parameter(3)
 x = f32[] select(t, w, v)
 y = pred[] or(s, t)
 ROOT z = (f32[], pred[]) tuple(x, y)
}
"""
    body = """p = f32[9] parameter(0)
 q = pred[9] parameter(1)
 i = f32[] constant(-1)
 f = pred[] constant(false)
 ROOT r = (f32[], pred[]) reduce(p, q, i, f), dimensions={0}, to_apply=last"""
    flags = np.array([1, 0, 1, 0, 0, 1, 0, 0, 0], bool)
    value, found = run(before, body, np.arange(9, dtype=np.float32), flags)
    assert (value, found) == (5, True)
    value, found = run(before, body, np.arange(9, dtype=np.float32), np.zeros(9, bool))
    assert (value, found) == (-1, False)


def test_a_reducer_with_a_loop_goes_element_by_element():
    before = """condition {
 s = (f32[], s32[]) parameter(0)
 n = s32[] get-tuple-element(s), index=1
 z = s32[] constant(0)
 ROOT c = pred[] compare(n, z), direction=GT
}
body {
 s = (f32[], s32[]) parameter(0)
 v = f32[] get-tuple-element(s), index=0
 n = s32[] get-tuple-element(s), index=1
 one = s32[] constant(1)
 m = s32[] subtract(n, one)
 two = f32[] constant(2)
 w = f32[] multiply(v, two)
 ROOT t = (f32[], s32[]) tuple(w, m)
}
shifted {
 x = f32[] parameter(0)
 n = s32[] parameter(1)
 t = (f32[], s32[]) tuple(x, n)
 w = (f32[], s32[]) while(t), condition=condition, body=body
 ROOT v = f32[] get-tuple-element(w), index=0
}
"""
    body = """p = f32[4] parameter(0)
 q = s32[4] parameter(1)
 ROOT r = f32[4] map(p, q), dimensions={0}, to_apply=shifted"""
    (value,) = run(before, body, np.array([1, 2, 3, 4], np.float32), np.array([0, 3, 1, 2], np.int32))
    assert value.tolist() == [1, 16, 6, 16]


WINDOWS = [
    "size=2x3 stride=1x2",
    "size=3x4 stride=2x3 pad=1_2x2_0",
    "size=3x4 rhs_dilate=2x2",
    "size=3x2 lhs_dilate=2x3 pad=1_1x0_2",
    "size=7x8 pad=6_0x0_7",
    "size=3x4 pad=-1_2x2_-1",
]


def dimensions_of(text):
    fields = dict(part.split("=") for part in text.split())

    def pair(name, default):
        return fields.get(name, f"{default}x{default}").split("x")

    pads = [tuple(map(int, p.split("_"))) for p in pair("pad", "0_0")]
    rows = zip(pair("size", 1), pair("stride", 1), pads, pair("lhs_dilate", 1), pair("rhs_dilate", 1), strict=True)
    return [WindowDimension(int(s), int(t), *p, int(b), int(w)) for s, t, p, b, w in rows]


def elements(array, window, place):
    """(index, value) of the elements of the window at `place`, row by row; padding and holes left out."""
    for offset in product(*(range(d.size) for d in window)):
        index = []
        for i, o, d, size in zip(place, offset, window, array.shape, strict=True):
            position = i * d.stride + o * d.window_dilation - d.padding_low
            if position % d.base_dilation or not 0 <= position // d.base_dilation < size:
                break
            index.append(position // d.base_dilation)
        else:
            yield tuple(index), array[tuple(index)]


@pytest.mark.parametrize("text", WINDOWS)
@pytest.mark.parametrize("reducer", ["add", "maximum", "slow"])
def test_reduce_window(text, reducer):
    array, window = normal(7, 8), dimensions_of(text)
    sizes = [d.output_size(n) for d, n in zip(window, array.shape, strict=True)]
    expected = np.zeros(sizes)
    for place in np.ndindex(*sizes):
        values = [2.0, *(value for _, value in elements(array, window, place))]
        expected[place] = max(values) if reducer == "maximum" else sum(values)
    before = SLOW_ADD if reducer == "slow" else ADD.format(op=reducer, t="f32")
    shape = ",".join(map(str, sizes))
    body = f"""p = f32[7,8] parameter(0)
 i = f32[] constant(2)
 ROOT r = f32[{shape}] reduce-window(p, i), window={{{text}}}, to_apply={reducer}"""
    np.testing.assert_allclose(run(before, body, array)[0], expected, rtol=1e-5, atol=1e-6)


def test_cumulative_windows_are_fast():
    size = 300_000
    body = f"""p = s32[{size}] parameter(0)
 i = s32[] constant(0)
 ROOT r = s32[{size}] reduce-window(p, i), window={{size={size} pad={size - 1}_0}}, to_apply=add"""
    array = np.random.default_rng(0).integers(-100, 100, size).astype(np.int32)
    np.testing.assert_array_equal(run(ADD.format(op="add", t="s32"), body, array)[0], np.cumsum(array))


@pytest.mark.parametrize("text", ["size=2x3 stride=2x3", "size=3x3 stride=2x2 pad=1_0x1_1", "size=2x2"])
def test_select_and_scatter(text):
    array, window = np.round(normal(6, 7) * 2), dimensions_of(text)
    sizes = [d.output_size(n) for d, n in zip(window, array.shape, strict=True)]
    source = np.random.default_rng(1).standard_normal(sizes).astype(np.float32)
    expected = np.full(array.shape, 3.0)
    for place in np.ndindex(*sizes):
        best, value = None, None
        for index, candidate in elements(array, window, place):
            if best is None or not value >= candidate:
                best, value = index, candidate
        expected[best] += source[place]
    before = ADD.format(op="add", t="f32") + KEEPS
    shape = ",".join(map(str, sizes))
    body = f"""p = f32[6,7] parameter(0)
 s = f32[{shape}] parameter(1)
 i = f32[] constant(3)
 ROOT r = f32[6,7] select-and-scatter(p, s, i), window={{{text}}}, select=keeps, scatter=add"""
    np.testing.assert_allclose(run(before, body, array, source)[0], expected, rtol=1e-6)
