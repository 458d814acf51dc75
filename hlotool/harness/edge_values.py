"""The values at which programs go wrong: zeros of both signs, infinities, NaN, the smallest and largest numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from hlotool.harness.inputs import Input
from hlotool.ir import Shape, dtype_of, element_type

__all__ = ["edge_values", "with_edge_values"]


def with_edge_values(
    inputs: Sequence[Input], arrays: Sequence[npt.NDArray[Any]], share: float, seed: int, device: int = 0
) -> list[npt.NDArray[Any]]:
    """`arrays` in which about `share` (0 to 1) of all elements, at least one of an array, are edge values of their
    type; what serves as indices stays within what it indexes."""
    found = []
    for number, (leaf, array) in enumerate(zip(inputs, arrays, strict=True)):
        values = edge_values(leaf.shape)
        if leaf.bound is not None:
            values = np.unique(np.asarray([0, leaf.bound - 1])).astype(array.dtype)
        draw = np.random.Generator(np.random.PCG64([seed, number, device, 1]))
        places = draw.random(array.shape) < share
        if array.size and not places.any():
            places.flat[draw.integers(array.size)] = True
        changed = array.copy()
        # each value as often as the others, in an order of chance
        chosen = draw.permutation(np.resize(np.arange(values.size), np.count_nonzero(places)))
        changed[places] = values[chosen]
        found.append(changed)
    return found


def edge_values(shape: Shape) -> npt.NDArray[Any]:
    """The edge values of the element type of `shape`, those of them that it has."""
    row, dtype = element_type(shape.element_type), dtype_of(shape.element_type)
    if row.kind == "pred":
        return np.array([False, True])
    if row.is_integer:
        half = 1 << row.bits - 1
        least, most = (-half, half - 1) if row.kind == "signed" else (0, 2 * half - 1)
        wanted = {least, min(least + 1, most), -1, 0, 1, most - 1, most}
        return np.array(sorted(value for value in wanted if least <= value <= most), object).astype(dtype)
    if row.is_complex:
        part = _of_float(np.empty(0, dtype).real.dtype)
        return np.array([complex(a, b) for a in part for b in part], dtype)
    return _of_float(dtype)


def _of_float(dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    about = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    names = ("max", "smallest_normal", "smallest_subnormal", "eps")
    sizes = [getattr(about, name) for name in names]
    with np.errstate(all="ignore"):
        one = np.ones((), dtype)
        wide = [0.0, 1.0, *map(float, sizes), float(one) + float(about.eps), float("inf"), float("nan")]
        values = np.array([*wide, *(-value for value in wide)]).astype(dtype)
        back = values.astype(np.float64)
    # a type may be without infinities, NaN, a zero of its own sign, or negative numbers
    want = np.array([*wide, *(-value for value in wide)])
    there = ((back == want) & (np.signbit(back) == np.signbit(want))) | (np.isnan(back) & np.isnan(want))
    return np.asarray(values[there])
