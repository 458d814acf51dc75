"""Passes that give a parameter other arrays do not leave it the replication of the old ones."""

from __future__ import annotations

import pytest

from hlotool.driver import optimise
from hlotool.ir.verifier import check
from hlotool.text.parser import parse

LOOP = """HloModule m
body {
 p = (s32[], f32[4], f32[4]) parameter(0), parameter_replication={true,false,true}
 i = s32[] get-tuple-element(p), index=0
 one = s32[] constant(1)
 next = s32[] add(i, one)
 a = f32[4] get-tuple-element(p), index=1
 b = f32[4] get-tuple-element(p), index=2
 three = f32[] constant(3)
 threes = f32[4] broadcast(three), dimensions={}
 c = f32[4] cosine(threes)
 n = f32[4] add(a, c)
 ROOT t = (s32[], f32[4], f32[4]) tuple(next, n, b)
}
condition {
 p = (s32[], f32[4], f32[4]) parameter(0), parameter_replication={true,false,true}
 i = s32[] get-tuple-element(p), index=0
 k = s32[] constant(5)
 ROOT c = pred[] compare(i, k), direction=LT
}
ENTRY e {
 x = f32[4] parameter(0)
 i = s32[] constant(0)
 t = (s32[], f32[4], f32[4]) tuple(i, x, x)
 w = (s32[], f32[4], f32[4]) while(t), condition=condition, body=body
 ROOT r = f32[4] get-tuple-element(w), index=1
}
"""
SIZED = """HloModule m
ENTRY e {
 x = f32[<=8] parameter(0), parameter_replication={true}
 ROOT r = f32[<=8] copy(x)
}
"""


@pytest.mark.parametrize(
    ("text", "pipeline"),
    [
        (LOOP, "while-loop-simplifier"),
        (LOOP, "while-loop-invariant-code-motion"),
        (LOOP, "default"),
        (SIZED, "dynamic-padder,dynamic-entry"),
    ],
)
def test_stale_replication_goes(text: str, pipeline: str) -> None:
    changed = optimise(parse(text), pipeline, strict=True)
    check(changed)
    assert "parameter_replication" not in str(changed)
