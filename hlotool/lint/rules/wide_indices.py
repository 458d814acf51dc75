"""Indices of 64 bits into dimensions that 32 bits reach."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import Instruction
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]

_WIDE = frozenset({"s64", "u64"})
_REACH = (1 << 31) - 1


def _find(instruction: Instruction) -> Iterable[Finding]:
    source, indices = instruction.operands[0], instruction.operands[-1]
    if instruction.opcode == "scatter":
        indices = instruction.operands[len(instruction.operands) // 2]
    if indices.shape.element_type in _WIDE and max(source.shape.dimensions, default=0) <= _REACH:
        yield Finding(
            instruction,
            f"indices {indices.name} are {indices.shape.element_type}: 32 bits reach all of {source.name}",
            "s32 indices take half the memory and twice the lanes",
        )


_BODY = (
    "x = f32[64,8] parameter(0)\ni = @[16,1] parameter(1)\nROOT y = f32[16,8] gather(x, i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}"
)
RULE = Rule(
    code="HLO6112",
    name="wide-indices",
    title="indices of 64 bits where 32 are enough",
    meaning="Programs of PyTorch, and of JAX under x64, have them.  They cost memory, and the loops around them lanes.",
    opcodes=frozenset({"gather", "scatter", "dynamic-slice", "dynamic-update-slice"}),
    find=_find,
    wrong=module_text(_BODY.replace("@", "s64")),
    right=module_text(_BODY.replace("@", "s32")),
    note=True,
)
