"""Simplify conditionals."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fingerprint import Structures
from hlotool.ir import Computation, Instruction, Module, tuple_shape
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.framework.graph import drop_dead, inline_computation, made_from
from hlotool.passes.framework.patterns import number
from hlotool.passes.simplify.dce import sweep

__all__ = ["ConditionalSimplifier", "branches_of"]


@dataclass(frozen=True, slots=True)
class ConditionalSimplifier:
    """Replaces a conditional by its branch where only one can run or all are equal; drops results nobody reads."""

    name: ClassVar[str] = "conditional-simplifier"
    opcodes: ClassVar[frozenset[str]] = frozenset({"conditional"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        callers = module.callers()
        for conditional in calls_of(module, "conditional"):
            changed |= _choose(conditional, log) or _narrow(conditional, callers, log)
        if changed:
            module.remove_unreachable()
        return changed


def branches_of(conditional: Instruction) -> list[Computation]:
    """The branches in order; a predicate runs the first when true."""
    if "branch_computations" in conditional.attributes:
        return list(conditional.attributes["branch_computations"])
    return [conditional.attributes["true_computation"], conditional.attributes["false_computation"]]


def _choose(conditional: Instruction, log: DecisionLog) -> bool:
    """Inline the one branch that can run."""
    branches = branches_of(conditional)
    chosen = _known_branch(conditional, len(branches))
    reason = "the branch is known"
    if chosen is None and _all_equal(conditional, branches):
        chosen, reason = 0, "all branches are equal"
    if chosen is None or not log.allow():
        return False
    result = inline_computation(conditional, branches[chosen], [conditional.operands[1 + chosen]])
    log.rewrite("one-branch", conditional, result, reason, branch=chosen)
    conditional.replace_all_uses(result)
    assert conditional.parent is not None
    operands = conditional.operands
    conditional.parent.erase(conditional)
    for operand in operands:
        drop_dead(operand)
    return True


def _known_branch(conditional: Instruction, count: int) -> int | None:
    selector = conditional.operands[0]
    value = number(selector)
    if value is None:
        return 0 if count == 1 else None
    if selector.shape.element_type == "pred":
        return 0 if value else 1
    index = int(value.real)
    return index if 0 <= index < count else count - 1


def _all_equal(conditional: Instruction, branches: list[Computation]) -> bool:
    if any(operand is not conditional.operands[1] for operand in conditional.operands[1:]):
        return False
    if any(len(branch) != len(branches[0]) for branch in branches):
        return False
    structures = Structures()
    return len({structures.number(branch) for branch in branches}) == 1


def _narrow(conditional: Instruction, callers: dict[Computation, list[Instruction]], log: DecisionLog) -> bool:
    """Drop the elements of the result tuple that nobody reads from every branch."""
    branches = branches_of(conditional)
    readers = list(conditional.users)
    if (
        not conditional.shape.is_tuple
        or conditional.is_root
        or not readers
        or any(reader.opcode != "get-tuple-element" for reader in readers)
        or any(len(callers.get(b, ())) > 1 or b.root.opcode != "tuple" for b in branches)
        or len(set(branches)) < len(branches)
    ):
        return False
    used = sorted({int(reader.attributes["index"]) for reader in readers})
    total = len(conditional.shape.elements)
    if len(used) == total or not log.allow():
        return False
    shape = tuple_shape([conditional.shape.elements[i] for i in used])
    for branch in branches:
        old = branch.root
        narrow = tuple_shape([old.shape.elements[i] for i in used])
        root = made_from(old, "tuple", narrow, [old.operands[i] for i in used])
        branch.root = branch.add_after(root, old)
        drop_dead(old)
        sweep(branch, {}, log, record=False)
    log.rewrite("unused-results", conditional, conditional, results=total, kept=len(used))
    conditional.shape = shape
    for reader in readers:
        reader.attributes["index"] = used.index(reader.attributes["index"])
    return True
