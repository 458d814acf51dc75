"""Long sums in bf16 or f16."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import ELEMENT_TYPES, Instruction
from hlotool.ir.builder import Builder
from hlotool.lint.match import applied, is_float, is_sum, mantissa_bits, reduced_count
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["RULE"]


def _find(reduce: Instruction) -> Iterable[Finding]:
    if not is_float(reduce) or not is_sum(reduce):
        return
    kind = reduce.shape.element_type
    count, most = reduced_count(reduce), 2 << mantissa_bits(kind)
    if ELEMENT_TYPES[kind].bits <= 16 and count > most:
        yield Finding(
            reduce,
            f"a sum of {count} elements in {kind}: after {most} equal terms another one changes nothing",
            "convert to f32, sum, convert the result",
            _in_f32,
        )


def _in_f32(build: Builder) -> Instruction:
    reduce = build.like
    module = build.computation.module
    assert reduce is not None
    assert module is not None
    array, start = (build.convert(operand, "f32") for operand in reduce.operands)
    total = build.reduce(array, start, reduce.attributes["dimensions"], applied(module, "add", "f32"))
    return build.add("convert", reduce.shape, (total,))


_ADD = "add {\n  a = @[] parameter(0)\n  b = @[] parameter(1)\n  ROOT s = @[] add(a, b)\n}\n\n"
_X = "x = bf16[4,4096] parameter(0)\n"
RULE = Rule(
    code="HLO6010",
    name="narrow-sum",
    title="a long sum in bf16 or f16",
    meaning="bf16 has 8 bits of a number: a sum that has reached 256 times its terms does not grow any more, and f16 "
    "ends at 65504 besides.  Sums belong into f32, and only their results into the narrow type.",
    opcodes=frozenset({"reduce"}),
    find=_find,
    wrong=module_text(
        f"{_X}z = bf16[] constant(0)\nROOT y = bf16[4] reduce(x, z), dimensions={{1}}, to_apply=add",
        _ADD.replace("@", "bf16"),
    ),
    right=module_text(
        f"{_X}w = f32[4,4096] convert(x)\nz = f32[] constant(0)\n"
        "s = f32[4] reduce(w, z), dimensions={1}, to_apply=add\nROOT y = bf16[4] convert(s)", _ADD.replace("@", "f32"),
    ),
)
