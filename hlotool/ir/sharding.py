"""How an array lies on many devices: its sharding, as a value.

An array of rank n is cut into a grid of n dimensions of tiles.  The devices form a grid of the same dimensions, with
those of the subgroups after them: devices that differ along the subgroup ``replicated`` hold the same tile; along
``manual``, what the program says; along ``unreduced``, numbers that add up to the tile.  A dimension that the tiles do
not divide is cut by ceiling division, so the last tiles may be short or empty (`Sharding.tile_shape`,
`Sharding.offsets`).  Two shardings that mean the same are equal: replicas are listed in ascending order, and a grid of
one tile is replicated.

Facts: XLA's ``hlo_sharding.h``, ``tile_assignment.h``; Xu et al. 2021, GSPMD (arXiv:2105.04663), section 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from math import prod

import numpy as np

from hlotool.ir.sharding_axes import Mesh, Piece, ReadAxes, ShardingValueError, axes_grid, read_axes
from hlotool.ir.sharding_text import (
    ReadSharding,
    ShardingError,
    over_axes,
    read_one,
    sharding_errors,
    sharding_parts,
)
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "Sharding", "ShardingValueError", "along_axes", "iota_of", "iota_text", "manual", "maximal", "normalised",
    "parse_sharding", "print_sharding", "replicated", "sharding_of_axes", "tile", "unreduced",
]  # fmt: skip

_LAST = "replicated"
_MOST_DEVICES = 1 << 20
Group = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Sharding:
    """The sharding of one array; made by `tile`, `replicated`, `maximal`, `manual`, `unreduced` or `parse_sharding`.

    `kind` is ``tiled``, ``replicated`` (every device has all of it), ``maximal`` (one device has it), ``manual`` (the
    program says), ``unknown`` or ``unreduced``.  `tiles` counts tiles along each dimension of the array, `subgroups`
    has kind and size of the dimensions of the device grid after these, one of a kind, ``replicated`` last.  `devices`
    is that grid, flat in C order (of ``maximal``, the one device).

    What does not count where shardings are compared: the `group` of values that are to have one sharding
    (``("shard_as", 1)``: they agree, ``("shard_like", 1)``: one follows the others), the `open_dimensions` that may be
    split further, and the `metadata` as text.
    """

    kind: str
    tiles: tuple[int, ...] = ()
    subgroups: tuple[tuple[str, int], ...] = ()
    devices: tuple[int, ...] = ()
    group: Group | None = field(default=None, kw_only=True, compare=False)
    open_dimensions: tuple[int, ...] = field(default=(), kw_only=True, compare=False)
    metadata: str = field(default="", kw_only=True, compare=False)

    @property
    def is_tiled(self) -> bool:
        return self.kind == "tiled"

    @property
    def is_replicated(self) -> bool:
        return self.kind == "replicated"

    @property
    def is_manual(self) -> bool:
        """Whether the program says, along all devices or some of them, what each holds."""
        return self.kind == "manual" or self.subgroup("manual") > 1

    @property
    def grid(self) -> tuple[int, ...]:
        """The dimensions of the grid of devices: tiles, then subgroups."""
        return (*self.tiles, *(size for _, size in self.subgroups))

    @property
    def tile_count(self) -> int:
        """Tiles that the array is cut into; 1 where it is not tiled."""
        return prod(self.tiles)

    @property
    def split_dimensions(self) -> tuple[int, ...]:
        """The dimensions of the array that are cut."""
        return tuple(d for d, count in enumerate(self.tiles) if count > 1)

    def subgroup(self, kind: str) -> int:
        """How many devices differ along this subgroup alone; 1 where there is none."""
        return next((size for name, size in self.subgroups if name == kind), 1)

    def array(self) -> np.ndarray:
        """The devices in their grid; tiled shardings only."""
        return np.array(self.devices, np.int64).reshape(self.grid)

    def tile_of(self, device: int) -> tuple[int, ...] | None:
        """The place of the device's tile in the grid of tiles; None where it has none, or the array isn't tiled."""
        number = _places(self).get(device) if self.is_tiled else None
        if number is None:
            return None
        found = np.unravel_index(number, self.grid)
        return tuple(int(place) for place in found[: len(self.tiles)])

    def tile_shape(self, dimensions: Sequence[int]) -> tuple[int, ...]:
        """The dimensions of a tile of an array with these `dimensions`: ceiling division."""
        if not self.is_tiled:
            return tuple(dimensions)
        return tuple(-(-size // count) for size, count in zip(dimensions, self.tiles, strict=True))

    def offsets(self, device: int, dimensions: Sequence[int]) -> tuple[int, ...] | None:
        """Where the tile of a device begins in the array (past its end where the tile is empty); None where the device
        has no part of it."""
        if self.kind == "replicated" or (self.kind == "maximal" and self.devices == (device,)):
            return (0,) * len(dimensions)
        place = self.tile_of(device)
        if place is None:
            return None
        return tuple(n * size for n, size in zip(place, self.tile_shape(dimensions), strict=True))

    def groups_along(self, dims: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Groups of devices that differ along these dimensions of the device grid alone, each in the order of its
        places there: ``dims`` are dimensions of the array, or ``len(tiles) + n`` for the subgroup n."""
        grid = self.array()
        rest = [d for d in range(grid.ndim) if d not in dims]
        rows = grid.transpose(*rest, *dims).reshape(-1, prod(grid.shape[d] for d in dims))
        return tuple(tuple(map(int, row)) for row in rows)

    def bare(self) -> Sharding:
        """Without what does not count: group, open dimensions, metadata."""
        return Sharding(self.kind, self.tiles, self.subgroups, self.devices)

    def __str__(self) -> str:
        return print_sharding(self)


@lru_cache(maxsize=512)
def _places(sharding: Sharding) -> dict[int, int]:
    return {device: n for n, device in enumerate(sharding.devices)}


# ---- making them


def replicated() -> Sharding:
    """Every device has the whole array."""
    return Sharding("replicated")


def manual() -> Sharding:
    """Every device has what the program says."""
    return Sharding("manual")


def unreduced() -> Sharding:
    """Every device has a term of the array."""
    return Sharding("unreduced")


def maximal(device: int) -> Sharding:
    """One device has the array."""
    return Sharding("maximal", devices=(device,))


def tile(tiles: Sequence[int], devices: Sequence[int] | None = None, replicate: int = 1) -> Sharding:
    """Tiles along each dimension, each on `replicate` devices; devices 0 to n-1 where none are given (flat, in C order,
    those of one tile side by side)."""
    count = prod(tiles) * replicate
    chosen = tuple(range(count)) if devices is None else tuple(devices)
    if len(chosen) != count:
        raise ShardingValueError(f"{count} devices are needed, not {len(chosen)}")
    return normalised(tiles, [("replicated", replicate)], chosen)


def normalised(tiles: Sequence[int], subgroups: Sequence[tuple[str, int]], devices: Sequence[int]) -> Sharding:
    """The sharding of a grid with these tiles and trailing dimensions, in the one form that it has."""
    rank = len(tiles)
    grid = np.array(devices, np.int64).reshape((*tiles, *(size for _, size in subgroups)))
    kinds = sorted({kind for kind, size in subgroups if size > 1}, key=lambda kind: (kind == _LAST, kind))
    places = {kind: [rank + n for n, (name, _) in enumerate(subgroups) if name == kind] for kind in kinds}
    trivial = [rank + n for n, (_, size) in enumerate(subgroups) if size == 1]
    sizes = [prod(grid.shape[d] for d in places[kind]) for kind in kinds]
    order = [*range(rank), *(d for kind in kinds for d in places[kind]), *trivial]
    grid = grid.transpose([*(d for d in order if d not in trivial), *trivial]).reshape((*tiles, *sizes))
    if kinds[-1:] == [_LAST]:
        grid = np.sort(grid, axis=-1)
    if prod(tiles) == 1:
        if not kinds and grid.size == 1:
            return maximal(int(grid.reshape(-1)[0]))
        if kinds in (["manual"], ["unreduced"], ["replicated"], ["unknown"]):
            return Sharding(kinds[0])
    flat = tuple(map(int, grid.reshape(-1)))
    return Sharding("tiled", tuple(tiles), tuple(zip(kinds, sizes, strict=True)), flat)


def along_axes(
    mesh: Mesh, dimensions: Sequence[Sequence[Piece]], subgroups: Mapping[str, Sequence[Piece]] | None = None
) -> Sharding:
    """The sharding of an array over a mesh; `hlotool.ir.sharding_axes.axes_grid` says what the arguments are."""
    return replicated() if mesh.size == 1 else normalised(*axes_grid(mesh, dimensions, subgroups or {}))


# ---- text


@lru_cache(maxsize=4096)
def parse_sharding(text: str) -> Sharding | tuple[Sharding, ...]:
    """The sharding of an array or, one per leaf, of a tuple; `ShardingValueError` says what is wrong with the text."""
    errors = sharding_errors(text, None)
    if errors:
        raise ShardingValueError(errors[0].message)
    parts = sharding_parts(text)
    if parts is None:
        return _parse_one(text)
    return tuple(_parse_one(text[start:end]) for start, end in parts)


def _parse_one(text: str) -> Sharding:
    if over_axes(text):
        return sharding_of_axes(read_axes(text))
    found: list[ShardingError] = []
    one = read_one(text, 0, len(text), found)
    if found:
        raise ShardingValueError(found[0].message)
    return replace(_meaning(one), group=one.group, metadata=one.metadata)


def sharding_of_axes(read: ReadAxes) -> Sharding:
    """The sharding that a text over named axes says."""
    if read.device is not None:
        return maximal(read.device)
    found = along_axes(read.mesh, read.dimensions, read.subgroups)
    return replace(found, open_dimensions=read.open_dimensions, metadata=read.metadata)


def _meaning(one: ReadSharding) -> Sharding:
    word = one.words[0][0] if one.words else ""
    if word == "maximal":
        return maximal((one.devices or [0])[0])
    if word or one.tiles is None:
        return Sharding(word)
    count = prod(one.tiles)
    if count > _MOST_DEVICES:
        raise ShardingValueError(f"{count} devices are more than {_MOST_DEVICES}")
    devices: Sequence[int] = one.devices or ()
    if one.iota is not None:
        sizes, order = one.iota
        devices = np.arange(count).reshape(sizes).transpose(order).reshape(-1).tolist()
    kinds = one.subgroups or (["replicated"] if one.replicate is not None else [])
    rank = len(one.tiles) - len(kinds)
    if rank < 0:
        raise ShardingValueError(f"{len(one.tiles)} tiles have no {len(kinds)} last dimensions")
    return normalised(one.tiles[:rank], list(zip(kinds, one.tiles[rank:], strict=True)), devices)


def print_sharding(sharding: Sharding | Sequence[Sharding]) -> str:
    """The text of the attribute ``sharding=``, as XLA writes it: devices as an iota where they are one."""
    if not isinstance(sharding, Sharding):
        return f"{{{', '.join(map(print_sharding, sharding))}}}"
    if sharding.kind == "maximal":
        text = f"maximal device={sharding.devices[0]}"
    elif sharding.kind != "tiled":
        text = sharding.kind
    else:
        text = f"devices=[{_listed(sharding.grid)}]{iota_text(sharding.devices) or _listed(sharding.devices)}"
        kinds = [kind for kind, _ in sharding.subgroups]
        if kinds == [_LAST]:
            text += " last_tile_dim_replicate"
        elif kinds:
            text += f" last_tile_dims={{{', '.join(kinds)}}}"
    if sharding.group is not None:
        text += f" {sharding.group[0]} {sharding.group[1]}"
    if sharding.metadata:
        text += f" metadata={sharding.metadata}"
    return f"{{{text}}}"


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


@lru_cache(maxsize=1024)
def iota_of(devices: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The sizes and the order of a transposed iota that devices are, ``[2,4]T(1,0)``; None for others.

    The list is a nest of loops over strides, innermost first; it is an iota transposed where these strides are, sorted,
    the products of the smaller sizes.
    """
    count = len(devices)
    numbers = np.array(devices, np.int64)
    if count < 2 or numbers[0] != 0:
        return ((1,), (0,)) if devices == (0,) else None
    loops: list[tuple[int, int]] = []  # stride and size
    done = 1
    while done < count:
        stride = int(numbers[done])
        steps = numbers[::done]
        size = 1
        while size < len(steps) and steps[size] == size * stride:
            size += 1
        if stride <= 0 or count % (done * size):
            return None
        loops.append((stride, size))
        done *= size
    loops.reverse()  # outermost first
    by_stride = sorted(range(len(loops)), key=lambda n: -loops[n][0])
    sizes = tuple(loops[n][1] for n in by_stride)
    order = tuple(by_stride.index(n) for n in range(len(loops)))
    if not np.array_equal(np.arange(count).reshape(sizes).transpose(order).reshape(-1), numbers):
        return None
    return ((count,), (0,)) if order == (*range(len(order)),) else (sizes, order)


def iota_text(devices: tuple[int, ...]) -> str | None:
    """``<=[2,4]T(1,0)`` for devices that are a transposed iota, None for others."""
    found = iota_of(devices)
    if found is None:
        return None
    sizes, order = found
    return f"<=[{_listed(sizes)}]" + (f"T({_listed(order)})" if len(order) > 1 else "")
