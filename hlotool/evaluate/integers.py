"""Integer arithmetic where HLO says more than NumPy: division by zero, wide shifts, powers, counting bits.

All functions take and give arrays of one native integer type; `bits` is the width of the HLO type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hlotool.evaluate.values import AnyArray

__all__ = [
    "divide", "leading_zeros", "multiply_high", "ones", "power", "remainder", "shift_left", "shift_right",
    "shift_right_logical",
]  # fmt: skip


def divide(left: AnyArray, right: AnyArray) -> AnyArray:
    """Truncating quotient; x / 0 is -1 (all ones), and the smallest value over -1 is itself."""
    zero, minus_one = right == 0, right == _minus_one(right)
    signed = right.dtype.kind == "i"
    divisor = np.where(zero | minus_one, _of(right, 1), right) if signed else np.where(zero, _of(right, 1), right)
    quotient = np.floor_divide(left, divisor)
    if signed:
        inexact = quotient * divisor != left
        quotient = quotient + (inexact & ((left < 0) != (divisor < 0))).astype(right.dtype)
        quotient = np.where(minus_one, np.negative(left), quotient)
    return np.asarray(np.where(zero, _minus_one(right), quotient))


def remainder(left: AnyArray, right: AnyArray) -> AnyArray:
    """Remainder with the dividend's sign; x % 0 is x, and anything % -1 is 0."""
    zero = right == 0
    unit = zero | (right == _minus_one(right)) if right.dtype.kind == "i" else zero
    rest = np.fmod(left, np.where(unit, _of(right, 1), right))
    return np.asarray(np.where(zero, left, rest))


def _of(like: AnyArray, value: int) -> Any:
    return like.dtype.type(value)


def _minus_one(like: AnyArray) -> Any:
    return _of(like, -1 if like.dtype.kind == "i" else int(np.iinfo(like.dtype).max))


def shift_left(left: AnyArray, right: AnyArray, bits: int) -> AnyArray:
    """Zero where the amount is negative or at least the width."""
    inside = (right >= 0) & (right < bits)
    return np.asarray(np.where(inside, np.left_shift(left, np.where(inside, right, _of(right, 0))), _of(left, 0)))


def shift_right(left: AnyArray, right: AnyArray, bits: int) -> AnyArray:
    """Arithmetic shift; an amount outside the width leaves only the sign.  Unsigned types shift as signed ones do."""
    signed = left.view(np.dtype(f"i{left.dtype.itemsize}")) if left.dtype.kind == "u" else left
    unused = 8 * left.dtype.itemsize - bits
    signed = (signed << unused) >> unused if unused else signed
    inside = (right >= 0) & (right < bits)
    amount = np.where(inside, right, _of(right, bits - 1)).astype(signed.dtype)
    return np.asarray(np.right_shift(signed, amount)).astype(left.dtype)


def shift_right_logical(left: AnyArray, right: AnyArray, bits: int) -> AnyArray:
    """Shift the bit pattern, filling with zeros."""
    raw = _pattern(left, bits)
    inside = (right >= 0) & (right < bits)
    amount = np.where(inside, right, _of(right, 0)).astype(raw.dtype)
    return np.asarray(np.where(inside, np.right_shift(raw, amount), _of(raw, 0))).astype(left.dtype)


def _pattern(array: AnyArray, bits: int) -> AnyArray:
    """Bits as an unsigned integer of the same size, those above the width cleared."""
    raw = array.astype(np.dtype(f"u{array.dtype.itemsize}"))
    return np.asarray(raw & raw.dtype.type((1 << bits) - 1))


def multiply_high(left: AnyArray, right: AnyArray, bits: int) -> AnyArray:
    """The upper `bits` of the product of twice the width."""
    if bits < 64:
        wide = np.dtype(f"{left.dtype.kind}8")
        return np.asarray((left.astype(wide) * right.astype(wide)) >> wide.type(bits)).astype(left.dtype)
    low = np.uint64(0xFFFF_FFFF)
    half = np.uint64(32)
    a, b = left.astype(np.uint64), right.astype(np.uint64)
    middle = (a >> half) * (b & low) + (((a & low) * (b & low)) >> half)
    carried = (a & low) * (b >> half) + (middle & low)
    high = (a >> half) * (b >> half) + (middle >> half) + (carried >> half)
    if left.dtype.kind == "i":  # a negative factor stands for itself plus 2**64
        high = high - np.where(left < 0, b, np.uint64(0)) - np.where(right < 0, a, np.uint64(0))
    return np.asarray(high).astype(left.dtype)


def power(base: AnyArray, exponent: AnyArray) -> AnyArray:
    """Wrapping power by squaring; a negative exponent gives the truncated quotient 1 / base**-exponent."""
    remaining = exponent.astype(np.dtype(f"u{exponent.dtype.itemsize}"))
    base, remaining = np.broadcast_arrays(base, remaining)
    result, square = np.ones_like(base), base
    while remaining.any():
        result = np.where(remaining & 1, result * square, result)
        square = square * square
        remaining = remaining >> 1
    if base.dtype.kind == "u":
        return np.asarray(result)
    odd = (exponent & 1) == 1
    inverse = np.where(base == 1, 1, np.where(base == -1, np.where(odd, -1, 1), 0)).astype(base.dtype)
    return np.asarray(np.where(exponent < 0, inverse, result))


_ONES_IN_BYTE = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)


def ones(array: AnyArray, bits: int) -> AnyArray:
    """Number of set bits."""
    raw = np.array(_pattern(array, bits), order="C")
    parts = raw.reshape((*raw.shape, 1)).view(np.uint8)
    return np.asarray(_ONES_IN_BYTE[parts].sum(axis=-1)).astype(array.dtype)


def leading_zeros(array: AnyArray, bits: int) -> AnyArray:
    """Zeros above the highest set bit; the width for 0."""
    filled = _pattern(array, bits)
    step = 1
    while step < bits:
        filled = filled | (filled >> filled.dtype.type(step))
        step *= 2
    return np.asarray(bits - ones(filled, bits).astype(np.int64)).astype(array.dtype)
