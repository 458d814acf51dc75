"""Logic, comparisons, selections, limits."""

from __future__ import annotations

from hlotool.ir import Instruction, array
from hlotool.passes.framework.patterns import lowest_and_highest, number, number_of
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rule
from hlotool.passes.simplify.algebra.arithmetic import is_float, is_integer, is_nonnegative, real_number
from hlotool.passes.simplify.algebra.conversion import holds_exactly

__all__ = ["RULES"]


def is_pred(instruction: Instruction) -> bool:
    return instruction.shape.element_type == "pred"


# ---- and, or, xor, shifts


@rule("and|or|maximum|minimum(x, x)")
def idempotent(x: Instruction) -> Instruction:
    """x op x = x for and, or, maximum, minimum."""
    return x


@rule(*(f"{op}({sides})" for op in ("and", "or", "maximum", "minimum")
        for sides in (f"x, inner: {op}(x, _)", f"x, inner: {op}(_, x)",
                      f"inner: {op}(x, _), x", f"inner: {op}(_, x), x")))  # fmt: skip
def absorbed_repetition(inner: Instruction) -> Instruction:
    """x op (x op y) = x op y for and, or, maximum, minimum."""
    return inner


@rule("and(x, ones)", "and(_, x: 0)")
def and_constant(x: Instruction) -> Instruction:
    """x & 0 = 0 and x & ~0 = x."""
    return x


@rule("or(x, 0)", "or(_, x: ones)")
def or_constant(x: Instruction) -> Instruction:
    """x | 0 = x and x | ~0 = ~0."""
    return x


@rule("xor(x, y)")
def xor_constant(instruction: Instruction, x: Instruction, y: Instruction, rewriter: Rewriter) -> Rewritten:
    """x ^ 0 = x, x ^ ~0 = not x, x ^ x = 0."""
    if x is y:
        return rewriter.splat(0, instruction.shape)
    value = number(y)
    if value == number_of("ones", instruction.shape.element_type):
        return rewriter.unary("not", x)
    return x if value == 0 else None


@rule("shift-left|shift-right-logical|shift-right-arithmetic(x, 0)")
def shift_zero(x: Instruction) -> Instruction:
    """x << 0 = x, and likewise to the right."""
    return x


# ---- maximum, minimum, clamp


@rule("maximum|minimum(x, c)")
def extreme_of_range(instruction: Instruction, x: Instruction, c: Instruction) -> Rewritten:
    """max(x, lowest) = x and max(x, highest) = highest for integers; floats only the first, which keeps NaN."""
    limits = lowest_and_highest(instruction.shape.element_type)
    if limits is None:
        return None
    neutral, absorbing = limits if instruction.opcode == "maximum" else reversed(limits)
    if number(c) == neutral:
        return x
    return c if number(c) == absorbing and is_integer(instruction) else None


@rule("clamp(low, value, high)")
def clamp_one_sided(
    instruction: Instruction, low: Instruction, value: Instruction, high: Instruction, rewriter: Rewriter
) -> Rewritten:
    """clamp(lowest, x, b) = min(x, b), clamp(a, x, highest) = max(x, a), and x alone for both."""
    limits = lowest_and_highest(instruction.shape.element_type)
    if limits is None:
        return None
    free_low, free_high = number(low) == limits[0], number(high) == limits[1]
    if free_low and free_high:
        return value
    if free_low:
        return rewriter.binary("minimum", value, rewriter.broadcast(high, range(high.shape.rank), value.shape))
    if free_high:
        return rewriter.binary("maximum", value, rewriter.broadcast(low, range(low.shape.rank), value.shape))
    return None


@rule("clamp(low, inner: clamp(low, _, high), high)")
def clamp_twice(inner: Instruction) -> Instruction:
    """clamp(a, clamp(a, x, b), b) = clamp(a, x, b)."""
    return inner


# ---- compare

_MIRRORED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
_INVERSE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}


def _with_direction(
    rewriter: Rewriter, compare: Instruction, direction: str, left: Instruction, right: Instruction
) -> Instruction:
    return rewriter.make("compare", compare.shape, left, right, **{**compare.attributes, "direction": direction})


@rule("compare(c, x)")
def compare_constant_left(instruction: Instruction, c: Instruction, x: Instruction, rewriter: Rewriter) -> Rewritten:
    """c < x is x > c, so that other rules look for constants on the right only."""
    if number(x) is not None:
        return None
    return _with_direction(rewriter, instruction, _MIRRORED[instruction.attributes["direction"]], x, c)


@rule("compare(x, x)")
def compare_self(instruction: Instruction, x: Instruction, rewriter: Rewriter) -> Rewritten:
    """x == x is true and x < x is false, for integers and predicates; x < x is false for floats too."""
    direction = instruction.attributes["direction"]
    if is_integer(x) or is_pred(x):
        return rewriter.splat(direction in ("EQ", "LE", "GE"), instruction.shape)
    return rewriter.splat(False, instruction.shape) if direction in ("LT", "GT") else None


@rule("compare(x, c)")
def compare_with_limit(instruction: Instruction, x: Instruction, c: Instruction, rewriter: Rewriter) -> Rewritten:
    """x < lowest is false, x >= lowest is true, x > highest is false, x <= highest is true, for integers."""
    limits = lowest_and_highest(x.shape.element_type)
    if limits is None or not is_integer(x):
        return None
    known = {("LT", limits[0]): False, ("GE", limits[0]): True, ("GT", limits[1]): False, ("LE", limits[1]): True}
    answer = known.get((instruction.attributes["direction"], real_number(c)))
    return None if answer is None else rewriter.splat(answer, instruction.shape)


@rule("compare(x, c)")
def compare_predicate(instruction: Instruction, x: Instruction, c: Instruction, rewriter: Rewriter) -> Rewritten:
    """p == true is p, p != false is p, and the other two are not p; also where p was converted to a number."""
    value, direction = number(c), instruction.attributes["direction"]
    if value not in (0, 1) or direction not in ("EQ", "NE"):
        return None
    if is_float(x) and instruction.attributes.get("type") == "TOTALORDER":
        return None  # it tells 0 from -0
    source = x.operands[0] if x.opcode == "convert" else x
    if not is_pred(source):
        return None
    return source if (value == 1) == (direction == "EQ") else rewriter.unary("not", source)


@rule("compare(add(x, a), b)")
def compare_shifted(
    instruction: Instruction, x: Instruction, a: Instruction, b: Instruction, rewriter: Rewriter
) -> Rewritten:
    """x + a == b is x == b - a, for integers (which wrap), and likewise for !=."""
    if instruction.attributes["direction"] not in ("EQ", "NE") or not is_integer(x):
        return None
    return rewriter.same(instruction, x, rewriter.binary("subtract", b, a))


@rule("not(inner: compare(x, y))")
def inverted_compare(inner: Instruction, x: Instruction, y: Instruction, rewriter: Rewriter) -> Rewritten:
    """not (x < y) is x >= y for types without NaN; not (x == y) is x != y for all."""
    if len(inner.users) != 1:
        return None
    direction = inner.attributes["direction"]
    total = is_integer(x) or is_pred(x) or inner.attributes.get("type") == "TOTALORDER"
    if not total and direction not in ("EQ", "NE"):
        return None
    return _with_direction(rewriter, inner, _INVERSE[direction], x, y)


# ---- select


@rule("select(predicate, on_true, on_false)")
def select_known(predicate: Instruction, on_true: Instruction, on_false: Instruction) -> Rewritten:
    """select(true, a, b) = a, select(false, a, b) = b, select(p, a, a) = a."""
    if on_true is on_false:
        return on_true
    value = number(predicate)
    return None if value is None else on_true if value else on_false


@rule("select(not(p), x, y)")
def select_negated(
    instruction: Instruction, p: Instruction, x: Instruction, y: Instruction, rewriter: Rewriter
) -> Instruction:
    """select(not p, a, b) = select(p, b, a)."""
    return rewriter.same(instruction, p, y, x)


@rule("select(p, x, y)", types="predicates")
def select_predicate(
    instruction: Instruction, p: Instruction, x: Instruction, y: Instruction, rewriter: Rewriter
) -> Rewritten:
    """Of predicates: select(p, true, false) = p, select(p, false, true) = not p, select(p, a, false) = p and a,
    select(p, true, b) = p or b."""
    if p.shape.dimensions != instruction.shape.dimensions:
        return None
    first, second = number(x), number(y)
    if first is True:
        return p if second is False else rewriter.binary("or", p, y)
    if second is False:
        return rewriter.binary("and", p, x)
    return rewriter.unary("not", p) if first is False and second is True else None


@rule("select(p, select(p, x, _), y)", "select(p, x, select(p, _, y))")
def select_repeated(
    instruction: Instruction, p: Instruction, x: Instruction, y: Instruction, rewriter: Rewriter
) -> Instruction:
    """select(p, select(p, a, b), c) = select(p, a, c), and likewise in the other branch."""
    return rewriter.same(instruction, p, x, y)


# ---- several comparisons, and operations that several values share


_OUTCOMES = {"EQ": {"="}, "NE": {"<", ">", "?"}, "LT": {"<"}, "LE": {"<", "="}, "GT": {">"}, "GE": {">", "="}}
"""Which outcomes of comparing two values make a comparison true: ``?`` where one is NaN."""


@rule("and|or|xor(left: compare(x, y), right: compare)")
def compared_twice(
    instruction: Instruction, left: Instruction, x: Instruction, y: Instruction, right: Instruction, rewriter: Rewriter
) -> Rewritten:
    """Two comparisons of the same values are one, or known: x < y or x == y is x <= y."""
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


@rule("compare(left: convert(x), convert(y))")
def compare_widened(
    instruction: Instruction, left: Instruction, x: Instruction, y: Instruction, rewriter: Rewriter
) -> Rewritten:
    """Comparing two values after the same lossless conversion is comparing the values."""
    narrow, wide = x.shape.element_type, left.shape.element_type
    if "type" in instruction.attributes or y.shape.element_type != narrow:
        return None
    return rewriter.same(instruction, x, y) if narrow != "pred" and holds_exactly(wide, narrow) else None


@rule("compare(left: convert(x), c)")
def compare_widened_with_constant(
    instruction: Instruction, left: Instruction, x: Instruction, c: Instruction, rewriter: Rewriter
) -> Rewritten:
    """Comparing a losslessly converted integer with a constant that its own type holds needs no conversion."""
    value = real_number(c)
    narrow, wide = x.shape.element_type, left.shape.element_type
    limits = lowest_and_highest(narrow)
    if "type" in instruction.attributes or not is_integer(x) or limits is None or not holds_exactly(wide, narrow):
        return None
    if not limits[0] <= value <= limits[1] or value != int(value):
        return None
    return rewriter.same(instruction, x, rewriter.splat(int(value), x.shape))


@rule("select(predicate, on_true, on_false)")
def select_of_same_operation(
    instruction: Instruction, predicate: Instruction, on_true: Instruction, on_false: Instruction, rewriter: Rewriter
) -> Rewritten:
    """select(p, f(x, z), f(y, z)) = f(select(p, x, y), z): f is computed once, where nothing else reads the two."""
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


@rule("maximum(x, c)", types="floats of any width")
def maximum_of_nonnegative(x: Instruction, c: Instruction) -> Rewritten:
    """max(x, c) = x for c < 0 and an x that is never negative."""
    return x if real_number(c) < 0 and is_nonnegative(x) else None


@rule("compare(x, c)")
def nonnegative_below_zero(instruction: Instruction, x: Instruction, c: Instruction, rewriter: Rewriter) -> Rewritten:
    """x < 0 is false, and so is x < c for c < 0, for an x that is never negative."""
    value, direction = real_number(c), instruction.attributes["direction"]
    if instruction.attributes.get("type") == "TOTALORDER":
        return None
    never = {"LT": value <= 0, "LE": value < 0, "EQ": value < 0}.get(direction, False)
    return rewriter.splat(False, instruction.shape) if never and is_float(x) and is_nonnegative(x) else None


RULES: tuple[Rule, ...] = (
    idempotent, absorbed_repetition, and_constant, or_constant, xor_constant, shift_zero, extreme_of_range,
    clamp_one_sided, clamp_twice, compare_constant_left, compare_self, compare_with_limit, compare_predicate,
    compare_shifted, inverted_compare, select_known, select_negated, select_predicate, select_repeated,
    compared_twice, compare_widened, compare_widened_with_constant, select_of_same_operation, maximum_of_nonnegative,
    nonnegative_below_zero,
)  # fmt: skip
