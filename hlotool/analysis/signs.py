"""Signs of numbers."""

from __future__ import annotations

from hlotool.analysis.reducers import opcodes
from hlotool.ir import Instruction

__all__ = ["is_nonpositive"]


def is_nonpositive(instruction: Instruction) -> bool:
    """Whether every element is surely NaN or <= 0, as in what softmax and Gaussians take the exponential of.

    Where precision is in excess elements may be a rounding above.
    """
    operands = instruction.operands
    match instruction.opcode:
        case "negate":
            (inner,) = operands
            return inner.opcode == "abs" or (inner.opcode == "multiply" and inner.operands[0] is inner.operands[1])
        case "multiply":
            return any(one.opcode == "negate" and one.operands[0] is other for one, other in (operands, operands[::-1]))
        case "subtract":
            return _is_greatest(operands[1], operands[0])
    return False


def _is_greatest(instruction: Instruction, of: Instruction) -> bool:
    """Whether every element is the greatest of some of `of`, among them the one at its own place."""
    if instruction.opcode != "broadcast":
        return False
    (inner,) = instruction.operands
    for reduce in (inner, *inner.operands) if inner.opcode == "maximum" else (inner,):
        if reduce.opcode != "reduce" or reduce.operands[0] is not of:
            continue
        reduced = reduce.attributes["dimensions"]
        kept = [at for at in range(of.shape.rank) if at not in reduced]
        alike = instruction.shape.dimensions == of.shape.dimensions
        if alike and list(instruction.attributes["dimensions"]) == kept:
            return opcodes(reduce.attributes["to_apply"]) == ("maximum",)
    return False
