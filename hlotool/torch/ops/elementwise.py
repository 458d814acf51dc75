"""Elementwise operations of one and of two tensors."""

from __future__ import annotations

from hlotool.ir import Instruction
from hlotool.ir.types import ELEMENT_TYPES
from hlotool.torch.lowering import Context, Number, Value, lowering

__all__: list[str] = []


def _unary(name: str, opcode: str) -> None:
    """An operation of floats that HLO has; of integers it is computed in the default float."""

    @lowering(f"aten.{name}.default")
    def lower(c: Context, self: Instruction) -> Instruction:
        return c.builder.unary(opcode, c.tensor(self, c.type, c.dimensions))


for _name, _opcode in {
    "exp": "exponential", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "sin": "sine", "cos": "cosine",
}.items():  # fmt: skip
    _unary(_name, _opcode)


def _scaled(c: Context, value: Value, alpha: Number) -> Value:
    """``alpha * value``, in the type of the result."""
    if alpha == 1:
        return value
    a, b = c.together(value, alpha, element_type=c.type)
    return c.builder.binary("and" if ELEMENT_TYPES[c.type].kind == "pred" else "multiply", a, b)


@lowering("aten.add.Tensor", "aten.add.Scalar")
def add(c: Context, self: Instruction, other: Value, *, alpha: Number = 1) -> Instruction:
    a, b = (c.tensor(v, c.type, c.dimensions) for v in (self, _scaled(c, other, alpha)))
    return c.builder.binary("or" if c.type == "pred" else "add", a, b)


@lowering("aten.sub.Tensor", "aten.sub.Scalar")
def sub(c: Context, self: Instruction, other: Value, *, alpha: Number = 1) -> Instruction:
    a, b = (c.tensor(v, c.type, c.dimensions) for v in (self, _scaled(c, other, alpha)))
    return c.builder.binary("subtract", a, b)


@lowering("aten.mul.Tensor", "aten.mul.Scalar")
def mul(c: Context, self: Instruction, other: Value) -> Instruction:
    a, b = (c.tensor(v, c.type, c.dimensions) for v in (self, other))
    return c.builder.binary("and" if c.type == "pred" else "multiply", a, b)


@lowering("aten.relu.default")
def relu(c: Context, self: Instruction) -> Instruction:
    return c.builder.binary("maximum", self, c.like(0, self))
