"""Steps that run side by side: which do, that nothing disturbs them, and that threads change no bit of a result."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from buffer_checker import Checker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import Generator
from test_random_programs import inputs

import hlotool
from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import Donation
from hlotool.codegen.cpu.host import overlap, step_costs
from hlotool.codegen.cpu.host.step_costs import StepCosts
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.plan import arena, region
from hlotool.codegen.plan.buffers import assign
from hlotool.codegen.plan.steps import Steps
from hlotool.driver import LOWERING, compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.ir import ExecutionError, Module
from hlotool.runtime.executable import Executable
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that may run side by side does, however little there is to gain."""
    for name in ("ASLEEP", "_AWAKE", "LOOPED"):
        monkeypatch.setattr(step_costs, name, -1e30)
    for name in ("_SMALL", "_LEAST_SHARE", "_LEAST_GAIN"):
        monkeypatch.setattr(overlap, name, -1e30)
    monkeypatch.setattr(arena, "_MORE_BYTES", 1 << 40)
    monkeypatch.setattr(region, "_TASK", 1.0)


def loops(trips: int, body: str = "tanh", after: str = "add", start: str = "x, y") -> str:
    """Two loops that do not wait for each other, and what becomes of their results."""
    first, second = start.split(", ")
    return f"""HloModule twice

more {{
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips})
  ROOT go = pred[] compare(i, n), direction=LT
}}

next {{
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[64,64] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  r = f32[64,64] reverse(v), dimensions={{0}}
  t = f32[64,64] {body}(r)
  w = f32[64,64] add(v, t)
  ROOT t2 = (s32[], f32[64,64]) tuple(j, w)
}}

ENTRY main {{
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  zero = s32[] constant(0)
  s0 = (s32[], f32[64,64]) tuple(zero, {first})
  a = (s32[], f32[64,64]) while(s0), condition=more, body=next
  one = s32[] constant(1)
  s1 = (s32[], f32[64,64]) tuple(one, {second})
  b = (s32[], f32[64,64]) while(s1), condition=more, body=next
  c = f32[64,64] get-tuple-element(a), index=1
  d = f32[64,64] get-tuple-element(b), index=1
  ROOT r = f32[64,64] {after}(c, d)
}}
"""


def ordered(text: str) -> tuple[Executable, DecisionLog]:
    log = DecisionLog()
    return compile_module(parse(text), threads=2, log=log), log


def side_by_side(log: DecisionLog) -> list[tuple[str, ...]]:
    return [d.before for d in log if d.pass_name == "overlap" and d.action == "note"]


def same_bits(
    module: Module, arguments: list[Array], pipeline: str = "default", counts: tuple[int, ...] = (1, 2, 3)
) -> list[Array]:
    """The results, which must not depend on the number of threads."""
    found: list[tuple[Array, ...]] = []
    for threads in counts:
        executable = compile_module(module, threads=threads, pipeline=pipeline)
        found += [executable(*arguments) for _ in range(3)]
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert one.tobytes() == two.tobytes()
    return list(found[0])


def arrays(*shapes: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(1)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


# ---- what runs side by side


def test_loops_that_do_not_wait_for_each_other() -> None:
    text = loops(40)
    executable, log = ordered(text)
    assert side_by_side(log) == [("a", "b")]
    assert {d.code for d in log if d.pass_name == "overlap"} == {"HLO4180"}
    assert "_task0_0(" in executable.text("llvm")
    arguments = arrays((64, 64), (64, 64))
    (got,) = same_bits(parse(text), arguments)
    (want,) = evaluate(parse(text), arguments)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_loop_that_needs_the_other_waits() -> None:
    text = loops(40).replace(
        "s1 = (s32[], f32[64,64]) tuple(one, y)",
        "m = f32[64,64] get-tuple-element(a), index=1\n  s1 = (s32[], f32[64,64]) tuple(one, m)",
    )
    _, log = ordered(text)
    assert side_by_side(log) == []


def test_short_steps_stay_in_order() -> None:
    _, log = ordered(loops(1))
    assert side_by_side(log) == []


def test_loops_from_one_initial_state() -> None:
    """The second loop may go on in the memory of their common initial state: the first has its copy by then."""
    text = loops(40, start="m, m").replace("  zero = s32[]", "  m = f32[64,64] multiply(x, y)\n  zero = s32[]")
    _, log = ordered(text)
    assert side_by_side(log) == [("a", "b")]
    arguments = arrays((64, 64), (64, 64))
    (got,) = same_bits(parse(text), arguments)
    (want,) = evaluate(parse(text), arguments)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_what_stands_between_goes_before_or_after() -> None:
    between = "  e = f32[64,64] get-tuple-element(a), index=1\n  f = f32[] constant(2)\n  g = f32[] negate(f)\n"
    text = loops(40).replace("  s1 =", f"{between}  s1 =").replace("add(c, d)", "subtract(e, d)")
    _, log = ordered(text)
    assert side_by_side(log) == [("a", "b")]
    arguments = arrays((64, 64), (64, 64))
    (got,) = same_bits(parse(text), arguments)
    (want,) = evaluate(parse(text), arguments)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_one_long_step_is_not_worth_it() -> None:
    text = loops(40).replace("constant(40)", "constant(400)", 1).replace("tuple(one, y)", "tuple(late, y)")
    text = text.replace("  one = s32[] constant(1)\n  s1", "  late = s32[] constant(380)\n  s1")
    _, log = ordered(text)
    assert side_by_side(log) == []
    assert {d.code for d in log if d.pass_name == "overlap"} == {"HLO4182"}


SORTS = """HloModule sorts
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY main {
  x = f32[3000] parameter(0)
  y = f32[3000] parameter(1)
  s = f32[3000] sort(x), dimensions={0}, to_apply=less
  t = f32[3000] sort(y), dimensions={0}, to_apply=less
  ROOT r = (f32[3000], f32[3000]) tuple(s, t)
}
"""


def test_kernels_that_cannot_be_split() -> None:
    _, log = ordered(SORTS)
    assert side_by_side(log) == [("s", "t")]
    arguments = arrays((3000,), (3000,))
    for got, argument in zip(same_bits(parse(SORTS), arguments), arguments, strict=True):
        np.testing.assert_array_equal(got, np.sort(argument))


def test_flushed_denormals_in_every_thread() -> None:
    factor = "  c9 = f32[] constant(0.9)\n  s = f32[64,64] broadcast(c9), dimensions={}\n"
    text = loops(40).replace("  w = f32[64,64] add(v, t)", f"{factor}  w = f32[64,64] multiply(r, s)")
    arguments = [np.full((64, 64), 2e-38, np.float32)] * 2
    kept, flushed = (compile_module(parse(text), threads=2, flush_denormals=flush) for flush in (False, True))
    assert "_tasks_flushed" in flushed.text("llvm")
    for _ in range(5):
        assert (kept(*arguments)[0] > 0).all()
        assert (flushed(*arguments)[0] == 0).all()


def test_much_memory_at_once_is_refused(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sorted product is needed for a column only; side by side all would be there at the same time."""
    monkeypatch.setattr(arena, "_MORE_BYTES", 1 << 16)
    lines = [
        f"  d{n} = f32[4096,16] dot(x, w{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f"  s{n} = f32[4096,16] sort(d{n}), dimensions={{1}}, to_apply=less\n"
        f"  r{n} = f32[4096,1] slice(s{n}), slice={{[0:4096], [{n}:{n + 1}]}}\n"
        for n in range(4)
    ]
    weights = "".join(f"  w{n} = f32[16,16] parameter({n + 1})\n" for n in range(4))
    text = (
        SORTS.partition("ENTRY")[0] + "ENTRY main {\n  x = f32[4096,16] parameter(0)\n" + weights + "".join(lines)
        + "  ROOT r = (f32[4096,1], f32[4096,1], f32[4096,1], f32[4096,1]) tuple(r0, r1, r2, r3)\n}\n"
    )  # fmt: skip
    module = optimise(parse(text), LOWERING)
    checker = Checker(module, side_by_side=True)
    together, apart = checker.check().arena_bytes, Checker(module).check().arena_bytes
    assert "memory" in {d.rule for d in checker.log if d.action == "refuse"}
    assert together <= apart * (1 + arena._MORE_SHARE) + arena._MORE_BYTES


# ---- errors, time limits, donated arguments


def test_calls_of_the_runtime_stay_where_they_are() -> None:
    def fails(inputs: list[Array], call: hlotool.CustomCall) -> list[Array]:
        raise ValueError("no such luck")

    hlotool.register_custom_call("overlap_fails", fails, replace=True)
    call = '  e = f32[64,64] custom-call(x), custom_call_target="overlap_fails"\n'
    text = loops(40).replace("  s1 =", f"{call}  s1 =").replace("add(c, d)", "add(c, e)")
    executable, log = ordered(text)
    assert side_by_side(log) == []
    for _ in range(3):
        with pytest.raises(ExecutionError, match="no such luck"):
            executable(*arrays((64, 64), (64, 64)))


def test_a_branch_that_calls_the_runtime_is_no_task(eager: None) -> None:
    def fails(inputs: list[Array], call: hlotool.CustomCall) -> list[Array]:
        raise ValueError("no such luck")

    hlotool.register_custom_call("overlap_fails", fails, replace=True)
    text = """HloModule branches
bad {
  v = f32[64] parameter(0)
  ROOT r = f32[64] custom-call(v), custom_call_target="overlap_fails"
}
good {
  v = f32[64] parameter(0)
  ROOT r = f32[64] reverse(v), dimensions={0}
}
ENTRY main {
  x = f32[64] parameter(0)
  p = pred[] parameter(1)
  a = f32[64] conditional(p, x, x), true_computation=bad, false_computation=good
  b = f32[64] reverse(x), dimensions={0}
  c = f32[64] sort(x), dimensions={0}, to_apply=less
  ROOT r = (f32[64], f32[64], f32[64]) tuple(a, b, c)
}
""".replace("ENTRY", SORTS[SORTS.index("less {") : SORTS.index("ENTRY")] + "ENTRY")
    log = DecisionLog()
    executable = compile_module(parse(text), pipeline="none", threads=2, log=log)
    assert side_by_side(log) == [("b", "c")]
    x = np.arange(64, dtype=np.float32)[::-1].copy()
    with pytest.raises(ExecutionError, match="no such luck"):
        executable(x, np.bool_(True))
    for result in executable(x, np.bool_(False)):
        np.testing.assert_array_equal(result, x[::-1])


def test_loops_under_a_time_limit_are_asked() -> None:
    text = loops(40).replace("direction=LT", "direction=NE").replace("constant(40)", "constant(-1)")
    executable = compile_module(parse(text), threads=2, timeout=0.3)
    with pytest.raises(ExecutionError, match="time"):
        executable(*arrays((64, 64), (64, 64)))


def test_donated_arguments(eager: None) -> None:
    text = loops(5)
    arguments = arrays((64, 64), (64, 64))
    (want,) = evaluate(parse(text), arguments)
    for threads in (1, 2, 3):
        given = [a.copy() for a in arguments]
        executable = compile_module(parse(text), threads=threads, donate=[0, 1])
        (got,) = executable(*given)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_readers_come_before_the_update_in_place(eager: None) -> None:
    text = """HloModule update
ENTRY main {
  x = f32[64,64] parameter(0)
  u = f32[1,64] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
  m = f32[64,64] tanh(x)
  r = f32[64,64] reverse(m), dimensions={0}
  t = f32[64,64] transpose(m), dimensions={1,0}
  d = f32[64,64] dynamic-update-slice(m, u, i, zero)
  s = f32[64,64] add(r, t)
  ROOT o = (f32[64,64], f32[64,64]) tuple(s, d)
}
"""
    log = DecisionLog()
    compile_module(parse(text), pipeline="none", threads=2, log=log)
    assert side_by_side(log) == [("r", "t"), ("d", "s")]
    module, arguments = parse(text), [*arrays((64, 64), (1, 64)), np.int32(5)]
    for got, want in zip(same_bits(module, arguments, "none"), evaluate(module, arguments), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_readers_of_a_part_come_before_the_update_of_a_whole_that_is_a_part_itself(eager: None) -> None:
    """`u` overwrites `p` in place, where `a` lies, in the first half of `w`."""
    text = SORTS.partition("ENTRY")[0] + """ENTRY main {
  x = f32[64,16] parameter(0)
  y = f32[64,16] parameter(1)
  z = f32[64,16] parameter(2)
  row = f32[3,16] parameter(3)
  i = s32[] parameter(4)
  zero = s32[] constant(0)
  a = f32[64,16] sort(x), dimensions={0}, to_apply=less
  b = f32[64,16] sort(y), dimensions={0}, to_apply=less
  c = f32[64,16] sort(z), dimensions={0}, to_apply=less
  r = f32[64,16] reverse(a), dimensions={0,1}
  p = f32[128,16] concatenate(a, b), dimensions={0}
  u = f32[128,16] dynamic-update-slice(p, row, i, zero)
  w = f32[192,16] concatenate(u, c), dimensions={0}
  v = f32[192,16] reverse(w), dimensions={0,1}
  ROOT t = (f32[64,16], f32[192,16]) tuple(r, v)
}
"""
    checker = Checker(optimise(parse(text), LOWERING), side_by_side=True)
    assert {i.name for i in checker.plan.there} == {"p", "w"}
    assert {i.name for i in checker.plan.in_place} == {"u"}
    checker.check()
    assert side_by_side(checker.log)


OVERWRITTEN = """HloModule m

go {
  p = (s32[], f32[1], f32[1]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}

turn {
  p = (s32[], f32[1], f32[1]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[1] get-tuple-element(p), index=1
  b = f32[1] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[1], f32[1]) tuple(j, b, a)
}

again {
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}

step {
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[64,64] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  b = f32[64,64] tanh(a)
  ROOT t = (s32[], f32[64,64]) tuple(j, b)
}

ENTRY e {
  x = f32[1] parameter(0)
  y = f32[64,64] parameter(1)
  v = f32[1] negate(x)
  w = f32[1] subtract(x, x)
  zero = s32[] constant(0)
  s = (s32[], f32[1], f32[1]) tuple(zero, v, w)
  first = (s32[], f32[1], f32[1]) while(s), condition=go, body=turn
  l = f32[1] logistic(v)
  u = (s32[], f32[64,64]) tuple(zero, y)
  second = (s32[], f32[64,64]) while(u), condition=again, body=step
  a = f32[1] get-tuple-element(first), index=1
  b = f32[1] get-tuple-element(first), index=2
  c = f32[64,64] get-tuple-element(second), index=1
  ROOT r = (f32[1], f32[1], f32[64,64], f32[1]) tuple(a, b, c, l)
}
"""


def test_initial_state_is_copied_before_anything_takes_its_place(eager: None) -> None:
    """A scalar goes ahead of a region, and so ahead of the copies for the region's loops, unless it overwrites them."""
    module = optimise(parse(OVERWRITTEN), LOWERING)
    for trips in (0, 2, 3):
        Checker(module, trips=trips, side_by_side=True).check()
    arguments = arrays((1,), (64, 64))
    module = parse(OVERWRITTEN)
    for got, want in zip(same_bits(module, arguments, "none", (1, 2)), evaluate(module, arguments), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


# ---- costs


def test_what_no_step_splits_takes_as_long_alone_as_on_one_thread() -> None:
    """Parameters take no time, whoever asks."""
    text = """
again { p = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(50)
  ROOT go = pred[] compare(i, n), direction=LT }
turn { p = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
  j = s32[] add(i, one)  a = f32[4] get-tuple-element(p), index=1  b = f32[4] tanh(a)
  ROOT r = (s32[], f32[4]) tuple(j, b) }
up { p = f32[] parameter(0)  ROOT r = f32[] exponential(p) }
down { p = f32[] parameter(0)  ROOT r = f32[] negate(p) }
ENTRY main { c = pred[] parameter(0)  x = f32[4] parameter(1)  y = f32[] parameter(2)  zero = s32[] constant(0)
  s = (s32[], f32[4]) tuple(zero, x)  w = (s32[], f32[4]) while(s), condition=again, body=turn
  d = f32[] conditional(c, y, y), true_computation=up, false_computation=down
  v = f32[4] get-tuple-element(w), index=1  ROOT r = (f32[4], f32[]) tuple(v, d) }
"""
    module = optimise(parse(text), LOWERING)
    kernel = Kernel({}, {}, (), (Step("tanh", 1, 30.0),))
    kernels = {i: kernel for c in module.computations.values() for i in c if i.opcode == "tanh"}
    costs = StepCosts(Steps(module.entry, assign(module.entry, {}), kernels, {}, {}))
    found = {i.opcode: costs.serial(i) for i in module.entry if i.opcode in ("while", "conditional")}
    assert found["while"] > 50 * 30.0
    assert found == {i.opcode: costs.alone(i, False) for i in module.entry if i.opcode in found}


# ---- random programs


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(2, 25), st.sampled_from(["none", "default"]), st.booleans())
def test_nothing_disturbs_another(
    eager: None, choice: random.Random, length: int, pipeline: str, donated: bool
) -> None:
    module = optimise(optimise(parse(Generator(choice, length).text), pipeline), LOWERING)
    donation = Donation(frozenset(range(len(module.entry.parameters))) if donated else frozenset())
    for trips in (0, 2, 3):
        Checker(module, trips=trips, donation=donation, side_by_side=True).check()


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(2, 25), st.sampled_from(["none", "default"]))
def test_threads_change_no_bit(eager: None, choice: random.Random, length: int, pipeline: str) -> None:
    program = Generator(choice, length)
    module, arguments = parse(program.text), inputs(program)
    for value, got, want in zip(
        program.results, same_bits(module, arguments, pipeline, (1, 2)), evaluate(module, arguments), strict=True
    ):
        if not value.rough:
            np.testing.assert_array_equal(got, want, err_msg=program.text)
