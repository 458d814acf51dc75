"""Shape rules of data movement, tuples, control flow and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlotool.ir.dynamic import PAD_TO_STATIC, SLICE_TO_DYNAMIC
from hlotool.ir.shape import UNBOUNDED, Shape, array, row_major, scalar, token, tuple_shape
from hlotool.ir.shape_checks import (
    Rule,
    ShapeError,
    expect,
    flags_of,
    in_range,
    like,
    plain,
    require,
    require_array,
    require_count,
    require_token,
    with_dynamic,
)
from hlotool.ir.types import ELEMENT_TYPES

__all__ = ["MOVEMENT", "check_border"]


def _same(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    return operands[0]


def _broadcast(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Only of a scalar to itself: other sizes of the result stand nowhere but in its shape."""
    if not operands[0].is_scalar or attributes["dimensions"]:
        raise ShapeError(f"{opcode} needs its result shape written before it", code="HLO0114")
    return operands[0]


def _after_all(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Of tokens; XLA takes arrays, too, which are there when they are computed."""
    return token()


def _add_dependency(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    require_token(opcode, operands[1], 1)
    return operands[0]


def _transpose(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    operand, order = operands[0], attributes["dimensions"]
    require_array(opcode, operand, 0)
    if sorted(order) != list(range(operand.rank)):
        inside = ",".join(map(str, order))
        message = f"{{{inside}}} is not a permutation of the {plain(operand.rank, 'dimension')} of the operand"
        raise ShapeError(message, "attribute:dimensions")
    dynamic = tuple(operand.dynamic[d] for d in order) if operand.dynamic else ()
    sizes = tuple(operand.dimensions[d] for d in order)
    return Shape(operand.element_type, sizes, row_major(operand.rank), (), dynamic)


def _reverse(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    require_array(opcode, operands[0], 0)
    in_range("dimensions", attributes["dimensions"], operands[0].rank, "reverse dimension")
    return like(operands[0])


def _concatenate(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    require_count(opcode, operands, 1)
    first = operands[0]
    require_array(opcode, first, 0)
    require(len(attributes["dimensions"]) == 1, "concatenate takes one dimension", "attribute:dimensions")
    (dimension,) = in_range("dimensions", attributes["dimensions"], first.rank, "concatenate dimension")
    total = 0
    for index, operand in enumerate(operands):
        require_array(opcode, operand, index)
        part = f"operand:{index}"
        require(operand.element_type == first.element_type, f"concatenate of {first} and {operand}: types differ", part)
        fits = operand.rank == first.rank and all(
            a == b or d == dimension or UNBOUNDED in (a, b)
            for d, (a, b) in enumerate(zip(operand.dimensions, first.dimensions, strict=True))
        )
        require(fits, f"concatenate of {first} and {operand} along dimension {dimension}", part)
        size = operand.dimensions[dimension]
        total = UNBOUNDED if UNBOUNDED in (total, size) else total + size
    sizes = tuple(total if d == dimension else size for d, size in enumerate(first.dimensions))
    flags = [any(o.dynamic and o.dynamic[d] for o in operands) for d in range(first.rank)]
    return Shape(first.element_type, sizes, row_major(first.rank), (), tuple(flags) if any(flags) else ())


def _pad(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    operand, value = operands
    require_array(opcode, operand, 0)
    require(
        value.is_scalar and value.element_type == operand.element_type,
        f"the padding value of {operand} must be {operand.element_type}[], not {value}", "operand:1",
    )  # fmt: skip
    padding = attributes["padding"]
    if len(padding) != operand.rank:
        raise ShapeError(f"padding for {len(padding)} of {operand.rank} dimensions", "attribute:padding")
    sizes = []
    for index, (size, pad) in enumerate(zip(operand.dimensions, padding, strict=True)):
        require(pad.interior >= 0, "interior padding cannot be negative", "attribute:padding")
        padded = size + pad.low + pad.high + max(size - 1, 0) * pad.interior
        require(padded >= 0, f"negative padding leaves nothing of dimension {index}", "attribute:padding")
        sizes.append(UNBOUNDED if size == UNBOUNDED else padded)
    return Shape(operand.element_type, tuple(sizes), row_major(operand.rank), (), operand.dynamic)


def _slice(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    operand, ranges = operands[0], attributes["slice"]
    require_array(opcode, operand, 0)
    if len(ranges) != operand.rank:
        raise ShapeError(f"slice of {len(ranges)} of {operand.rank} dimensions", "attribute:slice")
    sizes = []
    for index, (size, one) in enumerate(zip(operand.dimensions, ranges, strict=True)):
        part = f"attribute:slice:{index}"
        require(one.start >= 0, f"slice start {one.start} is negative", part)
        require(one.stride > 0, f"slice stride {one.stride} must be positive", part)
        require(one.limit >= one.start, f"slice limit {one.limit} is below its start {one.start}", part)
        beyond = size != UNBOUNDED and one.limit > size
        require(not beyond, f"slice limit {one.limit} is beyond dimension {index} of size {size}", part)
        sizes.append(-(-(one.limit - one.start) // one.stride))
    whole = zip(flags_of(operand), ranges, operand.dimensions, strict=True)
    kept = (flag and (one.start, one.limit, one.stride) == (0, size, 1) for flag, one, size in whole)
    return with_dynamic(array(operand.element_type, sizes), kept)


def _indices(opcode: str, operand: Shape, indices: Sequence[Shape], first: int) -> None:
    """Start indices of dynamic slices: one scalar per dimension, or one array of rank 1."""
    if len(indices) == 1 and indices[0].rank == 1:
        require(indices[0].dimensions[0] == operand.rank, f"{opcode} needs {operand.rank} indices", f"operand:{first}")
    elif len(indices) != operand.rank:
        raise ShapeError(f"{opcode} of rank {operand.rank} needs as many indices, {len(indices)} given")
    for number, index in enumerate(indices, first):
        fine = index.is_array and ELEMENT_TYPES[index.element_type].is_integer and index.rank <= 1
        require(fine, f"an index of {opcode} must be an integer scalar, not {index}", f"operand:{number}")


def _dynamic_slice(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    require_count(opcode, operands, 1)
    operand, sizes = operands[0], attributes["dynamic_slice_sizes"]
    require_array(opcode, operand, 0)
    _indices(opcode, operand, operands[1:], 1)
    require(len(sizes) == operand.rank, f"{len(sizes)} slice sizes for {operand}", "attribute:dynamic_slice_sizes")
    for index, (size, whole) in enumerate(zip(sizes, operand.dimensions, strict=True)):
        fits = size >= 0 and (whole == UNBOUNDED or size <= whole)
        part = f"attribute:dynamic_slice_sizes:{index}"
        require(fits, f"slice size {size} does not fit dimension {index} of size {whole}", part)
    kept = (flag and a == b for flag, a, b in zip(flags_of(operand), sizes, operand.dimensions, strict=True))
    return with_dynamic(array(operand.element_type, sizes), kept)


def _dynamic_update_slice(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    require_count(opcode, operands, 2)
    operand, update = operands[:2]
    require_array(opcode, operand, 0)
    require_array(opcode, update, 1)
    _indices(opcode, operand, operands[2:], 2)
    fits = update.element_type == operand.element_type and update.rank == operand.rank
    fits = fits and all(
        u <= o or UNBOUNDED in (u, o) for u, o in zip(update.dimensions, operand.dimensions, strict=True)
    )
    require(fits, f"an update of {update} does not fit into {operand}", "operand:1")
    return like(operand)


def _tuple(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    return tuple_shape(operands)


def _get_tuple_element(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    operand, index = operands[0], attributes["index"]
    if not operand.is_tuple:  # asked first: the text of a wide tuple takes longer than all else here
        raise ShapeError(f"get-tuple-element of {operand}, which is no tuple", part="operand:0")
    count = len(operand.elements)
    require(0 <= index < count, f"index {index} is out of range for a tuple of {count}", "attribute:index")
    element: Shape = operand.elements[index]
    return element


def _copy_start(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    return tuple_shape([operands[0], operands[0], scalar("u32")])


def _copy_done(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    require(operands[0].is_tuple and len(operands[0].elements) >= 1, "copy-done takes the tuple of a copy-start")
    return operands[0].elements[0]


def _while(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    return operands[0]


def _call(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    shape: Shape = attributes["to_apply"].root.shape
    return shape


def _conditional(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    branches = attributes.get("branch_computations") or (attributes.get("true_computation"),)
    if branches[0] is None:
        raise ShapeError("conditional needs branch_computations, or true_computation and false_computation")
    shape: Shape = branches[0].root.shape
    return shape


def _dimension_size(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    operand = operands[0]
    require_array(opcode, operand, 0)
    require(len(attributes["dimensions"]) == 1, f"{opcode} takes one dimension", "attribute:dimensions")
    (dimension,) = in_range("dimensions", attributes["dimensions"], operand.rank)
    if opcode == "get-dimension-size":
        return scalar("s32")
    require(operands[1].compatible(scalar("s32")), f"the size must be s32[], not {operands[1]}", "operand:1")
    flags = [d == dimension or bool(operand.dynamic and operand.dynamic[d]) for d in range(operand.rank)]
    return Shape(operand.element_type, operand.dimensions, row_major(operand.rank), (), tuple(flags))


def _device_number(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    return scalar("u32")


def _topk(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    operand, k = operands[0], attributes["k"]
    require_array(opcode, operand, 0)
    require(operand.rank > 0, "topk needs at least one dimension", "operand:0")
    require(not ELEMENT_TYPES[operand.element_type].is_complex, "complex numbers have no order", "operand:0")
    fits = 0 <= k <= operand.dimensions[-1] or operand.dimensions[-1] == UNBOUNDED
    require(fits, f"the {k} greatest of {operand.dimensions[-1]} elements", "attribute:k")
    sizes = (*operand.dimensions[:-1], k)
    return tuple_shape([array(operand.element_type, sizes), array("s32", sizes)])


def check_border(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """The custom calls at the border of dynamic dimensions: what they do is known."""
    target = attributes.get("custom_call_target")
    if target == PAD_TO_STATIC:
        require_count(target, operands, 1, 1)
        require_array(target, operands[0], 0)
        own = operands[0]
        sizes = [scalar("s32")] * own.rank
        expect(target, shape, tuple_shape([array(own.element_type, own.dimensions), *sizes]))
    elif target == SLICE_TO_DYNAMIC:
        require_count(target, operands, 1)
        require_array(target, operands[0], 0)
        require_count(target, operands, 1 + operands[0].rank, 1 + operands[0].rank)
        for index, size in enumerate(operands[1:], 1):
            require(size.compatible(scalar("s32")), f"a size must be s32[], not {size}", f"operand:{index}")
        expect(target, shape, like(operands[0]))


MOVEMENT: dict[str, Rule] = {
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reverse": _reverse,
    "concatenate": _concatenate,
    "pad": _pad,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "copy": _same,
    "copy-start": _copy_start,
    "copy-done": _copy_done,
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "while": _while,
    "call": _call,
    "conditional": _conditional,
    "after-all": _after_all,
    "add-dependency": _add_dependency,
    "opt-barrier": _same,
    "domain": _same,
    "get-dimension-size": _dimension_size,
    "set-dimension-size": _dimension_size,
    "partition-id": _device_number,
    "replica-id": _device_number,
    "topk": _topk,
}
