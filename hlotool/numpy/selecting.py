"""Elements chosen by conditions and numbers, put in and left out; parts of an order."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy

from hlotool.numpy import standard as np
from hlotool.numpy.array import Array, concrete, concrete_value, wrap
from hlotool.numpy.axes import as_axis
from hlotool.numpy.dtypes import kind_of
from hlotool.numpy.errors import index_error, type_error, value_error
from hlotool.numpy.operation import as_arrays, operation

__all__ = [
    "apply_along_axis", "apply_over_axes", "argpartition", "block", "choose", "compress", "fromfunction",
    "insert", "lexsort", "partition", "piecewise", "resize", "row_stack", "select", "sort_complex", "trim_zeros",
]  # fmt: skip

_SHAPE = "the shape of the result depends on values; use it outside of jit, or np.where(condition, x, other)"


def _array(value: Any) -> Array:
    return value if isinstance(value, Array) else concrete(value)


# ---- by conditions


@operation("arrays", "operands", "default")
def _select(arrays: Any, operands: Any, default: Any, /) -> Array:
    *choices, rest = as_arrays(*operands, default)
    if any(kind_of(_array(one).dtype) != "pred" for one in arrays):
        raise type_error("select: conditions are arrays of bools")
    shape = numpy.broadcast_shapes(*(_array(one).shape for one in arrays), *(one.shape for one in choices), rest.shape)
    found = np.broadcast_to(rest, shape)
    for condition, choice in zip(reversed(arrays), reversed(choices), strict=True):
        found = np.where(condition, choice, found)
    return found


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Of each element the choice whose condition is the first that is true; `default` where none is."""
    if len(condlist) != len(choicelist) or not len(condlist):
        raise value_error(f"select: {len(condlist)} conditions for {len(choicelist)} choices")
    return _select(list(condlist), list(choicelist), default)


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Functions (or numbers) of `x`, each where its condition is true; the last one of them that is counts.

    A function more than conditions is for where none is true, which is 0 otherwise.  The functions are applied to all
    elements.
    """
    given = _array(x)
    single = isinstance(condlist, (bool, numpy.bool_)) or getattr(condlist, "ndim", 1) == given.ndim == 0
    if isinstance(condlist, (list, tuple)) and given.ndim and condlist and isinstance(condlist[0], (bool, numpy.bool_)):
        single = True
    if not isinstance(condlist, (list, tuple)) and getattr(condlist, "ndim", 0) == given.ndim:
        single = True
    conditions = [condlist] if single else list(condlist)
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise value_error(f"piecewise: {len(funclist)} functions for {len(conditions)} conditions")
    functions = list(funclist)
    found = np.zeros(given.shape, dtype=given.dtype)
    if len(functions) > len(conditions):
        found = found + np.astype(_piece(functions.pop(), given, args, kw), given.dtype)
    for condition, function in zip(conditions, functions, strict=True):
        found = np.where(condition, np.astype(_piece(function, given, args, kw), given.dtype), found)
    return found


def _piece(function: Any, x: Array, args: Sequence[Any], options: dict[str, Any]) -> Array:
    return _array(function(x, *args, **options) if callable(function) else function)


@operation("a", "arrays")
def _choose(a: Any, arrays: Any, mode: str, /) -> Array:
    choices = as_arrays(*arrays)
    (index,) = as_arrays(a)
    if kind_of(index.dtype) not in ("signed", "unsigned", "pred"):
        raise type_error(f"choose: the numbers of choices are whole, not {index.dtype}")
    index = np.astype(index, numpy.int64)
    count = len(choices)
    index = index % count if mode == "wrap" else np.minimum(np.maximum(index, 0), count - 1)
    shape = numpy.broadcast_shapes(index.shape, *(one.shape for one in choices))
    found = np.broadcast_to(choices[0], shape)
    for number, choice in enumerate(choices[1:], 1):
        found = np.where(index == number, choice, found)
    return found


def choose(a: Any, choices: Any, mode: str = "raise") -> Array:
    """Of each element the choice of that number.  Under jit, `mode` is "wrap" or "clip"."""
    if mode not in ("raise", "wrap", "clip"):
        raise value_error(f"choose: the mode is 'raise', 'wrap' or 'clip', not {mode!r}")
    listed = [choices[n] for n in range(len(choices))] if isinstance(choices, (Array, numpy.ndarray)) else list(choices)
    if not listed:
        raise value_error("choose: there is nothing to choose from")
    if mode == "raise":
        held = concrete_value(_array(a), "choose with mode='raise'", "use mode='clip' or mode='wrap'")
        if held.size and (held.min() < 0 or held.max() >= len(listed)):
            raise value_error(f"choose: there are {len(listed)} choices, and a number beyond them")
    return _choose(a, listed, mode)


def compress(condition: Any, a: Any, axis: Any = None) -> Array:
    """The parts along `axis` for which `condition`, which must be known, is true."""
    chosen = concrete_value(_array(condition), "compress", _SHAPE)
    if chosen.ndim != 1:
        raise value_error(f"compress: the condition is a vector, not an array of shape {chosen.shape}")
    values = _array(a)
    if axis is None:
        values, axis = np.ravel(values), 0
    places = numpy.flatnonzero(chosen)
    if places.size and places[-1] >= values.shape[as_axis(axis, values.ndim)]:
        raise index_error(f"compress: there is no element {places[-1]} along axis {axis}")
    return np.take(values, wrap(places), axis=axis)


def trim_zeros(filt: Any, trim: Literal["f", "b", "fb", "bf"] = "fb") -> Array:
    """A vector without the zeros at its front and back; not under jit."""
    return wrap(numpy.array(numpy.trim_zeros(concrete_value(_array(filt), "trim_zeros", _SHAPE), trim)))


# ---- put in and left out


def _flat(x: Any, axis: Any) -> tuple[Array, int]:
    values = _array(x)
    return (np.ravel(values), 0) if axis is None else (values, as_axis(axis, values.ndim))


def _known(obj: Any, what: str) -> Any:
    hint = "the places decide the shape: make them static, or a NumPy array"
    return concrete_value(obj, what, hint) if isinstance(obj, Array) else obj


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Array:
    """With `values` ahead of the elements at the places `obj`, which must be known."""
    own, place = _flat(arr, axis)
    obj = _known(obj, "insert")
    size = own.shape[place]
    more = np.astype(_array(values), own.dtype)
    if isinstance(obj, slice):
        places = numpy.arange(*obj.indices(size))
        single = False
    else:
        places = numpy.asarray(obj)
        if places.dtype == bool:
            places = numpy.flatnonzero(places)
        single = places.ndim == 0
        places = places.reshape(-1).astype(numpy.int64) if places.size else numpy.zeros(0, numpy.int64)
    if places.size and (places.min() < -size or places.max() > size):
        raise index_error(f"insert: a place among {places.tolist()} is out of bounds for {size} elements")
    places = numpy.where(places < 0, places + size, places)
    rest = tuple(n for d, n in enumerate(own.shape) if d != place)
    if places.size == 1:
        # As many as there are go to one place: of a single number, they lie along the first dimension.
        more = np.reshape(more, (*(1,) * (own.ndim - more.ndim), *more.shape))
        more = np.moveaxis(more, 0, place) if single else more
        count = more.shape[place]
        places = numpy.repeat(places, count)
    else:
        count = places.size
    more = np.broadcast_to(more, (*rest[:place], count, *rest[place:]))
    order = numpy.argsort(places, kind="stable")
    new = numpy.empty(count, numpy.int64)
    new[order] = places[order] + numpy.arange(count)
    source = numpy.empty(size + count, numpy.int64)
    mask = numpy.ones(size + count, bool)
    mask[new] = False
    source[mask], source[new] = numpy.arange(size), size + numpy.arange(count)
    return np.take(np.concat([own, more], axis=place), wrap(source), axis=place)


def resize(a: Any, new_shape: Any) -> Array:
    """The elements in order, from the first one on again where there are too few, in another shape."""
    shape = tuple(map(operator.index, new_shape)) if isinstance(new_shape, (tuple, list)) else (
        operator.index(new_shape),)
    if any(one < 0 for one in shape):
        raise value_error(f"resize: {shape} is no shape")
    flat = np.ravel(_array(a))
    size = int(numpy.prod(shape))
    if not flat.shape[0] or not size:
        return np.zeros(shape, dtype=flat.dtype)
    times = -(-size // flat.shape[0])
    return np.reshape(np.tile(flat, times)[:size], shape)


def row_stack(arrays: Any) -> Array:
    """NumPy's older name for ``vstack``."""
    return np.vstack(arrays)


def block(arrays: Any) -> Array:
    """Arrays of nested lists: those of the innermost lists along the last dimension, and so on."""
    def depth(one: Any) -> int:
        return 1 + max(map(depth, one), default=0) if isinstance(one, list) else 0

    def smallest(one: Any) -> int:
        return max(map(smallest, one)) if isinstance(one, list) and one else _array(one).ndim

    if isinstance(arrays, list) and not arrays:
        raise value_error("block: a list is empty")
    levels = depth(arrays)
    rank = max(levels, smallest(arrays))

    def joined(one: Any, level: int) -> Array:
        if level == levels:
            if isinstance(one, list):
                raise value_error("block: lists are of different depths")
            found = _array(one)
            return np.reshape(found, (*(1,) * (rank - found.ndim), *found.shape))
        if not isinstance(one, list) or not one:
            raise value_error("block: lists are of different depths, or empty")
        return np.concat([joined(part, level + 1) for part in one], axis=level - levels)

    return joined(arrays, 0)


# ---- functions of parts


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Array:
    """A function of vectors, of each of those along `axis`."""
    values = _array(arr)
    place = as_axis(axis, values.ndim)
    lead = (*values.shape[:place], *values.shape[place + 1 :])
    rows = np.reshape(np.moveaxis(values, place, -1), (-1, values.shape[place])) if 0 not in lead else None
    if rows is None:
        raise value_error("apply_along_axis of no vectors")
    found = [_array(func1d(rows[n], *args, **kwargs)) for n in range(rows.shape[0])]
    inner = found[0].shape
    whole = np.reshape(np.stack(found), (*lead, *inner))
    count = len(inner)
    order = [*range(place), *range(len(lead), len(lead) + count), *range(place, len(lead))]
    return np.permute_dims(whole, tuple(order))


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Array:
    """A reduction ``func(a, axis)``, along one axis after the other, which are kept with one element."""
    values = _array(a)
    rank = values.ndim
    for axis in axes if isinstance(axes, (tuple, list, numpy.ndarray)) else (axes,):
        place = as_axis(int(axis), rank)
        found = _array(func(values, place))
        if found.ndim == rank - 1:
            found = np.expand_dims(found, place)
        if found.ndim != rank:
            raise value_error(f"apply_over_axes: the function gave {found.ndim} dimensions for {rank}")
        values = found
    return values


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """A function of the indices of an array of `shape`."""
    places = np.indices(tuple(shape), dtype=dtype)
    return function(*[places[n] for n in range(len(tuple(shape)))], **kwargs)


# ---- order


def partition(a: Any, kth: Any, axis: Any = -1) -> Array:
    """With what is less than element `kth` of the order ahead of it: all elements in order, which is one such way."""
    _check_kth(a, kth, axis)
    return np.sort(_array(a), axis=axis) if axis is not None else np.sort(np.ravel(_array(a)))


def argpartition(a: Any, kth: Any, axis: Any = -1) -> Array:
    """The indices of ``partition``."""
    _check_kth(a, kth, axis)
    return np.argsort(_array(a), axis=axis) if axis is not None else np.argsort(np.ravel(_array(a)))


def _check_kth(a: Any, kth: Any, axis: Any) -> None:
    values = _array(a)
    size = values.size if axis is None else values.shape[as_axis(axis, values.ndim)]
    for one in numpy.atleast_1d(numpy.asarray(_known(kth, "partition"))):
        if not -size <= int(one) < size:
            raise value_error(f"partition: there is no element {int(one)} among {size}")


@operation("arrays")
def _lexsort(arrays: Any, axis: int, /) -> Array:
    keys = [as_arrays(one)[0] for one in arrays]
    if len({one.shape for one in keys}) > 1:
        raise value_error(f"lexsort: keys have shapes {[one.shape for one in keys]}")
    order = np.argsort(keys[0], axis=axis, stable=True)
    for one in keys[1:]:
        again = np.argsort(np.take_along_axis(one, order, axis=axis), axis=axis, stable=True)
        order = np.take_along_axis(order, again, axis=axis)
    return order


def lexsort(keys: Any, axis: int = -1) -> Array:
    """The order by the last key, of equal ones by the key before it, and so on."""
    rows = [keys[n] for n in range(len(keys))]
    if not rows:
        raise type_error("lexsort takes one key at least")
    return _lexsort(rows, axis)


def sort_complex(a: Any) -> Array:
    """Sorted by real parts, then imaginary ones, as complex numbers."""
    (values,) = (_array(a),)
    kind = kind_of(values.dtype)
    if kind != "complex":
        narrow = values.dtype.itemsize <= (4 if kind == "float" else 2)
        return np.astype(np.sort(values), numpy.complex64 if narrow else numpy.complex128)
    order = lexsort([np.imag(values), np.real(values)])
    return np.take_along_axis(values, order, axis=-1)
