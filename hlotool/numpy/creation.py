"""Making arrays."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy
from numpy.exceptions import ComplexWarning

from hlotool.ir import PaddingDimension, SliceDimension
from hlotool.ir import array as hlo_array
from hlotool.numpy.array import Array, concrete, wrap
from hlotool.numpy.dtypes import DType, default_type, hlo_type, kind_of, resolve
from hlotool.numpy.elementwise import as_floats, expand, where
from hlotool.numpy.errors import type_error, value_error, warn
from hlotool.numpy.operation import as_arrays, convert, holds_arrays, operation, stacked
from hlotool.numpy.trace import STATE, active, apply, is_scalar

__all__ = [
    "arange", "array", "asarray", "astype", "copy", "diag", "empty", "empty_like", "eye", "from_dlpack", "frombuffer",
    "full", "full_like", "geomspace", "identity", "indices", "linspace", "logspace", "meshgrid", "ones", "ones_like",
    "tri", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def as_shape(shape: Any) -> tuple[int, ...]:
    """Sizes as users give them: a number or several."""
    try:
        sizes = tuple(map(operator.index, shape)) if isinstance(shape, (tuple, list)) else (operator.index(shape),)
    except TypeError as error:
        if isinstance(error, ValueError) or "hint" in str(error):
            raise
        raise type_error(f"{shape!r} is no shape: it takes whole numbers") from error
    if any(size < 0 for size in sizes):
        raise value_error(f"{sizes} is no shape: sizes are not negative")
    return sizes


def check_device(device: Any) -> None:
    if device not in (None, "cpu"):
        raise value_error(f"there is no device {device!r}", 'the only one is "cpu"')


def asarray(
    obj: Any, /, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None
) -> Array:
    """An array of numbers, nested sequences of these and of arrays, or another array.

    A NumPy array that can be written to is copied, unless `copy` is False, a promise that nobody writes to it.
    Functions of this module take NumPy's `order`; all arrays are row-major.
    """
    check_device(device)
    if isinstance(obj, Array):
        found = obj if dtype is None else astype(obj, dtype, copy=False)
        if copy is False and found is not obj:
            raise value_error(f"an array of {obj.dtype} cannot become one of {found.dtype} without a copy")
        return _another(obj) if copy and found is obj else found
    if isinstance(obj, (list, tuple)) and holds_arrays(obj):
        found = stacked(obj)
        return found if dtype is None else astype(found, dtype, copy=False)
    target = None if dtype is None else resolve(dtype)
    if copy is False and (is_scalar(obj) or isinstance(obj, (list, tuple))):
        raise value_error(f"a {type(obj).__name__} cannot become an array without a copy")
    if is_scalar(obj) and target is not None:
        return wrap(numpy.asarray(obj, target))
    if not isinstance(obj, (numpy.ndarray, numpy.generic)) and target is not None:
        obj = numpy.asarray(obj, target) if target.isbuiltin == 1 else numpy.asarray(obj)
    given = concrete(obj)
    value = given._value if target is None else given._value.astype(target, copy=False)
    shared = given._mutable and (value is given._value or value.base is given._value)
    if copy is False and value is not given._value:
        raise value_error(f"an array of {given.dtype} cannot become one of {target} without a copy")
    return wrap(value.copy() if (shared and copy is not False) or copy else value)


def array(
    obj: Any, dtype: Any = None, *, copy: bool | None = True, order: Any = None, subok: bool = False, ndmin: int = 0
) -> Array:
    """NumPy's name for ``asarray``; with leading dimensions of size 1 up to `ndmin`."""
    found = asarray(obj, dtype, copy=copy)
    missing = ndmin - found.ndim
    return _reshaped(found, (1,) * missing + found.shape) if missing > 0 else found


@operation("x")
def _reshaped(x: Any, shape: tuple[int, ...], /) -> Array:
    return apply("reshape", x, shape=hlo_array(hlo_type(x.dtype), shape))


def copy(x: Any, /, order: Any = None) -> Array:
    """An array with the same elements."""
    return asarray(x, copy=True)


def _another(x: Array) -> Array:
    """An array of its own with the same value, which has memory of its own when one of them is assigned to."""
    value = x._value.copy() if x._mutable and x._trace is None else x._value
    return Array(value, x._trace, x._weak)


@operation("x")
def _astype(x: Any, dtype: DType, /) -> Array:
    (found,) = as_arrays(x)
    if kind_of(found.dtype) == "complex" and kind_of(dtype) not in ("complex", "pred"):
        found = apply("real", found)
    if kind_of(dtype) == "pred":
        found = apply("compare", found, expand(wrap(numpy.zeros((), found.dtype)), found.shape), direction="NE")
    made = convert(found, dtype)
    return Array(made._value, made._trace)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, order: Any = None, device: Any = None) -> Array:
    """Elements as those of another type; of floats beyond an integer type, its nearest end; of complex numbers as real
    ones the real parts, with NumPy's warning."""
    check_device(device)
    target = resolve(dtype)
    if kind_of(target) not in ("complex", "pred") and getattr(getattr(x, "dtype", None), "kind", "") == "c":
        warn(f"the imaginary parts are left out of complex numbers as {target}; np.real(x) says so", ComplexWarning)
    if isinstance(x, Array) and x.dtype == target and not x._weak:
        return _another(x) if copy else x
    return _astype(x, target)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of another library that shares memory by DLPack; nobody may write to it, unless it is copied."""
    check_device(device)
    if isinstance(x, Array):  # no other library, so assignments to either are seen in both
        return _another(x) if copy else x[...]
    value = numpy.from_dlpack(x)
    return asarray(value, copy=bool(copy))


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """A copy of the bytes of a buffer, as an array with one dimension."""
    return asarray(numpy.frombuffer(buffer, resolve(dtype), count, offset).copy())


# ---- the same everywhere


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = None, *, device: Any = None) -> Array:
    """`fill_value` everywhere."""
    check_device(device)
    sizes = as_shape(shape)
    if isinstance(fill_value, Array):
        return _filled(fill_value if dtype is None else astype(fill_value, dtype), sizes)
    value = numpy.asarray(fill_value, None if dtype is None else resolve(dtype))
    if active() is None:
        return wrap(numpy.full(sizes, value, value.dtype))
    return expand(wrap(value), sizes)


@operation("value")
def _filled(value: Any, sizes: tuple[int, ...], /) -> Array:
    return expand(value, sizes)


def zeros(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None) -> Array:
    """Zeros; of type float64 unless another is asked for."""
    return full(shape, 0, dtype=float if dtype is None else dtype, device=device)


def ones(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None) -> Array:
    """Ones; of type float64 unless another is asked for."""
    return full(shape, 1, dtype=float if dtype is None else dtype, device=device)


def empty(shape: Any, dtype: Any = None, order: Any = None, *, device: Any = None) -> Array:
    """The same as ``zeros``."""
    return zeros(shape, dtype, device=device)


def _like(x: Any, dtype: Any, shape: Any) -> tuple[Any, Any]:
    found = x if isinstance(x, (Array, numpy.ndarray)) else concrete(x)
    return found.shape if shape is None else shape, found.dtype if dtype is None else dtype


def zeros_like(x: Any, /, dtype: Any = None, order: Any = None, *, shape: Any = None, device: Any = None) -> Array:
    """Zeros in the shape, and unless another is asked for the type, of `x`."""
    return full(*_like_with(x, 0, dtype, shape), device=device)


def ones_like(x: Any, /, dtype: Any = None, order: Any = None, *, shape: Any = None, device: Any = None) -> Array:
    """Ones in the shape, and unless another is asked for the type, of `x`."""
    return full(*_like_with(x, 1, dtype, shape), device=device)


def _like_with(x: Any, value: Any, dtype: Any, shape: Any) -> tuple[Any, Any]:
    sizes, found = _like(x, dtype, shape)
    return sizes, numpy.asarray(value, resolve(found))


def empty_like(x: Any, /, dtype: Any = None, order: Any = None, *, shape: Any = None, device: Any = None) -> Array:
    """The same as ``zeros_like``."""
    return zeros_like(x, dtype, shape=shape, device=device)


def full_like(
    x: Any, /, fill_value: Any, dtype: Any = None, order: Any = None, *, shape: Any = None, device: Any = None
) -> Array:
    """`fill_value` in the shape, and unless another is asked for the type, of `x`."""
    sizes, found = _like(x, dtype, shape)
    return full(sizes, fill_value, dtype=found, device=device)


# ---- sequences


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None) -> Array:
    """Numbers from `start` (0 where only one is given) to below `stop`, `step` apart."""
    check_device(device)
    if stop is None:
        start, stop = 0, start
    for one in (start, stop, step):
        if isinstance(one, Array):
            one._concrete("np.arange", "the number of elements must be a constant: make the argument static, or use "
                          "np.arange(n) + start")
    numbers = [one.item() if isinstance(one, (Array, numpy.generic, numpy.ndarray)) else one
               for one in (start, stop, step)]
    if step == 0:
        raise value_error("arange: the step is 0")
    target = resolve(dtype) if dtype is not None else default_type(float if any(
        isinstance(one, float) for one in numbers) else int)
    count = max(0, math.ceil((numbers[1] - numbers[0]) / numbers[2]))
    if active() is None:
        return wrap(_numbers(count, numbers[0], numbers[2], target))
    if count <= 1 and not STATE.uniform:
        return wrap(_numbers(count, numbers[0], numbers[2], target))
    wide = target if kind_of(target) != "float" or target.itemsize > 2 else numpy.dtype(numpy.float32)
    first = apply("iota", shape=hlo_array(hlo_type(wide), (count,)), iota_dimension=0)
    pair = _numbers(2, numbers[0], numbers[2], wide)
    delta = wrap(numpy.asarray(pair[1] - pair[0], wide))
    scaled = apply("multiply", first, expand(delta, (count,)))
    return convert(apply("add", scaled, expand(wrap(pair[0, ...].copy()), (count,))), target)


def _numbers(count: int, start: Any, step: Any, dtype: DType) -> numpy.ndarray[Any, Any]:
    """start, start + step, ...: computed in f64 for floats, as NumPy does."""
    if kind_of(dtype) in ("signed", "unsigned", "pred"):
        return numpy.asarray([start + n * step for n in range(count)] if not isinstance(start + step, int) else
                             numpy.arange(count, dtype=object) * step + start, object).astype(dtype)
    first, second = (numpy.asarray(one, dtype).astype(numpy.float64) for one in (start, start + step))
    made: numpy.ndarray[Any, Any] = (start + numpy.arange(count) * (second - first)).astype(dtype)
    return made


@operation("start", "stop")
def _linspace(start: Any, stop: Any, num: int, dtype: Any, endpoint: bool, axis: int, /) -> tuple[Array, Array]:
    low, high = as_floats(start, stop)
    shape = numpy.broadcast_shapes(low.shape, high.shape)
    low, high = expand(low, shape), expand(high, shape)
    parts = num - 1 if endpoint else num
    whole = wrap(numpy.asarray(max(parts, 1), low.dtype))
    step = apply("divide", apply("subtract", high, low), expand(whole, shape))
    place = axis if axis >= 0 else axis + len(shape) + 1
    full_shape = (*shape[:place], num, *shape[place:])
    others = tuple(n for n in range(len(full_shape)) if n != place)

    def spread(value: Array) -> Array:
        target = hlo_array(hlo_type(value.dtype), full_shape)
        return apply("broadcast", value, shape=target, dimensions=others)

    real = {"complex64": "f32", "complex128": "f64"}.get(low.dtype.name)
    number = apply("iota", shape=hlo_array(real or hlo_type(low.dtype), full_shape), iota_dimension=place)
    number = convert(number, low.dtype)
    made = apply("add", apply("multiply", number, spread(step)), spread(low))
    if endpoint and num > 1:
        index = apply("iota", shape=hlo_array("s64", full_shape), iota_dimension=place)
        last = apply("compare", index, expand(wrap(numpy.asarray(num - 1)), full_shape), direction="EQ")
        made = apply("select", last, spread(high), made)
    if kind_of(dtype) in ("signed", "unsigned"):
        made = apply("floor", made)
    return convert(made, dtype), step


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
    axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """`num` numbers from `start` to `stop`, which is the last of them if it is the `endpoint`."""
    check_device(device)
    count = as_shape(num)[0]
    if dtype is not None:
        target = resolve(dtype)
    else:
        found = [one for one in (start, stop) if isinstance(one, (Array, numpy.ndarray))]
        kinds = [one.dtype for one in found if kind_of(one.dtype) in ("float", "complex")]
        target = kinds[0] if kinds else default_type(complex if isinstance(start + stop, complex) else float)
    wide = numpy.promote_types(target, numpy.float64) if kind_of(target) in ("signed", "unsigned") else target
    first, last = (one if isinstance(one, Array) else numpy.asarray(one).astype(wide) for one in (start, stop))
    made, step = _linspace(first, last, count, target, bool(endpoint), axis)
    return (made, step) if retstep else made


def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: Any = None) -> Any:
    """`base` to the powers of ``linspace(start, stop)``."""
    powers = base ** linspace(start, stop, num, endpoint=endpoint)
    return powers if dtype is None else astype(powers, dtype)


def geomspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: Any = None) -> Array:
    """Numbers from `start` to `stop` with the same ratio from one to the next; both are numbers."""
    return asarray(numpy.geomspace(start, stop, num, endpoint, dtype))


# ---- matrices


def eye(
    n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = None, order: Any = None, *, device: Any = None
) -> Array:
    """Ones on diagonal number `k`, zeros elsewhere."""
    check_device(device)
    rows, columns = as_shape((n_rows, n_rows if n_cols is None else n_cols))
    target = resolve(float if dtype is None else dtype)
    if active() is None:
        return wrap(numpy.eye(rows, columns, k).astype(target))
    return convert(_diagonals(rows, columns, k, "EQ"), target)


def identity(n: int, dtype: Any = None) -> Array:
    """The identity matrix."""
    return eye(n, dtype=dtype)


def _diagonals(rows: int, columns: int, k: int, direction: str) -> Array:
    """Where column - row is k (EQ), at most k (LE), or at least (GE)."""
    row = apply("iota", shape=hlo_array("s32", (rows, columns)), iota_dimension=0)
    column = apply("iota", shape=hlo_array("s32", (rows, columns)), iota_dimension=1)
    bound = apply("add", row, expand(wrap(numpy.asarray(k, numpy.int32)), (rows, columns)))
    return apply("compare", column, bound, direction=direction)


@operation("x")
def _part(x: Any, k: int, direction: str, /) -> Array:
    (found,) = as_arrays(x)
    if found.ndim < 2:
        raise value_error(f"tril and triu take matrices, not an array of shape {found.shape}")
    kept = expand(_diagonals(found.shape[-2], found.shape[-1], k, direction), found.shape)
    return apply("select", kept, found, expand(wrap(numpy.zeros((), found.dtype)), found.shape))


def tril(x: Any, /, k: int = 0) -> Array:
    """The lower triangles of matrices, up to diagonal number `k`."""
    return _part(x, k, "LE")


def triu(x: Any, /, k: int = 0) -> Array:
    """The upper triangles of matrices, from diagonal number `k` on."""
    return _part(x, k, "GE")


def tri(n: int, m: int | None = None, k: int = 0, dtype: Any = None) -> Array:
    """Ones up to diagonal number `k`."""
    return tril(ones((n, n if m is None else m), dtype), k=k)


@operation("v")
def diag(v: Any, /, k: int = 0) -> Array:
    """A matrix with `v` on diagonal number `k`; of a matrix, that diagonal."""
    (found,) = as_arrays(v)
    if found.ndim == 1:
        size = found.shape[0] + (k if k >= 0 else -k)
        zero = wrap(numpy.zeros((), found.dtype))
        low = max(-k, 0)
        rows = _padded(found, zero, low, size - found.shape[0] - low)
        spread = apply("broadcast", rows, shape=hlo_array(hlo_type(found.dtype), (size, size)), dimensions=(0,))
        return where(_diagonals(size, size, k, "EQ"), spread, zero)
    if found.ndim != 2:
        raise value_error(f"diag takes vectors and matrices, not an array of shape {found.shape}")
    return diagonal_of(found, k)


def _padded(value: Array, zero: Array, low: int, high: int) -> Array:
    return apply("pad", value, zero, padding=(PaddingDimension(low, high),))


def diagonal_of(value: Array, k: int) -> Array:
    """Diagonal number `k` of the last two dimensions, in a trace."""
    rows, columns = value.shape[-2:]
    first_row, first_column = max(-k, 0), max(k, 0)
    count = max(0, min(rows - first_row, columns - first_column))
    flat = apply("reshape", value, shape=hlo_array(hlo_type(value.dtype), (*value.shape[:-2], rows * columns)))
    if not count:
        return wrap(numpy.zeros((*value.shape[:-2], 0), value.dtype))
    start = first_row * columns + first_column
    lead = [SliceDimension(0, size) for size in value.shape[:-2]]
    ranges = (*lead, SliceDimension(start, start + (count - 1) * (columns + 1) + 1, columns + 1))
    return apply("slice", flat, slice=ranges)


@operation("arrays")
def _meshgrid(arrays: Any, indexing: str, /) -> list[Array]:
    found = [Array(one._value, one._trace) for one in (as_arrays(a)[0] for a in arrays)]
    shape = [one.size for one in found]
    order = list(range(len(found)))
    if indexing == "xy" and len(found) > 1:
        order[:2] = [1, 0]
    target = tuple(shape[n] for n in order)
    return [
        apply("broadcast", _reshaped(one, (one.size,)), shape=hlo_array(hlo_type(one.dtype), target),
              dimensions=(order.index(n),))
        for n, one in enumerate(found)
    ]  # fmt: skip


def meshgrid(
    *arrays: Any, indexing: str = "xy", copy: bool = True, sparse: bool = False
) -> tuple[Array, ...]:
    """Grids of coordinates: each vector along a dimension of its own; `sparse` ones have size 1 along the others."""
    if indexing not in ("xy", "ij"):
        raise value_error(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    if sparse:
        places = list(range(len(arrays)))
        if indexing == "xy":
            places[:2] = places[:2][::-1]
        found = [one if isinstance(one, Array) else concrete(one) for one in arrays]
        return tuple(
            _reshaped(one, tuple(one.size if n == place else 1 for n in range(len(found))))
            for one, place in zip(found, places, strict=True)
        )
    return tuple(_meshgrid(list(arrays), indexing)) if arrays else ()


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """The coordinates of all places of an array of this shape; `sparse` ones are a tuple of arrays."""
    theirs: Any = numpy.indices
    found = theirs(as_shape(dimensions), resolve(dtype), sparse)
    return tuple(map(asarray, found)) if sparse else asarray(found)
