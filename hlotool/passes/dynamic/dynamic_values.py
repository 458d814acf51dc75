"""What the dynamic padder works on: an array of the bounds with its sizes, and the code that masks and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np

from hlotool.ir import Instruction, Shape, array, dtype_of, element_type
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass

__all__ = ["Maker", "Sized", "neutral"]


@dataclass(frozen=True, slots=True)
class Sized:
    """An array of static shape, and the s32[] sizes of the dimensions of which only the first elements count.

    Sizes lie between 0 and the bound; what elements beyond them are is open.
    """

    array: Instruction
    sizes: Mapping[int, Instruction] = field(default_factory=dict)


class Maker(Builder):
    """A builder that knows sizes: s32[] scalars, and masks made of them."""

    def number(self, value: int) -> Instruction:
        return self.scalar_constant(value, "s32")

    def size(self, value: Sized, dimension: int) -> Instruction:
        """The size of any dimension."""
        found = value.sizes.get(dimension)
        return self.number(value.array.shape.dimensions[dimension]) if found is None else found

    def product(self, sizes: Iterable[Instruction | int]) -> Instruction:
        """The product of sizes, known ones and others."""
        whole, result = 1, None
        for size in sizes:
            if isinstance(size, int):
                whole *= size
            else:
                result = size if result is None else self.binary("multiply", result, size)
        if result is None:
            return self.number(whole)
        return result if whole == 1 else self.binary("multiply", result, self.number(whole))

    def limited(self, size: Instruction, bound: int) -> Instruction:
        """Any s32[] as a size between 0 and `bound`."""
        return self.clamp(self.number(0), size, self.number(bound))

    def common(self, sizes: Iterable[Mapping[int, Instruction]]) -> dict[int, Instruction]:
        """The sizes that several arrays of one rank have in common."""
        least: dict[int, Instruction] = {}
        for own in sizes:
            for dimension, size in own.items():
                found = least.get(dimension, size)
                least[dimension] = size if found is size else self.binary("minimum", found, size)
        return least

    def below(self, shape: Shape, dimension: int, size: Instruction) -> Instruction:
        """A pred of the dimensions of `shape`: whether the position along `dimension` is less than `size`."""
        positions = self.iota(array("s32", shape.dimensions), dimension)
        limit = self.broadcast(size, (), array("s32", shape.dimensions))
        return self.compare(positions, limit, "LT")

    def inside(self, shape: Shape, sizes: Mapping[int, Instruction]) -> Instruction | None:
        """A pred of the dimensions of `shape`: whether a position is below all `sizes`; None if there are none."""
        result: Instruction | None = None
        for dimension, size in sorted(sizes.items()):
            own = self.below(shape, dimension, size)
            result = own if result is None else self.binary("and", result, own)
        return result

    def filled(
        self, value: Sized, dimensions: Iterable[int] | None = None, filler: Instruction | None = None
    ) -> Instruction:
        """The array with `filler` (zero) beyond the sizes of some dimensions, or all."""
        wanted = value.sizes if dimensions is None else set(dimensions)
        chosen = {d: size for d, size in value.sizes.items() if d in wanted}
        shape = value.array.shape
        inside = self.inside(shape, chosen)
        if inside is None:
            return value.array
        if filler is None:
            rest = self.zeros(shape.element_type, shape.dimensions)
        else:
            rest = self.broadcast(filler, (), shape.dimensions)
        return self.select(inside, value.array, rest)

    def zeros(self, kind: str, dimensions: Sequence[int]) -> Instruction:
        """Bits of zero: f8e8m0fnu has no number 0."""
        single = self.constant(np.zeros((), dtype_of(kind)), kind)
        return self.broadcast(single, (), dimensions) if dimensions else single

    def moved(self, value: Instruction, dimension: int, start: Instruction) -> Instruction:
        """The elements from `start` on come first along a dimension; those before it follow."""
        both = self.concatenate([value, value], dimension)
        zero = self.number(0)
        starts = [start if d == dimension else zero for d in range(value.shape.rank)]
        return self.dynamic_slice(both, starts, value.shape.dimensions)

    def packed(
        self, values: Sequence[Instruction], sizes: Sequence[Instruction], dimension: int, shape: Shape
    ) -> tuple[Instruction, Instruction]:
        """An array of `shape` with the first elements of arrays one behind the other, and how many they are."""
        result = self.zeros(shape.element_type, shape.dimensions)
        zero = end = self.number(0)
        for value, size in zip(values, sizes, strict=True):
            starts = [end if d == dimension else zero for d in range(shape.rank)]
            result = self.dynamic_update_slice(result, value, starts)
            end = self.binary("add", end, size)
        return result, end

    def picked(self, value: Instruction, positions: Instruction) -> Instruction:
        """The elements at row-major `positions` of an array, in the shape of the positions; they are limited to it."""
        flat = self.reshape(value, (value.shape.size,))
        if not value.shape.size:
            return self.zeros(value.shape.element_type, positions.shape.dimensions)
        linear = self.reshape(positions, (positions.shape.size,))
        attributes = {
            "offset_dims": (), "collapsed_slice_dims": (0,), "start_index_map": (0,), "index_vector_dim": 1,
            "slice_sizes": (1,),
        }  # fmt: skip
        return self.reshape(self.gather(flat, linear, attributes), positions.shape.dimensions)

    def index_type(self, *sizes: int) -> str:
        """An integer type that can count so many elements."""
        return "s32" if max(sizes, default=0) < 1 << 31 else "s64"

    def spread(self, number: Instruction | int, kind: str, dimensions: Sequence[int]) -> Instruction:
        """A number or s32[] in every element of an integer array."""
        if isinstance(number, int):
            return self.splat(number, array(kind, dimensions))
        own = number if number.shape.element_type == kind else self.convert(number, kind)
        return self.broadcast(own, (), array(kind, dimensions)) if dimensions else own


def neutral(opcode: str, kind: str) -> float | int | bool | None:
    """The number that changes nothing under an opcode between scalars of a type, exactly; None where none is known."""
    row = element_type(kind)
    if row.kind == "pred":
        return {"and": True, "or": False, "xor": False}.get(opcode)
    if row.is_float and row.bits > 8:
        return {"add": -0.0, "multiply": 1.0, "maximum": float("-inf"), "minimum": float("inf")}.get(opcode)
    if row.is_integer:
        low = -(1 << row.bits - 1) if row.kind == "signed" else 0
        high = low + (1 << row.bits) - 1
        ones = -1 if row.kind == "signed" else high
        table = {"add": 0, "multiply": 1, "maximum": low, "minimum": high, "and": ones, "or": 0, "xor": 0}
        return table.get(opcode)
    return None
