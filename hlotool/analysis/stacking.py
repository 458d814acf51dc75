"""State of a loop that the loop writes completely: what it was before does not matter.

A scan stacks the results of its trips: trip after trip writes one row of an array that starts as zeros, and nothing
reads the array before the last row is written.  Those zeros need not be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hlotool.analysis.trip_count import TripCount, trip_count
from hlotool.ir import ELEMENT_TYPES, Instruction

__all__ = ["is_unread", "stacked_elements"]


@dataclass(frozen=True, slots=True)
class _Update:
    """A dynamic-update-slice, in the body of a loop or inside a fusion there.

    `array` and `starts` are what its caller gives it: instructions of the body of the loop.
    """

    instruction: Instruction
    array: Instruction
    starts: tuple[Instruction, ...]


def stacked_elements(loop: Instruction) -> frozenset[int]:
    """The elements of the loop's state all of which it writes, and of which it reads nothing before."""
    body, condition = loop.attributes["body"], loop.attributes["condition"]
    root, state = body.root, body.parameters[0]
    if root.opcode != "tuple" or state.is_root:
        return frozenset()
    readers: dict[int, list[Instruction]] = {}
    for parameter in (state, condition.parameters[0]):
        for user in parameter.users:
            if user.opcode != "get-tuple-element":
                return frozenset()
            readers.setdefault(user.attributes["index"], []).append(user)
    candidates = [
        (index, update) for index, value in enumerate(root.operands)
        if len(readers.get(index, ())) == 1 and (update := _update_of(value)) is not None
        and update.array is readers[index][0] and sum(update.array.users.values()) == 1
    ]  # fmt: skip
    trips = trip_count(loop) if candidates else None
    if trips is None or trips.index is None:
        return frozenset()
    return frozenset(index for index, update in candidates if _covers(update, state, trips))


def is_unread(value: Instruction, stacked: Mapping[Instruction, frozenset[int]]) -> bool:
    """Whether a value is there only as the initial state of loops that overwrite it; `stacked` has their elements."""
    if value.is_root or not value.users:
        return False
    for state in value.users:
        if state.opcode != "tuple" or state.is_root:
            return False
        places = {number for number, operand in enumerate(state.operands) if operand is value}
        if not all(loop in stacked and places <= stacked[loop] for loop in state.users):
            return False
    return True


def _update_of(value: Instruction) -> _Update | None:
    """The update that gives a value, where nothing else in its fusion reads the array."""
    while value.opcode == "get-tuple-element" and value.operands[0].opcode == "tuple":
        value = value.operands[0].operands[value.attributes["index"]]
    if value.opcode == "dynamic-update-slice":
        return _Update(value, value.operands[0], tuple(value.operands[2:]))
    number = 0
    if value.opcode == "get-tuple-element":
        number, value = value.attributes["index"], value.operands[0]
    if value.opcode != "fusion":
        return None
    root = value.attributes["calls"].root
    update = root.operands[number] if root.opcode == "tuple" else root
    if update.opcode != "dynamic-update-slice":
        return None
    array = update.operands[0]
    if array.opcode != "parameter" or sum(array.users.values()) > 1:
        return None
    starts = tuple(
        value.operands[start.parameter_number] if start.opcode == "parameter" else start
        for start in update.operands[2:]
    )
    return _Update(update, value.operands[array.parameter_number], starts)


def _covers(update: _Update, state: Instruction, trips: TripCount) -> bool:
    """Whether the updates of all trips are every element of the array, each once."""
    whole, part = (operand.shape.dimensions for operand in update.instruction.operands[:2])
    moving = [d for d, (size, own) in enumerate(zip(whole, part, strict=True)) if size != own]
    if len(moving) != 1 or len(update.starts) != len(whole) or not update.instruction.shape.is_static:
        return False
    (d,) = moving
    place = _linear(update.starts[d], state, trips)
    if place is None or trips.count < 1:
        return False
    factor, first = place
    step = factor * trips.step
    last = first + step * (trips.count - 1)
    kind = ELEMENT_TYPES[update.starts[d].shape.element_type]
    fits = whole[d] - part[d] < 1 << (kind.bits - (kind.kind == "signed"))
    return fits and abs(step) == part[d] and min(first, last) == 0 and max(first, last) == whole[d] - part[d]


def _linear(value: Instruction, state: Instruction, trips: TripCount) -> tuple[int, int] | None:
    """``(a, b)`` where `value` is b in the first trip and grows a times as much as the loop's variable; else None."""
    if value.opcode == "constant" and value.shape.is_scalar and not value.literal.elided:
        return 0, int(value.literal.value())
    if value.opcode == "get-tuple-element":
        is_variable = value.operands[0] is state and value.attributes["index"] == trips.index
        return (1, trips.initial) if is_variable else None
    if value.opcode not in ("add", "subtract"):
        return None
    sides = [_linear(operand, state, trips) for operand in value.operands]
    if sides[0] is None or sides[1] is None:
        return None
    sign = 1 if value.opcode == "add" else -1
    return sides[0][0] + sign * sides[1][0], sides[0][1] + sign * sides[1][1]
