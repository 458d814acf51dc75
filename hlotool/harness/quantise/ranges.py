"""How far the numbers of a narrow type reach: what of an array is cut off, and what is rounded.

Methods: ``min-max`` takes all that was seen; ``percentile`` leaves out the given share of the largest; ``mse`` takes
the range with the least mean squared error, of cutting off and rounding together; ``kl`` the one whose rounded
distribution has the least relative entropy to that of the values (Migacz, 8-bit inference with TensorRT, 2017).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.harness.quantise.histogram import Histogram
from hlotool.ir import ELEMENT_TYPES, dtype_of
from hlotool.passes.quantise.quantiser import Quantiser, limits_of

__all__ = ["METHODS", "activation_quantiser", "range_of", "weight_quantiser"]

METHODS = ("min-max", "percentile", "kl", "mse")

_TRIES = 100
"""Ranges that `mse` tries, from the widest inwards."""
_FEWEST_BINS = 128
"""Bins that a range of `kl` covers at least: as many as there are numbers."""
_LEAST_SCALE = 2.0**-120
"""No scale is smaller, so that its inverse is finite."""

Floats = npt.NDArray[Any]


def range_of(seen: Histogram, method: str, percentile: float, levels: int) -> tuple[float, float]:
    """The least and the greatest value that are represented, of a distribution; `levels` numbers are to spread over
    them.  Both sides of zero are cut at the same share where there are values on both."""
    low, high = min(0.0, seen.low), max(0.0, seen.high)
    if method == "min-max" or not seen.count or low == high:
        return low, high
    if method == "percentile":
        return _percentile(seen, percentile, low, high)
    far = max(-low, high)
    if method == "mse":
        bound = _least_error(seen, low, high, levels)
    else:
        bound = _least_entropy(seen, far, levels if low >= 0 or high <= 0 else levels // 2)
    return max(low, -bound), min(high, bound)


def _percentile(seen: Histogram, percentile: float, low: float, high: float) -> tuple[float, float]:
    """Without the values beyond the percentile on each side that has any."""
    out = (1 - percentile / 100) * seen.count
    below, above = np.cumsum(seen.counts), np.cumsum(seen.counts[::-1])
    edges = np.linspace(-seen.reach, seen.reach, len(seen.counts) + 1)
    least = float(edges[int(np.searchsorted(below, out, side="right"))])
    most = float(edges[-1 - int(np.searchsorted(above, out, side="right"))])
    return max(low, min(0.0, least)), min(high, max(0.0, most))


def _least_error(seen: Histogram, low: float, high: float, levels: int) -> float:
    """The bound on absolute values with the least sum of squared errors."""
    values, weights = seen.centres, seen.counts.astype(np.float64)
    used = weights > 0
    values, weights = values[used], weights[used]
    far, best, least = max(-low, high), max(-low, high), np.inf
    for part in range(_TRIES):
        bound = far * (1 - part / _TRIES)
        bottom, top = max(low, -bound), min(high, bound)
        step = (top - bottom) / max(1, levels - 1)
        if step <= 0:
            break
        error = np.where((values < bottom) | (values > top), np.clip(values, bottom, top) - values, 0.0)
        # What lies inside is rounded: a twelfth of a step, squared, on average.
        total = float((weights * error**2).sum() + weights[(values >= bottom) & (values <= top)].sum() * step**2 / 12)
        if total < least:
            best, least = bound, total
    return best


def _least_entropy(seen: Histogram, far: float, half: int) -> float:
    """The bound on absolute values, for so many numbers, that keeps their distribution best.

    The bin of zero, which every range represents, is left out: a rectifier would make it outweigh all others.
    """
    centres, counts = seen.magnitudes()
    counts[0] = 0
    if not counts.any():
        return far
    last = int(np.flatnonzero(counts)[-1]) + 1
    if last <= max(half, _FEWEST_BINS):
        return far
    width = float(centres[1] - centres[0])
    best, least = far, np.inf
    for kept in range(max(half, _FEWEST_BINS), last + 1, max(1, last // 256)):
        wanted = counts[:kept].astype(np.float64)
        inside = wanted.copy()
        wanted[-1] += counts[kept:].sum()  # what is cut off becomes the largest number
        group = np.minimum(np.arange(kept) * half // kept, half - 1)
        mass = np.bincount(group, inside, half)
        filled = np.bincount(group, inside > 0, half)
        spread = np.divide(mass, filled, out=np.zeros(half), where=filled > 0)
        rounded = np.where(inside > 0, spread[group], 0.0)
        entropy = _relative_entropy(wanted, rounded)
        if entropy < least:
            best, least = kept * width, entropy
    return min(best, far)


def _relative_entropy(wanted: Floats, given: Floats) -> float:
    p, q = wanted / wanted.sum(), given / max(given.sum(), 1.0)
    smallest = 1e-9
    used = p > 0
    return float((p[used] * np.log(p[used] / np.maximum(q[used], smallest))).sum())


def activation_quantiser(
    seen: Histogram, kind: str, method: str, percentile: float, *, symmetric: bool, signed: bool
) -> Quantiser:
    """The quantiser of a value that the program computes, from what was seen of it: one scale for the whole array.

    Of int8 (`kind` is s8): values without negative ones are stored as u8 with zero point 0, which needs no correction
    and has twice as many numbers; without `symmetric` so are all others, with the zero point where zero is.  What is
    to be `signed` is s8 in any case: convolutions multiply no numbers of different signedness.
    """
    bits = ELEMENT_TYPES[kind].bits
    if ELEMENT_TYPES[kind].is_float:
        bound = max(map(abs, range_of(seen, method, percentile, 1 << bits)))
        return Quantiser(type=kind, scale=_scale(bound / limits_of(kind)[1]))
    levels = 1 << bits
    low, high = range_of(seen, method, percentile, levels)
    if not symmetric or (low >= 0 and not signed):
        stored = kind if signed else "u" + kind.removeprefix("s")
        bottom, top = limits_of(stored)
        scale = _scale((high - low) / (top - bottom))
        zero = int(np.clip(np.rint(bottom - low / float(scale)), bottom, top))
        return Quantiser(type=stored, scale=scale, zero=zero)
    return Quantiser(type=kind, scale=_scale(max(-low, high) / limits_of(kind)[1]))


def weight_quantiser(
    values: Floats, kind: str, axes: tuple[int, ...], method: str, group: tuple[int, int] | None = None
) -> Quantiser:
    """The symmetric quantiser of constant weights: scales along `axes`, and for each `group` (axis, size) of them.

    With ``mse`` each scale is the one of some that leaves the least squared error; else the largest weight fits.
    """
    split, over = _split(np.asarray(values, np.float32), axes, group)
    most = np.abs(split).max(axis=over, keepdims=True, initial=0.0)
    top = limits_of(kind)[1]
    best = np.maximum(most / top, _LEAST_SCALE).astype(np.float32)
    if method == "mse" and split.size:
        whole, least = best, np.full(best.shape, np.inf)
        for share in np.linspace(1.0, 0.5, 21 if ELEMENT_TYPES[kind].bits < 8 else 9):
            scale = np.maximum(whole * np.float32(share), np.float32(_LEAST_SCALE))
            rounded = _rounded(split / scale, kind) * scale
            error = ((rounded - split) ** 2).sum(axis=over, keepdims=True, dtype=np.float64)
            best, least = np.where(error < least, scale, best), np.minimum(error, least)
    kept = [axis for axis in range(split.ndim) if axis not in over]
    scale = best.reshape([split.shape[axis] for axis in kept])
    every = tuple(sorted({*axes, *([group[0]] if group else [])}))
    return Quantiser(type=kind, scale=np.array(scale), axes=every, group=group)


def _split(
    values: Floats, axes: tuple[int, ...], group: tuple[int, int] | None
) -> tuple[Floats, tuple[int, ...]]:
    """The weights with the axis of groups in two, and the axes over which elements share a scale."""
    if group is None:
        return values, tuple(axis for axis in range(values.ndim) if axis not in axes)
    axis, size = group
    sizes = values.shape
    split = values.reshape(*sizes[:axis], sizes[axis] // size, size, *sizes[axis + 1 :])
    kept = {one if one <= axis else one + 1 for one in {*axes, axis}}
    return split, tuple(one for one in range(split.ndim) if one not in kept)


def _rounded(scaled: Floats, kind: str) -> Floats:
    low, high = limits_of(kind)
    with np.errstate(all="ignore"):
        cut = np.clip(scaled, low, high)
        return np.rint(cut) if ELEMENT_TYPES[kind].is_integer else cut.astype(dtype_of(kind)).astype(np.float32)


def _scale(value: float) -> npt.NDArray[np.float32]:
    return np.asarray(max(value, _LEAST_SCALE), np.float32)
