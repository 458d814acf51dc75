"""Multi-output fusion: kernels over the same loop that read each other, or the same array, become one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fingerprint import Structures
from hlotool.analysis.fusibility import has_many_sources, is_fusible
from hlotool.analysis.thresholds import Threshold
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import order_effects
from hlotool.passes.fuse.fusion import Place, erase_all, fusible_computations, make_fusion, places_of
from hlotool.passes.fuse.fusion_rules import fusion_rules, mark_own_fusions

__all__ = ["MultiOutputFusion"]

_PLACES: Annotated[int, Threshold("places")] = 8
"""Index maps under which a merged kernel may compute what it has of one kernel: code is emitted for each."""
_TIMES: Annotated[int, Threshold("times")] = 4
"""How often it may compute that."""
_SEARCH: Annotated[int, Threshold("instructions")] = 400
"""Instructions looked at when making sure that a merge makes no cycle; further away counts as a cycle."""


@dataclass(slots=True, eq=False)
class _Merge:
    """Kernels to be merged, in program order, and the loop space that they share."""

    members: list[Instruction]
    space: tuple[int, ...]
    ops: int
    reduces: bool


@dataclass(frozen=True, slots=True)
class MultiOutputFusion:
    """Merges loop fusions over equal dimensions where one reads the other, and reductions of the same array.

    Both then run in one pass over memory.  A merge is refused where a path between the two leads through other
    instructions (the result would be a cycle).  `max_ops` and `max_outputs` bound the merged kernel.  `only`, `never`
    and the attribute ``fuse`` are those of the pass ``fusion``.
    """

    name: ClassVar[str] = "multi-output-fusion"
    max_ops: int = 256
    max_outputs: int = 8
    only: str = ""
    never: str = ""

    def __post_init__(self) -> None:
        fusion_rules(self.only, self.never)

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        pure: dict[Computation, bool] = {}
        for computation in fusible_computations(module):
            changed |= order_effects(computation, pure)
            grouper = _Grouper(computation, log, self)
            groups = grouper.groups()
            dead: set[Instruction] = set()
            for group in groups:
                if len(group.members) > 1 and log.allow():
                    members = sorted(group.members, key=grouper.position.__getitem__)
                    fusion = make_fusion(module, members, _outputs(members))
                    log.rewrite("merge", members, fusion, "they share a loop", kernels=len(group.members))
                    dead.update(group.members)
                    changed = True
            if dead:
                erase_all(computation, dead)
                computation.sort_topologically()
                mark_own_fusions(module)
        return changed


class _Grouper:
    """Decides which kernels of a computation merge."""

    def __init__(self, computation: Computation, log: DecisionLog, options: MultiOutputFusion) -> None:
        self.computation = computation
        self.log = log
        self.options = options
        self.rules = fusion_rules(options.only, options.never)
        self.group: dict[Instruction, _Merge] = {}
        self.position = {instruction: n for n, instruction in enumerate(computation)}
        self.bridges: list[tuple[int, int]] = []
        self.structures = Structures()
        self.free_of_order: dict[int, bool] = {}  # by the number of the combiner
        self.read: dict[Instruction, list[frozenset[Place] | None]] = {}

    def groups(self) -> list[_Merge]:
        found: dict[int, _Merge] = {}
        for instruction in self.computation:
            space = _space(instruction)
            if space is not None and not self.rules.forbids(instruction):
                reduces = _reduce_of(instruction) is not None
                self.group[instruction] = _Merge([instruction], space, _size(instruction), reduces)
        for instruction in self.computation:
            if instruction in self.group:
                for other in self.neighbours(instruction):
                    self.consider(other, instruction)
        for group in self.group.values():
            found[id(group)] = group
        return list(found.values())

    def neighbours(self, instruction: Instruction) -> Iterator[Instruction]:
        """Kernels that `instruction` reads, then earlier reductions of what it reduces."""
        for operand in dict.fromkeys(instruction.operands):
            if operand in self.group:
                yield operand
        if self.group[instruction].reduces:
            for operand in dict.fromkeys(instruction.operands):
                for user in operand.users:
                    if user is not instruction and user in self.group and self.group[user].reduces:
                        yield user

    def consider(self, first: Instruction, second: Instruction) -> None:
        """Merge the groups of two kernels if that is legal and worth while."""
        a, b = self.group[first], self.group[second]
        if a is b or a.space != b.space or a.reduces != b.reduces:
            return
        if a.reduces and any(o in a.members for m in b.members for o in m.operands):
            return
        if a.reduces and not (self.is_free_of_order(first) and self.is_free_of_order(second)):
            return
        members = [*a.members, *b.members]
        outputs = len(_outputs(members))
        if a.ops + b.ops > self.options.max_ops or outputs > self.options.max_outputs:
            reason = "the kernel would be too large"
            self.log.refuse("kernel-full", (first, second), reason, ops=a.ops + b.ops, outputs=outputs)
            return
        if has_many_sources(*(i for m in members for i in (m.attributes["calls"] if m.opcode == "fusion" else (m,)))):
            self.log.refuse("kernel-full", (first, second), "each element would be chosen from too many sources")
            return
        if self.leads_back(members):
            self.log.refuse("path-outside", (first, second), "a path between them leads outside")
            return
        again = None if a.reduces else self.computed_again(members)
        if again is not None:
            self.log.refuse("many-places", (first, second), f"{again.name} would be computed more than {_TIMES} times")
            return
        self.bridge(members)
        merged = _Merge(members, a.space, a.ops + b.ops, a.reduces)
        for member in members:
            self.group[member] = merged

    def is_free_of_order(self, instruction: Instruction) -> bool:
        """Whether a kernel reduces with an operation or a choice that has its elements in any order."""
        reduce = _reduce_of(instruction)
        assert reduce is not None
        if len(reduce.operands) == 2:
            return True
        from hlotool.analysis.reducers import choice  # which evaluates: most programs have no such reductions

        combiner = reduce.attributes["to_apply"]
        number = self.structures.number(combiner)
        if number not in self.free_of_order:
            self.free_of_order[number] = choice(combiner) is not None
        return self.free_of_order[number]

    def computed_again(self, members: list[Instruction]) -> Instruction | None:
        """A member that the merged kernel would compute too often; None if none is.

        A reader that moves elements (a roll, a transpose) computes at each place that it looks at the member, and all
        that it is made of, once more: along a chain of such readers their numbers multiply.
        """
        found: dict[Instruction, dict[Place, float]] = {}
        for member in sorted(members, key=self.position.__getitem__, reverse=True):
            readers = [user for user in member.users if user in found]
            own: dict[Place, float] = {} if len(readers) == len(member.users) and not member.is_root else {(): 1.0}
            for user in readers:
                for index, operand in enumerate(user.operands):
                    places = self.places_read(user, index) if operand is member else frozenset()
                    if places is None:
                        return member
                    for inner in places:
                        share = inner[-1].shape.size / member.shape.size if inner else 1.0
                        for outer, times in found[user].items():
                            own[(*outer, *inner)] = times * min(1.0, share)
            if len(own) > _PLACES or sum(own.values()) > _TIMES:
                return member
            found[member] = own
        return None

    def places_read(self, reader: Instruction, index: int) -> frozenset[Place] | None:
        """Where a kernel reads elements of an operand, relative to its own; None where a gather chooses them."""
        if reader.opcode != "fusion":
            return frozenset({()})
        if reader not in self.read:
            self.read[reader] = _places_of_parameters(reader.attributes["calls"])
        return self.read[reader][index]

    def leads_back(self, members: list[Instruction]) -> bool:
        """Whether some path leaves `members` and comes back, other groups counting as one node each.

        Paths run forward in program order, except through groups, which lead from any of their members to any other.
        What stands behind everything that groups can bridge is not looked at.
        """
        inside = set(members)
        bound = self.bridged(max(self.position[m] for m in members))
        stack = [
            user
            for m in members
            for user in (*m.users, *m.control_successors)
            if user not in inside and self.position[user] <= bound
        ]
        seen, followed = set(stack), set[int]()
        while stack:
            if len(seen) > _SEARCH:
                return True
            instruction = stack.pop()
            group = self.group.get(instruction)
            if group is not None and id(group) in followed:
                continue  # from another of its members
            followed.add(id(group))
            for user in self.successors(instruction):
                if user in inside:
                    return True
                if user not in seen and self.position[user] <= bound:
                    seen.add(user)
                    stack.append(user)
        return False

    def bridged(self, position: int) -> int:
        """The last position that can be reached from `position` and left again backwards, through groups."""
        index = bisect_right(self.bridges, (position, len(self.position))) - 1
        if index >= 0 and self.bridges[index][1] >= position:
            return self.bridges[index][1]
        return position

    def bridge(self, members: list[Instruction]) -> None:
        """Take note of a group: `bridges` holds the positions that groups span, as disjoint ranges."""
        start, end = min(map(self.position.__getitem__, members)), max(map(self.position.__getitem__, members))
        first = bisect_left(self.bridges, (start, -1))
        if first and self.bridges[first - 1][1] >= start:
            first -= 1
        last = first
        while last < len(self.bridges) and self.bridges[last][0] <= end:
            start, end = min(start, self.bridges[last][0]), max(end, self.bridges[last][1])
            last += 1
        self.bridges[first:last] = [(start, end)]

    def successors(self, instruction: Instruction) -> Iterator[Instruction]:
        group = self.group.get(instruction)
        for member in group.members if group is not None else [instruction]:
            yield from member.users
            yield from member.control_successors


def _places_of_parameters(body: Computation) -> list[frozenset[Place] | None]:
    """Where the root reads elements of each parameter; None for those that a gather chooses, and those of too many."""
    places: dict[Instruction, frozenset[Place]] = {}
    gathered: set[Instruction] = set()
    for instruction in reversed(body):
        users = instruction.users
        if any(u in gathered or (u.opcode == "gather" and u.operands[0] is instruction) for u in users):
            gathered.add(instruction)
        own = frozenset({()}) if instruction.is_root else places_of(instruction, users, places)
        if len(own) > _SEARCH:
            return [None] * len(body.parameters)
        places[instruction] = own
    return [None if p in gathered else places[p] for p in body.parameters]


def _outputs(members: Sequence[Instruction]) -> list[Instruction]:
    """Those of `members` that something else reads."""
    inside = set(members)
    return [m for m in members if m.is_root or any(user not in inside for user in m.users)]


def _space(instruction: Instruction) -> tuple[int, ...] | None:
    """The loop that a kernel runs over; None for what cannot be merged."""
    shape = instruction.shape
    if instruction.control_predecessors or instruction.control_successors:
        return None
    reduce = _reduce_of(instruction)
    if reduce is not None:
        space = (*reduce.operands[0].shape.dimensions, -1, *sorted(reduce.attributes["dimensions"]))
        return space if all(leaf.is_static and leaf.size > 1 for leaf in shape.leaves()) else None
    if not shape.is_array or shape.size <= 1:
        return None
    if instruction.opcode == "fusion":
        body = instruction.attributes["calls"]
        if instruction.attributes["kind"] != "kLoop" or body.root.opcode in ("dynamic-update-slice", "concatenate"):
            return None
        return shape.dimensions
    return shape.dimensions if instruction.has("elementwise") and is_fusible(instruction) else None


def _reduce_of(instruction: Instruction) -> Instruction | None:
    """The reduce that a kernel ends in, if it is its only one."""
    root = instruction
    if instruction.opcode == "fusion":
        body = instruction.attributes["calls"]
        root = body.root
        if root.opcode == "reduce" and sum(i.opcode == "reduce" for i in body) > 1:
            return None
    return root if root.opcode == "reduce" else None


def _size(instruction: Instruction) -> int:
    return len(instruction.attributes["calls"]) if instruction.opcode == "fusion" else 1
