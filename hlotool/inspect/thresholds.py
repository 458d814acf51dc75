"""The thresholds of the compiler, found where they are declared (`hlotool.analysis.thresholds`): in modules, in
records, whose defaults they are, and as options of passes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import hlotool
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.registry import PASSES, find_pass, pass_options

__all__ = ["Listed", "thresholds"]

_ROOMS = ("analysis", "codegen", "passes")


@dataclass(frozen=True, slots=True)
class Listed:
    """A threshold: the module or pass that owns it, its name there, its value, what that counts and what it means."""

    owner: str
    name: str
    value: int | float
    unit: str
    meaning: str


def thresholds() -> list[Listed]:
    """All of them: by module and in the order of declaration, then the whole numbers that passes have as options."""
    found: list[Listed] = []
    for room in sorted(_ROOMS):
        for row in walk_packages([f"{hlotool.__path__[0]}/{room}"], f"hlotool.{room}."):
            if not row.ispkg:
                found += _declared(row.name)
    return found + [one for name in PASSES for one in _options(name)]


def _options(name: str) -> Iterator[Listed]:
    """The whole numbers among the options of a pass; those of one that makes another program say which, and decide
    nothing."""
    if getattr(find_pass(name), "changes_program", False):
        return
    for option in pass_options(find_pass(name)).values():
        if option.type is int:
            meaning = f"Option of this pass: see 'hlotool passes {name}'."
            yield Listed(name, option.name, option.default, "option", meaning)


def _declared(owner: str) -> Iterator[Listed]:
    """The thresholds that a module declares; only one that has some is imported."""
    path = hlotool.__path__[0] + owner.removeprefix("hlotool").replace(".", "/") + ".py"
    with open(path, encoding="utf-8") as file:
        source = file.read()
    if ", Threshold(" not in source:
        return
    lines, tree, module = source.split("\n"), ast.parse(source), import_module(owner)
    yield from _annotated(tree.body, lines, owner, vars(module))
    for record in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        yield from _annotated(record.body, lines, owner, _defaults(getattr(module, record.name)))


def _annotated(
    body: Sequence[ast.stmt], lines: Sequence[str], owner: str, values: Mapping[str, Any]
) -> Iterator[Listed]:
    """The thresholds among the statements of a module or a record, whose values are by name."""
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        unit = re.search(r"Threshold\('([^']*)'\)", ast.unparse(statement.annotation))
        if unit is None:
            continue
        name = statement.target.id
        meaning = lines[statement.lineno - 1].partition("  # ")[2]
        if not meaning and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            meaning = " ".join(str(following.value.value).split())
        yield Listed(owner, name, values[name], unit.group(1), meaning)


def _defaults(record: type) -> dict[str, Any]:
    return {field.name: field.default for field in fields(record)} if is_dataclass(record) else {}
