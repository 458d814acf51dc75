"""Rng expander: random numbers of a distribution from random bits."""

from __future__ import annotations

import math
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module, array, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["RngExpander"]


@dataclass(frozen=True, slots=True)
class RngExpander:
    """Rewrites rng as random bits of Philox, whose state moves on with every run, and arithmetic on them.

    Uniform floats are ``low + (high - low) * u`` with u in [0, 1) of the type's precision, kept below `high`; integers
    are ``low + bits mod (high - low)``.  Normal numbers come in pairs of uniform ones (Box and Muller 1958).  HLO
    leaves open which numbers there are: they are others than without the pass, of the same distribution.  Not in the
    default pipeline: the CPU code generator has the distributions itself.
    """

    name: ClassVar[str] = "rng-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"rng"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, self.opcodes, _drawn, "expand", "random bits and arithmetic")


def _drawn(build: Builder, rng: Instruction) -> Instruction | None:
    return _Numbers(build, rng).result() if rng.shape.size else None


class _Numbers:
    def __init__(self, build: Builder, rng: Instruction) -> None:
        self.build = build
        self.rng = rng
        self.sizes = rng.shape.dimensions
        self.row = ELEMENT_TYPES[rng.shape.element_type]
        self.kind = rng.shape.element_type if self.row.bits >= 32 or not self.row.is_float else "f32"

    def result(self) -> Instruction:
        if self.rng.attributes["distribution"] == "rng_normal":
            return self.normal()
        if self.row.is_float:
            return self.uniform()
        return self.integers()

    def bits(self, kind: str, sizes: tuple[int, ...]) -> Instruction:
        """Random words of an unsigned type; the next run gets others."""
        size = array(kind, sizes)
        count = size.size * ELEMENT_TYPES[kind].bits // 128 + 1
        state = self.build.add("rng-get-and-update-state", array("u64", (2,)), (), {"delta": count})
        both = self.build.add(
            "rng-bit-generator", tuple_shape([state.shape, size]), [state], {"algorithm": "rng_philox"}
        )
        return self.build.gte(both, 1)

    def unit(self, kind: str, sizes: tuple[int, ...]) -> Instruction:
        """Uniform in [0, 1): the leading bits of a word, as many as the significand of f32 or f64 holds."""
        word, kept = ("u64", 53) if kind == "f64" else ("u32", 24)
        bits = self.bits(word, sizes)
        amount = self.build.splat(ELEMENT_TYPES[word].bits - kept, bits.shape)
        leading = self.build.convert(self.build.binary("shift-right-logical", bits, amount), kind)
        return self.build.binary("multiply", leading, self.build.splat(math.ldexp(1.0, -kept), leading.shape))

    def two_units(self) -> list[Instruction]:
        """Independent ones, so of one state: each state starts from the same."""
        both = self.unit(self.kind, (2, *self.sizes))
        rest = [0] * len(self.sizes)
        halves = (self.build.slice(both, [n, *rest], [n + 1, *self.sizes]) for n in (0, 1))
        return [self.build.reshape(half, self.sizes) for half in halves]

    def spread(self, scalar: Instruction, kind: str) -> Instruction:
        wide = scalar if scalar.shape.element_type == kind else self.build.convert(scalar, kind)
        return self.build.broadcast(wide, (), self.sizes)

    def rounded(self, values: Instruction) -> Instruction:
        kind = self.rng.shape.element_type
        return values if values.shape.element_type == kind else self.build.convert(values, kind)

    def uniform(self) -> Instruction:
        low, high = (self.spread(bound, self.kind) for bound in self.rng.operands)
        span = self.build.binary("subtract", high, low)
        scaled = self.build.binary("multiply", span, self.unit(self.kind, self.sizes))
        drawn = self.rounded(self.build.binary("add", low, scaled))
        kind = self.rng.shape.element_type
        below = self.build.compare(drawn, self.spread(self.rng.operands[1], kind), "LT")
        return self.build.select(below, drawn, self.spread(self.rng.operands[0], kind))  # rounding may reach the bound

    def normal(self) -> Instruction:
        mean, deviation = (self.spread(value, self.kind) for value in self.rng.operands)
        first, second = self.two_units()
        above_zero = self.build.binary("subtract", self.build.splat(1, mean.shape), first)
        logarithm = self.build.unary("log", above_zero)
        radius = self.build.unary("sqrt", self.build.binary("multiply", logarithm, self.build.splat(-2, mean.shape)))
        turn = self.build.splat(2 * math.pi, mean.shape)
        angle = self.build.binary("multiply", second, turn)
        standard = self.build.binary("multiply", radius, self.build.unary("cosine", angle))
        return self.rounded(self.build.binary("add", mean, self.build.binary("multiply", deviation, standard)))

    def integers(self) -> Instruction:
        if self.row.kind == "pred":
            bits = self.bits("u32", self.sizes)
            one = self.build.splat(1, bits.shape)
            return self.build.compare(self.build.binary("and", bits, one), one, "EQ")
        bits = self.bits("u64", self.sizes)
        kind = "s64" if self.row.kind == "signed" else "u64"
        low, high = (self.spread(bound, kind) for bound in self.rng.operands)
        span = self.build.binary("subtract", high, low)
        unsigned = span if kind == "u64" else self.build.convert(span, "u64")
        some = self.build.binary("maximum", unsigned, self.build.splat(1, unsigned.shape))
        empty = self.build.compare(high, low, "LE")
        offset = self.build.binary("remainder", bits, some)
        signed = offset if kind == "u64" else self.build.convert(offset, "s64")
        drawn = self.build.select(empty, low, self.build.binary("add", low, signed))
        return self.rounded(drawn)
