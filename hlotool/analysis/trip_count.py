"""How often a loop runs: counted loops are recognised from their condition, body and initial state.

A counted loop has an induction variable: one element of the state (or the state itself) that starts as a constant,
changes by a constant in each iteration, and is compared with a constant.  ``for`` loops and scans lower to this.
"""

from __future__ import annotations

import json

from hlotool.ir import ELEMENT_TYPES, Computation, Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["TripCount", "is_invariant_element", "known_trip_count", "trip_count"]


@dataclass(frozen=True, slots=True)
class TripCount:
    """A loop that runs `count` times.

    State element `index` (None: the whole state) starts at `initial`, grows by `step`, and the loop goes on while it
    stands in `direction` to `limit`.
    """

    index: int | None
    initial: int
    step: int
    limit: int
    direction: str
    count: int


def known_trip_count(loop: Instruction) -> int | None:
    """How often `loop` runs: as annotated in its ``backend_config``, else as `trip_count` finds."""
    config = loop.attributes.get("backend_config")
    if isinstance(config, str) and "known_trip_count" in config:
        try:
            return int(json.loads(config)["known_trip_count"]["n"])
        except (ValueError, KeyError, TypeError):
            pass  # not written by us or XLA: look at the loop itself
    found = trip_count(loop)
    return None if found is None else found.count


def trip_count(loop: Instruction) -> TripCount | None:
    """The trip count of a ``while`` instruction; None where it is not a counted loop."""
    condition: Computation = loop.attributes["condition"]
    compare = _through_copies(condition.root)
    if compare.opcode != "compare":
        return None
    direction = compare.attributes["direction"]
    left, right = (_through_copies(o) for o in compare.operands)
    limit = _constant(right, loop)
    if limit is None:
        left, right, direction = right, left, _MIRRORED[direction]
        limit = _constant(right, loop)
    variable = _state_element(left)
    if limit is None or variable is None or not ELEMENT_TYPES[left.shape.element_type].is_integer:
        return None
    initial, step = _initial(loop, variable), _step(loop, variable)
    if initial is None or step is None:
        return None
    count = _count(initial, step, limit, direction)
    if count is None or not _stays_in_range(left.shape.element_type, initial, step, count):
        return None
    return TripCount(variable if variable >= 0 else None, initial, step, limit, direction, count)


_MIRRORED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
_WHOLE = -1  # the state is the variable itself


def _through_copies(instruction: Instruction) -> Instruction:
    while instruction.opcode == "copy":
        instruction = instruction.operands[0]
    return instruction


def _state_element(instruction: Instruction) -> int | None:
    """Which element of the state `instruction` reads."""
    if instruction.opcode == "parameter":
        return _WHOLE if instruction.shape.is_scalar else None
    if instruction.opcode == "get-tuple-element" and instruction.operands[0].opcode == "parameter":
        index: int = instruction.attributes["index"]
        return index
    return None


def is_invariant_element(loop: Instruction, index: int) -> bool:
    """Whether the body hands element `index` of the state on as it is."""
    root = loop.attributes["body"].root
    if root.opcode != "tuple":
        return False
    return _state_element(_through_copies(root.operands[index])) == index


def _constant(instruction: Instruction, loop: Instruction) -> int | None:
    """The integer that `instruction`, in the body or condition of `loop`, always is."""
    instruction = _through_copies(instruction)
    if instruction.opcode == "constant":
        if not instruction.shape.is_scalar or not ELEMENT_TYPES[instruction.shape.element_type].is_integer:
            return None
        return None if instruction.literal.elided else int(instruction.literal.value())
    index = _state_element(instruction)
    if index is None or index == _WHOLE or not is_invariant_element(loop, index):
        return None
    return _initial(loop, index)


def _initial(loop: Instruction, index: int) -> int | None:
    state = loop.operands[0]
    if index != _WHOLE:
        if state.opcode != "tuple":
            return None
        state = state.operands[index]
    state = _through_copies(state)
    if state.opcode != "constant" or not state.shape.is_scalar or state.literal.elided:
        return None
    if not ELEMENT_TYPES[state.shape.element_type].is_integer:
        return None
    return int(state.literal.value())


def _step(loop: Instruction, index: int) -> int | None:
    root = loop.attributes["body"].root
    if index != _WHOLE:
        if root.opcode != "tuple":
            return None
        root = root.operands[index]
    update = _through_copies(root)
    if update.opcode not in ("add", "subtract"):
        return None
    left, right = (_through_copies(o) for o in update.operands)
    if update.opcode == "add" and _state_element(left) != index:
        left, right = right, left
    step = _constant(right, loop)
    if _state_element(left) != index or step is None:
        return None
    return step if update.opcode == "add" else -step


def _count(initial: int, step: int, limit: int, direction: str) -> int | None:
    """Iterations over the integers; None for a loop that never ends."""
    if not _HOLDS[direction](initial, limit):
        return 0
    if direction == "EQ":
        return 1 if step else None
    if direction == "NE":
        ends = step != 0 and (limit - initial) % step == 0 and (limit - initial) // step > 0
        return (limit - initial) // step if ends else None
    if direction in ("GT", "GE"):
        initial, step, limit = -initial, -step, -limit
    if step <= 0:
        return None
    return -((initial - limit - (direction in ("LE", "GE"))) // step)


_HOLDS = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}


def _stays_in_range(element_type: str, initial: int, step: int, count: int) -> bool:
    """Whether the variable never wraps around, its last value included."""
    row = ELEMENT_TYPES[element_type]
    low = -(1 << (row.bits - 1)) if row.kind == "signed" else 0
    high = (1 << (row.bits - (row.kind == "signed"))) - 1
    return low <= initial + count * step <= high
