"""From a module to a program of launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.in_place import module_in_place_pairs
from hlotool.analysis.thresholds import Threshold
from hlotool.analysis.trip_count import known_trip_count
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.library_products import library_product
from hlotool.codegen.kernels import Constants, Kernels, functions_of, identifier
from hlotool.codegen.launches import Ask, Branch, Call, Launch, LaunchProgram, Loop, Move, Operation, Place, straight
from hlotool.codegen.plan.arena import place
from hlotool.codegen.plan.buffers import assign, branch_computations, start_of
from hlotool.codegen.plan.steps import HOST, HostCall, KernelUse, Routine
from hlotool.codegen.plan.units import Units
from hlotool.codegen.plan.values import Assignment, Copy, Value, array_leaves
from hlotool.codegen.target import Target
from hlotool.ir import Computation, Instruction, Module
from hlotool.ir.devices import check_devices
from hlotool.lazy_dataclass import dataclass

__all__ = ["build"]

GRAPH: Annotated[int, Threshold("operations")] = 1 << 12
"""That one launch has, at most: each is kept by the driver."""


def build(module: Module, chip: Chip, target: Target, log: DecisionLog) -> LaunchProgram:
    """Plan and emit `module` for `chip`, with the grids of `target`; UnsupportedError names what has no code there.

    The code for a chip is one text: nothing links several.
    """
    check_devices(module)
    in_place = module_in_place_pairs(module)
    constants, units = Constants(chip.machine), Units(lambda unit: None, whole=not chip.emulated)
    kernels = Kernels(target, chip.machine, units)
    routines: dict[Computation, Routine] = {}
    lists: dict[str, tuple[Operation, ...]] = {}
    uses: list[KernelUse] = []
    host_calls: list[HostCall] = []
    name = f"run_{identifier(module.name)}"
    for computation in functions_of(module):
        is_entry = computation is module.entry
        assignment = assign(computation, in_place, log=log, moves=False)
        kernels.add_all(assignment)
        log.pass_name = "grids"
        for instruction in assignment.positions:
            kernel = kernels.of.get(instruction)
            for note in kernel.notes if kernel is not None else ():
                log.note(note.rule, instruction, note.reason, **dict(note.numbers))
        calls = {i: routines[i.attributes["to_apply"]] for i in assignment.positions if i.opcode == "call"}
        for call, routine in calls.items():
            kernels.call(call, routine, assignment)
        place(assignment)
        own = name if is_entry else f"{name}_{len(routines)}_{identifier(computation.name)}"
        offsets = constants.offsets(assignment)
        starts = _starts(assignment)
        writer = _Writer(assignment, kernels, calls, offsets, uses, host_calls, starts, not chip.is_amd, log)
        lists[own] = (*writer.computation(computation), *writer.copies(assignment.output_copies))
        routines[computation] = Routine(own, assignment.arena_bytes, 0.0, asks=False, forks=False)
    at_once = straight(lists, name, len(assignment.parameters) + len(assignment.outputs) + 2, GRAPH)
    if at_once is not None:
        log.note("one-graph", module.entry.name, "the host need not look at anything", operations=len(at_once))
    else:
        log.note("host-control", module.entry.name, "the host is asked on the way, or there are too many operations")
    return LaunchProgram(
        units=(*units.finish(), *kernels.library()), routines=lists, entry=name, at_once=at_once,
        parameters=tuple(v.shape for v in assignment.parameters if v.shape is not None),
        outputs=tuple(array_leaves(module.entry.root.shape)), arena_bytes=assignment.arena_bytes,
        constants=constants.block(), host_calls=tuple(host_calls), kernels=tuple(uses),
    )  # fmt: skip


def _starts(assignment: Assignment) -> dict[Value, int]:
    """The bytes at which slices begin that are views."""
    return {assignment.leaves[part][0].find(): start_of(part) or 0 for part in assignment.views}


@dataclass(frozen=True, slots=True)
class _Writer:
    """Lists the operations of a computation."""

    assignment: Assignment
    kernels: Kernels
    calls: Mapping[Instruction, Routine]
    constants: Mapping[Value, int]
    uses: list[KernelUse]
    host_calls: list[HostCall]
    starts: Mapping[Value, int]
    asks_library: bool
    log: DecisionLog

    def computation(self, computation: Computation) -> list[Operation]:
        return [operation for instruction in computation for operation in self.instruction(instruction)]

    def instruction(self, instruction: Instruction) -> Iterable[Operation]:
        assignment = self.assignment
        if instruction in assignment.unread:
            return ()
        match instruction.opcode:
            case "while":
                return self.loop(instruction)
            case "conditional":
                return [self.branch(instruction)]
            case opcode if opcode in HOST:
                self.host_calls.append(HostCall(f"hlo_host_{len(self.host_calls)}", instruction))
                return [Ask(len(self.host_calls) - 1, self.arguments(instruction))]
            case "call":
                arguments = [*self.arguments(instruction), self.place(assignment.block)]
                return [Call(self.calls[instruction].function, tuple(arguments))]
            case _ if instruction in self.kernels.of:
                return self.launches(instruction)
        return ()

    def launches(self, instruction: Instruction) -> Iterable[Operation]:
        kernel, name = self.kernels.of[instruction], self.kernels.names[instruction]
        self.uses.append(KernelUse(instruction.name, name, sum(step.cost for step in kernel.steps), True))
        arguments = self.arguments(instruction)
        found = [Launch(step.function, step.tasks, step.threads, arguments, instruction.name) for step in kernel.steps]
        product = library_product(instruction, arguments, found) if self.asks_library else None
        if product is None:
            return found
        _, rows, columns, terms = product.sizes
        why = "it is a large product of plain matrices"
        self.log.note("library-product", instruction, why, rows=rows, columns=columns, terms=terms)
        return [product]

    def arguments(self, instruction: Instruction) -> tuple[Place, ...]:
        """Operands, results, and scratch memory if there is some."""
        leaves, scratch = self.assignment.leaves, self.kernels.scratch.get(instruction)
        values = [value for operand in instruction.operands for value in leaves[operand]] + list(leaves[instruction])
        return tuple(map(self.place, values if scratch is None else [*values, scratch]))

    def loop(self, loop: Instruction) -> list[Operation]:
        condition, body = loop.attributes["condition"], loop.attributes["body"]
        entering, repeating = self.assignment.loop_copies[loop]
        (predicate,) = self.assignment.leaves[condition.root]
        trip, asking = (*self.computation(body), *self.copies(repeating)), tuple(self.computation(condition))
        trips = None if any(isinstance(operation, Ask) for operation in asking) else known_trip_count(loop)
        return [*self.copies(entering), Loop(asking, self.place(predicate), trip, trips)]

    def branch(self, conditional: Instruction) -> Branch:
        (selector,) = self.assignment.leaves[conditional.operands[0]]
        branches = []
        for number, computation in enumerate(branch_computations(conditional)):
            copies = self.copies(self.assignment.branch_copies[conditional, number])
            branches.append((*self.computation(computation), *copies))
        is_byte = conditional.operands[0].shape.element_type == "pred"
        return Branch(self.place(selector), is_byte, tuple(branches))

    def copies(self, copies: Sequence[Copy]) -> list[Operation]:
        found: list[Operation] = []
        for copy in copies:
            source, target = self.place(copy.source), self.place(copy.target)
            if source != target and copy.source.size:
                found.append(Move(source, target, copy.source.size))
        return found

    def place(self, value: Value) -> Place:
        """Where the storage of a value is."""
        root, assignment = value.find(), self.assignment
        results = len(assignment.parameters)
        arena = results + len(assignment.outputs)
        if root is assignment.block:
            return Place(arena + 1)
        if root.whole is not None:
            whole = self.place(root.whole)
            return Place(whole.word, whole.start + self.start(root))
        if root.output is not None:
            return Place(results + root.output)
        if root.parameter is not None:
            return Place(root.parameter)
        if root.constant is not None:
            return Place(arena + 1, self.constants[root])
        return Place(arena, root.offset or 0)

    def start(self, part: Value) -> int:
        """The byte of the whole at which a part begins."""
        return part.start if part.start is not None else self.starts[part]
