"""Families: modules that are one program, written for several sizes.

Modules of a family have the same instructions in the same order; dimensions, numbers in attributes and constants may
differ.  Numbers that are equal in all members are fixed.  Those that differ have a slot each, which numbers share that
are equal in every member.  What a slot is in terms of the sizes does not matter: it is read off each member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from hlotool.ir import Computation, Instruction, Module, Shape
from hlotool.ir.literal import Literal
from hlotool.lazy_dataclass import dataclass

__all__ = ["DifferentError", "Family", "Member", "Row", "family_of", "member_of", "place_of", "rows_of"]


class DifferentError(Exception):
    """A module is of another family: `instruction` is the first that differs, `numbers` whether in a number only."""

    def __init__(self, instruction: Instruction, what: str, numbers: bool = False) -> None:
        super().__init__(what)
        self.instruction = instruction
        self.what = what
        self.numbers = numbers


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """An instruction in parts: `form` is what is equal throughout a family, `numbers` what may differ.

    `where` says which of the numbers are whose: those of the ``shape`` come first, then those of the attributes.
    """

    instruction: Instruction
    form: Any
    numbers: tuple[int, ...]
    where: Mapping[str, range]


def rows_of(module: Module) -> list[Row]:
    """All instructions, computation by computation as they are called from the entry."""
    order: dict[Computation, int] = {module.entry: 0}
    work = [module.entry]
    rows: list[Row] = []
    for computation in work:  # which grows
        places = {instruction: n for n, instruction in enumerate(computation)}
        for instruction in computation:
            for called in instruction.called:
                if called not in order:
                    order[called] = len(order)
                    work.append(called)
            rows.append(_row(instruction, places, order))
        rows.append(Row(computation.root, ("root", places[computation.root]), (), {}))
    return rows


def _row(instruction: Instruction, places: Mapping[Instruction, int], order: Mapping[Computation, int]) -> Row:
    numbers: list[int] = []
    where: dict[str, range] = {}
    form: list[Any] = [instruction.opcode, *[places[one] for one in instruction.operands]]
    parts: list[tuple[str, Any]] = [("shape", instruction.shape)]
    parts += [one for one in sorted(instruction.attributes.items()) if one[0] != "literal"]
    for name, value in parts:
        first = len(numbers)
        form.append((name, _apart(value, numbers, order)))
        where[name] = range(first, len(numbers))
    return Row(instruction, tuple(form), tuple(numbers), where)


def _apart(value: Any, numbers: list[int], order: Mapping[Computation, int]) -> Any:
    """The form of a value, whose numbers are added to `numbers`."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        numbers.append(value)
        return int
    if isinstance(value, Shape):
        if value.elements:
            return tuple(_apart(one, numbers, order) for one in value.elements)
        numbers += value.dimensions
        return value.element_type, len(value.dimensions)
    if isinstance(value, (tuple, list)):
        return tuple(_apart(one, numbers, order) for one in value)
    if isinstance(value, Computation):
        return "computation", order[value]
    if is_dataclass(value):
        return type(value), *(_apart(getattr(value, field.name), numbers, order) for field in fields(value))
    return value


def place_of(instruction: Instruction) -> str:
    """``FILE:LINE: `` of the program that asked for an instruction; nothing where it does not say."""
    data = instruction.metadata
    return f"{data.source_file}:{data.source_line}: " if data is not None and data.source_file else ""


@dataclass(frozen=True, slots=True)
class Member:
    """What a module has in the slots of its family, and in constants that differ."""

    sizes: tuple[int, ...]
    constants: tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """What modules have in common.  The first one is the pattern: no dimension of another one is larger than there.

    `slots` has the slot of every number of every row, None where it is fixed; `hoisted` are the constants that differ.
    """

    rows: list[Row]
    slots: list[tuple[int | None, ...]]
    hoisted: list[int]
    count: int
    known: dict[Instruction, int]


def family_of(modules: Sequence[Module]) -> Family:
    """The family of several modules; `DifferentError` where they are none."""
    listed = [rows_of(one) for one in modules]
    first = listed[0]
    for other in listed[1:]:
        _same_form(first, other)
    names: dict[tuple[int, ...], int] = {}
    slots: list[tuple[int | None, ...]] = []
    hoisted: list[int] = []
    for n, row in enumerate(first):
        own: list[int | None] = []
        for vector in zip(*(rows[n].numbers for rows in listed), strict=True):
            own.append(None if len(set(vector)) == 1 else names.setdefault(vector, len(names)))
        slots.append(tuple(own))
        if row.instruction.opcode == "constant" and row.form[0] == "constant":
            held = [_bits(rows[n].instruction.literal) for rows in listed]
            if any(one != held[0] for one in held):
                hoisted.append(n)
    found = Family(first, slots, hoisted, len(names), {row.instruction: n for n, row in enumerate(first) if row.where})
    for other in listed[1:]:
        _read(found, other)
    return found


def member_of(family: Family, module: Module) -> Member:
    """What another module has in the slots; `DifferentError` where it is of another family."""
    rows = rows_of(module)
    _same_form(family.rows, rows)
    return _read(family, rows)


def _same_form(first: Sequence[Row], other: Sequence[Row]) -> None:
    for one, two in zip(first, other, strict=False):
        if one.form != two.form:
            a, b = one.instruction, two.instruction
            what = f"{a.opcode} of {a.shape}" if a.opcode == b.opcode else f"{a.opcode}, and {b.opcode} instead"
            raise DifferentError(b if place_of(b) else a, what)
    if len(first) != len(other):
        longer = first if len(first) > len(other) else other
        raise DifferentError(longer[min(len(first), len(other))].instruction, "more instructions")


def _read(family: Family, rows: Sequence[Row]) -> Member:
    sizes: list[int | None] = [None] * family.count
    for base, slots, row in zip(family.rows, family.slots, rows, strict=True):
        for number, slot, wanted in zip(row.numbers, slots, base.numbers, strict=True):
            if slot is None:
                if number != wanted:
                    raise DifferentError(row.instruction, f"{row.instruction.opcode} has {number} for {wanted}", True)
            elif sizes[slot] is None:
                sizes[slot] = number
            elif sizes[slot] != number:
                raise DifferentError(row.instruction, f"{row.instruction.opcode} has another size", True)
        for n in row.where.get("shape", ()):
            if row.numbers[n] > base.numbers[n]:
                raise DifferentError(row.instruction, f"{row.instruction.opcode} is larger than at the bounds")
    constants: list[np.ndarray[Any, Any]] = []
    hoisted = set(family.hoisted)
    for n, (base, row) in enumerate(zip(family.rows, rows, strict=True)):
        if row.instruction.opcode != "constant" or row.form[0] != "constant":
            continue
        if n in hoisted:
            constants.append(np.asarray(row.instruction.literal.array))
        elif _bits(base.instruction.literal) != _bits(row.instruction.literal):
            raise DifferentError(row.instruction, "a constant has another value", True)
    return Member(tuple(0 if one is None else one for one in sizes), tuple(constants))


def _bits(value: Literal) -> tuple[Any, ...]:
    held = np.asarray(value.array)
    return held.dtype, held.shape, held.tobytes()
