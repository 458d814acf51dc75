"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fingerprint import Structures
from hlotool.ir import OPCODES, Computation, Instruction, Module
from hlotool.passes.graph import is_pure

__all__ = ["CommonSubexpressionElimination"]

_NEVER = frozenset({"parameter", "opt-barrier", "rng", "after-all", "add-dependency", "call"})
_COMMUTATIVE = frozenset(name for name, row in OPCODES.items() if "commutative" in row.traits)


@dataclass(frozen=True, slots=True)
class CommonSubexpressionElimination:
    """Lets equal instructions be computed once.

    Equal means: same opcode, shape, operands, attributes and constants, and called computations of the same
    structure.  Side effects, random numbers, collectives, barriers and instructions with control dependencies are
    never merged.  Linear in the size of the module (hash-based value numbering within each computation).
    """

    name: ClassVar[str] = "cse"

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        pure: dict[Computation, bool] = {}
        structures = Structures()
        for computation in module.callees_first():
            changed |= _merge(computation, structures, pure, log)
        return changed


def _merge(computation: Computation, structures: Structures, pure: dict[Computation, bool], log: DecisionLog) -> bool:
    changed = False
    rough: dict[Hashable, Instruction | None] = {}  # the one with a rough key; None once there are several
    exact: dict[Hashable, Instruction] = {}  # the first of those that share their rough keys
    for instruction in computation:
        if not _may_merge(instruction):
            continue
        rough_key = _rough_key(instruction)
        if rough_key not in rough:
            rough[rough_key] = instruction
            continue
        only = rough[rough_key]
        if only is not None:
            exact[rough_key, structures.attributes(only.attributes)] = only
            rough[rough_key] = None
        first = exact.setdefault((rough_key, structures.attributes(instruction.attributes)), instruction)
        if first is instruction or not is_pure(instruction, pure) or not log.allow():
            continue
        log.rewrite("same", instruction, first)
        instruction.replace_all_uses(first)
        computation.erase(instruction)
        changed = True
    return changed


def _may_merge(instruction: Instruction) -> bool:
    return (
        instruction.opcode not in _NEVER
        and not instruction.control_predecessors
        and not instruction.control_successors
        and not (instruction.opcode == "constant" and instruction.literal.elided)
    )


def _rough_key(instruction: Instruction) -> Hashable:
    """What equal instructions have in common, all but their attributes: few others have, so few of these are looked at.
    """
    opcode = instruction.opcode
    if opcode == "constant":
        return instruction.shape, instruction.literal
    operands = instruction.operands
    if opcode in _COMMUTATIVE:
        operands = sorted(operands, key=id)
    return opcode, instruction.shape, *operands
