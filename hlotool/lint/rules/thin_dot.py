"""Products of matrices that add up next to nothing."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from hlotool.ir import Instruction
from hlotool.lint.match import elements_of
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]

_FEW, _MANY = 4, 1 << 16


def _find(dot: Instruction) -> Iterable[Finding]:
    sizes = dot.operands[0].shape.dimensions
    depth = prod(sizes[at] for at in dot.attributes.get("lhs_contracting_dims", ()))
    if depth <= _FEW and elements_of(dot) >= _MANY:
        yield Finding(
            dot,
            f"a product that adds up {depth} terms for each of {elements_of(dot)} elements: writing them takes longest",
            "multiply and add broadcasts instead, which fuse with what reads them",
        )


RULE = Rule(
    code="HLO6110",
    name="thin-dot",
    title="a product of matrices with a tiny contracted dimension",
    meaning="A kernel for products writes its whole result; elementwise code for the same few terms becomes part of "
    "the loop that reads it, and the result may never be in memory.",
    opcodes=frozenset({"dot"}),
    find=_find,
    wrong=module_text(
        "x = f32[512,2] parameter(0)\nw = f32[2,512] parameter(1)\n"
        "ROOT y = f32[512,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ),
    right=module_text(
        "x = f32[512,64] parameter(0)\nw = f32[64,512] parameter(1)\n"
        "ROOT y = f32[512,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ),
    note=True,
)
