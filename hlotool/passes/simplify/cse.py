"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fingerprint import Structures
from hlotool.ir import OPCODES, Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import is_pure

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
        rough_key = _rough_key(instruction)
        if rough_key is None:
            continue
        only = rough.setdefault(rough_key, instruction)
        if only is instruction:
            continue
        if only is not None:
            exact[_exact_key(only, rough_key, structures)] = only
            rough[rough_key] = None
        first = exact.setdefault(_exact_key(instruction, rough_key, structures), instruction)
        if first is instruction or not is_pure(instruction, pure) or not log.allow():
            continue
        log.rewrite("same", instruction, first)
        instruction.replace_all_uses(first)
        computation.erase(instruction)
        changed = True
    return changed


def _rough_key(instruction: Instruction) -> Hashable | None:
    """What equal instructions have in common and few others have, so that the rest of these is looked at seldom.

    None for what is merged with no other.
    """
    opcode, operands = instruction.opcode, instruction.operands
    if opcode in _NEVER or instruction.control_predecessors or instruction.control_successors:
        return None
    if opcode == "constant":
        return None if instruction.literal.elided else (instruction.shape, instruction.literal)
    if opcode == "get-tuple-element":
        return opcode, operands[0], instruction.attributes["index"]
    if not operands:
        return opcode, instruction.shape
    if len(operands) == 2 and opcode in _COMMUTATIVE:
        left, right = operands
        return (opcode, left, right) if id(left) <= id(right) else (opcode, right, left)
    return opcode, *operands


def _exact_key(instruction: Instruction, rough_key: Hashable, structures: Structures) -> Hashable:
    return rough_key, instruction.shape, structures.attributes(instruction.attributes)
