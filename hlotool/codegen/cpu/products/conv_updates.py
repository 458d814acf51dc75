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
from hlotool.codegen.cpu.products.operands import Operands, dense
from hlotool.codegen.cpu.products.product import Matrix, Product, TileShape
from hlotool.codegen.cpu.products.rank_update import TERMS, Part, columns_of, rank_updates, serves_updates
from hlotool.codegen.llvm.arguments import Place
from hlotool.codegen.llvm.elements import arithmetic, element
from hlotool.codegen.machine import Machine

__all__ = ["emit_conv_updates", "serves_conv_updates"]


def serves_conv_updates(spec: ConvSpec, machine: Machine, epilogue: Epilogue | None) -> bool:
    """Whether a convolution can be computed so, and faster."""
    sums, (right, out) = arithmetic(spec.types[3], machine), map(element, spec.types[1:3])
    plain = spec.groups == 1 and all(d.base_dilation == 1 for d in spec.spatial) and spec.rhs_output == right.bytes
    plain = plain and spec.strides == dense(spec.result, out.bytes)
    plain = plain and not (epilogue is not None and epilogue.whole_rows)
    *pixels, features = spec.result
    return plain and serves_updates(
        math.prod(pixels), features, spec.window, spec.input_features, right, sums, machine
    )


def emit_conv_updates(
    operands: Operands, spec: ConvSpec, places: tuple[Place, Place, Place], epilogue: Epilogue | None
) -> None:
    """Add the steps of a convolution that `serves_conv_updates`, whose input, kernel and result are at `places`."""
    unit, sums, (left, right, out) = operands.unit, operands.arithmetic, places
    assert unit.machine is not None
    source = Matrix(place=left, column=spec.lhs_feature, terms=(spec.lhs_batch, *(d.lhs for d in spec.spatial)))
    image, _ = operands.pack_panels("pack_lhs", source, spec.input[:-1], spec.input_features, TERMS)
    pixel, row, (*pixels, features) = image.terms[-1], spec.rhs_input, spec.result
    parts, rows = _parts(spec, pixel), math.prod(pixels)
    product = Product(
        m=rows, n=features, terms=(len(parts), spec.input_features // TERMS, TERMS),
        a=Matrix(place=image.place, row=pixel, terms=(0, image.panel, image.column)),
        b=Matrix(place=right, column=spec.rhs_output, terms=(0, TERMS * row, row)),
        c=Matrix(place=out, row=features * out.element.bytes, column=out.element.bytes),
        arithmetic=sums, tile=TileShape(rows, columns_of(rows, features, sums, unit.machine)), epilogue=epilogue,
    )
    operands.steps.append(emit_product(unit, operands.name, product, rank_updates(parts)))


def _parts(spec: ConvSpec, pixel: int) -> tuple[Part, ...]:
    """The elements of the window, each with the pixels that have it inside; a pixel of the copy takes `pixel` bytes."""
    parts = []
    for window in itertools.product(*(range(d.kernel) for d in spec.spatial)):
        steps = [w * d.window_dilation - d.padding for w, d in zip(window, spec.spatial, strict=True)]
        inside = [
            [(at, place) for at in range(d.output) if 0 <= (place := at * d.stride + step) < d.input]
            for d, step in zip(spec.spatial, steps, strict=True)
        ]
        rows = []
        for image in range(spec.batch):
            for met in itertools.product(*inside):
                row = position = image
                for d, (at, place) in zip(spec.spatial, met, strict=True):
                    row, position = row * d.output + at, position * d.input + place
                rows.append((position * pixel, row))
        start = spec.rhs_start + sum(w * d.rhs for w, d in zip(window, spec.spatial, strict=True))
        parts.append(Part(start, tuple(rows)))
    return tuple(parts)
