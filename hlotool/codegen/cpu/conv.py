"""Convolutions as matrix products over strided windows, without an im2col copy.

An output pixel is a row of the product and the sum runs over the window and the input features; since
the register tile broadcasts elements of its left operand, that operand may lie in memory in any order
of dimensions.  What the tile cannot see past is the border: a padded (and dilated) copy of the input
is made first where there is one.  Weights are packed into panels of output features in the order in
which the tile walks the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from hlotool.codegen.cpu.addressing import Place
from hlotool.codegen.cpu.dot import DotSpec, Scratch, emit_dot, emit_zeros
from hlotool.codegen.cpu.elements import Arithmetic, arithmetic, element
from hlotool.codegen.cpu.gemm import (
    Batch,
    Packing,
    Product,
    TileShape,
    choose_tile,
    emit_product,
    panels_to_pack,
)
from hlotool.codegen.cpu.microkernel import Tap
from hlotool.codegen.cpu.pack import Axis, Copy, emit_copy
from hlotool.codegen.cpu.pad import PadAxis, emit_pad
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm import Unit
from hlotool.codegen.machine import Machine

__all__ = ["ConvSpec", "emit_conv"]

LHS, RHS, OUT = range(3)


@dataclass(frozen=True, slots=True)
class ConvSpec:
    """A convolution with any number of spatial dimensions; strides of the arrays count elements.

    Output pixel o and window element w read input element ``(o * stride + w * window_dilation - padding)
    / base_dilation`` of each spatial dimension where that is a whole number within the input, else zero.
    `padding` is the low one (it may be negative); the high one is implied by `output`.  `reversal` walks
    the window backwards.  With `feature_groups` the input features, with `batch_groups` the batch is split,
    and each group makes its share of the output features.  `accumulate` as in `DotSpec`.
    """

    batch: int
    input: tuple[int, ...]
    input_features: int
    output: tuple[int, ...]
    output_features: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]
    reversal: tuple[bool, ...]
    feature_groups: int
    batch_groups: int
    lhs_batch: int
    lhs_spatial: tuple[int, ...]
    lhs_feature: int
    rhs_spatial: tuple[int, ...]
    rhs_input: int
    rhs_output: int
    out_batch: int
    out_spatial: tuple[int, ...]
    out_feature: int
    lhs: str = "f32"
    rhs: str = "f32"
    out: str = "f32"
    accumulate: str = "f32"

    @property
    def groups(self) -> int:
        return self.feature_groups * self.batch_groups

    def reach(self, at: int) -> int:
        """Elements of the padded, dilated input that spatial dimension `at` reads."""
        return (self.output[at] - 1) * self.strides[at] + (self.kernel[at] - 1) * self.window_dilation[at] + 1


@dataclass(slots=True)
class _Input:
    """The input as the product reads it: strides in bytes (`group`: from one group to the next)."""

    place: Place
    batch: int
    spatial: list[int]
    feature: int
    group: int


@dataclass(frozen=True, slots=True)
class _Free:
    """A dimension of the result that is not its features: stride in the input and in the result (bytes)."""

    extent: int
    a: int
    c: int


@dataclass(slots=True)
class _Plan:
    name: str
    spec: ConvSpec
    machine: Machine
    how: Arithmetic
    unit: Unit = field(default_factory=Unit)
    scratch: Scratch = field(default_factory=Scratch)
    steps: list[Step] = field(default_factory=list)


def emit_conv(name: str, spec: ConvSpec, machine: Machine) -> Kernel:
    """The kernel `name` of a convolution; its arguments are lhs, rhs, out and, if asked for, scratch.

    An empty result gives a kernel without steps.  Raises UnsupportedError for element types that cannot
    be combined.
    """
    plan = _Plan(name, spec, machine, arithmetic(spec.accumulate, machine))
    held = element(spec.out)
    if math.prod((spec.batch, spec.output_features, *spec.output)) > 0:
        if math.prod((spec.input_features, *spec.kernel, *spec.input)) == 0:
            axes = [Axis(spec.batch // spec.batch_groups, 0, spec.out_batch * held.bytes)]
            axes += [Axis(e, 0, s * held.bytes) for e, s in zip(spec.output, spec.out_spatial, strict=True)]
            last = Axis(spec.output_features, 0, spec.out_feature * held.bytes)
            plan.steps.append(emit_zeros(plan.unit, name, axes, last, Place(OUT, 0, held)))
        elif _pointwise(spec):
            return emit_dot(name, _as_dot(spec), machine)
        else:
            _emit(plan)
    unit = plan.unit
    return Kernel(
        tuple(unit.declarations.values()), "\n".join(unit.definitions), tuple(plan.steps), plan.scratch.size
    )


def _bordered(spec: ConvSpec) -> bool:
    """Whether windows reach beyond the input or between its elements."""
    return any(
        spec.padding[at] != 0 or spec.base_dilation[at] != 1 or spec.reach(at) > spec.input[at]
        for at in range(len(spec.input))
    )


def _pointwise(spec: ConvSpec) -> bool:
    return math.prod(spec.kernel) == 1 and spec.groups == 1 and not _bordered(spec)


def _as_dot(spec: ConvSpec) -> DotSpec:
    """A convolution with a window of one element: pixels times features."""
    free = _merge_free([
        _Free(spec.batch, spec.lhs_batch, spec.out_batch),
        *(
            _Free(extent, stride * step, to)
            for extent, stride, step, to in zip(
                spec.output, spec.lhs_spatial, spec.strides, spec.out_spatial, strict=True
            )
        ),
    ])
    rows = max(free, key=lambda dimension: dimension.extent)
    batch = [dimension for dimension in free if dimension is not rows]
    return DotSpec(
        tuple(d.extent for d in batch), rows.extent, spec.output_features, spec.input_features,
        tuple(d.a for d in batch), rows.a, spec.lhs_feature, (0,) * len(batch), spec.rhs_input, spec.rhs_output,
        tuple(d.c for d in batch), rows.c, spec.out_feature, spec.lhs, spec.rhs, spec.out, spec.accumulate,
    )


def _merge_free(dimensions: Sequence[_Free]) -> list[_Free]:
    """Sorted from the widest stride in the input down, with dimensions that lie as one in both arrays merged."""
    merged: list[_Free] = []
    for d in sorted((d for d in dimensions if d.extent > 1), key=lambda d: -d.a):
        if merged and merged[-1].a == d.extent * d.a and merged[-1].c == d.extent * d.c:
            merged[-1] = _Free(merged[-1].extent * d.extent, d.a, d.c)
        else:
            merged.append(d)
    return merged or [_Free(1, 0, 0)]


def _emit(plan: _Plan) -> None:
    spec, how = plan.spec, plan.how
    rank, groups = len(spec.input), spec.groups
    features = spec.input_features // spec.feature_groups
    share = spec.output_features // groups
    # One feature (or one image) per group: groups become the lanes of the vectors.
    single = features == 1 if spec.feature_groups > 1 else spec.batch == groups
    lanewise = groups > 1 and single and not how.complex and (share == 1 or spec.feature_groups > 1)
    held, right = element(spec.out), element(spec.rhs)
    line = _line(spec, how)
    if line is not None:
        image = _input(plan, line + 1)
    elif lanewise:
        image = _input(plan, rank + 1 if spec.feature_groups > 1 else 0, share)
    else:
        image = _input(plan)

    taps = [Tap(features, image.feature, spec.rhs_input * right.bytes)]
    start = 0
    for at in range(rank):
        step = spec.rhs_spatial[at] * right.bytes
        if spec.reversal[at]:
            start, step = start + (spec.kernel[at] - 1) * step, -step
        taps.append(Tap(spec.kernel[at], spec.window_dilation[at] * image.spatial[at], step))
    taps = sorted((tap for tap in taps if tap.extent > 1), key=lambda tap: -tap.a) or [Tap(1, 0, 0)]
    weights = Place(RHS, start, right)

    out_strides = (spec.out_batch, *spec.out_spatial, spec.out_feature)
    result, c_batch, c_spatial, c_feature = Place(OUT, 0, held), *_split(out_strides, held.bytes)
    unpack = c_feature != held.bytes and spec.output_features > 1 and line is None
    if unpack:
        extents = (spec.batch // spec.batch_groups, *spec.output, spec.output_features)
        result = plan.scratch.take(math.prod(extents) * held.bytes, held)
        dense = [math.prod(extents[at + 1 :]) for at in range(len(extents))]
        c_batch, c_spatial, c_feature = _split(dense, held.bytes)

    free = [_Free(spec.batch // spec.batch_groups, image.batch, c_batch)]
    free += [
        _Free(spec.output[at], spec.strides[at] * image.spatial[at], c_spatial[at])
        for at in range(rank) if at != line
    ]
    free = _merge_free(free)
    if line is not None:
        columns, across = spec.output[line], spec.rhs_output * right.bytes
        _, shape = choose_tile(share, columns, plan.machine, how)
        batch = [Batch(groups, share * across, image.group, share * c_feature)] if groups > 1 else []
        batch += [Batch(d.extent, 0, d.a, d.c) for d in free]
        product = Product(
            tuple(batch), share, columns, _merge_taps([Tap(tap.extent, tap.b, tap.a) for tap in taps]), how, shape,
            weights, across, image.place, shape.columns * image.place.element.bytes, result, c_feature, held.bytes,
        )
    else:
        columns = spec.output_features if lanewise else share
        rows, shape = _rows(plan, free, columns, lanewise)
        pixels = math.prod(d.extent for d in free)
        b, panel, b_step, b_group, packing = _weights(
            plan, weights, taps, columns, 1 if lanewise else groups, shape, pixels
        )
        batch = [Batch(d.extent, d.a, 0, d.c) for d in free if d is not rows]
        if groups > 1 and not lanewise:
            batch.insert(0, Batch(groups, image.group, b_group, share * c_feature))
        product = Product(
            tuple(batch), rows.extent, columns, _merge_taps(_consecutive(taps, b_step)), how, shape, image.place,
            rows.a, b, panel, result, rows.c, c_feature,
            a_column=image.place.element.bytes if lanewise else 0, packing=packing,
        )
    plan.steps.append(emit_product(plan.unit, plan.name, product))
    if unpack:
        _unpack(plan, result, c_batch, c_spatial, Place(OUT, 0, held))


def _line(spec: ConvSpec, how: Arithmetic) -> int | None:
    """The spatial dimension to lay vectors along, with weights as the broadcast operand, if that is the better way.

    It is when features are not contiguous in the result but that dimension is, in the input as well (NCHW),
    it fills most lanes of its vectors, and the weights, read again for every line, stay in cache.
    """
    weights = element(spec.rhs)
    size = math.prod(spec.kernel) * (spec.input_features // spec.feature_groups) * spec.output_features * weights.bytes
    if spec.out_feature == 1 or weights.storage != how.type or size // spec.groups > 512 << 10:
        return None
    for at, extent in enumerate(spec.output):
        full = extent / (-(-extent // how.columns) * how.columns)
        if spec.out_spatial[at] == spec.lhs_spatial[at] == spec.strides[at] == 1 and full >= 0.6:
            return at
    return None


def _split(strides: Sequence[int], size: int) -> tuple[int, list[int], int]:
    """Strides of batch, spatial dimensions and features in bytes."""
    first, *middle, last = (stride * size for stride in strides)
    return first, middle, last


def _input(plan: _Plan, lanes: int | None = None, share: int = 1) -> _Input:
    """The input, copied where windows cross its border, or as vectors along it need it.

    Dimension `lanes` (of batch, spatial, feature) must be contiguous, with each element `share` times.
    """
    spec, left = plan.spec, element(plan.spec.lhs)
    rank = len(spec.input)
    dense = lanes is None or (spec.lhs_batch, *spec.lhs_spatial, spec.lhs_feature)[lanes] == 1
    scattered = not dense or share > 1
    if not (_bordered(spec) or left.storage != plan.how.type or scattered):
        batch, spatial, feature = _split((spec.lhs_batch, *spec.lhs_spatial, spec.lhs_feature), left.bytes)
        return _Input(Place(LHS, 0, left), batch, spatial, feature, _group_stride(spec, batch, feature))
    axes = [PadAxis(spec.batch, spec.lhs_batch * left.bytes, spec.batch)]
    for at in range(rank):
        step = spec.lhs_spatial[at] * left.bytes
        axes.append(PadAxis(spec.input[at], step, spec.reach(at), spec.padding[at], spec.base_dilation[at]))
    axes.append(PadAxis(spec.input_features, spec.lhs_feature * left.bytes, spec.input_features))
    order = sorted(range(rank + 2), key=lambda at: -axes[at].stride)
    if lanes is not None:
        order = [at for at in order if at != lanes] + [lanes]
    if share > 1:
        axes.append(PadAxis(share, 0, share))
        order.append(rank + 2)
    held = plan.how.element
    sizes = [axes[at].target for at in order]
    place = plan.scratch.take(math.prod(sizes) * held.bytes, held)
    name = f"{plan.name}_pad"
    plan.steps.append(
        emit_pad(plan.unit, name, [axes[at] for at in order], Place(LHS, 0, left), place, plan.how)
    )
    strides = [held.bytes * math.prod(sizes[order.index(at) + 1 :]) for at in range(len(order))]
    batch, feature = strides[0], strides[rank + 1]
    return _Input(place, batch, strides[1 : rank + 1], feature, _group_stride(spec, batch, feature))


def _group_stride(spec: ConvSpec, batch: int, feature: int) -> int:
    """From one group's first input element to the next group's."""
    if spec.feature_groups > 1:
        return spec.input_features // spec.feature_groups * feature
    return spec.batch // spec.batch_groups * batch


def _rows(plan: _Plan, free: list[_Free], columns: int, lanewise: bool) -> tuple[_Free, TileShape]:
    """The dimension that becomes the rows of the product, and its tile: the cheapest for the whole result."""
    if lanewise:
        rows = max(free, key=lambda d: min(d.extent, 6))
        vectors = min(2, -(-columns // plan.how.columns))
        tiles = -(-rows.extent // 6)
        return rows, TileShape(-(-rows.extent // tiles), vectors * plan.how.columns, lanewise=True)
    best = None
    for dimension in free:
        cost, shape = choose_tile(dimension.extent, columns, plan.machine, plan.how)
        if best is None or cost / dimension.extent <= best[0]:
            best = (cost / dimension.extent, dimension, shape)
    assert best is not None
    return best[1], best[2]


def _consecutive(taps: Sequence[Tap], step: int) -> list[Tap]:
    """The same taps over weights that lie in their order, `step` bytes apart."""
    return [
        Tap(tap.extent, tap.a, step * math.prod(inner.extent for inner in taps[at + 1 :]))
        for at, tap in enumerate(taps)
    ]


def _merge_taps(taps: Sequence[Tap]) -> tuple[Tap, ...]:
    """Neighbouring loops that are one in both operands made one."""
    merged: list[Tap] = []
    for tap in taps:
        if merged and merged[-1].a == tap.extent * tap.a and merged[-1].b == tap.extent * tap.b:
            merged[-1] = Tap(merged[-1].extent * tap.extent, tap.a, tap.b)
        else:
            merged.append(tap)
    return tuple(merged)


def _weights(
    plan: _Plan, source: Place, taps: Sequence[Tap], columns: int, groups: int, shape: TileShape, pixels: int
) -> tuple[Place, int, int, int, Packing | None]:
    """Weights in the order of the sum: where, bytes between panels, steps and groups, and who packs them."""
    spec, how, held = plan.spec, plan.how, source.element
    across = spec.rhs_output * held.bytes
    merged = _merge_taps([Tap(tap.extent, 0, tap.b) for tap in taps])
    native = held.storage == how.type and across == held.bytes
    if native and len(merged) == 1 and columns * groups <= 200:
        return source, shape.columns * held.bytes, merged[0].b, columns * held.bytes, None
    deep = math.prod(tap.extent for tap in merged)
    row = shape.columns * how.element.bytes
    panel, panels = deep * row, -(-columns // shape.columns)
    place = plan.scratch.take(groups * panels * panel, how.element)
    outer = [Axis(groups, columns * across, panels * panel)]
    below = deep
    for tap in merged[:-1]:
        below //= tap.extent
        outer.append(Axis(tap.extent, tap.b, below * row))
    down, over = Axis(merged[-1].extent, merged[-1].b, row), Axis(columns, across, how.element.bytes)
    group = panels_to_pack(pixels, columns, deep, groups, shape, how)
    copy = Copy(tuple(outer), down, over, shape.columns, panel, source, place, how, 1, group)
    step = emit_copy(plan.unit, f"{plan.name}_pack_rhs", copy)
    if group:
        packing = Packing(step.function, step.tasks // (groups * -(-panels // group)), group)
        return place, panel, row, panels * panel, packing
    plan.steps.append(step)
    return place, panel, row, panels * panel, None


def _unpack(plan: _Plan, source: Place, batch: int, spatial: list[int], target: Place) -> None:
    """Copy the result from pixels of features to the order asked for."""
    spec, held = plan.spec, source.element
    free = _merge_free([
        _Free(spec.batch // spec.batch_groups, batch, spec.out_batch * held.bytes),
        *(
            _Free(extent, step, to * held.bytes)
            for extent, step, to in zip(spec.output, spatial, spec.out_spatial, strict=True)
        ),
    ])
    columns = min(free, key=lambda d: d.c)
    outer = tuple(Axis(d.extent, d.a, d.c) for d in free if d is not columns)
    rows = Axis(spec.output_features, held.bytes, spec.out_feature * held.bytes)
    over, width = Axis(columns.extent, columns.a, columns.c), min(columns.extent, 64)
    copy = Copy(outer, rows, over, width, width * columns.c, source, target, plan.how)
    plan.steps.append(emit_copy(plan.unit, f"{plan.name}_unpack", copy))


