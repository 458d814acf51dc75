"""Results in arrays of the caller: ``executable(x, out=[y])``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlotool
from hlotool.ir import InputError

STEP = """HloModule step
ENTRY e {
  w = f32[300,200] parameter(0)
  x = f32[200,70] parameter(1)
  y = f32[300,70] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[300,200] negate(w)
  one = s32[] constant(1)
  t = (f32[300,200], s32[]) tuple(v, one)
  ROOT r = (f32[300,70], (f32[300,200], s32[])) tuple(y, t)
}
"""
DYNAMIC = "HloModule d\nENTRY e { x = s32[<=4] parameter(0)\n ROOT y = s32[<=4] add(x, x) }"
LARGE = "HloModule l\nENTRY e { x = f32[12000000] parameter(0)\n ROOT y = f32[12000000] negate(x) }"

RNG = np.random.default_rng(0)
W, X = RNG.standard_normal((300, 200), np.float32), RNG.standard_normal((200, 70), np.float32)


def places(offset: int = 0) -> list[Any]:
    """Arrays for the results of STEP, `offset` elements into their memory."""
    return [
        np.full(300 * 70 + offset, np.nan, np.float32)[offset:].reshape(300, 70),
        np.full(300 * 200 + offset, np.nan, np.float32)[offset:].reshape(300, 200),
        np.array(-1, np.int32),
    ]


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_results_are_written_where_told(backend: str, offset: int) -> None:
    executable = hlotool.compile(hlotool.parse(STEP), backend=backend)
    expected, out = executable(W, X), places(offset)
    found = executable(W, X, out=out)
    assert [id(a) for a in found] == [id(a) for a in out]
    for got, want in zip(out, expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_large_results_pass_the_caches_and_need_no_alignment() -> None:
    executable = hlotool.compile(hlotool.parse(LARGE))
    memory = np.zeros(12_000_003, np.float32)
    x = np.arange(12_000_000, dtype=np.float32)
    for offset in (0, 3):
        (y,) = executable(x, out=[memory[offset : offset + 12_000_000]])
        np.testing.assert_array_equal(y, -x)


def test_an_argument_may_be_overwritten() -> None:
    executable = hlotool.compile(hlotool.parse(STEP))
    w = W.copy()
    expected = executable(W, X)
    out = places()
    executable(w, X, out=[out[0], w, out[2]])
    np.testing.assert_array_equal(w, expected[1])
    np.testing.assert_array_equal(out[0], expected[0])


def test_what_does_not_fit_is_named() -> None:
    executable = hlotool.compile(hlotool.parse(STEP))
    good = places()
    shared = np.zeros((300, 200), np.float32)
    fixed = np.zeros((300, 70), np.float32)
    fixed.flags.writeable = False
    wrong: list[tuple[list[Any], str]] = [
        (good[:2], "expected 2 arguments and 3 arrays for results, got 2 and 2"),
        ([good[0].astype(np.float64), *good[1:]], "result 0: expected float32"),
        ([good[0], good[1].T.reshape(200, 300), good[2]], "result 1: expected float32"),
        ([good[0], good[1], 3], "result 2: expected int32 of shape .*, got a int"),
        ([np.zeros((70, 300), np.float32).T, *good[1:]], "result 0: expected a dense"),
        ([fixed, *good[1:]], "result 0: expected a dense"),
        ([shared.reshape(-1)[:21000].reshape(300, 70), shared, good[2]], "result 1: its memory is that of another"),
    ]
    for out, message in wrong:
        with pytest.raises(InputError, match=message):
            executable(W, X, out=out)
    with pytest.raises(InputError, match="parameter 1"):
        executable(W, W, out=good)


def test_dynamic_results_fit_by_their_size() -> None:
    executable = hlotool.compile(hlotool.parse(DYNAMIC))
    x = np.array([1, 2, 3], np.int32)
    out = np.zeros(3, np.int32)
    assert executable(x, out=[out])[0] is out
    assert out.tolist() == [2, 4, 6]
    with pytest.raises(InputError, match="result 0"):
        executable(x, out=[np.zeros(4, np.int32)])
    with pytest.raises(InputError, match="expected 1 arrays for results, got 2"):
        executable(x, out=[out, out])
