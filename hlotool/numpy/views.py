"""Other looks at the elements of an array: their bits as another type, and all of them in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from hlotool.ir import array as hlo_array
from hlotool.numpy.array import Array, concrete, wrap
from hlotool.numpy.dtypes import DType, hlo_type, kind_of, resolve
from hlotool.numpy.elementwise import not_zero
from hlotool.numpy.errors import value_error
from hlotool.numpy.indexing import _flattened, _getitem
from hlotool.numpy.manipulation import one_of, part, reshape, with_shape
from hlotool.numpy.operation import convert, operation
from hlotool.numpy.selecting import resize
from hlotool.numpy.trace import active, apply

__all__ = ["_Flat", "_viewed"]

_BYTE = numpy.dtype(numpy.uint8)


def _viewed(x: Array, dtype: Any = None, type: None = None) -> Array:
    """``x.view(dtype)``: the bits of the elements as those of another type; of wider ones, along the last dimension."""
    target = x.dtype if dtype is None else resolve(dtype)
    last = x.shape[-1] * x.dtype.itemsize if x.ndim else x.dtype.itemsize
    if target.itemsize != x.dtype.itemsize and (not x.ndim or last % target.itemsize):
        raise value_error(f"elements of {x.dtype} in the shape {x.shape} are no whole elements of {target}")
    if x._trace is not None or active() is not None:
        return _same_bits(x, target)._is_part_of(x, lambda held: held.view(target))
    held = numpy.ascontiguousarray(x._value).reshape(x.shape).view(target)
    return wrap(held.copy() if x._mutable else held)._is_part_of(x, lambda held: held.view(target))


@operation("x")
def _same_bits(x: Any, target: DType, /) -> Array:
    value = one_of(x)
    if value.dtype == target:
        return Array(value._value, value._trace)
    if kind_of(value.dtype) == "complex":  # two numbers side by side
        parts = [apply(name, value) for name in ("real", "imag")]
        pairs = apply("concatenate", *[with_shape(one, (*one.shape, 1)) for one in parts], dimensions=(value.ndim,))
        return _same_bits(with_shape(pairs, (*value.shape[:-1], *_doubled(value.shape[-1:]))), target)
    if kind_of(target) == "complex":
        real = numpy.dtype(numpy.float32 if target.itemsize == 8 else numpy.float64)
        halves = _same_bits(value, real)
        pairs = with_shape(halves, (*halves.shape[:-1], halves.shape[-1] // 2, 2))
        return apply("complex", *[with_shape(part(pairs, pairs.ndim - 1, n, n + 1), pairs.shape[:-1]) for n in (0, 1)])
    if kind_of(value.dtype) == "pred":
        return _same_bits(convert(value, _BYTE), target)
    if kind_of(target) == "pred":
        return not_zero(_same_bits(value, _BYTE))
    size, wanted = value.dtype.itemsize, target.itemsize
    lead, kind = value.shape[:-1], hlo_type(target)
    if wanted > size:
        count = wanted // size
        pairs = with_shape(value, (*lead, value.shape[-1] // count, count))
        return apply("bitcast-convert", pairs, shape=hlo_array(kind, pairs.shape[:-1]))
    if wanted < size:
        count = size // wanted
        apart = apply("bitcast-convert", value, shape=hlo_array(kind, (*value.shape, count)))
        return with_shape(apart, (*lead, value.shape[-1] * count))
    return apply("bitcast-convert", value, shape=hlo_array(kind, value.shape))


def _doubled(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(2 * one for one in sizes) or (2,)


class _Flat:
    """``x.flat``: all elements in order, whatever the shape; an assignment to some of them is one to `x`."""

    __slots__ = ("base",)

    def __init__(self, base: Array) -> None:
        self.base = base

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Iterator[Array]:
        return iter(_flattened(self.base))

    def __getitem__(self, key: Any) -> Array:
        return _getitem(_flattened(self.base), key)

    def __setitem__(self, key: Any, value: Any) -> None:
        elements = _flattened(self.base).copy()
        given = _flattened(value if isinstance(value, Array) else concrete(value))
        # Repeated, or cut off, as NumPy does.
        elements[key] = resize(given, elements[key].shape) if given.size else given
        self.base[...] = reshape(elements, self.base.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray[Any, Any]:
        return _flattened(self.base).__array__(dtype, copy)

    def copy(self) -> Array:
        """The elements in one dimension."""
        return _flattened(self.base).copy()
