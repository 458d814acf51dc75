"""Transposes of transposes."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import Instruction
from hlotool.ir.builder import Builder
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]


def _find(transpose: Instruction) -> Iterable[Finding]:
    inner = transpose.operands[0]
    order = _order(transpose)
    if inner.opcode == "transpose" and (len(inner.users) == 1 or order == sorted(order)):
        made = "nothing" if order == sorted(order) else f"one transpose by {{{','.join(map(str, order))}}}"
        yield Finding(transpose, f"a transpose of the transpose {inner.name}", f"both together do {made}", _composed)


def _order(transpose: Instruction) -> list[int]:
    inner = transpose.operands[0]
    dimensions = transpose.attributes["dimensions"]
    return [inner.attributes["dimensions"][at] for at in dimensions] if inner.opcode == "transpose" else [*dimensions]


def _composed(build: Builder) -> Instruction:
    transpose = build.like
    assert transpose is not None
    inner, order = transpose.operands[0], _order(transpose)
    if inner.opcode != "transpose":
        return transpose  # another fix was here
    source = inner.operands[0]
    if order == sorted(order) and source.shape == transpose.shape:
        return source
    return build.add("transpose", transpose.shape, (source,), {"dimensions": tuple(order)})


RULE = Rule(
    code="HLO6101",
    name="transpose-chain",
    title="a transpose of a transpose",
    meaning="Two transposes are one, or none: each that a compiler does not see through moves all of an array.",
    opcodes=frozenset({"transpose"}),
    find=_find,
    wrong=module_text(
        "x = f32[4,8,16] parameter(0)\nt = f32[8,4,16] transpose(x), dimensions={1,0,2}\n"
        "ROOT y = f32[8,16,4] transpose(t), dimensions={0,2,1}"
    ),
    right=module_text("x = f32[4,8,16] parameter(0)\nROOT y = f32[8,16,4] transpose(x), dimensions={1,2,0}"),
)
