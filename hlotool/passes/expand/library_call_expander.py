"""Calls of GPU libraries become HLO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate.xla_custom_calls import library_computation
from hlotool.ir import Module
from hlotool.passes.framework.graph import has_sizes, inline_computation, replace_with

__all__ = ["LibraryCallExpander"]


@dataclass(frozen=True, slots=True)
class LibraryCallExpander:
    """Replaces custom calls of cuBLAS, cuDNN and cuSOLVER by the products, convolutions and functions they compute.

    Such calls are what XLA makes of dots and convolutions for a GPU; here they run like any other.
    """

    name: ClassVar[str] = "library-call-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"custom-call"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in list(module.computations.values()):
            for call in computation:
                if call.opcode != "custom-call" or has_sizes(call):
                    continue
                meaning = library_computation(call)
                if meaning is not None and log.allow():
                    for instruction in meaning:
                        for callee in instruction.called:
                            module.add(callee)
                    result = inline_computation(call, meaning, call.operands)
                    log.rewrite("library-call", call, result, call.attributes["custom_call_target"])
                    replace_with(call, result)
                    changed = True
        return changed
