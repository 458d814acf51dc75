"""The table of rules on values with error bounds: movement, control, order, and what is only known of exact values.

Rules that move elements are those of the evaluator, applied to values and to errors.  What works on the bits of values
(bitcasts, random bits, most custom calls) runs on the declared types and is undecided where its operands are not exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlotool.evaluate import control
from hlotool.evaluate.bounds import Bounded, exact, is_inexact, narrow
from hlotool.evaluate.rules import RULES
from hlotool.evaluate.sort import sorted_order, top_positions
from hlotool.evaluate.truth_elementwise import ELEMENTWISE
from hlotool.evaluate.truth_lapack import lapack_rule
from hlotool.evaluate.truth_linalg import LINALG
from hlotool.evaluate.truth_sums import SUMS
from hlotool.evaluate.values import AnyArray, Operands, leaves_of, value_from_leaves
from hlotool.ir import ExecutionError, Instruction, Shape, dtype_of

__all__ = ["SCALAR_TRUTH", "TRUTH", "widened"]


def widened(value: Any, shape: Shape) -> Any:
    """A value of the declared types as exact ones."""
    leaves = (leaf for leaf in shape.leaves() if leaf.is_array)
    made: Any = [
        found if isinstance(found, Bounded) else exact(found, leaf.element_type)
        for found, leaf in zip(leaves_of(value), leaves, strict=True)
    ]
    return value_from_leaves(shape, iter(made))


def _undecided(value: Any) -> Any:
    """The value with nothing known of it."""
    if isinstance(value, tuple):
        return tuple(map(_undecided, value))
    return Bounded(value.value, np.full(value.shape, np.inf))


def _declared(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """The evaluator's rule on the declared types."""
    inexact = False
    given = []
    for operand, value in zip(instruction.operands, operands, strict=True):
        leaves: list[Any] = list(leaves_of(value))
        inexact = inexact or any(leaf.error is not None for leaf in leaves)
        kinds = [leaf.element_type for leaf in operand.shape.leaves() if leaf.is_array]
        arrays = [narrow(leaf, kind) for leaf, kind in zip(leaves, kinds, strict=True)]
        given.append(value_from_leaves(operand.shape, iter(arrays)))
    found = widened(RULES[instruction.opcode](instruction, given, context.plain), instruction.shape)
    return _undecided(found) if inexact else found


def _moving(data: Sequence[int] | None) -> Any:
    """The evaluator's rule on values and on errors; operands that are not `data` (None: all are) are indices."""

    def move(instruction: Instruction, operands: Operands, context: Any) -> Any:
        rule = RULES[instruction.opcode]
        places = range(len(operands)) if data is None else data
        plain = context.plain
        value = rule(instruction, [o.value for o in operands], plain)
        indices = [o for place, o in enumerate(operands) if place not in places]
        if all(operands[place].error is None for place in places) and all(o.error is None for o in indices):
            return _zipped(value, None)
        if any(o.error is not None and o.error.any() for o in indices):
            return _undecided(_zipped(value, None))
        errors = [o.errors() if place in places else o.value for place, o in enumerate(operands)]
        return _zipped(value, rule(instruction, errors, plain))

    return move


def _permute(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """In the in-place form the last two operands are places, and any of them may be a tuple."""
    if "slice_sizes" not in instruction.attributes:
        return _MOVING(instruction, operands, context)
    rule, places = RULES[instruction.opcode], operands[2:]
    indices: list[Any] = list(leaves_of(tuple(places)))
    value = rule(instruction, [_leafwise(_value, o) for o in operands], context.plain)
    if any(index.error is not None and index.error.any() for index in indices):
        return _undecided(_zipped(value, None))
    errors = [*(_leafwise(_errors, o) for o in operands[:2]), *(_leafwise(_value, o) for o in places)]
    return _zipped(value, rule(instruction, errors, context.plain))


def _leafwise(function: Callable[[Bounded], AnyArray], value: Any) -> Any:
    return tuple(_leafwise(function, v) for v in value) if isinstance(value, tuple) else function(value)


def _value(x: Bounded) -> AnyArray:
    return x.value


def _errors(x: Bounded) -> AnyArray:
    return x.errors()


_MOVING = _moving(None)


def _zipped(values: Any, errors: Any) -> Any:
    if isinstance(values, tuple):
        return tuple(_zipped(v, None if errors is None else e) for v, e in zip(values, errors or values, strict=True))
    return Bounded(np.asarray(values), None if errors is None else np.asarray(errors))


def _bitcast(instruction: Instruction, operands: Operands, context: Any) -> Any:
    same = instruction.operands[0].shape.element_type == instruction.shape.element_type
    return (_moving(None) if same else _declared)(instruction, operands, context)


def _custom_call(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """Annotations return their operand; LAPACK's have rules of their own; calls of GPU libraries have the errors of the
    instructions that say what they compute."""
    from hlotool.evaluate.xla_annotations import is_annotation
    from hlotool.evaluate.xla_custom_calls import library_computation

    if is_annotation(instruction):
        return operands[0]
    rule = lapack_rule(instruction.attributes["custom_call_target"])
    if rule is not None:
        return rule(instruction, operands, context)
    meaning = library_computation(instruction)
    return _declared(instruction, operands, context) if meaning is None else context.apply(meaning, operands)


def _with_parts(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """Control opcodes, which move whole values; arrays that they make themselves are exact."""
    return widened(RULES[instruction.opcode](instruction, operands, context), instruction.shape)


# ---- control


def _while(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """The loop goes on by the value of its condition; where one is unsure, nothing is known of the state."""
    condition, body = instruction.attributes["condition"], instruction.attributes["body"]
    state: Any = operands[0]
    iterations, unsure = 0, False
    while True:
        goes_on: Any = context.apply(condition, [state])
        unsure = unsure or (goes_on.error is not None and bool(goes_on.error.any()))
        if not goes_on.item():
            return _undecided(state) if unsure else state
        if context.loop_limit is not None and iterations >= context.loop_limit:
            raise ExecutionError(f"{instruction.name}: more than {context.loop_limit} iterations")
        state = context.apply(body, [state])
        iterations += 1


def _scan(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """As the evaluator's; places are put together after the last one."""
    computation, attributes = instruction.attributes["to_apply"], instruction.attributes
    (axis,) = attributes["dimensions"]
    split = len(operands) - attributes["num_carries"]
    inputs, carries = operands[:split], list(operands[split:])
    shapes = instruction.shape.elements if instruction.shape.is_tuple else (instruction.shape,)
    made = shapes[: len(shapes) - len(carries)]
    length = inputs[0].shape[axis] if inputs else made[0].dimensions[axis]
    if not length:
        empty = tuple(np.zeros(shape.dimensions, dtype_of(shape.element_type)) for shape in made)
        return widened((*empty, *carries), instruction.shape)
    rows: list[list[Bounded]] = []
    for step in range(length):
        place = length - 1 - step if attributes.get("is_reverse") else step
        found: Any = context.apply(computation, [*(_at(one, axis, place) for one in inputs), *carries])
        values = list(found) if isinstance(found, tuple) else [found]
        rows.append(values[: len(made)])
        carries = values[len(made) :]
    if attributes.get("is_reverse"):
        rows.reverse()
    results = (*(_stacked(column, axis) for column in zip(*rows, strict=True)), *carries)
    return results if instruction.shape.is_tuple else results[0]


def _at(x: Bounded, axis: int, place: int) -> Bounded:
    """The elements at one place along an axis, without it."""
    taken = (slice(None),) * axis + (place,)
    return Bounded(np.asarray(x.value[taken]), None if x.error is None else np.asarray(x.error[taken]))


def _stacked(parts: Sequence[Bounded], axis: int) -> Bounded:
    value = np.stack([part.value for part in parts], axis)
    if all(part.error is None for part in parts):
        return Bounded(value)
    return Bounded(value, np.stack([part.errors() for part in parts], axis))


def _conditional(instruction: Instruction, operands: Operands, context: Any) -> Any:
    selector, *arguments = operands
    result: Any = control.RULES["conditional"](instruction, [selector.value, *arguments], context)
    return _undecided(result) if selector.error is not None and selector.error.any() else result


# ---- order


def _sort(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """The order of the values; where neighbours may change places, so may all of their kind around them."""
    (axis,) = instruction.attributes["dimensions"]
    computation = instruction.attributes["to_apply"]
    if 0 in operands[0].shape or operands[0].shape[axis] < 2:
        return tuple(operands) if instruction.shape.is_tuple else operands[0]
    kinds = [o.shape.element_type for o in instruction.operands]
    plain = context.plain
    lined = [np.moveaxis(narrow(o, kind), axis, -1) for o, kind in zip(operands, kinds, strict=True)]

    def before(left: Sequence[AnyArray], right: Sequence[AnyArray]) -> AnyArray:
        pairs = [side for pair in zip(left, right, strict=True) for side in pair]
        found: AnyArray = plain.map(computation, pairs)[0]
        return found

    order = sorted_order(lined, before)
    ordered = [_taken(o, order, axis) for o in operands]
    lost = _lost_signs(ordered, kinds)
    if lost is not None:
        loose = np.broadcast_to(lost, ordered[0].shape)[..., 1:]
        ordered = [_hulls(o, loose, kind) for o, kind in zip(ordered, kinds, strict=True)]
    elif any(o.error is not None for o in ordered):
        sides = [(_part(o, slice(None, -1)), _part(o, slice(1, None))) for o in ordered]
        forth: Any = context.map(computation, [side for left, right in sides for side in (left, right)])
        back: Any = context.map(computation, [side for left, right in sides for side in (right, left)])
        loose = (forth[0].errors() != 0) | (back[0].errors() != 0)
        ordered = [_hulls(o, loose, kind) for o, kind in zip(ordered, kinds, strict=True)]
    results = [_moved_back(o, axis) for o in ordered]
    return tuple(results) if instruction.shape.is_tuple else results[0]


def _topk(instruction: Instruction, operands: Operands, context: Any) -> Any:
    (x,) = operands
    kind = instruction.operands[0].shape.element_type
    smallest = instruction.attributes.get("largest") is False
    order = top_positions(narrow(x, kind), x.shape[-1], not smallest)
    ordered, places = _taken(x, order, x.value.ndim - 1), Bounded(order.astype(np.int32))
    lost = _lost_signs([ordered], [kind])
    if lost is not None:
        loose = np.broadcast_to(lost, ordered.shape)[..., 1:]
        ordered, places = _hulls(ordered, loose, kind), _hulls(places, loose, "s32")
    elif ordered.error is not None and x.shape[-1] > 1:
        gap = np.abs(np.diff(ordered.value, axis=-1))
        loose = ~(gap > ordered.error[..., :-1] + ordered.error[..., 1:])
        loose = loose & (ordered.error[..., :-1] + ordered.error[..., 1:] != 0)
        ordered, places = _hulls(ordered, loose, kind), _hulls(places, loose, "s32")
    count: int = instruction.attributes["k"]
    return tuple(_part(o, slice(0, count)) for o in (ordered, places))


def _lost_signs(operands: Sequence[Bounded], kinds: Sequence[str]) -> AnyArray | None:
    """Rows with a NaN: the wide type does not keep all of its bits, by which it may be ordered.

    All order in such rows is undecided.
    """
    found: AnyArray | None = None
    for operand, kind in zip(operands, kinds, strict=True):
        if is_inexact(kind):
            rows = np.asarray(np.isnan(operand.value).any(axis=-1, keepdims=True))
            found = rows if found is None else found | rows
    return found if found is not None and found.any() else None


def _taken(x: Bounded, order: AnyArray, axis: int) -> Bounded:
    """The elements in `order` along the last axis, to which `axis` is moved."""
    value = np.take_along_axis(np.moveaxis(x.value, axis, -1), order, -1)
    if x.error is None:
        return Bounded(value)
    return Bounded(value, np.take_along_axis(np.moveaxis(x.error, axis, -1), order, -1))


def _part(x: Bounded, piece: slice) -> Bounded:
    return Bounded(x.value[..., piece], None if x.error is None else x.error[..., piece])


def _moved_back(x: Bounded, axis: int) -> Bounded:
    value = np.moveaxis(x.value, -1, axis)
    return Bounded(value, None if x.error is None else np.moveaxis(x.error, -1, axis))


def _hulls(x: Bounded, loose: AnyArray, kind: str) -> Bounded:
    """Runs of elements whose neighbours may change places: each may be any of its run."""
    first = np.concatenate([np.ones((*loose.shape[:-1], 1), np.bool_), ~loose], axis=-1).reshape(-1)
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, first.size))
    error = x.errors().reshape(-1)
    if is_inexact(kind) and x.value.dtype.kind != "c":
        value = x.value.reshape(-1)
        high = np.repeat(np.maximum.reduceat(value + error, starts), lengths)
        low = np.repeat(np.minimum.reduceat(value - error, starts), lengths)
        hull = np.maximum(high - value, value - low).astype(np.float64)
        hull = np.where(np.isnan(hull), np.inf, hull)
    else:
        hull = np.full(error.shape, np.inf)
    error = np.where(np.repeat(lengths > 1, lengths), hull, error)
    return Bounded(x.value, error.reshape(x.shape) if error.any() else None)


_PARTS = (
    "call fusion tuple get-tuple-element constant after-all add-dependency opt-barrier domain get-dimension-size "
    "iota copy-start copy-done async-start async-update async-done partition-id replica-id "
    "all-gather-done all-reduce-done collective-permute-done"
)
_MOVES = (
    "broadcast reshape transpose reverse concatenate pad slice copy all-gather all-gather-start all-reduce "
    "all-reduce-start reduce-scatter all-to-all collective-broadcast"
)

TRUTH: dict[str, Any] = {
    **dict.fromkeys(RULES, _declared),
    **dict.fromkeys(_PARTS.split(), _with_parts),
    **dict.fromkeys(_MOVES.split(), _MOVING),
    **dict.fromkeys(("collective-permute", "collective-permute-start"), _permute),
    **dict.fromkeys(("dynamic-slice", "gather", "set-dimension-size", "dynamic-reshape"), _moving((0,))),
    "dynamic-update-slice": _moving((0, 1)),
    "ragged-all-to-all": _moving((0, 1)),
    "bitcast": _bitcast,
    "custom-call": _custom_call,
    "while": _while,
    "scan": _scan,
    "conditional": _conditional,
    "sort": _sort,
    "topk": _topk,
    **ELEMENTWISE,
    **SUMS,
    **LINALG,
}
"""Opcode to rule: as the evaluator's, but on `Bounded` leaves."""

_same = control.RULES["opt-barrier"]

SCALAR_TRUTH: dict[str, Any] = {
    **ELEMENTWISE,
    **dict.fromkeys(("tuple", "get-tuple-element", "constant", "call", "fusion"), _with_parts),
    **dict.fromkeys(("broadcast", "reshape", "transpose", "reverse", "copy", "opt-barrier"), _same),
}
"""Opcodes that act on an array of scalars as on each scalar."""
