"""Custom calls that mean a function whose derivative somebody has written.

Operands and results are arrays: the first ones, ``frontend_attributes={arguments="N"}``, are its arguments, others are
values that it reads besides, which have no derivative.  The first computation is the function, which gives a tuple:

- `CUSTOM_JVP`: the second takes the operands and a tangent for each argument of floats, and gives the results, and then
  a tangent for each result of floats, in which it is linear in those that it takes.
- `CUSTOM_VJP`: the second takes the operands, and gives the results and then what is kept for the third, which takes
  that and a cotangent for each result of floats, and gives a cotangent for each argument of floats.
"""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.ir import ELEMENT_TYPES, Instruction, Shape

__all__ = ["ARGUMENTS", "CUSTOM_JVP", "CUSTOM_VJP", "TARGETS", "arguments_of", "floats_of"]

CUSTOM_JVP, CUSTOM_VJP = "hlotool.custom_jvp", "hlotool.custom_vjp"
TARGETS = frozenset({CUSTOM_JVP, CUSTOM_VJP})
ARGUMENTS = "arguments"


def arguments_of(call: Instruction) -> tuple[Instruction, ...]:
    """The operands that are arguments."""
    return tuple(call.operands[: int(call.attributes["frontend_attributes"][ARGUMENTS])])


def floats_of(shapes: Iterable[Shape]) -> list[int]:
    """Which of the arguments or results have tangents: the numbers of those of floats."""
    return [n for n, shape in enumerate(shapes) if ELEMENT_TYPES[shape.element_type].kind in ("float", "complex")]
