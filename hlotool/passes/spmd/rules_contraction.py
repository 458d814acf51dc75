"""Partitioning of products and of linear algebra."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from hlotool.ir import ELEMENT_TYPES, Instruction, Shape, Window, WindowDimension
from hlotool.ir.attributes import ConvDimensionNumbers
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.spmd.axes import Axes, Chosen, Labels
from hlotool.passes.spmd.halo import Piece, filled_piece, halo_bytes
from hlotool.passes.spmd.partitioner import Partitioner, Rule
from hlotool.passes.spmd.tiling import Axis, tile_size
from hlotool.passes.spmd.values import Part, Value
from hlotool.passes.spmd.windowed import passed_on, product_of_tiles
from hlotool.passes.spmd.writer import partial_type

__all__ = ["RULES"]


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
    least = p.work.passed_from
    if least is None or not any(o.shape.byte_size >= least for o in i.operands):
        return None
    found = p.division(i, values, axes)
    passed = passed_on(axes, *found, least) if found is not None else None
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


_BATCH, _FEATURES, _CONTRACTED, _SPACE = range(4)
"""The axes of a convolution; dimension n of space has ``_SPACE + n``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Convolution:
    """How a convolution can be divided: the axes of base, kernel and result, and the dimensions of space along which
    devices have parts of the kernel (`inner`)."""

    dimensions: ConvDimensionNumbers
    window: Window
    groups: int
    batches: int
    base: Labels
    kernel: Labels
    result: Labels
    divides: Mapping[int, int]
    inner: frozenset[int]


def _convolution_of(i: Instruction) -> _Convolution:
    labels: ConvDimensionNumbers = i.attributes["dim_labels"]
    window: Window = i.attributes.get("window", Window())
    groups = i.attributes.get("feature_group_count", 1)
    batches = i.attributes.get("batch_group_count", 1)
    lhs: list[int | None] = [None] * i.operands[0].shape.rank
    rhs: list[int | None] = [None] * i.operands[1].shape.rank
    out: list[int | None] = [None] * i.shape.rank
    divides: dict[int, int] = {}
    rhs[labels.kernel_output_feature] = out[labels.output_feature] = _FEATURES
    if batches == 1:
        lhs[labels.input_batch] = out[labels.output_batch] = _BATCH
    else:  # whole groups: their part of the batch, and their features of the result
        lhs[labels.input_batch] = _FEATURES
        divides[_FEATURES] = batches
    if groups > 1:  # whole groups: their features of the base and of the result
        lhs[labels.input_feature] = _FEATURES
        divides[_FEATURES] = groups
    else:
        lhs[labels.input_feature] = rhs[labels.kernel_input_feature] = _CONTRACTED if _adds_up(i) else None
    inner = set()
    for n, row in enumerate(window.dimensions):
        lhs[labels.input_spatial[n]] = _SPACE + n
        if row.size > i.shape.dimensions[labels.output_spatial[n]] and not row.reversal and _adds_up(i):
            rhs[labels.kernel_spatial[n]] = _SPACE + n
            inner.add(n)
            divides[_SPACE + n] = row.size
        else:
            out[labels.output_spatial[n]] = _SPACE + n
    return _Convolution(
        dimensions=labels, window=window, groups=groups, batches=batches, base=tuple(lhs), kernel=tuple(rhs),
        result=tuple(out), divides=divides, inner=frozenset(inner),
    )  # fmt: skip


def _places_in_base(i: Instruction, own: _Convolution, n: int, axis: Axis) -> Piece:
    """What a device needs of the base along a dimension of space, for its part of the result or of the kernel."""
    row, made = own.window.dimensions[n], i.shape.dimensions[own.dimensions.output_spatial[n]]
    if n in own.inner:
        tile, step = tile_size(row.size, axis.count), row.window_dilation
        places = (made - 1) * row.stride + (tile - 1) * row.window_dilation + 1
    else:
        tile, step = tile_size(made, axis.count), row.stride
        places = (tile - 1) * row.stride + row.dilated_size
    starts = tuple([c * tile * step - row.padding_low for c in range(axis.count)])
    return Piece(starts, places, row.base_dilation)


def _part_of_base(
    p: Partitioner, image: Part, x: Instruction, dimension: int, row: WindowDimension, piece: Piece
) -> tuple[Instruction, WindowDimension]:
    """What a device needs of the base along a dimension, and the window over that."""
    if len(set(piece.ahead)) > 1:
        x = filled_piece(p, image, x, dimension, piece)
        return x, replace(row, padding_low=0, padding_high=0, base_dilation=1)
    # elements are in the same places on all devices: what is between them stays what it is
    elements = piece.elements
    high = piece.size - piece.ahead[0] - (elements.size - 1) * row.base_dilation - 1
    x = filled_piece(p, image, x, dimension, elements)
    return x, replace(row, padding_low=piece.ahead[0], padding_high=high)


def _convolution(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Batch and output features are independent, input features are contracted; along dimensions of space, a device
    gets from its neighbours what its windows reach into.  Of a kernel that is larger than the result, as that of a
    gradient, devices have parts, and partial sums."""
    own = _convolution_of(i)
    labels = own.dimensions
    base, kernel = (o.shape for o in i.operands)
    combined = frozenset([*([_CONTRACTED] if own.groups == 1 else []), *(_SPACE + n for n in own.inner)])

    def halo(label: int, chosen: Chosen) -> int | None:
        if label < _SPACE:
            return 0
        piece = _places_in_base(i, own, label - _SPACE, chosen.axes[label])
        return halo_bytes(piece, base, labels.input_spatial[label - _SPACE], chosen.tiling(own.base))

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        image, weights = parts
        x = p.masked(image, [labels.input_feature] if own.groups == 1 else [])
        y = p.masked(weights, [labels.kernel_input_feature] if own.groups == 1 else [])
        rows = list(own.window.dimensions)
        for n, row in enumerate(rows):
            if _SPACE + n not in chosen.axes:
                continue
            piece = _places_in_base(i, own, n, chosen.axes[_SPACE + n])
            x, row = _part_of_base(p, image, x, labels.input_spatial[n], row, piece)
            rows[n] = replace(row, size=y.shape.dimensions[labels.kernel_spatial[n]])
        changed: dict[str, Any] = {"window": Window(tuple(rows))} if rows else {}
        if _FEATURES in chosen.axes:
            count = chosen.axes[_FEATURES].count
            changed |= {"feature_group_count": own.groups // count} if own.groups > 1 else {}
            changed |= {"batch_group_count": own.batches // count} if own.batches > 1 else {}
        return p.emit(i, _partial(i, shape, combined, chosen), [x, y], **changed)

    work = 2 * i.shape.size * kernel.size // max(1, kernel.dimensions[labels.kernel_output_feature])
    axes = Axes((own.base, own.kernel), (own.result,), combined, own.divides, halo, work)
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


RULES: dict[str, Rule] = {
    "dot": _dot,
    "convolution": _convolution,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "fft": _fft,
}
