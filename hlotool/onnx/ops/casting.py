"""Elements of other types: casts, to narrow floats with or without saturation."""

from __future__ import annotations

from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.ir import ELEMENT_TYPES, array
from hlotool.numpy.array import Array
from hlotool.numpy.dtypes import hlo_type
from hlotool.numpy.trace import apply
from hlotool.onnx.library import onnx
from hlotool.onnx.lowering import Context, Refused, lowering
from hlotool.onnx.ops.pieces import is_float, number
from hlotool.onnx.tensors import dtype_of_tensor

__all__ = ["cast_to"]

_BYTES = 8


def cast_to(x: Array, dtype: numpy.dtype[Any], saturate: bool = True, round_mode: str = "up") -> Array:
    """`x` with elements of `dtype`, as ONNX casts.

    Integers wrap.  Floats are cut towards zero; what is too large for a narrow float becomes its greatest number if
    `saturate`, else infinity, or nan where the type has none.
    """
    if x.dtype == dtype:
        return x
    wanted = ELEMENT_TYPES[hlo_type(dtype)]
    if wanted.kind == "pred":
        return np.not_equal(x, number(0, x))
    own = ELEMENT_TYPES[hlo_type(x.dtype)]
    if wanted.is_float and wanted.bits <= _BYTES:
        return _to_narrow(x, dtype, saturate, round_mode)
    if wanted.is_integer and wanted.bits < 32:
        if own.is_float:
            x = np.astype(np.trunc(x), numpy.int32)
        return np.astype(x, dtype)
    if wanted.kind == "unsigned" and own.is_float:  # negative numbers wrap, too
        wrapped = np.astype(np.astype(np.trunc(x), numpy.int64), dtype)
        return wrapped if wanted.bits < 64 else np.where(x < number(0, x), wrapped, np.astype(x, dtype))
    return np.astype(x, dtype)


def _to_narrow(x: Array, dtype: numpy.dtype[Any], saturate: bool, round_mode: str) -> Array:
    """Casts to floats of 8 bits and fewer."""
    if hlo_type(dtype) == "f8e8m0fnu":
        return _to_exponents(x, saturate, round_mode)
    wide = x if is_float(x) else np.astype(x, numpy.float32)
    if not saturate:
        return np.astype(wide, dtype)
    most = number(np.finfo(dtype).max, np.astype(wide, numpy.float32))
    real = np.astype(wide, numpy.float32)
    finite = np.minimum(np.maximum(real, -most), most)
    return np.astype(np.where(np.isnan(real), real, finite), dtype)


def _to_exponents(x: Array, saturate: bool, round_mode: str) -> Array:
    """Casts to powers of two without sign, whose bits are the exponent of an f32."""
    bits = apply("bitcast-convert", np.astype(x, numpy.float32), shape=array("u32", x.shape))
    exponent = np.bitwise_and(bits >> number(23, bits), number(0xFF, bits))
    special = exponent == number(0xFF, bits)
    fraction = np.bitwise_and(bits, number(0x7FFFFF, bits))
    if round_mode == "up":
        rises = fraction > number(0, bits)
    elif round_mode == "nearest":  # ties away from zero, but below the least normal number to even
        half = number(0x400000, bits)
        rises = np.where(exponent > number(0, bits), fraction >= half, fraction > half)
    elif round_mode == "down":
        rises = np.zeros(x.shape, bool)
    else:
        raise Refused(f"the rounding {round_mode!r}")
    if saturate:
        rises = np.logical_and(rises, exponent != number(0xFE, bits))
    rises = np.logical_and(rises, np.logical_not(special))
    narrow = np.astype(exponent + np.astype(rises, numpy.uint32), numpy.uint8)
    return apply("bitcast-convert", narrow, shape=array("f8e8m0fnu", x.shape))


@lowering("Cast", since=6)
def cast(c: Context, x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Array:
    if to == onnx.TensorProto.STRING or not isinstance(x, Array):
        raise Refused("strings")
    return cast_to(x, dtype_of_tensor(to), bool(saturate), round_mode)


@lowering("Cast")
def cast_by_name(c: Context, x: Array, *, to: str | int) -> Array:
    number_ = to if isinstance(to, int) else onnx.TensorProto.DataType.Value(to)
    return cast(c, x, to=number_)


@lowering("CastLike")
def cast_like(c: Context, x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Array:
    if not isinstance(x, Array) or not isinstance(like, Array):
        raise Refused("strings")
    return cast_to(x, like.dtype, bool(saturate), round_mode)


