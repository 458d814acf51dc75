"""Nested containers of arrays: taken apart into leaves and a structure, and put together again.

Tuples, named tuples, lists, dictionaries, None, dataclasses and registered classes are containers; all else is a leaf.
A structure is a plain nested tuple, which can be hashed and compared quickly: `LEAF`, or
``(class, what is fixed, *structures of the children)``.  Dictionaries are taken in the order of their sorted keys.
Fields of a dataclass whose metadata says ``static`` are a part of the structure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeAlias

from hlotool.ir import Shape

__all__ = [
    "LEAF", "Structure", "describe", "flatten", "flatten_into", "leaf_paths", "register", "tree_map", "unflatten",
]  # fmt: skip

Structure: TypeAlias = Any
LEAF = "*"
_NONE = (type(None), None)

_Apart = Callable[[Any], tuple[Iterable[Any], Hashable]]
_Together = Callable[[Hashable, tuple[Any, ...]], Any]
_REGISTERED: dict[type, tuple[_Apart, _Together]] = {}


def register(kind: type, apart: _Apart, together: _Together) -> None:
    """Make `kind` a container: `apart` gives children and what is fixed, `together` makes one of (fixed, children)."""
    _REGISTERED[kind] = (apart, together)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves, depth first, and the structure."""
    leaves: list[Any] = []
    return leaves, flatten_into(tree, leaves)


def flatten_into(tree: Any, leaves: list[Any]) -> Structure:
    """The structure; leaves are appended to `leaves`."""
    kind: Any = type(tree)
    if kind is tuple or kind is list:
        return (kind, None, *[flatten_into(child, leaves) for child in tree])
    if kind is dict:
        keys = _sorted(tree)
        return (dict, keys, *[flatten_into(tree[key], leaves) for key in keys])
    if tree is None:
        return _NONE
    found = _REGISTERED.get(kind)
    if found is not None:
        children, fixed = found[0](tree)
        return (kind, fixed, *[flatten_into(child, leaves) for child in children])
    names = _fields(kind)
    if names is not None:
        dynamic, static = names
        fixed = tuple([getattr(tree, name) for name in static])
        return (kind, fixed, *[flatten_into(getattr(tree, name), leaves) for name in dynamic])
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return (kind, None, *[flatten_into(child, leaves) for child in tree])
    leaves.append(tree)
    return LEAF


def _sorted(tree: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(tree))
    except TypeError:  # keys of several types
        return tuple(tree)


@cache
def _fields(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Names of the fields of a dataclass that hold children, and of those that are fixed; None for other classes."""
    if not is_dataclass(kind) or kind is Shape:  # shapes stand for arrays
        return None
    every = fields(kind)
    static = tuple(field.name for field in every if field.metadata.get("static"))
    return tuple(field.name for field in every if field.name not in static), static


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree of this structure with these leaves."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    if structure == LEAF:
        return next(leaves)
    kind, fixed, *inside = structure
    children = [_unflatten(child, leaves) for child in inside]
    if kind is list:
        return children
    if kind is tuple:
        return tuple(children)
    if kind is dict:
        return dict(zip(fixed, children, strict=True))
    if kind is type(None):
        return None
    found = _REGISTERED.get(kind)
    if found is not None:
        return found[1](fixed, tuple(children))
    names = _fields(kind)
    if names is None:
        return kind(*children)  # a named tuple
    made = object.__new__(kind)  # checks of __init__ are of values, and these may be traced
    for name, value in (*zip(names[0], children, strict=True), *zip(names[1], fixed, strict=True)):
        object.__setattr__(made, name, value)
    return made


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree of ``function(leaf, *leaves of the others in its place)``; ValueError where structures differ."""
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in others:
        found, own = flatten(other)
        if own != structure:
            raise ValueError(f"trees differ: {describe(structure)} and {describe(own)}")
        columns.append(found)
    return unflatten(structure, [function(*row) for row in zip(*columns, strict=True)])


def describe(structure: Structure) -> str:
    """A structure as it would be written: ``(*, {'a': *, 'b': [*, *]})``."""
    if structure == LEAF:
        return LEAF
    kind, fixed, *inside = structure
    children = [describe(child) for child in inside]
    if kind is list:
        return f"[{', '.join(children)}]"
    if kind is tuple:
        return f"({', '.join(children)}{',' if len(children) == 1 else ''})"
    if kind is dict:
        return "{" + ", ".join(f"{key!r}: {child}" for key, child in zip(fixed, children, strict=True)) + "}"
    return "None" if kind is type(None) else f"{kind.__name__}({', '.join(children)})"


def leaf_paths(structure: Structure, above: str = "") -> list[str]:
    """How each leaf is reached: ``[0]['weights']``, ``.bias``."""
    if structure == LEAF:
        return [above]
    kind, fixed, *inside = structure
    if kind is dict:
        steps = [f"[{key!r}]" for key in fixed]
    elif kind is tuple or kind is list:
        steps = [f"[{number}]" for number in range(len(inside))]
    else:
        names = _fields(kind)
        own = getattr(kind, "_fields", None) if names is None else names[0]
        steps = [f".{name}" for name in own] if own else [f"<{number}>" for number in range(len(inside))]
    return [path for step, child in zip(steps, inside, strict=True) for path in leaf_paths(child, above + step)]
