"""What the sharding of one array says of another, and what two shardings of one array make together.

Dimensions are products of factors, numbers that two arrays have in common: of a reshape from [6, 4] to [24] the
factors are 0 and 1, ``((0,), (1,))`` and ``((0, 1),)``.  A tile count is dealt out to factors from the major one, as
far as it divides them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from hlotool.ir.sharding import Sharding, normalised, replicated

__all__ = ["Factors", "project", "restricted", "summed", "unite"]

Factors = tuple[tuple[int, ...], ...]
"""Of every dimension of an array the factors it is made of, major first."""


@lru_cache(maxsize=8192)
def project(
    sharding: Sharding,
    source: Factors,
    target: Factors,
    sizes: tuple[int, ...],
    mirrored: frozenset[int] = frozenset(),
) -> Sharding | None:
    """The sharding of an array with the factors `target` that fits to one with the factors `source`.

    `sizes` has the size of every factor; along `mirrored` ones, the first part of one array is the last of the other.
    None where nothing follows; subgroups other than replicas stay as they are.
    """
    if sharding.kind == "manual":
        return sharding.bare()
    if not sharding.is_tiled:
        return None
    wanted = {factor for row in target for factor in row}
    grid: list[int] = []  # sizes of the dimensions of the grid of devices, cut into factors
    place: dict[int, int] = {}  # factor -> its dimension there
    rest: list[int] = []  # dimensions whose devices hold the same of the target
    for factors, tiles in zip(source, sharding.tiles, strict=True):
        for factor, count in _dealt(factors, tiles, sizes):
            if factor in wanted and count > 1:
                place[factor] = len(grid)
            else:
                rest.append(len(grid))
            grid.append(count)
    kept = {factor for row in target for factor, _ in _joined(row, place, grid, sizes)}
    rest += [dimension for factor, dimension in place.items() if factor not in kept]
    order: list[int] = []
    found: list[int] = []
    for row in target:
        dimensions = [place[factor] for factor in row if factor in kept]
        order += dimensions
        found.append(prod(grid[d] for d in dimensions))
    first = len(grid)
    subgroups = [(kind, size) for kind, size in sharding.subgroups if kind != "replicated"]
    grid += [size for _, size in sharding.subgroups]
    others = [first + n for n, (kind, _) in enumerate(sharding.subgroups) if kind != "replicated"]
    rest = sorted(rest) + [first + n for n, (kind, _) in enumerate(sharding.subgroups) if kind == "replicated"]
    if prod(found) == 1 and not subgroups:
        return None
    devices = np.array(sharding.devices, np.int64).reshape(grid)
    devices = np.flip(devices, tuple([place[factor] for factor in mirrored if factor in kept]))
    devices = devices.transpose([*order, *others, *rest])
    return normalised(found, [*subgroups, ("replicated", prod(grid[d] for d in rest))], devices.reshape(-1).tolist())


def _dealt(factors: Sequence[int], tiles: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """(factor, its tiles), major first; -1 for tiles that no factor takes."""
    found: list[tuple[int, int]] = []
    if len(factors) == 1:
        return [(factors[0], tiles)]
    for factor in factors:
        size = sizes[factor]
        if size == 1:
            continue
        if tiles <= size:
            if size % tiles:
                break
            return [*found, (factor, tiles)]
        if tiles % size:
            break
        found.append((factor, size))
        tiles //= size
    return [*found, (-1, tiles)]


def _joined(
    row: Sequence[int], place: dict[int, int], grid: Sequence[int], sizes: Sequence[int]
) -> list[tuple[int, int]]:
    """The factors of a dimension that tiles can follow, with their tiles: all before the last one are cut whole."""
    alone = len([factor for factor in row if sizes[factor] != 1]) <= 1
    found: list[tuple[int, int]] = []
    for factor in row:
        if sizes[factor] == 1 and len(row) > 1:
            continue
        count = grid[place[factor]] if factor in place else 1
        if count > 1 and (count <= sizes[factor]) and (alone or sizes[factor] % count == 0):
            found.append((factor, count))
        if count != sizes[factor]:
            break
    return found


def summed(sharding: Sharding) -> Sharding:
    """Without terms: what others have of an array does not follow from how it is a sum."""
    if sharding.kind == "unreduced":
        return replicated()
    if sharding.subgroup("unreduced") == 1:
        return sharding
    subgroups = [("replicated" if kind == "unreduced" else kind, size) for kind, size in sharding.subgroups]
    return normalised(sharding.tiles, subgroups, sharding.devices)


def restricted(sharding: Sharding, dimensions: Sequence[int]) -> Sharding:
    """The sharding cut along these dimensions alone."""
    rows: Factors = tuple((n,) for n in range(len(sharding.tiles)))
    sizes = tuple(max(count, 1) for count in sharding.tiles)
    target: Factors = tuple((n if n in dimensions else len(sizes) + n,) for n in range(len(sizes)))
    found = project(sharding, rows, target, sizes * 2)
    return found if found is not None else Sharding("replicated")


@lru_cache(maxsize=8192)
def unite(first: Sharding, second: Sharding) -> Sharding | None:
    """The coarsest sharding that is at least as fine as both; None where there is none.

    Each device keeps a part of what it has by either, so that nothing is to be moved to go from the new sharding to
    one of them but what other devices add.
    """
    if first.kind != "tiled" or second.kind != "tiled":
        return _untiled(first, second)
    if len(first.devices) != len(second.devices) or set(first.devices) != set(second.devices):
        return None
    if _others(first) != _others(second):
        return None
    ours, theirs = _coordinates(first), _coordinates(second)
    rank = len(first.tiles)
    tiles: list[int] = []
    columns: list[npt.NDArray[np.int64]] = []
    for d in range(rank):
        a, b = first.tiles[d], second.tiles[d]
        fine, coarse = (ours, theirs) if a >= b else (theirs, ours)
        if max(a, b) % min(a, b) or not np.array_equal(fine[:, d] // (max(a, b) // min(a, b)), coarse[:, d]):
            return None
        tiles.append(max(a, b))
        columns.append(fine[:, d])
    others = ours.shape[1] - rank
    if others and not np.array_equal(ours[:, rank:], theirs[:, rank:]):
        return None
    columns += [ours[:, rank + n] for n in range(others)]
    return _grid_of(tiles, _others(first), columns, sorted(first.devices))


def _untiled(first: Sharding, second: Sharding) -> Sharding | None:
    if first.kind in ("replicated", "unknown"):
        return second
    return first if second.kind in ("replicated", "unknown") or first == second else None


def _others(sharding: Sharding) -> list[tuple[str, int]]:
    return [(kind, size) for kind, size in sharding.subgroups if kind != "replicated"]


def _coordinates(sharding: Sharding) -> npt.NDArray[np.int64]:
    """For every device, in ascending order, its place along the dimensions and the subgroups that are no replicas."""
    grid = sharding.grid
    width = len(sharding.tiles) + len(_others(sharding))
    places = np.stack(np.unravel_index(np.arange(len(sharding.devices)), grid), axis=1)[:, :width]
    return np.asarray(places[np.argsort(np.array(sharding.devices))], np.int64)


def _grid_of(
    tiles: Sequence[int],
    subgroups: Sequence[tuple[str, int]],
    columns: Sequence[npt.NDArray[np.int64]],
    devices: Sequence[int],
) -> Sharding | None:
    """The sharding that puts devices at these places, where each place has as many; None where they have not."""
    extents = [*tiles, *(size for _, size in subgroups)]
    cells = prod(extents)
    if cells > len(devices) or len(devices) % cells:
        return None
    number = np.ravel_multi_index(tuple(columns), extents) if extents else np.zeros(len(devices), np.int64)
    if (np.bincount(number, minlength=cells) != len(devices) // cells).any():
        return None
    ordered = np.array(devices, np.int64)[np.argsort(number, kind="stable")]
    return normalised(tiles, [*subgroups, ("replicated", len(devices) // cells)], ordered.tolist())
