"""Batching of products and of linear algebra: dots, convolutions, triangular systems, factors, Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.ir import Instruction, Shape, array
from hlotool.ir.attributes import ConvDimensionNumbers
from hlotool.ir.ragged import ragged_mode
from hlotool.passes.batching.batcher import Batcher, Rule
from hlotool.passes.batching.values import Leaf, Value, inserted, is_batched, shifted

__all__ = ["RULES"]


def _axis(value: Value) -> int | None:
    assert isinstance(value, Leaf)
    return value.axis


def _dot(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """A batch dimension of both operands; of one alone, one more of its own dimensions, where it is."""
    return _product(b, i, values[0], values[1], [])


def _product(b: Batcher, i: Instruction, lhs: Value, rhs: Value, others: list[Instruction]) -> Value:
    a = i.attributes
    axes = [_axis(lhs), _axis(rhs)]
    dims: dict[str, tuple[int, ...]] = {}
    for side, axis in zip(("lhs", "rhs"), axes, strict=True):
        for name in ("batch", "contracting"):
            given = tuple(a.get(f"{side}_{name}_dims") or ())
            dims[f"{side}_{name}_dims"] = given if axis is None else shifted(given, axis)
    together = len(dims["lhs_batch_dims"])
    if axes[0] is not None and axes[1] is not None:
        dims["lhs_batch_dims"] = (axes[0], *dims["lhs_batch_dims"])
        dims["rhs_batch_dims"] = (axes[1], *dims["rhs_batch_dims"])
        place = 0
    elif axes[0] is not None:
        place = together + _free_before(dims, "lhs", axes[0])
    else:
        assert axes[1] is not None
        own = i.operands[0].shape.rank - together - len(dims["lhs_contracting_dims"])
        place = together + own + _free_before(dims, "rhs", axes[1])
    changed: dict[str, Any] = {name: given or None for name, given in dims.items()}
    return b.result(i, [b.packed(lhs), b.packed(rhs), *others], place, **changed)


def _free_before(dims: dict[str, tuple[int, ...]], side: str, axis: int) -> int:
    taken = {*dims[f"{side}_batch_dims"], *dims[f"{side}_contracting_dims"]}
    return sum(d not in taken for d in range(axis))


def _scaled_dot(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """An operand goes with its scale, of which an example may have one number."""
    operands: list[Value] = []
    scales: list[Instruction] = []
    for value, scale, shape in zip(values[:2], values[2:], [o.shape for o in i.operands[2:]], strict=True):
        if not is_batched(value) and not is_batched(scale):
            operands.append(value)
            scales.append(b.packed(scale))
            continue
        operands.append(Leaf(b.front(value), 0))
        if shape.rank:
            scales.append(b.front(scale))
        elif is_batched(scale):
            rank = b.front(value).shape.rank
            scales.append(b.build.reshape(b.front(scale), (b.size, *(1,) * (rank - 1))))
        else:
            scales.append(b.packed(scale))
    return _product(b, i, operands[0], operands[1], scales)


def _ragged_dot(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    a, build = i.attributes, b.build
    lhs, rhs = (b.front(value) for value in values[:2])
    mode, outer = ragged_mode(a, i.operands[0].shape.rank)
    groups, given = values[2], i.operands[2].shape
    if not is_batched(groups) and given.rank == 1:
        sizes = b.packed(groups)
    else:
        sizes = b.front(groups)
        if given.rank == 1 and outer:
            lengths = [i.operands[0].shape.dimensions[d] for d in outer]
            sizes = build.broadcast(sizes, (0, len(outer) + 1), (b.size, *lengths, *given.dimensions))
    names = ("lhs_contracting_dims", "rhs_contracting_dims", "lhs_ragged_dims", "rhs_group_dims")
    changed: dict[str, Any] = {name: tuple([d + 1 for d in a.get(name) or ()]) or None for name in names}
    changed |= {name: (0, *[d + 1 for d in a.get(name) or ()]) for name in ("lhs_batch_dims", "rhs_batch_dims")}
    return b.result(i, [lhs, rhs, sizes], int(mode == "contracting"), **changed)


# ---- convolutions


def _convolution(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """A batch of bases is more batch, one of kernels is more features; of both, as many groups of features (or of the
    batch, where that is in groups already)."""
    a = i.attributes
    labels: ConvDimensionNumbers = a["dim_labels"]
    base, kernel = values
    groups, batches = a.get("feature_group_count", 1), a.get("batch_group_count", 1)
    outputs = i.shape.dimensions[labels.output_feature]
    rows = i.shape.dimensions[labels.output_batch]
    both = is_batched(base) and is_batched(kernel)
    if both and batches == 1:
        operands = [
            _folded(b, base, labels.input_feature, 1), _folded(b, kernel, labels.kernel_output_feature, 1)
        ]  # fmt: skip
        made = _convolved(b, i, operands, labels.output_feature, feature_group_count=b.size * groups)
        return _unfolded(b, made, labels.output_feature, 1, outputs)
    if both:
        operands = [_folded(b, base, labels.input_batch, 1), _folded(b, kernel, labels.kernel_output_feature, 1)]
        made = _convolved(b, i, operands, labels.output_feature, batch_group_count=b.size * batches)
        return _unfolded(b, made, labels.output_feature, 1, outputs)
    if is_batched(base):
        made = _convolved(b, i, [_folded(b, base, labels.input_batch, batches), b.packed(kernel)], labels.output_batch)
        return _unfolded(b, made, labels.output_batch, 1, rows)
    count = max(groups, batches)
    operands = [b.packed(base), _folded(b, kernel, labels.kernel_output_feature, count)]
    made = _convolved(b, i, operands, labels.output_feature)
    return _unfolded(b, made, labels.output_feature, count, outputs)


def _convolved(b: Batcher, i: Instruction, operands: Sequence[Instruction], grown: int, **changed: Any) -> Instruction:
    sizes = list(i.shape.dimensions)
    sizes[grown] *= b.size
    return b.emit(i, array(i.shape.element_type, sizes), operands, **changed)


def _folded(b: Batcher, value: Value, dimension: int, groups: int) -> Instruction:
    """An array whose batch is part of a dimension: of each of its `groups`, outside of what the group has."""
    if groups == 1:
        x = b.at(value, dimension)
        sizes = x.shape.dimensions
        joined = (*sizes[:dimension], sizes[dimension] * sizes[dimension + 1], *sizes[dimension + 2 :])
        return b.build.reshape(x, joined)
    x = b.front(value)
    sizes = x.shape.dimensions[1:]
    apart = (*sizes[:dimension], groups, sizes[dimension] // groups, *sizes[dimension + 1 :])
    moved = b.at(Leaf(b.build.reshape(x, (b.size, *apart)), 0), dimension + 1)
    return b.build.reshape(moved, (*sizes[:dimension], sizes[dimension] * b.size, *sizes[dimension + 1 :]))


def _unfolded(b: Batcher, x: Instruction, dimension: int, groups: int, size: int) -> Value:
    """The value whose batch is part of a dimension, which has `size` elements of each example."""
    sizes = x.shape.dimensions
    if groups == 1:
        return Leaf(b.build.reshape(x, (*sizes[:dimension], b.size, size, *sizes[dimension + 1 :])), dimension)
    apart = b.build.reshape(x, (*sizes[:dimension], groups, b.size, size // groups, *sizes[dimension + 1 :]))
    rows = b.at(Leaf(apart, dimension + 1), 0)
    return Leaf(b.build.reshape(rows, (b.size, *sizes[:dimension], size, *sizes[dimension + 1 :])), 0)


# ---- linear algebra


def _triangular_solve(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """One matrix for all examples solves them at once: their right sides are side by side."""
    matrix, right = values
    if is_batched(matrix):
        return b.result(i, [b.front(matrix), b.front(right)], 0)
    rank = i.shape.rank
    sizes = i.shape.dimensions
    place = rank - 1 if i.attributes.get("left_side", False) else rank - 2
    x = b.at(right, place)
    wide = (*sizes[:place], b.size * sizes[place], *sizes[place + 1 :])
    shape = array(i.shape.element_type, wide)
    made = b.emit(i, shape, [b.packed(matrix), b.build.reshape(x, wide)])
    return Leaf(b.build.reshape(made, inserted(sizes, place, b.size)), place)


def _last_dimensions(b: Batcher, i: Instruction, values: list[Value], count: int) -> Value:
    """For what works on the last dimensions, of an array of any rank."""
    (value,) = values
    axis = _axis(value)
    assert axis is not None
    if axis > i.operands[0].shape.rank - count:
        axis = 0
    return b.result(i, [b.at(value, axis)], axis)


def _cholesky(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    return _last_dimensions(b, i, values, 2)


def _fft(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    return _last_dimensions(b, i, values, len(i.attributes["fft_length"]))


def _topk(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    return _last_dimensions(b, i, values, 1)


# ---- batch norm


def _batch_norm(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """Each example has features of its own."""
    feature = i.attributes["feature_index"]
    operands = [
        _folded(b, value, feature if n in _LARGE[i.opcode] else 0, 1) for n, value in enumerate(values)
    ]
    large, small = operands[0].shape, operands[1].shape
    count = i.operands[1].shape.dimensions[0]
    if not i.shape.is_tuple:
        return _unfolded(b, b.emit(i, large, operands), feature, 1, count)
    whole = b.emit(i, Shape("tuple", elements=(large, small, small)), operands)
    return tuple([_unfolded(b, b.build.gte(whole, n), (feature, 0, 0)[n], 1, count) for n in range(3)])


_LARGE = {"batch-norm-training": (0,), "batch-norm-inference": (0,), "batch-norm-grad": (0, 4)}
"""The operands that are whole arrays: others have a number for each feature."""


RULES: dict[str, Rule] = {
    "dot": _dot,
    "scaled-dot": _scaled_dot,
    "ragged-dot": _ragged_dot,
    "convolution": _convolution,
    "triangular-solve": _triangular_solve,
    "cholesky": _cholesky,
    "fft": _fft,
    "topk": _topk,
    **dict.fromkeys(_LARGE, _batch_norm),
}
