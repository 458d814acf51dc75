"""Functions of a broadcast, computed for every copy of an element."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import Instruction
from hlotool.ir.builder import Builder
from hlotool.lint.match import elements_of
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]

_COSTLY = frozenset({
    "acos", "acosh", "asin", "asinh", "atanh", "cbrt", "cosh", "cosine", "erf", "exponential", "exponential-minus-one",
    "log", "log-plus-one", "logistic", "rsqrt", "sine", "sinh", "sqrt", "tan", "tanh",
})  # fmt: skip
_TIMES = 8


def _find(instruction: Instruction) -> Iterable[Finding]:
    (broadcast,) = instruction.operands
    if broadcast.opcode != "broadcast" or elements_of(broadcast) < _TIMES * max(1, elements_of(broadcast.operands[0])):
        return
    count, needed = elements_of(broadcast), elements_of(broadcast.operands[0])
    yield Finding(
        instruction,
        f"{instruction.opcode} of a broadcast: it is computed {count} times for {needed} different values",
        f"broadcast the {instruction.opcode} of {broadcast.operands[0].name}",
        _first,
    )


def _first(build: Builder) -> Instruction:
    instruction = build.like
    assert instruction is not None
    (broadcast,) = instruction.operands
    if broadcast.opcode != "broadcast":
        return instruction  # another fix was here
    early = build.unary(instruction.opcode, broadcast.operands[0])
    return build.broadcast(early, broadcast.attributes["dimensions"], instruction.shape)


RULE = Rule(
    code="HLO6113",
    name="function-of-broadcast",
    title="a costly function of a broadcast",
    meaning="All copies of an element have the same result: compute the function first, and repeat that.",
    opcodes=_COSTLY,
    find=_find,
    wrong=module_text(
        "x = f32[8] parameter(0)\nb = f32[8,64] broadcast(x), dimensions={0}\nROOT y = f32[8,64] exponential(b)"
    ),
    right=module_text(
        "x = f32[8] parameter(0)\ne = f32[8] exponential(x)\nROOT y = f32[8,64] broadcast(e), dimensions={0}"
    ),
)
