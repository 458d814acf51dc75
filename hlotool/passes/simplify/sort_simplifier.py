"""Sort fewer arrays."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, clone_computation, tuple_shape
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.framework.graph import drop_dead, has_sizes
from hlotool.passes.framework.rewriter import Rewriter

__all__ = ["SortSimplifier"]


@dataclass(frozen=True, slots=True)
class SortSimplifier:
    """Drops the operands of a sort whose sorted values nobody reads and that the comparator does not look at."""

    name: ClassVar[str] = "sort-simplifier"
    opcodes: ClassVar[frozenset[str]] = frozenset({"sort"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for sort in calls_of(module, "sort"):
            if len(sort.operands) > 1 and not has_sizes(sort):
                changed |= _narrow(sort, module, log)
        if changed:
            module.remove_unreachable()
        return changed


def _narrow(sort: Instruction, module: Module, log: DecisionLog) -> bool:
    readers = list(sort.users)
    comparator: Computation = sort.attributes["to_apply"]
    if sort.is_root or not readers or any(r.opcode != "get-tuple-element" for r in readers):
        return False
    needed = {int(r.attributes["index"]) for r in readers}
    parameters = comparator.parameters
    needed |= {p.parameter_number // 2 for p in parameters if p.users or p.is_root}
    kept = sorted(needed)
    if len(kept) == len(sort.operands) or not log.allow():
        return False
    narrow_comparator = module.add(clone_computation(comparator))
    for parameter in narrow_comparator.parameters:
        if parameter.parameter_number // 2 not in needed:
            narrow_comparator.erase(parameter)
    narrow_comparator.renumber_parameters()
    operands = [sort.operands[i] for i in kept]
    shapes = [sort.shape.elements[i] for i in kept]
    shape = shapes[0] if len(kept) == 1 else tuple_shape(shapes)
    attributes = {**sort.attributes, "to_apply": narrow_comparator}
    narrow = Rewriter(sort).make("sort", shape, *operands, **attributes)
    log.rewrite("unused-operands", sort, narrow, operands=len(sort.operands), kept=len(kept))
    for reader in readers:
        position = kept.index(reader.attributes["index"])
        if len(kept) == 1:
            reader.replace_all_uses(narrow)
            drop_dead(reader)
        else:
            reader.set_operands([narrow])
            reader.attributes["index"] = position
    drop_dead(sort)
    return True
