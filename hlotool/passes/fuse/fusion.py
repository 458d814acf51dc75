"""Fusion: gather instructions that share a loop into kernels.

Clusters grow from consumers to producers.  A producer joins when all its users are inside, or when computing it again
costs nothing; it stays out when that would repeat work.  Clusters over the same loop that read each other or the same
data then become one kernel with several outputs (`MultiOutputFusion` in multi_output_fusion.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Reversible, Sequence
from dataclasses import field
from heapq import heappop, heappush
from typing import ClassVar

from hlotool.analysis.costs import costs_of
from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fusibility import (
    can_be_root,
    has_many_sources,
    is_cheap_copy,
    is_expensive,
    is_fusible,
    is_movement,
    is_positional,
    is_variadic_reduce,
    reduces_minor,
)
from hlotool.analysis.in_place import computed_elsewhere, leaves_border, reads_what_it_writes
from hlotool.analysis.product_epilogue import PRODUCTS
from hlotool.ir import Computation, Instruction, Module, clone_instruction, tuple_shape
from hlotool.ir.opcodes import ELEMENTWISE
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.fuse.fusion_rules import fusion_rules, mark_own_fusions

__all__ = [
    "Cluster",
    "Fusion",
    "Place",
    "erase_all",
    "fusible_computations",
    "leave_behind",
    "make_fusion",
    "places_of",
]


_AT_ITS_OWN_PLACE = ELEMENTWISE | {"reshape", "bitcast", "copy"}

Place = tuple[Instruction, ...]
"""An index map: the instructions that move elements on the way from the root."""


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

    `max_ops` bounds the instructions of one fusion, broadcast constants and iotas aside.  `max_row` bounds the bytes
    of one row of a row-wise group (softmax, layer norm): rows that do not stay in the cache gain nothing from being
    fused.  With `only` no instructions but those whose name the regular expression finds are fused, with `never` none
    that it finds; the attribute ``frontend_attributes={fuse="never"}`` or ``"always"`` decides for one instruction.
    """

    name: ClassVar[str] = "fusion"
    max_ops: int = 256
    max_row: int = 256 << 10
    rows: bool = True
    only: str = ""
    never: str = ""

    def __post_init__(self) -> None:
        fusion_rules(self.only, self.never)

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
                    leave_behind(cluster.members, dead)
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
            for instruction in computation.calls:
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
        """Those that read the producer here."""
        members, readers = self.cluster.members, producer.users
        few, many = (members, readers) if len(members) < len(readers) else (readers, members)
        return [user for user in few if user in many]

    def is_alone(self, producer: Instruction, users: list[Instruction]) -> bool:
        """Nobody outside needs the producer."""
        inside = len(users) == len(producer.users) and not producer.is_root
        return inside and self.cluster.copies.keys().isdisjoint(users)

    def is_aligned(self, users: list[Instruction]) -> bool:
        return self.aligned.issuperset(users) and all(map(_keeps_rows, users))

    def times(self, producer: Instruction, users: list[Instruction]) -> int:
        """How often each element of the producer would be computed for the users."""
        return max([self.spread[user] * _repeats(user, producer) for user in users])

    def add(self, producer: Instruction, users: list[Instruction], aligned: bool) -> None:
        self.places[producer] = places_of(producer, users, self.places)
        self.spread[producer] = 1 if aligned else self.times(producer, users)
        if aligned:
            self.aligned.add(producer)
        if not self.is_alone(producer, users):
            self.cluster.copies[producer] = None
        self.cluster.members[producer] = None


class _Grower:
    """Forms the clusters of one computation."""

    def __init__(self, computation: Computation, log: DecisionLog, options: Fusion) -> None:
        self.computation = computation
        self.log = log
        self.options = options
        self.rules = fusion_rules(options.only, options.never)
        self.order = list(computation)
        self.position = {instruction: n for n, instruction in enumerate(self.order)}
        self.taken: set[Instruction] = set()

    def clusters(self) -> list[Cluster]:
        """All clusters, consumers before producers.  What all its readers have computed for themselves needs none."""
        found = []
        read: set[Instruction] = set()  # by clusters and by instructions that stay by themselves
        copied: set[Instruction] = set()
        for seed in reversed(self.order):
            if seed in self.taken or (seed in copied and seed not in read and not seed.is_root):
                continue
            if not self.may_grow(seed):
                read.update(seed.operands)
                continue
            cluster = self.grow(seed)
            read.update([o for member in cluster.members for o in member.operands if o not in cluster.members])
            copied.update(cluster.copies)
            if len(cluster.members) > 1 and not _is_part(cluster):
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
        heap: list[int] = []  # places of what may be asked to join, negated: the last in program order comes first
        seen: set[Instruction] = set()
        self.ask_operands(seed, heap, seen)
        while heap:
            producer = self.order[-heappop(heap)]
            users = growth.users(producer)
            aligned = growth.is_aligned(users)
            found = self.obstacle(growth, producer, users, aligned)
            if found is not None:
                if not is_movement(producer) and producer.opcode not in ("parameter", "constant"):
                    self.log.refuse(found.rule, (producer, seed), found.reason, **found.numbers)
                continue
            growth.add(producer, users, aligned)
            self.ask_operands(producer, heap, seen)
        cluster = growth.cluster
        if self.reads_itself(cluster):
            self.log.refuse("reads-itself", seed, "it is computed from other parts of the array that it updates")
            cluster = _by_itself(seed)
        cluster.members = dict.fromkeys(sorted(cluster.members, key=self.position.__getitem__))
        _trim(cluster)
        self.taken.update([m for m in cluster.members if m not in cluster.copies])
        return cluster

    def reads_itself(self, cluster: Cluster) -> bool:
        """Whether the cluster updates an array in place that it also reads, at other places than it writes.

        Arrays that stay as they are, parameters of the entry and those with other readers, have to be copied anyway.
        Where most of an array is updated, at a known place, writing that to another array and copying the rest moves
        less than writing it twice.
        """
        update = cluster.root
        if update.opcode != "dynamic-update-slice" or len(cluster.members) == 1 or leaves_border(update):
            return False
        source = update.operands[0]
        if source.opcode in ("parameter", "constant") or any(user not in cluster.members for user in source.users):
            return False
        if len(source.users) == 1:
            return source in update.operands[1:]
        moved = computed_elsewhere(sorted(cluster.members, key=self.position.__getitem__, reverse=True), update)
        return not all(user is update or reads_what_it_writes(user, update, moved) for user in source.users)

    def ask_operands(self, instruction: Instruction, heap: list[int], seen: set[Instruction]) -> None:
        """Add to `heap` those operands that may be asked to join, but for the ones that were `seen`."""
        operands = instruction.operands
        if instruction.opcode == "dynamic-update-slice":
            operands = operands[1:]  # operand 0 stays outside, so that the update can be in place
        for operand in operands:
            if operand not in seen and operand.opcode != "parameter":
                seen.add(operand)
                heappush(heap, -self.position[operand])

    def obstacle(
        self, growth: _Growth, producer: Instruction, users: list[Instruction], aligned: bool
    ) -> Obstacle | None:
        """Why the producer must stay outside; None when it may join."""
        if not is_fusible(producer):
            return Obstacle("own-kernel", f"a {producer.opcode} has a kernel of its own")
        forbidden = self.rules.forbids(producer)
        if forbidden:
            return Obstacle("forbidden", forbidden)
        if producer.control_predecessors or producer.control_successors:
            return Obstacle("control-dependencies", "it has control dependencies")
        forced = self.rules.forces(producer)
        if len(growth.cluster.members) >= self.options.max_ops and not _reads_nothing(producer):
            limit = self.options.max_ops
            return Obstacle("fusion-full", f"the fusion has {limit} instructions already", {"limit": limit})
        if producer.opcode != "constant" and _is_scalar_code(producer):
            return Obstacle("scalar-code", "it is scalar code, computed once")
        if not forced and not growth.is_alone(producer, users) and not is_cheap_copy(producer):
            return Obstacle("other-readers", "others need its result too", {"readers": len(producer.users)})
        return self.form_obstacle(growth, producer, aligned) or (
            None if forced else self.work_obstacle(growth, producer, users, aligned)
        )

    def form_obstacle(self, growth: _Growth, producer: Instruction, aligned: bool) -> Obstacle | None:
        """Why the emitter could not have the producer in this fusion; None when it can."""
        if producer.opcode == "dynamic-update-slice":
            return Obstacle("in-place", "it is updated in place")
        if producer.opcode == "reduce":
            return self.reduce_obstacle(growth, producer, aligned)
        return None

    def work_obstacle(
        self, growth: _Growth, producer: Instruction, users: list[Instruction], aligned: bool
    ) -> Obstacle | None:
        """Why joining would repeat work; None when it does not."""
        costs, free = costs_of(producer), is_movement(producer) or producer.opcode in ("constant", "iota")
        times = 1 if free or aligned else growth.times(producer, users)
        if times > 1 and not is_positional(producer):
            reason = f"each element would be computed {times} times"
            return Obstacle("repeated-work", reason, {"times": times, "limit": 1})
        places = len(places_of(producer, users, growth.places))
        limit = costs.view_places if free else costs.costly_places if is_expensive(producer) else costs.places
        if places > limit:
            reason = f"it would be computed at {places} places"
            return Obstacle("many-places", reason, {"places": places, "limit": limit})
        if not free and any(u.opcode in ("gather", "map") and producer is u.operands[0] for u in users):
            return Obstacle("gathered", "it would be computed at gathered places")
        if producer.opcode == "concatenate" and (
            producer.shape.size > costs.largest_choice or any(u.opcode in ("reduce", "reduce-window") for u in users)
        ):
            reason = "choosing a source for each element costs more than a copy"
            return Obstacle("choice-of-source", reason, {"elements": producer.shape.size})
        if producer.opcode == "concatenate" and has_many_sources(producer, *growth.cluster.members):
            return Obstacle("choice-of-source", "each element would be chosen from too many sources")
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


def _by_itself(seed: Instruction) -> Cluster:
    """A cluster of an instruction and the constants that it reads."""
    constants = [o for o in dict.fromkeys(seed.operands) if o.opcode == "constant"]
    shared = [constant for constant in constants if constant.is_root or len(constant.users) > 1]
    return Cluster(seed, dict.fromkeys([*constants, seed]), dict.fromkeys(shared))


def _trim(cluster: Cluster) -> None:
    """Leave out views of outside values, from members in program order: they are free where they are."""
    for member in list(cluster.members):
        view = member.opcode in ("reshape", "bitcast") and member is not cluster.root
        if view and member.operands[0] not in cluster.members:
            del cluster.members[member]
            cluster.copies.pop(member, None)


def _is_part(cluster: Cluster) -> bool:
    """A slice at a place that may be known: code generation can often do without the copy."""
    others = (member for member in cluster.members if member is not cluster.root)
    return cluster.root.opcode in ("slice", "dynamic-slice") and all(o.opcode == "constant" for o in others)


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


def places_of(
    producer: Instruction, users: Iterable[Instruction], places: dict[Instruction, frozenset[Place]]
) -> frozenset[Place]:
    """The different index maps under which the fusion would compute `producer`: code is emitted once for each.

    An elementwise user reads at its own index; one that moves elements, or sums over them, makes a new index of each of
    its own.
    """
    if producer.opcode == "constant" or producer.shape.size == 1:
        return frozenset({()})
    found: frozenset[Place] = frozenset()
    for user in users:
        own = places[user]
        if _moves(user):
            own = frozenset([(*place, user) for place in own])
        found = found | own if found else own
    return found


def _is_scalar_code(instruction: Instruction) -> bool:
    """Arithmetic on single elements, which the entry function holds in line."""
    return (
        instruction.shape.is_array
        and instruction.shape.size == 1
        and instruction.has("elementwise")
        and all(o.shape.size == 1 for o in instruction.operands)
    )


def _reads_nothing(instruction: Instruction) -> bool:
    """Whether its elements are known without reading memory: a constant, an iota, a broadcast constant."""
    return instruction.opcode in ("constant", "iota") or (
        instruction.opcode == "broadcast" and instruction.operands[0].opcode == "constant"
    )


def _repeats(user: Instruction, producer: Instruction) -> int:
    """How often `user` reads each element of `producer`."""
    if user.opcode == "broadcast":
        return max(1, user.shape.size // max(1, producer.shape.size))
    return 1


def _moves(instruction: Instruction) -> bool:
    """Whether an instruction reads elements of its operands at other places than its own."""
    return instruction.opcode not in _AT_ITS_OWN_PLACE


def make_fusion(module: Module, members: Sequence[Instruction], outputs: Sequence[Instruction]) -> Instruction:
    """Add a fusion of `members` (in program order) that takes over the uses of `outputs`.

    Fusions among the members are inlined.  With several outputs the result is a tuple.  The members stay where they
    are, for others to copy; `erase_all` removes them.
    """
    parent = members[-1].parent
    assert parent is not None
    own = set(members)
    results = dict.fromkeys(opcode for output in outputs for opcode in _result_opcodes(output))
    title = "_".join(list(results)[:3]).replace("-", "_")
    body = Computation(module.unique_name(f"fused_{title}"))
    inside: dict[Instruction, Instruction] = {}
    inputs = list(dict.fromkeys([o for m in members for o in m.operands if o not in own]))
    for number, source in enumerate(inputs):
        inside[source] = body.add(Instruction("parameter", source.shape, (), {"parameter_number": number}))
    keeps_names = sum(member.opcode == "fusion" for member in members) == 1  # else two might have the same
    for member in members:
        inside[member] = _copy_into(body, member, inside, keeps_names)
    roots = [inside[output] for output in outputs]
    if len(roots) > 1:
        leaves = [leaf for root in roots for leaf in _elements(body.add, root)]
        roots = [body.add(Instruction("tuple", tuple_shape([leaf.shape for leaf in leaves]), leaves))]
    body.root = roots[0]
    module.add(body)
    if "tuple" in body.opcodes:
        for unread in [i for i in body if i.opcode == "tuple" and not i.users and not i.is_root]:
            body.erase(unread)
    kind = "kOutput" if body.opcodes & PRODUCTS else "kInput" if "reduce" in body.opcodes else "kLoop"
    last = members[-1]
    fusion = Instruction(
        "fusion",
        body.root.shape,
        inputs,
        {"kind": kind, "calls": body},
        module.unique_name(f"{title}_fusion"),
        last.metadata,
        last.location,
        tuple(dict.fromkeys([name for m in members for name in (m.origins or (m.name,))])),
    )
    parent.add(fusion, before=last)
    if len(outputs) == 1:
        outputs[0].replace_all_uses(fusion)
        return fusion
    after, first = fusion._next, 0
    for output in outputs:
        shapes = output.shape.elements or [output.shape]
        leaves = [
            parent.add(Instruction("get-tuple-element", shape, [fusion], {"index": first + number}), before=after)
            for number, shape in enumerate(shapes)
        ]
        first += len(shapes)
        if output.shape.is_tuple:
            leaves = [parent.add(Instruction("tuple", output.shape, leaves), before=after)]
        output.replace_all_uses(leaves[0])
    return fusion


def _elements(add: Callable[[Instruction], Instruction], value: Instruction) -> list[Instruction]:
    """The arrays of a value: itself, or one by one what a reduce with several results gives."""
    if not value.shape.is_tuple:
        return [value]
    return [
        add(Instruction("get-tuple-element", shape, [value], {"index": index}))
        for index, shape in enumerate(value.shape.elements)
    ]


def _result_opcodes(instruction: Instruction) -> list[str]:
    """What a kernel computes last."""
    if instruction.opcode == "fusion":
        return _result_opcodes(instruction.attributes["calls"].root)
    if instruction.opcode == "get-tuple-element":
        source = instruction.operands[0]
        root = source.attributes["calls"].root if source.opcode == "fusion" else source
        return _result_opcodes(root.operands[instruction.attributes["index"]] if root.opcode == "tuple" else root)
    if instruction.opcode == "tuple":
        return [opcode for operand in instruction.operands for opcode in _result_opcodes(operand)]
    return [instruction.opcode]


def _copy_into(
    body: Computation, member: Instruction, inside: dict[Instruction, Instruction], keeps_names: bool
) -> Instruction:
    """Copy an instruction, or the instructions of a fusion, into `body`; the copy of the result."""
    if member.opcode == "get-tuple-element":  # of a fusion in `body`
        index: int = member.attributes["index"]
        return inside[member.operands[0]].operands[index]
    if member.opcode != "fusion":
        return body.add(clone_instruction(member, map(inside.__getitem__, member.operands)))
    copies: dict[Instruction, Instruction] = {}
    fused: Computation = member.attributes["calls"]
    for instruction in fused:
        if instruction.opcode == "parameter":
            copies[instruction] = inside[member.operands[instruction.parameter_number]]
        else:
            name = instruction.name if keeps_names else ""
            operands = map(copies.__getitem__, instruction.operands)
            copies[instruction] = body.add(clone_instruction(instruction, operands, name))
    return copies[fused.root]


def leave_behind(members: Reversible[Instruction], dead: set[Instruction]) -> None:
    """Add to `dead` those members of a new fusion (in program order) that nothing alive reads any more."""
    for member in reversed(members):
        if not member.is_root and all(user in dead for user in member.users):
            dead.add(member)


def erase_all(computation: Computation, dead: Collection[Instruction]) -> None:
    """Erase dead instructions, users first."""
    for instruction in reversed(computation):
        if instruction in dead:
            computation.erase(instruction)
