"""Loop state that changes places with what is computed for the next trip: numbers, and what is still copied."""

from __future__ import annotations

import numpy as np
import pytest
from buffer_checker import Checker

from hlotool.analysis.decisions import DecisionLog
from hlotool.codegen.machine import default_machine
from hlotool.codegen.plan.values import Assignment
from hlotool.codegen.program import build
from hlotool.driver import LOWERING, compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.text.parser import parse

MORE = """
%s {
  s = (s32[], s32[], f32[300], f32[300]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT go = pred[] compare(i, n), direction=LT
}
"""

BODY = """
%s {
  s = (s32[], s32[], f32[300], f32[300]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  u = f32[300] get-tuple-element(s), index=2
  v = f32[300] get-tuple-element(s), index=3
  one = s32[] constant(1)
  next = s32[] add(i, one)
  %s
  ROOT t = (s32[], s32[], f32[300], f32[300]) tuple(next, n, %s)
}
"""

ENTRY = """
ENTRY e {
  x = f32[300] parameter(0)
  y = f32[300] parameter(1)
  n = s32[] parameter(2)
  zero = s32[] constant(0)
  first = (s32[], s32[], f32[300], f32[300]) tuple(zero, n, %s)
  loop = (s32[], s32[], f32[300], f32[300]) while(first), condition=more, body=body
  u = f32[300] get-tuple-element(loop), index=2
  v = f32[300] get-tuple-element(loop), index=3
  ROOT t = (f32[300], f32[300]) tuple(%s)
}
"""

INNER = """m = s32[] constant(3)
  zero = s32[] constant(0)
  start = (s32[], s32[], f32[300], f32[300]) tuple(zero, m, u, v)
  inside = (s32[], s32[], f32[300], f32[300]) while(start), condition=inmore, body=inbody
  a = f32[300] get-tuple-element(inside), index=2
  b = f32[300] get-tuple-element(inside), index=3
  c = f32[300] reverse(a), dimensions={0}"""

TURN = "a = f32[300] reverse(u), dimensions={0}"

CASES = {
    "one turns": (TURN, "a, v", 1),
    "both turn": (f"{TURN}\n  c = f32[300] reverse(v), dimensions={{0}}", "a, c", 2),
    "one turns into both": (TURN, "a, a", 0),
    "what was state becomes other state": (TURN, "a, u", 0),
    "in place": (f"{TURN}\n  b = f32[300] subtract(a, u)", "b, v", 0),
    "a loop inside": (INNER, "c, b", 0),
    "a loop inside, which hands on": (INNER, "a, c", 0),
    "a view of what comes": (
        f"{TURN}\n  w = f32[200] slice(a), slice={{[50:250]}}\n  p = f32[] constant(7)\n"
        "  b = f32[300] pad(w, p), padding=50_50", "a, b", 1,
    ),
}  # fmt: skip


def text_of(name: str, initial: str = "x, y", results: str = "u, v") -> str:
    body, state, _ = CASES[name]
    inside = MORE % "inmore" + BODY % ("inbody", TURN, "a, v") if "inside" in body else ""
    return "HloModule m\n" + inside + MORE % "more" + BODY % ("body", body, state) + ENTRY % (initial, results)


def planned(text: str) -> tuple[Assignment, int]:
    log = DecisionLog()
    plan = build(optimise(parse(text), LOWERING), default_machine(), log=log).assignment
    return plan, sum(decision.rule == "state-swapped" for decision in log)


@pytest.mark.parametrize("name", CASES)
def test_what_is_swapped(name: str) -> None:
    plan, notes = planned(text_of(name))
    outer = next(loop for loop in plan.loop_copies if loop.name == "loop")
    assert len(plan.swaps.get(outer, ())) == CASES[name][2]
    assert notes == sum(map(len, plan.swaps.values()))


@pytest.mark.parametrize(("initial", "results"), [("x, y", "u, v"), ("x, x", "v, u"), ("y, x", "u, u")])
@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, initial: str, results: str) -> None:
    module = parse(text_of(name, initial, results))
    executable = compile_module(module, pipeline="none")
    draw = np.random.default_rng(1)
    x, y = (draw.integers(-8, 8, 300).astype(np.float32) for _ in range(2))
    for trips in range(5):
        Checker(optimise(module, LOWERING), trips=trips).check()
        arrays = [x, y, np.int32(trips)]
        for _ in range(2):  # again: the places are as before
            for got, want in zip(executable(*arrays), evaluate(module, arrays), strict=True):
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("trips", [0, 1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_donated_state(name: str, trips: int) -> None:
    module = parse(text_of(name))
    x, y = np.arange(300, dtype=np.float32), np.ones(300, np.float32)
    expected = evaluate(module, [x, y, np.int32(trips)])
    got = compile_module(module, pipeline="none", donate=[0, 1])(x, y, np.int32(trips))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_small_state_is_copied() -> None:
    plan, _ = planned(text_of("one turns").replace("300", "30"))
    assert not plan.swaps
    assert any(repeating for _, repeating in plan.loop_copies.values())
