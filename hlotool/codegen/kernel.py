"""What a kernel emitter hands over: compiled-alone IR and how to run it.

Every step is an LLVM function ``void @name(ptr noalias %args, i64 %begin, i64 %end)``.  ``%args`` points to a table of
addresses, each in a slot of eight bytes whatever addresses have: the operand leaves, then the output leaves, then (when
`scratch` is not zero) one scratch buffer.  Ahead of them is the address of the execution's status.  A step works on
tasks ``begin <= t < end`` of its `tasks` independent tasks; the pool may run disjoint ranges of one step at the same
time, in any order, and starts a step only when the one before is complete.  Results must not depend on how the tasks
are split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from hlotool.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hlotool.ir import Instruction

__all__ = [
    "KERNEL_SIGNATURE", "LOOPING", "PLUMBING", "PROMOTED", "Definition", "Helper", "Kernel", "KernelCrash", "Note",
    "Step", "Uses", "inlined", "is_plumbing", "is_promoted", "signature",
]  # fmt: skip

Uses: TypeAlias = "tuple[tuple[str, int], ...]"
"""What scratch is for, in words, and bytes."""

KERNEL_SIGNATURE = "(ptr noalias %args, i64 %begin, i64 %end)"

PLUMBING = "noinline optnone"
"""Attributes of a function that mostly computes addresses and calls others: LLVM then takes the quick way to its
instructions, in a third of the time, and they are good enough for that."""

LOOPING = f'{PLUMBING} "looping"'
"""Attributes of plumbing that goes round a loop of the program: what it keeps should be kept in registers."""


PROMOTED = '"promoted"'
"""An attribute of a function whose variables LLVM is to make registers, with what it calls as a part of it."""


def is_promoted(text: str) -> bool:
    """Whether a text of LLVM IR defines such a function."""
    return f" {PROMOTED} " in text


def inlined(text: str) -> str:
    """The text of definitions whose functions are parts of those that call them."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("define "):
            head = line.removesuffix(" {").removeprefix("define ").removeprefix("internal ").replace(f" {PLUMBING}", "")
            lines[number] = f"define internal {head} alwaysinline {{"
    return "\n".join(lines)


def is_plumbing(text: str) -> bool:
    """Whether all functions that a text of LLVM IR defines, and that is some, are plumbing that does not loop."""
    count = text.startswith("define ") + text.count("\ndefine ")
    return 0 < count == text.count(f" {PLUMBING} {{\n")


def signature(name: str, plumbing: bool = False) -> str:
    """The definition line of step function `name`; `plumbing` says that others do the work for it."""
    return f"void @{name}{KERNEL_SIGNATURE} nounwind" + (f" {PLUMBING}" if plumbing else "")


class KernelCrash(Exception):  # noqa: N818
    """Kernels could not be written, or LLVM does not take them: what went wrong, by instruction."""

    def __init__(self, causes: Mapping[Instruction, Exception]) -> None:
        (name, cause), *others = [(instruction.name, cause) for instruction, cause in causes.items()]
        more = f", and {len(others)} more" if others else ""
        super().__init__(f"the kernel of {name}{more} failed: {type(cause).__name__}: {cause}")
        self.causes = causes


@dataclass(frozen=True, slots=True)
class Step:
    """One function of a kernel and its number of independent tasks.

    `cost` estimates the whole step in nanoseconds on one core; the planner runs cheap steps
    serially.  With `polls` it looks whether to go on, and may return early (`hlotool.codegen.llvm.polling`).  Where a
    task is a block of threads, it has so many.
    """

    function: str
    tasks: int = 1
    cost: float = 0.0
    polls: bool = False
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Helper:
    """Functions that kernels call and that a program holds once: what they declare, their text, how they are declared.

    Their names stand for all of their text.  What is `kept` a process compiles once, for all programs.
    """

    declarations: tuple[str, ...]
    definitions: str
    declared: str
    kept: bool = False

    @property
    def text(self) -> str:
        """It compiles alone."""
        return "\n".join([*self.declarations, self.definitions]) + "\n"


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, and how other units declare it; or data, which is private to its unit and may be a variable."""

    name: str
    text: str
    declaration: str = ""
    is_variable: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A choice that was made for a kernel: the rule of its decision, why, and the numbers behind it."""

    rule: str
    reason: str
    numbers: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """IR text (declarations, what it needs of the library, and definitions, whose names all end with the kernel's), its
    steps in order, scratch bytes, helpers that it calls, what the scratch is for, with the bytes of each part, what
    there is to say of how it works, and how much of what kind of work it does (`hlotool.analysis.performance`)."""

    declarations: Mapping[str, str]
    library: Mapping[str, str]
    definitions: tuple[Definition, ...]
    steps: tuple[Step, ...]
    scratch: int = 0
    helpers: tuple[Helper, ...] = ()
    uses: Uses = ()
    notes: tuple[Note, ...] = ()
    work: Mapping[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of its text, which compiles alone but for helpers."""
        texts = (*self.declarations.values(), *self.library.values(), *(part.text for part in self.definitions))
        return "\n".join(texts) + "\n"
