"""Values that are computed where they are a part of another, so that no kernel has to copy them there.

That are operands of concatenates, and what a loop puts into an array trip by trip.  As in MLIR's One-Shot Bufferize
(destination-passing style: https://mlir.llvm.org/docs/Bufferization) the place is handed to who computes a value, but
known before anything runs.
"""

from __future__ import annotations

from collections.abc import Container
from math import prod

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.stacking import Stacking, is_handed_on, is_unread
from hlotool.codegen.plan.values import KEPT_BYTES, Assignment, Value, later, merged, overlap
from hlotool.ir import Computation, Instruction

__all__ = ["join_all", "leave_out", "stack_all"]

_FILLS = frozenset({"broadcast", "copy", "fusion", "iota"})
"""What initial states are that nobody reads: kernels of their own without effects."""


def join_all(
    result: Assignment, joins: list[Instruction], root: Instruction, log: DecisionLog, grain: int = 1
) -> None:
    """Let operands of concatenates be computed in the part of the result that they are, so that nothing is copied: of
    those that begin at a multiple of `grain` bytes.

    The result is then alive from the first of them on, and an operand that others read too as long as they do.
    """
    several = _joined(result) | result.swapped(result.swaps)
    results = {value.find() for value in result.leaves[root]}
    for join in joins:
        (whole,) = result.leaves[join]
        position = result.positions[join]
        own, start = whole.find(), 0
        free = own.writable and own not in several
        spans = list(own.intervals)
        there: list[int] = []
        for number, operand in enumerate(join.operands):
            (value,) = result.leaves[operand]
            part = value.find()
            size = operand.shape.byte_size
            rule, reason = _obstacle(join, operand, part)
            if not rule and start % grain:
                rule, reason = "operand-scattered", f"it would begin at no multiple of {grain} bytes"
            if not rule and (part in results or part.claim is not None):
                rule, reason = "operand-needed", "it is a result of the program too"
            alone = free and part not in several
            if not rule and not alone and part.intervals[-1][1] > position:
                rule, reason = "operand-needed", "its storage is used after the concatenate"
            elif not rule and not alone and overlap(part.intervals, later(own.intervals, position)):
                rule, reason = "operand-needed", "the storage of the result holds something else while it is computed"
            if rule:
                log.refuse(rule, [operand, join], f"{reason}: it is copied into {join.name}", bytes=size)
            else:
                part.whole, part.start = own, start
                spans += part.intervals
                there.append(number)
                log.note("operand-in-place", [operand, join], "it is computed where it is to be", bytes=size)
            start += size
        if there:
            own.intervals = merged(spans)
            result.there[join] = frozenset(there)


def stack_all(
    result: Assignment, found: list[Stacking], small: Container[Computation], log: DecisionLog
) -> None:  # fmt: skip
    """Let what a loop puts into an array trip by trip be computed there, if its place is known in time.

    In `small` loops registers are the better place for what fits into some.
    """
    makers: dict[Value, Instruction] = {}  # what writes to storage first
    for instruction, values in result.leaves.items():
        for value in values:
            makers.setdefault(value.storage(), instruction)
    latest = {value.find(): value for value in result.values}
    swapped = result.swapped(result.swaps)
    for stacking in found:
        by, source = stacking.by, stacking.source
        if by is None or source is None or not stacking.is_run or by.parent is None:
            continue
        (value,), (whole,), (array,) = (result.leaves[i] for i in (source, by, stacking.array))
        if by.parent in small and value.size <= KEPT_BYTES:
            continue
        part, own, position = value.find(), whole.find(), result.positions[by]
        if not part.writable or part.parameter is not None or part.claim is not None:
            continue
        maker = makers[part]
        if (
            own is not array.find()
            or not is_handed_on(by, by.parent.root)
            or maker.parent is not by.parent
            or maker.opcode in ("parameter", "constant", "while", "conditional", "call")
            or any(_position(result, start) >= result.positions[maker] for start in stacking.starts)
            or part.size != source.shape.byte_size
            or (part.intervals[-1][1] > position and (latest[part] is not value or part in swapped))
        ):
            continue
        part.whole = own
        own.intervals = merged([*own.intervals, *part.intervals])
        result.targets.setdefault(maker, []).append((value, stacking))
        result.there[by] = frozenset({1})
        log.note("row-in-place", [source, by], "it is computed where it is stacked", bytes=part.size)


def _position(result: Assignment, index: Instruction) -> int:
    """From when on an index is known: constants always are."""
    return -1 if index.opcode == "constant" else result.positions[index]


def _obstacle(join: Instruction, operand: Instruction, part: Value) -> tuple[str, str]:
    """Why an operand of a concatenate cannot be a part of the result, as a rule and words; empty where it can."""
    if prod(join.shape.dimensions[: join.attributes["dimensions"][0]]) != 1:
        return "operand-scattered", "its rows do not lie side by side in the result"
    if not operand.shape.size or part.size != operand.shape.byte_size:
        return "operand-needed", "it shares storage with something of another size"
    if part.constant is not None or part.parameter is not None:
        return "operand-given", "it is a constant or argument of the program"
    if part.whole is not None:
        return "operand-part", "it is a part of something else"
    return "", ""


def leave_out(result: Assignment, log: DecisionLog) -> None:
    """Initial values that a loop overwrites, and that are there for nothing else, take neither time nor space."""
    several = _joined(result)
    for loop, elements in result.stacked.items():
        state = loop.operands[0]
        for index in sorted(elements) if state.opcode == "tuple" else ():
            initial = state.operands[index]
            if initial.opcode not in _FILLS or initial in result.unread or not is_unread(initial, result.stacked):
                continue
            result.unread.add(initial)
            log.note("initial-unread", [initial, loop], "the loop writes all of it", bytes=initial.shape.byte_size)
            for value in result.leaves[initial]:
                if value.writable and value.parent is value and value not in several:
                    value.intervals = []


def _joined(result: Assignment) -> set[Value]:
    """Storage of more than one value."""
    return {value.find() for value in result.values if value.find() is not value}
