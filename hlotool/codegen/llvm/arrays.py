"""Arrays in memory: where elements lie, and how they are read and written."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.codegen.llvm import memory
from hlotool.codegen.llvm.math.elements import Register, compute_element
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Ptr
from hlotool.codegen.machine import Machine

__all__ = ["aligned", "load", "offset", "positions", "share", "store", "vector_lanes"]


def aligned(size: int) -> int:
    """The first multiple of a line of the caches that is not less than `size` bytes."""
    return -(-size // 64) * 64


def share(task: Index, count: int, tasks: int) -> tuple[Index, Index]:
    """The first and the one after the last of `count` things that a task does."""
    return task * count // tasks, (task + 1) * count // tasks


def positions(linear: Index, dimensions: Sequence[int]) -> list[Index]:
    """The coordinates of element number `linear` of a row-major array (no dimension may be 0)."""
    result: list[Index] = []
    for size in reversed(dimensions[1:]):
        above = linear // size
        result.append(0 if size == 1 else linear - above * size)
        linear = above
    if dimensions:
        result.append(0 if dimensions[0] == 1 else linear)
    return result[::-1]


def offset(coordinates: Sequence[Index], strides: Sequence[int]) -> Index:
    """How far from the first element lies the one with these coordinates."""
    result: Index = 0
    for coordinate, stride in zip(coordinates, strides, strict=True):
        result = result + coordinate * stride
    return result


def vector_lanes(machine: Machine, element_types: Sequence[str]) -> int:
    """Lanes that fill a vector register with the widest compute type of `element_types`."""
    return machine.lanes(max((max(8, BITS[compute_element(t)]) for t in element_types), default=8))


def load(pointer: Ptr, element_type: str, index: Index, lanes: int = 1) -> Register:
    """The register of `lanes` neighbouring elements from element `index` on."""
    return memory.load(element_type, lanes, pointer.at(memory.address_type(element_type), index))


def store(pointer: Ptr, element_type: str, index: Index, value: Register) -> None:
    """Write a register to as many neighbouring elements from element `index` on."""
    memory.store(element_type, pointer.at(memory.address_type(element_type), index), value)
