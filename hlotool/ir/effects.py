"""Which instructions do more than to give a result."""

from __future__ import annotations

from hlotool.ir.module import Computation, Instruction
from hlotool.ir.opcodes import CALLING, OPCODES

__all__ = ["is_pure"]

_EFFECTS = frozenset({"side_effect", "collective", "async"})
_IMPURE = frozenset(name for name, row in OPCODES.items() if row.traits & _EFFECTS) | {
    "domain", "partition-id", "replica-id"
}  # fmt: skip


def is_pure(instruction: Instruction, known: dict[Computation, bool] | None = None) -> bool:
    """Whether running the instruction again, or not at all, makes no difference but for its result.

    `known` keeps the answers for computations between calls.
    """
    if instruction.opcode in _IMPURE:
        return False
    if instruction.opcode not in CALLING:
        return True
    if instruction.opcode == "custom-call" and instruction.attributes.get("custom_call_has_side_effect"):
        return False
    known = {} if known is None else known
    return all(_is_pure_computation(callee, known) for callee in instruction.called)


def _is_pure_computation(computation: Computation, known: dict[Computation, bool]) -> bool:
    if computation not in known:
        known[computation] = all(is_pure(instruction, known) for instruction in computation)
    return known[computation]
