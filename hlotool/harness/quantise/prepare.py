"""A module made ready: products in the open, weights as constants, batch norms in weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.driver import optimise
from hlotool.evaluate import evaluate_instruction
from hlotool.ir import Computation, Instruction, Literal, Module, UnsupportedError
from hlotool.ir.builder import Builder
from hlotool.passes.framework.graph import drop_dead, has_sizes, replace_with

__all__ = ["prepared"]

_OPEN = "unfuse,inline,batch-norm-expander,fixpoint(algebraic-simplifier,constant-folding,cse,dce)"
_FOLD = "fold-scales,dce"
_GROUPS = frozenset({"elementwise", "data-movement", "reduction", "dot", "gather"})
_SYMBOLIC = frozenset({"broadcast", "iota"})
"""What costs nothing and is not made a constant, but counts as one."""


def prepared(module: Module) -> Module:
    """A copy with calls inlined, what only depends on constants computed, and batch norms folded into weights."""
    made = optimise(module, _OPEN)
    for computation in made.callees_first():
        _fold(computation)
    return optimise(made, _FOLD)


def _fold(computation: Computation) -> None:
    """Compute what only depends on constants, however large it is: weights may be made of others.

    A pipeline leaves alone what is large, and what reads broadcasts.
    """
    for one in list(computation):
        if one.parent is None or one.opcode in _SYMBOLIC or one.info.group not in _GROUPS or not one.operands:
            continue
        values = [_value(operand) for operand in one.operands]
        if any(value is None for value in values) or not one.shape.is_array or has_sizes(one):
            continue
        try:
            found = np.asarray(evaluate_instruction(one, [value for value in values if value is not None]))
        except UnsupportedError:
            continue
        build = Builder(computation, one, like=one)
        operands = list(one.operands)
        new = build.constant(Literal(one.shape.without_layout(), np.array(found)))
        replace_with(one, new)
        for operand in operands:
            if operand.parent is not None:
                drop_dead(operand)


def _value(instruction: Instruction) -> npt.NDArray[Any] | None:
    """The array of a constant, or of a broadcast of one; None for anything else."""
    if instruction.opcode == "constant" and instruction.shape.is_array and not instruction.literal.elided:
        return instruction.literal.value()
    if instruction.opcode == "broadcast":
        source = _value(instruction.operands[0])
        if source is not None:
            return np.asarray(evaluate_instruction(instruction, [source]))
    return None
