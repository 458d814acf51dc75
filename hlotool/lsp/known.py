"""What is known of a text that was read: its modules, and what the analyses say of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.value_ranges import Range, ranges
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.lsp.document import Document
from hlotool.lsp.scan import NOWHERE, Part
from hlotool.text.sources import Sources

__all__ = ["Facts", "Found", "Known"]


@dataclass(frozen=True, slots=True)
class Found:
    """An instruction, and what is known of its module."""

    instruction: Instruction
    facts: Facts


class Facts:
    """What is known of a module; what takes time, once somebody asks."""

    def __init__(self, module: Module, is_valid: bool) -> None:
        self.module = module
        self.is_valid = is_valid
        self._ranges: dict[Computation, dict[Instruction, Range]] = {}

    @cached_property
    def cost(self) -> ModuleCost:
        return ModuleCost(self.module)

    def range_of(self, instruction: Instruction) -> Range | None:
        """Between which bounds the elements of an instruction surely lie."""
        computation = instruction.parent
        if computation is None:
            return None
        if computation not in self._ranges:
            self._ranges[computation] = ranges(computation)
        return self._ranges[computation].get(instruction)

    @cached_property
    def sources(self) -> Sources:
        return Sources(self.module)

    @cached_property
    def instructions(self) -> dict[tuple[str, str], Instruction]:
        """By the names of computation and instruction."""
        found: dict[tuple[str, str], Instruction] = {}
        for computation in self.module.computations.values():
            for instruction in computation:
                found.setdefault((computation.name, instruction.name), instruction)
        return found


class Known:
    """The modules of a text.  The text of a document may have changed since, which is why names say what is meant.

    `valid` says which of them have no errors: of others neither costs nor values are known, and they may have opcodes
    and attributes that do not exist.
    """

    def __init__(self, modules: Sequence[Module], valid: Sequence[bool]) -> None:
        self.modules = tuple(modules)
        self.facts = tuple(map(Facts, modules, valid))
        self.is_whole = all(valid)

    def instruction(self, document: Document, part: Part) -> Found | None:
        """The instruction that the name `part` stands for."""
        return self.named(document, part.scope, document.word(part))

    def named(self, document: Document, scope: int, name: str) -> Found | None:
        """The instruction `name` of a computation of the document."""
        facts = self._facts(document, scope)
        if facts is None:
            return None
        computation = document.scan.scopes[scope].name if scope != NOWHERE else ""
        if not computation:
            return self._unnamed(document, scope, facts, name)
        found = facts.instructions.get((computation, name))
        return Found(found, facts) if found is not None else None

    def computation(self, document: Document, part: Part) -> tuple[Computation, Facts] | None:
        """The computation that the name `part` stands for, and what is known of its module."""
        facts = self._facts(document, part.scope)
        if facts is None:
            return None
        found = facts.module.computations.get(document.word(part))
        return (found, facts) if found is not None else None

    def _facts(self, document: Document, scope: int) -> Facts | None:
        """The facts of the module in which a scope is: texts without computations are no modules."""
        scopes = document.scan.scopes
        if not 0 <= scope < len(scopes):
            return None
        numbers = sorted({one.module for one in scopes})
        at = numbers.index(scopes[scope].module)
        return self.facts[at] if at < len(self.facts) else None

    def _unnamed(self, document: Document, scope: int, facts: Facts, name: str) -> Found | None:
        """An instruction of a computation that the text does not name: the one whose place is in it."""
        first, last = (document.position(at)[0] + 1 for at in (document.scan.scopes[scope].start,
                                                               document.scan.scopes[scope].end))  # fmt: skip
        for (_, other), instruction in facts.instructions.items():
            place = instruction.location
            if other == name and place is not None and first <= place.line <= last:
                return Found(instruction, facts)
        return None
