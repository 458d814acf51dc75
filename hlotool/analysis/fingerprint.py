"""Structural identity: two things with the same key compute the same function of their operands.

Names, metadata, locations and origins do not count.  Linear in the size of what is asked about.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from hlotool.ir import Computation, Instruction

__all__ = ["Structures"]

_IGNORED = frozenset({"metadata", "frontend_attributes", "sharding", "origin", "statistics", "control-predecessors"})


class Structures:
    """Keys, and numbers for computations: equal ones mean equal structure.

    Keys of one `Structures` cannot be compared with those of another.  A computation must stay as it is once its number
    is known.
    """

    __slots__ = ("_known", "_numbers")

    def __init__(self) -> None:
        self._known: dict[Computation, int] = {}
        self._numbers: dict[Hashable, int] = {}

    def number(self, computation: Computation) -> int:
        """The number of a computation: of its instructions in order, with operands by position, and its root."""
        number = self._known.get(computation)
        if number is None:
            key = self._key(computation)
            number = self._known[computation] = self._numbers.setdefault(key, len(self._numbers))
        return number

    def instruction(self, instruction: Instruction) -> Hashable:
        """The key of one instruction given its operands: opcode, shapes, attributes, called computations."""
        positions: dict[Instruction, int] = {}
        operands = instruction.operands
        return (
            instruction.opcode,
            instruction.shape,
            tuple([o.shape for o in operands]),
            tuple([positions.setdefault(o, len(positions)) for o in operands]),
            self.attributes(instruction.attributes),
        )

    def attributes(self, attributes: Mapping[str, Any]) -> Hashable:
        """A key that is equal for attributes with the same meaning."""
        if not attributes:
            return ()
        return tuple([(name, self._value(attributes[name])) for name in sorted(attributes) if name not in _IGNORED])

    def _key(self, computation: Computation) -> Hashable:
        position: dict[Instruction, int] = {}
        rows: list[Hashable] = []
        for number, instruction in enumerate(computation):
            position[instruction] = number
            operands = tuple([position[o] for o in instruction.operands])
            rows.append((instruction.opcode, instruction.shape, operands, self.attributes(instruction.attributes)))
        return (position[computation.root], *rows)

    def _value(self, value: Any) -> Hashable:
        if isinstance(value, Computation):
            return self.number(value)
        if isinstance(value, tuple):
            return tuple([v if type(v) is int else self._value(v) for v in value])
        if isinstance(value, dict):
            return tuple(sorted(value.items()))
        if isinstance(value, float):
            return value.hex()
        result: Hashable = value
        return result
