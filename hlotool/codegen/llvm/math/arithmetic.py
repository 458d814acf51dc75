"""Basic floating-point operations: those that are exact or correctly rounded."""

from __future__ import annotations

from hlotool.codegen.llvm.control import conditional
from hlotool.codegen.llvm.math.vector import any_lane, exact_fma, flushes, mantissa_bits, outlined
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Vector, where

__all__ = ["compare", "maximum", "minimum", "remainder", "sign"]


def maximum(a: Vector, b: Vector) -> Vector:
    """The larger; NaN if either is NaN; of zeros of both signs `a`.  One instruction against a constant."""
    if a.is_constant and not b.is_constant:
        if _may_equal_zero(a):
            return where(a.compare("oge", b), a, b)
        a, b = b, a
    return a.at_least(b) if b.is_constant and not _is_nan(b) else _of_two("maximum", "oge", a, b)


def minimum(a: Vector, b: Vector) -> Vector:
    """The smaller; NaN if either is NaN; of zeros of both signs `a`.  One instruction against a constant."""
    if a.is_constant and not b.is_constant:
        if _may_equal_zero(a):
            return where(a.compare("ole", b), a, b)
        a, b = b, a
    return a.at_most(b) if b.is_constant and not _is_nan(b) else _of_two("minimum", "ole", a, b)


def _of_two(intrinsic: str, predicate: str, a: Vector, b: Vector) -> Vector:
    """NaN if either is NaN; else `a` if it compares so with `b`, as zeros do.

    x86's instructions choose so by themselves, as this comparison of theirs does; LLVM's intrinsics may have their
    operands in any order.
    """
    machine = a.f.unit.machine
    if machine is not None and machine.architecture == "x86_64":
        chosen = where(b.compare({"oge": "ogt", "ole": "olt"}[predicate], a), b, a)
        return where(b.isnan(), b, chosen)
    return where(a.compare(predicate, b), a, b.call(intrinsic, a, flags="nsz"))


def _may_equal_zero(x: Vector) -> bool:
    """Whether constant `x` is a zero of some sign."""
    return x.name in ("zeroinitializer", x.like(0.0).name, x.like(-0.0).name)


def _is_nan(x: Vector) -> bool:
    """Whether constant `x` may be NaN (any spelling that is not a finite splat counts)."""
    digits = x.name.rpartition("0x")[2].rstrip(")")
    try:
        return int(digits, 16) & ((1 << 63) - 1) > 0x7FF << 52
    except ValueError:
        return x.name != "zeroinitializer"


def sign(x: Vector) -> Vector:
    """-1 or 1; zeros keep their sign and NaN stays NaN.  What is flushed compares equal to zero, and is not."""
    if flushes(x.f.unit):
        return where(x.isnan(), x, where(x.compare("one", 0.0), 1.0, x.like(0.0)).copysign(x))
    return where(x.compare("one", 0.0), x.like(1.0).copysign(x), x)


def compare(a: Vector, b: Vector, direction: str, total_order: bool) -> Vector:
    """IEEE comparison, or the total order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    word = direction.lower()
    if not total_order:
        return a.compare("une" if word == "ne" else "o" + word, b)
    a, b = _ordered_bits(a), _ordered_bits(b)
    return a.compare(word if word in ("eq", "ne") else "s" + word, b)


def _ordered_bits(x: Vector) -> Vector:
    """Bits as an integer whose signed order is the total order of floats."""
    bits = x.bits()
    return bits ^ bits.ashr(BITS[bits.element] - 1).lshr(1)


def remainder(a: Vector, b: Vector) -> Vector:
    """C's fmod, exact: the sign of the dividend."""
    return outlined("fmod", [a, b], _remainder_body)


def _remainder_body(a: Vector, b: Vector) -> Vector:
    """a - trunc(a / b) b with one rounding is exact while the quotient fits the mantissa; else the C library.

    The quotient may have been rounded up to the next integer, which one addition of the divisor mends.  Remainders need
    no rounding, so that subnormal ones stay where denormals are flushed, too: tiny operands take the library then.
    """
    magnitude, divisor = a.fabs(), b.fabs()
    if a.element == "float":  # products of 24 and up to 28 bits are exact in double
        wide, by = magnitude.cast("fpext", "double"), divisor.cast("fpext", "double")
        quotient = (wide / by).call("trunc")
        result = (wide - quotient * by).cast("fptrunc", "float")
        limit = 2.0**28
    else:
        quotient = (magnitude / divisor).call("trunc")
        result = exact_fma(-quotient, divisor, magnitude)
        result = where(result.lt(0.0), result + divisor, result)
        limit = 2.0 ** mantissa_bits("double")
    result = where(divisor.compare("oeq", float("inf")) & magnitude.lt(float("inf")), magnitude, result)
    result = result.copysign(a)
    far = quotient.ge(limit) & magnitude.lt(float("inf")) & divisor.gt(0.0)
    if flushes(a.f.unit):
        normal, safe = (2.0**-126, 2.0**-100) if a.element == "float" else (2.0**-1022, 2.0**-900)
        far = far | _is_between_zero_and(normal, magnitude) | _is_between_zero_and(safe, divisor)
    (result,) = conditional(any_lane(far), lambda: (a.binary("frem", "srem", b),), result)
    return result


def _is_between_zero_and(limit: float, magnitude: Vector) -> Vector:
    """By its bits: subnormal numbers are some."""
    most = magnitude.like(limit).bits()
    return (magnitude.bits() - 1).compare("ult", most - 1)
