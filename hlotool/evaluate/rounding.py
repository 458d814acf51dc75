"""Into and out of element types: widening before arithmetic, one rounding after it, and ``convert``.

Narrow types are computed in a wider one and rounded once.  Which one shows in f8e8m0fnu, which has no zero: what f32
takes for zero is NaN, and all else below its least number becomes that (see `computed`).  Integers wrap around; only
conversions from floats saturate.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from hlotool.evaluate.values import AnyArray
from hlotool.ir import ELEMENT_TYPES, ElementType

__all__ = ["as_accurate", "computed", "convert", "integer_range", "round_to", "stochastic", "widen"]

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_SMALLEST_NATIVE_BITS = 8


def _compute_dtype(row: ElementType) -> np.dtype[Any] | None:
    if row.dtype is None:
        return None
    if row.is_float and row.bits <= 16:
        return _FLOAT32
    if row.is_integer and row.bits < _SMALLEST_NATIVE_BITS:
        return np.dtype(np.int8 if row.kind == "signed" else np.uint8)
    return row.dtype


_COMPUTE = {name: _compute_dtype(row) for name, row in ELEMENT_TYPES.items()}
_BY_DTYPE = {
    row.dtype: dtype for name, row in ELEMENT_TYPES.items() if row.dtype is not None and (dtype := _COMPUTE[name])
}


def widen(array: AnyArray) -> AnyArray:
    """`array` in its compute type, exactly."""
    dtype = _BY_DTYPE.get(array.dtype, array.dtype)
    return array if array.dtype == dtype else array.astype(dtype)


def as_accurate(array: AnyArray) -> AnyArray:
    """Floats as f64, complex numbers as c128, everything else in its compute type."""
    wide = widen(array)
    if wide.dtype.kind == "c":
        return wide.astype(np.complex128, copy=False)
    return wide.astype(np.float64, copy=False) if wide.dtype.kind == "f" else wide


def round_to(value: Any, element_type: str) -> AnyArray:
    """`value` as an array of exactly `element_type`: floats rounded once to nearest even, integers wrapped."""
    array = np.asarray(value)
    row = ELEMENT_TYPES[element_type]
    dtype = row.dtype
    if dtype is None:
        raise ValueError(f"{element_type} has no arrays")
    if row.is_integer and row.bits < _SMALLEST_NATIVE_BITS:
        return _wrap(array, row).astype(dtype)
    if array.dtype == dtype:
        return array
    if row.is_float and row.bits <= 16 and dtype.kind != "f" and array.dtype == _FLOAT64:
        array = _to_odd_float32(array)  # ml_dtypes goes through f32: two roundings
    if element_type == "f4e2m1fn":  # has no NaN: minus zero stands for it
        array = np.where(np.isnan(array), array.dtype.type(-0.0), array)
    return array.astype(dtype)


def _wrap(array: AnyArray, row: ElementType) -> AnyArray:
    """The value modulo 2**bits, in an 8-bit integer."""
    wide = array.astype(np.int64)
    low = wide & ((1 << row.bits) - 1)
    if row.kind == "unsigned":
        return low.astype(np.uint8)
    sign = 1 << (row.bits - 1)
    return ((low ^ sign) - sign).astype(np.int8)


def _to_odd_float32(array: AnyArray) -> AnyArray:
    """Round f64 to f32 towards the odd neighbour.

    Rounding the result to nearest in a type at least two bits narrower equals rounding the f64 directly
    (Boldo and Melquiond, "When double rounding is odd", 2005).
    """
    near = array.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.uint32)
    bits = bits - (np.abs(back) > np.abs(array)).astype(np.uint32)
    bits = bits | ((back != array) & ~np.isnan(array)).astype(np.uint32)
    return np.asarray(bits).view(np.float32)


def computed(array: AnyArray, element_type: str) -> AnyArray:
    """What was computed more accurately than the type asks for, rounded to it: as `round_to`, but that f8e8m0fnu, which
    has no zero, is rounded to f32 first, so that numbers underflow as they do where f32 is computed in."""
    return round_to(array.astype(_FLOAT32) if element_type == "f8e8m0fnu" else array, element_type)


def convert(array: AnyArray, element_type: str) -> AnyArray:
    """The ``convert`` of HLO: floats to integers truncate, saturate, and send NaN to 0; complex loses its imaginary."""
    row = ELEMENT_TYPES[element_type]
    if row.dtype is None:
        raise ValueError(f"{element_type} has no arrays")
    wide = widen(array)
    if row.kind == "pred":
        return np.asarray(wide != 0)
    if wide.dtype.kind == "c" and not row.is_complex:
        wide = wide.real
    if row.is_integer and wide.dtype.kind == "f":
        return _saturate(wide, row)
    if row.is_float and row.bits <= 16 and wide.dtype.kind in "iub":
        wide = wide.astype(np.float64)
    return round_to(wide, element_type)


def stochastic(array: AnyArray, random: AnyArray, width: int, element_type: str) -> AnyArray:
    """The ``stochastic-convert`` of HLO: away from zero where the random bits lie below the fraction that is cut off.

    `random` holds unsigned integers of `width` bits; the fraction, of the distance between the two values of the
    result type around the operand, is taken in units of 2**-width.  Integers saturate, and NaN gives 0.
    """
    row = ELEMENT_TYPES[element_type]
    wide = widen(array).astype(np.float64)
    size = np.abs(wide)
    step = _step(size, element_type) if row.is_float else np.ones_like(size)
    steps = size / step
    whole = np.floor(steps)
    fraction = np.where(np.isfinite(steps), steps - whole, 0.0) * 2.0**width
    stepped = whole + (random < fraction.astype(np.uint64))
    return convert(np.asarray(np.copysign(np.where(np.isfinite(size), stepped * step, size), wide)), element_type)


def _step(size: AnyArray, element_type: str) -> AnyArray:
    """The distance between the values of a float type around `size`, as far as f64 tells them apart."""
    info: Any = ml_dtypes.finfo(ELEMENT_TYPES[element_type].dtype)  # type: ignore[no-untyped-call]
    _, exponent = np.frexp(size)
    return np.asarray(np.ldexp(1.0, np.maximum(exponent - 1, info.minexp) - info.nmant))


def integer_range(row: ElementType) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    if row.kind == "unsigned":
        return 0, (1 << row.bits) - 1
    return -(1 << (row.bits - 1)), (1 << (row.bits - 1)) - 1


def _saturate(array: AnyArray, row: ElementType) -> AnyArray:
    low, high = integer_range(row)
    whole = np.trunc(array.astype(np.float64))
    over, under = whole >= float(high), whole <= float(low)
    inside = np.where(over | under | np.isnan(whole), 0.0, whole)
    # float(high) of a 64-bit type rounds up to 2**bits, and no f64 lies between it and the true bound.
    carrier = np.uint64 if row.kind == "unsigned" else np.int64
    result = inside.astype(carrier)
    result = np.where(over, carrier(high), np.where(under, carrier(low), result))
    return round_to(result, row.name)
