"""Which slices are views: names for a part of an array that is read where it lies, instead of a copy of it.

Buffers are dense and row-major, so that a part whose elements lie side by side is a buffer too.  That saves a copy of
the weights of every layer in a loop over layers, and of every step's input in a loop over time.
"""

from __future__ import annotations

from hlotool.analysis.in_place import in_place_pairs, updates_part
from hlotool.ir import OPCODES, Computation, Instruction

__all__ = ["is_view"]

_NAMES = frozenset({"reshape", "bitcast"})
_HANDING_ON = frozenset({
    "tuple", "while", "conditional", "call", "opt-barrier", "add-dependency", "after-all", "domain", "async-start",
})  # fmt: skip
_OUTSIDE = frozenset({"collective", "feed", "custom", "async"})
_KEPT_SHARE = 2
"""A result that is not needed otherwise is kept alive for a part of at least one in so many of its bytes."""


def is_view(part: Instruction) -> bool:
    """Whether a slice or dynamic-slice takes no code but that for its address.

    Its elements lie side by side, kernels of its own computation are all that read it, and what it is a part of stays
    as it is meanwhile: an argument of the program, a constant, state that a loop only hands on, or the result of a
    kernel that nothing updates in place.
    """
    return (
        part.opcode in ("slice", "dynamic-slice")
        and _lies_together(part)
        and _stays_inside(part)
        and _stays_as_it_is(part.operands[0], part)
    )


def _lies_together(part: Instruction) -> bool:
    """Whether a part is one run of elements, with starts that are scalars."""
    shape, whole = part.shape, part.operands[0].shape
    if not (shape.is_static and whole.is_static and shape.size) or any(o.shape.rank for o in part.operands[1:]):
        return False
    inside = False
    for d, (own, size) in enumerate(zip(shape.dimensions, whole.dimensions, strict=True)):
        if inside and own != size:
            return False
        if own > 1 and part.opcode == "slice" and part.attributes["slice"][d].stride != 1:
            return False
        inside = inside or own > 1
    return True


def _stays_inside(value: Instruction) -> bool:
    """Whether only kernels read the value, none of which would rather have a copy of its own to update."""
    if value.is_root:
        return False
    for user in value.users:
        if user.opcode in _NAMES:
            if not _stays_inside(user):
                return False
        elif _leaves(user) or _updates(user, value):
            return False
    return True


def _leaves(instruction: Instruction) -> bool:
    """Whether values go through an instruction to or from somewhere else."""
    return instruction.opcode in _HANDING_ON or OPCODES[instruction.opcode].group in _OUTSIDE


def _updates(user: Instruction, value: Instruction) -> bool:
    pairs = in_place_pairs(user)
    return any(updates_part(user, leaf) and user.operands[number] is value for leaf, number in pairs)


def _stays_as_it_is(whole: Instruction, part: Instruction) -> bool:
    """Whether nothing writes over the storage of `whole` while `part` is read."""
    while whole.opcode in _NAMES:
        whole = whole.operands[0]
    computation = whole.parent
    assert computation is not None
    if whole.opcode == "constant" or is_view(whole):
        return True
    source = whole
    while source.opcode == "get-tuple-element":
        source = source.operands[0]
    if source.opcode == "parameter":
        return _is_entry(computation) or _is_handed_on(whole, computation.root)
    if _leaves(source):
        return False
    return part.shape.byte_size * _KEPT_SHARE >= whole.shape.byte_size and _stays_inside(whole)


def _is_entry(computation: Computation) -> bool:
    return computation.module is not None and computation.module.entry is computation


def _is_handed_on(state: Instruction, root: Instruction) -> bool:
    """Whether the body of a loop returns the element of its state as it came."""
    if state.opcode != "get-tuple-element" or state.operands[0].opcode != "parameter" or root.opcode != "tuple":
        return False
    return root.operands[state.attributes["index"] :][:1] == [state]
