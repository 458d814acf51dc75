"""The evaluator's products: dot, ragged-dot, scaled-dot and convolution."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from hlotool.evaluate import evaluate
from hlotool.text.parser import parse


def run(body, *arguments):
    return evaluate(parse(f"HloModule m\nENTRY e {{\n{body}\n}}"), arguments)


def normal(*sizes):
    return np.random.default_rng(len(sizes)).standard_normal(sizes).astype(np.float32)


def test_batch_and_several_contracting_dimensions():
    left, right = normal(2, 3, 4, 5), normal(5, 2, 6, 4)
    body = """p = f32[2,3,4,5] parameter(0)
 q = f32[5,2,6,4] parameter(1)
 ROOT r = f32[2,3,6] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2,3},
    rhs_contracting_dims={3,0}"""
    expected = np.einsum("bmij,jbni->bmn", left.astype(float), right.astype(float))
    np.testing.assert_allclose(run(body, left, right)[0], expected, rtol=1e-6)


def multiply(left_type, right_type, result, left, right):
    rows, inner, columns = left.shape[0], left.shape[1], right.shape[1]
    body = f"""p = {left_type}[{rows},{inner}] parameter(0)
 q = {right_type}[{inner},{columns}] parameter(1)
 ROOT r = {result}[{rows},{columns}] dot(p, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
    return run(body, left, right)[0]


def test_integers_wrap_and_widen():
    generator = np.random.default_rng(0)
    left, right = (generator.integers(-128, 128, size).astype(np.int8) for size in ((3, 300), (300, 2)))
    exact = left.astype(object) @ right.astype(object)
    np.testing.assert_array_equal(multiply("s8", "s8", "s32", left, right), exact.astype(np.int64).astype(np.int32))
    np.testing.assert_array_equal(multiply("s8", "s8", "s8", left, right), exact.astype(np.int64).astype(np.int8))
    wide = generator.integers(-(2**62), 2**62, (4, 4))
    wrapped = [[int(v) % 2**64 for v in row] for row in wide.astype(object) @ wide.astype(object)]
    expected = np.array(wrapped, np.uint64).view(np.int64)
    np.testing.assert_array_equal(multiply("s64", "s64", "s64", wide, wide), expected)


def test_other_types():
    left, right = normal(3, 4) > 0, normal(4, 3).T.reshape(4, 3) > 0
    np.testing.assert_array_equal(multiply("pred", "pred", "pred", left, right), (left[:, :, None] & right).any(axis=1))
    ones = np.ones((2, 4096), ml_dtypes.bfloat16)
    assert (multiply("bf16", "bf16", "bf16", ones, ones.T.copy()).astype(float) == 4096).all()
    values = (normal(2, 2) + 1j * normal(2, 2)[::-1]).astype(np.complex64)
    np.testing.assert_allclose(multiply("c64", "c64", "c64", values, values), values @ values, rtol=1e-6)


def test_ragged_dot_by_rows_and_by_contraction():
    sizes = np.array([4, 0, 5, 2], np.int32)
    groups = np.repeat(np.arange(4), sizes)
    left, right = normal(11, 5), normal(4, 5, 7)
    body = """p = f32[11,5] parameter(0)
 q = f32[4,5,7] parameter(1)
 g = s32[4] parameter(2)
 ROOT r = f32[11,7] ragged-dot(p, q, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0},
    rhs_group_dims={0}"""
    expected = np.einsum("mk,mkn->mn", left, right[groups])
    np.testing.assert_allclose(run(body, left, right, sizes)[0], expected, rtol=1e-4, atol=1e-5)
    left, right = normal(5, 11), normal(11, 7)
    body = """p = f32[5,11] parameter(0)
 q = f32[11,7] parameter(1)
 g = s32[4] parameter(2)
 ROOT r = f32[4,5,7] ragged-dot(p, q, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1},
    rhs_group_dims={}"""
    expected = np.einsum("mk,kn,gk->gmn", left, right, groups == np.arange(4)[:, None])
    np.testing.assert_allclose(run(body, left, right, sizes)[0], expected, rtol=1e-4, atol=1e-5)


def test_scaled_dot():
    left, right, left_scale, right_scale = normal(3, 8), normal(8, 2), normal(3, 2), normal(4, 2)
    body = """p = f32[3,8] parameter(0)
 q = f32[8,2] parameter(1)
 s = f32[3,2] parameter(2)
 t = f32[4,2] parameter(3)
 ROOT r = f32[3,2] scaled-dot(p, q, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    expected = (left * left_scale.repeat(4, axis=1)) @ (right * right_scale.repeat(2, axis=0))
    np.testing.assert_allclose(run(body, left, right, left_scale, right_scale)[0], expected, rtol=1e-4, atol=1e-5)


CONVOLUTIONS = [
    # strides, padding, input dilation, window dilation, reversal, feature groups, batch groups
    ((1, 1), ((1, 1), (0, 2)), (1, 1), (1, 1), (0, 0), 1, 1),
    ((2, 3), ((1, 1), (0, 2)), (1, 1), (1, 1), (0, 0), 1, 1),
    ((1, 1), ((1, 1), (0, 2)), (2, 3), (2, 1), (0, 0), 1, 1),
    ((1, 1), ((-1, 1), (0, -2)), (2, 2), (1, 1), (1, 0), 1, 1),
    ((1, 2), ((0, 0), (1, 0)), (1, 1), (1, 2), (0, 1), 3, 1),
    ((1, 1), ((0, 1), (1, 0)), (1, 1), (1, 1), (0, 0), 6, 1),
    ((1, 1), ((0, 1), (1, 0)), (1, 1), (1, 1), (0, 0), 1, 3),
]


def reference_convolution(left, right, strides, padding, dilation, window_dilation, reversal, groups, batch_groups):
    """[batch, spatial, spatial, feature] by [spatial, spatial, input, output], summand by summand."""
    counts = []
    for axis in range(2):
        padded = (left.shape[axis + 1] - 1) * dilation[axis] + 1 + sum(padding[axis])
        counts.append((padded - (right.shape[axis] - 1) * window_dilation[axis] - 1) // strides[axis] + 1)
    batch, outputs, inputs = left.shape[0] // batch_groups, right.shape[3], right.shape[2]
    result = np.zeros((batch, *counts, outputs))
    for i, j, a, b in product(range(counts[0]), range(counts[1]), range(right.shape[0]), range(right.shape[1])):
        place = [
            position * strides[axis] + tap * window_dilation[axis] - padding[axis][0]
            for axis, (position, tap) in enumerate(((i, a), (j, b)))
        ]
        if any(p % d or not 0 <= p // d < n for p, d, n in zip(place, dilation, left.shape[1:3], strict=True)):
            continue
        row = left[:, place[0] // dilation[0], place[1] // dilation[1], :].astype(float)
        tap = right[right.shape[0] - 1 - a if reversal[0] else a, right.shape[1] - 1 - b if reversal[1] else b]
        for output in range(outputs):
            group = output * groups // outputs
            part = output * batch_groups // outputs
            features = row[part * batch : (part + 1) * batch, group * inputs : (group + 1) * inputs]
            result[:, i, j, output] += features @ tap[:, output]
    return result


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("labels", ["b01f_01io->b01f", "bf01_oi01->fb10"])
def test_convolution(case, labels):
    strides, padding, dilation, window_dilation, reversal, groups, batch_groups = case
    left = normal(2 * batch_groups, 6, 5, 6)
    right = np.random.default_rng(7).standard_normal((3, 2, 6 // groups, 6)).astype(np.float32)
    expected = reference_convolution(left, right, *case)
    if labels.startswith("bf"):
        left, right = left.transpose(0, 3, 1, 2).copy(), right.transpose(3, 2, 0, 1).copy()
        expected = expected.transpose(3, 0, 2, 1)

    def words(values):
        return "x".join(map(str, values))

    def shape(array):
        return ",".join(map(str, array.shape))

    pads = words(f"{low}_{high}" for low, high in padding)
    window = f"size=3x2 stride={words(strides)} pad={pads} lhs_dilate={words(dilation)}"
    window += f" rhs_dilate={words(window_dilation)}"
    if any(reversal):
        window += f" rhs_reversal={words(reversal)}"
    body = f"""p = f32[{shape(left)}] parameter(0)
 q = f32[{shape(right)}] parameter(1)
 ROOT r = f32[{shape(expected)}] convolution(p, q), window={{{window}}}, dim_labels={labels},
    feature_group_count={groups}, batch_group_count={batch_groups}"""
    np.testing.assert_allclose(run(body, left, right)[0], expected, rtol=1e-5, atol=1e-5)
