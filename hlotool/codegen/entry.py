"""Writes the entry function, and those of tasks that are more than kernels.

The entry function is ``void @NAME(ptr %frame)``; the frame is an array of pointers: parameter leaves, output leaves,
the arena, the constants.  While loops and conditionals are branches in it, scalar arithmetic stands in line, custom
calls and what concerns other devices or the host are calls back into the runtime, and everything else is a call of a
kernel, through the pool where its cost is worth it.  Steps that run side by side (`hlotool.codegen.overlap`) are one
job of the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from hlotool.codegen.body import Body, table_size
from hlotool.codegen.buffers import branch_computations
from hlotool.codegen.cpu.denormals import define_flushing
from hlotool.codegen.cpu.inline import emit_inline
from hlotool.codegen.cpu.math.elementwise import emit_elementwise
from hlotool.codegen.kernel import PLUMBING, signature
from hlotool.codegen.llvm import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.codegen.overlap import Schedule
from hlotool.codegen.region import Region
from hlotool.codegen.region_code import FIRST, Call, define_parts, define_tasks
from hlotool.codegen.steps import HOST, NO_KERNEL, Steps, inside, is_element, is_scalar_code, named
from hlotool.codegen.swaps import begin_swaps, end_swaps, swap
from hlotool.codegen.task_loops import TaskLoop
from hlotool.codegen.units import Piece
from hlotool.codegen.values import Value
from hlotool.ir import Computation, Instruction

__all__ = ["POLL_FLAG", "Entry", "HostCall", "KernelUse"]

POLL_FLAG = "hlo_poll_now"
"""An i32 outside: whether loops that go round ask the runtime for leave."""

_ABANDON = "abandon"
"""The block that ends an execution which failed."""


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


class Entry:
    """The entry function `name` for `steps` that run as `plan` says, with the calls and kernels that it uses.

    `kernel_names` are for reports; `constants` has the offsets of values in the block of constants.
    """

    def __init__(
        self,
        name: str,
        steps: Steps,
        plan: Schedule,
        kernel_names: Mapping[Instruction, str],
        constants: Mapping[Value, int],
        machine: Machine,
    ) -> None:
        self.name = name
        self.steps = steps
        self.plan = plan
        self.assignment = steps.assignment
        self.kernels = steps.kernels
        self.kernel_names = kernel_names
        self.unit = Unit(machine)
        self.flushes = machine.numerics.flush_denormals
        whole = f"internal void @{self.name}_flushed" if self.flushes else f"void @{self.name}"
        head = f"{whole}(ptr %frame) nounwind{self._quality(self.assignment.positions)}"
        self.body = Body(Function(self.unit, head), self.assignment, constants, {})
        self.host_calls: list[HostCall] = []
        self.uses: list[KernelUse] = []
        self.flushing: set[str] = set()  # functions that are there with flushing for other threads
        self.regions = 0

    def emit(self) -> None:
        body = self.body
        body.load_bases("%frame")
        regions = (item for order in self.plan.orders.values() for item in order if isinstance(item, Region))
        widths = [FIRST + sum(table_size(i, self.assignment) for i in region.steps) for region in regions]
        widths += [1 + len(found.own) for found in self.steps.task_loops.values()]
        body.make_room(self.assignment.positions, max(widths, default=1))
        self.computation(self.steps.entry)
        for copy in self.assignment.output_copies:
            body.copy(copy)
        if self.host_calls:
            body.f.do("ret void")
            body.f.label(_ABANDON)
        body.f.finish()
        if self.flushes:
            define_flushing(self.unit, self.name, f"@{self.name}_flushed", ["ptr"], internal=False)

    def piece(self) -> Piece:
        """The text of the entry function."""
        return Piece(self.unit.declared, self.unit.defined)

    def _quality(self, instructions: Iterable[Instruction]) -> str:
        """Attributes of a function for `instructions`: loops without kernels are arithmetic, which should be good."""
        loops = (i for i in instructions if i.opcode == "while")
        works = any(self.kernels.keys().isdisjoint(loop.attributes["body"]) for loop in loops)
        return "" if works else f" {PLUMBING}"

    @contextmanager
    def _function(self, head: str) -> Iterator[Body]:
        """Write another function, whose table of arguments begins with the frame."""
        outer = self.body
        self.body = outer.inner(Function(self.unit, head))
        self.body.load_bases(self.body.f.let("load ptr, ptr %args"))
        yield self.body
        self.body.f.finish()
        self.body = outer

    # ---- instructions

    def computation(self, computation: Computation) -> None:
        for item in self.plan.orders.get(computation, computation):
            if isinstance(item, Region):
                self.region(item)
            else:
                self.instruction(item)

    def instruction(self, instruction: Instruction) -> None:
        body = self.body
        body.find_targets(instruction)
        match instruction.opcode:
            case "while":
                self.enter(instruction)
                self.loop(instruction)
            case "conditional":
                self.conditional(instruction)
            case "call":
                self.computation(instruction.attributes["to_apply"])
            case opcode if opcode in HOST:
                body.fill_table(self._arguments(instruction))
                self.host_call(instruction)
            case opcode if opcode in NO_KERNEL:
                pass
            case _ if is_scalar_code(instruction):
                self.scalar(instruction)
            case _ if instruction in self.assignment.views:
                body.views[self.assignment.leaves[instruction][0]] = body.part(instruction)
            case _ if is_element(instruction):
                body.store(instruction, body.load_from(body.part(instruction), instruction.shape.element_type))
            case _ if instruction in self.kernels:
                self.kernel(instruction)

    def scalar(self, instruction: Instruction) -> None:
        with named(instruction):
            operands = [self.body.load(o) for o in instruction.operands]
            if instruction.opcode == "fusion":
                register = emit_inline(self.body.f, instruction.attributes["calls"], operands)[0]
            elif instruction.has("elementwise"):
                register = emit_elementwise(
                    self.body.f,
                    instruction.opcode,
                    instruction.attributes,
                    [o.shape.element_type for o in instruction.operands],
                    instruction.shape.element_type,
                    1,
                    operands,
                )
            else:
                register = operands[0]
            self.body.store(instruction, register)

    def _arguments(self, instruction: Instruction) -> list[Value]:
        leaves = self.assignment.leaves
        return [v for o in instruction.operands for v in leaves[o]] + list(leaves[instruction])

    def _kernel_arguments(self, instruction: Instruction) -> list[Value]:
        scratch = self.steps.scratch.get(instruction)
        return self._arguments(instruction) + ([] if scratch is None else [scratch])

    def kernel(self, instruction: Instruction) -> None:
        body = self.body
        body.fill_table(self._kernel_arguments(instruction))
        parallel = body.span is not None
        for number, step in enumerate(self.kernels[instruction].steps):
            self._declare(step.function)
            callee = f"@{step.function}"
            if body.span is not None:
                body.f.do(f"call void {callee}(ptr {body.table}, i64 {body.span[0]}, i64 {body.span[1]})")
            elif (instruction, number) in self.plan.split:
                parallel = True
                self.fork(step.function, step.tasks)
            elif (instruction, number) in self.plan.split_awake:
                parallel = True
                self.fork(step.function, step.tasks, "hlo_parallel_awake")
            else:
                body.f.do(f"call void {callee}(ptr {body.table}, i64 0, i64 {step.tasks})")
        self._note_use(instruction, parallel)

    def _declare(self, function: str) -> None:
        """Declare a step function."""
        self.unit.declarations[function] = f"declare void @{function}(ptr, i64, i64)"

    def _note_use(self, instruction: Instruction, parallel: bool) -> None:
        cost = sum(step.cost for step in self.kernels[instruction].steps)
        self.uses.append(KernelUse(instruction.name, self.kernel_names[instruction], cost, parallel))

    def fork(self, function: str, tasks: int, pool: str = "hlo_parallel") -> None:
        """Let threads share the tasks of step function `function`."""
        if self.flushes:  # other threads do not do so yet
            callee, function = f"@{function}", f"{function}_flushed"
            if function not in self.flushing:
                self.flushing.add(function)
                define_flushing(self.unit, function, callee, ["ptr", "i64", "i64"])
        callee = self.unit.declare("void", pool, ["ptr", "ptr", "i64"])
        self.body.f.do(f"call void {callee}(ptr @{function}, ptr {self.body.table}, i64 {tasks})")

    def host_call(self, instruction: Instruction, is_poll: bool = False) -> None:
        """A call of the runtime; where it fails the execution ends: what follows might wait for its outputs forever."""
        f = self.body.f
        symbol = f"hlo_host_{len(self.host_calls)}"
        self.host_calls.append(HostCall(symbol, instruction, is_poll))
        callee = self.unit.declare("i32", symbol, ["ptr"])
        failed = f.let(f"call i32 {callee}(ptr {self.body.table})")
        proceed = f.fresh("proceed")
        f.branch(f.let(f"icmp ne i32 {failed}, 0"), _ABANDON, proceed)
        f.label(proceed)

    # ---- regions

    def region(self, region: Region) -> None:
        """Run steps side by side, as one job; its table has the arguments of all of them."""
        body = self.body
        first = FIRST
        calls: dict[Instruction, list[Call]] = {}
        for instruction in region.steps:
            kernel = self.kernels.get(instruction)
            if kernel is not None:
                body.find_targets(instruction)
                values = self._kernel_arguments(instruction)
                body.fill_table(values, first)
                for step in kernel.steps:
                    self._declare(step.function)
                calls[instruction] = [Call(step.function, first, step.tasks) for step in kernel.steps]
                first += len(values)
                self._note_use(instruction, True)
            else:
                if instruction.opcode == "while":
                    self.enter(instruction)
                name = f"{self.name}_task{self.regions}_{len(calls)}"
                calls[instruction] = [Call(name, first)]
                body.f.do(f"store ptr %frame, ptr {body.offset(body.table, 8 * first)}")
                first += 1
                self.control_task(name, instruction)
        constants = f"{self.name}_region{self.regions}"
        define_parts(self.unit, constants, region, calls)
        body.f.do(f"store ptr @{constants}, ptr {body.table}")
        body.f.do(f"store ptr @{constants}_starts, ptr {body.offset(body.table, 8)}")
        if not self.regions:
            define_tasks(self.unit, f"{self.name}_tasks")
        self.regions += 1
        self.fork(f"{self.name}_tasks", len(region.tasks))

    def control_task(self, name: str, instruction: Instruction) -> None:
        """A function that runs a loop, with its state as it is initially, or a conditional."""
        inner = [instruction, *inside(instruction)]
        head = f"internal void @{name}(ptr %args, i64 %begin, i64 %end) nounwind"
        with self._function(f"{head}{self._quality(inner)}") as body:
            body.make_room(inner)
            if instruction.opcode == "while":
                self.trips(instruction)
            else:
                self.instruction(instruction)

    # ---- control flow

    def enter(self, loop: Instruction) -> None:
        """Give a loop its initial state."""
        for copy in self.assignment.loop_copies[loop][0]:
            self.body.copy(copy)

    def loop(self, instruction: Instruction) -> None:
        if instruction in self.steps.task_loops:
            self.task_loop(instruction, self.steps.task_loops[instruction])
        else:
            self.trips(instruction)

    def task_loop(self, instruction: Instruction, plan: TaskLoop) -> None:
        """The loop as a function for some of the tasks; the first task leaves its own values in the table, behind the
        frame."""
        name = f"{self.name}_{len(self.uses)}_loop"
        with self._function(f"internal {signature(name, plumbing=True)}") as inner:
            f = inner.f
            inner.make_room([plan.kernel])
            own = [f.let("alloca i64") for _ in plan.own]
            for slot, value in zip(own, plan.own, strict=True):
                inner.move(slot, inner.address(value), value.size)
            inner.own, inner.span = dict(zip(plan.own, own, strict=True)), ("%begin", "%end")
            self.trips(instruction)
            first, leave = f.fresh("first"), f.fresh("leave")
            f.branch(f.let("icmp eq i64 %begin, 0"), first, leave)
            f.label(first)
            for number, (slot, value) in enumerate(zip(own, plan.own, strict=True), 1):
                inner.move(inner.offset("%args", 8 * number), slot, value.size)
            f.jump(leave)
            f.label(leave)
        body = self.body
        body.f.do(f"store ptr %frame, ptr {body.table}")
        self.fork(name, self.kernels[plan.kernel].steps[0].tasks)
        for number, value in enumerate(plan.own, 1):
            body.move(body.address(value), body.offset(body.table, 8 * number), value.size)

    def trips(self, instruction: Instruction) -> None:
        f = self.body.f
        _, repeating = self.assignment.loop_copies[instruction]
        condition, body = instruction.attributes["condition"], instruction.attributes["body"]
        homes = begin_swaps(self.body, instruction)
        test, again, leave = f.fresh("test"), f.fresh("body"), f.fresh("done")
        f.jump(test)
        f.label(test)
        self.computation(condition)
        f.branch(str(self.body.load(condition.root)), again, leave)
        f.label(again)
        self.computation(body)
        for copy in repeating:
            self.body.copy(copy)
        swap(self.body, homes)
        if self.steps.polls:
            self.poll(instruction)
        f.jump(test)
        f.label(leave)
        end_swaps(self.body, homes)

    def poll(self, loop: Instruction) -> None:
        """Ask the runtime whether to go on, if there is reason to ask."""
        f = self.body.f
        self.unit.declarations.setdefault(POLL_FLAG, f"@{POLL_FLAG} = external global i32")
        asked, proceed = f.fresh("ask"), f.fresh("go")
        now = f.let(f"load atomic i32, ptr @{POLL_FLAG} monotonic, align 4")
        f.branch(f.let(f"icmp ne i32 {now}, 0"), asked, proceed)
        f.label(asked)
        self.host_call(loop, is_poll=True)
        f.jump(proceed)
        f.label(proceed)

    def conditional(self, instruction: Instruction) -> None:
        f = self.body.f
        branches = branch_computations(instruction)
        selector = self.body.load(instruction.operands[0])
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
                self.body.copy(copy)
            f.jump(leave)
        f.label(leave)
