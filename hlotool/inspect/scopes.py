"""Hierarchy for large scenes: boxes for what belongs together, which a page can show closed.

The framework's names (``op_name="jit(step)/layer_3/attention/dot_general"``) say what belongs together.  Where they
do not, or leave a box too full, its instructions are divided into parts (`parts.py`).  Many parameters become a strip.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field

from hlotool.analysis.cost import ModuleCost
from hlotool.inspect.parts import divide
from hlotool.inspect.scene import Box, Scene
from hlotool.lazy_dataclass import dataclass

__all__ = ["add_scopes", "scope_of"]

_FULL = 80  # boxes in a box from which it gets scopes and parts
_MANY_PARAMETERS = 8  # more are a strip instead of boxes among the others


def add_scopes(scene: Scene, always: bool = False) -> None:
    """Put the parameters of a scene into a strip where they are many, and the boxes of full computations into scopes
    and parts; of all computations with `always`."""
    _add_strip(scene.root)
    full = [box for box in scene.root.walk() if box.kind == "computation" and (always or len(box.children) > _FULL)]
    if not full:
        return
    readers = _readers(scene)
    place = {box: number for number, box in enumerate(scene.root.walk())}
    for box in full:
        _by_name(box, readers, place)
    crowded = [box for box in scene.root.walk() if box.kind in ("computation", "scope") and len(box.children) > _FULL]
    if not crowded:
        return
    costs = ModuleCost(scene.module)
    flows = _flows(scene, set(crowded))
    for box in crowded:
        _divide(box, readers, flows.get(box, ()), costs)


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
        source = edge.source
        in_strip = source.parent is not None and source.parent.kind == "strip"
        if source not in reading and not source.children and not in_strip:
            found.setdefault(source, []).append(edge.target)
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


# ---- parts


def _flows(scene: Scene, crowded: Collection[Box]) -> dict[Box, list[tuple[Box, Box]]]:
    """For every crowded box the edges between its children, also those that end deeper in them."""
    found: dict[Box, list[tuple[Box, Box]]] = {}
    for edge in scene.edges:
        if edge.kind == "next":
            continue
        above = {}
        child, parent = edge.source, edge.source.parent
        while parent is not None:
            above[parent] = child
            child, parent = parent, parent.parent
        child, parent = edge.target, edge.target.parent
        while parent is not None and parent not in above:
            child, parent = parent, parent.parent
        if parent is not None and parent in crowded and above[parent] is not child:
            found.setdefault(parent, []).append((above[parent], child))
    return found


def _divide(
    box: Box, readers: dict[Box, list[Box]], flows: Sequence[tuple[Box, Box]], costs: ModuleCost
) -> None:
    """Divide the children of a box, in their order; what reads nothing goes beside its first reader."""
    strips = [child for child in box.children if child.kind == "strip"]
    children = [child for child in box.children if child.kind != "strip"]
    position = {child: number for number, child in enumerate(children)}
    for child in children:
        if child in readers:
            near = (position.get(_child_of(box, reader)) for reader in readers[child])
            position[child] = min((place for place in near if place is not None), default=position[child])
    ordered = sorted(children, key=position.__getitem__)
    number = {child: place for place, child in enumerate(ordered)}
    between = [(number[a], number[b]) for a, b in flows if a in number and b in number]
    divide(box, ordered, between, _FULL, costs)
    box.children[:0] = strips


# ---- parameters


def _add_strip(root: Box) -> None:
    """Put the parameters of the computation that is drawn into a strip, where they are many."""
    found = [box for box in root.children if box.instruction is not None and box.instruction.opcode == "parameter"]
    if len(found) <= _MANY_PARAMETERS:
        return
    found.sort(key=lambda box: box.instruction.parameter_number if box.instruction is not None else 0)
    strip = Box(f"{root.path}/parameters/", "strip", "parameters", parent=root)
    for box in found:
        strip.add(box)
    inside = set(found)
    root.children = [strip, *(box for box in root.children if box not in inside)]
