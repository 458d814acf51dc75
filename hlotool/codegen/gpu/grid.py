"""A kernel as a grid: blocks that know nothing of each other, each of as many threads.

A kernel is written once, as a row of *phases*.  What stands in a phase is done by every thread for itself; at the end
of a phase the threads of a block wait for each other, so that what one of them left in shared memory is there for all.
What stands between phases is the same for the whole block: it may open loops around phases, or load what all need.
What a thread keeps from one phase to a later one is `Private`.

That gives two texts.  For a chip a phase is what its threads run, between two barriers, and what is private are
registers.  To look at the numbers without a chip, the same kernel is a step of this processor whose tasks are blocks:
there a phase is a loop over the threads of the block, and what is private an array with an element for each of them.
A phase that is right goes through the threads in any order: emulated chips differ in nothing but that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from hlotool.codegen.gpu.chip import Chip, permutation
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.arguments import begin_tasks
from hlotool.codegen.llvm.arrays import aligned
from hlotool.codegen.llvm.control import allocate, begin_loop, flat
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Vector, choose, number
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.loops.nodes import Node, Scratch
from hlotool.lazy_dataclass import dataclass

__all__ = ["Grid", "Private", "arguments", "open_grid"]


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
        self._over = False

    def argument(self, slot: int) -> Ptr:
        """The address of a buffer."""
        raise NotImplementedError

    @contextmanager
    def phase(self, last: bool = False, alone: bool = False) -> Iterator[Int]:
        """What every thread does; its number.

        Nobody waits after the `last` phase, which no other one follows, nor after one in which threads are `alone`:
        they touch nothing but what is private.
        """
        if self._over:
            raise RuntimeError(f"{self.name}: a phase follows the last one, after which nobody waits")
        self._over = last
        with self._phase(waits=not (last or alone)) as thread:
            yield thread

    def _phase(self, waits: bool) -> AbstractContextManager[Int]:
        """A phase, at the end of which threads wait for each other or do not."""
        raise NotImplementedError

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
        begun = len(self.f.lines)
        place = allocate(self.f, kind, count, align=64)
        self._rooms += self.f.lines[begun:]
        del self.f.lines[begun:]
        return place

    def _close(self) -> Step:
        self.f.lines[:0] = self._rooms
        self.f.finish()
        return Step(self.name, self.blocks, threads=self.threads)


class _DeviceGrid(Grid):
    """A kernel of a chip.  Its parameters are the addresses of its buffers."""

    head: str
    """Its definition line, of `name`, `parameters` and `threads`."""

    numbers: tuple[str, str]
    """The intrinsics that give the numbers of a block and of a thread in it."""

    parameter = "ptr"
    """The type of its parameters."""

    def __init__(self, unit: Unit, name: str, chip: Chip, blocks: int, threads: int, buffers: int) -> None:
        parameters = ", ".join(f"{self.parameter} %a{number}" for number in range(buffers))
        head = self.head.format(name=name, parameters=parameters, threads=threads)
        super().__init__(Function(unit, head), name, chip, blocks, threads)
        block, thread = self.numbers
        if blocks > 1:
            self.block = self._number(block)
        self._thread = self._number(thread)

    def _number(self, intrinsic: str) -> Int:
        f = self.f
        narrow = Vector(f, "i32", 1, f.intrinsic("i32", intrinsic, []))
        return narrow.resize("i64", signed=False).index()

    def _wait(self) -> None:
        """Wait for the threads of the block."""
        raise NotImplementedError

    def _moved(self, word: Vector, distance: int) -> Vector:
        """The word of 32 bits that the thread `distance` further on in the warp has."""
        raise NotImplementedError

    def argument(self, slot: int) -> Ptr:
        return Ptr(self.f, f"%a{slot}")

    @contextmanager
    def _phase(self, waits: bool) -> Iterator[Int]:
        yield self._thread
        if waits:
            self._wait()

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
        bits = BITS[value.element]
        raw = value.bits() if value.is_float else value
        words = max(1, bits // 32)
        wide = raw.resize(f"i{32 * words}", signed=False)
        whole = wide.like(0)
        for word in range(words):
            moved = self._moved(wide.lshr(32 * word).resize("i32", signed=False), distance)
            whole = whole | moved.resize(whole.element, signed=False).shl(32 * word)
        narrow = whole.resize(raw.element, signed=False)
        return narrow.as_float() if value.is_float else narrow

    def finish(self) -> Step:
        return self._close()


class _NvidiaGrid(_DeviceGrid):
    """A kernel in the words of LLVM's "User Guide for NVPTX Back-end"."""

    head = 'ptx_kernel void @{name}({parameters}) nounwind "nvvm.reqntid"="{threads}"'
    numbers = "llvm.nvvm.read.ptx.sreg.ctaid.x", "llvm.nvvm.read.ptx.sreg.tid.x"

    def _wait(self) -> None:
        self.f.intrinsic("void", "llvm.nvvm.barrier.cta.sync.aligned.all", [Vector(self.f, "i32", 1, "0")])

    def _moved(self, word: Vector, distance: int) -> Vector:
        given = [word.like(-1), word, word.like(distance), word.like(self.chip.warp - 1)]
        return word.named(self.f.intrinsic("i32", "llvm.nvvm.shfl.sync.down.i32", given))


class _AmdGrid(_DeviceGrid):
    """A kernel in the words of LLVM's "User Guide for AMDGPU Backend".  Buffers are said to lie in the memory of the
    device, which is quicker to reach than an address that may be one of a block."""

    head = 'amdgpu_kernel void @{name}({parameters}) nounwind "amdgpu-flat-work-group-size"="{threads},{threads}"'
    numbers = "llvm.amdgcn.workgroup.id.x", "llvm.amdgcn.workitem.id.x"
    parameter = "ptr addrspace(1)"

    def argument(self, slot: int) -> Ptr:
        return flat(self.f, f"%a{slot}", 1)

    def _wait(self) -> None:
        self.f.fence("release", "workgroup")
        self.f.intrinsic("void", "llvm.amdgcn.s.barrier", [])
        self.f.fence("acquire", "workgroup")

    def _moved(self, word: Vector, distance: int) -> Vector:
        warp, lane = self.chip.warp, self._thread & (self.chip.warp - 1)
        source = number(self.f, choose((lane + distance) < warp, lane.plus(distance), lane))
        given = [source.vector().resize("i32", signed=False).shl(2), word]  # its place in bytes
        return word.named(self.f.intrinsic("i32", "llvm.amdgcn.ds.bpermute", given))


class _EmulatedGrid(Grid):
    """The same as a step of this processor: blocks are tasks, and phases loops over the threads of one."""

    def __init__(self, unit: Unit, name: str, chip: Chip, blocks: int, threads: int) -> None:
        super().__init__(Function(unit, signature(name)), name, chip, blocks, threads)
        self._tasks = begin_tasks(self.f)
        self.block = self._tasks.index

    def argument(self, slot: int) -> Ptr:
        return Ptr(self.f, "%args").at("ptr", slot).load_ptr(align=8)

    @contextmanager
    def _phase(self, waits: bool) -> Iterator[Int]:
        loop = begin_loop(self.f, 0, self.threads)
        stride, first = permutation(self.chip.order, self.threads)
        yield number(self.f, loop.index if stride == 1 else (loop.index * stride + first) % self.threads)
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
        return _EmulatedGrid(unit, name, chip, blocks, threads)
    made = _AmdGrid if chip.is_amd else _NvidiaGrid
    return made(unit, name, chip, blocks, threads, buffers)


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
