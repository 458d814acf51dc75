"""What a rule is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hlotool.ir import Instruction
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass

__all__ = ["Finding", "Rule", "module_text", "replaced"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A smell: the instruction that it is about, what is wrong with it, and what to do (`hint`).

    `fix` makes a value, with a builder that adds instructions ahead of this one, for all users of the instruction to
    read instead: the same one or a better one.  None where people have to decide.
    """

    instruction: Instruction
    message: str
    hint: str
    fix: Callable[[Builder], Instruction] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule, and what ``hlotool explain`` says about it.

    `find` is given each instruction that has one of the `opcodes` and gives what is wrong with it, if anything is.
    What a `note` finds is often right as it is: nobody is told who does not ask.  `wrong` has this smell, `right` none.
    """

    code: str
    name: str
    title: str
    meaning: str
    opcodes: frozenset[str]
    find: Callable[[Instruction], Iterable[Finding]]
    wrong: str
    right: str
    note: bool = False


def replaced(finding: Finding) -> None:
    """Apply the fix of a finding; what nobody reads any more stays, to be removed."""
    old = finding.instruction
    assert finding.fix is not None
    assert old.parent is not None
    new = finding.fix(Builder(old.parent, old, old))
    if new is not old:
        old.replace_all_uses(new)


def module_text(body: str, before: str = "") -> str:
    """A module with one computation, for examples."""
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return f"HloModule example\n\n{before}ENTRY main {{\n{lines}\n}}\n"
