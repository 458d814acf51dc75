"""Broadcasts that have to be in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.analysis.trip_count import is_invariant_element
from hlotool.ir import Instruction
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]

_LARGE = 1 << 20


def _find(instruction: Instruction) -> Iterable[Finding]:
    if instruction.opcode == "custom-call":
        values = list(instruction.operands)
    else:
        state = instruction.operands[0]
        if state.opcode != "tuple":
            return
        values = [value for at, value in enumerate(state.operands) if is_invariant_element(instruction, at)]
    for value in dict.fromkeys(values):
        if value.opcode == "broadcast" and value.shape.byte_size >= _LARGE:
            size, source = f"{value.shape.byte_size / (1 << 20):.4g} MiB", value.operands[0].shape.byte_size
            where = "a custom call reads" if instruction.opcode == "custom-call" else "a loop carries unchanged"
            yield Finding(
                instruction,
                f"{value.name}, a broadcast that {where}, is {size} in memory, made of {source} bytes",
                "hand over what is broadcast, and broadcast it where it is used",
            )


def _module(state: str, value: str) -> str:
    before = (
        f"condition {{\n  s = (s32[], f32[512,1024], {state}) parameter(0)\n"
        "  i = s32[] get-tuple-element(s), index=0\n"
        "  n = s32[] constant(9)\n  ROOT c = pred[] compare(i, n), direction=LT\n}\n\n"
        f"body {{\n  s = (s32[], f32[512,1024], {state}) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  v = f32[512,1024] get-tuple-element(s), index=1\n"
        f"  k = {state} get-tuple-element(s), index=2\n{value}  w = f32[512,1024] multiply(v, b)\n"
        f"  ROOT t = (s32[], f32[512,1024], {state}) tuple(j, w, k)\n}}\n\n"
    )
    given = "y = f32[1024] parameter(1)\n"
    given += "b = f32[512,1024] broadcast(y), dimensions={1}\n" if state != "f32[1024]" else ""
    carried = "b" if state != "f32[1024]" else "y"
    return module_text(
        f"x = f32[512,1024] parameter(0)\n{given}z = s32[] constant(0)\n"
        f"s = (s32[], f32[512,1024], {state}) tuple(z, x, {carried})\n"
        f"ROOT r = (s32[], f32[512,1024], {state}) while(s), condition=condition, body=body",
        before,
    )


RULE = Rule(
    code="HLO6111",
    name="broadcast-in-memory",
    title="a large broadcast that is written to memory",
    meaning="Elsewhere a broadcast is part of the loop that reads it and takes no memory.  What a custom call reads, "
    "and the state of a loop, are arrays: all elements are written, and read again in every trip.",
    opcodes=frozenset({"while", "custom-call"}),
    find=_find,
    wrong=_module("f32[512,1024]", "  b = f32[512,1024] negate(k)\n"),
    right=_module("f32[1024]", "  b = f32[512,1024] broadcast(k), dimensions={1}\n"),
)
