"""All-gather combiner: fewer and larger exchanges among devices."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.collectives.combining import attributes_key, combine_all

__all__ = ["AllGatherCombiner"]


@dataclass(frozen=True, slots=True)
class AllGatherCombiner:
    """Makes one all-gather of several that wait for nothing of each other and have the same groups and dimension.

    Devices meet once instead of several times.  Up to `max-count` arrays, with `max-bytes` of results in all.
    """

    name: ClassVar[str] = "all-gather-combiner"
    opcodes: ClassVar[frozenset[str]] = frozenset({"all-gather"})
    max_count: int = 256
    max_bytes: int = 31_457_280

    def run(self, module: Module, log: DecisionLog) -> bool:
        return combine_all(
            module, log, "all-gather", attributes_key, max_count=self.max_count, max_bytes=self.max_bytes
        )
