"""Share computations of the same structure."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fingerprint import Structures
from hlotool.ir import Computation, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["ComputationDeduplicator"]

_OWNERS = frozenset({"while", "conditional", "call", "fusion", "async-start", "async-update", "async-done"})


@dataclass(frozen=True, slots=True)
class ComputationDeduplicator:
    """Keeps one of several equal reducers, comparators and the like.

    Bodies of loops, branches, calls and fusions stay apart, so that they can be changed for their one caller; so does
    what an async-start runs, which is its own.
    """

    name: ClassVar[str] = "computation-deduplicator"

    def run(self, module: Module, log: DecisionLog) -> bool:
        structures = Structures()
        first: dict[int, Computation] = {}
        changed = False
        calls = [call for computation in module.computations.values() for call in computation.calls]
        for instruction in calls:
            if instruction.opcode in _OWNERS:
                continue
            for callee in instruction.called:
                kept = first.setdefault(structures.number(callee), callee)
                if kept is callee or not log.allow():
                    continue
                log.rewrite("same-structure", callee.name, kept.name, f"called by {instruction.name}")
                instruction.replace_called(lambda c, old=callee, new=kept: new if c is old else c)  # type: ignore[misc]
                changed = True
        if changed:
            module.remove_unreachable()
        return changed
