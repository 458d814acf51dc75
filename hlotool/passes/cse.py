"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fingerprint import attributes_key, computation_key
from hlotool.ir import Computation, Instruction, Module
from hlotool.passes.graph import is_pure

__all__ = ["CommonSubexpressionElimination", "StructureNumbers", "structure_numbers"]

_NEVER = frozenset({"parameter", "opt-barrier", "rng", "after-all", "add-dependency", "call"})


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
        numbering = StructureNumbers()
        for computation in module.callees_first():
            changed |= _merge(computation, numbering.known, pure, log)
            numbering.add(computation)
        return changed


class StructureNumbers:
    """A number for each computation given to `add`, callees first; equal numbers mean equal structure."""

    __slots__ = ("_numbers", "known")

    def __init__(self) -> None:
        self.known: dict[Computation, Hashable] = {}
        self._numbers: dict[Hashable, int] = {}

    def add(self, computation: Computation) -> None:
        key = computation_key(computation, self.known)
        self.known[computation] = self._numbers.setdefault(key, len(self._numbers))


def structure_numbers(module: Module) -> dict[Computation, Hashable]:
    """A number for each computation that the entry reaches; equal numbers mean equal structure."""
    numbering = StructureNumbers()
    for computation in module.callees_first():
        numbering.add(computation)
    return numbering.known


def _merge(
    computation: Computation, structures: dict[Computation, Hashable], pure: dict[Computation, bool], log: DecisionLog
) -> bool:
    changed = False
    seen: dict[Hashable, Instruction] = {}
    for instruction in computation:
        if not _may_merge(instruction, pure):
            continue
        first = seen.setdefault(_key(instruction, structures), instruction)
        if first is instruction or not log.allow():
            continue
        log.rewrite("same", instruction, first)
        instruction.replace_all_uses(first)
        computation.erase(instruction)
        changed = True
    return changed


def _may_merge(instruction: Instruction, pure: dict[Computation, bool]) -> bool:
    return (
        instruction.opcode not in _NEVER
        and not instruction.control_predecessors
        and not instruction.control_successors
        and not (instruction.opcode == "constant" and instruction.literal.elided)
        and is_pure(instruction, pure)
    )


def _key(instruction: Instruction, structures: dict[Computation, Hashable]) -> Hashable:
    operands = [id(operand) for operand in instruction.operands]
    if instruction.has("commutative"):
        operands.sort()
    return (
        instruction.opcode,
        instruction.shape,
        tuple(operands),
        attributes_key(instruction.attributes, structures),
    )
