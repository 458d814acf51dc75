"""The table: what each opcode means, and what it means when a scalar computation is applied to whole arrays."""

from __future__ import annotations

from hlotool.evaluate import (
    batch_norm,
    bits,
    collective,
    control,
    convolution,
    custom,
    dot,
    dynamic,
    elementwise,
    gather,
    linalg,
    movement,
    random,
    reduction,
    sort,
    windows,
)
from hlotool.evaluate.context import Rule

__all__ = ["RULES", "SCALAR_RULES"]

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **bits.RULES,
    **movement.RULES,
    **reduction.RULES,
    **windows.RULES,
    **dot.RULES,
    **convolution.RULES,
    **gather.RULES,
    **sort.RULES,
    **control.RULES,
    **random.RULES,
    **linalg.RULES,
    **batch_norm.RULES,
    **collective.RULES,
    **custom.RULES,
    **dynamic.RULES,
}
"""Every opcode that can be executed."""

_SAME = control.RULES["opt-barrier"]

SCALAR_RULES: dict[str, Rule] = {
    **elementwise.RULES,
    "reduce-precision": bits.RULES["reduce-precision"],
    **{name: control.RULES[name] for name in ("tuple", "get-tuple-element", "constant", "call", "fusion")},
    # Between scalars these change nothing, so that arrays of scalars pass as they are.
    **dict.fromkeys(("broadcast", "reshape", "transpose", "reverse", "copy", "opt-barrier"), _SAME),
}
"""Opcodes that act on an array of scalars as on each scalar.  Computations of only these are applied to arrays."""
