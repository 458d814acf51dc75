"""Loops that are unrolled and conditionals that become selects: around thresholds, for every selector, by numbers."""

from __future__ import annotations

import numpy as np
import pytest

from hlotool.driver import optimise
from hlotool.evaluate import evaluate
from hlotool.ir import Module
from hlotool.ir.verifier import check
from hlotool.text.parser import parse

LOOP = """
HloModule loop
body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  f = f32[] convert(i)
  w = f32[8] broadcast(f), dimensions={}
  y = f32[8] multiply(x, x)
  z = f32[8] add(y, w)
  ROOT r = (s32[], f32[8]) tuple(next, z)
}
condition {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(%d)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[8] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[8]) tuple(zero, x)
  loop = (s32[], f32[8]) while(start), condition=condition, body=body
  ROOT r = f32[8] get-tuple-element(loop), index=1
}
"""

BRANCHES = """
HloModule branches
yes { x = (f32[%(n)d], f32[]) parameter(0)
  a = f32[%(n)d] get-tuple-element(x), index=0
  b = f32[] get-tuple-element(x), index=1
  c = f32[%(n)d] %(opcode)s(a)
  ROOT t = (f32[%(n)d], f32[]) tuple(c, b) }
no { x = (f32[%(n)d], f32[]) parameter(0)
  a = f32[%(n)d] get-tuple-element(x), index=0
  b = f32[] get-tuple-element(x), index=1
  d = f32[] add(b, b)
  ROOT t = (f32[%(n)d], f32[]) tuple(a, d) }
ENTRY e {
  p = %(selector)s[] parameter(0)
  a = f32[%(n)d] parameter(1)
  b = f32[] parameter(2)
  t = (f32[%(n)d], f32[]) tuple(a, b)
  ROOT r = (f32[%(n)d], f32[]) conditional(p, t, t), %(named)s
}
"""
NAMED = {"pred": "true_computation=yes, false_computation=no", "s32": "branch_computations={yes, no}"}


def branches(selector: str = "pred", n: int = 4, opcode: str = "negate") -> str:
    return BRANCHES % {"selector": selector, "n": n, "opcode": opcode, "named": NAMED[selector]}


def opcodes(module: Module) -> list[str]:
    return [i.opcode for i in module.instructions()]


@pytest.mark.parametrize(
    ("length", "opcode", "unrolled"), [(16384, "tanh", True), (16383, "tanh", False), (16384, "cumulative", False)]
)
def test_loops_go_through_large_arrays_once(length: int, opcode: str, unrolled: bool) -> None:
    """Bodies too large else are unrolled where their copies can be one loop over the arrays."""
    step = "reverse(z), dimensions={0}" if opcode == "cumulative" else f"{opcode}(z)"
    more = "\n".join(f"  m{k} = f32[8] negate({f'm{k - 1}' if k else 'a'})" for k in range(120))
    text = (LOOP % 3).replace("  ROOT r = (s32[], f32[8]) tuple(next, z)", f"  a = f32[8] {step}\n{more}\n"
                              "  ROOT r = (s32[], f32[8]) tuple(next, m119)")  # fmt: skip
    module = parse(text.replace("f32[8]", f"f32[{length}]"))
    result = optimise(module, "while-loop-unroller,tuple-simplifier,dce")
    check(result)
    assert ("while" not in opcodes(result)) is unrolled
    x = np.linspace(-1, 1, length).astype(np.float32)
    assert evaluate(result, [x])[0].tobytes() == evaluate(module, [x])[0].tobytes()


@pytest.mark.parametrize(
    ("selector", "values"), [("pred", [False, True]), ("s32", [0, 1, 2, -1, -(2**31)])]
)
def test_cheap_conditionals_become_selects(selector: str, values: list[int]) -> None:
    module = parse(branches(selector))
    selected = optimise(module, "conditional-to-select,tuple-simplifier,dce")
    check(selected)
    assert "conditional" not in opcodes(selected)
    assert opcodes(selected).count("select") == 2
    a, b = np.array([1.0, -2.0, np.nan, 0.0], np.float32), np.float32(3)
    for value in values:
        arguments = [np.array(value, np.bool_ if selector == "pred" else np.int32), a, np.asarray(b)]
        for got, want in zip(evaluate(selected, arguments), evaluate(module, arguments), strict=True):
            assert got.tobytes() == want.tobytes()
