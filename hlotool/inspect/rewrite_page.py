"""A page with a module before and after a rewrite, and its text as a difference."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hlotool.inspect.changes import Changes, compare, snapshot
from hlotool.inspect.diff import unified_diff
from hlotool.inspect.page import PageOptions, drawing_page
from hlotool.inspect.records import Records
from hlotool.inspect.scene import build_scene
from hlotool.inspect.scopes import add_scopes
from hlotool.inspect.select import Selection, near
from hlotool.ir import Instruction, Module
from hlotool.text.printer import print_module

__all__ = ["rewrite_diff", "rewrite_page"]

_WHOLE = 400
"""Modules of so many instructions are drawn whole; of larger ones, what is near the rewrite."""

_RADIUS, _MOST = 4, 40
"""How near, and so many instructions of a rewrite with their surroundings."""

_LONGEST = 400_000
"""Characters of a difference that a page has."""


def rewrite_diff(before: Module, after: Module) -> str:
    """The difference of the texts, as ``diff -u`` writes it."""
    return unified_diff(print_module(before), print_module(after), "before.hlo", "after.hlo")


def rewrite_page(before: Module, after: Module, title: str, note: str = "", what: str = "after") -> str:
    """A page of two steps: the module before, and `after` with what is new in it marked; `what` names the step."""
    found = compare(snapshot(before), snapshot(after), after)
    difference = rewrite_diff(before, after)
    records = Records()
    _add(records, before, "before", _touched(before, found), (), number=0)
    _add(
        records, after, what, _touched(after, found), found.marked, number=1, added=found.added, removed=found.removed,
        changed=found.changed, diff=difference[:_LONGEST],
    )  # fmt: skip
    return drawing_page(records, PageOptions(title, note))


def _touched(module: Module, found: Changes) -> list[Instruction]:
    names = set(found.touched)
    return [i for i in module.instructions() if i.parent is not None and (i.parent.name, i.name) in names]


def _add(
    records: Records, module: Module, name: str, touched: list[Instruction], marked: Collection[Instruction],
    **notes: Any,
) -> None:  # fmt: skip
    scene = build_scene(module, _selection(module, touched))
    add_scopes(scene)
    records.add(scene, name, marked, **notes)


def _selection(module: Module, touched: list[Instruction]) -> Selection | None:
    """What to draw of a module; None: all."""
    if module.instruction_count() <= _WHOLE:
        return None
    homes = [instruction.parent for instruction in touched]
    home = module.entry if module.entry in homes or not homes else homes[-1]
    assert home is not None
    keep: set[Instruction] = set()
    cut: set[Instruction] = set()
    for instruction in [one for one in touched if one.parent is home][:_MOST]:
        part = near(instruction, _RADIUS)
        keep |= part.keep or set()
        cut |= part.cut
    if not keep:
        keep = set(list(home)[:_MOST])
    return Selection(home, frozenset(keep), frozenset(cut))
