"""What flows through the evaluator: values, rules, and the context that a rule may call back into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from hlotool.ir import Computation, Instruction, Shape

if TYPE_CHECKING:
    from hlotool.evaluate.devices import Device

__all__ = ["AnyArray", "Context", "Operands", "Rule", "Value", "leaves_of", "one_or_tuple", "value_from_leaves"]

AnyArray: TypeAlias = np.ndarray[Any, Any]
Value: TypeAlias = "AnyArray | tuple[Value, ...]"
"""An array, or a tuple of values.  A token is the empty tuple."""

Operands: TypeAlias = Sequence[Any]
"""Operand values; a rule knows from its opcode which of them are arrays."""


class Context(Protocol):
    """What rules see of the interpreter."""

    states: dict[Instruction, int]  # 128 bits each, of ``rng-get-and-update-state``
    loop_limit: int | None  # iterations that one ``while`` may make
    device: Device  # the one that runs the program, and its way to the others

    @property
    def generator(self) -> np.random.Generator:
        """Of ``rng``, whose numbers HLO leaves open."""
        ...

    def apply(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """The root value of `computation` on `arguments`."""
        ...

    def map(self, computation: Computation, arrays: Sequence[AnyArray]) -> tuple[AnyArray, ...]:
        """A computation on scalars, applied to each element of arrays of one shape; one array per root leaf."""
        ...


Rule: TypeAlias = Callable[[Instruction, Operands, Context], Value]
"""The meaning of one opcode."""


def leaves_of(value: Value) -> Iterator[AnyArray]:
    """Arrays in a value, depth first; tokens have none."""
    if isinstance(value, tuple):
        for element in value:
            yield from leaves_of(element)
    else:
        yield value


def value_from_leaves(shape: Shape, leaves: Iterator[AnyArray]) -> Value:
    """A value of `shape` that takes its arrays from `leaves`, depth first."""
    if shape.is_tuple:
        return tuple(value_from_leaves(element, leaves) for element in shape.elements)
    return next(leaves) if shape.is_array else ()


def one_or_tuple(instruction: Instruction, arrays: Sequence[AnyArray]) -> Value:
    """Results as the instruction's shape wants them: the single array, or a tuple."""
    return tuple(arrays) if instruction.shape.is_tuple else arrays[0]
