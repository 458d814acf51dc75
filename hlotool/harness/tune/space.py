"""What can be chosen for a subject: knobs and their legal values, and which of these make a difference.

Knobs of kernels are the fields of `hlotool.codegen.choices.Choices`.  Those of a module are fields of
`hlotool.analysis.costs.Costs`, by which passes decide what to fuse and how, with values around the usual ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlotool.codegen.choices import knobs
from hlotool.harness.tune.subjects import Subject
from hlotool.lazy_dataclass import dataclass

__all__ = ["Change", "changes", "legal"]

Change = tuple[str, int]
"""A knob, and a value for it."""

_COSTS: Mapping[str, tuple[int, ...]] = {
    "places": (1, 2, 8, 16), "costly_places": (1, 4), "view_places": (2, 4, 16), "prologues": (0, 1),
    "streams": (1, 2, 6), "row_bytes": (2 << 10, 32 << 10), "repeated_bytes": (256 << 10, 4 << 20),
    "shared_rows": (16, 256), "row_work": (1 << 14, 1 << 18), "rows_in_place": (32, 512),
    "columns_in_place": (64, 800), "terms_in_place": (16, 256),
}  # fmt: skip
"""Values of costs that are worth a try; any whole number gives right results."""


@dataclass(frozen=True, slots=True)
class _Legal:
    """The values of a knob, their unit, and whether it may change the last bits of results."""

    values: tuple[int, ...]
    unit: str
    sums: bool


def legal(subject: Subject) -> dict[str, _Legal]:
    """The knobs that a subject has."""
    if subject.is_module:
        return {name: _Legal(values, "cost", True) for name, values in _COSTS.items()}
    return {
        name: _Legal(knob.values, knob.unit, knob.sums) for name, knob in knobs().items() if subject.kind in knob.of
    }


def changes(subject: Subject, exact: bool) -> tuple[Change, ...]:
    """All single choices, in order; with `exact` those of knobs alone that leave every bit as it is."""
    found = legal(subject).items()
    return tuple((name, value) for name, knob in found if not (exact and knob.sums) for value in knob.values)
