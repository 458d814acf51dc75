"""Let one parameter of the entry serve for others of its shape."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.harness.reduce.bypass import read_instead
from hlotool.harness.reduce.draft import Edit
from hlotool.ir import Instruction, Module, Shape

__all__ = ["merged_parameters"]


def merged_parameters(module: Module) -> Sequence[Edit]:
    first: dict[Shape, Instruction] = {}
    edits = []
    for parameter in module.entry.parameters:
        other = first.setdefault(parameter.shape, parameter)
        if other is not parameter and _is_ahead(other, parameter):
            edits.append(Edit((parameter.name,), read_instead, (parameter, other)))
    return edits


def _is_ahead(one: Instruction, other: Instruction) -> bool:
    """Whether one stands before the readers of the other."""
    assert one.parent is not None
    if not other.users:
        return True
    for instruction in one.parent:
        if instruction is one:
            return True
        if instruction in other.users:
            return False
    return False
