"""The evaluator's control flow, calling conventions and errors."""

import numpy as np
import pytest

from hlotool.evaluate import evaluate, evaluate_computation, evaluate_instruction
from hlotool.ir import ExecutionError, InputError, UnsupportedError
from hlotool.text.parser import parse

COUNTER = """HloModule m
condition {
 s = (s32[], s32[]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 limit = s32[] constant(10)
 ROOT c = pred[] compare(n, limit), direction=LT
}
body {
 s = (s32[], s32[]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 a = s32[] get-tuple-element(s), index=1
 one = s32[] constant(1)
 m = s32[] add(n, one)
 b = s32[] add(a, n)
 ROOT t = (s32[], s32[]) tuple(m, b)
}
ENTRY e {
 p = (s32[], s32[]) parameter(0)
 ROOT w = (s32[], s32[]) while(p), condition=condition, body=body
}"""


def run(text, *arguments):
    return evaluate(parse(text), arguments)


def one(body, *arguments):
    return run(f"HloModule m\nENTRY e {{\n{body}\n}}", *arguments)


def test_while_over_a_tuple():
    assert [int(v) for v in run(COUNTER, np.int32(3), np.int32(100))] == [10, 100 + sum(range(3, 10))]
    assert [int(v) for v in run(COUNTER, np.int32(30), np.int32(1))] == [30, 1]


def test_loop_limit_and_observer():
    module, arguments = parse(COUNTER), [np.array(0, np.int32), np.array(0, np.int32)]
    with pytest.raises(ExecutionError, match="w: more than 9 iterations"):
        evaluate(module, arguments, loop_limit=9)
    evaluate(module, arguments, loop_limit=10)
    seen = []
    evaluate(module, arguments, observe=lambda instruction, value: seen.append((instruction.name, value)))
    assert [int(value) for name, value in seen if name == "b"] == list(np.cumsum(range(10)))
    assert seen[-1][0] == "w"


@pytest.mark.parametrize(("index", "factor"), [(0, 2), (1, 3), (2, 5), (-1, 5), (7, 5)])
def test_conditional_by_index(index, factor):
    branches = "".join(
        f"b{n} {{\n x = f32[] parameter(0)\n c = f32[] constant({f})\n ROOT r = f32[] multiply(x, c)\n}}\n"
        for n, f in enumerate((2, 3, 5))
    )
    entry = """ENTRY e {
 i = s32[] parameter(0)
 x = f32[] parameter(1)
 ROOT r = f32[] conditional(i, x, x, x), branch_computations={b0, b1, b2}
}"""
    assert run(f"HloModule m\n{branches}{entry}", np.int32(index), np.float32(10))[0] == 10 * factor


def test_conditional_by_predicate():
    text = """HloModule m
yes {
 x = f32[] parameter(0)
 ROOT r = f32[] negate(x)
}
no {
 x = f32[] parameter(0)
 ROOT r = f32[] copy(x)
}
ENTRY e {
 p = pred[] parameter(0)
 x = f32[] parameter(1)
 y = f32[] parameter(2)
 ROOT r = f32[] conditional(p, x, y), true_computation=yes, false_computation=no
}"""
    assert run(text, np.bool_(True), np.float32(1), np.float32(2))[0] == -1
    assert run(text, np.bool_(False), np.float32(1), np.float32(2))[0] == 2


def test_calls_fusions_and_asynchronous_calls():
    text = """HloModule m
double {
 x = f32[2] parameter(0)
 ROOT r = f32[2] add(x, x)
}
ENTRY e {
 p = f32[2] parameter(0)
 a = f32[2] call(p), to_apply=double
 b = f32[2] fusion(a), kind=kLoop, calls=double
 s = ((f32[2]), f32[2], s32[]) async-start(b), calls=double
 u = ((f32[2]), f32[2], s32[]) async-update(s)
 d = f32[2] async-done(u)
 cs = (f32[2], f32[2], u32[]) copy-start(d)
 ROOT cd = f32[2] copy-done(cs)
}"""
    assert run(text, np.array([1, 2], np.float32))[0].tolist() == [8, 16]


def test_tokens_and_barriers_are_transparent():
    body = """p = f32[2] parameter(0)
 t = token[] after-all()
 q = f32[2] add-dependency(p, t)
 b = (f32[2], token[]) tuple(q, t)
 o = (f32[2], token[]) opt-barrier(b)
 g = f32[2] get-tuple-element(o), index=0
 ROOT r = (f32[2], token[], f32[2]) tuple(g, t, p)"""
    results = one(body, np.array([1, 2], np.float32))
    assert [r.tolist() for r in results] == [[1, 2], [1, 2]]


def test_collectives_of_one_participant():
    text = """HloModule m
sum {
 x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT z = f32[] add(x, y)
}
ENTRY e {
 p = f32[2] parameter(0)
 a = f32[2] all-reduce(p), replica_groups={{0}}, to_apply=sum
 g = f32[2] all-gather(a), replica_groups={}, dimensions={0}
 c = f32[2] collective-permute(g), source_target_pairs={{0,0}}
 n = f32[2] collective-permute(g), source_target_pairs={}
 i = u32[] replica-id()
 ROOT r = (f32[2], f32[2], u32[]) tuple(c, n, i)
}"""
    kept, nothing, replica = run(text, np.array([1, 2], np.float32))
    assert (kept.tolist(), nothing.tolist(), int(replica)) == ([1, 2], [0, 0], 0)
    with pytest.raises(UnsupportedError, match=r"^a: all-reduce among several"):
        run(text.replace("{{0}}", "{{0,1}}"), np.array([1, 2], np.float32))


def test_dimension_sizes():
    body = """p = f32[3,4] parameter(0)
 s = s32[] get-dimension-size(p), dimensions={1}
 q = f32[3,4] set-dimension-size(p, s), dimensions={1}
 ROOT r = (s32[], f32[3,4]) tuple(s, q)"""
    size, array = one(body, np.ones((3, 4), np.float32))
    assert size == 4
    assert array.sum() == 12
    body = """p = f32[3,4] parameter(0)
 s = s32[] constant(2)
 ROOT q = f32[3,<=4] set-dimension-size(p, s), dimensions={1}"""
    assert one(body, np.ones((3, 4), np.float32))[0].shape == (3, 2)


def test_unsupported_instructions_are_named():
    with pytest.raises(UnsupportedError, match=r"^feed: recv says neither is_host_transfer=true nor"):
        one("t = token[] after-all()\n ROOT feed = (f32[2], u32[], token[]) recv(t), channel_id=1")


def test_arguments_are_checked():
    body = "p = f32[2] parameter(0)\n ROOT r = f32[2] negate(p)"
    with pytest.raises(InputError, match="takes 1 arrays, 0 were given"):
        one(body)
    with pytest.raises(InputError, match=r"argument 0 is float64\[2\], the program takes f32\[2\]"):
        one(body, np.ones(2))


def test_broken_programs_fail_with_the_name_of_the_instruction():
    body = "p = f32[2] parameter(0)\n q = f32[3] constant({1, 2, 3})\n ROOT r = f32[2] add(p, q)"
    with pytest.raises(ExecutionError, match=r"^r: add"):
        one(body, np.ones(2, np.float32))


def test_results_own_their_memory():
    array = np.ones((2, 3), np.float32)
    (value,) = one("p = f32[2,3] parameter(0)\n ROOT r = f32[3,2] transpose(p), dimensions={1,0}", array)
    value[:] = 5
    assert array.sum() == 6


def test_single_instructions_and_computations():
    module = parse("HloModule m\nENTRY e {\n p = s32[2] parameter(0)\n ROOT r = s32[2] divide(p, p)\n}")
    values = np.array([7, 0], np.int32)
    assert np.asarray(evaluate_instruction(module.entry.root, [values, values])).tolist() == [1, -1]
    assert np.asarray(evaluate_computation(module.entry, [values])).tolist() == [1, -1]
