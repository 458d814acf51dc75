"""Sets of elements: how many there are depends on values, so that these functions are for concrete arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from hlotool.numpy.array import Array, concrete, concrete_value, wrap
from hlotool.numpy.dtypes import kind_of
from hlotool.numpy.elementwise import constant_like, equal, expand, logical_not
from hlotool.numpy.manipulation import with_shape
from hlotool.numpy.operation import as_arrays, operation
from hlotool.numpy.sorting import searchsorted, sort
from hlotool.numpy.statistical import any
from hlotool.numpy.trace import apply

__all__ = [
    "in1d", "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip

_HINT = "the number of different elements depends on values: call it outside of jit"


class UniqueAll(NamedTuple):
    """Different elements; the index of the first of each; for each element the number of its value; how many."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Different elements, and how many there are of each."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Different elements, and for each element the number of its value."""

    values: Array
    inverse_indices: Array


def _value(x: Any, name: str) -> numpy.ndarray[Any, Any]:
    return concrete_value(x if isinstance(x, Array) else concrete(x), name, _HINT)


def _unique(x: Any, name: str) -> tuple[Array, Array, Array, Array]:
    """Values in order, first indices, the number of the value of each element, and counts; each nan is its own."""
    given = _value(x, name)
    values, indices, inverse, counts = numpy.unique(given, True, True, True, equal_nan=False)
    return wrap(values), wrap(indices), wrap(inverse.reshape(given.shape)), wrap(counts)


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements in order (nan as often as it occurs), where they are, and how many; not under jit."""
    return UniqueAll(*_unique(x, "unique_all"))


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements in order, and how many there are of each; not under jit."""
    values, _, _, counts = _unique(x, "unique_counts")
    return UniqueCounts(values, counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements in order, and for each element the number of its value; not under jit."""
    values, _, inverse, _ = _unique(x, "unique_inverse")
    return UniqueInverse(values, inverse)


def unique_values(x: Any, /) -> Array:
    """The different elements in order; not under jit."""
    return _unique(x, "unique_values")[0]


def unique(x: Any, /, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: Any = None, *, equal_nan: bool = True, sorted: bool = True) -> Any:
    """NumPy's function of this name; not under jit."""
    theirs: Any = numpy.unique
    found = theirs(_value(x, "unique"), return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)
    return tuple(map(wrap, found)) if isinstance(found, tuple) else wrap(found)


def union1d(x1: Any, x2: Any, /) -> Array:
    """What is in one of two arrays, in order; not under jit."""
    return wrap(numpy.union1d(_value(x1, "union1d"), _value(x2, "union1d")))


def intersect1d(x1: Any, x2: Any, /, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """What is in both of two arrays, in order, and where that is first; not under jit."""
    theirs: Any = numpy.intersect1d
    found = theirs(_value(x1, "intersect1d"), _value(x2, "intersect1d"), assume_unique, return_indices)
    return tuple(map(wrap, found)) if return_indices else wrap(found)


def setdiff1d(x1: Any, x2: Any, /, assume_unique: bool = False) -> Array:
    """What is in the first of two arrays only; not under jit."""
    return wrap(numpy.setdiff1d(_value(x1, "setdiff1d"), _value(x2, "setdiff1d"), assume_unique))


def setxor1d(x1: Any, x2: Any, /, assume_unique: bool = False) -> Array:
    """What is in exactly one of two arrays, in order; not under jit."""
    return wrap(numpy.setxor1d(_value(x1, "setxor1d"), _value(x2, "setxor1d"), assume_unique))


@operation("x", "values")
def _isin(x: Any, values: Any, invert: bool, /) -> Array:
    found, known = as_arrays(x, values)
    if kind_of(found.dtype) == "pred":
        found, known = as_arrays(found, known, numpy.zeros((), numpy.int8))[:2]
    known = with_shape(known, (known.size,))
    if not known.size:
        return expand(wrap(numpy.asarray(invert)), found.shape)
    if kind_of(found.dtype) == "complex":  # these have no order: each is compared with each
        among = any(equal(with_shape(found, (*found.shape, 1)), known), axis=-1)
        return logical_not(among) if invert else among
    ordered = sort(known)
    place = searchsorted(ordered, found)
    last = constant_like(place, known.size - 1)
    starts = with_shape(apply("minimum", place, last), (*found.shape, 1))
    there = apply(
        "gather", ordered, starts, offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,),
        index_vector_dim=found.ndim, slice_sizes=(1,),
    )  # fmt: skip
    return apply("compare", there, found, direction="NE" if invert else "EQ")


def isin(x1: Any, x2: Any, /, *, invert: bool = False, assume_unique: bool = False) -> Array:
    """Whether each of `x1` is in `x2`."""
    return _isin(x1, x2, bool(invert))


def in1d(x1: Any, x2: Any, /, invert: bool = False) -> Array:
    """NumPy's older name for ``isin``."""
    return isin(x1, x2, invert=invert)
