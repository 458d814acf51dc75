"""A device that is this processor: its grids are functions that go through blocks and threads in loops."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy.typing as npt

from hlotool.codegen.launches import LaunchProgram, Multiply
from hlotool.codegen.machine import Machine
from hlotool.runtime.load import load
from hlotool.runtime.memory import aligned
from hlotool.runtime.object_code import compiled

__all__ = ["Emulator"]

Array = npt.NDArray[Any]
Order: TypeAlias = Callable[[int], Iterable[tuple[int, int]]]
"""From the number of blocks to ranges of them, in the order in which they are to run."""


def _in_order(blocks: int) -> list[tuple[int, int]]:
    return [(0, blocks)]


class Emulator:
    """The code of `program`, compiled for the `machine` that this process runs on; blocks run in an `order`."""

    def __init__(self, program: LaunchProgram, machine: Machine, order: Order = _in_order) -> None:
        self._library = load(compiled(program.units, machine))
        self._order = order
        self._kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

    @contextmanager
    def session(self) -> Iterator[_Session]:
        """Begin an execution."""
        yield _Session(self)

    def record(self, sizes: Sequence[int], constants: Array, body: Callable[[Any, Sequence[int]], None]) -> None:
        """Nothing is gained: launches are calls."""

    def run(self, function: str, blocks: int, arguments: Sequence[int]) -> None:
        """Run all blocks of a grid, one after the other."""
        table = (ctypes.c_void_p * (len(arguments) + 1))(None, *arguments)
        kernel, place = self._kernel(self._library.address(function)), ctypes.addressof(table) + 8
        for begin, end in self._order(blocks):
            kernel(place, begin, end)


class _Session:
    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._held: list[Array] = []

    def take(self, size: int) -> int:
        self._held.append(aligned(max(1, size)))
        return int(self._held[-1].ctypes.data)

    def write(self, address: int, array: Array) -> None:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def read(self, address: int, array: Array) -> None:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def move(self, target: int, source: int, size: int) -> None:
        ctypes.memmove(target, source, size)

    def multiply(self, product: Multiply, left: int, right: int, result: int) -> bool:
        return False  # what there is to look at are the kernels

    def launch(self, function: str, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        self._emulator.run(function, blocks, arguments)
