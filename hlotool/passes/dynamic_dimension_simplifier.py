"""Dimension sizes that are known become constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.passes.graph import replace_with

__all__ = ["DynamicDimensionSimplifier"]


@dataclass(frozen=True, slots=True)
class DynamicDimensionSimplifier:
    """Folds get-dimension-size of static dimensions, and set-dimension-size and dynamic-reshape to the static size."""

    name: ClassVar[str] = "dynamic-dimension-simplifier"

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.computations.values():
            for instruction in computation:
                result = _simplified(Builder(computation, instruction, like=instruction), instruction, log)
                if result is not None:
                    log.rewrite("static", instruction, result, "the size is known")
                    replace_with(instruction, result)
                    changed = True
        return changed


def _simplified(build: Builder, instruction: Instruction, log: DecisionLog) -> Instruction | None:
    match instruction.opcode:
        case "get-dimension-size":
            source = instruction.operands[0].shape
            (dimension,) = instruction.attributes["dimensions"]
            if source.is_static and log.allow():
                return build.splat(source.dimensions[dimension], instruction.shape)
        case "set-dimension-size":
            array, size = instruction.operands
            (dimension,) = instruction.attributes["dimensions"]
            same = array.shape.is_static and instruction.shape.is_static
            if same and _value(size) == array.shape.dimensions[dimension] and log.allow():
                return array
        case "dynamic-reshape":
            array, *sizes = instruction.operands
            same = array.shape.is_static and instruction.shape.is_static
            if same and tuple(map(_value, sizes)) == instruction.shape.dimensions and log.allow():
                return build.reshape(array, instruction.shape)
    return None


def _value(size: Instruction) -> int | None:
    """The value of a scalar constant."""
    known = size.opcode == "constant" and not size.literal.elided
    return int(size.literal.value()) if known else None
