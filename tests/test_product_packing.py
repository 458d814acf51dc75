"""Operands of products that are laid out once: HLO before and after, what is left alone, and the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from test_gemm import MACHINES

from hlotool.analysis.decisions import DecisionLog
from hlotool.codegen.machine import Machine
from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Instruction, Module
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline
from hlotool.passes.framework.select import without
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

UNPACKED = without(parse_pipeline("default"), frozenset(["product-packing"]))


def loop(lhs: str, rhs: str, dot: str, dims: str, moved: str = "a") -> Module:
    """A loop around a product, of whose operands, `a` and `w`, each trip changes the sign of one."""
    state = f"(s32[], {lhs}, {rhs}, {dot})"
    changed = f"x = {lhs if moved == 'a' else rhs} negate({moved})"
    made = parse(f"""HloModule m

body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = {lhs} get-tuple-element(s), index=1
  w = {rhs} get-tuple-element(s), index=2
  before = {dot} get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = {dot} dot(a, w), {dims}
  sum = {dot} add(d, before)
  {changed}
  ROOT r = {state} tuple(j, {"x, w" if moved == "a" else "a, x"}, sum)
}}

condition {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(99)
  ROOT p = pred[] compare(i, n), direction=LT
}}

ENTRY main {{
  a = {lhs} parameter(0)
  w = {rhs} parameter(1)
  z = {dot} parameter(2)
  i = s32[] constant(0)
  t = {state} tuple(i, a, w, z)
  l = {state} while(t), condition=condition, body=body
  ROOT y = {dot} get-tuple-element(l), index=3
}}
""")
    check(made)
    return made


def packed(made: Module) -> tuple[Module, DecisionLog]:
    log = DecisionLog()
    result = optimise(made, log=log)
    check(result)
    return result, log


def rules(log: DecisionLog) -> list[str]:
    return [decision.rule for decision in log if decision.pass_name == "product-packing"]


def dots(made: Module) -> list[Instruction]:
    return [i for i in made.instructions() if i.opcode == "dot"]


def same_bits(made: Module, machine: Machine | None = None) -> None:
    arrays = random_inputs(made, 1)
    got = compile_module(made, machine=machine)(*arrays)
    plain = compile_module(made, pipeline=UNPACKED, machine=machine)(*arrays)
    assert [np.asarray(x).tobytes() for x in got] == [np.asarray(x).tobytes() for x in plain]
    assert all(c.ok for c in compare_all(got, evaluate(made, arrays)))


RIGHT = [
    ("f32[40,70]", "f32[48,70]", "f32[40,48]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}", (3, 70, 16)),
    ("f32[17,90]", "f32[90,1024]", "f32[17,1024]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", (64, 90, 16)),
    ("f32[5,9,600]", "f32[80,600]", "f32[5,9,80]", "lhs_contracting_dims={2}, rhs_contracting_dims={1}", (5, 600, 16)),
    ("f64[131,20]", "f64[20,208]", "f64[131,208]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", (26, 20, 8)),
]


@pytest.mark.parametrize(("lhs", "rhs", "dot", "dims", "form"), RIGHT, ids=[row[1] for row in RIGHT])
def test_right_operands_of_loops(lhs: str, rhs: str, dot: str, dims: str, form: tuple[int, ...]) -> None:
    made = loop(lhs, rhs, dot, dims)
    result, log = packed(made)
    assert rules(log) == ["pack"]
    (product,) = dots(result)
    assert product.operands[1].shape.dimensions == form
    (moved,) = (i for i in result.instructions() if i.opcode == "transpose")
    assert moved.parent is result.entry
    for machine in MACHINES:
        same_bits(made, machine)


def test_left_operands_of_loops() -> None:
    dims = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    made = loop("f32[70,50]", "f32[70,250]", "f32[50,250]", dims, moved="w")
    result, log = packed(made)
    assert rules(log) == ["pack"]
    (product,) = dots(result)
    assert product.operands[0].shape.dimensions == (50, 70)
    same_bits(made)


def constant(*sizes: int) -> str:
    values = np.random.default_rng(0).integers(-9, 9, sizes)
    return f"f32[{','.join(map(str, sizes))}] constant({str(values.tolist()).replace('[', '{').replace(']', '}')})"


def test_constants_have_the_form_from_the_start() -> None:
    made = parse(
        f"HloModule m\n\nENTRY main {{\na = f32[50,30] parameter(0)\nw = {constant(32, 30)}\n"
        "ROOT d = f32[50,32] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n"
    )
    result, log = packed(made)
    assert rules(log) == ["pack"]
    (product,) = dots(result)
    assert [i.opcode for i in result.entry if i.opcode in ("transpose", "copy")] == []
    assert (product.operands[1].opcode, product.operands[1].shape.dimensions) == ("constant", (2, 30, 16))
    same_bits(made)
    again, log = packed(result)
    assert rules(log) == []
    assert print_module(again) == print_module(result)


TWO = "b = f32[50,30] parameter(1)\ne = f32[50,32] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"


def test_constants_of_several_products_are_there_once() -> None:
    made = parse(
        f"HloModule m\n\nENTRY main {{\na = f32[50,30] parameter(0)\nw = {constant(32, 30)}\n{TWO}"
        "d = f32[50,32] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        "ROOT r = (f32[50,32], f32[50,32]) tuple(d, e)\n}\n"
    )
    result, log = packed(made)
    assert rules(log) == ["pack", "pack"]
    assert len([i for i in result.entry if i.opcode == "constant"]) == 1
    same_bits(made)


@pytest.mark.parametrize("rows", [1, 3, 9, 20, 40])
@pytest.mark.parametrize("weights", [
    "w = f32[7,77,16] parameter(1)", "b = s8[7,77,16] parameter(1)\nw = f32[7,77,16] convert(b)",
], ids=["arrays", "computed"])
def test_products_read_panels_of_others(rows: int, weights: str) -> None:
    made = parse(
        f"HloModule m\n\nENTRY main {{\na = f32[{rows},77] parameter(0)\n{weights}\n"
        f"ROOT d = f32[{rows},7,16] dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}\n}}\n"
    )
    arrays = random_inputs(made, rows)
    for machine in MACHINES:
        got = compile_module(made, machine=machine)(*arrays)
        assert all(c.ok for c in compare_all(got, evaluate(made, arrays)))
