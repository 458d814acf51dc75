"""Give every loop, branch and call a computation of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Module, clone_computation

__all__ = ["FlattenCallGraph"]

_OWNERS = frozenset({"while", "conditional", "call", "fusion"})


@dataclass(frozen=True, slots=True)
class FlattenCallGraph:
    """Copies computations that several loops, conditionals, calls or fusions share.

    Later passes may then change a body for its one caller.  Reducers and comparators stay shared.  Calls are left
    shared when `calls` is false (the default: the inliner copies them anyway).
    """

    name: ClassVar[str] = "flatten-call-graph"
    calls: bool = False

    def run(self, module: Module, log: DecisionLog) -> bool:
        taken: set[Computation] = set()
        changed = False
        for caller in reversed(module.callees_first()):  # callers first: copies are visited in their turn
            changed |= self._flatten(caller, taken, module, log)
        if changed:
            module.remove_unreachable()
        return changed

    def _flatten(self, caller: Computation, taken: set[Computation], module: Module, log: DecisionLog) -> bool:
        changed = False
        stack = [caller]
        while stack:
            computation = stack.pop()
            if not computation.callees:
                continue
            for instruction in computation:
                if instruction.opcode not in _OWNERS or (instruction.opcode == "call" and not self.calls):
                    continue

                def own(callee: Computation) -> Computation:
                    if callee not in taken or not log.allow():
                        taken.add(callee)
                        return callee
                    copy = module.add(clone_computation(callee))
                    taken.add(copy)
                    stack.append(copy)
                    log.rewrite("copy", callee.name, copy.name, "it has several callers")
                    return copy

                before = instruction.called
                instruction.replace_called(own)
                changed |= before != instruction.called
        return changed
