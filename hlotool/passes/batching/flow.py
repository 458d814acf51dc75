"""Which leaves of a value depend on which leaves of the parameters: what will have a batch axis, before it is written.

A computation is looked at once, whoever calls it.  Of each leaf of its result there is a `Source`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from hlotool.ir import Computation, Instruction, Module, Shape

__all__ = ["ALWAYS", "DRAWING", "Flow", "Source"]

ALWAYS = 1
"""The bit of what differs from example to example whatever the arguments are: random numbers."""

DRAWING = frozenset({"rng", "rng-get-and-update-state"})
"""Opcodes that draw random numbers from a state that nobody hands to them."""


class Source(NamedTuple):
    """Where a leaf comes from: the bits of the parameter leaves that it depends on (leaf n has bit n + 1), and the one
    that it is, unchanged, if it is one (else -1)."""

    mask: int
    same: int = -1


Tree: TypeAlias = "Source | list[Tree]"
_NOTHING = Source(0)


class Flow:
    """The sources of the results of all computations of a module."""

    def __init__(self, module: Module) -> None:
        self._results: dict[Computation, list[Source]] = {}
        self.drawing: set[Computation] = set()  # those that draw random numbers
        self.looping: set[Computation] = set()  # those with a loop in them, or in what they call
        for computation in module.callees_first():
            callees = set(computation.callees)
            if computation.opcodes & DRAWING or callees & self.drawing:
                self.drawing.add(computation)
            if "while" in computation.opcodes or callees & self.looping:
                self.looping.add(computation)
            if computation is not module.entry:  # which nobody calls, and which may be the largest
                self._results[computation] = self._of(computation)

    def results(self, computation: Computation, given: Sequence[bool]) -> list[bool]:
        """Which leaves of the result are batched, where those of the parameters are that are `given` so."""
        if computation not in self._results:
            self._results[computation] = self._of(computation)
        bits = _bits(given)
        return [bool(source.mask & bits) for source in self._results[computation]]

    def loop(self, loop: Instruction, given: Sequence[bool]) -> tuple[list[bool], bool]:
        """Which leaves of the state of a while are batched once it runs, and whether its condition is."""
        states, condition = self._loop(loop, [Source(ALWAYS if flag else 0) for flag in given])
        return [bool(source.mask) for source in states], bool(condition)

    def _of(self, computation: Computation) -> list[Source]:
        numbers = iter(range(sum(1 for p in computation.parameters for _ in p.shape.leaves())))
        given = {p: _numbered(p.shape, numbers) for p in computation.parameters}
        values: dict[Instruction, Tree] = {}
        for i in computation:
            values[i] = given[i] if i in given else self._value(i, [values[o] for o in i.operands])
        return _leaves(values[computation.root], computation.root.shape)

    def _value(self, i: Instruction, operands: list[Tree]) -> Tree:
        match i.opcode:
            case "tuple":
                return list(operands)
            case "get-tuple-element":
                whole = operands[0]
                return whole if isinstance(whole, Source) else whole[i.attributes["index"]]
            case "opt-barrier" | "domain" | "add-dependency" | "copy":
                return operands[0]
            case "while":
                return _tree(i.shape, iter(self._loop(i, _leaves(operands[0], i.shape))[0]))
            case "call" | "fusion":
                return _tree(i.shape, iter(self._call(i.called[0], i.operands, operands)))
            case "conditional":
                return self._conditional(i, operands)
            case "get-dimension-size":
                return _NOTHING
        drawn = i.opcode in DRAWING or any(callee in self.drawing for callee in i.called)
        return Source(_union(operands) | (ALWAYS if drawn else 0))

    def _call(self, callee: Computation, arguments: Sequence[Instruction], operands: Sequence[Tree]) -> list[Source]:
        given = [leaf for o, tree in zip(arguments, operands, strict=True) for leaf in _leaves(tree, o.shape)]
        return [_through(source, given) for source in self._results[callee]]

    def _conditional(self, i: Instruction, operands: Sequence[Tree]) -> Tree:
        selector = _union(operands[:1])
        made = [
            self._call(branch, [argument], [tree])
            for branch, argument, tree in zip(i.called, i.operands[1:], operands[1:], strict=True)
        ]
        leaves = [Source(selector | _either([source.mask for source in row])) for row in zip(*made, strict=True)]
        return _tree(i.shape, iter(leaves))

    def _loop(self, i: Instruction, given: list[Source]) -> tuple[list[Source], int]:
        """The sources of the state after any number of turns, and what the condition depends on."""
        body, condition = self._results[i.attributes["body"]], self._results[i.attributes["condition"]]
        readers: list[list[int]] = [[] for _ in given]
        masks = [source.mask | (made.mask & ALWAYS) for source, made in zip(given, body, strict=True)]
        for number, made in enumerate(body):
            if made.same != number:
                for read in _set_bits(made.mask >> 1):
                    readers[read].append(number)
        waiting = list(range(len(given)))
        while waiting:
            changed = waiting.pop()
            for reader in readers[changed]:
                if masks[reader] | masks[changed] != masks[reader]:
                    masks[reader] |= masks[changed]
                    waiting.append(reader)
        told = (condition[0].mask & ALWAYS) | _either([masks[n] for n in _set_bits(condition[0].mask >> 1)])
        return [
            source if made.same == number else Source(masks[number] | told)
            for number, (source, made) in enumerate(zip(given, body, strict=True))
        ], told


def _numbered(shape: Shape, numbers: Iterator[int]) -> Tree:
    if shape.is_tuple:
        return [_numbered(element, numbers) for element in shape.elements]
    number = next(numbers)
    return Source(1 << (number + 1), number)


def _tree(shape: Shape, leaves: Iterator[Source]) -> Tree:
    return [_tree(element, leaves) for element in shape.elements] if shape.is_tuple else next(leaves)


def _leaves(tree: Tree, shape: Shape) -> list[Source]:
    if isinstance(tree, Source):
        return [tree] * sum(1 for _ in shape.leaves())
    parts = zip(tree, shape.elements, strict=True)
    return [leaf for part, element in parts for leaf in _leaves(part, element)]


def _union(trees: Sequence[Tree]) -> int:
    """All that any leaf depends on."""
    mask = 0
    for tree in trees:
        mask |= tree.mask if isinstance(tree, Source) else _union(tree)
    return mask


def _either(masks: Sequence[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _bits(flags: Sequence[bool]) -> int:
    """The mask of those that are set, with `ALWAYS`."""
    return ALWAYS | int("".join("1" if flag else "0" for flag in reversed(flags)) or "0", 2) << 1


def _set_bits(mask: int) -> Iterator[int]:
    """The numbers of the bits, from the lowest."""
    digits = bin(mask)[:1:-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)


def _through(source: Source, given: Sequence[Source]) -> Source:
    """A source in a callee as one of the caller, whose arguments are `given`."""
    if source.same >= 0:
        return given[source.same]
    return Source((source.mask & ALWAYS) | _either([given[n].mask for n in _set_bits(source.mask >> 1)]))
