"""What becomes of every opcode: a rule, a derivative that is zero, something else in its place, or a refusal."""

from __future__ import annotations

from hlotool.ir import ELEMENT_TYPES, UNKNOWN, Instruction
from hlotool.passes.autodiff import (
    collectives,
    contractions,
    control,
    custom_calls,
    elementwise,
    gather_scatter,
    movement,
    reductions,
    sort_fft_linalg,
    windows,
)
from hlotool.passes.autodiff.rule import Rule

__all__ = ["PREPARATION", "REFUSED", "REWRITTEN", "RULES", "ZERO", "is_constant"]

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **movement.RULES,
    **reductions.RULES,
    **windows.RULES,
    **contractions.RULES,
    **gather_scatter.RULES,
    **control.RULES,
    **sort_fft_linalg.RULES,
    **collectives.RULES,
    **custom_calls.RULES,
}

ZERO: frozenset[str] = elementwise.ZERO | frozenset(
    [
    "constant", "iota", "parameter", "partition-id", "replica-id", "rng", "rng-bit-generator",
    "rng-get-and-update-state", "after-all", "infeed", "outfeed", "get-dimension-size",
]
)
"""Opcodes whose results do not move with the operands, or that have none; a parameter is no operation."""


def is_constant(instruction: Instruction) -> bool:
    """Whether the derivative is zero: the sign of a real number jumps, that of a complex one turns with it."""
    if instruction.opcode == "sign":
        return not ELEMENT_TYPES[instruction.shape.element_type].is_complex
    return instruction.opcode in ZERO


REWRITTEN: dict[str, str] = {
    "fusion": "call-inliner{fusions=all}",
    "map": "map-inliner",
    "topk": "topk-decomposer",
    "ragged-dot": "ragged-dot-decomposer",
    "scaled-dot": "scaled-dot-decomposer",
    "scan": "scan-expander",
    "batch-norm-training": "batch-norm-expander",
    "batch-norm-inference": "batch-norm-expander",
    "batch-norm-grad": "batch-norm-expander",
    "copy-start": "async-to-sync",
    "copy-done": "async-to-sync",
    "all-gather-start": "async-to-sync",
    "all-gather-done": "async-to-sync",
    "all-reduce-start": "async-to-sync",
    "all-reduce-done": "async-to-sync",
    "collective-permute-start": "async-to-sync",
    "collective-permute-done": "async-to-sync",
    "async-start": "async-to-sync",
    "async-update": "async-to-sync",
    "async-done": "async-to-sync",
    "dynamic-reshape": "dynamic-padder",
    "set-dimension-size": "dynamic-padder",
}
"""Opcodes that a pass puts simpler ones in the place of first."""

PREPARATION = (
    "async-to-sync,dynamic-padder,layout-assignment,call-inliner{fusions=all,keep=checkpoint},map-inliner,topk-decomposer,"
    "ragged-dot-decomposer,scaled-dot-decomposer,scan-expander,batch-norm-expander,tuple-simplifier,dce"
)
"""The pipeline that does so."""

_OUTSIDE = "the value leaves the program"

REFUSED: dict[str, str] = {
    "send": _OUTSIDE,
    "send-done": _OUTSIDE,
    "recv": _OUTSIDE,
    "recv-done": _OUTSIDE,
    UNKNOWN: "the opcode is not known",
    **{name: f"{by} left it as it is" for name, by in REWRITTEN.items()},
}
"""Why there is no derivative; of those that are rewritten, where they are still there."""
