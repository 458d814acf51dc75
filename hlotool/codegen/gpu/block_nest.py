"""Reductions that all threads of a block share.

Every thread accumulates the elements that are as far apart as there are threads; then the threads of a warp combine
theirs by a tree, and the first warp what the warps have.  Which elements meet in which order follows from the number of
threads alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hlotool.codegen.gpu.grid import Grid, Private
from hlotool.codegen.gpu.spaces import bind_all, size_of
from hlotool.codegen.llvm.arrays import aligned
from hlotool.codegen.llvm.control import begin_loop, when
from hlotool.codegen.llvm.math.elements import flattened, grouped
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Int, Ptr, Vector
from hlotool.codegen.loops.loops import merge, plain
from hlotool.codegen.loops.nodes import Node, body_of
from hlotool.codegen.nests.nest import Nest
from hlotool.codegen.nests.reductions import Accumulators, reducer_of

__all__ = ["BlockNest"]


class BlockNest(Nest):
    """Writes what is the same for a block, outside of phases; of reductions in `shared` each thread does its share."""

    def __init__(self, grid: Grid, bases: Mapping[object, Ptr], shared: Collection[Node]) -> None:
        super().__init__(grid.f, grid.chip.machine, grid.name, bases)
        self.grid = grid
        self.shared = shared

    def _reduce(self, group: list[Node]) -> None:
        if group[0] not in self.shared:
            super()._reduce(group)
            return
        accumulators = Accumulators(self.indices, group, [reducer_of(n) for n in group], 1, 1, folds=False)
        kept = self._accumulate(group, accumulators)
        results = _across(self.grid, accumulators, kept)
        for node, values in zip(group, accumulators.results(results), strict=True):
            self.scope.values.keep(node, values)

    def _together(self, first: Node, later: Sequence[Node]) -> list[Node]:
        group = super()._together(first, later)
        return [node for node in group if (node in self.shared) == (first in self.shared)]

    def _accumulate(self, group: Sequence[Node], accumulators: Accumulators) -> list[Private]:
        """What each thread makes of its elements."""
        grid, scope = self.grid, self.scope
        inner = sorted({n for node in group for n in body_of(node)}, key=lambda n: n.serial)
        loops = merge([plain(atom) for atom in group[0].bound], [*inner, *group])
        first = accumulators.first()
        kept = [grid.private(value.element) for value in first]
        with grid.phase() as thread:
            loop = begin_loop(grid.f, thread, size_of(loops), grid.threads, *first)
            with scope.inner():
                bind_all(scope, loops, loop.index)
                self.run((), inner)
                after = accumulators.step(list(loop.values))
            for private, value in zip(kept, loop.end(*after), strict=True):
                grid.at(private, thread).store(value)
        return kept


def _across(grid: Grid, accumulators: Accumulators, kept: Sequence[Private]) -> list[Vector]:
    """The accumulators of all threads of the block in one, for all of them."""
    warp = min(grid.chip.warp, grid.threads)
    _tree(grid, accumulators, kept, warp)
    warps = grid.threads // warp
    sizes = [aligned(max(1, BITS[private.kind] // 8) * warps) for private in kept]
    places = [grid.shared("i8", size) for size in sizes]
    with grid.phase() as thread:
        def put() -> None:
            for place, private in zip(places, kept, strict=True):
                value = grid.at(private, thread).load(private.kind)
                place.at(private.kind, thread // warp).store(value)

        when((thread & (warp - 1)).eq(0), put)
    if warps > 1:
        with grid.phase() as thread:
            source = (thread & (warps - 1)) if warps < grid.threads else thread
            for place, private in zip(places, kept, strict=True):
                grid.at(private, thread).store(place.at(private.kind, source).load(private.kind))
        _tree(grid, accumulators, kept, warps)
        with grid.phase() as thread:
            def put_one() -> None:
                for place, private in zip(places, kept, strict=True):
                    place.store(grid.at(private, thread).load(private.kind))

            when(thread.eq(0), put_one)
    return [place.load(private.kind) for place, private in zip(places, kept, strict=True)]


def _tree(grid: Grid, accumulators: Accumulators, kept: Sequence[Private], width: int) -> None:
    """Combine the accumulators of `width` neighbouring threads in the first of them."""
    distance = width // 2
    while distance:
        others = grid.shifted(kept, distance)
        with grid.phase(alone=True) as thread:
            for private, value in zip(kept, _joined(grid, accumulators, kept, others, thread), strict=True):
                grid.at(private, thread).store(value)
        distance //= 2


def _joined(
    grid: Grid, accumulators: Accumulators, kept: Sequence[Private], others: Sequence[Private], thread: Int
) -> list[Vector]:
    """Of every reduction the accumulators of a thread and of the other one."""
    sides = []
    for privates in (kept, others):
        values = [grid.at(private, thread).load(private.kind) for private in privates]
        sides.append(iter(grouped(accumulators.types, values)))
    left, right = sides
    found: list[Vector] = []
    for own in accumulators.reducers:
        ours, theirs = ([next(side) for _ in own.types] for side in (left, right))
        found += flattened(own.join(ours, theirs))
    return found
