"""Hierarchy for large scenes: boxes for what belongs together, which a page can show closed.

The framework's names (``op_name="jit(step)/layer_3/attention/dot_general"``) say what belongs together.  Where they
do not, or leave a box too full, its instructions are divided into parts along the order of the program, so that no
part depends on a later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hlotool.inspect.scene import Box, Scene

__all__ = ["add_scopes", "scope_of"]

_FULL = 150  # boxes in a box from which names make scopes
_TOO_FULL = 800  # boxes in a box from which parts are made
_SMALLEST_PART = 60


def add_scopes(scene: Scene, always: bool = False) -> None:
    """Put the boxes of full computations into scopes and parts; of all computations with `always`."""
    readers = _readers(scene)
    place = {box: number for number, box in enumerate(scene.root.walk())}
    for box in list(place):
        if box.kind == "computation" and (always or len(box.children) > _FULL):
            _by_name(box, readers, place)
    for box in list(scene.root.walk()):
        if box.kind in ("computation", "scope") and len(box.children) > _TOO_FULL:
            _by_order(box, readers)


def scope_of(op_name: str) -> tuple[str, ...]:
    """The scopes in an ``op_name``, outer ones first: what stands before slashes outside parentheses and quotes."""
    found, depth, start = [], 0, 0
    for index, character in enumerate(op_name):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "/" and depth <= 0:
            found.append(op_name[start:index])
            start = index + 1
    return tuple(filter(None, found))


def _readers(scene: Scene) -> dict[Box, list[Box]]:
    """For boxes that read nothing (parameters, constants, iotas) the boxes that read them."""
    reading = {edge.target for edge in scene.edges}
    found: dict[Box, list[Box]] = {}
    for edge in scene.edges:
        if edge.source not in reading and not edge.source.children:
            found.setdefault(edge.source, []).append(edge.target)
    return found


# ---- by name


@dataclass(slots=True)
class _Scope:
    """A node of the tree of scopes: boxes and inner scopes in the order of the program."""

    boxes: list[Box] = field(default_factory=list)
    inner: dict[str, _Scope] = field(default_factory=dict)

    def size(self) -> int:
        return len(self.boxes) + sum(scope.size() for scope in self.inner.values())


def _by_name(box: Box, readers: dict[Box, list[Box]], place: dict[Box, int]) -> None:
    """Scopes from names; boxes and scopes stand where the program begins with them."""
    names = {child: _name_of(child) for child in box.children}
    for child in box.children:
        if child in readers and not names[child]:  # what only one scope reads belongs to it
            near = [names.get(_child_of(box, reader), ()) for reader in readers[child]]
            names[child] = _common(near)
    tree = _Scope()
    for child in box.children:
        scope = tree
        for word in names[child]:
            scope = scope.inner.setdefault(word, _Scope())
        scope.boxes.append(child)
    while len(tree.inner) == 1 and not any(names[child] for child in tree.boxes):  # all are in one scope
        (only,) = tree.inner.values()
        tree = _Scope([*tree.boxes, *only.boxes], only.inner)
        if only.boxes:
            break
    box.children = []
    _fill(box, tree, box.path, place)
    box.children.sort(key=place.__getitem__)


def _fill(box: Box, scope: _Scope, path: str, place: dict[Box, int]) -> None:
    for child in scope.boxes:
        box.add(child)
    for word, inner in scope.inner.items():
        words = [word]
        while len(inner.inner) == 1 and not inner.boxes:  # a scope that only holds another one
            ((word, inner),) = inner.inner.items()
            words.append(word)
        if inner.size() == 1:
            _fill(box, inner, path, place)
            continue
        name = "/".join(words)
        made = box.add(Box(f"{path}/{name}/", "scope", name))
        _fill(made, inner, f"{path}/{name}", place)
        made.children.sort(key=place.__getitem__)
        place[made] = place[made.children[0]]


def _name_of(box: Box) -> tuple[str, ...]:
    metadata = box.instruction.metadata if box.instruction is not None else None
    return scope_of(metadata.op_name) if metadata is not None else ()


def _child_of(box: Box, inner: Box) -> Box:
    """The child of `box` that holds `inner`."""
    while inner.parent is not None and inner.parent is not box:
        inner = inner.parent
    return inner


def _common(names: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    shortest = min(names, key=len)
    for index, word in enumerate(shortest):
        if any(name[index] != word for name in names):
            return shortest[:index]
    return shortest


# ---- by order


def _by_order(box: Box, readers: dict[Box, list[Box]]) -> None:
    position = {child: number for number, child in enumerate(box.children)}
    for child in box.children:
        if child in readers:  # beside its first reader
            near = (position.get(_child_of(box, reader)) for reader in readers[child])
            position[child] = min((place for place in near if place is not None), default=position[child])
    ordered = sorted(box.children, key=position.__getitem__)
    size = max(_SMALLEST_PART, round(1.5 * len(ordered) ** 0.5))
    box.children = []
    for number, start in enumerate(range(0, len(ordered), size), 1):
        these = ordered[start : start + size]
        scopes = [child.title for child in these if child.kind == "scope"]
        title = f"{scopes[0]} … {scopes[-1]}" if 2 * len(scopes) > len(these) else f"part {number}"
        part = box.add(Box(f"{box.path}/part {number}/", "scope", title))
        for child in these:
            part.add(child)
