"""All-reduce combiner: fewer and larger exchanges among devices."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.collectives.combining import attributes_key, combine_all
from hlotool.passes.simplify.algebra.contraction import reducer_opcode

__all__ = ["AllReduceCombiner", "reduction_key"]


@dataclass(frozen=True, slots=True)
class AllReduceCombiner:
    """Makes one all-reduce of several that wait for nothing of each other and have the same groups and operation.

    Devices meet once instead of several times; each element is reduced as before.  Up to `max-count` arrays, with
    `max-bytes` in all.
    """

    name: ClassVar[str] = "all-reduce-combiner"
    opcodes: ClassVar[frozenset[str]] = frozenset({"all-reduce"})
    max_count: int = 256
    max_bytes: int = 31_457_280

    def run(self, module: Module, log: DecisionLog) -> bool:
        return combine_all(
            module, log, "all-reduce", reduction_key, max_count=self.max_count, max_bytes=self.max_bytes
        )


def reduction_key(reduce: Instruction) -> Hashable | None:
    """What all-reduces, or reduce-scatters, have in common that can be one; None for those that stay."""
    opcode = reducer_opcode(reduce.attributes["to_apply"])
    others = None if opcode is None else attributes_key(reduce, ("to_apply",))
    return None if others is None else (opcode, reduce.shape.element_type, others)
