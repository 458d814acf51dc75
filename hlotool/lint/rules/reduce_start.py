"""Reductions that start with a number that changes the result."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.analysis.reducers import opcodes
from hlotool.ir import Instruction
from hlotool.lint.match import is_float, number_of, square_of, through
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]

_LARGE = 1e4
"""Numbers beyond it stand for infinities."""
_NEVER_NEGATIVE = frozenset({"abs", "exponential", "logistic", "sqrt", "iota"})


def _find(reduce: Instruction) -> Iterable[Finding]:
    combiner = opcodes(reduce.attributes["to_apply"])
    if len(reduce.operands) != 2 or len(combiner) != 1 or not is_float(reduce):
        return
    source, start = reduce.operands
    number = number_of(start)
    if number is None or _is_neutral(combiner[0], number, source):
        return
    wanted = {"add": "0", "multiply": "1", "maximum": "-inf", "minimum": "inf"}[combiner[0]]
    yield Finding(
        reduce,
        f"a reduction by {combiner[0]} that starts with {number:g}, which HLO may take several times",
        f"start with {wanted}, and combine the result with {number:g} if that is meant",
    )


def _is_neutral(opcode: str, number: float, source: Instruction) -> bool:
    match opcode:
        case "add":
            return number == 0
        case "multiply":
            return number == 1
        case "maximum":
            return number <= -_LARGE or (number <= 0 and _is_never_negative(source))
        case "minimum":
            return number >= _LARGE
    return True


def _is_never_negative(value: Instruction) -> bool:
    value = through(value)
    if value.opcode == "maximum":
        return any((number_of(operand) or -1) >= 0 or number_of(operand) == 0 for operand in value.operands)
    return value.opcode in _NEVER_NEGATIVE or square_of(value) is not None or value.shape.element_type in ("pred", "u8")


_MAX = "max {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT m = f32[] maximum(a, b)\n}\n\n"
_BODY = "x = f32[8,64] parameter(0)\nz = f32[] constant(@)\nROOT y = f32[8] reduce(x, z), dimensions={1}, to_apply=max"
RULE = Rule(
    code="HLO6011",
    name="reduction-start",
    title="a reduction starts with a number that changes its result",
    meaning="A maximum that starts with 0 is no maximum of negative numbers.  And HLO says that a compiler may combine "
    "the start with parts of the operand as often as it likes: only one that changes nothing gives one result.",
    opcodes=frozenset({"reduce"}),
    find=_find,
    wrong=module_text(_BODY.replace("@", "0"), _MAX),
    right=module_text(_BODY.replace("@", "-inf"), _MAX),
)
