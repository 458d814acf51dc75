"""Loops that each task of their kernel goes through alone: which are, and the same numbers as without."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Module
from hlotool.ir.verifier import check
from hlotool.text.parser import parse

STATE = "(s32[], f32[64,512], f32[9,64,512])"
LOOP = f"""HloModule m

more {{
  p = {STATE} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(7)
  ROOT r = pred[] compare(i, n), direction=LT
}}

body {{
  p = {STATE} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[64,512] get-tuple-element(p), index=1
  ys = f32[9,64,512] get-tuple-element(p), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  %s
  ROOT t = {STATE} tuple(next, y, zs)
}}

ENTRY e {{
  x = f32[64,512] parameter(0)
  ys = f32[9,64,512] parameter(1)
  i = s32[] parameter(2)
  t = {STATE} tuple(i, x, ys)
  ROOT r = {STATE} while(t), condition=more, body=body
}}
"""

STEP = "l = f32[64,512] logistic(x)\n  e = f32[64,512] exponential(l)\n  c = f32[64,512] cosine(e)\n"
ELEMENTS = STEP + "  y = f32[64,512] add(c, l)\n  zs = f32[9,64,512] copy(ys)\n"
PART = (
    "f = f32[] convert(i)\n  fs = f32[64,512] broadcast(f), dimensions={}\n  v = f32[64,512] add(x, fs)\n  "
    + STEP.replace("(x)", "(v)") + "  part = f32[1,64,512] reshape(c)\n  y = f32[64,512] copy(x)\n"
)  # fmt: skip
STACK = "  zs = f32[9,64,512] dynamic-update-slice(ys, part, i, zero, zero)\n"

SCAN = """HloModule scan

more {
  p = (s32[], f32[32,100], f32[20,32,100], f32[100,200], f32[20,32,200]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(20)
  ROOT r = pred[] compare(i, n), direction=LT
}

body {
  p = (s32[], f32[32,100], f32[20,32,100], f32[100,200], f32[20,32,200]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  h = f32[32,100] get-tuple-element(p), index=1
  ys = f32[20,32,100] get-tuple-element(p), index=2
  w = f32[100,200] get-tuple-element(p), index=3
  xs = f32[20,32,200] get-tuple-element(p), index=4
  zero = s32[] constant(0)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  part = f32[1,32,200] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,32,200}
  x = f32[32,200] reshape(part)
  d = f32[32,200] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[32,200] add(d, x)
  left = f32[32,100] slice(s), slice={[0:32], [0:100]}
  right = f32[32,100] slice(s), slice={[0:32], [100:200]}
  t = f32[32,100] tanh(left)
  l = f32[32,100] logistic(right)
  g = f32[32,100] multiply(t, l)
  made = f32[1,32,100] reshape(g)
  zs = f32[20,32,100] dynamic-update-slice(ys, made, i, zero, zero)
  ROOT u = (s32[], f32[32,100], f32[20,32,100], f32[100,200], f32[20,32,200]) tuple(next, g, zs, w, xs)
}

ENTRY e {
  h = f32[32,100] parameter(0)
  v = f32[100,200] parameter(1)
  tenth = f32[] constant(0.1)
  tenths = f32[100,200] broadcast(tenth), dimensions={}
  w = f32[100,200] multiply(v, tenths)
  xs = f32[20,32,200] parameter(2)
  nothing = f32[] constant(0)
  ys = f32[20,32,100] broadcast(nothing), dimensions={}
  i = s32[] constant(0)
  t = (s32[], f32[32,100], f32[20,32,100], f32[100,200], f32[20,32,200]) tuple(i, h, ys, w, xs)
  r = (s32[], f32[32,100], f32[20,32,100], f32[100,200], f32[20,32,200]) while(t), condition=more, body=body
  j = s32[] get-tuple-element(r), index=0
  g = f32[32,100] get-tuple-element(r), index=1
  zs = f32[20,32,100] get-tuple-element(r), index=2
  ROOT out = (s32[], f32[32,100], f32[20,32,100]) tuple(j, g, zs)
}
"""


def apart(made: Module, arguments: list[np.ndarray[Any, Any]] | None = None, **options: Any) -> bool:
    """Whether tasks go through a loop of `made` alone; its numbers are those of one thread, near the evaluator's."""
    check(made)
    arguments = random_inputs(made, 1) if arguments is None else arguments
    executable = compile_module(made, threads=2, **options)
    found = [executable(*arguments) for _ in range(3)][-1]
    alone = compile_module(made, threads=1, **options)(*arguments)
    assert [np.asarray(x).tobytes() for x in found] == [np.asarray(x).tobytes() for x in alone]
    assert all(row.ok for row in compare_all(found, evaluate(made, arguments)))
    return bool(re.search(r"^define (?:internal )?void @run_\w+_loop\(", executable.text("llvm"), re.MULTILINE))


def loop(step: str, start: int = 0) -> tuple[Module, list[np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((64, 512), (9, 64, 512))]
    return parse(LOOP % step), [*arrays, np.array(start, np.int32)]


@pytest.mark.parametrize("start", [-2, 0, 6, 7, 30])
@pytest.mark.parametrize("step", [ELEMENTS, PART + STACK])
def test_elements(step: str, start: int) -> None:
    """The counter is a result too, and where the loop does not run it is what it was."""
    assert apart(*loop(step, start))


def test_a_recurrent_layer() -> None:
    assert apart(parse(SCAN))


def test_subnormal_numbers_are_flushed_by_all_threads() -> None:
    made = parse(SCAN)
    arguments = [a * np.float32(1e-39) for a in random_inputs(made, 1)]
    flushed = [compile_module(made, threads=n, flush_denormals=True)(*arguments) for n in (1, 2)]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*flushed, strict=True))
    assert not any(np.any((a != 0) & (abs(a) < 1e-38)) for a in flushed[1])


def test_loops_in_loops() -> None:
    """The inner loop begins anew, with the state that the trip before left."""
    grows = ELEMENTS.replace("y = f32[64,512] add(c, l)", "g = f32[64,512] maximum(c, l)\n  y = f32[64,512] add(x, g)")
    head, entry = (LOOP % grows).split("ENTRY e {", 1)
    outer = head + f"""
many {{
  p = {STATE} parameter(0)
  x = f32[64,512] get-tuple-element(p), index=1
  first = f32[1,1] slice(x), slice={{[0:1], [0:1]}}
  value = f32[] reshape(first)
  bound = f32[] constant(6)
  ROOT r = pred[] compare(value, bound), direction=LT
}}

again {{
  p = {STATE} parameter(0)
  x = f32[64,512] get-tuple-element(p), index=1
  ys = f32[9,64,512] get-tuple-element(p), index=2
  first = f32[1,1] slice(x), slice={{[0:1], [0:1]}}
  value = f32[] reshape(first)
  start = s32[] convert(value)
  t = {STATE} tuple(start, x, ys)
  w = {STATE} while(t), condition=more, body=body
  i = s32[] get-tuple-element(w), index=0
  y = f32[64,512] get-tuple-element(w), index=1
  zs = f32[9,64,512] get-tuple-element(w), index=2
  ROOT u = {STATE} tuple(i, y, zs)
}}

ENTRY e {{{entry.replace("condition=more, body=body", "condition=many, body=again")}"""
    arguments = loop(ELEMENTS)[1]
    arguments[0][:] = -2.0
    assert apart(parse(outer), arguments)


@pytest.mark.parametrize(
    ("what", "step"),
    [
        ("other rows", ELEMENTS.replace("cosine(e)", "reverse(e), dimensions={0}")),
        (
            "an element that another task made",
            "first = f32[1,1] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,1}\n  value = f32[] reshape(first)\n"
            "  both = f32[64,512] broadcast(value), dimensions={}\n  v = f32[64,512] add(x, both)\n  "
            + ELEMENTS.replace("(x)", "(v)"),
        ),
        (
            "a part that another task wrote in the trip before",
            PART + "  two = f32[2,64,512] concatenate(part, part), dimensions={0}\n" + STACK.replace("part", "two"),
        ),
        (
            "a step of the stack",
            "last = f32[1,64,512] dynamic-slice(ys, zero, i, zero), dynamic_slice_sizes={1,64,512}\n"
            "  before = f32[64,512] reshape(last)\n  "
            + PART.replace("exponential(l)", "add(l, before)") + STACK,
        ),
    ],
)  # fmt: skip
def test_not_where_tasks_read_or_write_what_others_do(what: str, step: str) -> None:
    assert not apart(*loop(step)), what


def test_with_a_time_limit_too() -> None:
    """The thread that was called asks whether there is time left, the others look at what it was told."""
    assert apart(parse(SCAN), timeout=100.0)


ROWS = """f = f32[] convert(i)
  fs = f32[%d,64,512] broadcast(f), dimensions={}
  xs = f32[%d,64,512] broadcast(x), dimensions={1,2}
  v = f32[%d,64,512] add(xs, fs)
  l = f32[%d,64,512] logistic(v)
  e = f32[%d,64,512] exponential(l)
  c = f32[%d,64,512] cosine(e)
  zs = f32[9,64,512] dynamic-update-slice(ys, c, i, zero, zero)
  y = f32[64,512] copy(x)"""


@pytest.mark.parametrize(("rows", "found"), [(1, True), (2, False)])
def test_rows_that_are_computed_where_they_are_stacked(rows: int, found: bool) -> None:
    """Two rows at a time lie where those of the trip before do, which another task may have written."""
    assert apart(*loop(ROWS.replace("%d", str(rows))), pipeline='fusion{only="^(fs|xs|v|l|e|c)$"}') == found
