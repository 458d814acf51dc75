"""Checks of written shapes, for operations whose result shape is part of the operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from hlotool.ir.shape import UNBOUNDED, Shape, array, scalar, tuple_shape
from hlotool.ir.shape_checks import (
    ShapeError,
    agree,
    check_aliasing,
    expect,
    in_range,
    like,
    numeric_kind,
    plain,
    require,
    require_array,
    require_count,
    same_dimensions,
)
from hlotool.ir.types import ELEMENT_TYPES

__all__ = ["WRITTEN", "Check", "bitcast_rows"]

Check = Callable[[str, Shape, Sequence[Shape], Mapping[str, Any]], None]
"""Raises ShapeError unless the declared shape is one that the operation can have."""


def _check_convert(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    operand = operands[0]
    require_array(opcode, operand, 0)
    require(shape.is_array, f"{opcode} gives an array, {shape} is declared", "shape")
    expect(opcode, shape, like(operand, operand.element_type if opcode == "reduce-precision" else shape.element_type))


def _check_reduce_precision(
    opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]
) -> None:
    _check_convert(opcode, shape, operands, attributes)
    require(numeric_kind(shape) == "float", f"{opcode} works on floats, not on {shape.element_type}")
    for name, least in (("exponent_bits", 1), ("mantissa_bits", 0)):
        require(attributes[name] >= least, f"{opcode} needs {name} of {least} or more", f"attribute:{name}")


def _check_stochastic_convert(
    opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]
) -> None:
    _check_convert(opcode, shape, operands, attributes)
    value, random = operands
    require(numeric_kind(value) == "float", f"{opcode} works on floats, not on {value.element_type}", "operand:0")
    require(numeric_kind(shape) in ("signed", "unsigned", "float"), f"{opcode} to {shape.element_type}", "shape")
    require_array(opcode, random, 1)
    fits = numeric_kind(random) == "unsigned" and same_dimensions(value, random)
    require(fits, f"the random bits of {opcode} are unsigned integers like {value}, not {random}", "operand:1")


def _check_bitcast_convert(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    operand = operands[0]
    require_array(opcode, operand, 0)
    require(shape.is_array, f"{opcode} gives an array, {shape} is declared", "shape")
    if bitcast_rows(operand, shape) is not None:
        return
    have, want = ELEMENT_TYPES[operand.element_type].bits, ELEMENT_TYPES[shape.element_type].bits
    sizes = operand.dimensions
    if have > want:
        sizes = (*sizes, have // want)
    elif have < want:
        fits = bool(sizes) and sizes[-1] in (want // have, UNBOUNDED)
        message = f"bitcast-convert from {operand} to {shape.element_type} needs a last dimension of {want // have}"
        require(fits, message)
        sizes = sizes[:-1]
    expect(opcode, shape, array(shape.element_type, sizes))


def bitcast_rows(operand: Shape, shape: Shape) -> tuple[int, ...] | None:
    """Sizes of the operand of a bitcast-convert in the form that has a standard result, where only the total number of
    bits is that of `shape`; None for all others.  XLA takes these: the elements are in row-major order."""
    have, want = ELEMENT_TYPES[operand.element_type].bits, ELEMENT_TYPES[shape.element_type].bits
    if "pred" in (operand.element_type, shape.element_type):
        return None  # a bit here, a byte in XLA
    if not (operand.is_static and shape.is_static) or UNBOUNDED in (*operand.dimensions, *shape.dimensions):
        return None
    if operand.size * have != shape.size * want or max(have, want) % min(have, want):
        return None
    if have > want:
        standard = shape.dimensions == (*operand.dimensions, have // want)
        return None if standard else (operand.size,)
    standard = operand.dimensions == (*shape.dimensions, *((want // have,) if have < want else ()))
    return None if standard else (shape.size, *((want // have,) if have < want else ()))


def _check_constant(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    literal = attributes["literal"]
    if not literal.shape.compatible(shape):
        raise ShapeError(f"a literal of {literal.shape} for {shape}", "shape")


def _check_iota(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    dimension = attributes["iota_dimension"]
    require(shape.is_array, f"iota gives an array, {shape} is declared", "shape")
    fits = 0 <= dimension < shape.rank
    require(fits, f"iota_dimension {dimension} is out of range for rank {shape.rank}", "attribute:iota_dimension")
    require(numeric_kind(shape) != "pred", "iota does not count in pred", "shape")


def _check_broadcast(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    operand, dimensions = operands[0], attributes["dimensions"]
    require_array(opcode, operand, 0)
    same_type = shape.is_array and shape.element_type == operand.element_type
    require(same_type, f"broadcast of {operand} gives {operand.element_type}, {shape} is declared", "shape")
    fits = len(dimensions) == operand.rank
    require(fits, f"broadcast of {operand} lists {plain(len(dimensions), 'dimension')}", "attribute:dimensions")
    in_range("dimensions", dimensions, shape.rank, "broadcast dimension")
    for index, dimension in enumerate(dimensions):
        have, want = operand.dimensions[index], shape.dimensions[dimension]
        if have != want and UNBOUNDED not in (have, want):
            raise ShapeError(
                f"broadcast: operand dimension {index} has {plain(have, 'element')}, "
                f"result dimension {dimension} has {want}", "shape",
            )  # fmt: skip


def _check_reshape(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    if opcode == "dynamic-reshape":
        require_count(opcode, operands, 1 + shape.rank, 1 + shape.rank)  # one size per dimension of the result
        for index, size in enumerate(operands[1:], 1):
            fits = size.is_scalar and size.element_type == "s32"
            require(fits, f"a size must be s32[], not {size}", f"operand:{index}")
    operand = operands[0]
    require_array(opcode, operand, 0)
    same_type = shape.is_array and shape.element_type == operand.element_type
    require(same_type, f"{opcode} of {operand} cannot give {shape}", "shape")
    unknown = UNBOUNDED in operand.dimensions or UNBOUNDED in shape.dimensions
    have, want = prod(operand.dimensions), prod(shape.dimensions)
    require(unknown or have == want, f"{opcode} from {have} elements to {want}", "shape")


def _check_bitcast(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    operand = operands[0]
    if not (operand.is_array and shape.is_array):
        expect(opcode, shape, operand)
        return
    bits = [8 if s.element_type == "pred" else ELEMENT_TYPES[s.element_type].bits for s in (operand, shape)]
    have, want = operand.size * bits[0], shape.size * bits[1]
    known = all(UNBOUNDED not in s.dimensions and not (s.layout and s.layout.tiles) for s in (operand, shape))
    require(not known or have == want, f"bitcast from {operand} to {shape}: sizes differ", "shape")


def _check_contraction(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """Dot-like operations may give another element type than their operands have."""
    from hlotool.ir.shape_contractions import CONTRACTIONS  # loaded for those who have some

    inferred = CONTRACTIONS[opcode](opcode, operands, attributes)
    expect(opcode, shape, like(inferred, shape.element_type) if shape.is_array else inferred)


def _check_scan(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    from hlotool.ir.shape_reductions import scan_shape

    made = scan_shape(operands, attributes, shape)
    one = shape.is_tuple and len(shape.elements) == 1 and not made.is_tuple  # XLA takes both for one result
    expect(opcode, shape, tuple_shape([made]) if one else made)


def _check_rng(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    require(shape.is_array, f"rng gives an array, {shape} is declared", "shape")
    distribution, kind = attributes["distribution"], ELEMENT_TYPES[shape.element_type].kind
    fits = kind == "float" or (distribution == "rng_uniform" and kind != "complex")
    require(fits, f"{distribution} does not draw {shape.element_type}", "shape")
    require_count(opcode, operands, 2, 2)
    for index, operand in enumerate(operands):
        fits = operand.is_scalar and operand.element_type == shape.element_type
        require(fits, f"a parameter of the distribution must be {shape.element_type}[]", f"operand:{index}")


def _check_generator(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    state = operands[0].element_type
    require(state in ("u32", "u64"), f"the state of {opcode} is u32 or u64, not {operands[0]}", "operand:0")
    fits = shape.is_tuple and len(shape.elements) == 2 and agree(shape.elements[0], operands[0])
    require(fits, f"rng-bit-generator gives (state, bits) for the state {operands[0]}, not {shape}", "shape")


def _check_state(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    expect(opcode, shape, array("u64", (2,)))


def _check_fusion(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    expect(opcode, shape, attributes["calls"].root.shape)
    check_aliasing(shape, operands, attributes)


def _check_copy_start(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    expect(opcode, shape, tuple_shape([operands[0], operands[0], scalar("u32")]))


WRITTEN: dict[str, Check] = {
    "convert": _check_convert,
    "reduce-precision": _check_reduce_precision,
    "stochastic-convert": _check_stochastic_convert,
    "bitcast-convert": _check_bitcast_convert,
    "constant": _check_constant,
    "iota": _check_iota,
    "broadcast": _check_broadcast,
    "reshape": _check_reshape,
    "dynamic-reshape": _check_reshape,
    "bitcast": _check_bitcast,
    "dot": _check_contraction,
    "ragged-dot": _check_contraction,
    "scan": _check_scan,
    "scaled-dot": _check_contraction,
    "convolution": _check_contraction,
    "rng": _check_rng,
    "rng-get-and-update-state": _check_state,
    "rng-bit-generator": _check_generator,
    "fusion": _check_fusion,
    "copy-start": _check_copy_start,
}
