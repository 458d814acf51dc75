"""Writes the entry function, those of computations that are called, and those of tasks that are more than kernels.

The entry function is ``void @NAME(ptr %frame)``; the frame is a table of addresses: parameter leaves, output leaves,
the arena, the constants; then the status of the execution, a word that is zero at first, `STOPPED` when it is to end
early, and `COMPLETE`, which nothing but the last statement writes, when it has done all of its work.  While loops and
conditionals are branches in it, scalar arithmetic stands in line, custom calls and what concerns other devices or the
host are calls back into the runtime, and everything else is a call of a kernel, through the pool where its cost is
worth it.  Steps that run side by side (`hlotool.codegen.cpu.host.overlap`) are one job of the pool.

What may take long looks at the clock on the way and asks the runtime whether to go on (`hlotool.codegen.llvm.polling`).
In a program that is profiled steps say how long they took (`hlotool.codegen.cpu.host.probing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.analysis.trip_count import trip_count
from hlotool.codegen.cpu.host.body import Body, table_size
from hlotool.codegen.cpu.host.probing import Probing
from hlotool.codegen.cpu.host.region_code import FIRST, Call, define_calls, define_tasks
from hlotool.codegen.cpu.host.step_costs import StepCosts
from hlotool.codegen.kernel import LOOPING, PLUMBING, PROMOTED, inlined, signature
from hlotool.codegen.llvm.control import allocate, ask, begin_loop, call, when
from hlotool.codegen.llvm.denormals import define_flushing
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import vector
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.polling import BUDGET, SHORT
from hlotool.codegen.llvm.status import COMPLETE, POLL
from hlotool.codegen.llvm.values import Bool, Int, Ptr, Vector
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.plan.buffers import branch_computations
from hlotool.codegen.plan.region import Region
from hlotool.codegen.plan.small_loops import kept
from hlotool.codegen.plan.steps import (
    HOST,
    HostCall,
    KernelUse,
    Routine,
    TaskLoop,
    inside,
    is_element,
    is_scalar_code,
)
from hlotool.codegen.plan.units import Piece
from hlotool.codegen.plan.values import Copy, Value
from hlotool.codegen.target import FunctionPlan
from hlotool.ir import Computation, Instruction
from hlotool.ir.refusals import named

__all__ = ["write_function"]

_MOST_COPIES: Annotated[int, Threshold("copies")] = 64
"""That are written one after the other; more are a loop over a table."""

_ABANDON = "abandon"
"""The block that ends an execution which failed."""


def write_function(plan: FunctionPlan) -> tuple[list[Piece], Routine]:
    """Write the function of a computation; its text and those of its small loops, and what its callers have to know."""
    name, steps = plan.name, plan.steps
    flushed = plan.is_entry and plan.machine.numerics.flush_denormals
    own = f"internal void @{name}_flushed" if flushed else f"void @{name}"
    writer = _Writer(plan)
    writer.whole(f"{own}(ptr %frame)" if plan.is_entry else f"{own}(ptr %frame, i64 %begin, i64 %end)")
    if flushed:
        define_flushing(writer.unit, name, f"@{name}_flushed", ["ptr"], internal=False)
    offered = () if plan.is_entry else (f"declare void @{name}(ptr, i64, i64)",)
    asks = any(steps.stays(i) and steps.runs(i) for i in steps.assignment.positions)
    routine = Routine(name, steps.assignment.arena_bytes, writer.costs.whole(steps.entry), asks, writer.forks)
    return [*writer.small, Piece(writer.unit.declared, writer.unit.defined, offered)], routine


class _Writer:
    """Writes the function of a computation, and those of the tasks in it."""

    def __init__(self, plan: FunctionPlan) -> None:
        self.plan = plan
        self.name = plan.name
        self.steps = plan.steps
        self.assignment = plan.steps.assignment
        self.kernels = plan.steps.kernels
        self.schedule = plan.schedule
        self.unit = Unit(plan.machine)
        self.small: list[Piece] = []  # the functions of small loops
        self.flushes = plan.machine.numerics.flush_denormals
        self.flushing: set[str] = set()  # functions that are there with flushing for other threads
        self.forks = False
        self.regions = 0
        self.polled = 0
        self.tables = 0
        self.costs = StepCosts(plan.steps)
        self.probing = Probing(plan.probes, self.unit, plan.steps, plan.name)

    def whole(self, head: str) -> None:
        """Write the function that runs the computation."""
        head = f"{head} nounwind{self._quality(self.assignment.positions)}"
        regions = (item for order in self.schedule.orders.values() for item in order if isinstance(item, Region))
        widths = [FIRST + sum(1 + table_size(i, self.assignment) for i in region.steps) for region in regions]
        widths += [1 + len(found.own) for found in self.steps.task_loops.values()]
        f = Function(self.unit, head)
        body = self.body = Body(
            f, self.assignment, self.plan.constants, Ptr(f, "%frame"), instructions=self.assignment.positions,
            width=max(widths, default=1), is_table=not self.plan.is_entry,
        )  # fmt: skip
        with self.probing.function(f, self.name):
            self.computation(self.steps.entry)
            self.copy_all(self.assignment.output_copies)
            self.probing.copied(self.assignment.output_copies, self.steps.entry.root)
            self.probing.mark("rest", self.steps.entry.root, about=False)
        if self.plan.is_entry:
            body.status.store(COMPLETE)
        body.end_early(_ABANDON, tells=not self.plan.is_entry)

    def _quality(self, instructions: Iterable[Instruction]) -> str:
        """Attributes of a function for `instructions`: loops without kernels are arithmetic, which should be good."""
        within = {inner for loop in self.steps.small_loops for inner in (loop, *inside(loop))}
        loops = [i for i in instructions if i.opcode == "while" and i not in within]
        works = any(self.kernels.keys().isdisjoint(loop.attributes["body"]) for loop in loops)
        return "" if works else f" {LOOPING if loops else PLUMBING}"

    @contextmanager
    def _function(
        self, head: str, instructions: Iterable[Instruction], probed: str | None = None
    ) -> Iterator[Body]:
        """Write another function, for `instructions`, whose table of arguments begins with the frame; with probes of
        scope `probed`, if any."""
        outer = self.body
        self.body = outer.inner(Function(self.unit, head), instructions)
        with self.probing.function(self.body.f, probed):
            yield self.body
        self.body.end_early(_ABANDON)
        self.body = outer

    def copy_all(self, copies: Sequence[Copy]) -> None:
        """Copy one after the other: many of them in a loop over a table, as LLVM's time for code in line grows faster
        than the code."""
        body, f = self.body, self.body.f
        copies = [copy for copy in copies if copy.source.find() is not copy.target.find() and copy.source.size]
        rows = []
        for copy in copies if len(copies) > _MOST_COPIES else ():
            source, target = body.home(copy.source), body.home(copy.target)
            if source is not None and target is not None:
                rows.append((*source, *target, copy.source.size))
        if not rows or len(rows) < len(copies):
            for copy in copies:
                body.copy(copy)
            return
        table = f"{self.name}_copies{self.tables}"
        self.tables += 1
        numbers = ", ".join(f"i64 {number}" for row in rows for number in row)
        self.unit.constant(table, f"[{5 * len(rows)} x i64] [{numbers}]")
        loop = begin_loop(f, 0, len(rows))
        row = Ptr(f, f"@{table}").at("[5 x i64]", loop.index)
        places = [row.at("i64", number) for number in range(5)]
        source_word, source_start, target_word, target_start, size = (place.load_int() for place in places)
        to = body.frame.slot(target_word).load_ptr() + target_start
        to.copy_from(body.frame.slot(source_word).load_ptr() + source_start, size)
        loop.end()

    # ---- instructions

    def computation(self, computation: Computation) -> None:
        for item in self.schedule.orders.get(computation, computation):
            if isinstance(item, Region):
                self.region(item)
            else:
                self.instruction(item)
                if self.body.span is None and self.costs.serial(item) >= BUDGET and not self._polls(item):
                    self.poll(item)

    def instruction(self, instruction: Instruction) -> None:
        body = self.body
        self.probing.before(instruction)
        body.find_targets(instruction)
        match instruction.opcode:
            case "while":
                self.copy_all(self.assignment.loop_copies[instruction][0])
                self.probing.copied(self.assignment.loop_copies[instruction][0], instruction)
                self.loop(instruction)
            case "conditional":
                self.conditional(instruction)
            case opcode if opcode in HOST:
                body.fill_table(self._arguments(instruction))
                self.host_call(instruction)
            case _ if instruction in self.kernels:
                self.kernel(instruction)
            case _ if is_scalar_code(instruction):
                self.scalar(instruction)
            case _ if instruction in self.assignment.views:
                body.views[self.assignment.leaves[instruction][0]] = body.part(instruction)
            case _ if is_element(instruction):
                body.store(instruction, body.load_from(body.part(instruction), instruction.shape.element_type))
        self.probing.after(instruction)

    def scalar(self, instruction: Instruction) -> None:
        with named(instruction):
            operands = [self.body.load(o) for o in instruction.operands]
            if instruction.opcode == "fusion":
                register = emit_inline(self.body.f, instruction.attributes["calls"], operands)[0]
            elif instruction.has("elementwise"):
                types = [o.shape.element_type for o in instruction.operands]
                own, result = instruction.attributes, instruction.shape.element_type
                register = emit_elementwise(instruction.opcode, own, types, result, operands)
            else:
                register = operands[0]
            self.body.store(instruction, register)

    def _arguments(self, instruction: Instruction) -> list[Value]:
        leaves = self.assignment.leaves
        return [v for o in instruction.operands for v in leaves[o]] + list(leaves[instruction])

    def _kernel_arguments(self, instruction: Instruction) -> list[Value]:
        scratch = self.steps.scratch.get(instruction)
        own = self._arguments(instruction) + ([] if scratch is None else [scratch])
        return [*own, self.assignment.block] if instruction in self.steps.routines else own

    def kernel(self, instruction: Instruction) -> None:
        body = self.body
        body.fill_table(self._kernel_arguments(instruction))
        routine = self.steps.routines.get(instruction)
        parallel = body.span is not None or (routine is not None and routine.forks)
        self.forks |= parallel
        shared = f"{self.name}_{len(self.plan.uses)}_tasks"
        for number, step in enumerate(self.kernels[instruction].steps):
            self._declare(step.function)
            if body.span is not None:
                call(body.f, f"@{step.function}", body.table, *body.span)
            elif (instruction, number) in self.schedule.split:
                parallel = True
                self.fork(self.probing.timed(step.function, instruction, shared), step.tasks)
            elif (instruction, number) in self.schedule.split_awake:
                parallel = True
                self.fork(self.probing.timed(step.function, instruction, shared), step.tasks, "hlo_parallel_awake")
            else:
                call(body.f, f"@{step.function}", body.table, 0, step.tasks)
            if step.polls:
                self.check()
        kernel = self.plan.kernel_names[instruction]
        if routine is None:
            self.probing.mark("kernel", instruction, kernel=kernel, opens=shared)
        else:
            self.probing.mark("call", instruction, kernel=kernel, opens=routine.function)
        self._note_use(instruction, parallel)

    def _declare(self, function: str) -> None:
        """Declare a step function."""
        self.unit.declarations[function] = f"declare void @{function}(ptr, i64, i64)"

    def _note_use(self, instruction: Instruction, parallel: bool) -> None:
        cost = sum(step.cost for step in self.kernels[instruction].steps)
        self.plan.uses.append(KernelUse(instruction.name, self.plan.kernel_names[instruction], cost, parallel))

    def fork(self, function: str, tasks: int, pool: str = "hlo_parallel") -> None:
        """Let threads share the tasks of step function `function`."""
        self.forks = True
        if self.flushes:  # other threads do not do so yet
            callee, function = f"@{function}", f"{function}_flushed"
            if function not in self.flushing:
                self.flushing.add(function)
                define_flushing(self.unit, function, callee, ["ptr", "i64", "i64"])
        callee = self.unit.declare("void", pool, ["ptr", "ptr", "i64", "ptr"])
        body = self.body
        call(body.f, callee, Ptr(body.f, f"@{function}"), body.table, tasks, body.status)

    def host_call(self, instruction: Instruction) -> None:
        """A call of the runtime; where it fails the execution ends: what follows might wait for its outputs forever."""
        symbol = f"hlo_host_{len(self.plan.host_calls)}"
        self.plan.host_calls.append(HostCall(symbol, instruction))
        self.unit.declarations[symbol] = f"@{symbol} = external global i8"
        callee = self.unit.declare("i64", "hlo_host", ["ptr", "ptr"])
        f = self.body.f
        self._end_if(ask(f, callee, Int, Ptr(f, f"@{symbol}"), self.body.table).ne(COMPLETE))
        self.probing.mark("host", instruction)

    def check(self) -> None:
        """End the execution where what was called has been stopped."""
        self._end_if(self.body.status.load_atomic().ne(0))

    def _end_if(self, condition: Bool) -> None:
        proceed = self.body.f.fresh("proceed")
        self.body.may_end = True
        self.body.f.branch(condition.name, _ABANDON, proceed)
        self.body.f.label(proceed)

    # ---- regions

    def region(self, region: Region) -> None:
        """Run steps side by side, as one job; its table has the arguments of all of them."""
        body = self.body
        first = FIRST + 1  # each has the status ahead of its arguments
        constants = f"{self.name}_region{self.regions}"
        self.probing.before(region.steps[0])
        calls: dict[Instruction, list[Call]] = {}
        for instruction in region.steps:
            kernel = self.kernels.get(instruction)
            if kernel is not None:
                body.find_targets(instruction)
                values = self._kernel_arguments(instruction)
                (body.table + (8 * first - 8)).store(body.status)
                body.fill_table(values, first)
                for step in kernel.steps:
                    self._declare(step.function)
                functions = self.probing.timed_all([step.function for step in kernel.steps], instruction, constants)
                calls[instruction] = [
                    Call(function, first, step.tasks) for function, step in zip(functions, kernel.steps, strict=True)
                ]
                first += len(values) + 1
                self._note_use(instruction, True)
            else:
                if instruction.opcode == "while":
                    self.copy_all(self.assignment.loop_copies[instruction][0])
                name = f"{self.name}_task{self.regions}_{len(calls)}"
                (body.table + 8 * first).store(body.frame)
                self.control_task(name, instruction)
                calls[instruction] = [Call(self.probing.timed(name, instruction, constants, name), first)]
                first += 2
        define_calls(self.unit, constants, region, calls)
        body.table.store(Ptr(body.f, f"@{constants}"))
        (body.table + 8).store(Ptr(body.f, f"@{constants}_starts"))
        if not self.regions:
            define_tasks(self.unit, f"{self.name}_tasks")
        self.regions += 1
        self.fork(f"{self.name}_tasks", len(region.tasks))
        self.check()
        self.probing.mark("region", region.steps[0], about=False, opens=constants)

    def control_task(self, name: str, instruction: Instruction) -> None:
        """A function that runs a loop, with its state as it is initially, or a conditional."""
        inner = [instruction, *inside(instruction)]
        head = f"internal void @{name}(ptr %args, i64 %begin, i64 %end) nounwind"
        with self._function(f"{head}{self._quality(inner)}", inner, name):
            if instruction.opcode == "while":
                self.loop(instruction)
            else:
                self.instruction(instruction)

    # ---- control flow

    def loop(self, instruction: Instruction) -> None:
        """A loop that has its initial state."""
        if instruction in self.steps.task_loops:
            self.task_loop(instruction, self.steps.task_loops[instruction])
        elif instruction in self.steps.small_loops:
            self.small_loop(instruction)
        else:
            self.trips(instruction)

    def small_loop(self, instruction: Instruction) -> None:
        """The loop as a function with its kernels, in a text of its own."""
        name = f"{self.name}_loop{len(self.small)}"
        outer, self.unit = self.unit, Unit(self.plan.machine)
        with self._function(f"{signature(name)} {PROMOTED}", [instruction, *inside(instruction)]) as inner:
            own = kept(instruction, self.steps)
            inner.keep(own)
            self.trips(instruction)
            inner.give_back(own)
        kernels = self.steps.small_loops[instruction]
        inside_only = {line for piece in kernels for line in piece.offers}
        lines = (*(line for piece in kernels for line in piece.declarations), *self.unit.declared)
        text = "\n".join([*(inlined(piece.definitions) for piece in kernels), self.unit.defined])
        declared = tuple(line for line in lines if line not in inside_only)
        self.small.append(Piece(declared, text, (f"declare void @{name}(ptr, i64, i64)",)))
        self.unit = outer
        self._declare(name)
        body = self.body
        body.table.store(body.frame)
        with self.probing.loop(instruction):
            call(body.f, f"@{name}", body.table, 0, 1)
        if inner.may_end:
            self.check()

    def task_loop(self, instruction: Instruction, plan: TaskLoop) -> None:
        """The loop as a function for some of the tasks; the first task leaves its own values in the table, behind the
        frame."""
        name = f"{self.name}_{len(self.plan.uses)}_loop"
        with self._function(f"internal {signature(name, plumbing=True)}", [plan.kernel]) as inner:
            f = inner.f
            own = {value: allocate(f, "i64") for value in plan.own}
            for value, slot in own.items():
                slot.copy_from(inner.address(value), value.size)
            begin = Int(f, "%begin")
            inner.own, inner.span = own, (begin, Int(f, "%end"))
            self.trips(instruction)

            def give() -> None:
                for number, (value, slot) in enumerate(own.items(), 1):
                    (Ptr(f, "%args") + 8 * number).copy_from(slot, value.size)

            when(begin.eq(0), give)
        body = self.body
        body.table.store(body.frame)
        shared = f"{name}_tasks"
        self.fork(self.probing.timed(name, plan.kernel, shared), self.kernels[plan.kernel].steps[0].tasks)
        self.check()
        self.probing.mark("kernel", plan.kernel, kernel=self.plan.kernel_names[plan.kernel], opens=shared)
        for number, value in enumerate(plan.own, 1):
            body.address(value).copy_from(body.table + 8 * number, value.size)

    def trips(self, instruction: Instruction) -> None:
        f = self.body.f
        _, repeating = self.assignment.loop_copies[instruction]
        condition, body = instruction.attributes["condition"], instruction.attributes["body"]
        homes = self.body.begin_swaps(instruction)
        test, again, leave = f.fresh("test"), f.fresh("body"), f.fresh("done")
        with self.probing.loop(instruction):
            f.jump(test)
            f.label(test)
            self.computation(condition)
            f.branch(vector(self.body.load(condition.root)).name, again, leave)
            f.label(again)
            self.computation(body)
            self.copy_all(repeating)
            self.probing.copied(repeating, instruction)
            self.body.swap(homes)
            if self._polls(instruction):
                self.spend(instruction)
            f.jump(test)
            f.label(leave)
            self.body.end_swaps(homes)

    def _polls(self, instruction: Instruction) -> bool:
        """Whether an instruction is a loop that may take long.

        What a module claims about its trips does not count.
        """
        if instruction.opcode != "while":
            return False
        trips = trip_count(instruction)
        return trips is None or trips.count * self.costs.trip(instruction) > SHORT

    def spend(self, loop: Instruction) -> None:
        """At the end of a trip: now and then, ask the runtime whether to go on."""
        budget, weight = self.body.budget, max(1, round(min(self.costs.trip(loop), BUDGET)))
        if weight == BUDGET:
            self.poll(loop)
            return
        left = budget.load_int() - weight
        budget.store(left)

        def refill() -> None:
            budget.store(BUDGET)
            self.poll(loop)

        when(left < 0, refill)

    def poll(self, instruction: Instruction) -> None:
        """Ask the runtime whether to go on, if it is some time since that was asked."""
        body = self.body
        name = f"{self.name}_asks{self.polled}"
        self.polled += 1
        text = "".join(f"\\{byte:02x}" for byte in (*instruction.name.encode(), 0))
        self.unit.constant(name, f'[{len(text) // 3} x i8] c"{text}"')
        stop = body.f.intrinsic("i32", POLL, [body.status, Ptr(body.f, f"@{name}")])
        self._end_if(Vector(body.f, "i32", 1, stop).gt(0).bit())

    def conditional(self, instruction: Instruction) -> None:
        f = self.body.f
        branches = branch_computations(instruction)
        selector = vector(self.body.load(instruction.operands[0]))
        labels = [f.fresh("branch") for _ in branches]
        leave = f.fresh("done")
        if instruction.operands[0].shape.element_type == "pred":
            f.branch(selector.name, labels[0], labels[1])
        else:
            f.switch(selector.type, selector.name, labels)
        for number, (label, branch) in enumerate(zip(labels, branches, strict=True)):
            f.label(label)
            self.computation(branch)
            self.copy_all(self.assignment.branch_copies[instruction, number])
            self.probing.copied(self.assignment.branch_copies[instruction, number], instruction)
            f.jump(leave)
        f.label(leave)
