"""Partitioning of products and of linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from math import prod

from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Module, Shape, Window
from hlotool.ir.attributes import ConvDimensionNumbers
from hlotool.ir.builder import Builder
from hlotool.passes.expand.batch_norm_expander import batch_norm
from hlotool.passes.expand.ragged_dot_decomposer import ragged_dot
from hlotool.passes.expand.scaled_dot_decomposer import scaled_dot
from hlotool.passes.framework.graph import erase
from hlotool.passes.spmd.axes import Axes, Chosen
from hlotool.passes.spmd.halo import Piece, filled_piece, halo_bytes
from hlotool.passes.spmd.partitioner import Partitioner, Rule, partial_type
from hlotool.passes.spmd.tiling import Axis, tile_size
from hlotool.passes.spmd.values import Part, Value
from hlotool.passes.spmd.windowed import passed_on, product_of_tiles

__all__ = ["RULES", "topk"]


def _dot(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Dimensions of batch and free ones are independent; along those that are contracted, devices have partial sums."""
    a = i.attributes
    sides = []
    label = 0
    batch = range(len(a.get("lhs_batch_dims") or ()))
    contracted = range(len(batch), len(batch) + len(a.get("lhs_contracting_dims") or ()))
    label = contracted.stop
    free: list[int] = []
    for side, operand in zip(("lhs", "rhs"), i.operands, strict=True):
        labels: dict[int, int] = dict(zip(a.get(f"{side}_batch_dims") or (), batch, strict=True))
        labels |= dict(zip(a.get(f"{side}_contracting_dims") or (), contracted, strict=True))
        for d in range(operand.shape.rank):
            if d not in labels:
                labels[d] = label
                free.append(label)
                label += 1
        sides.append(tuple([labels[d] for d in range(operand.shape.rank)]))
    together = prod([i.operands[0].shape.dimensions[d] for d in a.get("lhs_contracting_dims") or ()])
    result = (*batch, *free)

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        given = []
        for part, labels in zip(parts, sides, strict=True):
            given.append(p.masked(part, [d for d, label in enumerate(labels) if label in contracted]))
        return p.emit(i, _partial(i, shape, contracted, chosen), given)

    work = 2 * i.shape.size * together
    over = frozenset(contracted) if _adds_up(i) else frozenset[int]()
    given = [tuple([None if label in contracted and label not in over else label for label in side]) for side in sides]
    axes = Axes((given[0], given[1]), (result,), over, work=work)
    return _tile_by_tile(p, i, values, axes) or p.divided(i, values, axes, local)


def _tile_by_tile(p: Partitioner, i: Instruction, values: list[Value], axes: Axes) -> Value | None:
    """Without an operand ever being gathered, where that would be a large one; None where it is not."""
    found = p.division(i, values, axes) if any(o.shape.byte_size >= p.work.passed_from for o in i.operands) else None
    passed = passed_on(axes, *found, p.work.passed_from) if found is not None else None
    if found is None or passed is None:
        return None
    parts, chosen = found
    shape = p.local_shape(i, axes, chosen)
    if not axes.combined.isdisjoint({passed.label, *chosen.axes}):
        shape = shape.with_type(partial_type(shape.element_type))
    reason = f"operand {passed.number} is passed on in {passed.axis.count} tiles, and not gathered"
    p.work.log.note("windowed-einsum", i, reason, bytes=passed.byte_size)
    made = product_of_tiles(p, i, parts, shape, axes, chosen, passed)
    if axes.combined.isdisjoint(chosen.axes) and shape.element_type != i.shape.element_type:
        made = p.build.convert(made, i.shape.element_type)
    return p.combined(i, made, axes, chosen)


def _adds_up(i: Instruction) -> bool:
    """Whether partial sums may be added: those of floats that become integers are rounded once alone."""
    whole = ELEMENT_TYPES[i.shape.element_type].is_float or ELEMENT_TYPES[i.shape.element_type].is_complex
    return whole or not any(ELEMENT_TYPES[o.shape.element_type].is_float for o in i.operands)


def _partial(i: Instruction, shape: Shape, contracted: Iterable[int], chosen: Chosen) -> Shape:
    """The shape of what a device computes, in a wider type where that is a partial sum."""
    if not any(label in chosen.axes for label in contracted):
        return shape
    return shape.with_type(partial_type(shape.element_type))


# ---- convolutions


def _convolution(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Batch and output features are independent, input features are contracted; along dimensions of space, a device
    gets from its neighbours what its windows reach into.  Of a kernel that is larger than the result, as that of a
    gradient, devices have parts, and partial sums."""
    labels: ConvDimensionNumbers = i.attributes["dim_labels"]
    window: Window = i.attributes.get("window", Window())
    groups = i.attributes.get("feature_group_count", 1)
    batches = i.attributes.get("batch_group_count", 1)
    base, kernel = (o.shape for o in i.operands)
    batch, features, contracted, first = 0, 1, 2, 3
    lhs: list[int | None] = [None] * base.rank
    rhs: list[int | None] = [None] * kernel.rank
    out: list[int | None] = [None] * i.shape.rank
    divides: dict[int, int] = {}
    if batches == 1:
        lhs[labels.input_batch] = out[labels.output_batch] = batch
        rhs[labels.kernel_output_feature] = out[labels.output_feature] = features
    else:
        # whole groups: their part of the batch, and their features of the result
        lhs[labels.input_batch] = rhs[labels.kernel_output_feature] = out[labels.output_feature] = features
        divides[features] = batches
    if groups > 1:
        # whole groups: their features of the base and of the result
        lhs[labels.input_feature] = features
        divides[features] = groups
    else:
        lhs[labels.input_feature] = rhs[labels.kernel_input_feature] = contracted if _adds_up(i) else None
    inner: set[int] = set()  # dimensions of space of which devices have a part of the kernel
    for n, row in enumerate(window.dimensions):
        lhs[labels.input_spatial[n]] = first + n
        if row.size > i.shape.dimensions[labels.output_spatial[n]] and not row.reversal and _adds_up(i):
            rhs[labels.kernel_spatial[n]] = first + n
            inner.add(n)
            divides[first + n] = row.size
        else:
            out[labels.output_spatial[n]] = first + n

    def piece(n: int, axis: Axis) -> Piece:
        row, made = window.dimensions[n], i.shape.dimensions[labels.output_spatial[n]]
        if n in inner:
            tile = tile_size(row.size, axis.count)
            step, places = row.window_dilation, (made - 1) * row.stride + (tile - 1) * row.window_dilation + 1
        else:
            tile = tile_size(made, axis.count)
            step, places = row.stride, (tile - 1) * row.stride + row.dilated_size
        starts = tuple([c * tile * step - row.padding_low for c in range(axis.count)])
        return Piece(starts, places, row.base_dilation)

    def halo(label: int, chosen: Chosen) -> int | None:
        if label < first:
            return 0
        own = piece(label - first, chosen.axes[label])
        return halo_bytes(own, base, labels.input_spatial[label - first], chosen.tiling(tuple(lhs)))

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        image, weights = parts
        x = p.masked(image, [labels.input_feature] if groups == 1 else [])
        y = p.masked(weights, [labels.kernel_input_feature] if groups == 1 else [])
        rows = list(window.dimensions)
        for n, row in enumerate(rows):
            if first + n not in chosen.axes:
                continue
            axis, d = chosen.axes[first + n], labels.input_spatial[n]
            own = piece(n, axis)
            if len(set(own.ahead)) == 1:  # places between elements stay what they are
                low = own.ahead[0]
                x = filled_piece(p, image, x, d, own.elements)
                high = own.size - low - (own.elements.size - 1) * row.base_dilation - 1
                rows[n] = replace(row, padding_low=low, padding_high=high)
            else:
                x = filled_piece(p, image, x, d, own)
                rows[n] = replace(row, padding_low=0, padding_high=0, base_dilation=1)
            if n in inner:
                rows[n] = replace(rows[n], size=y.shape.dimensions[labels.kernel_spatial[n]])
        changed = {"window": Window(tuple(rows))} if rows else {}
        if groups > 1 and features in chosen.axes:
            changed["feature_group_count"] = groups // chosen.axes[features].count
        if batches > 1 and features in chosen.axes:
            changed["batch_group_count"] = batches // chosen.axes[features].count
        return p.emit(i, _partial(i, shape, combined, chosen), [x, y], **changed)

    work = 2 * i.shape.size * kernel.size // max(1, kernel.dimensions[labels.kernel_output_feature])
    combined = frozenset([*({contracted} if groups == 1 else ()), *(first + n for n in inner)])
    axes = Axes((tuple(lhs), tuple(rhs)), (tuple(out),), combined, divides, halo, work)
    return p.divided(i, values, axes, local)


# ---- linear algebra and transforms of last dimensions


def _leading(count: int, rank: int) -> tuple[int | None, ...]:
    """All dimensions but the last `count` are independent."""
    return (*range(rank - count), *(None,) * count)


def _cholesky(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    labels = _leading(2, i.shape.rank)
    return p.divided(i, values, Axes((labels,), (labels,), work=i.shape.size * i.shape.dimensions[-1]))


def _triangular_solve(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Right sides are independent, too."""
    rank = i.shape.rank
    matrix = _leading(2, rank)
    sides = [*matrix]
    sides[rank - 1 if i.attributes.get("left_side", False) else rank - 2] = rank
    work = i.shape.size * i.operands[0].shape.dimensions[-1]
    return p.divided(i, values, Axes((matrix, tuple(sides)), (tuple(sides),), work=work))


def _fft(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    labels = _leading(len(i.attributes["fft_length"]), i.shape.rank)
    return p.divided(i, values, Axes((labels,), (labels,)))


def topk(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    labels = _leading(1, i.operands[0].shape.rank)
    return p.divided(i, values, Axes((labels,), (labels,) * len(list(i.shape.leaves()))))


# ---- batch norm


def _batch_norm(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Features are independent; where mean and variance are operands, everything is.  Where other dimensions are
    divided, too, it is written as reductions and arithmetic."""
    feature = i.attributes["feature_index"]
    rank = i.operands[0].shape.rank
    everything = i.opcode == "batch-norm-inference"
    large = tuple([d if everything or d == feature else None for d in range(rank)])
    operands = tuple([large if o.shape.rank == rank else (feature,) for o in i.operands])
    results = tuple([large if leaf.rank == rank else (feature,) for leaf in i.shape.leaves()])
    if rank == 1:
        return None
    given = values[0]
    assert isinstance(given, Part)
    if not everything and any(axis.count > 1 for d, axis in enumerate(given.tiling.axes) if d != feature):
        return _spelled_out(batch_norm, p, i, values)
    return p.divided(i, values, Axes(operands, results))


# ---- what is written as other operations


def _spelled_out(
    expand: Callable[[Module, Builder, Instruction], Instruction], p: Partitioner, i: Instruction, values: list[Value]
) -> Value | None:
    """By the instructions that a pass would put in its place, each of which is partitioned."""
    if not (i.shape.is_static and all(o.shape.is_static for o in i.operands)):
        return None
    body = Computation(p.work.module.unique_name(i.name))
    build = Builder(body, like=i)
    operands = [build.parameter(n, o.shape) for n, o in enumerate(i.operands)]
    attributes = {key: value for key, value in i.attributes.items() if key != "sharding"}
    one = build.add(i.opcode, i.shape, operands, attributes)
    body.root = expand(p.work.module, build, one)
    erase(one)
    return p.inlined(body, values)


RULES: dict[str, Rule] = {
    "dot": _dot,
    "convolution": _convolution,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "fft": _fft,
    "topk": topk,
    "ragged-dot": partial(_spelled_out, ragged_dot),
    "scaled-dot": partial(_spelled_out, scaled_dot),
    **dict.fromkeys(("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), _batch_norm),
}
