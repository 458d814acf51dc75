"""Indices: of triangles, diagonals and grids, and as single numbers; short ways to write ranges."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy

from hlotool.numpy import standard as np
from hlotool.numpy.array import Array, concrete, wrap
from hlotool.numpy.dtypes import kind_of
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.operation import as_arrays, operation

__all__ = [
    "bartlett", "blackman", "diag_indices", "diag_indices_from", "hamming", "hanning", "index_exp", "ix_", "kaiser",
    "mask_indices", "mgrid", "ogrid", "ravel_multi_index", "s_", "tril_indices", "tril_indices_from", "triu_indices",
    "triu_indices_from", "unravel_index",
]  # fmt: skip

index_exp, s_ = numpy.index_exp, numpy.s_


def _wrapped(found: Sequence[Any]) -> tuple[Array, ...]:
    return tuple(wrap(numpy.ascontiguousarray(one)) for one in found)


def _matrix(arr: Any) -> tuple[int, int]:
    shape = (arr if isinstance(arr, Array) else concrete(arr)).shape
    if len(shape) != 2:
        raise value_error(f"an array of two dimensions is expected, not one of shape {shape}")
    return shape[0], shape[1]


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """The indices of what is on and below a diagonal of a matrix of n rows and m columns."""
    return _wrapped(numpy.tril_indices(operator.index(n), operator.index(k), m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """The indices of what is on and above a diagonal of a matrix of n rows and m columns."""
    return _wrapped(numpy.triu_indices(operator.index(n), operator.index(k), m))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Array, ...]:
    """``tril_indices`` for a matrix."""
    rows, columns = _matrix(arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, ...]:
    """``triu_indices`` for a matrix."""
    rows, columns = _matrix(arr)
    return triu_indices(rows, k, columns)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array with dimensions of size n."""
    return _wrapped(numpy.diag_indices(operator.index(n), operator.index(ndim)))


def diag_indices_from(arr: Any) -> tuple[Array, ...]:
    """``diag_indices`` for an array."""
    shape = (arr if isinstance(arr, Array) else concrete(arr)).shape
    if len(shape) < 2 or len(set(shape)) > 1:
        raise value_error(f"two dimensions at least, all of one size, are expected, not {shape}")
    return diag_indices(shape[0], len(shape))


def mask_indices(n: int, mask_func: Any, k: Any = 0) -> tuple[Array, ...]:
    """The indices where ``mask_func(ones, k)`` of a square matrix is not 0; not under jit."""
    found: tuple[Array, ...] = np.nonzero(mask_func(np.ones((n, n), dtype=numpy.int64), k) != 0)
    return found


def ix_(*args: Any) -> tuple[Array, ...]:
    """Vectors of indices as an open grid, an index for each combination of theirs."""
    found = []
    for number, one in enumerate(args):
        vector = one if isinstance(one, Array) else concrete(one)
        if vector.ndim != 1:
            raise value_error("ix_ takes vectors")
        if vector.dtype == numpy.bool_:
            vector = np.nonzero(vector)[0]
        elif not vector.size:
            vector = np.zeros(0, dtype=numpy.int64)
        found.append(np.reshape(vector, tuple(-1 if n == number else 1 for n in range(len(args)))))
    return tuple(found)


@operation("arrays", exact=True)
def _raveled(arrays: Any, dims: tuple[int, ...], modes: tuple[str, ...], order: str, /) -> Array:
    steps = [math.prod(dims[n + 1 :]) if order == "C" else math.prod(dims[:n]) for n in range(len(dims))]
    total = None
    for one, size, step, mode in zip(arrays, dims, steps, modes, strict=True):
        (index,) = as_arrays(one)
        if kind_of(index.dtype) not in ("signed", "unsigned", "pred"):
            raise type_error(f"ravel_multi_index: indices are whole numbers, not {index.dtype}")
        index = np.astype(index, numpy.int64)
        if mode == "wrap":
            index = index % size
        elif mode == "clip":
            index = np.minimum(np.maximum(index, 0), size - 1)
        total = index * step if total is None else total + index * step
    assert total is not None
    return total


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Array:
    """Indices of several dimensions as single numbers.  Indices out of bounds raise outside of jit only."""
    sizes = tuple(map(operator.index, dims)) if isinstance(dims, (tuple, list)) else (operator.index(dims),)
    rows = [multi_index[n] for n in range(len(multi_index))]
    modes = tuple(mode) if isinstance(mode, (tuple, list)) else (mode,) * len(sizes)
    if len(rows) != len(sizes) or len(modes) != len(sizes) or order not in ("C", "F"):
        raise value_error(f"ravel_multi_index: {len(rows)} indices for {len(sizes)} dimensions")
    for row, size, one in zip(rows, sizes, modes, strict=True):
        own = row if isinstance(row, Array) else concrete(row)
        if one not in ("raise", "wrap", "clip"):
            raise value_error(f"ravel_multi_index: the mode is 'raise', 'wrap' or 'clip', not {one!r}")
        if one == "raise" and own._trace is None and own.size and not 0 <= int(own._value.min()) <= int(
            own._value.max()) < size:
            raise value_error(f"ravel_multi_index: an index is out of bounds for a dimension of {size}")
    return _raveled(rows, sizes, modes, order)


@operation("indices", exact=True)
def _unraveled(indices: Any, shape: tuple[int, ...], order: str, /) -> tuple[Array, ...]:
    (rest,) = as_arrays(indices)
    if kind_of(rest.dtype) not in ("signed", "unsigned"):
        raise type_error(f"unravel_index: indices are whole numbers, not {rest.dtype}")
    rest = np.astype(rest, numpy.int64)
    found: list[Array] = []
    for size in reversed(shape) if order == "C" else shape:
        found.append(rest % max(size, 1))
        rest = rest // max(size, 1)
    return tuple(found[::-1] if order == "C" else found)


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Array, ...]:
    """Single numbers as indices of an array of `shape`.  Those out of bounds raise outside of jit only."""
    sizes = tuple(map(operator.index, shape)) if isinstance(shape, (tuple, list)) else (operator.index(shape),)
    own = indices if isinstance(indices, Array) else concrete(indices)
    if order not in ("C", "F"):
        raise value_error(f"unravel_index: the order is 'C' or 'F', not {order!r}")
    if own._trace is None and own.size and not 0 <= int(own._value.min()) <= int(own._value.max()) < math.prod(sizes):
        raise value_error(f"unravel_index: an index is out of bounds for an array of shape {sizes}")
    return _unraveled(own, sizes, order)


class _Grid:
    """``mgrid[0:3, 0:1:5j]``: coordinates of a grid; a number of steps is written as an imaginary one."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getitem__(self, key: Any) -> Any:
        found = self._own[key]
        return _wrapped(found) if isinstance(found, (tuple, list)) else wrap(found)


mgrid, ogrid = _Grid(numpy.mgrid), _Grid(numpy.ogrid)


# ---- windows


def bartlett(M: int) -> Array:  # noqa: N803  # NumPy's name
    """The triangular window of M points."""
    return wrap(numpy.bartlett(operator.index(M)))


def blackman(M: int) -> Array:  # noqa: N803  # NumPy's name
    """The Blackman window of M points."""
    return wrap(numpy.blackman(operator.index(M)))


def hamming(M: int) -> Array:  # noqa: N803  # NumPy's name
    """The Hamming window of M points."""
    return wrap(numpy.hamming(operator.index(M)))


def hanning(M: int) -> Array:  # noqa: N803  # NumPy's name
    """The von Hann window of M points."""
    return wrap(numpy.hanning(operator.index(M)))


def kaiser(M: int, beta: float) -> Array:  # noqa: N803  # NumPy's name
    """The Kaiser window of M points."""
    return wrap(numpy.kaiser(operator.index(M), float(beta)))
