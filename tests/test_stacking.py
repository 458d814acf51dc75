"""Results that a loop stacks: what they are before it is not written, and the numbers are right."""

from __future__ import annotations

import numpy as np
import pytest
from buffer_checker import Checker

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.stacking import stacked_elements, stackings
from hlotool.codegen.machine import default_machine
from hlotool.codegen.program import build
from hlotool.driver import LOWERING, compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.ir import Module
from hlotool.text.parser import parse

LOOP = """HloModule m
more {
  s = (s32[], f32[5], f32[7,5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(@limit)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[5], f32[7,5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[5] get-tuple-element(s), index=1
  ys = f32[7,5] get-tuple-element(s), index=2
  one = s32[] constant(@step)
  next = s32[] add(i, one)
  zero = s32[] constant(0)
  six = s32[] constant(6)
  back = s32[] subtract(six, i)
  g = f32[5] add(h, h)
  r = f32[1,5] reshape(g)
  @body
  ROOT t = (s32[], f32[5], f32[7,5]) tuple(next, @state, u)
}
ENTRY e {
  x = f32[5] parameter(0)
  y = f32[7,5] parameter(1)
  first = s32[] constant(@first)
  c = f32[] constant(3)
  fill = f32[7,5] broadcast(c), dimensions={}
  a = f32[7,5] abs(y)
  t = (s32[], f32[5], f32[7,5]) tuple(first, x, @initial)
  w = (s32[], f32[5], f32[7,5]) while(t), condition=more, body=body
  h = f32[5] get-tuple-element(w), index=1
  ys = f32[7,5] get-tuple-element(w), index=2
  ROOT r = (f32[5], f32[7,5], f32[7,5]) tuple(h, ys, @result)
}"""

FORTH = "u = f32[7,5] dynamic-update-slice(ys, r, i, zero)"

CASES: dict[str, tuple[dict[str, str], bool, bool]] = {
    "forth": ({}, True, True),
    "back": ({"body": FORTH.replace("r, i,", "r, back,")}, True, True),
    "from another place": ({"first": "2", "limit": "9", "body": FORTH.replace("r, i,", "r, place,").replace(
        "u =", "two = s32[] constant(2)\n  place = s32[] subtract(i, two)\n  u =")}, True, True),
    "by twos": ({"step": "2", "limit": "14", "body": FORTH}, False, False),
    "one row less": ({"limit": "6"}, False, False),
    "one trip more": ({"limit": "8"}, False, False),
    "never": ({"limit": "0"}, False, False),
    "not all of a row": ({"body": "p = f32[1,4] slice(r), slice={[0:1], [0:4]}\n  " + FORTH.replace("r, i", "p, i")},
                         False, False),
    "always the same row": ({"body": FORTH.replace("r, i,", "r, zero,")}, False, False),
    "read before": ({"body": "z = f32[1,5] slice(ys), slice={[6:7], [0:5]}\n  q = f32[1,5] add(r, z)\n  "
                     + FORTH.replace("r, i", "q, i")}, False, False),
    "read by other state": ({"body": "z = f32[1,5] slice(ys), slice={[6:7], [0:5]}\n  q = f32[5] reshape(z)\n  "
                             + FORTH, "state": "q"}, False, False),
    "changed too": ({"body": FORTH.replace("u =", "v =") + "\n  u = f32[7,5] add(v, v)"}, False, False),
    "an argument": ({"initial": "y"}, True, False),
    "computed": ({"initial": "a"}, True, False),
    "needed elsewhere": ({"result": "fill"}, True, False),
}  # fmt: skip


def text_of(name: str) -> str:
    given = {"body": FORTH, "initial": "fill", "result": "y", "limit": "7", "first": "0", "step": "1", "state": "g"}
    text = LOOP
    for key, value in (given | CASES[name][0]).items():
        text = text.replace(f"@{key}", value)
    return text


@pytest.mark.parametrize("name", CASES)
def test_what_is_left_out(name: str) -> None:
    _, stacked, left_out = CASES[name]
    for pipeline in ("none", "fusion", "fusion,multi-output-fusion"):
        module = optimise(optimise(parse(text_of(name)), pipeline), LOWERING)
        loop = next(i for i in module.instructions() if i.opcode == "while")
        assert stacked_elements(loop, stackings(loop)) == ({2} if stacked else set()), pipeline
        log = DecisionLog()
        program = build(module, default_machine(), log=log)
        assert any(decision.rule == "initial-unread" for decision in log) == left_out
        if left_out:
            initial = loop.operands[0].operands[2]
            assert not any(use.instruction == initial.name for use in program.kernels)


def results(module: Module, pipeline: str) -> None:
    executable = compile_module(module, pipeline=pipeline)
    draw = np.random.default_rng(3)
    arrays = [draw.integers(-4, 4, p.shape.dimensions).astype(np.float32) for p in module.entry.parameters]
    expected = evaluate(module, arrays)
    spoilt = [np.full(s.dimensions, np.nan, np.float32) for s in executable.outputs]
    for got, want in zip(executable(*arrays, out=spoilt), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    module = parse(text_of(name))
    for pipeline in ("none", "fusion", "default"):
        results(module, pipeline)
    Checker(optimise(module, LOWERING), trips=7).check()


def test_indices_that_do_not_fit() -> None:
    """A small index type that wraps on its way reaches other rows than its numbers say."""
    text = text_of("forth").replace("7,5", "200,5").replace("s32", "s8").replace("constant(7)", "constant(100)")
    text = text.replace("r, i,", "r, twice,").replace("u =", "twice = s8[] add(i, i)\n  u =")
    loop = next(i for i in parse(text).instructions() if i.opcode == "while")
    assert stackings(loop)
    assert not stacked_elements(loop, stackings(loop))


ROWS = {
    "computed and put there": ("v = f32[5] negate(h)\n  w = f32[1,5] reshape(v)\n  "
                               "u = f32[7,5] dynamic-update-slice(ys, w, i, zero)", "g", True),
    "read after it is put there": ("v = f32[5] negate(h)\n  w = f32[1,5] reshape(v)\n  "
                                   "u = f32[7,5] dynamic-update-slice(ys, w, i, zero)\n  "
                                   "q = f32[5] subtract(v, g)", "q", True),
    "updated on the way": ("v = f32[5] negate(h)\n  k = f32[1] slice(g), slice={[2:3]}\n  "
                           "z = f32[5] dynamic-update-slice(v, k, one)\n  w = f32[1,5] reshape(z)\n  "
                           "u = f32[7,5] dynamic-update-slice(ys, w, back, zero)\n  q = f32[5] add(z, g)", "q", True),
    "updated after": ("v = f32[5] negate(h)\n  k = f32[1] slice(g), slice={[2:3]}\n  w = f32[1,5] reshape(v)\n  "
                      "u = f32[7,5] dynamic-update-slice(ys, w, back, zero)\n  "
                      "q = f32[5] dynamic-update-slice(v, k, one)", "q", None),
    "state too": ("v = f32[5] negate(h)\n  w = f32[1,5] reshape(v)\n  "
                  "u = f32[7,5] dynamic-update-slice(ys, w, i, zero)", "v", None),
    "state itself": ("w = f32[1,5] reshape(h)\n  u = f32[7,5] dynamic-update-slice(ys, w, i, zero)", "g", False),
    "known late": ("v = f32[5] negate(h)\n  w = f32[1,5] reshape(v)\n  k = f32[1] slice(v), slice={[0:1]}\n  "
                   "m = f32[] reshape(k)\n  j = s32[] convert(m)\n  "
                   "u = f32[7,5] dynamic-update-slice(ys, w, j, zero)", "g", False),
    "several at once": ("v = f32[4] slice(h), slice={[0:4]}\n  c = f32[4] negate(v)\n  w = f32[1,4] reshape(c)\n  "
                        "u = f32[7,5] dynamic-update-slice(ys, w, i, one)", "g", True),
    "joined": ("k = f32[2] slice(h), slice={[0:2]}\n  l = f32[2] negate(k)\n  m = f32[3] slice(g), slice={[2:5]}\n  "
               "n = f32[3] abs(m)\n  v = f32[5] concatenate(l, n), dimensions={0}\n  w = f32[1,5] reshape(v)\n  "
               "u = f32[7,5] dynamic-update-slice(ys, w, i, zero)", "v", None),
    "joined and left": ("k = f32[2] slice(h), slice={[0:2]}\n  l = f32[2] negate(k)\n  "
                        "m = f32[3] slice(g), slice={[2:5]}\n  n = f32[3] abs(m)\n  "
                        "v = f32[5] concatenate(l, n), dimensions={0}\n  w = f32[1,5] reshape(v)\n  "
                        "u = f32[7,5] dynamic-update-slice(ys, w, i, zero)", "g", True),
    "in pieces": ("k = f32[] convert(i)\n  v = f32[2,2] broadcast(k), dimensions={}\n  "
                  "u = f32[7,5] dynamic-update-slice(ys, v, i, one)", "g", False),
    "updated twice": ("v = f32[5] negate(h)\n  w = f32[1,5] reshape(v)\n  two = s32[] constant(2)\n  "
                      "z = f32[7,5] dynamic-update-slice(ys, w, i, zero)\n  "
                      "u = f32[7,5] dynamic-update-slice(z, r, two, zero)", "g", False),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_rows_computed_in_place(name: str) -> None:
    body, state, found = ROWS[name]
    given = {"body": body, "initial": "fill", "result": "y", "limit": "7", "first": "0", "step": "1", "state": state}
    text = LOOP
    for key, value in given.items():
        text = text.replace(f"@{key}", value)
    module = parse(text)
    log = DecisionLog()
    # What is profiled has no small loops, which would keep rows in registers.
    program = build(optimise(module, LOWERING), default_machine(), log=log, profiled=True)
    if found is not None:
        assert any(decision.rule == "row-in-place" for decision in log) == found
        assert any(use.instruction == "u" for use in program.kernels) != found
    Checker(optimise(module, LOWERING), trips=7).check()
    for pipeline in ("none", "default"):
        results(module, pipeline)
