"""Fusion: gather instructions that share a loop into kernels.

Clusters grow from consumers to producers.  A producer joins when all its users are inside, or when computing it again
costs nothing; it stays out when that would repeat work.  Clusters over the same loop that read each other or the same
data then become one kernel with several outputs (`MultiOutputFusion` in multi_output_fusion.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fusibility import (
    can_be_root,
    is_cheap_copy,
    is_expensive,
    is_fusible,
    is_movement,
    is_variadic_reduce,
    reduces_minor,
)
from hlotool.ir import Computation, Instruction, Module, clone_instruction, tuple_shape
from hlotool.passes.fusion_rules import fusion_rules, mark_own_fusions

__all__ = ["Cluster", "Fusion", "erase_all", "fusible_computations", "make_fusion"]


Place = tuple[Instruction, ...]
"""An index map: the instructions that move elements on the way from the root."""

_MAX_PLACES = 4
_MAX_COSTLY_PLACES = 2
_MAX_VIEWS = 8


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a producer stays outside a fusion: a rule of `analysis.decision_codes`, words, and the numbers behind it."""

    rule: str
    reason: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Cluster:
    """Instructions to become one fusion.  `copies` are members that are computed elsewhere as well."""

    root: Instruction
    members: dict[Instruction, None] = field(default_factory=dict)
    copies: dict[Instruction, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fusion:
    """Fuses elementwise chains, data movement and reductions with what produces and consumes them.

    `max_ops` bounds the instructions of one fusion.  `max_row` bounds the bytes of one row of a row-wise group
    (softmax, layer norm): rows that do not stay in the cache gain nothing from being fused.  With `only` no
    instructions but those whose name the regular expression finds are fused, with `never` none that it finds; the
    attribute ``frontend_attributes={fuse="never"}`` or ``"always"`` decides for one instruction.
    """

    name: ClassVar[str] = "fusion"
    max_ops: int = 256
    max_row: int = 256 << 10
    rows: bool = True
    only: str = ""
    never: str = ""

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in fusible_computations(module):
            dead: set[Instruction] = set()
            for cluster in _Grower(computation, log, self).clusters():
                if log.allow():
                    fusion = make_fusion(module, list(cluster.members), [cluster.root])
                    log.rewrite(
                        "fuse",
                        cluster.root,
                        fusion,
                        f"{len(cluster.members)} instructions share one loop",
                        instructions=len(cluster.members),
                    )
                    for member in reversed(cluster.members):
                        if not is_needed(member, dead):
                            dead.add(member)
                    changed = True
            erase_all(computation, dead)
        if changed:
            mark_own_fusions(module)
        return changed


def fusible_computations(module: Module) -> list[Computation]:
    """Computations that run as code of their own: the entry, loops, branches and calls; not bodies of fusions."""
    found = {module.entry: None}
    for computation in reversed(module.callees_first()):
        if computation in found:
            for instruction in computation:
                if instruction.opcode in ("while", "conditional", "call"):
                    found.update(dict.fromkeys(instruction.called))
    return list(found)


@dataclass(slots=True, eq=False)
class _Growth:
    """A cluster while it grows, and what is known of its members.

    `spread`: how often an element is computed.  `aligned`: members whose elements are indexed by a prefix of the loop
    space (whole rows, then elements of rows): what they compute once per row stays computed once per row.
    `places`: the index maps under which a member is computed.
    """

    cluster: Cluster
    spread: dict[Instruction, int]
    aligned: set[Instruction]
    places: dict[Instruction, frozenset[Place]]

    @property
    def seed(self) -> Instruction:
        return self.cluster.root

    def users(self, producer: Instruction) -> list[Instruction]:
        return [user for user in producer.users if user in self.cluster.members]

    def is_alone(self, producer: Instruction) -> bool:
        """Nobody outside needs the producer."""
        members, copies = self.cluster.members, self.cluster.copies
        return not producer.is_root and all(u in members and u not in copies for u in producer.users)

    def is_aligned(self, producer: Instruction) -> bool:
        return all(u in self.aligned and _keeps_rows(u) for u in self.users(producer))

    def add(self, producer: Instruction) -> None:
        users = self.users(producer)
        self.places[producer] = _places(producer, users, self.places)
        aligned = self.is_aligned(producer)
        self.spread[producer] = 1 if aligned else max(self.spread[u] * _repeats(u, producer) for u in users)
        if aligned:
            self.aligned.add(producer)
        if not self.is_alone(producer):
            self.cluster.copies[producer] = None
        self.cluster.members[producer] = None


class _Grower:
    """Forms the clusters of one computation."""

    def __init__(self, computation: Computation, log: DecisionLog, options: Fusion) -> None:
        self.computation = computation
        self.log = log
        self.options = options
        self.rules = fusion_rules(options.only, options.never)
        self.position = {instruction: n for n, instruction in enumerate(computation)}
        self.taken: set[Instruction] = set()

    def clusters(self) -> list[Cluster]:
        """All clusters, consumers before producers.  What all its readers have computed for themselves needs none."""
        found = []
        read: set[Instruction] = set()  # by clusters and by instructions that stay by themselves
        copied: set[Instruction] = set()
        for seed in reversed(self.computation):
            if seed in self.taken or (seed in copied and seed not in read and not seed.is_root):
                continue
            cluster = self.grow(seed) if self.may_grow(seed) else Cluster(seed, {seed: None})
            read.update(o for member in cluster.members for o in member.operands if o not in cluster.members)
            copied.update(cluster.copies)
            if len(cluster.members) > 1:
                found.append(cluster)
        return found

    def may_grow(self, seed: Instruction) -> bool:
        """Whether a fusion may end in this instruction."""
        ordered = seed.control_predecessors or seed.control_successors
        if not can_be_root(seed) or ordered or _is_scalar_code(seed):
            return False
        forbidden = self.rules.forbids(seed)
        if forbidden:
            self.log.refuse("forbidden", seed, forbidden)
        return not forbidden

    def grow(self, seed: Instruction) -> Cluster:
        growth = _Growth(Cluster(seed, {seed: None}), {seed: 1}, {seed}, {seed: frozenset({()})})
        heap = self.candidates(seed)
        seen = {instruction for _, instruction in heap}
        while heap:
            _, producer = heappop(heap)
            found = self.obstacle(growth, producer)
            if found is not None:
                if not is_movement(producer) and producer.opcode not in ("parameter", "constant"):
                    self.log.refuse(found.rule, (producer, seed), found.reason, **found.numbers)
                continue
            growth.add(producer)
            for item in self.candidates(producer):
                if item[1] not in seen:
                    seen.add(item[1])
                    heappush(heap, item)
        cluster = growth.cluster
        _trim(cluster, self.position)
        cluster.members = dict.fromkeys(sorted(cluster.members, key=self.position.__getitem__))
        self.taken.update(m for m in cluster.members if m not in cluster.copies)
        return cluster

    def candidates(self, instruction: Instruction) -> list[tuple[int, Instruction]]:
        """Operands that may be asked to join; the heap gives the last in program order first."""
        operands = instruction.operands
        if instruction.opcode == "dynamic-update-slice":
            operands = operands[1:]  # operand 0 stays outside, so that the update can be in place
        return sorted((-self.position[o], o) for o in dict.fromkeys(operands))

    def obstacle(self, growth: _Growth, producer: Instruction) -> Obstacle | None:
        """Why the producer must stay outside; None when it may join."""
        if not is_fusible(producer):
            return Obstacle("own-kernel", f"a {producer.opcode} has a kernel of its own")
        forbidden = self.rules.forbids(producer)
        if forbidden:
            return Obstacle("forbidden", forbidden)
        if producer.control_predecessors or producer.control_successors:
            return Obstacle("control-dependencies", "it has control dependencies")
        forced = self.rules.forces(producer)
        if len(growth.cluster.members) >= self.options.max_ops:
            limit = self.options.max_ops
            return Obstacle("fusion-full", f"the fusion has {limit} instructions already", {"limit": limit})
        if producer.opcode != "constant" and _is_scalar_code(producer):
            return Obstacle("scalar-code", "it is scalar code, computed once")
        if not forced and not growth.is_alone(producer) and not is_cheap_copy(producer):
            return Obstacle("other-readers", "others need its result too", {"readers": len(producer.users)})
        return self.form_obstacle(growth, producer) or (None if forced else self.work_obstacle(growth, producer))

    def form_obstacle(self, growth: _Growth, producer: Instruction) -> Obstacle | None:
        """Why the emitter could not have the producer in this fusion; None when it can."""
        if producer.opcode == "dynamic-update-slice":
            return Obstacle("in-place", "it is updated in place")
        if producer.opcode == "reduce":
            return self.reduce_obstacle(growth, producer, growth.is_aligned(producer))
        return None

    def work_obstacle(self, growth: _Growth, producer: Instruction) -> Obstacle | None:
        """Why joining would repeat work; None when it does not."""
        users = growth.users(producer)
        free = is_movement(producer) or producer.opcode in ("constant", "iota")
        aligned = growth.is_aligned(producer)
        times = max(growth.spread[u] * _repeats(u, producer) for u in users)
        if times > 1 and not free and not aligned:
            reason = f"each element would be computed {times} times"
            return Obstacle("repeated-work", reason, {"times": times, "limit": 1})
        places = len(_places(producer, users, growth.places))
        limit = _MAX_VIEWS if free else _MAX_COSTLY_PLACES if is_expensive(producer) else _MAX_PLACES
        if places > limit:
            reason = f"it would be computed at {places} places"
            return Obstacle("many-places", reason, {"places": places, "limit": limit})
        if not free and any(u.opcode in ("gather", "map") and producer is u.operands[0] for u in users):
            return Obstacle("gathered", "it would be computed at gathered places")
        chooses = producer.opcode in ("concatenate", "gather")
        if chooses and (any(u.opcode == "reduce" for u in users) or producer.shape.size > 1 << 16):
            reason = "choosing a source for each element costs more than a copy"
            return Obstacle("choice-of-source", reason, {"elements": producer.shape.size})
        return None

    def reduce_obstacle(self, growth: _Growth, reduce: Instruction, aligned: bool) -> Obstacle | None:
        """A reduce of rows joins consumers that use its result row by row."""
        if len(reduce.operands) > 2:
            return Obstacle("several-results", "a variadic reduce has several results")
        if not reduces_minor(reduce):
            return Obstacle("no-rows", "it does not reduce rows")
        if not aligned:
            return Obstacle("not-row-by-row", "its consumers do not use it row by row")
        source = reduce.operands[0].shape
        others = [m for m in growth.cluster.members if m.opcode == "reduce"]
        if any(map(is_variadic_reduce, others)):
            return Obstacle("several-results", "the fusion ends in a reduce with several results")
        sizes = {size for r in (*others, reduce) for size in (r.shape.size, r.operands[0].shape.size)}
        if len(sizes) > 2:
            return Obstacle("other-rows", "it reduces other rows than the rest of the fusion")
        alone = not others and growth.seed.shape.size == reduce.shape.size
        row = source.byte_size // max(1, reduce.shape.size)
        if not alone and (not self.options.rows or row > self.options.max_row):
            reason = f"a row of {row} bytes does not stay in the cache between passes"
            return Obstacle("long-row", reason, {"bytes": row, "limit": self.options.max_row})
        return None


def _trim(cluster: Cluster, position: dict[Instruction, int]) -> None:
    """Leave out views of outside values: they are free where they are."""
    for member in sorted(cluster.members, key=position.__getitem__):
        view = member.opcode in ("reshape", "bitcast") and member is not cluster.root
        if view and member.operands[0] not in cluster.members:
            del cluster.members[member]
            cluster.copies.pop(member, None)


def _keeps_rows(user: Instruction) -> bool:
    """Whether `user` reads its operands row by row: at its own index or a prefix of it, or as a sum over a row."""
    match user.opcode:
        case "broadcast":
            dimensions = user.attributes["dimensions"]
            return tuple(dimensions) == tuple(range(len(dimensions)))
        case "reduce":
            return len(user.operands) == 2 and reduces_minor(user)
        case _:
            return not _moves(user)


def _places(
    producer: Instruction, users: list[Instruction], places: dict[Instruction, frozenset[Place]]
) -> frozenset[Place]:
    """The different index maps under which the fusion would compute `producer`: code is emitted once for each.

    An elementwise user reads at its own index; one that moves elements, or sums over them, makes a new index of each of
    its own.
    """
    if producer.opcode == "constant" or producer.shape.size == 1:
        return frozenset({()})
    found: set[Place] = set()
    for user in users:
        if not _moves(user):
            found |= places[user]
        else:
            found.update((*place, user) for place in places[user])
    return frozenset(found)


def _is_scalar_code(instruction: Instruction) -> bool:
    """Arithmetic on single elements, which the entry function holds in line."""
    return (
        instruction.shape.is_array
        and instruction.shape.size == 1
        and instruction.has("elementwise")
        and all(o.shape.size == 1 for o in instruction.operands)
    )


def _repeats(user: Instruction, producer: Instruction) -> int:
    """How often `user` reads each element of `producer`."""
    if user.opcode == "broadcast":
        return max(1, user.shape.size // max(1, producer.shape.size))
    return 1


def _moves(instruction: Instruction) -> bool:
    """Whether an instruction reads elements of its operands at other places than its own."""
    return not (instruction.has("elementwise") or instruction.opcode in ("reshape", "bitcast", "copy"))


def make_fusion(module: Module, members: Sequence[Instruction], outputs: Sequence[Instruction]) -> Instruction:
    """Add a fusion of `members` (in program order) that takes over the uses of `outputs`.

    Fusions among the members are inlined.  With several outputs the result is a tuple.  The members stay where they
    are, for others to copy; `erase_all` removes them.
    """
    parent = members[-1].parent
    assert parent is not None
    own = set(members)
    title = "_".join(list(dict.fromkeys(_result_opcode(output) for output in outputs))[:3]).replace("-", "_")
    body = Computation(module.unique_name(f"fused_{title}"))
    inside: dict[Instruction, Instruction] = {}
    inputs = list(dict.fromkeys(o for m in members for o in m.operands if o not in own))
    for number, source in enumerate(inputs):
        inside[source] = body.add(Instruction("parameter", source.shape, (), {"parameter_number": number}))
    for member in members:
        inside[member] = _copy_into(body, member, inside)
    roots = [inside[output] for output in outputs]
    if len(roots) > 1:
        roots = [body.add(Instruction("tuple", tuple_shape([root.shape for root in roots]), roots))]
    body.root = roots[0]
    module.add(body)
    kind = "kInput" if any(i.opcode == "reduce" for i in body) else "kLoop"
    last = members[-1]
    fusion = Instruction(
        "fusion",
        body.root.shape,
        inputs,
        {"kind": kind, "calls": body},
        module.unique_name(f"{title}_fusion"),
        last.metadata,
        last.location,
        tuple(dict.fromkeys(name for m in members for name in (m.origins or (m.name,)))),
    )
    parent.add(fusion, before=last)
    for index, output in enumerate(outputs):
        result = fusion
        if len(outputs) > 1:
            element = Instruction("get-tuple-element", output.shape, [fusion], {"index": index})
            result = parent.add_after(element, fusion)
        output.replace_all_uses(result)
    return fusion


def _result_opcode(instruction: Instruction) -> str:
    """What a kernel computes last."""
    while instruction.opcode == "fusion":
        instruction = instruction.attributes["calls"].root
    return instruction.opcode


def _copy_into(body: Computation, member: Instruction, inside: dict[Instruction, Instruction]) -> Instruction:
    """Copy an instruction, or the instructions of a fusion, into `body`; the copy of the result."""
    if member.opcode != "fusion":
        return body.add(clone_instruction(member, [inside[o] for o in member.operands]))
    copies: dict[Instruction, Instruction] = {}
    fused: Computation = member.attributes["calls"]
    for instruction in fused:
        if instruction.opcode == "parameter":
            copies[instruction] = inside[member.operands[instruction.parameter_number]]
        else:
            copies[instruction] = body.add(clone_instruction(instruction, [copies[o] for o in instruction.operands]))
    return copies[fused.root]


def is_needed(instruction: Instruction, dead: Collection[Instruction]) -> bool:
    """Whether the result is read by something that is not dead."""
    return instruction.is_root or any(user not in dead for user in instruction.users)


def erase_all(computation: Computation, dead: Collection[Instruction]) -> None:
    """Erase dead instructions, users first."""
    for instruction in reversed(computation):
        if instruction in dead:
            computation.erase(instruction)
