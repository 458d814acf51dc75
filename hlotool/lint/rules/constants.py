"""Constants that are large, or that are one number over and over."""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import Instruction
from hlotool.ir.builder import Builder
from hlotool.ir.literal import Literal
from hlotool.ir.shape import scalar
from hlotool.lint.match import elements_of
from hlotool.lint.rule import Finding, Rule, module_text

__all__ = ["LARGE", "SPLAT"]

_LARGE = 4 << 20
_SPLAT = 1 << 10


def _find_large(constant: Instruction) -> Iterable[Finding]:
    if not constant.shape.is_array or constant.literal.elided or constant.literal.is_splat:
        return
    size = constant.shape.byte_size
    if size >= _LARGE:
        yield Finding(
            constant,
            f"a constant of {size / (1 << 20):.4g} MiB: it is in every copy of the module, and in the program",
            "make it a parameter; an iota or broadcast where it follows a rule",
        )


def _find_splat(constant: Instruction) -> Iterable[Finding]:
    if not constant.shape.is_array or elements_of(constant) < 2 or not constant.literal.is_splat:
        return
    if constant.shape.byte_size >= _SPLAT:
        value = constant.literal.value().reshape(-1)[0]
        yield Finding(
            constant,
            f"{elements_of(constant)} times {value} are written out: {constant.shape.byte_size} bytes",
            "broadcast a scalar",
            _broadcast,
        )


def _broadcast(build: Builder) -> Instruction:
    constant = build.like
    assert constant is not None
    kind = constant.shape.element_type
    single = Literal(scalar(kind), constant.literal.value().reshape(-1)[0:1].reshape(()))
    return build.broadcast(build.constant(single), (), constant.shape)


_NUMBERS = ", ".join(["1"] * 512)
LARGE = Rule(
    code="HLO6104",
    name="large-constant",
    title="a large constant",
    meaning="Weights that are constants make modules slow to read, copy and compile, and cannot be changed or shared "
    "between programs.  Parameters cost nothing of that.",
    opcodes=frozenset({"constant"}),
    find=_find_large,
    wrong="",
    right=module_text("w = f32[1024,1024] parameter(0)\nROOT y = f32[1024,1024] negate(w)"),
)
SPLAT = Rule(
    code="HLO6105",
    name="splat-constant",
    title="a constant that is one number over and over",
    meaning="It takes memory and bandwidth where a broadcast of a scalar takes none.",
    opcodes=frozenset({"constant"}),
    find=_find_splat,
    wrong=module_text(f"x = f32[512] parameter(0)\nc = f32[512] constant({{{_NUMBERS}}})\nROOT y = f32[512] add(x, c)"),
    right=module_text(
        "x = f32[512] parameter(0)\none = f32[] constant(1)\nb = f32[512] broadcast(one), dimensions={}\n"
        "ROOT y = f32[512] add(x, b)"
    ),
)
