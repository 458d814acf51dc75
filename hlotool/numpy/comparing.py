"""What arrays have in common, and the parts of numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy

from hlotool.ir import array
from hlotool.numpy import standard as np
from hlotool.numpy.array import Array, concrete, wrap
from hlotool.numpy.control import while_loop
from hlotool.numpy.dtypes import DType, hlo_type, kind_of
from hlotool.numpy.errors import type_error
from hlotool.numpy.operation import as_arrays, convert, operation
from hlotool.numpy.trace import apply

__all__ = [
    "allclose", "angle", "around", "array_equal", "array_equiv", "bitwise_count", "frexp", "gcd", "iscomplex",
    "iscomplexobj", "isneginf", "isposinf", "isreal", "isrealobj", "isscalar", "lcm", "ldexp", "modf", "ndim", "shape",
    "size", "spacing",
]  # fmt: skip

_FLOAT64 = numpy.dtype(numpy.float64)


def _array(value: Any) -> Array:
    return value if isinstance(value, Array) else concrete(value)


# ---- whether arrays are equal


@operation("a", "b")
def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Array:
    """Whether all elements are as close as ``isclose`` asks for."""
    return np.all(np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan))


@operation("a1", "a2")
def _equal(a1: Any, a2: Any, equal_nan: bool) -> Array:
    one, other = as_arrays(a1, a2)
    same = np.equal(one, other)
    if equal_nan and kind_of(one.dtype) in ("float", "complex"):
        same = np.logical_or(same, np.logical_and(np.isnan(one), np.isnan(other)))
    return np.all(same)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and elements."""
    one, other = _array(a1), _array(a2)
    return _equal(one, other, equal_nan) if one.shape == other.shape else Array(numpy.asarray(False))


def array_equiv(a1: Any, a2: Any) -> Array:
    """Whether two arrays can be broadcast to one shape and are equal there."""
    one, other = _array(a1), _array(a2)
    try:
        numpy.broadcast_shapes(one.shape, other.shape)
    except ValueError:
        return Array(numpy.asarray(False))
    return _equal(one, other, False)


# ---- kinds


def iscomplexobj(x: Any) -> bool:
    """Whether the elements are complex numbers."""
    return kind_of(_array(x).dtype) == "complex"


def isrealobj(x: Any) -> bool:
    """Whether the elements are no complex numbers."""
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether this is a number, and no array."""
    return numpy.isscalar(element)


def ndim(a: Any) -> int:
    """How many dimensions an array has."""
    return _array(a).ndim


def shape(a: Any) -> tuple[int, ...]:
    """The sizes of the dimensions."""
    return _array(a).shape


def size(a: Any, axis: Any = None) -> int:
    """How many elements there are, or along one dimension."""
    found = _array(a)
    return found.size if axis is None else found.shape[axis]


@operation("x")
def iscomplex(x: Any, /) -> Array:
    """Whether elements have an imaginary part."""
    (a,) = as_arrays(x)
    return np.imag(a) != 0 if kind_of(a.dtype) == "complex" else np.zeros(a.shape, dtype=bool)


@operation("x")
def isreal(x: Any, /) -> Array:
    """Whether elements have no imaginary part."""
    return ~iscomplex(x)


@operation("x")
def isposinf(x: Any, /) -> Array:
    """Whether elements are infinity."""
    return _infinite(x, "isposinf", math.inf)


@operation("x")
def isneginf(x: Any, /) -> Array:
    """Whether elements are minus infinity."""
    return _infinite(x, "isneginf", -math.inf)


def _infinite(x: Any, name: str, value: float) -> Array:
    (a,) = as_arrays(x)
    if kind_of(a.dtype) == "complex":
        raise type_error(f"{name} is not for arrays of {a.dtype}: complex numbers have no sign")
    return a == value if kind_of(a.dtype) == "float" else np.zeros(a.shape, dtype=bool)


# ---- parts of numbers


def around(a: Any, decimals: int = 0) -> Array:
    """NumPy's other name for ``round``."""
    return np.round(a, decimals)


@operation("z")
def angle(z: Any, deg: bool = False) -> Array:
    """The angle of complex numbers."""
    (a,) = as_arrays(z)
    if kind_of(a.dtype) == "complex":
        found = np.arctan2(np.imag(a), np.real(a))
    else:
        real = a if kind_of(a.dtype) == "float" else convert(a, _FLOAT64)
        found = np.arctan2(np.zeros(real.shape, dtype=real.dtype), real)
    return found * (180 / math.pi) if deg else found


@operation("x")
def modf(x: Any, /) -> tuple[Array, Array]:
    """The fractions and the whole numbers of elements, both with their sign."""
    a = _float(x)
    whole = np.trunc(a)
    fraction = np.where(np.isinf(a), 0, a - whole)
    return np.copysign(fraction, a), whole


def _float(x: Any) -> Array:
    (a,) = as_arrays(x)
    if kind_of(a.dtype) == "complex":
        raise type_error(f"complex numbers ({a.dtype}) have no such parts")
    return a if kind_of(a.dtype) == "float" else convert(a, _FLOAT64)


def _layout(dtype: DType) -> tuple[DType, int, int]:
    """The integer type of the same width, the bits of the fraction, and the bias of the exponent."""
    known = {8: (numpy.int64, 52, 1023), 4: (numpy.int32, 23, 127)}.get(dtype.itemsize)
    if known is None:
        raise type_error(f"the parts of {dtype} are not taken", "convert it to float32 or float64")
    return numpy.dtype(known[0]), known[1], known[2]


@operation("x")
def frexp(x: Any, /) -> tuple[Array, Array]:
    """Fractions of 0.5 to 1 and powers of two whose products the elements are."""
    a = _float(x)
    if a.dtype.itemsize < 4:
        fraction, exponent = frexp(convert(a, numpy.dtype(numpy.float32)))
        return convert(fraction, a.dtype), exponent
    _, width, bias = _layout(a.dtype)
    tiny = np.abs(a) < float(numpy.finfo(a.dtype).tiny)
    scaled = np.where(tiny, a * 2.0 ** (width + 1), a)
    bits = _bits(scaled)
    raw = (bits >> width) & (2 * bias + 1)
    exponent = raw - (bias - 1) - np.where(tiny, width + 1, 0)
    kept = bits & ~((2 * bias + 1) << width) | ((bias - 1) << width)
    plain = (a == 0) | np.isnan(a) | np.isinf(a)
    fraction = np.where(plain, a, _from_bits(kept, a.dtype))
    return fraction, np.astype(np.where(plain, 0, exponent), numpy.int32)


def _bits(a: Array) -> Array:
    kind = hlo_type(_layout(a.dtype)[0])
    return apply("bitcast-convert", a, shape=array(kind, a.shape))


def _from_bits(bits: Array, dtype: DType) -> Array:
    return apply("bitcast-convert", bits, shape=array(hlo_type(dtype), bits.shape))


def ldexp(x1: Any, x2: Any, /) -> Array:
    """x1 times two to the power x2, rounded once."""
    return _ldexp(x1, wrap(numpy.asarray(x2, numpy.int64)) if type(x2) in (int, bool) else x2)


@operation("x1", "x2")
def _ldexp(x1: Any, x2: Any, /) -> Array:
    a = _float(x1)
    (power,) = as_arrays(x2)
    if kind_of(power.dtype) not in ("signed", "unsigned", "pred"):
        raise type_error(f"ldexp: powers are whole numbers, not {power.dtype}")
    wide = a if a.dtype.itemsize >= 4 else convert(a, numpy.dtype(numpy.float32))
    _, width, bias = _layout(wide.dtype)
    fraction, own = frexp(wide)
    most = 4 * bias
    total = np.minimum(np.maximum(np.astype(power, numpy.int64), -most), most) + np.astype(own, numpy.int64)
    total = np.minimum(np.maximum(total, -(bias + width + 2)), bias + 2)
    # A fraction of 0.5 to 1, by a power that is normal, is exact; the last factor rounds, if anything does.
    low = np.maximum(total, 3 - bias)
    low = np.minimum(low, bias)
    rest = total - low
    made = fraction * _power(low, wide.dtype) * _power(np.minimum(np.maximum(rest, 1 - bias), bias), wide.dtype)
    made = np.where((wide == 0) | np.isnan(wide) | np.isinf(wide), wide, made)
    return convert(made, a.dtype)


def _power(exponent: Array, dtype: DType) -> Array:
    """Two to a power of a normal number."""
    integer, width, bias = _layout(dtype)
    return _from_bits(np.astype(exponent + bias, integer) << width, dtype)


@operation("x")
def spacing(x: Any, /) -> Array:
    """How far the next number away from zero is, with the sign of the element."""
    a = _float(x)
    _layout(a.dtype)  # which says what it does not know
    size = np.abs(a)
    step = np.nextafter(size, np.full(a.shape, math.inf, dtype=a.dtype)) - size
    step = np.where(np.isinf(a), math.nan, step)
    return np.where(a < 0, -step, step)


@operation("x")
def bitwise_count(x: Any, /) -> Array:
    """How many bits of the absolute value are 1."""
    (a,) = as_arrays(x)
    if kind_of(a.dtype) not in ("signed", "unsigned"):
        raise type_error(f"bitwise_count is for integers, not {a.dtype}")
    return convert(apply("popcnt", np.abs(a) if kind_of(a.dtype) == "signed" else a), numpy.dtype(numpy.uint8))


# ---- divisors


@operation("x1", "x2")
def gcd(x1: Any, x2: Any, /) -> Array:
    """The greatest number that divides both, by Euclid's algorithm."""
    one, other = _integers("gcd", x1, x2)
    return _euclid(np.abs(one), np.abs(other))


def _integers(name: str, x1: Any, x2: Any) -> tuple[Array, Array]:
    one, other = as_arrays(x1, x2)
    if kind_of(one.dtype) not in ("signed", "unsigned"):
        raise type_error(f"{name} is for integers, not {one.dtype}")
    found = np.broadcast_arrays(one, other)
    return found[0], found[1]


def _euclid(one: Array, other: Array) -> Array:
    def more(state: tuple[Array, Array]) -> Array:
        return np.any(state[1] != 0)

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = state
        done = b == 0
        return np.where(done, a, b), np.where(done, 0, a % np.where(done, 1, b))

    found: tuple[Array, Array] = while_loop(more, step, (one, other))
    return np.abs(found[0])


@operation("x1", "x2")
def lcm(x1: Any, x2: Any, /) -> Array:
    """The least number that both divide; 0 where one is 0."""
    one, other = _integers("lcm", x1, x2)
    divisor = _euclid(np.abs(one), np.abs(other))
    return np.abs(one // np.where(divisor == 0, 1, divisor) * other)
