"""Batching of reductions, windows, sorts.

The functions that they apply take numbers, which are of one example: they stay as they are.
"""

from __future__ import annotations

from typing import Any

from hlotool.ir import Computation, Instruction
from hlotool.ir.attributes import Window, WindowDimension
from hlotool.passes.batching.batcher import Batcher, Rule
from hlotool.passes.batching.values import Leaf, Value, is_batched, shifted
from hlotool.passes.dynamic.dynamic_values import neutral

__all__ = ["RULES"]

_OWN_START = "every example starts from a value of its own"


def _reduce(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    half = len(values) // 2
    arrays, axis = b.joined(values[:half])
    gone = shifted(i.attributes["dimensions"], axis)
    place = axis - sum(d < axis for d in gone)
    if not any(map(is_batched, values[half:])):
        return b.result(i, [*arrays, *map(b.packed, values[half:])], place, dimensions=gone)
    start = _neutral(i)
    if start is None:
        return b.by_turns(i, values, _OWN_START)
    made = b.result(i, [arrays[0], b.build.scalar_constant(start, i.shape.element_type)], place, dimensions=gone)
    whole = b.at(made, place)
    first = b.spread(b.front(values[1]), place, whole.shape.dimensions)
    return Leaf(b.build.binary(i.attributes["to_apply"].root.opcode, first, whole), place)


def _neutral(i: Instruction) -> float | int | bool | None:
    """What a reduction of one array can start from, if what it starts from may be added later."""
    combiner: Computation = i.attributes["to_apply"]
    root, parameters = combiner.root, combiner.parameters
    if len(i.operands) != 2 or len(parameters) != 2 or {*root.operands} != {*parameters}:
        return None
    kinds = {one.shape.element_type for one in (i, *i.operands, root, *parameters)}
    return neutral(root.opcode, i.shape.element_type) if len(kinds) == 1 else None


def _window(i: Instruction, axis: int) -> dict[str, Any]:
    """The window with one place of its own for each example."""
    given = i.attributes.get("window") or Window((WindowDimension(1),) * i.operands[0].shape.rank)
    own = given.dimensions
    return {"window": Window((*own[:axis], WindowDimension(1), *own[axis:]))}


def _reduce_window(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    half = len(values) // 2
    if any(map(is_batched, values[half:])):
        return b.by_turns(i, values, _OWN_START)
    arrays, axis = b.joined(values[:half])
    return b.result(i, [*arrays, *map(b.packed, values[half:])], axis, **_window(i, axis))


def _select_and_scatter(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    if is_batched(values[2]):
        return b.by_turns(i, values, _OWN_START)
    arrays, axis = b.joined(values[:2])
    return b.result(i, [*arrays, b.packed(values[2])], axis, **_window(i, axis))


def _sort(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    arrays, axis = b.joined(values)
    return b.result(i, arrays, axis, dimensions=shifted(i.attributes["dimensions"], axis))


RULES: dict[str, Rule] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
}
