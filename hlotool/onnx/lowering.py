"""The table of lowerings: how an operator of ONNX is written with `hlotool.numpy`, and what such functions ask for.

A lowering is a function of a `Context`, the inputs by position (arrays of the active trace; lists for sequences, None
for those left out) and the attributes by name, which gives the result (several, as a tuple)::

    @lowering("Gemm", since=7)
    def gemm(c, a, b, bias=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        ...

It is for the versions of its operator from `since` on, up to the next one in the table.  What it cannot do it refuses:
``raise Refused(reason)``.  Operators without one are taken apart into the function that ONNX defines them by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy

from hlotool.lazy_dataclass import dataclass
from hlotool.numpy.array import Array
from hlotool.onnx.static import Statics

__all__ = [
    "LOWERINGS", "ML", "PREVIEW_TRAINING", "Context", "Nothing", "Refused", "Value", "find", "lowering", "normal_axes",
]  # fmt: skip

ML = "ai.onnx.ml"
PREVIEW_TRAINING = "ai.onnx.preview.training"

Value: TypeAlias = Any
"""An `Array`, a list of values (a sequence), `Nothing` (an empty optional), or None (an input that is left out)."""

Lowering: TypeAlias = Callable[..., Any]
L = TypeVar("L", bound=Lowering)

LOWERINGS: dict[tuple[str, str], dict[int, Lowering]] = {}
"""By domain ("" is ai.onnx) and name: by the version of the operator set from which on it holds."""


class Refused(Exception):  # noqa: N818
    """A lowering cannot do what a node asks for; the reason."""


class Nothing:
    """An optional value that is not there."""


def lowering(*names: str, since: int = 1, domain: str = "") -> Callable[[L], L]:
    """Enters a function into the table."""

    def enter(function: L) -> L:
        for name in names:
            rows = LOWERINGS.setdefault((domain, name), {})
            if since in rows:
                raise ValueError(f"{name} has two lowerings from version {since} on")
            rows[since] = function
        return function

    return enter


def find(domain: str, name: str, version: int) -> Lowering | None:
    """The lowering of an operator in a version of its operator set."""
    rows = LOWERINGS.get((domain, name), {})
    fitting = [since for since in rows if since <= version]
    return rows[max(fitting)] if fitting else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a lowering may ask of its node.

    `version` is that of the operator set.  `wanted` says of each output whether somebody reads it.  `subgraph` lowers
    a graph among the attributes on values for its inputs, in the active trace.
    """

    name: str
    version: int
    wanted: tuple[bool, ...]
    statics: Statics
    subgraph: Callable[[Any, Sequence[Value]], list[Value]]
    input_types: tuple[Any, ...] = ()

    def static(self, value: Array, what: str) -> numpy.ndarray[Any, Any]:
        """The elements of `value`, which the shape of the result, or the program, depends on."""
        found = self.statics.value(value)
        if found is None:
            raise Refused(
                f"{what} depends on {self.statics.reason(value)}, and decides what the program is: it has to be a "
                "constant, or be given (--set NAME=VALUES)"
            )
        return found

    def known(self, value: Array) -> numpy.ndarray[Any, Any] | None:
        """The elements of `value` where they depend on constants alone."""
        return self.statics.constant(value)

    def ints(self, value: Array | Sequence[int], what: str) -> tuple[int, ...]:
        """Whole numbers that are an attribute in some versions and an input in others."""
        if isinstance(value, Array):
            return tuple(int(one) for one in self.static(value, what).reshape(-1))
        return tuple(int(one) for one in value)

    def whole(self, value: Array | int, what: str) -> int:
        """A single whole number."""
        found = self.ints(value, what) if isinstance(value, Array) else (value,)
        if len(found) != 1:
            raise Refused(f"{what} has {len(found)} elements, where one is needed")
        return found[0]

    def wants(self, number: int) -> bool:
        """Whether an output is read."""
        return number < len(self.wanted) and self.wanted[number]


def normal_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front; Refused where there is no such axis, or one twice."""
    found = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if any(not 0 <= axis < rank for axis in found) or len(set(found)) != len(found):
        raise Refused(f"axes {list(axes)} of an array with {rank} dimensions")
    return found
