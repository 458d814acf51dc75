"""What may live in a fusion, and what it costs to compute there."""

from __future__ import annotations

from hlotool.ir import Instruction, element_type

__all__ = ["can_be_root", "is_cheap_copy", "is_expensive", "is_fusible", "is_movement", "reduces_minor"]

_MOVEMENT = frozenset(
    {"broadcast", "reshape", "bitcast", "transpose", "reverse", "slice", "pad", "concatenate", "dynamic-slice", "copy"}
)
_OTHERS = frozenset({"iota", "gather", "reduce", "dynamic-update-slice", "map"})
_COPIED = frozenset({"broadcast", "reshape", "bitcast", "iota", "slice"})


def is_movement(instruction: Instruction) -> bool:
    """Rearranges elements without computing any."""
    return instruction.opcode in _MOVEMENT


def is_fusible(instruction: Instruction) -> bool:
    """Whether the fusion emitter can have the instruction in a body."""
    if not instruction.shape.is_array or not instruction.shape.is_static or instruction.shape.size == 0:
        return False
    if instruction.opcode == "constant":
        return instruction.shape.is_scalar or instruction.literal.is_splat
    if instruction.opcode == "bitcast-convert":
        return instruction.operands[0].shape.rank == instruction.shape.rank
    return instruction.has("elementwise") or instruction.opcode in _MOVEMENT or instruction.opcode in _OTHERS


def can_be_root(instruction: Instruction) -> bool:
    """Whether a fusion may grow up from here: not where the result is free anyway or a constant."""
    return is_fusible(instruction) and instruction.opcode not in ("constant", "reshape", "bitcast", "iota")


def is_cheap_copy(instruction: Instruction) -> bool:
    """Whether computing the instruction again in every reader costs no more than reading its result."""
    if instruction.opcode == "constant":
        return is_fusible(instruction)
    return instruction.opcode in _COPIED


def reduces_minor(reduce: Instruction) -> bool:
    """Whether a reduce takes away exactly the last dimensions, so that a row is contiguous."""
    rank = reduce.operands[0].shape.rank
    reduced = sorted(reduce.attributes["dimensions"])
    return bool(reduced) and reduced == list(range(rank - len(reduced), rank))


def is_expensive(instruction: Instruction) -> bool:
    """A transcendental function, a division or the like: worth keeping rather than computing again."""
    return instruction.has("transcendental") or (
        instruction.opcode in ("divide", "remainder") and not element_type(instruction.shape.element_type).is_integer
    )
