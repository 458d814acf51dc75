"""Shape rules of dots, convolutions, gather and scatter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlotool.ir.attributes import ConvDimensionNumbers, Window, WindowDimension
from hlotool.ir.shape import UNBOUNDED, Shape, array
from hlotool.ir.shape_checks import (
    Rule,
    ShapeError,
    in_range,
    like,
    numeric_kind,
    plain,
    require,
    require_array,
    require_count,
    results,
    same_dimensions,
)

__all__ = ["CONTRACTIONS"]


def _dot(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    lhs, rhs = operands[0], operands[1]
    require_array(opcode, lhs, 0)
    require_array(opcode, rhs, 1)
    sides = []
    for side, shape in (("lhs", lhs), ("rhs", rhs)):
        contracting = in_range(f"{side}_contracting_dims", attributes.get(f"{side}_contracting_dims", ()), shape.rank)
        batch = in_range(f"{side}_batch_dims", attributes.get(f"{side}_batch_dims", ()), shape.rank)
        both = set(contracting) & set(batch)
        message = f"{side} dimension {min(both, default=0)} is contracted and batch"
        require(not both, message, f"attribute:{side}_batch_dims")
        sides.append((contracting, batch))
    (lhs_contracting, lhs_batch), (rhs_contracting, rhs_batch) = sides
    for name, left, right in (("contracting", lhs_contracting, rhs_contracting), ("batch", lhs_batch, rhs_batch)):
        word = "contracted" if name == "contracting" else name
        part = f"attribute:lhs_{name}_dims"
        require(len(left) == len(right), f"{len(left)} {word} dimensions on the left, {len(right)} on the right", part)
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            m, n = lhs.dimensions[a], rhs.dimensions[b]
            same = m == n or UNBOUNDED in (m, n)
            require(same, f"{word} dimensions differ: {m} on the left, {n} on the right", f"{part}:{index}")
    sizes = [lhs.dimensions[d] for d in lhs_batch]
    sizes += [n for d, n in enumerate(lhs.dimensions) if d not in lhs_batch and d not in lhs_contracting]
    sizes += [n for d, n in enumerate(rhs.dimensions) if d not in rhs_batch and d not in rhs_contracting]
    return array(lhs.element_type, sizes)


def _ragged_dot(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Three modes: the ragged dimension is a free, a contracted or a batch dimension of the left operand."""
    lhs, rhs, groups = operands
    require_array(opcode, groups, 2)
    require(groups.rank > 0, f"group sizes are an array, not {groups}", "operand:2")
    ragged = in_range("lhs_ragged_dims", attributes.get("lhs_ragged_dims", ()), lhs.rank)
    require(len(ragged) == 1, "ragged-dot has one ragged dimension", "attribute:lhs_ragged_dims")
    group_dims = in_range("rhs_group_dims", attributes.get("rhs_group_dims", ()), rhs.rank)
    contracting = attributes.get("lhs_contracting_dims", ())
    batch = attributes.get("lhs_batch_dims", ())
    if ragged[0] in batch:
        return _dot(opcode, (lhs, rhs), attributes)
    if ragged[0] in contracting:
        inner = _dot(opcode, (lhs, rhs), attributes)
        return array(inner.element_type, (groups.dimensions[-1], *inner.dimensions))
    require(len(group_dims) == 1, "a ragged free dimension needs one rhs group dimension", "attribute:rhs_group_dims")
    kept = [d for d in range(rhs.rank) if d != group_dims[0]]
    smaller = array(rhs.element_type, [rhs.dimensions[d] for d in kept])
    moved = dict(attributes)
    for name in ("rhs_contracting_dims", "rhs_batch_dims"):
        numbers = attributes.get(name, ())
        require(group_dims[0] not in numbers, "the group dimension is also contracted or batch", f"attribute:{name}")
        moved[name] = tuple(kept.index(d) for d in numbers if d in kept)
    return _dot(opcode, (lhs, smaller), moved)


def _scaled_dot(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    return _dot(opcode, operands[:2], attributes)


def _convolution(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    base, kernel = operands
    require_array(opcode, base, 0)
    require_array(opcode, kernel, 1)
    labels: ConvDimensionNumbers = attributes["dim_labels"]
    spatial = len(labels.input_spatial)
    rank = spatial + 2
    if labels.text is not None:
        raise ShapeError("a convolution with unknown dimensions has no inferred shape", "attribute:dim_labels")
    for index, shape in enumerate((base, kernel)):
        message = f"dim_labels name {rank} dimensions, operand {index} is {shape}"
        require(shape.rank == rank, message, f"operand:{index}")
    window = attributes.get("window") or Window((WindowDimension(1),) * spatial)
    if len(window.dimensions) != spatial:
        found = plain(len(window.dimensions), "dimension")
        raise ShapeError(f"the window has {found}, dim_labels have {spatial}", "attribute:window")
    groups, batches = attributes.get("feature_group_count", 1), attributes.get("batch_group_count", 1)
    require(groups > 0, "feature_group_count must be positive", "attribute:feature_group_count")
    require(batches > 0, "batch_group_count must be positive", "attribute:batch_group_count")
    features, depth = base.dimensions[labels.input_feature], kernel.dimensions[labels.kernel_input_feature]
    outputs, batch = kernel.dimensions[labels.kernel_output_feature], base.dimensions[labels.input_batch]
    known = UNBOUNDED not in (*base.dimensions, *kernel.dimensions)
    fits = not known or features == depth * groups
    require(fits, f"{features} input features, the kernel takes {depth} times {plain(groups, 'group')}", "operand:1")
    require(not known or outputs % groups == 0, f"{outputs} output features in {groups} groups", "operand:1")
    require(not known or batch % batches == 0, f"a batch of {batch} in {batches} groups", "operand:0")
    require(not known or outputs % batches == 0, f"{outputs} output features in {batches} batch groups", "operand:1")
    sizes = [0] * rank
    sizes[labels.output_batch] = batch // batches if batch != UNBOUNDED else UNBOUNDED
    sizes[labels.output_feature] = outputs
    for index, one in enumerate(window.dimensions):
        kernel_size = kernel.dimensions[labels.kernel_spatial[index]]
        same = kernel_size in (one.size, UNBOUNDED)
        require(same, f"the window has size {one.size}, the kernel {kernel_size}", "attribute:window")
        sizes[labels.output_spatial[index]] = (
            one.output_size(base.dimensions[labels.input_spatial[index]])
            if base.dimensions[labels.input_spatial[index]] != UNBOUNDED
            else UNBOUNDED
        )
    return array(base.element_type, sizes)


def _index_batch(indices: Shape, vector: int, name: str = "attribute:index_vector_dim") -> list[int]:
    """Dimensions of the index array without the index vector."""
    require(0 <= vector <= indices.rank, f"index_vector_dim {vector} is out of range for {indices}", name)
    return [n for d, n in enumerate(indices.dimensions) if d != vector]


def _gather(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    operand, indices = operands
    require_array(opcode, operand, 0)
    require_array(opcode, indices, 1)
    kind = numeric_kind(indices)
    require(kind in ("signed", "unsigned"), f"indices are integers, not {indices.element_type}", "operand:1")
    sizes = attributes["slice_sizes"]
    require(len(sizes) == operand.rank, f"{len(sizes)} slice sizes for {operand}", "attribute:slice_sizes")
    for index, (size, whole) in enumerate(zip(sizes, operand.dimensions, strict=True)):
        fits = size >= 0 and (whole == UNBOUNDED or size <= whole)
        message = f"slice size {size} does not fit dimension {index} of size {whole}"
        require(fits, message, f"attribute:slice_sizes:{index}")
    collapsed = in_range("collapsed_slice_dims", attributes["collapsed_slice_dims"], operand.rank)
    batching = in_range("operand_batching_dims", attributes.get("operand_batching_dims", ()), operand.rank)
    for dimension in (*collapsed, *batching):
        small = sizes[dimension] <= 1
        message = f"dimension {dimension} is dropped but its slice size is {sizes[dimension]}"
        require(small, message, f"attribute:slice_sizes:{dimension}")
    batch = _index_batch(indices, attributes["index_vector_dim"])
    _index_map(attributes, "start_index_map", indices, operand.rank)
    window = [n for d, n in enumerate(sizes) if d not in collapsed and d not in batching]
    offsets = attributes["offset_dims"]
    rank = len(batch) + len(window)
    in_range("offset_dims", offsets, rank)
    matches = len(offsets) == len(window)
    require(matches, f"{len(offsets)} offset dimensions, the slices have {len(window)}", "attribute:offset_dims")
    rest, inner = iter(batch), iter(window)
    return array(operand.element_type, [next(inner) if d in offsets else next(rest) for d in range(rank)])


def _index_map(attributes: Mapping[str, Any], name: str, indices: Shape, rank: int) -> None:
    """The map from index vector entries to operand dimensions."""
    mapped = in_range(name, attributes[name], rank)
    vector = attributes["index_vector_dim"]  # `_index_batch` has looked whether it is in range
    length = indices.dimensions[vector] if vector < indices.rank else 1
    fits = length in (len(mapped), UNBOUNDED)
    message = f"{name} has {len(mapped)} entries, the index vectors {length}"
    require(fits, message, f"attribute:{name}")


def _scatter(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    require_count(opcode, operands, 3)
    require(len(operands) % 2 == 1, f"scatter takes N arrays, indices and N updates, {len(operands)} operands given")
    half = len(operands) // 2
    inputs, indices, updates = operands[:half], operands[half], operands[half + 1 :]
    for index, one in enumerate(operands):
        require_array(opcode, one, index)
    first, update = inputs[0], updates[0]
    kind = numeric_kind(indices)
    require(kind in ("signed", "unsigned"), f"indices are integers, not {indices.element_type}", f"operand:{half}")
    for index, one in enumerate(inputs):
        require(same_dimensions(one, first), f"scatter into {first} and {one}: dimensions differ", f"operand:{index}")
    for index, one in enumerate(updates):
        part = f"operand:{half + 1 + index}"
        require(same_dimensions(one, update), f"updates {update} and {one}: dimensions differ", part)
        same = one.element_type == inputs[index].element_type
        require(same, f"updates of {one.element_type} for {inputs[index]}", part)
    window = in_range("update_window_dims", attributes["update_window_dims"], update.rank)
    inserted = in_range("inserted_window_dims", attributes["inserted_window_dims"], first.rank)
    batching = in_range("input_batching_dims", attributes.get("input_batching_dims", ()), first.rank)
    batch = _index_batch(indices, attributes["index_vector_dim"])
    _index_map(attributes, "scatter_dims_to_operand_dims", indices, first.rank)
    kept = [n for d, n in enumerate(first.dimensions) if d not in inserted and d not in batching]
    part = "attribute:update_window_dims"
    require(len(window) == len(kept), f"{len(window)} window dimensions, the operand has {len(kept)}", part)
    require(update.rank == len(window) + len(batch), f"updates {update} for indices {indices}", f"operand:{half + 1}")
    for dimension, whole in zip(window, kept, strict=True):
        size = update.dimensions[dimension]
        require(size <= whole or whole == UNBOUNDED, f"an update window of {size} does not fit into {whole}", part)
    outer = [n for d, n in enumerate(update.dimensions) if d not in window]
    same = all(a == b or UNBOUNDED in (a, b) for a, b in zip(outer, batch, strict=True))
    require(same, f"updates {update} for indices {indices}", f"operand:{half + 1}")
    return results([like(one) for one in inputs])


CONTRACTIONS: dict[str, Rule] = {
    "dot": _dot,
    "ragged-dot": _ragged_dot,
    "scaled-dot": _scaled_dot,
    "convolution": _convolution,
    "gather": _gather,
    "scatter": _scatter,
}
