"""What may live in a fusion, and what it costs to compute there."""

from __future__ import annotations

from math import prod
from typing import Annotated

from hlotool.analysis.inlining import can_inline
from hlotool.analysis.thresholds import Threshold
from hlotool.ir import ELEMENT_TYPES, Instruction, element_type
from hlotool.ir.opcodes import ELEMENTWISE

__all__ = [
    "can_be_root",
    "has_many_sources",
    "is_cheap_copy",
    "is_expensive",
    "is_fusible",
    "is_movement",
    "is_positional",
    "is_variadic_reduce",
    "reduces_minor",
    "takes_halves",
]

_MOVEMENT = frozenset(
    {"broadcast", "reshape", "bitcast", "transpose", "reverse", "slice", "pad", "concatenate", "dynamic-slice", "copy"}
)
_COPIED = frozenset({"broadcast", "reshape", "bitcast", "iota", "slice"})
_ALWAYS = (ELEMENTWISE | _MOVEMENT | {"iota", "gather", "dynamic-update-slice"}) - {"bitcast-convert", "concatenate"}
"""What the fusion emitter can have in any form; of some others it depends."""
_MOST_SOURCES: Annotated[int, Threshold("operands")] = 64
"""Operands of the concatenates in a loop over their elements."""
_LARGEST_WINDOW: Annotated[int, Threshold("elements")] = 16
"""Elements of a window that is reduced in the loop over the results."""
_MOST_COPIED: Annotated[int, Threshold("operations")] = 6
"""Operations that one reader may repeat."""
_MOST_POSITIONAL: Annotated[int, Threshold("operations")] = 3
"""Operations that cost about as much as reading their result."""


def has_many_sources(*instructions: Instruction) -> bool:
    """Whether concatenates are among these that one loop should not compute: it would choose among all operands."""
    return sum(len(i.operands) for i in instructions if i.opcode == "concatenate") > _MOST_SOURCES


def is_movement(instruction: Instruction) -> bool:
    """Rearranges elements without computing any."""
    return instruction.opcode in _MOVEMENT


def is_fusible(instruction: Instruction) -> bool:
    """Whether the fusion emitter can have the instruction in a body."""
    shape, opcode = instruction.shape, instruction.opcode
    if not shape.is_array or not shape.is_static or 0 in shape.dimensions:
        return False
    if opcode in _ALWAYS:
        return True
    match opcode:
        case "constant":
            return shape.is_scalar or instruction.literal.is_splat
        case "concatenate":
            return not has_many_sources(instruction)
        case "bitcast-convert":
            return instruction.operands[0].shape.rank == shape.rank or takes_halves(instruction)
        case "reduce" | "map":
            return can_inline(instruction.attributes["to_apply"])
        case "reduce-window":
            return can_inline(instruction.attributes["to_apply"]) and _has_separate_windows(instruction)
        case _:
            return False


def takes_halves(cast: Instruction) -> bool:
    """Whether a bitcast-convert takes its elements, of four bits, from halves of bytes: kernels read these so."""
    source, target = (ELEMENT_TYPES[one.shape.element_type] for one in (cast.operands[0], cast))
    return source.bits == 8 and target.bits == 4


def _has_separate_windows(pooling: Instruction) -> bool:
    """Whether a reduce-window reads each element once at most, a few for each result: a loop does that well.

    Windows that overlap share work, and padding asks for the place of each element: those have a kernel of their own.
    """
    window = pooling.attributes["window"].dimensions
    apart = all(w.stride >= w.size and w.base_dilation == w.window_dilation == 1 for w in window)
    inside = all(w.padding_low <= 0 and w.padding_high <= 0 for w in window)
    return apart and inside and len(pooling.operands) == 2 and prod(w.size for w in window) <= _LARGEST_WINDOW


def can_be_root(instruction: Instruction) -> bool:
    """Whether a fusion may grow up from here: not where the result is free anyway or a constant."""
    if is_variadic_reduce(instruction):
        return all(leaf.is_static and leaf.size for leaf in instruction.shape.elements)
    return is_fusible(instruction) and instruction.opcode not in ("constant", "reshape", "bitcast", "iota")


def is_variadic_reduce(instruction: Instruction) -> bool:
    """A reduce with several results, such as an argmax, that a loop can do in line."""
    if instruction.opcode != "reduce" or not instruction.shape.is_tuple:
        return False
    return can_inline(instruction.attributes["to_apply"])


def is_cheap_copy(instruction: Instruction) -> bool:
    """Whether computing the instruction again in every reader costs no more than reading its result."""
    if instruction.opcode == "constant":
        return is_fusible(instruction)
    return instruction.opcode in _COPIED or _is_cheaper_than_its_result(instruction)


def is_positional(instruction: Instruction) -> bool:
    """Whether the elements follow from their places by little arithmetic, as in a triangular mask: nothing is read."""
    sources: dict[Instruction, None] = {}
    return _collect_sources(instruction, sources, _MOST_POSITIONAL + 1) > 0 and not sources


def _is_cheaper_than_its_result(instruction: Instruction) -> bool:
    """Cheap arithmetic on one array, by readers that can all take it in: then its result need not be written.

    Of k readers that compute it again, each reads the source; else one reads it and writes the result, and k read that.
    """
    sources: dict[Instruction, None] = {}
    if not _collect_sources(instruction, sources, _MOST_COPIED) or len(sources) != 1:
        return False
    if not all(is_fusible(user) or is_variadic_reduce(user) for user in instruction.users):
        return False
    source, readers = next(iter(sources)).shape.byte_size, len(instruction.users)
    return readers * source <= source + (readers + 1) * instruction.shape.byte_size


def _collect_sources(instruction: Instruction, sources: dict[Instruction, None], budget: int) -> int:
    """Add what a chain of cheap arithmetic reads of the same size as its result.  The operations left of `budget`; 0
    where there are more, or something else than that."""
    if not instruction.has("elementwise") or is_expensive(instruction) or not is_fusible(instruction):
        return 0
    budget -= 1
    for operand in instruction.operands:
        if not budget:
            return 0
        if operand.opcode in ("constant", "iota") or operand.shape.size == 1 or operand in sources:
            continue
        if operand.opcode == "broadcast" and operand.operands[0].shape.size < operand.shape.size:
            continue
        left = _collect_sources(operand, sources, budget)
        if left:
            budget = left
        else:
            sources[operand] = None
    return budget


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
