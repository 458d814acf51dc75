"""Logic, comparisons, selections, limits."""

from __future__ import annotations

import math

from hlotool.ir import ELEMENT_TYPES, Instruction
from hlotool.passes.algebra.arithmetic import is_integer
from hlotool.passes.rewriter import Rewriter, Rule, number, rule

__all__ = ["RULES", "lowest_and_highest"]


def is_pred(instruction: Instruction) -> bool:
    return instruction.shape.element_type == "pred"


def lowest_and_highest(element_type: str) -> tuple[float, float] | None:
    """The least and the greatest value of a real type; infinities for floats that have them."""
    row = ELEMENT_TYPES[element_type]
    if row.kind == "pred":
        return 0, 1
    if row.kind == "signed":
        return -(2 ** (row.bits - 1)), 2 ** (row.bits - 1) - 1
    if row.kind == "unsigned":
        return 0, 2**row.bits - 1
    return (-math.inf, math.inf) if element_type in ("f16", "bf16", "f32", "f64") else None


def _all_ones(instruction: Instruction, value: object) -> bool:
    """Whether `value` has every bit of the type of `instruction` set."""
    row = ELEMENT_TYPES[instruction.shape.element_type]
    if row.kind == "pred":
        return value is True
    return isinstance(value, int) and value == (-1 if row.kind == "signed" else 2**row.bits - 1)


# ---- and, or, xor, shifts


@rule("and", "or", "maximum", "minimum")
def idempotent(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x op x = x for and, or, maximum, minimum."""
    left, right = instruction.operands
    return left if left is right else None


@rule("and", "or", "maximum", "minimum")
def absorbed_repetition(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x op (x op y) = x op y for and, or, maximum, minimum."""
    left, right = instruction.operands
    if right.opcode == instruction.opcode and left in right.operands:
        return right
    return left if left.opcode == instruction.opcode and right in left.operands else None


@rule("and")
def and_constant(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x & 0 = 0 and x & ~0 = x."""
    left, right = instruction.operands
    value = number(right)
    if value is None:
        return None
    return left if _all_ones(instruction, value) else right if value == 0 else None


@rule("or")
def or_constant(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x | 0 = x and x | ~0 = ~0."""
    left, right = instruction.operands
    value = number(right)
    if value is None:
        return None
    return right if _all_ones(instruction, value) else left if value == 0 else None


@rule("xor")
def xor_constant(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x ^ 0 = x, x ^ ~0 = not x, x ^ x = 0."""
    left, right = instruction.operands
    if left is right:
        return rewriter.splat(0, instruction.shape)
    value = number(right)
    if value is None:
        return None
    return rewriter.unary("not", left) if _all_ones(instruction, value) else left if value == 0 else None


@rule("shift-left", "shift-right-logical", "shift-right-arithmetic")
def shift_zero(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x << 0 = x, and likewise to the right."""
    left, right = instruction.operands
    return left if number(right) == 0 else None


# ---- maximum, minimum, clamp


@rule("maximum", "minimum")
def extreme_of_range(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """max(x, lowest) = x and max(x, highest) = highest for integers; floats only the first, which keeps NaN."""
    left, right = instruction.operands
    limits = lowest_and_highest(instruction.shape.element_type)
    value = number(right)
    if limits is None or value is None:
        return None
    neutral, absorbing = limits if instruction.opcode == "maximum" else reversed(limits)
    if value == neutral:
        return left
    return right if value == absorbing and is_integer(instruction) else None


@rule("clamp")
def clamp_one_sided(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """clamp(lowest, x, b) = min(x, b), clamp(a, x, highest) = max(x, a), and x alone for both."""
    low, value, high = instruction.operands
    limits = lowest_and_highest(instruction.shape.element_type)
    if limits is None:
        return None
    free_low, free_high = number(low) == limits[0], number(high) == limits[1]
    if free_low and free_high:
        return value
    if free_low:
        return rewriter.binary("minimum", value, rewriter.broadcast(high, value.shape, _spread(high)))
    if free_high:
        return rewriter.binary("maximum", value, rewriter.broadcast(low, value.shape, _spread(low)))
    return None


def _spread(bound: Instruction) -> tuple[int, ...]:
    return tuple(range(bound.shape.rank))


@rule("clamp")
def clamp_twice(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """clamp(a, clamp(a, x, b), b) = clamp(a, x, b)."""
    low, value, high = instruction.operands
    return value if value.opcode == "clamp" and value.operands[0] is low and value.operands[2] is high else None


# ---- compare

_MIRRORED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
_INVERSE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}


def _with_direction(
    rewriter: Rewriter, compare: Instruction, direction: str, left: Instruction, right: Instruction
) -> Instruction:
    return rewriter.make("compare", compare.shape, left, right, **{**compare.attributes, "direction": direction})


@rule("compare")
def compare_constant_left(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """c < x is x > c, so that other rules look for constants on the right only."""
    left, right = instruction.operands
    if number(left) is None or number(right) is not None:
        return None
    return _with_direction(rewriter, instruction, _MIRRORED[instruction.attributes["direction"]], right, left)


@rule("compare")
def compare_self(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x == x is true and x < x is false, for integers and predicates; x < x is false for floats too."""
    left, right = instruction.operands
    direction = instruction.attributes["direction"]
    if left is not right:
        return None
    if is_integer(left) or is_pred(left):
        return rewriter.splat(direction in ("EQ", "LE", "GE"), instruction.shape)
    return rewriter.splat(False, instruction.shape) if direction in ("LT", "GT") else None


@rule("compare")
def compare_with_limit(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x < lowest is false, x >= lowest is true, x > highest is false, x <= highest is true, for integers."""
    left, right = instruction.operands
    value = number(right)
    limits = lowest_and_highest(left.shape.element_type)
    if limits is None or value is None or not is_integer(left):
        return None
    direction = instruction.attributes["direction"]
    known = {("LT", limits[0]): False, ("GE", limits[0]): True, ("GT", limits[1]): False, ("LE", limits[1]): True}
    answer = known.get((direction, int(value.real)))
    return None if answer is None else rewriter.splat(answer, instruction.shape)


@rule("compare")
def compare_predicate(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """p == true is p, p != false is p, and the other two are not p; also where p was converted to a number."""
    left, right = instruction.operands
    value = number(right)
    direction = instruction.attributes["direction"]
    if value not in (0, 1) or direction not in ("EQ", "NE"):
        return None
    source = left.operands[0] if left.opcode == "convert" else left
    if not is_pred(source):
        return None
    return source if (value == 1) == (direction == "EQ") else rewriter.unary("not", source)


@rule("compare")
def compare_shifted(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x + a == b is x == b - a, for integers (which wrap), and likewise for !=."""
    left, right = instruction.operands
    if instruction.attributes["direction"] not in ("EQ", "NE") or not is_integer(left) or number(right) is None:
        return None
    if left.opcode != "add" or number(left.operands[1]) is None:
        return None
    moved = rewriter.binary("subtract", right, left.operands[1])
    return rewriter.same(instruction, left.operands[0], moved)


@rule("not")
def inverted_compare(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """not (x < y) is x >= y for types without NaN; not (x == y) is x != y for all."""
    compare = instruction.operands[0]
    if compare.opcode != "compare" or len(compare.users) != 1:
        return None
    direction = compare.attributes["direction"]
    left, right = compare.operands
    total = is_integer(left) or is_pred(left) or compare.attributes.get("type") == "TOTALORDER"
    if not total and direction not in ("EQ", "NE"):
        return None
    return _with_direction(rewriter, compare, _INVERSE[direction], left, right)


# ---- select


@rule("select")
def select_known(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """select(true, a, b) = a, select(false, a, b) = b, select(p, a, a) = a."""
    predicate, on_true, on_false = instruction.operands
    if on_true is on_false:
        return on_true
    value = number(predicate)
    return None if value is None else on_true if value else on_false


@rule("select")
def select_negated(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """select(not p, a, b) = select(p, b, a)."""
    predicate, on_true, on_false = instruction.operands
    if predicate.opcode != "not":
        return None
    return rewriter.same(instruction, predicate.operands[0], on_false, on_true)


@rule("select")
def select_predicate(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """Of predicates: select(p, true, false) = p, select(p, false, true) = not p, select(p, a, false) = p and a,
    select(p, true, b) = p or b."""
    predicate, on_true, on_false = instruction.operands
    if not is_pred(instruction) or predicate.shape.dimensions != instruction.shape.dimensions:
        return None
    first, second = number(on_true), number(on_false)
    if first is True:
        return predicate if second is False else rewriter.binary("or", predicate, on_false)
    if second is False:
        return rewriter.binary("and", predicate, on_true)
    return rewriter.unary("not", predicate) if first is False and second is True else None


@rule("select")
def select_repeated(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """select(p, select(p, a, b), c) = select(p, a, c), and likewise in the other branch."""
    predicate, on_true, on_false = instruction.operands
    if on_true.opcode == "select" and on_true.operands[0] is predicate:
        return rewriter.same(instruction, predicate, on_true.operands[1], on_false)
    if on_false.opcode == "select" and on_false.operands[0] is predicate:
        return rewriter.same(instruction, predicate, on_true, on_false.operands[2])
    return None


RULES: tuple[Rule, ...] = (
    idempotent, absorbed_repetition, and_constant, or_constant, xor_constant, shift_zero, extreme_of_range,
    clamp_one_sided, clamp_twice, compare_constant_left, compare_self, compare_with_limit, compare_predicate,
    compare_shifted, inverted_compare, select_known, select_negated, select_predicate, select_repeated,
)  # fmt: skip
