"""NumPy's functions that change an array which they are given, by assignments to it."""

from __future__ import annotations

from typing import Any

import numpy

from hlotool.numpy.array import Array, concrete_value
from hlotool.numpy.axes import as_axis
from hlotool.numpy.creation import arange, asarray
from hlotool.numpy.elementwise import where as chosen
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.manipulation import ravel, reshape
from hlotool.numpy.selecting import resize

__all__ = ["copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"]

_MASK = "np.where(mask, values, x) takes a traced mask"


def _target(x: Any, what: str) -> Array:
    if not isinstance(x, Array):
        raise type_error(f"{what} changes an array of hlotool.numpy, not a {type(x).__name__}", "use numpy's function")
    return x


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Assign `src` to `dst`, `where` that is true."""
    target, source = _target(dst, "copyto"), asarray(src)
    if not numpy.can_cast(source.dtype, target.dtype, casting) and isinstance(src, (Array, numpy.ndarray)):  # type: ignore[arg-type]
        raise type_error(f"an array of {target.dtype} cannot hold elements of {source.dtype} by the rule {casting!r}")
    target[...] = source if where is True else chosen(where, source, target)


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Assign `v`, repeated, to the elements that have the indices `ind` among all in order."""
    target, places = _target(a, "put"), ravel(asarray(ind))
    if mode not in ("raise", "wrap", "clip"):
        raise value_error(f"put: the mode is 'raise', 'wrap' or 'clip', not {mode!r}")
    if mode != "raise":
        places = places % target.size if mode == "wrap" else places.clip(0, target.size - 1)
    values = ravel(asarray(v))
    if places.size and values.size:
        target[...] = reshape(ravel(target).at[places].set(resize(values, places.shape)), target.shape)


def place(arr: Any, mask: Any, vals: Any) -> None:
    """Assign `vals`, one after the other and repeated, to the elements where `mask` is true."""
    target = _target(arr, "place")
    chosen = numpy.flatnonzero(concrete_value(asarray(mask), "place", _MASK))
    put(target, chosen, vals)


def putmask(a: Any, mask: Any, values: Any) -> None:
    """Assign to each element where `mask` is true what `values`, repeated in the shape of `a`, has there."""
    target, given = _target(a, "putmask"), ravel(asarray(values))
    if given.size:
        target[...] = chosen(reshape(asarray(mask), target.shape), resize(given, target.shape), target)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Assign `values` to the elements that ``take_along_axis`` takes."""
    target, index = _target(arr, "put_along_axis"), asarray(indices)
    if axis is None:
        put(target, index, values)
        return
    place = as_axis(axis, target.ndim)
    if index.ndim != target.ndim:
        raise value_error(f"put_along_axis: indices have {index.ndim} dimensions, the array {target.ndim}")
    key: list[Any] = [
        index if n == place else reshape(arange(size), [size if m == n else 1 for m in range(target.ndim)])
        for n, size in enumerate(target.shape)
    ]
    target[tuple(key)] = values


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Assign `val` to the diagonal, of tall matrices again and again with `wrap`."""
    target = _target(a, "fill_diagonal")
    if target.ndim < 2:
        raise value_error("fill_diagonal: an array has two dimensions at least")
    if target.ndim > 2 and len(set(target.shape)) > 1:
        raise value_error(f"fill_diagonal: all dimensions have the same size, not {target.shape}")
    if target.ndim > 2:
        step = int(numpy.cumprod([1, *target.shape[1:]]).sum())
        end = target.size
    else:
        step = target.shape[1] + 1
        end = target.size if wrap else target.shape[1] ** 2
    places = numpy.arange(target.size)[:end:step]
    put(target, places, val)
