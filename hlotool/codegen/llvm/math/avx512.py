"""Instructions of AVX-512 that mathematics is shorter with, on vectors that fill a register.

Intel, "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2.
"""

from __future__ import annotations

from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Vector, where

__all__ = ["exponent", "fits", "fraction", "mended", "picked", "rsqrt_estimate", "scaled"]


def fits(x: Vector) -> bool:
    """Whether the functions here take `x`."""
    return x.f.unit.instructions.scalef and x.lanes * BITS[x.element] in (128, 256, 512)


def scaled(x: Vector, k: Vector, mask: Vector | None = None) -> Vector:
    """x 2^k for an integral float k, rounded once; 0 in lanes outside `mask`, which cost nothing."""
    zero = x.like(0.0)
    if mask is not None and x.lanes < 8:  # whose masks are wider than the vector
        return where(mask, _rounded("mask.scalef", x, [x, k, zero, _mask(x, None)]), 0.0)
    return _rounded("mask.scalef", x, [x, k, zero, _mask(x, mask)])


def exponent(x: Vector) -> Vector:
    """The integral part of log2(|x|), as a float: -inf of 0, inf of infinities."""
    return _rounded("mask.getexp", x, [x, x.like(0.0), _mask(x, None)])


def fraction(x: Vector) -> Vector:
    """|x| times the power of two that brings it to at least 1 and less than 2."""
    return _rounded("mask.getmant", x, [x, Vector(x.f, "i32", 1, "0"), x.like(0.0), _mask(x, None)])


def rsqrt_estimate(x: Vector) -> Vector:
    """1 / sqrt(x) to 14 bits; exact of 0 and infinity."""
    return _call("rsqrt14", x, [x, x, _mask(x, None)])


def mended(result: Vector, x: Vector) -> Vector:
    """`result`, which is a logarithm: -inf at x = 0, inf at infinity, and NaN below 0."""
    # Of each class of x, from the lowest four bits up, whether to keep the result (0), or NaN (3), -inf (4), inf (5):
    # quiet NaN, signalling NaN, 0, 1, -inf, inf, negative, positive.
    table = x.bits().like(sum(response << 4 * place for place, response in enumerate((0, 0, 4, 0, 3, 5, 3, 0))))
    return _rounded("mask.fixupimm", x, [result, x, table, Vector(x.f, "i32", 1, "0"), _mask(x, None)])


def picked(table: Vector, codes: Vector) -> Vector:
    """In each lane the entry of a `table` of 16 floats that the low four bits of its code say, a byte or a word."""
    wide = codes.resize("i32", signed=False)
    return table.named(table.f.intrinsic(table.type, "llvm.x86.avx512.permvar.sf.512", [table, wide]))


def _mask(x: Vector, mask: Vector | None) -> Vector:
    kind = f"i{max(8, x.lanes)}"
    return Vector(x.f, kind, 1, "-1" if mask is None else x.f.let(f"bitcast {mask.type} {mask.name} to {kind}"))


def _rounded(name: str, x: Vector, arguments: list[Vector]) -> Vector:
    """With the rounding mode in force, which only the widest forms name."""
    widest = x.lanes * BITS[x.element] == 512
    return _call(name, x, [*arguments, Vector(x.f, "i32", 1, "4")] if widest else arguments)


def _call(name: str, x: Vector, arguments: list[Vector]) -> Vector:
    kind = f"{'ps' if x.element == 'float' else 'pd'}.{x.lanes * BITS[x.element]}"
    return x.named(x.f.intrinsic(x.type, f"llvm.x86.avx512.{name}.{kind}", arguments))
