"""What a group of reductions accumulates in while its loops run: first values, steps, results."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.analysis.indexing import Atom
from hlotool.codegen.llvm import memory
from hlotool.codegen.llvm.math.elements import Register, flattened, grouped
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.reduce import Reducer, product_sum, reducer
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.loops.nodes import Node
from hlotool.codegen.nests.indices import Indices
from hlotool.ir import Instruction, element_type

__all__ = ["Accumulators", "reducer_of"]


class Accumulators:
    """`copies` accumulators of `lanes` lanes for each reduction of `group`, which combine as their `reducers` do.

    `folds` says that the lanes are those of the reductions' own loop, so that they become one number in the end.
    """

    def __init__(
        self, indices: Indices, group: Sequence[Node], reducers: Sequence[Reducer], lanes: int, copies: int,
        folds: bool,
    ) -> None:  # fmt: skip
        self.indices = indices
        self.scope = indices.scope
        self.f = indices.f
        self.group = group
        self.reducers = reducers
        self.lanes = lanes
        self.copies = copies
        self.folds = folds
        self.types = [kind for own in self.reducers for kind in own.types * copies]

    def first(self) -> list[Vector]:
        """What the loops carry at first."""
        starts: list[Register] = []
        for node, own in zip(self.group, self.reducers, strict=True):
            neutral = own.neutral(self.f, self.lanes)
            starts += (self._initial(node, self.lanes) if neutral is None else neutral) * self.copies
        return flattened(starts)

    def step(self, carried: Sequence[Vector]) -> list[Vector]:
        """What they carry after a trip in which the inputs have become known."""
        active = self.scope.lane.copies if self.lanes > 1 else 1
        stepped: list[Register] = []
        for node, own, totals in self._totals(carried):
            for copy, total in enumerate(totals):
                stepped += self._step(node, own, total, copy) if copy < active else total
        return flattened(stepped)

    def _step(self, node: Node, own: Reducer, old: list[Register], copy: int) -> list[Register]:
        """One step of one accumulator; lanes that do not count, or where guards fail, keep what they have."""
        lanes = self.lanes
        inputs = [self.scope.value(n, copy, lanes) for n in node.operands[: len(node.operands) // 2]]
        new = own.step(old, inputs)
        mask = memory.first_lanes(self.f, self.scope.lane.active_in(copy), lanes) if self.folds else None
        if node.guards:
            condition = self.indices.mask(node.guards, copy, lanes)
            mask = condition if mask is None else condition & mask
        if mask is None:
            return new
        return [
            emit_elementwise("select", {}, ["pred", t, t], t, [mask, a, b])
            for t, a, b in zip(own.types, new, old, strict=True)
        ]

    def results(self, carried: Sequence[Vector]) -> list[tuple[Register, ...]]:
        """The values of each reduction, copy by copy, from what the loops carry at last."""
        results = []
        for node, own, totals in self._totals(carried):
            if self.folds:
                totals = [own.fold(totals)]
            lanes = 1 if self.folds else self.lanes
            found: list[Register] = []
            for total in totals:
                if own.opcodes:
                    total = own.step(self._initial(node, lanes), total)
                found += own.finish(total)
            results.append(tuple(found))
        return results

    def _totals(self, carried: Sequence[Vector]) -> list[tuple[Node, Reducer, list[list[Register]]]]:
        """The accumulators of each reduction, copy by copy."""
        left = iter(grouped(self.types, carried))
        return [
            (node, own, [[next(left) for _ in own.types] for _ in range(self.copies)])
            for node, own in zip(self.group, self.reducers, strict=True)
        ]

    def _initial(self, node: Node, lanes: int) -> list[Register]:
        return [self.scope.value(n, 0, lanes) for n in node.operands[len(node.operands) // 2 :]]


def reducer_of(node: Node) -> Reducer:
    """How a reduction combines values."""
    if node.computation is None:
        return product_sum(node.type)
    inputs = node.operands[: len(node.operands) // 2]
    rising = [k for k, n in enumerate(inputs) if _rises(n, node.bound) or _counts(node.slot, k)]
    return reducer(node.computation, [n.type for n in inputs], rising)


def _counts(reduction: Instruction, number: int) -> bool:
    """Whether input `number` of a reduce counts the elements along the dimension that is reduced."""
    source, sizes = reduction.operands[number], reduction.operands[number].shape.dimensions
    gone = [d for d in reduction.attributes.get("dimensions") or () if sizes[d] > 1]
    if len(gone) != 1:
        return False
    (dimension,) = gone
    if source.opcode == "broadcast" and dimension in source.attributes["dimensions"]:
        dimension = source.attributes["dimensions"].index(dimension)
        source = source.operands[0]
    if source.opcode != "iota" or source.attributes["iota_dimension"] != dimension:
        return False
    size: int = source.shape.dimensions[dimension]
    return size <= 1 << (element_type(source.shape.element_type).bits - 1)


def _rises(position: Node, bound: Sequence[Atom]) -> bool:
    """Whether a node is a position that grows with every step of the loops over `bound`, the last the innermost."""
    index = position.index
    if position.kind != "position" or index is None:
        return False
    if index.low < 0 or index.high >= 1 << (element_type(position.type).bits - 1):
        return False
    hidden, reach = 0, 0
    for atom in reversed(bound):
        coefficient = index.coefficient(atom)
        if coefficient <= reach:
            return False
        reach += coefficient * (atom.high - atom.low)
        hidden |= atom.variables
    return all(atom in bound for atom, _ in index.terms if atom.variables & hidden)
