"""The evaluator's sort and topk."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.evaluate import evaluate
from hlotool.text.parser import parse

LESS = "ROOT c = pred[] compare(a, b), direction=LT"
GREATER = "ROOT c = pred[] compare(a, b), direction=GT"
# By absolute value: neither ascending nor descending, so that it goes through the network.
SMALLER = """x = s32[] abs(a)
 y = s32[] abs(b)
 ROOT c = pred[] compare(x, y), direction=LT"""
NONSENSE = "ROOT c = pred[] compare(a, b), direction=GE"


def sort_pairs(comparator, keys, axis=0):
    """Sort s32 keys together with their flat positions."""
    shape = ",".join(map(str, keys.shape))
    text = f"""HloModule m
before {{
 a = s32[] parameter(0)
 b = s32[] parameter(1)
 i = s32[] parameter(2)
 j = s32[] parameter(3)
 {comparator}
}}
ENTRY e {{
 p = s32[{shape}] parameter(0)
 q = s32[{shape}] parameter(1)
 ROOT r = (s32[{shape}], s32[{shape}]) sort(p, q), dimensions={{{axis}}}, is_stable=true, to_apply=before
}}"""
    positions = np.arange(keys.size, dtype=np.int32).reshape(keys.shape)
    return evaluate(parse(text), [keys, positions])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=0, max_size=40), st.sampled_from([LESS, GREATER, SMALLER]))
def test_sort_is_stable(keys, comparator):
    compare = {LESS: lambda v: v, GREATER: lambda v: -v, SMALLER: abs}[comparator]
    expected = sorted(range(len(keys)), key=lambda position: compare(keys[position]))
    values, positions = sort_pairs(comparator, np.array(keys, np.int32))
    assert positions.tolist() == expected
    assert values.tolist() == [keys[position] for position in expected]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("comparator", [LESS, SMALLER])
def test_sort_along_any_dimension(axis, comparator):
    keys = np.random.default_rng(0).integers(-9, 9, (3, 17, 4)).astype(np.int32)
    values, positions = sort_pairs(comparator, keys, axis)
    key = np.abs(keys) if comparator is SMALLER else keys
    order = np.argsort(key, axis=axis, kind="stable")
    np.testing.assert_array_equal(values, np.take_along_axis(keys, order, axis))
    np.testing.assert_array_equal(keys.reshape(-1)[positions], values)


def test_a_comparator_that_orders_nothing_still_permutes():
    keys = np.random.default_rng(0).integers(0, 3, 100).astype(np.int32)
    _, positions = sort_pairs(NONSENSE, keys)
    assert sorted(positions.tolist()) == list(range(100))


def test_network_and_guess_agree_on_long_arrays():
    keys = np.random.default_rng(0).integers(-1000, 1000, 5000).astype(np.int32)
    values, _ = sort_pairs(SMALLER, keys)
    reference = sorted(keys.tolist(), key=functools.cmp_to_key(lambda a, b: abs(a) - abs(b)))
    assert values.tolist() == reference


def topk(array, count, largest):
    text = f"""HloModule m
ENTRY e {{
 p = f32[{array.shape[0]},{array.shape[1]}] parameter(0)
 ROOT r = (f32[{array.shape[0]},{count}], s32[{array.shape[0]},{count}]) topk(p), k={count}, largest={largest}
}}"""
    return evaluate(parse(text), [array])


def test_topk():
    array = np.array([[3, 1, 3, -0.0, 0.0, np.nan, -5]], np.float32)
    values, positions = topk(array, 5, "true")
    assert positions.tolist() == [[5, 0, 2, 1, 4]]
    np.testing.assert_array_equal(values, [[np.nan, 3, 3, 1, 0]])
    values, positions = topk(array, 3, "false")
    assert positions.tolist() == [[6, 3, 4]]
    np.testing.assert_array_equal(values, [[-5, 0, 0]])
