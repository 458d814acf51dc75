"""Where the tiles of an array are: what a sharding says, by device.

A sharding lists the devices by tile; a partitioner asks the other way round, which tile a device has.  Devices whose
values have nothing to do with each other (those of a manual sharding) are in worlds of their own: no collective goes
from one world to another.  In a world each tile is held equally often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod

import numpy as np

from hlotool.ir import Shape, UnsupportedError
from hlotool.ir.sharding import Sharding, normalised
from hlotool.lazy_dataclass import dataclass

__all__ = ["Axis", "Tiling", "is_grid", "manual", "of_sharding", "replicated", "sharding_of", "tile_size", "tiled_by"]

_Place = tuple[int, ...]
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """How one dimension is divided: into `count` tiles, of which device d has number ``places[d]``."""

    count: int
    places: tuple[int, ...]

    @property
    def mirrored(self) -> Axis:
        """With the tiles counted from the other end."""
        return Axis(self.count, tuple([self.count - 1 - place for place in self.places]))


@dataclass(frozen=True, slots=True)
class Tiling:
    """Of an array: one axis for each dimension, and the world of each device.

    With `terms` the array is unreduced: devices that hold the same tile hold terms of a sum, and the tile is what they
    add up to.  `terms` has for each device the number of its term; in a world, each term is there equally often.  Rules
    see arrays that are added up.
    """

    axes: tuple[Axis, ...]
    worlds: tuple[int, ...]
    terms: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.axes)

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles along each dimension."""
        return tuple([axis.count for axis in self.axes])

    @property
    def is_tiled(self) -> bool:
        return any(axis.count > 1 for axis in self.axes)

    @property
    def is_manual(self) -> bool:
        """Whether the worlds are several."""
        return any(self.worlds)

    def place(self, device: int) -> _Place:
        """The tile of a device."""
        return tuple([axis.places[device] for axis in self.axes])

    def with_axis(self, dimension: int, axis: Axis) -> Tiling:
        return Tiling((*self.axes[:dimension], axis, *self.axes[dimension + 1 :]), self.worlds)

    def without(self, dimensions: Iterable[int]) -> Tiling:
        """With some dimensions whole."""
        gone = set(dimensions)
        whole = _whole(len(self.worlds))
        return Tiling(tuple([whole if d in gone else axis for d, axis in enumerate(self.axes)]), self.worlds)

    @property
    def summed(self) -> Tiling:
        """With the terms added up."""
        return Tiling(self.axes, self.worlds)

    @property
    def apart(self) -> Tiling:
        """With a world for each term: what is linear may be done to each of them alone."""
        count = max(self.terms, default=0) + 1
        terms = self.terms or (0,) * len(self.worlds)
        return Tiling(self.axes, tuple([w * count + term for w, term in zip(self.worlds, terms, strict=True)]))

    @property
    def term_groups(self) -> Groups:
        """Devices whose terms add up to a tile, in order of the terms."""
        held = Counter[object]()
        found: dict[object, list[int]] = {}
        for device, (world, term) in enumerate(zip(self.worlds, self.terms, strict=True)):
            key = world, self.place(device)
            found.setdefault((key, held[key, term]), []).append(device)
            held[key, term] += 1
        return tuple([tuple(sorted(group, key=self.terms.__getitem__)) for group in found.values()])

    def local(self, shape: Shape) -> Shape:
        """The shape of what a device has of an array."""
        sizes = [tile_size(n, axis.count) for n, axis in zip(shape.dimensions, self.axes, strict=True)]
        return Shape(shape.element_type, tuple(sizes), shape.layout, (), shape.dynamic)

    def groups(self, dimensions: Iterable[int], order: Sequence[int] | None = None) -> Groups:
        """Devices that together have all tiles along some dimensions and the same ones along others, in order of these
        tiles, or of `order`, a number for each device."""
        along = set(dimensions)
        seen = Counter[object]()
        found: dict[object, list[int]] = {}
        for device, world in enumerate(self.worlds):
            place = self.place(device)
            copy = seen[world, place]
            seen[world, place] += 1
            rest = tuple([-1 if d in along else p for d, p in enumerate(place)])
            found.setdefault((world, rest, copy), []).append(device)
        key = order if order is not None else [self._number(d, along) for d in range(len(self.worlds))]
        return tuple([tuple(sorted(group, key=key.__getitem__)) for group in found.values()])

    def _number(self, device: int, along: set[int]) -> int:
        number = 0
        for dimension in sorted(along):
            number = number * self.axes[dimension].count + self.axes[dimension].places[device]
        return number


def tile_size(size: int, count: int) -> int:
    """Elements of a tile where `size` of them are divided into `count` tiles: the last ones may have fewer, or none."""
    return -(-size // count)


@lru_cache(maxsize=64)
def _whole(devices: int) -> Axis:
    return Axis(1, (0,) * devices)


def replicated(rank: int, devices: int, worlds: tuple[int, ...] | None = None) -> Tiling:
    """All of the array on every device."""
    return Tiling((_whole(devices),) * rank, worlds or (0,) * devices)


def manual(rank: int, devices: int) -> Tiling:
    """Every device has an array of its own."""
    return replicated(rank, devices, tuple(range(devices)))


def tiled_by(axes: Sequence[Axis | None], worlds: tuple[int, ...]) -> Tiling:
    """A tiling from the axes of dimensions, None where they are whole."""
    whole = _whole(len(worlds))
    return Tiling(tuple([axis or whole for axis in axes]), worlds)


@lru_cache(maxsize=4096)
def of_sharding(sharding: Sharding, rank: int, devices: int) -> Tiling:
    """The tiling that a sharding of an array says; one device alone (``maximal``) is taken for all of them.

    UnsupportedError where it is about other devices than there are.
    """
    if sharding.kind == "manual":
        return manual(rank, devices)
    if sharding.kind in ("replicated", "maximal", "unknown"):
        return replicated(rank, devices)
    if sharding.kind == "unreduced":
        return Tiling(replicated(rank, devices).axes, (0,) * devices, tuple(range(devices)))
    sizes = (*sharding.tiles, *(size for _, size in sharding.subgroups))
    if sorted(sharding.devices) != list(range(devices)) or prod(sizes) != devices:
        raise UnsupportedError(f"a sharding over {prod(sizes)} devices, where there are {devices}")
    if len(sharding.tiles) != rank:
        raise UnsupportedError(f"a sharding with tiles along {len(sharding.tiles)} dimensions of an array with {rank}")
    where = np.empty(devices, np.int64)
    where[list(sharding.devices)] = np.arange(devices)
    places = np.unravel_index(where, sizes) if sizes else ()
    worlds = np.zeros(devices, np.int64)
    terms: tuple[int, ...] = ()
    for (kind, size), numbers in zip(sharding.subgroups, places[rank:], strict=True):
        if kind == "manual":
            worlds = worlds * size + numbers
        elif kind == "unreduced":
            terms = tuple(map(int, numbers))
    axes = tuple([Axis(n, tuple(map(int, p))) for n, p in zip(sharding.tiles, places[:rank], strict=True)])
    return Tiling(axes, tuple(map(int, worlds)), terms)


def sharding_of(tiling: Tiling) -> Sharding:
    """The sharding that says a tiling."""
    devices = range(len(tiling.worlds))
    worlds = len(set(tiling.worlds))
    terms = tiling.terms or (0,) * len(tiling.worlds)
    count = len(set(terms))
    copies = len(devices) // prod(tiling.counts) // worlds // count
    order = sorted(devices, key=lambda d: (tiling.place(d), tiling.worlds[d], terms[d], d))
    return normalised(tiling.counts, [("manual", worlds), ("unreduced", count), ("replicated", copies)], order)


@lru_cache(maxsize=4096)
def is_grid(axes: tuple[Axis, ...], worlds: tuple[int, ...]) -> bool:
    """Whether in every world all combinations of tiles are held equally often."""
    tiles = prod([axis.count for axis in axes])
    members = Counter(worlds)
    held = Counter(zip(worlds, *[axis.places for axis in axes], strict=True))
    return all(members[key[0]] == count * tiles for key, count in held.items())
