"""The evaluator's data movement: what goes where."""

import ml_dtypes
import numpy as np
import pytest

from hlotool.evaluate import evaluate
from hlotool.text.parser import parse


def run(body, *arguments):
    return evaluate(parse(f"HloModule m\nENTRY e {{\n{body}\n}}"), [np.asarray(a) for a in arguments])


def grid(*sizes):
    return np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)


def test_iota_and_broadcast():
    (value,) = run("ROOT r = bf16[3,4] iota(), iota_dimension=1")
    assert value.astype(float).tolist() == [[0, 1, 2, 3]] * 3
    (value,) = run("p = f32[2,3] parameter(0)\n ROOT r = f32[3,5,2] broadcast(p), dimensions={2,0}", grid(2, 3))
    np.testing.assert_array_equal(value, np.repeat(grid(2, 3).T[:, None, :], 5, axis=1))
    assert value.flags.c_contiguous
    assert value.flags.writeable


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        ("1_2_0", [9, 0, 1, 2, 9, 9]),
        ("0_0_2", [0, 9, 9, 1, 9, 9, 2]),
        ("-1_-1_0", [1]),
        ("-1_1_1", [9, 1, 9, 2, 9]),
        ("-2_0_2", [9, 1, 9, 9, 2]),
        ("-3_0_0", []),
        ("-5_4_0", [9, 9]),
        ("2_-4_0", [9]),
    ],
)
def test_pad(padding, expected):
    body = f"""p = f32[3] parameter(0)
 c = f32[] constant(9)
 ROOT r = f32[{len(expected)}] pad(p, c), padding={padding}"""
    assert run(body, grid(3))[0].tolist() == expected


def test_slices():
    (value,) = run("p = f32[4,9] parameter(0)\n ROOT r = f32[2,3] slice(p), slice={[1:4:2], [2:9:3]}", grid(4, 9))
    np.testing.assert_array_equal(value, grid(4, 9)[1:4:2, 2:9:3])
    indexed = "p = f32[4,5] parameter(0)\n i = s32[] parameter(1)\n j = s32[] parameter(2)\n"
    cut = "ROOT r = f32[2,2] dynamic-slice(p, i, j), dynamic_slice_sizes={2,2}"
    (value,) = run(indexed + cut, grid(4, 5), np.int32(7), np.int32(-1))
    np.testing.assert_array_equal(value, grid(4, 5)[2:, :2])
    vector = "p = f32[4,5] parameter(0)\n i = s64[2] parameter(1)\n"
    (value,) = run(vector + "ROOT r = f32[2,2] dynamic-slice(p, i), dynamic_slice_sizes={2,2}", grid(4, 5),
    np.array([1, 3]))
    np.testing.assert_array_equal(value, grid(4, 5)[1:3, 3:])
    update = "u = f32[1,2] constant({{-1, -2}})\n ROOT r = f32[4,5] dynamic-update-slice(p, u, i, j)"
    array = grid(4, 5)
    (value,) = run(indexed + update, array, np.int32(1), np.int32(9))
    expected = grid(4, 5)
    expected[1, 3:] = [-1, -2]
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(array, grid(4, 5))


def test_reverse_concatenate_transpose_reshape():
    body = """p = f32[2,3] parameter(0)
 v = f32[2,3] reverse(p), dimensions={1}
 c = f32[4,3] concatenate(p, v), dimensions={0}
 t = f32[3,4] transpose(c), dimensions={1,0}
 ROOT r = f32[2,6] reshape(t)"""
    array = grid(2, 3)
    np.testing.assert_array_equal(run(body, array)[0], np.vstack([array, array[:, ::-1]]).T.reshape(2, 6))


def test_bitcast_follows_layouts():
    body = "p = f32[2,3]{0,1} parameter(0)\n ROOT r = f32[3,2]{1,0} bitcast(p)"
    np.testing.assert_array_equal(run(body, grid(2, 3))[0], grid(2, 3).T)
    body = "p = f32[2,3]{0,1} parameter(0)\n ROOT r = s32[6]{0} bitcast(p)"
    np.testing.assert_array_equal(run(body, grid(2, 3))[0], grid(2, 3).T.reshape(-1).view(np.int32))


def test_bitcast_convert_between_widths():
    words = np.array([0x01020304, 0xA0B0C0D0], np.uint32)
    (parts,) = run("p = u32[2] parameter(0)\n ROOT r = u8[2,4] bitcast-convert(p)", words)
    assert parts.tolist() == [[4, 3, 2, 1], [0xD0, 0xC0, 0xB0, 0xA0]]
    (back,) = run("p = u8[2,4] parameter(0)\n ROOT r = u32[2] bitcast-convert(p)", parts)
    assert back.tolist() == words.tolist()
    (nibbles,) = run("p = u8[2] parameter(0)\n ROOT r = s4[2,2] bitcast-convert(p)", np.array([0x71, 0xF8], np.uint8))
    assert nibbles.astype(int).tolist() == [[1, 7], [-8, -1]]
    (back,) = run("p = s4[2,2] parameter(0)\n ROOT r = u8[2] bitcast-convert(p)", nibbles)
    assert back.tolist() == [0x71, 0xF8]
    nothing = np.zeros((9, 0), np.complex128)
    (none,) = run("p = c128[9,0] parameter(0)\n ROOT r = u2[9,0,64] bitcast-convert(p)", nothing)
    assert none.shape == (9, 0, 64)
    (same,) = run("p = bf16[1] parameter(0)\n ROOT r = u16[1] bitcast-convert(p)", np.array([1.5], ml_dtypes.bfloat16))
    assert same.tolist() == [0x3FC0]
