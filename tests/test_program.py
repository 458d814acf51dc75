"""Whole programs, natively and evaluated: control flow, tuples, empty arrays, and every opcode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from machines import SERVER
from tiny_modules import OUTSIDE_WORLD, TINY, tiny_module

from hlotool.codegen.machine import default_machine
from hlotool.codegen.program import build
from hlotool.driver import LOWERING, compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.ir import ExecutionError, HloError, Module, UnsupportedError, dtype_of
from hlotool.ir.opcodes import SPELLED
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]
PIPELINES = ("none", "default")


def inputs(module: Module, seed: int = 0) -> list[Array]:
    generator = np.random.default_rng(seed)
    found = []
    for parameter in module.entry.parameters:
        for leaf in parameter.shape.leaves():
            values: Array
            if leaf.element_type in ("s32", "s64"):
                values = generator.integers(0, 3, leaf.dimensions)
            elif leaf.element_type in ("u32", "u64"):
                values = generator.integers(0, 2**32, leaf.dimensions)
            elif leaf.element_type == "pred":
                values = generator.integers(0, 2, leaf.dimensions)
            elif leaf.element_type == "c64":
                values = generator.standard_normal(leaf.dimensions) + 1j * generator.standard_normal(leaf.dimensions)
            else:
                values = generator.standard_normal(leaf.dimensions)
            found.append(np.asarray(values).astype(dtype_of(leaf.element_type)))
    return found


def same(module: Module, arguments: list[Array] | None = None) -> list[Array]:
    """Run `module` under every pipeline and compare with the evaluator; the results."""
    check(module)
    arguments = inputs(module) if arguments is None else arguments
    before = [a.copy() for a in arguments]
    expected = evaluate(module, arguments)
    got: list[Array] = []
    for pipeline in PIPELINES:
        got = list(compile_module(module, pipeline=pipeline)(*arguments))
        bad = [str(row) for row in compare_all(got, expected) if not row.ok]
        assert not bad, f"pipeline {pipeline}: {bad}"
        for argument, original in zip(arguments, before, strict=True):
            assert np.array_equal(argument, original, equal_nan=argument.dtype.kind == "f"), "an argument was written"
    return got


LOOP = """HloModule m

inner_condition {
  p = (s32[], f32[5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT go = pred[] compare(i, n), direction=LT
}

inner_body {
  p = (s32[], f32[5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[5] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  r = f32[5] reverse(v), dimensions={0}
  w = f32[5] add(v, r)
  ROOT t = (s32[], f32[5]) tuple(j, w)
}

first {
  v = f32[5] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[5]) tuple(zero, v)
  w = (s32[], f32[5]) while(t), condition=inner_condition, body=inner_body
  ROOT r = f32[5] get-tuple-element(w), index=1
}

second {
  v = f32[5] parameter(0)
  ROOT r = f32[5] negate(v)
}

third {
  v = f32[5] parameter(0)
  ROOT r = f32[5] copy(v)
}

condition {
  p = (s32[], f32[5], f32[5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT go = pred[] compare(i, n), direction=LT
}

body {
  p = (s32[], f32[5], f32[5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[5] get-tuple-element(p), index=1
  w = f32[5] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  c = f32[5] conditional(i, v, w, v), branch_computations={first, second, third}
  ROOT t = (s32[], f32[5], f32[5]) tuple(j, w, c)
}

ENTRY main {
  x = f32[5] parameter(0)
  start = s32[] parameter(1)
  y = f32[5] negate(x)
  t = (s32[], f32[5], f32[5]) tuple(start, x, y)
  ROOT w = (s32[], f32[5], f32[5]) while(t), condition=condition, body=body
}
"""


@pytest.mark.parametrize("start", [-2, 0, 1, 3, 5, 9])
def test_loops_in_branches_in_loops(start: int) -> None:
    """The selector is the counter: below 0 and above 2 take the last branch."""
    x = np.arange(5, dtype=np.float32)
    counter, _, _ = same(parse(LOOP), [x, np.array(start, np.int32)])
    assert counter == max(start, 5)


@pytest.mark.parametrize(
    ("selector", "value"), [("pred", True), ("pred", False), *(("s32", n) for n in (-1, 0, 1, 2, 7))]
)
def test_conditionals(selector: str, value: int) -> None:
    names = "first, second" if selector == "pred" else "first, second, third"
    arguments = "x, x" if selector == "pred" else "x, x, x"
    called = (
        "true_computation=first, false_computation=second" if selector == "pred" else f"branch_computations={{{names}}}"
    )
    before = LOOP[: LOOP.index("condition {\n  p = (s32[], f32[5], f32[5])")]
    text = (
        f"{before}ENTRY main {{\n  p = {selector}[] parameter(0)\n  x = f32[5] parameter(1)\n"
        f"  ROOT r = f32[5] conditional(p, {arguments}), {called}\n}}"
    )
    x = np.arange(1, 6, dtype=np.float32)
    (got,) = same(parse(text), [np.array(value, dtype_of(selector)), x])
    chosen = (0 if value else 1) if selector == "pred" else value if value in (0, 1) else 2
    expected = [8 * (x + x[::-1]), -x, x][chosen]
    np.testing.assert_array_equal(got, expected)


ENTRIES = {
    "a parameter": "ROOT x = f32[3] parameter(0)",
    "a constant": "ROOT c = f32[3] constant({1, 2, 3})",
    "a parameter twice, and a constant": (
        "x = f32[3] parameter(0)\n  c = s32[2] constant({1, 2})\n"
        "  ROOT r = (f32[3], s32[2], f32[3], s32[2]) tuple(x, c, x, c)"
    ),
    "the same value twice": "x = f32[3] parameter(0)\n  y = f32[3] negate(x)\n  ROOT r = (f32[3], f32[3]) tuple(y, y)",
    "a value and a view of it": (
        "x = f32[3] parameter(0)\n  y = f32[3] negate(x)\n  z = f32[1,3] reshape(y)\n"
        "  ROOT r = (f32[3], f32[1,3]) tuple(y, z)"
    ),
    "nested tuples": (
        "x = (f32[3], (s32[], f32[2])) parameter(0)\n  y = pred[] parameter(1)\n"
        "  a = (s32[], f32[2]) get-tuple-element(x), index=1\n  b = f32[2] get-tuple-element(a), index=1\n"
        "  n = f32[2] negate(b)\n  t = (pred[], f32[2]) tuple(y, n)\n"
        "  ROOT r = ((pred[], f32[2]), (f32[3], (s32[], f32[2]))) tuple(t, x)"
    ),
    "nothing": "x = f32[3] parameter(0)\n  ROOT r = () tuple()",
    "empty arrays": (
        "x = f32[0,3] parameter(0)\n  y = f32[2,3] parameter(1)\n  n = f32[0,3] negate(x)\n"
        "  c = f32[2,3] concatenate(n, y), dimensions={0}\n  k = f32[3,0] transpose(n), dimensions={1,0}\n"
        "  d = f32[3,3] dot(k, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  ROOT r = (f32[0,3], f32[2,3], f32[3,3]) tuple(n, c, d)"
    ),
    "scalars": (
        "x = f32[] parameter(0)\n  i = s32[] parameter(1)\n  f = f32[] convert(i)\n  y = f32[] multiply(x, f)\n"
        "  p = pred[] compare(x, y), direction=LT\n  s = f32[] select(p, x, y)\n  b = bf16[] convert(s)\n"
        "  h = f64[] convert(b)\n  ROOT r = (f32[], pred[], bf16[], f64[]) tuple(y, p, b, h)"
    ),
    "arrays of one element": (
        "x = f32[1,1] parameter(0)\n  y = f32[1] reshape(x)\n  e = f32[1] exponential(y)\n"
        "  b = f32[1,4] broadcast(e), dimensions={0}\n  ROOT r = (f32[1], f32[1,4]) tuple(e, b)"
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_entries(name: str) -> None:
    same(parse(f"HloModule m\nENTRY main {{\n  {ENTRIES[name]}\n}}"))


def test_kernels_are_shared_by_structure() -> None:
    """Twelve products of two kinds are two kernels."""
    lines = []
    for k in range(12):
        size = 8 if k % 2 else 12
        lines.append(
            f"  d{k} = f32[{size},{size}] dot(x{size}, x{size}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        )
    text = (
        "HloModule m\nENTRY main {\n  x8 = f32[8,8] parameter(0)\n  x12 = f32[12,12] parameter(1)\n"
        + "\n".join(lines)
        + f"\n  ROOT r = ({', '.join(f'f32[{8 if k % 2 else 12},{8 if k % 2 else 12}]' for k in range(12))}) "
        + f"tuple({', '.join(f'd{k}' for k in range(12))})\n}}"
    )
    module = optimise(parse(text), "none")
    run_pipeline(module, parse_pipeline("lowering"))
    program = build(module, default_machine())
    assert len({use.kernel for use in program.kernels}) == 2
    assert len(program.kernels) == 12
    same(parse(text))


def test_programs_are_the_same_every_time() -> None:
    texts = []
    for _ in range(2):
        module = optimise(parse(LOOP), "default")
        run_pipeline(module, parse_pipeline("lowering"))
        texts.append(build(module, default_machine()).texts)
    assert texts[0] == texts[1]


def test_there_is_a_tiny_module_for_every_opcode() -> None:
    assert set(TINY) == set(SPELLED)


NOWHERE = OUTSIDE_WORLD | {"custom-call"}
"""Opcodes of which the tiny module cannot be run at all."""


@pytest.mark.parametrize("opcode", sorted(set(SPELLED) - NOWHERE - {"rng"}))
def test_what_is_evaluated_compiles(opcode: str) -> None:
    same(parse(tiny_module(opcode)))


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("opcode", sorted(NOWHERE))
def test_what_cannot_be_compiled_says_so(opcode: str, pipeline: str) -> None:
    module = parse(tiny_module(opcode))
    check(module)
    with pytest.raises((UnsupportedError, ExecutionError)) as error:
        compile_module(module, pipeline=pipeline)(*inputs(module))
    names = [i.name for i in module.entry if i.opcode in (opcode, opcode.removesuffix("-done"))]
    assert opcode == "custom-call" or any(f"{name}:" in str(error.value) for name in names)
    with pytest.raises(HloError):
        evaluate(module, inputs(module))


def test_random_numbers_are_in_their_range() -> None:
    module = parse(tiny_module("rng"))
    for pipeline in PIPELINES:
        (numbers,) = compile_module(module, pipeline=pipeline)(*inputs(module))
        assert (numbers >= 0).all()
        assert (numbers < 1).all()
        assert len(np.unique(numbers)) > 12


@pytest.mark.parametrize(("n", "shared"), [(400, True), (40, False)])
def test_short_steps_are_shared_while_workers_are_awake(n: int, shared: bool) -> None:
    """A product of arguments that takes some microseconds; sums that read as much as they compute are not."""
    module = parse(f"""HloModule m
ENTRY main {{
  x = f32[16,100] parameter(0)
  w = f32[100,{n}] parameter(1)
  d = f32[16,{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  e = f32[64,16,{n}] broadcast(d), dimensions={{1,2}}
  y = f32[64,16,{n}] parameter(2)
  ROOT s = f32[64,16,{n}] add(e, y)
}}""")
    text = "".join(build(optimise(optimise(module), LOWERING), SERVER).texts)
    assert ("call void @hlo_parallel_awake" in text) == shared
    assert text.count("call void @hlo_parallel") == shared + (n == 400)
    same(module)


PAIRS = """
larger { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GT
  e = pred[] compare(a, b), direction=EQ
  l = pred[] compare(i, j), direction=LT
  m = pred[] and(e, l)
  o = pred[] or(g, m)
  v = f32[] select(o, a, b)
  n = s32[] select(o, i, j)
  ROOT t = (f32[], s32[]) tuple(v, n) }
ENTRY e {
  x = f32[450,300] parameter(0)
  i = s32[450,300] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT r = (f32[450], s32[450]) reduce(x, i, low, zero), dimensions={1}, to_apply=larger
}"""
WINDOWS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GE }
ENTRY e {
  x = f32[4,32,32,16] parameter(0)
  y = f32[4,16,16,16] parameter(1)
  zero = f32[] constant(0)
  ROOT r = %s
}"""
SELECTED = (
    "f32[4,32,32,16] select-and-scatter(x, y, zero), window={size=1x2x2x1 stride=1x2x2x1}, select=ge, scatter=add"
)
SUMMED = "f32[4,31,31,16] reduce-window(x, zero), window={size=1x2x2x1}, to_apply=add"


@pytest.mark.parametrize("text", [PAIRS, WINDOWS % SELECTED, WINDOWS % SUMMED], ids=["pairs", "selected", "summed"])
def test_what_takes_tens_of_microseconds_is_shared(text: str) -> None:
    module = parse(f"HloModule m\n{text}")
    assert "call void @hlo_parallel(" in "".join(build(optimise(optimise(module), LOWERING), SERVER).texts)
    same(module)
