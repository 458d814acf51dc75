"""The elementwise opcodes: one row each, with what the opcode table, shape inference, cost, error bounds and code ask.

Errors are in units in the last place of the type, whichever it is; of complex numbers in those of the size of the
number, not of each part.
"""

from __future__ import annotations

from hlotool.lazy_dataclass import dataclass

__all__ = ["ELEMENTWISE_OPCODES", "KINDS", "ROUNDINGS", "Elementwise"]

KINDS: dict[str, frozenset[str]] = {
    "any type": frozenset(("pred", "signed", "unsigned", "float", "complex")),
    "floats": frozenset(("float",)),
    "floats and complex": frozenset(("float", "complex")),
    "integers": frozenset(("signed", "unsigned")),
    "integers and floats": frozenset(("signed", "unsigned", "float")),
    "numbers": frozenset(("signed", "unsigned", "float", "complex")),
    "numbers with a sign": frozenset(("signed", "float", "complex")),
    "pred and integers": frozenset(("pred", "signed", "unsigned")),
    "pred, integers and floats": frozenset(("pred", "signed", "unsigned", "float")),
}
"""Kinds of element types (`ElementType.kind`), as messages name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """A row.

    `operands` names the `KINDS` of the operands that share a type (of select and clamp the values).  `result` is
    ``same`` as these, ``part`` (the real type of a complex one), ``pred``, ``complex``, or ``written``: part of the
    instruction.  `ulps` and `complex_ulps` are what an implementation on floats may be off; None where it rounds once
    at most.  An `exact` opcode gives what its type can hold and never rounds; one with `steps` is constant but for
    jumps.  `flops` and `complex_flops` are operations per element, but those of `transcendental` opcodes are counted
    apart; `weight` is the cost of a vector of floats in vectors of additions, None where it is one.
    """

    arity: int
    operands: str
    result: str = "same"
    commutative: bool = False
    transcendental: bool = False
    exact: bool = False
    steps: bool = False
    ulps: float | None = None
    complex_ulps: float | None = None
    flops: int = 1
    complex_flops: int = 1
    weight: float | None = None

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of the element types that it takes."""
        return KINDS[self.operands]


def _function(
    operands: str = "floats and complex",
    *,
    ulps: float = 4,
    complex_ulps: float | None = None,
    weight: float = 25.0,
    arity: int = 1,
) -> Elementwise:
    return Elementwise(
        arity=arity, operands=operands, transcendental=True, ulps=ulps, complex_ulps=complex_ulps, weight=weight
    )


_SHIFT = Elementwise(arity=2, operands="integers")
_EXTREME = Elementwise(arity=2, operands="pred, integers and floats", commutative=True, exact=True)
_LOGIC = Elementwise(arity=2, operands="pred and integers", commutative=True)
_ROUNDING = Elementwise(arity=1, operands="floats", steps=True)
_COUNT = Elementwise(arity=1, operands="integers")
_PART = Elementwise(arity=1, operands="floats and complex", result="part", exact=True, flops=0, complex_flops=0)

ELEMENTWISE_OPCODES: dict[str, Elementwise] = {
    "abs": Elementwise(arity=1, operands="numbers with a sign", result="part", exact=True, complex_ulps=2),
    "negate": Elementwise(arity=1, operands="numbers", exact=True),
    "sign": Elementwise(arity=1, operands="numbers with a sign", exact=True, steps=True, complex_ulps=4),
    "ceil": _ROUNDING,
    "floor": _ROUNDING,
    "round-nearest-afz": _ROUNDING,
    "round-nearest-even": _ROUNDING,
    "not": Elementwise(arity=1, operands="pred and integers"),
    "popcnt": _COUNT,
    "count-leading-zeros": _COUNT,
    "is-finite": Elementwise(arity=1, operands="floats", result="pred", exact=True),
    "real": _PART,
    "imag": _PART,
    "exponential": _function(complex_ulps=8, weight=9.0),
    "exponential-minus-one": _function(complex_ulps=8),
    "log": _function(complex_ulps=8, weight=15.0),
    "log-plus-one": _function(complex_ulps=8),
    "logistic": _function(complex_ulps=64, weight=13.0),
    "sqrt": _function(ulps=1, complex_ulps=8, weight=7.0),
    "rsqrt": _function(complex_ulps=16, weight=5.0),
    "cbrt": _function("floats"),
    "sine": _function(complex_ulps=8),
    "cosine": _function(complex_ulps=8),
    "tan": _function(ulps=6, complex_ulps=16),
    "sinh": _function(complex_ulps=8),
    "cosh": _function(complex_ulps=8),
    "tanh": _function(complex_ulps=16, weight=13.0),
    "asin": _function(complex_ulps=16),
    "acos": _function(complex_ulps=16),
    "asinh": _function(complex_ulps=16),
    "acosh": _function(complex_ulps=16),
    "atanh": _function(complex_ulps=16),
    "erf": _function("floats", ulps=6, weight=14.0),
    "convert": Elementwise(arity=1, operands="any type", result="written"),
    "bitcast-convert": Elementwise(arity=1, operands="any type", result="written", flops=0, complex_flops=0),
    "reduce-precision": Elementwise(arity=1, operands="floats", result="written"),
    "stochastic-convert": Elementwise(arity=2, operands="floats", result="written"),
    "subtract": Elementwise(arity=2, operands="numbers", complex_flops=2),
    "divide": Elementwise(arity=2, operands="numbers", complex_ulps=8, complex_flops=11, weight=5.0),
    "remainder": Elementwise(arity=2, operands="integers and floats", weight=20.0),
    "shift-left": _SHIFT,
    "shift-right-arithmetic": _SHIFT,
    "shift-right-logical": _SHIFT,
    "power": _function("numbers", arity=2, complex_ulps=64),
    "atan2": _function(arity=2, complex_ulps=64),
    "add": Elementwise(arity=2, operands="any type", commutative=True, complex_flops=2),
    "multiply": Elementwise(arity=2, operands="any type", commutative=True, complex_ulps=1.5, complex_flops=6),
    "mulhi": Elementwise(arity=2, operands="integers", commutative=True),
    "maximum": _EXTREME,
    "minimum": _EXTREME,
    "and": _LOGIC,
    "or": _LOGIC,
    "xor": _LOGIC,
    "compare": Elementwise(arity=2, operands="any type", result="pred", exact=True),
    "complex": Elementwise(arity=2, operands="floats", result="complex", exact=True, flops=0, complex_flops=0),
    "select": Elementwise(arity=3, operands="any type", exact=True),
    "clamp": Elementwise(arity=3, operands="any type", exact=True),
}
"""By opcode, in the order of the opcode table."""

ROUNDINGS = tuple(name for name, row in ELEMENTWISE_OPCODES.items() if row.steps and not row.exact)
"""Opcodes that round to whole numbers, which narrow types may not hold."""
