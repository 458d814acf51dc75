"""What the algorithms of a dot mean: to which type operands are rounded, and in which their products are summed.

An algorithm matters for real floating-point operands only.  Each operand is rounded to a narrow type; algorithms that
end in xN keep what that loses as a second and a third number of the type (each the rest, rounded; zero where the
number before it is not finite) and add up the N products of parts that count most:

    x = x0 + x1 + x2,   x0 = round(x),   x1 = round(x - x0),   x2 = round(x - x0 - x1)
    x * y  ~  the sum of xi * yj over all i + j < order

(Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations", 2019).  Products are exact, the sum is rounded to `total`, and that to the type of the result.

These are bounds on what may be lost.  The evaluator does what stands here; native code rounds operands where there is
one part, and otherwise multiplies the operands as they are, which loses less.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir.types import ELEMENT_TYPES
from hlotool.lazy_dataclass import dataclass

__all__ = ["ALGORITHMS", "TF32_BITS", "DotAlgorithm", "scaled_type"]

TF32_BITS = (8, 10)
"""Bits of the exponent and of the mantissa of TF32."""


@dataclass(frozen=True, slots=True)
class DotAlgorithm:
    """`operand`: an element type, ``tf32``, or empty where operands are taken as they are; `total` that of the sum."""

    operand: str
    total: str
    parts: int = 1
    order: int = 1

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The parts of both operands that are multiplied."""
        return [(i, j) for i in range(self.parts) for j in range(self.parts) if i + j < self.order]


ALGORITHMS: dict[str, DotAlgorithm] = {
    "dot_any_f8_any_f8_f32": DotAlgorithm("", "f32"),
    "dot_any_f8_any_f8_f32_fast_accum": DotAlgorithm("", "f32"),  # a licence for sums less precise, not taken
    "dot_f16_f16_f16": DotAlgorithm("f16", "f16"),
    "dot_f16_f16_f32": DotAlgorithm("f16", "f32"),
    "dot_bf16_bf16_bf16": DotAlgorithm("bf16", "bf16"),
    "dot_bf16_bf16_f32": DotAlgorithm("bf16", "f32"),
    "dot_bf16_bf16_f32_x3": DotAlgorithm("bf16", "f32", 2, 2),
    "dot_bf16_bf16_f32_x6": DotAlgorithm("bf16", "f32", 3, 3),
    "dot_bf16_bf16_f32_x9": DotAlgorithm("bf16", "f32", 3, 5),
    "dot_tf32_tf32_f32": DotAlgorithm("tf32", "f32"),
    "dot_tf32_tf32_f32_x3": DotAlgorithm("tf32", "f32", 2, 2),
    "dot_f32_f32_f32": DotAlgorithm("f32", "f32"),
    "dot_f64_f64_f64": DotAlgorithm("f64", "f64"),
}


def scaled_type(operands: Sequence[str], result: str) -> str:
    """The type to which a scaled-dot of these element types rounds its operands after scaling."""
    return "f64" if "f64" in (*operands, result) or not ELEMENT_TYPES[result].is_float else "f32"
