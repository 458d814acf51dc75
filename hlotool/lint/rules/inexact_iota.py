"""Numbers counted up in a float that cannot hold them."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import Instruction
from hlotool.lint.match import is_float, mantissa_bits
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]


def _find(iota: Instruction) -> Iterable[Finding]:
    if not is_float(iota):
        return
    kind, count = iota.shape.element_type, iota.shape.dimensions[iota.attributes["iota_dimension"]]
    most = (2 << mantissa_bits(kind)) + 1
    if count > most:
        yield Finding(
            iota,
            f"counts to {count - 1} in {kind}, which holds whole numbers to {most - 1}: others repeat",
            "count in s32, and convert where the numbers are used",
        )


RULE = Rule(
    code="HLO6012",
    name="inexact-iota",
    title="an iota in a float that cannot hold its numbers",
    meaning="bf16 holds whole numbers to 256, f16 to 2048, f32 to 16777216; beyond, neighbours become equal: positions "
    "of a sequence, for example, that a model then takes for one.",
    opcodes=frozenset({"iota"}),
    find=_find,
    wrong=module_text("ROOT i = bf16[1024] iota(), iota_dimension=0"),
    right=module_text("ROOT i = s32[1024] iota(), iota_dimension=0"),
)
