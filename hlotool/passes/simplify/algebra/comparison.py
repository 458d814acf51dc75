"""Logic, comparisons, selections, limits."""

from __future__ import annotations

from hlotool.ir import ELEMENT_TYPES, Instruction, array
from hlotool.passes.framework.rewriter import CONSTANTS, Rewriter, Rule, number, rule
from hlotool.passes.simplify.algebra.arithmetic import is_float, is_integer, is_nonnegative
from hlotool.passes.simplify.algebra.conversion import holds_exactly
from hlotool.passes.simplify.algebra.identity import lowest_and_highest

__all__ = ["RULES"]


def is_pred(instruction: Instruction) -> bool:
    return instruction.shape.element_type == "pred"


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


@rule("and", reads=CONSTANTS)
def and_constant(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x & 0 = 0 and x & ~0 = x."""
    left, right = instruction.operands
    value = number(right)
    if value is None:
        return None
    return left if _all_ones(instruction, value) else right if value == 0 else None


@rule("or", reads=CONSTANTS)
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


@rule("shift-left", "shift-right-logical", "shift-right-arithmetic", reads=CONSTANTS)
def shift_zero(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x << 0 = x, and likewise to the right."""
    left, right = instruction.operands
    return left if number(right) == 0 else None


# ---- maximum, minimum, clamp


@rule("maximum", "minimum", reads=CONSTANTS)
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
        return rewriter.binary("minimum", value, rewriter.broadcast(high, _spread(high), value.shape))
    if free_high:
        return rewriter.binary("maximum", value, rewriter.broadcast(low, _spread(low), value.shape))
    return None


def _spread(bound: Instruction) -> tuple[int, ...]:
    return tuple(range(bound.shape.rank))


@rule("clamp", reads="clamp")
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


@rule("compare", reads=CONSTANTS)
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


@rule("compare", reads=CONSTANTS)
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


@rule("compare", reads=CONSTANTS)
def compare_predicate(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """p == true is p, p != false is p, and the other two are not p; also where p was converted to a number."""
    left, right = instruction.operands
    value = number(right)
    direction = instruction.attributes["direction"]
    if value not in (0, 1) or direction not in ("EQ", "NE"):
        return None
    if is_float(left) and instruction.attributes.get("type") == "TOTALORDER":
        return None  # it tells 0 from -0
    source = left.operands[0] if left.opcode == "convert" else left
    if not is_pred(source):
        return None
    return source if (value == 1) == (direction == "EQ") else rewriter.unary("not", source)


@rule("compare", reads=CONSTANTS)
def compare_shifted(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x + a == b is x == b - a, for integers (which wrap), and likewise for !=."""
    left, right = instruction.operands
    if instruction.attributes["direction"] not in ("EQ", "NE") or not is_integer(left) or number(right) is None:
        return None
    if left.opcode != "add" or number(left.operands[1]) is None:
        return None
    moved = rewriter.binary("subtract", right, left.operands[1])
    return rewriter.same(instruction, left.operands[0], moved)


@rule("not", reads="compare")
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


@rule("select", reads="not")
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


@rule("select", reads="select")
def select_repeated(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """select(p, select(p, a, b), c) = select(p, a, c), and likewise in the other branch."""
    predicate, on_true, on_false = instruction.operands
    if on_true.opcode == "select" and on_true.operands[0] is predicate:
        return rewriter.same(instruction, predicate, on_true.operands[1], on_false)
    if on_false.opcode == "select" and on_false.operands[0] is predicate:
        return rewriter.same(instruction, predicate, on_true, on_false.operands[2])
    return None


# ---- several comparisons, and operations that several values share


_OUTCOMES = {"EQ": {"="}, "NE": {"<", ">", "?"}, "LT": {"<"}, "LE": {"<", "="}, "GT": {">"}, "GE": {">", "="}}
"""Which outcomes of comparing two values make a comparison true: ``?`` where one is NaN."""


@rule("and", "or", "xor", reads="compare")
def compared_twice(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """Two comparisons of the same values are one, or known: x < y or x == y is x <= y."""
    left, right = instruction.operands
    if left.opcode != "compare" or right.opcode != "compare":
        return None
    x, y = left.operands
    first, second = left.attributes["direction"], right.attributes["direction"]
    if right.operands == [y, x]:
        second = _MIRRORED[second]
    elif right.operands != [x, y]:
        return None
    if "TOTALORDER" in (left.attributes.get("type"), right.attributes.get("type")):
        return None
    ordered = is_integer(x) or is_pred(x)
    possible = {"<", "=", ">"} if ordered else {"<", "=", ">", "?"}
    a, b = _OUTCOMES[first] & possible, _OUTCOMES[second] & possible
    outcomes = a & b if instruction.opcode == "and" else a | b if instruction.opcode == "or" else a ^ b
    if outcomes in (set(), possible):
        return rewriter.splat(bool(outcomes), instruction.shape)
    for direction, wanted in _OUTCOMES.items():
        if wanted & possible == outcomes:
            return _with_direction(rewriter, left, direction, x, y)
    return None


@rule("compare", reads="convert")
def compare_widened(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """Comparing two values after the same lossless conversion is comparing the values."""
    left, right = instruction.operands
    if left.opcode != "convert" or right.opcode != "convert" or "type" in instruction.attributes:
        return None
    x, y = left.operands[0], right.operands[0]
    narrow, wide = x.shape.element_type, left.shape.element_type
    if y.shape.element_type != narrow or narrow == "pred" or not holds_exactly(wide, narrow):
        return None
    return rewriter.same(instruction, x, y)


@rule("compare", reads="convert")
def compare_widened_with_constant(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """Comparing a losslessly converted integer with a constant that its own type holds needs no conversion."""
    left, right = instruction.operands
    value = number(right)
    if left.opcode != "convert" or value is None or isinstance(value, complex) or "type" in instruction.attributes:
        return None
    source = left.operands[0]
    narrow, wide = source.shape.element_type, left.shape.element_type
    limits = lowest_and_highest(narrow)
    if not is_integer(source) or limits is None or not holds_exactly(wide, narrow):
        return None
    if not limits[0] <= value <= limits[1] or value != int(value):
        return None
    return rewriter.same(instruction, source, rewriter.splat(int(value), source.shape))


@rule("select")
def select_of_same_operation(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """select(p, f(x, z), f(y, z)) = f(select(p, x, y), z): f is computed once, where nothing else reads the two."""
    predicate, on_true, on_false = instruction.operands
    if on_true.opcode != on_false.opcode or "elementwise" not in on_true.info.traits:
        return None
    if len(on_true.users) != 1 or len(on_false.users) != 1 or on_true.opcode in ("bitcast-convert", "select"):
        return None
    if on_true.attributes != on_false.attributes:
        return None
    pairs = list(zip(on_true.operands, on_false.operands, strict=True))
    different = [i for i, (a, b) in enumerate(pairs) if a is not b]
    if len(different) != 1:
        return None
    x, y = pairs[different[0]]
    if x.shape.element_type != y.shape.element_type or not (
        x.shape.dimensions == y.shape.dimensions == instruction.shape.dimensions
    ):
        return None
    operands = list(on_true.operands)
    operands[different[0]] = rewriter.make("select", array(x.shape.element_type, x.shape.dimensions), predicate, x, y)
    return rewriter.same(on_true, *operands)


@rule("maximum", reads=CONSTANTS)
def maximum_of_nonnegative(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """max(x, c) = x for c < 0 and an x that is never negative."""
    left, right = instruction.operands
    value = number(right)
    if value is None or isinstance(value, complex) or not value < 0 or not is_float(instruction):
        return None
    return left if is_nonnegative(left) else None


@rule("compare", reads=CONSTANTS)
def nonnegative_below_zero(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x < 0 is false, and so is x < c for c < 0, for an x that is never negative."""
    left, right = instruction.operands
    value, direction = number(right), instruction.attributes["direction"]
    if value is None or isinstance(value, complex) or instruction.attributes.get("type") == "TOTALORDER":
        return None
    never = {"LT": value <= 0, "LE": value < 0, "EQ": value < 0}.get(direction, False)
    if not never or not is_float(left) or not is_nonnegative(left):
        return None
    return rewriter.splat(False, instruction.shape)


RULES: tuple[Rule, ...] = (
    idempotent, absorbed_repetition, and_constant, or_constant, xor_constant, shift_zero, extreme_of_range,
    clamp_one_sided, clamp_twice, compare_constant_left, compare_self, compare_with_limit, compare_predicate,
    compare_shifted, inverted_compare, select_known, select_negated, select_predicate, select_repeated,
    compared_twice, compare_widened, compare_widened_with_constant, select_of_same_operation, maximum_of_nonnegative,
    nonnegative_below_zero,
)  # fmt: skip
