"""Formulas of many steps, written with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from hlotool.ir import Computation, Instruction
from hlotool.ir.builder import Builder
from hlotool.ir.shape import tuple_shape
from hlotool.lazy_dataclass import dataclass
from hlotool.torch.lowering import Context

__all__ = ["Term", "polynomial", "repeat_while"]

Operand: TypeAlias = "Term | int | float"


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An array of which operators give arrays; numbers stand for arrays of the other operand's type and dimensions."""

    c: Context
    value: Instruction

    def like(self, other: Operand) -> Term:
        """`other` as a term of this type."""
        return other if isinstance(other, Term) else Term(self.c, self.c.like(other, self.value))

    def _binary(self, opcode: str, other: Operand, swapped: bool = False) -> Term:
        operands = (self.value, self.like(other).value)
        return Term(self.c, self.c.builder.binary(opcode, *(operands[::-1] if swapped else operands)))

    def _compare(self, direction: str, other: Operand) -> Term:
        return Term(self.c, self.c.builder.compare(self.value, self.like(other).value, direction))

    def __add__(self, other: Operand) -> Term:
        return self._binary("add", other)

    def __radd__(self, other: Operand) -> Term:
        return self._binary("add", other, True)

    def __sub__(self, other: Operand) -> Term:
        return self._binary("subtract", other)

    def __rsub__(self, other: Operand) -> Term:
        return self._binary("subtract", other, True)

    def __mul__(self, other: Operand) -> Term:
        return self._binary("multiply", other)

    def __rmul__(self, other: Operand) -> Term:
        return self._binary("multiply", other, True)

    def __truediv__(self, other: Operand) -> Term:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Operand) -> Term:
        return self._binary("divide", other, True)

    def __mod__(self, other: Operand) -> Term:
        return self._binary("remainder", other)

    def __pow__(self, other: Operand) -> Term:
        return self._binary("power", other)

    def __and__(self, other: Operand) -> Term:
        return self._binary("and", other)

    def __or__(self, other: Operand) -> Term:
        return self._binary("or", other)

    def __neg__(self) -> Term:
        return self.call("negate")

    def __invert__(self) -> Term:
        return self.call("not")

    def __abs__(self) -> Term:
        return self.call("abs")

    def __lt__(self, other: Operand) -> Term:
        return self._compare("LT", other)

    def __le__(self, other: Operand) -> Term:
        return self._compare("LE", other)

    def __gt__(self, other: Operand) -> Term:
        return self._compare("GT", other)

    def __ge__(self, other: Operand) -> Term:
        return self._compare("GE", other)

    def equals(self, other: Operand) -> Term:
        return self._compare("EQ", other)

    def is_nan(self) -> Term:
        return self._compare("NE", self)

    def maximum(self, other: Operand) -> Term:
        return self._binary("maximum", other)

    def minimum(self, other: Operand) -> Term:
        return self._binary("minimum", other)

    def call(self, opcode: str) -> Term:
        """A unary opcode."""
        return Term(self.c, self.c.builder.unary(opcode, self.value))

    def exp(self) -> Term:
        return self.call("exponential")

    def log(self) -> Term:
        return self.call("log")

    def sqrt(self) -> Term:
        return self.call("sqrt")

    def floor(self) -> Term:
        return self.call("floor")

    def where(self, condition: Term, otherwise: Operand) -> Term:
        """These elements where `condition` holds, elsewhere those of `otherwise`."""
        return Term(self.c, self.c.builder.select(condition.value, self.value, self.like(otherwise).value))

    def put(self, condition: Term, other: Operand) -> Term:
        """These elements, where `condition` holds those of `other`."""
        return Term(self.c, self.c.builder.select(condition.value, self.like(other).value, self.value))


def polynomial(x: Term, coefficients: Iterable[float]) -> Term:
    """By Horner's rule; the coefficient of the highest power comes first."""
    first, *rest = coefficients
    found = x.like(first)
    for one in rest:
        found = found * x + one
    return found


def repeat_while(
    start: Sequence[Term], goes_on: Callable[[Sequence[Term]], Term], step: Callable[[Sequence[Term]], Sequence[Term]]
) -> list[Term]:
    """`step` on all arrays, until `goes_on` holds for no element; `step` leaves elements alone that are done."""
    c = start[0].c
    shape = tuple_shape([one.value.shape for one in start])

    def part(name: str) -> tuple[Builder, list[Term], Computation]:
        computation = Computation(name)
        inside = Context(Builder(computation), c.expected, {})
        whole = inside.builder.parameter(0, shape)
        return inside.builder, [Term(inside, inside.builder.gte(whole, n)) for n in range(len(start))], computation

    either = c.reducer("or", "pred")
    build, given, condition = part("goes_on")
    left = goes_on(given).value
    condition.root = build.reduce(left, build.constant(False, "pred"), range(len(left.shape.dimensions)), either)
    build, given, body = part("step")
    body.root = build.tuple([one.value for one in step(given)])
    done = c.builder.while_(c.builder.tuple([one.value for one in start]), c.own(condition), c.own(body))
    return [Term(c, c.builder.gte(done, n)) for n in range(len(start))]
