"""Which called computations are arithmetic on scalars, so that they can stand in line in the code of a loop."""

from __future__ import annotations

from hlotool.ir import Computation

__all__ = ["MOVES", "can_inline"]

MOVES = frozenset({"broadcast", "reshape", "bitcast", "copy", "transpose"})
"""Opcodes that leave a single element as it is."""


def can_inline(computation: Computation) -> bool:
    """Whether every instruction of `computation` gives single elements and is elementwise, or moves them."""
    seen, waiting = {computation}, [computation]
    while waiting:
        for instruction in waiting.pop():
            if instruction.opcode in ("parameter", "constant", "tuple", "get-tuple-element"):
                continue
            if not all(leaf.size == 1 and leaf.is_array for leaf in instruction.shape.leaves()):
                return False
            if instruction.opcode == "call":
                called = instruction.attributes["to_apply"]
                if called not in seen:
                    seen.add(called)
                    waiting.append(called)
            elif instruction.opcode not in MOVES and not instruction.has("elementwise"):
                return False
    return True
