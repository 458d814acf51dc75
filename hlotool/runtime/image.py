"""Compiled code with all that a process must know to load and call it: a program without its module.

As bytes it goes into the cache, so that running the same file once more needs neither passes nor LLVM.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.ir import Layout, Shape, dtype_of
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime import callback, pool
from hlotool.runtime.cache import pack, unpack
from hlotool.runtime.entry import Entry
from hlotool.runtime.load import load

__all__ = ["Image", "image_from_bytes", "image_to_bytes", "load_image"]


@dataclass(frozen=True, slots=True)
class Image:
    """`parameters` and `outputs` are array leaves; `entry` is a function of `hlotool.runtime.entry`'s kind.

    `releases_gil` is for code that may run for longer than it takes to give up the interpreter's lock; `aliases` are
    (result, donated parameter) pairs in one memory, `overwritten` all parameters that are written to.
    """

    objects: tuple[bytes, ...]
    entry: str
    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    arena_bytes: int
    constants: npt.NDArray[np.uint8]
    releases_gil: bool
    aliases: tuple[tuple[int, int], ...] = ()
    overwritten: tuple[int, ...] = ()


def load_image(
    image: Image,
    threads: int | None = None,
    symbols: Mapping[str, int] | None = None,
    sites: Sequence[object] = (),
) -> Entry:
    """The entry function, to be called with arrays, on at most `threads` threads (all there are by default).

    `symbols` are what the code imports apart from what all code may, `sites` where it calls Python.
    """
    offered = dict(symbols or {})
    if _may_call(image.objects, pool.NAMES):
        offered |= pool.symbols(threads)
    if _may_call(image.objects, callback.NAMES):
        offered |= callback.symbols()
    library = load(image.objects, offered)
    return Entry(
        library.address(image.entry),
        [_leaf(shape) for shape in image.parameters],
        [_leaf(shape) for shape in image.outputs],
        image.arena_bytes,
        image.constants,
        keep=library,
        custom_calls=sites,
        alignment=1,
        allow_bits=True,
        aliases=dict(image.aliases),
        overwritten=image.overwritten,
    )


def _may_call(objects: Sequence[bytes], names: Sequence[str]) -> bool:
    """Whether the symbols of an object, which has their names as they are, can be among `names`."""
    return any(name.encode() in data for data in objects for name in names)


def image_to_bytes(image: Image) -> bytes:
    """For `image_from_bytes`.  ValueError for layouts and sizes that an array in memory does not have."""
    header = {
        "entry": image.entry,
        "parameters": [_written(shape) for shape in image.parameters],
        "outputs": [_written(shape) for shape in image.outputs],
        "arena_bytes": image.arena_bytes,
        "releases_gil": image.releases_gil,
        "aliases": image.aliases,
        "overwritten": image.overwritten,
    }
    return pack([json.dumps(header).encode(), image.constants.tobytes(), *image.objects])


def image_from_bytes(data: bytes) -> Image:
    """What `image_to_bytes` wrote."""
    header, constants, *objects = unpack(data)
    fields = json.loads(header)
    return Image(
        tuple(objects),
        fields["entry"],
        tuple(_read(shape) for shape in fields["parameters"]),
        tuple(_read(shape) for shape in fields["outputs"]),
        fields["arena_bytes"],
        np.frombuffer(constants, np.uint8),
        fields["releases_gil"],
        tuple((result, parameter) for result, parameter in fields["aliases"]),
        tuple(fields["overwritten"]),
    )


def _leaf(shape: Shape) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return dtype_of(shape.element_type), shape.dimensions


def _written(shape: Shape) -> list[Any]:
    order = None if shape.layout is None else shape.layout.minor_to_major
    if shape != _read([shape.element_type, shape.dimensions, order]):
        raise ValueError(f"{shape} is no plain array")
    return [shape.element_type, shape.dimensions, order]


def _read(written: Sequence[Any]) -> Shape:
    kind, dimensions, order = written
    return Shape(kind, tuple(dimensions), None if order is None else Layout(tuple(order)))
