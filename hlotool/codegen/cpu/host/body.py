"""The body of a function of the entry while it is written: where values are in it, and how they come and go.

Registers, and addresses of what has moved or is computed at run time, are those of one function: each has a `Body` of
its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.math.elementwise import (
    Value as Register,
)
from hlotool.codegen.llvm.math.elementwise import (
    constant,
    emit_elementwise,
    from_memory,
    memory_type,
    to_memory,
)
from hlotool.codegen.llvm.polling import BUDGET, STOPPED
from hlotool.codegen.llvm.writer import Function
from hlotool.codegen.plan.values import Assignment, Copy, Value
from hlotool.ir import Instruction, byte_size, element_type

__all__ = ["Body", "table_size"]

_MOST_LEAVES: Annotated[int, Threshold("leaves")] = 64
"""Parameters and results whose addresses a function loads at its start, and keeps: the time that LLVM takes for each
call grows with what is kept."""


class Body:
    """What is known while `f` is written.

    `constants` has the offsets of values in the block of constants.  `places` says where the address is of what moves
    from trip to trip of an open loop; functions share it, as they share the loop, but not what is in it: nothing that
    moves is used in another function than the loop's.
    """

    def __init__(
        self, f: Function, assignment: Assignment, constants: Mapping[Value, int], places: dict[Value, str]
    ) -> None:
        self.f = f
        self.assignment = assignment
        self.constants = constants
        self.places = places
        self.spots: dict[Copy, tuple[str, str]] = {}  # for all swaps of loops: room for two addresses
        self.registers: dict[Instruction, Register] = {}
        self.views: dict[Value, str] = {}
        self.own: dict[Value, str] = {}  # a task loop's own copies of values
        self.span: tuple[str, str] | None = None  # the tasks of a task loop
        self.frame = ""
        self.bases: dict[int, str] = {}  # of the words of the frame that are loaded at the start
        self.status = ""  # where it stands whether the execution has ended, and how
        self.table = ""  # the arguments of what is called
        self.budget = ""  # what may pass until the clock is looked at
        self.may_end = False  # whether something here ends an execution early

    def inner(self, f: Function) -> Body:
        """The body of another function, for steps of this one."""
        return Body(f, self.assignment, self.constants, self.places)

    def load_bases(self, frame: str, is_table: bool = False) -> None:
        """Load what the frame has; that of a function that steps call is their table of arguments."""
        self.frame = frame
        leaves = len(self.assignment.parameters) + len(self.assignment.outputs)
        count = leaves + 2
        first = 0 if leaves <= _MOST_LEAVES else leaves
        self.bases = {number: self.base(number) for number in range(first, count)}
        at = self.f.let(f"getelementptr ptr, ptr {frame}, i64 {-1 if is_table else count}")
        self.status = self.f.let(f"load ptr, ptr {at}") if is_table else at

    def base(self, number: int) -> str:
        """What a word of the frame says, loaded here."""
        return self.f.let(f"load ptr, ptr {self.f.let(f'getelementptr ptr, ptr {self.frame}, i64 {number}')}")

    def make_room(self, instructions: Iterable[Instruction], width: int = 1) -> None:
        """Room for the arguments of kernels, and for the addresses of what loops exchange."""
        instructions = list(instructions)
        width = max(width, *(table_size(i, self.assignment) for i in instructions))
        room = self.f.let(f"alloca [{width + 1} x ptr], align 16")
        self.f.do(f"store ptr {self.status}, ptr {room}")  # what is called finds it ahead of its arguments
        self.table = self.offset(room, 8)
        self.budget = self.f.let("alloca i64")
        self.f.do(f"store i64 {BUDGET}, ptr {self.budget}")
        for instruction in instructions:
            for copy in self.assignment.swaps.get(instruction, ()):
                self.spots[copy] = self.f.let("alloca ptr"), self.f.let("alloca ptr")

    # ---- addresses

    def address(self, value: Value) -> str:
        home = self.home(value)
        if home is not None:
            return self.offset(self.bases.get(home[0]) or self.base(home[0]), home[1])
        root = value.find()
        if root in self.own:
            return self.own[root]
        if root in self.places:
            return self.f.let(f"load ptr, ptr {self.places[root]}")
        assert root.whole is not None
        return self.views[root] if root.start is None else self.offset(self.address(root.whole), root.start)

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

    def offset(self, base: str, offset: int) -> str:
        return self.f.let(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base

    def part(self, instruction: Instruction) -> str:
        """Where the elements of a slice or dynamic-slice begin that lie side by side."""
        whole, sizes = instruction.operands[0], instruction.shape.dimensions
        if instruction.opcode != "slice":
            return self.run_of(whole, sizes, instruction.operands[1:])
        fixed, stride = 0, byte_size(whole.shape.element_type)
        for row, size in zip(reversed(instruction.attributes["slice"]), reversed(whole.shape.dimensions), strict=True):
            fixed += row.start * stride
            stride *= size
        return self.offset(self.address(self.assignment.leaves[whole][0]), fixed)

    def run_of(self, whole: Instruction, sizes: Sequence[int], starts: Sequence[Instruction]) -> str:
        """Where a part of `whole` with these sizes begins."""
        place, stride = self.address(self.assignment.leaves[whole][0]), byte_size(whole.shape.element_type)
        for d in reversed(range(whole.shape.rank)):
            room = whole.shape.dimensions[d] - sizes[d]
            if room:
                start = self.f.let(f"mul i64 {self._start(starts[d], room)}, {stride}")
                place = self.f.let(f"getelementptr i8, ptr {place}, i64 {start}")
            stride *= whole.shape.dimensions[d]
        return place

    def _start(self, index: Instruction, room: int) -> str:
        """An index, clamped to 0..room."""
        kind = element_type(index.shape.element_type)
        signed = kind.kind == "signed"
        wide = "s64" if signed else "u64"
        value = str(emit_elementwise(self.f, "convert", {}, [kind.name], wide, 1, [self.load(index)]))
        if not signed:
            return self.f.intrinsic("i64", "llvm.umin.i64", [("i64", value), ("i64", str(room))])
        low = self.f.intrinsic("i64", "llvm.smax.i64", [("i64", value), ("i64", "0")])
        return self.f.intrinsic("i64", "llvm.smin.i64", [("i64", low), ("i64", str(room))])

    def find_targets(self, instruction: Instruction) -> None:
        """Compute where in a loop's arrays the results of an instruction are to be."""
        for value, stacking in self.assignment.targets.get(instruction, ()):
            sizes = stacking.update.operands[1].shape.dimensions
            self.views[value.find()] = self.run_of(stacking.array, sizes, stacking.starts)

    # ---- data

    def copy(self, copy: Copy) -> None:
        if copy.source.find() is not copy.target.find() and copy.source.size:
            self.move(self.address(copy.target), self.address(copy.source), copy.source.size)

    def move(self, target: str, source: str, size: int | str) -> None:
        self.f.copy(target, source, size)

    def load(self, instruction: Instruction) -> Register:
        """The single element of an instruction's result, loaded once."""
        if instruction not in self.registers:
            kind = instruction.shape.element_type
            if instruction.opcode == "constant":
                self.registers[instruction] = constant(kind, 1, instruction.literal.value().reshape(-1)[0])
            else:
                self.registers[instruction] = self.load_from(self.address(self.assignment.leaves[instruction][0]), kind)
        return self.registers[instruction]

    def load_from(self, place: str, kind: str) -> Register:
        return from_memory(self.f, kind, 1, self.f.let(f"load {memory_type(kind)}, ptr {place}"))

    def store(self, instruction: Instruction, register: Register) -> None:
        kind = instruction.shape.element_type
        raw = to_memory(self.f, kind, 1, register)
        self.f.do(f"store {memory_type(kind)} {raw}, ptr {self.address(self.assignment.leaves[instruction][0])}")
        self.registers[instruction] = register

    def end_early(self, code: str, tells: bool = False) -> None:
        """Close the function here; the block that `code` names is for executions that end before, of which it `tells`
        those who called it."""
        if self.may_end:
            self.f.do("ret void")
            self.f.label(code)
            if tells:
                self.f.do(f"store atomic i64 {STOPPED}, ptr {self.status} monotonic, align 8")
        self.f.finish()

    def fill_table(self, values: Iterable[Value], first: int = 0) -> None:
        for number, value in enumerate(values, first):
            slot = self.offset(self.table, 8 * number)
            self.f.do(f"store ptr {self.address(value)}, ptr {slot}")


def table_size(instruction: Instruction, assignment: Assignment) -> int:
    """Room for the arguments of an instruction's kernel, with scratch memory and the block of constants."""
    own = len(assignment.leaves.get(instruction, ()))
    return own + 2 + sum(len(assignment.leaves[o]) for o in instruction.operands)
