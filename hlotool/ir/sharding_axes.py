"""Shardings over the named axes of a mesh, as grids of devices.

A mesh is a grid of devices whose dimensions, the axes, have names; an array's dimension is cut along a list of axes, or
of parts of axes: ``'x':(2)4`` is the part of size 4 after the first 2 of the axis.  All axes that are not named
replicate.  The text of XLA's NamedSharding: ``{mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)), [{'x'}, {'y', ?}],
replicated={..}, unreduced={..}, manual={..}}``, ``{mesh['x'=2], replicated}``, ``{maximal_mesh[device_id=3]}``; a
``?`` stands for axes that may still be added, ``unreduced`` and ``manual`` alone for all axes.  Older texts write the
names of axes without quotes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod

import numpy as np

from hlotool.lazy_dataclass import dataclass

__all__ = ["Mesh", "Piece", "ReadAxes", "ShardingValueError", "axes_grid", "read_axes"]

_MAXIMAL = re.compile(
    r"\{\s*maximal_mesh\[\s*device_id\s*=\s*(\d{1,12})\s*\]\s*(?:,\s*metadata=(\{.*\})\s*)?\}", re.DOTALL
)
_NAME = r"(?:'((?:[^'\\]|\\.)*)'|([A-Za-z_][\w.\-]*))"
_MESH = re.compile(r"\{\s*mesh\[([^\[\]]*)\]\s*(?:,\s*)?")
_AXIS = re.compile(rf"\s*{_NAME}\s*=\s*(\d{{1,12}})\s*(?:,|$)", re.ASCII)
_IOTA = re.compile(r"device_ids\s*=\s*\(\s*\[([\d,\s]*)\]\s*(?:T\s*\(([\d,\s]*)\)\s*)?\)\s*(?:,\s*)?")
_LISTED = re.compile(r"device_ids\s*=\s*\(([\d,\s]*)\)\s*(?:,\s*)?")
_DIMENSIONS = re.compile(r"\[((?:\s*\{[^{}]*\}\s*,?)*)\s*\]\s*(?:,\s*)?")
_ROW = re.compile(r"\{([^{}]*)\}")
_PART = re.compile(
    rf"\s*(?:{_NAME}(?:\s*:\s*\((\d{{1,12}})\)\s*(\d{{1,12}}))?|(\?))\s*(?:,|$)", re.ASCII
)
_REST = re.compile(r"(replicated|unreduced|manual)(?:\s*=\s*\{([^{}]*)\})?\s*(?:,\s*)?")
_METADATA = re.compile(r"metadata=(\{.*\})\s*", re.DOTALL)
_MOST = 1 << 20


class ShardingValueError(ValueError):
    """A text that is no sharding, or one that is too large."""


Piece = tuple[str, int, int]
"""A part of an axis: its name, the product of the sizes ahead of it in the axis, and its size."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """Names and sizes of axes; `devices`, flat in C order, where they are not 0 to n-1."""

    axes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        return prod(size for _, size in self.axes)

    def piece(self, axis: str, before: int = 1, size: int | None = None) -> Piece:
        """The part of an axis, all of it where nothing else is said; `ShardingValueError` where there is none."""
        sizes = dict(self.axes)
        if axis not in sizes:
            raise ShardingValueError(f"the mesh has no axis '{axis}'")
        found = (axis, before, sizes[axis] if size is None else size)
        if not found[1] or not found[2] or sizes[axis] % (found[1] * found[2]):
            raise ShardingValueError(f"the axis '{axis}' of {sizes[axis]} has no such part")
        return found


def axes_grid(
    mesh: Mesh, dimensions: Sequence[Sequence[Piece]], subgroups: Mapping[str, Sequence[Piece]]
) -> tuple[tuple[int, ...], list[tuple[str, int]], list[int]]:
    """Tiles, subgroups and devices of an array whose dimensions are cut along these pieces, major first; `subgroups`
    has the pieces of ``manual`` and ``unreduced``, all others replicate.  `ShardingValueError` where pieces overlap or
    occur twice."""
    if mesh.devices is not None and len(mesh.devices) != mesh.size:
        raise ShardingValueError(f"the mesh has {mesh.size} devices, {len(mesh.devices)} are listed")
    groups = {kind: pieces for kind, pieces in subgroups.items() if pieces}
    rows = [*dimensions, *groups.values()]
    places = _cut(mesh, [piece for row in rows for piece in row])
    numbers = [
        [n for axis, low, size in row for n, (a, b, _) in enumerate(places) if a == axis and low <= b < low * size]
        for row in rows
    ]
    used = [n for row in numbers for n in row]
    if len(set(used)) != len(used):
        raise ShardingValueError("an axis of the mesh is used twice in a sharding")
    rest = [n for n in range(len(places)) if n not in used]
    sizes = [size for _, _, size in places]
    devices = np.arange(mesh.size) if mesh.devices is None else np.array(mesh.devices, np.int64)
    grid = devices.reshape(sizes).transpose([*used, *rest]).reshape(-1)
    kinds = [(kind, prod(size for _, _, size in row)) for kind, row in groups.items()]
    kinds.append(("replicated", prod(sizes[n] for n in rest)))
    return tuple(prod(size for _, _, size in row) for row in dimensions), kinds, grid.tolist()


def _cut(mesh: Mesh, used: Sequence[Piece]) -> list[Piece]:
    """All axes, each cut where a used part of it begins or ends."""
    places: list[Piece] = []
    for axis, size in mesh.axes:
        cuts = {1, size} | {edge for a, low, n in used if a == axis for edge in (low, low * n)}
        for low, high in itertools.pairwise(sorted(cuts)):
            if high % low:
                raise ShardingValueError(f"the parts of the axis '{axis}' overlap")
            places.append((axis, low, high // low))
    return places


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAxes:
    """The text of a sharding over axes: either one `device` has the array, or its `dimensions` are cut."""

    device: int | None = None
    mesh: Mesh = Mesh(())
    dimensions: Sequence[Sequence[Piece]] = ()
    subgroups: Mapping[str, Sequence[Piece]] = field(default_factory=dict)
    open_dimensions: tuple[int, ...] = ()
    metadata: str = ""


def read_axes(text: str) -> ReadAxes:
    """What the sharding of one array over named axes says; `ShardingValueError` where it is none."""
    whole = _MAXIMAL.fullmatch(text.strip())
    if whole:
        return ReadAxes(device=int(whole.group(1)), metadata=whole.group(2) or "")
    head = _MESH.match(text)
    if head is None:
        raise ShardingValueError("a sharding over named axes begins with its mesh: mesh['x'=2]")
    position, end = head.end(), text.rindex("}")
    mesh, position = _read_mesh(head.group(1), text, position)
    rows: list[list[Piece]] = []
    opened: list[int] = []
    found = _DIMENSIONS.match(text, position, end)
    if found:
        position = found.end()
        for number, row in enumerate(_ROW.findall(found.group(1))):
            pieces, is_open = _read_row(row, mesh)
            rows.append(pieces)
            opened += [number] if is_open else []
    groups: dict[str, list[Piece]] = {}
    while rest := _REST.match(text, position, end):
        position = rest.end()
        kind, inside = rest.groups()
        everything = inside is None and kind != "replicated"
        if everything and found:
            raise ShardingValueError(f"'{kind}' beside dimensions lists its axes: {kind}={{'x'}}")
        all_axes = [mesh.piece(axis) for axis, _ in mesh.axes]
        groups[kind] = all_axes if everything else _read_row(inside or "", mesh)[0]
    metadata = _METADATA.match(text, position, end)
    position = metadata.end() if metadata else position
    if text[position:end].strip():
        odd = _line(text[position : min(end, position + 40)])
        raise ShardingValueError(f"unexpected '{odd}' in a sharding over named axes")
    groups.pop("replicated", None)
    note = metadata.group(1) if metadata else ""
    return ReadAxes(mesh=mesh, dimensions=rows, subgroups=groups, open_dimensions=tuple(opened), metadata=note)


def _read_mesh(axes: str, text: str, position: int) -> tuple[Mesh, int]:
    names: list[tuple[str, int]] = []
    at = 0
    while at < len(axes.rstrip()):
        found = _AXIS.match(axes, at)
        if found is None:
            raise ShardingValueError(f"an axis of a mesh is written 'x'=2, not {_line(axes[at : at + 20])}")
        quoted, bare, size_text = found.groups()
        names.append((quoted or bare or "", int(size_text)))
        at = found.end()
    if len({name for name, _ in names}) != len(names):
        raise ShardingValueError("two axes of the mesh have one name")
    size = prod(n for _, n in names)
    if not 0 < size <= _MOST:
        raise ShardingValueError(f"a mesh has 1 to {_MOST} devices, not {size}")
    iota, listed = _IOTA.match(text, position), _LISTED.match(text, position)
    devices: list[int] | None = None
    if iota:
        sizes, order = ([int(n) for n in (part or "").split(",") if n.strip()] for part in iota.groups())
        order = order if iota.group(2) is not None else list(range(len(sizes)))
        if sorted(order) != list(range(len(sizes))) or prod(sizes) != size:
            raise ShardingValueError("the device_ids of the mesh are no transposition of its devices")
        devices = np.arange(size).reshape(sizes).transpose(order).reshape(-1).tolist()
    elif listed:
        devices = [int(n) for n in listed.group(1).split(",") if n.strip()]
        if len(devices) != size or len(set(devices)) != size:
            raise ShardingValueError(f"the mesh has {size} devices, its device_ids list {len(set(devices))}")
    which = iota or listed
    return Mesh(tuple(names), tuple(devices) if devices is not None else None), which.end() if which else position


def _read_row(row: str, mesh: Mesh) -> tuple[list[Piece], bool]:
    """The pieces of axes of one dimension, and whether it is open."""
    pieces: list[Piece] = []
    is_open, at = False, 0
    while at < len(row.rstrip()):
        found = _PART.match(row, at)
        if found is None:
            raise ShardingValueError(f"an axis is written 'x' or 'x':(1)2, not {_line(row[at : at + 20])}")
        quoted, bare, before, size, mark = found.groups()
        if mark:
            is_open = True
        else:
            pieces.append(mesh.piece(quoted or bare or "", int(before or 1), int(size) if size else None))
        at = found.end()
    return pieces, is_open


def _line(text: str) -> str:
    """A piece of a text as one line."""
    return " ".join(text.split())
