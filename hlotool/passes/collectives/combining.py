"""What the combiners of collectives share: which of them can be one, and how they become it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import replace_with

__all__ = ["Key", "attributes_key", "combine_all"]

Key = Callable[[Instruction], Hashable | None]
"""What collectives have in common that can be one; None for those that stay."""


def combine_all(
    module: Module, log: DecisionLog, opcode: str, key: Key, *, max_count: int, max_bytes: int
) -> bool:
    """Make one collective of those with `opcode` and equal keys of which none waits for another one; whether any was.

    Up to `max_count` arrays become one, with `max_bytes` in all: of the larger of what a device gives and gets.
    """
    changed = False
    for computation in list(module.computations.values()):
        if sum(i.opcode == opcode for i in computation) < 2:
            continue
        for group in _groups(computation, opcode, key, max_count, max_bytes):
            if len(group) > 1 and log.allow():
                _combine(computation, group, log)
                changed = True
    return changed


def attributes_key(collective: Instruction, besides: Sequence[str] = ()) -> Hashable | None:
    """The attributes of a collective of one static array, `besides` some; None for any other collective."""
    (*_, operand) = collective.operands
    if len(collective.operands) != 1 or not collective.shape.is_array:
        return None
    if not (collective.shape.is_static and operand.shape.is_static):
        return None
    if collective.control_predecessors or collective.control_successors:
        return None
    skipped = {"channel_id", *besides}
    others = [(name, str(value)) for name, value in collective.attributes.items() if name not in skipped]
    return (collective.attributes.get("channel_id") is not None, *sorted(others))


@dataclass(slots=True)
class _Exchange:
    members: list[Instruction] = field(default_factory=list)
    bytes: int = 0
    waits: int = 0


def _groups(
    computation: Computation, opcode: str, key_of: Key, max_count: int, max_bytes: int
) -> list[list[Instruction]]:
    """The collectives by group, in order: none depends on another one of its group."""
    groups: list[_Exchange] = []
    open_groups: dict[Hashable, int] = {}
    needs: dict[Instruction, int] = {}  # the groups that an instruction waits for, one bit each
    for instruction in computation:
        waits = 0
        for source in (*instruction.operands, *instruction.control_predecessors):
            waits |= needs[source]
        key = key_of(instruction) if instruction.opcode == opcode else None
        if key is not None:
            size = max(instruction.shape.byte_size, instruction.operands[0].shape.byte_size)
            number = open_groups.get(key)
            is_full = number is not None and (
                len(groups[number].members) >= max_count or groups[number].bytes + size > max_bytes
            )
            if number is None or is_full or _wait_for(groups, waits) >> number & 1:
                number = open_groups[key] = len(groups)
                groups.append(_Exchange())
            groups[number].members.append(instruction)
            groups[number].bytes += size
            groups[number].waits |= waits
            waits |= 1 << number
        needs[instruction] = waits
    return [group.members for group in groups]


def _wait_for(groups: Sequence[_Exchange], waits: int) -> int:
    """All groups that some groups wait for, and these."""
    found, left = 0, waits
    while left:
        number = left.bit_length() - 1
        found |= 1 << number
        left = (left | groups[number].waits) & ~found
    return found


def _combine(computation: Computation, group: Sequence[Instruction], log: DecisionLog) -> None:
    first, last = group[0], group[-1]
    build = Builder(computation, last, like=last)
    operands = [member.operands[0] for member in group]
    shape = tuple_shape([member.shape for member in group])
    combined = build.add(first.opcode, shape, operands, first.attributes)
    elements = [build.gte(combined, number) for number in range(len(group))]
    log.rewrite("combine", group, combined, "one exchange", arrays=len(group))
    for member, element in zip(group, elements, strict=True):
        replace_with(member, element)
    computation.sort_topologically()
