"""Convolutions as matrix products over strided windows, without an im2col copy.

An output pixel is a row of the product and the sum runs over the window and the input features; since
the register tile broadcasts elements of its left operand, that operand may lie in memory in any order
of dimensions.  Weights are packed into panels of output features in the order in which the tile walks the window.

Where windows reach beyond the input the tile leaves elements out, if it can: a task those of the outermost dimension of
the window that its pixels have outside (`product.Reach`), and the first and the last tile of a line some of the
innermost one (`product.Ends`).  What it cannot see past is the border of any other dimension: a padded copy of the
input is made first where there is one (and `conv_border` sees to what zeros do to infinities).

Pairs of bf16 features are elements of their own where the processor multiplies those, in vectors or on tile registers.

A dilated input (of a transposed convolution, or of the gradient of a strided one) is never spread out: output pixels
whose windows meet the input at the same of their elements make up a *phase*, a convolution of its own with some of the
weights and without holes, which writes every so many pixels of the result.  All phases read one padded copy.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated

from hlotool.analysis.contraction import MatrixView, Strides, dense_strides, sum_type
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.products.blocking import choose_tile, panels_to_pack, piece_to_pack, stays_in_place
from hlotool.codegen.cpu.products.conv_bf16x3 import emit_bf16x3, serves_bf16x3
from hlotool.codegen.cpu.products.conv_border import emit_border, emit_flag
from hlotool.codegen.cpu.products.conv_spec import (
    NO_CUTS,
    ConvSpec,
    Cuts,
    Phase,
    Spatial,
    cuts_of,
    extent_of,
    is_bordered,
)
from hlotool.codegen.cpu.products.dot import emit_dot
from hlotool.codegen.cpu.products.epilogue import Epilogue
from hlotool.codegen.cpu.products.gemm import emit_product
from hlotool.codegen.cpu.products.operands import Operands, Scratch, joined
from hlotool.codegen.cpu.products.pack import Axis, PadAxis, emit_pad
from hlotool.codegen.cpu.products.product import Border, Ends, Matrix, Packing, Product, Reach, Tap, TileShape
from hlotool.codegen.cpu.products.rank_update import TERMS, Part, columns_of, rank_updates, serves_updates
from hlotool.codegen.cpu.products.tiles import SIDE, TILE_REGISTERS
from hlotool.codegen.cpu.products.vector_tiles import VECTORS
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.llvm.arguments import Place
from hlotool.codegen.llvm.elements import (
    PAIR,
    Arithmetic,
    Element,
    arithmetic,
    element,
    multiplies_pairs,
    multiplies_tiles,
)
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import ConvDimensionNumbers, Instruction, Window, byte_size
from hlotool.lazy_dataclass import dataclass

__all__ = ["convolution_spec", "emit_conv", "emit_convolution"]

_LINE_BYTES: Annotated[int, Threshold("bytes")] = 512 << 10  # of a group's weights, which every line reads again
_FULL: Annotated[float, Threshold("share")] = 0.6  # of the lanes of vectors along a line, which should be used
_TILED: Annotated[int, Threshold("features")] = 16  # half of what is summed up at a time on tile registers
_PAIRED: Annotated[int, Threshold("features")] = 3  # at most a quarter of which is nothing in pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outer:
    """A dimension of the result: strides in bytes in the input, the weights and the result.

    Only the windows from the first number of `inside` to before the second one lie within the input, if not all do.
    `cut` is the spatial dimension, if elements outside are left out: it stays for itself.
    """

    extent: int
    a: int = 0
    b: int = 0
    c: int = 0
    inside: tuple[int, int] | None = None
    cut: int | None = None


@dataclass(slots=True, kw_only=True)
class _Conv:
    """A convolution on the way to a kernel: vectors run along features, along spatial dimension `line` if that is
    given, or along groups (`lanewise`).  Products read `input`, with the strides `steps`, and `weights`, and write
    `result`, with the strides `strides`; `framed` says that the input has its padding.  `flag` is whether the kernel is
    finite, once somebody has asked.  Where pairs of bf16 numbers are multiplied (`arithmetic.pairs`), on tile registers
    with `tiles`, `spec` counts them as features, while `whole` is what was given; with `partner` the second ones of the
    kernel are so many bytes behind the first ones."""

    spec: ConvSpec
    whole: ConvSpec
    operands: Operands
    machine: Machine
    epilogue: Epilogue | None
    places: tuple[Place, Place, Place]
    input: Place
    steps: Sequence[int]
    weights: Place
    result: Place
    strides: Sequence[int]
    framed: bool = False
    tiles: bool = False
    partner: int = 0
    line: int | None = None
    lanewise: bool = False
    cuts: Cuts = NO_CUTS
    flag: Place | None = None

    @property
    def arithmetic(self) -> Arithmetic:
        return self.operands.arithmetic

    @property
    def columns(self) -> int:
        """Of products whose vectors run along features or groups."""
        return self.spec.output_features if self.lanewise else self.spec.share


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windows:
    """The product of a phase: `free` dimensions of the result, those for each of which weights are `different`, and
    dimensions of the sum; and where input, weights and result begin."""

    free: list[_Outer]
    different: list[_Outer]
    taps: list[Tap]
    input: Place
    weights: Place
    result: Place


def emit_convolution(
    name: str, convolution: Instruction, machine: Machine, in_place: Collection[int] = ()
) -> Kernel:
    """The kernel of a convolution."""
    return emit_conv(name, convolution_spec(convolution), machine)


def convolution_spec(convolution: Instruction) -> ConvSpec:
    """A convolution as the kernels see it, with any order of dimensions: the strides tell."""
    numbers: ConvDimensionNumbers = convolution.attributes["dim_labels"]
    window = convolution.attributes.get("window", Window()).dimensions
    lhs, rhs, out = convolution.operands[0].shape, convolution.operands[1].shape, convolution.shape
    types = lhs.element_type, rhs.element_type, out.element_type
    ls, rs, os = (dense_strides(x.dimensions, byte_size(x.element_type)) for x in (lhs, rhs, out))
    places = zip(window, numbers.input_spatial, numbers.kernel_spatial, numbers.output_spatial, strict=True)
    return ConvSpec(
        batch=lhs.dimensions[numbers.input_batch], input_features=lhs.dimensions[numbers.input_feature],
        output_features=out.dimensions[numbers.output_feature],
        spatial=tuple(
            Spatial(
                input=lhs.dimensions[i], kernel=rhs.dimensions[k], output=out.dimensions[o], stride=w.stride,
                padding=w.padding_low, base_dilation=w.base_dilation, window_dilation=w.window_dilation, lhs=ls[i],
                rhs=-rs[k] if w.reversal else rs[k], out=os[o],
            )
            for w, i, k, o in places
        ),
        feature_groups=convolution.attributes.get("feature_group_count", 1),
        batch_groups=convolution.attributes.get("batch_group_count", 1),
        lhs_batch=ls[numbers.input_batch], lhs_feature=ls[numbers.input_feature],
        rhs_input=rs[numbers.kernel_input_feature], rhs_output=rs[numbers.kernel_output_feature],
        out_batch=os[numbers.output_batch], out_feature=os[numbers.output_feature],
        types=(*types, sum_type(*types)),
    )


def emit_conv(
    name: str, spec: ConvSpec, machine: Machine, slots: tuple[int, int, int, int] = (0, 1, 2, 3),
    epilogue: Epilogue | None = None,
) -> Kernel:
    """The kernel `name` of a convolution; `slots` are the arguments lhs, rhs, out and, if asked for, scratch.

    With an `epilogue` the result is dense, without groups or a dilated input, its features lie side by side, and it
    goes into that instead of out.  An empty result gives a kernel without steps.  Raises UnsupportedError for element
    types that cannot be combined.
    """
    unit, scratch, sums = Unit(machine), Scratch(slots[3]), arithmetic(spec.types[3], machine)
    operands = Operands(name=name, unit=unit, batch=(), arithmetic=sums, scratch=scratch)
    lhs, rhs, out = (Place(slot, 0, element(kind)) for slot, kind in zip(slots[:3], spec.types[:3], strict=True))
    conv = _Conv(
        spec=spec, whole=spec, operands=operands, machine=machine, epilogue=epilogue, places=(lhs, rhs, out), input=lhs,
        steps=(spec.lhs_batch, *(d.lhs for d in spec.spatial), spec.lhs_feature), weights=rhs, result=out,
        strides=spec.strides,
    )
    if math.prod(spec.result) > 0:
        if math.prod(spec.input) * spec.window == 0:
            operands.clear(name, out, spec.result, spec.strides)
        elif _pointwise(spec):
            return emit_dot(name, _as_dot(spec, epilogue is not None), machine, slots, epilogue)
        elif serves_bf16x3(wide := _widened(spec, epilogue), machine, epilogue):
            _emit_bf16x3(conv, wide)
        elif _serves_updates(conv):
            _emit_updates(conv)
        else:
            _emit(conv)
    return finish_kernel(unit, operands.steps, scratch.size, scratch.uses)


def _widened(spec: ConvSpec, epilogue: Epilogue | None) -> ConvSpec:
    """The same convolution of f32 numbers, which lie in the order of those of 16 bits that are given.

    An epilogue has the result as it was.  Two operands of bf16 stay what they are: tiles multiply them at once.
    """
    left, right, out, sums = spec.types
    if sums != "f32" or (left, right) == ("bf16", "bf16"):
        return spec
    left, right, out = ("f32" if kind in ("bf16", "f16") else kind for kind in (left, right, out))
    types = (left, right, spec.types[2] if epilogue is not None else out, sums)
    a, b, c = (element(wide).bytes // element(kind).bytes for wide, kind in zip(types, spec.types[:3], strict=False))
    return replace(
        spec, types=types, lhs_batch=a * spec.lhs_batch, lhs_feature=a * spec.lhs_feature, rhs_input=b * spec.rhs_input,
        rhs_output=b * spec.rhs_output, out_batch=c * spec.out_batch, out_feature=c * spec.out_feature,
        spatial=tuple(replace(d, lhs=a * d.lhs, rhs=b * d.rhs, out=c * d.out) for d in spec.spatial),
    )


def _emit_bf16x3(conv: _Conv, wide: ConvSpec) -> None:
    """A convolution of f32 numbers in bf16 parts; those of 16 bits are copied to `wide` ones first, and so is the
    result back."""
    spec, (lhs, rhs, out) = conv.spec, conv.places
    images = (spec.batch, spec.lhs_batch), (spec.input_features, spec.lhs_feature)
    kernel = (spec.features, spec.rhs_input), (spec.output_features, spec.rhs_output)
    lhs = _converted(conv, "wide_lhs", lhs, wide.types[0], (*images, *((d.input, d.lhs) for d in spec.spatial)))
    rhs = _converted(conv, "wide_rhs", rhs, wide.types[1], (*kernel, *((d.kernel, abs(d.rhs)) for d in spec.spatial)))
    result = [*zip(wide.result, wide.strides, strict=True)]
    if wide.types[2] != out.element.name:
        conv.result = conv.operands.scratch.take(math.prod(wide.result) * 4, element("f32"), "result in f32")
        conv.strides = wide.strides
    border = _border(conv, conv.operands.name, 0) if is_bordered(spec) else None
    emit_bf16x3(conv.operands, wide, (lhs, rhs, conv.result), conv.epilogue, border)
    if conv.result is not out:
        _converted(conv, "narrow", conv.result, out.element.name, result, out)


def _converted(
    conv: _Conv, label: str, source: Place, kind: str, sizes: Iterable[tuple[int, int]], target: Place | None = None
) -> Place:
    """A copy of a dense array, of these extents and strides in bytes, as elements of type `kind` in the same order;
    the array itself where it has those."""
    operands, wanted = conv.operands, element(kind)
    if source.element == wanted:
        return source
    axes = [PadAxis(extent, stride, extent) for extent, stride in sorted(sizes, key=lambda each: -each[1])]
    axes = [axis for axis in axes if axis.extent > 1] or axes[:1]
    if target is None:
        size = math.prod(axis.extent for axis in axes) * wanted.bytes
        target = operands.scratch.take(size, wanted, f"operand in {kind}")
    step = emit_pad(operands.unit, f"{label}_{operands.name}", axes, source, target, conv.arithmetic)
    operands.steps.append(step)
    return target


def _pointwise(spec: ConvSpec) -> bool:
    whole = all(d.kernel == d.base_dilation == 1 and d.padding == 0 for d in spec.spatial)
    return whole and spec.groups == 1 and not is_bordered(spec)


def _as_dot(spec: ConvSpec, in_order: bool) -> MatrixView:
    """A convolution with a window of one element: pixels times features, `in_order` with those of the result."""
    free = _merge_outer([
        _Outer(extent=spec.batch, a=spec.lhs_batch, c=spec.out_batch),
        *(_Outer(extent=d.output, a=d.lhs * d.stride, c=d.out) for d in spec.spatial),
    ], in_order)
    rows = free[-1] if in_order else max(free, key=lambda d: d.extent)
    batch = [d for d in free if d is not rows]
    return MatrixView(
        batch=tuple(d.extent for d in batch), m=rows.extent, n=spec.output_features, k=spec.input_features,
        lhs=Strides(batch=tuple(d.a for d in batch), row=rows.a, terms=(spec.lhs_feature,)),
        rhs=Strides(batch=(0,) * len(batch), column=spec.rhs_output, terms=(spec.rhs_input,)),
        out=Strides(batch=tuple(d.c for d in batch), row=rows.c, column=spec.out_feature), types=spec.types,
    )


def _merge_outer(dimensions: Sequence[_Outer], in_order: bool = False) -> list[_Outer]:
    """Sorted from the widest stride in the input down, with dimensions that lie as one in both arrays merged.

    `in_order` sorts them by the stride in the result.
    """
    merged: list[_Outer] = []
    for d in sorted((d for d in dimensions if d.extent > 1), key=lambda d: -(d.c if in_order else d.a)):
        together = merged and merged[-1].a == d.extent * d.a and merged[-1].c == d.extent * d.c
        if together and merged[-1].cut is d.cut is None:
            inside = (0, 0) if merged[-1].inside or d.inside else None
            merged[-1] = _Outer(extent=merged[-1].extent * d.extent, a=d.a, c=d.c, inside=inside)
        else:
            merged.append(d)
    return merged or [_Outer(extent=1)]


def _emit(conv: _Conv) -> None:
    """Choose what vectors run along, copy the input if need be, and add the products of all phases."""
    spec, operands, out = conv.spec, conv.operands, conv.result
    # One feature (or one image) per group: groups become the lanes of the vectors.
    single = spec.features == 1 if spec.feature_groups > 1 else spec.batch == spec.groups
    lanewise = spec.groups > 1 and single and not conv.arithmetic.complex
    conv.line = _line(conv)
    conv.lanewise = lanewise and (spec.share == 1 or spec.feature_groups > 1) and conv.line is None
    if conv.line is not None:
        _copy_input(conv, conv.line + 1)
    else:
        if not conv.lanewise and _serves_pairs(conv):
            _pair(conv)
            spec = conv.spec
        if conv.machine.choices.leave_out != 0 and not (conv.tiles or conv.framed):
            conv.cuts = cuts_of(spec, conv.epilogue is not None, lambda rows: _tile(conv, rows))
        lanes = len(spec.spatial) + 1 if spec.feature_groups > 1 else 0
        if not conv.framed:
            _copy_input(conv, *(lanes, spec.share) if conv.lanewise else ())

    size = out.element.bytes
    unpack = conv.strides[-1] != size and spec.output_features > 1 and conv.line is None
    if unpack:
        use = "result with features side by side"
        conv.result = operands.scratch.take(math.prod(spec.result) * size, out.element, use)
        conv.strides = dense_strides(spec.result, size)
    every = [d.phases() for d in spec.spatial]
    if any(not phase.taps for phases in every for phase in phases):  # some pixels see holes only
        operands.clear(f"zeros_{operands.name}", conv.result, spec.result, conv.strides)
    phases = list(product(*([phase for phase in phases if phase.taps] for phases in every)))
    for number, phase in enumerate(phases):
        name = operands.name if len(phases) == 1 else f"phase{number}_{operands.name}"
        _emit_phase(conv, name, phase)
    if unpack:
        _unpack(conv, out)


def _emit_phase(conv: _Conv, name: str, phase: Sequence[Phase]) -> None:
    """Add the steps for the pixels of a phase of each spatial dimension."""
    spec, windows = conv.spec, _windows(conv, phase)
    if conv.line is None:
        product, batch, inside = _along_features(conv, name, phase, windows)
    else:
        product, batch, inside = _along_line(conv, windows, spec.spatial[conv.line].output)
    # A dimension that is neither rows nor a batch of the product, where windows lie partly outside.
    if any(p.inside(spec.spatial[at].input) for at, p in enumerate(phase) if at == conv.line or p.count == 1):
        inside = 0, 0
    exact = product.arithmetic.type not in ("float", "double")  # zero times anything is zero
    if not exact and is_bordered(spec, conv.cuts) and (inside or any(d.inside for d in batch)):
        border = _border(conv, name, windows.result.start - conv.result.start)
        edges = tuple(d.inside or (0, d.extent) for d in batch)
        product = replace(product, border=replace(border, batch=edges, rows=inside or (0, product.m)))
    microkernel = TILE_REGISTERS if conv.tiles else VECTORS
    conv.operands.steps.append(emit_product(conv.operands.unit, name, product, microkernel))


def _windows(conv: _Conv, phase: Sequence[Phase]) -> _Windows:
    spec, at_a, at_c = conv.spec, conv.input.start, conv.result.start
    at_b = conv.weights.start + spec.rhs_start
    a_batch, *a_spatial, a_feature = conv.steps
    c_batch, *c_spatial, c_feature = conv.strides
    free = [_Outer(extent=spec.result[0], a=a_batch, c=c_batch)]
    different = []
    if spec.groups > 1 and not conv.lanewise:
        group = spec.features * a_feature if spec.feature_groups > 1 else spec.result[0] * a_batch
        across = spec.share * spec.rhs_output
        different.append(_Outer(extent=spec.groups, a=group, b=across, c=spec.share * c_feature))
    taps = [Tap(spec.features, a_feature, spec.rhs_input)]
    for at, (p, d, a, c) in enumerate(zip(phase, spec.spatial, a_spatial, c_spatial, strict=True)):
        at_a, at_b, at_c = at_a + p.start * a, at_b + p.tap * d.rhs, at_c + p.first * c
        cut = at if at in conv.cuts[:2] else None
        if at != conv.line:
            inside = None if cut is not None else p.inside(d.input)
            free.append(_Outer(extent=p.count, a=p.stride * a, c=p.period * c, inside=inside, cut=cut))
        if p.alike > 1:
            different.append(_Outer(extent=p.alike, a=p.next_start * a, b=p.next_tap * d.rhs, c=c))
        taps.append(Tap(p.taps, p.dilation * a, p.step * d.rhs))
    return _Windows(
        free=_merge_outer(free, in_order=conv.epilogue is not None), different=different,
        taps=sorted((tap for tap in taps if tap.extent > 1), key=lambda tap: -tap.a) or [Tap(1, 0, 0)],
        input=replace(conv.input, start=at_a), weights=replace(conv.weights, start=at_b),
        result=replace(conv.result, start=at_c),
    )


def _along_line(
    conv: _Conv, windows: _Windows, columns: int
) -> tuple[Product, list[_Outer], tuple[int, int] | None]:
    """The product whose columns are pixels of a line, and its batch.  Weights are the left operand."""
    spec, batch, taps = conv.spec, [*windows.different, *windows.free], _merge_taps(windows.taps)
    _, tile = choose_tile(spec.share, columns, conv.machine, conv.arithmetic, windows=True)
    a, b, c = windows.weights, windows.input, windows.result
    return Product(
        batch=tuple(d.extent for d in batch), m=spec.share, n=columns, terms=tuple(tap.extent for tap in taps),
        a=Matrix(
            place=a, batch=tuple(d.b for d in batch), row=spec.rhs_output, terms=tuple(tap.b for tap in taps)
        ),
        b=Matrix(
            place=b, batch=tuple(d.a for d in batch), column=b.element.bytes, terms=tuple(tap.a for tap in taps)
        ),
        c=Matrix(place=c, batch=tuple(d.c for d in batch), row=conv.strides[-1], column=c.element.bytes),
        arithmetic=conv.arithmetic, tile=tile,
    ), batch, None


def _along_features(
    conv: _Conv, name: str, phase: Sequence[Phase], windows: _Windows
) -> tuple[Product, list[_Outer], tuple[int, int] | None]:
    """The product whose columns are features, its batch, and the rows whose windows lie inside, if not all do."""
    spec, cuts, image = conv.spec, conv.cuts, windows.input
    rows, tile = _rows(conv, windows.free)
    weights, packing = _weights(conv, name, windows, tile)
    batch = [*windows.different, *(d for d in windows.free if d is not rows)]
    taps, ends = _sum(_consecutive(windows.taps, weights.terms[-1]), cuts, spec.features)
    reach = None
    if cuts.outer is not None:
        p, number = phase[cuts.outer], next(number for number, d in enumerate(batch) if d.cut is not None)
        reach = Reach(number, p.start, p.stride, p.dilation, spec.spatial[cuts.outer].input)
    shared = (0,) * (len(batch) - len(windows.different))
    return Product(
        batch=tuple(d.extent for d in batch), m=rows.extent, n=conv.columns, terms=tuple(tap.extent for tap in taps),
        a=Matrix(
            place=image, batch=tuple(d.a for d in batch), row=rows.a,
            column=image.element.bytes if conv.lanewise else 0, terms=tuple(tap.a for tap in taps),
        ),
        b=replace(weights, batch=weights.batch + shared, terms=tuple(tap.b for tap in taps)),
        c=Matrix(place=windows.result, batch=tuple(d.c for d in batch), row=rows.c, column=conv.strides[-1]),
        arithmetic=conv.arithmetic, tile=tile, packing=packing, piece=packing.piece if packing else 0, reach=reach,
        ends=ends, epilogue=conv.epilogue,
    ), batch, rows.inside


def _border(conv: _Conv, name: str, start: int) -> Border:
    """What sees to results at the border of a product that makes part of the result, `start` bytes into it."""
    operands, (lhs, rhs, out) = conv.operands, conv.places
    if conv.flag is None:
        conv.flag = operands.scratch.take(8, out.element, "flag for values that are not finite")
        operands.steps.insert(0, emit_flag(operands.unit, f"flag_{operands.name}", conv.flag))
    left, right, _, sums = conv.whole.types
    whole = replace(conv.whole, types=(left, right, conv.result.element.name, sums))
    return emit_border(operands.unit, name, whole, (lhs.slot, rhs.slot), conv.strides, start, conv.flag)


def _line(conv: _Conv) -> int | None:
    """The spatial dimension to lay vectors along, with weights as the broadcast operand, if that is the better way.

    It is when features are not contiguous in the result but that dimension is, in the input as well (NCHW),
    it fills most lanes of its vectors, and the weights, read again for every line, stay in cache.
    """
    spec, lanes, (left, weights, out) = conv.spec, conv.arithmetic.columns, (place.element for place in conv.places)
    size = spec.window * spec.features * spec.output_features * weights.bytes
    asked = conv.machine.choices.along_line
    large = size // spec.groups > _LINE_BYTES if asked is None else not asked
    if spec.out_feature == out.bytes or weights.storage != conv.arithmetic.type or large:
        return None
    for at, d in enumerate(spec.spatial):
        plain = d.stride == d.base_dilation == 1 and (d.lhs, d.out) == (left.bytes, out.bytes)
        if plain and (asked or d.output / (-(-d.output // lanes) * lanes) >= _FULL):
            return at
    return None


def _copy_input(conv: _Conv, lanes: int | None = None, share: int = 1) -> None:
    """Copy the input where windows cross its border, or as vectors along it need it.

    Dimension `lanes` (of batch, spatial, feature) must be contiguous, with each element `share` times.
    """
    spec, source, kind = conv.spec, conv.input, conv.arithmetic.element
    scattered = share > 1 or not (lanes is None or conv.steps[lanes] == source.element.bytes)
    if is_bordered(spec, conv.cuts) or source.element.storage != conv.arithmetic.type or scattered:
        _copy_framed(conv, kind, conv.arithmetic, lanes, share)


def _copy_framed(
    conv: _Conv, kind: Element, moved: Arithmetic, lanes: int | None = None, share: int = 1, room: int = 0
) -> None:
    """Copy the input as elements of type `kind`, which travel as those of `moved`, with its padding and `room` zeros
    behind the features; the rest as in `_copy_input`."""
    spec, operands, source = conv.spec, conv.operands, conv.input
    reads = [(0, spec.batch), *(extent_of(spec, at, conv.cuts) for at in range(len(spec.spatial)))]
    reads.append((0, spec.input_features + room))
    axes = [
        PadAxis(extent, stride, end - first, -first)
        for extent, stride, (first, end) in zip(spec.input, conv.steps, reads, strict=True)
    ]
    order = sorted(range(len(axes)), key=lambda at: -conv.steps[at])
    if lanes is not None:
        order = [at for at in order if at != lanes] + [lanes]
    copied = [axes[at] for at in order] + [PadAxis(share, 0, share)] * (share > 1)
    steps = dense_strides(tuple(axis.target for axis in copied), kind.bytes)
    place = operands.scratch.take(steps[0] * copied[0].target, kind, "input with its padding")
    operands.steps.append(emit_pad(operands.unit, f"pad_{operands.name}", copied, source, place, moved))
    conv.steps = [steps[order.index(at)] for at in range(len(axes))]
    inside = sum(axis.low * step for axis, step in zip(axes, conv.steps, strict=True))
    conv.input = replace(place, start=place.start + inside)


def _serves_pairs(conv: _Conv) -> bool:
    """Whether the processor multiplies pairs of what the convolution sums up, and it has enough in a sum for them."""
    spec, (lhs, rhs, _, sums), machine = conv.spec, conv.spec.types, conv.machine
    tiles, vectors = (serve(lhs, rhs, sums, machine) for serve in (multiplies_tiles, multiplies_pairs))
    whole = spec.feature_groups == 1 or spec.features % _together(tiles) == 0  # no room between groups
    return (tiles or vectors) and whole and spec.features >= (_TILED if tiles else _PAIRED)


def _together(tiles: bool) -> int:
    """Features of which there has to be a multiple."""
    return 2 * SIDE if tiles else 2


def _pair(conv: _Conv) -> None:
    """Let the elements of input and kernel be pairs of features, with zeros behind the last feature if need be."""
    spec, operands, (_, kernel, _) = conv.spec, conv.operands, conv.places
    conv.tiles = multiplies_tiles(*spec.types[:2], spec.types[3], conv.machine)
    room, bits, moved = -spec.features % _together(conv.tiles), element("u16"), arithmetic("s32", conv.machine)
    size = bits.bytes
    if room or spec.lhs_feature != size:
        conv.input, conv.framed = replace(conv.input, element=bits), True
        _copy_framed(conv, bits, moved, len(spec.spatial) + 1, room=room)
    if spec.rhs_output == size:
        conv.partner = spec.rhs_input
    else:
        if room or spec.rhs_input != size:
            kernel = _copy_kernel(conv, replace(kernel, element=bits), moved, room)
        conv.weights, spec = replace(kernel, element=PAIR), conv.spec
    operands.arithmetic = replace(operands.arithmetic, pairs=True)
    conv.input = replace(conv.input, element=PAIR)
    conv.steps = (*conv.steps[:-1], PAIR.bytes)
    conv.spec = replace(
        spec, input_features=(spec.input_features + room) // 2, lhs_feature=PAIR.bytes, rhs_input=2 * spec.rhs_input
    )


def _copy_kernel(conv: _Conv, kernel: Place, moved: Arithmetic, room: int) -> Place:
    """Copy the kernel so that the input features of an output feature and window element lie side by side, with `room`
    zeros behind them, in the order in which windows are walked; `conv.spec` has the strides then."""
    spec, operands = conv.spec, conv.operands
    inner = PadAxis(spec.features, spec.rhs_input, spec.features + room)
    axes = [PadAxis(extent, stride, extent) for extent, stride in (
        (spec.output_features, spec.rhs_output), *((d.kernel, d.rhs) for d in spec.spatial),
    )]  # fmt: skip
    steps = dense_strides((*(axis.target for axis in axes), inner.target), kernel.element.bytes)
    place = operands.scratch.take(steps[0] * spec.output_features, kernel.element, "kernel in order")
    source = replace(kernel, start=kernel.start + spec.rhs_start)
    operands.steps.append(
        emit_pad(operands.unit, f"kernel_{operands.name}", [*axes, inner], source, place, moved)
    )
    spatial = tuple(replace(d, rhs=step) for d, step in zip(spec.spatial, steps[1:-1], strict=True))
    conv.spec = replace(spec, spatial=spatial, rhs_output=steps[0], rhs_input=steps[-1])
    return place


def _rows(conv: _Conv, free: Sequence[_Outer]) -> tuple[_Outer, TileShape]:
    """The dimension that becomes the rows of the product, and its tile: the cheapest for the whole result."""
    usable = [d for d in free if d.cut is None or d.cut == conv.cuts.line]
    if conv.epilogue is not None or conv.cuts.line is not None:
        usable = [d for d in usable if d.cut is not None] or usable[-1:]
    tiles = [(d, *_tile(conv, d.extent)) for d in reversed(usable)]
    rows, _, tile = min(tiles, key=lambda each: each[1])
    return rows, tile


def _tile(conv: _Conv, rows: int) -> tuple[float, TileShape]:
    """The tile for so many rows, and what one of the rows costs."""
    if conv.tiles:
        return -(-rows // SIDE) / rows, TileShape(min(rows, 2 * SIDE), min(conv.columns, 2 * SIDE))
    if not conv.lanewise:
        cost, tile = choose_tile(rows, conv.columns, conv.machine, conv.arithmetic, windows=True)
        return cost / rows, tile
    vectors = min(2, -(-conv.columns // conv.arithmetic.columns))
    high = -(-rows // -(-rows // 6))
    return -min(rows, 6), TileShape(high, vectors * conv.arithmetic.columns)


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
    return tuple(map(Tap._make, joined(taps)))


def _weights(conv: _Conv, name: str, windows: _Windows, tile: TileShape) -> tuple[Matrix, Packing | None]:
    """Weights in the order of the sum, and who packs them; the batch is where they are `different`."""
    spec, arithmetic, machine, place, columns = conv.spec, conv.arithmetic, conv.machine, windows.weights, conv.columns
    taps = _merge_taps([Tap(tap.extent, 0, tap.b) for tap in windows.taps])
    weights = Matrix(
        place=place, batch=tuple(d.b for d in windows.different), column=spec.rhs_output,
        terms=tuple(tap.b for tap in taps),
    )
    terms, batch = tuple(tap.extent for tap in taps), tuple(d.extent for d in windows.different)
    pixels, deep, items = math.prod(d.extent for d in windows.free), math.prod(terms), math.prod(batch)
    if conv.partner:
        padded = 2 * spec.features > conv.whole.features  # then features are a dimension of their own
        singles = conv.whole.features if padded else 2 * terms[-1]
        weights = replace(weights, partner=conv.partner, singles=singles)
    native = place.element.storage == arithmetic.type and weights.column == place.element.bytes
    row, panels = tile.columns * arithmetic.element.bytes, -(-columns // tile.columns) * items
    if native and len(taps) == 1 and stays_in_place(pixels, columns * items, deep * row, machine):
        return weights, None
    first, group, piece = _sum(_consecutive(windows.taps, 1), conv.cuts, spec.features)[0][0].extent, 0, 0
    if conv.epilogue is None or not conv.epilogue.whole_rows:
        if len(taps) == 1 and conv.result.element.storage == arithmetic.type:
            piece = piece_to_pack(pixels, panels, size=deep * row, row=row, first=first, machine=machine)
        group, _ = panels_to_pack(pixels, panels, size=deep * row, width=tile.columns, machine=machine)
        group = 1 if piece else group
    packed, packing = replace(conv.operands, name=name, batch=batch).pack_panels(
        "pack_rhs", weights, terms, columns, tile.columns, group=group, piece=deep // first * piece,
        full=not conv.tiles,
    )
    return packed, packing._replace(piece=piece) if packing else None


def _unpack(conv: _Conv, out: Place) -> None:
    """Copy the result from pixels of features to the order asked for."""
    spec = conv.spec
    *outer, features = (
        _Outer(extent=extent, a=stride, c=to)
        for extent, stride, to in zip(spec.result, conv.strides, spec.strides, strict=True)
    )
    free = _merge_outer(outer)
    columns = min(free, key=lambda d: d.c)
    rows, across, *others = (
        Axis(d.extent, d.a, d.c) for d in (features, columns, *(d for d in free if d is not columns))
    )
    conv.operands.unpack(others, rows, across, conv.result, out)


def _serves_updates(conv: _Conv) -> bool:
    """Whether `rank_update` can compute a convolution of few pixels with many features, and faster."""
    spec, epilogue, (_, right, out) = conv.spec, conv.epilogue, (place.element for place in conv.places)
    plain = spec.groups == 1 and all(d.base_dilation == 1 for d in spec.spatial) and spec.rhs_output == right.bytes
    plain = plain and spec.strides == dense_strides(spec.result, out.bytes)
    plain = plain and not (epilogue is not None and epilogue.whole_rows)
    *pixels, features = spec.result
    return plain and serves_updates(
        math.prod(pixels), features, spec.window, spec.input_features, right, conv.arithmetic, conv.machine
    )


def _emit_updates(conv: _Conv) -> None:
    """The input is copied once, `TERMS` features of all its pixels side by side.  An element of the window is a part of
    the sum: the pixels whose window has it inside meet its weights, which are read from where they lie."""
    spec, operands, sums, (left, right, out) = conv.spec, conv.operands, conv.arithmetic, conv.places
    source = Matrix(place=left, column=spec.lhs_feature, terms=tuple(conv.steps[:-1]))
    image, _ = operands.pack_panels("pack_lhs", source, spec.input[:-1], spec.input_features, TERMS)
    pixel, row, (*pixels, features) = image.terms[-1], spec.rhs_input, spec.result
    parts, rows = _parts(spec, pixel), math.prod(pixels)
    updates = Product(
        m=rows, n=features, terms=(len(parts), spec.input_features // TERMS, TERMS),
        a=Matrix(place=image.place, row=pixel, terms=(0, image.panel, image.column)),
        b=Matrix(place=right, column=spec.rhs_output, terms=(0, TERMS * row, row)),
        c=Matrix(place=out, row=features * out.element.bytes, column=out.element.bytes),
        arithmetic=sums, tile=TileShape(rows, columns_of(rows, features, sums, conv.machine)),
        epilogue=conv.epilogue,
    )
    operands.steps.append(emit_product(operands.unit, operands.name, updates, rank_updates(parts)))


def _parts(spec: ConvSpec, pixel: int) -> tuple[Part, ...]:
    """The elements of the window, each with the pixels that have it inside; a pixel of the copy takes `pixel` bytes."""
    parts = []
    for window in product(*(range(d.kernel) for d in spec.spatial)):
        steps = [w * d.window_dilation - d.padding for w, d in zip(window, spec.spatial, strict=True)]
        inside = [
            [(at, place) for at in range(d.output) if 0 <= (place := at * d.stride + step) < d.input]
            for d, step in zip(spec.spatial, steps, strict=True)
        ]
        rows = []
        for image in range(spec.batch):
            for met in product(*inside):
                row = position = image
                for d, (at, place) in zip(spec.spatial, met, strict=True):
                    row, position = row * d.output + at, position * d.input + place
                rows.append((position * pixel, row))
        start = spec.rhs_start + sum(w * d.rhs for w, d in zip(window, spec.spatial, strict=True))
        parts.append(Part(start, tuple(rows)))
    return tuple(parts)
