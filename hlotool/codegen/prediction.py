"""How much work the kernels of a module are, and how long they will take: the model of `analysis.performance`.

Kernels are written, as for a program, but not compiled: their emitters plan nanoseconds, and say how many tasks there
are.  What the plans leave out is where the data is.  A run of the program is walked, kernel by kernel, and each array
remembers how many bytes were touched until its last use: what was touched since is how far away it is (the reuse
distance of Mattson et al., Evaluation techniques for storage hierarchies, 1970, with arrays for pages).  The same goes
for the code of kernels, which comes from memory again where much was touched since.  A loop is walked twice, and so is
the program: what counts is the later time, when caches have what the earlier one left there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import NOTHING_DONATED
from hlotool.analysis.in_place import module_in_place_pairs
from hlotool.analysis.performance import LEVELS, KernelPrediction, ModulePrediction, Performance
from hlotool.analysis.traffic import UnknownSize, operand_bytes
from hlotool.analysis.trip_count import known_trip_count
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.kernels import Kernels, functions_of
from hlotool.codegen.machine import LINE, Machine
from hlotool.codegen.plan.arena import place
from hlotool.codegen.plan.buffers import assign
from hlotool.codegen.plan.steps import HOST
from hlotool.codegen.plan.units import Units
from hlotool.codegen.plan.values import Value
from hlotool.codegen.target import target_of
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["predicted"]

_DEEP = 3
"""Loops inside of each other that are walked twice; those in them are walked once."""


def predicted(module: Module, performance: Performance, machine: Machine, threads: int = 1) -> ModulePrediction:
    """How long the kernels of a module take that is as passes left it, on `machine`, on so many threads.

    UnsupportedError names an instruction that has no native code.
    """
    walk = _Walk(module, performance, machine, threads)
    for last in (False, True):
        walk.computation(module.entry, 1, last, 0)
    return ModulePrediction(tuple(walk.found.values()), tuple(walk.unknown))




class _Walk:
    """A run of a program, kernel by kernel; `clock` counts the bytes that were touched."""

    def __init__(self, module: Module, performance: Performance, machine: Machine, threads: int) -> None:
        self.performance, self.machine, self.threads = performance, machine, threads
        self.target = target_of(machine)
        self.kernels = Kernels(self.target, machine, Units(lambda unit: None))
        self.leaves: dict[Instruction, tuple[Value, ...]] = {}
        self.own: dict[Instruction, _Own] = {}
        in_place = module_in_place_pairs(module)
        for computation in functions_of(module):
            assignment = assign(computation, in_place, NOTHING_DONATED, DecisionLog(), small=frozenset())
            self.kernels.add_all(assignment)
            place(assignment)
            self.leaves.update(assignment.leaves)
            for instruction in assignment.positions:
                if instruction in self.kernels.of:
                    there = assignment.there.get(instruction, frozenset())
                    self.own[instruction] = _own(instruction, self.kernels.of[instruction], there)
        self.clock = 0.0
        self.used: dict[object, float] = {}
        self.found: dict[Instruction, KernelPrediction] = {}
        self.unknown: dict[Instruction, None] = {}

    def computation(self, computation: Computation, runs: int, last: bool, depth: int) -> None:
        """Run it; what counts is its `last` run, for so many `runs`."""
        for instruction in computation:
            if instruction in self.kernels.of:
                amounts = self.kernel(instruction, depth > 0)
                if last:
                    seconds = self.performance.nanoseconds(amounts) * 1e-9 * runs
                    self.found[instruction] = KernelPrediction(instruction, runs, amounts, seconds)
            elif instruction.opcode == "while":
                trips = known_trip_count(instruction)
                if trips is None:
                    self.unknown[instruction] = None
                if trips == 0:
                    continue
                for later in (False, True) if depth < _DEEP and trips != 1 else (True,):
                    for inner, more in ((instruction.attributes["condition"], 1), (instruction.attributes["body"], 0)):
                        self.computation(inner, runs * ((trips or 1) + more), last and later, depth + 1)
            elif instruction.opcode in ("call", "conditional"):
                for inner in instruction.called if instruction.opcode == "conditional" else instruction.called[:1]:
                    self.computation(inner, runs, last, depth)
            elif instruction.opcode in HOST:
                self.unknown[instruction] = None

    def kernel(self, instruction: Instruction, looped: bool) -> dict[str, float]:
        """The work of a run of a kernel at this time."""
        own = self.own[instruction]
        code = tuple(step.function for step in own.steps)
        amounts = dict(own.amounts)
        read = defaultdict[Value, float](float)
        written = defaultdict[Value, float](float)
        for operand, size in own.read.items():
            self._divide(self.leaves.get(operand, ()), size, read)
        self._divide(self.leaves[instruction], own.written, written)
        for storage, moved in read.items():
            for level, share in self._shares(storage):
                _add(amounts, f"read {level}", moved * share)
                if level != "L1" and moved:
                    _add(amounts, f"array {level}", share)
                    _add(amounts, f"lines {level}", share * min(_FIRST_LINES, moved / LINE))
        for storage, moved in written.items():
            for level, share in self._shares(storage):
                _add(amounts, f"{'update' if storage in read else 'write'} {level}", moved * share)
        touched = {**read, **written}
        for level, share in _levels(self.clock - self.used.get(code, 0.0), self.machine):
            if level != "L1":
                _add(amounts, f"code {level}", share)
                _add(amounts, f"code lines {level}", own.lines * share)
        self.clock += sum(min(size, storage.size) for storage, size in touched.items())
        for storage in touched:
            for block in _blocks(storage):
                self.used[block] = self.clock
        self.used[code] = self.clock
        if self.threads == 1:
            return amounts
        return _split(amounts, own.steps, self.threads, lambda step: self.target.shares_step(step, looped))

    def _divide(self, values: tuple[Value, ...], size: float, moved: defaultdict[Value, float]) -> None:
        """Add the bytes that are moved of some values to the storage that these are in."""
        whole = sum(value.size for value in values)
        for value in values:
            if whole:
                storage = value.storage()
                moved[storage] += size * value.size / whole

    def _shares(self, storage: Value) -> list[tuple[str, float]]:
        """How much of an array is where."""
        blocks = _blocks(storage)
        times: dict[float, int] = {}
        for block in blocks:
            home, size, number = block
            time = max(self.used.get(block, 0.0), self.used.get((home, _COARSE, number * size // _COARSE), 0.0))
            times[time] = times.get(time, 0) + 1
        found: dict[str, float] = {}
        for time, count in times.items():
            for level, share in _levels(max(self.clock - time, storage.size), self.machine):
                _add(found, level, share * count / len(blocks))
        return list(found.items())


def _add(amounts: dict[str, float], name: str, amount: float) -> None:
    amounts[name] = amounts.get(name, 0.0) + amount


_FIRST_LINES = 32
_FINE, _COARSE = 256, 16 << 10


def _blocks(storage: Value) -> list[tuple[int, int, int]]:
    """The parts of memory that an array lies in: of the arena, where others were before, or its own."""
    size = _FINE if storage.size <= _COARSE else _COARSE
    home, start = (-1, storage.offset) if storage.offset is not None else (storage.number, 0)
    return [(home, size, number) for number in range(start // size, -(-(start + storage.size) // size))]


_LEAST = 1e-3


def _levels(away: float, machine: Machine) -> list[tuple[str, float]]:
    """How much of what was used so many bytes ago is still in each cache, or in memory alone."""
    shares, left = [], 1.0
    for level, size in zip(LEVELS, (machine.l1, machine.l2, machine.l3), strict=False):
        held = 1 / (1 + (away / size) ** _STEEP)
        shares.append((level, held - (1 - left)))
        left = min(left, 1 - held)
    return [(level, share) for level, share in (*shares, (LEVELS[-1], left)) if share > _LEAST]


_STEEP = 3
"""Caches are neither fully associative nor used for this alone: how suddenly they forget."""


@dataclass(frozen=True, slots=True)
class _Own:
    """What is known of a kernel at any time."""

    steps: tuple[Step, ...]
    amounts: Mapping[str, float]
    read: Mapping[Instruction, int]
    written: int
    lines: float


def _own(instruction: Instruction, kernel: Kernel, there: frozenset[int]) -> _Own:
    lines = float(sum(definition.text.count("\n") for definition in kernel.definitions))
    amounts = {
        "start": 1.0, "step": len(kernel.steps) - 1.0, "task": sum(step.tasks for step in kernel.steps) - 1.0,
        "line": lines, **kernel.work,
    }  # fmt: skip
    kind, planned = _kind(instruction), sum(step.cost for step in kernel.steps) - amounts.pop("planned", 0.0)
    product = amounts.pop("planned product", 0.0)
    if kind == "product":
        planned -= product
    else:  # the tiles of a convolution are not as regular
        amounts.pop("tile", None)
        amounts.pop("tile step", None)
    if kind in ("product", "convolution") or not kernel.work:
        amounts[kind] = max(0.0, planned)
    try:
        read, written = operand_bytes(instruction)
    except UnknownSize:
        read, written = {}, 0
    if not any(read.values()):
        amounts["fill"] = 1.0
    for operand in dict.fromkeys(instruction.operands[number] for number in there):
        written -= read.pop(operand, 0)
    return _Own(kernel.steps, {name: amount for name, amount in amounts.items() if amount}, read, written, lines)


def _kind(instruction: Instruction) -> str:
    """The figure of what emitters plan for a kernel that is no loop."""
    inner = list(instruction.attributes["calls"]) if instruction.opcode == "fusion" else [instruction]
    opcodes = {i.opcode for i in inner}
    if "convolution" in opcodes:
        return "convolution"
    if "dot" in opcodes:
        return "product"
    if "scatter" in opcodes:
        return "scatter"
    if opcodes & {"sort", "topk"}:
        return "sort"
    return "algorithm" if opcodes & _ALGORITHMS else "copy"


_ALGORITHMS = frozenset({
    "cholesky", "triangular-solve", "fft", "rng-bit-generator", "rng", "reduce-window", "select-and-scatter",
    "scan",
})  # fmt: skip


def _split(
    amounts: Mapping[str, float], steps: Sequence[Step], threads: int, is_shared: Callable[[Step], bool]
) -> dict[str, float]:
    """The work of the thread that has the most of it, where threads share tasks."""
    total = sum(step.cost for step in steps)
    split = [step for step in steps if is_shared(step)]
    if not split or not total:
        return dict(amounts)
    saved = sum(step.cost * (1 - _most(step.tasks, threads)) for step in split) / total
    found = {name: amount * (1 if name in _ONCE else 1 - saved) for name, amount in amounts.items()}
    return {**found, "fork": float(len(split))}


def _most(tasks: int, threads: int) -> float:
    """The share of equal tasks that one of the threads has at least."""
    return -(-tasks // threads) / tasks


_ONCE = frozenset({"start", "step", "fork", *(f"code {level}" for level in LEVELS)})
"""Work that is not shared."""
