"""Dynamic slices at places that are known."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import Instruction
from hlotool.ir.attributes import SliceDimension
from hlotool.ir.builder import Builder
from hlotool.lint.match import number_of
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]


def _find(instruction: Instruction) -> Iterable[Finding]:
    starts = [number_of(start) for start in instruction.operands[1:]]
    if instruction.operands[0].shape.rank == len(starts) and None not in starts:
        hint = "a slice, which is part of what reads it"
        yield Finding(instruction, "a dynamic slice whose place is constant", hint, _slice)


def _slice(build: Builder) -> Instruction:
    dynamic = build.like
    assert dynamic is not None
    source, *starts = dynamic.operands
    ranges = []
    for start, size, whole in zip(starts, dynamic.shape.dimensions, source.shape.dimensions, strict=True):
        low = min(max(int(number_of(start) or 0), 0), whole - size)
        ranges.append(SliceDimension(low, low + size, 1))
    return build.add("slice", dynamic.shape, (source,), {"slice": tuple(ranges)})


RULE = Rule(
    code="HLO6107",
    name="fixed-dynamic-slice",
    title="a dynamic slice at a constant place",
    meaning="A slice says where it is: it is a view, fuses with what reads it, and its bounds are checked before the "
    "program runs.  A dynamic slice that would reach over the end silently begins earlier.",
    opcodes=frozenset({"dynamic-slice"}),
    find=_find,
    wrong=module_text(
        "x = f32[64] parameter(0)\ni = s32[] constant(8)\nROOT y = f32[8] dynamic-slice(x, i), dynamic_slice_sizes={8}"
    ),
    right=module_text("x = f32[64] parameter(0)\nROOT y = f32[8] slice(x), slice={[8:16]}"),
)
