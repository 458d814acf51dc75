"""What the meaning of an opcode is, and the context that it may call back into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from hlotool.evaluate.devices import Device
from hlotool.evaluate.values import AnyArray, Operands, Value
from hlotool.ir import Computation, Instruction

__all__ = ["Context", "Rule"]


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
