"""From a module to a program: kernels, buffers, and native functions: that of the entry computation runs all of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator

import numpy as np
import numpy.typing as npt

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import NOTHING_DONATED, Donation
from hlotool.analysis.fingerprint import Structures
from hlotool.analysis.in_place import module_in_place_pairs
from hlotool.codegen.kernel import Helper, Kernel, KernelCrash, Step
from hlotool.codegen.machine import Machine
from hlotool.codegen.plan.arena import ALIGNMENT, place
from hlotool.codegen.plan.buffers import assign
from hlotool.codegen.plan.probes import Probe
from hlotool.codegen.plan.sharing import Functions
from hlotool.codegen.plan.steps import HostCall, KernelUse, Routine, Steps, called, is_there, named, needs_kernel
from hlotool.codegen.plan.task_loops import task_loops
from hlotool.codegen.plan.units import Piece, Units
from hlotool.codegen.plan.values import Assignment, Value, array_leaves
from hlotool.codegen.target import FunctionPlan, Target, target_of
from hlotool.ir import Computation, Instruction, Module, Shape, UnsupportedError
from hlotool.ir.devices import check_devices
from hlotool.lazy_dataclass import dataclass

__all__ = ["Program", "build", "kernel_texts"]


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that the runtime needs: IR texts and the frame's layout.

    `units` are the program's own texts, `library` those of functions that other programs call as well.  `assignment`
    has the bytes of the arena, and which parameters are written to or hold results.  `probes` are the places where it
    looks at the clock; None if it does not.
    """

    units: tuple[str, ...]
    library: tuple[str, ...]
    entry: str
    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    constants: npt.NDArray[np.uint8]
    host_calls: tuple[HostCall, ...]
    kernels: tuple[KernelUse, ...]
    assignment: Assignment
    probes: tuple[Probe, ...] | None = None

    def __repr__(self) -> str:
        return f"Program({len(self.kernels)} kernels, {len(self.units)} units)"

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is to be compiled and linked."""
        return *self.units, *self.library


def build(
    module: Module,
    machine: Machine,
    donation: Donation = NOTHING_DONATED,
    log: DecisionLog | None = None,
    begin: Callable[[str], None] = lambda unit: None,
    target: Target | None = None,
    profiled: bool = False,
) -> Program:
    """Plan and emit `module`, whose loops and branches each own their computations; calls become calls of functions.

    The code is for `machine`, made by `target`, which is the machine's own if none is given.  Arguments in `donation`
    may be overwritten.  If `profiled`, steps say how long they take.  `begin` is given the first units, in order, each
    as soon as its text is known.  What buffer assignment and scheduling decide goes to `log`.  UnsupportedError names
    the first instruction that has no native code, and the collectives that do not fit the devices which the module says
    it runs on; KernelCrash the instructions whose kernels could not be written.
    """
    check_devices(module)
    log = DecisionLog() if log is None else log
    target = target_of(machine) if target is None else target
    in_place = module_in_place_pairs(module)
    constants = _Constants()
    units = Units(begin)
    kernels = _Kernels(target, machine, units)
    routines: dict[Computation, Routine] = {}
    host_calls: list[HostCall] = []
    uses: list[KernelUse] = []
    probes: list[Probe] | None = [] if profiled else None
    name = f"run_{_identifier(module.name)}"
    for computation in _functions(module):
        is_entry = computation is module.entry
        assignment = assign(computation, in_place, donation if is_entry else NOTHING_DONATED, log)
        kernels.add_all(assignment)
        calls = {i: routines[i.attributes["to_apply"]] for i in assignment.positions if i.opcode == "call"}
        for call, routine in calls.items():
            kernels.call(call, routine, assignment)
        shared = task_loops(assignment, kernels.of, kernels.scratch, target.shares_loop)
        steps = Steps(computation, assignment, kernels.of, kernels.scratch, shared, calls)
        schedule = target.schedule(steps, log)
        place(assignment)
        plan = FunctionPlan(
            name=name if is_entry else f"{name}_{len(routines)}_{_identifier(computation.name)}", is_entry=is_entry,
            steps=steps, schedule=schedule, kernel_names=kernels.names, constants=constants.offsets(assignment),
            machine=machine, host_calls=host_calls, uses=uses, probes=probes,
        )  # fmt: skip
        piece, routines[computation] = target.function(plan)
        units.add(piece)
    return Program(
        units=units.finish(),
        library=kernels.library(),
        entry=name,
        parameters=tuple(v.shape for v in assignment.parameters if v.shape is not None),
        outputs=tuple(array_leaves(module.entry.root.shape)),
        constants=constants.block(),
        host_calls=tuple(host_calls),
        kernels=tuple(uses),
        assignment=assignment,
        probes=None if probes is None else tuple(probes),
    )


def kernel_texts(
    module: Module, machine: Machine, donation: Donation, target: Target
) -> Iterator[tuple[str, list[Instruction]]]:
    """The texts of the kernels of `module`, as `build` makes them, each with what it needs to compile alone, and the
    instructions that it computes."""
    in_place = module_in_place_pairs(module)
    kernels = _Kernels(target, machine, Units(lambda unit: None))
    for computation in _functions(module):
        own = donation if computation is module.entry else NOTHING_DONATED
        kernels.add_all(assign(computation, in_place, own))
    users: dict[str, list[Instruction]] = {}
    for instruction, name in kernels.names.items():
        users.setdefault(name, []).append(instruction)
    for name, kernel in kernels.distinct.values():
        lines = dict.fromkeys(line for helper in kernel.helpers for line in helper.declarations)
        definitions = [helper.definitions for helper in kernel.helpers]
        yield "\n".join([*lines, kernel.text, *definitions]), users[name]


def _functions(module: Module) -> list[Computation]:
    """The computations that become functions: what calls run, and the entry; callees first."""
    order = module.callees_first()
    running = {module.entry}
    found = {module.entry}
    for computation in reversed(order):
        if computation in running and computation.callees:
            for instruction in computation:
                running.update(called(instruction))
                if instruction.opcode == "call":
                    running.add(instruction.attributes["to_apply"])
                    found.add(instruction.attributes["to_apply"])
    return [computation for computation in order if computation in found]


class _Kernels:
    """Kernels by structure: equal instructions share one.  Their functions, and their helpers, go to `units`."""

    def __init__(self, target: Target, machine: Machine, units: Units) -> None:
        self.target = target
        self.machine = machine
        self.units = units
        self.of: dict[Instruction, Kernel] = {}
        self.names: dict[Instruction, str] = {}
        self.scratch: dict[Instruction, Value] = {}
        self.distinct: dict[Hashable, tuple[str, Kernel]] = {}
        self.functions = Functions(units.add)
        self.helpers: dict[Helper, None] = {}
        self._structures = Structures()

    def add_all(self, assignment: Assignment) -> None:
        """The kernels of all that needs one; KernelCrash with those that could not be written."""
        causes: dict[Instruction, Exception] = {}
        for instruction in assignment.positions:
            if needs_kernel(instruction) and not is_there(instruction, assignment):
                try:
                    self.add(instruction, assignment)
                except UnsupportedError as error:
                    if instruction.opcode != "fusion":
                        raise
                    causes[instruction] = error  # its parts may have native code
                except Exception as error:
                    causes[instruction] = error
        if causes:
            raise KernelCrash(causes)

    def add(self, instruction: Instruction, assignment: Assignment) -> None:
        in_place = assignment.in_place.get(instruction, frozenset())
        there = assignment.there.get(instruction, frozenset())
        key = (self._structures.instruction(instruction), tuple(sorted(in_place)), tuple(sorted(there)))
        found = self.distinct.get(key)
        if found is None:
            name = f"k{len(self.distinct)}_{_identifier(instruction.name)}"
            with named(instruction):
                kernel = self.target.emitter(instruction)(name, instruction, self.machine, in_place, there)
            found = name, self.functions.add(name, kernel)
            self.distinct[key] = found
            for helper in kernel.helpers:
                self._take(helper)
        self.names[instruction], kernel = found
        self.of[instruction] = kernel
        if kernel.scratch:
            self.scratch[instruction] = assignment.scratch(instruction, kernel.scratch, kernel.uses)

    def call(self, instruction: Instruction, routine: Routine, assignment: Assignment) -> None:
        """Let a call be a kernel whose only step is the function of what it calls."""
        self.names[instruction] = routine.function
        self.of[instruction] = Kernel({}, {}, (), (Step(routine.function, 1, routine.cost, True),), routine.arena_bytes)
        uses = (f"temporaries of {instruction.attributes['to_apply'].name}", routine.arena_bytes)
        self.scratch[instruction] = assignment.scratch(instruction, routine.arena_bytes, (uses,))

    def library(self) -> tuple[str, ...]:
        """The texts of the helpers that a process keeps."""
        return tuple(helper.text for helper in self.helpers if helper.kept)

    def _take(self, helper: Helper) -> None:
        if helper not in self.helpers:
            self.helpers[helper] = None
            if not helper.kept:
                self.units.add(Piece(helper.declarations, helper.definitions, (helper.declared,)))


class _Constants:
    """One block with all literals that kernels read, equal ones once."""

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        self._size = 0

    def offsets(self, assignment: Assignment) -> dict[Value, int]:
        """Take the literals of an assignment; the offset of each of its constant values."""
        offsets: dict[Value, int] = {}
        for instruction, values in assignment.leaves.items():
            if instruction.opcode != "constant":
                continue
            for value, leaf in zip(values, instruction.literal.leaves(), strict=True):
                data = np.ascontiguousarray(leaf.value()).tobytes()
                if data not in self._places:
                    self._places[data] = self._size
                    self._size += _padded(data)
                offsets[value] = self._places[data]
        return offsets

    def block(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(b"".join(data.ljust(_padded(data), b"\0") for data in self._places), np.uint8)


def _padded(data: bytes) -> int:
    return -(-len(data) // ALIGNMENT) * ALIGNMENT


def _identifier(name: str) -> str:
    """A name as part of a symbol."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
