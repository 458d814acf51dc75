"""Checks of the result shapes of collectives, of asynchronous pairs, and of what talks to other programs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hlotool.ir.shape import UNBOUNDED, Shape, scalar, token, tuple_shape
from hlotool.ir.shape_checks import (
    agree,
    check_aliasing,
    expect,
    in_range,
    plain,
    require,
    require_array,
    require_count,
    require_token,
    results,
)
from hlotool.ir.shape_movement import check_border
from hlotool.ir.shape_written import Check
from hlotool.ir.types import ELEMENT_TYPES

__all__ = ["COLLECTIVES", "slice_sizes"]


def _same(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """One result per operand, each like its operand."""
    require_count(opcode, operands, 1)
    for index, operand in enumerate(operands):
        require_array(opcode, operand, index)
    expect(opcode, shape, results(operands))


def _all_reduce(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    _groups(opcode, attributes, uniform=False)
    _same(opcode, shape, operands, attributes)


def _broadcast(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    _groups(opcode, attributes, uniform=False, all_of_them=False)
    _same(opcode, shape, operands, attributes)


def _groups(
    opcode: str, attributes: Mapping[str, Any], uniform: bool = True, all_of_them: bool = True
) -> Sequence[Sequence[int]]:
    """Replica groups name every number from 0 on once, and are of one size where that matters."""
    part = "attribute:replica_groups"
    groups: Sequence[Sequence[int]] = attributes["replica_groups"].groups if "replica_groups" in attributes else ()
    if attributes.get("use_global_device_ids"):
        part = "attribute:use_global_device_ids"
        require(bool(groups), f"{opcode} among devices names them in replica_groups", part)
        require("channel_id" in attributes, f"{opcode} among devices needs a channel_id", part)
        part = "attribute:replica_groups"
    named = sorted(number for group in groups for number in group)
    require(all(groups), "a replica group is empty", part)
    require(not named or named[0] >= 0, f"a replica group has the number {named[0] if named else 0}", part)
    twice = next((a for a, b in pairwise(named) if a == b), None)
    require(twice is None, f"{twice} is in the replica groups twice", part)
    missing = next((n for n, number in enumerate(named) if n != number), None)
    require(missing is None or not all_of_them, f"{missing} is missing in the replica groups", part)
    sizes = sorted({len(group) for group in groups})
    require(len(sizes) < 2 or not uniform, f"{opcode} in groups of {sizes[:1]} and {sizes[-1:]}", part)
    return groups


def _scaled(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """all-gather multiplies one dimension by the number of participants, reduce-scatter divides it."""
    require_count(opcode, operands, 1)
    groups = _groups(opcode, attributes)
    ranks = "channel_id" in attributes and not attributes.get("use_global_device_ids")
    count = 0 if ranks or not groups else len(groups[0])  # of replicas in all partitions: known to the module alone
    given = shape.elements if shape.is_tuple else (shape,)
    several = len(given) == len(operands)
    require(several, f"{opcode} of {plain(len(operands), 'operand')} gives as many results, not {shape}", "shape")
    dimensions = attributes["dimensions"]
    require(len(dimensions) == 1, f"{opcode} takes one dimension", "attribute:dimensions")
    for index, (operand, result) in enumerate(zip(operands, given, strict=True)):
        require_array(opcode, operand, index)
        if len(operands) > 1 and operand.rank == 0 and opcode.startswith("all-gather"):
            expect(opcode, result, operand)  # a scalar in place of a token, as torch-xla writes it
            continue
        in_range("dimensions", dimensions, operand.rank, f"{opcode} dimension")
        fits = result.is_array and result.element_type == operand.element_type and result.rank == operand.rank
        require(fits, f"{opcode} of {operand} cannot give {result}", "shape")
        small, large = (operand, result) if opcode.startswith("all-gather") else (result, operand)
        for dimension, (m, n) in enumerate(zip(small.dimensions, large.dimensions, strict=True)):
            scaled = dimension == dimensions[0] and (n == 0 if m == 0 else n % m == 0)
            require(m == n or scaled or UNBOUNDED in (m, n), f"{opcode} of {operand} cannot give {result}", "shape")
            if dimension == dimensions[0] and count > 1 and UNBOUNDED not in (m, n):
                message = f"{opcode} of {operand} in groups of {count} cannot give {result}"
                require(n == m * count, message, "shape")


def _gather_start(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """``(operand, result)``, or ``((operands), (results))`` of several."""
    _begins(opcode, shape, operands, several=len(operands) > 1)
    _scaled(opcode, shape.elements[1], operands, attributes)


def _begins(opcode: str, shape: Shape, operands: Sequence[Shape], several: bool) -> None:
    """The result is a tuple of the operands (in a tuple when `several`), the result, and context."""
    require_count(opcode, operands, 1)
    form = "((operands), result, ...)" if several else "(operand, result, ...)"
    require(shape.is_tuple and len(shape.elements) >= 2, f"{opcode} gives {form}, not {shape}", "shape")
    wanted = tuple_shape(operands) if several else operands[0]
    same = agree(shape.elements[0], wanted)
    require(same, f"{opcode} starts with the shape of its operands, {wanted}, not {shape.elements[0]}", "shape")


def _all_to_all(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """With a dimension, one array is split and joined along it; without, array N goes to participant N."""
    require_count(opcode, operands, 1)
    for index, operand in enumerate(operands):
        require_array(opcode, operand, index)
        require(agree(operand, operands[0]), f"{opcode} of {operands[0]} and {operand}", f"operand:{index}")
    groups = _groups(opcode, attributes)
    count = len(groups[0]) if groups else 0
    if not attributes.get("dimensions"):
        fits = not count or count == len(operands)
        message = f"{opcode} of {plain(len(operands), 'operand')} in groups of {count}"
        require(fits, message, "attribute:replica_groups")
        expect(opcode, shape, tuple_shape(operands))
        return
    require_count(opcode, operands, 1, 1)
    require(len(attributes["dimensions"]) == 1, f"{opcode} takes one dimension", "attribute:dimensions")
    (dimension,) = in_range("dimensions", attributes["dimensions"], operands[0].rank, f"{opcode} dimension")
    size = operands[0].dimensions[dimension]
    fits = not count or size == UNBOUNDED or size % count == 0
    require(fits, f"dimension {dimension} of size {size} is not split by {count}", "attribute:dimensions")
    expect(opcode, shape, operands[0])


def _ragged_all_to_all(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """Input, output, and offsets and sizes of what is sent and received."""
    source, target, *numbers = operands
    require_array(opcode, source, 0)
    require_array(opcode, target, 1)
    _groups(opcode, attributes)
    require(source.rank > 0 and target.rank > 0, f"{opcode} moves rows, {source} and {target} have none", "operand:0")
    fits = source.element_type == target.element_type and source.dimensions[1:] == target.dimensions[1:]
    require(fits, f"{opcode} of {source} into {target}", "operand:1")
    for index, one in enumerate(numbers, 2):
        fits = one.is_array and ELEMENT_TYPES[one.element_type].is_integer and agree(one, numbers[0])
        require(fits, f"offsets and sizes are integer arrays of one shape, not {one}", f"operand:{index}")
    expect(opcode, shape, target)


def _permute(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """One operand, several, or the in-place form with destination and offsets."""
    if "slice_sizes" in attributes:
        _in_place(opcode, shape, operands, attributes)
        return
    for name, side in (("source", 0), ("target", 1)):
        numbers = sorted(pair[side] for pair in attributes.get("source_target_pairs", ()))
        twice = next((a for a, b in pairwise(numbers) if a == b), None)
        require(twice is None, f"{twice} is the {name} of two pairs", "attribute:source_target_pairs")
        least = numbers[0] if numbers else 0
        require(least >= 0, f"the {name} of a pair is {least}", "attribute:source_target_pairs")
    _same(opcode, shape, operands, attributes)


def slice_sizes(attributes: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """The sizes of the slices of an in-place collective-permute, in order."""
    groups = re.findall(r"\{([\d,\s]*)\}", attributes["slice_sizes"].text)
    return [tuple(map(int, re.findall(r"\d+", group))) for group in groups]


def _in_place(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """(input, output, places in the input, places in the output), or a tuple of each; one size for each slice."""
    require_count(opcode, operands, 4, 4)
    source, target, *_ = operands
    expect(opcode, shape, target)
    several = target.is_tuple
    fits = source.is_tuple == several and all(len(o.elements) == len(target.elements) for o in operands if several)
    require(fits, f"{opcode} of {source} into {target}", "operand:1")
    sizes = iter(slice_sizes(attributes))
    part = "attribute:slice_sizes"
    for given, made, *places in zip(*(o.elements if several else (o,) for o in operands), strict=True):
        fits = given.is_array and given.element_type == made.element_type and given.rank == made.rank
        require(fits, f"{opcode} of {given} into {made}", "operand:1")
        begins, ends = (p.elements if p.elements and p.elements[0].is_tuple else (p,) for p in places)
        require(len(begins) == len(ends), f"{plain(len(begins), 'slice')} to {plain(len(ends), 'place')}", "operand:3")
        for place in (*begins, *ends):
            indices = all(e.is_scalar and ELEMENT_TYPES[e.element_type].is_integer for e in place.elements)
            fits = place.is_tuple and indices and len(place.elements) == given.rank
            require(fits, f"the place of a slice of {given} is a tuple of as many integers, not {place}", "operand:2")
        for _ in begins:
            size = next(sizes, None)
            require(size is not None and len(size) == given.rank, f"no size for a slice of {given}", part)
            limits = zip(size or (), given.dimensions, made.dimensions, strict=True)
            require(all(n <= min(a, b) for n, a, b in limits), f"a slice of {size} of {given} into {made}", part)
    require(next(sizes, None) is None, "slice_sizes has more sizes than there are slices", part)


def _permute_start(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """``(operand, result, context...)``; several operands in a tuple, and of the in-place form the input alone."""
    _begins(opcode, shape, operands, several=len(operands) > 1 and "slice_sizes" not in attributes)
    _permute(opcode, shape.elements[1], operands, attributes)


def _start(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """``((operands), result, context...)``, the result being that of the wrapped computation."""
    fits = shape.is_tuple and len(shape.elements) >= 2 and shape.elements[0].is_tuple
    require(fits, f"{opcode} gives ((operands), result, ...), not {shape}", "shape")
    same = agree(shape.elements[0], Shape("tuple", elements=tuple(operands)))
    require(same, f"{opcode} starts with its operands' shapes, not {shape.elements[0]}", "shape")
    if "calls" in attributes:
        result = attributes["calls"].root.shape
        require(agree(shape.elements[1], result), f"the computation gives {result}, not {shape.elements[1]}", "shape")
    check_aliasing(shape, operands, attributes)


def _update(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    expect(opcode, shape, operands[0])


def _done(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    started = operands[0]
    fits = started.is_tuple and len(started.elements) >= 2
    require(fits, f"{opcode} takes what a start gives, not {started}", "operand:0")
    expect(opcode, shape, started.elements[1])


# ---- other programs


def _send(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    require_token(opcode, operands[1], 1)
    expect(opcode, shape, tuple_shape([operands[0], scalar("u32"), token()]))


def _recv(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    require_token(opcode, operands[0], 0)
    require(shape.is_tuple and len(shape.elements) == 3, f"{opcode} gives (data, u32[], token[]), not {shape}", "shape")
    expect(opcode, shape, tuple_shape([shape.elements[0], scalar("u32"), token()]))


def _send_done(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """send-done gives the token, recv-done the data and the token."""
    started = operands[0]
    fits = started.is_tuple and len(started.elements) == 3 and started.elements[2].is_token
    require(fits, f"{opcode} takes (data, u32[], token[]), not {started}", "operand:0")
    expect(opcode, shape, token() if opcode == "send-done" else tuple_shape([started.elements[0], token()]))


def _infeed(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    require_token(opcode, operands[0], 0)
    fits = shape.is_tuple and len(shape.elements) == 2 and shape.elements[1].is_token
    require(fits, f"infeed gives (data, token[]), not {shape}", "shape")


def _outfeed(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    require_token(opcode, operands[1], 1)
    written = attributes.get("outfeed_shape", operands[0])
    same = agree(written, operands[0])
    require(same, f"outfeed_shape is {written}, the operand is {operands[0]}", "attribute:outfeed_shape")
    expect(opcode, shape, token())


def _custom_call(opcode: str, shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    check_border(opcode, shape, operands, attributes)
    check_aliasing(shape, operands, attributes)
    layouts, part = attributes.get("operand_layout_constraints"), "attribute:operand_layout_constraints"
    if layouts is not None:
        message = f"{plain(len(layouts), 'layout')} for {plain(len(operands), 'operand')}"
        require(len(layouts) == len(operands), message, part)
        for wanted, operand in zip(layouts, operands, strict=True):
            require(agree(wanted, operand), f"the layout of {wanted} for an operand of {operand}", part)


COLLECTIVES: dict[str, Check] = {
    "custom-call": _custom_call,
    "all-reduce": _all_reduce,
    "collective-broadcast": _broadcast,
    "all-gather": _scaled,
    "reduce-scatter": _scaled,
    "collective-permute": _permute,
    "collective-permute-start": _permute_start,
    "collective-permute-done": _done,
    "all-to-all": _all_to_all,
    "ragged-all-to-all": _ragged_all_to_all,
    "all-gather-start": _gather_start,
    "all-gather-done": _done,
    "all-reduce-start": _all_reduce,
    "all-reduce-done": _update,
    "send": _send,
    "send-done": _send_done,
    "recv": _recv,
    "recv-done": _send_done,
    "infeed": _infeed,
    "outfeed": _outfeed,
    "async-start": _start,
    "async-update": _update,
    "async-done": _done,
}
