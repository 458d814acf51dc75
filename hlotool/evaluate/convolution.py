"""convolution, in full generality, as a batched matrix product over gathered windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.dot import matrix_multiply
from hlotool.evaluate.rounding import widen
from hlotool.evaluate.values import AnyArray, Operands
from hlotool.evaluate.windows import padded_base
from hlotool.ir import ConvDimensionNumbers, Instruction, Window, WindowDimension, dtype_of

__all__ = ["RULES"]

_CHUNK_ELEMENTS = 16_000_000  # of gathered windows held at a time


def _windows(base: AnyArray, window: Sequence[WindowDimension], counts: Sequence[int]) -> AnyArray:
    """View of [batch, spatial..., feature] as [batch, window positions..., window elements..., feature]."""
    batch, *spatial, feature = base.strides
    shape = (base.shape[0], *counts, *(d.size for d in window), base.shape[-1])
    strides = (
        batch,
        *(s * d.stride for s, d in zip(spatial, window, strict=True)),
        *(s * d.window_dilation for s, d in zip(spatial, window, strict=True)),
        feature,
    )
    return as_strided(base, shape, strides, writeable=False)


def _convolution(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    array, kernel = map(widen, operands)  # f8e8m0fnu has no zero to pad with
    dims: ConvDimensionNumbers = instruction.attributes["dim_labels"]
    window = instruction.attributes.get("window") or Window()
    groups: int = instruction.attributes.get("feature_group_count") or 1
    batch_groups: int = instruction.attributes.get("batch_group_count") or 1
    left = array.transpose(dims.input_batch, *dims.input_spatial, dims.input_feature)
    right = kernel.transpose(*dims.kernel_spatial, dims.kernel_input_feature, dims.kernel_output_feature)
    right = np.flip(right, tuple(axis for axis, d in enumerate(window.dimensions) if d.reversal))
    counts = [d.output_size(n) for d, n in zip(window.dimensions, left.shape[1:-1], strict=True)]
    around = Window((WindowDimension(1), *window.dimensions, WindowDimension(1)))
    inside = None
    if right.dtype.kind in "fc" and not np.isfinite(right).all():
        here = np.ones((1, *left.shape[1:-1], right.shape[-2]), np.bool_)
        inside = _windows(padded_base(here, np.False_, around), window.dimensions, counts)
    left = padded_base(left, left.dtype.type(0), around)
    element_type = instruction.shape.element_type
    result = _grouped(left, right, window.dimensions, counts, groups, batch_groups, element_type, inside)
    place = (dims.output_batch, *dims.output_spatial, dims.output_feature)
    return result.transpose(np.argsort(place))


def _grouped(
    left: AnyArray,
    right: AnyArray,
    window: Sequence[WindowDimension],
    counts: Sequence[int],
    groups: int,
    batch_groups: int,
    element_type: str,
    inside: AnyArray | None,
) -> AnyArray:
    """[batch, spatial..., feature] by [spatial..., input feature, output feature]; result [batch, counts..., output].

    Output features are split into the groups; a group sees its share of the input features (feature groups)
    or of the batch (batch groups).  `inside` tells which elements of windows are elements of the array.
    """
    parts = groups * batch_groups
    inputs, outputs = right.shape[-2:]
    taps = prod(d.size for d in window) * inputs
    batch = left.shape[0] // batch_groups
    matrices = np.moveaxis(right.reshape(taps, parts, outputs // parts), 1, 0)
    split = left.reshape(batch_groups, batch, *left.shape[1:-1], groups, left.shape[-1] // groups)
    split = np.moveaxis(split, -2, 1).reshape(parts, batch, *left.shape[1:-1], inputs)
    rows = prod(counts)
    step = max(1, _CHUNK_ELEMENTS // max(1, rows * taps * parts))
    products = [np.zeros((parts, 0, outputs // parts), dtype_of(element_type))]
    for first in range(0, batch, step):
        chunk = split[:, first : first + step]
        gathered = np.stack([_windows(part, window, counts).reshape(len(part) * rows, taps) for part in chunk])
        if inside is None:
            products.append(matrix_multiply(gathered, matrices, element_type))
        else:
            own = np.broadcast_to(inside.reshape(1, rows, taps), (split[:, first : first + step].shape[1], rows, taps))
            products.append(_without_padding(gathered, matrices, own.reshape(-1, taps), element_type))
    whole = np.concatenate(products, axis=1)
    return np.moveaxis(whole.reshape(parts, batch, *counts, outputs // parts), 0, -2).reshape(batch, *counts, outputs)


def _without_padding(gathered: AnyArray, matrices: AnyArray, inside: AnyArray, element_type: str) -> AnyArray:
    """[parts, rows, taps] by [parts, taps, outputs], over the taps that are `inside` alone.

    Padding adds nothing to a sum: an infinity in the kernel would make a NaN of its zeros.
    """
    result = np.zeros((*gathered.shape[:2], matrices.shape[-1]), dtype_of(element_type))
    patterns, which = np.unique(inside, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        mine = which.reshape(-1) == number
        result[:, mine] = matrix_multiply(gathered[:, mine][:, :, pattern], matrices[:, pattern], element_type)
    return result


RULES: dict[str, Rule] = {"convolution": _convolution}
