"""Reduce-scatter combiner: fewer and larger exchanges among devices."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.collectives.all_reduce_combiner import reduction_key
from hlotool.passes.collectives.combining import combine_all

__all__ = ["ReduceScatterCombiner"]


@dataclass(frozen=True, slots=True)
class ReduceScatterCombiner:
    """Makes one reduce-scatter of several that wait for nothing of each other and have the same groups, operation and
    dimension.

    Devices meet once instead of several times; each element is reduced as before.  Up to `max-count` arrays, with
    `max-bytes` of operands in all.
    """

    name: ClassVar[str] = "reduce-scatter-combiner"
    opcodes: ClassVar[frozenset[str]] = frozenset({"reduce-scatter"})
    max_count: int = 256
    max_bytes: int = 31_457_280

    def run(self, module: Module, log: DecisionLog) -> bool:
        return combine_all(
            module, log, "reduce-scatter", reduction_key, max_count=self.max_count, max_bytes=self.max_bytes
        )
