"""Tensors of other types, and copies."""

from __future__ import annotations

from typing import Any

from hlotool.ir import Instruction
from hlotool.ir.shape import array
from hlotool.torch.lowering import Context, lowering

__all__: list[str] = []


@lowering("aten._to_copy.default", "prims.convert_element_type.default", "aten.to.dtype")
def to_copy(c: Context, self: Instruction = None, dtype: Any = None, a: Instruction = None, **_: bool) -> Instruction:  # type: ignore[assignment]
    return c.convert(self if self is not None else a, c.type)


@lowering("aten.view.dtype")
def view_dtype(c: Context, self: Instruction, dtype: Any) -> Instruction:
    from hlotool.ir.types import ELEMENT_TYPES

    b, own, wanted = c.builder, ELEMENT_TYPES[self.shape.element_type].bits, ELEMENT_TYPES[c.type].bits
    if own == wanted:
        return b.bitcast_convert(self, array(c.type, c.dimensions))
    if own > wanted:
        parts = b.bitcast_convert(self, array(c.type, (*self.shape.dimensions, own // wanted)))
        return b.reshape(parts, c.dimensions)
    whole = b.reshape(self, (*c.dimensions, wanted // own))
    return b.bitcast_convert(whole, array(c.type, c.dimensions))


@lowering(
    "aten.clone.default", "aten.alias.default", "aten.detach.default", "aten.lift_fresh_copy.default",
    "aten.lift_fresh.default", "aten.contiguous.default", "aten.alias_copy.default", "aten.detach_copy.default",
)  # fmt: skip
def same(c: Context, self: Instruction) -> Instruction:
    return self


@lowering("aten.copy.default", "aten.copy_.default")
def copy(c: Context, self: Instruction, src: Instruction) -> Instruction:
    return c.tensor(src, c.type, c.dimensions)
