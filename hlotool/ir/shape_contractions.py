"""Shape rules of dots, convolutions, gather and scatter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from hlotool.ir.attributes import ConvDimensionNumbers, Window, WindowDimension
from hlotool.ir.ragged import ragged_mode
from hlotool.ir.shape import UNBOUNDED, Shape, array
from hlotool.ir.shape_checks import (
    Rule,
    ShapeError,
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
from hlotool.ir.types import ELEMENT_TYPES

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
    flags = [flags_of(lhs)[a] or flags_of(rhs)[b] for a, b in zip(lhs_batch, rhs_batch, strict=True)]
    flags += [flag for d, flag in enumerate(flags_of(lhs)) if d not in lhs_batch and d not in lhs_contracting]
    flags += [flag for d, flag in enumerate(flags_of(rhs)) if d not in rhs_batch and d not in rhs_contracting]
    return with_dynamic(array(lhs.element_type, sizes), flags)


def _ragged_dot(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Three modes: the ragged dimension is a free, a contracted or a batch dimension of the left operand."""
    lhs, rhs, groups = operands
    for index, shape in enumerate(operands):
        require_array(opcode, shape, index)
    integer = ELEMENT_TYPES[groups.element_type].is_integer
    require(integer, f"group sizes are integers, not {groups.element_type}", "operand:2")
    require(groups.rank > 0, f"group sizes are an array, not {groups}", "operand:2")
    ragged = in_range("lhs_ragged_dims", attributes.get("lhs_ragged_dims", ()), lhs.rank)
    require(len(ragged) == 1, "ragged-dot has one ragged dimension", "attribute:lhs_ragged_dims")
    group_dims = in_range("rhs_group_dims", attributes.get("rhs_group_dims", ()), rhs.rank)
    for name in ("lhs_batch_dims", "lhs_contracting_dims"):
        in_range(name, attributes.get(name, ()), lhs.rank)
    mode, outer = ragged_mode(attributes, lhs.rank)
    wanted = [lhs.dimensions[d] for d in outer]
    given = groups.dimensions[:-1]
    fits = not given or (
        len(given) == len(wanted) and all(m == n or UNBOUNDED in (m, n) for m, n in zip(given, wanted, strict=True))
    )
    sizes = ",".join(map(str, (*wanted, "n")))
    require(fits, f"group sizes are [n]{f' or [{sizes}]' if wanted else ''}, not {groups}", "operand:2")
    if given and groups.dynamic:
        sized = {d for d, flag in zip(outer, groups.dynamic[:-1], strict=True) if flag}
        lhs = with_dynamic(lhs, [flag or d in sized for d, flag in enumerate(flags_of(lhs))])
    if mode != "free":
        message = f"a ragged {mode} dimension leaves no group dimension on the right"
        require(not group_dims, message, "attribute:rhs_group_dims")
        inner = _dot(opcode, (lhs, rhs), attributes)
        if mode == "batch":
            return inner
        whole = array(inner.element_type, (groups.dimensions[-1], *inner.dimensions))
        return with_dynamic(whole, [flags_of(groups)[-1], *flags_of(inner)])
    require(len(group_dims) == 1, "a ragged free dimension needs one rhs group dimension", "attribute:rhs_group_dims")
    count, groups_there = groups.dimensions[-1], rhs.dimensions[group_dims[0]]
    same = count == groups_there or UNBOUNDED in (count, groups_there)
    require(same, f"{plain(count, 'group')}, but {groups_there} in the right operand", "operand:2")
    kept = [d for d in range(rhs.rank) if d != group_dims[0]]
    smaller = with_dynamic(
        array(rhs.element_type, [rhs.dimensions[d] for d in kept]), [flags_of(rhs)[d] for d in kept]
    )
    moved = dict(attributes)
    for name in ("rhs_contracting_dims", "rhs_batch_dims"):
        numbers = in_range(name, attributes.get(name, ()), rhs.rank)
        require(group_dims[0] not in numbers, "the group dimension is also contracted or batch", f"attribute:{name}")
        moved[name] = tuple(kept.index(d) for d in numbers)
    return _dot(opcode, (lhs, smaller), moved)


def _scaled_dot(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """A scale is a number, or an array whose dimensions divide the operand's: one element for each block of it."""
    sides = []
    for index, (operand, scale) in enumerate(zip(operands[:2], operands[2:], strict=True)):
        for at, shape in ((index, operand), (index + 2, scale)):
            require_array(opcode, shape, at)
            real = numeric_kind(shape) == "float"
            require(real, f"scaled-dot multiplies floats, not {shape.element_type}", f"operand:{at}")
        fits = scale.rank == 0 or (
            scale.rank == operand.rank
            and all(
                UNBOUNDED in (n, size) or n == size or (n > 0 and size % n == 0)
                for n, size in zip(scale.dimensions, operand.dimensions, strict=True)
            )
        )
        require(fits, f"a scale of {scale} does not divide {operand} into blocks", f"operand:{index + 2}")
        scaled = flags_of(scale) if scale.rank else flags_of(operand)
        flags = [a or b for a, b in zip(flags_of(operand), scaled, strict=True)]
        sides.append(with_dynamic(operand, flags))
    return _dot(opcode, sides, attributes)


def _convolution(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    base, kernel = operands
    require_array(opcode, base, 0)
    require_array(opcode, kernel, 1)
    types = base.element_type, kernel.element_type
    alike = _holds(*types) or _holds(*reversed(types))
    require(alike, f"neither of {types[0]} and {types[1]} holds all numbers of the other", "operand:1")
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
    in_features, in_batch = "attribute:feature_group_count", "attribute:batch_group_count"
    require(groups > 0, "feature_group_count must be positive", in_features)
    require(batches > 0, "batch_group_count must be positive", in_batch)
    require(groups == 1 or batches == 1, "both features and batch are in groups", in_batch)
    features, depth = base.dimensions[labels.input_feature], kernel.dimensions[labels.kernel_input_feature]
    outputs, batch = kernel.dimensions[labels.kernel_output_feature], base.dimensions[labels.input_batch]
    known = UNBOUNDED not in (*base.dimensions, *kernel.dimensions)
    fits = not known or features == depth * groups
    message = f"{features} input features, the kernel takes {depth} times {plain(groups, 'group')}"
    require(fits, message, in_features if groups > 1 else "operand:1")
    require(not known or outputs % groups == 0, f"{outputs} output features in {groups} groups", in_features)
    require(not known or batch % batches == 0, f"a batch of {batch} in {batches} groups", in_batch)
    require(not known or outputs % batches == 0, f"{outputs} output features in {batches} batch groups", in_batch)
    sizes = [0] * rank
    sizes[labels.output_batch] = batch // batches if batch != UNBOUNDED else UNBOUNDED
    sizes[labels.output_feature] = outputs
    for index, one in enumerate(window.dimensions):
        kernel_size = kernel.dimensions[labels.kernel_spatial[index]]
        same = kernel_size in (one.size, UNBOUNDED)
        require(same, f"the window has size {one.size}, the kernel {kernel_size}", "attribute:window")
        sizes[labels.output_spatial[index]] = positions(one, base.dimensions[labels.input_spatial[index]])
    return array(base.element_type, sizes)


@cache
def _holds(wide: str, narrow: str) -> bool:
    """Whether element type `wide` has all numbers of `narrow`."""
    to, of = ELEMENT_TYPES[wide], ELEMENT_TYPES[narrow]
    if to is of or wide == "f8e8m0fnu":  # which has no zero
        return to is of
    if of.kind == "pred":
        return True
    if to.is_complex:
        part = "f32" if wide == "c64" else "f64"
        return _holds(part, narrow if not of.is_complex else "f32" if narrow == "c64" else "f64")
    if to.kind == "pred" or of.is_complex or (of.is_float and not to.is_float):
        return False
    if to.is_integer:
        return to.bits - of.bits >= (0 if to.kind == of.kind else 1) and (to.kind == "signed" or of.kind == "unsigned")
    there: Any = ml_dtypes.finfo(to.dtype)  # type: ignore[no-untyped-call]
    if of.is_integer:
        digits = of.bits - (of.kind == "signed")
        return bool(digits <= there.nmant + 1 and digits <= there.maxexp)
    here: Any = ml_dtypes.finfo(of.dtype)  # type: ignore[no-untyped-call]
    with np.errstate(all="ignore"):
        special = [float(np.asarray(value, of.dtype)) for value in (np.inf, np.nan, -1.0)]
        kept = [float(np.asarray(value, to.dtype)) for value in special]
    return bool(
        here.nmant <= there.nmant
        and float(here.max) <= float(there.max)
        and float(here.smallest_subnormal) >= float(there.smallest_subnormal)
        and repr(special) == repr(kept)
    )


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
    names = ("operand_batching_dims", "start_indices_batching_dims", "collapsed_slice_dims", "start_index_map")
    together = _batching(attributes, names, operand, indices)
    window = [n for d, n in enumerate(sizes) if d not in collapsed and d not in batching]
    offsets = attributes["offset_dims"]
    rank = len(batch) + len(window)
    _ascending("offset_dims", in_range("offset_dims", offsets, rank))
    _ascending("collapsed_slice_dims", collapsed)
    matches = len(offsets) == len(window)
    require(matches, f"{len(offsets)} offset dimensions, the slices have {len(window)}", "attribute:offset_dims")
    flags, own = flags_of(indices), flags_of(operand)
    outer = [flag for d, flag in enumerate(flags) if d != attributes["index_vector_dim"]]
    for one, other in together:
        outer[other - (other > attributes["index_vector_dim"])] |= own[one]
    kept = [d for d in range(operand.rank) if d not in collapsed and d not in batching]
    parts = [(sizes[d], own[d] and sizes[d] == operand.dimensions[d]) for d in kept]
    rest, inner = iter(zip(batch, outer, strict=True)), iter(parts)
    dimensions = [next(inner) if d in offsets else next(rest) for d in range(rank)]
    shape = array(operand.element_type, [n for n, _ in dimensions])
    if 0 not in shape.dimensions:
        for dimension in (*collapsed, *batching):  # elements of the result are read from there, those of nothing are 0
            message = f"dimension {dimension} is dropped but its slice size is 0, and the result is not empty"
            fits = sizes[dimension] == 1 or operand.dimensions[dimension] in (0, UNBOUNDED)
            require(fits, message, f"attribute:slice_sizes:{dimension}")
    return with_dynamic(shape, (flag for _, flag in dimensions))


def _ascending(name: str, dimensions: Sequence[int]) -> None:
    inside = ",".join(map(str, dimensions))
    require(list(dimensions) == sorted(dimensions), f"{name}={{{inside}}} is not ascending", f"attribute:{name}")


def _batching(
    attributes: Mapping[str, Any], names: tuple[str, str, str, str], operand: Shape, indices: Shape
) -> list[tuple[int, int]]:
    """The pairs of dimensions of operand and indices that advance together; `names` are the attributes with these, with
    the dropped dimensions and with those that indices move."""
    ours, theirs = (tuple(attributes.get(name) or ()) for name in names[:2])
    part = f"attribute:{names[1]}"
    same = len(ours) == len(theirs)
    require(same, f"{len(ours)} batching dimensions of the operand, {len(theirs)} of the indices", part)
    _ascending(names[0], ours)
    in_range(names[1], theirs, indices.rank)
    vector = attributes["index_vector_dim"]
    require(vector not in theirs, f"index_vector_dim {vector} is a batching dimension", part)
    for name in names[2:]:
        both = set(ours) & set(attributes[name])
        require(not both, f"dimension {min(both, default=0)} is in {names[0]} and {name}", f"attribute:{name}")
    for one, other in zip(ours, theirs, strict=True):
        m, n = operand.dimensions[one], indices.dimensions[other]
        fits = m == n or UNBOUNDED in (m, n)
        require(fits, f"batching dimensions differ: {m} of the operand, {n} of the indices", part)
    return list(zip(ours, theirs, strict=True))


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
    _ascending("update_window_dims", window)
    _ascending("inserted_window_dims", inserted)
    moved = ("inserted_window_dims", "scatter_dims_to_operand_dims")
    _batching(attributes, ("input_batching_dims", "scatter_indices_batching_dims", *moved), first, indices)
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
