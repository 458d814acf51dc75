"""What a pass changed: snapshots of a module, and the difference of two."""

from __future__ import annotations

from dataclasses import field

from hlotool.inspect.labels import shape_text
from hlotool.ir import Instruction, Literal, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.text.printer import PrintOptions, print_instruction

__all__ = ["Changes", "Snapshot", "compare", "snapshot"]

_TEXT = PrintOptions(metadata=False, layouts=False, index_comments=False, elide_above=16)
_Identity = tuple[str, str]  # computation, instruction


@dataclass(frozen=True, slots=True)
class _State:
    """What an instruction is: `text` without names, the names that it reads, and where it comes from."""

    text: str
    operands: tuple[str, ...]
    is_root: bool
    literal: Literal | None
    origins: tuple[str, ...] = field(default=(), compare=False)


Snapshot = dict[_Identity, _State]


@dataclass(frozen=True, slots=True)
class Changes:
    """Instructions of the new module against the old one; `marked` are those that a reader should look at.

    `touched` are the names (computation, instruction) of all that was added, removed or changed.
    """

    added: int
    removed: int
    changed: int
    marked: tuple[Instruction, ...]
    touched: tuple[tuple[str, str], ...]


def snapshot(module: Module) -> Snapshot:
    """The state of every instruction."""
    return {_identity(instruction): _state(instruction) for instruction in module.instructions()}


def compare(old: Snapshot, new: Snapshot, module: Module) -> Changes:
    """How `new`, the snapshot of `module`, differs from `old`.

    Marked are new and rewritten instructions; not those that moved into a fusion as they are, nor those whose operands
    were replaced by new instructions, which are marked themselves.
    """
    added = {key for key in new if key not in old}
    removed = [key for key in old if key not in new]
    changed = {key for key, state in new.items() if key in old and old[key] != state}
    names = {name for _, name in added}
    texts: dict[str, set[str]] = {}  # of all that a source instruction had become
    for (_, name), state in old.items():
        for origin in (name, *state.origins):
            texts.setdefault(origin, set()).add(state.text)
    marked = [
        instruction
        for instruction in module.instructions()
        if ((key := _identity(instruction)) in changed and _is_rewritten(old[key], new[key], names))
        or (key in added and not _is_moved(instruction, new[key], texts))
    ]
    touched = (*(key for key in new if key in added or key in changed), *removed)
    return Changes(len(added), len(removed), len(changed), tuple(marked), touched)


def _is_rewritten(old: _State, new: _State, added: set[str]) -> bool:
    if (old.text, old.is_root, old.literal, len(old.operands)) != (
        new.text,
        new.is_root,
        new.literal,
        len(new.operands),
    ):
        return True
    return any(a != b and b not in added for a, b in zip(old.operands, new.operands, strict=True))


def _is_moved(instruction: Instruction, state: _State, texts: dict[str, set[str]]) -> bool:
    if instruction.opcode == "fusion":
        return False
    return any(state.text in texts.get(origin, ()) for origin in instruction.origins)


def _identity(instruction: Instruction) -> _Identity:
    return (instruction.parent.name if instruction.parent else "", instruction.name)


def _state(instruction: Instruction) -> _State:
    text = print_instruction(instruction, _TEXT).partition(" = ")[2]
    names = tuple(operand.name for operand in instruction.operands)
    if names:
        text = text.replace(f"({', '.join(names)})", "()", 1)
    literal = instruction.literal if instruction.opcode == "constant" else None
    origins = () if instruction.opcode == "fusion" else instruction.origins
    return _State(f"{text} {shape_text(instruction.shape)}", names, instruction.is_root, literal, origins)
