"""What several call is compiled once: branches of branches and calls of calls do not double anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.ir import ExecutionError, Module, dtype_of
from hlotool.runtime.custom_calls import register_custom_call, unregister_custom_call
from hlotool.text.parser import parse

LEAF = "f{n} {{ p = f32[8] parameter(0) ROOT r = f32[8] tanh(p) }}\n"
ENTRY = "ENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] call(x), to_apply=f0 }\n"


def conditionals(depth: int) -> str:
    """Conditionals whose two branches are the same computation, which holds the next one."""
    parts = ["HloModule c\n", LEAF.format(n=depth)]
    for i in reversed(range(depth)):
        parts.append(f"""f{i} {{
  p = f32[8] parameter(0)
  s = f32[1] slice(p), slice={{[{i % 8}:{i % 8 + 1}]}}
  q = f32[] reshape(s)
  z = f32[] constant(0.{i})
  c = pred[] compare(q, z), direction=GT
  a = f32[8] sine(p)
  b = f32[8] cosine(p)
  ROOT r = f32[8] conditional(c, a, b), true_computation=f{i + 1}, false_computation=f{i + 1}
}}
""")
    return "".join([*parts, ENTRY])


def calls(depth: int, opcode: str = "call", attribute: str = "to_apply") -> str:
    """Each computation calls the next one twice."""
    parts = ["HloModule t\n", LEAF.format(n=depth)]
    for i in reversed(range(depth)):
        kind = ", kind=kLoop" if opcode == "fusion" else ""
        parts.append(f"""f{i} {{
  p = f32[8] parameter(0)
  a = f32[8] sine(p)
  b = f32[8] {opcode}(a){kind}, {attribute}=f{i + 1}
  d = f32[8] cosine(b)
  ROOT r = f32[8] {opcode}(d){kind}, {attribute}=f{i + 1}
}}
""")
    return "".join([*parts, ENTRY])


def loops(depth: int) -> str:
    """The body of each loop has the loop inside of it twice, with one condition for all."""
    parts = [
        "HloModule w\n",
        "once { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 "
        "n = s32[] constant(1) ROOT c = pred[] compare(i, n), direction=LT }\n",
        f"f{depth} {{ p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1) "
        "j = s32[] add(i, one) x = f32[8] get-tuple-element(p), index=1 t = f32[8] tanh(x) "
        "ROOT r = (s32[], f32[8]) tuple(j, t) }\n",
    ]
    for i in reversed(range(depth)):
        parts.append(f"""f{i} {{
  p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[8] get-tuple-element(p), index=1
  zero = s32[] constant(0)
  a = f32[8] sine(x)
  s = (s32[], f32[8]) tuple(zero, a)
  w = (s32[], f32[8]) while(s), condition=once, body=f{i + 1}
  y = f32[8] get-tuple-element(w), index=1
  t = (s32[], f32[8]) tuple(zero, y)
  v = (s32[], f32[8]) while(t), condition=once, body=f{i + 1}
  z = f32[8] get-tuple-element(v), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[8]) tuple(j, z)
}}
""")
    entry = (
        "ENTRY e { x = f32[8] parameter(0) zero = s32[] constant(0) s = (s32[], f32[8]) tuple(zero, x) "
        "w = (s32[], f32[8]) while(s), condition=once, body=f0 ROOT y = f32[8] get-tuple-element(w), index=1 }\n"
    )
    return "".join([*parts, entry])


KINDS: dict[str, Callable[[int], str]] = {
    "conditionals": conditionals,
    "calls": calls,
    "fusions": lambda depth: calls(depth, "fusion", "calls"),
    "loops": loops,
}
X = np.linspace(-2, 2, 8, dtype=np.float32)


def program_size(module: Module) -> int:
    program = compile_module(module).program
    assert program is not None
    return sum(text.count("\n") for text in program.texts)


@pytest.mark.parametrize("kind", KINDS)
def test_size_is_linear_in_depth(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what any module may grow by, which is why the first depth is not small."""
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    sizes = {depth: optimise(parse(KINDS[kind](depth))).instruction_count() for depth in (15, 30, 60)}
    assert sizes[60] - sizes[30] < 2.5 * max(sizes[30] - sizes[15], 200)
    assert sizes[60] < 8_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [3, 6])
@pytest.mark.parametrize("room", [True, False])
def test_shared_computations_give_what_the_evaluator_gives(kind: str, depth: int, room: bool) -> None:
    module = parse(KINDS[kind](depth))
    if not room:
        module.given_size = -(10**6)  # nothing may be copied
    executable = compile_module(module)
    np.testing.assert_allclose(executable(X)[0], evaluate(module, [X])[0], rtol=2e-6)


def test_sixty_conditionals_that_share_their_branches_run() -> None:
    module = parse(conditionals(60))
    np.testing.assert_allclose(compile_module(module)(X)[0], evaluate(module, [X])[0], rtol=2e-6)


def shared(body: str, shape: str = "f32[512,512]") -> Module:
    """A program that calls a computation twice, first with its parameter and then with that result."""
    module = parse(
        f"HloModule m\n{ADD}g {{\n{body}\n}}\nENTRY e {{\n  x = {shape} parameter(0)\n"
        f"  y = {shape} call(x), to_apply=g\n  ROOT z = {shape} call(y), to_apply=g\n}}\n"
    )
    module.given_size = -(10**6)
    return module


ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
WORK = """  p = f32[512,512] parameter(0)
  zero = f32[] constant(0)
  d = f32[512,512] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[512,512] transpose(p), dimensions={1,0}
  n = f32[512] reduce(d, zero), dimensions={1}, to_apply=add
  m = f32[512] reduce(t, zero), dimensions={1}, to_apply=add
  c = f32[512] constant({...})
  s = f32[512] add(n, m)
  u = f32[512] tanh(s)
  b = f32[512,512] broadcast(u), dimensions={0}
  ROOT r = f32[512,512] add(b, p)""".replace("constant({...})", "broadcast(zero), dimensions={}")


@pytest.mark.parametrize("threads", [1, 2])
def test_functions_use_threads_memory_and_constants_of_their_own(threads: int) -> None:
    module = shared(WORK)
    executable = compile_module(module, threads=threads)
    x = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32) / 16
    np.testing.assert_allclose(executable(x)[0], evaluate(module, [x])[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(executable(x)[0], executable(x)[0])


def test_functions_may_give_what_they_got() -> None:
    module = shared("  p = f32[4] parameter(0)\n  ROOT r = f32[4] copy(p)", "f32[4]")
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(compile_module(module)(x)[0], x)


def test_an_error_inside_a_function_ends_the_execution() -> None:
    seen = []

    def handler(inputs: tuple[np.ndarray, ...], call: object) -> tuple[np.ndarray, ...]:
        seen.append(inputs[0].copy())
        if len(seen) == 2:
            raise ValueError("twice is too often")
        return (inputs[0] + 1,)

    register_custom_call("test_in_function", handler)
    try:
        text = (
            '  p = f32[4] parameter(0)\n  c = f32[4] custom-call(p), custom_call_target="test_in_function"\n'
            "  ROOT r = f32[4] negate(c)"
        )
        executable = compile_module(shared(text, "f32[4]"))
        with pytest.raises(ExecutionError, match="twice is too often"):
            executable(np.zeros(4, np.float32))
        np.testing.assert_array_equal(seen, [np.zeros(4), -np.ones(4)])
        np.testing.assert_array_equal(executable(np.zeros(4, np.float32))[0], np.zeros(4))
    finally:
        unregister_custom_call("test_in_function")


def test_a_time_limit_reaches_loops_inside_functions() -> None:
    text = (
        "  p = (s32[], f32[8]) parameter(0)\n  ROOT w = (s32[], f32[8]) while(p), condition=forever, body=next"
    )
    module = parse(
        "HloModule m\nforever { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 "
        "n = s32[] constant(-1) ROOT c = pred[] compare(i, n), direction=GT }\n"
        "next { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = f32[8] "
        "get-tuple-element(p), index=1 y = f32[8] sine(x) ROOT t = (s32[], f32[8]) tuple(i, y) }\n"
        f"g {{\n{text}\n}}\nENTRY e {{ i = s32[] parameter(0) x = f32[8] parameter(1) s = (s32[], f32[8]) tuple(i, x) "
        "a = (s32[], f32[8]) call(s), to_apply=g ROOT b = (s32[], f32[8]) call(a), to_apply=g }\n"
    )
    module.given_size = -(10**6)
    executable = compile_module(module, timeout=0.2)
    assert len(executable(np.int32(-5), X)) == 2
    with pytest.raises(ExecutionError, match="time"):
        executable(np.int32(0), X)


def test_functions_flush_what_their_program_flushes() -> None:
    module = shared("  p = f32[4] parameter(0)\n  h = f32[4] add(p, p)\n  ROOT r = f32[4] copy(h)", "f32[4]")
    x = np.full(4, 1e-40, np.float32)
    np.testing.assert_array_equal(compile_module(module, flush_denormals=True)(x)[0], np.zeros(4))
    assert compile_module(module)(x)[0][0] > 0


@pytest.mark.parametrize("element_type", ["f32", "f16", "c64"])
def test_a_large_reducer_becomes_functions(element_type: str) -> None:
    """Calls of calls inside a reducer are written once each, and give what they give when they are written out."""
    depth, half = 13, "(0.5, 0)" if element_type == "c64" else "0.5"
    mean = f"s = T[] add(x, y) h = T[] constant({half}) ROOT r = T[] multiply(s, h) }}\n"
    tree = f"c0 {{ x = T[] parameter(0) y = T[] parameter(1) {mean}"
    for i in range(depth):
        tree += f"c{i + 1} {{ p = T[] parameter(0) q = T[] parameter(1) "
        tree += f"x = T[] call(p, q), to_apply=c{i} y = T[] call(q, x), to_apply=c{i} {mean}"
    zero = "(0, 0)" if element_type == "c64" else "0"
    entry = f"x = T[5,3] parameter(0) z = T[] constant({zero})\nROOT r = T[5] reduce(x, z), dimensions={{1}}"
    text = f"HloModule m\n{tree}ENTRY e {{ {entry}, to_apply=c{depth} }}\n".replace("T[", f"{element_type}[")
    native = compile_module(parse(text))
    assert native.program is not None
    assert sum(part.count("\n") for part in native.program.texts) < 40_000

    def combine(level: int, p: Any, q: Any) -> Any:
        x, y = p, q
        if level:
            x = combine(level - 1, p, q)
            y = combine(level - 1, q, x)
        return (x + y) * values.dtype.type(0.5)

    values = (np.arange(15).reshape(5, 3) % 7 - 2).astype(dtype_of(element_type))
    wanted = np.zeros_like(values[:, 0])
    for column in values.T:
        wanted = combine(depth, wanted, column)
    assert np.ptp(wanted.real) > 0.5
    np.testing.assert_allclose(native(values)[0], wanted, rtol=1e-5)
