"""The body of a function of the entry while it is written: where values are in it, and how they come and go.

Registers, and addresses of what has moved or is computed at run time, are those of one function: each has a `Body` of
its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.arrays import aligned
from hlotool.codegen.llvm.control import allocate, when
from hlotool.codegen.llvm.math.elements import Register, constant, from_memory, memory_type, to_memory, vector
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.polling import BUDGET
from hlotool.codegen.llvm.status import STOPPED
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Int, Ptr, Vector, zeros
from hlotool.codegen.llvm.writer import Function
from hlotool.codegen.plan.small_loops import Kept
from hlotool.codegen.plan.values import Assignment, Copy, Value
from hlotool.ir import Instruction, byte_size, element_type

__all__ = ["Body", "table_size"]

_MOST_LEAVES: Annotated[int, Threshold("leaves")] = 64
"""Parameters and results whose addresses a function loads at its start, and keeps: the time that LLVM takes for each
call grows with what is kept."""


class Body:
    """What is known while `f` is written, at whose start `frame` is loaded and room made for what `instructions` need.

    `constants` has the offsets of values in the block of constants; `width` is the least number of arguments that what
    is called has; a frame that `is_table` is that of a function that steps call: their table of arguments.  `places`
    says where the address is of what moves from trip to trip of an open loop; functions share it, as they share the
    loop, but not what is in it: nothing that moves is used in another function than the loop's.
    """

    def __init__(
        self, f: Function, assignment: Assignment, constants: Mapping[Value, int], frame: Ptr, *,
        instructions: Iterable[Instruction], width: int = 1, is_table: bool = False,
        places: dict[Value, Ptr] | None = None,
    ) -> None:  # fmt: skip
        self.f = f
        self.assignment = assignment
        self.constants = constants
        self.frame = frame
        self.is_table = is_table
        self.places: dict[Value, Ptr] = {} if places is None else places
        self.spots: dict[Copy, tuple[Ptr, Ptr]] = {}  # for all swaps of loops: room for two addresses
        self.registers: dict[Instruction, Register] = {}
        self.views: dict[Value, Ptr] = {}
        self.own: dict[Value, Ptr] = {}  # a task loop's own copies of values
        self.span: tuple[Int, Int] | None = None  # the tasks of a task loop
        self.may_end = False  # whether something here ends an execution early
        leaves = len(assignment.parameters) + len(assignment.outputs)
        # Of the words of the frame, those that are loaded at the start.
        self.bases = {n: self.base(n) for n in range(0 if leaves <= _MOST_LEAVES else leaves, leaves + 2)}
        status = frame.slot(-1 if is_table else leaves + 2)
        self.status = status.load_ptr() if is_table else status  # whether the execution has ended, and how
        instructions = list(instructions)
        room = allocate(f, "i64", 1 + max(width, *(table_size(i, assignment) for i in instructions)), align=16)
        room.store(self.status)  # what is called finds it ahead of its arguments
        self.table = room + 8  # the arguments of what is called
        self.budget = allocate(f, "i64")  # what may pass until the clock is looked at
        self.budget.store(BUDGET)
        for instruction in instructions:
            for copy in assignment.swaps.get(instruction, ()):
                self.spots[copy] = allocate(f, "ptr"), allocate(f, "ptr")

    def inner(self, f: Function, instructions: Iterable[Instruction]) -> Body:
        """The body of another function, for steps of this one: its table of arguments begins with the frame."""
        frame = Ptr(f, "%args").load_ptr()
        return Body(
            f, self.assignment, self.constants, frame, instructions=instructions, is_table=self.is_table,
            places=self.places,
        )  # fmt: skip

    # ---- addresses

    def base(self, number: int) -> Ptr:
        """What a word of the frame says, loaded here."""
        return self.frame.slot(number).load_ptr()

    def address(self, value: Value) -> Ptr:
        home = self.home(value)
        if home is not None:
            return (self.bases.get(home[0]) or self.base(home[0])) + home[1]
        root = value.find()
        if root in self.own:
            return self.own[root]
        if root in self.places:
            return self.places[root].load_ptr()
        assert root.whole is not None
        return self.views[root] if root.start is None else self.address(root.whole) + root.start

    def home(self, value: Value) -> tuple[int, int] | None:
        """The word of the frame, and the bytes from where that says, at which a value always is; None if it moves."""
        root, count = value.find(), len(self.assignment.parameters) + len(self.assignment.outputs) + 2
        if root is self.assignment.block:
            return count - 1, 0
        if root in self.own or root in self.places:
            return None
        if root.whole is not None:
            whole = None if root.start is None else self.home(root.whole)
            return None if whole is None else (whole[0], whole[1] + (root.start or 0))
        if root.output is not None:
            return len(self.assignment.parameters) + root.output, 0
        if root.parameter is not None:
            return root.parameter, 0
        if root.constant is not None:
            return count - 1, self.constants[root]
        return count - 2, root.offset or 0

    def part(self, instruction: Instruction) -> Ptr:
        """Where the elements of a slice or dynamic-slice begin that lie side by side."""
        starts = instruction.operands[1:]
        if instruction.opcode == "slice":
            starts = [row.start for row in instruction.attributes["slice"]]
        return self.run_of(instruction.operands[0], instruction.shape.dimensions, starts)

    def run_of(self, whole: Instruction, sizes: Sequence[int], starts: Sequence[Instruction | int]) -> Ptr:
        """Where a part of `whole` with these sizes begins."""
        place, stride, fixed = self.address(self.assignment.leaves[whole][0]), byte_size(whole.shape.element_type), 0
        for start, size, extent in zip(starts[::-1], sizes[::-1], whole.shape.dimensions[::-1], strict=True):
            if isinstance(start, int):
                fixed += start * stride
            elif extent > size:
                place = place + self._start(start, extent - size) * stride
            stride *= extent
        return place + fixed

    def _start(self, index: Instruction, room: int) -> Int:
        """An index, clamped to 0..room."""
        kind = element_type(index.shape.element_type)
        signed = kind.kind == "signed"
        wide = "s64" if signed else "u64"
        value = vector(emit_elementwise("convert", {}, [kind.name], wide, [self.load(index)])).index()
        return value.at_least(0).at_most(room) if signed else value.call("umin", room)

    def find_targets(self, instruction: Instruction) -> None:
        """Compute where in a loop's arrays the results of an instruction are to be."""
        for value, stacking in self.assignment.targets.get(instruction, ()):
            sizes = stacking.update.operands[1].shape.dimensions
            self.views[value.find()] = self.run_of(stacking.array, sizes, stacking.starts)

    # ---- data

    def load(self, instruction: Instruction) -> Register:
        """The single element of an instruction's result, loaded once."""
        if instruction not in self.registers:
            kind = instruction.shape.element_type
            if instruction.opcode == "constant":
                self.registers[instruction] = constant(self.f, kind, 1, instruction.literal.value().reshape(-1)[0])
            else:
                self.registers[instruction] = self.load_from(self.address(self.assignment.leaves[instruction][0]), kind)
        return self.registers[instruction]

    def load_from(self, place: Ptr, kind: str) -> Register:
        return from_memory(kind, place.load(memory_type(kind)))

    def store(self, instruction: Instruction, register: Register) -> None:
        kind = instruction.shape.element_type
        raw = vector(to_memory(kind, register))
        self.address(self.assignment.leaves[instruction][0]).store(raw)
        self.registers[instruction] = register

    def end_early(self, code: str, tells: bool = False) -> None:
        """Close the function here; the block that `code` names is for executions that end before, of which it `tells`
        those who called it."""
        if self.may_end:
            self.f.leave()
            self.f.label(code)
            if tells:
                self.status.store_atomic(STOPPED)
        self.f.finish()

    def fill_table(self, values: Iterable[Value], first: int = 0) -> None:
        for number, value in enumerate(values, first):
            slot = self.table + 8 * number
            slot.store(self.address(value))

    # ---- variables of the function of a small loop

    def keep(self, own: Kept) -> None:
        """Give values variables, which have what the loop needs from before.

        LLVM makes a vector of one if something reads or writes all of it as such; parts of it then are lanes.
        """
        slots = {value: allocate(self.f, "i8", aligned(value.size), align=64) for value in own.values}
        for value, slot in slots.items():
            vector = _whole(value, self.f)
            if value in own.entering:
                _copy_whole(value, slot, self.address(value))
            elif vector is not None:
                slot.store(vector)
        self.own = slots

    def give_back(self, own: Kept) -> None:
        """Put what is needed behind the loop where it belongs."""
        slots, self.own = self.own, {}
        for value in own.leaving:
            _copy_whole(value, self.address(value), slots[value])

    def copy(self, copy: Copy) -> None:
        if copy.source.storage() in self.own or copy.target.storage() in self.own:
            _copy_whole(copy.source, self.address(copy.target), self.address(copy.source))
        else:
            self.address(copy.target).copy_from(self.address(copy.source), copy.source.size)

    # ---- storage that loops exchange in every trip, instead of copying the new state to where the old one was

    def begin_swaps(self, loop: Instruction) -> dict[Copy, Ptr]:
        """Put down where the two storages of every swap are; the addresses of those that are the state's own."""
        homes = {}
        for copy in self.assignment.swaps.get(loop, ()):
            homes[copy] = self.address(copy.target)
            self._put_down(copy, homes[copy], self.address(copy.source))
            self.places.update(zip((copy.target.find(), copy.source.find()), self.spots[copy], strict=True))
        return homes

    def swap(self, copies: Iterable[Copy]) -> None:
        """Let the values of this trip be the state of the next."""
        for copy in copies:
            self._put_down(copy, self.address(copy.source), self.address(copy.target))

    def _put_down(self, copy: Copy, *addresses: Ptr) -> None:
        for address, spot in zip(addresses, self.spots[copy], strict=True):
            spot.store(address)

    def end_swaps(self, homes: Mapping[Copy, Ptr]) -> None:
        """Behind a loop, copy state that is not in its own storage there."""
        for copy, home in homes.items():
            address = self.address(copy.target)
            del self.places[copy.target.find()], self.places[copy.source.find()]
            when(address.ne(home), partial(home.copy_from, address, copy.source.size))


def _whole(value: Value, f: Function) -> Vector | None:
    """A vector of zeros, as long as a value; None where no register is."""
    machine = f.unit.machine
    if value.shape is None or machine is None or 8 * value.size > machine.vector_bits:
        return None
    element = memory_type(value.shape.element_type)
    return zeros(f, element, 8 * value.size // BITS[element])


def _copy_whole(value: Value, target: Ptr, source: Ptr) -> None:
    vector = _whole(value, target.f)
    if vector is None:
        target.copy_from(source, value.size)
    else:
        target.store(source.load(vector.element, vector.lanes, align=1), align=1)


def table_size(instruction: Instruction, assignment: Assignment) -> int:
    """Room for the arguments of an instruction's kernel, with scratch memory and the block of constants."""
    own = len(assignment.leaves.get(instruction, ()))
    return own + 2 + sum(len(assignment.leaves[o]) for o in instruction.operands)
