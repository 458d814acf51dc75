"""Programs in parts, which run one after the other; between them go arrays, as they are.

Arrays have places: those of the arguments come first, then those that the parts make, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.evaluate.devices import Device, World
from hlotool.evaluate.interpreter import used_bits
from hlotool.ir import Literal, Module, Shape, UnsupportedError
from hlotool.ir.devices import topology_of
from hlotool.ir.effects import is_pure_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable, Memory
from hlotool.runtime.marshalling import check_arrays

__all__ = ["Place", "Step", "program_of"]

Array: TypeAlias = npt.NDArray[Any]
Place: TypeAlias = int | Literal
"""Where a result is: a place, or a constant."""


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
            return program.work(Device(World(seconds=timeout)), arrays)

    return Executable(
        module=module, parameters=tuple(parameters), outputs=tuple(outputs), memory=program.memory(outputs),
        decisions=(), run=alone if to_run else _refused, work=program.work if to_run else _refused,
        devices=topology_of(module).devices, timeout=timeout, parts=tuple([step.executable for step in steps]),
    )  # fmt: skip


class _Program:
    """Nothing in it changes: any number of threads may run it at once."""

    def __init__(self, parameters: Sequence[Shape], steps: Sequence[Step], results: Sequence[Place]) -> None:
        self._parameters, self._steps = tuple(parameters), tuple(steps)
        self._results = tuple([one if isinstance(one, int) else one.value() for one in results])
        self._owned = frozenset(place for step in steps if step.owned for place in step.outputs)

    def alone(self, *arrays: object) -> tuple[Array, ...]:
        """Run on one device with arrays alone."""
        return self._run(arrays, lambda executable, inputs: executable.run(*inputs))

    def work(self, device: Device, arrays: Sequence[object]) -> tuple[Array, ...]:
        """One device's part in a run."""

        def call(executable: Executable, inputs: Sequence[Array]) -> tuple[Array, ...]:
            return executable.run(*inputs) if executable.work is None else executable.work(device, inputs)

        return self._run(arrays, call)

    def _run(
        self, arrays: Sequence[object], call: Callable[[Executable, Sequence[Array]], tuple[Array, ...]]
    ) -> tuple[Array, ...]:
        given = check_arrays(self._parameters, arrays)
        values: dict[int, Array] = dict(enumerate(given))
        for step in self._steps:
            results = call(step.executable, [values[place] for place in step.inputs])
            values.update(zip(step.outputs, results, strict=True))
            for place in step.dying:  # memory that nothing reads any more is for others
                del values[place]
        return self._apart(given, values)

    def _apart(self, given: Sequence[Array], values: Mapping[int, Array]) -> tuple[Array, ...]:
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


def _refused(*arrays: object) -> NoReturn:
    raise UnsupportedError("this executable was compiled to be looked at: compile it with to_run")
