"""The steps of a program: what runs an instruction of a computation that is not the body of a fusion.

That is a kernel of its own, arithmetic in line, the runtime, a loop or conditional around other steps, or a call of a
function (`Routine`) with steps of its own, which look like those of a kernel to others.  Others are only names of what
is somewhere already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from hlotool.analysis.inlining import can_inline
from hlotool.analysis.views import is_view
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.plan.buffers import ALIASES, branch_computations
from hlotool.codegen.plan.units import Piece
from hlotool.codegen.plan.values import Assignment, Value, array_leaves
from hlotool.ir import OPCODES, Computation, Instruction, element_type
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "CONTROL", "HOST", "NO_KERNEL", "HostCall", "KernelUse", "Routine", "Steps", "TaskLoop", "called", "inside",
    "is_element", "is_scalar_code", "is_there", "last_position", "needs_kernel",
]  # fmt: skip

CONTROL = frozenset({"while", "conditional"})

NO_KERNEL = ALIASES | CONTROL | {"parameter", "constant", "call"}

HOST = frozenset(name for name, row in OPCODES.items() if row.group in ("collective", "feed", "custom"))
"""Opcodes that the runtime carries out: custom calls, collectives, device numbers, queues."""


@dataclass(frozen=True, slots=True)
class Routine:
    """The function of a computation that calls run, as its callers see it.

    Its arguments are the arrays of operands and results, `arena_bytes` of memory and the block of constants.  If it
    `asks` the runtime for something it keeps its place in the order; if it `forks` it gives work to other threads.
    """

    function: str
    arena_bytes: int
    cost: float
    asks: bool
    forks: bool


@dataclass(frozen=True, slots=True)
class HostCall:
    """What the native code leaves to the runtime: it calls ``i64 @hlo_host(ptr @symbol, ptr table)`` with a kernel's
    argument table, and goes on when that gives `COMPLETE` (`hlotool.codegen.llvm.polling`)."""

    symbol: str
    instruction: Instruction


@dataclass(frozen=True, slots=True)
class KernelUse:
    """Which kernel runs an instruction (for reports)."""

    instruction: str
    kernel: str
    cost: float
    parallel: bool


@dataclass(frozen=True, slots=True)
class TaskLoop:
    """A loop with one `kernel`, and the values of single elements that each task has for itself, its `own`."""

    kernel: Instruction
    own: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of computation `entry` and of its loops and branches, whose order and threads are still to be chosen.

    `assignment` says where values are; `kernels` are what runs instructions, `scratch` the memory of a kernel's own,
    `routines` the functions that calls run.  `task_loops` are loops that as a whole are divided among threads;
    `small_loops` those that are functions, each with the texts of its kernels (`small_loops`).
    """

    entry: Computation
    assignment: Assignment
    kernels: Mapping[Instruction, Kernel]
    scratch: Mapping[Instruction, Value]
    task_loops: Mapping[Instruction, TaskLoop]
    routines: Mapping[Instruction, Routine] = field(default_factory=dict)
    small_loops: Mapping[Instruction, Sequence[Piece]] = field(default_factory=dict)

    def runs(self, instruction: Instruction) -> bool:
        """Whether there is something to do for an instruction."""
        if instruction.opcode in ALIASES or instruction.opcode in ("parameter", "constant"):
            return False
        return instruction not in self.assignment.unread

    def stays(self, instruction: Instruction) -> bool:
        """Whether an instruction asks the runtime for something, which has an order and may end the execution."""
        if instruction in self.routines:
            return self.routines[instruction].asks
        return instruction.opcode in HOST


def is_scalar_code(instruction: Instruction) -> bool:
    """Whether an instruction is arithmetic on single elements, emitted in line instead of as a kernel."""
    shapes = [instruction.shape, *(o.shape for o in instruction.operands)]
    if not all(s.is_array and s.size == 1 and not element_type(s.element_type).is_complex for s in shapes):
        return False
    if instruction.opcode == "fusion":
        return can_inline(instruction.attributes["calls"])
    if instruction.opcode == "bitcast-convert":
        return instruction.operands[0].shape.rank == instruction.shape.rank
    return instruction.has("elementwise") or instruction.opcode in ("broadcast", "copy", "transpose")


def is_element(instruction: Instruction) -> bool:
    """Whether an instruction takes one element out of an array, which is loaded in line."""
    if instruction.opcode not in ("slice", "dynamic-slice") or instruction.shape.size != 1:
        return False
    number = not element_type(instruction.shape.element_type).is_complex
    return number and all(not o.shape.rank for o in instruction.operands[1:])


def needs_kernel(instruction: Instruction, in_line: bool = True) -> bool:
    """Whether an instruction is run by a kernel of its own; single elements and places are found `in_line`, or not."""
    if instruction.opcode in NO_KERNEL or instruction.opcode in HOST:
        return False
    if in_line and (is_scalar_code(instruction) or is_element(instruction) or is_view(instruction)):
        return False
    leaves = array_leaves(instruction.shape)
    return not leaves or any(leaf.size for leaf in leaves)  # without any result, it is there for its effect


def is_there(instruction: Instruction, assignment: Assignment) -> bool:
    """Whether an instruction is a view, a copy of what it overwrites, unread, or joins what is side by side."""
    if instruction in assignment.views or instruction in assignment.unread:
        return True
    there = assignment.there.get(instruction, frozenset())
    if instruction.opcode == "concatenate":
        return all(n in there or not o.shape.size for n, o in enumerate(instruction.operands))
    if there:
        return True
    return instruction.opcode == "copy" and instruction in assignment.in_place


def called(instruction: Instruction) -> tuple[Computation, ...]:
    """The computations of a loop or conditional, in order; those of a kernel are no steps, and what a call runs has
    steps of its own."""
    match instruction.opcode:
        case "while":
            return instruction.attributes["condition"], instruction.attributes["body"]
        case "conditional":
            return branch_computations(instruction)
    return ()


def inside(instruction: Instruction) -> Iterator[Instruction]:
    """All instructions inside of a loop or conditional."""
    for computation in called(instruction):
        for inner in computation:
            yield inner
            yield from inside(inner)


def last_position(instruction: Instruction, assignment: Assignment) -> int:
    """The last position that belongs to an instruction, on the time line of buffer assignment."""
    if instruction.opcode not in CONTROL:
        return assignment.positions[instruction]
    *_, last = called(instruction)[-1]
    return last_position(last, assignment) + 4
