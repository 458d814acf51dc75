"""relu(x * scale) = relu(x) * scale: the scale may then go into the product behind.  Is that right?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.passes.framework.rewriter import Rewriter, rewrite, rule, rule_table

__all__ = ["ScaleOutOfRelu"]


@rule("maximum(multiply(x, scale: broadcast), 0)", types="floats")
def relu_of_scaled(x: Instruction, scale: Instruction, rewriter: Rewriter) -> Instruction:
    """max(x * scale, 0) = max(x, 0) * scale"""
    relu = rewriter.binary("maximum", x, rewriter.splat(0, x.shape))
    return rewriter.binary("multiply", relu, scale)


@dataclass(frozen=True, slots=True)
class ScaleOutOfRelu:
    """Multiply by a broadcast scale after a relu, not before it."""

    name: ClassVar[str] = "scale-out-of-relu"

    def run(self, module: Module, log: DecisionLog) -> bool:
        return rewrite(module, rule_table([relu_of_scaled]), log)
