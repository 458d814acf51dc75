"""Plainer constants: all zeros, or all ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlotool.harness.reduce.draft import Draft, Edit
from hlotool.ir import Instruction, Literal, Module, dtype_of

__all__ = ["ones", "zeros"]


def zeros(module: Module) -> Sequence[Edit]:
    return _filled(module, 0)


def ones(module: Module) -> Sequence[Edit]:
    return _filled(module, 1)


def _filled(module: Module, value: int) -> list[Edit]:
    return [
        Edit((computation.name, constant.name), _fill, (constant, value))
        for computation in module.computations.values()
        for constant in computation
        if constant.opcode == "constant" and _is_worse(constant, value)
    ]


def _is_worse(constant: Instruction, value: int) -> bool:
    array = constant.literal.array
    if array is None or not array.size:
        return False
    with np.errstate(all="ignore"):
        return not any(bool((array.astype(complex) == plain).all()) for plain in range(value + 1))


def _fill(draft: Draft, constant: Instruction, value: int) -> None:
    copy = draft.of(constant)
    shape = copy.literal.shape
    array = np.full(shape.dimensions, value).astype(dtype_of(shape.element_type))
    copy.attributes["literal"] = Literal(shape, array)
