"""Operations whose sizes are operands: static ones where these can be found, bounded ones where HLO has them.

Sizes are found from constants and from the dimensions of arrays, through the arithmetic that programs do on sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlotool.ir import UNBOUNDED, Instruction, Shape, array
from hlotool.text.stablehlo.contractions import convolved
from hlotool.text.stablehlo.elementwise import broadcast_in_dim, padded, result, sliced
from hlotool.text.stablehlo.reductions import gather_attributes
from hlotool.text.stablehlo.scope import Refusal, Scope, integers, known_shape, number, unsupported, word
from hlotool.text.stablehlo.tree import Operation

__all__ = ["FOLDABLE", "constant_numbers", "folded"]

Array = np.ndarray[Any, Any]

_MOST = 4096  # elements of what is folded: sizes are few
_HINT = "give the shapes of the arguments (hlotool import --argument), or bounds of the sizes"


def folded(instruction: Instruction) -> Array | None:
    """The value of an instruction that needs no arguments; None where it does, or where nobody takes it for sizes."""
    known: dict[Instruction, Array | None] = {}
    stack = [instruction]
    while stack:
        one = stack[-1]
        if one in known:
            stack.pop()
            continue
        missing = [operand for operand in one.operands if operand not in known and _needs(one)]
        if missing:
            stack += missing
            continue
        stack.pop()
        operands = [known.get(operand) for operand in one.operands]
        known[one] = _value(one, operands)
    return known[instruction]


def _needs(instruction: Instruction) -> bool:
    """Whether the value of an instruction depends on those of its operands."""
    return instruction.opcode in _FOLDED and instruction.shape.size <= _MOST


def _value(instruction: Instruction, operands: list[Array | None]) -> Array | None:
    shape = instruction.shape
    if not shape.is_array or not shape.is_static or shape.size > _MOST:
        return None
    match instruction.opcode:
        case "constant":
            return None if instruction.literal.elided else instruction.literal.value()
        case "iota":
            (dimension,) = (instruction.attributes["iota_dimension"],)
            sizes = [1] * shape.rank
            sizes[dimension] = shape.dimensions[dimension]
            values = np.arange(shape.dimensions[dimension]).reshape(sizes)
            return _typed(np.broadcast_to(values, shape.dimensions), shape)
        case "get-dimension-size":
            source = instruction.operands[0].shape
            (dimension,) = instruction.attributes["dimensions"]
            fixed = not source.dynamic or not source.dynamic[dimension]
            return _typed(np.asarray(source.dimensions[dimension]), shape) if fixed else None
    if not _needs(instruction) or any(one is None for one in operands):
        return None
    with np.errstate(all="ignore"):
        return _folded(instruction, [one for one in operands if one is not None])


def _typed(values: Array, shape: Shape) -> Array:
    from hlotool.ir import dtype_of

    return values.astype(dtype_of(shape.element_type))


_BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_COMPARED = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
_FOLDED = {
    *_BINARY, "divide", "remainder", "compare", "select", "convert", "reshape", "broadcast", "concatenate", "slice",
    "negate", "not", "clamp", "sign", "abs",
}  # fmt: skip


FOLDABLE = frozenset({*_FOLDED, "constant", "iota", "get-dimension-size"})
"""Opcodes whose values `folded` can find."""


def _folded(instruction: Instruction, operands: list[Array]) -> Array | None:
    """What an opcode of `_FOLDED` makes of the values of its operands."""
    shape, attributes = instruction.shape, instruction.attributes
    opcode, first = instruction.opcode, operands[0]
    if opcode in _BINARY:
        return _typed(_BINARY[opcode](*operands), shape)
    match opcode:
        case "divide" | "remainder":
            right = operands[1]
            if first.dtype.kind not in "iu" or not right.all():
                return None
            quotient = (np.abs(first.astype(object)) // np.abs(right.astype(object))) * np.sign(
                first.astype(object) * right.astype(object)
            )
            return _typed(quotient if opcode == "divide" else first - quotient * right, shape)
        case "compare":
            return np.asarray(_COMPARED[attributes["direction"]](*operands))
        case "select":
            return np.where(*operands)
        case "clamp":
            return _typed(np.minimum(np.maximum(operands[1], first), operands[2]), shape)
        case "negate":
            return _typed(-first, shape)
        case "sign":
            return _typed(np.sign(first), shape)
        case "abs":
            return _typed(np.abs(first), shape)
        case "not":
            return ~first
        case "convert":
            return _typed(first, shape)
        case "reshape":
            return first.reshape(shape.dimensions)
        case "broadcast":
            sizes = [1] * shape.rank
            for size, dimension in zip(first.shape, attributes["dimensions"], strict=True):
                sizes[dimension] = size
            return np.broadcast_to(first.reshape(sizes), shape.dimensions)
        case "concatenate":
            return np.concatenate(operands, attributes["dimensions"][0])
        case _:
            return first[tuple(slice(one.start, one.limit, one.stride) for one in attributes["slice"])]


def constant_numbers(instruction: Instruction, operation: Operation) -> tuple[int, ...]:
    """The integers of an operand; a refusal where they are only known when the program runs."""
    values = folded(instruction)
    if values is None:
        raise unsupported(f"{operation.name} has sizes that are only known when the program runs", _HINT)
    return tuple(int(one) for one in values.reshape(-1))


def _sizes(operation: Operation, instruction: Instruction) -> Shape:
    """The shape of the result: as it is written, or of the sizes of an operand."""
    shape = result(operation)
    if known_shape(shape) and shape.is_static:
        return shape
    sizes = constant_numbers(instruction, operation)
    if len(sizes) != shape.rank or any(size < 0 for size in sizes):
        raise Refusal(f"{operation.name} of sizes {list(sizes)} gives {shape}")
    return array(shape.element_type, sizes)


def dynamic_reshape(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    source, sizes = scope.operands(operation)
    shape = result(operation)
    if known_shape(shape) and not shape.is_static and folded(sizes) is None:
        wide = sizes if sizes.shape.element_type == "s32" else scope.builder.convert(sizes, "s32")
        parts = [
            scope.builder.reshape(scope.builder.slice(wide, (n,), (n + 1,)), ()) for n in range(shape.rank)
        ]
        return [scope.builder.add("dynamic-reshape", shape, (source, *parts))]
    return [scope.builder.reshape(source, _sizes(operation, sizes))]


def dynamic_broadcast_in_dim(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    source, sizes = scope.operands(operation)
    return [broadcast_in_dim(scope, source, integers(operation, "broadcast_dimensions"), _sizes(operation, sizes))]


def dynamic_iota(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (sizes,) = scope.operands(operation)
    return [scope.builder.iota(_sizes(operation, sizes), number(operation, "iota_dimension"))]


def dynamic_pad(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    operands = scope.operands(operation)
    rows = [constant_numbers(one, operation) for one in operands[2:]]
    if len(rows) != 3:
        raise Refusal("dynamic_pad takes an array, a value, and three lists of sizes")
    return [padded(scope, operation, rows)]


def real_dynamic_slice(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    source, *rest = scope.operands(operation)
    shape = result(operation)
    values = [folded(one) for one in rest]
    moves = len(rest) == 3 and values[0] is None and values[2] is not None and bool((values[2] == 1).all())
    sizes = shape.dimensions if known_shape(shape) and shape.is_static else _distance(*rest[:2]) if moves else None
    if moves and sizes is not None and len(sizes) == shape.rank:
        builder = scope.builder
        starts = [builder.reshape(builder.slice(rest[0], (n,), (n + 1,)), ()) for n in range(shape.rank)]
        return [builder.dynamic_slice(source, starts, sizes)]
    return [sliced(scope, source, [constant_numbers(one, operation) for one in rest])]


def _distance(start: Instruction, limit: Instruction) -> tuple[int, ...] | None:
    """How far `limit` is from `start`, where it is that and numbers that are known; None where it is not."""
    if limit.opcode != "add" or start not in limit.operands:
        return None
    left, right = limit.operands
    values = folded(right if left is start else left)
    return None if values is None else tuple(int(one) for one in values.reshape(-1))


def dynamic_gather(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    source, indices, sizes = scope.operands(operation)
    values = gather_attributes(operation, constant_numbers(sizes, operation))
    return [scope.add("gather", result(operation), (source, indices), values)]


def dynamic_conv(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    left, right, sizes = scope.operands(operation)
    flat = constant_numbers(sizes, operation)
    padding = list(zip(flat[::2], flat[1::2], strict=True))
    return [convolved(scope, operation, (left, right), padding)]


def get_dimension_size(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    values = {"dimensions": (number(operation, "dimension"),)}
    return [scope.builder.add("get-dimension-size", None, scope.operands(operation), values)]


def set_dimension_size(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    source, size = scope.operands(operation)
    dimension = number(operation, "dimension")
    if not 0 <= dimension < source.shape.rank or source.shape.dimensions[dimension] == UNBOUNDED:
        raise Refusal(f"there is no dimension {dimension} with a bound in {source.shape}")
    values = folded(size)
    if values is not None and int(values) == source.shape.dimensions[dimension] and source.shape.is_static:
        shape = result(operation)
        if shape.is_static:
            return [source]
    return [scope.builder.add("set-dimension-size", None, (source, size), {"dimensions": (dimension,)})]


def rng(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    kind = word(operation, "rng_distribution", ("UNIFORM", "NORMAL"))
    low, high, sizes = scope.operands(operation)
    shape = result(operation)
    if not known_shape(shape):
        shape = array(shape.element_type, constant_numbers(sizes, operation))
    return [scope.builder.add("rng", shape, (low, high), {"distribution": f"rng_{kind.lower()}"})]
