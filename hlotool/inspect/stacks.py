"""Stacks of measured times, for flame graphs: by the program's structure, its op_names, or its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from hlotool.inspect.scopes import scope_of
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.text.sources import Sources

__all__ = ["Timed", "by_op_name", "by_source", "by_structure", "source_text"]

Stack = tuple[str, ...]
Stacks = dict[Stack, float]


@dataclass(frozen=True, slots=True)
class Timed:
    """`seconds` of `instruction`, or in `computation` where that is None; `parts` are seconds inside of a fusion, of
    None for what is no instruction's, and `how` says how they are known."""

    computation: str
    instruction: Instruction | None
    name: str
    seconds: float
    parts: tuple[tuple[Instruction | None, float], ...] = ()
    how: str = ""


def by_structure(module: Module, rows: Sequence[Timed]) -> Stacks:
    """Loops, branches and called computations, the instruction, and what a fusion holds."""
    callers = module.callers()
    paths: dict[Computation, Stack] = {module.entry: ()}

    def path(computation: Computation) -> Stack:
        chain: list[Computation] = []
        while computation not in paths:
            chain.append(computation)
            above = callers.get(computation, [])
            if len(above) != 1 or above[0].parent is None or above[0].parent in chain:  # called from several places
                paths[chain.pop()] = (computation.name,)
                break
            computation = above[0].parent
        for one in reversed(chain):
            caller = callers[one][0]
            assert caller.parent is not None
            paths[one] = (*paths[caller.parent], caller.name)
        return paths[(chain or [computation])[0]]

    found: Stacks = {}
    for row in rows:
        computation = module.computations.get(row.computation)
        above = (row.computation,) if computation is None else path(computation)
        for instruction, seconds in _split(row):
            how = f" [{row.how}]" if row.how else ""
            own = () if instruction is row.instruction else (_part_name(instruction) + how,)
            _add(found, (*above, row.name, *own), seconds)
    return found


def by_op_name(rows: Sequence[Timed]) -> Stacks:
    """The scopes of ``op_name``, of what is inside of fusions, too."""

    def stack(instruction: Instruction) -> Stack:
        name = instruction.metadata.op_name if instruction.metadata is not None else ""
        return (*scope_of(name), name.rpartition("/")[2]) if name else ()

    return _by(rows, stack)


def by_source(module: Module, rows: Sequence[Timed]) -> Stacks:
    """The calls in the user's program that lead to an instruction."""
    sources = Sources(module)

    def stack(instruction: Instruction) -> Stack:
        return tuple(
            f"{function} ({PurePath(place.file).name}:{place.line})" if function else f"{place.file}:{place.line}"
            for function, place in sources.stack(instruction)
        )

    return _by(rows, stack)


def source_text(sources: Sources, instruction: Instruction) -> str:
    """``file:line``, or an empty text."""
    written = sources.of(instruction)
    return f"{written.file}:{written.line}" if written is not None else ""


def _by(rows: Sequence[Timed], stack: Callable[[Instruction], Stack]) -> Stacks:
    """Stacks of what names say; what is inside of a fusion and has no name has the fusion's."""
    found: Stacks = {}
    for row in rows:
        outer = stack(row.instruction) if row.instruction is not None else ()
        for instruction, seconds in _split(row):
            _add(found, (stack(instruction) if instruction is not None else ()) or outer or ("(no metadata)",), seconds)
    return found


def _split(row: Timed) -> list[tuple[Instruction | None, float]]:
    return [*row.parts] or [(row.instruction, row.seconds)]


def _part_name(instruction: Instruction | None) -> str:
    if instruction is None:
        return "(loads, stores, loops)"
    return f"read {instruction.name}" if instruction.opcode == "parameter" else instruction.name


def _add(found: Stacks, stack: Stack, seconds: float) -> None:
    found[stack] = found.get(stack, 0.0) + seconds
