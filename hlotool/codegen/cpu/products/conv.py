"""Convolutions as matrix products over strided windows, without an im2col copy.

An output pixel is a row of the product and the sum runs over the window and the input features; since
the register tile broadcasts elements of its left operand, that operand may lie in memory in any order
of dimensions.  Weights are packed into panels of output features in the order in which the tile walks the window.

Where windows reach beyond the input the tile leaves elements out, if it can: a task those of the outermost dimension of
the window that its pixels have outside (`product.Reach`), and the first and the last tile of a line some of the
innermost one (`product.Ends`).  What it cannot see past is the border of any other dimension: a padded copy of the
input is made first where there is one (and `conv_border` sees to what zeros do to infinities).

A dilated input (of a transposed convolution, or of the gradient of a strided one) is never spread out: output pixels
whose windows meet the input at the same of their elements make up a *phase*, a convolution of its own with some of the
weights and without holes, which writes every so many pixels of the result.  All phases read one padded copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Annotated

from hlotool.analysis.contraction import MatrixView, Strides
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.products.conv_bf16x3 import emit_bf16x3, serves_bf16x3
from hlotool.codegen.cpu.products.conv_border import Border, emit_border, emit_flag
from hlotool.codegen.cpu.products.conv_cuts import NO_CUTS, Cuts, cuts_of, extent_of, is_bordered
from hlotool.codegen.cpu.products.conv_spec import ConvSpec, Phase
from hlotool.codegen.cpu.products.conv_updates import emit_conv_updates, serves_conv_updates
from hlotool.codegen.cpu.products.dot import emit_dot
from hlotool.codegen.cpu.products.epilogue import Epilogue
from hlotool.codegen.cpu.products.gemm import emit_product
from hlotool.codegen.cpu.products.operands import Scratch
from hlotool.codegen.cpu.products.pack import Axis, Copy, emit_copy, emit_zeros
from hlotool.codegen.cpu.products.packing import panels_to_pack, piece_to_pack, stays_in_place
from hlotool.codegen.cpu.products.pad import PadAxis, emit_pad
from hlotool.codegen.cpu.products.product import Ends, Finish, Matrix, Packing, Product, Reach, Tap, TileShape
from hlotool.codegen.cpu.products.tile_shape import choose_tile
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.arguments import Place
from hlotool.codegen.llvm.elements import Arithmetic, arithmetic, element
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import Machine

__all__ = ["emit_conv"]

LHS, RHS, OUT, SCRATCH = range(4)

_LINE_BYTES: Annotated[int, Threshold("bytes")] = 512 << 10  # of a group's weights, which every line reads again
_FULL: Annotated[float, Threshold("share")] = 0.6  # of the lanes of vectors along a line, which should be used


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
    """A dimension of the result that is not its features: stride in the input and in the result (bytes).

    Only the windows from the first number of `inside` to before the second one lie within the input, if not all do.
    `cut` is the spatial dimension, if elements outside are left out: it stays for itself.
    """

    extent: int
    a: int
    c: int
    inside: tuple[int, int] | None = None
    cut: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """An outer dimension of a product, and its strides in bytes in both operands and the result."""

    extent: int
    a: int
    b: int
    c: int


@dataclass(slots=True)
class _Writer:
    name: str
    spec: ConvSpec
    machine: Machine
    how: Arithmetic
    slots: tuple[int, int, int, int]
    epilogue: Epilogue | None
    unit: Unit
    scratch: Scratch
    steps: list[Step] = field(default_factory=list)
    flag: Place | None = None  # whether the kernel is finite, once somebody has asked
    cuts: Cuts = NO_CUTS

    @property
    def whole_rows(self) -> bool:
        return self.epilogue is not None and self.epilogue.whole_rows


def emit_conv(
    name: str,
    spec: ConvSpec,
    machine: Machine,
    slots: tuple[int, int, int, int] = (LHS, RHS, OUT, SCRATCH),
    epilogue: Epilogue | None = None,
) -> Kernel:
    """The kernel `name` of a convolution; `slots` are the arguments lhs, rhs, out and, if asked for, scratch.

    With an `epilogue` the result is dense, without groups or a dilated input, its features lie side by side, and it
    goes into that instead of out.  An empty result gives a kernel without steps.  Raises UnsupportedError for element
    types that cannot be combined.
    """
    how, scratch = arithmetic(spec.accumulate, machine), Scratch(slot=slots[SCRATCH])
    writer = _Writer(name, spec, machine, how, slots, epilogue, Unit(machine), scratch)
    held = element(spec.out)
    if math.prod((spec.batch, spec.output_features, *spec.output)) > 0:
        if math.prod((spec.input_features, *spec.kernel, *spec.input)) == 0:
            axes = [Axis(spec.batch // spec.batch_groups, 0, spec.out_batch * held.bytes)]
            axes += [Axis(e, 0, s * held.bytes) for e, s in zip(spec.output, spec.out_spatial, strict=True)]
            last = Axis(spec.output_features, 0, spec.out_feature * held.bytes)
            writer.steps.append(emit_zeros(writer.unit, name, axes, last, Place(slots[OUT], 0, held)))
        elif _pointwise(spec):
            return emit_dot(name, _as_dot(spec, epilogue is not None), machine, slots, epilogue)
        elif serves_bf16x3(spec, machine, epilogue):
            border = _border(writer)
            writer.steps += emit_bf16x3(writer.unit, name, spec, slots, scratch, epilogue=epilogue, border=border)
        elif serves_conv_updates(spec, machine, epilogue):
            writer.steps += emit_conv_updates(writer.unit, name, spec, slots, scratch, epilogue)
        else:
            _emit(writer)
    return finish_kernel(writer.unit, writer.steps, writer.scratch.size)


def _pointwise(spec: ConvSpec) -> bool:
    whole = math.prod((*spec.kernel, *spec.base_dilation)) == 1 and not any(spec.padding)
    return whole and spec.groups == 1 and not is_bordered(spec)


def _as_dot(spec: ConvSpec, in_order: bool) -> MatrixView:
    """A convolution with a window of one element: pixels times features, `in_order` with those of the result."""
    free = _merge_free([
        _Free(spec.batch, spec.lhs_batch, spec.out_batch),
        *(
            _Free(extent, stride * step, to)
            for extent, stride, step, to in zip(
                spec.output, spec.lhs_spatial, spec.strides, spec.out_spatial, strict=True
            )
        ),
    ], in_order)
    rows = free[-1] if in_order else max(free, key=lambda dimension: dimension.extent)
    batch = [dimension for dimension in free if dimension is not rows]
    left, right, out = (element(kind).bytes for kind in (spec.lhs, spec.rhs, spec.out))
    return MatrixView(
        batch=tuple(d.extent for d in batch), m=rows.extent, n=spec.output_features, k=spec.input_features,
        lhs=Strides(batch=tuple(d.a * left for d in batch), row=rows.a * left, terms=(spec.lhs_feature * left,)),
        rhs=Strides(batch=(0,) * len(batch), column=spec.rhs_output * right, terms=(spec.rhs_input * right,)),
        out=Strides(batch=tuple(d.c * out for d in batch), row=rows.c * out, column=spec.out_feature * out),
        types=(spec.lhs, spec.rhs, spec.out, spec.accumulate),
    )


def _merge_free(dimensions: Sequence[_Free], in_order: bool = False) -> list[_Free]:
    """Sorted from the widest stride in the input down, with dimensions that lie as one in both arrays merged.

    `in_order` sorts them by the stride in the result.
    """
    merged: list[_Free] = []
    for d in sorted((d for d in dimensions if d.extent > 1), key=lambda d: -(d.c if in_order else d.a)):
        together = merged and merged[-1].a == d.extent * d.a and merged[-1].c == d.extent * d.c
        if together and merged[-1].cut is d.cut is None:
            inside = (0, 0) if merged[-1].inside or d.inside else None
            merged[-1] = _Free(merged[-1].extent * d.extent, d.a, d.c, inside)
        else:
            merged.append(d)
    return merged or [_Free(1, 0, 0)]


def _emit(writer: _Writer) -> None:
    spec, how = writer.spec, writer.how
    rank, groups = len(spec.input), spec.groups
    features, share = spec.input_features // spec.feature_groups, spec.output_features // groups
    # One feature (or one image) per group: groups become the lanes of the vectors.
    single = features == 1 if spec.feature_groups > 1 else spec.batch == groups
    lanewise = groups > 1 and single and not how.complex and (share == 1 or spec.feature_groups > 1)
    held = element(spec.out)
    line = _line(spec, how)
    if line is None:
        columns = spec.output_features // (1 if lanewise else spec.groups)
        writer.cuts = cuts_of(spec, writer.epilogue is not None, lambda rows: _tile(writer, rows, columns, lanewise))
    if line is not None:
        image = _input(writer, line + 1)
    elif lanewise:
        image = _input(writer, rank + 1 if spec.feature_groups > 1 else 0, share)
    else:
        image = _input(writer)

    out_strides = (spec.out_batch, *spec.out_spatial, spec.out_feature)
    result, strides = Place(writer.slots[OUT], 0, held), [stride * held.bytes for stride in out_strides]
    unpack = strides[-1] != held.bytes and spec.output_features > 1 and line is None
    if unpack:
        extents = (spec.batch // spec.batch_groups, *spec.output, spec.output_features)
        result = writer.scratch.take(math.prod(extents) * held.bytes, held)
        strides = [math.prod(extents[at + 1 :]) * held.bytes for at in range(len(extents))]
    every = [spec.phases(at) for at in range(rank)]
    if any(not phase.taps for phases in every for phase in phases):  # some pixels see holes only
        extents = (spec.batch // spec.batch_groups, *spec.output, spec.output_features)
        *outer, last = (Axis(extent, 0, stride) for extent, stride in zip(extents, strides, strict=True))
        writer.steps.append(emit_zeros(writer.unit, f"zeros_{writer.name}", outer, last, result))
    phases = list(product(*([phase for phase in phases if phase.taps] for phases in every)))
    for number, phase in enumerate(phases):
        name = writer.name if len(phases) == 1 else f"phase{number}_{writer.name}"
        _emit_phase(writer, name, phase, image, result, strides, line, lanewise)
    if unpack:
        _unpack(writer, result, strides[0], strides[1:-1], Place(writer.slots[OUT], 0, held))


def _emit_phase(
    writer: _Writer, name: str, phase: Sequence[Phase], image: _Input, result: Place, strides: Sequence[int],
    line: int | None, lanewise: bool,
) -> None:
    """Add the steps for the pixels of a phase of each spatial dimension; `strides` are those of `result`."""
    spec, how = writer.spec, writer.how
    groups, share = spec.groups, spec.output_features // spec.groups
    features = spec.input_features // spec.feature_groups
    c_batch, *c_spatial, c_feature = strides
    at_c = sum(p.first * stride for p, stride in zip(phase, c_spatial, strict=True))
    whole, result = result, replace(result, start=result.start + at_c)
    free = [_Free(spec.batch // spec.batch_groups, image.batch, c_batch)]
    for at, p in enumerate(phase):
        cut = at if at in writer.cuts[:2] else None
        inside = None if cut is not None else p.inside(spec.input[at])
        if at != line:
            free.append(_Free(p.count, p.stride * image.spatial[at], p.period * c_spatial[at], inside, cut))
    # A dimension that is neither rows nor a batch of the product, where windows lie partly outside.
    edge = any(p.inside(spec.input[at]) for at, p in enumerate(phase) if at == line or p.count == 1)
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
    weights = Place(writer.slots[RHS], at_b, right)
    source = replace(image.place, start=image.place.start + at_a)

    free = _merge_free(free, in_order=writer.epilogue is not None)
    if line is not None:
        columns, across = spec.output[line], spec.rhs_output * right.bytes
        _, shape = choose_tile(share, columns, writer.machine, how, windows=True)
        batch = [Batch(groups, share * across, image.group, share * c_feature)] if groups > 1 else []
        batch += [Batch(d.extent, d.b, d.a, d.c) for d in alike] + [Batch(d.extent, 0, d.a, d.c) for d in free]
        merged = _merge_taps([Tap(tap.extent, tap.b, tap.a) for tap in taps])
        made = Product(
            batch=tuple(d.extent for d in batch), m=share, n=columns, terms=tuple(tap.extent for tap in merged),
            a=Matrix(
                place=weights, row=across, batch=tuple(d.a for d in batch), terms=tuple(tap.a for tap in merged)
            ),
            b=Matrix(
                place=source, column=source.element.bytes, batch=tuple(d.b for d in batch),
                terms=tuple(tap.b for tap in merged),
            ),
            c=Matrix(place=result, row=c_feature, column=result.element.bytes, batch=tuple(d.c for d in batch)),
            arithmetic=how, tile=shape,
        )
        inside = None
    else:
        columns = spec.output_features if lanewise else share
        rows, shape = _rows(writer, free, columns, lanewise)
        count = math.prod(d.extent for d in free)
        if groups > 1 and not lanewise:
            across = columns * spec.rhs_output * right.bytes
            alike.insert(0, Batch(groups, image.group, across, share * c_feature))
        first = _sum(_consecutive(taps, 1), writer.cuts, features)[0][0].extent
        b, panel, b_step, alike, packing = _weights(writer, name, weights, taps, columns, alike, shape, count, first)
        free.remove(rows)
        batch = [*alike, *(Batch(d.extent, d.a, 0, d.c) for d in free)]
        reach = None
        if writer.cuts.outer is not None:
            p, size = phase[writer.cuts.outer], spec.input[writer.cuts.outer]
            at = len(alike) + next(number for number, d in enumerate(free) if d.cut is not None)
            reach = Reach(at, p.start, p.stride, p.dilation, size)
        merged, ends = _sum(_consecutive(taps, b_step), writer.cuts, features)
        made = Product(
            batch=tuple(d.extent for d in batch), m=rows.extent, n=columns, terms=tuple(tap.extent for tap in merged),
            a=Matrix(
                place=source, row=rows.a, column=source.element.bytes if lanewise else 0,
                batch=tuple(d.a for d in batch), terms=tuple(tap.a for tap in merged),
            ),
            b=Matrix(
                place=b, column=b.element.bytes, panel=panel, whole=b is not weights, batch=tuple(d.b for d in batch),
                terms=tuple(tap.b for tap in merged),
            ),
            c=Matrix(place=result, row=rows.c, column=c_feature, batch=tuple(d.c for d in batch)),
            arithmetic=how, tile=shape, packing=packing, epilogue=writer.epilogue,
            piece=packing.piece if packing else 0, reach=reach, ends=ends,
        )
        inside = rows.inside
    finish = _finish(writer, name, made, free, (0, 0) if edge else inside, whole, strides)
    made = replace(made, finish=finish)
    writer.steps.append(emit_product(writer.unit, name, made))


def _finish(
    writer: _Writer, name: str, made: Product, free: Sequence[_Free], rows: tuple[int, int] | None, result: Place,
    strides: Sequence[int],
) -> Finish | None:
    """What to do with results at the border, if there are any; the last dimensions of the batch are the `free` ones.

    `rows` are those inside, where not all are.
    """
    exact = made.arithmetic.type not in ("float", "double")  # zero times anything is zero
    if exact or not is_bordered(writer.spec, writer.cuts) or not (rows or any(d.inside for d in free)):
        return None
    inside = [(0, extent) for extent in made.batch[: len(made.batch) - len(free)]]
    inside += [d.inside or (0, d.extent) for d in free]
    start = made.c.place.start - result.start
    border = emit_border(writer.unit, name, writer.spec, _operands(writer), strides, start, _flag(writer))
    return Finish(border, tuple(inside), rows or (0, made.m))


def _border(writer: _Writer) -> Border | None:
    """What sees to the border of a result that is dense, if there is any."""
    spec, size = writer.spec, element(writer.spec.out).bytes
    if not is_bordered(spec):
        return None
    strides = [stride * size for stride in (spec.out_batch, *spec.out_spatial, spec.out_feature)]
    return emit_border(writer.unit, writer.name, spec, _operands(writer), strides, 0, _flag(writer))


def _operands(writer: _Writer) -> tuple[int, int]:
    return writer.slots[LHS], writer.slots[RHS]


def _flag(writer: _Writer) -> Place:
    if writer.flag is None:
        writer.flag = writer.scratch.take(8, element(writer.spec.out))
        writer.steps.insert(0, emit_flag(writer.unit, f"flag_{writer.name}", writer.flag))
    return writer.flag


def _line(spec: ConvSpec, how: Arithmetic) -> int | None:
    """The spatial dimension to lay vectors along, with weights as the broadcast operand, if that is the better way.

    It is when features are not contiguous in the result but that dimension is, in the input as well (NCHW),
    it fills most lanes of its vectors, and the weights, read again for every line, stay in cache.
    """
    weights = element(spec.rhs)
    size = math.prod(spec.kernel) * (spec.input_features // spec.feature_groups) * spec.output_features * weights.bytes
    if spec.out_feature == 1 or weights.storage != how.type or size // spec.groups > _LINE_BYTES:
        return None
    for at, extent in enumerate(spec.output):
        full = extent / (-(-extent // how.columns) * how.columns)
        plain = spec.strides[at] == spec.base_dilation[at] == 1
        if plain and spec.out_spatial[at] == spec.lhs_spatial[at] == 1 and full >= _FULL:
            return at
    return None


def _split(strides: Sequence[int], size: int) -> tuple[int, list[int], int]:
    """Strides of batch, spatial dimensions and features in bytes."""
    first, *middle, last = (stride * size for stride in strides)
    return first, middle, last


def _input(writer: _Writer, lanes: int | None = None, share: int = 1) -> _Input:
    """The input, copied where windows cross its border, or as vectors along it need it.

    Dimension `lanes` (of batch, spatial, feature) must be contiguous, with each element `share` times.
    """
    spec, left = writer.spec, element(writer.spec.lhs)
    rank = len(spec.input)
    dense = lanes is None or (spec.lhs_batch, *spec.lhs_spatial, spec.lhs_feature)[lanes] == 1
    scattered = not dense or share > 1
    if not (is_bordered(spec, writer.cuts) or left.storage != writer.how.type or scattered):
        batch, spatial, feature = _split((spec.lhs_batch, *spec.lhs_spatial, spec.lhs_feature), left.bytes)
        group = _group_stride(spec, batch, feature)
        return _Input(Place(writer.slots[LHS], 0, left), [0] * rank, batch, spatial, feature, group)
    axes = [PadAxis(spec.batch, spec.lhs_batch * left.bytes, spec.batch)]
    low = []
    for at in range(rank):
        first, end = extent_of(spec, at, writer.cuts)
        low.append(-first)
        axes.append(PadAxis(spec.input[at], spec.lhs_spatial[at] * left.bytes, end - first, -first))
    axes.append(PadAxis(spec.input_features, spec.lhs_feature * left.bytes, spec.input_features))
    order = sorted(range(rank + 2), key=lambda at: -axes[at].stride)
    if lanes is not None:
        order = [at for at in order if at != lanes] + [lanes]
    if share > 1:
        axes.append(PadAxis(share, 0, share))
        order.append(rank + 2)
    held = writer.how.element
    sizes = [axes[at].target for at in order]
    place = writer.scratch.take(math.prod(sizes) * held.bytes, held)
    name = f"pad_{writer.name}"
    writer.steps.append(
        emit_pad(writer.unit, name, [axes[at] for at in order], Place(writer.slots[LHS], 0, left), place, writer.how)
    )
    strides = [held.bytes * math.prod(sizes[order.index(at) + 1 :]) for at in range(len(order))]
    batch, feature = strides[0], strides[rank + 1]
    return _Input(place, low, batch, strides[1 : rank + 1], feature, _group_stride(spec, batch, feature))


def _group_stride(spec: ConvSpec, batch: int, feature: int) -> int:
    """From one group's first input element to the next group's."""
    if spec.feature_groups > 1:
        return spec.input_features // spec.feature_groups * feature
    return spec.batch // spec.batch_groups * batch


def _rows(writer: _Writer, free: list[_Free], columns: int, lanewise: bool) -> tuple[_Free, TileShape]:
    """The dimension that becomes the rows of the product, and its tile: the cheapest for the whole result."""
    usable = [d for d in free if d.cut is None or d.cut == writer.cuts.line]
    if writer.epilogue is not None or writer.cuts.line is not None:
        usable = [d for d in usable if d.cut is not None] or usable[-1:]
    best = None
    for dimension in usable:
        cost, shape = _tile(writer, dimension.extent, columns, lanewise)
        if best is None or cost <= best[0]:
            best = (cost, dimension, shape)
    assert best is not None
    return best[1], best[2]


def _tile(writer: _Writer, rows: int, columns: int, lanewise: bool) -> tuple[float, TileShape]:
    """The tile for so many rows and columns, and what one of the rows costs."""
    if not lanewise:
        cost, shape = choose_tile(rows, columns, writer.machine, writer.how, windows=True)
        return cost / rows, shape
    vectors = min(2, -(-columns // writer.how.columns))
    high = -(-rows // -(-rows // 6))
    return -min(rows, 6), TileShape(high, vectors * writer.how.columns)


def _consecutive(taps: Sequence[Tap], step: int) -> list[Tap]:
    """The same taps over weights that lie in their order, `step` bytes apart."""
    return [
        Tap(tap.extent, tap.a, step * math.prod(inner.extent for inner in taps[at + 1 :]))
        for at, tap in enumerate(taps)
    ]


def _sum(taps: Sequence[Tap], cuts: Cuts, features: int) -> tuple[tuple[Tap, ...], Ends | None]:
    """The dimensions of the sum, merged but for those that window elements are left out of; and what the line's are."""
    outer, ends = 0 if cuts.outer is None else 1, cuts.ends
    line = len(taps) - (2 if features > 1 else 1) if ends else len(taps)
    head, inner = (*taps[:outer], *_merge_taps(taps[outer:line])), _merge_taps(taps[line:])
    if ends and len(inner) == 1:  # a line and its features are one
        before, behind = (tuple((count * features, rows) for count, rows in side) for side in ends[:2])
        ends = Ends(before, behind)
    elif ends:
        ends = ends._replace(within=1)
    return (*(head or ([Tap(1, 0, 0)] if ends else [])), *inner), ends


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
    writer: _Writer, name: str, source: Place, taps: Sequence[Tap], columns: int, batch: Sequence[Batch],
    shape: TileShape, pixels: int, first: int,
) -> tuple[Place, int, int, list[Batch], Packing | None]:
    """Weights in the order of the sum: where, bytes between panels and steps, and who packs them.

    There are some for each item of `batch`, which comes back with the strides of where they lie.  The outermost
    dimension of the sum is `first` long.
    """
    spec, how, held = writer.spec, writer.how, source.element
    across = spec.rhs_output * held.bytes
    merged = _merge_taps([Tap(tap.extent, 0, tap.b) for tap in taps])
    native = held.storage == how.type and across == held.bytes
    items = math.prod(d.extent for d in batch)
    deep = math.prod(tap.extent for tap in merged)
    close = stays_in_place(pixels, columns * items, deep, tile=shape, arithmetic=how, machine=writer.machine)
    if native and len(merged) == 1 and close:
        return source, 0, merged[0].b, list(batch), None
    row = shape.columns * how.element.bytes
    panels = -(-columns // shape.columns)
    group = piece = 0
    if not writer.whole_rows:
        if len(merged) == 1 and element(spec.out).storage == how.type:
            piece = piece_to_pack(
                pixels, columns, deep, first=first, items=items, tile=shape, arithmetic=how, machine=writer.machine
            )
        group, _ = (1, 0) if piece else panels_to_pack(
            pixels, columns, deep, items=items, tile=shape, arithmetic=how, machine=writer.machine
        )
    rows = deep // first * piece or deep
    panel = rows * row
    groups = -(-panels // group) * group if group else panels
    place = writer.scratch.take(items * groups * panel, how.element)
    packed: list[Batch] = []
    for d in reversed(batch):
        packed.insert(0, replace(d, b=panels * panel * math.prod(inner.extent for inner in packed)))
    outer = [Axis(d.extent, d.b, to.b) for d, to in zip(batch, packed, strict=True)]
    below = deep
    for tap in merged[:-1]:
        below //= tap.extent
        outer.append(Axis(tap.extent, tap.b, below * row))
    down, over = Axis(merged[-1].extent, merged[-1].b, row), Axis(columns, across, how.element.bytes)
    copy = Copy(
        outer=tuple(outer), rows=down, columns=over, width=shape.columns, panel=panel, source=source, target=place,
        arithmetic=how, lead=len(batch), group=group, piece=rows if piece else 0, full=True,
    )
    step = emit_copy(writer.unit, f"pack_rhs_{name}", copy)
    if group:
        packing = Packing(step.function, step.tasks // (items * -(-panels // group)), group, piece)
        return place, panel, row, packed, packing
    writer.steps.append(step)
    return place, panel, row, packed, None


def _unpack(writer: _Writer, source: Place, batch: int, spatial: list[int], target: Place) -> None:
    """Copy the result from pixels of features to the order asked for."""
    spec, held = writer.spec, source.element
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
    copy = Copy(
        outer=outer, rows=rows, columns=over, width=width, panel=width * columns.c, source=source, target=target,
        arithmetic=writer.how,
    )
    writer.steps.append(emit_copy(writer.unit, f"unpack_{writer.name}", copy))


