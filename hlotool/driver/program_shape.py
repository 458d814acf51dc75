"""The shapes of the arrays that go in and out of a program."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.codegen.plan.values import array_leaves
from hlotool.ir import Module, Shape

__all__ = ["program_shape"]


def program_shape(module: Module) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """The array leaves of the entry's parameters, and of its root."""
    return _leaves([p.shape for p in module.entry.parameters]), _leaves([module.entry.root.shape])


def _leaves(shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    return tuple(leaf for shape in shapes for leaf in array_leaves(shape))
