"""Images and volumes read at any places between their elements (``grid_sample``), and gradients of that.

Along each dimension a place has a few neighbours with weights; a result is the sum over all combinations of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import torch

from hlotool.lazy_dataclass import dataclass

__all__ = ["DECOMPOSITIONS"]

_LINEAR, _NEAREST, _CUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)
_SHARPNESS = -0.75
"""Keys' parameter of cubic convolution, as PyTorch has it."""


@dataclass(frozen=True, slots=True)
class _Neighbour:
    """Elements along a dimension, whether they are there, their weights, and how these change with the place."""

    index: Any
    inside: Any
    weight: Any
    change: Any


def _reflected(place: Any, low: float, high: float) -> tuple[Any, Any]:
    """`place` between mirrors at `low` and `high`, and how it moves there."""
    if low == high:
        return place * 0, place * 0
    span, off = high - low, place - low
    turns = (off.abs() / span).floor()
    rest = torch.fmod(off.abs(), span)
    back = torch.fmod(turns, 2) != 0
    way = torch.where(off < 0, -1.0, 1.0).to(place.dtype)
    return torch.where(back, span - rest + low, rest + low), torch.where(back, -way, way)


def _padded(place: Any, size: int, padding: int, align: bool) -> tuple[Any, Any]:
    """Where a place outside is looked for, and how that moves with it."""
    slope = torch.ones_like(place)
    if padding == _REFLECTION:
        place, slope = _reflected(place, 0 if align else -0.5, size - 1 if align else size - 0.5)
    if padding != _ZEROS:
        slope = torch.where((place > 0) & (place < size - 1), slope, 0)
        place = torch.where(place.isnan(), 0, place.clamp(0, size - 1))  # what is no number is before the first element
    return place, slope


def _neighbours(at: Any, size: int, mode: int, padding: int, align: bool) -> list[_Neighbour]:
    """Of places `at` from -1 to 1, along a dimension."""
    place = (at + 1) / 2 * (size - 1) if align else ((at + 1) * size - 1) / 2
    scale = (size - 1) / 2 if align else size / 2

    def neighbour(where: Any, weight: Any, change: Any) -> _Neighbour:
        inside = (where >= 0) & (where <= size - 1)
        return _Neighbour(torch.where(inside, where, 0).to(torch.int64), inside, weight, change)

    if mode == _CUBIC:
        below = place.floor()
        t = place - below
        found = []
        for n, (weight, change) in enumerate(_cubic(t), -1):
            where, _ = _padded(below + n, size, padding, align)
            found.append(neighbour(where, weight, change * scale))
        return found
    place, slope = _padded(place, size, padding, align)
    if mode == _NEAREST:
        return [neighbour(place.round(), torch.ones_like(place), torch.zeros_like(place))]
    below = place.floor()
    t = place - below
    return [neighbour(below, 1 - t, -slope * scale), neighbour(below + 1, t, slope * scale)]


def _cubic(t: Any) -> list[tuple[Any, Any]]:
    """Weights of the four neighbours (R. Keys, 1981) and their derivatives by t, the way from the second one."""
    a = _SHARPNESS

    def near(x: Any) -> tuple[Any, Any]:
        return ((a + 2) * x - (a + 3)) * x * x + 1, (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far(x: Any) -> tuple[Any, Any]:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a

    rows = [far(t + 1), near(t), near(1 - t), far(2 - t)]
    return [(w, d if n < 2 else -d) for n, (w, d) in enumerate(rows)]


def _combinations(
    input: Any, grid: Any, mode: int, padding: int, align: bool
) -> Iterator[tuple[Sequence[_Neighbour], Any, Any]]:
    """Combinations of neighbours, one along each dimension: where that is, counted through, and whether it is there."""
    have = input.shape[2:]
    axes = [
        _neighbours(grid[..., len(have) - 1 - n].flatten(1), size, mode, padding, align) for n, size in enumerate(have)
    ]
    for each in product(*axes):
        index, inside = each[0].index, each[0].inside
        for one, size in zip(each[1:], have[1:], strict=True):
            index, inside = index * size + one.index, inside & one.inside
        yield each, index[:, None], inside[:, None]


def _values(input: Any, index: Any, inside: Any) -> Any:
    flat = input.flatten(2)
    return torch.where(inside, flat.gather(2, index.expand(-1, flat.shape[1], -1)), 0)


def _sampled(input: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    if not input.numel() or not grid.numel():
        return NotImplemented
    wide = torch.promote_types(input.dtype, torch.float32)
    own, where = input.to(wide), grid.to(wide)
    found: Any = 0
    for each, index, inside in _combinations(own, where, mode, padding, align):
        found = found + _values(own, index, inside) * prod(one.weight for one in each)[:, None]
    return found.reshape(*input.shape[:2], *grid.shape[1:-1]).to(input.dtype)


def _sampled_backward(
    grad_output: Any, input: Any, grid: Any, mode: int, padding: int, align: bool, output_mask: Sequence[bool]
) -> Any:
    """Gradients by the input and by the places; the latter are there whether they are asked for or not."""
    if not input.numel() or not grid.numel():
        return NotImplemented
    wide = torch.promote_types(input.dtype, torch.float32)
    own, where, grad = input.to(wide), grid.to(wide), grad_output.to(wide).flatten(2)
    to_input = torch.zeros_like(own, memory_format=torch.contiguous_format).flatten(2)
    count = input.dim() - 2
    to_grid: list[Any] = [0] * count
    for each, index, inside in _combinations(own, where, mode, padding, align):
        if output_mask[0]:
            share = torch.where(inside, grad * prod(one.weight for one in each)[:, None], 0)
            to_input = to_input.scatter_add(2, index.expand(-1, own.shape[1], -1), share)
        if mode != _NEAREST and output_mask[1]:
            along = (_values(own, index, inside) * grad).sum(1)
            for n, one in enumerate(each):
                rest = prod(other.weight for m, other in enumerate(each) if m != n)
                to_grid[n] = to_grid[n] + along * one.change * rest
    places = torch.zeros_like(grid, memory_format=torch.contiguous_format)
    if mode != _NEAREST and output_mask[1]:
        places = torch.stack(to_grid[::-1], -1).reshape(grid.shape).to(grid.dtype)
    return to_input.reshape(input.shape).to(input.dtype) if output_mask[0] else None, places


_aten = torch.ops.aten

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _aten.grid_sampler_2d.default: _sampled,
    _aten.grid_sampler_3d.default: _sampled,
    _aten.grid_sampler_2d_backward.default: _sampled_backward,
    _aten.grid_sampler_3d_backward.default: _sampled_backward,
}
