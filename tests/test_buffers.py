"""Buffer assignment: no value is overwritten while it is needed, and no copy is made that is not."""

from __future__ import annotations

import cProfile
import random

import pytest
from buffer_checker import Checker
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import Generator

from hlotool.analysis.donation import Donation
from hlotool.analysis.in_place import module_in_place_pairs
from hlotool.codegen.plan.arena import place
from hlotool.codegen.plan.buffers import assign
from hlotool.codegen.plan.values import Assignment, Value, array_leaves, overlap
from hlotool.driver import optimise
from hlotool.ir import Module, UnsupportedError
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.text.parser import parse


def lowered(text: str, pipeline: str = "none") -> Module:
    module = optimise(parse(text), pipeline)
    run_pipeline(module, parse_pipeline("lowering"))
    return module


def checked(text: str) -> tuple[Module, Assignment]:
    """The assignment of a module, after running it on tags with different numbers of trips and orders of branches."""
    module = lowered(text)
    for trips in (0, 1, 2, 3):
        Checker(module, trips=trips).check()
    plan = assign(module.entry, module_in_place_pairs(module))
    place(plan)
    return module, plan


def loop(state: str, body: str, initial: str) -> str:
    """A module with a loop over ``(s32[], state...)``; `body` defines the new state from ``s0, s1...``."""
    kinds = ["s32[]", *state.split()]
    shape = "(" + ", ".join(kinds) + ")"
    elements = "\n".join(f"  s{k} = {kind} get-tuple-element(p), index={k}" for k, kind in enumerate(kinds))
    return f"""HloModule m

condition {{
  p = {shape} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT go = pred[] compare(i, n), direction=LT
}}

body {{
  p = {shape} parameter(0)
{elements}
  one = s32[] constant(1)
  next = s32[] add(s0, one)
{body}
}}

ENTRY main {{
  x = f32[40] parameter(0)
  y = f32[40] parameter(1)
  zero = s32[] constant(0)
  a = f32[40] negate(x)
  b = f32[40] negate(y)
  t = {shape} tuple(zero, {initial})
  ROOT w = {shape} while(t), condition=condition, body=body
}}
"""


def copies(plan: Assignment) -> tuple[int, int]:
    """Copies of arrays (not of counters) when entering loops and when repeating them."""
    entering, repeating = zip(*plan.loop_copies.values(), strict=True)
    sizes = [[c for some in rows for c in some if c.source.size > 8] for rows in (entering, repeating)]
    return len(sizes[0]), len(sizes[1])


STATES = {
    "kept": ("ROOT r = (s32[], f32[40], f32[40]) tuple(next, s1, s2)", (0, 0)),
    "one changes": ("u = f32[40] add(s1, s2)\n  ROOT r = (s32[], f32[40], f32[40]) tuple(next, u, s2)", (0, 0)),
    "swapped": ("ROOT r = (s32[], f32[40], f32[40]) tuple(next, s2, s1)", (0, 3)),
    "twice the same": ("ROOT r = (s32[], f32[40], f32[40]) tuple(next, s1, s1)", (0, 1)),
    "constant": (
        "c = f32[40] iota(), iota_dimension=0\n  ROOT r = (s32[], f32[40], f32[40]) tuple(next, s1, c)",
        (0, 0),
    ),
    "old value needed after the new one": (
        "u = f32[40] add(s1, s2)\n  v = f32[40] multiply(s1, u)\n"
        "  ROOT r = (s32[], f32[40], f32[40]) tuple(next, u, v)",
        (0, 1),
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_loop_state(name: str) -> None:
    body, expected = STATES[name]
    _, plan = checked(loop("f32[40] f32[40]", body, "a, b"))
    entering, repeating = copies(plan)
    assert entering <= expected[0]
    assert repeating <= expected[1]


def test_loop_state_rotates() -> None:
    body = "ROOT r = (s32[], f32[40], f32[40], f32[40]) tuple(next, s2, s3, s1)"
    _, plan = checked(loop("f32[40] f32[40] f32[40]", body, "a, b, a"))
    assert plan.loop_copies


def test_one_initial_value_for_two_elements() -> None:
    body = "u = f32[40] add(s1, s2)\n  ROOT r = (s32[], f32[40], f32[40]) tuple(next, u, s1)"
    checked(loop("f32[40] f32[40]", body, "a, a"))
    checked(loop("f32[40] f32[40]", body, "x, x"))


UPDATE = """
  z = f32[1] slice(s1), slice={[0:1]}
  u = f32[40] dynamic-update-slice(s1, z, s0)
"""


def test_updates_in_place() -> None:
    module, plan = checked(loop("f32[40]", UPDATE + "  ROOT r = (s32[], f32[40]) tuple(next, u)", "a"))
    update = next(i for i in module.instructions() if i.opcode == "dynamic-update-slice")
    assert plan.in_place[update] == {0}
    assert copies(plan) == (0, 0)


def test_no_update_in_place_while_the_old_value_is_needed() -> None:
    body = UPDATE + "  k = f32[40] add(u, s1)\n  ROOT r = (s32[], f32[40]) tuple(next, k)"
    module, plan = checked(loop("f32[40]", body, "a"))
    update = next(i for i in module.instructions() if i.opcode == "dynamic-update-slice")
    assert update not in plan.in_place


def test_no_update_in_place_of_what_another_operand_reads() -> None:
    text = """HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
ENTRY main {
 x = f32[4] parameter(0)
 g = s32[4,1] parameter(1)
 y = f32[4] negate(x)
 v = f32[4] reshape(y)
 s = f32[4] scatter(y, g, v), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
   index_vector_dim=1, to_apply=add
 ROOT r = f32[4] negate(s)
}"""
    module, plan = checked(text)
    scatter = next(i for i in module.instructions() if i.opcode == "scatter")
    assert scatter not in plan.in_place


def test_parameters_and_constants_are_never_written() -> None:
    text = """HloModule m
ENTRY main {
 x = f32[40] parameter(0)
 i = s32[] parameter(1)
 c = f32[40] constant({1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,
   36,37,38,39,40})
 z = f32[1] constant({7})
 u = f32[40] dynamic-update-slice(x, z, i)
 v = f32[40] dynamic-update-slice(c, z, i)
 ROOT r = (f32[40], f32[40], f32[40], f32[40]) tuple(u, v, x, c)
}"""
    _, plan = checked(text)
    assert not plan.in_place
    assert len(plan.output_copies) == 2


def test_the_condition_does_not_overwrite_the_result() -> None:
    """Temporaries of the condition come after the state has been written and before it is read outside."""
    text = """HloModule m
min { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] minimum(a, b) }
condition {
 p = (s32[], f32[40]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 w = f32[40] iota(), iota_dimension=0
 big = f32[] constant(9)
 low = f32[] reduce(w, big), dimensions={0}, to_apply=min
 n = s32[] convert(low)
 three = s32[] constant(3)
 limit = s32[] add(n, three)
 ROOT go = pred[] compare(i, limit), direction=LT
}
body {
 p = (s32[], f32[40]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 one = s32[] constant(1)
 j = s32[] add(i, one)
 f = f32[] convert(j)
 u = f32[40] broadcast(f), dimensions={}
 ROOT r = (s32[], f32[40]) tuple(j, u)
}
ENTRY main {
 x = f32[40] parameter(0)
 zero = s32[] constant(0)
 a = f32[40] negate(x)
 t = (s32[], f32[40]) tuple(zero, a)
 w = (s32[], f32[40]) while(t), condition=condition, body=body
 v = f32[40] get-tuple-element(w), index=1
 ROOT r = f32[40] negate(v)
}"""
    checked(text)


def test_branches() -> None:
    """Copies at the end of a branch happen at once: one may not spoil the source of the next."""
    text = """HloModule m
first {
 p = (f32[40], s32[]) parameter(0)
 a = f32[40] get-tuple-element(p), index=0
 c = f32[40] iota(), iota_dimension=0
 ROOT r = (f32[40], f32[40]) tuple(c, a)
}
second {
 p = (f32[40], s32[]) parameter(0)
 a = f32[40] get-tuple-element(p), index=0
 i = s32[] get-tuple-element(p), index=1
 one = f32[1] constant({1})
 u = f32[40] dynamic-update-slice(a, one, i)
 v = f32[40] iota(), iota_dimension=0
 ROOT r = (f32[40], f32[40]) tuple(u, v)
}
ENTRY main {
 x = f32[40] parameter(0)
 i = s32[] parameter(1)
 a = f32[40] negate(x)
 t = (f32[40], s32[]) tuple(a, i)
 ROOT c = (f32[40], f32[40]) conditional(i, t, t, t), branch_computations={first, second, third}
}
"""
    third = text[text.index("second {") : text.index("ENTRY")].replace("second", "third").replace("(u, v)", "(v, u)")
    checked(text.replace("ENTRY", third + "ENTRY"))


def test_storage_is_used_again() -> None:
    """A chain of arrays that are each read once needs two of them."""
    lines = "\n".join(f" v{k + 1} = f32[32,32] transpose(v{k}), dimensions={{1,0}}" for k in range(20))
    text = f"HloModule m\nENTRY main {{\n v0 = f32[32,32] parameter(0)\n{lines}\n ROOT r = f32[32,32] copy(v20)\n}}"
    _, plan = checked(text)
    assert plan.arena_bytes <= 2 * 32 * 32 * 4


def _holes(n: int) -> Assignment:
    """Values of many sizes, of which every second ends early; then others come that fill the holes, or do not fit."""
    plan = Assignment()
    for k in range(3 * n):
        value = Value(k, None, 64 * (1 + k * 7919 % 101))
        value.intervals = [(0, 1 if k % 2 else 9 * n)] if k < 2 * n else [(k, k + n)]
        plan.values.append(value)
    return plan


def test_placing_is_nearly_linear_in_values_and_holes() -> None:
    def calls(n: int) -> int:
        profile = cProfile.Profile()
        profile.runcall(place, _holes(n))
        return sum(row.callcount for row in profile.getstats())

    assert calls(400) < 2.5 * calls(200)


def test_values_that_fill_holes_lie_apart() -> None:
    plan = _holes(200)
    place(plan)
    ends = [(v.offset, v.offset + v.size, v) for v in plan.values if v.offset is not None]
    assert len(ends) == len(plan.values)
    for n, (start, end, value) in enumerate(ends):
        for other_start, other_end, other in ends[:n]:
            apart = end <= other_start or other_end <= start
            assert apart or not overlap(value.intervals, other.intervals)
    alive = [sum(v.size for v in plan.values if v.intervals[0][0] <= at <= v.intervals[-1][1]) for at in range(600)]
    assert max(alive) <= plan.arena_bytes < 1.25 * max(alive)


def test_values_of_types_without_a_buffer_are_refused() -> None:
    module = parse("HloModule m\nENTRY main {\n ROOT x = opaque[] parameter(0)\n}")
    with pytest.raises(UnsupportedError, match="opaque"):
        assign(module.entry, {})


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False), st.integers(3, 30), st.sampled_from(["none", "default"]), st.integers(0, 3))
def test_random_programs(choice: random.Random, length: int, pipeline: str, trips: int) -> None:
    module = lowered(Generator(choice, length).text, pipeline)
    Checker(module, trips=trips).check()
    Checker(module, trips=trips, donation=random_donation(choice, module)).check()


def random_donation(choice: random.Random, module: Module) -> Donation:
    """Some parameters, some of them wanted by a result of their shape, some of those by all means."""
    parameters = [leaf for p in module.entry.parameters for leaf in array_leaves(p.shape)]
    results = array_leaves(module.entry.root.shape)
    given = [n for n in range(len(parameters)) if choice.random() < 0.7]
    wanted: dict[int, int] = {}
    for number in given:
        fitting = [r for r, shape in enumerate(results) if shape == parameters[number] and r not in wanted]
        if fitting and choice.random() < 0.7:
            wanted[choice.choice(fitting)] = number
    return Donation(frozenset(given), wanted, frozenset(r for r in wanted if choice.random() < 0.5))


def test_a_token_that_waits_for_arrays_has_no_memory() -> None:
    body = """  k = token[] after-all(s1, p)
  u = f32[40] add-dependency(s1, k)
  ROOT r = (s32[], f32[40]) tuple(next, u)"""
    _, plan = checked(loop("f32[40]", body, "a"))
    assert copies(plan) == (0, 0)
