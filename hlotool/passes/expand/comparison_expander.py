"""Comparison expander: total-order comparisons of floats as comparisons of integers."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, array, element_type
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["ComparisonExpander"]

_KINDS = frozenset({"f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3", "f8e4m3fn", "f8e3m4"})
"""Floats with a sign bit in front of the magnitude."""


@dataclass(frozen=True, slots=True)
class ComparisonExpander:
    """Rewrites comparisons of type TOTALORDER in terms of the bits of their operands.

    -NaN < -inf < ... < -0 < +0 < ... < inf < NaN (IEEE 754-2019, 5.10): the bits as a signed integer, with
    those behind the sign flipped where it is set.  Not in the default pipeline: the CPU code generator has the order.
    """

    name: ClassVar[str] = "comparison-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"compare"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, self.opcodes, _by_bits, "total-order", "by the bits")


def _by_bits(build: Builder, compare: Instruction) -> Instruction | None:
    if not _is_total(compare):
        return None
    left, right = (_key(build, operand) for operand in compare.operands)
    return build.compare(left, right, compare.attributes["direction"], "SIGNED")


def _is_total(compare: Instruction) -> bool:
    kind = compare.operands[0].shape.element_type
    return compare.attributes.get("type") == "TOTALORDER" and kind in _KINDS


def _key(build: Builder, value: Instruction) -> Instruction:
    bits = element_type(value.shape.element_type).bits
    shape = array(f"s{bits}", value.shape.dimensions)
    raw = build.bitcast_convert(value, shape)
    signs = build.binary("shift-right-arithmetic", raw, build.splat(bits - 1, shape))
    flips = build.binary("shift-right-logical", signs, build.splat(1, shape))
    return build.binary("xor", raw, flips)
