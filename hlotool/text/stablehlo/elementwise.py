"""Elementwise operations, and those that make and move arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.ir import ELEMENT_TYPES, Instruction, Literal, PaddingDimension, Shape, SliceDimension, array
from hlotool.text.stablehlo.scope import (
    Refusal,
    Scope,
    attribute,
    integers,
    known_shape,
    number,
    stored,
    unsupported,
    word,
)
from hlotool.text.stablehlo.tree import Mark, Operation

__all__ = ["SAME_NAME", "broadcast_in_dim", "elementwise", "same_shape"]

SAME_NAME: dict[str, str] = {
    "count_leading_zeros": "count-leading-zeros", "exponential_minus_one": "exponential-minus-one",
    "is_finite": "is-finite", "log_plus_one": "log-plus-one", "round_nearest_afz": "round-nearest-afz",
    "round_nearest_even": "round-nearest-even", "shift_left": "shift-left",
    "shift_right_arithmetic": "shift-right-arithmetic", "shift_right_logical": "shift-right-logical",
    **{
        name: name
        for name in (
            "abs", "add", "and", "atan2", "cbrt", "ceil", "complex", "cosine", "divide", "exponential", "floor", "imag",
            "log", "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real",
            "remainder", "rsqrt", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor",
        )
    },
}  # fmt: skip
"""Operations of StableHLO and the opcodes that mean the same."""


def result(operation: Operation, index: int = 0) -> Shape:
    """The written shape of a result."""
    return stored(operation.results[index].type)


def elementwise(opcode: str) -> Callable[[Scope, Operation], Sequence[Instruction]]:
    """An operation that is an opcode."""

    def convert(scope: Scope, operation: Operation) -> Sequence[Instruction]:
        attributes = {}
        accuracy = operation.attributes.get("result_accuracy")
        if isinstance(accuracy, Mark) and isinstance(accuracy.value, dict) and accuracy.value:
            attributes = _accuracy(accuracy.value)
        return [scope.add(opcode, result(operation), scope.operands(operation), attributes)]

    return convert


def _accuracy(fields: dict[str, object]) -> dict[str, object]:
    """``result_accuracy`` as HLO writes it: a mode, or tolerances."""
    from hlotool.ir import Verbatim
    from hlotool.text.stablehlo.tree import Number

    mode = fields.get("mode")
    kind = str(mode.value) if isinstance(mode, Mark) else "DEFAULT"
    if kind == "TOLERANCE":
        rows = [
            f"{key}={value.value:g}"
            for key in ("atol", "rtol", "ulps")
            if isinstance(value := fields.get(key), Number) and value.value
        ]
        return {"result_accuracy": Verbatim(f"{{tolerance={{{', '.join(rows)}}}}}")}
    return {} if kind == "DEFAULT" else {"result_accuracy": Verbatim(f"{{mode={kind.lower()}}}")}


def same_shape(scope: Scope, operands: Sequence[Instruction]) -> list[Instruction]:
    """The operands, scalars broadcast to the shape of the others."""
    shape = next((one.shape for one in operands if one.shape.rank), None)
    if shape is None:
        return list(operands)
    return [
        scope.builder.broadcast(one, (), shape.with_type(one.shape.element_type)) if not one.shape.rank else one
        for one in operands
    ]


def select(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    return [scope.add("select", result(operation), same_shape(scope, scope.operands(operation)))]


def clamp(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    return [scope.add("clamp", result(operation), same_shape(scope, scope.operands(operation)))]


def compare(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    direction = word(operation, "comparison_direction", ("EQ", "NE", "GE", "GT", "LE", "LT"))
    kinds = ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")
    kind = word(operation, "compare_type", kinds, "NOTYPE")
    attributes = {"direction": direction}
    if kind == "TOTALORDER":
        attributes["type"] = kind
    return [scope.add("compare", result(operation), scope.operands(operation), attributes)]


def convert(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    shape = result(operation)
    if not known_shape(shape):
        shape = source.shape.with_type(shape.element_type)
    return [scope.builder.add("convert", shape, (source,))]


def bitcast_convert(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    shape = result(operation)
    if not known_shape(shape) and known_shape(source.shape):
        shape = _of_same_bits(source.shape, shape)
    if not known_shape(shape):
        shape = _static(operation)
    return [scope.builder.add("bitcast-convert", shape, (source,))]


def _of_same_bits(source: Shape, written: Shape) -> Shape:
    """The shape of the bits of `source` in elements of another type: narrower ones are a last dimension more."""
    before, after = ELEMENT_TYPES[source.element_type].bits, ELEMENT_TYPES[written.element_type].bits
    sizes = source.dimensions
    if before > after:
        sizes = (*sizes, before // after)
    elif before < after:
        sizes = sizes[:-1]
    return array(written.element_type, sizes) if source.is_static and len(sizes) == written.rank else written


def _static(operation: Operation, index: int = 0) -> Shape:
    shape = result(operation, index)
    if not known_shape(shape):
        raise unsupported(
            f"{operation.name} has a result of unknown size", "give the shapes of the arguments, or bounds of the sizes"
        )
    return shape


def reduce_precision(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    attributes = {
        "exponent_bits": number(operation, "exponent_bits"), "mantissa_bits": number(operation, "mantissa_bits"),
    }  # fmt: skip
    return [scope.builder.add("reduce-precision", source.shape, (source,), attributes)]


# ---- making arrays


def constant(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    value = attribute(operation, "value")
    if not isinstance(value, Literal):
        raise Refusal("the value of a constant is dense<...>")
    shape = _static(operation)
    if not value.shape.compatible(shape):
        raise Refusal(f"the literal is {value.shape}, the constant {shape}")
    return [scope.builder.add("constant", value.shape, (), {"literal": value})]


def iota(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    dimension = number(operation, "iota_dimension")
    return [scope.builder.add("iota", _static(operation), (), {"iota_dimension": dimension})]


# ---- moving


def broadcast_in_dim(scope: Scope, source: Instruction, dimensions: Sequence[int], shape: Shape) -> Instruction:
    """The dimensions of `source` become `dimensions` of the result; those of one element are repeated."""
    if len(dimensions) != source.shape.rank:
        raise Refusal(f"{len(dimensions)} broadcast_dimensions for an array of {source.shape.rank} dimensions")
    if any(not 0 <= d < shape.rank for d in dimensions) or len(set(dimensions)) != len(dimensions):
        raise Refusal(f"broadcast_dimensions {list(dimensions)} do not fit the result {shape}")
    sizes = source.shape.dimensions
    repeated = [n for n, d in enumerate(dimensions) if sizes[n] == 1 and shape.dimensions[d] != 1]
    if repeated:
        left = [size for n, size in enumerate(sizes) if n not in repeated]
        source = scope.builder.reshape(source, left)
        dimensions = [d for n, d in enumerate(dimensions) if n not in repeated]
    for size, dimension in zip(source.shape.dimensions, dimensions, strict=True):
        if size != shape.dimensions[dimension] and size >= 0:
            raise Refusal(f"a dimension of {size} cannot become dimension {dimension} of {shape}")
    if tuple(dimensions) == tuple(range(shape.rank)) and source.shape.dimensions == shape.dimensions and repeated:
        return source
    return scope.builder.broadcast(source, dimensions, shape)


def broadcast_in_dim_operation(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    shape = _static(operation)
    return [broadcast_in_dim(scope, source, integers(operation, "broadcast_dimensions"), shape)]


def broadcast(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """The older form: new dimensions come first."""
    (source,) = scope.operands(operation)
    sizes = integers(operation, "broadcast_sizes")
    if min(sizes, default=0) < 0:
        raise Refusal(f"broadcast_sizes {list(sizes)} are not negative")
    shape = array(source.shape.element_type, (*sizes, *source.shape.dimensions))
    dimensions = tuple(range(len(sizes), len(sizes) + source.shape.rank))
    return [scope.builder.broadcast(source, dimensions, shape)]


def reshape(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    return [scope.builder.add("reshape", _static(operation), (source,))]


def transpose(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    dimensions = integers(operation, "permutation")
    return [scope.add("transpose", result(operation), scope.operands(operation), {"dimensions": dimensions})]


def reverse(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    dimensions = integers(operation, "dimensions")
    return [scope.add("reverse", result(operation), scope.operands(operation), {"dimensions": dimensions})]


def concatenate(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    dimension = number(operation, "dimension")
    return [scope.add("concatenate", result(operation), scope.operands(operation), {"dimensions": (dimension,)})]


def pad(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    rows = [integers(operation, f"edge_padding_{side}") for side in ("low", "high")]
    rows.append(integers(operation, "interior_padding"))
    return [padded(scope, operation, rows)]


def padded(scope: Scope, operation: Operation, rows: Sequence[Sequence[int]]) -> Instruction:
    """`rows` are low, high and interior."""
    source, value = scope.operands(operation)[:2]
    if any(len(row) != source.shape.rank for row in rows):
        raise Refusal(f"pad of {source.shape.rank} dimensions has paddings of {[len(row) for row in rows]}")
    padding = tuple(PaddingDimension(*one) for one in zip(*rows, strict=True))
    return scope.add("pad", result(operation), (source, value), {"padding": padding})


def slice_(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    rows = [integers(operation, name) for name in ("start_indices", "limit_indices", "strides")]
    return [sliced(scope, scope.operands(operation)[0], rows)]


def sliced(scope: Scope, source: Instruction, rows: Sequence[Sequence[int]]) -> Instruction:
    """`rows` are starts, limits and strides."""
    if any(len(row) != source.shape.rank for row in rows):
        raise Refusal(f"slice of {source.shape.rank} dimensions has {[len(row) for row in rows]} numbers")
    ranges = tuple(SliceDimension(*one) for one in zip(*rows, strict=True))
    for size, one in zip(source.shape.dimensions, ranges, strict=True):
        if not (0 <= one.start <= one.limit and one.stride > 0 and (one.limit <= size or size < 0)):
            raise Refusal(f"slice [{one.start}:{one.limit}:{one.stride}] of a dimension of {size}")
    sizes = [(one.limit - one.start + one.stride - 1) // one.stride for one in ranges]
    shape = array(source.shape.element_type, sizes)
    if not source.shape.is_static:
        from hlotool.ir.shape_inference import infer

        shape = infer("slice", (source.shape,), {"slice": ranges})
    return scope.builder.add("slice", shape, (source,), {"slice": ranges})


def dynamic_slice(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    sizes = integers(operation, "slice_sizes")
    attributes = {"dynamic_slice_sizes": sizes}
    operands = scope.operands(operation)
    _check_starts(operation, operands[1:])
    shape = result(operation)
    return [scope.add("dynamic-slice", shape if known_shape(shape) else None, operands, attributes)]


def dynamic_update_slice(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    operands = scope.operands(operation)
    _check_starts(operation, operands[2:])
    return [scope.builder.add("dynamic-update-slice", operands[0].shape, operands)]


def _check_starts(operation: Operation, starts: Sequence[Instruction]) -> None:
    """A number for each dimension: the older form of HLO, one list of them, is none of StableHLO."""
    if any(one.shape.rank for one in starts) or len({one.shape.element_type for one in starts}) > 1:
        kinds = " and ".join(str(one.shape) for one in starts)
        raise Refusal(f"{operation.name} starts at integers of one type, not at {kinds}")


def tuple_(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    return [scope.builder.tuple(scope.operands(operation))]


def get_tuple_element(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    index = number(operation, "index")
    if not source.shape.is_tuple or not 0 <= index < len(source.shape.elements):
        raise Refusal(f"there is no element {index} of {source.shape}")
    return [scope.builder.gte(source, index)]


def barrier(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    operands = scope.operands(operation)
    if len(operands) == 1:
        return [scope.builder.add("opt-barrier", operands[0].shape, operands)]
    together = scope.builder.tuple(operands)
    return scope.several(scope.builder.add("opt-barrier", together.shape, (together,)), len(operands))
