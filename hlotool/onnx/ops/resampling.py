"""Arrays of other sizes: resizing by weights that are known, and sampling where a grid says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.onnx.lowering import Context, Refused, lowering, normal_axes
from hlotool.onnx.ops.indexing import interpolated, read_at
from hlotool.onnx.ops.pieces import constant, in_f32, number

__all__: list[str] = []

Floats = numpy.ndarray[Any, Any]


def _places(
    mode: str, count: int, size: int, scale: float, start: float, end: float, wanted: float
) -> Floats:
    """Where the elements of the result lie in the input, along one dimension."""
    x = numpy.arange(count, dtype=numpy.float64)
    if mode == "half_pixel":
        return (x + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        adjust = count / wanted
        return size / 2 * (1 - adjust) + (x + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if count > 1 else numpy.zeros(1)
    if mode == "align_corners":
        return x * (size - 1) / (wanted - 1) if wanted > 1 else numpy.zeros(count)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "tf_crop_and_resize":
        if count > 1:
            return start * (size - 1) + x * (end - start) * (size - 1) / (count - 1)
        return numpy.full(1, 0.5 * (start + end) * (size - 1))
    raise Refused(f"the coordinates {mode!r}")


def _triangle(x: Floats) -> Floats:
    found: Floats = numpy.maximum(0, 1 - numpy.abs(x))
    return found


def _cubic(a: float) -> Callable[[Floats], Floats]:
    """Keys' kernel (1981), with the parameter `a`."""

    def kernel(x: Floats) -> Floats:
        t = numpy.abs(x)
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return numpy.where(t <= 1, near, numpy.where(t < 2, far, 0))

    return kernel


def _weights(
    places: Floats, size: int, kernel: Callable[[Floats], Floats], reach: int, stretch: float, exclude: bool
) -> Floats:
    """The weight of each element of the input (columns) in each of the result (rows).

    `stretch` above 1 widens the kernel: that is how shrinking is kept from aliasing.
    """
    matrix = numpy.zeros((len(places), size))
    span = int(numpy.ceil(reach * stretch))
    for row, place in enumerate(places):
        index = numpy.arange(int(numpy.floor(place)) - span, int(numpy.floor(place)) + span + 2)
        weight = kernel((place - index) / stretch)
        if exclude:
            weight = numpy.where((index >= 0) & (index < size), weight, 0)
        total = weight.sum()
        if total and (exclude or stretch > 1):
            weight = weight / total
        numpy.add.at(matrix[row], numpy.clip(index, 0, size - 1), weight)
    return matrix


def _nearest(places: Floats, size: int, mode: str) -> Floats:
    rounded = {
        "round_prefer_floor": lambda: numpy.ceil(places - 0.5),
        "round_prefer_ceil": lambda: numpy.floor(places + 0.5),
        "floor": lambda: numpy.floor(places),
        "ceil": lambda: numpy.ceil(places),
        "simple": lambda: numpy.trunc(places),
    }
    if mode not in rounded:
        raise Refused(f"the rounding {mode!r}")
    found: Floats = numpy.clip(rounded[mode](), 0, size - 1).astype(numpy.int64)
    return found


class _Resize:
    """What a resize does along each dimension."""

    def __init__(
        self, x: Array, axes: Sequence[int], scales: Sequence[float] | None, sizes: Sequence[int] | None, policy: str
    ) -> None:
        self.axes = axes
        if sizes is not None:
            ratios = [want / x.shape[axis] for axis, want in zip(axes, sizes, strict=True)]
            if policy != "stretch":
                one = min(ratios) if policy == "not_larger" else max(ratios)
                sizes = [int(numpy.floor(one * x.shape[axis] + 0.5)) for axis in axes]
                ratios = [one] * len(axes)
            self.counts, self.scales = list(sizes), ratios
            self.wanted = [float(one) for one in sizes]
        elif scales is not None:
            self.scales = [float(one) for one in scales]
            self.wanted = [one * x.shape[axis] for axis, one in zip(axes, scales, strict=True)]
            self.counts = [int(numpy.floor(one + 1e-7)) for one in self.wanted]
        else:
            raise Refused("neither scales nor sizes")


@lowering("Resize", since=11)
def resize(
    c: Context, x: Array, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None, *,
    antialias: int = 0, axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
    extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Array:  # fmt: skip
    where = tuple(range(x.ndim)) if axes is None else normal_axes(axes, x.ndim)
    factors = None
    if scales is not None and scales.size:
        factors = [float(one) for one in c.static(scales, "the scales")]
    wanted = None if sizes is None or not sizes.size else c.ints(sizes, "the sizes")
    plan = _Resize(x, where, factors, wanted, keep_aspect_ratio_policy)
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    region = c.static(roi, "the region") if crop and roi is not None else numpy.zeros(2 * len(where))
    found, outside = in_f32(x), None
    for n, axis in enumerate(where):
        count, scale, size = plan.counts[n], plan.scales[n], x.shape[axis]
        if count == size and scale == 1 and not crop:
            continue
        places = _places(
            coordinate_transformation_mode, count, size, scale, float(region[n]), float(region[n + len(where)]),
            plan.wanted[n],
        )  # fmt: skip
        if crop:
            off = numpy.reshape((places < 0) | (places > size - 1), [-1 if d == axis else 1 for d in range(x.ndim)])
            outside = off if outside is None else outside | off
        if mode == "nearest":
            found = np.take(found, constant(_nearest(places, size, nearest_mode)), axis=axis)
            continue
        stretch = max(1.0, 1 / scale) if antialias else 1.0
        if mode == "cubic":
            matrix = _weights(places, size, _cubic(cubic_coeff_a), 2, stretch, bool(exclude_outside))
        elif mode == "linear":
            matrix = _weights(places, size, _triangle, 1, stretch, bool(exclude_outside))
        else:
            raise Refused(f"the mode {mode!r}")
        found = _applied(found, matrix, axis)
    if outside is not None:
        found = np.where(constant(outside), number(extrapolation_value, found), found)
    return np.astype(found, x.dtype)


def _applied(x: Array, matrix: Floats, axis: int) -> Array:
    """Sums along a dimension with the weights in each row of `matrix`."""
    kind = x.dtype if x.dtype.kind == "f" else numpy.dtype("f4")
    moved = np.moveaxis(np.astype(x, kind), axis, -1)
    return np.moveaxis(np.matmul(moved, constant(matrix.T, kind)), -1, axis)


@lowering("Resize", since=10)
def resize_by_scales(c: Context, x: Array, scales: Array, *, mode: str = "nearest") -> Array:
    return _upsampled(c, x, [float(one) for one in c.static(scales, "the scales")], mode)


@lowering("Upsample", since=9)
def upsample(c: Context, x: Array, scales: Array, *, mode: str = "nearest") -> Array:
    return resize_by_scales(c, x, scales, mode=mode)


@lowering("Upsample", since=7)
def upsample_by_attributes(c: Context, x: Array, *, scales: Sequence[float], mode: str = "nearest") -> Array:
    return _upsampled(c, x, scales, mode)


def _upsampled(c: Context, x: Array, scales: Sequence[float], mode: str) -> Array:
    return resize(
        c, x, None, constant(numpy.asarray(scales, "f4")), mode=mode.replace("bilinear", "linear"),
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip


@lowering("GridSample")
def grid_sample(
    c: Context, x: Array, grid: Array, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Array:
    """Samples of x[batch, channels, places...] at places that go from -1 to 1, the last dimension first."""
    count = x.ndim - 2
    wide = in_f32(x)
    places = []
    for d in range(count):
        raw = np.astype(grid[..., count - 1 - d], wide.dtype)
        size = x.shape[2 + d]
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        at = (raw + number(1, raw)) * number((high - low) / 2, raw) + number(low, raw)
        if mode == "nearest":  # which of two as near it is, is decided before mirroring
            at = np.round(at)
        places.append(_reflected(at, low, high) if padding_mode == "reflection" and "cubic" not in mode else at)
    edge = "zeros" if padding_mode == "zeros" else "border"
    if mode in ("nearest",):
        return np.astype(interpolated(wide, places, edge, "nearest"), x.dtype)
    if mode in ("linear", "bilinear"):
        return np.astype(interpolated(wide, places, edge), x.dtype)
    if mode in ("cubic", "bicubic") and count == 2:
        return np.astype(_cubic_sample(wide, places, padding_mode, bool(align_corners)), x.dtype)
    raise Refused(f"the mode {mode!r} in {count} dimensions")


def _reflected(x: Array, low: float, high: float) -> Array:
    """Places outside, mirrored at the ends until they are inside."""
    span = high - low
    if span <= 0:
        return np.zeros(x.shape, x.dtype)
    rest = np.abs(x - number(low, x))
    turns = np.floor(rest / number(span, x))
    inside = rest - turns * number(span, x)
    odd = np.not_equal(np.remainder(turns, number(2, x)), number(0, x))
    return np.where(odd, number(high, x) - inside, inside + number(low, x))


def _cubic_sample(x: Array, places: Sequence[Array], padding: str, align: bool) -> Array:
    rows = []
    for place in places:
        low = np.floor(place)
        rows.append((low, _cubic_weights(place - low)))
    total: Any = None
    for i in range(4):
        for j in range(4):
            at = [rows[0][0] + number(i - 1, x), rows[1][0] + number(j - 1, x)]
            for d in range(2):
                size = x.shape[2 + d]
                if padding == "border":
                    at[d] = np.minimum(np.maximum(at[d], number(0, x)), number(size - 1, x))
                elif padding == "reflection":
                    ends = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
                    at[d] = np.minimum(np.maximum(_reflected(at[d], *ends), number(0, x)), number(size - 1, x))
            weight = np.expand_dims(rows[0][1][i] * rows[1][1][j], axis=1)
            value = read_at(x, at, 1) * weight
            total = value if total is None else total + value
    return total  # type: ignore[no-any-return]  # there are sixteen


def _cubic_weights(t: Array) -> list[Array]:
    """Keys' kernel with -0.75 at the four elements around."""
    a = -0.75
    one = number(1, t)

    def near(s: Array) -> Array:
        return (number(a + 2, s) * s - number(a + 3, s)) * s * s + one

    def far(s: Array) -> Array:
        return ((number(a, s) * s - number(5 * a, s)) * s + number(8 * a, s)) * s - number(4 * a, s)

    return [far(t + one), near(t), near(one - t), far(one - t + one)]
