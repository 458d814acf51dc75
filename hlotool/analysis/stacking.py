"""State of a loop that the loop writes completely: what it was before does not matter.

A scan stacks the results of its trips: trip after trip writes one row of an array that starts as zeros, and nothing
reads the array before the last row is written.  Those zeros need not be there.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlotool.analysis.trip_count import TripCount, trip_count
from hlotool.analysis.views import is_run
from hlotool.ir import ELEMENT_TYPES, Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["Stacking", "is_handed_on", "is_unread", "stacked_elements", "stackings"]


@dataclass(frozen=True, slots=True)
class Stacking:
    """A dynamic-update-slice, in the body of a loop or inside a fusion there, of an array that is state of the loop.

    `array`, `starts` and `source` are what its caller gives it, instructions of the body of the loop, or constants.
    `source` holds the elements that are written, in their order; it is None where they are computed in the fusion.
    `by` is the instruction of the body that does nothing else.
    """

    update: Instruction
    array: Instruction
    starts: tuple[Instruction, ...]
    source: Instruction | None = None
    by: Instruction | None = None

    @property
    def is_run(self) -> bool:
        """Whether the elements that are written lie side by side."""
        whole, part = (operand.shape for operand in self.update.operands[:2])
        if not (whole.is_static and part.size) or len(self.starts) != whole.rank:
            return False
        return is_run(part, whole)


def stackings(loop: Instruction) -> dict[int, Stacking]:
    """The elements of the loop's state that it only writes, a part in every trip."""
    body, condition = loop.attributes["body"], loop.attributes["condition"]
    root, state = body.root, body.parameters[0]
    if root.opcode != "tuple" or state.is_root:
        return {}
    readers: dict[int, list[Instruction]] = {}
    for parameter in (state, condition.parameters[0]):
        for user in parameter.users:
            if user.opcode != "get-tuple-element":
                return {}
            readers.setdefault(user.attributes["index"], []).append(user)
    return {
        index: update for index, value in enumerate(root.operands)
        if len(readers.get(index, ())) == 1 and (update := _update_of(value)) is not None
        and update.array is readers[index][0] and sum(update.array.users.values()) == 1
    }  # fmt: skip


def stacked_elements(loop: Instruction, found: Mapping[int, Stacking]) -> frozenset[int]:
    """Those of the `stackings` of a loop that it writes completely."""
    trips = trip_count(loop) if found else None
    if trips is None or trips.index is None:
        return frozenset()
    state = loop.attributes["body"].parameters[0]
    return frozenset(index for index, stacking in found.items() if _covers(stacking, state, trips))


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


def is_handed_on(value: Instruction, root: Instruction) -> bool:
    """Whether a value only goes to the tuple `root`, be it by way of other tuples."""
    for user in value.users:
        if user is root:
            continue
        if user.opcode != "tuple":
            return False
        places = {number for number, operand in enumerate(user.operands) if operand is value}
        for reader in user.users:
            if reader.opcode != "get-tuple-element":
                return False
            if reader.attributes["index"] in places and not is_handed_on(reader, root):
                return False
    return True


def _update_of(value: Instruction) -> Stacking | None:
    """The update that gives a value, where nothing else in its fusion reads the array."""
    while value.opcode == "get-tuple-element" and value.operands[0].opcode == "tuple":
        value = value.operands[0].operands[value.attributes["index"]]
    if value.opcode == "dynamic-update-slice":
        return Stacking(value, value.operands[0], tuple(value.operands[2:]), value.operands[1], value)
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
    source = update.operands[1]
    while source.opcode in ("bitcast", "reshape"):
        source = source.operands[0]
    alone = update is root and source.opcode == "parameter"
    given = value.operands[source.parameter_number] if alone else None
    return Stacking(update, value.operands[array.parameter_number], starts, given, value if alone else None)


def _covers(stacking: Stacking, state: Instruction, trips: TripCount) -> bool:
    """Whether the updates of all trips are every element of the array, each once."""
    whole, part = (operand.shape.dimensions for operand in stacking.update.operands[:2])
    moving = [d for d, (size, own) in enumerate(zip(whole, part, strict=True)) if size != own]
    if len(moving) != 1 or len(stacking.starts) != len(whole) or not stacking.update.shape.is_static:
        return False
    (d,) = moving
    place = _linear(stacking.starts[d], state, trips)
    if place is None or trips.count < 1:
        return False
    factor, first = place
    step = factor * trips.step
    last = first + step * (trips.count - 1)
    kind = ELEMENT_TYPES[stacking.starts[d].shape.element_type]
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
