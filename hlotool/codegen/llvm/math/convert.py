"""Conversions between element types, reinterpretation of bits, reduced and stochastic rounding."""

from __future__ import annotations

from hlotool.codegen.llvm.math import lowprecision
from hlotool.codegen.llvm.math.elements import (
    compute_element,
    integer_bits,
    is_float,
    is_integer,
    is_low_precision,
    is_signed,
    kind,
    wrap,
)
from hlotool.codegen.llvm.math.vector import mantissa_bits
from hlotool.codegen.llvm.values import Vector, where
from hlotool.ir.errors import UnsupportedError
from hlotool.ir.types import ELEMENT_TYPES

__all__ = ["bitcast", "convert", "float_to_integer", "reduce_precision", "stochastic"]

_LEAST_SCALE = 0x400000  # the bits of 2**-127 in f32, where it is subnormal: arithmetic may take it for zero


def convert(x: Vector, source: str, target: str) -> Vector:
    """`x` of real type `source` as real type `target`: integers wrap, floats round or saturate."""
    if source == target:
        return x
    if target == "pred":
        if source == "f8e8m0fnu":  # has no zero, and its least number is subnormal in f32, where it may count as one
            return x.bits().ne(0)
        return x if source == "pred" else x.ne(0)
    if source == "pred":
        if is_integer(target):
            return wrap(x.cast("zext", compute_element(target)), target)
        value = x.cast("uitofp", compute_element(target))
        return _narrow(value, target) if target == "f8e8m0fnu" else value  # which has no zero
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
            wide = x.cast("fpext", "double")
            return where(x.bits().eq(_LEAST_SCALE), 2.0**-127, wide) if source == "f8e8m0fnu" else wide
        return _narrow(x, target)
    if is_low_precision(target):
        return _narrow(lowprecision.from_double(x), target)
    return x.cast("fptrunc", "float")


def _narrow(x: Vector, target: str) -> Vector:
    return lowprecision.round_result(x, target) if is_low_precision(target) else x


def float_to_integer(x: Vector, target: str) -> Vector:
    """Towards zero, saturating; NaN gives 0."""
    width, signed = integer_bits(target), is_signed(target)
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    exact = width <= mantissa_bits(x.element)
    through = target if width > 32 else ("s32" if signed or width < 32 else "u32")
    limit = float(high if exact else high + 1 - (high + 1 >> mantissa_bits(x.element) + 1))  # the last float to fit
    # `at_least` keeps the NaN, which would be undefined to convert: compare so that it falls to `low`.
    bounded = where(x.compare("ogt", low), x, low).at_most(limit)
    result = bounded.cast("fptosi" if is_signed(through) else "fptoui", compute_element(through))
    result = result.resize(compute_element(target), signed)
    if not exact:
        result = where(x.ge(float(high + 1)), high, result)
    return result if low == 0 else where(x.isnan(), 0, result)


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
    return _from_bits(_to_bits(x, source), target)


def _from_bits(bits: Vector, target: str) -> Vector:
    """The value of a type whose bits are an integer of its size (at least 8 bits)."""
    sort = kind(target)
    if sort == "pred":
        return bits.ne(0)
    if sort != "float":
        return wrap(bits, target)
    return lowprecision.decode(bits, target) if is_low_precision(target) else bits.as_float()


_WIDE = {"f32": lowprecision.Format(8, 23, 127, "ieee"), "f64": lowprecision.Format(11, 52, 1023, "ieee")}


def reduce_precision(x: Vector, element_type: str, exponent_bits: int, fraction_bits: int) -> Vector:
    """Round the bits that `element_type` has to `fraction_bits` (ties to even) in the range of `exponent_bits`: above
    it what the type overflows to, below it zero.  NaN stays NaN."""
    form = _WIDE.get(element_type) or lowprecision.FORMATS[element_type]
    bits = _to_bits(x, element_type)
    # e8m0 has no sign, of fnuz types NaN is the bits of minus zero
    magnitude = bits & ((1 << form.magnitude_bits) - 1)
    sign = bits & ~((1 << form.magnitude_bits) - 1)
    result = magnitude
    drop = form.mantissa - fraction_bits
    if drop > 0:
        result = (magnitude + (magnitude.lshr(drop) & 1) + ((1 << (drop - 1)) - 1)) & -(1 << drop)
    over = result.compare("uge", form.infinity)
    under: Vector | None = None
    if exponent_bits < form.exponent:
        reduced_bias = (1 << (exponent_bits - 1)) - 1
        over = over | result.compare("uge", (form.bias + reduced_bias + 1) << form.mantissa)
        under = result.compare("ult", (form.bias - reduced_bias + 1) << form.mantissa)
    overflow = {"finite": form.infinity - 1, "fnuz": 1 << form.magnitude_bits}.get(form.specials, form.infinity)
    if under is not None:
        result = where(under, form.infinity if form.specials == "scale" else 0, result)
    result = where(over, overflow, result)
    if form.specials == "fnuz":
        sign = where(over | result.eq(0), 0, sign)
    reduced = _from_bits(result | sign, element_type)
    return where(x.isnan(), x, reduced)


def stochastic(x: Vector, source: str, random: Vector, random_type: str, target: str) -> Vector:
    """Away from zero where `random` lies below the fraction that is cut off, in units of 2^-width; integers saturate,
    and NaN gives 0.  The fraction is one of the distance between the values of `target` around `x`.

    Computed in double, which holds every operand and all steps of it.
    """
    wide = x.cast("fpext", "double")
    if target == "f64":
        return wide
    size = wide.fabs()
    step = _step(size, target) if is_float(target) else None
    steps = size if step is None else size / step
    below = steps.floor()
    fraction = float_to_integer((steps - below) * 2.0 ** integer_bits(random_type), random_type)
    stepped = where(random.compare("ult", fraction), below + 1.0, below)
    if step is not None:
        stepped = stepped * step
    result = where(size.lt(float("inf")), stepped, size).copysign(wide)
    return convert(result, "f64", target)


def _step(size: Vector, target: str) -> Vector:
    """The distance between the values of float type `target` around ``double`` `size`: a power of two."""
    form = _WIDE.get(target) or lowprecision.FORMATS[target]
    least = -form.bias if form.specials == "scale" else 1 - form.bias
    power = (size.bits() & (0x7FF << 52)).as_float()
    return power.at_least(2.0**least) * 2.0**-form.mantissa
