"""A program of launches: what is done for a module by a device that runs kernels one after the other.

The entry, and every computation that calls run, is a list of operations on a *frame* of addresses: of an entry its
parameter leaves, its results, the arena and the constants; of another computation the arguments of the call, its
results, its arena and the constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.codegen.plan.steps import HostCall, KernelUse
from hlotool.ir import Shape
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "Ask", "Branch", "Call", "Launch", "LaunchProgram", "Loop", "Matrix", "Move", "Multiply", "Operation", "Place",
    "launches", "manifest", "multiplies", "straight",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A place in memory: `start` bytes behind the address in word number `word` of the frame."""

    word: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """Run the grid `function` of so many `blocks` of `threads` on some buffers, for an instruction."""

    function: str
    blocks: int
    threads: int
    arguments: tuple[Place, ...]
    instruction: str


@dataclass(frozen=True, slots=True)
class Move:
    """Copy so many bytes."""

    source: Place
    target: Place
    size: int


@dataclass(frozen=True, slots=True)
class Loop:
    """As long as the byte at `predicate` is not zero after `condition`, do `body`: that is `trips` times, where it is
    known, and nobody need look at the byte."""

    condition: tuple[Operation, ...]
    predicate: Place
    body: tuple[Operation, ...]
    trips: int | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """Do one of `branches`, as ``conditional`` does.

    At `selector` is the number of the branch, an s32; a number that no branch has stands for the last one.  If it
    `is_byte`, it is a pred: true stands for the first branch, false for the second.
    """

    selector: Place
    is_byte: bool
    branches: tuple[tuple[Operation, ...], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """Do the operations of `routine`, in a frame of the addresses `arguments`."""

    routine: str
    arguments: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Make number `call` of the program's host calls; `arguments` are its operands, then its results."""

    call: int
    arguments: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Where a matrix lies, in rows unless it is `turned`, with so many elements from one row (or column) to the next,
    and from one item of a batch to the next."""

    place: Place
    turned: bool
    pitch: int
    apart: int


@dataclass(frozen=True, slots=True)
class Multiply:
    """Let a library multiply matrices of m x k and k x n elements of type `factor`, for all of a batch, to `result`, of
    elements of type `total`; if there is none, do `otherwise`.  Factors are rounded already where they are `tf32`."""

    left: Matrix
    right: Matrix
    result: Matrix
    sizes: tuple[int, int, int, int]  # batch, m, n, k
    factor: str
    total: str
    tf32: bool
    otherwise: tuple[Launch, ...]
    instruction: str


Operation: TypeAlias = Launch | Move | Multiply | Loop | Branch | Call | Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProgram:
    """`units` are texts of LLVM IR for the device, `routines` the lists of operations, `entry` the name of the first.

    `parameters`, `outputs`, `arena_bytes` and `constants` are what the frame of the entry has the addresses of;
    `host_calls` are instructions that no device can carry out alone; `kernels` is for reports.  If the host need not
    look at anything in between, the entry does `at_once`, on places of its frame.
    """

    units: tuple[str, ...]
    routines: Mapping[str, tuple[Operation, ...]]
    entry: str
    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    arena_bytes: int
    constants: npt.NDArray[np.uint8]
    host_calls: tuple[HostCall, ...]
    kernels: tuple[KernelUse, ...]
    at_once: tuple[Launch | Move | Multiply, ...] | None = None


def straight(
    routines: Mapping[str, Sequence[Operation]], entry: str, words: int, most: int
) -> tuple[Launch | Move | Multiply, ...] | None:
    """All that the routine `entry` does, one after the other, on places of its frame of so many words; None where the
    host has to look at something first, or where that are more operations than `most`."""
    found: list[Launch | Move | Multiply] = []

    def follow(operations: Sequence[Operation], frame: Sequence[Place]) -> bool:
        def at(place: Place) -> Place:
            base = frame[place.word]
            return Place(base.word, base.start + place.start)

        for operation in operations:
            if len(found) > most:
                return False
            match operation:
                case Launch():
                    found.append(replace(operation, arguments=tuple(map(at, operation.arguments))))
                case Move(source, target, size):
                    found.append(Move(at(source), at(target), size))
                case Multiply():
                    found.append(_placed(operation, at))
                case Call(routine, arguments):
                    if not follow(routines[routine], list(map(at, arguments))):
                        return False
                case Loop(trips=int(trips)):
                    if not all(follow(operation.body, frame) for _ in range(trips if operation.body else 0)):
                        return False
                case _:
                    return False
        return len(found) <= most

    return tuple(found) if follow(routines[entry], [Place(word) for word in range(words)]) else None


def _placed(product: Multiply, at: Callable[[Place], Place]) -> Multiply:
    """The same with other places."""
    left, right, result = (replace(m, place=at(m.place)) for m in (product.left, product.right, product.result))
    otherwise = tuple(replace(launch, arguments=tuple(map(at, launch.arguments))) for launch in product.otherwise)
    return replace(product, left=left, right=right, result=result, otherwise=otherwise)


def launches(operations: Sequence[Operation]) -> Iterator[Launch]:
    """All launches of a list, those of its loops and branches too."""
    for operation in operations:
        match operation:
            case Launch():
                yield operation
            case Multiply():
                yield from operation.otherwise
            case Loop():
                yield from launches((*operation.condition, *operation.body))
            case Branch():
                for branch in operation.branches:
                    yield from launches(branch)


def multiplies(operations: Sequence[Operation]) -> bool:
    """Whether a library may multiply something in a list, its loops and branches too."""
    for operation in operations:
        match operation:
            case Multiply():
                return True
            case Loop():
                found = multiplies((*operation.condition, *operation.body))
            case Branch():
                found = any(map(multiplies, operation.branches))
            case _:
                found = False
        if found:
            return True
    return False


def manifest(program: LaunchProgram) -> dict[str, Any]:
    """A program of launches as a value of JSON, for those who run its kernels themselves."""
    return {
        "schema_version": 1,
        "kind": "launches",
        "entry": program.entry,
        "parameters": [str(shape) for shape in program.parameters],
        "outputs": [str(shape) for shape in program.outputs],
        "arena_bytes": program.arena_bytes,
        "constant_bytes": program.constants.nbytes,
        "at_once": program.at_once is not None,
        "host_calls": [call.instruction.name for call in program.host_calls],
        "routines": {name: _listed(operations) for name, operations in program.routines.items()},
    }


def _listed(operations: Sequence[Operation]) -> list[dict[str, Any]]:
    return [_described(operation) for operation in operations]


def _described(operation: Operation) -> dict[str, Any]:
    match operation:
        case Launch(function, blocks, threads, arguments, instruction):
            return {
                "do": "launch", "kernel": function, "blocks": blocks, "threads": threads,
                "arguments": [_at(place) for place in arguments], "instruction": instruction,
            }  # fmt: skip
        case Move(source, target, size):
            return {"do": "move", "source": _at(source), "target": _at(target), "bytes": size}
        case Multiply():
            matrices = {name: _matrix(getattr(operation, name)) for name in ("left", "right", "result")}
            batch, m, n, k = operation.sizes
            return {
                "do": "multiply", **matrices, "batch": batch, "m": m, "n": n, "k": k, "factor": operation.factor,
                "total": operation.total, "tf32": operation.tf32, "otherwise": _listed(operation.otherwise),
                "instruction": operation.instruction,
            }  # fmt: skip
        case Loop(condition, predicate, body, trips):
            found = {"do": "loop", "condition": _listed(condition), "while": _at(predicate), "body": _listed(body)}
            return found if trips is None else {**found, "trips": trips}
        case Branch(selector, is_byte, branches):
            kind = "pred" if is_byte else "s32"
            return {"do": "branch", "by": _at(selector), "type": kind, "branches": list(map(_listed, branches))}
        case Call(routine, arguments):
            return {"do": "call", "routine": routine, "arguments": [_at(place) for place in arguments]}
        case Ask(call, arguments):
            return {"do": "ask", "call": call, "arguments": [_at(place) for place in arguments]}


def _matrix(matrix: Matrix) -> dict[str, Any]:
    return {"at": _at(matrix.place), "turned": matrix.turned, "pitch": matrix.pitch, "apart": matrix.apart}


def _at(place: Place) -> list[int]:
    """A word of the frame, and the bytes from where that says."""
    return [place.word, place.start]
