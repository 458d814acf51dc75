"""How often loops run: what the analysis says, what is written on the loop, and what the evaluator counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlotool.analysis.trip_count import known_trip_count, trip_count
from hlotool.driver import optimise
from hlotool.evaluate import evaluate
from hlotool.ir import Instruction, Module
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

LOOP = """HloModule m
body {
  t = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[8] get-tuple-element(t), index=1
  step = s32[] constant(@step)
  j = s32[] add(i, step)
  once = f32[8] negate(x)
  ROOT r = (s32[], f32[8]) tuple(j, once)
}
more {
  t = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(@limit)
  ROOT c = pred[] compare(i, n), direction=@direction
}
ENTRY main {
  x = f32[8] parameter(0)
  first = s32[] constant(@initial)
  t = (s32[], f32[8]) tuple(first, x)
  ROOT l = (s32[], f32[8]) while(t), condition=more, body=body
}"""


def loop(limit: int, initial: int = 0, step: int = 1, direction: str = "LT") -> Module:
    text = LOOP.replace("@limit", str(limit)).replace("@initial", str(initial)).replace("@step", str(step))
    return parse(text.replace("@direction", direction))


@pytest.mark.parametrize(
    ("initial", "step", "limit", "direction", "count"),
    [
        (0, 1, 10, "LT", 10), (0, 1, 10, "LE", 11), (3, 4, 10, "LT", 2), (10, -3, 0, "GT", 4), (10, -5, 0, "GE", 3),
        (0, 2, 10, "NE", 5), (0, 3, 10, "NE", None), (7, 1, 7, "EQ", 1), (0, 0, 10, "LT", None),
        (0, -1, 10, "LT", None),
        (5, 1, 5, "LT", 0), (2147483600, 100, 2147483647, "LT", None), (-5, 1, 5, "LT", 10), (0, -2, -7, "GE", 4),
    ],
)  # fmt: skip
def test_trip_count(initial: int, step: int, limit: int, direction: str, count: int | None) -> None:
    module = loop(limit, initial, step, direction)
    found = trip_count(module.entry.root)
    assert (None if found is None else found.count) == count
    if count is not None:  # the evaluator agrees
        iterations = 0

        def observe(instruction: Instruction, value: Any) -> None:
            nonlocal iterations
            iterations += instruction.name == "once"

        evaluate(module, [np.zeros(8, np.float32)], observe)
        assert iterations == count


def test_annotations_are_read_from_text() -> None:
    """Also of a loop that cannot be counted; the annotations themselves are in tests/hlo/loops."""
    text = print_module(optimise(loop(7), "while-loop-trip-count-annotator"))
    endless = parse(text.replace("constant(1)", "constant(3)").replace("direction=LT", "direction=NE")).entry.root
    assert trip_count(endless) is None
    assert known_trip_count(endless) == 7
