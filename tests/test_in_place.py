"""Fusions that update a part of an array: in the storage of the array where they read no other part of it."""

from __future__ import annotations

import numpy as np
import pytest

from hlotool.analysis.in_place import in_place_pairs
from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.ir import Instruction, Module
from hlotool.text.parser import parse

LOOP = """HloModule m
condition {
  s = (s32[], f32[40,24]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[40,24]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[40,24] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  one = s32[] constant(1)
  next = s32[] add(i, one)
@
  ROOT t = (s32[], f32[40,24]) tuple(next, y)
}
ENTRY main {
  a = f32[40,24] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[40,24]) tuple(zero, a)
  w = (s32[], f32[40,24]) while(t), condition=condition, body=body
  ROOT y = f32[40,24] get-tuple-element(w), index=1
}
"""
SAME_ROW = """
  row = f32[1,24] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,24}
  new = f32[1,24] tanh(row)
  y = f32[40,24] dynamic-update-slice(x, new, i, zero)
"""
REVERSED_ROW = """
  row = f32[1,24] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,24}
  turned = f32[1,24] reverse(row), dimensions={1}
  new = f32[1,24] add(row, turned)
  y = f32[40,24] dynamic-update-slice(x, new, i, zero)
"""
NEXT_ROW = """
  row = f32[3,24] dynamic-slice(x, next, zero), dynamic_slice_sizes={3,24}
  old = f32[3,24] dynamic-slice(x, i, zero), dynamic_slice_sizes={3,24}
  new = f32[3,24] add(row, old)
  y = f32[40,24] dynamic-update-slice(x, new, i, zero)
"""
KNOWN_PART = """
  part = f32[38,22] slice(x), slice={[1:39], [1:23]}
  new = f32[38,22] multiply(part, part)
  y = f32[40,24] dynamic-update-slice(x, new, one, one)
"""
OTHER_PART = """
  part = f32[18,22] slice(x), slice={[0:18], [2:24]}
  new = f32[18,22] negate(part)
  y = f32[40,24] dynamic-update-slice(x, new, one, one)
"""
MOST = """
  part = f32[38,22] slice(x), slice={[0:38], [2:24]}
  new = f32[38,22] negate(part)
  y = f32[40,24] dynamic-update-slice(x, new, one, one)
"""


def update_of(module: Module) -> Instruction:
    """What gives the array in the body of the loop."""
    loop = next(i for i in module.entry if i.opcode == "while")
    body = loop.attributes["body"]
    (found,) = (i for i in body if i.shape.dimensions == (40, 24) and i.opcode in ("fusion", "dynamic-update-slice"))
    assert isinstance(found, Instruction)
    return found


def computes(update: Instruction) -> bool:
    """Whether what is written is computed in the same fusion."""
    return update.opcode == "fusion" and any(
        i.opcode in ("tanh", "add", "multiply", "negate") for i in update.attributes["calls"]
    )


@pytest.mark.parametrize(
    ("body", "fused", "in_place"),
    [
        (SAME_ROW, True, True),
        (REVERSED_ROW, False, True),
        (NEXT_ROW, False, True),
        (KNOWN_PART, True, True),
        (OTHER_PART, False, True),
        (MOST, True, False),
    ],
    ids=["same-row", "reversed-row", "next-row", "known-part", "other-part", "most"],
)
def test_update_of_an_array_that_is_read(body: str, fused: bool, in_place: bool) -> None:
    module = parse(LOOP.replace("@", body))
    optimised = optimise(module)
    update = update_of(optimised)
    assert computes(update) == fused
    assert bool(in_place_pairs(update)) == in_place
    array = np.random.default_rng(4).standard_normal((40, 24)).astype(np.float32)
    (expected,) = evaluate(module, [array])
    (found,) = compile_module(module)(array)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
