"""All-reduce combiner: fewer and larger exchanges among devices."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import replace_with
from hlotool.passes.simplify.algebra.contraction import reducer_opcode

__all__ = ["AllReduceCombiner"]


@dataclass(frozen=True, slots=True)
class AllReduceCombiner:
    """Makes one all-reduce of several that wait for nothing of each other and have the same groups and operation.

    Devices meet once instead of several times; each element is reduced as before.  Up to `max-count` arrays, with
    `max-bytes` in all.
    """

    name: ClassVar[str] = "all-reduce-combiner"
    opcodes: ClassVar[frozenset[str]] = frozenset({"all-reduce"})
    max_count: int = 256
    max_bytes: int = 31_457_280

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in list(module.computations.values()):
            if sum(i.opcode == "all-reduce" for i in computation) < 2:
                continue
            for group in self._groups(computation):
                if len(group) > 1 and log.allow():
                    _combine(computation, group, log)
                    changed = True
        return changed

    def _groups(self, computation: Computation) -> list[list[Instruction]]:
        """The all-reduces by group, in order: none depends on another one of its group."""
        groups: list[_Exchange] = []
        open_groups: dict[Hashable, int] = {}
        needs: dict[Instruction, int] = {}  # the groups that an instruction waits for, one bit each
        for instruction in computation:
            waits = 0
            for source in (*instruction.operands, *instruction.control_predecessors):
                waits |= needs[source]
            key = _key(instruction) if instruction.opcode == "all-reduce" else None
            if key is not None:
                size = instruction.shape.byte_size
                number = open_groups.get(key)
                if number is None or self._is_full(groups[number], size) or _wait_for(groups, waits) >> number & 1:
                    number = open_groups[key] = len(groups)
                    groups.append(_Exchange())
                groups[number].members.append(instruction)
                groups[number].bytes += size
                groups[number].waits |= waits
                waits |= 1 << number
            needs[instruction] = waits
        return [group.members for group in groups]

    def _is_full(self, group: _Exchange, size: int) -> bool:
        return len(group.members) >= self.max_count or group.bytes + size > self.max_bytes


@dataclass(slots=True)
class _Exchange:
    members: list[Instruction] = field(default_factory=list)
    bytes: int = 0
    waits: int = 0


def _wait_for(groups: Sequence[_Exchange], waits: int) -> int:
    """All groups that some groups wait for, and these."""
    found, left = 0, waits
    while left:
        number = left.bit_length() - 1
        found |= 1 << number
        left = (left | groups[number].waits) & ~found
    return found


def _key(reduce: Instruction) -> Hashable | None:
    """What all-reduces have in common that can be one; None for those that stay."""
    opcode = reducer_opcode(reduce.attributes["to_apply"])
    if opcode is None or not reduce.shape.is_array or not reduce.shape.is_static:
        return None
    if reduce.control_predecessors or reduce.control_successors:
        return None
    others = [(name, str(value)) for name, value in reduce.attributes.items() if name not in ("to_apply", "channel_id")]
    with_channel = reduce.attributes.get("channel_id") is not None
    return (opcode, reduce.shape.element_type, with_channel, *sorted(others))


def _combine(computation: Computation, group: Sequence[Instruction], log: DecisionLog) -> None:
    last = group[-1]
    build = Builder(computation, last, like=last)
    operands = [member.operands[0] for member in group]
    shape = tuple_shape([member.shape for member in group])
    combined = build.add("all-reduce", shape, operands, group[0].attributes)
    elements = [build.gte(combined, number) for number in range(len(group))]
    log.rewrite("combine", group, combined, "one exchange", arrays=len(group))
    for member, element in zip(group, elements, strict=True):
        replace_with(member, element)
    computation.sort_topologically()
