"""Branches, loops, sequences and optional values.

Sequences are lists while a model is lowered, and loops over them are unrolled: how long they are has to be known.
Loops over arrays become loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.numpy import control
from hlotool.numpy.array import Array
from hlotool.numpy.trace import shape_of
from hlotool.onnx.lowering import Context, Nothing, Refused, Value, lowering, normal_axes
from hlotool.onnx.ops.indexing import bounded
from hlotool.onnx.ops.pieces import constant, number
from hlotool.onnx.ops.shapes import sliced

__all__: list[str] = []

_MOST_UNROLLED = 4096
"""Iterations of a loop that is written out."""


def _is_arrays(values: Sequence[Value]) -> bool:
    return all(isinstance(one, Array) for one in values)


@lowering("If")
def if_(c: Context, condition: Array, *, then_branch: Any, else_branch: Any) -> tuple[Value, ...]:
    """One branch alone where the condition is known."""
    test = np.reshape(condition, ())
    known = c.known(test)
    if known is None:
        try:
            return _branches(c, test, then_branch, else_branch)
        except _Differ:
            known = c.static(test, "which branch runs (whose results have different shapes or are sequences)")
    return tuple(c.subgraph(then_branch if bool(known) else else_branch, ()))


class _Differ(Exception):  # noqa: N818
    """Branches, or iterations, give values that one program cannot have in one place."""


def _branches(c: Context, test: Array, then_branch: Any, else_branch: Any) -> tuple[Value, ...]:
    shapes: list[Any] = []

    def branch(graph: Any) -> Any:
        def run() -> Any:
            found = c.subgraph(graph, ())
            if not _is_arrays(found):
                raise _Differ
            shapes.append([shape_of(one) for one in found])
            if len(shapes) > 1 and shapes[0] != shapes[-1]:
                raise _Differ
            return found

        return run

    return tuple(control.cond(np.astype(test, bool), branch(then_branch), branch(else_branch)))


@lowering("Loop")
def loop(c: Context, most: Array | None, condition: Array | None, *begin: Value, body: Any) -> tuple[Value, ...]:
    """Values that are carried, and then rows that are stacked."""
    trips = None if most is None else c.known(np.reshape(most, ()))
    goes_on = condition is None or c.known(np.reshape(condition, ()))
    carried = len(begin)
    stacks = len(body.output) - 1 - carried
    if goes_on is not None and not bool(goes_on):
        trips, condition = numpy.asarray(0), None
    if _is_arrays(begin) and trips is not None and condition is None and _tests_nothing(body):
        try:
            return _counted(c, int(trips), begin, body)
        except _Differ:
            pass
    elif _is_arrays(begin) and not stacks:
        try:
            return _while(c, most, condition, begin, body)
        except _Differ:
            pass
    elif _is_arrays(begin) and trips is not None:
        try:
            return _bounded(c, int(trips), condition, begin, body)
        except _Differ:
            pass
    return _unrolled(c, most, condition, begin, body)


def _tests_nothing(body: Any) -> bool:
    """Whether the body hands on the condition that it was given."""
    made = {body.input[1].name}
    for node in body.node:
        if node.op_type == "Identity" and node.input[0] in made:
            made.add(node.output[0])
    return body.output[0].name in made


def _iteration(c: Context, body: Any, turn: Array, values: Sequence[Value]) -> list[Value]:
    given = [np.astype(turn, numpy.int64), np.ones((), bool), *values]
    return c.subgraph(body, given)


def _checked(found: Sequence[Value], begin: Sequence[Array]) -> None:
    """_Differ unless the values have the shapes and types of those before."""
    if not _is_arrays(found) or any(
        one.shape != old.shape or one.dtype != old.dtype for one, old in zip(found, begin, strict=False)
    ):
        raise _Differ


def _counted(c: Context, trips: int, begin: Sequence[Array], body: Any) -> tuple[Value, ...]:
    """A loop whose trips are known: all rows are there in the end."""
    count = len(begin)

    def step(state: Any, turn: Any) -> Any:
        found = _iteration(c, body, turn, list(state))[1:]
        _checked(found, begin)
        return tuple(found[:count]), tuple(found[count:])

    last, rows = control.scan(step, tuple(begin), constant(numpy.arange(trips)))
    return (*last, *rows)


def _condition(value: Array | None) -> Array:
    return np.ones((), bool) if value is None else np.astype(np.reshape(value, ()), bool)


def _while(
    c: Context, most: Array | None, condition: Array | None, begin: Sequence[Array], body: Any
) -> tuple[Value, ...]:
    """A loop without rows."""
    limit = None if most is None else np.reshape(most, ())

    def test(state: Any) -> Any:
        turn, going, _ = state
        return going if limit is None else np.logical_and(going, turn < limit)

    def step(state: Any) -> Any:
        turn, _, values = state
        found = _iteration(c, body, turn, list(values))
        _checked(found[1:], begin)
        return turn + number(1, turn), _condition(found[0]), tuple(found[1:])

    first = (np.zeros((), numpy.int64), _condition(condition), tuple(begin))
    return tuple(control.while_loop(test, step, first)[2])


def _bounded(
    c: Context, trips: int, condition: Array | None, begin: Sequence[Array], body: Any
) -> tuple[Value, ...]:
    """A loop that may end early, with rows: as many are there as it made."""
    count = len(begin)
    kinds: list[Any] = []

    def probe(state: Any, turn: Any) -> Any:
        found = _iteration(c, body, turn, list(state))[1:]
        _checked(found, begin)
        kinds[:] = [(one.shape, one.dtype) for one in found[count:]]
        return tuple(found[:count]), ()

    control.scan(probe, tuple(begin), constant(numpy.arange(1)))  # unused: it goes

    def test(state: Any) -> Any:
        turn, going, _, _ = state
        return np.logical_and(going, turn < constant(trips, numpy.int64))

    def step(state: Any) -> Any:
        turn, _, values, rows = state
        found = _iteration(c, body, turn, list(values))
        made = tuple(old.at[turn].set(new) for old, new in zip(rows, found[1 + count :], strict=True))
        return turn + number(1, turn), _condition(found[0]), tuple(found[1 : 1 + count]), made

    stacks = tuple(np.zeros((trips, *shape), dtype) for shape, dtype in kinds)
    first = (np.zeros((), numpy.int64), _condition(condition), tuple(begin), stacks)
    turn, _, values, rows = control.while_loop(test, step, first)
    return (*values, *(bounded(one, turn) for one in rows))


def _unrolled(
    c: Context, most: Array | None, condition: Array | None, begin: Sequence[Value], body: Any
) -> tuple[Value, ...]:
    """A loop written out: sequences, and arrays that change their shapes."""
    trips = None if most is None else int(c.static(np.reshape(most, ()), "the number of trips"))
    going = condition is None or bool(c.static(np.reshape(condition, ()), "whether the loop runs"))
    values, count, turn = list(begin), len(begin), 0
    rows: list[list[Array]] = [[] for _ in range(len(body.output) - 1 - count)]
    while going and (trips is None or turn < trips):
        if turn >= _MOST_UNROLLED:
            raise Refused(f"a loop over values of changing shapes, with more than {_MOST_UNROLLED} trips")
        found = _iteration(c, body, constant(turn, numpy.int64), values)
        values = found[1 : 1 + count]
        for row, one in zip(rows, found[1 + count :], strict=True):
            row.append(one)
        going = bool(c.static(np.reshape(found[0], ()), "whether the loop goes on"))
        turn += 1
    if any(not row for row in rows):
        raise Refused("a loop without trips whose rows are read")
    return (*values, *(np.stack(row, axis=0) for row in rows))


@lowering("Scan", since=9)
def scan(
    c: Context, *values: Array, body: Any, num_scan_inputs: int, scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None, scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    count = len(values) - num_scan_inputs
    begin, rows = values[:count], list(values[count:])
    outs = len(body.output) - count
    for n, one in enumerate(rows):
        (axis,) = normal_axes([scan_input_axes[n] if scan_input_axes else 0], one.ndim)
        turned = np.moveaxis(one, axis, 0)
        rows[n] = np.flip(turned, axis=0) if scan_input_directions and scan_input_directions[n] else turned

    def step(state: Any, row: Any) -> Any:
        found = c.subgraph(body, [*state, *row])
        _checked(found, begin)
        return tuple(found[:count]), tuple(found[count:])

    try:
        last, made = control.scan(step, tuple(begin), tuple(rows))
    except _Differ:
        raise Refused("a state that changes its shape or type") from None
    found = []
    for n in range(outs):
        one = np.flip(made[n], axis=0) if scan_output_directions and scan_output_directions[n] else made[n]
        (axis,) = normal_axes([scan_output_axes[n] if scan_output_axes else 0], one.ndim)
        found.append(np.moveaxis(one, 0, axis))
    return (*last, *found)


@lowering("Scan", since=8)
def scan_of_batches(
    c: Context, lengths: Array | None, *values: Array, body: Any, num_scan_inputs: int,
    directions: Sequence[int] | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    """The first version, of batches: one after the other."""
    if lengths is not None:
        raise Refused("sequences of different lengths")
    batches = []
    for n in range(values[0].shape[0]):
        batches.append(
            scan(
                c, *(one[n] for one in values), body=body, num_scan_inputs=num_scan_inputs,
                scan_input_directions=directions,
            )
        )
    return tuple(np.stack(list(column), axis=0) for column in zip(*batches, strict=True))


# ---- sequences


def _place(c: Context, position: Array | None, length: int, default: int) -> int:
    if position is None:
        return default
    found = int(c.static(np.reshape(position, ()), "the place in a sequence"))
    return found + length if found < 0 else found


@lowering("SequenceConstruct")
def sequence_construct(c: Context, *values: Value) -> tuple[list[Value]]:
    return (list(values),)


@lowering("SequenceEmpty")
def sequence_empty(c: Context, *, dtype: int = 1) -> tuple[list[Value]]:
    return ([],)


@lowering("SequenceInsert")
def sequence_insert(c: Context, values: list[Value], value: Value, position: Array | None = None) -> Any:
    place = _place(c, position, len(values), len(values))
    return ([*values[:place], value, *values[place:]],)


@lowering("SequenceErase")
def sequence_erase(c: Context, values: list[Value], position: Array | None = None) -> Any:
    place = _place(c, position, len(values), len(values) - 1)
    return ([*values[:place], *values[place + 1 :]],)


@lowering("SequenceAt")
def sequence_at(c: Context, values: list[Value], position: Array) -> Value:
    known = c.known(np.reshape(position, ()))
    same = _is_arrays(values) and len({(one.shape, one.dtype) for one in values}) == 1
    if known is None and same:  # the program chooses
        place = np.reshape(np.astype(position, numpy.int64), ())
        place = np.where(place < number(0, place), place + number(len(values), place), place)
        return np.take(np.stack(list(values), axis=0), place, axis=0)
    number_ = _place(c, position, len(values), 0)
    if not 0 <= number_ < len(values):
        raise Refused(f"element {number_} of a sequence with {len(values)}")
    return values[number_]


@lowering("SequenceLength")
def sequence_length(c: Context, values: list[Value]) -> Array:
    return constant(len(values), numpy.int64)


@lowering("ConcatFromSequence")
def concat_from_sequence(c: Context, values: list[Array], *, axis: int, new_axis: int = 0) -> Array:
    return np.stack(values, axis=axis) if new_axis else np.concat(values, axis=axis)


@lowering("SplitToSequence")
def split_to_sequence(
    c: Context, x: Array, split: Array | None = None, *, axis: int = 0, keepdims: int = 1
) -> tuple[list[Array]]:
    (place,) = normal_axes([axis], x.ndim)
    whole = x.shape[place]
    if split is None:
        sizes: Sequence[int] = (1,) * whole
    elif split.ndim:
        sizes = c.ints(split, "the sizes")
    else:
        each = c.whole(split, "the size")
        sizes = [min(each, whole - n) for n in range(0, whole, each)]
    found, start = [], 0
    for size in sizes:
        part = sliced(x, [(place, start, start + size, 1)])
        found.append(np.squeeze(part, (place,)) if split is None and not keepdims else part)
        start += size
    return (found,)


@lowering("SequenceMap")
def sequence_map(c: Context, values: list[Value], *others: Value, body: Any) -> tuple[list[Value], ...]:
    """The body on each element, and on those of the other sequences, or these as they are."""
    made = []
    for n, one in enumerate(values):
        made.append(c.subgraph(body, [one, *(each[n] if isinstance(each, list) else each for each in others)]))
    return tuple([row[n] for row in made] for n in range(len(body.output)))


# ---- optionals


@lowering("Optional")
def optional(c: Context, value: Value = None, *, type: Any = None) -> tuple[Value]:
    return (Nothing() if value is None else value,)


@lowering("OptionalHasElement")
def optional_has_element(c: Context, value: Value = None) -> Array:
    return constant(not (value is None or isinstance(value, Nothing)))


@lowering("OptionalGetElement")
def optional_get_element(c: Context, value: Value) -> tuple[Value]:
    if value is None or isinstance(value, Nothing):
        raise Refused("the element of an optional that is empty")
    return (value,)


