"""A variance as the mean of squares less the square of the mean."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import Instruction
from hlotool.lint.match import ADD, is_float, is_sum, number_of, square_of, through
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]

_GUARDS = frozenset({"maximum", "clamp", "abs"})
_MOVES = frozenset({"reshape", "bitcast", "copy", "convert"})


def _summed(value: Instruction) -> Instruction | None:
    """The sum that `value` is a multiple of."""
    value = through(value, _MOVES)
    if value.opcode in ("multiply", "divide") and number_of(value.operands[1]) is not None:
        value = through(value.operands[0], _MOVES)
    return value if is_sum(value) else None


def _find(difference: Instruction) -> Iterable[Finding]:
    if not is_float(difference) or _is_guarded(difference):
        return
    left, right = (through(operand, _MOVES) for operand in difference.operands)
    mean = square_of(right)
    squares, total = _summed(left), _summed(mean) if mean is not None else None
    if squares is None or total is None or squares.attributes["dimensions"] != total.attributes["dimensions"]:
        return
    squared = square_of(through(squares.operands[0], _MOVES))
    if squared is None or through(squared, _MOVES) is not through(total.operands[0], _MOVES):
        return
    yield Finding(
        difference,
        f"the mean of squares of {squared.name} less the square of its mean: where the mean is large it has no right "
        "digit, and may be negative",
        f"take the mean of (({squared.name} - mean)^2), or at least the maximum of this and 0",
    )


def _is_guarded(difference: Instruction) -> bool:
    """Whether a maximum sees to it that no result is negative: then it is a choice of speed."""
    opcodes = {user.opcode for user in difference.users}
    return bool(opcodes & _GUARDS) and opcodes <= _GUARDS | {"compare"}  # as the gradient of a maximum does


_SUMS = (
    "x = f32[8,64] parameter(0)\nq = f32[8,64] multiply(x, x)\nz = f32[] constant(0)\n"
    "s = f32[8] reduce(x, z), dimensions={1}, to_apply=add\nt = f32[8] reduce(q, z), dimensions={1}, to_apply=add\n"
    "n = f32[] constant(0.015625)\nnb = f32[8] broadcast(n), dimensions={}\nm = f32[8] multiply(s, nb)\n"
    "k = f32[8] multiply(t, nb)\nmm = f32[8] multiply(m, m)\n"
)
RULE = Rule(
    code="HLO6008",
    name="variance-cancellation",
    title="a variance as E[x²] - E[x]²",
    meaning="Both are close to each other where the mean is large beside the deviation, and their difference is what "
    "rounding left of it: with a mean of 1000 and a deviation of 1, f32 has one right digit, and often a negative "
    "number, of which the root is NaN.",
    opcodes=frozenset({"subtract"}),
    find=_find,
    wrong=module_text(f"{_SUMS}ROOT v = f32[8] subtract(k, mm)", ADD),
    right=module_text(
        "x = f32[8,64] parameter(0)\nz = f32[] constant(0)\ns = f32[8] reduce(x, z), dimensions={1}, to_apply=add\n"
        "n = f32[] constant(0.015625)\nnb = f32[8] broadcast(n), dimensions={}\nm = f32[8] multiply(s, nb)\n"
        "mb = f32[8,64] broadcast(m), dimensions={0}\nd = f32[8,64] subtract(x, mb)\nq = f32[8,64] multiply(d, d)\n"
        "t = f32[8] reduce(q, z), dimensions={1}, to_apply=add\nROOT v = f32[8] multiply(t, nb)", ADD
    ),
)
