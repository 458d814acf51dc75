"""Capturing: the values that instructions have when the whole of their module is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.evaluate.interpreter import Interpreter, guarded
from hlotool.evaluate.values import Value, leaves_of, value_from_leaves
from hlotool.ir import Computation, ExecutionError, Instruction, Module, UnsupportedError
from hlotool.ir.depth import room
from hlotool.ir.devices import topology_of

__all__ = ["capture", "captured"]


def capture(
    module: Module, arguments: Sequence[npt.NDArray[Any]], wanted: Iterable[Instruction]
) -> dict[Instruction, tuple[npt.NDArray[Any], ...]]:
    """The arrays of each instruction in `wanted`, leaf by leaf, in the first run of its computation.

    `arguments` are those of the module.  ExecutionError where a computation does not run for them.
    """
    asked = list(wanted)
    found = captured(module, arguments, asked)
    for instruction in asked:
        if instruction not in found:
            raise ExecutionError(f"{instruction.name} is not computed for these inputs: there is nothing to capture")
    return found


def captured(
    module: Module, arguments: Sequence[npt.NDArray[Any]], wanted: Iterable[Instruction]
) -> dict[Instruction, tuple[npt.NDArray[Any], ...]]:
    """The same of those that are computed for these arguments."""
    if topology_of(module).devices > 1:
        raise UnsupportedError("values are captured on one device")
    asked = dict.fromkeys(wanted)
    recorder = _Recorder(asked)
    given = iter(arguments)
    values = [value_from_leaves(parameter.shape, given) for parameter in module.entry.parameters]
    with room(module):
        guarded(lambda: recorder.apply(module.entry, values))
    return recorder.found


class _Recorder(Interpreter):
    """Keeps the values of some instructions, each from the first run of its computation."""

    __slots__ = ("asked", "found")

    def __init__(self, asked: dict[Instruction, None]) -> None:
        super().__init__(self._see, None)
        self.asked = asked
        self.found: dict[Instruction, tuple[npt.NDArray[Any], ...]] = {}

    def _see(self, instruction: Instruction, value: Value) -> None:
        if instruction in self.asked and instruction not in self.found:
            self.found[instruction] = tuple(np.array(leaf, order="C", copy=True) for leaf in leaves_of(value))

    def apply(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        for parameter, value in zip(computation.parameters, arguments, strict=True):
            self._see(parameter, value)
        return super().apply(computation, arguments)
