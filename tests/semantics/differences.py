"""Where results are other than those of XLA's CPU backend, and why: for the comparison with it, and for the manual."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["DIFFERENCES", "Difference", "known"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Of opcodes and element types (regular expressions of whole names)."""

    opcodes: str
    types: str
    why: str


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "maximum|minimum|clamp", "bf16|f.*",
        "NaN comes out whichever operand is one, as HLO says; XLA may give the other operand.",
    ),
    Difference(
        "power", "[su].*",
        "Integer powers are exact modulo the size of the type; XLA looks at the low six bits of the exponent.",
    ),
    Difference(
        "reduce|reduce-window", ".*",
        "The initial value enters once; XLA leaves it out where nothing is reduced, or windows have one element.",
    ),
    Difference(
        "sort", ".*",
        "Sorts are stable, whether that is asked for or not.",
    ),
    Difference(
        "convolution", "f32|f16|bf16|f8.*",
        "Padding takes no part in a sum; XLA may multiply its zeros by infinities of the kernel, which gives NaN.",
    ),
    Difference(
        "cholesky|triangular-solve", "bf16|f16|f8.*|f4.*",
        "Computed in f32 and rounded once; XLA rounds every step.",
    ),
    Difference(
        "popcnt|count-leading-zeros", "[su][24]",
        "Counted in the width of the type; XLA widens to 8 bits first.",
    ),
    Difference(
        "power|logistic|cbrt|rsqrt|divide|remainder|multiply|reduce-precision|convert", "f.*|bf16|c.*",
        "Subnormal numbers are numbers (unless --flush-denormals is given); XLA takes them for zero.",
    ),
)  # fmt: skip


def known(opcode: str, kind: str) -> str:
    """Why results of an opcode on a type may differ; empty when they may not."""
    for row in DIFFERENCES:
        if re.fullmatch(row.opcodes, opcode) and re.fullmatch(row.types, kind):
            return row.why
    return ""
