"""The usual element types in the place of rare ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hlotool.harness.reduce.draft import Draft, Edit
from hlotool.ir import Literal, Module, Shape, dtype_of, element_type

__all__ = ["plainer_types"]


def plainer_types(module: Module) -> Sequence[Edit]:
    found = {
        leaf.element_type for instruction in module.instructions() for leaf in instruction.shape.leaves()
        if leaf.is_array
    }  # fmt: skip
    return [
        Edit((kind,), _retype, (kind, _plainer(kind)))
        for kind in sorted(found)
        if _plainer(kind) != kind
    ]


def _plainer(kind: str) -> str:
    row = element_type(kind)
    if row.kind == "pred":
        return kind
    return "c64" if row.is_complex else "f32" if row.is_float else "s32"


def _retype(draft: Draft, old: str, new: str) -> None:
    for instruction in draft.module.instructions():
        instruction.shape = _shape(instruction.shape, old, new)
        if instruction.opcode == "constant":
            instruction.attributes["literal"] = _literal(instruction.literal, old, new)


def _shape(shape: Shape, old: str, new: str) -> Shape:
    if shape.elements:
        return replace(shape, elements=tuple(_shape(element, old, new) for element in shape.elements))
    return shape.with_type(new) if shape.element_type == old else shape


def _literal(literal: Literal, old: str, new: str) -> Literal:
    shape = _shape(literal.shape, old, new)
    if literal.elements:
        return Literal(shape, elements=tuple(_literal(element, old, new) for element in literal.elements))
    if shape == literal.shape:
        return literal
    with np.errstate(all="ignore"):
        return Literal(shape, literal.value().astype(dtype_of(new)), elided=literal.elided)
