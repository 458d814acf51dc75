"""Elements by index: ``x[...]``, take, and new arrays with other elements there (``x.at[...]``).

Indices are numbers, slices, None, Ellipsis, and integer arrays, which may be traced, as in NumPy.  A mask decides the
shape of the result: it must be concrete, except in ``x.at[mask].set(number)``.  An index out of bounds is an error
where it is concrete; a traced one is moved to the nearest end when elements are read, and where they are written,
nothing is.
"""

from __future__ import annotations

import builtins
import operator
import sys
from typing import Any

import numpy

from hlotool.ir import Computation, PaddingDimension, SliceDimension, scalar
from hlotool.ir.builder import Builder, binary_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.numpy.array import Array, concrete, concrete_value, wrap
from hlotool.numpy.axes import as_axis
from hlotool.numpy.dtypes import hlo_type, kind_of
from hlotool.numpy.elementwise import broadcast_together, common_shape, constant_like, expand, where
from hlotool.numpy.errors import index_error, tracing_error, type_error, value_error
from hlotool.numpy.manipulation import joined, one_of, permuted, with_shape
from hlotool.numpy.operation import as_arrays, convert, operation, stacked
from hlotool.numpy.parts import owner_of, place_in, refresh
from hlotool.numpy.trace import STATE, apply, leaked

__all__ = ["_At", "_getitem", "_setitem", "dynamic_slice", "dynamic_update_slice", "take", "take_along_axis"]

_S64 = numpy.dtype(numpy.int64)
_INDICES = "indices are whole numbers, slices, None, ... and integer arrays"
_FOREIGN_VALUE = "return it from the traced function, and assign it outside"
_MASK = "the number of elements must be known: use np.where(mask, x, other), or x.at[mask].set(number)"


@dataclass(frozen=True, slots=True)
class _Basic:
    """The part of an index that is numbers and slices, in plain tuples that can be hashed.

    For each dimension of the array a range (start, count, step); the dimensions that arrays index; and what stands in
    the index, one by one: ``n`` a new dimension, ``-`` a number, ``a`` an array, ``s`` a slice.
    """

    ranges: tuple[tuple[int, int, int], ...]
    arrays: tuple[int, ...]
    layout: tuple[str, ...]


def _getitem(x: Array, key: Any) -> Array:
    """``x[key]``."""
    key = key if isinstance(key, tuple) else (key,)
    if x._trace is None and STATE.trace is None:
        return _read(x, key)
    key = _listed(key)
    if _mask_of(key):
        return _masked(x, key)
    basic, arrays = _parsed(x.shape, key)
    if not arrays:
        return _slice(x, basic.ranges, basic.layout)._is_part_of(x, lambda held: held[key])
    return _gather(x, list(arrays), basic.ranges, basic.arrays, basic.layout)


def _listed(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index whose sequences are arrays."""
    if not any(isinstance(one, (list, tuple, range)) for one in key):
        return key
    found = [stacked(list(one)) if isinstance(one, (list, tuple, range)) else one for one in key]
    return tuple(
        wrap(numpy.zeros(one.shape, int)) if isinstance(one, Array) and one._trace is None and not one.size else one
        for one in found
    )


def _read(x: Array, key: tuple[Any, ...]) -> Array:
    """``x[key]`` of concrete arrays: only bytes move, which no program needs to be compiled for."""
    try:
        place = _concrete_key(key)
        found = numpy.asarray(x._value[place])
    except IndexError as error:
        raise index_error(str(error)) from error
    base = found.base
    if base is None or not (base is x._value or base is x._value.base):  # a copy, maybe one in another order
        return wrap(found)
    part = wrap(found.copy() if x._mutable else numpy.ascontiguousarray(found).reshape(found.shape))
    return part._is_part_of(x, lambda held: held[place], surely=True)


def _concrete_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index in NumPy's arrays and numbers."""
    found: list[Any] = []
    for one in key:
        if isinstance(one, slice):
            found.append(slice(*map(_concrete_bound, (one.start, one.stop, one.step))))
        elif isinstance(one, list):
            found.append(numpy.asarray(stacked(one)) if one else numpy.zeros(0, int))
        elif isinstance(one, Array):
            found.append(one._concrete("an index", _MASK))
        else:
            found.append(one)
        if isinstance(found[-1], (float, complex, str, bytes)) or getattr(found[-1], "dtype", _S64).kind not in "iub":
            raise index_error(f"a {_kind_of_index(one)} is no index", _INDICES)
    return tuple(found)


def _concrete_bound(one: Any) -> Any:
    return operator.index(one) if isinstance(one, Array) else one


def _kind_of_index(one: Any) -> str:
    return f"{type(one).__name__} of {one.dtype}" if hasattr(one, "dtype") else type(one).__name__


def _setitem(x: Array, key: Any, value: Any) -> None:
    """``x[key] = value``: `x` gets another value."""
    whole = x._whole and x._whole()
    if isinstance(whole, Array) and (STATE.trace is not None or x._trace is not None or whole._trace is not None):
        raise _refused_part()
    if whole is not None and not isinstance(whole, Array):
        raise tracing_error(
            "an argument of a traced function is assigned to: what the caller holds would stay as it is",
            "assign to a copy (x = x.copy()) or to x.at[index].set(value), and return it",
        )
    key = key if isinstance(key, tuple) else (key,)
    trace = STATE.trace
    if trace is not None:
        trace.assign(x, _updated(x, key, value, "set"))
    elif x._trace is not None:
        raise leaked(x)
    else:
        _write(x, key, value)


def _references(x: Array) -> int:
    """How many there are to what a concrete array holds, with those that this function needs."""
    held = x._value
    return sys.getrefcount(held)


_ALONE = _references(Array(numpy.zeros(1)))  # versions of Python count differently


def _write(x: Array, key: tuple[Any, ...], value: Any) -> None:
    """Into a concrete array, and where it is a part into its owner: into its memory, if nobody else has that."""
    target = owner_of(x)
    alone = _references(target) <= _ALONE
    held = target._value
    given: Any = value
    if isinstance(value, Array):
        given = value._concrete("an assignment to an array that is not traced", _FOREIGN_VALUE)
    if not (alone and held.flags.owndata and held.flags.writeable and held.flags.c_contiguous):
        held = held.copy()
    place = place_in(held, x, target)
    if not place.flags.writeable:
        raise _refused_part()
    try:
        with numpy.errstate(all="ignore"):
            place[_concrete_key(key)] = numpy.asarray(stacked(given)) if isinstance(given, (list, tuple)) else given
    except IndexError as error:
        raise index_error(str(error)) from error
    except ValueError as error:
        raise value_error(str(error)) from error
    except TypeError as error:
        raise type_error(str(error)) from error
    target._value = held
    target._mutable = True
    refresh(target)


def _own_memory(x: Array) -> numpy.ndarray[Any, Any]:
    """The values of a concrete array, for another library that may write to them: in memory that no copy of `x`, or of
    what shares its elements, has as well."""
    if x._mutable:  # then copies have memory of their own
        return x._value  # type: ignore[no-any-return]
    owner = owner_of(x)
    known = [] if owner._ties is None else [one for one in (each() for each in owner._ties.parts) if one is not None]
    sharing = [one for one in known if one._value.base is owner._value]
    alone = _references(owner) <= _ALONE + len(sharing) and owner._value.flags.owndata
    alone = alone and builtins.all(_references(one) <= _ALONE for one in sharing)
    if alone and builtins.any(x is one for one in (owner, *sharing)):
        for one in (owner, *sharing):  # what is written is seen in all of them
            one._mutable = True
    elif x is owner or x._value.base is not None or _references(x) > _ALONE:
        x._value = x._value.copy()
    return x._value  # type: ignore[no-any-return]


def _refused_part() -> Exception:
    return type_error(
        "this array is a part of another one, which would stay as it is",
        "write to the other one (x[i, j] = ... instead of x[i][j] = ...), or to a copy of the part: x[i].copy()",
    )


def _is_array(one: Any) -> bool:
    return isinstance(one, (Array, numpy.ndarray, list)) and not (_is_number(one))


def _is_number(one: Any) -> bool:
    if isinstance(one, (bool, numpy.bool_)):
        return False
    if isinstance(one, (int, numpy.integer)):
        return True
    return isinstance(one, (Array, numpy.ndarray)) and not one.shape and one.dtype.kind in "iu" and (
        not isinstance(one, Array) or one._trace is None
    )


def _mask_of(key: tuple[Any, ...]) -> bool:
    for one in key:
        if isinstance(one, (bool, numpy.bool_)):
            return True
        if isinstance(one, list):
            one = numpy.asarray(one) if not any(isinstance(e, Array) for e in one) else one
        if getattr(one, "dtype", None) == numpy.bool_:
            return True
    return False


def _masked(x: Array, key: tuple[Any, ...]) -> Array:
    """Masks, of concrete arrays: the places where they are true are found now; `x` may be traced."""
    plain: list[Any] = []
    for one in key:
        if isinstance(one, Array):
            one = concrete_value(one, "an index that is a mask" if one.dtype == numpy.bool_ else "an index", _MASK)
        plain.append(one)
    if x._trace is None:
        try:
            return wrap(numpy.array(x._value[tuple(plain)]))
        except IndexError as error:
            raise index_error(str(error)) from error
    found: list[Any] = []
    for one in plain:
        mask = numpy.asarray(one) if isinstance(one, (bool, numpy.bool_, list, numpy.ndarray)) else None
        if mask is None or mask.dtype != numpy.bool_:
            found.append(one)
            continue
        if not mask.ndim:
            raise index_error("a single bool is no index of a traced array")
        place = builtins.sum(1 for before in found if before is not None and before is not Ellipsis)
        if Ellipsis not in found and mask.shape != x.shape[place : place + mask.ndim]:
            raise index_error(f"a mask of shape {mask.shape} does not fit an array of shape {x.shape}")
        found += [Array(places) for places in numpy.nonzero(mask)]
    return _getitem(x, tuple(found))


def _parsed(shape: tuple[int, ...], key: tuple[Any, ...]) -> tuple[_Basic, tuple[Any, ...]]:
    """The plain part of an index, and its arrays."""
    used = builtins.sum(1 for one in key if one is not None and one is not Ellipsis)
    if builtins.sum(1 for one in key if one is Ellipsis) > 1:
        raise index_error("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        raise index_error(f"too many indices: {used} for an array with {len(shape)} dimensions")
    if not any(one is Ellipsis for one in key):
        key = (*key, Ellipsis)
    ranges: list[tuple[int, int, int]] = []
    layout: list[str] = []
    arrays: list[Any] = []
    places: list[int] = []
    for one in key:
        if one is None:
            layout.append("n")
        elif one is Ellipsis:
            for size in shape[len(ranges) : len(ranges) + len(shape) - used]:
                ranges.append((0, size, 1))
                layout.append("s")
        elif isinstance(one, slice):
            ranges.append(_range(one, shape[len(ranges)]))
            layout.append("s")
        elif _is_number(one):
            number, size = int(one), shape[len(ranges)]
            if not -size <= number < size:
                raise index_error(f"index {number} is out of bounds for axis {len(ranges)} with size {size}")
            ranges.append((number % size, 1, 1))
            layout.append("-")
        elif _is_array(one) or (isinstance(one, Array) and one._trace is not None):
            found = _index_array(one, shape[len(ranges)], len(ranges))
            arrays.append(found)
            places.append(len(ranges))
            ranges.append((0, shape[len(ranges)], 1))
            layout.append("a")
        else:
            raise index_error(
                f"a {type(one).__name__} is no index", _INDICES
            )
    return _Basic(tuple(ranges), tuple(places), tuple(layout)), tuple(arrays)


def _index_array(one: Any, size: int, place: int) -> Array:
    nothing = isinstance(one, list) and not one
    found = one if isinstance(one, Array) else concrete(numpy.zeros(0, int) if nothing else one)
    if found.dtype.kind not in "iu":
        raise index_error(f"an array of {found.dtype} is no index: it takes integers or bools")
    if found._trace is None and found.size:
        low, high = int(found._value.min()), int(found._value.max())
        if low < -size or high >= size:
            wrong = low if low < -size else high
            raise index_error(f"index {wrong} is out of bounds for axis {place} with size {size}")
    return found


def _range(one: slice, size: int) -> tuple[int, int, int]:
    """(start, how many, step)."""
    for bound in (one.start, one.stop, one.step):
        if isinstance(bound, Array):
            bound._concrete("a bound of a slice", "use np.dynamic_slice(x, starts, sizes), whose sizes are known")
    try:
        start, stop, step = one.indices(size)
    except (TypeError, ValueError) as error:
        raise index_error(str(error)) from error
    return start, len(range(start, stop, step)), step


def _ranged(value: Array, ranges: tuple[tuple[int, int, int], ...]) -> Array:
    """The elements in ranges along each dimension, in a trace."""
    found, turned = [], []
    for axis, (start, count, step) in enumerate(ranges):
        if not count and (step > 0 or not STATE.uniform):
            found.append(SliceDimension(0, 0, step if STATE.uniform else 1))
        elif not count:
            found.append(SliceDimension(0, 0, -step))
            turned.append(axis)
        elif step > 0:
            found.append(SliceDimension(start, start + (count - 1) * step + 1, step))
        else:
            found.append(SliceDimension(start + (count - 1) * step, start + 1, -step))
            turned.append(axis)
    whole = all(one == SliceDimension(0, size) for one, size in zip(found, value.shape, strict=True))
    made = value if whole and not STATE.uniform else apply("slice", value, slice=tuple(found))
    return apply("reverse", made, dimensions=tuple(turned)) if turned else made


@operation("x", exact=True)
def _slice(x: Any, ranges: tuple[tuple[int, int, int], ...], layout: tuple[str, ...], /) -> Array:
    made = _ranged(one_of(x), ranges)
    sizes = iter(made.shape)
    shape = []
    for one in layout:
        size = 1 if one == "n" else next(sizes)
        if one != "-":
            shape.append(size)
    return with_shape(made, shape)


def _wrapped(index: Array, size: int, dtype: Any = numpy.int64) -> Array:
    """Negative indices counted from the end, in a trace."""
    index = convert(index, numpy.dtype(dtype))
    negative = apply("compare", index, constant_like(index, 0), direction="LT")
    return apply("select", negative, apply("add", index, constant_like(index, size)), index)


def _stacked_indices(indices: list[Array], sizes: list[int]) -> Array:
    """Indices of several dimensions along a last one, in words where these hold them: half as much memory."""
    words = all(numpy.can_cast(one.dtype, numpy.int32) for one in indices) and max(sizes) <= numpy.iinfo("i4").max
    dtype = numpy.int32 if words else numpy.int64
    whole = [_wrapped(one, size, dtype) for one, size in zip(indices, sizes, strict=True)]
    shape = common_shape(tuple(whole))
    rows = [with_shape(expand(one, shape), (*shape, 1)) for one in whole]
    return joined(rows, len(shape))


@operation("x", "arrays", exact=True)
def _gather(
    x: Any, arrays: Any, ranges: tuple[tuple[int, int, int], ...], places: tuple[int, ...], layout: tuple[str, ...], /
) -> Array:
    value = _ranged(one_of(x), ranges)
    if all(not one.shape for one in arrays):
        return _read_at(value, list(arrays), places, layout)
    starts = _stacked_indices(list(arrays), [value.shape[n] for n in places])
    lead = starts.ndim - 1
    rest = [n for n in range(value.ndim) if n not in places]
    made = apply(
        "gather", value, starts,
        offset_dims=tuple(range(lead, lead + len(rest))), collapsed_slice_dims=places, start_index_map=places,
        index_vector_dim=lead, slice_sizes=tuple(1 if n in places else size for n, size in enumerate(value.shape)),
    )  # fmt: skip
    return _arranged(made, lead, layout)


def _arranged(made: Array, lead: int, layout: tuple[str, ...]) -> Array:
    """Dimensions of the arrays in their place: where they stand side by side there, else first."""
    order, sizes = _arrangement(made.shape, lead, layout)
    return with_shape(permuted(made, order), sizes)


def _arrangement(shape: tuple[int, ...], lead: int, layout: tuple[str, ...]) -> tuple[list[int], list[int]]:
    """Which dimension of `shape`, whose first `lead` ones are of arrays, comes where, and sizes with the new ones."""
    at = [n for n, one in enumerate(layout) if one in "a-"]
    side_by_side = at[-1] - at[0] + 1 == len(at)
    ahead = builtins.sum(1 for one in layout[: at[0]] if one == "s") if side_by_side else 0
    order = [*range(lead, lead + ahead), *range(lead), *range(lead + ahead, len(shape))]
    sizes: list[int] = []
    position = lead
    block = list(shape[:lead])
    if not side_by_side:
        sizes += block
    for n, one in enumerate(layout):
        if side_by_side and n == at[0]:
            sizes += block
        if one == "n":
            sizes.append(1)
        elif one in "s-":
            if one == "s":
                sizes.append(shape[position])
            position += 1
    return order, sizes


def _read_at(value: Array, arrays: list[Array], places: tuple[int, ...], layout: tuple[str, ...]) -> Array:
    """The elements at one traced place."""
    zero = wrap(numpy.asarray(0))
    starts = [zero] * value.ndim
    for one, place in zip(arrays, places, strict=True):
        starts[place] = _wrapped(one, value.shape[place])
    sizes = tuple(1 if n in places else size for n, size in enumerate(value.shape))
    made = apply("dynamic-slice", value, *starts, dynamic_slice_sizes=sizes)
    rest = iter(sizes)
    shape = [1 if one == "n" else size for one in layout for size in [1 if one == "n" else next(rest)] if one in "ns"]
    return with_shape(made, shape)


def _as_array(value: Any) -> Array:
    return value if isinstance(value, Array) else concrete(value)


# ---- functions


def take(x: Any, indices: Any, /, axis: Any = None, *, mode: str = "raise") -> Array:
    """The elements with these indices along `axis`, of all elements in one dimension where none is given.

    Indices out of bounds are refused, or, by `mode`, counted on from the other end ("wrap") or moved to the nearest
    one ("clip").
    """
    if mode not in ("raise", "wrap", "clip"):
        raise value_error(f"take: the mode is 'raise', 'wrap' or 'clip', not {mode!r}")
    found = _as_array(x)
    if axis is None:
        if found.ndim > 1:
            found = _flattened(found)
        axis = 0
    place = as_axis(axis, found.ndim)
    index = indices if isinstance(indices, Array) else concrete(indices)
    if mode != "raise":
        size = found.shape[place]
        index = index % size if mode == "wrap" else index.clip(0, size - 1)
    return _getitem(found, (slice(None),) * place + (index,))


@operation("x")
def _flattened(x: Any, /, order: str = "C") -> Array:
    found = one_of(x)
    return with_shape(permuted(found, range(found.ndim)[::-1]) if order == "F" else found, (found.size,))


@operation("x", "indices")
def _take_along(x: Any, indices: Any, axis: int, /) -> Array:
    found, index = one_of(x), one_of(indices)
    if found.ndim != index.ndim:
        raise value_error(f"take_along_axis: indices have {index.ndim} dimensions, the array {found.ndim}")
    sizes = [a if n == axis else max(a, b) if 0 not in (a, b) else 0
             for n, (a, b) in enumerate(zip(found.shape, index.shape, strict=True))]
    found = expand(found, tuple(sizes))
    sizes[axis] = index.shape[axis]
    index = expand(index, tuple(sizes))
    if 0 in sizes:
        return expand(wrap(numpy.zeros((), found.dtype)), tuple(sizes))
    lead = tuple(n for n in range(found.ndim) if n != axis)
    return apply(
        "gather", found, with_shape(_wrapped(index, found.shape[axis]), (*sizes, 1)),
        offset_dims=(), collapsed_slice_dims=(axis,), start_index_map=(axis,), operand_batching_dims=lead,
        start_indices_batching_dims=lead, index_vector_dim=found.ndim, slice_sizes=(1,) * found.ndim,
    )  # fmt: skip


def take_along_axis(x: Any, indices: Any, /, axis: Any = -1) -> Array:
    """The elements with these indices along `axis`: at each place of `indices`, that of the array there."""
    found, index = _as_array(x), _as_array(indices)
    if axis is None:
        found, axis = _flattened(found), 0
    place = as_axis(axis, found.ndim)
    checked = _index_array(index, found.shape[place], place)
    return _take_along(found, checked, place)


@operation("x", "arrays", exact=True)
def _dynamic_slice(x: Any, arrays: Any, sizes: tuple[int, ...], /) -> Array:
    found = one_of(x)
    if len(arrays) != found.ndim or len(sizes) != found.ndim:
        raise value_error(f"dynamic_slice: {len(arrays)} starts, {len(sizes)} sizes and {found.ndim} dimensions")
    starts = [convert(one_of(one), numpy.dtype(numpy.int64)) for one in arrays]
    return apply("dynamic-slice", found, *starts, dynamic_slice_sizes=sizes)


def dynamic_slice(x: Any, starts: Any, sizes: Any, /) -> Array:
    """A part with `sizes`, which are constants, from `starts`, which may be traced; it is moved to fit inside."""
    return _dynamic_slice(x, list(starts), tuple(map(operator.index, sizes)))


@operation("x", "update", "arrays")
def _dynamic_update(x: Any, update: Any, arrays: Any, /) -> Array:
    found, new = as_arrays(x, update)
    starts = [convert(one_of(one), numpy.dtype(numpy.int64)) for one in arrays]
    return apply("dynamic-update-slice", found, new, *starts)


def dynamic_update_slice(x: Any, update: Any, starts: Any, /) -> Array:
    """`x` with `update` at `starts`, which may be traced; it is moved to fit inside."""
    return _dynamic_update(x, update, list(starts))


# ---- other elements in some places


class _At:
    """``x.at``: what is indexed next."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> _Place:
        return _Place(self._array, key if isinstance(key, tuple) else (key,))


class _Place:
    """``x.at[index]``: elements of an array; each method gives a new array with others there."""

    __slots__ = ("_array", "_key")

    def __init__(self, array: Array, key: tuple[Any, ...]) -> None:
        self._array = array
        self._key = key

    def get(self) -> Array:
        """The elements."""
        return _getitem(self._array, self._key)

    def set(self, values: Any) -> Array:
        """These `values`; where an index occurs twice, one of them."""
        return _updated(self._array, self._key, values, "set")

    def add(self, values: Any) -> Array:
        """`values` added; where an index occurs twice, all of them."""
        return _updated(self._array, self._key, values, "add")

    def subtract(self, values: Any) -> Array:
        """`values` subtracted."""
        return _updated(self._array, self._key, _negated(values), "add")

    def multiply(self, values: Any) -> Array:
        """Times `values`."""
        return _updated(self._array, self._key, values, "multiply")

    def divide(self, values: Any) -> Array:
        """Divided by `values`."""
        return self.set(_divided(self.get(), values))

    def power(self, values: Any) -> Array:
        """To the power of `values`."""
        return self.set(_power(self.get(), values))

    def min(self, values: Any) -> Array:
        """The smaller of each and `values`."""
        return _updated(self._array, self._key, values, "minimum")

    def max(self, values: Any) -> Array:
        """The greater of each and `values`."""
        return _updated(self._array, self._key, values, "maximum")

    def apply(self, function: Any) -> Array:
        """What `function` makes of them."""
        return self.set(function(self.get()))


@operation("values")
def _negated(values: Any, /) -> Array:
    return apply("negate", one_of(values), weak=one_of(values)._weak)


@operation("a", "b")
def _divided(a: Any, b: Any, /) -> Array:
    return apply("divide", *broadcast_together(as_arrays(a, b)))


@operation("a", "b")
def _power(a: Any, b: Any, /) -> Array:
    return apply("power", *broadcast_together(as_arrays(a, b)))


def _updated(x: Array, key: tuple[Any, ...], values: Any, how: str) -> Array:
    """A new array; `values` have the type of the array, whatever they were."""
    new = values if isinstance(values, Array) else concrete(values)
    key = _listed(key)
    if len(key) == 1 and getattr(key[0], "dtype", None) == numpy.bool_ and not new.shape:
        return _where_mask(x, key[0] if isinstance(key[0], Array) else concrete(key[0]), new, how)
    if _mask_of(key):
        key = _without_masks(x, key)
    basic, arrays = _parsed(x.shape, key)
    if not arrays:
        return _update_block(x, new, basic.ranges, basic.layout, how)
    return _scatter(x, new, list(arrays), basic.ranges, basic.arrays, basic.layout, how)


def _without_masks(x: Array, key: tuple[Any, ...]) -> tuple[Any, ...]:
    found: list[Any] = []
    for one in key:
        mask = one._concrete("an index that is a mask", _MASK) if isinstance(one, Array) and one.dtype == bool else one
        if getattr(mask, "dtype", None) == numpy.bool_:
            place = len([before for before in found if before is not None and before is not Ellipsis])
            if Ellipsis not in [e for e in found if e is Ellipsis] and mask.shape != x.shape[place : place + mask.ndim]:
                raise index_error(f"a mask of shape {mask.shape} does not fit an array of shape {x.shape}")
            found += [Array(places) for places in numpy.nonzero(mask)]
        else:
            found.append(one)
    return tuple(found)


def _combined(old: Array, new: Array, how: str) -> Array:
    if how == "set":
        return new
    return apply("or" if how == "add" and kind_of(old.dtype) == "pred" else how, old, new)


@operation("x", "mask", "values")
def _where_mask(x: Any, mask: Any, values: Any, how: str, /) -> Array:
    found, chosen = one_of(x), one_of(mask)
    if chosen.shape != found.shape[: chosen.ndim]:
        raise index_error(f"a mask of shape {chosen.shape} does not fit an array of shape {found.shape}")
    chosen = expand(with_shape(chosen, (*chosen.shape, *[1] * (found.ndim - chosen.ndim))), found.shape)
    new = expand(convert(one_of(values), found.dtype), found.shape)
    return where(chosen, _combined(found, new, how), found)


@operation("x", "values", exact=True)
def _update_block(
    x: Any, values: Any, ranges: tuple[tuple[int, int, int], ...], layout: tuple[str, ...], how: str, /
) -> Array:
    found = one_of(x)
    counts = tuple(count for _, count, _ in ranges)
    sizes = iter(counts)
    shown = [1 if one == "n" else size for one in layout for size in [1 if one == "n" else next(sizes)] if one in "ns"]
    new = with_shape(expand(convert(one_of(values), found.dtype), tuple(shown)), counts)
    if how != "set":
        new = _combined(_ranged(found, ranges), new, how)
    return _put_back(found, new, ranges)


@operation("x", "values", "arrays", exact=True)
def _scatter(
    x: Any, values: Any, arrays: Any, ranges: tuple[tuple[int, int, int], ...], places: tuple[int, ...],
    layout: tuple[str, ...], how: str, /,
) -> Array:  # fmt: skip
    """At each index a window is written: all of the dimensions that no array indexes, of the elements in ranges."""
    found = one_of(x)
    block = _ranged(found, ranges)
    starts = _stacked_indices(list(arrays), [block.shape[n] for n in places])
    lead = starts.ndim - 1
    rest = [n for n in range(block.ndim) if n not in places]
    made = (*starts.shape[:-1], *(block.shape[n] for n in rest))
    order, shown = _arrangement(made, lead, layout)
    new = with_shape(expand(convert(one_of(values), found.dtype), tuple(shown)), [made[n] for n in order])
    written = apply(
        "scatter", block, starts, permuted(new, [order.index(n) for n in range(len(order))]),
        update_window_dims=tuple(range(lead, len(made))), inserted_window_dims=places,
        scatter_dims_to_operand_dims=places, index_vector_dim=lead, to_apply=_combiner(found, how),
    )  # fmt: skip
    return _put_back(found, written, ranges)


def _put_back(found: Array, block: Array, ranges: tuple[tuple[int, int, int], ...]) -> Array:
    """The array with the elements of a block in ranges of it, in a trace."""
    if not STATE.uniform and all(one == (0, size, 1) for one, size in zip(ranges, found.shape, strict=True)):
        return block
    if 0 in block.shape:
        return found
    if all(step == 1 for _, _, step in ranges):
        return apply("dynamic-update-slice", found, block, *[wrap(numpy.asarray(start)) for start, _, _ in ranges])
    turned, padding = [], []
    for axis, (size, (start, count, step)) in enumerate(zip(found.shape, ranges, strict=True)):
        if step < 0:
            turned.append(axis)
            start, step = start + (count - 1) * step, -step
        padding.append(PaddingDimension(start, size - start - (count - 1) * step - 1, step - 1))
    if turned:
        block = apply("reverse", block, dimensions=tuple(turned))
    spread = apply("pad", block, wrap(numpy.asarray(0, block.dtype)), padding=tuple(padding))
    inside = expand(wrap(numpy.asarray(True)), block.shape)
    return where(apply("pad", inside, wrap(numpy.asarray(False)), padding=tuple(padding)), spread, found)


def _combiner(value: Array, how: str) -> Computation:
    element_type = hlo_type(value.dtype)
    if how != "set":
        opcode = "or" if how == "add" and element_type == "pred" else how
        return binary_computation(opcode, element_type)
    computation = Computation("second")
    build = Builder(computation)
    build.parameter(0, scalar(element_type))
    computation.root = build.parameter(1, scalar(element_type))
    return computation
