"""The arguments of a kernel's steps: where its buffers are, and the coordinates of its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hlotool.codegen.kernel import Kernel, Step, signature
from hlotool.codegen.llvm.control import Loop, begin_loop
from hlotool.codegen.llvm.elements import Element
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.values import Index, Int, Ptr, minimum
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "Place", "argument", "begin_tasks", "count_in_block", "empty_kernel", "pass_status", "step_arguments",
    "step_function", "unravel", "variable",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """An array in memory: `start` bytes into buffer `slot` of the kernel's arguments."""

    slot: int
    start: int
    element: Element


def argument(f: Function, place: Place) -> Ptr:
    """The pointer to `place` in the kernel's arguments."""
    return Ptr(f, "%args").slot(place.slot).load_ptr() + place.start


def step_function(unit: Unit, name: str, pointers: int) -> tuple[Function, list[Ptr]]:
    """Open step function `name`; return it and its first `pointers` arguments."""
    return step_arguments(unit, name, range(pointers))


def step_arguments(unit: Unit, name: str, numbers: Iterable[int]) -> tuple[Function, list[Ptr]]:
    """Open step function `name`; return it and the arguments with these `numbers`."""
    f = Function(unit, signature(name))
    return f, [Ptr(f, "%args").slot(number).load_ptr(align=8) for number in numbers]


def variable(f: Function, name: str) -> Ptr:
    """Where the variable of a kernel is (`Unit.variable`)."""
    return Ptr(f, f.let(f"call ptr @{name}(ptr %args)"))


def begin_tasks(f: Function, at_least_once: bool = False) -> Loop[()]:
    """The loop of a step function over its tasks."""
    return begin_loop(f, Int(f, "%begin"), Int(f, "%end"), at_least_once=at_least_once)


def pass_status(f: Function, place: Ptr) -> None:
    """Put the address of the execution's status ahead of `place`, for what is called with that."""
    status = Ptr(f, "%args").slot(-1).load_ptr(align=8)
    place.slot(-1).store(status, align=8)


def empty_kernel(name: str, machine: Machine) -> Kernel:
    """A kernel with nothing to do (results without elements)."""
    unit = Unit(machine)
    f, _ = step_function(unit, name, 0)
    f.finish()
    return finish_kernel(unit, [Step(name)])


def unravel(index: Index, extents: Sequence[int]) -> list[Index]:
    """The coordinates of flat row-major `index`; dimensions of extent 1 give 0."""
    found: list[Index] = []
    inner = 1
    last = next((i for i, extent in enumerate(extents) if extent > 1), -1)
    for at in range(len(extents) - 1, -1, -1):
        if extents[at] == 1:
            found.append(0)
            continue
        value = index // inner
        found.append(value if at == last else value % extents[at])
        inner *= extents[at]
    return found[::-1]


def count_in_block(block: Index, size: int, total: int, blocks: int) -> Index:
    """How many of `total` things lie in block `block` of `blocks`, each for `size` of them."""
    return size if total == blocks * size else minimum(total - block * size, size)
