"""Give every loop, branch and call a computation of its own."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, clone_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import room_to_grow

__all__ = ["FlattenCallGraph"]

_OWNERS = frozenset({"while", "conditional", "call", "fusion"})
_WRAPPED = frozenset({"while", "conditional"})


@dataclass(frozen=True, slots=True)
class FlattenCallGraph:
    """Copies computations that several loops, conditionals, calls or fusions share.

    Later passes may then change a body for its one caller.  Reducers and comparators stay shared.  Calls are left
    shared when `calls` is false (the default: the inliner copies what should be).  Where copies would use up the
    module's room to grow, which is as much as it has and `max-growth` instructions (branches of branches double it
    level by level), each loop and branch gets a computation that calls the shared one, which is compiled once, as a
    function.
    """

    name: ClassVar[str] = "flatten-call-graph"
    calls: bool = False
    max_growth: int = 500

    def run(self, module: Module, log: DecisionLog) -> bool:
        order = module.callees_first()
        called = (i for c in order for i in c.calls if i.opcode == "call")
        taken: set[Computation] = set() if self.calls else {i.attributes["to_apply"] for i in called}
        shared: dict[Computation, None] = {}
        room = room_to_grow(module, self.max_growth)
        changed = False
        for caller in reversed(order):  # callers first: copies are visited in their turn
            copies = self._flatten(caller, taken, shared, module, room, log)
            room -= copies
            changed |= copies > 0
        if shared:
            callers = module.callers()
            for callee in shared:
                _share(callee, callers[callee], module, log)
        if changed or shared:
            module.remove_unreachable()
        return changed or bool(shared)

    def _flatten(
        self, caller: Computation, taken: set[Computation], shared: dict[Computation, None], module: Module, room: int,
        log: DecisionLog,
    ) -> int:
        """Copy what `caller` and the copies made for it share with others, up to `room` instructions; how many were
        made.  What there was no room for goes to `shared`."""
        copied = 0
        stack = [caller]
        while stack:
            for instruction in stack.pop().calls:
                if instruction.opcode not in _OWNERS or (instruction.opcode == "call" and not self.calls):
                    continue

                def own(callee: Computation, opcode: str = instruction.opcode) -> Computation:
                    nonlocal copied
                    if callee in shared:
                        return callee
                    if callee not in taken or not log.allow():
                        taken.add(callee)
                        return callee
                    if copied + len(callee) > room and opcode in _WRAPPED:
                        shared[callee] = None
                        return callee
                    copied += len(callee)
                    copy = module.add(clone_computation(callee))
                    taken.add(copy)
                    stack.append(copy)
                    log.rewrite("copy", callee.name, copy.name, "it has several callers")
                    return copy

                instruction.replace_called(own)
        return copied


def _share(callee: Computation, callers: list[Instruction], module: Module, log: DecisionLog) -> None:
    """Give every loop and branch that runs `callee` a computation of its own that calls it."""

    def own(called: Computation) -> Computation:
        if called is not callee:
            return called
        wrapper = Computation(callee.name)
        parameters = [Instruction("parameter", p.shape, (), p.attributes, "", p.metadata) for p in callee.parameters]
        for parameter in parameters:
            wrapper.add(parameter)
        root = callee.root
        call = Instruction("call", root.shape, parameters, {"to_apply": callee}, "", root.metadata)
        wrapper.root = wrapper.add(call)
        reason = "it has too many callers to be copied"
        log.rewrite("share", callee.name, wrapper.name, reason, instructions=len(callee))
        return module.add(wrapper)

    for caller in callers:
        if caller.opcode in _WRAPPED:
            caller.replace_called(own)
