"""Structural identity: two things with the same fingerprint compute the same function of their operands.

Names, metadata, locations and origins do not count.  Linear in the size of what is asked about.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from hlotool.ir import Computation, Instruction

__all__ = ["attributes_key", "computation_key", "instruction_key"]

_IGNORED = frozenset({"metadata", "frontend_attributes", "sharding", "origin", "statistics", "control-predecessors"})


def attributes_key(
    attributes: Mapping[str, Any], computations: dict[Computation, Hashable], ignored: frozenset[str] = _IGNORED
) -> Hashable:
    """A hashable value that is equal for attributes with the same meaning."""
    names = [name for name in sorted(attributes) if name not in ignored]
    return tuple((name, _value_key(attributes[name], computations)) for name in names)


def _value_key(value: Any, computations: dict[Computation, Hashable]) -> Hashable:
    if isinstance(value, Computation):
        return computation_key(value, computations)
    if isinstance(value, tuple):
        return tuple(_value_key(v, computations) for v in value)
    if isinstance(value, dict):
        return tuple(sorted(value.items()))
    if isinstance(value, float):
        return value.hex()
    result: Hashable = value
    return result


def computation_key(computation: Computation, known: dict[Computation, Hashable] | None = None) -> Hashable:
    """The structure of a computation: its instructions in order, operands by position."""
    known = {} if known is None else known
    if computation not in known:
        numbers: dict[Instruction, int] = {}
        rows: list[Hashable] = []
        for number, instruction in enumerate(computation):
            numbers[instruction] = number
            rows.append(
                (
                    instruction.opcode,
                    instruction.shape,
                    tuple(numbers[o] for o in instruction.operands),
                    attributes_key(instruction.attributes, known),
                )
            )
        known[computation] = (numbers[computation.root], *rows)
    return known[computation]


def instruction_key(instruction: Instruction, known: dict[Computation, Hashable] | None = None) -> Hashable:
    """The structure of one instruction given its operands: opcode, shapes, attributes, called computations."""
    known = {} if known is None else known
    positions: dict[Instruction, int] = {}
    return (
        instruction.opcode,
        instruction.shape,
        tuple(o.shape for o in instruction.operands),
        tuple(positions.setdefault(o, len(positions)) for o in instruction.operands),
        attributes_key(instruction.attributes, known),
    )
