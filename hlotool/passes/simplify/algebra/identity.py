"""Rules that are plain identities, written as text: ``add(x, negate(x)) = 0``.

Both sides are patterns (`hlotool.passes.framework.patterns`) of opcodes and ``eq ne lt le gt ge``, the directions of
compare.  ``x y z`` are of the type that the identity is about; so are ``u v``, which are no constants: what moves
constants about would go in circles; ``p q`` are predicates.

Operands of commutative operations match in either order.  The left side is replaced where the right side takes no
more operations than go away with it, those on constants not counted: an operation that something else reads, too,
stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hlotool.ir import ELEMENT_TYPES, Instruction, Shape, array
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.patterns import (
    COMMUTATIVE,
    DIRECTIONS,
    KINDS,
    Apply,
    Expression,
    Leaf,
    number,
    number_of,
    parsed,
)
from hlotool.passes.framework.rewriter import Rewriter, Rule

__all__ = ["Identity", "Numbers", "identity_rule"]

Numbers = Mapping[str, int | float]
Condition = Callable[[Numbers, int], bool]


@dataclass(frozen=True, slots=True)
class Identity:
    """`left` = `right` for the element types of `kind`, where `holds` is true of the constants and the type's bits."""

    name: str
    left: Apply
    right: Expression
    kind: str
    holds: Condition | None
    text: str


def identity_rule(name: str, text: str, kind: str, holds: Condition | None = None) -> tuple[Identity, Rule]:
    """The identity that `text` states, and the rule that uses it from left to right."""
    left, right = (parsed(side) for side in text.split(" = "))
    assert isinstance(left, Apply)
    identity = Identity(name, left, right, kind, holds, text)
    types = KINDS[kind]
    of_result = _is_about_result(left)

    def apply(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
        if of_result is False and instruction.operands[0].shape.element_type not in types:
            return None
        return _rewritten(identity, instruction, rewriter)

    condition = " with suitable constants" if holds is not None else ""
    help = f"{text}, for {kind}{condition}."
    return identity, Rule(name, ((left, apply),), help, types if of_result else None, commutes=True)


def _is_about_result(left: Apply) -> bool | None:
    """Whether the identity's type is that of the result, or else of the first operand; None where it is deeper."""
    if left.opcode in (*DIRECTIONS, "is-finite"):
        return False
    of_comparisons = any(isinstance(o, Apply) and o.opcode in DIRECTIONS for o in left.operands)
    return None if of_comparisons and left.opcode != "select" else True


# ---- matching


@dataclass(frozen=True, slots=True)
class _Found:
    """What the leaves stand for, and which operations below the first were matched."""

    leaves: dict[str, Instruction]
    inner: tuple[Instruction, ...]


def _matches(pattern: Expression, instruction: Instruction, found: _Found, kind: frozenset[str]) -> Iterator[_Found]:
    if isinstance(pattern, Leaf):
        if _fits(pattern, instruction, found, kind):
            yield _Found({**found.leaves, pattern.name: instruction}, found.inner)
    elif _is_operation(pattern.opcode, instruction):
        found = _Found(found.leaves, (*found.inner, instruction))
        yield from _match_operands(pattern, instruction, found, kind)


def _match_operands(pattern: Apply, instruction: Instruction, found: _Found, kind: frozenset[str]) -> Iterator[_Found]:
    operands = instruction.operands
    orders = [operands]
    if pattern.opcode in COMMUTATIVE and operands[0] is not operands[1]:
        orders.append(operands[::-1])
    for order in orders:
        pairs = list(zip(pattern.operands, order, strict=True))
        if not all(isinstance(inner, Leaf) or _is_operation(inner.opcode, operand) for inner, operand in pairs):
            continue  # quickly seen, and seldom otherwise
        partial = [found]
        for inner, operand in pairs:
            partial = [more for one in partial for more in _matches(inner, operand, one, kind)]
            if not partial:
                break
        yield from partial


def _is_operation(opcode: str, instruction: Instruction) -> bool:
    if opcode not in DIRECTIONS:
        return instruction.opcode == opcode
    return (
        instruction.opcode == "compare"
        and instruction.attributes["direction"] == opcode.upper()
        and instruction.attributes.get("type") != "TOTALORDER"
    )


def _fits(leaf: Leaf, instruction: Instruction, found: _Found, kind: frozenset[str]) -> bool:
    name = leaf.name
    known = found.leaves.get(name)
    element_type = instruction.shape.element_type
    if name in ("p", "q"):
        return element_type == "pred" and known in (None, instruction)
    if element_type not in kind:
        return False
    if not leaf.is_constant:
        return known in (None, instruction) and (name not in ("u", "v") or number(instruction) is None)
    value = number(instruction)
    if value is None:
        return False
    if name in ("a", "b", "c", "d"):
        return known is None or number(known) == value
    return value == number_of(name, element_type)


def _operations(expression: Expression) -> int:
    """How many operations on other than constants there are."""
    if isinstance(expression, Leaf) or expression.is_constant:
        return 0
    return 1 + sum(map(_operations, expression.operands))


def _rewritten(identity: Identity, instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    if not _is_operation(identity.left.opcode, instruction):
        return None
    kind = KINDS[identity.kind]
    for found in _match_operands(identity.left, instruction, _Found({}, ()), kind):
        if not _holds(identity, found) or not _pays(identity, instruction, found):
            continue
        if all(number(leaf) is not None for leaf in found.leaves.values()):
            return None  # all constant: for constant folding
        model = next(o for name, o in found.leaves.items() if name not in ("p", "q"))
        builder = _RightSide(rewriter, found.leaves, instruction.shape.dimensions, model.shape.element_type)
        return builder.make(identity.right, instruction.shape.element_type)
    return None


def _holds(identity: Identity, found: _Found) -> bool:
    if identity.holds is None:
        return True
    values: dict[str, int | float] = {}
    bits = 0
    for name in ("a", "b", "c", "d"):
        if name in found.leaves:
            value = number(found.leaves[name])
            assert isinstance(value, int | float)
            values[name] = value
            bits = ELEMENT_TYPES[found.leaves[name].shape.element_type].bits
    return identity.holds(values, bits)


def _pays(identity: Identity, instruction: Instruction, found: _Found) -> bool:
    wanted = _operations(identity.right)
    if wanted <= 1:
        return True
    matched = {instruction, *found.inner}
    gone = sum(1 for one in set(found.inner) if all(user in matched for user in one.users))
    return wanted <= 1 + gone


# ---- making


_OPERATIONS: dict[str, Callable[..., int | float]] = {
    "add": lambda bits, x, y: x + y,
    "subtract": lambda bits, x, y: x - y,
    "multiply": lambda bits, x, y: x * y,
    "negate": lambda bits, x: -x,
    "maximum": lambda bits, x, y: max(x, y),
    "minimum": lambda bits, x, y: min(x, y),
    "clamp": lambda bits, low, x, high: min(max(low, x), high),
    "and": lambda bits, x, y: x & y,
    "or": lambda bits, x, y: x | y,
    "xor": lambda bits, x, y: x ^ y,
    "not": lambda bits, x: ~x,
    "shift-left": lambda bits, x, amount: x << amount if 0 <= amount < bits else 0,
    "shift-right-logical": lambda bits, x, amount: (x & ((1 << bits) - 1)) >> amount if 0 <= amount < bits else 0,
}
"""What may be done to constants on the right side of an identity; integers wrap afterwards, floats must not round."""


@dataclass(frozen=True, slots=True)
class _RightSide:
    """Makes the right side with what the leaves stand for, in the dimensions of the replaced instruction."""

    rewriter: Rewriter
    leaves: Mapping[str, Instruction]
    dimensions: tuple[int, ...]
    model: str

    def make(self, expression: Expression, element_type: str) -> Instruction:
        """The instruction that computes `expression`, of the element type."""
        if isinstance(expression, Leaf):
            return self._leaf(expression, element_type)
        opcode, operands = expression.opcode, expression.operands
        shape = array(element_type, self.dimensions)
        if expression.is_constant:
            return self.rewriter.splat(self._value(expression, element_type), shape)
        if opcode in DIRECTIONS:
            sides = (self.make(o, self.model) for o in operands)
            return self.rewriter.make("compare", shape, *sides, direction=opcode.upper())
        if opcode == "is-finite":
            return self.rewriter.make(opcode, shape, self.make(operands[0], self.model))
        if opcode == "select":
            sides = (self.make(o, element_type) for o in operands[1:])
            return self.rewriter.make(opcode, shape, self._predicate(operands[0]), *sides)
        return self.rewriter.make(opcode, shape, *(self.make(o, element_type) for o in operands))

    def _value(self, expression: Expression, element_type: str) -> int | float | bool:
        """The number that an expression of constants gives in a type."""
        if isinstance(expression, Leaf):
            known = self.leaves.get(expression.name)
            value = number_of(expression.name, element_type) if known is None else number(known)
            assert isinstance(value, int | float)
            return value
        row = ELEMENT_TYPES[element_type]
        bits = 1 if row.kind == "pred" else row.bits
        value = _OPERATIONS[expression.opcode](bits, *(self._value(o, element_type) for o in expression.operands))
        if isinstance(value, float):
            return value
        value &= (1 << bits) - 1
        if row.kind == "pred":
            return bool(value)
        return value - (1 << bits) if row.kind == "signed" and value >> (bits - 1) else value

    def _leaf(self, leaf: Leaf, element_type: str) -> Instruction:
        shape = Shape(element_type, self.dimensions)
        known = self.leaves.get(leaf.name)
        if known is None or known.shape.element_type != element_type:  # a number of another type than on the left
            return self.rewriter.splat(number_of(leaf.name, element_type), shape)
        if known.shape.dimensions == self.dimensions:
            return known
        return self.rewriter.broadcast(known, (), shape)  # a scalar bound or predicate

    def _predicate(self, expression: Expression) -> Instruction:
        if isinstance(expression, Leaf):
            return self.leaves[expression.name]
        return self.make(expression, "pred")
