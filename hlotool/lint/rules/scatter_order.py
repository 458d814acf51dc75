"""Scatters whose results depend on the order of their updates."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hlotool.analysis.reducers import opcodes
from hlotool.ir import ELEMENT_TYPES, Instruction
from hlotool.lint.match import elements_of
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]


def _find(scatter: Instruction) -> Iterable[Finding]:
    if scatter.attributes.get("unique_indices") or len(scatter.operands) != 3:
        return
    operand, indices, _ = scatter.operands
    vector = scatter.attributes.get("index_vector_dim", indices.shape.rank)
    width = indices.shape.dimensions[vector] if vector < indices.shape.rank else 1
    if not width or elements_of(indices) // width <= 1 or _differ(indices, vector):
        return
    combiner = opcodes(scatter.attributes["to_apply"])
    kind = ELEMENT_TYPES[operand.shape.element_type]
    inexact = kind.is_float or kind.is_complex
    if combiner and (not inexact or combiner[0] in ("maximum", "minimum")):
        return
    if combiner:
        what = f"sums of {kind.name} depend on the order of their terms" if combiner == ("add",) else "the order counts"
    elif scatter.attributes["to_apply"].root is scatter.attributes["to_apply"].parameters[1]:
        what = "the last update of an element stays, and any may be the last"
    else:
        what = "what combines updates may depend on their order"
    yield Finding(
        scatter,
        f"updates may meet in one element: {what}",
        "where indices never repeat, say unique_indices=true, which is faster as well",
    )


def _differ(indices: Instruction, vector: int) -> bool:
    """Whether indices are constants, or counted up, and none repeats."""
    if indices.opcode == "iota":
        return bool(indices.attributes["iota_dimension"] != vector and indices.shape.rank <= 2)
    if indices.opcode != "constant" or indices.literal.elided:
        return False
    array = indices.literal.value()
    whole = array[..., None] if vector == array.ndim else np.moveaxis(array, vector, -1)
    rows = whole.reshape(-1, whole.shape[-1])
    return len(np.unique(rows, axis=0)) == len(rows)


_ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n\n"
_WORDS = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
_BODY = (
    "x = f32[16,4] parameter(0)\ni = s32[8,1] parameter(1)\nu = f32[8,4] parameter(2)\n"
    f"ROOT y = f32[16,4] scatter(x, i, u), {_WORDS}, @to_apply=add"
)
RULE = Rule(
    code="HLO6009",
    name="scatter-order",
    title="a scatter whose result depends on the order of updates",
    meaning="Indices may repeat, and what meets in one element is added in an order that no two processors, or runs on "
    "a GPU, share: results differ in their last digits, or, where updates overwrite, altogether.",
    opcodes=frozenset({"scatter"}),
    find=_find,
    wrong=module_text(_BODY.replace("@", ""), _ADD),
    right=module_text(_BODY.replace("@", "unique_indices=true, "), _ADD),
    note=True,
)
