"""Sums and other numbers of many elements."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy

from hlotool.ir import Window, WindowDimension
from hlotool.ir.builder import binary_computation
from hlotool.numpy.array import Array, wrap
from hlotool.numpy.axes import as_axes, as_axis, reduced_axes
from hlotool.numpy.dtypes import DType, hlo_type, kind_of, promote, resolve
from hlotool.numpy.elementwise import as_floats, constant_like, elementwise, expand, not_zero
from hlotool.numpy.elementwise import where as choose_where
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.manipulation import diagonal, joined, one_of, part, permuted, with_shape
from hlotool.numpy.operation import as_arrays, convert, operation
from hlotool.numpy.outputs import written
from hlotool.numpy.trace import apply

__all__ = [
    "all", "amax", "amin", "any", "average", "count_nonzero", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum",
    "diff", "max", "mean", "min", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "prod", "ptp",
    "std", "sum", "trace", "var",
]  # fmt: skip


def lowest(dtype: DType) -> Any:
    """The least value of a type: minus infinity where there is one."""
    return _end(dtype, "min")


def highest(dtype: DType) -> Any:
    """The greatest value of a type: infinity where there is one."""
    return _end(dtype, "max")


def _end(dtype: DType, which: str) -> Any:
    kind = kind_of(dtype)
    if kind == "pred":
        return which == "max"
    if kind in ("signed", "unsigned"):
        integers: Any = ml_dtypes.iinfo
        return int(getattr(integers(dtype), which))
    endless = numpy.asarray(math.inf if which == "max" else -math.inf).astype(dtype)
    if numpy.isinf(endless.astype(numpy.float64)):
        return float(endless)
    floats: Any = ml_dtypes.finfo
    return float(getattr(floats(dtype), which))


def reduced(value: Array, opcode: str, start: Any, axes: tuple[int, ...], keepdims: bool = False) -> Array:
    """The elements along `axes` brought together by an opcode, in a trace."""
    if not axes:
        return Array(value._value, value._trace)
    computation = binary_computation(opcode, hlo_type(value.dtype))
    initial = wrap(numpy.asarray(start, value.dtype))
    found = apply("reduce", value, initial, dimensions=tuple(sorted(axes)), to_apply=computation)
    if not keepdims:
        return found
    return with_shape(found, [1 if n in axes else size for n, size in enumerate(value.shape)])


def _total_type(dtype: DType, asked: Any) -> DType:
    """The type of a sum: integers become wide ones."""
    if asked is not None:
        return resolve(asked)
    kind = kind_of(dtype)
    if kind in ("pred", "signed"):
        return numpy.dtype(numpy.int64)
    return numpy.dtype(numpy.uint64) if kind == "unsigned" else dtype


def _inner_type(dtype: DType) -> DType:
    """In which sums are computed: narrow floats in f32."""
    return numpy.dtype(numpy.float32) if kind_of(dtype) == "float" and dtype.itemsize < 4 else dtype


def _total(x: Any, opcode: str, start: int, axis: Any, dtype: Any, keepdims: bool) -> Array:
    found = one_of(x)
    target = _total_type(found.dtype, dtype)
    inner = convert(found, _inner_type(target))
    return convert(reduced(inner, opcode, start, reduced_axes(axis, found.ndim), keepdims), target)


@operation("x")
def _sum(x: Any, axis: Any, dtype: Any, keepdims: bool, /) -> Array:
    return _total(x, "add", 0, axis, dtype, keepdims)


def sum(
    x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Array:  # fmt: skip
    """The sum; of integers in 64 bits.  Of those elements `where` it is true alone, and with `initial` added."""
    found = _sum(x if where is None else _those(x, where, 0), axis, dtype, keepdims)
    found = found if initial is None else _with_initial(found, initial, "add")
    return found if out is None else written(out, found)


@operation("x")
def _prod(x: Any, axis: Any, dtype: Any, keepdims: bool, /) -> Array:
    return _total(x, "multiply", 1, axis, dtype, keepdims)


def prod(
    x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Array:  # fmt: skip
    """The product; of integers in 64 bits.  Of those elements `where` it is true alone, and times `initial`."""
    found = _prod(x if where is None else _those(x, where, 1), axis, dtype, keepdims)
    found = found if initial is None else _with_initial(found, initial, "multiply")
    return found if out is None else written(out, found)


@operation("x", "where")
def _those(x: Any, where: Any, otherwise: Any, /) -> Array:
    """`x`, with another number in the places that do not count."""
    found = one_of(x)
    number = constant_like(found, _END[otherwise](found.dtype) if isinstance(otherwise, str) else otherwise)
    return choose_where(one_of(where), found, number)


@operation("x", "initial")
def _with_initial(x: Any, initial: Any, opcode: str, /) -> Array:
    """A result, and one more element in it."""
    found, more = as_arrays(x, initial)
    return convert(elementwise(opcode, found, more), one_of(x).dtype)


_END = {"maximum": lowest, "minimum": highest}


def _extreme(x: Any, opcode: str, axis: Any, keepdims: bool, some: bool) -> Array:
    """`some`: there is an element in any case, the initial one."""
    found = one_of(x)
    name = opcode[:3]
    if kind_of(found.dtype) == "complex":
        raise type_error(f"{name} is not for arrays of {found.dtype}: complex numbers have no order")
    axes = reduced_axes(axis, found.ndim)
    if not some and 0 in [found.shape[n] for n in axes]:
        raise value_error(f"{name} of no elements: an array of shape {found.shape} has none along its axis")
    return reduced(found, opcode, _END[opcode](found.dtype), axes, keepdims)


_extreme_of = operation("x")(_extreme)


def _extreme_where(x: Any, opcode: str, axis: Any, keepdims: bool, initial: Any, where: Any) -> Array:
    if where is not None:
        if initial is None:
            raise value_error(f"{opcode[:3]} with where= needs initial=, for where no element counts")
        x = _those(x, where, opcode)
    found = _extreme_of(x, opcode, axis, keepdims, initial is not None)
    return found if initial is None else _with_initial(found, initial, opcode)


def max(
    x: Any, /, axis: Any = None, out: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Array:
    """The greatest element, and `initial`, of those `where` it is true; nan where there is one."""
    found = _extreme_where(x, "maximum", axis, keepdims, initial, where)
    return found if out is None else written(out, found)


def min(
    x: Any, /, axis: Any = None, out: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Array:
    """The least element, and `initial`, of those `where` it is true; nan where there is one."""
    found = _extreme_where(x, "minimum", axis, keepdims, initial, where)
    return found if out is None else written(out, found)


@operation("x")
def _truth(x: Any, opcode: str, axis: Any, keepdims: bool, /) -> Array:
    found = not_zero(one_of(x))
    return reduced(found, opcode, opcode == "and", reduced_axes(axis, found.ndim), keepdims)


def all(x: Any, /, axis: Any = None, out: Any = None, *, keepdims: bool = False, where: Any = None) -> Array:
    """Whether all elements (of those `where` it is true) are true."""
    found = _truth(x if where is None else _those(x, where, 1), "and", axis, keepdims)
    return found if out is None else written(out, found)


def any(x: Any, /, axis: Any = None, out: Any = None, *, keepdims: bool = False, where: Any = None) -> Array:
    """Whether an element (of those `where` it is true) is true."""
    found = _truth(x if where is None else _those(x, where, 0), "or", axis, keepdims)
    return found if out is None else written(out, found)


@operation("x")
def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """How many elements are not 0."""
    found = convert(not_zero(one_of(x)), numpy.dtype(numpy.int64))
    return reduced(found, "add", 0, reduced_axes(axis, found.ndim), keepdims)


def _count(value: Array, axes: tuple[int, ...]) -> int:
    return math.prod(value.shape[n] for n in axes)


def _float_input(x: Any, dtype: Any) -> tuple[Array, DType]:
    """For means: the array in the type to compute in, and the type of the result; integers become f64."""
    found = one_of(x)
    floating = kind_of(found.dtype) in ("float", "complex")
    target = resolve(dtype) if dtype is not None else found.dtype if floating else numpy.dtype(numpy.float64)
    return convert(found, _inner_type(target)), target


def _counts(value: Array, where: Any, axes: tuple[int, ...], keepdims: bool, like: Array) -> Array:
    """How many elements count, in the type and shape of the total `like`."""
    if where is None:
        return constant_like(like, _count(value, axes))
    chosen = convert(expand(not_zero(one_of(where)), value.shape), like.dtype)
    return reduced(chosen, "add", 0, axes, keepdims)


def _mean_of(x: Any, where: Any, axis: Any, dtype: Any, keepdims: bool, /) -> Array:
    found, target = _float_input(x, dtype)
    axes = as_axes(axis, found.ndim)
    total = reduced(found if where is None else _those(found, where, 0), "add", 0, axes, keepdims)
    return convert(elementwise("divide", total, _counts(found, where, axes, keepdims, total)), target)


_mean_where = operation("x", "where")(_mean_of)


@operation("x")
def _mean(x: Any, axis: Any, dtype: Any, keepdims: bool, /) -> Array:
    return _mean_of(x, None, axis, dtype, keepdims)


def mean(
    x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False, where: Any = None
) -> Array:
    """The mean (of those elements `where` it is true); nan of no elements."""
    found = _mean(x, axis, dtype, keepdims) if where is None else _mean_where(x, where, axis, dtype, keepdims)
    return found if out is None else written(out, found)


def _var_of(
    x: Any, where: Any, mean: Any, axis: Any, correction: float, keepdims: bool, dtype: Any, root: bool, /
) -> Array:
    found, target = _float_input(x, dtype)
    axes = as_axes(axis, found.ndim)
    if mean is None:
        counting = found if where is None else _those(found, where, 0)
        total = reduced(counting, "add", 0, axes, keepdims=True)
        middle = elementwise("divide", total, _counts(found, where, axes, True, total))
    else:
        middle = convert(one_of(mean), found.dtype)
    apart = elementwise("subtract", found, middle)
    if kind_of(apart.dtype) == "complex":
        parts = [apply(one, apart) for one in ("real", "imag")]
        squares = apply("add", *[apply("multiply", one, one) for one in parts])
        target = squares.dtype
    else:
        squares = apply("multiply", apart, apart)
    summed = reduced(squares if where is None else _those(squares, where, 0), "add", 0, axes, keepdims)
    counts = _counts(found, where, axes, keepdims, summed)
    less = apply("subtract", counts, constant_like(summed, correction))
    made = apply("divide", summed, apply("maximum", less, constant_like(summed, 0)))
    return convert(apply("sqrt", made) if root else made, target)


_var_where = operation("x", "where", "mean")(_var_of)


@operation("x")
def _var_all(x: Any, axis: Any, correction: float, keepdims: bool, dtype: Any, root: bool, /) -> Array:
    return _var_of(x, None, None, axis, correction, keepdims, dtype, root)


def _var(x: Any, where: Any, mean: Any, *constants: Any) -> Array:
    return _var_all(x, *constants) if where is mean is None else _var_where(x, where, mean, *constants)


def var(
    x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float | None = None, *,
    correction: float = 0.0, keepdims: bool = False, where: Any = None, mean: Any = None,
) -> Array:  # fmt: skip
    """The variance: squares of what elements are off the mean, by their number less `correction` (NumPy's `ddof`).

    A `mean` that is known has the dimensions that `keepdims` keeps.
    """
    found = _var(x, where, mean, axis, correction if ddof is None else ddof, keepdims, dtype, False)
    return found if out is None else written(out, found)


def std(
    x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float | None = None, *,
    correction: float = 0.0, keepdims: bool = False, where: Any = None, mean: Any = None,
) -> Array:  # fmt: skip
    """The standard deviation, the square root of ``var``."""
    found = _var(x, where, mean, axis, correction if ddof is None else ddof, keepdims, dtype, True)
    return found if out is None else written(out, found)


@operation("x")
def ptp(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The greatest element less the least."""
    return elementwise("subtract", max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """The mean, weighted; with what the weights add up to, if that is to be `returned`."""
    if weights is None and not returned:
        return mean(a, axis, keepdims=keepdims)
    found = _average(a, weights, axis, keepdims, returned)
    return found if returned else found[0]


def weights_of(weights: Array, shape: tuple[int, ...], axis: Any) -> Array:
    """A weight for every element of an array of this `shape`, from as many, or from those along its `axis`."""
    if weights.shape != shape:
        if axis is None:
            raise value_error(f"weights of shape {weights.shape} for {shape} need an axis")
        places = as_axes(axis, len(shape))
        if weights.shape != tuple(shape[n] for n in places):
            raise value_error(f"weights of shape {weights.shape} do not fit {shape} along {axis}")
        weights = permuted(weights, sorted(range(weights.ndim), key=places.__getitem__))
        weights = with_shape(weights, [size if n in places else 1 for n, size in enumerate(shape)])
    return expand(weights, shape)


@operation("a", "weights")
def _average(a: Any, weights: Any, axis: Any, keepdims: bool, returned: bool, /) -> tuple[Array, ...]:
    if weights is None:
        found = mean(a, axis, keepdims=keepdims)
        value = one_of(a)
        return found, constant_like(found, _count(value, as_axes(axis, value.ndim)))
    found, own = as_floats(a, weights)
    if kind_of(one_of(a).dtype) not in ("float", "complex"):  # means of integers are of f64, as everywhere
        wide = promote(found.dtype, numpy.dtype(numpy.float64))
        found, own = convert(found, wide), convert(own, wide)
    own = weights_of(own, found.shape, axis)
    total = sum(own, axis, keepdims=keepdims)
    made = elementwise("divide", sum(elementwise("multiply", found, own), axis, keepdims=keepdims), total)
    return (made, total) if returned else (made,)


def _without_nan(x: Any, fill: Any) -> Array:
    found = one_of(x)
    if kind_of(found.dtype) not in ("float", "complex"):
        return found
    return apply("select", apply("compare", found, found, direction="NE"), constant_like(found, fill), found)


@operation("x")
def _nan_total(x: Any, opcode: str, start: int, axis: Any, dtype: Any, keepdims: bool, /) -> Array:
    return _total(_without_nan(x, start), opcode, start, axis, dtype, keepdims)


def _nan_totalled(
    x: Any, opcode: str, start: int, axis: Any, dtype: Any, out: Any, keepdims: bool, initial: Any, where: Any
) -> Array:
    found = _nan_total(x if where is None else _those(x, where, start), opcode, start, axis, dtype, keepdims)
    found = found if initial is None else _with_initial(found, initial, opcode)
    return found if out is None else written(out, found)


def nansum(
    x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Array:  # fmt: skip
    """The sum of what is not nan, and of `initial`; of those elements `where` it is true alone."""
    return _nan_totalled(x, "add", 0, axis, dtype, out, keepdims, initial, where)


def nanprod(
    x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Array:  # fmt: skip
    """The product of what is not nan, and of `initial`; of those elements `where` it is true alone."""
    return _nan_totalled(x, "multiply", 1, axis, dtype, out, keepdims, initial, where)


def nanmax(
    x: Any, /, axis: Any = None, out: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Array:
    """The greatest of what is not nan, and `initial`, of those `where` it is true; nan where all is."""
    found = _nan_extreme(x, where, initial, "maximum", axis, keepdims)
    return found if out is None else written(out, found)


def nanmin(
    x: Any, /, axis: Any = None, out: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Array:
    """The least of what is not nan, and `initial`, of those `where` it is true; nan where all is."""
    found = _nan_extreme(x, where, initial, "minimum", axis, keepdims)
    return found if out is None else written(out, found)


def _nan_extreme_of(x: Any, where: Any, initial: Any, opcode: str, axis: Any, keepdims: bool, /) -> Array:
    found = one_of(x)
    if kind_of(found.dtype) != "float":
        return _extreme_where(found, opcode, axis, keepdims, initial, where)
    missing = apply("compare", found, found, direction="NE")
    filled = _without_nan(found, _END[opcode](found.dtype))
    made = _extreme_where(filled, opcode, axis, keepdims, initial, where)
    if initial is not None:
        return made
    return apply("select", all(missing, axis, keepdims=keepdims), constant_like(made, math.nan), made)


_nan_extreme_where = operation("x", "where", "initial")(_nan_extreme_of)


@operation("x")
def _nan_extreme_all(x: Any, opcode: str, axis: Any, keepdims: bool, /) -> Array:
    return _nan_extreme_of(x, None, None, opcode, axis, keepdims)


def _nan_extreme(x: Any, where: Any, initial: Any, *constants: Any) -> Array:
    if where is initial is None:
        return _nan_extreme_all(x, *constants)
    return _nan_extreme_where(x, where, initial, *constants)


def _numbers(x: Any, where: Any) -> Array:
    """Where elements count: are no nan, and wanted."""
    return _present(x) if where is None else _present_where(x, where)


@operation("x")
def _present(x: Any, /) -> Array:
    found = one_of(x)
    return apply("compare", found, found, direction="EQ")


@operation("x", "where")
def _present_where(x: Any, where: Any, /) -> Array:
    return elementwise("and", _present(x), not_zero(one_of(where)))


@operation("x")
def _nan_mean(x: Any, axis: Any, dtype: Any, keepdims: bool, /) -> Array:
    found, target = _float_input(x, dtype)
    kept = convert(_present(found), found.dtype)
    axes = as_axes(axis, found.ndim)
    total = reduced(_without_nan(found, 0), "add", 0, axes, keepdims)
    return convert(apply("divide", total, reduced(kept, "add", 0, axes, keepdims)), target)


def nanmean(
    x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False, where: Any = None
) -> Array:
    """The mean of what is not nan (of those elements `where` it is true)."""
    if where is None:
        found = _nan_mean(x, axis, dtype, keepdims)
    else:
        found = _mean_where(x, _present_where(x, where), axis, dtype, keepdims)
    return found if out is None else written(out, found)


def nanvar(
    x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float | None = None, *,
    correction: float = 0.0, keepdims: bool = False, where: Any = None, mean: Any = None,
) -> Array:  # fmt: skip
    """The variance of what is not nan; nan where no element is left."""
    return _nan_var(x, where, mean, axis, dtype, out, correction if ddof is None else ddof, keepdims, False)


def nanstd(
    x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float | None = None, *,
    correction: float = 0.0, keepdims: bool = False, where: Any = None, mean: Any = None,
) -> Array:  # fmt: skip
    """The standard deviation of what is not nan; nan where no element is left."""
    return _nan_var(x, where, mean, axis, dtype, out, correction if ddof is None else ddof, keepdims, True)


@operation("x")
def _nan_var_all(x: Any, axis: Any, freedom: float, keepdims: bool, dtype: Any, root: bool, /) -> Array:
    return _var_of(x, _present(x), None, axis, freedom, keepdims, dtype, root)


def _nan_var(
    x: Any, where: Any, mean: Any, axis: Any, dtype: Any, out: Any, freedom: float, keepdims: bool, root: bool
) -> Array:
    if where is mean is None:
        found = _nan_var_all(x, axis, freedom, keepdims, dtype, root)
    else:
        found = _var_where(x, _numbers(x, where), mean, axis, freedom, keepdims, dtype, root)
    return found if out is None else written(out, found)


# ---- along the way


def cumulative(value: Array, opcode: str, start: Any, axis: int) -> Array:
    """What elements up to each one come to, in a trace."""
    size = value.shape[axis]
    if not value.size:
        return value
    windows = [WindowDimension(1)] * value.ndim
    windows[axis] = WindowDimension(size, padding_low=size - 1)
    initial = wrap(numpy.asarray(start, value.dtype))
    computation = binary_computation(opcode, hlo_type(value.dtype))
    return apply("reduce-window", value, initial, window=Window(tuple(windows)), to_apply=computation)


def _cumulative(x: Any, opcode: str, start: int, axis: Any, dtype: Any, include_initial: bool) -> Array:
    found = one_of(x)
    found = found if found.ndim else with_shape(found, (1,))  # as in NumPy
    if axis is None:
        if found.ndim != 1:
            raise value_error(f"an array with {found.ndim} dimensions: say along which `axis`")
        axis = 0
    place = as_axis(axis, found.ndim)
    target = _total_type(found.dtype, dtype)
    made = convert(cumulative(convert(found, _inner_type(target)), opcode, start, place), target)
    if not include_initial:
        return made
    first = [1 if n == place else size for n, size in enumerate(found.shape)]
    return joined([expand(wrap(numpy.asarray(start, target)), tuple(first)), made], place)


@operation("x")
def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Array:
    """The sums of the elements up to each one, with a 0 ahead of them if `include_initial`."""
    return _cumulative(x, "add", 0, axis, dtype, include_initial)


@operation("x")
def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Array:
    """The products of the elements up to each one, with a 1 ahead of them if `include_initial`."""
    return _cumulative(x, "multiply", 1, axis, dtype, include_initial)


def _flat(x: Any, axis: Any) -> Array:
    found = one_of(x)
    return with_shape(found, (found.size,)) if axis is None else found


@operation("x")
def cumsum(x: Any, /, axis: Any = None, dtype: Any = None) -> Array:
    """The sums of the elements up to each one; of all of them in order where there is no `axis`."""
    return _cumulative(_flat(x, axis), "add", 0, axis, dtype, False)


@operation("x")
def cumprod(x: Any, /, axis: Any = None, dtype: Any = None) -> Array:
    """The products of the elements up to each one; of all of them in order where there is no `axis`."""
    return _cumulative(_flat(x, axis), "multiply", 1, axis, dtype, False)


@operation("x", "prepend", "append")
def _diff(x: Any, prepend: Any, append: Any, axis: int, n: int, /) -> Array:
    given = [one for one in (prepend, x, append) if one is not None]
    arrays = list(as_arrays(*given))
    found = arrays[0 if prepend is None else 1]
    place = as_axis(axis, found.ndim)
    edge = tuple(1 if m == place else size for m, size in enumerate(found.shape))
    rows = [expand(one, edge) if one.ndim < found.ndim else one for one in arrays]
    value = joined(rows, place)
    for _ in range(n):
        size = value.shape[place]
        if not size:
            return value
        after, before = part(value, place, 1, size), part(value, place, 0, size - 1)
        differs = kind_of(value.dtype) == "pred"
        value = apply("xor", after, before) if differs else apply("subtract", after, before)
    return value


def diff(x: Any, /, n: int = 1, axis: int = -1, *, prepend: Any = None, append: Any = None) -> Array:
    """Each element less the one before it, `n` times over."""
    if n < 0:
        raise value_error(f"diff: n is {n}, and cannot be negative")
    if n == 0:
        prepend = append = None
    return _diff(x, prepend, append, axis, n)


@operation("x")
def trace(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Array:
    """The sum of the diagonals of matrices in the dimensions `axis1` and `axis2`: NumPy's, the first two."""
    return sum(diagonal(x, offset, axis1, axis2), -1, dtype=dtype)


amax, amin = max, min

