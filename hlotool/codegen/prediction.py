"""How much work the kernels of a module are, and how long they will take: the model of `analysis.performance`.

Kernels are written, as for a program, but not compiled: loops and tiles count cycles, and emitters say how many tasks
there are.  What they leave out is where the data is.  A run of the program is walked, kernel by kernel, and each array
remembers how many bytes were touched until its last use: what was touched since is how far away it is (the reuse
distance of Mattson et al., Evaluation techniques for storage hierarchies, 1970, with arrays for pages), and when that
was: others use what cores share meanwhile, caches and what is known of where pages are.  A loop is walked twice, and so
is the program: what counts is the later time, when caches have what the earlier one left there.
"""

from __future__ import annotations

import math
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
    """A run of a program, kernel by kernel; `clock` counts the bytes that were touched, `now` nanoseconds."""

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
        self.clock = self.now = 0.0
        self.used: dict[_Block, tuple[float, float]] = {}
        self.parts: dict[Value, tuple[float, float]] = {}  # of which a part was used, nobody knows which
        self.found: dict[Instruction, KernelPrediction] = {}
        self.unknown: dict[Instruction, None] = {}

    def computation(self, computation: Computation, runs: int, last: bool, depth: int) -> None:
        """Run it; what counts is its `last` run, for so many `runs`."""
        for instruction in computation:
            if instruction in self.kernels.of:
                amounts = self.kernel(instruction, depth > 0)
                nanoseconds = self.performance.nanoseconds(amounts)
                self.now += nanoseconds
                if last:
                    self.found[instruction] = KernelPrediction(instruction, runs, amounts, nanoseconds * 1e-9 * runs)
            elif instruction.opcode == "while":
                trips = known_trip_count(instruction)
                if trips is None:
                    self.unknown[instruction] = None
                if trips == 0:
                    continue
                walks = (False, True) if depth < _DEEP and trips != 1 else (True,)
                for later in walks:
                    begun = self.now
                    for inner, more in ((instruction.attributes["condition"], 1), (instruction.attributes["body"], 0)):
                        self.computation(inner, runs * ((trips or 1) + more), last and later, depth + 1)
                self.now += (self.now - begun) * max(0, (trips or 1) - len(walks))
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
        sizes = {
            storage: min(max(read.get(storage, 0.0), written.get(storage, 0.0)), storage.size)
            for storage in (*read, *written)
        }
        total = sum(sizes.values())
        blocks = {storage: _blocks(storage) for storage in sizes}
        # A part of an array is taken for the one that was used last; if all of it is, most is as far away as ever.
        last = {s: self.parts.get(s, _NEVER) if 2 * size < s.size else _NEVER for s, size in sizes.items()}
        for storage, moved in read.items():
            for level, share in self._shares(blocks[storage], total, last[storage][0]):
                _add(amounts, f"read {level}", moved * share)
        for storage, moved in written.items():
            for level, share in self._shares(blocks[storage], total, last[storage][0]):
                _add(amounts, f"{'update' if storage in read else 'write'} {level}", moved * share)
        self._fetch([(blocks[storage], moved, last[storage]) for storage, moved in read.items()], amounts)
        for storage, touched in blocks.items():
            if 2 * sizes[storage] < storage.size:
                self.parts[storage] = self.clock + total, self.now
                continue
            for number, block in enumerate(touched, 1):
                self.used[block] = self.clock + total * number / len(touched), self.now
        self.clock += total
        if self.threads == 1:
            return amounts
        return _split(amounts, own.steps, self.threads, lambda step: self.target.shares_step(step, looped))

    def _fetch(
        self, arrays: Sequence[tuple[Sequence[_Block], float, tuple[float, float]]], amounts: dict[str, float]
    ) -> None:
        """Add what it takes until arrays are there, of which so many bytes are moved and a part was used last at some
        time: the places of their pages are found, and their first lines come.  All are asked for at once: what counts
        is the one that there is most to wait for."""
        longest = 0.0
        for blocks, moved, part in arrays:
            if not blocks:
                continue
            place, time = max(part, self.used.get(blocks[0], _NEVER))
            away = self.clock - place
            for level, share in _levels(away, self.machine, _REACH):
                if level != "L1":
                    _add(amounts, f"lines {level}", share * min(_FIRST_LINES, moved / LINE))
            longest = max(longest, (1 - _held(away, _KNOWN)) * math.cbrt((self.now - time) * 1e-6))
        if longest > _LEAST:
            _add(amounts, "array", longest)

    def _divide(self, values: tuple[Value, ...], size: float, moved: defaultdict[Value, float]) -> None:
        """Add the bytes that are moved of some values to the storage that these are in."""
        whole = sum(value.size for value in values)
        for value in values:
            if whole:
                storage = value.storage()
                moved[storage] += size * value.size / whole

    def _shares(self, blocks: Sequence[_Block], total: float, part: float) -> list[tuple[str, float]]:
        """How much of some blocks is where, for a kernel that goes through them while it touches `total` bytes, and
        that may move the same `part` of them as was moved at some time."""
        places = range(0, len(blocks), max(1, -(-len(blocks) // _SEEN)))
        found: dict[str, float] = {}
        for at in places:
            home, size, number = block = blocks[at]
            whole = home, _COARSE, number * size // _COARSE
            last = max(part, self.used.get(block, _NEVER)[0], self.used.get(whole, _NEVER)[0])
            away = self.clock + total * at / len(blocks) - last
            for level, share in _levels(away, self.machine, self.machine.l2):
                _add(found, level, share / len(places))
        return list(found.items())


_Block = tuple[int, int, int]
"""Of which home (the arena, or one array), its size in bytes, its number."""


def _add(amounts: dict[str, float], name: str, amount: float) -> None:
    amounts[name] = amounts.get(name, 0.0) + amount


_NEVER = 0.0, 0.0
"""When what no kernel used yet was used."""
_FIRST_LINES = 32
_SEEN = 64
"""Blocks of an array that are looked at, at most: the others lie between them."""
_FINE, _COARSE = 256, 16 << 10
_REACH = 2048 * 4096
"""Bytes whose pages a core knows the places of (Golden Cove: 2048 entries)."""
_KNOWN = _REACH // 2
"""Bytes of which it knows the page of an array that is as far away, as measured: not all entries are there for one."""


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
        held = _held(away, size)
        shares.append((level, held - (1 - left)))
        left = min(left, 1 - held)
    return [(level, share) for level, share in (*shares, (LEVELS[-1], left)) if share > _LEAST]


def _held(away: float, size: float) -> float:
    """How much a cache of so many bytes still has of what was used so many bytes ago."""
    return 1.0 / (1 + (away / size) ** _STEEP)


_STEEP = 3
"""Caches are neither fully associative nor used for this alone: how suddenly they forget."""


@dataclass(frozen=True, slots=True)
class _Own:
    """What is known of a kernel at any time."""

    steps: tuple[Step, ...]
    amounts: Mapping[str, float]
    read: Mapping[Instruction, int]
    written: int


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
    return _Own(kernel.steps, {name: amount for name, amount in amounts.items() if amount}, read, written)


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


_ONCE = frozenset({"start", "step", "fork", "latency"})
"""Work that is not shared."""
