"""Donated arguments: results in the memory of arrays that the caller gives up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

import hlotool
from hlotool.analysis.donation import donation_of
from hlotool.driver import compile_module
from hlotool.ir import InputError, UnsupportedError
from hlotool.runtime import fastcall

STEP = """HloModule sgd, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY e {
  w = f32[300,200] parameter(0)
  m = f32[300,200] parameter(1)
  g = f32[300,200] parameter(2)
  rate = f32[] parameter(3)
  r = f32[300,200] broadcast(rate), dimensions={}
  beta = f32[] constant(0.5)
  b = f32[300,200] broadcast(beta), dimensions={}
  decayed = f32[300,200] multiply(m, b)
  momentum = f32[300,200] add(g, decayed)
  change = f32[300,200] multiply(r, momentum)
  next = f32[300,200] subtract(w, change)
  zero = f32[] constant(0)
  norm = f32[300] reduce(g, zero), dimensions={1}, to_apply=sum
  ROOT out = (f32[300,200], f32[300,200], f32[300]) tuple(next, momentum, norm)
}
""".replace("ENTRY", "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\nENTRY")

UPDATES = """HloModule cache, input_output_alias={ {}: (0, {}, KIND) }
ENTRY e {
  cache = f32[1000,64] parameter(0)
  row = f32[1,64] parameter(1)
  at = s32[] parameter(2)
  zero = s32[] constant(0)
  once = f32[1000,64] dynamic-update-slice(cache, row, at, zero)
  one = s32[] constant(1)
  after = s32[] add(at, one)
  ROOT twice = f32[1000,64] dynamic-update-slice(once, row, after, zero)
}
"""

SWAP = """HloModule swap, input_output_alias={ {0}: (0, {}, KIND), {1}: (1, {}, KIND) }
ENTRY e {
  a = f32[40] parameter(0)
  b = f32[40] parameter(1)
  ROOT r = (f32[40], f32[40]) tuple(b, a)
}
"""

LOOP = """HloModule loop, input_output_alias={ {}: (0, {}, may-alias) }
condition {
  p = (s32[], f32[100,8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(50)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[100,8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[100,8] get-tuple-element(p), index=1
  y = f32[8] get-tuple-element(p), index=2
  row = f32[1,8] reshape(y)
  zero = s32[] constant(0)
  updated = f32[100,8] dynamic-update-slice(x, row, i, zero)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[100,8], f32[8]) tuple(next, updated, y)
}
ENTRY e {
  x = f32[100,8] parameter(0)
  y = f32[8] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[100,8], f32[8]) tuple(zero, x, y)
  w = (s32[], f32[100,8], f32[8]) while(t), condition=condition, body=body
  ROOT r = f32[100,8] get-tuple-element(w), index=1
}
"""


def values(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(3)
    return [np.asarray(rng.integers(-8, 8, shape), np.float32) for shape in shapes]  # sums are exact


def step_inputs() -> list[Any]:
    return values((300, 200), (300, 200), (300, 200), ())


def expected(text: str, arrays: list[Any]) -> tuple[Any, ...]:
    return hlotool.compile(hlotool.parse(text), backend="evaluate")(*arrays)


@pytest.mark.parametrize("pipeline", ["default", "none"])
def test_an_optimiser_steps_in_place(pipeline: str) -> None:
    arrays = step_inputs()
    want = expected(STEP, arrays)
    executable = hlotool.compile(hlotool.parse(STEP), donate="declared", pipeline=pipeline)
    gradient = arrays[2].copy()
    results = executable(*arrays)
    assert executable.donated == {0: 0, 1: 1}
    assert results[0] is arrays[0]
    assert results[1] is arrays[1]
    for got, right in zip(results, want, strict=True):
        np.testing.assert_array_equal(got, right)
    np.testing.assert_array_equal(arrays[2], gradient)
    assert executable.memory.output_bytes == 300 * 4
    assert executable.memory.arena_bytes < 300 * 200 * 4 or pipeline == "none"


def test_nothing_is_overwritten_without_donation() -> None:
    for text in (STEP, UPDATES.replace("KIND", "must-alias"), LOOP):
        executable = hlotool.compile(hlotool.parse(text))
        assert not executable.donated
    arrays = step_inputs()
    before = [a.copy() for a in arrays]
    results = hlotool.compile(hlotool.parse(STEP))(*arrays)
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
        assert not any(np.may_share_memory(array, r) for r in results)


@pytest.mark.parametrize("pipeline", ["default", "none"])
@pytest.mark.parametrize("kind", ["may-alias", "must-alias"])
def test_updates_of_a_part_write_that_part_only(kind: str, pipeline: str) -> None:
    text = UPDATES.replace("KIND", kind)
    cache, row = values((1000, 64), (1, 64))
    at = np.array(7, np.int32)
    (want,) = expected(text, [cache, row, at])
    executable = hlotool.compile(hlotool.parse(text), donate=[0], pipeline=pipeline)
    (result,) = executable(cache, row, at)
    assert result is cache
    np.testing.assert_array_equal(result, want)
    assert executable.memory.arena_bytes <= 64  # an index
    assert not any("memcpy" in unit for unit in executable.program.units if "define void @run_" in unit)


def test_a_loop_keeps_its_state_in_the_argument() -> None:
    x, y = values((100, 8), (8,))
    (want,) = expected(LOOP, [x, y])
    executable = hlotool.compile(hlotool.parse(LOOP), donate="declared")
    (result,) = executable(x, y)
    assert result is x
    np.testing.assert_array_equal(result, want)
    assert executable.memory.arena_bytes < 100 * 8 * 4


def test_a_must_alias_is_paid_for_with_a_copy_and_a_may_alias_is_not() -> None:
    for kind, held in (("may-alias", False), ("must-alias", True)):
        text = SWAP.replace("KIND", kind)
        for pipeline in ("default", "none"):
            a, b = values((40,), (40,))
            olds = a.copy(), b.copy()
            executable = hlotool.compile(hlotool.parse(text), donate="declared", pipeline=pipeline)
            results = executable(a, b)
            np.testing.assert_array_equal(results[0], olds[1])
            np.testing.assert_array_equal(results[1], olds[0])
            if held:
                assert results[0] is a
                assert results[1] is b
            assert all(
                result is (a, b)[executable.donated[n]] if n in executable.donated else True
                for n, result in enumerate(results)
            )


def test_an_argument_that_is_a_result_stays_where_it_is() -> None:
    text = "HloModule same, input_output_alias={ {}: (0, {}) }\nENTRY e { ROOT x = f32[40] parameter(0) }"
    for pipeline in ("default", "none"):
        executable = hlotool.compile(hlotool.parse(text), donate="declared", pipeline=pipeline)
        (x,) = values((40,))
        old = x.copy()
        (result,) = executable(x)
        assert result is x
        np.testing.assert_array_equal(x, old)
        assert not executable.program.kernels


def test_donors_without_an_alias_hold_what_is_computed_from_them() -> None:
    text = """HloModule donors, buffer_donor={ (1, {}) }
ENTRY e {
  a = f32[40] parameter(0)
  b = f32[40] parameter(1)
  first = f32[40] multiply(a, a)
  second = f32[40] add(b, a)
  ROOT r = (f32[40], f32[40]) tuple(first, second)
}"""
    a, b = values((40,), (40,))
    want = expected(text, [a, b])
    executable = hlotool.compile(hlotool.parse(text), donate="declared")
    results = executable(a, b)
    assert results[executable_result(executable.donated, 1)] is b
    for got, right in zip(results, want, strict=True):
        np.testing.assert_array_equal(got, right)


def executable_result(donated: Any, argument: int) -> int:
    (found,) = [result for result, number in donated.items() if number == argument]
    return int(found)


def test_what_does_not_fit_is_named() -> None:
    executable = hlotool.compile(hlotool.parse(STEP), donate="declared")
    w, m, g, rate = step_inputs()
    fixed = w.copy()
    fixed.flags.writeable = False
    donated = "parameter 0: it is donated: expected a dense row-major array that can be written to"
    for wrong in (fixed, np.asfortranarray(w)):
        with pytest.raises(InputError, match=donated):
            executable(wrong, m, g, rate)
    with pytest.raises(InputError, match="parameter 1: it lies in memory of parameter 0; both are donated"):
        executable(w, w, g, rate)
    with pytest.raises(InputError, match="result 1: expected the array of parameter 1, which it overwrites"):
        executable(w, m, g, rate, out=[w, np.zeros_like(m), np.zeros(300, np.float32)])
    with pytest.raises(InputError, match="result 2: its memory is that of another"):
        executable(w, m, g, rate, out=[w, m, m.reshape(-1)[:300]])
    for number in (4, -1):
        with pytest.raises(InputError, match=f"no parameter {number}, the program has 4"):
            compile_module(hlotool.parse(STEP), donate=[number])
    with pytest.raises(InputError, match="'declared'"):
        compile_module(hlotool.parse(STEP), donate="all")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="backend evaluate overwrites no arguments"):
        compile_module(hlotool.parse(STEP), "evaluate", donate=[0])
    with pytest.raises(UnsupportedError, match="one device"):
        compile_module(hlotool.parse(STEP), donate=[0], replicas=2)
    dynamic = "HloModule d\nENTRY e { x = s32[<=4] parameter(0)\n ROOT y = s32[<=4] add(x, x) }"
    with pytest.raises(UnsupportedError, match="s32\\[<=4\\]"):
        compile_module(hlotool.parse(dynamic), donate=[0])


@pytest.mark.parametrize("quick", [True, False])
def test_arguments_in_donated_memory_are_read_before(quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not quick:
        monkeypatch.setattr(fastcall, "usable", lambda: False)
    w, m, _, rate = step_inputs()
    want = expected(STEP, [w, m, w, rate])
    executable = hlotool.compile(hlotool.parse(STEP), donate="declared")
    results = executable(w, m, w, rate)
    assert results[0] is w
    for got, right in zip(results, want, strict=True):
        np.testing.assert_array_equal(got, right)


def test_results_may_be_placed_beside_donated_arguments() -> None:
    arrays = step_inputs()
    want = expected(STEP, arrays)
    executable = hlotool.compile(hlotool.parse(STEP), donate="declared")
    norms = np.zeros(300, np.float32)
    results = executable(*arrays, out=[arrays[0], arrays[1], norms])
    assert [id(r) for r in results] == [id(arrays[0]), id(arrays[1]), id(norms)]
    for got, right in zip(results, want, strict=True):
        np.testing.assert_array_equal(got, right)


def test_types_that_numpy_lacks_may_be_given_as_bits() -> None:
    text = "HloModule b\nENTRY e { x = bf16[64] parameter(0)\n ROOT y = bf16[64] negate(x) }"
    executable = hlotool.compile(hlotool.parse(text), donate=[0])
    bits = np.arange(64, dtype=np.uint16)
    (result,) = executable(bits)
    np.testing.assert_array_equal(bits, np.arange(64) + 0x8000)
    assert np.shares_memory(result, bits)


def test_with_a_time_limit_too() -> None:
    x, y = values((100, 8), (8,))
    (want,) = expected(LOOP, [x, y])
    executable = hlotool.compile(hlotool.parse(LOOP), donate="declared", timeout=100)
    (result,) = executable(x, y)
    assert result is x
    np.testing.assert_array_equal(result, want)
    x[...] = 0
    assert executable(x, y, out=[x])[0] is x
    with pytest.raises(InputError, match="result 0: expected the array of parameter 0"):
        executable(x, y, out=[np.zeros_like(x)])


def test_numbers_are_those_of_parameters_with_all_their_leaves() -> None:
    text = """HloModule t, input_output_alias={ {1}: (1, {0}, must-alias) }, buffer_donor={ (0, {}) }
ENTRY e {
  a = f32[4] parameter(0)
  b = (f32[4], f32[4]) parameter(1)
  c = f32[4] get-tuple-element(b), index=0
  ROOT r = (f32[4], f32[4]) tuple(a, c)
}"""
    module = hlotool.parse(text)
    found = donation_of(module, "declared")
    assert (found.arguments, dict(found.wanted), found.required) == ({0, 1}, {1: 1}, {1})
    assert donation_of(module, [1]).arguments == {1, 2}
    assert not donation_of(module, []).arguments


def test_arguments_that_hold_no_result_are_looked_at_when_they_are_written_to() -> None:
    text = """HloModule scratch
body {
  p = (s32[], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[64] get-tuple-element(p), index=1
  y = f32[64] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  sum = f32[64] add(x, y)
  turned = f32[64] reverse(x), dimensions={0}
  ROOT t = (s32[], f32[64], f32[64]) tuple(next, sum, turned)
}
condition {
  p = (s32[], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT go = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[64] parameter(0)
  y = f32[64] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[64], f32[64]) tuple(zero, x, y)
  w = (s32[], f32[64], f32[64]) while(t), condition=condition, body=body
  a = f32[64] get-tuple-element(w), index=1
  ROOT r = f32[64] exponential(a)
}
"""
    x, y = values((64,), (64,))
    (want,) = hlotool.compile(hlotool.parse(text))(x, y)
    executable = hlotool.compile(hlotool.parse(text), donate=[0, 1])
    x.flags.writeable = y.flags.writeable = False
    assert executable.program is not None
    for number in executable.program.assignment.overwritten:
        with pytest.raises(InputError, match=f"parameter {number}: it is donated"):
            executable(*(a if n >= number else a.copy() for n, a in enumerate((x, y))))
    (got,) = executable(x.copy(), y.copy())
    np.testing.assert_array_equal(got, want)


def test_the_command_line_donates(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run: Run = request.getfixturevalue("hlotool")
    file = tmp_path / "step.hlo"
    file.write_text(STEP)
    assert "out0 in arg0, out1 in arg1" in run("compile", file, "--donate", "declared").stdout
    assert " in arg" not in run("compile", file).stdout
    summary = json.loads(run("compile", file, "--donate", "0", "--format", "json").stdout)
    assert summary["donated"] == {"out0": "arg0"}
    assert "ok" in run("run", file, "--donate", "0,1", "--compare", "evaluate").stdout
    for wrong, code, message in (("a", 2, "expected numbers with commas"), ("9", 3, "no parameter 9")):
        refused = run("run", file, "--donate", wrong)
        assert refused.returncode == code
        assert message in refused.stderr
