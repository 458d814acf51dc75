"""Shardings over named axes (the dialect ``sdy``), as the tile assignments of HLO.

A mesh ``["x"=2, "y"=4]`` is its devices in row-major order; ``[{"x"}, {}]`` splits the first dimension along ``x``, and
the rest of the axes are replicated: ``{devices=[2,1,4]<=[8] last_tile_dim_replicate}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hlotool.ir.sharding import along_axes, print_sharding
from hlotool.ir.sharding_axes import Mesh, Piece
from hlotool.ir.sharding_text import ShardingValueError
from hlotool.text.stablehlo.scope import Refusal
from hlotool.text.stablehlo.tree import Mark

__all__ = ["Mesh", "mesh_of", "tiles_of"]

_AXIS = re.compile(r'"((?:[^"\\]|\\.)*)"\s*=\s*(\d{1,12})')
_IDS = re.compile(r"device_ids\s*=\s*\[([^\[\]]*)\]")
_DIMENSION = re.compile(r"\{([^{}]*)\}")
_PART = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\s*:\s*\((\d{1,12})\)\s*(\d{1,12}))?')


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
    if not mesh.axes and mesh.devices:
        return f"{{maximal device={mesh.devices[0]}}}"
    try:
        dimensions = [_pieces(row, mesh) for row in _DIMENSION.findall(text[start:end])]
        return print_sharding(along_axes(mesh, dimensions))
    except ShardingValueError as error:
        raise Refusal(str(error), code="HLO0137") from None


def _pieces(row: str, mesh: Mesh) -> list[Piece]:
    return [
        mesh.piece(axis, int(before or 1), int(size) if size else None) for axis, before, size in _PART.findall(row)
    ]
