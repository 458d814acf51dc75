"""Order: sorts, and what is found by comparing elements."""

from __future__ import annotations

from typing import Any, overload

import numpy

from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, scalar
from hlotool.ir import array as hlo_array
from hlotool.ir.builder import Builder
from hlotool.numpy.array import Array, concrete, concrete_value, wrap
from hlotool.numpy.axes import as_axis, reduced_axes
from hlotool.numpy.dtypes import hlo_type, kind_of
from hlotool.numpy.elementwise import constant_like, expand
from hlotool.numpy.elementwise import where as _chosen
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.indexing import take
from hlotool.numpy.manipulation import one_of, with_shape
from hlotool.numpy.operation import as_arrays, convert, operation
from hlotool.numpy.statistical import highest, lowest
from hlotool.numpy.trace import apply

__all__ = [
    "argmax", "argmin", "argsort", "argwhere", "extract", "flatnonzero", "nonzero", "searchsorted", "sort", "where",
]  # fmt: skip

_VALUES = "the shape of the result depends on values; use it outside of jit, or np.where(condition, x, other)"


def _canonical(build: Builder, value: Instruction) -> Instruction:
    """Zeros and nans made equal, so that the total order is that of numbers, nan last."""
    element_type = value.shape.element_type
    zero = build.scalar_constant(0, element_type)
    value = build.select(build.compare(value, zero, "EQ"), zero, value)
    nan = build.scalar_constant(float("nan"), element_type)
    return build.select(build.compare(value, value, "NE"), nan, value)


def _comparator(element_types: list[str], keys: int, descending: bool) -> Computation:
    """Whether the first of two rows of elements comes before the second, by its first `keys`."""
    computation = Computation("before")
    build = Builder(computation)
    given = [build.parameter(2 * n + side, scalar(one)) for n, one in enumerate(element_types) for side in (0, 1)]
    found: Instruction | None = None
    for n in reversed(range(keys)):
        left, right = given[2 * n], given[2 * n + 1]
        total = None
        if ELEMENT_TYPES[element_types[n]].is_float:
            left, right, total = _canonical(build, left), _canonical(build, right), "TOTALORDER"
        first = build.compare(left, right, "GT" if descending else "LT", total)
        if found is not None:
            first = build.binary("or", first, build.binary("and", build.compare(left, right, "EQ", total), found))
        found = first
    assert found is not None
    computation.root = found
    return computation


def sorted_with(keys: list[Array], others: list[Array], axis: int, descending: bool = False) -> list[Array]:
    """All arrays in the order of the first, of ties in that of the next..., and otherwise as they were; in a trace."""
    arrays = [*keys, *others]
    compare = _comparator([hlo_type(one.dtype) for one in arrays], len(keys), descending)
    made = apply("sort", *arrays, dimensions=(axis,), is_stable=True, to_apply=compare)
    if len(arrays) == 1:
        return [made]
    return [apply("get-tuple-element", made, index=n) for n in range(len(arrays))]


def _keys(value: Array) -> list[Array]:
    """What elements are sorted by: complex numbers by their real parts, then the imaginary ones."""
    if kind_of(value.dtype) != "complex":
        return [value]
    return [apply("real", value), apply("imag", value)]


@operation("x")
def _sort(x: Any, axis: int, descending: bool, /) -> Array:
    found = one_of(x)
    place = as_axis(axis, found.ndim)
    keys = _keys(found)
    if len(keys) == 1:
        return sorted_with(keys, [], place, descending)[0]
    return sorted_with(keys, [found], place, descending)[-1]


@operation("x")
def _argsort(x: Any, axis: int, descending: bool, /) -> Array:
    found = one_of(x)
    place = as_axis(axis, found.ndim)
    number = apply("iota", shape=hlo_array("s64", found.shape), iota_dimension=place)
    return sorted_with(_keys(found), [number], place, descending)[-1]


def sort(
    x: Any, /, axis: Any = -1, *, descending: bool = False, stable: bool = True, kind: Any = None
) -> Array:
    """The elements in order along `axis`, nan last (first if `descending`); of all where that is None."""
    found = _flat(x) if axis is None else x
    return _sort(found, -1 if axis is None else axis, bool(descending))


def argsort(x: Any, /, axis: Any = -1, *, descending: bool = False, stable: bool = True, kind: Any = None) -> Array:
    """The indices of the elements in order; of equal ones, the first comes first."""
    found = _flat(x) if axis is None else x
    return _argsort(found, -1 if axis is None else axis, bool(descending))


@operation("x")
def _flat(x: Any, /) -> Array:
    found = one_of(x)
    return with_shape(found, (found.size,))


# ---- the place of the greatest


def _best(element_type: str, direction: str) -> Computation:
    """Of two pairs of a value and its index the better one: nan before all, and of equal values the first."""
    computation = Computation("better")
    build = Builder(computation)
    a, i, b, j = (build.parameter(n, scalar(one)) for n, one in enumerate([element_type, "s64"] * 2))
    better = build.compare(a, b, direction)
    same = build.compare(a, b, "EQ")
    if ELEMENT_TYPES[element_type].is_float:
        a_nan, b_nan = build.compare(a, a, "NE"), build.compare(b, b, "NE")
        better = build.binary("or", build.binary("and", a_nan, build.unary("not", b_nan)),
                              build.binary("and", better, build.unary("not", b_nan)))
        same = build.binary("or", same, build.binary("and", a_nan, b_nan))
    first = build.binary("or", better, build.binary("and", same, build.compare(i, j, "LT")))
    computation.root = build.tuple([build.select(first, a, b), build.select(first, i, j)])
    return computation


def _arg(x: Any, axis: Any, keepdims: bool, name: str) -> Array:
    found = one_of(x)
    if kind_of(found.dtype) == "complex":
        raise type_error(f"{name} is not for arrays of {found.dtype}: complex numbers have no order")
    shape = found.shape
    if axis is None or not reduced_axes(axis, found.ndim):
        found, place = with_shape(found, (found.size,)), 0
        kept: tuple[int, ...] = (1,) * len(shape)
    else:
        place = as_axis(axis, found.ndim)
        kept = (*shape[:place], 1, *shape[place + 1 :])
    if not found.shape[place]:
        raise value_error(f"{name} of no elements: an array of shape {shape} has none along its axis")
    end = lowest(found.dtype) if name == "argmax" else highest(found.dtype)
    number = apply("iota", shape=hlo_array("s64", found.shape), iota_dimension=place)
    start = wrap(numpy.asarray(end, found.dtype)), wrap(numpy.asarray(numpy.iinfo(numpy.int64).max))
    best = _best(hlo_type(found.dtype), "GT" if name == "argmax" else "LT")
    made = apply("reduce", found, number, *start, dimensions=(place,), to_apply=best)
    index = apply("get-tuple-element", made, index=1)
    return with_shape(index, kept) if keepdims else index


@operation("x")
def argmax(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The index of the greatest element along `axis`, the first one; of nan where there is one."""
    return _arg(x, axis, keepdims, "argmax")


@operation("x")
def argmin(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The index of the least element along `axis`, the first one; of nan where there is one."""
    return _arg(x, axis, keepdims, "argmin")


# ---- places that depend on values


def nonzero(x: Any, /) -> tuple[Array, ...]:
    """The indices of all elements that are not 0, one array for each dimension; not under jit."""
    value = concrete_value(_array(x), "nonzero", _VALUES)
    if not value.ndim:
        raise value_error("nonzero takes an array with one dimension at least")
    return tuple(wrap(one) for one in numpy.nonzero(value))


@overload
def where(condition: Any, x1: Any, x2: Any, /) -> Array: ...


@overload
def where(condition: Any, /) -> tuple[Array, ...]: ...


def where(condition: Any, x1: Any = None, x2: Any = None, /) -> Any:
    """x1 where `condition` is true, and x2 elsewhere; without these the places where it is true, as ``nonzero``."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    if x1 is None or x2 is None:
        raise type_error("where takes a condition alone, or two arrays or numbers with it")
    return _chosen(condition, x1, x2)


def flatnonzero(x: Any, /) -> Array:
    """The indices of all elements that are not 0, among all in one dimension; not under jit."""
    return wrap(numpy.flatnonzero(concrete_value(_array(x), "flatnonzero", _VALUES)))


def argwhere(x: Any, /) -> Array:
    """The indices of all elements that are not 0, a row each; not under jit."""
    return wrap(numpy.argwhere(concrete_value(_array(x), "argwhere", _VALUES)))


def extract(condition: Any, x: Any, /) -> Array:
    """The elements where `condition` is true; not under jit."""
    chosen = concrete_value(_array(condition), "extract", _VALUES)
    return take(x, wrap(numpy.flatnonzero(chosen)))


def _array(value: Any) -> Array:
    return value if isinstance(value, Array) else concrete(value)


# ---- binary search


@operation("x1", "x2", "sorter")
def _searchsorted(x1: Any, x2: Any, sorter: Any, side: str, /) -> Array:
    rows, wanted = as_arrays(x1, x2)
    if kind_of(rows.dtype) == "complex":
        raise type_error(f"searchsorted is not for arrays of {rows.dtype}: complex numbers have no order")
    if rows.ndim != 1:
        raise value_error(f"searchsorted takes a sorted vector, not an array of shape {rows.shape}")
    size = rows.shape[0]
    if sorter is not None and size:
        rows = _at(rows, one_of(sorter))
    low = expand(wrap(numpy.asarray(0)), wanted.shape)
    if not size:
        return low
    high = expand(wrap(numpy.asarray(size)), wanted.shape)
    for _ in range(size.bit_length()):
        middle = apply("shift-right-arithmetic", apply("add", low, high), constant_like(low, 1))
        before = _before(_at(rows, middle), wanted, side)
        going = apply("compare", low, high, direction="LT")
        after = apply("add", middle, constant_like(low, 1))
        low, high = (
            apply("select", apply("and", going, before), after, low),
            apply("select", apply("and", going, apply("not", before)), middle, high),
        )
    return low


def _at(values: Array, index: Array) -> Array:
    starts = with_shape(convert(index, numpy.dtype(numpy.int64)), (*index.shape, 1))
    return apply(
        "gather", values, starts, offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,),
        index_vector_dim=index.ndim, slice_sizes=(1,),
    )  # fmt: skip


def _before(a: Array, b: Array, side: str) -> Array:
    """Whether `a` comes before the place of `b`: a < b, or a <= b on the right side; nan is greatest."""
    found = apply("compare", a, b, direction="LT" if side == "left" else "LE")
    if kind_of(a.dtype) != "float":
        return found
    a_nan, b_nan = (apply("compare", one, one, direction="NE") for one in (a, b))
    tie = apply("and", b_nan, apply("not", a_nan)) if side == "left" else b_nan
    return apply("or", found, tie)


def searchsorted(x1: Any, x2: Any, /, side: str = "left", sorter: Any = None) -> Array:
    """Where each of `x2` goes into the sorted vector `x1`: ahead of its equals, or behind them on the right `side`."""
    if side not in ("left", "right"):
        raise value_error(f"searchsorted: the side is 'left' or 'right', not {side!r}")
    return _searchsorted(x1, x2, sorter, side)

