"""A kernel as a grid: blocks that know nothing of each other, each of as many threads.

A kernel is written once, as a row of *phases*.  What stands in a phase is done by every thread for itself; at the end
of a phase the threads of a block wait for each other, so that what one of them left in shared memory is there for all.
What stands between phases is the same for the whole block: it may open loops around phases, or load what all need.
What a thread keeps from one phase to a later one is `Private`.

That gives two texts.  For a chip a phase is what its threads run, between two barriers, and what is private are
registers.  To look at the numbers without a chip, the same kernel is a step of this processor whose tasks are blocks:
there a phase is a loop over the threads of the block, and what is private an array with an element for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.arguments import begin_tasks
from hlotool.codegen.llvm.arrays import aligned
from hlotool.codegen.llvm.control import allocate, begin_loop
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Vector, choose, number
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.loops.nodes import Node, Scratch
from hlotool.codegen.nvptx.chip import Chip
from hlotool.lazy_dataclass import dataclass

__all__ = ["DeviceGrid", "EmulatedGrid", "Grid", "Private", "arguments", "open_grid"]


@dataclass(frozen=True, slots=True)
class Private:
    """`count` values of LLVM type `kind` that every thread has for itself, from `place` on."""

    place: Ptr
    kind: str
    count: int


class Grid:
    """A grid that is being written: `blocks` blocks of `threads` threads; `block` is the number of the running one."""

    def __init__(self, f: Function, name: str, chip: Chip, blocks: int, threads: int) -> None:
        self.f = f
        self.name = name
        self.chip = chip
        self.blocks = blocks
        self.threads = threads
        self.shared_bytes = 0
        self.block: Index = 0
        self._rooms: list[str] = []

    def argument(self, slot: int) -> Ptr:
        """The address of a buffer."""
        raise NotImplementedError

    @contextmanager
    def phase(self, last: bool = False) -> Iterator[Int]:
        """What every thread does; its number.  After the `last` phase nobody waits."""
        raise NotImplementedError
        yield

    def shared(self, kind: str, count: int) -> Ptr:
        """Room for `count` values of LLVM type `kind` that the threads of a block share."""
        raise NotImplementedError

    def private(self, kind: str, count: int = 1) -> Private:
        """Room for `count` values of every thread."""
        raise NotImplementedError

    def at(self, private: Private, thread: Int, position: Index = 0) -> Ptr:
        """Where a value of a thread is."""
        raise NotImplementedError

    def shifted(self, privates: Sequence[Private], distance: int) -> list[Private]:
        """The first value that the thread so many further on in the warp has of each, for every thread; beyond the end
        of the warp its own."""
        raise NotImplementedError

    def finish(self) -> Step:
        """Close the function; the step that runs it."""
        raise NotImplementedError

    def _room(self, kind: str, count: int) -> Ptr:
        """Memory that is there from the start of the function on."""
        place = allocate(self.f, kind, count, align=64)
        self._rooms.append(self.f.lines.pop())
        return place

    def _close(self) -> Step:
        self.f.lines[:0] = self._rooms
        self.f.finish()
        return Step(self.name, self.blocks, threads=self.threads)


class DeviceGrid(Grid):
    """A kernel of a chip.  Its parameters are the addresses of its buffers."""

    def __init__(self, unit: Unit, name: str, chip: Chip, blocks: int, threads: int, buffers: int) -> None:
        parameters = ", ".join(f"ptr %a{number}" for number in range(buffers))
        head = f'ptx_kernel void @{name}({parameters}) nounwind "nvvm.reqntid"="{threads}"'
        super().__init__(Function(unit, head), name, chip, blocks, threads)
        if blocks > 1:
            self.block = self._number("ctaid")
        self._thread = self._number("tid")

    def _number(self, register: str) -> Int:
        f = self.f
        narrow = Vector(f, "i32", 1, f.intrinsic("i32", f"llvm.nvvm.read.ptx.sreg.{register}.x", []))
        return narrow.resize("i64", signed=False).index()

    def argument(self, slot: int) -> Ptr:
        return Ptr(self.f, f"%a{slot}")

    @contextmanager
    def phase(self, last: bool = False) -> Iterator[Int]:
        yield self._thread
        if not last:
            self.f.intrinsic("void", "llvm.nvvm.barrier.cta.sync.aligned.all", [Vector(self.f, "i32", 1, "0")])

    def shared(self, kind: str, count: int) -> Ptr:
        name = f"shared{self.shared_bytes}_{self.name}"
        self.f.unit.shared(name, f"[{count} x {kind}] undef, align 64")
        self.shared_bytes += aligned(count * max(8, BITS[kind]) // 8)
        return Ptr(self.f, f"addrspacecast (ptr addrspace(3) @{name} to ptr)")

    def private(self, kind: str, count: int = 1) -> Private:
        return Private(self._room(kind, count), kind, count)

    def at(self, private: Private, thread: Int, position: Index = 0) -> Ptr:
        return private.place.at(private.kind, position)

    def shifted(self, privates: Sequence[Private], distance: int) -> list[Private]:
        found = []
        for private in privates:
            own = self.private(private.kind)
            own.place.store(self._down(private.place.load(private.kind), distance))
            found.append(own)
        return found

    def _down(self, value: Vector, distance: int) -> Vector:
        """The value of the thread `distance` further on, 32 bits at a time."""
        f, bits = self.f, BITS[value.element]
        raw = value.bits() if value.is_float else value
        words = max(1, bits // 32)
        wide = raw.resize(f"i{32 * words}", signed=False)
        whole = wide.like(0)
        for word in range(words):
            part = wide.lshr(32 * word).resize("i32", signed=False)
            given = [part.like(-1), part, part.like(distance), part.like(self.chip.warp - 1)]
            moved = part.named(f.intrinsic("i32", "llvm.nvvm.shfl.sync.down.i32", given))
            whole = whole | moved.resize(whole.element, signed=False).shl(32 * word)
        narrow = whole.resize(raw.element, signed=False)
        return narrow.as_float() if value.is_float else narrow

    def finish(self) -> Step:
        return self._close()


class EmulatedGrid(Grid):
    """The same as a step of this processor: blocks are tasks, and phases loops over the threads of one."""

    def __init__(self, unit: Unit, name: str, chip: Chip, blocks: int, threads: int) -> None:
        super().__init__(Function(unit, signature(name)), name, chip, blocks, threads)
        self._tasks = begin_tasks(self.f)
        self.block = self._tasks.index

    def argument(self, slot: int) -> Ptr:
        return Ptr(self.f, "%args").at("ptr", slot).load_ptr(align=8)

    @contextmanager
    def phase(self, last: bool = False) -> Iterator[Int]:
        loop = begin_loop(self.f, 0, self.threads)
        yield number(self.f, loop.index)
        loop.end()

    def shared(self, kind: str, count: int) -> Ptr:
        self.shared_bytes += aligned(count * max(8, BITS[kind]) // 8)
        return self._room(kind, count)

    def private(self, kind: str, count: int = 1) -> Private:
        return Private(self._room(kind, count * self.threads), kind, count)

    def at(self, private: Private, thread: Int, position: Index = 0) -> Ptr:
        return private.place.at(private.kind, thread * private.count).at(private.kind, position)

    def shifted(self, privates: Sequence[Private], distance: int) -> list[Private]:
        warp = self.chip.warp
        found = [self.private(private.kind) for private in privates]
        with self.phase() as thread:
            further = thread.plus(distance)
            inside = ((thread & (warp - 1)) + distance) < warp
            source = number(self.f, choose(inside, further, thread))
            for own, private in zip(found, privates, strict=True):
                self.at(own, thread).store(self.at(private, source).load(private.kind))
        return found

    def finish(self) -> Step:
        self._tasks.end()
        return self._close()


def open_grid(unit: Unit, name: str, chip: Chip, blocks: int, threads: int, buffers: int) -> Grid:
    """Open the kernel `name`, which takes the addresses of so many buffers."""
    if chip.emulated:
        return EmulatedGrid(unit, name, chip, blocks, threads)
    return DeviceGrid(unit, name, chip, blocks, threads, buffers)


def arguments(grid: Grid, nodes: Sequence[Node], scratch: int) -> dict[object, Ptr]:
    """Where the buffers of `nodes` are; argument number `scratch` is that of partial results."""
    bases: dict[object, Ptr] = {}
    for node in nodes:
        if node.kind in ("load", "store") and node.slot not in bases:
            if isinstance(node.slot, int):
                bases[node.slot] = grid.argument(node.slot)
            elif isinstance(node.slot, Scratch):
                bases[node.slot] = grid.argument(scratch) + node.slot.offset
    return bases
