"""A collective on arrays in memory, carried out at once for all members of a group.

Native code on several devices of one process says where operands are and results go.  Whoever comes last computes the
results of all: once, and with no array copied on the way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from hlotool.evaluate.devices import Combine, Device, Fold, World
from hlotool.evaluate.interpreter import evaluate_instruction
from hlotool.evaluate.values import AnyArray, Operands, Value, array_at, leaves_of
from hlotool.ir import Instruction, Shape, dtype_of

__all__ = ["carry_out"]


def carry_out(instruction: Instruction, world: World, members: Sequence[int], tables: Sequence[int]) -> None:
    """Read and write the arrays of all members, in order, whose addresses are in `tables`: operands, then results."""
    operands = [operand.shape for operand in instruction.operands]
    shapes = [*operands, *instruction.shape.leaves()]
    values: list[Operands] = []
    places: list[list[AnyArray]] = []
    for table in tables:
        pointers = [*(ctypes.c_void_p * len(shapes)).from_address(table)]
        arrays = [_array(at, shape) for at, shape in zip(pointers, shapes, strict=True)]
        given, results = arrays[: len(operands)], arrays[len(operands) :]
        if not {*pointers[: len(operands)]}.isdisjoint(pointers[len(operands) :]):
            given = [array.copy() for array in given]
        values.append(tuple(given))
        places.append(results)
    everyone = _Everyone(world, members[0], values)
    evaluate_instruction(instruction, values[0], device=everyone)
    for results, found in zip(places, everyone.results, strict=True):
        for place, array in zip(results, leaves_of(found), strict=True):
            place[...] = array


def _array(at: int | None, shape: Shape) -> AnyArray:
    return array_at(at, dtype_of(shape.element_type), shape.dimensions)


class _Everyone(Device):
    """One device in the place of all members of a group, with the operands of each."""

    __slots__ = ("results", "values")

    def __init__(self, world: World, number: int, values: Sequence[Operands]) -> None:
        super().__init__(world, number)
        self.values = values
        self.results: Sequence[Value] = ()

    def meet(
        self, instruction: Instruction, members: Sequence[int], value: Operands, combine: Combine, fold: Fold | None
    ) -> Value:
        self.results = combine(self.values)
        return self.results[0]
