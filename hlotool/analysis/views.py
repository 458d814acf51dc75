"""Which slices are views: names for a part of an array that is read where it lies, instead of a copy of it.

Buffers are dense and row-major, so that a part whose elements lie side by side is a buffer too.  That saves a copy of
the weights of every layer in a loop over layers, and of every step's input in a loop over time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from hlotool.analysis.in_place import in_place_pairs, updates_part
from hlotool.analysis.thresholds import Threshold
from hlotool.ir import OPCODES, Computation, Instruction, Shape

__all__ = ["NAMES", "is_run", "is_view", "lies_together", "source_of", "views_in_order"]

NAMES = frozenset({"reshape", "bitcast"})
"""Opcodes whose result is the operand with another shape."""
_HANDING_ON = frozenset({
    "tuple", "while", "conditional", "call", "opt-barrier", "add-dependency", "after-all", "domain", "async-start",
})  # fmt: skip
_OUTSIDE = frozenset({"collective", "feed", "custom", "async"})
_KEPT_SHARE: Annotated[int, Threshold("times")] = 2
"""A result that is not needed otherwise is kept alive for a part of at least one in so many of its bytes."""


def is_view(part: Instruction) -> bool:
    """Whether a slice or dynamic-slice takes no code but that for its address.

    Its elements lie side by side, kernels of its own computation are all that read it, and what it is a part of stays
    as it is meanwhile: an argument of the program, a constant, state that a loop only hands on, or the result of a
    kernel that nothing updates in place.
    """
    return (
        part.opcode in ("slice", "dynamic-slice")
        and lies_together(part)
        and _stays_inside(part)
        and _stays_as_it_is(part.operands[0], part)
    )


def views_in_order(computation: Computation) -> set[Instruction]:
    """Slices that are views as long as the instructions stay in their order.

    They show results of kernels that are updated in place, or go elsewhere, only after the last one has read the slice:
    in a step of a decoder every layer adds to one cache and then reads its own part.
    """
    parts = [i for i in computation if i.opcode in ("slice", "dynamic-slice") and not is_view(i)]
    parts = [part for part in parts if part.shape.size > 1 and lies_together(part) and _stays_inside(part)]
    found: set[Instruction] = set()
    if parts:
        place = {instruction: number for number, instruction in enumerate(computation)}
        found.update(part for part in parts if _is_read_in_time(part, place))
        found.difference_update([part for part in found if source_of(part.operands[0]) in found])
    return found


def _is_read_in_time(part: Instruction, place: dict[Instruction, int]) -> bool:
    """Whether the last reader of `part` comes before all that may write over what it is a part of."""
    whole = source_of(part.operands[0])
    made = whole
    while made.opcode == "get-tuple-element":
        made = made.operands[0]
    if made.opcode == "parameter" or _leaves(made) or not whole.shape.is_array:
        return False
    last = max((place[user] for user, _ in _readers(part)), default=place[part])
    needed = whole.is_root
    for user, value in _readers(whole, part):
        late = place[user] > last or (user.is_root and user.opcode == "tuple")
        if not late and (_leaves(user) or _updates(user, value)):
            return False
        needed = needed or late
    return needed or part.shape.byte_size * _KEPT_SHARE >= whole.shape.byte_size


def source_of(value: Instruction) -> Instruction:
    """What a value is but another shape of."""
    while value.opcode in NAMES:
        value = value.operands[0]
    return value


def _readers(value: Instruction, but: Instruction | None = None) -> Iterator[tuple[Instruction, Instruction]]:
    """Those that read a value, by whatever name or as a view of a part, and as what they know it; all `but` one."""
    waiting = [value]
    for known in waiting:
        for user in known.users:
            if user.opcode in NAMES or (user is not but and is_view(user)):
                waiting.append(user)
            elif user is not but:
                yield user, known


def lies_together(part: Instruction) -> bool:
    """Whether a part is one run of elements, with starts that are scalars."""
    shape, whole = part.shape, part.operands[0].shape
    if not (shape.is_static and whole.is_static and shape.size) or any(o.shape.rank for o in part.operands[1:]):
        return False
    if part.opcode == "slice":
        rows = zip(part.attributes["slice"], shape.dimensions, strict=True)
        if any(row.stride != 1 and size > 1 for row, size in rows):
            return False
    return is_run(shape, whole)


def is_run(part: Shape, whole: Shape) -> bool:
    """Whether the elements of a part of an array with static sizes lie side by side."""
    outer = next((d for d, size in enumerate(part.dimensions) if size != 1), part.rank)
    return part.dimensions[outer + 1 :] == whole.dimensions[outer + 1 :]


def _stays_inside(value: Instruction) -> bool:
    """Whether only kernels read the value, none of which would rather have a copy of its own to update."""
    if value.is_root:
        return False
    for user in value.users:
        if user.opcode in NAMES:
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
    whole = source_of(whole)
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
