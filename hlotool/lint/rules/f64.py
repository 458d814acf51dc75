"""Arithmetic in f64 between f32 and f32, by accident."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import ELEMENT_TYPES, Instruction
from hlotool.lint.match import is_float
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]

_MOST = 1000
_INNER = frozenset({"broadcast", "reshape", "bitcast", "copy", "transpose", "slice", "select"})


def _find(convert: Instruction) -> Iterable[Finding]:
    (source,) = convert.operands
    if convert.shape.element_type != "f64" or not is_float(source) or source.shape.element_type == "f64":
        return
    seen, queue, ends, has_constant, computes = {convert}, [convert], 0, False, False
    while queue:
        instruction = queue.pop()
        if instruction.is_root or len(seen) > _MOST:
            return
        for user in instruction.users:
            if user in seen:
                continue
            seen.add(user)
            kind = user.shape.element_type
            if user.opcode == "convert" and kind != "f64":
                if ELEMENT_TYPES[kind].is_float:
                    ends += 1
                continue
            if kind == "pred":
                continue
            if kind != "f64" or not (user.has("elementwise") or user.opcode in _INNER):
                return  # a sum or product, which may well want the precision, or f64 goes on
            computes = computes or user.has("elementwise")
            has_constant = has_constant or any(_is_constant(operand) for operand in user.operands)
            if not all(operand in seen or _is_constant(operand) or _is_widened(operand) for operand in user.operands):
                return
            queue.append(user)
    if ends and computes and has_constant:
        kind = source.shape.element_type
        yield Finding(
            convert,
            f"{source.name} is computed with in f64, elementwise, and becomes {kind} again",
            f"a constant of f64 does that (a Python or NumPy number under x64): give it the type {kind}",
        )


def _is_constant(instruction: Instruction) -> bool:
    while instruction.opcode in ("broadcast", "reshape", "bitcast"):
        instruction = instruction.operands[0]
    return instruction.opcode == "constant"


def _is_widened(instruction: Instruction) -> bool:
    return instruction.opcode == "convert" and instruction.operands[0].shape.element_type != "f64"


_BODY = (
    "x = f32[64] parameter(0)\nw = f64[64] convert(x)\nc = f64[] constant(0.1)\nb = f64[64] broadcast(c), dimensions={}"
    "\nm = f64[64] multiply(w, b)\nROOT y = f32[64] convert(m)"
)
RULE = Rule(
    code="HLO6001",
    name="accidental-f64",
    title="elementwise arithmetic in f64 between f32 and f32",
    meaning="A constant of f64 makes everything that it meets f64: twice the bytes and half the lanes, for digits that "
    "the conversion at the end drops.  Sums and products in f64 are left alone, as they are usually meant.",
    opcodes=frozenset({"convert"}),
    find=_find,
    wrong=module_text(_BODY),
    right=module_text(
        "x = f32[64] parameter(0)\nc = f32[] constant(0.1)\nb = f32[64] broadcast(c), dimensions={}\n"
        "ROOT y = f32[64] multiply(x, b)"
    ),
)
