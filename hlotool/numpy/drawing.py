"""Keys, bits, and the random numbers that others are made of: a part of ``hlotool.numpy.random``.

A key is an array of two words, of uint32.  A function draws the same numbers whenever it gets the same key, eagerly and
compiled, on any number of threads; `split` and `fold_in` make independent keys of one.  The bits are those of
`threefry` at the counters 0, 1, 2..., laid out as JAX does it (``jax_threefry_partitionable``): keys, bits, uniform
numbers and permutations are the same as jax.random's; those that logarithms and the like are taken of agree up to
their rounding.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy

from hlotool.numpy import standard as np
from hlotool.numpy.array import Array
from hlotool.numpy.axes import as_axis
from hlotool.numpy.control import while_loop
from hlotool.numpy.dtypes import DType, kind_of, resolve
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.inverse_error import inverse_error
from hlotool.numpy.operation import operation
from hlotool.numpy.threefry import threefry
from hlotool.numpy.trace import apply, is_scalar
from hlotool.numpy.types import finfo

__all__ = [
    "bernoulli", "beta", "bits", "categorical", "cauchy", "choice", "dirichlet", "exponential", "fold_in", "gamma",
    "gumbel", "key", "laplace", "logistic", "normal", "permutation", "rademacher", "randint", "split",
    "truncated_normal", "uniform",
]  # fmt: skip

_UINT32 = numpy.dtype(numpy.uint32)
Size = int | Sequence[int]


def key(seed: int) -> Array:
    """The key of a seed: of an integer, or of an array with one, its lower 64 bits."""
    if isinstance(seed, Array) and seed._trace is not None:
        return _key_of(seed)
    try:
        number = operator.index(seed)
    except TypeError as error:
        raise type_error(f"a seed is an integer, not {seed!r}") from error
    return Array(numpy.array([number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF], numpy.uint32))


@operation("seed")
def _key_of(seed: Any) -> Array:
    if seed.shape or kind_of(seed.dtype) not in ("signed", "unsigned"):
        raise type_error(f"a seed is one integer, not {seed.dtype}{list(seed.shape)}")
    return np.stack(_words(seed))


def split(key: Any, num: Size = 2) -> Array:
    """`num` new keys, independent of one another and of `key`, which is not used any more."""
    return _split(_checked(key), _size(num))


@operation("key")
def _split(key: Any, num: tuple[int, ...]) -> Array:
    return np.stack(threefry(_parts(key), _counters(num)), axis=-1)


def fold_in(key: Any, data: Any) -> Array:
    """A key of `key` and an integer (of a step, say): others for other integers."""
    return _fold_in(_checked(key), _typed(data, numpy.int64) if is_scalar(data) else data)


@operation("key", "data")
def _fold_in(key: Any, data: Any) -> Array:
    if kind_of(data.dtype) not in ("signed", "unsigned"):
        raise type_error(f"fold_in takes an integer, not {data.dtype}")
    return np.stack(threefry(_parts(key), _words(data)), axis=-1)


def bits(key: Any, shape: Size = (), dtype: Any = numpy.uint32) -> Array:
    """Unsigned integers, of which every bit is random."""
    wanted = resolve(dtype)
    if kind_of(wanted) != "unsigned":
        raise type_error(f"bits are of an unsigned type, not of {wanted}")
    return _bits(_checked(key), _size(shape), wanted)


@operation("key")
def _bits(key: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    first, second = threefry(_parts(key), _counters(shape))
    if dtype.itemsize == 8:
        return np.astype(first, numpy.uint64) << 32 | np.astype(second, numpy.uint64)
    return np.astype(first ^ second, dtype)


def uniform(
    key: Any, shape: Size = (), dtype: Any = numpy.float64, minval: Any = 0.0, maxval: Any = 1.0
) -> Array:
    """Floats from `minval` to below `maxval`."""
    wanted = _float_type(dtype, "uniform numbers")
    return _uniform(_checked(key), _typed(minval, wanted), _typed(maxval, wanted), _size(shape), wanted)


@operation("key", "low", "high")
def _uniform(key: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    low, high = np.astype(low, dtype), np.astype(high, dtype)
    return np.maximum(low, _fraction(key, shape, dtype) * (high - low) + low)


def _fraction(key: Array, shape: tuple[int, ...], dtype: DType) -> Array:
    """Multiples of the type's precision in [0, 1)."""
    mantissa = -round(math.log2(finfo(dtype).eps))
    width = max(8 * dtype.itemsize, 8) if mantissa >= 8 else 8
    words = _bits(key, shape, numpy.dtype(f"uint{width}")) >> (width - mantissa)
    return np.astype(words, dtype) * _constant(2.0**-mantissa, dtype)


def _constant(value: float, dtype: DType) -> Array:
    return Array(numpy.asarray(value, dtype))


def normal(key: Any, shape: Size = (), dtype: Any = numpy.float64) -> Array:
    """Standard normal numbers; complex ones have independent parts of variance 1/2."""
    return _normal(_checked(key), _size(shape), resolve(dtype))


@operation("key")
def _normal(key: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    if kind_of(dtype) == "complex":
        part = numpy.dtype(numpy.float32 if dtype.itemsize == 8 else numpy.float64)
        keys = _split(key, (2,))
        real, imaginary = (_normal(keys[n], shape, part) * math.sqrt(0.5) for n in (0, 1))
        return apply("complex", real, imaginary)
    low = numpy.nextafter(numpy.array(-1, _float_type(dtype, "normal numbers")), numpy.array(0, dtype))
    return _root_two_times_inverse_error(_uniform(key, Array(low), _constant(1, dtype), shape, dtype))


def _root_two_times_inverse_error(x: Array) -> Array:
    wide = x.dtype if x.dtype.itemsize >= 4 else numpy.dtype(numpy.float32)
    return np.astype(inverse_error(np.astype(x, wide)) * math.sqrt(2), x.dtype)


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Size | None = None, dtype: Any = numpy.float64
) -> Array:
    """Standard normal numbers between `lower` and `upper`; `shape` is by default that of the two."""
    wanted = _float_type(dtype, "normal numbers")
    low, high = _typed(lower, wanted), _typed(upper, wanted)
    sizes = numpy.broadcast_shapes(low.shape, high.shape) if shape is None else _size(shape)
    return _truncated_normal(_checked(key), low, high, sizes, wanted)


@operation("key", "low", "high")
def _truncated_normal(key: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    wide = dtype if dtype.itemsize >= 4 else numpy.dtype(numpy.float32)
    low, high = np.astype(low, wide), np.astype(high, wide)
    a, b = (apply("erf", one * math.sqrt(0.5)) for one in (low, high))
    found = inverse_error(_uniform(key, a, b, shape, wide)) * math.sqrt(2)
    infinite = _constant(math.inf, wide)
    return np.astype(np.minimum(np.maximum(found, np.nextafter(low, infinite)), np.nextafter(high, -infinite)), dtype)


def randint(key: Any, shape: Size, minval: Any, maxval: Any, dtype: Any = numpy.int64) -> Array:
    """Integers from `minval` to below `maxval`; `minval` where there are none.

    Twice as many bits are drawn as the type has, so that the remainder prefers no value by more than 2**-bits.
    """
    wanted = resolve(dtype)
    if kind_of(wanted) not in ("signed", "unsigned") or wanted.itemsize * 8 not in (8, 16, 32, 64):
        raise type_error(f"randint gives integers, not {wanted}")
    low, high = (_typed(one, _holding(one, wanted)) for one in (minval, maxval))
    return _randint(_checked(key), low, high, _size(shape), wanted)


def _holding(value: Any, wanted: DType) -> DType:
    """The type to read a bound in: int64 where it may be one more than `wanted` holds."""
    return wanted if wanted.itemsize == 8 else numpy.dtype(numpy.int64)


@operation("key", "low", "high")
def _randint(key: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    width = 8 * dtype.itemsize
    unsigned = numpy.dtype(f"uint{width}")
    if any(kind_of(bound.dtype) not in ("signed", "unsigned") for bound in (low, high)):
        raise type_error("the bounds of randint are integers")
    keys = _split(key, (2,))
    upper, lower = (_bits(keys[n], shape, unsigned) for n in (0, 1))
    limit = numpy.iinfo(dtype).max
    whole = (low <= numpy.iinfo(dtype).min) & (high > limit) if width < 64 else np.astype(low * 0, numpy.bool_)
    empty = high <= low
    low, high = np.astype(low, dtype), np.astype(high, dtype)
    span = np.astype(high, unsigned) - np.astype(low, unsigned)
    span = np.where(empty, _constant(1, unsigned), span)
    safe = np.where(span == 0, _constant(1, unsigned), span)
    half = _constant(2 ** (width // 2), unsigned) % safe
    factor = np.where(span == 0, _constant(0, unsigned), half * half % safe)
    offset = np.where(whole, lower, ((upper % safe) * factor + lower % safe) % safe)
    found: Array = low + np.astype(offset, dtype)
    return found


def bernoulli(key: Any, p: Any = 0.5, shape: Size | None = None) -> Array:
    """True with probability `p`."""
    chance = _typed(p, numpy.dtype(numpy.float64)) if is_scalar(p) else p
    sizes = numpy.shape(chance) if shape is None else _size(shape)
    return _bernoulli(_checked(key), chance, tuple(sizes))


@operation("key", "p")
def _bernoulli(key: Any, p: Any, shape: tuple[int, ...]) -> Array:
    dtype = p.dtype if kind_of(p.dtype) == "float" else numpy.dtype(numpy.float64)
    zero, one = _constant(0, dtype), _constant(1, dtype)
    drawn = _uniform(key, zero, one, shape, dtype)
    return np.less(drawn, p)


def rademacher(key: Any, shape: Size = (), dtype: Any = numpy.int64) -> Array:
    """-1 or 1, equally likely."""
    return np.astype(np.where(bernoulli(key, 0.5, _size(shape)), 1, -1), resolve(dtype))


@operation("key")
def _exponential(key: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    return -np.log1p(-_uniform(key, _constant(0, dtype), _constant(1, dtype), shape, dtype))


def exponential(key: Any, shape: Size = (), dtype: Any = numpy.float64) -> Array:
    """Of density exp(-x)."""
    return _exponential(_checked(key), _size(shape), _float_type(dtype, "exponential numbers"))


@operation("key")
def _gumbel(key: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    tiny = _constant(finfo(dtype).smallest_normal, dtype)
    return -np.log(-np.log(_uniform(key, tiny, _constant(1, dtype), shape, dtype)))


def gumbel(key: Any, shape: Size = (), dtype: Any = numpy.float64) -> Array:
    """-log(-log(u)) of uniform u."""
    return _gumbel(_checked(key), _size(shape), _float_type(dtype, "Gumbel numbers"))


def laplace(key: Any, shape: Size = (), dtype: Any = numpy.float64) -> Array:
    """Of density exp(-|x|) / 2."""
    return _laplace(_checked(key), _size(shape), _float_type(dtype, "Laplace numbers"))


@operation("key")
def _laplace(key: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    low = _constant(-1 + finfo(dtype).eps / 2, dtype)
    u = _uniform(key, low, _constant(1, dtype), shape, dtype)
    return np.sign(u) * np.log1p(-np.abs(u))


def logistic(key: Any, shape: Size = (), dtype: Any = numpy.float64) -> Array:
    """Of the distribution function 1 / (1 + exp(-x))."""
    return _logistic(_checked(key), _size(shape), _float_type(dtype, "logistic numbers"))


@operation("key")
def _logistic(key: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    tiny = _constant(finfo(dtype).smallest_normal, dtype)
    u = _uniform(key, tiny, _constant(1, dtype), shape, dtype)
    return np.log(u) - np.log1p(-u)


def cauchy(key: Any, shape: Size = (), dtype: Any = numpy.float64) -> Array:
    """Of density 1 / (pi (1 + x^2))."""
    return _cauchy(_checked(key), _size(shape), _float_type(dtype, "Cauchy numbers"))


@operation("key")
def _cauchy(key: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    low = _constant(finfo(dtype).eps, dtype)
    return np.tan((_uniform(key, low, _constant(1, dtype), shape, dtype) - 0.5) * math.pi)


def categorical(key: Any, logits: Any, axis: int = -1, shape: Size | None = None) -> Array:
    """Positions along `axis`, of probability proportional to exp(logits).

    `shape` is that of the result; its end has to be `logits.shape` without `axis`.
    """
    return _categorical(_checked(key), logits, axis, None if shape is None else _size(shape))


@operation("key", "logits")
def _categorical(key: Any, logits: Any, axis: int, shape: tuple[int, ...] | None) -> Array:
    dtype = _float_type(logits.dtype, "logits")
    axis = as_axis(axis, logits.ndim)
    rest = logits.shape[:axis] + logits.shape[axis + 1 :]
    wanted = rest if shape is None else shape
    lead = len(wanted) - len(rest)
    if lead < 0 or wanted[lead:] != rest:
        raise value_error(f"shape {wanted} does not end with {rest}, the shape of the logits without axis {axis}")
    noise = _gumbel(key, (*wanted[:lead], *logits.shape), dtype)
    return np.argmax(noise + logits, axis=lead + axis)


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Array:
    """`x` (or, of an integer, the numbers below it) in random order along `axis`.

    With `independent`, every slice has an order of its own.
    """
    values = np.arange(operator.index(x)) if isinstance(x, (int, numpy.integer)) else x
    return _permutation(_checked(key), values, axis, independent)


@operation("key", "x")
def _permutation(key: Any, x: Any, axis: int, independent: bool) -> Array:
    axis = as_axis(axis, x.ndim)
    if independent or x.ndim == 1:
        return _shuffled(key, x, axis)
    return np.take(x, _shuffled(key, np.arange(x.shape[axis]), 0), axis=axis)


def _shuffled(key: Array, x: Array, axis: int) -> Array:
    """Sorted by random words; as often as it takes that equal words hardly matter."""
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        keys = _split(key, (2,))
        key = keys[0]
        order = np.argsort(_bits(keys[1], x.shape, _UINT32), axis=axis)
        x = np.take_along_axis(x, order, axis=axis)
    return x


def choice(
    key: Any, a: Any, shape: Size = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Array:
    """Elements of `a` along `axis` (or numbers below an integer `a`), with probabilities `p`."""
    values = np.arange(operator.index(a)) if isinstance(a, (int, numpy.integer)) else a
    return _choice(_checked(key), values, p, _size(shape), bool(replace), axis)


@operation("key", "a", "p")
def _choice(key: Any, a: Any, p: Any, shape: tuple[int, ...], replace: bool, axis: int) -> Array:
    axis = as_axis(axis, a.ndim)
    count, wanted = a.shape[axis], math.prod(shape)
    if wanted and not count:
        raise value_error("there is nothing to choose from: a has no elements")
    if not replace and wanted > count:
        raise value_error(f"{wanted} of {count} elements cannot be chosen without replacement")
    if p is not None and p.shape != (count,):
        raise value_error(f"p has shape {p.shape}, expected {(count,)}: one probability for each element")
    if not wanted:
        chosen = np.zeros(shape, dtype=numpy.int64)
    elif p is None:
        if replace:
            zero, high = _constant(0, numpy.dtype("int64")), _constant(count, numpy.dtype("int64"))
            chosen = _randint(key, zero, high, shape, numpy.dtype(numpy.int64))
        else:
            chosen = _permutation(key, np.arange(count), 0, False)[:wanted]
    elif replace:
        sums = np.cumulative_sum(p)
        at = sums[-1] * (1 - _uniform(key, _constant(0, p.dtype), _constant(1, p.dtype), shape, p.dtype))
        chosen = np.searchsorted(sums, at)
    else:
        chosen = np.argsort(-(_gumbel(key, (count,), p.dtype) + np.log(p)))[:wanted]
    found = np.take(a, np.reshape(chosen, (-1,)), axis=axis)
    return np.reshape(found, (*a.shape[:axis], *shape, *a.shape[axis + 1 :]))


def gamma(key: Any, a: Any, shape: Size | None = None, dtype: Any = numpy.float64) -> Array:
    """Of density x^(a-1) exp(-x) / Gamma(a), for a > 0; NaN for others.

    Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
    """
    wanted = _float_type(dtype, "gamma numbers")
    if wanted.itemsize < 4:
        raise type_error(f"gamma numbers are float32 or float64, not {wanted}")
    alpha = _typed(a, wanted)
    sizes = alpha.shape if shape is None else _size(shape)
    return _gamma(_checked(key), alpha, tuple(sizes), wanted)


@operation("key", "alpha")
def _gamma(key: Any, alpha: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    alpha = np.broadcast_to(np.astype(alpha, dtype), shape)
    keys = _split(key, (2,))
    zero, one = _constant(0, dtype), _constant(1, dtype)
    boosted = np.where(alpha < 1, alpha + 1, alpha)
    d = boosted - 1 / 3
    c = 1 / np.sqrt(9 * d)

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        return np.any(~state[2])

    def attempt(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, found, done = state
        own = _split(_fold_in(keys[0], number), (2,))
        x = _normal(own[0], shape, dtype)
        u = 1 - _uniform(own[1], zero, one, shape, dtype)
        v = (1 + c * x) ** 3
        good = (v > 0) & (np.log(u) < 0.5 * x * x + d - d * v + d * np.log(np.where(v > 0, v, one)))
        return number + 1, np.where(done, found, np.where(good, d * v, found)), done | good

    state = (np.asarray(numpy.int64(0)), np.zeros(shape, dtype=dtype), ~(alpha > 0))
    _, found, _ = while_loop(unfinished, attempt, state)
    u = 1 - _uniform(keys[1], zero, one, shape, dtype)
    found = np.where(alpha < 1, found * u ** (1 / np.where(alpha < 1, alpha, one)), found)
    return np.where(alpha > 0, found, _constant(math.nan, dtype))


def beta(key: Any, a: Any, b: Any, shape: Size | None = None, dtype: Any = numpy.float64) -> Array:
    """Of density proportional to x^(a-1) (1-x)^(b-1)."""
    wanted = _float_type(dtype, "beta numbers")
    first, second = _typed(a, wanted), _typed(b, wanted)
    sizes = numpy.broadcast_shapes(first.shape, second.shape) if shape is None else _size(shape)
    keys = split(key)
    x, y = gamma(keys[0], first, sizes, wanted), gamma(keys[1], second, sizes, wanted)
    return x / (x + y)


def dirichlet(key: Any, alpha: Any, shape: Size | None = None, dtype: Any = numpy.float64) -> Array:
    """Shares that add up to 1, along a last axis as long as that of `alpha`."""
    wanted = _float_type(dtype, "Dirichlet numbers")
    parameters = _typed(alpha, wanted)
    if not parameters.ndim:
        raise value_error("alpha has one dimension at least")
    sizes = parameters.shape[:-1] if shape is None else _size(shape)
    found = gamma(key, parameters, (*sizes, parameters.shape[-1]), wanted)
    return found / np.sum(found, axis=-1, keepdims=True)


# ---- what the functions share


def _checked(key: Any) -> Any:
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    if dtype != _UINT32 or shape != (2,):
        said = repr(key) if dtype is None else f"{dtype}{list(shape or ())}"
        raise type_error(f"a key is an array uint32[2], as random.key and random.split make it, not {said}")
    return key


def _size(shape: Size) -> tuple[int, ...]:
    try:
        sizes = (operator.index(shape),) if hasattr(shape, "__index__") and not isinstance(shape, Sequence) else None
        found = sizes if sizes is not None else tuple(operator.index(one) for one in shape)  # type: ignore[union-attr]
    except TypeError as error:
        raise type_error(f"a shape is an integer or several, not {shape!r}") from error
    if any(one < 0 for one in found):
        raise value_error(f"a shape has no negative sizes: {found}")
    return found


def _float_type(dtype: Any, what: str) -> DType:
    wanted = resolve(dtype)
    if kind_of(wanted) != "float":
        raise type_error(f"{what} are floats, not {wanted}")
    return wanted


def _typed(value: Any, dtype: Any) -> Any:
    """`value`, of `dtype` where it is a Python number or a list of them."""
    if isinstance(value, (Array, numpy.ndarray, numpy.generic)):
        return value
    return Array(numpy.asarray(value, dtype))


def _parts(key: Array) -> tuple[Array, Array]:
    return key[0], key[1]


def _words(number: Array) -> tuple[Array, Array]:
    """The upper and the lower 32 bits of an integer."""
    if number.dtype.itemsize < 8:
        sign = np.where(number < 0, _constant(0xFFFFFFFF, _UINT32), _constant(0, _UINT32))
        return sign * 0 if kind_of(number.dtype) == "unsigned" else sign, np.astype(number, _UINT32)
    return np.astype(number >> 32, _UINT32), np.astype(number, _UINT32)


def _counters(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The number of each element, in two words."""
    size = math.prod(shape)
    if size <= 2**32:
        low = np.reshape(np.arange(size, dtype=_UINT32), shape)
        return np.zeros(shape, dtype=_UINT32), low
    number = np.reshape(np.arange(size, dtype=numpy.uint64), shape)
    return np.astype(number >> 32, _UINT32), np.astype(number, _UINT32)
