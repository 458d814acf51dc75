"""Stochastic-convert decomposer: stochastic rounding to integers as arithmetic."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module, array
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["StochasticConvertDecomposer"]


@dataclass(frozen=True, slots=True)
class StochasticConvertDecomposer:
    """Rewrites a stochastic-convert to an integer type: the fraction decides, against random bits, what is added.

    Those to floats stay, whose steps depend on the size of the number.  Not in the default pipeline: the CPU code
    generator rounds stochastically by itself.
    """

    name: ClassVar[str] = "stochastic-convert-decomposer"
    opcodes: ClassVar[frozenset[str]] = frozenset({"stochastic-convert"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        def rounded(build: Builder, instruction: Instruction) -> Instruction | None:
            if ELEMENT_TYPES[instruction.shape.element_type].is_integer:
                return _rounded(build, instruction)
            log.refuse("float", instruction, "its steps depend on the size of the number")
            return None

        return expand_each(module, log, self.opcodes, rounded, "expand", "arithmetic on the fraction")


def _rounded(build: Builder, instruction: Instruction) -> Instruction:
    """In f64, which holds every operand; infinities have no fraction (NaN, which converts to 0), and saturate."""
    value, random = instruction.operands
    bits = ELEMENT_TYPES[random.shape.element_type].bits
    value = build.convert(value, "f64")
    shape = array("f64", value.shape.dimensions)
    size = build.unary("abs", value)
    whole = build.unary("floor", size)
    fraction = build.binary("multiply", build.binary("subtract", size, whole), build.splat(2.0**bits, shape))
    below = build.compare(build.convert(random, "u64"), build.convert(fraction, "u64"), "LT")
    stepped = build.binary("add", whole, build.convert(below, "f64"))
    negative = build.compare(value, build.splat(0.0, shape), "LT")
    signed = build.select(negative, build.unary("negate", stepped), stepped)
    return build.convert(signed, instruction.shape.element_type)
