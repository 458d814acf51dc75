"""How much work the kernels of a module are, and how long they will take: the model of `analysis.performance`.

Kernels are written, as for a program, but not compiled: loops and tiles count cycles, and emitters say how many tasks
there are.  What they leave out is where the data is.  A run of the program is walked, kernel by kernel, and each array
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
        self.places: dict[object, float] = {}  # of code, in lines
        self.code_lines = 0.0
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
        amounts = dict(own.amounts)
        read = defaultdict[Value, float](float)
        written = defaultdict[Value, float](float)
        for operand, size in own.read.items():
            if size:
                self._divide(self.leaves.get(operand, ()), size, read)
        self._divide(self.leaves[instruction], own.written, written)
        sizes = {storage: min(size, storage.size) for storage, size in {**read, **written}.items()}
        total = sum(sizes.values())
        blocks = {storage: _blocks(storage) for storage in sizes}
        for storage, moved in read.items():
            for level, share in self._shares(blocks[storage], total):
                _add(amounts, f"read {level}", moved * share)
            self._fetch(blocks[storage], moved, amounts)
        for storage, moved in written.items():
            for level, share in self._shares(blocks[storage], total):
                _add(amounts, f"{'update' if storage in read else 'write'} {level}", moved * share)
        self._fetch_code(own, amounts)
        for touched in blocks.values():
            for number, block in enumerate(touched, 1):
                self.used[block] = self.clock + total * number / len(touched)
        self.clock += total
        if self.threads == 1:
            return amounts
        return _split(amounts, own.steps, self.threads, lambda step: self.target.shares_step(step, looped))

    def _fetch(self, blocks: Sequence[_Block], moved: float, amounts: dict[str, float]) -> None:
        """Add what it takes until an array is there: the place of its page is found, and its first lines come."""
        away = self.clock - max((self.used.get(block, 0.0) for block in blocks[:1]), default=self.clock)
        for level, share in _levels(away, self.machine, _REACH):
            if level != "L1":
                _add(amounts, f"array {level}", share)
                _add(amounts, f"lines {level}", share * min(_FIRST_LINES, moved / LINE))

    def _fetch_code(self, own: _Own, amounts: dict[str, float]) -> None:
        """Add what it takes until the code of a kernel is there.  Kernels lie one behind the other in the order of the
        program: the page of one is often known from the one before."""
        code = tuple(step.function for step in own.steps)
        start = self.places.setdefault(code, self.code_lines)
        if start == self.code_lines:
            self.code_lines += own.lines
        page = ("code", start // _PAGE_LINES)
        for kind, key, amount in (("code", page, 1.0), ("code lines", code, own.lines)):
            for level, share in _levels(self.clock - self.used.get(key, 0.0), self.machine, self.machine.l2 // 2):
                if level != "L1":
                    _add(amounts, f"{kind} {level}", share * amount)
            self.used[key] = self.clock

    def _divide(self, values: tuple[Value, ...], size: float, moved: defaultdict[Value, float]) -> None:
        """Add the bytes that are moved of some values to the storage that these are in."""
        whole = sum(value.size for value in values)
        for value in values:
            if whole:
                storage = value.storage()
                moved[storage] += size * value.size / whole

    def _shares(self, blocks: Sequence[_Block], total: float) -> list[tuple[str, float]]:
        """How much of some blocks is where, for a kernel that goes through them while it touches `total` bytes."""
        places = range(0, len(blocks), max(1, -(-len(blocks) // _SEEN)))
        found: dict[str, float] = {}
        for at in places:
            home, size, number = block = blocks[at]
            time = max(self.used.get(block, 0.0), self.used.get((home, _COARSE, number * size // _COARSE), 0.0))
            away = self.clock + total * at / len(blocks) - time
            for level, share in _levels(away, self.machine, self.machine.l2):
                _add(found, level, share / len(places))
        return list(found.items())


_Block = tuple[int, int, int]
"""Of which home (the arena, or one array), its size in bytes, its number."""


def _add(amounts: dict[str, float], name: str, amount: float) -> None:
    amounts[name] = amounts.get(name, 0.0) + amount


_FIRST_LINES = 32
_SEEN = 64
"""Blocks of an array that are looked at, at most: the others lie between them."""
_PAGE_LINES = 512
"""Lines of LLVM IR whose code is a page, about."""
_FINE, _COARSE = 256, 16 << 10
_REACH = 2048 * 4096
"""Bytes whose pages a core knows the places of (Golden Cove: 2048 entries)."""


def _blocks(storage: Value) -> list[_Block]:
    """The parts of memory that an array lies in: of the arena, where others were before, or its own."""
    size = _FINE if storage.size <= _COARSE else _COARSE
    home, start = (-1, storage.offset) if storage.offset is not None else (storage.number, 0)
    return [(home, size, number) for number in range(start // size, -(-(start + storage.size) // size))]


_LEAST = 1e-3


def _levels(away: float, machine: Machine, second: int) -> list[tuple[str, float]]:
    """How much of what was used so many bytes ago is still in each cache, the second of which has so many bytes, or in
    memory alone."""
    shares, left = [], 1.0
    for level, size in zip(LEVELS, (machine.l1, second, max(machine.l3, second)), strict=False):
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
    if kind in ("product", "convolution"):
        planned -= product
    if kind in ("product", "convolution") or not kernel.work:
        amounts[kind] = max(0.0, planned)
    try:
        read, written = operand_bytes(instruction)
    except UnknownSize:
        read, written = {}, 0
    if not any(read.values()):
        amounts["fill"] = float(written)
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


_ONCE = frozenset({"start", "step", "fork", "latency", *(f"code {level}" for level in LEVELS)})
"""Work that is not shared."""
