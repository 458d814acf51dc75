"""Loops that read along one dimension and write along another: tiles of what is read are turned in shared memory.

Neighbouring threads first read neighbours in memory, and put them into a square; then they take from it what lies
along the other side, and compute and write neighbours.  So both ways are of whole lines of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.grid import arguments, open_grid
from hlotool.codegen.gpu.spaces import bind_all, counters, size_of, within
from hlotool.codegen.kernel import Step
from hlotool.codegen.llvm.control import begin_loop, when
from hlotool.codegen.llvm.math.elements import compute_element, is_complex, vector
from hlotool.codegen.llvm.values import Index, Int, number
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.loops.loops import LoopSpec
from hlotool.codegen.loops.nodes import Node, closure, scope_of
from hlotool.codegen.nests.nest import Nest
from hlotool.lazy_dataclass import dataclass

__all__ = ["Turned", "turned", "write_turned"]

_LEAST: Annotated[int, Threshold("elements")] = 16
"""Of both dimensions that are worth a tile."""

_MOST: Annotated[int, Threshold("loads")] = 4
"""That are turned in one grid: each has a square in shared memory."""

_SIDE = 32
"""Elements along a side of the square: a warp reads or writes one line of it."""

_ROWS = 8
"""Lines that the threads of a block read at once."""


@dataclass(frozen=True, slots=True)
class Turned:
    """What is read along the loop `inner`, and written along the last one of all: some loads."""

    loads: tuple[Node, ...]
    inner: LoopSpec
    last: LoopSpec


def turned(stores: Sequence[Node], loops: Sequence[LoopSpec], everything: Sequence[Node]) -> Turned | None:
    """The loads to be turned, if nothing is reduced."""
    if len(loops) < 2 or any(node.kind in ("reduce", "inline") for node in everything):
        return None
    last, scope = loops[-1], scope_of(stores)
    if not all(_step(node, last) == 1 for node in stores):
        return None
    across = [node for node in scope if node.kind == "load" and not node.guards and abs(_step(node, last)) > 1]
    inner = next((loop for loop in loops[:-1] if any(_step(node, loop) == 1 for node in across)), None)
    if inner is None or min(inner.extent, last.extent) < _LEAST:
        return None
    loads = tuple(node for node in across if _step(node, inner) == 1 and not is_complex(node.type))
    return Turned(loads, inner, last) if 0 < len(loads) <= _MOST else None


def _step(node: Node, loop: LoopSpec) -> int:
    """How far apart neighbours along a loop lie, 0 where that is not the same everywhere."""
    if any(atom.kind != "variable" and atom.variables & loop.variables for atom, _ in node.index.terms):
        return 0
    return node.index.coefficient(loop.atom)


def write_turned(
    unit: Unit, name: str, plan: Turned, stores: Sequence[Node], loops: Sequence[LoopSpec], chip: Chip, buffers: int
) -> Step:
    """The grid: a block for every square."""
    outer = [loop for loop in loops if loop is not plan.inner and loop is not plan.last]
    tiles = -(-plan.inner.extent // _SIDE), -(-plan.last.extent // _SIDE)
    grid = open_grid(unit, name, chip, size_of(outer) * prod(tiles), _SIDE * _ROWS, buffers)
    nest = Nest(grid.f, chip.machine, name, arguments(grid, sorted(closure(stores), key=lambda n: n.serial), buffers))
    item, down, across = counters(grid.block, [size_of(outer), *tiles])
    bind_all(nest.scope, outer, item)
    pitch = _SIDE + 1  # so that a column meets as many banks as a line
    squares = [grid.shared(compute_element(load.type), _SIDE * pitch) for load in plan.loads]
    scope = scope_of(stores)

    def bound(inner: Int, last: Int) -> None:
        nest.scope.bind(plan.inner, inner)
        nest.scope.bind(plan.last, last)

    def line(row: Index, column: Index, reads: bool) -> None:
        """One element of the square: `row` counts along what varies slowly in memory."""
        own = (column, row) if reads else (row, column)
        inner = number(grid.f, own[0]).plus(down * _SIDE)
        last = number(grid.f, own[1]).plus(across * _SIDE)
        place = number(grid.f, own[0]) * pitch

        def work() -> None:
            with nest.scope.inner():
                bound(inner, last)
                if reads:
                    nest.run((), [n for n in scope if n in needed])
                for load, square in zip(plan.loads, squares, strict=True):
                    kind = compute_element(load.type)
                    at = square.at(kind, place).at(kind, own[1])
                    if reads:
                        at.store(vector(nest.scope.value(load, 0, 1)))
                    else:
                        nest.scope.values.keep(load, (at.load(kind),))
                if not reads:
                    nest.run((), [n for n in scope if n not in plan.loads])

        when(within(inner, plan.inner.extent, _SIDE, last, plan.last.extent, _SIDE), work)

    needed = set(scope_of(plan.loads))
    for reads in (True, False):
        with grid.phase(last=not reads) as thread:
            loop = begin_loop(grid.f, thread // _SIDE, _SIDE, _ROWS)
            line(loop.index, thread % _SIDE, reads)
            loop.end()
    return grid.finish()
