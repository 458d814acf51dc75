"""Calls of GPU libraries, and of functions with derivatives of their own, become HLO."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate.xla_custom_calls import library_computation
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.framework.graph import custom_call_target, inline_computation

__all__ = ["LibraryCallExpander"]


@dataclass(frozen=True, slots=True)
class LibraryCallExpander:
    """Replaces custom calls of cuBLAS, cuDNN and cuSOLVER by the products, convolutions and functions they compute.

    Such calls are what XLA makes of dots and convolutions for a GPU; here they run like any other.  A function whose
    derivative somebody has written is inlined, for want of anybody who asks for the derivative.
    """

    name: ClassVar[str] = "library-call-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"custom-call"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, self.opcodes, _inlined, "library-call", custom_call_target, static=True)


def _inlined(build: Builder, call: Instruction) -> Instruction | None:
    meaning = library_computation(call)
    if meaning is None:
        return None
    assert build.computation.module is not None
    for instruction in meaning:
        for callee in instruction.called:
            build.computation.module.add(callee)
    return inline_computation(call, meaning, call.operands)
