"""Slices that are views: which ones are, that their numbers are right, and that nothing writes over what they show."""

from __future__ import annotations

import numpy as np
import pytest
from buffer_checker import Checker

from hlotool.analysis.views import is_view
from hlotool.codegen.plan.steps import needs_kernel
from hlotool.driver import LOWERING, compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.ir import Module
from hlotool.text.parser import parse

ENTRY = """HloModule m
ENTRY e {{
  x = f32[6,4,8] parameter(0)
  y = f32[4,8] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
{body}
}}
"""

LAYERS = """HloModule layers
more {
  s = (s32[], f32[8], f32[5,8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8], f32[5,8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[8] get-tuple-element(s), index=1
  w = f32[5,8,8] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  layer = f32[1,8,8] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={1,8,8}
  matrix = f32[8,8] reshape(layer)
  d = f32[8] dot(v, matrix), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[8], f32[5,8,8]) tuple(next, d, %s)
}
ENTRY e {
  v = f32[8] parameter(0)
  w = f32[5,8,8] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[8], f32[5,8,8]) tuple(zero, v, w)
  r = (s32[], f32[8], f32[5,8,8]) while(t), condition=more, body=body
  ROOT d = f32[8] get-tuple-element(r), index=1
}
"""


def views(module: Module) -> set[str]:
    return {i.name for i in module.instructions() if is_view(i)}


def agrees(module: Module, *arguments: np.ndarray) -> None:
    """Native code, which runs the module as it is, gives the evaluator's numbers."""
    for trips in (1, 2):
        Checker(optimise(module, LOWERING), trips=trips).check()
    expected = evaluate(module, list(arguments))
    for got, want in zip(compile_module(module, pipeline="none")(*arguments), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("s = f32[1,4,8] slice(x), slice={[2:3], [0:4], [0:8]}\n  ROOT r = f32[1,4,8] negate(s)", True),
        ("s = f32[3,4,8] slice(x), slice={[2:5], [0:4], [0:8]}\n  ROOT r = f32[3,4,8] negate(s)", True),
        ("s = f32[1,2,8] slice(x), slice={[2:3], [1:3], [0:8]}\n  ROOT r = f32[1,2,8] negate(s)", True),
        ("s = f32[1,1,1] slice(x), slice={[5:6], [3:4], [7:8]}\n  ROOT r = f32[1,1,1] negate(s)", True),
        ("s = f32[1,1,3] slice(x), slice={[2:3], [1:2], [3:6]}\n  ROOT r = f32[1,1,3] negate(s)", True),
        # in pieces
        ("s = f32[2,2,8] slice(x), slice={[2:4], [1:3], [0:8]}\n  ROOT r = f32[2,2,8] negate(s)", False),
        ("s = f32[3,4,8] slice(x), slice={[0:6:2], [0:4], [0:8]}\n  ROOT r = f32[3,4,8] negate(s)", False),
        # of another shape, and of each other
        ("s = f32[1,4,8] slice(x), slice={[2:3], [0:4], [0:8]}\n  m = f32[4,8] reshape(s)\n"
         "  ROOT r = f32[4,8] subtract(y, m)", True),
        ("a = f32[2,4,8] slice(x), slice={[2:4], [0:4], [0:8]}\n  "
         "s = f32[1,4,8] slice(a), slice={[1:2], [0:4], [0:8]}\n"
         "  ROOT r = f32[1,4,8] negate(s)", True),
        # at places that are not known
        ("s = f32[1,4,8] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,4,8}\n"
         "  ROOT r = f32[1,4,8] negate(s)", True),
        ("s = f32[1,1,2] dynamic-slice(x, i, i, i), dynamic_slice_sizes={1,1,2}\n"
         "  ROOT r = f32[1,1,2] negate(s)", True),
        ("s = f32[1,4,2] dynamic-slice(x, i, zero, i), dynamic_slice_sizes={1,4,2}\n"
         "  ROOT r = f32[1,4,2] negate(s)", False),
        # results of the program are arrays of their own
        ("ROOT s = f32[1,4,8] slice(x), slice={[2:3], [0:4], [0:8]}", False),
        ("s = f32[1,4,8] slice(x), slice={[2:3], [0:4], [0:8]}\n  ROOT t = (f32[1,4,8]) tuple(s)", False),
        # what is to be updated is better copied at once
        ("s = f32[1,4,8] slice(x), slice={[2:3], [0:4], [0:8]}\n  m = f32[4,8] reshape(s)\n  l = f32[1,8] slice(y), "
         "slice={[0:1], [0:8]}\n  ROOT r = f32[4,8] dynamic-update-slice(m, l, i, zero)", False),
        # half of a result, and too little of one to keep it for
        ("a = f32[6,4,8] negate(x)\n  s = f32[3,4,8] slice(a), slice={[2:5], [0:4], [0:8]}\n"
         "  ROOT r = f32[3,4,8] negate(s)", True),
        ("a = f32[6,4,8] negate(x)\n  s = f32[1,4,8] slice(a), slice={[2:3], [0:4], [0:8]}\n"
         "  ROOT r = f32[1,4,8] negate(s)", False),
        # a result that is updated in place while its old rows are still to be read
        ("a = f32[4,8] negate(y)\n  s = f32[3,8] slice(a), slice={[1:4], [0:8]}\n  "
         "l = f32[1,8] constant({{1,2,3,4,5,6,7,8}})\n"
         "  u = f32[4,8] dynamic-update-slice(a, l, i, zero)\n  v = f32[3,8] slice(u), slice={[0:3], [0:8]}\n"
         "  ROOT r = f32[3,8] add(s, v)", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", [0, 2, 5, 77, -9])
def test_parts_that_lie_together(body: str, found: bool, place: int) -> None:
    module = parse(ENTRY.format(body="  " + body))
    assert ("s" in views(module)) == found
    x, y = np.arange(192, dtype=np.float32).reshape(6, 4, 8), np.ones((4, 8), np.float32)
    agrees(module, x, y, np.array(place, np.int32))


@pytest.mark.parametrize("kind", ["s8", "u8", "s64", "u64"])
@pytest.mark.parametrize("place", [0, 2, 5, 100, -7])
def test_indices_of_every_width_are_clamped(kind: str, place: int) -> None:
    module = parse(f"""HloModule m
ENTRY e {{
  x = f32[6,8] parameter(0)
  i = {kind}[] parameter(1)
  zero = {kind}[] constant(0)
  s = f32[1,8] dynamic-slice(x, i, zero), dynamic_slice_sizes={{1,8}}
  ROOT r = f32[1,8] negate(s)
}}
""")
    assert views(module) == {"s"}
    index = np.array(place).astype({"s8": np.int8, "u8": np.uint8, "s64": np.int64, "u64": np.uint64}[kind])
    agrees(module, np.arange(48, dtype=np.float32).reshape(6, 8), index)


@pytest.mark.parametrize("place", [0, 3, 50, -50])
def test_one_element_of_state_that_changes_is_loaded_in_line(place: int) -> None:
    """Not a view, since the loop writes over the state, and yet no kernel."""
    module = parse("""HloModule m
more {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  first = f32[1] slice(v), slice={[1:2]}
  other = f32[1] dynamic-slice(v, i), dynamic_slice_sizes={1}
  both = f32[1] add(first, other)
  w = f32[4] dynamic-update-slice(v, both, i)
  sum = f32[4] add(v, w)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[4]) tuple(next, sum)
}
ENTRY e {
  i = s32[] parameter(0)
  v = f32[4] parameter(1)
  t = (s32[], f32[4]) tuple(i, v)
  r = (s32[], f32[4]) while(t), condition=more, body=body
  ROOT d = f32[4] get-tuple-element(r), index=1
}
""")
    elements = [i for i in module.instructions() if i.opcode in ("slice", "dynamic-slice")]
    assert not views(module)
    assert not any(needs_kernel(i) for i in elements)
    agrees(module, np.array(max(place, -4), np.int32), np.array([1, 2, 3, 4], np.float32))


def test_a_loop_reads_its_layers_where_they_lie() -> None:
    module = parse(LAYERS % "w")
    assert views(module) == {"layer"}
    rng = np.random.default_rng(0)
    v, w = rng.standard_normal(8).astype(np.float32), rng.standard_normal((5, 8, 8)).astype(np.float32)
    agrees(module, v, w)
    optimised = optimise(module)
    assert all(is_view(i) for i in optimised.instructions() if "slice" in i.opcode)


def test_not_when_the_loop_changes_them() -> None:
    module = parse((LAYERS % "x").replace("  one = s32[]", "  x = f32[5,8,8] negate(w)\n  one = s32[]"))
    assert not views(module)
    rng = np.random.default_rng(0)
    agrees(module, rng.standard_normal(8).astype(np.float32), rng.standard_normal((5, 8, 8)).astype(np.float32))


def test_a_result_in_place_of_what_a_view_shows_is_refused() -> None:
    """The sum may be written over a, were it not that the kernel reads rows of a through s as well."""
    module = parse("""HloModule m
ENTRY e {
  x = f32[4,8] parameter(0)
  a = f32[4,8] exponential(x)
  s = f32[2,8] slice(a), slice={[2:4], [0:8]}
  n = f32[2,8] negate(s)
  m = f32[4,8] concatenate(n, n), dimensions={0}
  b = f32[4,8] add(a, m)
  z = f32[2,8] add(s, n)
  ROOT t = (f32[4,8], f32[2,8]) tuple(b, z)
}
""")
    assert views(module) == {"s"}
    agrees(module, np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8))


CACHE = """HloModule m
ENTRY e {
  x = f32[6,4,8] parameter(0)
  y = f32[4,8] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
  one = s32[] constant(1)
  ys = f32[1,4,8] reshape(y)
  first = f32[6,4,8] dynamic-update-slice(x, ys, zero, zero, i)
  a = f32[1,4,8] slice(first), slice={[0:1], [0:4], [0:8]}
%s
}
"""


@pytest.mark.parametrize(
    ("body", "found", "in_place"),
    [
        # read, then updated
        ("  b = f32[1,4,8] abs(a)\n  r = f32[6,4,8] dynamic-update-slice(first, b, one, zero, zero)\n"
         "  ROOT t = (f32[6,4,8], f32[1,4,8]) tuple(r, b)", {"a"}, {"r"}),
        # in three steps, by another name
        ("  b = f32[4,8] reshape(a)\n  c = f32[4,8] abs(b)\n  d = f32[1,4,8] reshape(c)\n"
         "  s = f32[6,4,8] dynamic-update-slice(first, d, one, zero, zero)\n"
         "  e = f32[1,4,8] dynamic-slice(s, one, zero, zero), dynamic_slice_sizes={1,4,8}\n  f = f32[1,4,8] negate(e)\n"
         "  ROOT r = f32[6,4,8] dynamic-update-slice(s, f, i, zero, zero)", {"a", "e"}, {"s", "r"}),
        # read when it is updated, and after
        ("  ROOT r = f32[6,4,8] dynamic-update-slice(first, a, one, zero, zero)", set(), {"r"}),
        ("  r = f32[6,4,8] dynamic-update-slice(first, ys, one, zero, zero)\n  b = f32[1,4,8] abs(a)\n"
         "  ROOT t = (f32[6,4,8], f32[1,4,8]) tuple(r, b)", set(), {"r"}),
        # a part of a part is read after
        ("  q = f32[1,2,8] slice(a), slice={[0:1], [0:2], [0:8]}\n  b = f32[1,4,8] abs(a)\n"
         "  r = f32[6,4,8] dynamic-update-slice(first, b, one, zero, zero)\n  c = f32[1,2,8] negate(q)\n"
         "  ROOT t = (f32[6,4,8], f32[1,2,8]) tuple(r, c)", {"q"}, {"r"}),
    ],
)  # fmt: skip
def test_views_of_what_is_updated_later(body: str, found: set[str], in_place: set[str]) -> None:
    module = parse(CACHE % body)
    plan = Checker(optimise(module, LOWERING)).check()
    assert {i.name for i in plan.views} == found
    assert {i.name for i in plan.in_place} & {"r", "s"} == in_place
    draw = np.random.default_rng(0)
    agrees(module, draw.random((6, 4, 8), np.float32), draw.random((4, 8), np.float32), np.int32(2))
