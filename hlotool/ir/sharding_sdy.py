"""Shardings over named axes in the words of Shardy's dialect ``sdy``, as JAX writes them beside those of HLO.

``#sdy.sharding<@mesh, [{"x"}, {"y", ?}], unreduced={"z"}>`` names a mesh of the module, or has its own,
``mesh<["x"=2]>``; ``#sdy.sharding_per_value<[<..>, <..>]>`` has one for each of several values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hlotool.ir.sharding_axes import Mesh, Piece, ReadAxes, ShardingValueError

__all__ = ["read_axis_names", "read_mesh", "read_meshes", "read_sdy", "read_sdy_values"]

_AXIS = re.compile(r'"((?:[^"\\]|\\.)*)"\s*=\s*(\d{1,12})')
_IDS = re.compile(r"device_ids\s*=\s*\[([^\[\]]*)\]")
_NAMED_MESH = re.compile(r"([\w$.\-]+)\s*=\s*#sdy\.mesh<([^<>]*)>")
_DIMENSION = re.compile(r"\{([^{}]*)\}")
_PART = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\s*:\s*\((\d{1,12})\)\s*(\d{1,12}))?')
_MESH_NAME = re.compile(r"\s*<?\s*@([\w$.\-]+)\s*,")
_OWN_MESH = re.compile(r"\s*<?\s*mesh<(.*?)>\s*,")
_UNREDUCED = re.compile(r"unreduced\s*=\s*\{([^{}]*)\}")
_VALUE = re.compile(r"<\s*(?:@[\w$.\-]+|mesh<[^<>]*>)\s*,[^<>]*>")
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"')
_MOST = 1 << 20


def read_mesh(text: str) -> Mesh:
    """``<["x"=2, "y"=4], device_ids=[...]>``."""
    ids = _IDS.search(text)
    found = Mesh(
        tuple((name, int(size)) for name, size in _AXIS.findall(text)),
        tuple(int(one) for one in ids.group(1).split(",") if one.strip()) if ids else None,
    )
    if any(size < 1 for _, size in found.axes) or found.size > _MOST:
        raise ShardingValueError("the axes of a mesh have sizes")
    return found


def read_meshes(text: str) -> dict[str, Mesh]:
    """``{mesh = #sdy.mesh<["x"=2]>}``, as a module has it among its frontend attributes."""
    return {name: read_mesh(inside) for name, inside in _NAMED_MESH.findall(text)}


def read_sdy(text: str, meshes: Mapping[str, Mesh]) -> ReadAxes:
    """The sharding of one value, from its mesh on: ``@mesh, [{"x"}, {?}]``."""
    name, own = _MESH_NAME.match(text), _OWN_MESH.match(text)
    mesh = meshes.get(name.group(1)) if name else read_mesh(own.group(1)) if own else None
    if mesh is None:
        raise ShardingValueError(f"unknown mesh in the sharding {text[:60]}")
    start = text.find("[", (name or own).end())  # type: ignore[union-attr]
    end = text.find("]", start)
    if not mesh.axes and mesh.devices:
        return ReadAxes(device=mesh.devices[0])
    rows = _DIMENSION.findall(text[start:end])
    unreduced = _UNREDUCED.search(text, end)
    return ReadAxes(
        mesh=mesh,
        dimensions=[_pieces(row, mesh) for row in rows],
        subgroups={"unreduced": _pieces(unreduced.group(1), mesh)} if unreduced else {},
        open_dimensions=tuple(n for n, row in enumerate(rows) if "?" in _NAME.sub("", row)),
    )


def _pieces(row: str, mesh: Mesh) -> list[Piece]:
    return [
        mesh.piece(axis, int(before or 1), int(size) if size else None) for axis, before, size in _PART.findall(row)
    ]


def read_sdy_values(text: str, meshes: Mapping[str, Mesh]) -> Iterator[ReadAxes]:
    """The shardings of ``#sdy.sharding<..>`` or ``#sdy.sharding_per_value<[..]>``, in order."""
    for found in _VALUE.finditer(text):
        yield read_sdy(found.group(), meshes)


def read_axis_names(text: str) -> list[str]:
    """``#sdy<manual_axes{"x", "y"}>``."""
    return _NAME.findall(text)
