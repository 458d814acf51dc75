"""What instructions of two modules are told apart by: names, metadata and more count where they are asked for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from hlotool.ir import NOTE, WRITTEN, Computation, Instruction, Literal, Module, ReplicaGroups, Shape, Verbatim
from hlotool.ir.attributes import PaddingDimension
from hlotool.text.arrange import post_order, usual_attributes, with_layouts
from hlotool.text.fingerprint import without_places
from hlotool.text.presets import without_notes

__all__ = ["ASPECTS", "EXACT", "LEVELS", "LOOSE", "OPCODE", "USUALLY_IGNORED", "WHOLE", "Keys"]

ASPECTS = ("names", "metadata", "layouts", "constants", "backend-config")
"""What a difference may leave out of account."""

USUALLY_IGNORED = frozenset({"names", "metadata"})
"""What says nothing about what a module computes, as for `hlotool.text.fingerprint.content_hash`."""

WHOLE, EXACT, LOOSE, OPCODE = LEVELS = range(4)
"""How much of an instruction a label holds: all that counts and what it calls, all that counts, all but shapes and
sizes, the opcode."""

_NAMING = frozenset({"origin", "statistics", "metadata"})
_SIZES = frozenset({"slice", "dynamic_slice_sizes", "slice_sizes", "literal", "fft_length", "padding", "window"})


class Keys:
    """Numbers and values that are equal for what is equal in two modules, `ignored` aspects aside."""

    def __init__(self, ignored: frozenset[str]) -> None:
        self.ignored = ignored
        self._labels: dict[Hashable, int] = {}
        self._shapes: dict[Shape, Hashable] = {}
        self._numbers: dict[Computation, int] = {}

    def labels(self, instruction: Instruction) -> tuple[int, int, int, int]:
        """What an instruction is, its operands aside, at each of the `LEVELS`."""
        exact, loose, opcode = self._own(instruction)
        called = instruction.called
        whole = self._intern((exact, *[self.computation(c) for c in called])) if called else exact
        return whole, exact, loose, opcode

    def _own(self, instruction: Instruction) -> tuple[int, int, int]:
        opcode, attributes = instruction.written, self.attributes(instruction)
        words = tuple(attributes.items())
        loose = tuple([item for item in words if item[0] not in _SIZES])
        shape = self.shape(instruction.shape)
        count = len(instruction.operands)
        return self._intern((opcode, shape, count, words)), self._intern((opcode, loose)), self._intern((opcode,))

    def shape(self, shape: Shape) -> Hashable:
        """What counts of a shape; layouts that are left out are the usual ones."""
        found = self._shapes.get(shape)
        if found is None:
            found = shape.without_layout() if "layouts" in self.ignored else with_layouts(shape)
            self._shapes[shape] = found
        return found

    def attributes(self, instruction: Instruction) -> dict[str, Hashable]:
        """What counts of the attributes, by name: not those with their default value, nor which computations are
        called, nor the number of a parameter, which its place among the others says."""
        found: dict[str, Hashable] = {}
        for name, value in usual_attributes(instruction).items():
            if name in (NOTE, WRITTEN, "parameter_number") or (name in _NAMING and "metadata" in self.ignored):
                continue
            if name == "backend_config":
                if "backend-config" not in self.ignored:
                    found[name] = without_places(value) if "metadata" in self.ignored else value
            elif name == "sharding" and isinstance(value, Verbatim) and "metadata" in self.ignored:
                found[name] = without_notes(value.text)
            else:
                found[name] = self._value(value)
        return found

    def computation(self, computation: Computation) -> int:
        """A number that computations have in common which compute the same, one instruction like the other."""
        stack = [computation]
        while stack:
            if stack[-1] in self._numbers:
                stack.pop()
                continue
            missing = [c for c in stack[-1].callees if c not in self._numbers]
            if missing:
                stack += missing
            else:
                one = stack.pop()
                self._numbers[one] = self._intern(self._content(one))
        return self._numbers[computation]

    def header(self, module: Module) -> dict[str, Any]:
        """What counts of the attributes of a module."""
        left_out = {"origin_recovery_table"} if "metadata" in self.ignored else set()
        return {name: value for name, value in module.attributes.items() if name not in left_out}

    def _content(self, computation: Computation) -> Hashable:
        """What the root is computed from, and what nobody reads; wherever that stands."""
        value: dict[Instruction, int] = {}
        effects: dict[int, int] = {}
        unread: list[int] = []
        for instruction in post_order(computation):
            number = instruction.attributes.get("parameter_number")
            operands = [value[operand] for operand in instruction.operands]
            before = sorted([value[one] for one in instruction.control_predecessors])
            called = [self._numbers[callee] for callee in instruction.called]
            found = self._intern((number, self._own(instruction)[0], tuple(operands), tuple(before), tuple(called)))
            if instruction.has("side_effect"):  # twice is not once
                effects[found] = effects.get(found, 0) + 1
                found = self._intern((found, effects[found]))
            value[instruction] = found
            if not instruction.users:
                unread.append(found)
        return (value[computation.root], *sorted(unread))

    def _intern(self, key: Hashable) -> int:
        return self._labels.setdefault(key, len(self._labels))

    def _value(self, value: Any) -> Hashable:
        if isinstance(value, Computation):
            return None
        if isinstance(value, tuple):
            return tuple([item if type(item) in (int, PaddingDimension) else self._value(item) for item in value])
        if isinstance(value, dict):
            return tuple(sorted(value.items()))
        if isinstance(value, float):
            return value.hex()
        if isinstance(value, Literal):
            return self.shape(value.shape.without_layout()) if "constants" in self.ignored else value
        if isinstance(value, Shape):
            return self.shape(value)
        if isinstance(value, ReplicaGroups):
            return value.groups
        result: Hashable = value
        return result
