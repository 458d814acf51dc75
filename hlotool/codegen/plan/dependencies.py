"""What depends on what: steps wait for each other by the storage that they read and write.

That is storage as buffer assignment has merged it: who updates an array in place comes after its readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from hlotool.codegen.plan.buffers import branch_computations
from hlotool.codegen.plan.steps import Steps, inside
from hlotool.codegen.plan.values import Value
from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["Touched", "Waits", "dependencies", "touched"]

Waits = Mapping[Instruction, set[Instruction]]


@dataclass(slots=True)
class Touched:
    """What an instruction reads and writes; what a loop copies for its state before it begins (`copied`).

    Of parts with a place of their own in a whole, which may be a part itself, `wholes` are those in which some part is
    written, `looks` those in which some part is read.  Of other parts, which are views, it is the address that an
    instruction makes or reads.
    """

    reads: set[Value] = field(default_factory=set)
    writes: set[Value] = field(default_factory=set)
    copied: set[Value] = field(default_factory=set)
    wholes: set[Value] = field(default_factory=set)
    looks: set[Value] = field(default_factory=set)

    @property
    def anything(self) -> set[Value]:
        return self.reads | self.writes | self.copied | self.wholes

    def read(self, value: Value) -> None:
        root = value.find()
        self.reads.add(root)
        while root.whole is not None and root.start is None:
            root = root.whole.find()
            self.reads.add(root)
        self.looks.update(root.wholes())

    def write(self, value: Value) -> None:
        root = value.find()
        self.writes.add(root)
        if root.start is not None:
            self.wholes.update(root.wholes())

    def storage(self) -> list[Value]:
        """Everything, in a fixed order."""
        found = {value.storage() for value in (*self.reads, *self.writes, *self.copied)}
        return sorted(found, key=lambda value: value.number)


def touched(instruction: Instruction, steps: Steps) -> Touched:
    """The storage that an instruction, and all inside of it, has to do with."""
    assignment, found = steps.assignment, Touched()
    leaves = assignment.leaves
    for inner in (instruction, *inside(instruction)):
        if not steps.runs(inner):
            continue
        read = [value for operand in inner.operands for value in leaves[operand]]
        made = list(leaves[inner])
        if inner.opcode == "while":
            pairs = list(zip(leaves[inner], read, strict=True))
            read = [initial for own, initial in pairs if own is initial]
            made = [own for own, initial in pairs if own is not initial]
            entering, repeating = assignment.loop_copies[inner]
            if inner is instruction:
                found.copied.update(copy.source.find() for copy in entering)
                found.looks.update(whole for source in found.copied for whole in source.wholes())
            else:
                read += [copy.source for copy in entering]
            for copy in (*repeating, *assignment.swaps.get(inner, ())):
                read.append(copy.source)
                made += [copy.source, copy.target] if copy not in repeating else [copy.target]
        elif inner.opcode == "conditional":
            for number in range(len(branch_computations(inner))):
                copies = assignment.branch_copies[inner, number]
                read += [copy.source for copy in copies]
                made += [copy.target for copy in copies]
        if inner in steps.scratch:
            made.append(steps.scratch[inner])
        for value, stacking in assignment.targets.get(inner, ()):
            read += [place for start in stacking.starts for place in leaves.get(start, ())]
            found.writes.add(value.storage())
        for value in read:
            found.read(value)
        for value in made:
            found.write(value)
    return found


def dependencies(order: Iterable[Instruction], steps: Steps) -> tuple[Waits, Waits]:
    """For every instruction those that come before, of those that concern the same storage: those that must be
    complete, and loops that must have their initial state."""
    writer: dict[Value, Instruction] = {}
    readers: dict[Value, list[Instruction]] = {}
    lookers: dict[Value, list[Instruction]] = {}
    fillers: dict[Value, list[Instruction]] = {}
    copiers: dict[Value, list[Instruction]] = {}
    waits: dict[Instruction, set[Instruction]] = {}
    enters: dict[Instruction, set[Instruction]] = {}
    for instruction in order:
        own = touched(instruction, steps)
        waits[instruction] = before = {writer[value] for value in own.anything if value in writer}
        entered: set[Instruction] = set()
        enters[instruction] = entered
        for value in own.wholes:
            before.update(readers.get(value, ()))
            entered.update(copiers.get(value, ()))
            fillers.setdefault(value, []).append(instruction)
        for value in own.reads | own.copied:
            before.update(fillers.get(value, ()))
        for value in own.writes:
            for earlier in (readers, lookers, fillers):
                before.update(earlier.pop(value, ()))
            entered.update(copiers.pop(value, ()))
            writer[value] = instruction
        before.discard(instruction)
        for found, values in ((readers, own.reads), (lookers, own.looks), (copiers, own.copied)):
            for value in values:
                found.setdefault(value, []).append(instruction)
    return waits, enters
