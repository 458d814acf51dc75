"""Constant folding, with a budget."""

from __future__ import annotations

from math import prod
from typing import ClassVar

import numpy as np

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, HloError, Instruction, Literal, Module, dtype_of
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import drop_dead
from hlotool.passes.framework.rewriter import Rewriter

__all__ = ["ConstantFolding"]

_GROUPS = frozenset({
    "elementwise", "data-movement", "reduction", "dot", "gather", "sort", "linalg",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConstantFolding:
    """Computes at compile time what only depends on constants, with the reference evaluator.

    Broadcasts and iotas stay symbolic: they cost nothing and fold into whatever reads them.  Results above
    `max-elements` and work above `max-work` (scalar operations, estimated) stay for run time, so that compile time
    and the size of the program stay small; each is recorded as a refusal.
    """

    name: ClassVar[str] = "constant-folding"
    max_elements: int = 65536
    max_work: int = 4_000_000

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.callees_first():
            changed |= self._fold(computation, log)
        return changed

    def _fold(self, computation: Computation, log: DecisionLog) -> bool:
        changed = False
        for instruction in computation:
            if not _is_foldable(instruction) or not self._is_affordable(instruction, log) or not log.allow():
                continue
            value = _evaluate(instruction, log)
            if value is None:
                continue
            constant = Rewriter(instruction).make("constant", instruction.shape, literal=value)
            log.rewrite("fold", instruction, constant, instruction.opcode, elements=instruction.shape.size)
            instruction.replace_all_uses(constant)
            drop_dead(instruction)
            changed = True
        return changed

    def _is_affordable(self, instruction: Instruction, log: DecisionLog) -> bool:
        elements = max(instruction.shape.size, *(o.shape.size for o in instruction.operands))
        if instruction.shape.size > self.max_elements:
            log.refuse("too-large", instruction, "the constant would be too large", elements=instruction.shape.size)
            return False
        work = _work(instruction, elements)
        if work > self.max_work:
            log.refuse("too-much-work", instruction, "folding would take too long", work=work)
            return False
        return True


def _is_foldable(instruction: Instruction) -> bool:
    return (
        bool(instruction.operands)
        and instruction.operands[0].opcode == "constant"  # most are out
        and instruction.info.group in _GROUPS
        and instruction.shape.is_array
        and instruction.shape.is_static
        and not instruction.control_predecessors
        and not instruction.control_successors
        and all(o.opcode == "constant" and not o.literal.elided and o.shape.is_array for o in instruction.operands)
    )


def _work(instruction: Instruction, elements: int) -> int:
    """Scalar operations that evaluating `instruction` takes, roughly."""
    first = instruction.operands[0].shape
    if instruction.opcode in ("dot", "ragged-dot", "scaled-dot"):
        contracted = instruction.attributes.get("lhs_contracting_dims", ())
        return instruction.shape.size * int(prod(first.dimensions[d] for d in contracted))
    if instruction.opcode == "convolution":
        return instruction.shape.size * instruction.operands[1].shape.size
    if instruction.opcode in ("reduce-window", "select-and-scatter"):
        return elements * int(prod(d.size for d in instruction.attributes["window"].dimensions))
    if instruction.opcode in ("cholesky", "triangular-solve"):
        return elements * max(first.dimensions, default=1)
    called = sum(len(callee) for callee in instruction.called)
    return elements * max(1, called)


def _evaluate(instruction: Instruction, log: DecisionLog) -> Literal | None:
    from hlotool.evaluate import evaluate_instruction

    try:
        value = evaluate_instruction(instruction, [o.literal.value() for o in instruction.operands])
    except HloError as error:
        log.refuse("not-evaluated", instruction, error.message)
        return None
    array = np.asarray(value)
    if array.shape != instruction.shape.dimensions or array.dtype != dtype_of(instruction.shape.element_type):
        log.refuse("not-evaluated", instruction, f"the evaluator returned {array.dtype}{list(array.shape)}")
        return None
    return Literal(instruction.shape, np.ascontiguousarray(array).reshape(array.shape))
