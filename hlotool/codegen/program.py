"""From a module to a program: kernels, buffers, and one native function that runs the whole entry computation.

The entry function is ``void @NAME(ptr %frame)``; the frame is an array of pointers: parameter leaves, output leaves,
the arena, the constants.  While loops and conditionals are branches in it, scalar arithmetic stands in line, custom
calls and what concerns other devices or the host are calls back into the runtime, and everything else is a call of a
kernel, through the pool where its cost is worth it.  Steps that run side by side (`hlotool.codegen.overlap`) are one
job of the pool.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import NOTHING_DONATED, Donation
from hlotool.analysis.fingerprint import Structures
from hlotool.analysis.in_place import module_in_place_pairs
from hlotool.analysis.trip_count import known_trip_count
from hlotool.codegen.arena import ALIGNMENT, place
from hlotool.codegen.buffers import assign, branch_computations
from hlotool.codegen.cpu.denormals import define_flushing
from hlotool.codegen.cpu.inline import emit_inline
from hlotool.codegen.cpu.math.elementwise import (
    Value as Register,
)
from hlotool.codegen.cpu.math.elementwise import (
    constant,
    emit_elementwise,
    from_memory,
    memory_type,
    to_memory,
)
from hlotool.codegen.emitters import emit_kernel
from hlotool.codegen.kernel import PLUMBING, Kernel, signature
from hlotool.codegen.llvm import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.codegen.overlap import Region, Schedule, schedule
from hlotool.codegen.sharing import Functions
from hlotool.codegen.step_costs import ASLEEP, LOOPED
from hlotool.codegen.steps import (
    CONTROL,
    HOST,
    NO_KERNEL,
    Steps,
    inside,
    is_element,
    is_scalar_code,
    named,
    needs_kernel,
)
from hlotool.codegen.task_loops import TaskLoop, task_loop
from hlotool.codegen.units import Piece, gather
from hlotool.codegen.values import Assignment, Copy, Value, array_leaves
from hlotool.ir import Computation, Instruction, Module, Shape, byte_size, element_type
from hlotool.ir.devices import check_devices

__all__ = ["POLL_FLAG", "HostCall", "KernelUse", "Program", "build"]

POLL_FLAG = "hlo_poll_now"
"""An i32 outside: whether loops that go round ask the runtime for leave."""

@dataclass(frozen=True, slots=True)
class HostCall:
    """What the native code leaves to the runtime: it calls ``i32 @symbol(ptr table)`` with a kernel's argument table.

    A poll is called with no arguments when a loop goes round while ``@hlo_poll_now`` is not zero; `instruction` is
    the loop.
    """

    symbol: str
    instruction: Instruction
    is_poll: bool = False


@dataclass(frozen=True, slots=True)
class KernelUse:
    """Which kernel runs an instruction (for reports)."""

    instruction: str
    kernel: str
    cost: float
    parallel: bool


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that the runtime needs: IR texts and the frame's layout.

    `aliases` maps results to the donated parameters whose memory they are in: the frame has the same pointer twice.
    `overwritten` are all parameters that are written to.
    """

    units: tuple[str, ...]
    entry: str
    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    arena_bytes: int
    constants: npt.NDArray[np.uint8]
    host_calls: tuple[HostCall, ...]
    kernels: tuple[KernelUse, ...]
    assignment: Assignment
    aliases: Mapping[int, int]
    overwritten: tuple[int, ...]


def build(
    module: Module,
    machine: Machine,
    polls: bool = False,
    donation: Donation = NOTHING_DONATED,
    log: DecisionLog | None = None,
) -> Program:
    """Plan and emit `module`, whose calls are inlined and whose loops and branches each own their computations.

    With `polls` its loops can be stopped.  Arguments in `donation` may be overwritten.  What buffer assignment and
    scheduling decide goes to `log`.  UnsupportedError names the first instruction that has no native code, and the
    collectives that do not fit the devices which the module says it runs on.
    """
    check_devices(module)
    log = DecisionLog() if log is None else log
    assignment = assign(module, module_in_place_pairs(module), donation, log)
    kernels = _Kernels(machine)
    for instruction in assignment.positions:
        if needs_kernel(instruction) and not _is_there(instruction, assignment):
            kernels.add(instruction, assignment)
    task_loops = {} if polls else _task_loops(assignment, kernels.of, kernels.scratch)
    steps = Steps(module.entry, assignment, kernels.of, kernels.scratch, task_loops, polls)
    plan = schedule(steps, log)
    place(assignment)
    constants, offsets = _constants(assignment)
    entry = _Entry(module, assignment, kernels, offsets, task_loops, plan, polls)
    entry.emit()
    return Program(
        units=gather([*kernels.pieces(), entry.piece()]),
        entry=entry.name,
        parameters=tuple(v.shape for v in assignment.parameters if v.shape is not None),
        outputs=tuple(array_leaves(module.entry.root.shape)),
        arena_bytes=assignment.arena_bytes,
        constants=constants,
        host_calls=tuple(entry.host_calls),
        kernels=tuple(entry.uses),
        assignment=assignment,
        aliases=assignment.aliases,
        overwritten=assignment.overwritten,
    )


def _is_there(instruction: Instruction, assignment: Assignment) -> bool:
    """Whether an instruction is a view, a copy of what it overwrites, unread, or joins what is side by side."""
    if instruction in assignment.views or instruction in assignment.unread:
        return True
    there = assignment.there.get(instruction, frozenset())
    if instruction.opcode == "concatenate":
        return all(n in there or not o.shape.size for n, o in enumerate(instruction.operands))
    if there:
        return True
    return instruction.opcode == "copy" and instruction in assignment.in_place


class _Kernels:
    """Kernels by structure: equal instructions share one."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.of: dict[Instruction, Kernel] = {}
        self.names: dict[Instruction, str] = {}
        self.scratch: dict[Instruction, Value] = {}
        self.distinct: dict[Hashable, tuple[str, Kernel]] = {}
        self.functions = Functions()
        self._structures = Structures()

    def add(self, instruction: Instruction, assignment: Assignment) -> None:
        in_place = assignment.in_place.get(instruction, frozenset())
        there = assignment.there.get(instruction, frozenset())
        key = (self._structures.instruction(instruction), tuple(sorted(in_place)), tuple(sorted(there)))
        found = self.distinct.get(key)
        if found is None:
            name = f"k{len(self.distinct)}_{re.sub(r'[^A-Za-z0-9_]', '_', instruction.name)}"
            with named(instruction):
                kernel = emit_kernel(name, instruction, self.machine, in_place, there)
            found = name, self.functions.add(name, kernel)
            self.distinct[key] = found
        self.names[instruction], kernel = found
        self.of[instruction] = kernel
        if kernel.scratch:
            self.scratch[instruction] = assignment.scratch(instruction, kernel.scratch)

    def pieces(self) -> list[Piece]:
        """Their functions, in order of first use, and their helpers."""
        helpers = dict.fromkeys(helper for _, kernel in self.distinct.values() for helper in kernel.helpers)
        texts = (Piece(helper.declarations, helper.definitions, (helper.declared,)) for helper in helpers)
        return [*self.functions.pieces, *texts]


def _task_loops(
    assignment: Assignment, kernels: Mapping[Instruction, Kernel], scratch: Mapping[Instruction, Value]
) -> dict[Instruction, TaskLoop]:
    """The loops whose tasks can go through them alone, and of which that is worth it."""
    found = {}
    swaps = (copy for copies in assignment.swaps.values() for copy in copies)
    moving = {value.find() for copy in swaps for value in (copy.source, copy.target)}
    for loop in assignment.loop_copies:
        running = [i for part in ("condition", "body") for i in loop.attributes[part]]
        own = [i for i in running if i in kernels]
        if len(own) != 1 or any(i.opcode in HOST | CONTROL for i in running):
            continue
        steps, trips = kernels[own[0]].steps, known_trip_count(loop) or 1
        if len(steps) != 1 or steps[0].tasks < 2 or own[0] in scratch:
            continue
        if any(value.storage() in moving for i in running for value in assignment.leaves[i]):
            continue
        if steps[0].cost > LOOPED or steps[0].cost * trips > ASLEEP:
            scalars = [i for i in running if is_scalar_code(i) or is_element(i)]
            views = [i for i in running if i in assignment.views and i not in scalars]
            plan = task_loop(loop, own[0], scalars, views, assignment)
            if plan is not None:
                found[loop] = plan
    return found


_PART = "{ ptr, i64, i64, i64 }"


def _define_tasks(unit: Unit, name: str) -> None:
    """Define the function that does the tasks of any region."""
    f = Function(unit, f"internal void @{name}(ptr %args, i64 %begin, i64 %end) nounwind {PLUMBING}")
    parts = f.let("load ptr, ptr %args")
    starts = f.let(f"load ptr, ptr {f.let('getelementptr ptr, ptr %args, i64 1')}")
    first = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr {starts}, i64 %begin')}")
    last = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr {starts}, i64 %end')}")
    loop = f.begin_loop(first, last)
    part = f.let(f"getelementptr {_PART}, ptr {parts}, i64 {loop.index}")
    kinds = ("ptr", "i64", "i64", "i64")
    fields = (f.let(f"getelementptr {_PART}, ptr {part}, i32 0, i32 {number}") for number in range(4))
    function, offset, begin, end = [f.let(f"load {kind}, ptr {at}") for kind, at in zip(kinds, fields, strict=True)]
    table = f.let(f"getelementptr i8, ptr %args, i64 {offset}")
    f.do(f"call void {function}(ptr {table}, i64 {begin}, i64 {end})")
    f.end_loop(loop)
    f.finish()


def _declared(function: str) -> str:
    """How the entry function's unit declares a step function."""
    return f"declare void @{function}(ptr, i64, i64)"


def _constants(assignment: Assignment) -> tuple[npt.NDArray[np.uint8], dict[Value, int]]:
    """One block with all literals that kernels read, equal ones once, and the offset of each value."""
    chunks: list[bytes] = []
    offsets: dict[Value, int] = {}
    known: dict[bytes, int] = {}
    size = 0
    for instruction, values in assignment.leaves.items():
        if instruction.opcode != "constant":
            continue
        for value, leaf in zip(values, instruction.literal.leaves(), strict=True):
            data = np.ascontiguousarray(leaf.value()).tobytes()
            if data not in known:
                known[data] = size
                padded = -(-len(data) // ALIGNMENT) * ALIGNMENT
                chunks.append(data.ljust(padded, b"\0"))
                size += padded
            offsets[value] = known[data]
    return np.frombuffer(b"".join(chunks), np.uint8), offsets


class _Entry:
    """Writes the entry function, and those of tasks that are more than kernels."""

    def __init__(
        self,
        module: Module,
        assignment: Assignment,
        kernels: _Kernels,
        offsets: dict[Value, int],
        task_loops: Mapping[Instruction, TaskLoop],
        plan: Schedule,
        polls: bool,
    ) -> None:
        self.task_loops = task_loops
        self.plan = plan
        self.polls = polls
        self.name = f"run_{re.sub(r'[^A-Za-z0-9_]', '_', module.name)}"
        self.module = module
        self.assignment = assignment
        self.kernels = kernels
        self.offsets = offsets
        self.unit = Unit(kernels.machine)
        self.flushes = kernels.machine.numerics.flush_denormals
        whole = f"internal void @{self.name}_flushed" if self.flushes else f"void @{self.name}"
        self.f = Function(self.unit, f"{whole}(ptr %frame) nounwind{self._quality(assignment.positions)}")
        self.registers: dict[Instruction, Register] = {}
        self.host_calls: list[HostCall] = []
        self.uses: list[KernelUse] = []
        self.tasks: set[str] = set()
        self.bases: list[str] = []
        self.views: dict[Value, str] = {}
        self.places: dict[Value, str] = {}  # where the address is of what moves from trip to trip of an open loop
        self.spots: dict[Copy, tuple[str, str]] = {}  # for all swaps of loops: room for two addresses
        self.regions = 0
        self.table = ""
        self.abandon = "abandon"
        self.span: tuple[str, str] | None = None  # the tasks of a task loop
        self.own: dict[Value, str] = {}  # a task loop's own copies of values

    def emit(self) -> None:
        assignment, f = self.assignment, self.f
        self._load_bases("%frame")
        regions = (item for order in self.plan.orders.values() for item in order if isinstance(item, Region))
        widths = [2 + sum(map(self._table_size, region.steps)) for region in regions]
        widths += [1 + len(found.own) for found in self.task_loops.values()]
        self._make_room(assignment.positions, max(widths, default=1))
        self.computation(self.module.entry)
        for copy in assignment.output_copies:
            self.copy(copy)
        if self.host_calls:
            f.do("ret void")
            f.label(self.abandon)
        f.finish()
        if self.flushes:
            define_flushing(self.unit, self.name, f"@{self.name}_flushed", ["ptr"], internal=False)

    def _quality(self, instructions: Iterable[Instruction]) -> str:
        """Attributes of a function for `instructions`: loops without kernels are arithmetic, which should be good."""
        loops = (i for i in instructions if i.opcode == "while")
        works = any(self.kernels.of.keys().isdisjoint(loop.attributes["body"]) for loop in loops)
        return "" if works else f" {PLUMBING}"

    def _make_room(self, instructions: Iterable[Instruction], width: int = 1) -> None:
        """Room for the arguments of kernels, and for the addresses of what loops exchange."""
        instructions = list(instructions)
        width = max(width, *map(self._table_size, instructions))
        self.table = self.f.let(f"alloca [{width} x ptr], align 16")
        for instruction in instructions:
            for copy in self.assignment.swaps.get(instruction, ()):
                self.spots[copy] = self.f.let("alloca ptr"), self.f.let("alloca ptr")

    def _load_bases(self, frame: str) -> None:
        count = len(self.assignment.parameters) + len(self.assignment.outputs) + 2
        slots = (self.f.let(f"getelementptr ptr, ptr {frame}, i64 {number}") for number in range(count))
        self.bases = [self.f.let(f"load ptr, ptr {slot}") for slot in slots]

    def piece(self) -> Piece:
        """The text of the entry function."""
        return Piece(tuple(self.unit.declarations.values()), "\n".join(self.unit.definitions))

    def _table_size(self, instruction: Instruction) -> int:
        own = len(self.assignment.leaves.get(instruction, ()))
        return own + 1 + sum(len(self.assignment.leaves[o]) for o in instruction.operands)

    # ---- addresses and data

    def address(self, value: Value) -> str:
        root = value.find()
        if root in self.own:
            return self.own[root]
        if root in self.places:
            return self.f.let(f"load ptr, ptr {self.places[root]}")
        if root.whole is not None:
            return self.views[root] if root.start is None else self.offset(self.address(root.whole), root.start)
        if root.output is not None:
            return self.bases[len(self.assignment.parameters) + root.output]
        if root.parameter is not None:
            return self.bases[root.parameter]
        if root.constant is not None:
            return self.offset(self.bases[-1], self.offsets[root])
        return self.offset(self.bases[-2], root.offset or 0)

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

    def copy(self, copy: Copy) -> None:
        if copy.source.find() is not copy.target.find() and copy.source.size:
            self.move(self.address(copy.target), self.address(copy.source), copy.source.size)

    def move(self, target: str, source: str, size: int) -> None:
        places = [("ptr", target), ("ptr", source), ("i64", str(size)), ("i1", "false")]
        self.f.intrinsic("void", "llvm.memcpy.p0.p0.i64", places)

    def load(self, instruction: Instruction) -> Register:
        """The single element of an instruction's result, loaded once."""
        if instruction not in self.registers:
            kind = instruction.shape.element_type
            if instruction.opcode == "constant":
                self.registers[instruction] = constant(kind, 1, instruction.literal.value().reshape(-1)[0])
            else:
                place = self.address(self.assignment.leaves[instruction][0])
                raw = self.f.let(f"load {memory_type(kind)}, ptr {place}")
                self.registers[instruction] = from_memory(self.f, kind, 1, raw)
        return self.registers[instruction]

    def store(self, instruction: Instruction, register: Register) -> None:
        kind = instruction.shape.element_type
        raw = to_memory(self.f, kind, 1, register)
        self.f.do(f"store {memory_type(kind)} {raw}, ptr {self.address(self.assignment.leaves[instruction][0])}")
        self.registers[instruction] = register

    # ---- instructions

    def computation(self, computation: Computation) -> None:
        for item in self.plan.orders.get(computation, computation):
            if isinstance(item, Region):
                self.region(item)
            else:
                self.instruction(item)

    def instruction(self, instruction: Instruction) -> None:
        self.find_targets(instruction)
        match instruction.opcode:
            case "while":
                self.enter(instruction)
                self.loop(instruction)
            case "conditional":
                self.conditional(instruction)
            case "call":
                self.computation(instruction.attributes["to_apply"])
            case opcode if opcode in HOST:
                self.fill_table(self._arguments(instruction))
                self.host_call(instruction)
            case opcode if opcode in NO_KERNEL:
                pass
            case _ if is_scalar_code(instruction):
                self.scalar(instruction)
            case _ if instruction in self.assignment.views:
                self.views[self.assignment.leaves[instruction][0]] = self.part(instruction)
            case _ if is_element(instruction):
                kind = instruction.shape.element_type
                raw = self.f.let(f"load {memory_type(kind)}, ptr {self.part(instruction)}")
                self.store(instruction, from_memory(self.f, kind, 1, raw))
            case _ if instruction in self.kernels.of:
                self.kernel(instruction)

    def find_targets(self, instruction: Instruction) -> None:
        """Compute where in a loop's arrays the results of an instruction are to be."""
        for value, stacking in self.assignment.targets.get(instruction, ()):
            sizes = stacking.update.operands[1].shape.dimensions
            self.views[value.find()] = self.run_of(stacking.array, sizes, stacking.starts)

    def scalar(self, instruction: Instruction) -> None:
        with named(instruction):
            self._scalar(instruction)

    def _scalar(self, instruction: Instruction) -> None:
        operands = [self.load(o) for o in instruction.operands]
        if instruction.opcode == "fusion":
            register = emit_inline(self.f, instruction.attributes["calls"], operands)[0]
        elif instruction.has("elementwise"):
            register = emit_elementwise(
                self.f,
                instruction.opcode,
                instruction.attributes,
                [o.shape.element_type for o in instruction.operands],
                instruction.shape.element_type,
                1,
                operands,
            )
        else:
            register = operands[0]
        self.store(instruction, register)

    def fill_table(self, values: list[Value], first: int = 0) -> None:
        for number, value in enumerate(values, first):
            slot = self.offset(self.table, 8 * number)
            self.f.do(f"store ptr {self.address(value)}, ptr {slot}")

    def _arguments(self, instruction: Instruction) -> list[Value]:
        leaves = self.assignment.leaves
        return [v for o in instruction.operands for v in leaves[o]] + list(leaves[instruction])

    def _kernel_arguments(self, instruction: Instruction) -> list[Value]:
        scratch = self.kernels.scratch.get(instruction)
        return self._arguments(instruction) + ([] if scratch is None else [scratch])

    def kernel(self, instruction: Instruction) -> None:
        self.fill_table(self._kernel_arguments(instruction))
        parallel = self.span is not None
        for number, step in enumerate(self.kernels.of[instruction].steps):
            self.unit.declarations[step.function] = _declared(step.function)
            callee = f"@{step.function}"
            if self.span is not None:
                self.f.do(f"call void {callee}(ptr {self.table}, i64 {self.span[0]}, i64 {self.span[1]})")
            elif (instruction, number) in self.plan.split:
                parallel = True
                self.fork(step.function, step.tasks)
            elif (instruction, number) in self.plan.split_awake:
                parallel = True
                self.fork(step.function, step.tasks, "hlo_parallel_awake")
            else:
                self.f.do(f"call void {callee}(ptr {self.table}, i64 0, i64 {step.tasks})")
        self._note_use(instruction, parallel)

    def _note_use(self, instruction: Instruction, parallel: bool) -> None:
        cost = sum(step.cost for step in self.kernels.of[instruction].steps)
        self.uses.append(KernelUse(instruction.name, self.kernels.names[instruction], cost, parallel))

    def fork(self, function: str, tasks: int, pool: str = "hlo_parallel") -> None:
        """Let threads share the tasks of step function `function`."""
        if self.flushes:  # other threads do not do so yet
            callee, function = f"@{function}", f"{function}_flushed"
            if function not in self.tasks:
                self.tasks.add(function)
                define_flushing(self.unit, function, callee, ["ptr", "i64", "i64"])
        callee = self.unit.declare("void", pool, ["ptr", "ptr", "i64"])
        self.f.do(f"call void {callee}(ptr @{function}, ptr {self.table}, i64 {tasks})")

    # ---- regions

    def region(self, region: Region) -> None:
        """Run steps side by side: constants say what each task calls, the table has the arguments of all of them.

        A part is a function, the offset of its arguments in the table, and the tasks it does of its own; `starts` has
        the first part of every task.
        """
        first = 2
        calls: dict[Instruction, list[tuple[str, int, int]]] = {}
        for instruction in region.steps:
            kernel = self.kernels.of.get(instruction)
            if kernel is not None:
                self.find_targets(instruction)
                values = self._kernel_arguments(instruction)
                self.fill_table(values, first)
                for step in kernel.steps:
                    self.unit.declarations[step.function] = _declared(step.function)
                calls[instruction] = [(step.function, 8 * first, step.tasks) for step in kernel.steps]
                first += len(values)
                self._note_use(instruction, True)
            else:
                if instruction.opcode == "while":
                    self.enter(instruction)
                name = f"{self.name}_task{self.regions}_{len(calls)}"
                calls[instruction] = [(name, 8 * first, 1)]
                self.f.do(f"store ptr %frame, ptr {self.offset(self.table, 8 * first)}")
                first += 1
                self.control_task(name, instruction)
        parts: list[str] = []
        starts = [0]
        for task in region.tasks:
            for part in task:
                for function, at, tasks in calls[part.instruction]:
                    span = f"i64 {part.begin}, i64 {part.end or tasks}"
                    parts.append(f"{_PART} {{ ptr @{function}, i64 {at}, {span} }}")
            starts.append(len(parts))
        constants = f"@{self.name}_region{self.regions}"
        self.unit.define(f"{constants} = internal constant [{len(parts)} x {_PART}] [{', '.join(parts)}]")
        numbers = ", ".join(f"i64 {start}" for start in starts)
        self.unit.define(f"{constants}_starts = internal constant [{len(starts)} x i64] [{numbers}]")
        self.f.do(f"store ptr {constants}, ptr {self.table}")
        self.f.do(f"store ptr {constants}_starts, ptr {self.offset(self.table, 8)}")
        if not self.regions:
            _define_tasks(self.unit, f"{self.name}_tasks")
        self.regions += 1
        self.fork(f"{self.name}_tasks", len(region.tasks))

    def control_task(self, name: str, instruction: Instruction) -> None:
        """A function that runs a loop, with its state as it is initially, or a conditional."""
        outer = self.f, self.bases, self.registers, self.views, self.table
        inner = [instruction, *inside(instruction)]
        head = f"internal void @{name}(ptr %args, i64 %begin, i64 %end) nounwind"
        self.f = Function(self.unit, f"{head}{self._quality(inner)}")
        self.registers, self.views = {}, {}
        frame = self.f.let("load ptr, ptr %args")
        self._load_bases(frame)
        self._make_room(inner)
        if instruction.opcode == "while":
            self.trips(instruction)
        else:
            self.instruction(instruction)
        self.f.finish()
        self.f, self.bases, self.registers, self.views, self.table = outer

    def host_call(self, instruction: Instruction, is_poll: bool = False) -> None:
        """A call of the runtime; where it fails the execution ends: what follows might wait for its outputs forever."""
        symbol = f"hlo_host_{len(self.host_calls)}"
        self.host_calls.append(HostCall(symbol, instruction, is_poll))
        callee = self.unit.declare("i32", symbol, ["ptr"])
        failed = self.f.let(f"call i32 {callee}(ptr {self.table})")
        proceed = self.f.fresh("proceed")
        self.f.branch(self.f.let(f"icmp ne i32 {failed}, 0"), self.abandon, proceed)
        self.f.label(proceed)

    def poll(self, loop: Instruction) -> None:
        """Ask the runtime whether to go on, if there is reason to ask."""
        f = self.f
        self.unit.declarations.setdefault(POLL_FLAG, f"@{POLL_FLAG} = external global i32")
        asked, proceed = f.fresh("ask"), f.fresh("go")
        now = f.let(f"load atomic i32, ptr @{POLL_FLAG} monotonic, align 4")
        f.branch(f.let(f"icmp ne i32 {now}, 0"), asked, proceed)
        f.label(asked)
        self.host_call(loop, is_poll=True)
        f.jump(proceed)
        f.label(proceed)

    def enter(self, loop: Instruction) -> None:
        """Give a loop its initial state."""
        for copy in self.assignment.loop_copies[loop][0]:
            self.copy(copy)

    def loop(self, instruction: Instruction) -> None:
        if instruction in self.task_loops:
            self.task_loop(instruction, self.task_loops[instruction])
        else:
            self.trips(instruction)

    def task_loop(self, instruction: Instruction, plan: TaskLoop) -> None:
        """The loop as a function for some of the tasks; the first task leaves its own values in the table, behind the
        frame."""
        outer = self.f, self.bases, self.registers, self.views, self.table
        name = f"{self.name}_{len(self.uses)}_loop"
        self.f = f = Function(self.unit, f"internal {signature(name, plumbing=True)}")
        self.registers, self.views = {}, {}
        self._load_bases(f.let("load ptr, ptr %args"))
        self.table = f.let(f"alloca [{self._table_size(plan.kernel)} x ptr], align 16")
        own = [f.let("alloca i64") for _ in plan.own]
        for slot, value in zip(own, plan.own, strict=True):
            self.move(slot, self.address(value), value.size)
        self.own, self.span = dict(zip(plan.own, own, strict=True)), ("%begin", "%end")
        self.trips(instruction)
        self.own, self.span = {}, None
        first, leave = f.fresh("first"), f.fresh("leave")
        f.branch(f.let("icmp eq i64 %begin, 0"), first, leave)
        f.label(first)
        for number, (slot, value) in enumerate(zip(own, plan.own, strict=True)):
            self.move(self.offset("%args", 8 * (number + 1)), slot, value.size)
        f.jump(leave)
        f.label(leave)
        f.finish()
        self.f, self.bases, self.registers, self.views, self.table = outer
        self.f.do(f"store ptr %frame, ptr {self.table}")
        self.fork(name, self.kernels.of[plan.kernel].steps[0].tasks)
        for number, value in enumerate(plan.own):
            self.move(self.address(value), self.offset(self.table, 8 * (number + 1)), value.size)

    def trips(self, instruction: Instruction) -> None:
        f = self.f
        _, repeating = self.assignment.loop_copies[instruction]
        condition, body = instruction.attributes["condition"], instruction.attributes["body"]
        homes = self.begin_swaps(instruction)
        test, again, leave = f.fresh("test"), f.fresh("body"), f.fresh("done")
        f.jump(test)
        f.label(test)
        self.computation(condition)
        f.branch(str(self.load(condition.root)), again, leave)
        f.label(again)
        self.computation(body)
        for copy in repeating:
            self.copy(copy)
        self.swap(homes)
        if self.polls:
            self.poll(instruction)
        f.jump(test)
        f.label(leave)
        self.end_swaps(homes)

    def begin_swaps(self, loop: Instruction) -> dict[Copy, str]:
        """Put down where the two storages of every swap are; the addresses of those that are the state's own."""
        homes = {}
        for copy in self.assignment.swaps.get(loop, ()):
            values = (copy.target, copy.source)
            addresses = [self.address(value) for value in values]
            for value, address, spot in zip(values, addresses, self.spots[copy], strict=True):
                self.f.do(f"store ptr {address}, ptr {spot}")
                self.places[value.find()] = spot
            homes[copy] = addresses[0]
        return homes

    def swap(self, copies: Iterable[Copy]) -> None:
        """Let the values of this trip be the state of the next."""
        for copy in copies:
            addresses = [self.address(copy.source), self.address(copy.target)]
            for address, spot in zip(addresses, self.spots[copy], strict=True):
                self.f.do(f"store ptr {address}, ptr {spot}")

    def end_swaps(self, homes: Mapping[Copy, str]) -> None:
        """Behind a loop, copy state that is not in its own storage there."""
        f = self.f
        for copy, home in homes.items():
            address = self.address(copy.target)
            del self.places[copy.target.find()], self.places[copy.source.find()]
            away, done = f.fresh("away"), f.fresh("home")
            f.branch(f.let(f"icmp ne ptr {address}, {home}"), away, done)
            f.label(away)
            self.move(home, address, copy.source.size)
            f.jump(done)
            f.label(done)

    def conditional(self, instruction: Instruction) -> None:
        f = self.f
        branches = branch_computations(instruction)
        selector = self.load(instruction.operands[0])
        labels = [f.fresh("branch") for _ in branches]
        leave = f.fresh("done")
        if instruction.operands[0].shape.element_type == "pred":
            f.branch(str(selector), labels[0], labels[1])
        else:  # out of range selects the last branch
            cases = " ".join(f"i32 {n}, label %{label}" for n, label in enumerate(labels[:-1]))
            f.do(f"switch i32 {selector}, label %{labels[-1]} [ {cases} ]")
        for number, (label, branch) in enumerate(zip(labels, branches, strict=True)):
            f.label(label)
            self.computation(branch)
            for copy in self.assignment.branch_copies[instruction, number]:
                self.copy(copy)
            f.jump(leave)
        f.label(leave)
