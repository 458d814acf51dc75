"""Copy insertion: results of loops, branches and the program that need storage of their own get it."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["CopyInsertion"]

_READ_ONLY = frozenset({"parameter", "constant"})
_VIEWS = frozenset({"get-tuple-element", "bitcast", "reshape", "opt-barrier"})


@dataclass(frozen=True, slots=True)
class CopyInsertion:
    """Inserts a copy where two values that must differ in storage are one, as XLA's pass of this name does.

    That is: a parameter or constant among the results of the entry or of a branch, a value that a result tuple
    holds twice, and loop state that moves to another place of the state tuple.  Copies that only live
    ranges ask for are the business of buffer assignment.
    """

    name: ClassVar[str] = "copy-insertion"

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = _separate(module.entry, log, "the program may not hand out its arguments")
        calls = [call for computation in module.computations.values() for call in computation.calls]
        for instruction in calls:
            if instruction.opcode == "while":
                changed |= _separate(instruction.attributes["body"], log, "loop state moves", loop=True)
            elif instruction.opcode == "conditional":
                for branch in instruction.called:
                    changed |= _separate(branch, log, "a branch gives storage of its own")
        return changed


def _separate(computation: Computation, log: DecisionLog, reason: str, loop: bool = False) -> bool:
    """Copy the root's elements that are read-only, repeated, or (in a loop) state of another place."""
    root = computation.root
    if root.opcode != "tuple":
        if loop or not root.shape.is_array or _source(root).opcode not in _READ_ONLY or not log.allow():
            return False
        computation.root = _copy(computation, root, None, log, reason)
        return True
    seen: set[Instruction] = set()
    changed = False
    for index, operand in enumerate(list(root.operands)):
        source = _source(operand)
        stays = loop and source.opcode == "parameter" and _state_index(operand) == index
        read_only = source.opcode in _READ_ONLY and not stays
        if operand.shape.is_array and (read_only or operand in seen) and log.allow():
            root.replace_operand(index, _copy(computation, operand, root, log, reason))
            changed = True
        seen.add(operand)
    return changed


def _copy(
    computation: Computation, value: Instruction, before: Instruction | None, log: DecisionLog, reason: str
) -> Instruction:
    copy = Instruction(
        "copy", value.shape, [value], None, "", value.metadata, value.location, value.origins or (value.name,)
    )
    computation.add(copy, before=before)
    log.rewrite("copy", value, copy, reason)
    return copy


def _source(instruction: Instruction) -> Instruction:
    """The instruction whose storage a chain of views reads."""
    while instruction.opcode in _VIEWS:
        instruction = instruction.operands[0]
    return instruction


def _state_index(instruction: Instruction) -> int | None:
    """Which element of the loop state a view of the body's parameter is; None when it is reshaped or nested."""
    if instruction.opcode != "get-tuple-element" or instruction.operands[0].opcode != "parameter":
        return None
    index: int = instruction.attributes["index"]
    return index
