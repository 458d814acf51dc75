"""Arrays whose size depends on values: they have a bound, and the program knows how much of them there is.

NonZero, Compress, Unique and NonMaxSuppression give such arrays.  Most lowerings look at shapes, and would take the
bound for the size: only the operators named here get these arrays.  Some of them take them as they are, as HLO's
operations pass sizes on; for the others, this file says where the sizes go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.numpy.trace import apply
from hlotool.onnx.lowering import Context, Refused, normal_axes

__all__ = ["as_they_are", "dynamic_axes", "lowered"]

_PASSING = frozenset({
    "Identity", "Cast", "Transpose", "Concat", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "Add", "Sub", "Mul",
    "Div", "Abs", "Neg", "Exp", "Log", "Sqrt", "Sigmoid", "Tanh", "Erf", "Floor", "Ceil", "Round", "Sign", "Not",
    "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor", "Relu", "LeakyRelu",
    "SequenceConstruct", "Optional",
})  # fmt: skip
"""Operators whose lowering is right for these arrays."""

Places = dict[int, tuple[int, int]]
"""Axis of the result -> number of the input, and the axis of it, that its size is of."""


def dynamic_axes(value: Any) -> tuple[int, ...]:
    """The axes of a value whose size depends on values."""
    if not isinstance(value, Array) or value._trace is None:
        return ()
    return tuple(n for n, one in enumerate(value._value.shape.dynamic or ()) if one)


def as_they_are(operator: str) -> bool:
    """Whether the lowering of an operator takes such arrays."""
    return operator in _PASSING


def _count(x: Array, axis: int) -> Array:
    return apply("get-dimension-size", x, dimensions=(axis,))


def _whole(x: Any) -> Any:
    """An array with all elements up to the bound, whatever the last ones are."""
    for axis in dynamic_axes(x):
        x = apply("set-dimension-size", x, Array(numpy.asarray(x.shape[axis], numpy.int32)), dimensions=(axis,))
    return x


def _squeeze(c: Context, x: Array, axes: Array | None, given: Mapping[str, Any]) -> Places:
    chosen = given.get("axes") if axes is None else c.ints(axes, "the axes")
    if chosen is None:
        raise Refused("no axes, for an array whose size depends on values")
    gone = normal_axes(chosen, x.ndim)
    kept = [n for n in range(x.ndim) if n not in gone]
    return {kept.index(n): (0, n) for n in dynamic_axes(x)}


def _unsqueeze(c: Context, x: Array, axes: Array | None, given: Mapping[str, Any]) -> Places:
    chosen = (given["axes"] if axes is None else c.ints(axes, "the axes"))
    new = normal_axes(chosen, x.ndim + len(chosen))
    kept = [n for n in range(x.ndim + len(chosen)) if n not in new]
    return {kept[n]: (0, n) for n in dynamic_axes(x)}


def _slice(c: Context, inputs: Sequence[Any], given: Mapping[str, Any]) -> Places:
    x = inputs[0]
    if len(inputs) > 3 and inputs[3] is not None:
        axes: Sequence[int] = c.ints(inputs[3], "the axes")
    else:
        axes = given.get("axes") or range(inputs[1].shape[0] if len(inputs) > 1 else len(given["starts"]))
    if set(normal_axes(axes, x.ndim)) & set(dynamic_axes(x)):
        raise Refused("a slice along an axis whose size depends on values")
    return {n: (0, n) for n in dynamic_axes(x)}


def _gather(x: Array, index: Array, axis: int) -> Places:
    (place,) = normal_axes([axis], x.ndim)
    if place in dynamic_axes(x):
        raise Refused("indices of an axis whose size depends on values")
    found = {place + n: (1, n) for n in dynamic_axes(index)}
    return found | {n if n < place else n + index.ndim - 1: (0, n) for n in dynamic_axes(x)}


def _gather_nd(x: Array, index: Array, batch: int) -> Places:
    if dynamic_axes(x) or batch or index.ndim - 1 in dynamic_axes(index):
        raise Refused("an array, or rows of indices, whose size depends on values")
    return {n: (1, n) for n in dynamic_axes(index)}


def _places(c: Context, operator: str, inputs: Sequence[Any], given: Mapping[str, Any]) -> Places:
    """Where the sizes of an operator's inputs go."""
    second = inputs[1] if len(inputs) > 1 else None
    if operator == "Squeeze":
        return _squeeze(c, inputs[0], second, given)
    if operator == "Unsqueeze":
        return _unsqueeze(c, inputs[0], second, given)
    if operator == "Slice":
        return _slice(c, inputs, given)
    if operator == "Gather":
        return _gather(inputs[0], inputs[1], given.get("axis", 0))
    if operator == "GatherND":
        return _gather_nd(inputs[0], inputs[1], given.get("batch_dims", 0))
    raise Refused("an input whose size depends on values")


def lowered(
    c: Context, operator: str, lower: Callable[..., Any], inputs: Sequence[Any], given: Mapping[str, Any]
) -> list[Any]:
    """The results of a node, some of whose inputs have a size that depends on values."""
    if operator in ("Shape", "Size"):
        return [_shape(inputs[0], given) if operator == "Shape" else _size(inputs[0])]
    places = _places(c, operator, inputs, given)
    found: Array = lower(c, *map(_whole, inputs), **given)
    for axis, (number, source) in places.items():
        found = apply("set-dimension-size", found, _count(inputs[number], source), dimensions=(axis,))
    return [found]


def _shape(x: Array, given: Mapping[str, Any]) -> Array:
    dynamic = dynamic_axes(x)
    sizes = [
        np.astype(_count(x, n), numpy.int64) if n in dynamic else Array(numpy.asarray(size, numpy.int64))
        for n, size in enumerate(x.shape)
    ][slice(given.get("start", 0), given.get("end"))]
    return np.stack(sizes) if sizes else np.zeros((0,), numpy.int64)


def _size(x: Array) -> Array:
    total = np.ones((), numpy.int64)
    for size in np.unstack(_shape(x, {})):
        total = total * size
    return total
