"""Logarithms and exponentials near 1 and 0, of which subtraction and addition drop the digits."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from hlotool.ir import Instruction
from hlotool.ir.builder import Builder
from hlotool.lint.match import is_float, number_of
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["EXPM1", "LOG1P"]


def _find_log1p(log: Instruction) -> Iterable[Finding]:
    total = log.operands[0]
    if total.opcode != "add" or not is_float(log):
        return
    for at, x in enumerate(total.operands):
        if number_of(total.operands[1 - at]) == 1 and number_of(x) is None:
            what = f"log(1 + {x.name}) loses small values of {x.name}"
            yield Finding(log, what, f"log-plus-one({x.name})", partial(_of_part, "log-plus-one", "add", 0, at))
            return


def _find_expm1(difference: Instruction) -> Iterable[Finding]:
    if not is_float(difference):
        return
    number, places = (1.0, (0,)) if difference.opcode == "subtract" else (-1.0, (0, 1))
    for at in places:
        exponential = difference.operands[at]
        if exponential.opcode == "exponential" and number_of(difference.operands[1 - at]) == number:
            x = exponential.operands[0].name
            yield Finding(
                difference,
                f"exp({x}) - 1 loses small values of {x}",
                f"exponential-minus-one({x})",
                partial(_of_part, "exponential-minus-one", "exponential", at, 0),
            )
            return


def _of_part(opcode: str, inner_opcode: str, outer: int, inner: int, build: Builder) -> Instruction:
    """`opcode` of an operand of an operand, as they are now: another fix may have been here."""
    assert build.like is not None
    part = build.like.operands[outer]
    return build.add(opcode, build.like.shape, (part.operands[inner],)) if part.opcode == inner_opcode else build.like


_ONE = "x = f32[64] parameter(0)\none = f32[] constant(1)\nb = f32[64] broadcast(one), dimensions={}\n"
LOG1P = Rule(
    code="HLO6005",
    name="log1p",
    title="log(1 + x)",
    meaning="1 + x drops the digits of a small x: in f32 the logarithm of 1 + 1e-8 is 0.  log-plus-one keeps them.",
    opcodes=frozenset({"log"}),
    find=_find_log1p,
    wrong=module_text(f"{_ONE}s = f32[64] add(x, b)\nROOT y = f32[64] log(s)"),
    right=module_text("x = f32[64] parameter(0)\nROOT y = f32[64] log-plus-one(x)"),
)
EXPM1 = Rule(
    code="HLO6006",
    name="expm1",
    title="exp(x) - 1",
    meaning="exp(x) of a small x is close to 1, and the difference has few right digits: in f32 that of 1e-8 is 0.  "
    "exponential-minus-one keeps them.",
    opcodes=frozenset({"subtract", "add"}),
    find=_find_expm1,
    wrong=module_text(f"{_ONE}e = f32[64] exponential(x)\nROOT y = f32[64] subtract(e, b)"),
    right=module_text("x = f32[64] parameter(0)\nROOT y = f32[64] exponential-minus-one(x)"),
)
