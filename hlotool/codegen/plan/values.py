"""What buffer assignment is about: values, when they are alive, copies of them, and the result.

A `Value` is one piece of storage.  Intervals are positions on the time line at which it is taken, both ends included,
in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Annotated

from hlotool.analysis.stacking import Stacking
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Uses
from hlotool.ir import Instruction, Shape, UnsupportedError
from hlotool.lazy_dataclass import dataclass

__all__ = ["KEPT_BYTES", "Assignment", "Copy", "Value", "array_leaves", "later", "merged", "overlap"]


KEPT_BYTES: Annotated[int, Threshold("bytes")] = 256
"""Bytes of a value that changes in a small loop and is kept in registers, as far as there are enough: a few vectors."""


@dataclass(slots=True, eq=False, repr=False)
class Value:
    """One piece of storage, in a union-find forest; the root of a tree speaks for all."""

    number: int
    shape: Shape | None
    size: int
    intervals: list[tuple[int, int]] = field(default_factory=list)
    parent: Value = field(init=False)
    parameter: int | None = None
    constant: Instruction | None = None
    output: int | None = None
    offset: int | None = None
    whole: Value | None = None  # what this is a part of
    start: int | None = None  # the byte of the whole that it begins at; None where that is known when it runs
    result: int | None = None  # the number of the result that this is (of a root, if it is settled)
    claim: int | None = None  # of a donated parameter, and of values that may lie there: the result for it

    def __post_init__(self) -> None:
        self.parent = self

    def find(self) -> Value:
        root = self
        while root.parent is not root:
            root = root.parent
        walk = self
        while walk.parent is not root:
            walk.parent, walk = root, walk.parent
        return root

    @property
    def writable(self) -> bool:
        """Neither a parameter that stays as it is nor a constant, nor a part of something."""
        root = self.find()
        return (root.parameter is None or root.claim is not None) and root.constant is None and root.whole is None

    def wholes(self) -> Iterator[Value]:
        """What this is a part of, and what that is a part of, out to what holds the bytes."""
        root = self.find()
        while root.whole is not None:
            root = root.whole.find()
            yield root

    def storage(self) -> Value:
        """The value that holds the bytes: of a part the whole."""
        *_, last = self.find(), *self.wholes()
        return last

    def __repr__(self) -> str:
        return f"<value {self.number} {self.shape} {self.intervals}>"


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the bytes of one value to another."""

    source: Value
    target: Value


@dataclass(slots=True)
class Assignment:
    """The result: the values of every instruction's array leaves, and the copies that remain."""

    leaves: dict[Instruction, tuple[Value, ...]] = field(default_factory=dict)
    parameters: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    loop_copies: dict[Instruction, tuple[list[Copy], list[Copy]]] = field(default_factory=dict)  # entering, repeating
    swaps: dict[Instruction, list[Copy]] = field(default_factory=dict)  # copies of loops that change places instead
    branch_copies: dict[tuple[Instruction, int], list[Copy]] = field(default_factory=dict)
    output_copies: list[Copy] = field(default_factory=list)
    aliases: dict[int, int] = field(default_factory=dict)  # results in the memory of donated parameters
    overwritten: tuple[int, ...] = ()  # donated parameters in whose memory other values lie, results or not
    in_place: dict[Instruction, frozenset[int]] = field(default_factory=dict)
    views: set[Instruction] = field(default_factory=set)  # slices that are read where they lie
    stacked: dict[Instruction, frozenset[int]] = field(default_factory=dict)  # state that loops write completely
    unread: set[Instruction] = field(default_factory=set)  # what such state is initially
    targets: dict[Instruction, list[tuple[Value, Stacking]]] = field(default_factory=dict)  # see `parts.stack_all`
    there: dict[Instruction, frozenset[int]] = field(default_factory=dict)  # operands in their place
    positions: dict[Instruction, int] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    block: Value = field(default_factory=lambda: Value(-1, None, 0))  # of all constants
    scratches: dict[Value, tuple[Instruction, Uses]] = field(default_factory=dict)  # whose memory, and what for
    arena_bytes: int = 0

    def swapped(self, loops: Iterable[Instruction]) -> set[Value]:
        """The storage that some loops exchange, trip by trip."""
        copies = (copy for loop in loops for copy in self.swaps.get(loop, ()))
        return {value.find() for copy in copies for value in (copy.source, copy.target)}

    def scratch(self, instruction: Instruction, size: int, uses: Uses = ()) -> Value:
        """Working memory that lives only while `instruction` runs, for `uses`."""
        value = self.value(None, size, self.positions[instruction])
        self.scratches[value] = instruction, uses
        return value

    def value(self, shape: Shape | None, size: int, *positions: int) -> Value:
        """Another value, alive at some positions."""
        self.values.append(Value(len(self.values), shape, size, [(position, position) for position in positions]))
        return self.values[-1]


def array_leaves(shape: Shape) -> list[Shape]:
    """The array leaves of a shape, depth first (tokens hold no data)."""
    leaves = []
    for leaf in shape.leaves():
        if leaf.is_array:
            leaves.append(leaf)
        elif not leaf.is_token:
            raise UnsupportedError(f"values of type {leaf} have no buffer")
    return leaves


def overlap(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> bool:
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][1] < b[j][0]:
            i += 1
        elif b[j][1] < a[i][0]:
            j += 1
        else:
            return True
    return False


def later(intervals: list[tuple[int, int]], start: int) -> list[tuple[int, int]]:
    """The intervals with the one that starts at `start` starting one tick later."""
    return [(s + 1, max(e, s + 1)) if s == start else (s, e) for s, e in intervals]


def merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The intervals in order, with those made one that touch."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
