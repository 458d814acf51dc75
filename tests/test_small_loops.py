"""Loops that are functions of their own, whose values are registers: which are, and the same bits as without."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from hlotool.analysis.decisions import DecisionLog
from hlotool.codegen import program
from hlotool.codegen.machine import Machine, named, runs_here
from hlotool.driver import compile_module
from hlotool.driver.cpu import code_of
from hlotool.driver.options import CompileOptions
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.harness.inputs import random_inputs
from hlotool.ir import ExecutionError, Module
from hlotool.ir.verifier import check
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.text.parser import parse

OPERATIONS = {
    "pred": ("xor", "or"), "s32": ("add", "multiply"), "u8": ("multiply", "add"), "s64": ("xor", "subtract"),
}  # fmt: skip
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65)
TYPES = ("f32", "f64", "bf16", "f16", "s32", "u8", "s64", "pred", "c64")


def looping(state: Sequence[str], steps: str, following: Sequence[str], until: str = "", more: str = "") -> str:
    """A program of one loop: `steps` make what its state, elements p0, p1... of shapes `state`, is `following`.

    It is the program's arguments at first, and ``i``, which counts 70 trips; it ends when the element `until` is false.
    """
    shape = f"({', '.join((*state, 's32[]'))})"
    elements = [f"  p{n} = {kind} get-tuple-element(p), index={n}\n" for n, kind in enumerate(state)]
    head = f"  p = {shape} parameter(0)\n{''.join(elements)}  i = s32[] get-tuple-element(p), index={len(state)}\n"
    test = "  n = s32[] constant(70)\n  ROOT r = pred[] compare(i, n), direction=LT\n"
    if until:
        test = test.replace("ROOT r", "c") + f"  ROOT r = pred[] and(c, {until})\n"
    arguments = "".join(f"  a{n} = {kind} parameter({n})\n" for n, kind in enumerate(state))
    names = ", ".join([*(f"a{n}" for n in range(len(state))), "zero"])
    return (
        f"HloModule m\n{more}\ntest {{\n{head}{test}}}\n"
        f"body {{\n{head}  one = s32[] constant(1)\n  j = s32[] add(i, one)\n{steps}"
        f"  ROOT t = {shape} tuple({', '.join((*following, 'j'))})\n}}\n"
        f"ENTRY e {{\n{arguments}  zero = s32[] constant(0)\n  s = {shape} tuple({names})\n"
        f"  ROOT w = {shape} while(s), condition=test, body=body\n}}\n"
    )


def elementwise(kind: str, n: int) -> str:
    """Two arrays that turn into each other, and a number that one of them becomes in every trip."""
    shape = f"{kind}[{n}]"
    first, second = OPERATIONS.get(kind, ("subtract", "multiply"))
    steps = f"  x = {shape} {first}(p1, p0)\n  y = {shape} {second}(x, p1)\n"
    return looping([shape, shape], steps, ["x", "y"])


SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
PARTS = (
    "  a = f32[1] slice(p0), slice={[0:1]}\n  b = f32[1] slice(p0), slice={[1:2]}\n"
    "  c = f32[1] slice(p0), slice={[2:3]}\n  ab = f32[1] multiply(a, b)\n"
    "  sc = f32[1] sine(c)\n  d = f32[1] add(ab, sc)\n"
    "  y = f32[3] concatenate(d, a, b), dimensions={0}\n"
)
ROW = "  z = s32[] constant(0)\n  row = f32[1,3] reshape(y)\n  ys = f32[70,3] dynamic-update-slice(p1, row, i, z)\n"
TAKEN = (
    "  z = s32[] constant(0)\n  part = f32[1,3] dynamic-slice(p1, i, z), dynamic_slice_sizes={1,3}\n"
    "  row = f32[3] reshape(part)\n  y = f32[3] multiply(p0, row)\n"
)
PLACES = (
    "  n = s32[] constant(5)\n  k = s32[] remainder(i, n)\n  e = f32[1] dynamic-slice(p0, k), dynamic_slice_sizes={1}\n"
    "  s = f32[1] sine(e)\n  y = f32[9] dynamic-update-slice(p0, s, j)\n"
)
DOT = (
    "  d = f32[4] dot(p1, p0), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  q = f32[4,4] dot(p1, p1), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
    "  th = f32[4,4] tanh(q)\n  u = f32[4] tanh(d)\n"
)
NORM = (
    "  zero = f32[] constant(0)\n  sq = f32[6] multiply(p0, p0)\n"
    "  s = f32[] reduce(sq, zero), dimensions={0}, to_apply=sum\n  r = f32[] rsqrt(s)\n"
    "  rs = f32[6] broadcast(r), dimensions={}\n  m = f32[6] multiply(p0, rs)\n"
    "  v = f32[6] reverse(m), dimensions={0}\n  y = f32[6] add(v, m)\n"
)
BRANCHES = (
    "left { x = f32[3] parameter(0) ROOT y = f32[3] sine(x) }\n"
    "right { x = f32[3] parameter(0) ROOT y = f32[3] negate(x) }\n"
)
CHOICE = "  y = f32[3] conditional(p1, p0, p0), true_computation=left, false_computation=right\n  q = pred[] not(p1)\n"
INNER = """
inner_test {
  p = (f32[5], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=1
  n = s32[] constant(12)
  ROOT r = pred[] compare(i, n), direction=LT
}
inner_body {
  p = (f32[5], s32[]) parameter(0)
  x = f32[5] get-tuple-element(p), index=0
  i = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  f = f32[] convert(i)
  fs = f32[5] broadcast(f), dimensions={}
  s = f32[5] cosine(x)
  y = f32[5] add(s, fs)
  ROOT t = (f32[5], s32[]) tuple(y, j)
}
"""
NESTED = (
    "  z = s32[] constant(0)\n  s = (f32[5], s32[]) tuple(p0, z)\n"
    "  w = (f32[5], s32[]) while(s), condition=inner_test, body=inner_body\n"
    "  x = f32[5] get-tuple-element(w), index=0\n  y = f32[5] subtract(x, p0)\n"
)
PROGRAMS = {
    "parts": looping(["f32[3]"], PARTS, ["y"]),
    "stacked": looping(["f32[3]", "f32[70,3]"], PARTS + ROW, ["y", "ys"]),
    "rows": looping(["f32[3]", "f32[70,3]"], TAKEN, ["y", "p1"]),
    "places": looping(["f32[9]"], PLACES, ["y"]),
    "dots": looping(["f32[4]", "f32[4,4]"], DOT, ["u", "th"]),
    "norms": looping(["f32[6]"], NORM, ["y"], more=SUM),
    "branches": looping(["f32[3]", "pred[]"], CHOICE, ["y", "q"], more=BRANCHES),
    "nested": looping(["f32[5]"], NESTED, ["y"], more=INNER),
    "until": looping(
        ["f32[]", "f32[3]", "pred[]"],
        "  h = f32[] constant(0.4)\n  c = f32[] cosine(p0)\n  hs = f32[3] broadcast(c), dimensions={}\n"
        "  y = f32[3] add(p1, hs)\n  q = pred[] compare(c, h), direction=GT\n",
        ["c", "y", "q"], "p2",
    ),
    "turning": looping(["f32[3]", "f32[3]", "f32[3]", "f32[]"], "  x = f32[3] negate(p0)\n", ["p1", "p2", "x", "p3"]),
    "shifted": looping(
        ["s32[8,8]"], "  a = s32[8,7] slice(p0), slice={[0:8], [1:8]}\n  b = s32[8,1] slice(p0), slice={[0:8], [0:1]}\n"
        "  c = s32[8,8] concatenate(a, b), dimensions={1}\n  d = s32[8,8] transpose(c), dimensions={1,0}\n"
        "  y = s32[8,8] add(d, p0)\n", ["y"],
    ),
}  # fmt: skip
"""By what is special of them."""


def results(module: Module, machine: Machine | None = None, threads: int = 1) -> list[bytes]:
    inputs = random_inputs(module, 3)
    return [np.asarray(found).tobytes() for found in compile_module(module, machine=machine, threads=threads)(*inputs)]


def small(module: Module, cpu: str = "x86-64-v3", stage: str = "llvm") -> str:
    """The text of the functions of small loops."""
    options = CompileOptions(pipeline=parse_pipeline("default"), machine=named(cpu))
    text = "\n".join(code_of(module, options, stage))
    kind = r"^define void @\w+_loop\d+\(.*?^}$" if stage == "llvm" else r"^\w+_loop\d+:$.*?^\.Lfunc_end"
    return "\n".join(re.findall(kind, text, re.MULTILINE | re.DOTALL))


def same(text: str, machine: Machine | None = None) -> None:
    """The loop is small, and the program gives the same bits as without, and what the evaluator gives."""
    module = parse(text)
    check(module)
    assert small(module)
    found = results(module, machine)
    assert found == results(module, machine, threads=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "small_loops", lambda *_: [])
        assert not small(module)
        assert found == results(module, machine)
    inputs = random_inputs(module, 3)
    outcome = compare_all(evaluate(module, inputs), compile_module(module, machine=machine)(*inputs))
    assert all(one.ok for one in outcome)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", TYPES)
def test_elementwise_loops_of_any_size_and_type(kind: str, n: int) -> None:
    same(elementwise(kind, n))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "generic"])
def test_loops_of_other_kinds_on_any_processor(name: str, cpu: str) -> None:
    if not runs_here(named(cpu)):
        pytest.skip("this processor does not run its code")
    same(PROGRAMS[name], named(cpu))


def inner_blocks(text: str) -> list[str]:
    """The blocks of assembly that a jump leads back to, up to that jump."""
    blocks = re.split(r"^(\.LBB\w+):", text, flags=re.MULTILINE)
    found = zip(blocks[1::2], blocks[2::2], strict=True)
    return [block for name, block in found if re.search(rf"\tj\w+\t{re.escape(name)}\n", block)]


def accesses(block: str) -> list[str]:
    """The lines of assembly that read or write memory, but for constants."""
    return re.findall(r"^\t(?!lea).*\(%(?!rip).*", block, re.MULTILINE)


@pytest.mark.parametrize("n", [1, 3, 8, 13, 32])
def test_state_never_leaves_the_registers(n: int) -> None:
    """The trip of a loop on few elements is arithmetic: it has no access to memory but to constants."""
    (block,) = inner_blocks(small(parse(elementwise("f32", n)), stage="asm"))
    assert "subps" in block or "subss" in block
    assert "call" not in block
    assert not accesses(block)


def test_parts_and_rows_are_lanes() -> None:
    """What is taken out of an array, put together and stacked needs one store in all."""
    text = small(parse(PROGRAMS["stacked"].replace("sine(c)", "negate(c)")), stage="asm")
    (block,) = inner_blocks(text)
    assert len(accesses(block)) == 2  # of 12 bytes


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_of_a_small_loop_is_one_function(name: str) -> None:
    """Loops and branches in it, too; kernels are no functions any longer once it is compiled."""
    options = CompileOptions(pipeline=parse_pipeline("default"), machine=named("x86-64-v3"))
    (text,) = (t for t in code_of(parse(PROGRAMS[name]), options, "asm") if "_loop0:" in t)
    assert set(re.findall(r"^(?!\.L)(\w+):$", text, re.MULTILINE)) <= {"run_m", "run_m_loop0"}


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("much work", looping(["f32[70,70]"], "  y = f32[70,70] sine(p0)\n", ["y"])),
        ("a call of the runtime", looping(
            ["f32[3]"], "  k = token[] after-all()\n  f = (f32[3], token[]) infeed(k)\n"
            "  y = f32[3] get-tuple-element(f), index=0\n", ["y"],
        )),
        ("an algorithm", looping(["f32[9]"], "  y = f32[9] sort(p0), dimensions={0}, to_apply=less\n", ["y"], more=(
            "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }\n"
        ))),
    ],
)  # fmt: skip
def test_other_loops_have_steps(what: str, text: str) -> None:
    assert not small(parse(text)), what


def test_the_inner_of_two_loops_may_be_small() -> None:
    """What it begins with was in the state of the outer one, which is needed behind it as well."""
    steps = NESTED + "  h = f32[70,70] sine(p1)\n"
    same(looping(["f32[5]", "f32[70,70]"], steps, ["y", "h"], more=INNER))


def test_it_is_said_which_loops_are_small() -> None:
    log = DecisionLog()
    compile_module(parse(PROGRAMS["parts"]), log=log)
    (found,) = (decision for decision in log if decision.rule == "in-registers")
    assert found.before == ("w",)
    assert dict(found.numbers)["operations"] < 20


def test_a_small_loop_can_be_stopped() -> None:
    text = looping(["f32[3]"], "  y = f32[3] negate(p0)\n", ["y"]).replace("j = s32[] add(i, one)", "j = s32[] copy(i)")
    module = parse(text)
    assert small(module)
    with pytest.raises(ExecutionError, match="time limit"):
        compile_module(module, timeout=0.2)(*random_inputs(module, 0))
