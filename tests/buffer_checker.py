"""Runs a program on tags instead of numbers, to see whether its buffer assignment keeps every value as long as needed.

Nothing here knows of live ranges: memory is a list of ranges that hold tags, each run of an instruction writes new
tags, and every read must find the tag that the value was given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, count

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import NOTHING_DONATED, Donation
from hlotool.analysis.in_place import module_in_place_pairs
from hlotool.codegen.cpu.host.overlap import schedule
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.plan.arena import place
from hlotool.codegen.plan.buffers import ALIASES, assign, branch_computations
from hlotool.codegen.plan.region import Region, Schedule
from hlotool.codegen.plan.steps import Steps, is_there, needs_kernel
from hlotool.codegen.plan.values import Assignment, Copy, Value, array_leaves
from hlotool.ir import Computation, Instruction, Module

Range = tuple[str, int, int]
Tags = tuple[int, ...]


@dataclass
class Machine:
    """Memory: ranges and the tags that they hold; `seen` are the ranges read and written while it is not None."""

    held: dict[Range, int] = field(default_factory=dict)
    seen: tuple[set[Range], set[Range]] | None = None

    def write(self, where: Range, tag: int, parts: Sequence[Range] = ()) -> None:
        """Let `where` hold a tag; `parts` of it go on to hold what they do."""
        if where[1] != where[2]:
            if self.seen is not None:
                self.seen[1].update(without(where, parts))
            for other in [r for r in self.held if overlap(r, where) and not is_inside(r, parts)]:
                del self.held[other]
            self.held[where] = tag

    def read(self, where: Range, tag: int, who: str) -> None:
        if where[1] != where[2]:
            if self.seen is not None:
                self.seen[0].add(where)
            assert self.held.get(where) == tag, f"{who} finds something else in {where}"


def overlap(a: Range, b: Range) -> bool:
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


def without(where: Range, parts: Sequence[Range]) -> list[Range]:
    """What is left of a range without some parts of it."""
    place, begin, end = where
    left = []
    for other, first, last in sorted(parts):
        if other == place and begin < last and first < end:
            left.append((place, begin, first))
            begin = last
    return [found for found in [*left, (place, begin, end)] if found[1] < found[2]]


def is_inside(a: Range, others: Sequence[Range]) -> bool:
    return any(a[0] == b[0] and b[1] <= a[1] and a[2] <= b[2] for b in others)


def range_of(value: Value, moved: Mapping[Value, Value], targeted: Collection[Value] = ()) -> Range:
    """Where a value lies; of a view, where that lies which it is a part of; `moved` lie where others belong.

    Of `targeted` values, which are computed in their row of an array, it is only known that nothing else is there.
    """
    root = value.find()
    root = moved.get(root, root)
    size = value.size
    if root.whole is not None:
        place, begin, end = range_of(root.whole, moved, targeted)
        if root.start is None:
            return (f"part {root.number} of {place}", 0, size) if root in targeted else (place, begin, end)
        assert root.start + size <= end - begin
        return place, begin + root.start, begin + root.start + size
    if root.output is not None:
        return f"output {root.output}", 0, size
    if root.parameter is not None:
        return f"parameter {root.parameter}", 0, size
    if root.constant is not None:
        return f"constant {root.number}", 0, size
    if size == 0:
        return "nowhere", 0, 0
    assert root.offset is not None
    assert root.offset % 64 == 0
    return "arena", root.offset, root.offset + size


class Checker:
    """`check` runs the module; loops make `trips` trips, and `branches` are taken in turn.

    What is in `donation` may be overwritten, by results that it says have it then.  With `side_by_side` what is to run
    side by side runs in reverse order; kernels are taken for long ones.
    """

    def __init__(
        self,
        module: Module,
        scratch: int = 192,
        trips: int = 2,
        donation: Donation = NOTHING_DONATED,
        side_by_side: bool = False,
    ) -> None:
        self.module = module
        self.trips = trips
        self.offers = module_in_place_pairs(module)
        self.plan: Assignment = assign(module.entry, self.offers, donation)
        self.fixed = {
            f"parameter {n}" for n in range(len(self.plan.parameters)) if n not in self.plan.overwritten
        }
        assert set(self.plan.aliases.values()) <= set(self.plan.overwritten) <= donation.arguments
        assert all(self.plan.aliases[result] == donation.wanted[result] for result in donation.required)
        self.scratch = {i: self.plan.scratch(i, scratch) for i in self.plan.positions if self.has_kernel(i)}
        self.schedule = Schedule({}, frozenset(), frozenset())
        self.log = DecisionLog()
        if side_by_side:
            kernels = {i: Kernel({}, {}, (), (Step("k", 4, 5000.0),)) for i in self.scratch}
            self.schedule = schedule(Steps(module.entry, self.plan, kernels, self.scratch, {}), self.log)
        place(self.plan)
        self.tags = count(1)
        self.turn = count()
        self.memory = Machine()
        self.known: dict[Instruction, Tags] = {}
        self.moved: dict[Value, Value] = {}

    def has_kernel(self, instruction: Instruction) -> bool:
        return needs_kernel(instruction) and not is_there(instruction, self.plan)

    def check(self) -> Assignment:
        for value in self.plan.values:
            where = self.range_of(value)
            assert where[0] != "arena" or where[2] <= self.plan.arena_bytes
        for parameter in self.module.entry.parameters:
            self.known[parameter] = self.fresh(self.plan.leaves[parameter])
        self.run(self.module.entry)
        for copy in self.plan.output_copies:
            self.copy(copy)
        results = self.tags_of(self.module.entry.root)
        for number, (value, tag) in enumerate(zip(self.plan.outputs, results, strict=True)):
            argument = self.plan.aliases.get(number)
            assert self.range_of(value)[0] == (f"output {number}" if argument is None else f"parameter {argument}")
            self.memory.read(self.range_of(value), tag, f"output {number}")
        return self.plan

    def range_of(self, value: Value) -> Range:
        return range_of(value, self.moved, {v.find() for rows in self.plan.targets.values() for v, _ in rows})

    def is_fixed(self, where: Range) -> bool:
        return where[0] in self.fixed or where[0].startswith("constant")

    def fresh(self, values: Sequence[Value], parts: Sequence[Range] = ()) -> Tags:
        tags = tuple(next(self.tags) for _ in values)
        for value, tag in zip(values, tags, strict=True):
            self.memory.write(self.range_of(value), tag, parts)
        return tags

    def copy(self, copy: Copy) -> None:
        source, target = self.range_of(copy.source), self.range_of(copy.target)
        if source != target and source[1] != source[2]:
            assert not overlap(source, target)
            assert not self.is_fixed(target)
            assert source in self.memory.held, f"a copy of nothing from {source}"
            if self.memory.seen is not None:
                self.memory.seen[0].add(source)
            self.memory.write(target, self.memory.held[source])

    def tags_of(self, instruction: Instruction) -> Tags:
        """What its values hold; -1 where that is still to come, but for what a loop hands on as it came."""
        if instruction in self.known:
            return self.known[instruction]
        if instruction.opcode == "while":
            initial = instruction.operands[0]
            pairs = zip(self.plan.leaves[instruction], self.plan.leaves[initial], self.tags_of(initial), strict=True)
            return tuple(tag if own is same else -1 for own, same, tag in pairs)
        if instruction.opcode not in ALIASES:
            return (-1,) * len(self.plan.leaves[instruction])
        tags = tuple(tag for operand in instruction.operands for tag in self.tags_of(operand))
        return tags[self.element(instruction)] if instruction.opcode == "get-tuple-element" else tags

    def element(self, instruction: Instruction) -> slice:
        """Which leaves of its operand a get-tuple-element has."""
        shapes = instruction.operands[0].shape.elements
        index = instruction.attributes["index"]
        first = sum(len(array_leaves(s)) for s in shapes[:index])
        return slice(first, first + len(array_leaves(shapes[index])))

    def reads(self, instruction: Instruction, operand: Instruction) -> None:
        for value, tag in zip(self.plan.leaves[operand], self.tags_of(operand), strict=True):
            self.memory.read(self.range_of(value), tag, f"{instruction.name} reading {operand.name}")

    def run(self, computation: Computation) -> None:
        if computation not in self.schedule.orders:
            for instruction in computation:
                self.instruction(instruction)
            return
        for instruction in computation:
            if instruction.opcode != "parameter":
                self.known.pop(instruction, None)  # of the trip before
        names = [i for i in computation if self.is_name(i)]
        for item in self.schedule.orders[computation]:
            names = self.name(names)
            if isinstance(item, Region):
                self.region(item)
            else:
                self.instruction(item)
        assert not self.name(names)

    def is_name(self, instruction: Instruction) -> bool:
        """Whether an instruction is none that a schedule has."""
        return instruction.opcode in ALIASES or instruction.opcode == "constant" or instruction in self.plan.unread

    def name(self, names: list[Instruction]) -> list[Instruction]:
        """Go through constants and other names whose operands are known by now; those that are left."""
        left = []
        for instruction in names:
            if all(operand in self.known for operand in instruction.operands):
                self.instruction(instruction)
            elif not self.is_handed_on(instruction):
                left.append(instruction)
        return left

    def is_handed_on(self, instruction: Instruction) -> bool:
        """Whether an instruction is state that a loop, which is still to run, only hands on; then it is known."""
        loop = instruction.operands[0]
        if instruction.opcode != "get-tuple-element" or loop.opcode != "while":
            return False
        state = loop.operands[0]
        tags: dict[Value, int] = {}
        for source in [state, *(state.operands if state.opcode == "tuple" else ())]:
            tags.update(zip(self.plan.leaves[source], self.known.get(source, ()), strict=False))
        values = self.plan.leaves[instruction]
        if any(value not in tags for value in values):
            return False
        self.known[instruction] = tuple(tags[value] for value in values)
        return True

    def region(self, region: Region) -> None:
        for step in region.steps:
            if step.opcode == "while":
                self.enter(step)
        seen = []
        for step in reversed(region.steps):
            self.memory.seen = set(), set()
            if step.opcode == "while":
                self.loop(step)
            else:
                self.instruction(step)
            seen.append((step.name, *self.memory.seen))
            self.memory.seen = None
        for (one, reads, writes), (other, others_reads, others_writes) in combinations(seen, 2):
            for mine, theirs in ((writes, others_reads | others_writes), (reads, others_writes)):
                assert not any(overlap(a, b) for a in mine for b in theirs), f"{one} and {other} disturb each other"

    def instruction(self, instruction: Instruction) -> None:
        match instruction.opcode:
            case "parameter":
                pass
            case "constant":
                self.known[instruction] = self.fresh(self.plan.leaves[instruction])
            case "get-tuple-element":
                self.known[instruction] = self.known[instruction.operands[0]][self.element(instruction)]
            case "add-dependency":
                self.known[instruction] = self.tags_of(instruction.operands[0])
            case opcode if opcode in ALIASES:
                self.known[instruction] = tuple(t for o in instruction.operands for t in self.known[o])
            case "while":
                self.enter(instruction)
                self.loop(instruction)
            case "conditional":
                self.conditional(instruction)
            case _ if instruction in self.plan.unread:
                self.known[instruction] = tuple(next(self.tags) for _ in self.plan.leaves[instruction])
            case _ if instruction in self.plan.views:
                self.known[instruction] = self.tags_of(instruction.operands[0])
            case _:
                self.kernel(instruction)

    def kernel(self, instruction: Instruction) -> None:
        for operand in instruction.operands:
            self.reads(instruction, operand)
        there = self.plan.there.get(instruction, frozenset())
        parts = [self.range_of(v) for n in there for v in self.plan.leaves[instruction.operands[n]]]
        outputs = [self.range_of(v) for v in self.plan.leaves[instruction]]
        inputs = [self.range_of(v) for o in instruction.operands for v in self.plan.leaves[o]]
        scratch = self.scratch.get(instruction)
        work = self.range_of(scratch) if scratch is not None else ("nowhere", 0, 0)
        for leaf, output in enumerate(outputs):
            assert not self.is_fixed(output)
            assert not any(overlap(output, other) for other in (*outputs[:leaf], work))
            allowed = [
                self.range_of(self.plan.leaves[instruction.operands[operand]][0])
                for own, operand in self.offers.get(instruction, ())
                if own == leaf and leaf in self.plan.in_place.get(instruction, ())
            ]
            for other in inputs:
                free = other in allowed or is_inside(other, parts)
                assert free or not overlap(output, other), f"{instruction.name} overwrites an operand"
        assert not any(overlap(work, other) for other in inputs)
        self.memory.write(work, next(self.tags))
        self.known[instruction] = self.fresh(self.plan.leaves[instruction], parts)

    def enter(self, loop: Instruction) -> None:
        for copy in self.plan.loop_copies[loop][0]:
            self.copy(copy)

    def loop(self, loop: Instruction) -> None:
        condition, body = loop.attributes["condition"], loop.attributes["body"]
        _, repeating = self.plan.loop_copies[loop]
        state = self.tags_of(loop.operands[0])
        stacked = self.plan.stacked.get(loop, frozenset())
        state = tuple(
            self.fresh([value])[0] if index in stacked else tag
            for index, (value, tag) in enumerate(zip(self.plan.leaves[loop], state, strict=True))
        )
        swaps = self.plan.swaps.get(loop, [])
        for copy in swaps:
            self.moved[copy.target.find()] = copy.target.find()
            self.moved[copy.source.find()] = copy.source.find()
        for trip in range(self.trips + 1):
            self.known[condition.parameters[0]] = self.known[body.parameters[0]] = state
            self.run(condition)
            self.reads(loop, condition.root)
            if trip < self.trips:
                self.run(body)
                state = self.tags_of(body.root)
                for copy in repeating:
                    self.copy(copy)
                for copy in swaps:
                    own, other = copy.target.find(), copy.source.find()
                    self.moved[own], self.moved[other] = self.moved.get(other, other), self.moved.get(own, own)
        for copy in swaps:
            where = self.range_of(copy.target)
            del self.moved[copy.target.find()], self.moved[copy.source.find()]
            if where != self.range_of(copy.target):
                self.memory.write(self.range_of(copy.target), self.memory.held[where])
        self.known[loop] = state

    def conditional(self, conditional: Instruction) -> None:
        self.reads(conditional, conditional.operands[0])
        branches = branch_computations(conditional)
        number = next(self.turn) % len(branches)
        branch = branches[number]
        self.known[branch.parameters[0]] = self.tags_of(conditional.operands[number + 1])
        self.run(branch)
        for copy in self.plan.branch_copies[conditional, number]:
            self.copy(copy)
        self.known[conditional] = self.tags_of(branch.root)
