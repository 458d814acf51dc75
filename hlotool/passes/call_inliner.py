"""Inline calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Module
from hlotool.passes.graph import inline_computation

__all__ = ["CallInliner"]


@dataclass(frozen=True, slots=True)
class CallInliner:
    """Replaces each call by a copy of what it calls.

    Metadata and origins of the callee's instructions are kept.  Callees come first, so one visit flattens nested
    calls.  A call that would bring its caller above `max-instructions` stays.
    """

    name: ClassVar[str] = "call-inliner"
    max_instructions: int = 1_000_000

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.callees_first():
            changed |= self._inline_into(computation, log)
        if changed:
            module.remove_unreachable()
        return changed

    def _inline_into(self, computation: Computation, log: DecisionLog) -> bool:
        changed = False
        for call in computation:
            if call.opcode != "call":
                continue
            callee: Computation = call.attributes["to_apply"]
            if len(computation) + len(callee) > self.max_instructions:
                log.refuse("too-large", call, "the caller would grow too large", instructions=len(callee))
                continue
            if not log.allow():
                return changed
            root = inline_computation(call, callee, call.operands)
            call.replace_all_uses(root)
            computation.erase(call)
            log.rewrite("inline", call, root, f"calls {callee.name}", instructions=len(callee))
            changed = True
        return changed
