"""Let those who read an instruction read one of its operands, of the same shape, instead."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.harness.reduce.draft import Draft, Edit
from hlotool.ir import Instruction, Module

__all__ = ["bypasses", "read_instead"]


def bypasses(module: Module) -> Sequence[Edit]:
    edits = []
    for computation in module.computations.values():
        for instruction in computation:
            for operand in dict.fromkeys(instruction.operands):
                if operand.shape.compatible(instruction.shape):
                    key = (computation.name, instruction.name, operand.name)
                    edits.append(Edit(key, read_instead, (instruction, operand)))
    return edits


def read_instead(draft: Draft, instruction: Instruction, other: Instruction) -> None:
    """Let `other` serve for `instruction`."""
    draft.replace(draft.of(instruction), draft.of(other))
