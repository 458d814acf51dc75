"""Which loops to write for a trace: splitting and merging of dimensions, the lane loop, costs.

Dimensions are split where an index divides their variable, so that no division is left in a loop; neighbouring
variables become one loop where every index treats them as one.  The lane loop is the one that
makes the estimated time smallest, counted over all accesses and operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Annotated

from hlotool.analysis.indexing import Atom, Index
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm import values
from hlotool.codegen.llvm.math.elements import compute_element
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.loops.nodes import Node, body_of, variables_of
from hlotool.codegen.loops.trace import Dimension, Tracer
from hlotool.codegen.machine import Machine
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "HEAVY", "LoopSpec", "bound_loops", "copies_for", "cost", "depth_in", "is_long", "merge", "pick_lane", "plain",
    "refine", "register_bits", "tile_loop", "total_cost", "weight", "width_for", "work",
]  # fmt: skip

_FAR: Annotated[int, Threshold("elements")] = 16  # apart, so that each load is of another line of the caches
_TILED: Annotated[int, Threshold("elements")] = 4  # of a loop, at least, that forms tiles
_TILE_WORK: Annotated[int, Threshold("cycles")] = 40  # of a body that is written for every column of a tile


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """A loop to write: the variable `atom` counts from `start` to `stop`; `absorbed` outer variables stay zero.

    `lane` is (lanes of a vector, vectors) where this is the lane loop.
    """

    atom: Atom
    extent: int
    absorbed: tuple[Atom, ...] = ()
    lane: tuple[int, int] | None = None
    start: values.Index = 0
    stop: values.Index = -1
    counter: values.Index | None = None  # a value instead of a loop
    tile: int = 0  # iterations done at once, as the copies of a tile
    variables: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", variables_of((self.atom, *self.absorbed)))

    @property
    def block(self) -> int:
        """Iterations done at once."""
        return self.lane[0] * self.lane[1] if self.lane is not None else max(1, self.tile)


def depth_in(loops: Sequence[LoopSpec], node: Node) -> int:
    """The number of `loops` down to the innermost that `node` depends on."""
    return max((k + 1 for k, loop in enumerate(loops) if loop.variables & node.variables), default=0)


def plain(atom: Atom) -> LoopSpec:
    """The loop over all values of `atom`."""
    extent = atom.high - atom.low + 1
    return LoopSpec(atom, extent, start=atom.low, stop=atom.low + extent)


# ---- splitting


def refine(tracer: Tracer) -> dict[Dimension, tuple[int, ...]] | None:
    """Finer factors that remove quotients and remainders of single variables; None when there are none to remove."""
    divisors: dict[Atom, set[int]] = {}
    for index in _indices(tracer.nodes):
        for atom, _ in index.terms:
            match atom.inner:
                case Index(terms=((inner, 1),), constant=0) if inner.kind == "variable" and not inner.low:
                    if (inner.high + 1) % atom.divisor == 0:
                        divisors.setdefault(inner, set()).add(atom.divisor)
    if not divisors:
        return None
    factors = dict(tracer.factors)
    for name, atoms in tracer.dimensions():
        split: list[int] = []
        for atom in atoms:
            extent = atom.high + 1
            for divisor in sorted(divisors.get(atom, ()), reverse=True):
                if extent % divisor == 0:
                    split.append(extent // divisor)
                    extent = divisor
            split.append(extent)
        if len(split) > len(atoms):
            factors[name] = tuple(split)
    return factors


def _indices(nodes: Iterable[Node]) -> dict[Index, None]:
    """All indices of nodes, those inside of quotients and remainders too."""
    found = dict.fromkeys(index for node in nodes for index in node.indices)
    waiting = list(found)
    while waiting:
        inside = [atom.inner for atom, _ in waiting.pop().terms if atom.inner is not None and atom.inner not in found]
        found.update(dict.fromkeys(inside))
        waiting += inside
    return found


# ---- merging


def merge(loops: Sequence[LoopSpec], nodes: Iterable[Node]) -> list[LoopSpec]:
    """Join neighbouring loops where all indices of `nodes`, and of what reductions among them reduce, see only their
    joint counter."""
    merged: list[LoopSpec] = []
    nodes = _with_bodies(nodes)
    reduces, indices = [node for node in nodes if node.kind == "reduce"], _indices(nodes)

    def as_one(outer: LoopSpec, inner: LoopSpec) -> bool:
        return (
            not (outer.atom.low or inner.atom.low)
            and all(bool(n.variables & outer.variables) == bool(n.variables & inner.variables) for n in reduces)
            and all(x.coefficient(outer.atom) == inner.extent * x.coefficient(inner.atom) for x in indices)
        )

    for loop in loops:
        if loop.extent == 1:
            continue
        if merged and as_one(merged[-1], loop):
            outer = merged[-1]
            absorbed = (*outer.absorbed, outer.atom, *loop.absorbed)
            extent = outer.extent * loop.extent
            merged[-1] = LoopSpec(loop.atom, extent, absorbed, stop=extent)
        else:
            merged.append(loop)
    return merged


def _with_bodies(nodes: Iterable[Node]) -> list[Node]:
    """`nodes`, and those in the bodies of reductions among them."""
    found = dict.fromkeys(nodes)
    waiting = [node for node in found if node.kind == "reduce"]
    while waiting:
        inside = [node for node in body_of(waiting.pop()) if node not in found]
        found.update(dict.fromkeys(inside))
        waiting += [node for node in inside if node.kind == "reduce"]
    return list(found)


# ---- costs


def weight(node: Node) -> float:
    """Rough cost of one vector (or scalar) of an operation, in cycles."""
    if node.kind != "elementwise":
        return _WEIGHTS.get(node.kind, 1.0)
    own = ELEMENTWISE_OPCODES[node.opcode].weight
    if own is not None:
        return own
    return 4.0 if node.type in ("bf16", "f16") else 1.0


_WEIGHTS = {"constant": 0.0, "inline": 4.0, "leaf": 0.0, "reduce": 2.0}


def is_long(node: Node) -> bool:
    """Whether a node is a function of many instructions: too long to repeat, and worth keeping."""
    return node.kind == "elementwise" and ELEMENTWISE_OPCODES[node.opcode].transcendental


def cost(node: Node, lane: LoopSpec | None, machine: Machine) -> float:
    """Cycles of all executions of `node` when `lane` is the lane loop; of a reduction one step, not its loops."""
    trips = float(node.trips)
    if lane is None or not node.variables & lane.variables:
        return trips * weight(node)
    width = min(machine.lanes(register_bits(node.type)), _power_of_two(lane.extent))
    vectors = trips / lane.extent * -(-lane.extent // width)
    if node.kind in ("load", "store"):
        even = all(a.kind == "variable" or not a.variables & lane.variables for a, _ in node.index.terms)
        step = node.index.coefficient(lane.atom) if even else None
        if step in (0, 1):
            return vectors * (1.0 if node.kind == "load" else 1.5)
        if step == -1 and node.kind == "load":
            return vectors * 2.0
        if node.kind == "load" and step is not None and _row_atom(node, lane) is not None:
            return trips * 0.4
        far = step is None or abs(step) > _FAR
        return trips * (2.0 if far else 1.2) * (2.0 if node.kind == "store" else 1.0)
    return vectors * weight(node)


def _row_atom(node: Node, lane: LoopSpec) -> Atom | None:
    """The variable whose neighbouring settings lie side by side for a load that does not so in the lane."""
    if node.guards:
        return None
    return next((a for a, c in node.index.terms if c == 1 and a.kind == "variable" and a != lane.atom), None)


def tile_loop(loops: Sequence[LoopSpec], lane: LoopSpec, scope: Sequence[Node]) -> LoopSpec | None:
    """The loop that forms tiles with `lane`, so that loads along it are transposed in registers; None without need.

    All indices must be plain in its variable, and the body short: it is written for every column of a tile.
    """
    for node in scope:
        if node.kind != "load" or not node.variables & lane.variables:
            continue
        if abs(node.index.coefficient(lane.atom)) <= 1:
            continue
        row = _row_atom(node, lane)
        loop = next((loop for loop in loops if loop.atom == row), None)
        if loop is None or loop.extent < _TILED or lane.extent < _TILED:
            continue
        size = work(n for n in scope if n.variables & loop.variables)
        if size <= _TILE_WORK and all(_plain_in(x, loop) for n in scope for x in n.indices):
            return loop
    return None


def _plain_in(index: Index, loop: LoopSpec) -> bool:
    return all(a.kind == "variable" or not a.variables & loop.variables for a, _ in index.terms)


@cache
def register_bits(kind: str) -> int:
    """Width of the registers' elements that a node of this type needs."""
    return 32 if kind == "tuple" else max(8, BITS[compute_element(kind)])


def _power_of_two(n: int) -> int:
    return 1 << max(0, (n - 1).bit_length())


FEW_WIDE: Annotated[int, Threshold("times")] = 4
"""The work on narrower elements, for that on the widest, from which on vectors are full of the narrower ones."""


def width_for(nodes: Iterable[Node], lane: LoopSpec, machine: Machine) -> int:
    """Lanes of a vector, no more than useful: those of the widest element among nodes that depend on the lane, or
    twice as many where little is as wide, which takes two registers then."""
    amounts: dict[int, float] = {}
    variables = lane.variables
    for node in nodes:
        if node.variables & variables:
            types = [node.type, *[o.type for o in node.operands if o.variables & variables]]
            bits = max(map(register_bits, types))
            amounts[bits] = amounts.get(bits, 0.0) + work([node])
    bits = max(amounts, default=8)
    if bits > 8 and sum(amounts.values()) >= (1 + FEW_WIDE) * amounts[bits]:
        bits //= 2
    return max(1, min(machine.lanes(bits), _power_of_two(lane.extent)))


HEAVY: Annotated[float, Threshold("cycles")] = 48.0
"""Cycles of work on a vector from which on computing takes longer than memory, and two vectors at once much code."""

LONG: Annotated[int, Threshold("elements")] = 1 << 14
"""Elements from which on what quicker code for long computations saves is worth compiling it."""


def work(nodes: Iterable[Node]) -> float:
    """About the instructions for one vector of each node."""
    return sum(20.0 if is_long(n) else weight(n) for n in nodes)


def copies_for(
    nodes: Sequence[Node], lane: LoopSpec, width: int, machine: Machine, accumulators: int, waits: bool = False,
    within: bool = False,
) -> int:  # fmt: skip
    """Vectors per trip: several for short bodies, so that loop overhead and latency do not count; in long ones two
    where that `waits` for what takes so long that more code pays: numbers from afar, or, where they are near, the
    computation itself, of which a processor looks ahead of little more than one vector's.  Long ones of many elements
    have as many as there are registers for, which read constants once for all; but not `within` a loop that computes a
    small part of the elements at a time.  A reduction of functions takes one: those of the next trips go on while an
    addition waits for the one before."""
    vector = [n for n in nodes if n.variables & lane.variables]
    size = work(vector)
    live = max(accumulators, sum(1 for n in vector if n.kind in ("load", "reduce")))
    most = 4 if size <= HEAVY / 2 else 2 if size <= HEAVY or waits else 1
    if accumulators and any(is_long(n) for n in vector):
        most = 1
    elif accumulators and live <= 2 and size <= HEAVY:
        most = 8  # which hides how long one addition takes
    elif not within and max((n.trips for n in vector), default=0) >= LONG:
        most = max(2, most, min(4, _power_of_two(machine.registers // (accumulators + _most_alive(vector)) + 1) // 2))
    asked = machine.choices.vectors
    most = most if asked is None else asked
    while most > 1 and ((asked is None and most * live > machine.registers) or (most - 1) * width >= lane.extent):
        most //= 2
    return most


def _most_alive(nodes: Collection[Node]) -> int:
    """How many of `nodes` are needed later at one time, at least 1: each is computed where it is first needed, and of
    the operands of one the longest chain first."""
    length: dict[Node, int] = {}
    uses: Counter[Node] = Counter()
    for node in sorted(nodes, key=lambda n: n.serial):
        inputs = {i for i in node.inputs if i in length}
        length[node] = 1 + max((length[i] for i in inputs), default=0)
        uses.update(inputs)
    waiting = [(n, False) for n in length if not uses[n]]
    done: set[Node] = set()
    alive, most = 0, 1
    while waiting:
        node, ready = waiting.pop()
        if node in done:
            continue
        inputs = {i for i in node.inputs if i in length}
        if not ready:
            waiting += [(node, True), *((i, False) for i in sorted(inputs, key=lambda i: (length[i], i.serial)))]
            continue
        done.add(node)
        uses.subtract(inputs)
        alive += bool(uses[node]) - sum(not uses[i] for i in inputs)
        most = max(most, alive)
    return most


# ---- the lane loop


def pick_lane(
    candidates: Sequence[LoopSpec], scope: Sequence[Node], insides: Sequence[tuple[Node, list[Node]]], machine: Machine
) -> LoopSpec | None:
    """The loop to vectorise among `candidates`; None when reductions inside should be vectorised by themselves.

    `scope` are the nodes written in the loops, `insides` the reductions among them with the nodes of their bodies.
    """
    # Of equal ones the innermost.
    place = machine.choices.lane or 0
    ways = [*reversed(candidates), None]
    if not place:
        return min(ways, key=lambda loop: total_cost(loop, scope, insides, machine))
    return sorted(ways, key=lambda loop: total_cost(loop, scope, insides, machine))[min(place, len(ways) - 1)]


def total_cost(
    lane: LoopSpec | None, scope: Sequence[Node], insides: Sequence[tuple[Node, list[Node]]], machine: Machine
) -> float:
    """Cycles of `scope` and of the reductions in it: those that do not depend on `lane` have the best of their own
    loops for it."""
    total = sum(cost(n, lane, machine) for n in scope)
    for node, body in insides:
        if lane is not None and node.variables & lane.variables:
            total += sum(cost(n, lane, machine) for n in body)
        else:
            total += min(sum(cost(n, own, machine) for n in body) for own in (None, *map(plain, node.bound)))
    return total


def bound_loops(
    group: Sequence[Node], inner: Sequence[Node], machine: Machine, may_lane: bool, innermost: bool
) -> list[LoopSpec]:
    """The loops of reductions `group` with bodies `inner`, with a lane loop where one `may` be and is worth it.

    With `innermost` the order of the loops must stay, so that only the last can be the lane loop.
    """
    loops = merge([plain(a) for a in group[0].bound], [*inner, *group])
    if not may_lane:
        return loops
    nested = [(n, body_of(n)) for n in inner if n.kind == "reduce"]
    lane = pick_lane(loops[-1:] if innermost else loops, inner, nested, machine)
    if lane is None or (width := width_for(inner, lane, machine)) == 1:
        return loops
    copies = copies_for(inner, lane, width, machine, len(group))
    return [*(loop for loop in loops if loop is not lane), replace(lane, lane=(width, copies))]
