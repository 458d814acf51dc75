"""Programs in parts, which run one after the other; between them go arrays, as they are.

Arrays have places: those of the arguments come first, then those that the parts make, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.evaluate.devices import Device, ThreadWorld
from hlotool.evaluate.interpreter import used_bits
from hlotool.ir import Literal, Module, Shape, dtype_of
from hlotool.ir.devices import topology_of
from hlotool.ir.effects import is_pure_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable, Memory, refuse_call
from hlotool.runtime.marshalling import check_arrays

__all__ = ["Place", "Step", "program_of"]

Array: TypeAlias = npt.NDArray[Any]
Place: TypeAlias = int | Literal
"""Where a result is: a place, or a constant."""

_Call: TypeAlias = tuple[Callable[..., tuple[Array, ...]], tuple[int, ...], tuple[int, ...]]
"""A function, the places of its arguments, and those that nothing reads after it."""


@dataclass(frozen=True, slots=True)
class Step:
    """An executable, the places of its arguments and of its results, and those that nothing reads after it.

    `owned`: its results are arrays of their own, which share memory with nothing.
    """

    executable: Executable
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dying: tuple[int, ...]
    owned: bool


def program_of(
    module: Module, parameters: Sequence[Shape], outputs: Sequence[Shape], steps: Sequence[Step],
    results: Sequence[Place], timeout: float | None, to_run: bool,
) -> Executable:  # fmt: skip
    """The executable of `module` that runs `steps`; calls are refused if it is not `to_run`."""
    program = _Program(parameters, steps, results)
    alone = program.alone
    if timeout is not None or not is_pure_computation(module.entry, {}):

        def alone(*arrays: object) -> tuple[Array, ...]:  # what parts say to each other by a device, they say to one
            return program.work(Device(ThreadWorld(seconds=timeout)), arrays)

    return Executable(
        module=module, parameters=tuple(parameters), outputs=tuple(outputs), memory=program.memory(outputs),
        decisions=(), run=alone if to_run else refuse_call, work=program.work if to_run else refuse_call,
        devices=topology_of(module).devices, timeout=timeout, parts=tuple([step.executable for step in steps]),
    )  # fmt: skip


class _Program:
    """Nothing in it changes: any number of threads may run it at once."""

    def __init__(self, parameters: Sequence[Shape], steps: Sequence[Step], results: Sequence[Place]) -> None:
        self._parameters, self._steps = tuple(parameters), tuple(steps)
        self._leaves = [(dtype_of(s.element_type), s.dimensions) if s.is_static else None for s in parameters]
        self._calls = [(step.executable.run, step.inputs, step.dying) for step in steps]
        self._results = tuple([one if isinstance(one, int) else one.value() for one in results])
        self._owned = frozenset(place for step in steps if step.owned for place in step.outputs)

    def alone(self, *arrays: object) -> tuple[Array, ...]:
        """Run on one device with arrays alone."""
        return self._run(arrays, self._calls)

    def work(self, device: Device, arrays: Sequence[object]) -> tuple[Array, ...]:
        """One device's part in a run."""
        return self._run(arrays, [(_on(step.executable, device), step.inputs, step.dying) for step in self._steps])

    def _run(self, arrays: Sequence[object], calls: Sequence[_Call]) -> tuple[Array, ...]:
        given = self._checked(arrays)
        values: list[Any] = [*given]
        for run, inputs, dying in calls:
            values += run(*[values[place] for place in inputs])
            for place in dying:  # memory that nothing reads any more is for others
                values[place] = None
        return self._apart(given, values)

    def _checked(self, arrays: Sequence[object]) -> Sequence[Array]:
        """The arguments as they are, or converted; InputError names one that does not fit."""
        if len(arrays) == len(self._leaves):
            for leaf, array in zip(self._leaves, arrays, strict=True):
                if leaf is None or type(array) is not np.ndarray or array.dtype is not leaf[0]:
                    break
                if array.shape != leaf[1] or not array.flags.c_contiguous:
                    break
            else:
                return arrays  # type: ignore[return-value]
        return check_arrays(self._parameters, arrays)

    def _apart(self, given: Sequence[Array], values: Sequence[Array]) -> tuple[Array, ...]:
        """The results, none of them in memory of an argument, of a constant, or of another one."""
        results: list[Array] = []
        taken = set[int]()
        for place in self._results:
            if not isinstance(place, int):
                results.append(place.copy())
                continue
            array, owned = values[place], place in self._owned and place not in taken
            taken.add(place)
            if place < len(self._parameters):
                array = used_bits(self._parameters[place], array)
            others = () if owned else (*given, *results)
            if not array.flags.carray or any(np.may_share_memory(array, other) for other in others):
                array = np.array(array, order="C", copy=True)
            results.append(array)
        return tuple(results)

    def memory(self, outputs: Sequence[Shape]) -> Memory:
        """What all parts take; temporary is what one part has in its arena, and what lies between parts meanwhile."""
        given, gives = (sum(shape.byte_size for shape in shapes) for shapes in (self._parameters, outputs))
        constants = sum(step.executable.memory.constant_bytes for step in self._steps)
        return Memory(max(self._temporary(), default=0), given, gives, constants)

    def _temporary(self) -> Iterator[int]:
        """The temporary bytes in each step."""
        lying: dict[int, int] = {}
        ends = {place for place in self._results if isinstance(place, int)}
        for step in self._steps:
            sizes = [shape.byte_size for shape in step.executable.outputs]
            lying.update((place, size) for place, size in zip(step.outputs, sizes, strict=True) if place not in ends)
            yield sum(lying.values()) + step.executable.memory.arena_bytes
            for place in step.dying:
                lying.pop(place, None)


def _on(executable: Executable, device: Device) -> Callable[..., tuple[Array, ...]]:
    """Runs a part as a device, where its backend knows of any."""
    work = executable.work
    return executable.run if work is None else lambda *arrays: work(device, arrays)
