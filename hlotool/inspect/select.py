"""Parts of a module to draw: a computation, the surroundings of an instruction, or the paths between two.

Instructions are found by name, as ``NAME`` or ``COMPUTATION/NAME``.  Get-tuple-elements and small constants take no
part: they are written on edges and into their readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

from hlotool.inspect.labels import inline_value, is_element
from hlotool.ir import Computation, InputError, Instruction, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["Selection", "between", "find_computation", "find_instruction", "near", "selected"]

_MANY = 16  # an instruction with more readers, or operands, says little about what is near
_FREE = frozenset({"bitcast", "reshape", "copy"})


@dataclass(frozen=True, slots=True)
class Selection:
    """`keep` are the instructions of `computation` to draw (None: all), `cut` those with neighbours left out."""

    computation: Computation
    keep: frozenset[Instruction] | None = None
    cut: frozenset[Instruction] = frozenset()

    def has(self, instruction: Instruction) -> bool:
        """Whether the instruction is drawn; those of other computations are."""
        return self.keep is None or instruction.parent is not self.computation or instruction in self.keep


def find_computation(module: Module, name: str) -> Computation:
    """The computation `name`; InputError suggests others."""
    found = module.computations.get(name.lstrip("%"))
    if found is None:
        raise InputError(f"there is no computation {name!r}{_hint(name, module.computations)}")
    return found


def find_instruction(module: Module, name: str) -> Instruction:
    """The instruction called `name` (or ``COMPUTATION/NAME``); InputError suggests others."""
    home, _, plain = name.rpartition("/")
    plain = plain.lstrip("%")
    places = [find_computation(module, home)] if home else module.computations.values()
    found = [i for c in places for i in c if i.name == plain]
    if not found:
        raise InputError(f"there is no instruction {name!r}{_hint(plain, (i.name for c in places for i in c))}")
    if len(found) > 1:
        choices = ", ".join(f"{i.parent.name}/{i.name}" for i in found[:4] if i.parent is not None)
        raise InputError(f"several instructions are called {name!r}: {choices}")
    return found[0]


def selected(
    module: Module, computation: str | None, around: str | None, radius: int, paths: tuple[str, str] | None
) -> Selection | None:
    """A computation, what is near an instruction, or what is between two, by name; None where nothing is named."""
    if computation is not None:
        return Selection(find_computation(module, computation))
    if around is not None:
        return near(find_instruction(module, around), radius)
    return between(*(find_instruction(module, name) for name in paths)) if paths else None


def _hint(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, list(dict.fromkeys(names)), 3)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def near(instruction: Instruction, radius: int) -> Selection:
    """What is at most `radius` edges away, against and along the flow of data.

    Views of the same bytes cost no step, and what many others read, or what reads many, is not followed to all of them.
    """
    start = _drawn(instruction)
    distance = {start: 0}
    layer = [start]
    for step in range(1, radius + 1):
        following: list[Instruction] = []
        while layer:
            one = layer.pop()
            sides = list(sources(one)), list(readers(one))
            for other in (i for side in sides if len(side) <= _MANY or one is start for i in side):
                if other not in distance:
                    free = other.opcode in _FREE
                    distance[other] = step - free
                    (layer if free else following).append(other)
        layer = following
    return _selection(start, distance)


def between(first: Instruction, second: Instruction) -> Selection:
    """All instructions on paths from the one to the other, whichever comes first; InputError when there is none."""
    if first.parent is not second.parent:
        raise InputError(f"{first.name} and {second.name} are in different computations")
    first, second = _drawn(first), _drawn(second)
    for start, end in ((first, second), (second, first)):
        ahead = _reach(start, readers)
        if end in ahead:
            return _selection(first, ahead & _reach(end, sources))
    raise InputError(f"no path leads from {first.name} to {second.name}, or back")


def _selection(start: Instruction, found: Iterable[Instruction]) -> Selection:
    keep = frozenset(found)
    cut = frozenset(one for one in keep if any(other not in keep for other in (*sources(one), *readers(one))))
    assert start.parent is not None
    return Selection(start.parent, keep, cut)


def _reach(start: Instruction, step: Callable[[Instruction], Iterator[Instruction]]) -> set[Instruction]:
    found = {start}
    stack = [start]
    while stack:
        for other in step(stack.pop()):
            if other not in found:
                found.add(other)
                stack.append(other)
    return found


def sources(instruction: Instruction) -> Iterator[Instruction]:
    """The drawn instructions that it reads."""
    for operand in (*instruction.operands, *instruction.control_predecessors):
        if inline_value(operand) is None:
            yield _drawn(operand)


def readers(instruction: Instruction) -> Iterator[Instruction]:
    """The drawn instructions that read it."""
    stack = [*instruction.users, *instruction.control_successors]
    while stack:
        user = stack.pop()
        if is_element(user):
            stack.extend(user.users)
        elif inline_value(user) is None:
            yield user


def _drawn(instruction: Instruction) -> Instruction:
    while is_element(instruction):
        instruction = instruction.operands[0]
    return instruction
