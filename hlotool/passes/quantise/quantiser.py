"""How an array of floats is stored in a narrow type: a scale, a zero point, and the instructions for both ways."""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from hlotool.ir import ELEMENT_TYPES, Instruction, Literal, array, dtype_of
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass

__all__ = ["Quantiser", "limits_of"]

Floats: TypeAlias = npt.NDArray[Any]


def limits_of(kind: str) -> tuple[float, float]:
    """The least and the greatest number of a narrow type that quantised values take.

    Signed integers leave their least number out, so that the range is the same on both sides of zero.
    """
    row = ELEMENT_TYPES[kind]
    if row.is_float:
        top = float(ml_dtypes.finfo(dtype_of(kind)).max)  # type: ignore[no-untyped-call]
        return -top, top
    if row.kind == "unsigned":
        return 0.0, float((1 << row.bits) - 1)
    top = float((1 << (row.bits - 1)) - 1)
    return -top, top


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiser:
    """A value x is stored as ``clamp(round(x / scale) + zero)`` of `type`, which stands for ``(q - zero) * scale``.

    `scale` (f32, above zero) has a dimension for each of `axes`, the dimensions of the array along which scales differ;
    it is a scalar where there are none, and axes ascend.  With `group`, (axis, size), one of the axes has a scale for
    every `size` elements in a row, not for each.  `zero` is one number of `type` for the whole array, 0 for floats.
    """

    type: str
    scale: npt.NDArray[np.float32]
    zero: int = 0
    axes: tuple[int, ...] = ()
    group: tuple[int, int] | None = None

    def same(self, other: Quantiser) -> bool:
        """Whether both store alike."""
        return (self.type, self.zero, self.axes, self.group) == (
            other.type, other.zero, other.axes, other.group
        ) and np.array_equal(self.scale, other.scale)  # fmt: skip

    def spread(self, sizes: tuple[int, ...]) -> Floats:
        """The scales in the rank of an array of these sizes, with 1 where they do not differ."""
        scale = self.scale
        if self.group is not None:
            scale = np.repeat(scale, self.group[1], self.axes.index(self.group[0]))
        return scale.reshape([sizes[axis] if axis in self.axes else 1 for axis in range(len(sizes))])

    def stored(self, values: Floats) -> Floats:
        """The numbers that stand for `values`, computed in f32 as `quantise` computes them."""
        low, high = limits_of(self.type)
        inverse = np.float32(1) / self.spread(values.shape)
        with np.errstate(all="ignore"):
            scaled = values.astype(np.float32) * inverse
            if ELEMENT_TYPES[self.type].is_integer:
                scaled = np.rint(scaled) + np.float32(self.zero)
            found: Floats = np.clip(scaled, np.float32(low), np.float32(high)).astype(dtype_of(self.type))
        return found

    def meant(self, stored: Floats) -> npt.NDArray[np.float32]:
        """The floats that stored numbers stand for."""
        found: npt.NDArray[np.float32] = (stored.astype(np.float32) - np.float32(self.zero)) * self.spread(stored.shape)
        return found

    def rounded(self, values: Floats) -> npt.NDArray[np.float32]:
        """What is left of `values` once they have been stored."""
        return self.meant(self.stored(values))

    # ---- as instructions

    def quantise(self, build: Builder, value: Instruction) -> Instruction:
        """Instructions that store a float value at run time (without groups); of a constant its stored form."""
        if value.opcode == "constant":
            sizes = array(self.type, value.shape.dimensions)
            return build.constant(Literal(sizes, self.stored(value.literal.value())))
        wide = value if value.shape.element_type == "f32" else build.convert(value, "f32")
        inverse = build.broadcast(build.constant(np.float32(1) / self.scale), self.axes, wide.shape.dimensions)
        scaled = build.binary("multiply", wide, inverse)
        if ELEMENT_TYPES[self.type].is_integer:
            scaled = build.unary("round-nearest-even", scaled)
            if self.zero:
                scaled = build.binary("add", scaled, build.splat(float(self.zero), wide.shape))
        low, high = (build.scalar_constant(limit, "f32") for limit in limits_of(self.type))
        return build.convert(build.clamp(low, scaled, high), self.type)

    def dequantise(self, build: Builder, stored: Instruction, kind: str = "f32") -> Instruction:
        """Instructions for the floats, of type `kind`, that a stored value stands for."""
        if self.zero:
            wide = build.convert(stored, "s32")
            stored = build.binary("subtract", wide, build.splat(self.zero, wide.shape))
        sizes, axes = stored.shape.dimensions, self.axes
        if self.group is not None:
            axis, size = self.group
            split = (*sizes[:axis], sizes[axis] // size, size, *sizes[axis + 1 :])
            stored = build.reshape(stored, split)
            axes = tuple(one if one <= axis else one + 1 for one in axes)
        value = build.convert(stored, kind)
        scale = build.constant(self.scale.astype(dtype_of(kind)))
        value = build.binary("multiply", value, build.broadcast(scale, axes, value.shape.dimensions))
        return value if self.group is None else build.reshape(value, sizes)
