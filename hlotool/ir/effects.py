"""Which instructions do more than to give a result."""

from __future__ import annotations

from hlotool.ir.module import Computation, Instruction
from hlotool.ir.opcodes import CALLING, OPCODES

__all__ = ["ENDLESS", "is_pure", "is_pure_computation"]

ENDLESS = ("endless", "keep")
"""The entry of ``frontend_attributes`` of a loop that may never end, and has to stay for that: not to end is an effect.
Other loops are taken to end, as XLA takes them: those whose results nobody reads are removed."""

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
    if instruction.opcode == "while" and _is_kept(instruction):
        return False
    known = {} if known is None else known
    return all(is_pure_computation(callee, known) for callee in instruction.called)


def _is_kept(loop: Instruction) -> bool:
    attributes = loop.attributes.get("frontend_attributes")
    return isinstance(attributes, dict) and attributes.get(ENDLESS[0]) == ENDLESS[1]


def is_pure_computation(computation: Computation, known: dict[Computation, bool]) -> bool:
    """Whether all its instructions are pure."""
    if computation not in known:
        pure = _IMPURE.isdisjoint(computation.opcodes)
        known[computation] = pure and all(is_pure(call, known) for call in computation.calls)
    return known[computation]
