"""Products, convolutions, transforms and factorisations, batch normalisation, random numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_letters
from typing import Any

from hlotool.ir import ConvDimensionNumbers, Instruction, Shape, Window, WindowDimension
from hlotool.ir.opcodes import DOT_ALGORITHMS
from hlotool.text.stablehlo.elementwise import result
from hlotool.text.stablehlo.scope import (
    Refusal,
    Scope,
    attribute,
    dictionary,
    flag,
    integers,
    number,
    numbers_of,
    real,
    text_of,
    unsupported,
    word,
)
from hlotool.text.stablehlo.tree import Mark, Number, Operation

__all__ = ["precision", "window_of"]

_CONV = re.compile(r"\s*\[([^\[\]]*)\]\s*x\s*\[([^\[\]]*)\]\s*->\s*\[([^\[\]]*)\]\s*")


def precision(operation: Operation) -> dict[str, Any]:
    """``operand_precision`` of a product, where it is not the usual one."""
    given = operation.attributes.get("precision_config")
    if given is None:
        return {}
    if not isinstance(given, list):
        raise Refusal("'precision_config' is a list", code="HLO0130")
    words = [str(one.value if isinstance(one, Mark) else one).lower() for one in given]
    if any(one not in ("default", "high", "highest", "packed_nibble") for one in words):
        raise Refusal("a precision is DEFAULT, HIGH, HIGHEST or PACKED_NIBBLE", code="HLO0131")
    return {"operand_precision": tuple(words)} if any(one != "default" for one in words) else {}


def _algorithm(operation: Operation) -> dict[str, Any]:
    """The name that HLO has for a dot algorithm."""
    given = operation.attributes.get("algorithm")
    if given is None or given == "":
        return {}
    fields = given.value if isinstance(given, Mark) else given
    if not isinstance(fields, dict):
        raise Refusal("'algorithm' is #stablehlo.dot_algorithm<...>", code="HLO0131")

    def kind(name: str) -> str:
        shape = fields.get(name)
        return shape.element_type if isinstance(shape, Shape) else str(shape)

    def count(name: str) -> int:
        value = fields.get(name)
        return value.value if isinstance(value, Number) and isinstance(value.value, int) else 1

    left, right, total = kind("lhs_precision_type"), kind("rhs_precision_type"), kind("accumulation_type")
    fast = fields.get("allow_imprecise_accumulation") is True
    times = count("num_primitive_operations")
    if left.startswith("f8") and right.startswith("f8"):
        name = f"dot_any_f8_any_f8_{total}{'_fast_accum' if fast else ''}"
    else:
        name = f"dot_{left}_{right}_{total}{f'_x{times}' if times > 1 else ''}"
    if name not in DOT_ALGORITHMS:
        raise unsupported(f"HLO has no name for the algorithm {name}", f"it has {', '.join(DOT_ALGORITHMS)}")
    return {"algorithm": name}


def dot_general(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    fields = dictionary(operation, "dot_dimension_numbers")
    attributes: dict[str, Any] = {}
    for side in ("lhs", "rhs"):
        batch = numbers_of(fields.get(f"{side}_batching_dimensions", ()), "batching dimensions")
        if batch:
            attributes[f"{side}_batch_dims"] = batch
        attributes[f"{side}_contracting_dims"] = numbers_of(
            fields.get(f"{side}_contracting_dimensions", ()), "contracting dimensions"
        )
    attributes |= precision(operation) | _algorithm(operation)
    return [scope.add("dot", result(operation), scope.operands(operation), attributes)]


def dot(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """The older form: vectors and matrices."""
    left, right = scope.operands(operation)
    attributes: dict[str, Any] = {
        "lhs_contracting_dims": (max(0, left.shape.rank - 1),), "rhs_contracting_dims": (0,),
    }  # fmt: skip
    return [scope.add("dot", result(operation), (left, right), attributes | precision(operation))]


def einsum(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """A product by letters: letters of both operands and the result are batches, of both operands sums."""
    config = text_of(operation, "einsum_config").replace(" ", "")
    operands = scope.operands(operation)
    sides, arrow, made = config.partition("->")
    letters = sides.split(",")
    if not arrow or len(letters) != len(operands) or any(
        len(row) != one.shape.rank or len(set(row)) != len(row) or not set(row) <= set(ascii_letters)
        for row, one in zip(letters, operands, strict=True)
    ) or len(set(made)) != len(made) or not set(made) <= set("".join(letters)):  # fmt: skip
        raise unsupported(f"einsum {config!r} of {len(operands)} operands", "each letter stands once in an operand")
    if len(operands) == 1:
        return [_unary_einsum(scope, operands[0], letters[0], made)]
    left, right = letters
    operands[0], left = _summed(scope, operands[0], left, right + made)
    operands[1], right = _summed(scope, operands[1], right, left + made)
    batch = [c for c in left if c in right and c in made]
    summed = [c for c in left if c in right and c not in made]
    attributes: dict[str, Any] = {}
    if batch:
        attributes["lhs_batch_dims"] = tuple(map(left.index, batch))
        attributes["rhs_batch_dims"] = tuple(map(right.index, batch))
    attributes["lhs_contracting_dims"] = tuple(map(left.index, summed))
    attributes["rhs_contracting_dims"] = tuple(map(right.index, summed))
    order = [*batch, *(c for c in left if c not in batch + summed), *(c for c in right if c not in batch + summed)]
    product = scope.builder.add("dot", None, operands, attributes | precision(operation))
    return [product if order == list(made) else scope.builder.transpose(product, [order.index(c) for c in made])]


def _summed(scope: Scope, operand: Instruction, letters: str, used: str) -> tuple[Instruction, str]:
    """The sum over the dimensions that nobody else has."""
    alone = [n for n, c in enumerate(letters) if c not in used]
    if not alone:
        return operand, letters
    kind = operand.shape.element_type
    adder = scope.program.binary("add", kind)
    zero = scope.builder.scalar_constant(0, kind)
    total = scope.builder.reduce(operand, zero, alone, adder)
    return total, "".join(c for n, c in enumerate(letters) if n not in alone)


def _unary_einsum(scope: Scope, operand: Instruction, letters: str, made: str) -> Instruction:
    operand, letters = _summed(scope, operand, letters, made)
    order = [letters.index(c) for c in made]
    return operand if order == list(range(len(order))) else scope.builder.transpose(operand, order)


# ---- convolutions


def labels_of(operation: Operation) -> ConvDimensionNumbers:
    """``[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]``."""
    value = attribute(operation, "dimension_numbers")
    text = value.value if isinstance(value, Mark) else value
    found = _CONV.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise Refusal("dimension_numbers are written [b, f, 0]x[o, i, 0]->[b, f, 0]", code="HLO0133")
    rows = [[part.strip() for part in row.split(",")] for row in found.groups()]
    parts: list[Any] = []
    for row, names in zip(rows, ("bf", "io", "bf"), strict=True):
        spatial = [str(n) for n in range(len(row) - 2)]
        if sorted(row) != sorted([*names, *spatial]):
            raise Refusal(f"the dimension numbers [{', '.join(row)}] do not name each dimension once", code="HLO0133")
        parts += [row.index(names[0]), row.index(names[1]), tuple(row.index(n) for n in spatial)]
    return ConvDimensionNumbers(*parts)


def pairs(operation: Operation, name: str, rank: int) -> list[tuple[int, int]]:
    """Pairs of integers, one a dimension; zeros where the attribute is not there."""
    value = operation.attributes.get(name)
    if value is None:
        return [(0, 0)] * rank
    flat = (
        [one for row in value for one in numbers_of(row, name)]
        if isinstance(value, list) and value and isinstance(value[0], list)
        else list(numbers_of(value, name))
    )
    if len(flat) == 1:
        flat *= 2 * rank
    if len(flat) != 2 * rank:
        raise Refusal(f"'{name}' has {len(flat) // 2} pairs for {rank} dimensions", code="HLO0132")
    return list(zip(flat[::2], flat[1::2], strict=True))


def window_of(
    operation: Operation, sizes: Sequence[int], dilations: tuple[str, str], padding: list[tuple[int, int]]
) -> Window:
    """The window of a convolution or a reduction; `dilations` are the names of base and window dilations."""
    rank = len(sizes)
    one = (1,) * rank
    strides = integers(operation, "window_strides", one)
    base, window = (integers(operation, name, one) for name in dilations)
    reversal = integers(operation, "window_reversal", (0,) * rank)
    rows = [row * rank if len(row) == 1 else row for row in (strides, base, window, reversal)]
    if any(len(row) != rank for row in rows):
        raise Refusal(f"{operation.name} has a window of {rank} dimensions, and lists of other lengths", code="HLO0132")
    if any(min(row, default=1) < 1 for row in rows[:3]):
        raise Refusal(f"strides and dilations of {operation.name} are positive", code="HLO0132")
    return Window(
        tuple(
            WindowDimension(size, stride, low, high, base_, window_, bool(flip))
            for size, (low, high), stride, base_, window_, flip in zip(sizes, padding, *rows, strict=True)
        )
    )


def convolution(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    operands = scope.operands(operation)
    labels = labels_of(operation)
    padding = pairs(operation, "padding", len(labels.input_spatial))
    return [convolved(scope, operation, operands, padding)]


def convolved(
    scope: Scope, operation: Operation, operands: Sequence[Instruction], padding: list[tuple[int, int]]
) -> Instruction:
    """The convolution with a padding."""
    left, right = operands
    labels = labels_of(operation)
    if right.shape.rank != len(labels.kernel_spatial) + 2 or left.shape.rank != len(labels.input_spatial) + 2:
        raise Refusal("the dimension numbers of the convolution do not fit its operands", code="HLO0133")
    sizes = [right.shape.dimensions[d] for d in labels.kernel_spatial]
    attributes: dict[str, Any] = {}
    window = window_of(operation, sizes, ("lhs_dilation", "rhs_dilation"), padding)
    if window.dimensions:
        attributes["window"] = window
    attributes["dim_labels"] = labels
    for name in ("feature_group_count", "batch_group_count"):
        if number(operation, name, 1) != 1:
            attributes[name] = number(operation, name)
    return scope.add("convolution", result(operation), operands, attributes | precision(operation))


# ---- the rest


def cholesky(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    attributes = {"lower": True} if flag(operation, "lower") else {}
    return [scope.add("cholesky", result(operation), scope.operands(operation), attributes)]


def triangular_solve(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    attributes: dict[str, Any] = {
        name: True for name in ("left_side", "lower", "unit_diagonal") if flag(operation, name)
    }
    kinds = ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    attributes["transpose_a"] = word(operation, "transpose_a", kinds, "NO_TRANSPOSE")
    return [scope.add("triangular-solve", result(operation), scope.operands(operation), attributes)]


def fft(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    kind = word(operation, "fft_type", ("FFT", "IFFT", "RFFT", "IRFFT"))
    attributes = {"fft_type": kind, "fft_length": integers(operation, "fft_length")}
    return [scope.add("fft", result(operation), scope.operands(operation), attributes)]


def batch_norm(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    name = operation.name.partition(".")[2].replace("_", "-")
    attributes = {"epsilon": real(operation, "epsilon"), "feature_index": number(operation, "feature_index")}
    operands = scope.operands(operation)
    made = scope.builder.add(name, None, operands, attributes)
    return scope.several(made, 3) if made.shape.is_tuple else [made]


def rng_bit_generator(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    kind = word(operation, "rng_algorithm", ("DEFAULT", "THREE_FRY", "PHILOX"))
    shapes = [result(operation, n) for n in range(2)]
    operands = scope.operands(operation)
    return scope.spread("rng-bit-generator", shapes, operands, {"algorithm": f"rng_{kind.lower()}"})
