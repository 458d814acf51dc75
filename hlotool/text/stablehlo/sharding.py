"""Shardings over named axes (the dialect ``sdy``), as the tile assignments of HLO.

A mesh ``["x"=2, "y"=4]`` is its devices in row-major order; ``[{"x"}, {}]`` splits the first dimension along ``x``, and
the rest of the axes are replicated: ``{devices=[2,1,4]<=[8] last_tile_dim_replicate}``.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlotool.ir.sharding import print_sharding, sharding_of_axes
from hlotool.ir.sharding_axes import Mesh, ShardingValueError
from hlotool.ir.sharding_sdy import read_mesh, read_sdy
from hlotool.text.stablehlo.scope import Refusal
from hlotool.text.stablehlo.tree import Mark

__all__ = ["Mesh", "mesh_of", "tiles_of"]


def mesh_of(mark: Mark) -> Mesh:
    """``<["x"=2, "y"=4], device_ids=[...]>``."""
    try:
        return read_mesh(str(mark.value))
    except ShardingValueError as error:
        raise Refusal(str(error), code="HLO0137") from None


def tiles_of(mark: Mark | str, meshes: Mapping[str, Mesh]) -> str:
    """The sharding of HLO for ``@mesh, [{"x"}, {?}]``."""
    text = str(mark.value if isinstance(mark, Mark) else mark)
    try:
        return print_sharding(sharding_of_axes(read_sdy(text, meshes)).bare())
    except ShardingValueError as error:
        raise Refusal(str(error), code="HLO0137") from None
