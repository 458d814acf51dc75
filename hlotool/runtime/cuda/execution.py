"""Running a program of launches on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hlotool.codegen.launches import Ask, Branch, Call, Launch, LaunchProgram, Loop, Move, Multiply, Operation, Place
from hlotool.ir import dtype_of
from hlotool.runtime.callback import nested
from hlotool.runtime.custom_calls import Site, site_of

__all__ = ["Device", "Recording", "Session", "executor"]

Array = npt.NDArray[Any]


class Session(Protocol):
    """One execution on a device: its memory, and what is done there, in order."""

    def take(self, size: int) -> int:
        """The address of fresh memory, which is given back at the end of the session."""

    def write(self, address: int, array: Array) -> None:
        """Copy an array there."""

    def read(self, address: int, array: Array) -> None:
        """Copy what lies there to a dense array, once all that was asked for before is done."""

    def move(self, target: int, source: int, size: int) -> None:
        """Copy bytes within the device."""

    def launch(self, function: str, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        """Run a grid."""

    def multiply(self, product: Multiply, left: int, right: int, result: int) -> bool:
        """Let a library multiply matrices at these addresses; whether there is one."""


class Recording(Protocol):
    """What a session did once, to be done again: with one launch, in memory of its own, one execution after the other.
    """

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Copy arrays to the first pieces of memory, do all, and copy from the next ones."""


class Device(Protocol):
    """What holds a program's code and can run it."""

    def session(self) -> AbstractContextManager[Session]:
        """Begin an execution."""

    def record(
        self, sizes: Sequence[int], constants: Array, body: Callable[[Session, Sequence[int]], None]
    ) -> Recording | None:
        """Record what `body` does in memory of so many bytes each, and with the constants, which come last; None where
        a device has nothing to gain."""


def executor(program: LaunchProgram, device: Device) -> Callable[[Sequence[Array]], tuple[Array, ...]]:
    """The function that runs `program`, whose code `device` holds, on dense arrays of its parameters' shapes."""

    sites = [site_of(call.instruction) for call in program.host_calls]
    idle: SimpleQueue[Recording] = SimpleQueue()

    def recorded(arrays: Sequence[Array], results: Sequence[Array]) -> bool:
        """Run by a recording that no other thread uses, if there are such."""
        try:
            recording: Recording | None = idle.get_nowait()
        except Empty:
            sizes = *(array.nbytes for array in (*arrays, *results)), program.arena_bytes
            recording = device.record(sizes, program.constants, partial(_replayed, program.at_once or ()))
        if recording is None:
            return False
        recording.run(arrays, results)
        idle.put(recording)
        return True

    def run(arrays: Sequence[Array]) -> tuple[Array, ...]:
        results = [np.empty(shape.dimensions, dtype_of(shape.element_type)) for shape in program.outputs]
        if program.at_once is not None and recorded(arrays, results):
            return tuple(results)
        with device.session() as session:
            inputs = [_written(session, array) for array in arrays]
            outputs = [session.take(result.nbytes) for result in results]
            frame = [*inputs, *outputs, session.take(program.arena_bytes), _written(session, program.constants)]
            _run(program, sites, session, program.routines[program.entry], frame)
            for result, address in zip(results, outputs, strict=True):
                session.read(address, result)
        return tuple(results)

    return run


def _multiply(session: Session, product: Multiply, at: Callable[[Place], int]) -> None:
    places = (at(matrix.place) for matrix in (product.left, product.right, product.result))
    if not session.multiply(product, *places):
        for launch in product.otherwise:
            arguments = [at(place) for place in launch.arguments]
            session.launch(launch.function, launch.blocks, launch.threads, arguments)


def _replayed(operations: Sequence[Launch | Move | Multiply], session: Session, frame: Sequence[int]) -> None:
    """Do operations, one after the other, on places of a frame."""

    def at(place: Place) -> int:
        return frame[place.word] + place.start

    for operation in operations:
        match operation:
            case Launch(function, blocks, threads, arguments):
                session.launch(function, blocks, threads, [at(place) for place in arguments])
            case Move(source, target, size):
                session.move(at(target), at(source), size)
            case Multiply():
                _multiply(session, operation, at)


def _written(session: Session, array: Array) -> int:
    address = session.take(array.nbytes)
    session.write(address, array)
    return address


def _run(
    program: LaunchProgram, sites: Sequence[Site], session: Session, operations: Sequence[Operation],
    frame: Sequence[int],
) -> None:  # fmt: skip
    def at(place: Place) -> int:
        return frame[place.word] + place.start

    def number(place: Place, dtype: npt.DTypeLike) -> int:
        found = np.empty((), dtype)
        session.read(at(place), found)
        return int(found)

    def follow(operations: Sequence[Operation], frame: Sequence[int]) -> None:
        _run(program, sites, session, operations, frame)

    for operation in operations:
        match operation:
            case Launch() | Move() | Multiply():
                _replayed([operation], session, frame)
            case Loop(body=body, trips=int(trips)):
                for _ in range(trips):
                    follow(body, frame)
            case Loop(condition, predicate, body):
                follow(condition, frame)
                while number(predicate, np.uint8):
                    follow(body, frame)
                    follow(condition, frame)
            case Branch(selector, is_byte, branches):
                chosen = int(not number(selector, np.uint8)) if is_byte else number(selector, np.int32)
                follow(branches[chosen if 0 <= chosen < len(branches) else -1], frame)
            case Call(routine, arguments):
                follow(program.routines[routine], [at(place) for place in arguments])
            case Ask(call, arguments):
                _ask(session, sites[call], [at(place) for place in arguments])


def _ask(session: Session, site: Site, addresses: Sequence[int]) -> None:
    """Let Python compute the results of an instruction from its operands."""
    operands, outputs = site.leaves
    inputs = []
    for (dtype, shape), address in zip(operands, addresses, strict=False):
        inputs.append(np.empty(shape, dtype))
        session.read(address, inputs[-1])
    with nested():
        values = site.perform(inputs, [np.empty(shape, dtype) for dtype, shape in outputs])
    for (dtype, shape), value, address in zip(outputs, values, addresses[len(operands) :], strict=True):
        session.write(address, np.ascontiguousarray(np.asarray(value, dtype).reshape(shape)))
