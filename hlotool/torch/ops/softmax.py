"""Softmax, its logarithm, and the gradients of both."""

from __future__ import annotations

from typing import Any

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, lowering
from hlotool.torch.ops.pieces import dimension_of, element, lowest, sizes, spread

__all__: list[str] = []


def _along(c: Context, a: Instruction, dim: int, opcode: str) -> Instruction:
    """The sum or maximum along a dimension, in every place of it."""
    if not sizes(a):
        return a
    along = dimension_of(dim, len(sizes(a)))
    found = c.reduce(a, (along,), opcode, 0 if opcode == "add" else lowest(element(a)))
    return spread(c, found, [d for d in range(len(sizes(a))) if d != along], sizes(a))


def _shifted(c: Context, self: Instruction, dim: int) -> Instruction:
    """Less the maximum, in the type that the formula is computed in."""
    wide = c.computed(c.convert(self, c.type) if c.computed(self) is self else self)
    return c.builder.binary("subtract", wide, _along(c, wide, dim, "maximum"))


@lowering("aten._softmax.default")
def softmax(c: Context, self: Instruction, dim: int, half_to_float: bool) -> Instruction:
    raised = c.builder.unary("exponential", _shifted(c, self, dim))
    return c.convert(c.builder.binary("divide", raised, _along(c, raised, dim, "add")), c.type)


@lowering("aten._safe_softmax.default")
def safe_softmax(c: Context, self: Instruction, dim: int, dtype: Any = None) -> Instruction:
    """Rows that are all minus infinity give zeros."""
    b = c.builder
    wide = c.computed(c.convert(self, c.type))
    most = _along(c, wide, dim, "maximum")
    raised = b.unary("exponential", b.binary("subtract", wide, most))
    made = b.binary("divide", raised, _along(c, raised, dim, "add"))
    masked = b.compare(most, c.like(float("-inf"), most), "EQ")
    return c.convert(b.select(masked, c.like(0, made), made), c.type)


@lowering("aten._log_softmax.default")
def log_softmax(c: Context, self: Instruction, dim: int, half_to_float: bool) -> Instruction:
    shifted = _shifted(c, self, dim)
    total = _along(c, c.builder.unary("exponential", shifted), dim, "add")
    return c.convert(c.builder.binary("subtract", shifted, c.builder.unary("log", total)), c.type)


@lowering("aten._softmax_backward_data.default")
def softmax_backward(
    c: Context, grad_output: Instruction, output: Instruction, dim: int, input_dtype: Any
) -> Instruction:
    grad, own = c.computed(grad_output), c.computed(output)
    product = c.builder.binary("multiply", grad, own)
    pulled = c.builder.binary("multiply", own, _along(c, product, dim, "add"))
    return c.convert(c.builder.binary("subtract", product, pulled), c.type)


@lowering("aten._log_softmax_backward_data.default")
def log_softmax_backward(
    c: Context, grad_output: Instruction, output: Instruction, dim: int, input_dtype: Any
) -> Instruction:
    grad, own = c.computed(grad_output), c.computed(output)
    pulled = c.builder.binary("multiply", c.builder.unary("exponential", own), _along(c, grad, dim, "add"))
    return c.convert(c.builder.binary("subtract", grad, pulled), c.type)
