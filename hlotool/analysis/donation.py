"""Donated arguments: arrays that the caller gives up, whose memory results may take over.

A module says with ``input_output_alias`` which result wants the memory of which argument, and with ``buffer_donor`` of
which arguments any result may take it.  Neither does anything until the caller donates.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from hlotool.ir import InputError, Module, Shape, Verbatim
from hlotool.lazy_dataclass import dataclass

__all__ = ["NOTHING_DONATED", "Donate", "Donation", "buffer_donors", "donation_of", "matched"]

Donate: TypeAlias = Sequence[int] | Literal["declared"]
"""What a caller donates: parameters by number, or those that the module declares."""

_DONOR = r"\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}\s*\)"

_Index: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Donation:
    """All numbers count array leaves, of the parameters and of the root.

    `arguments` may be overwritten; `wanted` maps results to the arguments whose memory they are to have, `required`
    are those of them that must have it.
    """

    arguments: frozenset[int] = frozenset()
    wanted: Mapping[int, int] = field(default_factory=dict)
    required: frozenset[int] = frozenset()


NOTHING_DONATED = Donation()


def donation_of(module: Module, donate: Donate) -> Donation:
    """What `donate` means for a module; InputError names a parameter that is not there."""
    parameters = module.entry.parameters
    if donate != "declared" and not _are_numbers(donate):
        raise InputError(f"donate: expected numbers of parameters, as in [0, 2], or 'declared', not {donate!r}")
    numbers = _leaves({n: p.shape for n, p in enumerate(parameters)})
    results = _leaves({0: module.entry.root.shape})
    aliases = module.attributes.get("input_output_alias", ())
    if donate == "declared":
        places = buffer_donors(module) | {(alias.operand, alias.index) for alias in aliases}
        given = {numbers[place] for place in places if place in numbers}
    else:
        for number in donate:
            if not 0 <= number < len(parameters):
                raise InputError(f"donate: no parameter {number}, the program has {len(parameters)}")
        given = {leaf for (number, _), leaf in numbers.items() if number in donate}
    wanted: dict[int, int] = {}
    required: set[int] = set()
    taken: set[int] = set()
    for alias in aliases:
        argument, result = numbers.get((alias.operand, alias.index)), results.get((0, alias.output))
        if argument in given and argument not in taken and result is not None:
            wanted[result] = argument
            taken.add(argument)
            if alias.kind == "must-alias":
                required.add(result)
    return Donation(frozenset(given), wanted, frozenset(required))


def matched(donation: Donation, parameters: Sequence[Shape], results: Sequence[Shape]) -> dict[int, int]:
    """Which argument of its type and dimensions each result may have: the one that it wants, else the next one."""
    left: dict[object, list[int]] = {}
    for argument in sorted(donation.arguments.difference(donation.wanted.values())):
        left.setdefault(_kind(parameters[argument]), []).append(argument)
    found: dict[int, int] = {}
    for number, result in enumerate(results):
        wanted = donation.wanted.get(number)
        if wanted is None and left.get(_kind(result)):
            found[number] = left[_kind(result)].pop(0)
        elif wanted is not None and _kind(parameters[wanted]) == _kind(result):
            found[number] = wanted
    return found


def _kind(shape: Shape) -> object:
    return shape.element_type, shape.dimensions


def _are_numbers(donate: object) -> bool:
    """Whether it is a collection of whole numbers."""
    if isinstance(donate, (str, bytes, Mapping)) or not isinstance(donate, Collection):
        return False
    return all(hasattr(type(n), "__index__") and not isinstance(n, bool) for n in donate)


def buffer_donors(module: Module) -> set[tuple[int, _Index]]:
    """The arguments that ``buffer_donor`` names: parameter numbers, and indices into them."""
    value = module.attributes.get("buffer_donor")
    text = value.text if isinstance(value, Verbatim) else ""
    found = re.findall(_DONOR, text)
    return {(int(number), tuple(int(n) for n in inside.replace(" ", "").split(",") if n)) for number, inside in found}


def _leaves(shapes: Mapping[int, Shape]) -> dict[tuple[int, _Index], int]:
    """The number of every array leaf, by where it is."""
    found: dict[tuple[int, _Index], int] = {}

    def walk(number: int, shape: Shape, index: _Index) -> None:
        if shape.is_tuple:
            for place, element in enumerate(shape.elements):
                walk(number, element, (*index, place))
        elif shape.is_array:
            found[number, index] = len(found)

    for number, shape in shapes.items():
        walk(number, shape, ())
    return found
