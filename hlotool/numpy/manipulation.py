"""Other shapes and orders of the same elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy

from hlotool.ir import SliceDimension
from hlotool.ir import array as hlo_array
from hlotool.numpy.array import Array, concrete, concrete_value
from hlotool.numpy.axes import as_axes, as_axis, target_shape
from hlotool.numpy.creation import as_shape, astype, diagonal_of
from hlotool.numpy.dtypes import hlo_type
from hlotool.numpy.elementwise import common_shape, expand
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.operation import as_arrays, convert, operation
from hlotool.numpy.outputs import written
from hlotool.numpy.trace import STATE, apply

P = ParamSpec("P")
R = TypeVar("R")

__all__ = [
    "append",
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "column_stack",
    "concat",
    "concatenate",
    "diagonal",
    "dstack",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "repeat",
    "reshape",
    "roll",
    "rollaxis",
    "rot90",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "transpose",
    "unstack",
    "vsplit",
    "vstack",
]  # fmt: skip


# ---- bodies: a trace is active


def with_shape(value: Array, shape: Sequence[int]) -> Array:
    """The elements of `value` in order, in another shape."""
    if value.shape == tuple(shape) and not STATE.uniform:
        return value
    return apply("reshape", value, shape=hlo_array(hlo_type(value.dtype), tuple(shape)), weak=value._weak)


def permuted(value: Array, order: Sequence[int]) -> Array:
    """Dimension ``order[i]`` of `value` as dimension i."""
    order = tuple(order)
    return value if order == tuple(range(value.ndim)) else apply("transpose", value, dimensions=order)


def part(value: Array, axis: int, start: int, stop: int, step: int = 1) -> Array:
    """A range along one dimension."""
    ranges = [SliceDimension(0, size) for size in value.shape]
    ranges[axis] = SliceDimension(start, stop, step)
    return apply("slice", value, slice=tuple(ranges))


def joined(values: Sequence[Array], axis: int) -> Array:
    """Arrays of one type after each other along a dimension."""
    return values[0] if len(values) == 1 else apply("concatenate", *values, dimensions=(axis,))


def one_of(value: Any) -> Array:
    """The array among the arguments of a body."""
    return as_arrays(value)[0]


# ---- shapes


def _expanded(held: Any, axis: Any = 0) -> Any:
    return numpy.expand_dims(held, axis)


def _unstacked(held: Any, axis: int = 0) -> Any:
    rows = numpy.moveaxis(held, axis, 0)
    return [rows[n] for n in range(len(rows))]


def _matrices_turned(held: Any) -> Any:
    return numpy.swapaxes(held, -1, -2)


_NUMPYS: dict[str, Callable[..., Any]] = {
    "expand_dims": _expanded, "unstack": _unstacked, "matrix_transpose": _matrices_turned,
    "permute_dims": numpy.transpose, "_raveled": numpy.ravel,
}  # fmt: skip
"""What is no function of NumPy's, in every version, or takes more arguments there."""


def _shares_elements(function: Callable[P, R]) -> Callable[P, R]:
    """A function that gives views in NumPy, where it has the same name and arguments."""

    theirs: Any = _NUMPYS.get(function.__name__) or getattr(numpy, function.__name__)

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        found: Any = function(*arguments, **options)
        whole: Any = arguments[0]
        if isinstance(whole, Array) and not options.get("copy"):
            rest, named = arguments[1:], {name: value for name, value in options.items() if name != "copy"}
            if isinstance(found, Array):
                # The elements of what is no part are row-major.
                surely = (whole._ties is None or whole._ties.owner is None) and "order" not in options
                found._is_part_of(whole, lambda held: theirs(held, *rest, **named), surely)
            else:
                for n, one in enumerate(found):
                    one._is_part_of(whole, lambda held, n=n: theirs(held, *rest, **named)[n])
        return found  # type: ignore[no-any-return]

    return call


@operation("x", exact=True)
def _reshape(x: Any, shape: tuple[int, ...], /) -> Array:
    found = one_of(x)
    return with_shape(found, target_shape(shape, found.size))


@operation("x")
def _reshape_by_columns(x: Any, shape: tuple[int, ...], /) -> Array:
    found = one_of(x)
    given = permuted(found, range(found.ndim)[::-1])
    return permuted(with_shape(given, target_shape(shape, found.size)[::-1]), range(len(shape))[::-1])


@_shares_elements
def reshape(x: Any, /, shape: Any, *, copy: bool | None = None, order: str = "C") -> Array:
    """The elements in order, in another shape; one size may be -1, for what is left.

    With `order` "F" the first index changes fastest, in the array and in the result.
    """
    if order not in ("C", "A", "F"):
        raise value_error(f"reshape knows the orders 'C', 'F' and 'A' (which is 'C' here), not {order!r}")
    return (_reshape_by_columns if order == "F" else _reshape)(x, _sizes(shape))


def _sizes(shape: Any) -> tuple[int, ...]:
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        return tuple(map(operator.index, given))
    except TypeError as error:
        if "hint:" in str(error):
            raise
        raise type_error(f"{shape!r} is no shape: it takes whole numbers") from error


@_shares_elements
@operation("x")
def _raveled(x: Any, /) -> Array:
    found = one_of(x)
    return with_shape(found, (found.size,))


def ravel(x: Any, /, order: str = "C") -> Array:
    """All elements in one dimension; with `order` "F", the first index changes fastest."""
    return reshape(x, (-1,), order=order) if order == "F" else _raveled(x)


@_shares_elements
@operation("x")
def expand_dims(x: Any, /, axis: Any = 0) -> Array:
    """With new dimensions of size 1 at `axis`."""
    found = one_of(x)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    places = as_axes(tuple(given), found.ndim + len(given))
    sizes = iter(found.shape)
    return with_shape(found, [1 if n in places else next(sizes) for n in range(found.ndim + len(given))])


@_shares_elements
@operation("x")
def squeeze(x: Any, /, axis: Any = None) -> Array:
    """Without the dimensions `axis`, which have size 1; without all such where none are named."""
    found = one_of(x)
    if axis is None:
        return with_shape(found, [size for size in found.shape if size != 1])
    axes = as_axes(axis, found.ndim)
    for one in axes:
        if found.shape[one] != 1:
            raise value_error(f"dimension {one} of an array of shape {found.shape} has not size 1")
    return with_shape(found, [size for n, size in enumerate(found.shape) if n not in axes])


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which arrays of these shapes are broadcast."""
    try:
        return numpy.broadcast_shapes(*shapes)
    except ValueError as error:
        raise value_error(f"shapes {shapes} cannot be broadcast together") from error


@operation("x", exact=True)
def _broadcast_to(x: Any, shape: tuple[int, ...], /) -> Array:
    return expand(one_of(x), shape)


@_shares_elements
def broadcast_to(x: Any, /, shape: Any) -> Array:
    """Repeated to `shape`, along new leading dimensions and those of size 1."""
    return _broadcast_to(x, as_shape(shape))


@operation("arrays")
def _broadcast_arrays(arrays: Any, /) -> list[Array]:
    found = tuple(one_of(one) for one in arrays)
    shape = common_shape(found)
    return [expand(one, shape) for one in found]


def broadcast_arrays(*arrays: Any) -> tuple[Array, ...]:
    """All arrays with the shape that they have in common."""
    return tuple(_broadcast_arrays(list(arrays))) if arrays else ()


def _at_least(x: Any, ndim: int) -> Array:
    found = x if isinstance(x, Array) else concrete(x)
    if found.ndim >= ndim:
        return found
    if ndim == 3 and found.ndim == 2:
        return reshape(found, (*found.shape, 1))
    if ndim == 3 and found.ndim == 1:
        return reshape(found, (1, *found.shape, 1))
    return reshape(found, (1,) * (ndim - found.ndim) + found.shape)


def atleast_1d(*arrays: Any) -> Any:
    """With one dimension at least."""
    found = [_at_least(one, 1) for one in arrays]
    return found[0] if len(found) == 1 else found


def atleast_2d(*arrays: Any) -> Any:
    """With two dimensions at least."""
    found = [_at_least(one, 2) for one in arrays]
    return found[0] if len(found) == 1 else found


def atleast_3d(*arrays: Any) -> Any:
    """With three dimensions at least."""
    found = [_at_least(one, 3) for one in arrays]
    return found[0] if len(found) == 1 else found


# ---- orders


@_shares_elements
@operation("x")
def permute_dims(x: Any, /, axes: Any) -> Array:
    """Dimension ``axes[i]`` as dimension i."""
    found = one_of(x)
    order = as_axes(tuple(axes), found.ndim)
    if len(order) != found.ndim:
        raise value_error(f"axes {tuple(axes)} do not name all {found.ndim} dimensions")
    return permuted(found, order)


@_shares_elements
def transpose(x: Any, /, axes: Any = None) -> Array:
    """Dimensions in the order `axes`, the last one first where none is given."""
    return _transposed(x) if axes is None else permute_dims(x, tuple(axes))


@operation("x")
def _transposed(x: Any, /) -> Array:
    found = one_of(x)
    return permuted(found, range(found.ndim)[::-1])


@_shares_elements
@operation("x")
def matrix_transpose(x: Any, /) -> Array:
    """With the last two dimensions exchanged."""
    found = one_of(x)
    if found.ndim < 2:
        raise value_error(f"an array of shape {found.shape} holds no matrices")
    lead = range(found.ndim - 2)
    return permuted(found, (*lead, found.ndim - 1, found.ndim - 2))


@_shares_elements
@operation("x")
def swapaxes(x: Any, /, axis1: int, axis2: int) -> Array:
    """With two dimensions exchanged."""
    found = one_of(x)
    order = list(range(found.ndim))
    a, b = as_axis(axis1, found.ndim), as_axis(axis2, found.ndim)
    order[a], order[b] = order[b], order[a]
    return permuted(found, order)


@_shares_elements
@operation("x")
def moveaxis(x: Any, /, source: Any, destination: Any) -> Array:
    """With the dimensions `source` at the places `destination`; the others keep their order."""
    found = one_of(x)
    old, new = as_axes(source, found.ndim), as_axes(destination, found.ndim)
    if len(old) != len(new):
        raise value_error(f"moveaxis: {len(old)} dimensions cannot move to {len(new)} places")
    order = [n for n in range(found.ndim) if n not in old]
    for place, one in sorted(zip(new, old, strict=True)):
        order.insert(place, one)
    return permuted(found, order)


@_shares_elements
@operation("x")
def rollaxis(x: Any, /, axis: int, start: int = 0) -> Array:
    """With one dimension moved ahead of another."""
    found = one_of(x)
    old = as_axis(axis, found.ndim)
    place = start if start >= 0 else start + found.ndim
    order = [n for n in range(found.ndim) if n != old]
    order.insert(place - 1 if old < place else place, old)
    return permuted(found, order)


@_shares_elements
@operation("x")
def flip(x: Any, /, axis: Any = None) -> Array:
    """The elements along `axis`, all where none is given, in the opposite order."""
    found = one_of(x)
    axes = as_axes(axis, found.ndim)
    return apply("reverse", found, dimensions=axes) if axes else found


@_shares_elements
def flipud(x: Any, /) -> Array:
    """The rows in the opposite order."""
    return flip(x, axis=0)


@_shares_elements
def fliplr(x: Any, /) -> Array:
    """The columns in the opposite order."""
    return flip(x, axis=1)


@_shares_elements
@operation("x")
def rot90(x: Any, /, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Turned by k right angles, from the first of `axes` to the second."""
    found = one_of(x)
    a, b = as_axes(axes, found.ndim)
    turns = k % 4
    order = list(range(found.ndim))
    order[a], order[b] = order[b], order[a]
    if turns == 0:
        return found
    if turns == 2:
        return apply("reverse", found, dimensions=(a, b))
    if turns == 1:
        return permuted(apply("reverse", found, dimensions=(b,)), order)
    return apply("reverse", permuted(found, order), dimensions=(b,))


def roll(x: Any, /, shift: Any, axis: Any = None) -> Array:
    """Elements moved by `shift` along `axis`; what leaves at one end enters at the other.

    Shifts and axes go together as NumPy broadcasts them: two shifts along one axis add up.  Shifts may be traced.
    """
    found = x if isinstance(x, Array) else concrete(x)
    if axis is None:
        return reshape(roll(ravel(found), shift, 0), found.shape)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if isinstance(shift, Array) and shift._trace is None:
        shift = concrete_value(shift, "roll")
    shifts: Any = shift
    if isinstance(shift, (Array, numpy.ndarray)):
        if len(shift.shape) > 1:
            raise value_error(f"roll: shifts are numbers or a vector, not an array of shape {shift.shape}")
        shifts = [shift[n] for n in range(shift.shape[0])] if shift.shape else shift
    shifts = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
    if 1 not in (len(shifts), len(axes)) and len(shifts) != len(axes):
        raise value_error(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    count = 0 if 0 in (len(shifts), len(axes)) else max(len(shifts), len(axes))
    places = tuple(as_axis(one, found.ndim) for one in (axes * count if len(axes) == 1 else axes)[:count])
    shifts = (shifts * count if len(shifts) == 1 else shifts)[:count]
    if any(isinstance(one, Array) and one._trace is not None for one in shifts):
        return _roll_by(found, list(shifts), places)
    return _roll(found, tuple(map(operator.index, shifts)), places)


@operation("x", exact=True)
def _roll(x: Any, shifts: tuple[int, ...], places: tuple[int, ...], /) -> Array:
    found = one_of(x)
    for by, place in zip(shifts, places, strict=True):
        found = _rolled(found, by, place)
    return found


@operation("x", "arrays", exact=True)
def _roll_by(x: Any, arrays: Any, places: tuple[int, ...], /) -> Array:
    """Each shift chooses where to begin in two copies of the array after each other."""
    found = one_of(x)
    zero = concrete(numpy.asarray(0))
    for one, place in zip(arrays, places, strict=True):
        size = found.shape[place]
        if not size:
            continue
        by = one_of(one)
        if by.shape or numpy.dtype(by.dtype).kind not in "iu":
            raise type_error(f"roll: a shift is a whole number, not {by.dtype}{list(by.shape)}")
        many = concrete(numpy.asarray(size))
        left = apply("remainder", convert(by, numpy.dtype(numpy.int64)), many)
        start = apply("remainder", apply("subtract", many, left), many)
        starts = [start if n == place else zero for n in range(found.ndim)]
        found = apply("dynamic-slice", joined([found, found], place), *starts, dynamic_slice_sizes=found.shape)
    return found


def _rolled(value: Array, by: int, axis: int) -> Array:
    size = value.shape[axis]
    by = by % size if size else 0
    if not by:
        return value
    return joined([part(value, axis, size - by, size), part(value, axis, 0, size - by)], axis)


@_shares_elements
@operation("x")
def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals of matrices in the dimensions `axis1` and `axis2`, along a last dimension."""
    found = one_of(x)
    a, b = as_axes((axis1, axis2), found.ndim)
    return diagonal_of(permuted(found, (*[n for n in range(found.ndim) if n not in (a, b)], a, b)), offset)


# ---- several arrays


@operation("arrays")
def _concat(arrays: Any, axis: Any, /) -> Array:
    found = as_arrays(*arrays)
    if axis is None:
        return joined([with_shape(one, (one.size,)) for one in found], 0)
    place = as_axis(axis, found[0].ndim)
    rest = {(*one.shape[:place], *one.shape[place + 1 :]) for one in found}
    if len({one.ndim for one in found}) > 1 or len(rest) > 1:
        listed = ", ".join(str(one.shape) for one in found)
        raise value_error(f"arrays of shapes {listed} cannot be joined along dimension {place}")
    return joined(found, place)


def concat(arrays: Any, /, *, axis: Any = 0, dtype: Any = None) -> Array:
    """Arrays after each other along `axis`; all elements in one dimension where that is None."""
    rows = list(arrays)
    if not rows:
        raise value_error("concat needs one array at least")
    found = _concat(rows, axis)
    return found if dtype is None else astype(found, dtype)


def concatenate(arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None) -> Array:
    """NumPy's name for ``concat``."""
    found = concat(arrays, axis=axis, dtype=dtype)
    return found if out is None else written(out, found)


@operation("arrays")
def _stack(arrays: Any, axis: int, /) -> Array:
    found = as_arrays(*arrays)
    if len({one.shape for one in found}) > 1:
        raise value_error(f"arrays of shapes {', '.join(str(one.shape) for one in found)} cannot be stacked")
    place = as_axis(axis, found[0].ndim + 1)
    return joined([with_shape(one, (*one.shape[:place], 1, *one.shape[place:])) for one in found], place)


def stack(arrays: Any, /, axis: int = 0, out: Any = None, *, dtype: Any = None) -> Array:
    """Arrays of one shape, along a new dimension."""
    rows = list(arrays)
    if not rows:
        raise value_error("stack needs one array at least")
    found = _stack(rows, axis)
    found = found if dtype is None else astype(found, dtype)
    return found if out is None else written(out, found)


def hstack(arrays: Any, /, *, dtype: Any = None) -> Array:
    """Arrays beside each other."""
    rows = [atleast_1d(one) for one in arrays]
    return concat(rows, axis=0 if rows and rows[0].ndim == 1 else 1, dtype=dtype)


def vstack(arrays: Any, /, *, dtype: Any = None) -> Array:
    """Arrays below each other."""
    return concat([atleast_2d(one) for one in arrays], axis=0, dtype=dtype)


def dstack(arrays: Any, /) -> Array:
    """Arrays behind each other, along the third dimension."""
    return concat([atleast_3d(one) for one in arrays], axis=2)


def column_stack(arrays: Any, /) -> Array:
    """Vectors as columns, and matrices, beside each other."""
    rows = [one if isinstance(one, Array) else concrete(one) for one in arrays]
    return concat([reshape(one, (-1, 1)) if one.ndim < 2 else one for one in rows], axis=1)


def append(arr: Any, values: Any, axis: Any = None) -> Array:
    """`values` after `arr`."""
    return concat([arr, values], axis=axis)


@operation("x", exact=True)
def _split(x: Any, places: tuple[int, ...], axis: int, /) -> list[Array]:
    found = one_of(x)
    place = as_axis(axis, found.ndim)
    size = found.shape[place]
    ends = [slice(None, one).indices(size)[1] for one in places]
    return [part(found, place, min(a, b), b) if b > a else part(found, place, a, a)
            for a, b in zip([0, *ends], [*ends, size], strict=True)]


@_shares_elements
def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """So many parts along `axis`, the first ones longer by one where need be; or parts that begin at indices."""
    if isinstance(indices_or_sections, (tuple, list, numpy.ndarray)):
        return _split(x, tuple(map(operator.index, indices_or_sections)), axis)
    count = operator.index(indices_or_sections)
    if count < 1:
        raise value_error("split: there must be one part at least")
    found = x if isinstance(x, Array) else concrete(x)
    size = found.shape[as_axis(axis, found.ndim)]
    lengths = [size // count + (n < size % count) for n in range(count)]
    return _split(found, tuple(int(one) for one in numpy.cumsum(lengths)[:-1]), axis)


@_shares_elements
def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """So many parts of the same length along `axis`, or parts that begin at indices."""
    if not isinstance(indices_or_sections, (tuple, list, numpy.ndarray)):
        found = x if isinstance(x, Array) else concrete(x)
        size = found.shape[as_axis(axis, found.ndim)]
        if size % operator.index(indices_or_sections):
            raise value_error(f"{size} elements cannot be split into {indices_or_sections} parts of the same length")
    return array_split(x, indices_or_sections, axis)


@_shares_elements
def hsplit(x: Any, indices_or_sections: Any) -> list[Array]:
    """Parts beside each other."""
    return split(x, indices_or_sections, 0 if len(x.shape) == 1 else 1)


@_shares_elements
def vsplit(x: Any, indices_or_sections: Any) -> list[Array]:
    """Parts below each other."""
    return split(x, indices_or_sections, 0)


@operation("x")
def _unstack(x: Any, axis: int, /) -> tuple[Array, ...]:
    found = one_of(x)
    if not found.ndim:
        raise value_error("unstack takes an array with one dimension at least")
    place = as_axis(axis, found.ndim)
    rest = (*found.shape[:place], *found.shape[place + 1 :])
    return tuple(with_shape(part(found, place, n, n + 1), rest) for n in range(found.shape[place]))


@_shares_elements
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The arrays along a dimension, one by one."""
    return _unstack(x, axis)


@operation("x", exact=True)
def _tile(x: Any, repetitions: tuple[int, ...], /) -> Array:
    found = one_of(x)
    rank = max(found.ndim, len(repetitions))
    shape = (1,) * (rank - found.ndim) + found.shape
    counts = (1,) * (rank - len(repetitions)) + repetitions
    pairs = [one for pair in zip(counts, shape, strict=True) for one in pair]
    target = hlo_array(hlo_type(found.dtype), pairs)
    spread = apply("broadcast", with_shape(found, shape), shape=target, dimensions=tuple(range(1, 2 * rank, 2)))
    return with_shape(spread, [a * b for a, b in zip(counts, shape, strict=True)])


def tile(x: Any, repetitions: Any, /) -> Array:
    """The whole array so many times along each dimension."""
    return _tile(x, as_shape(repetitions))


@operation("x")
def _repeat(x: Any, count: int, axis: Any, /) -> Array:
    found = one_of(x)
    if axis is None:
        found, axis = with_shape(found, (found.size,)), 0
    place = as_axis(axis, found.ndim)
    shape = found.shape
    target = hlo_array(hlo_type(found.dtype), (*shape[: place + 1], count, *shape[place + 1 :]))
    others = tuple(n for n in range(len(shape) + 1) if n != place + 1)
    spread = apply("broadcast", found, shape=target, dimensions=others)
    return with_shape(spread, (*shape[:place], shape[place] * count, *shape[place + 1 :]))


@operation("x")
def _repeat_each(x: Any, counts: tuple[int, ...], axis: Any, /) -> Array:
    found = one_of(x)
    if axis is None:
        found, axis = with_shape(found, (found.size,)), 0
    place = as_axis(axis, found.ndim)
    if len(counts) != found.shape[place]:
        raise value_error(f"repeat: {len(counts)} counts for {found.shape[place]} elements")
    rows = []
    for n, count in enumerate(counts):
        if count:
            one = part(found, place, n, n + 1)
            rows.append(expand(one, (*found.shape[:place], count, *found.shape[place + 1 :])))
    return joined(rows, place) if rows else part(found, place, 0, 0)


def repeat(x: Any, repeats: Any, /, axis: Any = None) -> Array:
    """Each element so many times; `repeats` is a number, or one for each element, known before tracing."""
    if isinstance(repeats, Array):
        repeats = repeats._concrete("np.repeat", "the counts decide the shape: make them static, or a NumPy array")
    counts = numpy.asarray(repeats)
    if counts.dtype.kind not in "iu":
        raise type_error(f"repeat: counts are whole numbers, not {counts.dtype}")
    if (counts < 0).any():
        raise value_error("repeat: counts are not negative")
    if counts.size == 1:
        return _repeat(x, int(counts.reshape(())), axis)
    return _repeat_each(x, tuple(int(one) for one in counts), axis)

