"""Shardings over named axes in the words of Shardy's dialect ``sdy``, as JAX writes them beside those of HLO.

``#sdy.sharding<@mesh, [{"x"}, {"y", ?}], unreduced={"z"}>`` names a mesh of the module, or has its own,
``mesh<["x"=2]>``; ``#sdy.sharding_per_value<[<..>, <..>]>`` has one for each of several values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hlotool.ir.sharding_axes import Mesh, Piece, ReadAxes, ShardingValueError

__all__ = ["read_axis_names", "read_mesh", "read_meshes", "read_sdy", "read_sdy_values"]

_QUOTED = r'"(?:[^"\\]|\\.)*"'  # names may have brackets in them: JAX calls the axis of a pmap "<axis 0x7f..>"


def _within(brackets: str) -> str:
    """What may stand in some brackets: all else, and names."""
    return rf'(?:{_QUOTED}|[^{re.escape(brackets)}"])*'


_AXIS = re.compile(rf"({_QUOTED})\s*=\s*(\d{{1,12}})")
_IDS = re.compile(r"device_ids\s*=\s*\[([^\[\]]*)\]")
_NAMED_MESH = re.compile(rf"([\w$.\-]+)\s*=\s*#sdy\.mesh<({_within('<>')})>")
_DIMENSIONS = re.compile(rf"\[({_within('[]')})\]")
_DIMENSION = re.compile(rf"\{{({_within('{}')})\}}")
_PART = re.compile(rf"({_QUOTED})(?:\s*:\s*\((\d{{1,12}})\)\s*(\d{{1,12}}))?")
_MESH_NAME = re.compile(r"\s*<?\s*@([\w$.\-]+)\s*,")
_OWN_MESH = re.compile(rf"\s*<?\s*mesh<({_within('<>')})>\s*,")
_UNREDUCED = re.compile(rf"unreduced\s*=\s*\{{({_within('{}')})\}}")
_VALUE = re.compile(rf"<\s*(?:@[\w$.\-]+|mesh<{_within('<>')}>)\s*,{_within('<>')}>")
_NAME = re.compile(_QUOTED)
_MOST = 1 << 20


def read_mesh(text: str) -> Mesh:
    """``<["x"=2, "y"=4], device_ids=[...]>``."""
    ids = _IDS.search(text)
    found = Mesh(
        tuple((name[1:-1], int(size)) for name, size in _AXIS.findall(text)),
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
    if not mesh.axes and mesh.devices:
        return ReadAxes(device=mesh.devices[0])
    written = _DIMENSIONS.search(text, (name or own).end())  # type: ignore[union-attr]
    rows = _DIMENSION.findall(written.group(1)) if written else []
    unreduced = _UNREDUCED.search(text, written.end() if written else 0)
    return ReadAxes(
        mesh=mesh,
        dimensions=[_pieces(row, mesh) for row in rows],
        subgroups={"unreduced": _pieces(unreduced.group(1), mesh)} if unreduced else {},
        open_dimensions=tuple(n for n, row in enumerate(rows) if "?" in _NAME.sub("", row)),
    )


def _pieces(row: str, mesh: Mesh) -> list[Piece]:
    return [
        mesh.piece(axis[1:-1], int(before or 1), int(size) if size else None)
        for axis, before, size in _PART.findall(row)
    ]


def read_sdy_values(text: str, meshes: Mapping[str, Mesh]) -> Iterator[ReadAxes]:
    """The shardings of ``#sdy.sharding<..>`` or ``#sdy.sharding_per_value<[..]>``, in order."""
    for found in _VALUE.finditer(text):
        yield read_sdy(found.group(), meshes)


def read_axis_names(text: str) -> list[str]:
    """``#sdy<manual_axes{"x", "y"}>``."""
    return [name[1:-1] for name in _NAME.findall(text)]
