"""Leave out what says where instructions come from, where they lie, and in which order they run."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.harness.reduce.draft import Draft, Edit
from hlotool.ir import Instruction, Module

__all__ = ["notes"]

_NOTES = ("backend_config", "frontend_attributes", "origin", "sharding", "statistics")
_STRUCTURE = ("replica_count", "num_partitions", "is_scheduled")


def notes(module: Module) -> Sequence[Edit]:
    edits = [Edit(("module",), _bare)]
    for computation in module.computations.values():
        for instruction in computation:
            key = (computation.name, instruction.name)
            if instruction._metadata is not None:
                edits.append(Edit(("metadata", *key), _forget, (instruction,)))
            if any(name in instruction.attributes for name in _NOTES):
                edits.append(Edit(("notes", *key), _plain, (instruction,)))
            if instruction.control_predecessors:
                edits.append(Edit(("order", *key), _unordered, (instruction,)))
            if any(leaf.layout is not None for leaf in instruction.shape.leaves()):
                edits.append(Edit(("layout", *key), _flat, (instruction,)))
    edits.sort(key=lambda edit: edit.key[0])  # of one kind together
    return edits


def _bare(draft: Draft) -> None:
    module = draft.module
    module.attributes = {name: value for name, value in module.attributes.items() if name in _STRUCTURE}
    module.stack_frames = None


def _forget(draft: Draft, instruction: Instruction) -> None:
    draft.of(instruction).metadata = None


def _plain(draft: Draft, instruction: Instruction) -> None:
    for name in _NOTES:
        draft.of(instruction).attributes.pop(name, None)


def _unordered(draft: Draft, instruction: Instruction) -> None:
    copy = draft.of(instruction)
    for before in list(copy.control_predecessors):
        copy.remove_control_predecessor(before)


def _flat(draft: Draft, instruction: Instruction) -> None:
    copy = draft.of(instruction)
    copy.shape = copy.shape.without_layout()
