"""Activation functions, and their gradients where PyTorch names them."""

from __future__ import annotations

import math

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, Number, lowering
from hlotool.torch.ops.unary import kind

__all__: list[str] = []


@lowering("aten.relu.default")
def relu(c: Context, self: Instruction) -> Instruction:
    return self if kind(self) == "pred" else c.builder.binary("maximum", self, c.like(0, self))


@lowering("aten.leaky_relu.default")
def leaky_relu(c: Context, self: Instruction, negative_slope: Number = 0.01) -> Instruction:
    b, x = c.builder, c.computed(self)
    scaled = b.binary("multiply", x, c.like(negative_slope, x))
    return c.convert(b.select(b.compare(x, c.like(0, x), "GT"), x, scaled), c.type)


@lowering("aten.elu.default")
def elu(
    c: Context, self: Instruction, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1
) -> Instruction:
    b, x = c.builder, c.computed(self)
    below = b.unary("exponential-minus-one", b.binary("multiply", x, c.like(input_scale, x)))
    below = b.binary("multiply", below, c.like(alpha * scale, x))
    above = b.binary("multiply", x, c.like(scale, x))
    return c.convert(b.select(b.compare(x, c.like(0, x), "GT"), above, below), c.type)


@lowering("aten.hardtanh.default")
def hardtanh(c: Context, self: Instruction, min_val: Number = -1, max_val: Number = 1) -> Instruction:
    b = c.builder
    return b.binary("minimum", b.binary("maximum", self, c.like(min_val, self)), c.like(max_val, self))


@lowering("aten.silu.default")
def silu(c: Context, self: Instruction) -> Instruction:
    x = c.computed(self)
    return c.convert(c.builder.binary("multiply", x, c.builder.unary("logistic", x)), c.type)


def _normal(c: Context, x: Instruction) -> Instruction:
    """The distribution function of the normal distribution."""
    b = c.builder
    found = b.unary("erf", b.binary("multiply", x, c.like(math.sqrt(0.5), x)))
    return b.binary("multiply", b.binary("add", found, c.like(1, x)), c.like(0.5, x))


_CUBIC = 0.044715


def _tanh_of(c: Context, x: Instruction) -> Instruction:
    """``tanh(sqrt(2/pi) * (x + 0.044715 x^3))``"""
    b = c.builder
    square = b.binary("multiply", x, x)
    factor = b.binary("add", b.binary("multiply", square, c.like(_CUBIC, x)), c.like(1, x))
    inner = b.binary("multiply", b.binary("multiply", x, factor), c.like(math.sqrt(2 / math.pi), x))
    return b.unary("tanh", inner)


@lowering("aten.gelu.default")
def gelu(c: Context, self: Instruction, *, approximate: str = "none") -> Instruction:
    b, x = c.builder, c.computed(self)
    if approximate == "none":
        return c.convert(b.binary("multiply", x, _normal(c, x)), c.type)
    half = b.binary("multiply", x, c.like(0.5, x))
    return c.convert(b.binary("multiply", half, b.binary("add", _tanh_of(c, x), c.like(1, x))), c.type)


@lowering("aten.gelu_backward.default")
def gelu_backward(
    c: Context, grad_output: Instruction, self: Instruction, *, approximate: str = "none"
) -> Instruction:
    b, x, grad = c.builder, c.computed(self), c.computed(grad_output)
    if approximate == "none":
        bell = b.unary("exponential", b.binary("multiply", b.binary("multiply", x, x), c.like(-0.5, x)))
        slope = b.binary("multiply", b.binary("multiply", x, bell), c.like(math.sqrt(0.5 / math.pi), x))
        return c.convert(b.binary("multiply", grad, b.binary("add", _normal(c, x), slope)), c.type)
    tanh = _tanh_of(c, x)
    one, half = c.like(1, x), c.like(0.5, x)
    left = b.binary("multiply", half, b.binary("add", tanh, one))
    inner = b.binary("multiply", b.binary("multiply", x, x), c.like(3 * _CUBIC, x))
    inner = b.binary("multiply", b.binary("add", inner, one), c.like(math.sqrt(2 / math.pi), x))
    right = b.binary("subtract", one, b.binary("multiply", tanh, tanh))
    right = b.binary("multiply", b.binary("multiply", b.binary("multiply", half, x), right), inner)
    return c.convert(b.binary("multiply", grad, b.binary("add", left, right)), c.type)
