"""Fourier transforms: ``hlotool.numpy.fft``, that of the array API standard 2025.12, and two-dimensional ones."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy

from hlotool.ir import array
from hlotool.numpy import standard as np
from hlotool.numpy.array import Array
from hlotool.numpy.axes import as_axis
from hlotool.numpy.creation import check_device
from hlotool.numpy.dtypes import DType, hlo_type, kind_of, resolve
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.operation import as_arrays, convert, operation
from hlotool.numpy.trace import apply

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Axes = Sequence[int]
_INVERSE = frozenset({"IFFT", "IRFFT"})
_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


@operation("x")
def fft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The discrete Fourier transform along `axis`, of `n` elements (cut, or filled up with zeros)."""
    return _along(_complex(x), "FFT", n, axis, norm)


@operation("x")
def ifft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `fft`."""
    return _along(_complex(x), "IFFT", n, axis, norm)


@operation("x")
def rfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform of real numbers: its first half, of which the rest are the conjugates."""
    return _along(_real("rfft", x), "RFFT", n, axis, norm)


@operation("x")
def irfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `rfft`: `n` real numbers (an even count by default)."""
    return _along(_complex(x), "IRFFT", n, axis, norm)


@operation("x")
def hfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform, which is real, of numbers of which only the first half is given: the rest are the conjugates."""
    return _along(np.conj(_complex(x)), "IRFFT", n, axis, _SWAPPED[_known(norm)])


@operation("x")
def ihfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of `hfft`."""
    return np.conj(_along(_real("ihfft", x), "RFFT", n, axis, _SWAPPED[_known(norm)]))


@operation("x")
def fftn(x: Any, /, s: Axes | None = None, axes: Axes | None = None, norm: str = "backward") -> Array:
    """The transform along several axes: all, or the last ones that `s` has lengths for."""
    return _along_all(_complex(x), "FFT", _plan(x, s, axes), norm)


@operation("x")
def ifftn(x: Any, /, s: Axes | None = None, axes: Axes | None = None, norm: str = "backward") -> Array:
    """The inverse of `fftn`."""
    return _along_all(_complex(x), "IFFT", _plan(x, s, axes), norm)


@operation("x")
def rfftn(x: Any, /, s: Axes | None = None, axes: Axes | None = None, norm: str = "backward") -> Array:
    """The transform of real numbers along several axes: the first half along the last of them."""
    *rest, (axis, length) = _plan(x, s, axes, some=True)
    half = _along(_real("rfftn", x), "RFFT", length, axis, norm)
    return _along_all(half, "FFT", rest, norm)


@operation("x")
def irfftn(x: Any, /, s: Axes | None = None, axes: Axes | None = None, norm: str = "backward") -> Array:
    """The inverse of `rfftn`."""
    *rest, (axis, length) = _plan(x, s, axes, some=True)
    return _along(_along_all(_complex(x), "IFFT", rest, norm), "IRFFT", length if s is not None else None, axis, norm)


def fft2(x: Any, /, s: Axes | None = None, axes: Axes = (-2, -1), norm: str = "backward") -> Array:
    """`fftn` along two axes."""
    return fftn(x, s=s, axes=tuple(axes), norm=norm)


def ifft2(x: Any, /, s: Axes | None = None, axes: Axes = (-2, -1), norm: str = "backward") -> Array:
    """`ifftn` along two axes."""
    return ifftn(x, s=s, axes=tuple(axes), norm=norm)


def rfft2(x: Any, /, s: Axes | None = None, axes: Axes = (-2, -1), norm: str = "backward") -> Array:
    """`rfftn` along two axes."""
    return rfftn(x, s=s, axes=tuple(axes), norm=norm)


def irfft2(x: Any, /, s: Axes | None = None, axes: Axes = (-2, -1), norm: str = "backward") -> Array:
    """`irfftn` along two axes."""
    return irfftn(x, s=s, axes=tuple(axes), norm=norm)


def fftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of the elements of `fft`, for samples `d` apart."""
    check_device(device)
    return _frequencies(numpy.fft.fftfreq(_count(n), d), dtype)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of the elements of `rfft`, for samples `d` apart."""
    check_device(device)
    return _frequencies(numpy.fft.rfftfreq(_count(n), d), dtype)


def _count(n: int) -> int:
    count = _whole(n)
    if count < 1:
        raise value_error(f"a transform has one element at least, not {count}")
    return count


def _whole(n: Any) -> int:
    try:
        return operator.index(n)
    except TypeError as error:
        raise type_error(f"the length {n!r} is no whole number") from error


def _frequencies(values: Any, dtype: Any) -> Array:
    wanted = numpy.dtype(numpy.float64) if dtype is None else resolve(dtype)
    if kind_of(wanted) != "float":
        raise type_error(f"frequencies are floats, not {wanted}")
    return Array(values.astype(wanted))


@operation("x")
def fftshift(x: Any, /, axes: int | Axes | None = None) -> Array:
    """With frequency zero moved to the middle."""
    chosen = _axes(x, axes)
    return np.roll(x, tuple(x.shape[one] // 2 for one in chosen), axis=chosen)


@operation("x")
def ifftshift(x: Any, /, axes: int | Axes | None = None) -> Array:
    """The inverse of `fftshift`."""
    chosen = _axes(x, axes)
    return np.roll(x, tuple(-(x.shape[one] // 2) for one in chosen), axis=chosen)


def _axes(x: Array, axes: int | Axes | None) -> tuple[int, ...]:
    if axes is None:
        return tuple(range(x.ndim))
    return tuple(as_axis(one, x.ndim) for one in ((axes,) if isinstance(axes, int) else axes))


def _complex(x: Any) -> Array:
    (a,) = as_arrays(x)
    if kind_of(a.dtype) == "complex":
        return a
    return convert(a, numpy.dtype(numpy.complex64 if kind_of(a.dtype) == "float" and a.dtype.itemsize <= 4 else "c16"))


def _real(name: str, x: Any) -> Array:
    (a,) = as_arrays(x)
    if kind_of(a.dtype) == "complex":
        raise type_error(f"{name} takes real numbers, not {a.dtype}")
    return convert(a, numpy.dtype(numpy.float32 if kind_of(a.dtype) == "float" and a.dtype.itemsize <= 4 else "f8"))


def _known(norm: str | None) -> str:
    found = norm or "backward"
    if found not in _SWAPPED:
        raise value_error(f"norm {norm!r} is not known", 'use "backward", "ortho" or "forward"')
    return found


def _plan(x: Any, s: Axes | None, axes: Axes | None, some: bool = False) -> list[tuple[int, int]]:
    """Axes and lengths, of which -1 is that of the array; `some`: one axis at least."""
    if axes is None:
        if s is not None and len(s) > x.ndim:
            raise value_error(f"s has {len(s)} lengths for an array of {x.ndim} dimensions")
        chosen = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    else:
        chosen = [as_axis(one, x.ndim) for one in axes]  # type: ignore[assignment]  # a list serves as well
    given = [-1] * len(chosen) if s is None else list(s)
    if len(given) != len(chosen):
        raise value_error(f"s has {len(given)} lengths for {len(chosen)} axes")
    if some and not chosen:
        raise value_error("a transform of real numbers needs one axis at least")
    return [(axis, x.shape[axis] if one == -1 else one) for axis, one in zip(chosen, given, strict=True)]


def _along_all(a: Array, kind: str, plan: Sequence[tuple[int, int]], norm: str) -> Array:
    for axis, length in reversed(plan):
        a = _along(a, kind, length, axis, norm)
    return a


def _along(a: Array, kind: str, n: int | None, axis: int, norm: str) -> Array:
    """One transform along one axis."""
    scaling = _known(norm)
    axis = as_axis(axis, a.ndim)
    own = a.shape[axis]
    length = _whole(n) if n is not None else 2 * (own - 1) if kind == "IRFFT" else own
    if length < 1:
        raise value_error(f"a transform has one element at least, not {length}")
    last = np.moveaxis(a, axis, -1)
    last = _resized(last, length // 2 + 1 if kind == "IRFFT" else length)
    result = _transformed(last, kind, length) if last.size else _nothing(last, kind, length)
    factor = _factor(kind, scaling, length)
    if factor != 1:
        result = result * factor
    return np.moveaxis(result, -1, axis)


def _transformed(a: Array, kind: str, length: int) -> Array:
    complex_type = hlo_type(a.dtype) if kind != "RFFT" else {"f32": "c64", "f64": "c128"}[hlo_type(a.dtype)]
    sizes = (*a.shape[:-1], length // 2 + 1 if kind == "RFFT" else length)
    element_type = {"c64": "f32", "c128": "f64"}[complex_type] if kind == "IRFFT" else complex_type
    return apply("fft", a, shape=array(element_type, sizes), fft_type=kind, fft_length=(length,))


def _nothing(a: Array, kind: str, length: int) -> Array:
    """The transforms of no vectors."""
    dtype: DType = a.dtype
    if kind == "RFFT":
        dtype = numpy.result_type(dtype, numpy.complex64)
    if kind == "IRFFT":
        dtype = numpy.empty(0, dtype).real.dtype
    return np.zeros((*a.shape[:-1], length // 2 + 1 if kind == "RFFT" else length), dtype=dtype)


def _factor(kind: str, norm: str, length: int) -> float:
    """What HLO's transform, of which the inverse is divided by the length, is multiplied by."""
    if kind in _INVERSE:
        return {"backward": 1.0, "ortho": math.sqrt(length), "forward": float(length)}[norm]
    return {"backward": 1.0, "ortho": 1 / math.sqrt(length), "forward": 1 / length}[norm]


def _resized(a: Array, length: int) -> Array:
    own = a.shape[-1]
    if own == length:
        return a
    if own > length:
        return a[..., :length]
    return np.concat([a, np.zeros((*a.shape[:-1], length - own), dtype=a.dtype)], axis=-1)
