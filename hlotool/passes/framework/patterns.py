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
from functools import cache
from operator import itemgetter
from typing import Any, TypeVar

from hlotool.ir import ELEMENT_TYPES, OPCODES, Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "COMMUTATIVE", "DIRECTIONS", "ELEMENTWISE", "KINDS", "Apply", "Expression", "Leaf", "Number", "first_opcodes",
    "lowest_and_highest", "matcher", "may_match", "number", "number_of", "opcodes_of", "parsed", "pattern_of",
]  # fmt: skip

Number = int | float | bool | complex
_T = TypeVar("_T")

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
    return _opcodes(pattern.opcode)


@cache
def _opcodes(text: str) -> frozenset[str]:
    return frozenset({"compare"}) if text in DIRECTIONS else frozenset(text.split("|"))


def first_opcodes(pattern: Apply) -> frozenset[str] | None:
    """What the first operand that must be an operation can be; None where there is no such operand."""
    return next((opcodes_of(operand) for operand in pattern.operands if isinstance(operand, Apply)), None)


def may_match(pattern: Apply, operands: Sequence[str], commutes: bool) -> bool:
    """Whether the operands of an instruction, which have these opcodes, may be those of the pattern; in either order
    where it `commutes` and the operation does."""
    if commutes and pattern.opcode in COMMUTATIVE and may_match(pattern, operands[::-1], False):
        return True
    wanted = pattern.operands[:-1] if _rest_of(pattern) else pattern.operands
    if len(operands) < len(wanted) or (len(operands) > len(wanted) and not _rest_of(pattern)):
        return False
    for operand, opcode in zip(wanted, operands, strict=False):
        if isinstance(operand, Apply):
            if opcode not in _opcodes(operand.opcode):
                return False
        elif operand.is_constant and opcode not in _CONSTANTS:
            return False
    return True


def _rest_of(pattern: Apply) -> str:
    """The name of all further operands, with its asterisk; empty where there are none."""
    last = pattern.operands[-1] if pattern.operands else None
    return last.name if isinstance(last, Leaf) and last.name.startswith("*") else ""


# ---- matching

_Test = Callable[[Instruction, Sequence[Any]], bool]
_Step = tuple[int, int | slice, _Test | None]
"""The place of a part, which of its operands comes next, and what that must be, given the parts so far."""


def matcher(pattern: Apply, function: Callable[..., _T | None]) -> Callable[[Instruction, object], _T | None]:
    """What gives `function` the parts of an instruction (with an opcode of the pattern) that it has parameters for, and
    returns what it does; None where the pattern does not fit.

    ``instruction`` is the whole, ``rewriter`` the second argument.  KeyError for a parameter that the pattern does not
    name.
    """
    rest = _rest_of(pattern)
    fixed = pattern.operands[:-1] if rest else pattern.operands
    first = slice(0, len(fixed))
    places = {"rewriter": 0, "instruction": 1}
    checks: list[tuple[int, _Test]] = []
    steps: list[_Step] = []
    for place, operand in enumerate(fixed, 2):
        test = _test_of(operand, place, places)
        if test is not None:
            checks.append((place, test))
    if rest not in ("", _REST.name):
        places[rest[1:]] = 2 + len(fixed)
        steps.append((1, slice(len(fixed), None), None))
    for place, operand in enumerate(fixed, 2):
        if isinstance(operand, Apply):
            _add_steps(operand, place, 2 + len(fixed), places, steps)
    code = function.__code__
    order = [places[name] for name in code.co_varnames[: code.co_argcount]]
    pick: Callable[[Sequence[Any]], Sequence[Any]]
    pick = itemgetter(*order) if len(order) > 1 else itemgetter(slice(order[0], order[0] + 1))
    counted = None if _is_fixed(pattern) else _is_counted(pattern)
    if counted is None and not checks and not steps:  # rules are tried often
        return lambda instruction, rewriter: function(*pick((rewriter, instruction, *instruction.operands)))

    def attempt(instruction: Instruction, rewriter: object) -> _T | None:
        if counted is not None and not counted(instruction):
            return None
        parts: list[Any] = [rewriter, instruction, *instruction.operands[first]]
        for place, test in checks:
            if not test(parts[place], parts):
                return None
        for place, index, wanted in steps:
            part = parts[place].operands[index]
            if wanted is not None and not wanted(part, parts):
                return None
            parts.append(part)
        return function(*pick(parts))

    return attempt


def _add_steps(pattern: Apply, at: int, base: int, places: dict[str, int], steps: list[_Step]) -> None:
    """Append the steps to the operands of what stands at place `at`, which come behind `base` parts."""
    for index, operand in enumerate(pattern.operands):
        place = base + len(steps)
        if operand == _REST:
            return
        if isinstance(operand, Leaf) and operand.name.startswith("*"):
            places[operand.name[1:]] = place
            steps.append((at, slice(index, None), None))
        else:
            steps.append((at, index, _test_of(operand, place, places)))
            if isinstance(operand, Apply):
                _add_steps(operand, place, base, places, steps)


def _test_of(operand: Expression, place: int, places: dict[str, int]) -> _Test | None:
    """What the part at `place` must be; `places` learns of its name."""
    if operand.called:
        places[operand.called] = place
    if isinstance(operand, Apply):
        return _is_operation(operand)
    if operand.name in places:
        return _is_part(places[operand.name])
    if not operand.called and operand.name != "_":
        places[operand.name] = place
    return _is_number(operand.name) if operand.is_constant else None


def _is_fixed(pattern: Apply) -> bool:
    """Whether all instructions with an opcode of the pattern have as many operands as it has."""
    return all(OPCODES[opcode].arity == len(pattern.operands) for opcode in opcodes_of(pattern))


def _is_counted(pattern: Apply) -> Callable[[Instruction], bool]:
    count = len(pattern.operands)
    if _rest_of(pattern):
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
