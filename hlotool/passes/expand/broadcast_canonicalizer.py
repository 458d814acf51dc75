"""Broadcast canonicalizer: broadcasts that keep the order of dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module
from hlotool.ir.builder import Builder
from hlotool.passes.framework.graph import replace_with

__all__ = ["BroadcastCanonicalizer"]


@dataclass(frozen=True, slots=True)
class BroadcastCanonicalizer:
    """Rewrites broadcasts whose dimensions do not rise as a transpose of the operand and one whose do.

    The transpose is that of the smaller array.
    """

    name: ClassVar[str] = "broadcast-canonicalizer"
    opcodes: ClassVar[frozenset[str]] = frozenset({"broadcast"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.computations.values():
            for broadcast in computation:
                if broadcast.opcode != "broadcast":
                    continue
                dimensions = broadcast.attributes["dimensions"]
                order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
                if order == list(range(len(dimensions))) or not log.allow():
                    continue
                build = Builder(computation, broadcast, like=broadcast)
                moved = build.transpose(broadcast.operands[0], order)
                result = build.broadcast(moved, sorted(dimensions), broadcast.shape)
                log.rewrite("transpose-first", broadcast, result, "its dimensions do not rise")
                replace_with(broadcast, result)
                changed = True
        return changed
