"""Patterns of instructions, written as text: ``slice(inner: broadcast(x))``.

A pattern applies an opcode, or one of several (``add|subtract``), to

==================  ================================================================================================
``x``               anything, called x; the same instruction wherever x stands again
``a b c d``         a constant of one value, broadcast or not
``0 1 -1 2``        a constant of that number; likewise ``ones`` (every bit is set) ``lowest highest`` of its type
``_``               anything that nobody asks for
``*rest``           all further operands, as a list
a pattern           what an operand must be
==================  ================================================================================================

``inner:`` gives what follows a name.  An operation with a name may do without its operands: ``inner: iota``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from hlotool.ir import ELEMENT_TYPES, OPCODES, Instruction

__all__ = [
    "COMMUTATIVE", "DIRECTIONS", "ELEMENTWISE", "KINDS", "Apply", "Expression", "Leaf", "Number", "first_opcodes",
    "lowest_and_highest", "matcher", "may_match", "number", "number_of", "opcodes_of", "parsed", "pattern_of",
]  # fmt: skip

Number = int | float | bool | complex

_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})


def _types(*kinds: str) -> frozenset[str]:
    return frozenset(name for name, row in ELEMENT_TYPES.items() if row.kind in kinds)


KINDS: dict[str, frozenset[str]] = {
    "integers": _types("signed", "unsigned"),
    "signed integers": _types("signed"),
    "unsigned integers": _types("unsigned"),
    "predicates": _types("pred"),
    "integers and predicates": _types("signed", "unsigned", "pred"),
    "floats": _FLOATS,
    "f32 and f64": frozenset({"f32", "f64"}),
    "signed integers and floats": _types("signed") | _FLOATS,
    "integers and floats": _types("signed", "unsigned") | _FLOATS,
    "integers, predicates and floats": _types("signed", "unsigned", "pred") | _FLOATS,
    "floats of any width": _types("float"),
    "real numbers": _types("signed", "unsigned", "float"),
}
"""What a rule can be about -> the element types."""

DIRECTIONS = ("eq", "ne", "lt", "le", "gt", "ge")
"""Opcodes of patterns: the directions of compare."""
COMMUTATIVE = {name for name, row in OPCODES.items() if "commutative" in row.traits} | {"eq", "ne"}
ELEMENTWISE = "|".join(n for n, row in OPCODES.items() if "elementwise" in row.traits and n != "bitcast-convert")
"""The opcodes that compute each element from one of each operand, of the same dimensions."""
_CONSTANTS = frozenset({"constant", "broadcast"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """A variable, a constant or a number; `called` is the name that the pattern gives it."""

    name: str
    called: str = ""

    @property
    def is_constant(self) -> bool:
        return self.name in ("a", "b", "c", "d", "ones", "lowest", "highest") or self.name.lstrip("-").isdigit()


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation on expressions."""

    opcode: str
    operands: tuple[Expression, ...]
    called: str = ""

    @property
    def is_constant(self) -> bool:
        return all(o.is_constant for o in self.operands)


Expression = Leaf | Apply
_REST = Leaf("*_")


def number(instruction: Instruction) -> Number | None:
    """The one value of a scalar constant, or of a broadcast one, as a Python number; None for anything else."""
    source = instruction.operands[0] if instruction.opcode == "broadcast" else instruction
    return source.literal.number if source.opcode == "constant" else None


def lowest_and_highest(element_type: str) -> tuple[float, float] | None:
    """The least and the greatest value of a real type; infinities for floats that have them."""
    row = ELEMENT_TYPES[element_type]
    if row.kind == "pred":
        return 0, 1
    if row.kind == "signed":
        return -(2 ** (row.bits - 1)), 2 ** (row.bits - 1) - 1
    if row.kind == "unsigned":
        return 0, 2**row.bits - 1
    return (float("-inf"), float("inf")) if element_type in _FLOATS else None


def number_of(name: str, element_type: str) -> int | float | bool | None:
    """The number that a leaf of an expression stands for in a type; None where it stands for none."""
    row = ELEMENT_TYPES[element_type]
    if name == "ones":
        return True if row.kind == "pred" else -1 if row.kind == "signed" else 2**row.bits - 1
    if name in ("lowest", "highest"):
        limits = lowest_and_highest(element_type)
        return None if limits is None else limits[name == "highest"]
    return int(name) if name.lstrip("-").isdigit() else None


# ---- text


_TOKEN = re.compile(r"\s*(\*?[\w|-]+|[(),:])")


def pattern_of(text: str) -> Apply:
    """The pattern that `text` states; a single opcode stands for any of its instructions."""
    found = parsed(text)
    return found if isinstance(found, Apply) else Apply(found.name, (_REST,))


def parsed(text: str) -> Expression:
    """The expression that `text` states."""
    tokens = [*_TOKEN.findall(text), ""]
    position = 0

    def expression() -> Expression:
        nonlocal position
        called = ""
        if tokens[position + 1] == ":":
            called = tokens[position]
            position += 2
        name = tokens[position]
        position += 1
        if tokens[position] != "(":
            leaf = Leaf(name, called)
            return leaf if not called or leaf.is_constant else Apply(name, (_REST,), called)
        operands: list[Expression] = []
        while tokens[position] != ")":
            position += 1
            operands.append(expression())
        position += 1
        return Apply(name, tuple(operands), called)

    found = expression()
    assert position == len(tokens) - 1, text
    return found


# ---- which instructions a pattern may fit, by their opcodes alone


def opcodes_of(pattern: Apply) -> frozenset[str]:
    """The opcodes of the operation that a pattern starts with."""
    return frozenset({"compare"}) if pattern.opcode in DIRECTIONS else frozenset(pattern.opcode.split("|"))


def first_opcodes(pattern: Apply) -> frozenset[str] | None:
    """What the first operand that must be an operation can be; None where there is no such operand."""
    return next((opcodes_of(operand) for operand in pattern.operands if isinstance(operand, Apply)), None)


def may_match(pattern: Apply, operands: Sequence[str], commutes: bool) -> bool:
    """Whether the operands of an instruction, which have these opcodes, may be those of the pattern; in either order
    where it `commutes` and the operation does."""
    if commutes and pattern.opcode in COMMUTATIVE and may_match(pattern, operands[::-1], False):
        return True
    wanted = pattern.operands[:-1] if _has_rest(pattern) else pattern.operands
    if len(operands) < len(wanted) or (len(operands) > len(wanted) and not _has_rest(pattern)):
        return False
    return all(
        opcode in opcodes_of(operand) if isinstance(operand, Apply) else not operand.is_constant or opcode in _CONSTANTS
        for operand, opcode in zip(wanted, operands, strict=False)
    )


def _has_rest(pattern: Apply) -> bool:
    last = pattern.operands[-1] if pattern.operands else None
    return isinstance(last, Leaf) and last.name.startswith("*")


# ---- matching

_Test = Callable[[Instruction, Sequence[Any]], bool]
_Step = tuple[int, int | slice, _Test | None]
"""The place of a part, which of its operands comes next, and what that must be, given the parts so far."""


def matcher(pattern: Apply, wanted: Sequence[str]) -> Callable[[Instruction, object], Sequence[Any] | None]:
    """A function that gives the parts called `wanted` of an instruction with an opcode of the pattern; None where the
    pattern does not fit.

    ``instruction`` is the whole, ``rewriter`` the second argument of the function.  KeyError for a name that the
    pattern does not give.
    """
    places = {"rewriter": 0, "instruction": 1}
    steps: list[_Step] = []
    _add_steps(pattern, 1, places, steps)
    order = [places[name] for name in wanted]
    pick: Callable[[list[Any]], Sequence[Any]] = itemgetter(*order) if len(order) > 1 else lambda p: [p[order[0]]]
    counted = None if _is_fixed(pattern) else _is_counted(pattern)

    def match(instruction: Instruction, rewriter: object) -> Sequence[Any] | None:
        if counted is not None and not counted(instruction):
            return None
        parts: list[Any] = [rewriter, instruction]
        for place, index, test in steps:
            part = parts[place].operands[index]
            if test is not None and not test(part, parts):
                return None
            parts.append(part)
        return pick(parts)

    return match


def _add_steps(pattern: Apply, at: int, places: dict[str, int], steps: list[_Step]) -> None:
    """Append the steps to the operands of what stands at place `at`, and note the places of those with names."""

    def step(index: int | slice, name: str, test: _Test | None) -> int:
        steps.append((at, index, test))
        return places.setdefault(name, len(steps) + 1)

    for index, operand in enumerate(pattern.operands):
        if isinstance(operand, Apply):
            _add_steps(operand, step(index, operand.called or f"{at}.{index}", _is_operation(operand)), places, steps)
        elif operand.name.startswith("*") and operand != _REST:
            step(slice(index, None), operand.name[1:], None)
        elif operand.name in places:
            step(index, operand.called, _is_part(places[operand.name]))
        elif operand.name not in ("_", "*_"):
            step(index, operand.called or operand.name, _is_number(operand.name) if operand.is_constant else None)


def _is_fixed(pattern: Apply) -> bool:
    """Whether all instructions with an opcode of the pattern have as many operands as it has."""
    return all(OPCODES[opcode].arity == len(pattern.operands) for opcode in opcodes_of(pattern))


def _is_counted(pattern: Apply) -> Callable[[Instruction], bool]:
    count = len(pattern.operands)
    if _has_rest(pattern):
        return lambda part: len(part.operands) >= count - 1
    return lambda part: len(part.operands) == count


def _is_operation(pattern: Apply) -> _Test:
    opcodes, counted = opcodes_of(pattern), _is_counted(pattern)
    return lambda part, parts: part.opcode in opcodes and counted(part)


def _is_part(place: int) -> _Test:
    return lambda part, parts: part is parts[place]


def _is_number(name: str) -> _Test:
    def test(part: Instruction, parts: Sequence[Any]) -> bool:
        value = number(part)
        return value is not None and (name in "abcd" or value == number_of(name, part.shape.element_type))

    return test
