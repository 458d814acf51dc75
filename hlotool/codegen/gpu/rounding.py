"""Dots of f32 numbers that were rounded to TF32 are told so.

What an algorithm asks for is done by other instructions by then (`hlotool.passes.expand.product_expander`), which other
kernels may compute: the kernel of the dot does not see them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlotool.ir import Computation, Instruction, Module
from hlotool.ir.dot_algorithms import TF32_BITS

__all__ = ["mark_rounded"]

_ALGORITHM = "dot_tf32_tf32_f32"

_ALIKE = frozenset({"bitcast", "broadcast", "copy", "reshape", "reverse", "slice", "transpose"})
"""What moves elements, and changes none."""


def mark_rounded(module: Module) -> None:
    """Give the dots of `module` whose operands both have no more bits than TF32 that algorithm; it changes no number.
    """
    callers = module.callers()
    for computation in module.computations.values():
        for dot in computation:
            if (
                dot.opcode == "dot"
                and dot.shape.element_type == "f32"
                and all(_is_rounded(operand, callers) for operand in dot.operands)
            ):
                dot.attributes["algorithm"] = _ALGORITHM


def _is_rounded(value: Instruction, callers: Mapping[Computation, Sequence[Instruction]]) -> bool:
    while True:
        calls = callers.get(value.parent, ()) if value.parent is not None else ()
        if value.opcode == "parameter" and len(calls) == 1 and calls[0].opcode == "fusion":
            value = calls[0].operands[value.parameter_number]
        elif value.opcode == "fusion" and value.shape.is_array:
            value = value.attributes["calls"].root
        elif value.opcode in _ALIKE:
            value = value.operands[0]
        else:
            break
    bits = value.attributes.get("exponent_bits"), value.attributes.get("mantissa_bits")
    return value.opcode == "reduce-precision" and bits == TF32_BITS and value.shape.element_type == "f32"
