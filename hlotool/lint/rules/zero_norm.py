"""Division by a norm or a deviation that may be zero."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import Instruction
from hlotool.lint.match import ADD, is_float, is_sum, number_of, square_of, through
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]

_MOVES = frozenset({"broadcast", "reshape", "bitcast", "copy", "convert"})


def _is_sum_of_squares(value: Instruction) -> bool:
    """Whether `value` is a sum or mean of squares or sizes, which is zero where all of them are."""
    value = through(value, _MOVES)
    for _ in range(3):
        if value.opcode in ("multiply", "divide") and (number_of(value.operands[1]) or 0) > 0:
            value = through(value.operands[0], _MOVES)
    if not is_sum(value) or number_of(value.operands[1]) != 0:
        return False
    term = through(value.operands[0], _MOVES)
    return term.opcode == "abs" or square_of(term) is not None


def _find(instruction: Instruction) -> Iterable[Finding]:
    if not is_float(instruction) or _is_guarded(instruction):
        return
    if instruction.opcode == "rsqrt":
        source = instruction.operands[0]
        if _is_sum_of_squares(source):
            yield _finding(instruction, source, "the reciprocal root of it is inf")
        return
    below = through(instruction.operands[1], _MOVES)
    if _is_sum_of_squares(below.operands[0] if below.opcode == "sqrt" else below):
        yield _finding(instruction, below, "0 / 0 is NaN")


def _is_guarded(instruction: Instruction) -> bool:
    """Whether a select looks at every result."""
    return bool(instruction.users) and all(user.opcode == "select" for user in instruction.users)


def _finding(instruction: Instruction, source: Instruction, what: str) -> Finding:
    return Finding(
        instruction,
        f"{source.name} is zero where all that it sums up is, and {what}",
        "add a small number to it ahead of the root or division, or take the maximum of both",
    )


_SQUARES = (
    "x = f32[8,64] parameter(0)\nq = f32[8,64] multiply(x, x)\nz = f32[] constant(0)\n"
    "s = f32[8] reduce(q, z), dimensions={1}, to_apply=add\n"
)
_REST = "b = f32[8,64] broadcast(n), dimensions={0}\nROOT y = f32[8,64] divide(x, b)"
RULE = Rule(
    code="HLO6007",
    name="zero-norm",
    title="division by a norm that may be zero",
    meaning="A row of zeros, as padding makes them, has the norm 0, and x / 0 is NaN, which spreads to all that is "
    "computed from it and to gradients.  A small number added to the sum of squares leaves other rows as they are.",
    opcodes=frozenset({"divide", "rsqrt"}),
    find=_find,
    wrong=module_text(f"{_SQUARES}n = f32[8] sqrt(s)\n{_REST}", ADD),
    right=module_text(
        f"{_SQUARES}e = f32[] constant(1e-12)\neb = f32[8] broadcast(e), dimensions={{}}\nt = f32[8] add(s, eb)\n"
        f"n = f32[8] sqrt(t)\n{_REST}", ADD
    ),
)
