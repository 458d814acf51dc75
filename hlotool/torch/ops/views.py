"""Operations that give the same elements in other shapes."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, lowering, normal_dimensions

__all__: list[str] = []


@lowering("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")
def view(c: Context, self: Instruction, size: Sequence[int] = (), shape: Sequence[int] = ()) -> Instruction:
    return c.builder.reshape(self, c.dimensions)


@lowering("aten.permute.default")
def permute(c: Context, self: Instruction, dims: Sequence[int]) -> Instruction:
    return c.builder.transpose(self, normal_dimensions(dims, len(self.shape.dimensions)))


@lowering("aten.expand.default")
def expand(c: Context, self: Instruction, size: Sequence[int], *, implicit: bool = False) -> Instruction:
    return c.expand(self, c.dimensions)


@lowering("aten.clone.default")
def clone(c: Context, self: Instruction) -> Instruction:
    return self
