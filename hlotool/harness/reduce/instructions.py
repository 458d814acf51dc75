"""Cut instructions out of the entry: who reads one reads a parameter instead, and what it reads becomes a result.

Whatever is left is a module, so that half of the entry goes as easily as a single instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.harness.reduce.draft import Draft, Edit
from hlotool.ir import Module

__all__ = ["instructions"]


def instructions(module: Module) -> Sequence[Edit]:
    entry = module.entry
    return [
        Edit((instruction.name,), Draft.drop, (instruction,))
        for instruction in entry
        if not (instruction.opcode == "parameter" and (instruction.users or instruction.is_root))
        and not (instruction.opcode == "tuple" and instruction.is_root)
    ]
