"""Exponentials: exp, exp - 1 and the logistic function.

Reduction after Cody and Waite (Software Manual for the Elementary Functions, 1980): x = k ln 2 + r with
ln 2 in two parts, the first short enough that k times it is exact without a fused multiply.  The
polynomials for (e^r - 1 - r) / r^2 on |r| <= ln(2)/2 are minimax fits (Remez exchange in extended precision).
"""

from __future__ import annotations

from hlotool.codegen.llvm.math import avx512
from hlotool.codegen.llvm.math.vector import exponent_bias, flushes, fma, horner, mantissa_bits, product_error
from hlotool.codegen.llvm.values import Vector, where
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "DOUBLE", "LOG2_E", "SINGLE", "Constants", "exponential", "exponential_minus_one", "for_type",
    "logistic", "power_of_two", "reduce", "scale", "scaled_exponential",
]  # fmt: skip

LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class Constants:
    """What depends on the precision.  `magic` added to a number leaves its nearest integer in the low bits."""

    high: float
    low: float  # exp(x) is 0 below this
    ln2_high: float
    ln2_low: float
    magic: float
    tail: tuple[float, ...]
    nothing: float  # exp(x) - 1 is -1 below this
    identity: float  # exp(x) - 1 is x below this in magnitude


SINGLE = Constants(
    high=89.0,
    low=-104.0,
    ln2_high=0.693359375,
    ln2_low=-2.12194440054690583e-4,
    magic=1.5 * 2.0**23,
    tail=(0.5, 0.16666523, 0.041666273, 0.008368622, 0.0013954039),
    nothing=-18.0,
    identity=2.0**-30,
)

DOUBLE = Constants(
    high=710.0,
    low=-746.0,
    ln2_high=float.fromhex("0x1.62e42feep-1"),
    ln2_low=float.fromhex("0x1.a39ef35793c76p-33"),
    magic=1.5 * 2.0**52,
    tail=(
        0.5, 0.16666666666666674, 0.04166666666666666, 0.008333333333324497, 0.0013888888888894078,
        0.00019841269878007511, 2.4801587342837023e-05, 2.755725275494253e-06, 2.7557208664500407e-07,
        2.510602945984413e-08, 2.0951755779863437e-09,
    ),
    nothing=-40.0,
    identity=2.0**-60,
)  # fmt: skip


def for_type(x: Vector) -> Constants:
    return SINGLE if x.element == "float" else DOUBLE


def reduce(x: Vector, low: Vector | None = None, factor: float = 1.0) -> tuple[Vector, Vector, Vector]:
    """k as float, k in the low bits of an integer, and r = x + low - k ln 2 / `factor` for the power of two `factor`.

    `factor` times |x| must be within the clamped range.
    """
    c = for_type(x)
    shifted = fma(x, LOG2_E * factor, c.magic)
    k = shifted - c.magic
    r = fma(k, -c.ln2_high / factor, x)
    r = fma(k, -c.ln2_low / factor, r) if low is None else r + fma(k, -c.ln2_low / factor, low)
    return k, shifted.bits(), r


def scale(p: Vector, k: Vector, k_bits: Vector, offset: int) -> Vector:
    """p 2^(k + offset), rounded once where the result is subnormal."""
    if avx512.fits(p):
        return avx512.scaled(p, k + float(offset) if offset else k)
    if p.f.unit.instructions.scalef:  # which `llvm.ldexp` is made of
        exponent = (k + float(offset) if offset else k).cast("fptosi", "i32")
        return p.named(p.f.intrinsic(p.type, f"llvm.ldexp.{p.suffix}.{exponent.suffix}", [p, exponent]))
    width = mantissa_bits(p.element)
    one = exponent_bias(p.element) << width
    # Two factors, since 2^k alone may be subnormal or overflow.
    exponent = k_bits - (_bits_of_magic(p) - offset)
    first = exponent.ashr(1)
    second = exponent - first
    return p * (first.shl(width) + one).as_float() * (second.shl(width) + one).as_float()


def _bits_of_magic(x: Vector) -> int:
    """The bits of 1.5 * 2^mantissa."""
    width = mantissa_bits(x.element)
    return ((exponent_bias(x.element) + width) << width) | (1 << (width - 1))


def power_of_two(k: Vector, k_bits: Vector, offset: int) -> Vector:
    """2^(k + offset) for a normal result."""
    if avx512.fits(k):
        return avx512.scaled(k.like(2.0**offset), k)
    width = mantissa_bits(k.element)
    return (k_bits.shl(width) + ((exponent_bias(k.element) + offset) << width)).as_float()


def scaled_exponential(
    x: Vector, offset: int = 0, nonpositive: bool = False, low: Vector | None = None
) -> Vector:
    """e^(x + low) 2^offset over the whole range; `nonpositive` promises x <= 0 and saves the upper clamp.

    Where the result is zero, zero is put in: computing it would underflow, for which processors take a hundred times
    as long, and masked softmaxes are full of it.
    """
    c = for_type(x)
    if avx512.fits(x):
        k, _, r = reduce(x if nonpositive else x.at_most(c.high - offset), low)
        kept = x.compare("uge", c.low)
        return avx512.scaled(horner(r, [2.0**offset * p for p in (1.0, 1.0, *c.tail)]), k, kept)
    vanishes = x.lt(c.low)
    bounded = where(vanishes, 0.0, x)
    if not nonpositive:
        bounded = bounded.at_most(c.high - offset)
    k, k_bits, r = reduce(bounded, low)
    p = horner(r, (1.0, 1.0, *c.tail))
    if nonpositive and not p.f.unit.instructions.scalef:
        # Half of the exponents are enough: one power is in range, halved.
        half = (exponent_bias(p.element) + 1) // 2
        return where(vanishes, 0.0, p * power_of_two(k, k_bits, half) * 2.0 ** (offset - half))
    return where(vanishes, 0.0, scale(p, k, k_bits, offset))


def exponential(x: Vector) -> Vector:
    return scaled_exponential(x)


def exponential_minus_one(x: Vector) -> Vector:
    """2 (s q + s - 1/2) with q = e^r - 1 and s = 2^(k - 1), halved so that e^x may come up to where it overflows."""
    c = for_type(x)
    k, k_bits, r = reduce(x.at_least(c.nothing).at_most(c.high))
    q = fma(r * r, horner(r, c.tail), r)
    s = power_of_two(k, k_bits, -1)
    result = fma(s, q, s - 0.5) * 2.0
    if flushes(x.f.unit):  # half of a tiny number would be zero: close to zero q is the result
        result = where(x.fabs().lt(c.identity), q, result)
    return result.copysign(x)


def logistic(x: Vector) -> Vector:
    """1 / (1 + e^-x) from e = e^-|x|, accurate down to subnormal results; f64 has 1 / (1 + e) in two numbers."""
    e = scaled_exponential(-x.fabs(), nonpositive=True)
    total = e + 1.0
    if x.element == "float":
        return where(x.lt(0.0), e, 1.0) / total
    inverse = 1.0 / total
    low = -product_error(total, inverse, x.like(1.0)) - inverse * (e - (total - 1.0))
    top = where(x.lt(0.0), e, 1.0)
    return fma(top, inverse, top * inverse * low)
