"""The kernel of a Fourier transform while its steps are gathered: their functions, and the scratch that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.codegen.algorithms.fourier import Line, Roots, Rows
from hlotool.codegen.algorithms.items import TASKS
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.arguments import begin_tasks
from hlotool.codegen.llvm.arrays import aligned, share
from hlotool.codegen.llvm.control import begin_loop, define, stop_early
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Value
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass

__all__ = ["Buffer", "Code", "Steps"]

Buffer = tuple[int, int]
"""(argument number, bytes from there)."""


@dataclass(frozen=True, slots=True)
class Code:
    """A function that works on buffers of numbers of LLVM type `kind`, while it is written."""

    f: Function
    kind: str
    pointer: Callable[[Buffer], Ptr]

    def at(self, buffer: Buffer, offset: Index = 0) -> Ptr:
        """`offset` real numbers into a buffer."""
        return self.pointer(buffer).at(self.kind, offset)

    def line(self, buffer: Buffer, offset: Index = 0) -> Line:
        """The complex numbers from there on."""
        return Line(self.at(buffer, offset), self.kind)

    def rows(self, pointer: Ptr, lanes: int) -> Rows:
        return Rows(pointer, self.kind, lanes)


class Steps:
    """Steps being gathered, for numbers with real parts of LLVM type `kind`."""

    def __init__(self, name: str, machine: Machine, kind: str) -> None:
        self.unit = Unit(machine)
        self.name, self.kind = name, kind
        self.lanes = machine.lanes(BITS[kind])
        self.complex_bytes = BITS[kind] // 4
        self.steps: list[Step] = []
        self.scratch = 0
        self.names: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """A name that does not tell what else there is, so that other kernels have the same for the same."""
        self.names[hint] = self.names.get(hint, 0) + 1
        return f"{hint}{f'_{self.names[hint]}' if self.names[hint] > 1 else ''}_{self.name}"

    def reserve(self, size: int) -> Buffer:
        """`size` bytes of scratch."""
        start = self.scratch
        self.scratch += aligned(size)
        return 2, start

    def roots(self, n: int, sign: int) -> Roots:
        return Roots(self.unit, self.fresh(f"roots{n}"), n, sign, self.kind)

    def step(self, hint: str, tasks: int, cost: float, body: Callable[[Code, Index], None]) -> None:
        """A step whose `body` writes the calls of one task, given its number."""
        name = self.fresh(hint)
        f = Function(self.unit, signature(name, plumbing=True))
        pointers = [Ptr(f, "%args").slot(i).load_ptr(align=8) for i in range(3)]
        loop = begin_tasks(f)
        body(Code(f, self.kind, lambda buffer: pointers[buffer[0]] + buffer[1]), loop.index)
        loop.end()
        f.finish()
        self.steps.append(Step(name, tasks, cost))

    def routine(self, hint: str, body: Callable[[Code], Sequence[Value]]) -> Callable[..., None]:
        """A function of its own for work that does not know how much of it there is: kernels of other sizes share it.

        It is given the buffers that `body` asks for, then the parameters that `body` returns.  Where that takes long,
        it looks whether to go on.  Returns how it is called: with the caller's `Code` and values for the parameters.
        """
        buffers: dict[Buffer, Ptr] = {}
        f = Function(self.unit, "")
        watch = Ptr(f, "%watch")
        stop_early(f, watch)
        parameters = body(Code(f, self.kind, lambda buffer: buffers.setdefault(buffer, Ptr(f, f"%p{len(buffers)}"))))
        callee = define(f, self.fresh(hint), [watch, *buffers.values(), *parameters], None)

        def call(code: Code, *values: Value | int) -> None:
            callee(code.f, Ptr(code.f, code.f.watch), *map(code.pointer, buffers), *values)

        return call

    def each_task(self, hint: str, tasks: int, cost: float, body: Callable[[Code, Index], None]) -> None:
        """A step whose tasks are calls of one routine."""

        def routine(code: Code) -> Sequence[Value]:
            task = Int(code.f, "%task")
            body(code, task)
            return [task]

        self.step(hint, tasks, cost, self.routine(f"{hint}_task", routine))

    def each_item(
        self, hint: str, items: int, bytes_each: int, cost: float, body: Callable[[Code, Index, Ptr], None]
    ) -> None:
        """A step over `items`, each with `bytes_each` bytes of scratch: body(code, item, scratch)."""
        bytes_each = aligned(bytes_each)
        tasks = min(items, TASKS)
        slots = self.reserve(tasks * bytes_each)

        def routine(code: Code) -> Sequence[Value]:
            item, own = Int(code.f, "%item"), Ptr(code.f, "%own")
            body(code, item, own)
            return [item, own]

        call = self.routine(f"{hint}_item", routine)

        def run(code: Code, task: Index) -> None:
            own = code.at(slots) + task * bytes_each
            loop = begin_loop(code.f, *share(task, items, tasks))
            call(code, loop.index, own)
            loop.end()

        self.step(hint, tasks, cost, run)

    def each_value(self, hint: str, count: int, size: int, body: Callable[[Code, Index, Index], None]) -> None:
        """A step over `count` lines of `size` values: body(code, line, place in it)."""

        def run(code: Code, line: Index) -> None:
            loop = begin_loop(code.f, 0, size)
            body(code, line, loop.index)
            loop.end()

        self.each_task(hint, count, count * size * 2.0, run)
