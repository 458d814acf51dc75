"""A module under construction, and the families of instructions that are drawn into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Module, Shape, array, dtype_of
from hlotool.ir.builder import Builder, binary_computation
from semantics.values import Array, Filler, anything

__all__ = ["CLASSES", "FAMILIES", "TYPES", "Draw", "Family", "Sample", "class_of", "family", "types_of"]

TYPES: tuple[str, ...] = tuple(name for name, row in ELEMENT_TYPES.items() if row.is_array)
"""All element types of arrays, in the order of the table."""

CLASSES: dict[str, tuple[str, ...]] = {
    "pred": ("pred",),
    "signed": tuple(t for t in TYPES if ELEMENT_TYPES[t].kind == "signed"),
    "unsigned": tuple(t for t in TYPES if ELEMENT_TYPES[t].kind == "unsigned"),
    "narrow": tuple(t for t in TYPES if ELEMENT_TYPES[t].is_float and ELEMENT_TYPES[t].bits <= 8),
    "float": ("f16", "bf16", "f32", "f64"),
    "complex": ("c64", "c128"),
}
"""Families of element types: every one has its share of examples."""


def types_of(words: str) -> tuple[str, ...]:
    """Element types from names of types and of classes, with ``all`` for every one."""
    chosen = {t for word in words.split() for t in (TYPES if word == "all" else CLASSES.get(word, (word,)))}
    assert chosen <= set(TYPES), words
    return tuple(t for t in TYPES if t in chosen)


def class_of(kind: str) -> str:
    """The family of an element type."""
    return next(name for name, kinds in CLASSES.items() if kind in kinds)


class Sample:
    """A module under construction.  All choices come from `rng`; parameters know how to fill themselves with values."""

    def __init__(self, rng: Random, name: str = "sample") -> None:
        self.rng = rng
        self.module = Module(name)
        self.entry = Computation("main")
        self.builder = Builder(self.entry)
        self.fillers: list[tuple[Filler, Shape]] = []  # of the leaves of the parameters
        self.queue: list[tuple[Filler, Shape]] = []  # of the arrays in the infeed
        self.parameters = 0
        self.topology = rng.choice(((2, 1), (1, 2), (2, 2), (3, 1), (1, 4), (2, 3)))
        self.results: list[Instruction] = []

    def operand(self, kind: str, sizes: Sequence[int] = (), values: Filler = anything) -> Instruction:
        """A parameter of the entry computation; `values` draws an array for it in every round."""
        return self.parameter(array(kind, tuple(sizes)), values)

    def parameter(self, shape: Shape, values: Filler = anything) -> Instruction:
        """A parameter of any shape; `values` draws arrays for its leaves."""
        self.fillers.extend((values, leaf) for leaf in shape.leaves() if leaf.is_array)
        self.parameters += 1
        return self.builder.parameter(self.parameters - 1, shape)

    def spread(self) -> tuple[int, int]:
        """Let the module run on several devices; the numbers of replicas and partitions, the same at every call."""
        self.module.attributes["replica_count"], self.module.attributes["num_partitions"] = self.topology
        return self.topology

    def sizes(self, rank: int | None = None, most: int = 200, zero: bool = True) -> tuple[int, ...]:
        """Dimensions of an array of at most `most` elements: lengths around vectors, ones, now and then a zero."""
        rng = self.rng
        rank = rng.choice((0, 1, 1, 2, 2, 3, 4)) if rank is None else rank
        chosen: list[int] = []
        room = most
        for _ in range(rank):
            length = min(rng.choice((1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 65)), max(1, room))
            chosen.append(length)
            room //= length
        rng.shuffle(chosen)
        if zero and rank and rng.random() < 0.03:
            chosen[rng.randrange(rank)] = 0
        return tuple(chosen)

    def computation(
        self, shapes: Sequence[Shape], body: Callable[[Builder, list[Instruction]], Instruction], name: str = "called"
    ) -> Computation:
        """A computation of the module: `body` makes its root from its parameters."""
        made = Computation(self.module.unique_name(name))
        builder = Builder(made)
        made.root = body(builder, [builder.parameter(number, shape) for number, shape in enumerate(shapes)])
        return self.module.add(made)

    def binary(self, opcode: str, kind: str) -> Computation:
        """A computation of two scalars, as reductions want it."""
        return self.module.add(binary_computation(opcode, kind, self.module.unique_name(opcode)))

    def finish(self) -> Module:
        """The module: a tuple of all results."""
        self.entry.root = self.builder.tuple(self.results)
        self.module.add(self.entry, entry=True)
        return self.module

    def arguments(self, generator: np.random.Generator) -> list[Array]:
        """One round of values for all parameters."""
        return _filled(generator, self.fillers)

    def queued(self, generator: np.random.Generator) -> list[Array]:
        """One round of values for the infeed, in order of reading."""
        return _filled(generator, self.queue)


def _filled(generator: np.random.Generator, fillers: Sequence[tuple[Filler, Shape]]) -> list[Array]:
    made = [fill(generator, shape.element_type, shape.dimensions) for fill, shape in fillers]
    for values, (_, shape) in zip(made, fillers, strict=True):
        assert values.shape == shape.dimensions, shape
        assert values.dtype == dtype_of(shape.element_type), shape
    return made


Draw: TypeAlias = Callable[[Sample, str, str], Instruction]
"""(sample, opcode, element type): adds an instruction of the opcode with random shapes, attributes and operands, and
gives a result to look at (its own, or what is made of it)."""


@dataclass(frozen=True, slots=True)
class Family:
    """How an opcode is tried: with the element types legal for its first operand (its result if it has none).

    `ulps` is how far apart native code and evaluator may be in each element, in units of the last place: 0 is bit for
    bit; None is what the error bounds of truth mode allow.
    """

    opcode: str
    types: tuple[str, ...]
    draw: Draw
    ulps: float | None = None


FAMILIES: dict[str, list[Family]] = {}
"""By opcode: several where one opcode is tried in several ways."""


def family(opcodes: str, types: str, ulps: float | None = None) -> Callable[[Draw], Draw]:
    """Register a function that draws instructions of `opcodes` with the legal element `types` (see `types_of`), whose
    results may differ by `ulps` (see `Family`)."""

    def register(draw: Draw) -> Draw:
        for opcode in opcodes.split():
            FAMILIES.setdefault(opcode, []).append(Family(opcode, types_of(types), draw, ulps))
        return draw

    return register
