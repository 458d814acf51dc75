"""Distances between arrays in units of the last place."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["Array", "distance"]

Array: TypeAlias = np.ndarray[Any, Any]


def distance(got: Array, want: Array, signed_zeros: bool = False) -> Array:
    """How many numbers of the type lie from `got` to `want`, for each element, as f64.

    Infinity is the number after the largest.  NaN is at no distance from NaN, whatever its bits, and infinitely far
    from everything else.  With `signed_zeros` +0 and -0 are two numbers.  Different integers are infinitely far apart.

    Complex numbers are compared part by part with `signed_zeros`; otherwise by the length of the difference, in units
    of the length of `want`: the parts of a result may cancel, its length does not.
    """
    assert got.shape == want.shape, (got.shape, want.shape)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    if got.dtype.kind == "c":
        return _complex_distance(got, want, signed_zeros)
    if got.dtype.kind in "biu" or got.dtype.name.startswith(("int", "uint")):
        return np.where(got == want, 0.0, np.inf)
    with np.errstate(all="ignore"):
        nans = np.isnan(got), np.isnan(want)
    a, b = (_rank(x, signed_zeros) for x in (got, want))
    return np.where(nans[0] & nans[1], 0.0, np.where(nans[0] | nans[1], np.inf, np.abs(a - b).astype(np.float64)))


def _rank(x: Array, signed_zeros: bool) -> Array:
    """The place of each number among all of its type."""
    size = x.dtype.itemsize
    bits = np.ascontiguousarray(x).view(f"u{size}").reshape(x.shape)
    if x.dtype.name == "float8_e8m0fnu":  # has no sign
        return bits.astype(np.longdouble)
    width = 4 if x.dtype.name == "float4_e2m1fn" else 8 * size
    sign = bits.dtype.type(1 << (width - 1))
    magnitude = (bits & (sign - bits.dtype.type(1))).astype(np.longdouble)
    return np.where((bits & sign) != 0, -magnitude - (1 if signed_zeros else 0), magnitude)


def _complex_distance(got: Array, want: Array, parts: bool) -> Array:
    if parts:
        return np.asarray(
            np.maximum(distance(got.real, want.real, True), distance(got.imag, want.imag, True)), np.float64
        )
    wide = np.clongdouble
    with np.errstate(all="ignore"):
        unit = np.finfo(want.real.dtype).eps * np.maximum(
            np.abs(want.astype(wide)), np.finfo(want.real.dtype).smallest_normal
        )
        apart = np.abs(got.astype(wide) - want.astype(wide)) / unit
    finite = np.isfinite(got) & np.isfinite(want)
    return np.where(finite, apart, np.where(_same_end(got, want), 0.0, np.inf)).astype(np.float64)


def _same_end(got: Array, want: Array) -> Array:
    """Both infinite (in some part), or else both NaN."""
    infinite = [np.isinf(x.real) | np.isinf(x.imag) for x in (got, want)]
    nan = [np.isnan(x) & ~i for x, i in zip((got, want), infinite, strict=True)]
    return np.asarray((infinite[0] & infinite[1]) | (nan[0] & nan[1]))
