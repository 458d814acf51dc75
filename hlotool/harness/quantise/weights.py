"""Large constants as parameters: weights beside the module, not in its text."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from hlotool.harness.native_values import ABOUT_RESULTS
from hlotool.ir import Module, clone_module
from hlotool.ir.builder import Builder

__all__ = ["LARGE", "with_weights_outside"]

LARGE = 1024
"""Elements of the smallest constant that is taken out."""


def with_weights_outside(module: Module) -> tuple[Module, dict[str, npt.NDArray[Any]]]:
    """A copy of a module that takes the large constants of its entry as further parameters, and their arrays by name.

    They are called after what they were made of, and their type: ``w1.s8``.
    """
    copy = clone_module(module)
    for name in ABOUT_RESULTS:
        copy.attributes.pop(name, None)
    arrays = {}
    taken = {one.name for one in copy.instructions()}
    for constant in list(copy.entry):
        if constant.opcode != "constant" or not constant.shape.is_array or constant.shape.size < LARGE:
            continue
        origin = (constant.origins or (constant.name,))[0]
        kind = constant.shape.element_type
        wanted = origin if origin.endswith(f".{kind}") else f"{origin}.{kind}"
        name = copy.unique_name(wanted) if wanted in taken else wanted
        taken.add(name)
        build = Builder(copy.entry, constant, like=constant)
        parameter = build.parameter(len(copy.entry.parameters), constant.shape.without_layout(), name)
        arrays[name] = constant.literal.value()
        constant.replace_all_uses(parameter)
        copy.entry.erase(constant)
    return copy, arrays
