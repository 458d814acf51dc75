"""Operations on the bits of values: bitcast-convert, reduce-precision, and keys of the floats' total order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.rounding import widen
from hlotool.evaluate.values import AnyArray, Operands
from hlotool.ir import ELEMENT_TYPES, Instruction, dtype_of
from hlotool.ir.shape_written import bitcast_rows

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
    # Widening would make NaNs with different bits the same.
    wide = array if array.dtype in _MANY_NANS else widen(array)
    if wide.dtype not in _MANY_NANS:
        return wide
    signed = as_bits(wide).view(_SIGNED[wide.dtype.itemsize])
    return np.asarray(np.where(signed < 0, signed ^ np.iinfo(signed.dtype).max, signed))


_MANY_NANS = {dtype_of(t) for t in ("f8e3m4", "f8e4m3", "f8e5m2", "bf16", "f16", "f32", "f64")}


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
    if from_bits == 128:  # c128 goes by its two halves
        return bitcast(bitcast(whole, source, "u64"), "u64", target).reshape(*whole.shape, 128 // to_bits)
    if to_bits == 128:
        halves = whole.reshape(*whole.shape[:-1], 2, 64 // from_bits)
        return bitcast(bitcast(halves, source, "u64"), "u64", target)
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
    given, shape = instruction.operands[0].shape, instruction.shape
    rows = bitcast_rows(given, shape)
    if rows is not None:
        return bitcast(operands[0].reshape(rows), given.element_type, shape.element_type).reshape(shape.dimensions)
    return bitcast(operands[0], given.element_type, shape.element_type)


def reduce_precision(array: AnyArray, exponent_bits: int, mantissa_bits: int) -> AnyArray:
    """Round floats to a format with fewer bits: nearest even; too large becomes inf, too small a signed zero.

    NaN stays NaN, even without mantissa bits to tell it from infinity.  Types without infinities overflow as
    conversions to them do: to NaN, or to the largest number where there is no NaN.
    """
    dtype: Any = array.dtype
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    own_mantissa, own_exponent = int(info.nmant), int(info.nexp)
    signed = dtype != dtype_of("f8e8m0fnu")
    unsigned: Any = _UNSIGNED[dtype.itemsize]
    bits = as_bits(array)
    top = own_mantissa + own_exponent
    sign = bits & unsigned(int(signed) << top)
    magnitude = (bits ^ sign).astype(np.uint64)
    largest = int(as_bits(np.asarray(info.max, dtype)))
    dropped = own_mantissa - mantissa_bits
    if dropped > 0:
        last = (magnitude >> np.uint64(dropped)) & np.uint64(1)
        magnitude += np.uint64((1 << (dropped - 1)) - 1) + last
        magnitude &= np.uint64(((1 << 64) - 1) ^ ((1 << dropped) - 1))
    over, under = magnitude > largest, np.zeros(array.shape, np.bool_)
    if exponent_bits < own_exponent:
        own_bias = int(as_bits(np.asarray(1, dtype))) >> own_mantissa
        bias = (1 << (exponent_bits - 1)) - 1
        exponent = magnitude >> np.uint64(own_mantissa)
        over |= exponent > own_bias + bias
        under = exponent <= own_bias - bias
    with np.errstate(all="ignore"):
        overflow = as_bits(np.asarray(np.inf, np.float32).astype(dtype))
        underflow = as_bits(np.asarray(0, np.float32).astype(dtype))
    magnitude = np.where(over, overflow, np.where(under, underflow, magnitude))
    if "fnuz" in dtype.name:  # whose negative zero is NaN
        sign = np.where((magnitude == 0) | over, unsigned(0), sign)
    return np.asarray(np.where(np.isnan(array), bits, sign | magnitude.astype(unsigned))).astype(unsigned).view(dtype)


def _reduce_precision(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    attributes = instruction.attributes
    return reduce_precision(operands[0], attributes["exponent_bits"], attributes["mantissa_bits"])


RULES: dict[str, Rule] = {"bitcast-convert": _bitcast_convert, "reduce-precision": _reduce_precision}
