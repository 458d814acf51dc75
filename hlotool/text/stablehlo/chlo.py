"""CHLO: operations of client libraries, by those of HLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlotool.ir import UNBOUNDED, Instruction, Literal, Shape, array, dtype_of
from hlotool.text.stablehlo.elementwise import broadcast_in_dim, result
from hlotool.text.stablehlo.scope import (
    Refusal,
    Scope,
    attribute,
    dictionary,
    integers,
    known_shape,
    numbers_of,
    unsupported,
    word,
)
from hlotool.text.stablehlo.tree import Number, Operation

__all__ = ["BROADCASTING", "function"]

BROADCASTING = {
    "add": "add", "and": "and", "atan2": "atan2", "divide": "divide", "maximum": "maximum", "minimum": "minimum",
    "multiply": "multiply", "or": "or", "power": "power", "remainder": "remainder", "shift_left": "shift-left",
    "shift_right_arithmetic": "shift-right-arithmetic", "shift_right_logical": "shift-right-logical",
    "subtract": "subtract", "xor": "xor", "complex": "complex",
}  # fmt: skip
"""``chlo.broadcast_NAME`` and its opcode."""

Formula = Callable[..., Instruction]


def together(scope: Scope, operation: Operation, operands: Sequence[Instruction]) -> list[Instruction]:
    """The operands with the dimensions that they make together, as NumPy would, or as ``broadcast_dimensions`` says."""
    shapes = [one.shape for one in operands]
    if any(UNBOUNDED in shape.dimensions or not shape.is_static for shape in shapes):
        if all(shape.dimensions == shapes[0].dimensions for shape in shapes):
            return list(operands)
        raise unsupported(f"{operation.name} of sizes that are not known")
    rank = max(shape.rank for shape in shapes)
    given = operation.attributes.get("broadcast_dimensions")
    rows: list[tuple[int, ...]] = []
    for shape in shapes:
        own = tuple(range(rank - shape.rank, rank))
        rows.append(numbers_of(given, "broadcast_dimensions") if given is not None and shape.rank < rank else own)
    sizes = [1] * rank
    for shape, row in zip(shapes, rows, strict=True):
        if len(row) != shape.rank or any(not 0 <= d < rank for d in row):
            raise Refusal(f"broadcast_dimensions {list(row)} do not fit {shape}")
        for size, d in zip(shape.dimensions, row, strict=True):
            if size != 1 and sizes[d] not in (1, size):
                raise Refusal(f"{operation.name} of {' and '.join(map(str, shapes))}: dimensions differ")
            sizes[d] = size if size != 1 else sizes[d]
    return [
        one if one.shape.dimensions == tuple(sizes) else
        broadcast_in_dim(scope, one, row, array(one.shape.element_type, sizes))
        for one, row in zip(operands, rows, strict=True)
    ]  # fmt: skip


def broadcasting(opcode: str) -> Callable[[Scope, Operation], Sequence[Instruction]]:
    """An operation on two arrays of shapes that broadcast."""

    def convert(scope: Scope, operation: Operation) -> Sequence[Instruction]:
        return [scope.builder.add(opcode, None, together(scope, operation, scope.operands(operation)))]

    return convert


def broadcast_compare(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    direction = word(operation, "comparison_direction", ("EQ", "NE", "GE", "GT", "LE", "LT"))
    kind = word(operation, "compare_type", ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"), "NOTYPE")
    left, right = together(scope, operation, scope.operands(operation))
    return [scope.builder.compare(left, right, direction, "TOTALORDER" if kind == "TOTALORDER" else None)]


def broadcast_select(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    return [scope.builder.add("select", None, together(scope, operation, scope.operands(operation)))]


def constant(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    value = attribute(operation, "value")
    if not isinstance(value, Literal):
        raise Refusal("the value of a constant is dense<...>")
    return [scope.builder.constant(value)]


def constant_like(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    value = attribute(operation, "value")
    kind = result(operation).element_type
    found: Any = value.value if isinstance(value, Number) else value
    if not isinstance(found, (int, float, bool)):
        raise Refusal("the value of constant_like is a number", code="HLO0130")
    single = scope.builder.constant(np.asarray(found).astype(dtype_of(kind)), kind)
    shape = source.shape.with_type(kind)
    if not known_shape(shape) or not shape.is_static:
        raise unsupported("constant_like of an array of unknown size")
    return [single if not shape.rank else scope.builder.broadcast(single, (), shape)]


def function(formula: Formula) -> Callable[[Scope, Operation], Sequence[Instruction]]:
    """An elementwise function that a formula says, on operands of shapes that broadcast."""

    def convert(scope: Scope, operation: Operation) -> Sequence[Instruction]:
        operands = scope.operands(operation)
        if len(operands) > 1:
            operands = together(scope, operation, operands)
        return [formula(scope.builder, *operands)]

    return convert


def ragged_dot(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    fields = dictionary(operation, "ragged_dot_dimension_numbers")
    values: dict[str, Any] = {}
    for side in ("lhs", "rhs"):
        batch = numbers_of(fields.get(f"{side}_batching_dimensions", ()), "batching dimensions")
        if batch:
            values[f"{side}_batch_dims"] = batch
        values[f"{side}_contracting_dims"] = numbers_of(
            fields.get(f"{side}_contracting_dimensions", ()), "contracting dimensions"
        )
    values["lhs_ragged_dims"] = numbers_of(fields.get("lhs_ragged_dimensions", ()), "ragged dimensions")
    groups = numbers_of(fields.get("rhs_group_dimensions", ()), "group dimensions")
    if groups:
        values["rhs_group_dims"] = groups
    from hlotool.text.stablehlo.contractions import precision

    return [scope.add("ragged-dot", result(operation), scope.operands(operation), values | precision(operation))]


def scan(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """A scan over a dimension: HLO's opcode of this name, with the carries last in its operands."""
    from hlotool.text.stablehlo.scope import flag, number

    operands = scope.operands(operation)
    dimension = number(operation, "dimension")
    carries = len(scope.region(operation).arguments) and number(operation, "num_carries", -1)
    if carries < 0:
        segments = integers(operation, "operandSegmentSizes", ())
        carries = segments[1] if len(segments) == 2 else len(operands) // 2
    values: dict[str, Any] = {"dimensions": (dimension,), "num_carries": carries}
    if flag(operation, "is_reverse"):
        values["is_reverse"] = True
    values["is_associative"] = flag(operation, "is_associative")
    values["to_apply"] = scope.applied(operation)
    shapes: list[Shape] = [result(operation, n) for n in range(len(operation.results))]
    return scope.spread("scan", shapes, operands, values)
