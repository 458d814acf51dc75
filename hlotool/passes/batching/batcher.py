"""Writing batched instructions: where the batch axis of a value is, and how it gets where a rule wants it.

A rule is asked for an instruction of which an operand has a batch axis.  It is handed the values of the operands and
gives that of the result; a batch axis stays where it is as long as a rule does not need it elsewhere, and is in front
wherever a value enters or leaves a computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from hlotool.ir import Computation, Instruction, Module, Shape, UnsupportedError, array, clone_instruction
from hlotool.ir.builder import Builder, binary_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.batching.flow import DRAWING, Flow
from hlotool.passes.batching.values import (
    Leaf,
    Value,
    batched_shape,
    batched_tuple,
    inserted,
    is_batched,
    shifted,
)
from hlotool.passes.framework.graph import erase, is_removable
from hlotool.passes.framework.interpret import interpret
from hlotool.passes.loops.counted_loop import blank, counted_loop

__all__ = ["Batcher", "Rule", "Work", "drop_unread", "refusal", "row_of"]

Rule: TypeAlias = "Callable[[Batcher, Instruction, list[Value]], Value]"
"""(where to write, the instruction, values of its operands) -> the value of its result."""

_OF_ONE_EXAMPLE = frozenset(
    {"sharding", "statistics", "origin", "parameter_replication", "inferred_dimension", "backend_config"}
)
"""Attributes that say something of the instruction as it is: they do not go with a batched one."""


def refusal(i: Instruction, why: str) -> UnsupportedError:
    """That an instruction cannot be batched, and why."""
    target = f" {i.attributes['custom_call_target']!r}" if i.opcode == "custom-call" else ""
    where = i.metadata
    place = f" ({where.source_file}:{where.source_line})" if where is not None and where.source_file else ""
    return UnsupportedError(f"{i.name}{place}: {i.written}{target} cannot be batched: {why}")


@dataclass(slots=True)
class Work:
    """What is known while a module is batched: `rules` by opcode, and the computations that were written already."""

    module: Module
    size: int
    rules: Mapping[str, Rule]
    flow: Flow
    written: dict[tuple[Computation, tuple[bool, ...], tuple[bool, ...]], Computation] = field(default_factory=dict)
    combiners: dict[tuple[str, str], Computation] = field(default_factory=dict)
    by_turns: dict[Instruction, str] = field(default_factory=dict)
    named: set[Instruction] = field(default_factory=set)

    def computation(self, original: Computation, given: Sequence[bool], wanted: Sequence[bool]) -> Computation:
        """The computation whose parameters have the batch in front where it is `given`, and its results where it is
        `wanted`; the original where that is nowhere."""
        if not any(given) and not any(wanted):
            return original
        key = original, tuple(given), tuple(wanted)
        if key not in self.written:
            made = Computation(self.module.unique_name(original.name))
            build = Builder(made)
            flags = iter(given)
            arguments = []
            for parameter in original.parameters:
                rows = [next(flags) for _ in parameter.shape.leaves()]
                shape = batched_tuple(parameter.shape, iter(rows), self.size)
                arguments.append((build.parameter(parameter.parameter_number, shape), parameter.shape, rows))
            inner = Batcher(self, build)
            values = [inner.unpacked(made_, shape, iter(rows)) for made_, shape, rows in arguments]
            result = inner.inlined(original, values)
            build.like = original.root
            made.root = inner.packed(inner.settled(result, original.root.shape, iter(wanted)))
            self.written[key] = self.finish(made)
        return self.written[key]

    def finish(self, made: Computation) -> Computation:
        """Add a computation, without what nothing in it reads, to the module."""
        drop_unread(made)
        return self.module.add(made)

    def combiner(self, opcode: str, element_type: str) -> Computation:
        """A computation that combines two scalars; the second of them where the opcode is ``second``."""
        key = opcode, element_type
        if key not in self.combiners:
            name = self.module.unique_name(opcode)
            made = binary_computation("add" if opcode == "second" else opcode, element_type, name)
            if opcode == "second":
                last = made.root
                made.root = made.parameters[1]
                made.erase(last)
            self.combiners[key] = self.module.add(made)
        return self.combiners[key]


def drop_unread(computation: Computation) -> None:
    """Erase what nothing reads, such as parts of tuples that were taken out in case."""
    known: dict[Computation, bool] = {}
    for i in reversed(computation):
        if is_removable(i, known):
            erase(i)


class Batcher:
    """Writes into one computation."""

    def __init__(self, work: Work, build: Builder) -> None:
        self.work = work
        self.build = build
        self.names: set[str] = set()  # of originals that stand here
        self._moved: dict[tuple[Instruction, int | None, int], Instruction] = {}

    @property
    def size(self) -> int:
        return self.work.size

    # ---- computations

    def inlined(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """The result of a computation, whose instructions are written here."""
        return interpret(computation, self.build, arguments, self.rewritten)

    def rewritten(self, i: Instruction, operands: list[Value]) -> Value:
        """The value of an instruction of an original computation."""
        if i.opcode == "get-tuple-element" and not isinstance(operands[0], Leaf):
            part: Value = operands[0][i.attributes["index"]]
            return part
        drawing = i.opcode in DRAWING or any(callee in self.work.flow.drawing for callee in i.called)
        if drawing or any(map(is_batched, operands)):
            return self.work.rules[i.opcode](self, i, operands)
        copy = clone_instruction(i, map(self.packed, operands), self._name(i))
        if copy.name:
            copy.origins = i.origins
        return Leaf(self.build.put(copy))

    def _name(self, i: Instruction) -> str:
        """The name of an original instruction, for the first that is written for it."""
        if i in self.work.named or i.name in self.names:
            return ""
        self.work.named.add(i)
        self.names.add(i.name)
        return i.name

    # ---- single instructions

    def emit(
        self, i: Instruction, shape: Shape | None, operands: Sequence[Instruction], opcode: str = "", **changed: Any
    ) -> Instruction:
        """An instruction as `i` is, with other operands and some attributes `changed` (None: left out); of another
        opcode, if one is given, with these attributes alone."""
        attributes = {} if opcode else {k: v for k, v in i.attributes.items() if k not in _OF_ONE_EXAMPLE}
        attributes.update(changed)
        attributes = {key: value for key, value in attributes.items() if value is not None}
        return self.build.add(opcode or i.opcode, shape, operands, attributes, self._name(i))

    def result(
        self, i: Instruction, operands: Sequence[Instruction], axis: int, **changed: Any
    ) -> Value:
        """The value of an instruction as `i` is, with changed attributes, all of whose results have the batch at
        `axis`."""
        if not i.shape.is_tuple:
            return Leaf(self.emit(i, batched_shape(i.shape, axis, self.size), operands, **changed), axis)
        shapes = [batched_shape(element, axis, self.size) for element in i.shape.elements]
        whole = self.emit(i, Shape("tuple", elements=tuple(shapes)), operands, **changed)
        return tuple([Leaf(self.build.gte(whole, n), axis) for n in range(len(shapes))])

    def at(self, value: Value, axis: int) -> Instruction:
        """An array with the batch at `axis`: moved there, or, where it has none, as often as there are examples."""
        assert isinstance(value, Leaf)
        x, own = value.instruction, value.axis
        if own == axis:
            return x
        key = x, own, axis
        if key not in self._moved:
            if own is None:
                places = shifted(range(x.shape.rank), axis)
                self._moved[key] = self.build.broadcast(x, places, inserted(x.shape.dimensions, axis, self.size))
            else:
                order = [d for d in range(x.shape.rank) if d != own]
                order.insert(axis, own)
                self._moved[key] = self.build.transpose(x, order)
        return self._moved[key]

    def front(self, value: Value) -> Instruction:
        return self.at(value, 0)

    def spread(self, scalar: Instruction, axis: int, sizes: Sequence[int]) -> Instruction:
        """A vector of one number for each example, over arrays of `sizes` that have the batch at `axis`."""
        return scalar if len(sizes) == 1 else self.build.broadcast(scalar, (axis,), sizes)

    def joined(self, values: Sequence[Value]) -> tuple[list[Instruction], int]:
        """Arrays with the batch in one place, and the place: that of the first that has one."""
        axis = next((v.axis for v in values if isinstance(v, Leaf) and v.axis is not None), 0)
        return [self.at(value, axis) for value in values], axis

    # ---- tuples

    def packed(self, value: Value) -> Instruction:
        """A value as one instruction."""
        return value.instruction if isinstance(value, Leaf) else self.build.tuple([self.packed(part) for part in value])

    def unpacked(self, whole: Instruction, shape: Shape, flags: Iterator[bool]) -> Value:
        """The value of an instruction which has the batch in front of the leaves with a flag; `shape` is without."""
        if shape.is_tuple:
            return tuple([self.unpacked(self.build.gte(whole, n), e, flags) for n, e in enumerate(shape.elements)])
        return Leaf(whole, 0 if next(flags) else None)

    def leaves(self, value: Value, shape: Shape) -> list[Leaf]:
        """The leaves of a value whose shape, without a batch, is `shape`."""
        if not shape.is_tuple:
            assert isinstance(value, Leaf)
            return [value]
        parts = value
        if isinstance(value, Leaf):
            parts = tuple([Leaf(self.build.gte(value.instruction, n)) for n in range(len(shape.elements))])
        assert isinstance(parts, tuple)
        pairs = zip(parts, shape.elements, strict=True)
        return [leaf for part, element in pairs for leaf in self.leaves(part, element)]

    def rebuilt(self, shape: Shape, leaves: Iterator[Leaf]) -> Value:
        """The value of these leaves."""
        return tuple([self.rebuilt(e, leaves) for e in shape.elements]) if shape.is_tuple else next(leaves)

    def settled(self, value: Value, shape: Shape, flags: Iterator[bool]) -> Value:
        """The value with the batch in front of the leaves with a flag; no other has one."""
        leaves = []
        for leaf in self.leaves(value, shape):
            wanted = next(flags)
            assert wanted or leaf.axis is None
            leaves.append(Leaf(self.front(leaf), 0) if wanted else leaf)
        return self.rebuilt(shape, iter(leaves))

    def flags(self, value: Value, shape: Shape) -> list[bool]:
        """Which leaves have a batch."""
        return [leaf.axis is not None for leaf in self.leaves(value, shape)]

    # ---- one example after the other

    def by_turns(self, i: Instruction, values: Sequence[Value], why: str) -> Value:
        """The value of an instruction that takes the examples one by one, in a loop: `why` it has to."""
        results = list(i.shape.leaves())
        if not all(leaf.is_array for leaf in results):
            raise refusal(i, why)
        self.work.by_turns[i] = why
        given = [leaf for v, o in zip(values, i.operands, strict=True) for leaf in self.leaves(v, o.shape)]
        state = [leaf.instruction if leaf.axis is None else self.front(leaf) for leaf in given]
        blanks = [blank(self.build, r.element_type, (self.size, *r.dimensions)) for r in results]
        first = len(blanks)

        def step(build: Builder, number: Instruction, state: list[Instruction]) -> list[Instruction]:
            inner = Batcher(self.work, build)
            rows = [
                Leaf(x if leaf.axis is None else row_of(build, x, number))
                for leaf, x in zip(given, state[first:], strict=True)
            ]
            parts = iter(rows)
            operands = [inner.packed(inner.rebuilt(o.shape, parts)) for o in i.operands]
            made = Leaf(build.put(clone_instruction(i, operands)))
            new = [leaf.instruction for leaf in inner.leaves(made, i.shape)]
            places = [build.scalar_constant(0, "s32")]
            stored = [
                build.dynamic_update_slice(
                    old, build.reshape(one, (1, *one.shape.dimensions)), [number, *places * one.shape.rank]
                )
                for old, one in zip(state[:first], new, strict=True)
            ]
            return [*stored, *state[first:]]

        after = counted_loop(self.work.module, self.build, self.size, [*blanks, *state], step)
        return self.rebuilt(i.shape, iter([Leaf(one, 0) for one in after[:first]]))

    # ---- what examples have in common

    def any_of(self, flags: Instruction) -> Instruction:
        """Whether any of pred[examples] is true."""
        nobody = self.build.scalar_constant(False, "pred")
        return self.build.reduce(flags, nobody, (0,), self.work.combiner("or", "pred"))

    def with_stand_ins(self, active: Instruction, leaves: Sequence[Leaf]) -> list[Leaf]:
        """The leaves with the values of the first active example in place of those of all that are not active.

        What is computed of examples that do not take part is thrown away, but a loop in it has to end: it ends for
        those that take part.  At least one is active.
        """
        build = self.build
        numbers = build.iota(array("s32", (self.size,)))
        none = build.splat(self.size - 1, numbers.shape)
        first = build.reduce(
            build.select(active, numbers, none), build.scalar_constant(self.size - 1, "s32"), (0,),
            self.work.combiner("minimum", "s32"),
        )  # fmt: skip
        made = []
        for leaf in leaves:
            if leaf.axis is None:
                made.append(leaf)
                continue
            x = self.front(leaf)
            sizes = x.shape.dimensions
            other = build.broadcast(row_of(build, x, first), range(1, len(sizes)), sizes)
            made.append(Leaf(build.select(self.spread(active, 0, sizes), x, other), 0))
        return made


def row_of(build: Builder, batch: Instruction, number: Instruction) -> Instruction:
    """An example of a batch that has them in front."""
    zero = [build.scalar_constant(0, "s32")] * (batch.shape.rank - 1)
    sizes = batch.shape.dimensions[1:]
    return build.reshape(build.dynamic_slice(batch, [number, *zero], (1, *sizes)), sizes)
