"""Quantised operations: integers to floats, the operation on floats, and integers again, as the specification says.

``dequantize`` is ``(stored - zero_point) * scale`` and ``quantize``
``round_nearest_even(clamp(low, x / scale + zero_point, high))``, both in the expressed type.  The difference is taken
in 32 bits, so that it does not wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Instruction, Shape, dtype_of
from hlotool.text.stablehlo.scope import Refusal, Scope
from hlotool.text.stablehlo.tree import Operation, Quantisation, QuantisedShape, Value

__all__ = ["dequantised", "quantised", "through_floats"]

Convert = Callable[[Scope, Operation], Sequence[Instruction]]


def _spread(scope: Scope, values: Sequence[float | int], kind: str, axis: int | None, shape: Shape) -> Instruction:
    """One value for all elements, or one for each index of the dimension `axis`."""
    builder = scope.builder
    if len(values) == 1:
        single = builder.constant(np.asarray(values[0]).astype(dtype_of(kind)), kind)
        return single if not shape.rank else builder.broadcast(single, (), shape.with_type(kind))
    if axis is None or axis >= shape.rank or shape.dimensions[axis] != len(values):
        raise Refusal(f"{len(values)} scales do not fit {shape}")
    row = builder.constant(np.asarray(values).astype(dtype_of(kind)), kind)
    return builder.broadcast(row, (axis,), shape.with_type(kind))


def dequantised(scope: Scope, value: Instruction, meaning: Quantisation) -> Instruction:
    """The floats that stored integers stand for."""
    builder = scope.builder
    wide = value if ELEMENT_TYPES[value.shape.element_type].bits >= 32 else builder.convert(value, "s32")
    if any(meaning.zero_points):
        zeros = _spread(scope, meaning.zero_points, wide.shape.element_type, meaning.axis, wide.shape)
        wide = builder.binary("subtract", wide, zeros)
    floats = builder.convert(wide, meaning.expressed)
    scales = _spread(scope, meaning.scales, meaning.expressed, meaning.axis, floats.shape)
    return builder.binary("multiply", floats, scales)


def quantised(scope: Scope, value: Instruction, shape: QuantisedShape) -> Instruction:
    """The integers that are stored for floats."""
    meaning = shape.quantisation
    assert meaning is not None
    builder, kind = scope.builder, meaning.expressed
    if value.shape.element_type != kind:
        value = builder.convert(value, kind)
    scaled = builder.binary("divide", value, _spread(scope, meaning.scales, kind, meaning.axis, value.shape))
    if any(meaning.zero_points):
        zeros = _spread(scope, meaning.zero_points, kind, meaning.axis, value.shape)
        scaled = builder.binary("add", scaled, zeros)
    low, high = (_spread(scope, (bound,), kind, None, value.shape) for bound in (meaning.low, meaning.high))
    rounded = builder.unary("round-nearest-even", builder.clamp(low, scaled, high))
    return builder.convert(rounded, shape.element_type)


def uniform_quantize(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    given, made = operation.operands[0].type, operation.results[0].type
    if not isinstance(made, QuantisedShape):
        raise Refusal("the result of uniform_quantize is quantised")
    if isinstance(given, QuantisedShape) and given.quantisation is not None:
        source = dequantised(scope, source, given.quantisation)
    return [quantised(scope, source, made)]


def uniform_dequantize(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    given = operation.operands[0].type
    if not isinstance(given, QuantisedShape) or given.quantisation is None:
        raise Refusal("the operand of uniform_dequantize is quantised")
    return [dequantised(scope, source, given.quantisation)]


def through_floats(convert: Convert, scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """An operation of quantised operands or results by the one on floats."""
    plain = Operation(operation.name, [], operation.attributes, operation.regions, operation.start, operation.end)
    for value in operation.operands:
        instruction, type_ = scope.get(value), value.type
        if isinstance(type_, QuantisedShape) and type_.quantisation is not None:
            instruction = dequantised(scope, instruction, type_.quantisation)
            own = Value(_floats(type_), value.name, value.owner, value.index)
            scope.values[own] = instruction
            value = own
        plain.operands.append(value)
    plain.results = [
        Value(_floats(one.type) if isinstance(one.type, QuantisedShape) else one.type, one.name, plain, one.index)
        for one in operation.results
    ]
    made = convert(scope, plain)
    return [
        quantised(scope, one, value.type) if isinstance(value.type, QuantisedShape) else one
        for one, value in zip(made, operation.results, strict=True)
    ]


def _floats(shape: QuantisedShape) -> Shape:
    assert shape.quantisation is not None
    return Shape(shape.quantisation.expressed, shape.dimensions, shape.layout, (), shape.dynamic)
