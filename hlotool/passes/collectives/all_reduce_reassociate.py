"""All-reduce reassociation: the sum of what was reduced is what was summed, reduced."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, element_type
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.collectives.all_reduce_combiner import reduction_key
from hlotool.passes.framework.graph import replace_with

__all__ = ["AllReduceReassociate"]

_EXACT = frozenset({"maximum", "minimum", "and", "or", "xor"})


@dataclass(frozen=True, slots=True)
class AllReduceReassociate:
    """Makes ``all-reduce(op(a, b))`` of ``op(all-reduce(a), all-reduce(b))``: one exchange, half of the bytes.

    `op` is what both reduce with, in the same groups, and nothing else reads their results.  Sums and products of
    floats are rounded in another order then: with `exact` they stay.
    """

    name: ClassVar[str] = "all-reduce-reassociate"
    opcodes: ClassVar[frozenset[str]] = frozenset({"all-reduce"})
    exact: bool = False

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.callees_first():
            if "all-reduce" not in computation.opcodes:
                continue
            for instruction in computation:  # the sum of three becomes one from the innermost on
                if len(instruction.operands) == 2 and log.allow():
                    changed |= self._reassociate(instruction, log)
        return changed

    def _reassociate(self, instruction: Instruction, log: DecisionLog) -> bool:
        one, two = instruction.operands
        if one is two or one.opcode != "all-reduce" or two.opcode != "all-reduce":
            return False
        key = reduction_key(one)
        if not isinstance(key, tuple) or key[0] != instruction.opcode or key != reduction_key(two):
            return False
        if one.shape != two.shape or len(one.users) > 1 or len(two.users) > 1 or one.is_root or two.is_root:
            return False
        if instruction.control_predecessors or instruction.control_successors:
            return False
        row = element_type(instruction.shape.element_type)
        if self.exact and instruction.opcode not in _EXACT and not row.is_integer:
            log.refuse("rounded", instruction, "the order of roundings would be another one")
            return False
        assert instruction.parent is not None
        build = Builder(instruction.parent, instruction, like=instruction)
        together = build.binary(instruction.opcode, one.operands[0], two.operands[0])
        result = build.add("all-reduce", one.shape, (together,), one.attributes)
        log.rewrite("reassociate", (one, two, instruction), result, "one exchange", bytes=one.shape.byte_size)
        replace_with(instruction, result)
        for old in (one, two):
            old.parent.erase(old)  # type: ignore[union-attr]  # both were in the computation of their reader
        return True
