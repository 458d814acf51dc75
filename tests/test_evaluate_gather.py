"""The evaluator's gather and scatter against loops over their definitions."""

import ml_dtypes
import numpy as np
import pytest

from hlotool.evaluate import evaluate
from hlotool.text.parser import parse


def run(before, body, *arguments):
    return evaluate(parse(f"HloModule m\n{before}\nENTRY e {{\n{body}\n}}"), arguments)


def normal(*sizes):
    return np.random.default_rng(len(sizes)).standard_normal(sizes).astype(np.float32)


def indices(low, high, *sizes):
    return np.random.default_rng(3).integers(low, high, sizes).astype(np.int32)


def combine(expression):
    return f"combine {{\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n {expression}\n}}\n"


def test_gather_clamps_its_windows():
    array, places = normal(5, 6, 3), indices(-3, 9, 4, 2)
    body = """p = f32[5,6,3] parameter(0)
 q = s32[4,2] parameter(1)
 ROOT r = f32[2,4,3] gather(p, q), offset_dims={0,2}, collapsed_slice_dims={1}, start_index_map={1,0},
    index_vector_dim=1, slice_sizes={2,1,3}"""
    (value,) = run("", body, array, places)
    for number, (column, row) in enumerate(places):
        row, column = min(max(row, 0), 3), min(max(column, 0), 5)
        np.testing.assert_array_equal(value[:, number], array[row : row + 2, column])


def test_gather_with_the_index_vector_in_front_and_unsigned_indices():
    array, places = normal(50), np.array([[0, 3, 200]], np.uint8)
    body = """p = f32[50] parameter(0)
 q = u8[1,3] parameter(1)
 ROOT r = f32[3] gather(p, q), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0,
    slice_sizes={1}"""
    np.testing.assert_array_equal(run("", body, array, places)[0], array[[0, 3, 49]])


def test_gather_of_one_element():
    body = """p = f32[5] parameter(0)
 q = s32[1] parameter(1)
 ROOT r = f32[] gather(p, q), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0,
    slice_sizes={1}"""
    assert run("", body, normal(5), np.array([2], np.int32))[0] == normal(5)[2]


def test_gather_over_batches():
    array, places = normal(5, 6, 3), indices(-3, 9, 3, 5, 1)
    body = """p = f32[5,6,3] parameter(0)
 q = s32[3,5,1] parameter(1)
 ROOT r = f32[3,5,2] gather(p, q), offset_dims={2}, collapsed_slice_dims={}, start_index_map={1},
    operand_batching_dims={0,2}, start_indices_batching_dims={1,0}, index_vector_dim=2, slice_sizes={1,2,1}"""
    (value,) = run("", body, array, places)
    for i, j in np.ndindex(3, 5):
        start = min(max(places[i, j, 0], 0), 4)
        np.testing.assert_array_equal(value[i, j], array[j, start : start + 2, i])


REDUCERS = {
    "ROOT z = f32[] add(x, y)": lambda old, new: old + new,
    "ROOT z = f32[] maximum(y, x)": max,
    "ROOT z = f32[] subtract(x, y)": lambda old, new: old - new,
    "h = f32[] constant(0.5)\n d = f32[] multiply(x, h)\n ROOT z = f32[] add(d, y)": lambda old, new: old / 2 + new,
    "ROOT z = f32[] copy(y)": lambda old, new: new,
}


@pytest.mark.parametrize("expression", REDUCERS)
def test_scatter_goes_in_order_and_skips_windows_outside(expression):
    array, places, updates = normal(5, 6), indices(-2, 7, 12, 2), np.round(normal(12, 2, 1)[:, :, 0] * 8)
    expected = array.copy()
    for (row, column), values in zip(places, updates, strict=True):
        if 0 <= row < 5 and 0 <= column <= 4:
            for offset, value in enumerate(values):
                expected[row, column + offset] = REDUCERS[expression](expected[row, column + offset], value)
    body = """p = f32[5,6] parameter(0)
 q = s32[12,2] parameter(1)
 u = f32[12,2] parameter(2)
 ROOT r = f32[5,6] scatter(p, q, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=combine"""
    (value,) = run(combine(expression), body, array, places, updates)
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


def test_scatter_that_replaces_keeps_the_last_update():
    before = "combine {\n x = f32[] parameter(0)\n ROOT y = f32[] parameter(1)\n}\n"
    body = """p = f32[4] parameter(0)
 q = s32[5,1] parameter(1)
 u = f32[5] parameter(2)
 ROOT r = f32[4] scatter(p, q, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine"""
    places = np.array([[2], [0], [2], [9], [2]], np.int32)
    (value,) = run(before, body, np.zeros(4, np.float32), places, np.arange(1, 6, dtype=np.float32))
    assert value.tolist() == [2, 0, 5, 0]


def test_scatter_of_narrow_floats_rounds_each_time():
    before = "combine {\n x = bf16[] parameter(0)\n y = bf16[] parameter(1)\n ROOT z = bf16[] add(x, y)\n}\n"
    body = """p = bf16[1] parameter(0)
 q = s32[4,1] parameter(1)
 u = bf16[4] parameter(2)
 ROOT r = bf16[1] scatter(p, q, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine"""
    bf16 = ml_dtypes.bfloat16
    (value,) = run(before, body, np.array([256], bf16), np.zeros((4, 1), np.int32), np.ones(4, bf16))
    assert value.astype(float) == [256]


def test_scatter_over_batches():
    array, places = normal(5, 6, 3), indices(-1, 7, 3, 5, 1)
    updates = np.random.default_rng(9).standard_normal((3, 5, 2)).astype(np.float32)
    expected = array.copy()
    for i, j in np.ndindex(3, 5):
        start = places[i, j, 0]
        if 0 <= start <= 4:
            expected[j, start : start + 2, i] += updates[i, j]
    body = """p = f32[5,6,3] parameter(0)
 q = s32[3,5,1] parameter(1)
 u = f32[3,5,2] parameter(2)
 ROOT r = f32[5,6,3] scatter(p, q, u), update_window_dims={2}, inserted_window_dims={},
    scatter_dims_to_operand_dims={1}, input_batching_dims={0,2}, scatter_indices_batching_dims={1,0},
    index_vector_dim=2, to_apply=combine"""
    (value,) = run(combine("ROOT z = f32[] add(x, y)"), body, array, places, updates)
    np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_scatter_into_two_operands():
    before = """combine {
 a = f32[] parameter(0)
 b = s32[] parameter(1)
 c = f32[] parameter(2)
 d = s32[] parameter(3)
 s = f32[] add(a, c)
 m = s32[] maximum(b, d)
 ROOT t = (f32[], s32[]) tuple(s, m)
}
"""
    body = """p = f32[3] parameter(0)
 o = s32[3] parameter(1)
 q = s32[4,1] parameter(2)
 u = f32[4] parameter(3)
 v = s32[4] parameter(4)
 ROOT r = (f32[3], s32[3]) scatter(p, o, q, u, v), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine"""
    arguments = (
        np.zeros(3, np.float32),
        np.array([5, 0, 0], np.int32),
        np.array([[0], [1], [0], [7]], np.int32),
        np.array([1, 2, 3, 4], np.float32),
        np.array([4, 8, 6, 9], np.int32),
    )
    sums, largest = run(before, body, *arguments)
    assert sums.tolist() == [4, 2, 0]
    assert largest.tolist() == [6, 8, 0]


def test_there_are_only_zeros_to_gather_from_nothing():
    body = """p = f32[0,3] parameter(0)
 q = s32[4,1] parameter(1)
 ROOT r = f32[4,3] gather(p, q), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
    slice_sizes={0,3}"""
    (value,) = run("", body, np.zeros((0, 3), np.float32), indices(-3, 9, 4, 1))
    assert value.tolist() == [[0, 0, 0]] * 4


def test_updates_without_indices_go_to_the_start():
    body = """p = f32[] parameter(0)
 q = s32[0,3] parameter(1)
 u = f32[3] parameter(2)
 ROOT r = f32[] scatter(p, q, u), update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={},
    index_vector_dim=0, to_apply=combine"""
    updates = np.array([1, 2, 4], np.float32)
    (value,) = run(combine("ROOT r = f32[] add(x, y)"), body, np.float32(8), indices(0, 1, 0, 3), updates)
    assert value == 15


def test_each_update_is_rounded():
    """In index order: after 1 nothing small counts, unlike in one wide sum."""
    body = """p = f32[1] parameter(0)
 q = s32[9,1] parameter(1)
 u = f32[9] parameter(2)
 ROOT r = f32[1] scatter(p, q, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, to_apply=combine"""
    updates = np.full(9, 2.0**-25, np.float32)
    arguments = (np.ones(1, np.float32), np.zeros((9, 1), np.int32), updates)
    (value,) = run(combine("ROOT r = f32[] add(x, y)"), body, *arguments)
    assert value.tolist() == [1.0]
