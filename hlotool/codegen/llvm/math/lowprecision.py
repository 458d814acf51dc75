"""Floats narrower than f32 as integer code on f32 lanes: rounding, encoding and decoding.

Rounding is to nearest even with gradual underflow.  What lies beyond the largest finite value, and NaN,
follows each format: IEEE-like formats have infinities; ``fn`` formats only a NaN; ``fnuz``
formats one NaN and no negative zero (OCP OFP8 and the Graphcore/AMD proposals, as ml_dtypes has them).
"""

from __future__ import annotations

import math

from hlotool.codegen.llvm.math.vector import keeps_excess
from hlotool.codegen.llvm.values import Vector, where
from hlotool.lazy_dataclass import dataclass

__all__ = ["FORMATS", "Format", "decode", "encode", "from_double", "round_result", "round_to"]

_SIGN = 1 << 31
_INFINITY = 0x7F800000
_NAN = 0x7FC00000


@dataclass(frozen=True, slots=True)
class Format:
    """A binary float: field widths, exponent bias, and what its top codes mean.

    `specials` is ``ieee`` (infinities and NaNs), ``fn`` (all ones is NaN), ``fnuz`` (minus zero's code is
    NaN), ``finite`` (neither) or ``scale`` (e8m0: powers of two only, all ones is NaN).
    """

    exponent: int
    mantissa: int
    bias: int
    specials: str

    @property
    def magnitude_bits(self) -> int:
        return self.exponent + self.mantissa

    @property
    def shift(self) -> int:
        """How many low bits of an f32 mantissa are dropped."""
        return 23 - self.mantissa

    @property
    def infinity(self) -> int:
        """The code of the first magnitude that is not finite."""
        if self.specials == "ieee":
            return ((1 << self.exponent) - 1) << self.mantissa
        return (1 << self.magnitude_bits) - (1 if self.specials in ("fn", "scale") else 0)

    @property
    def min_normal(self) -> int:
        """The f32 bits of the smallest normal number."""
        return (128 - self.bias) << 23

    @property
    def max_bits(self) -> int:
        """The f32 bits of the largest finite number."""
        return ((self.infinity - 1) << self.shift) + ((127 - self.bias) << 23)

    @property
    def magic(self) -> float:
        """Adding this to a magnitude below the normal range leaves the rounded code in the low bits."""
        return math.ldexp(1.0, 24 - self.bias - self.mantissa)


FORMATS: dict[str, Format] = {
    "bf16": Format(8, 7, 127, "ieee"),
    "f16": Format(5, 10, 15, "ieee"),
    "f8e5m2": Format(5, 2, 15, "ieee"),
    "f8e4m3": Format(4, 3, 7, "ieee"),
    "f8e3m4": Format(3, 4, 3, "ieee"),
    "f8e4m3fn": Format(4, 3, 7, "fn"),
    "f8e5m2fnuz": Format(5, 2, 16, "fnuz"),
    "f8e4m3fnuz": Format(4, 3, 8, "fnuz"),
    "f8e4m3b11fnuz": Format(4, 3, 11, "fnuz"),
    "f8e8m0fnu": Format(8, 0, 127, "scale"),
    "f4e2m1fn": Format(2, 1, 1, "finite"),
}


def round_result(x: Vector, element_type: str) -> Vector:
    """`round_to` for the result of an operation, unless it may keep its excess precision."""
    return x if keeps_excess(x.f.unit, element_type) else round_to(x, element_type)


def round_to(x: Vector, element_type: str) -> Vector:
    """The value of the narrow type nearest to ``float`` `x`, as ``float``."""
    if element_type == "f16" and x.f.unit.instructions.half:
        return x.cast("fptrunc", "half").cast("fpext", "float")
    form = FORMATS[element_type]
    bits = x.bits()
    if element_type == "bf16":
        rounded = (bits + (bits.lshr(16) & 1) + 0x7FFF) & -0x10000
        return where(x.isnan(), _NAN, rounded).as_float()
    magnitude = bits & (_SIGN - 1)
    if form.specials == "scale":
        return _round_scale(bits, magnitude).as_float()
    half = (1 << (form.shift - 1)) - 1
    result = (magnitude + (magnitude.lshr(form.shift) & 1) + half) & -(1 << form.shift)
    tiny = ((magnitude.as_float() + form.magic) - form.magic).bits()
    result = where(magnitude.lt(form.min_normal), tiny, result)
    overflow = {"ieee": _INFINITY, "finite": form.max_bits}.get(form.specials, _NAN)
    result = where(result.compare("ugt", form.max_bits), overflow, result)
    if form.specials == "ieee":
        result = where(x.isnan(), _NAN, result)
    if form.specials == "finite":  # has no NaN: minus zero stands for it
        result = where(x.isnan(), 0, result)
        bits = where(x.isnan(), -_SIGN, bits)
    signed = result | (bits & _SIGN)
    if form.specials == "fnuz":
        signed = where(result.eq(0), 0, signed)
    return signed.as_float()


def _round_scale(bits: Vector, magnitude: Vector) -> Vector:
    """e8m0: ties go up; NaN for all that is negative, zero or too large.

    2^-127 is the least, and only what is not above it goes there (as ml_dtypes has it).
    """
    least = where(magnitude.gt(0x400000), 0x800000, magnitude.like(0x400000))
    rounded = magnitude + 0x400000
    result = where(magnitude.lt(0x800000), least, rounded & _INFINITY)
    return where(bits.le(0) | rounded.compare("uge", _INFINITY), _NAN, result)


def encode(x: Vector, element_type: str) -> Vector:
    """The bits (i16 or i8) of ``float`` `x`, a value of the narrow type (or one with excess precision)."""
    form = FORMATS[element_type]
    if keeps_excess(x.f.unit, element_type):
        x = round_to(x, element_type)
    memory = "i16" if element_type in ("bf16", "f16") else "i8"
    if element_type == "f16" and x.f.unit.instructions.half:
        return x.cast("fptrunc", "half").bits()
    bits = x.bits()
    if element_type == "bf16":
        return bits.lshr(16).cast("trunc", memory)
    if form.specials == "scale":
        return bits.lshr(23).cast("trunc", memory)
    magnitude = bits & (_SIGN - 1)
    shifted = magnitude.lshr(form.shift)
    bits_of_magic = (151 - form.bias - form.mantissa) << 23
    tiny = (magnitude.as_float() + form.magic).bits() - bits_of_magic
    code = where(magnitude.lt(form.min_normal), tiny, shifted - ((127 - form.bias) << form.mantissa))
    special = magnitude.compare("ugt", form.max_bits)
    sign = bits.lshr(31 - form.magnitude_bits) & (1 << form.magnitude_bits)
    if form.specials == "ieee":
        code = where(special, (shifted & ((1 << form.mantissa) - 1)) | form.infinity, code)
    elif form.specials == "fn":
        code = where(special, form.infinity, code)
    elif form.specials == "fnuz":
        sign = where(magnitude.eq(0), 0, sign)
        return where(special, 1 << form.magnitude_bits, code | sign).cast("trunc", memory)
    return (code | sign).cast("trunc", memory)


def decode(raw: Vector, element_type: str) -> Vector:
    """The ``float`` of narrow bits `raw` (i16 or i8)."""
    if element_type == "f16" and raw.f.unit.instructions.half:
        return raw.as_float().cast("fpext", "float")
    form = FORMATS[element_type]
    code = raw.cast("zext", "i32")
    if element_type == "bf16":
        return code.shl(16).as_float()
    if form.specials == "scale":
        bits = where(code.eq(0), 0x400000, code.shl(23))
        return where(code.eq(255), _NAN, bits).as_float()
    widths = {"ieee": 5, "fn": 5, "fnuz": 4}  # of exponents; in fnuz formats no field is for infinities
    if raw.f.unit.instructions.half and form.exponent <= widths.get(form.specials, 0):
        return _decode_by_half(raw, form)
    magnitude = code & ((1 << form.magnitude_bits) - 1)
    shifted = magnitude.shl(form.shift)
    tiny = magnitude.cast("sitofp", "float") * math.ldexp(1.0, 1 - form.bias - form.mantissa)
    result = where(magnitude.lt(1 << form.mantissa), tiny.bits(), shifted + ((127 - form.bias) << 23))
    if form.specials == "ieee":
        result = where(magnitude.ge(form.infinity), shifted | _INFINITY, result)
    elif form.specials == "fn":
        result = where(magnitude.eq(form.infinity), _NAN, result)
    sign = code.shl(31 - form.magnitude_bits) & -_SIGN
    result = result | sign
    if form.specials == "fnuz":
        result = where(code.eq(1 << form.magnitude_bits), _NAN | _SIGN, result)
    return result.as_float()


def _decode_by_half(raw: Vector, form: Format) -> Vector:
    """The ``float`` of eight bits, by way of f16, which the processor converts, subnormal numbers too.

    f16 has as many bits of exponent, or more, and of mantissa: moved to their places there, the bits are the number but
    for a power of two.  What is no number has an exponent of its own, unless f16 has the same field.
    """
    mantissa = FORMATS["f16"].mantissa
    places = mantissa - form.mantissa
    if form.exponent == FORMATS["f16"].exponent:
        return raw.cast("zext", "i16").shl(places).as_float().cast("fpext", "float")
    moved = raw.cast("sext", "i16").shl(places)
    lower, scale = (1 << (form.magnitude_bits + places)) - 1, math.ldexp(1.0, FORMATS["f16"].bias - form.bias)
    half, first = moved & (lower - 0x8000), form.infinity << places
    if form.specials in ("fn", "fnuz"):  # NaN has a single magnitude, which gets all bits of an f16's exponent
        found = (moved & lower).eq(first) if form.specials == "fn" else half.eq(-0x8000)
        half = half | where(found, moved.like(0x7E00), moved.like(0))
        return half.as_float().cast("fpext", "float") * scale
    magnitude = moved & lower
    value = half.as_float().cast("fpext", "float") * scale
    sign = value.bits() & -_SIGN
    fraction = magnitude.cast("zext", "i32").shl(form.shift - places) & ((1 << 23) - 1)
    return where(magnitude.compare("uge", first), fraction | _INFINITY | sign, value.bits()).as_float()


def from_double(x: Vector) -> Vector:
    """``double`` to ``float`` rounded to odd, so that a second rounding to fewer bits is still correct.

    Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE Trans. Computers 2008.  What is rounded
    here may be subnormal or overflow, so the nearest number is taken first and moved where it is not exact.
    """
    near = x.cast("fptrunc", "float")
    back = near.cast("fpext", "double")
    bits = near.bits()
    bits = where(back.fabs().gt(x.fabs()), bits - 1, bits)
    return where(back.compare("one", x), bits | 1, bits).as_float()
