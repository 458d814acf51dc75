"""Pieces of what GPU libraries do after a product: scaling, bias and activation functions, as HLO."""

from __future__ import annotations

from hlotool.ir import ELEMENT_TYPES, Instruction, Shape, UnsupportedError
from hlotool.ir.builder import Builder

__all__ = ["activation", "broadcast_along", "computing_type", "scaled"]


def computing_type(result: str) -> str:
    """The type in which a library computes a result: floats in f32 or wider."""
    row = ELEMENT_TYPES[result]
    return "f32" if row.kind == "float" and row.bits < 32 else result


def scaled(build: Builder, value: Instruction, factor: complex) -> Instruction:
    """`value` times a number of the config."""
    if factor == 1:
        return value
    kind = ELEMENT_TYPES[value.shape.element_type].kind
    if kind != "complex":
        if complex(factor).imag:
            raise UnsupportedError(f"a complex factor {factor} of {value.shape}")
        factor = complex(factor).real
    return build.binary("multiply", value, build.splat(factor, value.shape))


def broadcast_along(build: Builder, vector: Instruction, shape: Shape, dimension: int) -> Instruction:
    """A vector repeated so that it varies along one dimension of `shape`."""
    return build.broadcast(vector, (dimension % shape.rank,), shape.with_type(vector.shape.element_type))


def activation(build: Builder, x: Instruction, name: str, slope: float = 0.0) -> Instruction:
    """The function `name`, in capitals and without a ``k``; GELU is the approximation with tanh, as in cuBLAS."""

    def number(value: float) -> Instruction:
        return build.splat(value, x.shape)

    match name:
        case "NONE":
            return x
        case "RELU":
            return build.binary("maximum", x, number(0))
        case "RELU6":
            return build.clamp(number(0), x, number(6))
        case "ELU":
            return build.select(build.compare(x, number(0), "GT"), x, build.unary("exponential-minus-one", x))
        case "LEAKYRELU":
            return build.select(build.compare(x, number(0), "GT"), x, build.binary("multiply", x, number(slope)))
        case "SILU":
            return build.binary("multiply", x, build.unary("logistic", x))
        case "GELU":
            cube = build.binary("multiply", build.binary("multiply", x, x), x)
            inner = build.binary("add", x, build.binary("multiply", cube, number(0.044715)))
            tanh = build.unary("tanh", build.binary("multiply", inner, number(0.7978845608028654)))
            half = build.binary("multiply", x, number(0.5))
            return build.binary("multiply", half, build.binary("add", tanh, number(1)))
    raise UnsupportedError(f"the activation {name} is not known")
