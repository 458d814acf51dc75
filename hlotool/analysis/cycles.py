"""Cycles of instructions that `hlotool.codegen.nests.counting` counts by: measured where no source is named.

A vector is a register of the machine; figures turn cycles into nanoseconds (`hlotool.analysis.performance`).
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "BY_CONSTANT", "COMPLEX_QUOTIENT", "COUNTED_BITS", "DIVIDED", "DIVISION", "FUNCTIONS", "FUNCTIONS_F64",
    "FUNCTION_WAITS", "LOADED", "LONG_DIVISION", "OF_TWO", "OPERATION", "QUOTIENT", "ROUNDED", "SATURATED", "SHUFFLED",
    "THROUGH_DOUBLE", "WHOLE_DIVISION",
]  # fmt: skip

DIVISION: Mapping[int, float] = {32: 20.0, 64: 32.0}
"""For which a division of 1024 bits keeps the divider busy, by the bits of an element (Golden Cove: VDIVPS and VDIVPD
in "uops.info", Abel and Reineke, 2019); roots take about as long."""

DIVIDED = frozenset({
    "divide", "remainder", "logistic", "tanh", "atan2", "power", "cbrt", "tan", "asin", "acos", "atanh", "erf",
})  # fmt: skip
"""Opcodes of floats that divide once."""

WHOLE_DIVISION: Mapping[int, float] = {8: 32.0, 16: 16.0, 32: 16.0}
"""Of a vector of quotients of integers, by their bits: they are computed as floats of 32 bits, or of 64."""

LONG_DIVISION = 14.0
"""Of a quotient of integers of 64 bits: there are no vectors of these."""

BY_CONSTANT = 6.0
"""Of a vector of quotients by a number that is known: LLVM multiplies and shifts."""

FUNCTIONS: Mapping[str, float] = {
    "sqrt": 1.0, "divide": 1.0, "power": 95.0, "atan2": 65.0, "exponential-minus-one": 11.0, "log-plus-one": 17.0,
    "remainder": 80.0, "reduce-precision": 14.0,
}  # fmt: skip
FUNCTIONS_F64: Mapping[str, float] = {
    "sqrt": 1.0, "divide": 1.0, "log": 45.0, "log-plus-one": 45.0, "sine": 45.0, "cosine": 45.0,
}  # fmt: skip
"""Of a vector of functions, without what the divider takes, where that is not what `loops.weight` says."""

OF_TWO = 4.0
"""Of a vector of the larger or smaller of two floats that are not known, either of which may be NaN."""

SATURATED, ROUNDED, THROUGH_DOUBLE = 6.0, 6.0, 32.0
"""Of a vector of integers from floats, which stay within their type; of short floats that no instruction rounds to; and
from integers, which are rounded once, through f64."""

COUNTED_BITS: Mapping[int, float] = {8: 4.0, 16: 7.0, 32: 10.0}
"""Of a vector whose bits are counted where no instruction does: by the bits of an element, half of a byte at a time."""

COMPLEX_QUOTIENT = 1.6
"""Of a vector of quotients or sizes of complex numbers, in those of their functions."""

OPERATION, LOADED, QUOTIENT, SHUFFLED = 4.0, 6.0, 14.0, 3.0
"""Until the result of an operation is there; an element of the nearest cache; a quotient; one of another lane."""

FUNCTION_WAITS = 2.2
"""Until the value of a function is there, for each cycle in which vectors of it follow each other."""
