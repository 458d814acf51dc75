"""Contents for constants that were left out of a text, made up as inputs are."""

from __future__ import annotations

import numpy as np

from hlotool.analysis.elided import elided_constants
from hlotool.harness.inputs import Input, index_bound, random_arrays
from hlotool.harness.roles import NORMAL, roles_of
from hlotool.ir import Instruction, Literal, Module, clone_module

__all__ = ["filled"]

_SEED = 0xE11DED


def filled(module: Module, how: str) -> Module:
    """A copy in which constants that were left out are ``zeros``, or ``random`` (as `random_inputs` for a parameter in
    their place, the same in every run)."""
    copy = clone_module(module)
    constants = elided_constants(copy)
    roles = roles_of(copy, constants) if how == "random" else {}
    leaves = [
        Input(constant.name, leaf, index_bound(constant) if constant.shape.is_array else None,
              roles.get((constant, number), NORMAL))
        for constant in constants
        for number, leaf in enumerate(leaf for leaf in constant.shape.leaves() if leaf.is_array)
    ]  # fmt: skip
    arrays = iter(random_arrays(leaves, _SEED) if how == "random" else [np.zeros(0)] * len(leaves))

    def made(literal: Literal) -> Literal:
        if literal.shape.is_tuple:
            return Literal(literal.shape, elements=tuple(map(made, literal.elements)))
        array = next(arrays)
        if not literal.elided:
            return literal
        return Literal(literal.shape, array if how == "random" else literal.value())

    for constant in constants:
        _replace(constant, made(constant.literal))
    return copy


def _replace(constant: Instruction, literal: Literal) -> None:
    constant.attributes = {**constant.attributes, "literal": literal}
