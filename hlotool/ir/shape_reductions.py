"""Shape rules of reductions, windows, sorts, linear algebra, Fourier transforms and batch norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlotool.ir.attributes import Window, WindowDimension
from hlotool.ir.shape import UNBOUNDED, Shape, array, row_major, tuple_shape
from hlotool.ir.shape_checks import (
    Rule,
    ShapeError,
    agree,
    any_dynamic,
    flags_of,
    in_range,
    like,
    numeric_kind,
    plain,
    positions,
    require,
    require_array,
    require_count,
    results,
    same_dimensions,
    with_dynamic,
)

__all__ = ["REDUCTIONS", "scan_shape"]


def _pairs(opcode: str, operands: Sequence[Shape]) -> tuple[Sequence[Shape], Sequence[Shape]]:
    """The inputs and initial values of a variadic reduction."""
    require_count(opcode, operands, 2)
    require(len(operands) % 2 == 0, f"{opcode} takes as many initial values as arrays, {len(operands)} operands given")
    half = len(operands) // 2
    inputs, initial = operands[:half], operands[half:]
    for index, one in enumerate(operands):
        require_array(opcode, one, index)
    for index, one in enumerate(inputs):
        message = f"{opcode} of {inputs[0]} and {one}: dimensions differ"
        require(same_dimensions(one, inputs[0]), message, f"operand:{index}")
    for index, one in enumerate(initial):
        require(one.is_scalar, f"an initial value of {opcode} must be a scalar, not {one}", f"operand:{half + index}")
        same = one.element_type == inputs[index].element_type
        require(same, f"the initial value of {inputs[index]} in {opcode} is {one}", f"operand:{half + index}")
    return inputs, initial


def _reducer_types(attributes: Mapping[str, Any], initial: Sequence[Shape]) -> list[str]:
    """Element types of the results: those that the called computation gives, where there is one."""
    called = attributes.get("to_apply")
    if called is None:
        return [one.element_type for one in initial]
    root: Shape = called.root.shape
    leaves = root.elements if root.is_tuple else (root,)
    if len(leaves) != len(initial) or not all(leaf.is_array for leaf in leaves):
        leaves = tuple(initial)  # what is wrong with the computation is said of it
    return [leaf.element_type for leaf in leaves]


def _reduce(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    inputs, initial = _pairs(opcode, operands)
    first = inputs[0]
    gone = in_range("dimensions", attributes["dimensions"], first.rank, "reduce dimension")
    kept = [d for d in range(first.rank) if d not in gone]
    sizes = tuple(first.dimensions[d] for d in kept)
    dynamic = any_dynamic(first, inputs[1:]).dynamic
    flags = tuple(dynamic[d] for d in kept) if dynamic else ()
    types = _reducer_types(attributes, initial)
    shapes = [Shape(t, sizes, row_major(len(kept)), (), flags if any(flags) else ()) for t in types]
    called = attributes.get("to_apply")
    return tuple_shape(shapes) if called is not None and called.root.shape.is_tuple else results(shapes)


def _windowed(opcode: str, base: Shape, window: Window) -> tuple[int, ...]:
    """Window positions per dimension."""
    if len(window.dimensions) != base.rank:
        raise ShapeError(
            f"the window of {opcode} has {plain(len(window.dimensions), 'dimension')}, the operand is {base}",
            "attribute:window",
        )
    return tuple(positions(one, size) for one, size in zip(window.dimensions, base.dimensions, strict=True))


def _trivial_window(rank: int) -> Window:
    return Window((WindowDimension(1),) * rank)


def _reduce_window(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    inputs, initial = _pairs(opcode, operands)
    window = attributes.get("window") or _trivial_window(inputs[0].rank)
    sizes = _windowed(opcode, inputs[0], window)
    dynamic = any_dynamic(inputs[0], inputs[1:]).dynamic
    shapes = [with_dynamic(array(t, sizes), dynamic) for t in _reducer_types(attributes, initial)]
    called = attributes.get("to_apply")
    return tuple_shape(shapes) if called is not None and called.root.shape.is_tuple else results(shapes)


def _select_and_scatter(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    operand, source, initial = operands
    for index, one in enumerate(operands):
        require_array(opcode, one, index)
    sizes = _windowed(opcode, operand, attributes.get("window") or _trivial_window(operand.rank))
    if not same_dimensions(source, array(source.element_type, sizes)):
        raise ShapeError(f"the source of {opcode} is {source}, the window gives {array('f32', sizes)}", "operand:1")
    require(initial.is_scalar, f"the initial value of {opcode} must be a scalar, not {initial}", "operand:2")
    return like(operand)


def _map(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    require_count(opcode, operands, 1)
    for index, one in enumerate(operands):
        require_array(opcode, one, index)
        message = f"map of {operands[0]} and {one}: dimensions differ"
        require(same_dimensions(one, operands[0]), message, f"operand:{index}")
    root: Shape = attributes["to_apply"].root.shape
    require(root.is_scalar, f"map applies a scalar function, not one that gives {root}", "attribute:to_apply")
    return any_dynamic(like(operands[0], root.element_type), operands)


def _scan(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Arrays along the scanned dimension of what the computation gives, then the carries after the last step."""
    if attributes["num_carries"] == len(operands):
        raise ShapeError("the result shape of a scan without inputs cannot be inferred")
    return scan_shape(operands, attributes, None)


def scan_shape(operands: Sequence[Shape], attributes: Mapping[str, Any], written: Shape | None) -> Shape:
    """The result of a scan; one without inputs is as long as its `written` result says.

    Raises ShapeError where operands, attributes and the computation do not fit together.
    """
    carries, dimensions = attributes["num_carries"], attributes["dimensions"]
    require(len(dimensions) == 1, f"scan goes along one dimension, not {len(dimensions)}", "attribute:dimensions")
    fits = 0 <= carries <= len(operands)
    require(fits, f"num_carries is {carries}, scan has {plain(len(operands), 'operand')}", "attribute:num_carries")
    for index, one in enumerate(operands):
        require_array("scan", one, index)
    inputs = operands[: len(operands) - carries]
    root: Shape = attributes["to_apply"].root.shape
    leaves = root.elements if root.is_tuple else (root,)
    fits = len(leaves) >= carries and all(leaf.is_array for leaf in leaves)
    require(fits, f"num_carries is {carries}, the computation of scan gives {root}", "attribute:to_apply")
    given = leaves[: len(leaves) - carries]
    (axis,) = dimensions
    lengths = []
    for index, one in enumerate(inputs):
        in_range("dimensions", dimensions, one.rank, "scan dimension")
        lengths.append(one.dimensions[axis])
        message = f"inputs of scan are {lengths[0]} and {lengths[-1]} long"
        require(lengths[-1] == lengths[0], message, f"operand:{index}")
    if written is not None and not inputs:
        shape = written.elements[0] if written.is_tuple and written.elements else written
        require(bool(given) and shape.is_array, "scan needs an input or an output", "shape")
        in_range("dimensions", dimensions, shape.rank, "scan dimension")
        lengths.append(shape.dimensions[axis])
    for leaf in given:
        in_range("dimensions", dimensions, leaf.rank + 1, "scan dimension")
    stacked = [
        array(leaf.element_type, (*leaf.dimensions[:axis], lengths[0], *leaf.dimensions[axis:])) for leaf in given
    ]
    shapes = [*stacked, *(like(one) for one in operands[len(inputs) :])]
    return tuple_shape(shapes) if root.is_tuple else shapes[0]


def _sort(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    require_count(opcode, operands, 1)
    for index, one in enumerate(operands):
        require_array(opcode, one, index)
        same = same_dimensions(one, operands[0])
        require(same, f"sort of {operands[0]} and {one}: dimensions differ", f"operand:{index}")
    require(len(attributes["dimensions"]) == 1, "sort takes one dimension", "attribute:dimensions")
    in_range("dimensions", attributes["dimensions"], operands[0].rank, "sort dimension")
    dynamic = flags_of(any_dynamic(operands[0], operands))
    return results([with_dynamic(like(one), dynamic) for one in operands])


def _square(opcode: str, shape: Shape, index: int) -> None:
    require_array(opcode, shape, index)
    part = f"operand:{index}"
    require(shape.rank >= 2, f"{opcode} needs matrices, not {shape}", part)
    require(shape.dimensions[-1] == shape.dimensions[-2], f"{opcode} needs square matrices, not {shape}", part)
    require(numeric_kind(shape) in ("float", "complex"), f"{opcode} works on floats and complex, not on {shape}", part)


def _cholesky(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    _square(opcode, operands[0], 0)
    return like(operands[0])


def _triangular_solve(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    a, b = operands
    _square(opcode, a, 0)
    require_array(opcode, b, 1)
    fits = b.rank == a.rank and b.dimensions[:-2] == a.dimensions[:-2] and b.element_type == a.element_type
    side = -2 if attributes.get("left_side", False) else -1
    require(fits and b.dimensions[side] == a.dimensions[-1], f"triangular-solve of {a} and {b}", "operand:1")
    return like(b)


def _fft(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    operand, kind, lengths = operands[0], attributes["fft_type"], attributes["fft_length"]
    require_array(opcode, operand, 0)
    fits = 1 <= len(lengths) <= min(3, operand.rank)
    require(fits, f"fft_length of {len(lengths)} dimensions for {operand}", "attribute:fft_length")
    real = kind == "RFFT"
    wide = operand.element_type in ("f32", "f64", "c64", "c128")
    require(wide, f"fft works on f32, f64, c64 and c128, not on {operand.element_type}", "operand:0")
    require((numeric_kind(operand) == "complex") != real, f"{kind} of {operand.element_type}", "operand:0")
    sizes = list(operand.dimensions)
    given = [*lengths[:-1], lengths[-1] // 2 + 1] if kind == "IRFFT" else list(lengths)
    have = sizes[operand.rank - len(lengths) :]
    if kind == "IRFFT" and lengths[-1] == 0 and have[-1] == 0:
        given[-1] = 0  # nothing from nothing
    same = all(a == b or b == UNBOUNDED for a, b in zip(given, have, strict=True))
    require(same, f"fft_length {list(lengths)} does not fit {operand}", "attribute:fft_length")
    complex_type = {"f32": "c64", "f64": "c128"}.get(operand.element_type, operand.element_type)
    if kind == "RFFT":
        sizes[-1] = lengths[-1] // 2 + 1 if lengths[-1] else 0
        return array(complex_type, sizes)
    if kind == "IRFFT":
        sizes[-1] = lengths[-1]
        return array({"c64": "f32", "c128": "f64"}[operand.element_type], sizes)
    return array(operand.element_type, sizes)


def _batch_norm(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    operand, feature = operands[0], attributes["feature_index"]
    require_array(opcode, operand, 0)
    require(numeric_kind(operand) == "float", f"{opcode} works on floats, not on {operand}", "operand:0")
    fits = 0 <= feature < operand.rank
    require(fits, f"feature_index {feature} is out of range for {operand}", "attribute:feature_index")
    vector = array(operand.element_type, (operand.dimensions[feature],))
    gradients = [like(operand)] if opcode == "batch-norm-grad" else []
    wanted = [*[vector] * (len(operands) - 1 - len(gradients)), *gradients]
    for index, (one, shape) in enumerate(zip(operands[1:], wanted, strict=True), 1):
        require(agree(one, shape), f"operand {index} of {opcode} is {one}, not {shape}", f"operand:{index}")
    if opcode == "batch-norm-inference":
        return like(operand)
    return tuple_shape([like(operand), vector, vector])


REDUCTIONS: dict[str, Rule] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "map": _map,
    "scan": _scan,
    "sort": _sort,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "fft": _fft,
    "batch-norm-training": _batch_norm,
    "batch-norm-inference": _batch_norm,
    "batch-norm-grad": _batch_norm,
}
