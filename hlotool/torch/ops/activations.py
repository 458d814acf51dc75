"""Activations that are operations of their own; the others, and gradients, are decomposed by PyTorch."""

from __future__ import annotations

from math import pi, sqrt

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, Number, lowering
from hlotool.torch.refusal import Refused

__all__: list[str] = []


@lowering("aten.gelu.default")
def gelu(c: Context, self: Instruction, *, approximate: str = "none") -> Instruction:
    """x times the normal distribution's share below x, or a formula with tanh for that."""
    b, x = c.builder, c.computed(self)
    half = b.binary("multiply", x, c.like(0.5, x))
    if approximate == "none":
        inner = b.unary("erf", b.binary("multiply", x, c.like(1 / sqrt(2), x)))
    elif approximate == "tanh":
        cube = b.binary("multiply", b.binary("multiply", x, x), x)
        bent = b.binary("add", x, b.binary("multiply", cube, c.like(0.044715, x)))
        inner = b.unary("tanh", b.binary("multiply", bent, c.like(sqrt(2 / pi), x)))
    else:
        raise Refused(f"gelu with approximate={approximate!r}")
    return c.convert(b.binary("multiply", half, b.binary("add", inner, c.like(1, x))), c.type)


@lowering("aten.elu.default")
def elu(c: Context, self: Instruction, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Instruction:
    b, x = c.builder, c.computed(self)
    below = b.unary("exponential-minus-one", b.binary("multiply", x, c.like(input_scale, x)))
    below = b.binary("multiply", below, c.like(alpha * scale, x))
    above = b.binary("multiply", x, c.like(scale, x))
    return c.convert(b.select(b.compare(x, c.like(0, x), "GT"), above, below), c.type)


@lowering("aten.hardtanh.default")
def hardtanh(c: Context, self: Instruction, min_val: Number = -1, max_val: Number = 1) -> Instruction:
    raised = c.builder.binary("maximum", self, c.like(min_val, self))
    return c.builder.binary("minimum", raised, c.like(max_val, self))


@lowering("aten.leaky_relu.default")
def leaky_relu(c: Context, self: Instruction, negative_slope: Number = 0.01) -> Instruction:
    b, x = c.builder, c.computed(self)
    below = b.binary("multiply", x, c.like(negative_slope, x))
    return c.convert(b.select(b.compare(x, c.like(0, x), "GT"), x, below), c.type)
