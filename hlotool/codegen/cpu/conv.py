"""Convolutions as matrix products over strided windows, without an im2col copy.

An output pixel is a row of the product and the sum runs over the window and the input features; since
the register tile broadcasts elements of its left operand, that operand may lie in memory in any order
of dimensions.  What the tile cannot see past is the border: a padded copy of the input is made
first where there is one.  Weights are packed into panels of output features in the order in which the tile walks the
window.

A dilated input (of a transposed convolution, or of the gradient of a strided one) is never spread out: output pixels
whose windows meet the input at the same of their elements make up a *phase*, a convolution of its own with some of the
weights and without holes, which writes every so many pixels of the result.  All phases read one padded copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

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

    def phases(self, at: int) -> list[Phase]:
        """The phases of spatial dimension `at`: a single one for an input without holes."""
        holes, stride, dilation = self.base_dilation[at], self.strides[at], self.window_dilation[at]
        period, step = holes // math.gcd(stride, holes), holes // math.gcd(dilation, holes)
        found = []
        for first in range(min(period, self.output[at])):
            # Elements `tap`, `tap` + step... of the windows of these pixels meet the input, the others holes.
            meets = (w for w in range(min(step, self.kernel[at])) if (self._place(at, first, w)) % holes == 0)
            tap = next(meets, self.kernel[at])
            found.append(Phase(
                first, -(-(self.output[at] - first) // period), period, tap, -(-(self.kernel[at] - tap) // step), step,
                self._place(at, first, tap) // holes, period * stride // holes, step * dilation // holes,
            ))
        return _alike(found)

    def _place(self, at: int, pixel: int, tap: int) -> int:
        """Where in the dilated input element `tap` of the window of `pixel` lies."""
        return pixel * self.strides[at] + tap * self.window_dilation[at] - self.padding[at]


@dataclass(frozen=True, slots=True)
class Phase:
    """Part of a spatial dimension: `count` output pixels from `first`, `period` apart, meet `taps` window elements.

    These are the elements from `tap`, `step` apart.  The first pixel's first element is input element `start` (which
    may lie outside); `stride` and `dilation` say how the place moves with the pixel and with the element.  It stands
    for `alike` phases that follow one another, each `next_tap` and `next_start` further than the one before.
    """

    first: int
    count: int
    period: int
    tap: int
    taps: int
    step: int
    start: int
    stride: int
    dilation: int
    alike: int = 1
    next_tap: int = 0
    next_start: int = 0

    @property
    def extent(self) -> tuple[int, int]:
        """The first input element, and one more than the last."""
        far = (self.alike - 1) * self.next_start
        reach = (self.count - 1) * self.stride + (self.taps - 1) * self.dilation
        return self.start + min(far, 0), self.start + max(far, 0) + reach + 1


def _alike(phases: Sequence[Phase]) -> list[Phase]:
    """Phases with as many pixels and window elements as the one before taken together with it."""
    found: list[Phase] = []
    for phase in phases:
        last = found[-1] if found else phase
        taps, starts = (now - then for now, then in ((phase.tap, last.tap), (phase.start, last.start)))
        taps, starts = taps - (last.alike - 1) * last.next_tap, starts - (last.alike - 1) * last.next_start
        same = (phase.count, phase.taps) == (last.count, last.taps) and phase.taps
        if found and same and (last.alike == 1 or (taps, starts) == (last.next_tap, last.next_start)):
            found[-1] = replace(last, alike=last.alike + 1, next_tap=taps, next_start=starts)
        else:
            found.append(phase)
    return found


@dataclass(slots=True)
class _Input:
    """The input as the product reads it: strides in bytes (`group`: from one group to the next).

    `low` elements of padding come before the first of each spatial dimension.
    """

    place: Place
    low: list[int]
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


def _extent(spec: ConvSpec, at: int) -> tuple[int, int]:
    """The first element of the input that spatial dimension `at` reads, and one more than the last; holes left out."""
    extents = [phase.extent for phase in spec.phases(at) if phase.taps]
    return min((first for first, _ in extents), default=0), max((end for _, end in extents), default=1)


def _bordered(spec: ConvSpec) -> bool:
    """Whether windows reach beyond the input."""
    extents = [_extent(spec, at) for at in range(len(spec.input))]
    return any(first < 0 or end > size for (first, end), size in zip(extents, spec.input, strict=True))


def _pointwise(spec: ConvSpec) -> bool:
    whole = math.prod((*spec.kernel, *spec.base_dilation)) == 1 and not any(spec.padding)
    return whole and spec.groups == 1 and not _bordered(spec)


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
    features, share = spec.input_features // spec.feature_groups, spec.output_features // groups
    # One feature (or one image) per group: groups become the lanes of the vectors.
    single = features == 1 if spec.feature_groups > 1 else spec.batch == groups
    lanewise = groups > 1 and single and not how.complex and (share == 1 or spec.feature_groups > 1)
    held = element(spec.out)
    line = _line(spec, how)
    if line is not None:
        image = _input(plan, line + 1)
    elif lanewise:
        image = _input(plan, rank + 1 if spec.feature_groups > 1 else 0, share)
    else:
        image = _input(plan)

    out_strides = (spec.out_batch, *spec.out_spatial, spec.out_feature)
    result, strides = Place(OUT, 0, held), [stride * held.bytes for stride in out_strides]
    unpack = strides[-1] != held.bytes and spec.output_features > 1 and line is None
    if unpack:
        extents = (spec.batch // spec.batch_groups, *spec.output, spec.output_features)
        result = plan.scratch.take(math.prod(extents) * held.bytes, held)
        strides = [math.prod(extents[at + 1 :]) * held.bytes for at in range(len(extents))]
    every = [spec.phases(at) for at in range(rank)]
    if any(not phase.taps for phases in every for phase in phases):  # some pixels see holes only
        extents = (spec.batch // spec.batch_groups, *spec.output, spec.output_features)
        *outer, last = (Axis(extent, 0, stride) for extent, stride in zip(extents, strides, strict=True))
        plan.steps.append(emit_zeros(plan.unit, f"{plan.name}_zeros", outer, last, result))
    phases = list(product(*([phase for phase in phases if phase.taps] for phases in every)))
    for number, phase in enumerate(phases):
        name = plan.name if len(phases) == 1 else f"{plan.name}_phase{number}"
        _emit_phase(plan, name, phase, image, result, strides, line, lanewise)
    if unpack:
        _unpack(plan, result, strides[0], strides[1:-1], Place(OUT, 0, held))


def _emit_phase(
    plan: _Plan, name: str, phase: Sequence[Phase], image: _Input, result: Place, strides: Sequence[int],
    line: int | None, lanewise: bool,
) -> None:
    """Add the steps for the pixels of a phase of each spatial dimension; `strides` are those of `result`."""
    spec, how = plan.spec, plan.how
    rank, groups = len(spec.input), spec.groups
    features = spec.input_features // spec.feature_groups
    share = spec.output_features // groups
    c_batch, *c_spatial, c_feature = strides
    at_c = sum(p.first * stride for p, stride in zip(phase, c_spatial, strict=True))
    result = replace(result, start=result.start + at_c)
    free = [_Free(spec.batch // spec.batch_groups, image.batch, c_batch)]
    free += [
        _Free(phase[at].count, phase[at].stride * image.spatial[at], phase[at].period * c_spatial[at])
        for at in range(rank) if at != line
    ]
    right = element(spec.rhs)
    taps = [Tap(features, image.feature, spec.rhs_input * right.bytes)]
    alike: list[Batch] = []
    at_a = at_b = 0
    for at, p in enumerate(phase):
        step, first = spec.rhs_spatial[at] * right.bytes, p.tap
        if spec.reversal[at]:
            step, first = -step, p.tap - (spec.kernel[at] - 1)
        at_a += (p.start + image.low[at]) * image.spatial[at]
        at_b += first * step
        if p.alike > 1:
            alike.append(Batch(p.alike, p.next_start * image.spatial[at], p.next_tap * step, c_spatial[at]))
        taps.append(Tap(p.taps, p.dilation * image.spatial[at], p.step * step))
    taps = sorted((tap for tap in taps if tap.extent > 1), key=lambda tap: -tap.a) or [Tap(1, 0, 0)]
    weights = Place(RHS, at_b, right)
    source = replace(image.place, start=image.place.start + at_a)

    free = _merge_free(free)
    if line is not None:
        columns, across = spec.output[line], spec.rhs_output * right.bytes
        _, shape = choose_tile(share, columns, plan.machine, how)
        batch = [Batch(groups, share * across, image.group, share * c_feature)] if groups > 1 else []
        batch += [Batch(d.extent, d.b, d.a, d.c) for d in alike] + [Batch(d.extent, 0, d.a, d.c) for d in free]
        made = Product(
            tuple(batch), share, columns, _merge_taps([Tap(tap.extent, tap.b, tap.a) for tap in taps]), how, shape,
            weights, across, source, shape.columns * source.element.bytes, result, c_feature, result.element.bytes,
        )
    else:
        columns = spec.output_features if lanewise else share
        rows, shape = _rows(plan, free, columns, lanewise)
        count = math.prod(d.extent for d in free)
        if groups > 1 and not lanewise:
            across = columns * spec.rhs_output * right.bytes
            alike.insert(0, Batch(groups, image.group, across, share * c_feature))
        b, panel, b_step, alike, packing = _weights(plan, name, weights, taps, columns, alike, shape, count)
        batch = [*alike, *(Batch(d.extent, d.a, 0, d.c) for d in free if d is not rows)]
        made = Product(
            tuple(batch), rows.extent, columns, _merge_taps(_consecutive(taps, b_step)), how, shape, source,
            rows.a, b, panel, result, rows.c, c_feature,
            a_column=source.element.bytes if lanewise else 0, packing=packing,
        )
    plan.steps.append(emit_product(plan.unit, name, made))


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
        plain = spec.strides[at] == spec.base_dilation[at] == 1
        if plain and spec.out_spatial[at] == spec.lhs_spatial[at] == 1 and full >= 0.6:
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
        group = _group_stride(spec, batch, feature)
        return _Input(Place(LHS, 0, left), [0] * rank, batch, spatial, feature, group)
    axes = [PadAxis(spec.batch, spec.lhs_batch * left.bytes, spec.batch)]
    low = []
    for at in range(rank):
        first, end = _extent(spec, at)
        low.append(-first)
        axes.append(PadAxis(spec.input[at], spec.lhs_spatial[at] * left.bytes, end - first, -first))
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
    return _Input(place, low, batch, strides[1 : rank + 1], feature, _group_stride(spec, batch, feature))


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
    plan: _Plan, name: str, source: Place, taps: Sequence[Tap], columns: int, batch: Sequence[Batch], shape: TileShape,
    pixels: int,
) -> tuple[Place, int, int, list[Batch], Packing | None]:
    """Weights in the order of the sum: where, bytes between panels and steps, and who packs them.

    There are some for each item of `batch`, which comes back with the strides of where they lie.
    """
    spec, how, held = plan.spec, plan.how, source.element
    across = spec.rhs_output * held.bytes
    merged = _merge_taps([Tap(tap.extent, 0, tap.b) for tap in taps])
    native = held.storage == how.type and across == held.bytes
    items = math.prod(d.extent for d in batch)
    if native and len(merged) == 1 and columns * items <= 200:
        return source, shape.columns * held.bytes, merged[0].b, list(batch), None
    deep = math.prod(tap.extent for tap in merged)
    row = shape.columns * how.element.bytes
    panel, panels = deep * row, -(-columns // shape.columns)
    place = plan.scratch.take(items * panels * panel, how.element)
    packed: list[Batch] = []
    for d in reversed(batch):
        packed.insert(0, replace(d, b=panels * panel * math.prod(inner.extent for inner in packed)))
    outer = [Axis(d.extent, d.b, to.b) for d, to in zip(batch, packed, strict=True)]
    below = deep
    for tap in merged[:-1]:
        below //= tap.extent
        outer.append(Axis(tap.extent, tap.b, below * row))
    down, over = Axis(merged[-1].extent, merged[-1].b, row), Axis(columns, across, how.element.bytes)
    group = panels_to_pack(pixels, columns, deep, items, shape, how)
    copy = Copy(tuple(outer), down, over, shape.columns, panel, source, place, how, len(batch), group)
    step = emit_copy(plan.unit, f"{name}_pack_rhs", copy)
    if group:
        packing = Packing(step.function, step.tasks // (items * -(-panels // group)), group)
        return place, panel, row, packed, packing
    plan.steps.append(step)
    return place, panel, row, packed, None


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


