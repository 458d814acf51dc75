"""Operations on the bits of values: bitcast-convert, reduce-precision, and keys of the floats' total order."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlotool.evaluate.rounding import widen
from hlotool.evaluate.values import AnyArray, Context, Operands, Rule
from hlotool.ir import ELEMENT_TYPES, Instruction, UnsupportedError, dtype_of

__all__ = ["RULES", "as_bits", "bitcast", "total_order_key"]

_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def as_bits(array: AnyArray) -> AnyArray:
    """The bits of each element as an unsigned integer of the same size."""
    whole = np.asarray(array, order="C")
    return whole.view(_UNSIGNED[array.dtype.itemsize])


def total_order_key(array: AnyArray) -> AnyArray:
    """Signed integers ordered as IEEE 754's totalOrder: -NaN < -inf < ... < -0 < +0 < ... < +inf < +NaN.

    Arrays of other kinds are their own keys.
    """
    wide = widen(array)
    if wide.dtype.kind != "f":
        return wide
    signed = as_bits(wide).view(_SIGNED[wide.dtype.itemsize])
    return np.asarray(np.where(signed < 0, signed ^ np.iinfo(signed.dtype).max, signed))


def bitcast(array: AnyArray, source: str, target: str) -> AnyArray:
    """Reinterpret bits.  A wider source gains a last dimension of parts, low part first; a narrower one loses it."""
    from_bits, to_bits = ELEMENT_TYPES[source].bits, ELEMENT_TYPES[target].bits
    dtype = ELEMENT_TYPES[target].dtype
    if dtype is None:
        raise ValueError(f"{target} has no arrays")
    whole = np.asarray(array, order="C")
    if from_bits >= 8 and to_bits >= 8:
        if from_bits == to_bits:
            return whole.view(dtype)
        if from_bits > to_bits:
            parts = from_bits // to_bits
            return whole.reshape(*whole.shape, 1).view(dtype).reshape(*whole.shape, parts)
        return whole.view(dtype).reshape(whole.shape[:-1])
    return _from_codes(_regroup(_to_codes(whole, from_bits), from_bits, to_bits), target)


def _to_codes(array: AnyArray, bits: int) -> AnyArray:
    """Elements as u64 of their low `bits` bits."""
    if array.dtype.kind == "b":
        return array.astype(np.uint64)
    return as_bits(array).astype(np.uint64) & np.uint64((1 << bits) - 1)


def _regroup(codes: AnyArray, from_bits: int, to_bits: int) -> AnyArray:
    if from_bits > to_bits:
        shifts = np.arange(0, from_bits, to_bits, dtype=np.uint64)
        return np.asarray((codes[..., None] >> shifts) & np.uint64((1 << to_bits) - 1))
    if from_bits < to_bits:
        shifts = np.arange(0, to_bits, from_bits, dtype=np.uint64)
        return np.asarray(np.bitwise_or.reduce(codes << shifts, axis=-1))
    return codes


def _from_codes(codes: AnyArray, target: str) -> AnyArray:
    row = ELEMENT_TYPES[target]
    dtype: np.dtype[Any] = np.dtype(row.dtype)
    if row.kind == "signed":
        sign = np.uint64(1 << (row.bits - 1))
        extended = (codes ^ sign) - sign
        return extended.astype(np.int64).astype(_SIGNED[dtype.itemsize]).view(dtype)
    if row.kind == "pred":
        return np.asarray(codes != 0)
    return codes.astype(_UNSIGNED[dtype.itemsize]).view(dtype)


def _bitcast_convert(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    source = instruction.operands[0].shape.element_type
    return bitcast(operands[0], source, instruction.shape.element_type)


def reduce_precision(array: AnyArray, exponent_bits: int, mantissa_bits: int) -> AnyArray:
    """Round floats to a format with fewer bits: nearest even; too large becomes inf, too small a signed zero.

    NaN stays NaN, even without mantissa bits to tell it from infinity.
    """
    own_mantissa, own_exponent = _FORMATS[array.dtype]
    unsigned: Any = _UNSIGNED[array.dtype.itemsize]
    bits = as_bits(array)
    width = 8 * array.dtype.itemsize
    sign = bits & unsigned(1 << (width - 1))
    magnitude = bits & unsigned((1 << (width - 1)) - 1)
    infinity = ((1 << own_exponent) - 1) << own_mantissa
    is_nan = magnitude > unsigned(infinity)
    dropped = own_mantissa - mantissa_bits
    if dropped > 0:
        last = (magnitude >> unsigned(dropped)) & unsigned(1)
        nearest = magnitude + (unsigned((1 << (dropped - 1)) - 1) + last)
        magnitude = nearest & unsigned(((1 << width) - 1) ^ ((1 << dropped) - 1))
    if exponent_bits < own_exponent:
        own_bias, bias = (1 << (own_exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        exponent = magnitude >> unsigned(own_mantissa)
        magnitude = np.where(exponent > unsigned(own_bias + bias), unsigned(infinity), magnitude)
        magnitude = np.where(exponent <= unsigned(own_bias - bias), unsigned(0), magnitude)
    return np.asarray(np.where(is_nan, bits, sign | magnitude)).astype(unsigned).view(array.dtype)


_FORMATS: dict[np.dtype[Any], tuple[int, int]] = {  # mantissa and exponent bits
    dtype_of("f16"): (10, 5),
    dtype_of("bf16"): (7, 8),
    dtype_of("f32"): (23, 8),
    dtype_of("f64"): (52, 11),
}


def _reduce_precision(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    if operands[0].dtype not in _FORMATS:
        raise UnsupportedError(f"{instruction.name}: reduce-precision of {instruction.shape.element_type}")
    attributes = instruction.attributes
    return reduce_precision(operands[0], attributes["exponent_bits"], attributes["mantissa_bits"])


RULES: dict[str, Rule] = {"bitcast-convert": _bitcast_convert, "reduce-precision": _reduce_precision}
