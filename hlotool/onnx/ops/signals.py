"""Fourier transforms, and the weights that go with them."""

from __future__ import annotations

import numpy

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.numpy.trace import apply
from hlotool.onnx.lowering import Context, Refused, lowering, normal_axes
from hlotool.onnx.ops.pieces import constant
from hlotool.onnx.tensors import dtype_of_tensor

__all__: list[str] = []


def _pairs(x: Array) -> Array:
    """Complex numbers as pairs in a last dimension."""
    return np.stack([np.real(x), np.imag(x)], axis=-1)


def _real(x: Array) -> Array:
    """In f64: what cancels in a transform is what its errors are largest beside."""
    return np.astype(x, numpy.float64)


def _complex(x: Array) -> Array:
    """Pairs, or single real numbers, as complex numbers."""
    wide = _real(x)
    if x.shape[-1] == 1:
        return apply("complex", wide[..., 0], np.zeros(x.shape[:-1], wide.dtype))
    return apply("complex", wide[..., 0], wide[..., 1])


@lowering("DFT", since=20)
def dft(
    c: Context, x: Array, length: Array | None = None, axis: Array | None = None, *, inverse: int = 0,
    onesided: int = 0,
) -> Array:  # fmt: skip
    return _dft(c, x, length, -2 if axis is None else c.whole(axis, "the axis"), bool(inverse), bool(onesided))


@lowering("DFT")
def dft_by_attribute(
    c: Context, x: Array, length: Array | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Array:
    return _dft(c, x, length, axis, bool(inverse), bool(onesided))


def _dft(c: Context, x: Array, length: Array | None, axis: int, inverse: bool, onesided: bool) -> Array:
    (place,) = normal_axes([axis], x.ndim)
    count = None if length is None else c.whole(length, "the length")
    if inverse and onesided:
        whole = np.fft.irfft(_complex(x), n=count, axis=place)
        return np.astype(np.expand_dims(whole, axis=-1), x.dtype)
    if onesided:
        if x.shape[-1] != 1:
            raise Refused("one side of the transform of complex numbers")
        return np.astype(_pairs(np.fft.rfft(_real(x)[..., 0], n=count, axis=place)), x.dtype)
    function = np.fft.ifft if inverse else np.fft.fft
    return np.astype(_pairs(function(_complex(x), n=count, axis=place)), x.dtype)


@lowering("STFT")
def stft(
    c: Context, x: Array, step: Array, window: Array | None = None, length: Array | None = None, *,
    onesided: int = 1,
) -> Array:  # fmt: skip
    """Transforms of parts of a signal [batch, places, 1 or 2], each `step` further on."""
    if length is None and window is None:
        raise Refused("neither a window nor a length")
    size = c.whole(length, "the length") if length is not None else window.shape[0]  # type: ignore[union-attr]  # one is
    hop = c.whole(step, "the step")
    count = (x.shape[1] - size) // hop + 1
    index = constant(numpy.arange(count)[:, None] * hop + numpy.arange(size)[None, :])
    signal = _real(x) if x.ndim > 2 else np.expand_dims(_real(x), axis=-1)
    frames = np.take(signal, index, axis=1)  # batch, frames, places, 1 or 2
    if window is not None:
        frames = frames * np.reshape(_real(window), (-1, 1))
    if onesided and frames.shape[-1] == 1:
        return np.astype(_pairs(np.fft.rfft(frames[..., 0], axis=2)), x.dtype)
    found = np.fft.fft(_complex(frames), axis=2)
    return np.astype(_pairs(found[:, :, : size // 2 + 1] if onesided else found), x.dtype)


def _window(name: str, *terms: float) -> None:
    @lowering(name)
    def lower(c: Context, size: Array, *, output_datatype: int = 1, periodic: int = 1) -> Array:
        count = c.whole(size, "the size")
        turns = 2 * numpy.pi * numpy.arange(count) / max(1, count if periodic else count - 1)
        found = sum(term * numpy.cos(n * turns) for n, term in enumerate(terms))
        return constant(numpy.asarray(found), dtype_of_tensor(output_datatype))


_window("HannWindow", 0.5, -0.5)
_window("HammingWindow", 25 / 46, -21 / 46)
_window("BlackmanWindow", 0.42, -0.5, 0.08)


@lowering("MelWeightMatrix")
def mel_weight_matrix(
    c: Context, bins: Array, size: Array, rate: Array, lower: Array, upper: Array, *, output_datatype: int = 1
) -> Array:
    """Triangles that are evenly spaced in mel (2595 log10(1 + f / 700)), over the bins of a transform."""
    count, length = c.whole(bins, "the number of bands"), c.whole(size, "the length")
    sampled = c.whole(rate, "the rate")
    low, high = (float(c.static(np.reshape(one, ()), "a frequency")) for one in (lower, upper))
    ends = 2595 * numpy.log10(1 + numpy.array([low, high]) / 700)
    mel = numpy.arange(count + 2) * ((ends[1] - ends[0]) / (count + 2)) + ends[0]
    places = (((length + 1) * 700 * (10 ** (mel / 2595) - 1)) // sampled).astype(int)
    found = numpy.zeros((length // 2 + 1, count))
    for n in range(count):
        first, middle, last = places[n : n + 3]
        if middle == first:
            found[middle, n] = 1
        else:
            rising = numpy.arange(first, middle + 1)
            found[rising, n] = (rising - first) / (middle - first)
        if last != middle:
            falling = numpy.arange(middle, last)
            found[falling, n] = (last - falling) / (last - middle)
    return constant(found, dtype_of_tensor(output_datatype))


