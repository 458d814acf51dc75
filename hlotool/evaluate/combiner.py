"""Reducers that are one commutative operation, done by a NumPy universal function instead of call by call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hlotool.evaluate.rounding import as_accurate, integer_range, widen
from hlotool.evaluate.values import AnyArray
from hlotool.ir import ELEMENT_TYPES, Computation

__all__ = ["Combiner", "combiner_of", "replaces"]

_UFUNCS: dict[str, Any] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@dataclass(frozen=True, slots=True)
class Combiner:
    """A reducer that is one associative and commutative opcode on two scalars of one type."""

    opcode: str
    element_type: str

    @property
    def ufunc(self) -> Any:
        return _UFUNCS[self.opcode]

    def prepare(self, array: AnyArray) -> AnyArray:
        """In the type to accumulate in: sums and products of floats in double precision."""
        return as_accurate(array) if self.opcode in ("add", "multiply") else widen(array)

    def identity(self, dtype: np.dtype[Any]) -> Any:
        """The element that changes nothing, of the prepared type."""
        if self.opcode in ("maximum", "minimum"):
            return _extreme(dtype, self.element_type, lowest=self.opcode == "maximum")
        if self.opcode == "and":
            return dtype.type(True) if dtype.kind == "b" else np.invert(dtype.type(0))
        return dtype.type(1 if self.opcode == "multiply" else 0)


def _extreme(dtype: np.dtype[Any], element_type: str, lowest: bool) -> Any:
    if dtype.kind == "f":
        return dtype.type(-np.inf if lowest else np.inf)
    if dtype.kind == "b":
        return dtype.type(not lowest)
    low, high = integer_range(ELEMENT_TYPES[element_type])
    return dtype.type(low if lowest else high)


def combiner_of(computation: Computation) -> Combiner | None:
    """What `computation` combines with, if it is one such opcode on its two parameters."""
    root, parameters = computation.root, computation.parameters
    if len(parameters) != 2 or root.opcode not in _UFUNCS or root.shape.dimensions:
        return None
    if {id(o) for o in root.operands} != {id(p) for p in parameters}:
        return None
    if any(p.shape.element_type != root.shape.element_type for p in parameters):
        return None
    return Combiner(root.opcode, root.shape.element_type)


def replaces(computation: Computation) -> bool:
    """Whether the computation returns its second half of parameters: new values replace old ones."""
    root = computation.root
    results = root.operands if root.opcode == "tuple" else [root]
    parameters = computation.parameters
    return len(parameters) == 2 * len(results) and results == parameters[len(results) :]
