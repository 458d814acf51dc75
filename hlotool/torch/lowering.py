"""The table of lowerings: how an ATen operation is written in HLO, and what such functions build with.

A lowering is a function of a `Context` and the operation's arguments by the names of its schema, tensors being
instructions, that gives the instruction of the result (several, as a tuple)::

    @lowering("aten.add.Tensor")
    def add(c: Context, self: Instruction, other: Value, *, alpha: Number = 1) -> Instruction:
        ...

What it cannot do it refuses: ``raise Refused(reason)``; the operation runs eagerly then.  Whoever lowers a graph checks
each result's type and dimensions against those that PyTorch gives (`hlotool.torch.graph`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from hlotool.ir import Computation, Instruction
from hlotool.ir.builder import Builder, binary_computation
from hlotool.ir.shape import array
from hlotool.ir.types import ELEMENT_TYPES
from hlotool.lazy_dataclass import dataclass
from hlotool.torch.dtypes import Number, element_type_of, promoted
from hlotool.torch.refusal import Refused

__all__ = [
    "LOWERINGS", "Context", "Lowering", "Number", "Refused", "Result", "Subgraph", "Value", "is_tensor", "lowering",
    "normal_dimensions",
]  # fmt: skip

Value: TypeAlias = Instruction | bool | int | float | complex
"""A tensor or a Python number."""

Result: TypeAlias = Instruction | tuple[Instruction | None, ...]
Lowering: TypeAlias = Callable[..., Result]

LOWERINGS: dict[str, Lowering] = {}
"""By the name of the overload, ``aten.add.Tensor``."""


def lowering(*overloads: str) -> Callable[[Lowering], Lowering]:
    """Enters a function into the table for these overloads."""

    def enter(function: Lowering) -> Lowering:
        for name in overloads:
            if name in LOWERINGS:
                raise ValueError(f"{name} has two lowerings")
            LOWERINGS[name] = function
        return function

    return enter


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A function among the arguments of an operation, as a branch of ``torch.cond``.

    `write` writes what it computes: of a builder and the values of its parameters, its results; Refused where it has
    operations without a lowering.
    """

    write: Callable[[Builder, Sequence[Any]], list[Any]]


def is_tensor(value: object) -> bool:
    return isinstance(value, Instruction)


def normal_dimensions(dimensions: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Dimensions counted from the front; all of them for None and for an empty list."""
    if dimensions is None or (not isinstance(dimensions, int) and not len(dimensions)):
        return tuple(range(rank))
    own = [dimensions] if isinstance(dimensions, int) else list(dimensions)
    return tuple(d + max(rank, 1) if d < 0 else d for d in own) if rank else ()


@dataclass(frozen=True, slots=True)
class Context:
    """What a lowering builds with.

    `builder` adds instructions to the computation.  `expected` are the types and dimensions that PyTorch gives for the
    results: (element type, dimensions) of each tensor, None for a result that is none.  `strides` are those of the
    tensors among the arguments, by instruction, where they are known: what PyTorch's memory looks like, which only
    operations like as_strided ask.
    """

    builder: Builder
    expected: tuple[tuple[str, tuple[int, ...]] | None, ...]
    strides: dict[Instruction, tuple[int, ...]]

    # ---- what the result is

    @property
    def type(self) -> str:
        """Element type of the (first) result."""
        return self._first[0]

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Dimensions of the (first) result."""
        return self._first[1]

    @property
    def _first(self) -> tuple[str, tuple[int, ...]]:
        first = self.expected[0]
        assert first is not None
        return first

    # ---- constants

    def full(self, value: Number, element_type: str, dimensions: Sequence[int] = ()) -> Instruction:
        """A number in every element; floats given for integers are cut, integers wrap."""
        row = ELEMENT_TYPES[element_type]
        if row.is_integer and isinstance(value, float):
            value = int(value)
        if row.kind == "pred":
            value = bool(value)
        if isinstance(value, complex) and not row.is_complex:
            raise Refused(f"the complex number {value} as {element_type}")
        if row.is_integer and isinstance(value, int):
            below = 1 << (row.bits - 1) if row.kind == "signed" else 0
            value = (value + below) % (1 << row.bits) - below
        if row.is_float and isinstance(value, int):
            value = float(value)
        return self.builder.splat(value, array(element_type, dimensions))

    def like(self, value: Number, a: Instruction) -> Instruction:
        """A number with the type and dimensions of `a`."""
        return self.full(value, a.shape.element_type, a.shape.dimensions)

    # ---- types

    def convert(self, a: Instruction, element_type: str) -> Instruction:
        """`a` as ``a.to(dtype)`` gives it: of complex numbers the real part, anything but zero is true."""
        own = a.shape.element_type
        if own == element_type:
            return a
        if element_type == "pred":
            return self.builder.compare(a, self.like(0, a), "NE")
        if ELEMENT_TYPES[own].is_complex and not ELEMENT_TYPES[element_type].is_complex:
            return self.convert(self.builder.unary("real", a), element_type)
        row = ELEMENT_TYPES[element_type]
        if row.is_integer and row.bits < 32 and ELEMENT_TYPES[own].is_float:
            a = self.builder.convert(a, "s32")  # what does not fit wraps, as in C
        return self.builder.convert(a, element_type)

    def promote(self, *values: Value, floats: bool = False) -> str:
        """The type that PyTorch converts operands to; if `floats`, integers become the default float."""
        arrays = [(v.shape.element_type, len(v.shape.dimensions)) for v in values if isinstance(v, Instruction)]
        found = promoted(arrays, [v for v in values if not isinstance(v, Instruction)])
        if floats and ELEMENT_TYPES[found].kind in ("pred", "signed", "unsigned"):
            import torch

            return element_type_of(torch.get_default_dtype())
        return found

    def computed(self, a: Instruction) -> Instruction:
        """`a` in the type that PyTorch computes formulas of several steps in: f32 for narrower floats."""
        row = ELEMENT_TYPES[a.shape.element_type]
        return self.convert(a, "f32") if row.is_float and row.bits < 32 else a

    # ---- dimensions

    def expand(self, a: Instruction, dimensions: Sequence[int]) -> Instruction:
        """`a` broadcast to these dimensions, aligned at the last one."""
        own, wanted = a.shape.dimensions, tuple(dimensions)
        if own == wanted:
            return a
        offset = len(wanted) - len(own)
        kept = [n for n, size in enumerate(own) if size == wanted[n + offset]]
        if offset < 0 or any(own[n] != 1 for n in range(len(own)) if n not in kept):
            raise Refused(f"{list(own)} does not broadcast to {list(wanted)}")
        dense = a if len(kept) == len(own) else self.builder.reshape(a, [own[n] for n in kept])
        return self.builder.broadcast(dense, [n + offset for n in kept], wanted)

    def tensor(self, value: Value, element_type: str, dimensions: Sequence[int] = ()) -> Instruction:
        """`value` as a tensor of this type, broadcast to `dimensions`."""
        if isinstance(value, Instruction):
            return self.expand(self.convert(value, element_type), dimensions)
        return self.full(value, element_type, dimensions)

    def together(self, *values: Value, element_type: str) -> list[Instruction]:
        """Values as tensors of one type and of the dimensions that they broadcast to."""
        dimensions = broadcast_dimensions(v.shape.dimensions for v in values if isinstance(v, Instruction))
        return [self.tensor(value, element_type, dimensions) for value in values]

    def unsqueeze(self, a: Instruction, dimensions: Iterable[int]) -> Instruction:
        """`a` with dimensions of size one at these places of the result."""
        places = set(dimensions)
        sizes = iter(a.shape.dimensions)
        rank = len(a.shape.dimensions) + len(places)
        return self.builder.reshape(a, [1 if n in places else next(sizes) for n in range(rank)])

    # ---- reductions

    def reduce(
        self, a: Instruction, dimensions: Sequence[int], opcode: str, initial: Number, keep: bool = False
    ) -> Instruction:
        """`a` reduced over `dimensions` by a binary opcode (``add``, ``maximum``, ``and``...)."""
        reducer = self.reducer(opcode, a.shape.element_type)
        found = self.builder.reduce(a, self.full(initial, a.shape.element_type), sorted(dimensions), reducer)
        return self.unsqueeze(found, dimensions) if keep else found

    def reducer(self, opcode: str, element_type: str) -> Computation:
        """A computation of two scalars, in the module."""
        return self.own(binary_computation(opcode, element_type))

    def own(self, computation: Computation) -> Computation:
        """`computation` as one of the module's."""
        module = self.builder.computation.module
        assert module is not None
        return module.add(computation)


def broadcast_dimensions(shapes: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The dimensions that all these broadcast to; Refused where they do not fit together."""
    found: list[int] = []
    for shape in shapes:
        own = list(shape)
        size = max(len(own), len(found))
        own, found = [1] * (size - len(own)) + own, [1] * (size - len(found)) + found
        for n, (a, b) in enumerate(zip(own, found, strict=True)):
            if a != b and 1 not in (a, b):
                raise Refused(f"sizes {a} and {b} do not broadcast")
            found[n] = a if b == 1 else b
    return tuple(found)
