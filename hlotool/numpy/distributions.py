"""More distributions of random numbers by key, made of uniform, normal and gamma numbers.

Poisson and binomial numbers: by counting where few are expected, else by transformed rejection (Hörmann, "The
transformed rejection method for generating Poisson random variables", 1993, and "The generation of binomial random
variates", 1993).  Wald numbers: Michael, Schucany and Haas, "Generating random variates using transformations with
multiple roots" (1976).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy

from hlotool.numpy import drawing as basic
from hlotool.numpy import standard as np
from hlotool.numpy.array import Array
from hlotool.numpy.control import while_loop
from hlotool.numpy.dtypes import DType, kind_of, resolve
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.linalg import cholesky
from hlotool.numpy.operation import operation

__all__ = [
    "binomial", "chisquare", "f", "geometric", "lognormal", "multinomial", "multivariate_normal", "negative_binomial",
    "pareto", "poisson", "power", "rayleigh", "standard_t", "triangular", "wald", "weibull",
]  # fmt: skip

Size = int | Sequence[int]
_FLOAT = numpy.float64
_FEW = 10  # expected: fewer are counted one by one


def _sizes(shape: Size | None, *given: Any) -> tuple[int, ...]:
    """The shape that is asked for, or that of the parameters."""
    own = np.broadcast_shapes(*(one.shape if isinstance(one, Array) else numpy.shape(one) for one in given))
    if shape is None:
        return own
    sizes = tuple(map(operator.index, shape)) if isinstance(shape, Sequence) else (operator.index(shape),)
    lead = len(sizes) - len(own)
    if lead < 0 or any(n not in (1, m) for n, m in zip(own, sizes[lead:], strict=True)):
        raise value_error(f"parameters of shape {own} for numbers of shape {sizes}")
    return sizes


def _real(dtype: Any) -> DType:
    wanted = resolve(dtype)
    if kind_of(wanted) != "float" or wanted.itemsize < 4:
        raise type_error(f"these numbers are float32 or float64, not {wanted}")
    return wanted


def _whole(dtype: Any) -> DType:
    wanted = resolve(dtype)
    if kind_of(wanted) not in ("signed", "unsigned"):
        raise type_error(f"these numbers are integers, not {wanted}")
    return wanted


def _uniform(key: Any, shape: tuple[int, ...], dtype: Any = _FLOAT) -> Array:
    """Above 0, and up to 1."""
    return 1 - basic.uniform(key, shape, dtype)


def _drawn(*numbers: str) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """An `operation` of a key and of real `numbers`: whole ones of Python would be of the type of the key, uint32."""

    def decorate(body: Callable[..., Array]) -> Callable[..., Array]:
        made = operation("key", *numbers)(body)

        @wraps(body)
        def call(key: Any, *given: Any) -> Array:
            return made(key, *[float(one) if type(one) is int else one for one in given[: len(numbers)]],
                        *given[len(numbers) :])  # fmt: skip

        return call

    return decorate


# ---- of logarithms, roots and gammas


@_drawn("mean", "sigma")
def _lognormal(key: Any, mean: Any, sigma: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    return np.exp(np.astype(mean, dtype) + np.astype(sigma, dtype) * basic.normal(key, shape, dtype))


def lognormal(key: Any, mean: Any = 0.0, sigma: Any = 1.0, shape: Size | None = None, dtype: Any = _FLOAT) -> Array:
    """exp of normal numbers of this mean and deviation."""
    return _lognormal(key, mean, sigma, _sizes(shape, mean, sigma), _real(dtype))


@_drawn("scale")
def _rayleigh(key: Any, scale: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    return np.astype(scale, dtype) * np.sqrt(-2 * np.log(_uniform(key, shape, dtype)))


def rayleigh(key: Any, scale: Any = 1.0, shape: Size | None = None, dtype: Any = _FLOAT) -> Array:
    """The length of vectors of two normal numbers of deviation `scale`."""
    return _rayleigh(key, scale, _sizes(shape, scale), _real(dtype))


@_drawn("a")
def _weibull(key: Any, a: Any, shape: tuple[int, ...], dtype: DType, what: str) -> Array:
    a, u = np.astype(a, dtype), _uniform(key, shape, dtype)
    if what == "power":
        return np.pow(u, 1 / a)
    found: Array = (-np.log(u)) ** (1 / a) if what == "weibull" else np.expm1(-np.log(u) / a)
    return found


def weibull(key: Any, a: Any, shape: Size | None = None, dtype: Any = _FLOAT) -> Array:
    """Of density a x^(a-1) exp(-x^a)."""
    return _weibull(key, a, _sizes(shape, a), _real(dtype), "weibull")


def pareto(key: Any, a: Any, shape: Size | None = None, dtype: Any = _FLOAT) -> Array:
    """Of density a / (1+x)^(a+1), as NumPy has it (Lomax)."""
    return _weibull(key, a, _sizes(shape, a), _real(dtype), "pareto")


def power(key: Any, a: Any, shape: Size | None = None, dtype: Any = _FLOAT) -> Array:
    """Of density a x^(a-1) between 0 and 1."""
    return _weibull(key, a, _sizes(shape, a), _real(dtype), "power")


@_drawn("left", "mode", "right")
def _triangular(key: Any, left: Any, mode: Any, right: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    low, top, high = (np.astype(one, dtype) for one in (left, mode, right))
    u = basic.uniform(key, shape, dtype)
    whole = high - low
    rising = low + np.sqrt(u * whole * (top - low))
    return np.where(u * whole < top - low, rising, high - np.sqrt((1 - u) * whole * (high - top)))


def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Size | None = None, dtype: Any = _FLOAT
) -> Array:
    """Of a density that is a triangle from `left` over `mode` to `right`."""
    return _triangular(key, left, mode, right, _sizes(shape, left, mode, right), _real(dtype))


@_drawn("df")
def _chisquare(key: Any, df: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    return 2 * basic.gamma(key, np.astype(df, dtype) / 2, shape, dtype)


def chisquare(key: Any, df: Any, shape: Size | None = None, dtype: Any = _FLOAT) -> Array:
    """The sum of the squares of `df` normal numbers."""
    return _chisquare(key, df, _sizes(shape, df), _real(dtype))


@_drawn("df")
def _standard_t(key: Any, df: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    keys = basic.split(key)
    df = np.astype(df, dtype)
    return basic.normal(keys[0], shape, dtype) * np.sqrt(df / _chisquare(keys[1], df, shape, dtype))


def standard_t(key: Any, df: Any, shape: Size | None = None, dtype: Any = _FLOAT) -> Array:
    """Student's distribution with `df` degrees of freedom."""
    return _standard_t(key, df, _sizes(shape, df), _real(dtype))


@_drawn("dfnum", "dfden")
def _f(key: Any, dfnum: Any, dfden: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    keys = basic.split(key)
    one, other = np.astype(dfnum, dtype), np.astype(dfden, dtype)
    return (_chisquare(keys[0], one, shape, dtype) / one) / (_chisquare(keys[1], other, shape, dtype) / other)


def f(key: Any, dfnum: Any, dfden: Any, shape: Size | None = None, dtype: Any = _FLOAT) -> Array:
    """Fisher's distribution: the ratio of two mean squares."""
    return _f(key, dfnum, dfden, _sizes(shape, dfnum, dfden), _real(dtype))


@_drawn("mean", "scale")
def _wald(key: Any, mean: Any, scale: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    keys = basic.split(key)
    mean, scale = np.astype(mean, dtype), np.astype(scale, dtype)
    y = mean * basic.normal(keys[0], shape, dtype) ** 2
    x = mean * (1 + (y - np.sqrt(y * (4 * scale + y))) / (2 * scale))
    return np.where(basic.uniform(keys[1], shape, dtype) <= mean / (mean + x), x, mean * mean / x)


def wald(key: Any, mean: Any, scale: Any, shape: Size | None = None, dtype: Any = _FLOAT) -> Array:
    """The inverse Gaussian distribution."""
    return _wald(key, mean, scale, _sizes(shape, mean, scale), _real(dtype))


@operation("key", "mean", "cov")
def _multivariate_normal(key: Any, mean: Any, cov: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    factor = cholesky(np.astype(cov, dtype))
    drawn = basic.normal(key, (*shape, mean.shape[-1]), dtype)
    return np.astype(mean, dtype) + np.matmul(factor, drawn[..., None])[..., 0]


def multivariate_normal(key: Any, mean: Any, cov: Any, shape: Size | None = None, dtype: Any = _FLOAT) -> Array:
    """Vectors of normal numbers with these means and positive definite covariances."""
    centre, spread = np.asarray(mean), np.asarray(cov)
    if centre.ndim < 1 or spread.shape[-2:] != (centre.shape[-1],) * 2:
        raise value_error(f"means of shape {centre.shape} and covariances of shape {spread.shape}")
    lead = np.broadcast_shapes(centre.shape[:-1], spread.shape[:-2])
    sizes = lead if shape is None else _sizes(shape, numpy.empty(lead))
    return _multivariate_normal(key, centre, spread, sizes, _real(dtype))


# ---- whole numbers


@_drawn("p")
def _geometric(key: Any, p: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    p = np.astype(p, _FLOAT)
    drawn = np.ceil(np.log(_uniform(key, shape)) / np.log1p(-p))
    return np.astype(np.maximum(np.where(p >= 1, 1, drawn), 1), dtype)


def geometric(key: Any, p: Any, shape: Size | None = None, dtype: Any = numpy.int64) -> Array:
    """How many trials it takes to the first success."""
    return _geometric(key, p, _sizes(shape, p), _whole(dtype))


def _log_factorial(k: Array) -> Array:
    """log k!, by Stirling's series beyond 8."""
    table = Array(numpy.array([math.lgamma(n + 1.0) for n in range(9)]))
    x = np.maximum(k, 8) + 1
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / (x * x)) / (x * x)) / (x * x)) / x
    large = (x - 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi) + series
    return np.where(k < 9, np.take(table, np.astype(np.minimum(np.maximum(k, 0), 8), numpy.int64)), large)


def _repeated(
    key: Array, shape: tuple[int, ...], done: Array, attempt: Callable[[Array, Array], tuple[Array, Array]]
) -> Array:
    """Tries ``attempt(u, v)`` with new uniform numbers until each element has been accepted."""

    def more(state: tuple[Array, Array, Array]) -> Array:
        return np.any(~state[2])

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, found, done = state
        keys = basic.split(basic.fold_in(key, number))
        value, good = attempt(basic.uniform(keys[0], shape), _uniform(keys[1], shape))
        return number + 1, np.where(done, found, np.where(good, value, found)), done | good

    state = (np.asarray(numpy.int64(0)), np.zeros(shape), np.broadcast_to(done, shape))
    found: Array = while_loop(more, step, state)[1]
    return found


@_drawn("lam")
def _poisson(key: Any, lam: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    lam = np.broadcast_to(np.astype(lam, _FLOAT), shape)
    keys = basic.split(key)
    large = lam >= _FEW
    mean = np.where(large, lam, _FEW)
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)

    def attempt(u: Array, v: Array) -> tuple[Array, Array]:
        u = u - 0.5
        us = 0.5 - np.abs(u)
        k = np.floor((2 * a / us + b) * u + mean + 0.43)
        exact = np.log(v * inverse / (a / (us * us) + b)) <= k * np.log(mean) - mean - _log_factorial(k)
        return k, (k >= 0) & (((us >= 0.07) & (v <= quick)) | (((us >= 0.013) | (v <= us)) & exact))

    many = _repeated(keys[0], shape, ~large, attempt)
    few = _counted(keys[1], shape, np.where(large, 0, lam))
    found = np.where(large, many, few)
    return np.astype(np.where(lam >= 0, found, -1), dtype)


def _counted(key: Array, shape: tuple[int, ...], lam: Array) -> Array:
    """How many waiting times pass before `lam`."""

    def more(state: tuple[Array, Array, Array]) -> Array:
        return np.any(state[1] < lam)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, time, count = state
        time = time - np.log(_uniform(basic.fold_in(key, number), shape))
        return number + 1, time, np.where(time < lam, count + 1, count)

    state = (np.asarray(numpy.int64(0)), np.zeros(shape), np.zeros(shape))
    found: Array = while_loop(more, step, state)[2]
    return found


def poisson(key: Any, lam: Any = 1.0, shape: Size | None = None, dtype: Any = numpy.int64) -> Array:
    """How many events there are where `lam` are expected; -1 for a negative or NaN `lam`."""
    return _poisson(key, lam, _sizes(shape, lam), _whole(dtype))


@operation("key", "n", "p")
def _binomial(key: Any, n: Any, p: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    n = np.broadcast_to(np.astype(n, _FLOAT), shape)
    p = np.broadcast_to(np.astype(p, _FLOAT), shape)
    valid = (n >= 0) & (p >= 0) & (p <= 1)
    n = np.where(valid, n, 0)
    share = np.where(valid, np.minimum(p, 1 - p), 0)
    keys = basic.split(key)
    large = n * share >= _FEW
    own_n, own_p = np.where(large, n, 4 * _FEW), np.where(large, share, 0.5)
    spread = np.sqrt(own_n * own_p * (1 - own_p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * own_p
    middle = np.floor((own_n + 1) * own_p)
    height = _log_factorial(middle) + _log_factorial(own_n - middle)
    odds = np.log(own_p / (1 - own_p))

    def attempt(u: Array, v: Array) -> tuple[Array, Array]:
        u = u - 0.5
        us = 0.5 - np.abs(u)
        k = np.floor((2 * a / us + b) * u + own_n * own_p + 0.5)
        inside = (k >= 0) & (k <= own_n)
        held = np.minimum(np.maximum(k, 0), own_n)
        scaled = np.log(v * (2.83 + 5.1 / b) * spread / (a / (us * us) + b))
        exact = scaled <= height - _log_factorial(held) - _log_factorial(own_n - held) + (held - middle) * odds
        return k, inside & (((us >= 0.07) & (v <= 0.92 - 4.2 / b)) | exact)

    many = _repeated(keys[0], shape, ~large, attempt)
    found = np.where(large, many, _successes(keys[1], shape, np.where(large, 0, n), share))
    return np.astype(np.where(valid, np.where(p > 0.5, n - found, found), -1), dtype)


def _successes(key: Array, shape: tuple[int, ...], n: Array, p: Array) -> Array:
    """How many among n trials, from one success to the next."""
    rate = np.log1p(-np.where(p > 0, p, 0.5))

    def more(state: tuple[Array, Array, Array]) -> Array:
        return np.any(state[1] < n)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, trials, count = state
        gap = np.maximum(np.ceil(np.log(_uniform(basic.fold_in(key, number), shape)) / rate), 1)
        trials = np.where(p > 0, trials + gap, n + 1)
        return number + 1, trials, np.where(trials <= n, count + 1, count)

    state = (np.asarray(numpy.int64(0)), np.zeros(shape), np.zeros(shape))
    found: Array = while_loop(more, step, state)[2]
    return found


def binomial(key: Any, n: Any, p: Any, shape: Size | None = None, dtype: Any = numpy.int64) -> Array:
    """How many of `n` trials succeed, each with the chance `p`; -1 where these are none."""
    return _binomial(key, n, p, _sizes(shape, n, p), _whole(dtype))


@operation("key", "n", "p")
def _negative_binomial(key: Any, n: Any, p: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    keys = basic.split(key)
    n, p = np.astype(n, _FLOAT), np.astype(p, _FLOAT)
    return _poisson(keys[1], basic.gamma(keys[0], n, shape) * ((1 - p) / p), shape, dtype)


def negative_binomial(key: Any, n: Any, p: Any, shape: Size | None = None, dtype: Any = numpy.int64) -> Array:
    """How many trials fail before `n` succeed, each with the chance `p`."""
    return _negative_binomial(key, n, p, _sizes(shape, n, p), _whole(dtype))


@operation("key", "n", "pvals")
def _multinomial(key: Any, n: Any, pvals: Any, shape: tuple[int, ...], dtype: DType) -> Array:
    count = pvals.shape[-1]
    chances = np.broadcast_to(np.astype(pvals, _FLOAT), (*shape, count))
    left = np.broadcast_to(np.astype(n, _FLOAT), shape)
    share = np.ones(shape)
    keys = basic.split(key, count)
    found = []
    for number in range(count - 1):
        chance = chances[..., number]
        ratio = np.minimum(np.maximum(chance / np.where(share > 0, share, 1), 0), 1)
        drawn = np.astype(_binomial(keys[number], left, ratio, shape, numpy.dtype(numpy.int64)), _FLOAT)
        found.append(drawn)
        left, share = left - drawn, share - chance
    return np.astype(np.stack([*found, left], axis=-1), dtype)


def multinomial(key: Any, n: Any, pvals: Any, shape: Size | None = None, dtype: Any = numpy.int64) -> Array:
    """How many of `n` trials end in each of several ways, of chances `pvals` along the last axis."""
    chances = np.asarray(pvals)
    if not chances.ndim or not chances.shape[-1]:
        raise value_error("multinomial: there is one chance at least")
    sizes = _sizes(shape, n, numpy.empty(chances.shape[:-1]))
    return _multinomial(key, n, chances, sizes, _whole(dtype))
