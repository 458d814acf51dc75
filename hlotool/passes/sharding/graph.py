"""The values of a module as a graph, along whose edges shardings are carried.

A node is an array: a leaf of what an instruction gives.  Values that have to be cut alike are one node: the state of a
loop in the loop, its condition and body; the results of branches and calls and the roots of what is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hlotool.ir import Computation, Instruction, Module, Shape
from hlotool.ir.sharding import Sharding
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.sharding.factors import ACROSS, BOUNDARIES, FIRST, links_of
from hlotool.passes.sharding.projection import Factors, project, summed

__all__ = ["Edge", "Graph", "Place"]

Place = tuple[Instruction, int]
"""An instruction and the number of a leaf of its shape."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A way from a node to `target`, by the instruction `via`, followed from `level` on.

    `way` is ``operand`` (from an operand to a result), ``user`` (the way back), ``beside`` (from operand to operand),
    ``group`` (between values that are to have one sharding) or ``manual``, on which only that is carried that the
    program says itself what devices hold.  Without `source` both ends have the same dimensions; along `mirrored`
    factors, one begins where the other ends.
    """

    target: int
    via: Instruction
    way: str
    level: int
    source: Factors | None = None
    result: Factors = ()
    sizes: tuple[int, ...] = ()
    mirrored: frozenset[int] = frozenset()

    def carry(self, sharding: Sharding) -> Sharding | None:
        """What follows for the target from the sharding of the node."""
        if sharding.kind == "manual":
            return sharding.bare() if self.way in ("manual", "group") else None
        if self.source is None and self.way == "operand" and sharding != summed(sharding):
            return sharding.bare()  # the same value, in the same terms
        sharding = summed(sharding)
        if self.way == "manual" or not sharding.is_tiled:
            return None
        if self.way == "user" and sharding.is_manual and not self.via.operands:
            return None
        if self.source is None:
            return sharding.bare()
        return project(sharding.bare(), self.source, self.result, self.sizes, self.mirrored)


class Graph:
    """The nodes and edges of all computations that the entry reaches by calls, loops and branches."""

    def __init__(self, module: Module) -> None:
        self.computations = _reached(module)
        self._first: dict[Instruction, int] = {}  # the number of the first leaf
        self._parent: list[int] = []
        self.places: list[Place] = []
        self.shapes: list[Shape] = []
        for computation in self.computations:
            for one in computation:
                self._first[one] = len(self._parent)
                for n, leaf in enumerate(one.shape.leaves()):
                    self._parent.append(len(self._parent))
                    self.places.append((one, n))
                    self.shapes.append(leaf)
        for computation in self.computations:
            for one in computation:
                self._unite(one)
        self.members: list[list[Place]] = [[] for _ in self._parent]
        for number, place in enumerate(self.places):
            self.members[self._find(number)].append(place)
        self.edges: list[list[tuple[int, Edge]]] = [[] for _ in self._parent]  # with numbers, in program order
        self._edges = 0
        for computation in self.computations:
            for one in computation:
                self._connect(one)

    def node(self, one: Instruction, leaf: int = 0) -> int:
        return self._find(self._first[one] + leaf)

    def nodes(self, one: Instruction) -> list[int]:
        """The nodes of the leaves of a value."""
        return [self._find(self._first[one] + n) for n, _ in enumerate(one.shape.leaves())]

    def group(self, members: Sequence[int], via: Instruction) -> None:
        """Values that are to have one sharding."""
        for a, b in pairwise(members):
            self._both(a, b, via, "group", "group")

    # ---- building

    def _find(self, number: int) -> int:
        root = number
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[number] != root:
            self._parent[number], number = root, self._parent[number]
        return root

    def _join(self, one: Instruction, other: Instruction) -> None:
        for n, _ in enumerate(one.shape.leaves()):
            a, b = self._find(self._first[one] + n), self._find(self._first[other] + n)
            self._parent[max(a, b)] = min(a, b)

    def _unite(self, one: Instruction) -> None:
        if one.opcode == "while":
            body, condition = one.attributes["body"], one.attributes["condition"]
            for value in (body.parameters[0], body.root, condition.parameters[0]):
                self._join(one, value)
        elif one.opcode in ("conditional", "call", "fusion"):
            for callee in one.called:
                self._join(one, callee.root)

    def _add(self, source: int, edge: Edge) -> None:
        if source != edge.target:
            self.edges[source].append((self._edges, edge))
            self._edges += 1

    def _both(self, a: int, b: int, via: Instruction, there: str = "operand", back: str = "user") -> None:
        self._add(a, Edge(b, via, there, FIRST))
        self._add(b, Edge(a, via, back, FIRST))
        if there == "operand":
            self._add(a, Edge(b, via, "manual", FIRST))

    def _alike(self, sources: Sequence[int], targets: Sequence[int], via: Instruction) -> None:
        for a, b in zip(sources, targets, strict=True):
            self._both(a, b, via)

    def _connect(self, one: Instruction) -> None:
        opcode, own = one.opcode, self.nodes(one)
        if opcode == "tuple":
            self._alike([node for operand in one.operands for node in self.nodes(operand)], own, one)
        elif opcode == "get-tuple-element":
            source = one.operands[0]
            skipped = sum(len([*e.leaves()]) for e in source.shape.elements[: one.attributes["index"]])
            self._alike(self.nodes(source)[skipped : skipped + len(own)], own, one)
        elif opcode == "while":
            self._alike(self.nodes(one.operands[0]), own, one)
        elif opcode == "conditional":
            for operand, branch in zip(one.operands[1:], one.called, strict=True):
                self._alike(self.nodes(operand), self.nodes(branch.parameters[0]), one)
        elif opcode in ("call", "fusion"):
            for operand, parameter in zip(one.operands, one.called[0].parameters, strict=True):
                self._alike(self.nodes(operand), self.nodes(parameter), one)
        elif opcode in ("opt-barrier", "add-dependency"):
            self._alike(self.nodes(one.operands[0]), own, one)
        elif opcode == "copy-start":
            for node in own[:2]:
                self._both(self.node(one.operands[0]), node, one)
        elif opcode == "copy-done":
            self._both(self.node(one.operands[0]), own[0], one)
        else:
            self._follow(one, own)

    def _follow(self, one: Instruction, own: Sequence[int]) -> None:
        """The edges of the rule of an opcode."""
        if one.attributes.get("custom_call_target") not in BOUNDARIES:
            for operand in dict.fromkeys(one.operands):
                for node in self.nodes(operand):
                    for target in own:
                        self._add(node, Edge(target, one, "manual", FIRST))
        for link in links_of(one):
            given = [(self.node(o), rows) for o, rows in zip(one.operands, link.operands, strict=True) if rows]
            made = [(node, rows) for node, rows in zip(own, link.results, strict=True) if rows]
            sizes, turned = link.sizes, link.mirrored
            for a, from_rows in given:
                for b, to_rows in made:
                    if _share(from_rows, to_rows):
                        self._add(a, Edge(b, one, "operand", link.forward, from_rows, to_rows, sizes, turned))
                        self._add(b, Edge(a, one, "user", link.backward, to_rows, from_rows, sizes, turned))
            results = {factor for _, rows in made for row in rows for factor in row}
            summed = [(node, rows) for node, rows in given if any(not results.issuperset(row) for row in rows)]
            for n, (a, from_rows) in enumerate(summed):
                for b, to_rows in summed[n + 1 :]:
                    if a != b and _share(from_rows, to_rows) - results:
                        self._add(a, Edge(b, one, "beside", ACROSS, from_rows, to_rows, sizes))
                        self._add(b, Edge(a, one, "beside", ACROSS, to_rows, from_rows, sizes))


def _share(first: Factors, second: Factors) -> set[int]:
    return {factor for row in first for factor in row} & {factor for row in second for factor in row}


def _reached(module: Module) -> list[Computation]:
    """The entry and what it runs as a whole, in the order of the calls."""
    seen: dict[Computation, None] = {}
    stack = [module.entry]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen[current] = None
        for one in reversed(current.calls):
            if one.opcode in ("while", "conditional", "call", "fusion"):
                stack.extend(reversed(one.called))
    return list(seen)
