"""Dead code elimination."""

from __future__ import annotations

from typing import Any, ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, tuple_shape
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import erase, is_removable, made_from

__all__ = ["DeadCodeElimination"]


@dataclass(frozen=True, slots=True)
class DeadCodeElimination:
    """Removes what nothing needs.

    Unused instructions without side effects, unused parameters and unused results of fusions (where the fusion is
    the only caller of its computation), unused parameters of calls, and computations that nothing calls.
    """

    name: ClassVar[str] = "dce"

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        pure: dict[Computation, bool] = {}
        callers = module.callers()
        for computation in reversed(module.callees_first()):  # a narrowed callee is swept in its turn
            changed |= sweep(computation, pure, log)
            narrowed = False
            for call in computation.calls:
                if call.opcode in ("fusion", "call") and _owns(call, callers):
                    if call.opcode == "fusion":
                        narrowed |= _narrow_results(call, pure, log)
                    narrowed |= _narrow_parameters(call, pure, log)
            if narrowed:  # which left operands unused
                changed = True
                sweep(computation, pure, log)
        return module.remove_unreachable() or changed


def sweep(computation: Computation, pure: dict[Computation, bool], log: DecisionLog, record: bool = True) -> bool:
    """Erase the dead instructions of one computation: one walk from the end.

    Without `record` it is part of another rewrite: it takes place in any case and is not logged.
    """
    changed = False
    for instruction in reversed(computation):
        if instruction.users:  # which is most often so, and is quickly seen
            continue
        if is_removable(instruction, pure) and (not record or log.allow()):
            if record:
                log.rewrite("dead", instruction, (), "nothing reads it")
            erase(instruction)
            changed = True
    return changed


def _owns(instruction: Instruction, callers: dict[Computation, list[Instruction]]) -> bool:
    called = instruction.called
    return len(called) == 1 and len(callers[called[0]]) == 1


def _narrow_results(fusion: Instruction, pure: dict[Computation, bool], log: DecisionLog) -> bool:
    """Drop the elements of a fusion's result tuple that no get-tuple-element reads."""
    callee = fusion.called[0]
    readers = list(fusion.users)
    if (
        not fusion.shape.is_tuple
        or callee.root.opcode != "tuple"
        or fusion.is_root
        or not readers
        or "output_to_operand_aliasing" in fusion.attributes
        or any(reader.opcode != "get-tuple-element" for reader in readers)
    ):
        return False
    used = sorted({int(reader.attributes["index"]) for reader in readers})
    if len(used) == len(fusion.shape.elements) or len(used) < 2 or not log.allow():
        return False
    old_root = callee.root
    shape = tuple_shape([fusion.shape.elements[i] for i in used])
    root = made_from(old_root, "tuple", shape, [old_root.operands[i] for i in used])
    callee.add_after(root, old_root)
    callee.root = root
    callee.erase(old_root)
    log.rewrite("unused-results", fusion, fusion, results=len(fusion.shape.elements), kept=len(used))
    fusion.shape = root.shape
    for reader in readers:
        reader.attributes["index"] = used.index(reader.attributes["index"])
    sweep(callee, pure, log, record=False)
    return True


def _narrow_parameters(caller: Instruction, pure: dict[Computation, bool], log: DecisionLog) -> bool:
    """Drop the parameters that the only callee does not read, and the operands given to them."""
    callee = caller.called[0]
    if "output_to_operand_aliasing" in caller.attributes:
        return False
    changed = sweep(callee, pure, log)
    unused = {p.parameter_number for p in callee.parameters if not p.users and not p.is_root}
    if not unused or not log.allow():
        return changed
    for parameter in callee.parameters:
        if parameter.parameter_number in unused:
            callee.erase(parameter)
    callee.renumber_parameters()
    kept: list[Any] = [o for number, o in enumerate(caller.operands) if number not in unused]
    caller.set_operands(kept)
    log.rewrite("unused-parameters", caller, caller, parameters=len(unused))
    return True
