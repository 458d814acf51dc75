"""Reduce-scatter creator: who reads its own part of a sum alone need not be sent the whole of it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import HloError, Instruction, Module
from hlotool.ir.devices import Topology, device_groups, topology_of
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import places
from hlotool.passes.framework.graph import drop_dead, replace_with

__all__ = ["ReduceScatterCreator"]

_FROM_NUMBERS = frozenset({"elementwise", "data-movement", "gather"})


@dataclass(frozen=True, slots=True)
class ReduceScatterCreator:
    """Makes a reduce-scatter of an all-reduce of which every device reads one part alone, by a dynamic-slice.

    Device number n of its group has to read part n along one dimension.  Where that is cut is computed for each
    device from ``partition-id`` and ``replica-id``, through as many as `max-steps` instructions, tables included, for
    as many as `max-devices`.  A part is reduced as it was in the whole: the bits are the same.
    """

    name: ClassVar[str] = "reduce-scatter-creator"
    opcodes: ClassVar[frozenset[str]] = frozenset({"all-reduce"})
    max_steps: int = 32
    max_devices: int = 1024

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        topology = topology_of(module)
        for build, reduce in places(module, log, self.opcodes):
            if not reduce.shape.is_array or not reduce.shape.is_static or reduce.is_root:
                continue
            if len(reduce.users) != 1 or reduce.control_predecessors or reduce.control_successors:
                continue
            (part,) = reduce.users
            if part.opcode != "dynamic-slice" or part.operands[0] is not reduce:
                continue
            dimension = _cut_dimension(reduce, part)
            if dimension is None:
                log.refuse("several-dimensions", part, "it does not cut one dimension alone")
                continue
            why = self._misfit(reduce, part, dimension, topology)
            if why:
                log.refuse("other-part", part, why)
                continue
            attributes = {**reduce.attributes, "dimensions": (dimension,)}
            attributes.pop("sharding", None)
            result = build.add("reduce-scatter", part.shape, reduce.operands, attributes)
            log.rewrite("scatter", (reduce, part), result, "a device reads its own part alone",
                        bytes_before=reduce.shape.byte_size, bytes_after=part.shape.byte_size)  # fmt: skip
            starts = part.operands[1:]
            replace_with(part, result)
            drop_dead(reduce)
            if reduce.parent is not None:  # collectives are not removed as dead: it is what became the new one
                reduce.parent.erase(reduce)
            for start in dict.fromkeys(starts):
                _drop_numbers(start)
            changed = True
        return changed

    def _misfit(self, reduce: Instruction, part: Instruction, dimension: int, topology: Topology) -> str:
        """Why a device does not read the part of its number; an empty text where each does."""
        groups = device_groups(reduce, topology)
        count = len(groups[0])
        size = part.shape.dimensions[dimension]
        if topology.devices > self.max_devices:
            return "there are more devices than max-devices"
        if any(len(group) != count for group in groups) or size * count != reduce.shape.dimensions[dimension]:
            return "a part is not what a device of its group would get"
        order = _leading_to(part.operands[1:], self.max_steps)
        if order is None:
            return "where it is cut does not follow from the number of the device"
        for group in groups:
            for number, device in enumerate(group):
                starts = _starts(order, part, device, topology)
                if starts is None:
                    return "where it is cut cannot be computed"
                bounds = zip(starts, reduce.shape.dimensions, part.shape.dimensions, strict=True)
                clamped = [min(max(0, at), whole - cut) for at, whole, cut in bounds]
                if clamped != [number * size if d == dimension else 0 for d in range(len(clamped))]:
                    return f"device {device} reads another part than number {number}"
        return ""


def _cut_dimension(reduce: Instruction, part: Instruction) -> int | None:
    """The dimension of which `part` has less, if there is just one."""
    pairs = zip(reduce.shape.dimensions, part.shape.dimensions, strict=True)
    cut = [d for d, (whole, size) in enumerate(pairs) if whole != size]
    return cut[0] if len(cut) == 1 else None


def _leading_to(values: tuple[Instruction, ...] | list[Instruction], limit: int) -> list[Instruction] | None:
    """What `values` are computed from, operands first; None where that is much, or more than device numbers."""
    found: dict[Instruction, None] = {}
    stack = [(value, False) for value in values]
    while stack:
        instruction, ready = stack.pop()
        if instruction in found:
            continue
        known = instruction.opcode in ("constant", "partition-id", "replica-id", "iota")
        if not known and (instruction.info.group not in _FROM_NUMBERS or instruction.called):
            return None
        if ready or not instruction.operands:
            if not known and not instruction.operands:
                return None
            found[instruction] = None
        else:
            stack.append((instruction, True))
            stack.extend((operand, False) for operand in instruction.operands)
        if len(found) + len(stack) > 4 * limit or len(found) > limit:
            return None
    return list(found)


def _starts(order: list[Instruction], part: Instruction, device: int, topology: Topology) -> list[int] | None:
    """Where `part` begins on a device."""
    from hlotool.evaluate import evaluate_instruction

    values: dict[Instruction, object] = {}
    try:
        for instruction in order:
            if instruction.opcode == "partition-id":
                values[instruction] = np.array(device % topology.partitions, np.uint32)
            elif instruction.opcode == "replica-id":
                values[instruction] = np.array(device // topology.partitions, np.uint32)
            elif instruction.opcode == "constant":
                values[instruction] = instruction.literal.value()
            else:
                operands: list[object] = [values[operand] for operand in instruction.operands]
                values[instruction] = evaluate_instruction(instruction, operands)  # type: ignore[arg-type]
        return [int(values[start]) for start in part.operands[1:]]  # type: ignore[call-overload]
    except (HloError, TypeError, ValueError):
        return None


def _drop_numbers(start: Instruction) -> None:
    """Erase what computed a start, device numbers too, where nothing else reads it."""
    stack = [start]
    while stack:
        current = stack.pop()
        if current.parent is None or current.users or current.is_root or current.opcode == "parameter":
            continue
        operands = list(dict.fromkeys(current.operands))
        current.parent.erase(current)
        stack.extend(operands)
