"""Convolutions of few pixels with many features, as updates of all pixels: see `rank_update`.

The input is copied once, `TERMS` features of all its pixels side by side.  An element of the window is a part of the
sum: the pixels whose window has it inside of the input meet its weights, which are read from where they lie.
"""

from __future__ import annotations

import itertools
import math

from hlotool.codegen.cpu.products.conv_spec import ConvSpec
from hlotool.codegen.cpu.products.epilogue import Epilogue
from hlotool.codegen.cpu.products.gemm import emit_product
from hlotool.codegen.cpu.products.operands import Scratch
from hlotool.codegen.cpu.products.pack import Axis, Copy, emit_copy
from hlotool.codegen.cpu.products.product import Matrix, Product, TileShape
from hlotool.codegen.cpu.products.rank_update import TERMS, Part, columns_of, rank_updates, serves_updates
from hlotool.codegen.kernel import Step
from hlotool.codegen.llvm.arguments import Place
from hlotool.codegen.llvm.elements import arithmetic, element
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import Machine

__all__ = ["emit_conv_updates", "serves_conv_updates"]


def serves_conv_updates(spec: ConvSpec, machine: Machine, epilogue: Epilogue | None) -> bool:
    """Whether a convolution can be computed so, and faster."""
    sums, window = arithmetic(spec.accumulate, machine), math.prod(spec.kernel)
    dense = [spec.output_features * math.prod(spec.output[at:]) for at in range(len(spec.output) + 1)]
    plain = spec.groups == math.prod(spec.base_dilation) == spec.rhs_output == 1
    plain = plain and [spec.out_batch, *spec.out_spatial, spec.out_feature] == [*dense, 1]
    plain = plain and not (epilogue is not None and epilogue.whole_rows)
    pixels, features = spec.batch * math.prod(spec.output), spec.output_features
    return plain and serves_updates(pixels, features, window, spec.input_features, element(spec.rhs), sums, machine)


def emit_conv_updates(
    unit: Unit, name: str, spec: ConvSpec, slots: tuple[int, int, int, int], scratch: Scratch,
    epilogue: Epilogue | None,
) -> list[Step]:
    """The steps of a convolution that `serves_conv_updates`; the names of arguments are those of `conv.emit_conv`."""
    assert unit.machine is not None
    sums, left, right, out = arithmetic(spec.accumulate, unit.machine), *map(element, (spec.lhs, spec.rhs, spec.out))
    kind, size = sums.element, sums.element.bytes
    pixels, positions = spec.batch * math.prod(spec.output), spec.batch * math.prod(spec.input)
    pixel = TERMS * size
    block = positions * pixel
    image = scratch.take(spec.input_features // TERMS * block, kind)
    extents = (spec.batch, *spec.input)
    *outer, line = (
        Axis(extent, stride * left.bytes, pixel * math.prod(extents[at + 1 :]))
        for at, (extent, stride) in enumerate(zip(extents, (spec.lhs_batch, *spec.lhs_spatial), strict=True))
    )
    copy = Copy(
        outer=tuple(outer), rows=line, columns=Axis(spec.input_features, spec.lhs_feature * left.bytes, size),
        width=TERMS, panel=block, source=Place(slots[0], 0, left), target=image, arithmetic=sums,
    )
    row, parts = spec.rhs_input * right.bytes, _parts(spec, pixel)
    product = Product(
        m=pixels, n=spec.output_features, terms=(len(parts), spec.input_features // TERMS, TERMS),
        a=Matrix(place=image, row=pixel, terms=(0, block, size)),
        b=Matrix(place=Place(slots[1], 0, right), column=right.bytes, terms=(0, TERMS * row, row)),
        c=Matrix(place=Place(slots[2], 0, out), row=spec.output_features * out.bytes, column=out.bytes),
        arithmetic=sums, tile=TileShape(pixels, columns_of(pixels, spec.output_features, sums, unit.machine)),
        epilogue=epilogue,
    )
    return [emit_copy(unit, f"pack_lhs_{name}", copy), emit_product(unit, name, product, rank_updates(parts))]


def _parts(spec: ConvSpec, pixel: int) -> tuple[Part, ...]:
    """The elements of the window, each with the pixels that have it inside; a pixel of the copy takes `pixel` bytes."""
    steps = list(zip(spec.strides, spec.window_dilation, spec.padding, strict=True))
    parts = []
    for window in itertools.product(*map(range, spec.kernel)):
        inside = [
            [(at, place) for at in range(extent) if 0 <= (place := at * stride + w * dilation - padding) < size]
            for extent, size, w, (stride, dilation, padding) in zip(spec.output, spec.input, window, steps, strict=True)
        ]
        rows = []
        for image in range(spec.batch):
            for met in itertools.product(*inside):
                row = position = image
                for extent, size, (at, place) in zip(spec.output, spec.input, met, strict=True):
                    row, position = row * extent + at, position * size + place
                rows.append((position * pixel, row))
        turned = zip(window, spec.kernel, spec.reversal, strict=True)
        weights = (size - 1 - w if backwards else w for w, size, backwards in turned)
        start = sum(w * stride for w, stride in zip(weights, spec.rhs_spatial, strict=True))
        parts.append(Part(start * element(spec.rhs).bytes, tuple(rows)))
    return tuple(parts)
