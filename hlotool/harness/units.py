"""Unit tests of a model: each of its instructions as a module of its own, equal ones once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from hlotool.ir import Computation, HloError, Instruction, Module
from hlotool.ir.cut import Cut, cut
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.text.fingerprint import content_hash
from hlotool.text.printer import print_module

__all__ = ["LeftOut", "Unit", "unit_text", "units"]

_PLUMBING = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "opt-barrier", "after-all", "add-dependency"}
)
_LARGEST_CONSTANT = 64  # elements of constants that tell one unit from another; larger ones are inputs


@dataclass(slots=True)
class Unit:
    """A module that stands for all `sources`, the first of which it was cut out of."""

    name: str
    sha256: str
    cut: Cut
    sources: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An instruction that is no module of its own, and why."""

    instruction: Instruction
    reason: str


def units(module: Module) -> tuple[list[Unit], list[LeftOut]]:
    """The units of a module in the order of its text, and what cannot be one.

    Instructions in fusions, and in what reductions, sorts and the like apply, are parts of the units of those.
    """
    found: dict[str, Unit] = {}
    left_out: list[LeftOut] = []
    for instruction in _candidates(module):
        try:
            made = cut([instruction], copied=lambda constant: constant.shape.is_array
                       and constant.shape.size <= _LARGEST_CONSTANT)  # fmt: skip
            check(made.module)
        except HloError as error:
            left_out.append(LeftOut(instruction, error.diagnostics[0].message if error.diagnostics else str(error)))
            continue
        digest = content_hash(made.module)
        if digest not in found:
            name = f"{instruction.written}-{digest[:12]}"
            made.module.name = name
            found[digest] = Unit(name, digest, made)
        found[digest].sources.append(instruction)
    return list(found.values()), left_out


def unit_text(unit: Unit, file: str, inputs: str | None = None) -> str:
    """The unit as a file that ``hlotool check`` takes, on the arrays in the file `inputs` if that is given."""
    first = unit.sources[0]
    given = f" inputs={inputs}" if inputs is not None else ""
    others = f" and {len(unit.sources) - 1} more" if len(unit.sources) > 1 else ""
    head = f"// {first.name}{others} of {' '.join(file.split())}.\n// CHECK-EQUAL evaluate{given}\n"
    return f"{head}\n{print_module(unit.cut.module)}"


def _candidates(module: Module) -> Iterator[Instruction]:
    """Instructions of the entry, and of the computations that loops, branches and calls run."""
    seen: set[Computation] = set()
    stack = [module.entry]
    while stack:
        computation = stack.pop()
        if computation in seen:
            continue
        seen.add(computation)
        inner: list[Computation] = []
        for instruction in computation:
            if instruction.opcode not in _PLUMBING:
                yield instruction
            if instruction.opcode in ("while", "conditional", "call"):
                inner += instruction.called
        stack += reversed(inner)
