"""Conversions between element types, reinterpretation of bits, reduced and stochastic rounding."""

from __future__ import annotations

from hlotool.codegen.cpu.math import lowprecision
from hlotool.codegen.cpu.math.elements import (
    compute_element,
    integer_bits,
    is_float,
    is_integer,
    is_low_precision,
    is_signed,
    kind,
    wrap,
)
from hlotool.codegen.cpu.math.vector import BITS, Vector, exponent_bias, mantissa_bits, where
from hlotool.ir.errors import UnsupportedError
from hlotool.ir.types import ELEMENT_TYPES

__all__ = ["bitcast", "convert", "float_to_integer", "reduce_precision", "stochastic"]


def convert(x: Vector, source: str, target: str) -> Vector:
    """`x` of real type `source` as real type `target`: integers wrap, floats round or saturate."""
    if source == target:
        return x
    if target == "pred":
        return x if source == "pred" else x.ne(0)
    if source == "pred":
        return x.cast("uitofp" if is_float(target) else "zext", compute_element(target))
    if is_integer(source):
        if is_integer(target):
            return wrap(x.resize(compute_element(target), is_signed(source)), target)
        word = "sitofp" if is_signed(source) else "uitofp"
        if is_low_precision(target) and integer_bits(source) > mantissa_bits("float"):
            return _narrow(lowprecision.from_double(x.cast(word, "double")), target)
        return _narrow(x.cast(word, compute_element(target)), target)
    if is_integer(target):
        return float_to_integer(x, target)
    if compute_element(source) == "float":
        if target == "f64":
            return x.cast("fpext", "double")
        return _narrow(x, target)
    if is_low_precision(target):
        return _narrow(lowprecision.from_double(x), target)
    return x.cast("fptrunc", "float")


def _narrow(x: Vector, target: str) -> Vector:
    return lowprecision.round_to(x, target) if is_low_precision(target) else x


def float_to_integer(x: Vector, target: str) -> Vector:
    """Towards zero, saturating; NaN gives 0."""
    width, signed = integer_bits(target), is_signed(target)
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    exact = width <= mantissa_bits(x.element)
    through = target if width > 32 else ("s32" if signed or width < 32 else "u32")
    limit = float(high) if exact else _below(high + 1, x.element)
    # `at_least` keeps the NaN, which would be undefined to convert: compare so that it falls to `low`.
    bounded = where(x.compare("ogt", low), x, low).at_most(limit)
    result = bounded.cast("fptosi" if is_signed(through) else "fptoui", compute_element(through))
    result = result.resize(compute_element(target), signed)
    if not exact:
        result = where(x.ge(float(high + 1)), high, result)
    return result if low == 0 else where(x.isnan(), 0, result)


def _below(power: int, element: str) -> float:
    """The float before a power of two."""
    return float(power - (power >> (mantissa_bits(element) + 1)))


def _to_bits(x: Vector, source: str) -> Vector:
    """The bits of a value as an integer of at least 8 bits, zero-extended."""
    sort = kind(source)
    if sort == "pred":
        return x.cast("zext", "i8")
    if sort == "float":
        return lowprecision.encode(x, source) if is_low_precision(source) else x.bits()
    width = integer_bits(source)
    return x & ((1 << width) - 1) if width < 8 else x


def bitcast(x: Vector, source: str, target: str) -> Vector:
    """The same bits as another real type of the same width."""
    widths = [ELEMENT_TYPES[t].bits for t in (source, target)]
    if widths[0] != widths[1]:
        raise UnsupportedError(f"bitcast-convert of {source} to {target} changes the width")
    bits = _to_bits(x, source)
    sort = kind(target)
    if sort == "pred":
        return bits.ne(0)
    if sort != "float":
        return wrap(bits, target)
    return lowprecision.decode(bits, target) if is_low_precision(target) else bits.as_float()


def reduce_precision(x: Vector, exponent_bits: int, fraction_bits: int) -> Vector:
    """Round to `fraction_bits` (ties to even) in the range of `exponent_bits`: above it infinity, below it zero."""
    width, stored = BITS[x.element], mantissa_bits(x.element)
    bits = x.bits()
    sign_mask = -(1 << (width - 1))
    infinity = ((1 << (width - 1 - stored)) - 1) << stored
    magnitude = bits & ~sign_mask
    result = magnitude
    drop = stored - fraction_bits
    if drop > 0:
        result = (magnitude + (magnitude.lshr(drop) & 1) + ((1 << (drop - 1)) - 1)) & -(1 << drop)
    bias, reduced_bias = exponent_bias(x.element), (1 << (exponent_bits - 1)) - 1
    if reduced_bias < bias:
        first_overflow = (bias + reduced_bias + 1) << stored
        first_normal = (bias - reduced_bias + 1) << stored
        result = where(result.ge(first_overflow), infinity, result)
        result = where(result.lt(first_normal), 0, result)
    signed = result | (bits & sign_mask)
    if fraction_bits == 0:
        return where(x.isnan(), infinity, signed).as_float()
    return where(x.isnan(), x, signed.as_float())


def stochastic(x: Vector, random: Vector, target: str, random_type: str) -> Vector:
    """Round up with the probability of the fraction: where random / 2^width lies below it.

    `x` is f32 or f64 (narrower floats come widened); saturates; NaN gives 0.
    """
    if not is_integer(target):
        raise UnsupportedError(f"stochastic-convert to {target}: only integer results have a meaning")
    width = integer_bits(random_type)
    magnitude = x.fabs()
    whole = magnitude.floor()
    scaled = (magnitude - whole) * 2.0**width
    threshold = float_to_integer(scaled, random_type)
    up = random.compare("ult", threshold)
    rounded = where(up, whole + 1.0, whole).copysign(x)
    return float_to_integer(rounded, target)
