"""What order a reducer wants."""

from __future__ import annotations

import numpy as np

from hlotool.evaluate.combiner import Choice, choice_of
from hlotool.ir import Computation

__all__ = ["COMBINERS", "Choice", "choice", "opcodes"]

COMBINERS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
"""Operations that reduce in any order."""


def opcodes(computation: Computation) -> tuple[str, ...]:
    """The operations of a reducer of which each result is one of `COMBINERS` on its own pair of parameters, else ()."""
    root, parameters = computation.root, computation.parameters
    roots = root.operands if root.opcode == "tuple" else [root]
    if len(parameters) != 2 * len(roots):
        return ()
    for number, result in enumerate(roots):
        pair = {id(parameters[number]), id(parameters[number + len(roots)])}
        if result.opcode not in COMBINERS or {id(o) for o in result.operands} != pair or not result.shape.is_scalar:
            return ()
    return tuple(result.opcode for result in roots)


def choice(computation: Computation) -> Choice | None:
    """What is known of `computation` if all it does is to choose; see `Choice`."""
    from hlotool.evaluate.interpreter import Interpreter

    with np.errstate(all="ignore"):
        return choice_of(computation, Interpreter(None, None).map)
