"""Shardings over named axes (the dialect ``sdy``), as the tile assignments of HLO.

A mesh ``["x"=2, "y"=4]`` is its devices in row-major order; ``[{"x"}, {}]`` splits the first dimension along ``x``, and
the rest of the axes are replicated: ``{devices=[2,1,4]<=[8] last_tile_dim_replicate}``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from math import prod

from hlotool.lazy_dataclass import dataclass
from hlotool.text.stablehlo.scope import Refusal
from hlotool.text.stablehlo.tree import Mark

__all__ = ["Mesh", "mesh_of", "tiles_of"]

_AXIS = re.compile(r'"((?:[^"\\]|\\.)*)"\s*=\s*(\d{1,12})')
_IDS = re.compile(r"device_ids\s*=\s*\[([^\[\]]*)\]")
_DIMENSION = re.compile(r"\{([^{}]*)\}")
_PART = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\s*:\s*\((\d{1,12})\)\s*(\d{1,12}))?|(\?)')


@dataclass(frozen=True, slots=True)
class Mesh:
    """Axes and their sizes; `devices` where they are not in order."""

    axes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        return prod(size for _, size in self.axes)


def mesh_of(mark: Mark) -> Mesh:
    """``<["x"=2, "y"=4], device_ids=[...]>``."""
    text = str(mark.value)
    ids = _IDS.search(text)
    found = Mesh(
        tuple((name, int(size)) for name, size in _AXIS.findall(text)),
        tuple(int(one) for one in ids.group(1).split(",") if one.strip()) if ids else None,
    )
    if any(size < 1 for _, size in found.axes) or found.size > 1 << 20:
        raise Refusal("the axes of a mesh have sizes", code="HLO0137")
    return found


def tiles_of(mark: Mark | str, meshes: Mapping[str, Mesh]) -> str:
    """The sharding of HLO for ``@mesh, [{"x"}, {?}]``."""
    text = str(mark.value if isinstance(mark, Mark) else mark)
    name = re.match(r"\s*@([\w$.\-]+)\s*,", text)
    own = re.match(r"\s*mesh<(.*?)>\s*,", text)
    mesh = meshes.get(name.group(1)) if name else mesh_of(Mark("sdy", "mesh", own.group(1), "")) if own else None
    if mesh is None:
        raise Refusal(f"unknown mesh in the sharding {text[:60]}", code="HLO0137")
    start = text.find("[", (name or own).end())  # type: ignore[union-attr]
    end = text.find("]", start)
    dimensions = [_parts(row, mesh) for row in _DIMENSION.findall(text[start:end])]
    if not mesh.axes and mesh.devices:
        return f"{{maximal device={mesh.devices[0]}}}"
    return _tiles(dimensions, mesh)


Piece = tuple[str, int, int]
"""A part of an axis: its name, the product of the sizes ahead of it, and its size."""


def _parts(row: str, mesh: Mesh) -> list[Piece]:
    sizes = dict(mesh.axes)
    found: list[Piece] = []
    for axis, before, size, _ in _PART.findall(row):
        if not axis:
            continue
        if axis not in sizes:
            raise Refusal(f"the mesh has no axis '{axis}'", code="HLO0137")
        piece = (axis, int(before) if before else 1, int(size) if size else sizes[axis])
        if not piece[1] or not piece[2] or sizes[axis] % (piece[1] * piece[2]):
            raise Refusal(f"the axis '{axis}' of {sizes[axis]} has no such part", code="HLO0137")
        found.append(piece)
    return found


def _tiles(dimensions: Sequence[Sequence[Piece]], mesh: Mesh) -> str:
    used = [piece for row in dimensions for piece in row]
    if not used or mesh.size == 1:
        return "{replicated}"
    places: list[Piece] = []
    for axis, size in mesh.axes:  # each axis cut where parts of it begin and end
        cuts = {1, size} | {b for a, b, _ in used if a == axis} | {b * s for a, b, s in used if a == axis}
        ordered = sorted(cuts)
        for low, high in itertools.pairwise(ordered):
            if high % low:
                raise Refusal(f"the parts of the axis '{axis}' overlap", code="HLO0137")
            places.append((axis, low, high // low))
    order: list[int] = []
    tiles: list[int] = []
    for row in dimensions:
        tiles.append(prod(size for _, _, size in row))
        for axis, before, size in row:
            order += [n for n, (a, b, s) in enumerate(places) if a == axis and before <= b < before * size]
    if len(set(order)) != len(order):
        raise Refusal("an axis of the mesh is used twice in a sharding", code="HLO0137")
    rest = [n for n in range(len(places)) if n not in order]
    left = prod(places[n][2] for n in rest)
    if left > 1:
        tiles.append(left)
    order += rest
    replicate = " last_tile_dim_replicate" if left > 1 else ""
    return f"{{devices=[{','.join(map(str, tiles))}]{_devices(places, order, mesh)}{replicate}}}"


def _devices(places: Sequence[Piece], order: Sequence[int], mesh: Mesh) -> str:
    sizes = [size for _, _, size in places]
    if mesh.devices is not None and mesh.devices != tuple(range(mesh.size)):
        import numpy as np

        ids = np.array(mesh.devices).reshape(sizes).transpose(order).reshape(-1)
        return ",".join(map(str, ids))
    kept = [n for n in order if sizes[n] > 1]
    dense = sorted(kept)
    if kept == dense:
        return f"<=[{mesh.size}]"
    ranks = {n: rank for rank, n in enumerate(dense)}
    # neighbours that stay together are one dimension
    groups: list[list[int]] = []
    for n in kept:
        if groups and ranks[n] == ranks[groups[-1][-1]] + 1:
            groups[-1].append(n)
        else:
            groups.append([n])
    ordered = sorted(range(len(groups)), key=lambda g: groups[g][0])
    shape = [prod(sizes[n] for n in groups[g]) for g in ordered]
    where = {g: rank for rank, g in enumerate(ordered)}
    turned = ",".join(str(where[g]) for g in range(len(groups)))
    return f"<=[{','.join(map(str, shape))}]T({turned})"
