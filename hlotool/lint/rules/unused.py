"""What nobody reads."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import OPCODES, Instruction
from hlotool.ir.effects import is_pure
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["DEAD", "PARAMETERS"]

_FREE = frozenset({"after-all", "constant", "get-tuple-element", "iota", "parameter", "tuple"})
"""What costs nothing, and is left over wherever programs are written by programs."""


def _find_dead(instruction: Instruction) -> Iterable[Finding]:
    if instruction.users or instruction.is_root or not is_pure(instruction):
        return
    yield Finding(instruction, "nobody reads it", "remove it", lambda build: instruction)


def _find_parameters(parameter: Instruction) -> Iterable[Finding]:
    module = parameter.parent.module if parameter.parent is not None else None
    if module is None or parameter.parent is not module.entry or parameter.users or parameter.is_root:
        return
    yield Finding(
        parameter,
        f"parameter {parameter.parameter_number} is not read",
        "callers hand over (and a device copies) what nobody needs: leave it out",
    )


DEAD = Rule(
    code="HLO6108",
    name="dead-code",
    title="an instruction that nobody reads",
    meaning="It has no effect and is not the result: compilers remove it, so that it is not run, and may show that "
    "something was left out by mistake.",
    opcodes=frozenset(OPCODES) - _FREE,
    find=_find_dead,
    wrong=module_text("x = f32[64] parameter(0)\nn = f32[64] negate(x)\nROOT y = f32[64] tanh(x)"),
    right=module_text("x = f32[64] parameter(0)\nROOT y = f32[64] tanh(x)"),
)
PARAMETERS = Rule(
    code="HLO6109",
    name="unused-parameter",
    title="a parameter of the program that is not read",
    meaning="Its array has to be made and handed over all the same.",
    opcodes=frozenset({"parameter"}),
    find=_find_parameters,
    wrong=module_text("x = f32[64] parameter(0)\nw = f32[64] parameter(1)\nROOT y = f32[64] tanh(x)"),
    right=module_text("x = f32[64] parameter(0)\nROOT y = f32[64] tanh(x)"),
    note=True,
)
