"""Copies of copies, and conversions there and back."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import Instruction
from hlotool.ir.builder import Builder
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["CONVERTS", "COPIES"]

_WIDER = {
    "f32": {"f64"}, "bf16": {"f32", "f64"}, "f16": {"f32", "f64"}, "s8": {"s16", "s32", "s64"}, "s16": {"s32", "s64"},
    "s32": {"s64"}, "u8": {"u16", "u32", "u64"}, "u16": {"u32", "u64"}, "u32": {"u64"},
}  # fmt: skip
"""The types that hold all numbers of a type."""


def _source(build: Builder) -> Instruction:
    assert build.like is not None
    inner = build.like.operands[0]
    return inner.operands[0] if inner.opcode == build.like.opcode else build.like


def _find_copies(copy: Instruction) -> Iterable[Finding]:
    inner = copy.operands[0]
    if inner.opcode == "copy" and inner.operands[0].shape == copy.shape and not _is_ordered(copy, inner):
        yield Finding(copy, f"a copy of the copy {inner.name}", f"read {inner.operands[0].name}", _source)


def _is_ordered(*instructions: Instruction) -> bool:
    return any(one.control_predecessors or one.control_successors for one in instructions)


def _find_converts(convert: Instruction) -> Iterable[Finding]:
    inner = convert.operands[0]
    if inner.opcode != "convert":
        return
    source, kind = inner.operands[0], convert.shape.element_type
    if source.shape == convert.shape and inner.shape.element_type in _WIDER.get(kind, set()):
        what = f"{source.name} becomes {inner.shape.element_type} and {kind} again"
        yield Finding(convert, what, f"read {source.name}", _source)


_X = "x = @[64] parameter(0)\n"
COPIES = Rule(
    code="HLO6102",
    name="copy-pair",
    title="a copy of a copy",
    meaning="The second copy moves all of an array to where it could have been read.",
    opcodes=frozenset({"copy"}),
    find=_find_copies,
    wrong=module_text(f"{_X}c = @[64] copy(x)\nROOT y = @[64] copy(c)".replace("@", "f32")),
    right=module_text(f"{_X}ROOT y = @[64] negate(x)".replace("@", "f32")),
)
CONVERTS = Rule(
    code="HLO6103",
    name="convert-pair",
    title="a conversion to a wider type and back",
    meaning="The wider type holds every number of the narrow one: both conversions together do nothing.",
    opcodes=frozenset({"convert"}),
    find=_find_converts,
    wrong=module_text("x = bf16[64] parameter(0)\nw = f32[64] convert(x)\nROOT y = bf16[64] convert(w)"),
    right=module_text("x = bf16[64] parameter(0)\nROOT y = bf16[64] negate(x)"),
)
