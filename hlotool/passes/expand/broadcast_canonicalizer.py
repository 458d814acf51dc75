"""Broadcast canonicalizer: broadcasts that keep the order of dimensions."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["BroadcastCanonicalizer"]


@dataclass(frozen=True, slots=True)
class BroadcastCanonicalizer:
    """Rewrites broadcasts whose dimensions do not rise as a transpose of the operand and one whose do.

    The transpose is that of the smaller array.
    """

    name: ClassVar[str] = "broadcast-canonicalizer"
    opcodes: ClassVar[frozenset[str]] = frozenset({"broadcast"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, self.opcodes, _canonical, "transpose-first", "its dimensions do not rise")


def _canonical(build: Builder, broadcast: Instruction) -> Instruction | None:
    dimensions = broadcast.attributes["dimensions"]
    order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
    if order == list(range(len(dimensions))):
        return None
    moved = build.transpose(broadcast.operands[0], order)
    return build.broadcast(moved, sorted(dimensions), broadcast.shape)
