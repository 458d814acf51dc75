"""Batch norm expander: the batch-norm trio in terms of reductions and arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate.batch_norm import epsilon_of
from hlotool.ir import ELEMENT_TYPES, Instruction, Module
from hlotool.ir.builder import Builder, binary_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["BatchNormExpander", "batch_norm", "spelled_out"]


@dataclass(frozen=True, slots=True)
class BatchNormExpander:
    """Spells out batch-norm-training, -inference and -grad (Ioffe and Szegedy 2015, arXiv:1502.03167).

    The variance is the biased one, from squared differences; gradients are those of the paper's section 3.  Floats
    narrower than f32 are computed in f32 and rounded once, at the end.
    """

    name: ClassVar[str] = "batch-norm-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"batch-norm-training", "batch-norm-inference", "batch-norm-grad"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        reason = "batch norm is reductions and arithmetic"
        return expand_each(module, log, self.opcodes, partial(batch_norm, module), "expand", reason, static=True)


def batch_norm(module: Module, build: Builder, norm: Instruction) -> Instruction:
    """What has the value of a batch norm, of its operands."""
    results = spelled_out(module, build, norm, norm.operands)
    return build.add("tuple", norm.shape, results) if norm.shape.is_tuple else results[0]


def spelled_out(
    module: Module,
    build: Builder,
    norm: Instruction,
    operands: Sequence[Instruction],
    inside: Instruction | None = None,
    count: Instruction | None = None,
) -> list[Instruction]:
    """The results of a batch norm of `operands`, in its types.

    With `inside`, a pred of the dimensions of the data, only those elements count, and `count` (s32[]) is how many
    there are of each feature.
    """
    own = _Norm(module, build, norm, operands, inside, count)
    results = _RULES[norm.opcode](own, own.operands)
    return [own.converted(a, leaf.element_type) for a, leaf in zip(results, norm.shape.leaves(), strict=True)]


class _Norm:
    """The pieces that the three have in common."""

    def __init__(
        self,
        module: Module,
        build: Builder,
        norm: Instruction,
        operands: Sequence[Instruction],
        inside: Instruction | None,
        count: Instruction | None,
    ) -> None:
        self.module = module
        self.build = build
        self.norm = norm
        self.feature: int = norm.attributes["feature_index"]
        self.inside = inside
        self.kind = operands[0].shape.element_type
        if ELEMENT_TYPES[self.kind].bits < 32:
            self.kind = "f32"
        self.operands = [self.converted(o, self.kind) for o in operands]
        self.data = self.operands[0]
        self.others = [d for d in range(self.data.shape.rank) if d != self.feature]
        self.count = count

    def converted(self, a: Instruction, kind: str) -> Instruction:
        return a if a.shape.element_type == kind else self.build.convert(a, kind)

    def spread(self, a: Instruction) -> Instruction:
        """A per-feature vector over the whole array."""
        return self.build.broadcast(a, [self.feature], self.data.shape.dimensions)

    def total(self, a: Instruction) -> Instruction:
        """The sum over all but the feature dimension."""
        adder = self.module.add(binary_computation("add", self.kind))
        if self.inside is not None:
            a = self.build.select(self.inside, a, self.build.splat(0, a.shape))
        return self.build.reduce(a, self.build.scalar_constant(0, self.kind), self.others, adder)

    def mean(self, a: Instruction) -> Instruction:
        return self.per_element(self.total(a))

    def per_element(self, total: Instruction) -> Instruction:
        """A total by the number of elements that it is of."""
        if self.count is None:
            number = self.build.splat(prod(self.data.shape.dimensions[d] for d in self.others), total.shape)
        else:
            number = self.build.broadcast(self.build.convert(self.count, self.kind), (), total.shape)
        return self.build.binary("divide", total, number)

    def inverse_deviation(self, variance: Instruction) -> Instruction:
        epsilon = self.build.splat(epsilon_of(self.norm), variance.shape)
        return self.build.unary("rsqrt", self.build.binary("add", variance, epsilon))


def _training(n: _Norm, operands: Sequence[Instruction]) -> list[Instruction]:
    build, (data, scale, offset) = n.build, operands
    mean = n.mean(data)
    centred = build.binary("subtract", data, n.spread(mean))
    variance = n.mean(build.binary("multiply", centred, centred))
    factor = build.binary("multiply", scale, n.inverse_deviation(variance))
    result = build.binary("add", build.binary("multiply", centred, n.spread(factor)), n.spread(offset))
    return [result, mean, variance]


def _inference(n: _Norm, operands: Sequence[Instruction]) -> list[Instruction]:
    build, (data, scale, offset, mean, variance) = n.build, operands
    factor = build.binary("multiply", scale, n.inverse_deviation(variance))
    centred = build.binary("subtract", data, n.spread(mean))
    return [build.binary("add", build.binary("multiply", centred, n.spread(factor)), n.spread(offset))]


def _grad(n: _Norm, operands: Sequence[Instruction]) -> list[Instruction]:
    build, (data, scale, mean, variance, gradient) = n.build, operands
    inverse = n.inverse_deviation(variance)
    centred = build.binary("subtract", data, n.spread(mean))
    offset_gradient = n.total(gradient)
    projection = n.total(build.binary("multiply", gradient, centred))
    scale_gradient = build.binary("multiply", projection, inverse)
    # dx = scale * inverse * (dy - mean(dy) - centred * inverse^2 * mean(dy * centred))
    mean_gradient = n.per_element(offset_gradient)
    squared = build.binary("multiply", inverse, inverse)
    slope = build.binary("multiply", squared, n.per_element(projection))
    inner = build.binary("subtract", gradient, n.spread(mean_gradient))
    inner = build.binary("subtract", inner, build.binary("multiply", centred, n.spread(slope)))
    data_gradient = build.binary("multiply", inner, n.spread(build.binary("multiply", scale, inverse)))
    return [data_gradient, scale_gradient, offset_gradient]


_RULES = {"batch-norm-training": _training, "batch-norm-inference": _inference, "batch-norm-grad": _grad}
