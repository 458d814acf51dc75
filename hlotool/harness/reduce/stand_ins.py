"""Put constants in the place of instructions of computations that are called, which cannot have more parameters."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.harness.reduce.draft import Draft, Edit
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder

__all__ = ["stand_ins"]

_PLAIN = frozenset({"parameter", "constant", "iota", "broadcast", "tuple", "get-tuple-element", "after-all"})


def stand_ins(module: Module) -> Sequence[Edit]:
    return [
        Edit((computation.name, instruction.name), _constant, (instruction,))
        for computation in module.computations.values()
        if computation is not module.entry
        for instruction in computation
        if instruction.opcode not in _PLAIN and instruction.shape.is_array and instruction.shape.is_static
    ]


def _constant(draft: Draft, instruction: Instruction) -> None:
    copy = draft.of(instruction)
    assert copy.parent is not None
    draft.replace(copy, Builder(copy.parent, copy).splat(0, copy.shape))
