"""Polynomials by coefficients, highest degree first, as in NumPy."""

from __future__ import annotations

import operator
from typing import Any

import numpy

from hlotool.numpy import standard as np
from hlotool.numpy.array import Array, concrete, concrete_value
from hlotool.numpy.calculus import convolve
from hlotool.numpy.dtypes import kind_of
from hlotool.numpy.errors import value_error
from hlotool.numpy.linalg import eigvals, lstsq
from hlotool.numpy.operation import as_arrays, convert, operation

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots", "vander",
]  # fmt: skip


@operation("p", "x")
def polyval(p: Any, x: Any) -> Array:
    """The polynomial at `x`."""
    coefficients, at = as_arrays(p, x)
    found = np.zeros(at.shape, dtype=at.dtype)
    for number in range(coefficients.shape[0]):
        found = found * at + coefficients[number]
    return found


@operation("x")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Array:  # noqa: N803  # NumPy's name
    """The powers of the elements, a row each."""
    (a,) = as_arrays(x)
    if a.ndim != 1:
        raise value_error(f"vander takes a vector, not an array of shape {a.shape}")
    count = a.shape[0] if N is None else operator.index(N)
    if kind_of(a.dtype) == "pred" or (a.dtype.kind in "iu" and a.dtype.itemsize < 8):
        a = convert(a, numpy.dtype(numpy.int64))
    columns = [np.ones(a.shape, dtype=a.dtype)]
    while len(columns) < count:
        columns.append(columns[-1] * a)
    if not count:
        return np.zeros((a.shape[0], 0), dtype=a.dtype)
    return np.stack(columns if increasing else columns[::-1], axis=-1)


@operation("x", "y", "w")
def _polyfit(x: Any, y: Any, w: Any, degree: int, rcond: float | None) -> Array:
    at, values = as_arrays(np.astype(x, _inexact(x)), np.astype(y, _inexact(y)))
    if at.ndim != 1 or values.ndim not in (1, 2) or at.shape[0] != values.shape[0] or not at.shape[0]:
        raise value_error(f"polyfit of shapes {at.shape} and {values.shape}: vectors of one length are expected")
    left = vander(at, degree + 1)
    right = values
    if w is not None:
        if w.shape != at.shape:
            raise value_error(f"weights of shape {w.shape} for {at.shape[0]} points")
        weights = np.astype(w, left.dtype)
        left = left * weights[:, None]
        right = right * (weights if right.ndim == 1 else weights[:, None])
    scale = np.sqrt(np.real(np.sum(left * np.conj(left), axis=0)))
    limit = at.shape[0] * float(numpy.finfo(at.dtype).eps) if rcond is None else rcond
    found = lstsq(left / np.astype(scale, left.dtype), right, rcond=limit).x
    solution: Array = found / np.astype(scale if found.ndim == 1 else scale[:, None], found.dtype)
    return solution


def _inexact(x: Any) -> Any:
    (a,) = as_arrays(x)
    return a.dtype if a.dtype.kind in "fc" else numpy.dtype(numpy.float64)


def polyfit(x: Any, y: Any, deg: int, rcond: float | None = None, w: Any = None) -> Array:
    """The coefficients of the polynomial of degree `deg` with the least squares of distances."""
    degree = operator.index(deg)
    if degree < 0:
        raise value_error(f"a degree is not negative: {degree}")
    return _polyfit(x, y, w, degree, rcond)


@operation("a1", "a2")
def polyadd(a1: Any, a2: Any) -> Array:
    """The sum of two polynomials."""
    one, other = _same_length(a1, a2)
    return one + other


@operation("a1", "a2")
def polysub(a1: Any, a2: Any) -> Array:
    """The difference of two polynomials."""
    one, other = _same_length(a1, a2)
    return one - other


def _same_length(a1: Any, a2: Any) -> tuple[Array, ...]:
    found = [np.reshape(one, (-1,)) for one in as_arrays(a1, a2)]
    size = max(one.shape[0] for one in found)
    return tuple(np.concat([np.zeros(size - one.shape[0], dtype=one.dtype), one], axis=0) for one in found)


@operation("a1", "a2")
def polymul(a1: Any, a2: Any) -> Array:
    """The product of two polynomials."""
    one, other = (np.reshape(each, (-1,)) for each in as_arrays(a1, a2))
    return convolve(one, other)


@operation("p")
def polyder(p: Any, m: int = 1) -> Array:
    """The derivative, taken `m` times."""
    (a,) = as_arrays(p)
    for _ in range(operator.index(m)):
        degree = a.shape[0] - 1
        if degree < 1:
            return np.zeros(0, dtype=a.dtype)
        a = a[:-1] * np.astype(Array(numpy.arange(degree, 0, -1)), a.dtype)
    return a


@operation("p", "k")
def _polyint(p: Any, k: Any, m: int) -> Array:
    a = np.astype(p, _inexact(p))
    constants = np.broadcast_to(np.astype(k, a.dtype), (m,))
    for number in range(m):
        divisors = np.astype(Array(numpy.arange(a.shape[0], 0, -1)), a.dtype)
        a = np.concat([a / divisors, constants[number : number + 1]], axis=0)
    return a


def polyint(p: Any, m: int = 1, k: Any = None) -> Array:
    """The integral, taken `m` times, with the constants `k`."""
    return _polyint(p, 0.0 if k is None else k, operator.index(m))


@operation("seq_of_zeros")
def poly(seq_of_zeros: Any) -> Array:
    """The polynomial with these zeros and the leading coefficient 1."""
    (zeros,) = as_arrays(seq_of_zeros)
    if zeros.ndim != 1:
        raise value_error("poly takes a vector of zeros", "of a matrix, pass its eigenvalues")
    zeros = np.astype(zeros, _inexact(zeros))
    found = np.ones(1, dtype=zeros.dtype)
    for number in range(zeros.shape[0]):
        shifted = np.concat([np.zeros(1, dtype=zeros.dtype), found * zeros[number]], axis=0)
        found = np.concat([found, np.zeros(1, dtype=zeros.dtype)], axis=0) - shifted
    return found


def roots(p: Any) -> Array:
    """The zeros of a polynomial, complex numbers: the eigenvalues of its companion matrix.

    Zeros at the front of `p` lower the degree, which must be known: under jit, the first coefficient counts as other
    than 0, and so does the last.
    """
    given = p if isinstance(p, Array) else concrete(p)
    if given.ndim != 1:
        raise value_error(f"roots takes a vector of coefficients, not an array of shape {given.shape}")
    behind = 0
    if given._trace is None:
        places = numpy.flatnonzero(given._value)
        if not places.size:
            return np.zeros(0, dtype=numpy.complex128)
        behind = given.shape[0] - 1 - int(places[-1])
        given = given[int(places[0]) : int(places[-1]) + 1]
    return _roots(given, behind)


@operation("p")
def _roots(p: Any, behind: int) -> Array:
    a = np.astype(p, _inexact(p))
    degree = a.shape[0] - 1
    complex_type = numpy.complex64 if a.dtype in (numpy.float32, numpy.complex64) else numpy.complex128
    nothing = np.zeros(behind, dtype=complex_type)
    if degree < 1:
        return nothing
    first = np.reshape(-a[1:] / a[0], (1, degree))
    below = np.astype(np.eye(degree - 1, degree), a.dtype)
    return np.concat([np.astype(eigvals(np.concat([first, below], axis=0)), complex_type), nothing], axis=0)


def polydiv(u: Any, v: Any) -> tuple[Array, Array]:
    """The quotient and the remainder of polynomials.  The shape of the remainder depends on values: not under jit."""
    one, other = (one if isinstance(one, Array) else concrete(one) for one in (u, v))
    hint = "the shape of the remainder depends on values; use it outside of jit"
    quotient, rest = numpy.polydiv(*(concrete_value(each, "polydiv", hint) for each in (one, other)))
    return concrete(quotient), concrete(rest)
