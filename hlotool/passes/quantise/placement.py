"""Where numbers are made small: operands of products that are stored, and read back just ahead of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.quantise.products import free_axes, take_place
from hlotool.passes.quantise.quantiser import Quantiser

__all__ = ["Recipe", "place"]

_Placed: TypeAlias = list[tuple[Instruction, Quantiser, Instruction]]
"""Values, how they were stored, and what was read back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one product is quantised: a quantiser for each operand, None for one that stays what it is.

    `correction` (f32) is added to the result, a number for each channel that the operand `weights` makes: what rounding
    the weights takes off on average.
    """

    operands: tuple[Quantiser | None, Quantiser | None]
    weights: int | None = None
    correction: npt.NDArray[np.float32] | None = None


def place(
    computation: Computation,
    recipes: Mapping[str, Recipe],
    log: DecisionLog,
    switches: Mapping[str, Instruction] | None = None,
) -> None:
    """Store and read back the operands of the products with these names.

    With `switches`, a scalar predicate for each product, both results are computed, and that of the small numbers is
    taken where the predicate holds.
    """
    placed: _Placed = []
    for product in [one for one in computation if one.name in recipes]:
        recipe = recipes[product.name]
        build = Builder(computation, product, like=product)
        operands = [
            operand if quantiser is None else _read_back(build, operand, quantiser, placed)
            for operand, quantiser in zip(product.operands, recipe.operands, strict=True)
        ]
        new = build.add(product.opcode, product.shape, operands, product.attributes)
        result = new
        if recipe.correction is not None and recipe.weights is not None:
            own = build.constant(recipe.correction)
            own = own if product.shape.element_type == "f32" else build.convert(own, product.shape.element_type)
            channels = free_axes(product, recipe.weights).result
            result = build.binary("add", new, build.broadcast(own, channels, product.shape.dimensions))
        if switches is None:
            kinds = [one.type if one is not None else product.shape.element_type for one in recipe.operands]
            take_place(product, new, result)
            log.rewrite("quantise", product, new, f"its operands are stored as {kinds[0]} and {kinds[1]}")
        else:
            chosen = build.select(build.broadcast(switches[product.name], (), product.shape.dimensions), result, new)
            product.replace_all_uses(chosen)
            chosen.replace_operand(2, product)
    computation.sort_topologically()


def _read_back(build: Builder, value: Instruction, quantiser: Quantiser, placed: _Placed) -> Instruction:
    """The value as it is read back, which is shared by products that store it alike."""
    for source, known, made in placed:
        if source is value and known.same(quantiser):
            return made
    build = Builder(build.computation, build.before, like=value)
    made = quantiser.dequantise(build, quantiser.quantise(build, value), value.shape.element_type)
    placed.append((value, quantiser, made))
    return made
