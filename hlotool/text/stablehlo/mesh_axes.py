"""Groups of devices as axes of a mesh: ``#stablehlo.replica_group_mesh_axes<mesh = ..., axes = [...]>``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from hlotool.ir import Literal, ReplicaGroups
from hlotool.text.stablehlo.scope import Refusal
from hlotool.text.stablehlo.tree import Mark, Number, Operation, Symbol

__all__ = ["groups_along"]

_PART = r"(?:,\s*sub_axis_info\s*=\s*\((\d{1,12})\)\s*(\d{1,12})\s*)?"
_REFERENCE = re.compile(rf'\s*name\s*=\s*"([^"]*)"\s*{_PART}', re.ASCII)
_MOST = 1 << 20  # devices


def groups_along(functions: Mapping[str, Operation], mark: Mark) -> ReplicaGroups:
    """The devices that differ along the axes alone are a group, in the order of the axes.

    Parts of axes, ``(2)3``, are the 3 after the first 2 of the axis.  A mesh may be an attribute of one of `functions`.
    """
    fields = mark.value if isinstance(mark.value, dict) else {}
    sizes, devices = _mesh(functions, fields.get("mesh"))
    parts = [_part(one, sizes) for one in fields.get("axes") or []]
    cuts = {name: {1, size} for name, size in sizes.items()}
    for name, before, size in parts:
        cuts[name] |= {before, before * size}
    pieces: list[tuple[str, int, int]] = []  # of the axes: how many there are before one of it, and to its end
    for name, points in cuts.items():
        for before, after in pairwise(sorted(points)):
            if after % before:
                raise Refusal(f"parts of the axis {name!r} overlap", code="HLO0139")
            pieces.append((name, before, after))
    places: list[int] = []
    for name, before, size in parts:
        places += [
            n for n, (own, first, last) in enumerate(pieces)
            if own == name and before <= first and last <= before * size
        ]  # fmt: skip
    if len(set(places)) != len(places):
        raise Refusal("an axis of a mesh is named twice", code="HLO0139")
    grid = devices.reshape([after // before for _, before, after in pieces])
    rest = [n for n in range(len(pieces)) if n not in places]
    count = prod(grid.shape[n] for n in places)
    table = grid.transpose([*rest, *places]).reshape(-1, count)
    return ReplicaGroups(tuple(tuple(int(one) for one in row) for row in table))


def _mesh(functions: Mapping[str, Operation], mesh: Any) -> tuple[dict[str, int], np.ndarray[Any, Any]]:
    """Sizes of the axes by name, and the devices, row-major."""
    if isinstance(mesh, Symbol):
        holder = functions.get(mesh.name)
        mesh = holder.attributes.get("stablehlo.mesh") if holder is not None else None
    fields = mesh.value if isinstance(mesh, Mark) else mesh
    if not isinstance(fields, dict):
        raise Refusal("the mesh of replica groups is #stablehlo.mesh<...>, or a function that has one", code="HLO0139")
    sizes: dict[str, int] = {}
    for one in fields.get("axes") or []:
        row = one.value if isinstance(one, Mark) else one
        name, size = (row.get("name"), row.get("size")) if isinstance(row, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(size, Number) or name in sizes or not 1 <= size.value <= _MOST:
            raise Refusal("the axes of a mesh have a name and a size each", code="HLO0139")
        sizes[name] = int(size.value)
    count = prod(sizes.values())
    listed = fields.get("device_ids")
    if count > _MOST or (isinstance(listed, Literal) and listed.shape.size != count):
        raise Refusal(f"a mesh of {count} devices", code="HLO0139")
    return sizes, listed.value().reshape(-1) if isinstance(listed, Literal) else np.arange(count)


def _part(reference: Any, sizes: Mapping[str, int]) -> tuple[str, int, int]:
    """An axis or a part of one: its name, how many are before it, and its size."""
    found = _REFERENCE.fullmatch(str(reference.value)) if isinstance(reference, Mark) else None
    if found is None or found.group(1) not in sizes:
        raise Refusal("an axis of replica groups is #stablehlo.axis_ref<name = \"x\">, of the mesh", code="HLO0139")
    name, before, size = found.groups()
    if before is None:
        return name, 1, sizes[name]
    if int(before) < 1 or int(size) < 1 or sizes[name] % (int(before) * int(size)):
        raise Refusal(f"the part ({before}){size} does not divide the axis {name!r}", code="HLO0139")
    return name, int(before), int(size)
