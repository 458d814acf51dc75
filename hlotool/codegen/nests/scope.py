"""Where code is written: the open loops, and what is known inside of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from hlotool.analysis.indexing import Atom, Index
from hlotool.codegen.llvm import values
from hlotool.codegen.llvm.math.elements import Register, broadcast
from hlotool.codegen.llvm.writer import Function
from hlotool.codegen.loops.loops import LoopSpec
from hlotool.codegen.loops.nodes import Node
from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass

__all__ = ["NO_ATOM", "NO_LANE", "Known", "Lane", "Scope"]

K = TypeVar("K")
V = TypeVar("V")

NO_ATOM = Atom(("none",), 0, 0, 0)

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Lane:
    """The lane loop: vectors of `width` settings of `atom`; the last has `active` lanes that count.

    There are `copies` of every vector, for settings of `copied` that are `step` apart: of the lane variable itself, or
    in a tile (which transposes in registers) of another one, and then all copies have `active` lanes.
    """

    atom: Atom
    width: int
    copies: int
    active: int
    copied: Atom
    step: int

    @property
    def is_tile(self) -> bool:
        return self.copied != self.atom

    def active_in(self, copy: int) -> int:
        """How many lanes of a copy count: the first ones."""
        return self.active if self.is_tile or copy == self.copies - 1 else self.width


NO_LANE = Lane(NO_ATOM, 1, 1, 1, NO_ATOM, 1)
"""Outside of any: single elements."""


class Known(dict[K, V]):
    """What is known, by keys that depend on `variables` of loops, until the scope closes in which it was found."""

    __slots__ = ("_journal", "variables")

    def __init__(self, journal: list[tuple[Known[Any, Any], Any, Any]], variables: Callable[[K], int]) -> None:
        self._journal = journal
        self.variables = variables

    def keep(self, key: K, value: V) -> None:
        """Remember a value until the innermost scope closes."""
        self._journal.append((self, key, self.get(key, _ABSENT)))
        self[key] = value

    def hide(self, key: K) -> None:
        """Forget the value of a key until then."""
        self._journal.append((self, key, self.pop(key)))

    def hide_all(self, variables: int) -> None:
        """Forget whatever depends on one of these variables until then."""
        for key in [key for key in self if self.variables(key) & variables]:
            self.hide(key)


class Scope:
    """The variables that have values, and those of nodes, in function `f` at the place that it has been written to.

    At most one loop at a time is the lane loop: what depends on its variable are vectors.
    """

    def __init__(self, f: Function, machine: Machine) -> None:
        self.f = f
        self.machine = machine
        self.lane = NO_LANE
        self.runs = 1.0  # how often a run of the program comes here
        self.open = 0  # the variables of open loops
        self.stack: tuple[int, ...] = ()  # those of each, without what deeper ones use again
        self._journal: list[tuple[Known[Any, Any], Any, Any]] = []
        self._tables: list[Known[Any, Any]] = []
        self.counters: Known[Atom, values.Index] = Known(self._journal, lambda atom: 0)
        self.values: Known[Node, tuple[Register, ...]] = self.table(lambda node: node.variables)
        self._spread: Known[tuple[Node, int, int], Register] = self.table(lambda key: key[0].variables)

    def table(self, variables: Callable[[K], int]) -> Known[K, Any]:
        """A table whose keys depend on `variables`; what depends on those of loops is hidden in others of the same."""
        table: Known[K, Any] = Known(self._journal, variables)
        self._tables.append(table)
        return table

    @contextmanager
    def inner(self) -> Iterator[None]:
        """A scope in this one."""
        mark, lane, runs, variables, stack = len(self._journal), self.lane, self.runs, self.open, self.stack
        try:
            yield
        finally:
            while len(self._journal) > mark:
                table, key, old = self._journal.pop()
                if old is _ABSENT:
                    del table[key]
                else:
                    table[key] = old
            self.lane, self.runs, self.open, self.stack = lane, runs, variables, stack

    def bind(self, loop: LoopSpec, counter: values.Index) -> None:
        """Let the variables of `loop` have values; what was known for others of the same name is hidden."""
        clash = self.open & loop.variables
        if clash:
            for table in self._tables:
                table.hide_all(clash)
        for atom in loop.absorbed:
            self.counters.keep(atom, 0)
        self.counters.keep(loop.atom, counter)
        self.open |= loop.variables
        self.stack = (*(bits & ~loop.variables for bits in self.stack), loop.variables)

    def depth(self, variables: int) -> int:
        """The number of the innermost open loop that has some of these variables; -1 for none."""
        for depth in range(len(self.stack) - 1, -1, -1):
            if self.stack[depth] & variables:
                return depth
        return -1

    def is_vector(self, variables: int) -> bool:
        return bool(variables & self.lane.atom.variables)

    def is_copied(self, variables: int) -> bool:
        return bool(variables & self.lane.copied.variables)

    def copies(self, node: Node) -> int:
        return self.lane.copies if self.is_copied(node.variables) else 1

    def lanes(self, node: Node) -> int:
        return self.lane.width if self.is_vector(node.variables) else 1

    def shift(self, index: Index, copy: int) -> int:
        """How much larger `index` is for `copy` than for the first."""
        return index.coefficient(self.lane.copied) * self.lane.step * copy

    def step(self, index: Index) -> int | None:
        """How far apart neighbouring lanes are; None when they are not evenly spaced."""
        if any(self.is_vector(a.variables) and a != self.lane.atom for a, _ in index.terms):
            return None
        return index.coefficient(self.lane.atom)

    def value(self, node: Node, copy: int, lanes: int) -> Register:
        """A written node's value for `copy`, spread over `lanes` if it is a scalar."""
        copy = copy if self.is_copied(node.variables) else 0
        value = self.values[node][copy]
        if lanes == 1 or self.is_vector(node.variables):
            return value
        key = node, copy, lanes
        spread = self._spread.get(key)
        if spread is None:
            spread = broadcast(value, lanes)
            self._spread.keep(key, spread)
        return spread
