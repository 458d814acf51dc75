"""Structural equality of modules."""

from __future__ import annotations

import struct
from typing import Any

from hlotool.ir import Computation, Instruction, Module

__all__ = ["difference", "same"]


def same(a: Module, b: Module) -> bool:
    """Whether two modules are equal in everything that the text says: names, shapes, attributes, literal bits."""
    return difference(a, b) is None


def difference(a: Module, b: Module) -> str | None:
    """The first difference in words, None when there is none."""
    if (a.name, a.stack_frames) != (b.name, b.stack_frames) or _key(a.attributes) != _key(b.attributes):
        return "the module headers differ"
    if list(a.computations) != list(b.computations):
        return "the computations differ in name or order"
    if a.entry.name != b.entry.name:
        return "the entry computations differ"
    for name, computation in a.computations.items():
        found = _computations(computation, b.computations[name])
        if found is not None:
            return found
    return None


def _computations(a: Computation, b: Computation) -> str | None:
    if len(a) != len(b):
        return f"computation {a.name} has {len(a)} instructions, {len(b)} in the other"
    if a.root.name != b.root.name or a.execution_thread != b.execution_thread:
        return f"computation {a.name} has another root or thread"
    for one, other in zip(a, b, strict=True):
        if _instruction(one) != _instruction(other):
            return f"instruction {one.name} of computation {a.name} differs"
    return None


def _instruction(i: Instruction) -> tuple[Any, ...]:
    operands = [operand.name for operand in i.operands]
    before = [predecessor.name for predecessor in i.control_predecessors]
    return i.name, i.opcode, i.shape, operands, _key(i.attributes), before, i.metadata


def _key(value: Any) -> Any:
    """A value for comparison: computations by name, floats by bits."""
    if isinstance(value, Computation):
        return ("computation", value.name)
    if isinstance(value, dict):
        return {key: _key(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return (type(value).__name__, *map(_key, value))
    if isinstance(value, float):
        return struct.pack("<d", value)
    return (type(value).__name__, value)
