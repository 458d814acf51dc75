"""Asynchronous operations become synchronous ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import OPCODES, Instruction, Module, Shape, UnsupportedError
from hlotool.ir.builder import Builder
from hlotool.ir.devices import is_overlapped
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["AsyncToSync"]


@dataclass(frozen=True, slots=True)
class AsyncToSync:
    """Replaces the start of an asynchronous operation by the operation itself, and its end by its result.

    Copies, collectives and wrapped computations; the context values that go with them become zeros.  Collectives among
    processes that are marked to overlap (`hlotool.ir.devices.OVERLAPPED`) stay.
    """

    name: ClassVar[str] = "async-to-sync"
    opcodes: ClassVar[frozenset[str]] = frozenset(name for name, row in OPCODES.items() if "async" in row.traits)

    def run(self, module: Module, log: DecisionLog) -> bool:
        reason = "everything runs on one device, in order"
        return expand_each(module, log, self.opcodes, _synchronous, "synchronous", reason)


def _synchronous(build: Builder, instruction: Instruction) -> Instruction | None:
    rule = _RULES.get(instruction.opcode)
    if is_overlapped(instruction) or (instruction.opcode.endswith("-done") and is_overlapped(instruction.operands[0])):
        return None
    return None if rule is None else rule(build, instruction)


def _together(build: Builder, values: Sequence[Instruction]) -> Instruction:
    return values[0] if len(values) == 1 else build.tuple(values)


def _contexts(build: Builder, start: Instruction, count: int) -> list[Instruction]:
    """Zeros, and tokens, for the elements of an asynchronous value after the first `count`."""

    def nothing(shape: Shape) -> Instruction:
        if shape.is_tuple:
            return build.tuple([nothing(element) for element in shape.elements])
        if shape.is_token:
            return build.add("after-all", shape)
        if not shape.is_array:
            raise UnsupportedError(f"{start.name}: a context of {shape} has no value")
        return build.splat(0, shape)

    return [nothing(element) for element in start.shape.elements[count:]]


def _plain(build: Builder, start: Instruction, opcode: str, shape: Shape) -> Instruction:
    attributes = start.attributes
    if shape != start.shape:  # a sharding of the tuple is none of an element
        attributes = {name: value for name, value in attributes.items() if name != "sharding"}
    return build.add(opcode, shape, start.operands, attributes)


def _copy_start(build: Builder, start: Instruction) -> Instruction:
    (source,) = start.operands
    return build.tuple([build.copy(source), source, *_contexts(build, start, 2)])


def _all_reduce_start(build: Builder, start: Instruction) -> Instruction:
    return _plain(build, start, "all-reduce", start.shape)


def _with_operands(opcode: str) -> Callable[[Builder, Instruction], Instruction]:
    """For what gives (operands, results, contexts...), single ones bare."""

    def rule(build: Builder, start: Instruction) -> Instruction:
        result = _plain(build, start, opcode, start.shape.elements[1])
        return build.tuple([_together(build, start.operands), result, *_contexts(build, start, 2)])

    return rule


def _async_start(build: Builder, start: Instruction) -> Instruction:
    result = build.call(start.attributes["calls"], start.operands)
    return build.tuple([build.tuple(start.operands), result, *_contexts(build, start, 2)])


def _operand(build: Builder, done: Instruction) -> Instruction:
    return done.operands[0]


def _element(index: int) -> Callable[[Builder, Instruction], Instruction]:
    def rule(build: Builder, done: Instruction) -> Instruction:
        return build.gte(done.operands[0], index)

    return rule


_RULES: dict[str, Callable[[Builder, Instruction], Instruction]] = {
    "copy-start": _copy_start,
    "copy-done": _element(0),
    "all-reduce-start": _all_reduce_start,
    "all-reduce-done": _operand,
    "all-gather-start": _with_operands("all-gather"),
    "all-gather-done": _element(1),
    "collective-permute-start": _with_operands("collective-permute"),
    "collective-permute-done": _element(1),
    "async-start": _async_start,
    "async-update": _operand,
    "async-done": _element(1),
}
