"""What would take less memory: arguments to donate, and values that wait at the peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlotool.analysis.donation import Donate, buffer_donors, donation_of
from hlotool.codegen.machine import Machine
from hlotool.codegen.program import Program, build
from hlotool.inspect.memory import Buffer, BufferPlan, peak_buffers, peak_position
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["Donatable", "Waiting", "donatable", "donates_less", "waiting"]

_WORTH = 0.05  # of the peak


@dataclass(frozen=True, slots=True)
class Donatable:
    """A result that may take the memory of an argument which is given up: parameter `number`, called `name`.

    `leaf` is the number of the array among all arguments; `bytes` are those of the result.
    """

    result: int
    number: int
    leaf: int
    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A buffer that is alive at the peak, though nothing reads or writes it between two instructions."""

    buffer: Buffer
    after: str
    until: str


def donatable(module: Module, machine: Machine, given: Mapping[int, int]) -> tuple[list[Donatable], int]:
    """The results that could take over arguments that are not `given` yet, and how many bytes of the arena, results
    and arguments together that saves: the program is planned once more, with all arguments donated."""
    program = build(module, machine, donation_of(module, range(len(module.entry.parameters))))
    owners = [
        (number, parameter.name)
        for number, parameter in enumerate(module.entry.parameters)
        for leaf in parameter.shape.leaves()
        if leaf.is_array
    ]
    found = [
        Donatable(result, *_owner(owners, leaf), program.outputs[result].byte_size)
        for result, leaf in sorted(program.assignment.aliases.items())
        if given.get(result) != leaf
    ]
    return found, _taken(program)


def _owner(owners: Sequence[tuple[int, str]], leaf: int) -> tuple[int, int, str]:
    number, name = owners[leaf]
    return number, leaf, name


def _taken(program: Program) -> int:
    """Bytes of the arena and of results that lie in no argument."""
    aliases = program.assignment.aliases
    results = sum(shape.byte_size for number, shape in enumerate(program.outputs) if number not in aliases)
    return program.assignment.arena_bytes + results


def donates_less(module: Module, donate: Donate) -> bool:
    """Whether the module declares donations that nobody makes."""
    declared = module.attributes.get("input_output_alias", ()) or buffer_donors(module)
    return bool(declared) and not donate


def waiting(plan: BufferPlan, peak_bytes: int) -> list[Waiting]:
    """The temporaries that wait while the arena is fullest, largest first, where they are a part of `peak_bytes` that
    is worth a thought.  Computed later, or again, they would lower that peak by as much as they take, at best."""
    at = peak_position(plan)
    found = []
    for buffer in peak_buffers(plan):
        if buffer.kind != "temporary" or buffer.size < _WORTH * peak_bytes:
            continue
        before = [name for position, name in buffer.touches if position // 2 < at // 2]
        after = [name for position, name in buffer.touches if position // 2 > at // 2]
        if before and after and len(before) + len(after) == len(buffer.touches):
            found.append(Waiting(buffer, before[-1], after[0]))
    return found
