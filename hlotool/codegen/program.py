"""From a module to a program: kernels, buffers, and native functions: that of the entry computation runs all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import NOTHING_DONATED, Donation
from hlotool.analysis.in_place import module_in_place_pairs
from hlotool.codegen.kernels import Constants, Kernels, functions_of, identifier
from hlotool.codegen.machine import Machine
from hlotool.codegen.plan.arena import place
from hlotool.codegen.plan.buffers import assign
from hlotool.codegen.plan.probes import Probe
from hlotool.codegen.plan.region import Schedule
from hlotool.codegen.plan.small_loops import small_computations, small_loops
from hlotool.codegen.plan.steps import HostCall, KernelUse, Routine, Steps
from hlotool.codegen.plan.task_loops import task_loops
from hlotool.codegen.plan.units import Piece, Units
from hlotool.codegen.plan.values import Assignment, array_leaves
from hlotool.codegen.target import FunctionPlan, Target, target_of
from hlotool.ir import Computation, Instruction, Module, Shape
from hlotool.ir.devices import check_devices
from hlotool.lazy_dataclass import dataclass

__all__ = ["Constants", "Program", "build", "build_together", "kernel_texts"]


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
    entries = {f"run_{identifier(module.name)}": (module, donation)}
    (program,) = build_together(entries, machine, log, begin, target, profiled)
    return program


def build_together(
    entries: Mapping[str, tuple[Module, Donation]],
    machine: Machine,
    log: DecisionLog | None = None,
    begin: Callable[[str], None] = lambda unit: None,
    target: Target | None = None,
    profiled: bool = False,
    constants: Constants | None = None,
) -> tuple[Program, ...]:
    """The programs of several modules, by the names of their entry functions; the rest is as for `build`.

    They have the same units, library and constants: equal kernels are there once, and equal literals, which may be
    `constants` that other programs have as well.
    """
    log = DecisionLog() if log is None else log
    target = target_of(machine) if target is None else target
    constants = Constants(machine) if constants is None else constants
    units = Units(begin)
    kernels = Kernels(target, machine, units)
    probes: list[Probe] | None = [] if profiled else None
    host_calls: list[HostCall] = []
    uses: dict[str, list[KernelUse]] = {}
    planned: dict[str, Assignment] = {}
    calls: dict[str, tuple[HostCall, ...]] = {}
    for name, (module, donation) in entries.items():
        check_devices(module)
        in_place = module_in_place_pairs(module)
        routines: dict[Computation, Routine] = {}
        uses[name] = []
        first = len(host_calls)
        for computation in functions_of(module):
            is_entry = computation is module.entry
            own = donation if is_entry else NOTHING_DONATED
            # What is to say how long its steps take has to have steps.
            inner = frozenset[Computation]() if profiled else small_computations(computation)
            assignment = assign(computation, in_place, own, log, small=inner)
            loops = small_loops(computation, assignment, log) if inner else []
            steps, schedule = _steps(computation, assignment, loops, kernels, routines, target, log)
            plan = FunctionPlan(
                name=name if is_entry else f"{name}_{len(routines)}_{identifier(computation.name)}", is_entry=is_entry,
                steps=steps, schedule=schedule, kernel_names=kernels.names, constants=constants.offsets(assignment),
                machine=machine, host_calls=host_calls, uses=uses[name], probes=probes,
            )  # fmt: skip
            pieces, routines[computation] = target.function(plan)
            for piece in pieces:
                units.add(piece)
        planned[name] = assignment
        calls[name] = tuple(host_calls[first:])
    texts, library, block = units.finish(), kernels.library(), constants.block()
    return tuple(
        Program(
            units=texts,
            library=library,
            entry=name,
            parameters=tuple(v.shape for v in planned[name].parameters if v.shape is not None),
            outputs=tuple(array_leaves(module.entry.root.shape)),
            constants=block,
            host_calls=calls[name],
            kernels=tuple(uses[name]),
            assignment=planned[name],
            probes=None if probes is None else tuple(probes),
        )
        for name, (module, _) in entries.items()
    )


def _steps(
    computation: Computation, assignment: Assignment, loops: Sequence[Instruction], kernels: Kernels,
    routines: Mapping[Computation, Routine], target: Target, log: DecisionLog,
) -> tuple[Steps, Schedule]:  # fmt: skip
    """The steps of a computation with its small `loops`, whose memory is placed, and when they run."""
    small: dict[Instruction, list[Piece]] = {loop: [] for loop in loops}
    kernels.add_all(assignment, small)
    calls = {i: routines[i.attributes["to_apply"]] for i in assignment.positions if i.opcode == "call"}
    for call, routine in calls.items():
        kernels.call(call, routine, assignment)
    shared = task_loops(assignment, kernels.of, kernels.scratch, small, target.shares_loop)
    steps = Steps(computation, assignment, kernels.of, kernels.scratch, shared, calls, small)
    schedule = target.schedule(steps, log)
    place(assignment)
    return steps, schedule


def kernel_texts(
    module: Module, machine: Machine, donation: Donation, target: Target
) -> Iterator[tuple[str, list[Instruction]]]:
    """The texts of the kernels of `module`, as `build` makes them, each with what it needs to compile alone, and the
    instructions that it computes."""
    in_place = module_in_place_pairs(module)
    kernels = Kernels(target, machine, Units(lambda unit: None))
    for computation in functions_of(module):
        own = donation if computation is module.entry else NOTHING_DONATED
        assignment = assign(computation, in_place, own, small=small_computations(computation))
        kernels.add_all(assignment, {loop: [] for loop in small_loops(computation, assignment, DecisionLog())})
    users: dict[str, list[Instruction]] = {}
    for instruction, name in kernels.names.items():
        users.setdefault(name, []).append(instruction)
    for name, kernel in kernels.distinct.values():
        lines = dict.fromkeys(line for helper in kernel.helpers for line in helper.declarations)
        definitions = [helper.definitions for helper in kernel.helpers]
        yield "\n".join([*lines, kernel.text, *definitions]), users[name]
