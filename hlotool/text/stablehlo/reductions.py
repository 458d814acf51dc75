"""Reductions, windows, sorting, gathers and scatters, maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.ir import ELEMENT_TYPES, Instruction, Shape, Window, array
from hlotool.text.stablehlo.contractions import pairs, window_of
from hlotool.text.stablehlo.elementwise import result
from hlotool.text.stablehlo.scope import (
    WHOLE,
    Refusal,
    Scope,
    dictionary,
    flag,
    integers,
    known_shape,
    number,
    numbers_of,
    stored,
)
from hlotool.text.stablehlo.tree import Number, Operation

__all__ = ["gather_attributes", "largest_along_last"]


def _halves(scope: Scope, operation: Operation, region: int = 0) -> tuple[list[Instruction], list[Instruction]]:
    """Arrays and initial values, of the types that the region works on."""
    operands = scope.operands(operation)
    count = len(operands) // 2
    if not count or len(operands) != 2 * count:
        raise Refusal(f"{operation.name} takes arrays and as many initial values, not {len(operands)} operands")
    arguments = scope.region(operation, region).arguments
    if len(arguments) != 2 * count:
        raise Refusal(f"the region of {operation.name} has {len(arguments)} arguments, not {2 * count}")
    kinds = [stored(argument.type).element_type for argument in arguments[:count]]
    return (
        [_as(scope, one, kind) for one, kind in zip(operands[:count], kinds, strict=True)],
        [_as(scope, one, kind) for one, kind in zip(operands[count:], kinds, strict=True)],
    )


def _as(scope: Scope, one: Instruction, kind: str) -> Instruction:
    """A promotion, where a region adds up in a wider type than that of what it adds."""
    own = one.shape.element_type
    if own == kind:
        return one
    before, after = ELEMENT_TYPES[own], ELEMENT_TYPES[kind]
    together = before.kind == after.kind or (before.kind in WHOLE and after.is_integer)
    if not together or (before.bits > after.bits and (own, kind) != ("f64", "f32")):  # which StableHLO lets pass
        raise Refusal(f"the region works on {kind}, which {own} is not promoted to")
    return scope.builder.convert(one, kind)


def _results(scope: Scope, operation: Operation, made: Instruction, count: int) -> Sequence[Instruction]:
    return [made] if count == 1 else scope.several(made, count)


def reduce(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    dimensions = integers(operation, "dimensions")
    arrays, initial = _halves(scope, operation)
    attributes = {"dimensions": dimensions, "to_apply": scope.applied(operation)}
    made = scope.builder.add("reduce", None, (*arrays, *initial), attributes)
    return _results(scope, operation, made, len(arrays))


def reduce_window(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    sizes = integers(operation, "window_dimensions")
    padding = pairs(operation, "padding", len(sizes))
    window = window_of(operation, sizes, ("base_dilations", "window_dilations"), padding)
    arrays, initial = _halves(scope, operation)
    attributes: dict[str, Any] = {"window": window} if sizes else {}
    attributes["to_apply"] = scope.applied(operation)
    made = scope.builder.add("reduce-window", None, (*arrays, *initial), attributes)
    return _results(scope, operation, made, len(arrays))


def select_and_scatter(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    operands = scope.operands(operation)
    sizes = integers(operation, "window_dimensions", (1,) * operands[0].shape.rank)
    padding = pairs(operation, "padding", len(sizes))
    window: Window = window_of(operation, sizes, ("base_dilations", "window_dilations"), padding)
    attributes: dict[str, Any] = {"window": window} if sizes else {}
    attributes["select"] = scope.applied(operation, 0)
    attributes["scatter"] = scope.applied(operation, 1)
    return [scope.add("select-and-scatter", result(operation), operands, attributes)]


def map_(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    operands = scope.operands(operation)
    every = tuple(range(operands[0].shape.rank))
    dimensions = integers(operation, "dimensions", every)
    if dimensions != every:
        raise Refusal(f"a map is over the dimensions {list(every)}, not {list(dimensions)}")
    attributes = {"dimensions": dimensions, "to_apply": scope.applied(operation)}
    return [scope.add("map", result(operation), operands, attributes)]


def sort(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    operands = scope.operands(operation)
    dimension = number(operation, "dimension", -1)
    dimension += operands[0].shape.rank if dimension < 0 else 0
    attributes: dict[str, Any] = {"dimensions": (dimension,)}
    if flag(operation, "is_stable"):
        attributes["is_stable"] = True
    attributes["to_apply"] = scope.applied(operation)
    return scope.spread("sort", [one.shape for one in operands], operands, attributes)


def top_k(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    return largest_along_last(scope, source, number(operation, "k"), flag(operation, "largest", True))


def largest_along_last(scope: Scope, source: Instruction, count: int, largest: bool) -> Sequence[Instruction]:
    """The `count` largest numbers along the last dimension, or smallest ones, and where they are."""
    if not source.shape.rank or count < 0 or count > source.shape.dimensions[-1] >= 0:
        raise Refusal(f"top_k of {count} of {source.shape}")
    shape = Shape(source.shape.element_type, (*source.shape.dimensions[:-1], count), source.shape.layout)
    if not source.shape.is_static:
        shape = Shape(shape.element_type, shape.dimensions, shape.layout, (), (*source.shape.dynamic[:-1], False))
    made = scope.builder.add(
        "topk", Shape("tuple", elements=(shape, shape.with_type("s32"))), (source,), {"k": count, "largest": largest}
    )
    return scope.several(made, 2)


def _numbers(fields: dict[str, Any], name: str) -> tuple[int, ...]:
    return numbers_of(fields.get(name, ()), name)


def _vector_dim(fields: dict[str, Any]) -> int:
    value = fields.get("index_vector_dim", Number(0, "i64"))
    if not isinstance(value, Number) or not isinstance(value.value, int):
        raise Refusal("'index_vector_dim' is an integer", code="HLO0130")
    return value.value


def gather_attributes(operation: Operation, sizes: tuple[int, ...]) -> dict[str, Any]:
    """The attributes of a gather of slices of `sizes`."""
    fields = dictionary(operation, "dimension_numbers")
    values: dict[str, Any] = {
        name: _numbers(fields, name) for name in ("offset_dims", "collapsed_slice_dims", "start_index_map")
    }
    for name in ("operand_batching_dims", "start_indices_batching_dims"):
        if _numbers(fields, name):
            values[name] = _numbers(fields, name)
    values["index_vector_dim"] = _vector_dim(fields)
    values["slice_sizes"] = sizes
    if flag(operation, "indices_are_sorted"):
        values["indices_are_sorted"] = True
    return values


def gather(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    attributes = gather_attributes(operation, integers(operation, "slice_sizes"))
    return [scope.add("gather", result(operation), scope.operands(operation)[:2], attributes)]


def scatter(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    fields = dictionary(operation, "scatter_dimension_numbers")
    operands = scope.operands(operation)
    count = len(operands) // 2
    values: dict[str, Any] = {
        name: _numbers(fields, name)
        for name in ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")
    }
    for name in ("input_batching_dims", "scatter_indices_batching_dims"):
        if _numbers(fields, name):
            values[name] = _numbers(fields, name)
    values["index_vector_dim"] = _vector_dim(fields)
    for name in ("indices_are_sorted", "unique_indices"):
        if flag(operation, name):
            values[name] = True
    arguments = scope.region(operation).arguments
    if len(arguments) != 2 * count or len(operands) != 2 * count + 1:
        raise Refusal(f"scatter of {len(operands)} operands has a region of {len(arguments)} arguments")
    kinds = [stored(argument.type).element_type for argument in arguments[:count]]
    arrays = [_as(scope, one, kind) for one, kind in zip(operands[:count], kinds, strict=True)]
    updates = [_as(scope, one, kind) for one, kind in zip(operands[count + 1 :], kinds, strict=True)]
    values["to_apply"] = scope.applied(operation)
    return scope.spread("scatter", [one.shape for one in arrays], (*arrays, operands[count], *updates), values)


def torch_index_select(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """The slices of dimension `dim` that the indices name, as a gather."""
    source, indices = scope.operands(operation)
    dimension, batch = number(operation, "dim"), number(operation, "batch_dims", 0)
    rank, count = source.shape.rank, indices.shape.rank
    dimension += rank if dimension < 0 else 0
    batch += count if batch < 0 else 0
    if not 0 <= batch <= dimension < rank or batch > count:
        raise Refusal(f"there is no dimension {dimension} after {batch} batches in {source.shape}")
    sizes = tuple(
        1 if n == dimension or n < batch else size for n, size in enumerate(source.shape.dimensions)
    )
    made = array(
        source.shape.element_type,
        (
            *source.shape.dimensions[:dimension],
            *indices.shape.dimensions[batch:],
            *source.shape.dimensions[dimension + 1 :],
        ),
    )
    places = set(range(batch)) | set(range(dimension, dimension + count - batch))
    values: dict[str, Any] = {
        "offset_dims": tuple(n for n in range(made.rank) if n not in places),
        "collapsed_slice_dims": (dimension,), "start_index_map": (dimension,),
    }  # fmt: skip
    if batch:
        values["operand_batching_dims"] = values["start_indices_batching_dims"] = tuple(range(batch))
    values["index_vector_dim"], values["slice_sizes"] = count, sizes
    return [scope.builder.add("gather", made if known_shape(made) else None, (source, indices), values)]
