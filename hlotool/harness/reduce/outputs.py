"""Leave out results of the entry, with what only they need."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.harness.reduce.draft import Draft, Edit, EditFailed
from hlotool.ir import Instruction, Module, Shape

__all__ = ["outputs"]


def outputs(module: Module) -> Sequence[Edit]:
    root = module.entry.root
    if root.opcode != "tuple" or root.users:
        return []
    return [
        Edit((value.name,), _without, (value,)) for value in dict.fromkeys(root.operands)
    ]


def _without(draft: Draft, value: Instruction) -> None:
    entry = draft.module.entry
    root, copy = entry.root, draft.of(value)
    if root.opcode != "tuple":
        raise EditFailed
    left = [operand for operand in root.operands if operand is not copy]
    if not left:
        raise EditFailed
    if len(left) > 1:
        root.set_operands(left)
        root.shape = Shape("tuple", elements=tuple(operand.shape for operand in left))
    else:
        entry.root = left[0]
        draft.loosen(root)
    draft.loosen(copy)
