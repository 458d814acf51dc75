"""Arrays of a partitioned program: taken apart for its devices, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlotool.ir import InputError, Instruction, Module
from hlotool.ir.sharding import Sharding, parse_sharding, replicated

__all__ = ["join_outputs", "joined", "shardings_of", "shards", "split_inputs"]

Array = np.ndarray[Any, Any]


def shards(array: Array, sharding: Sharding, devices: int) -> list[Array]:
    """What each device has of an array; zeros where a tile reaches over its end, or a device has nothing."""
    size = sharding.tile_shape(array.shape)
    found = []
    for device in range(devices):
        start = sharding.offsets(device, array.shape) if sharding.kind != "manual" else (0,) * array.ndim
        if start is None and sharding.kind == "maximal":
            start = (0,) * array.ndim  # a program for all devices has it everywhere
        tile = np.zeros(size, array.dtype)
        if start is not None:
            part = array[_place(start, size, array.shape)]
            tile[tuple([slice(0, n) for n in part.shape])] = part
        found.append(tile)
    return found


def _place(start: Sequence[int], size: Sequence[int], dimensions: Sequence[int]) -> tuple[slice, ...]:
    """The part of an array in which a tile lies."""
    rows = zip(start, size, dimensions, strict=True)
    return tuple([slice(min(s, n), min(s + t, n)) for s, t, n in rows])


def joined(parts: Sequence[Array], sharding: Sharding, dimensions: Sequence[int]) -> Array:
    """The array of which each device has a part; of what several have, that of the last of them.

    InputError where a part is not as large as a tile.
    """
    whole = np.zeros(dimensions, parts[0].dtype)
    size = sharding.tile_shape(dimensions)
    for device, part in enumerate(parts):
        if part.shape != tuple(size):
            raise InputError(f"device {device} has an array of {list(part.shape)}, where a tile has {list(size)}")
        start = sharding.offsets(device, dimensions)
        if start is None:
            continue
        place = _place(start, size, dimensions)
        whole[place] = part[tuple([slice(0, p.stop - p.start) for p in place])]
    return whole


def shardings_of(instruction: Instruction) -> list[Sharding]:
    """The sharding of each array of an instruction's result: replicated where it has none."""
    leaves = [leaf.is_array for leaf in instruction.shape.leaves()]
    written = instruction.attributes.get("sharding")
    found = parse_sharding(written.text) if written is not None else replicated()
    rows = [found] * len(leaves) if isinstance(found, Sharding) else list(found)
    return [one for one, is_array in zip(rows, leaves, strict=True) if is_array]


def split_inputs(module: Module, arrays: Sequence[Array], devices: int) -> list[list[Array]]:
    """The arguments of each device, of those of `module`, which is not partitioned yet."""
    rows = [one for parameter in module.entry.parameters for one in shardings_of(parameter)]
    parts = [shards(array, sharding, devices) for array, sharding in zip(arrays, rows, strict=True)]
    return [[part[device] for part in parts] for device in range(devices)]


def join_outputs(module: Module, results: Sequence[Sequence[Array]]) -> list[Array]:
    """The results of `module`, which is not partitioned, from those of each device."""
    root = module.entry.root
    shapes = [leaf for leaf in root.shape.leaves() if leaf.is_array]
    columns = list(zip(*results, strict=True))
    rows = zip(columns, shardings_of(root), shapes, strict=True)
    return [joined(parts, sharding, shape.dimensions) for parts, sharding, shape in rows]
