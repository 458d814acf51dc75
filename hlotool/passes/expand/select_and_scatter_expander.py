"""Select-and-scatter expander: find the selected places by a window reduction, then scatter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, array, scalar, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.framework.graph import inline_computation

__all__ = ["SelectAndScatterExpander", "expanded", "spelled_out"]

_NOWHERE = -1
"""The place of padding, which is never selected."""


@dataclass(frozen=True, slots=True)
class SelectAndScatterExpander:
    """Rewrites select-and-scatter as a reduce-window of values with their places, and a scatter to these places.

    Not in the default pipeline: the CPU code generator does both in one pass over the windows.
    """

    name: ClassVar[str] = "select-and-scatter-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"select-and-scatter"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        reason = "a reduce-window and a scatter"
        return expand_each(module, log, self.opcodes, partial(expanded, module), "expand", reason, static=True)


def expanded(module: Module, build: Builder, instruction: Instruction) -> Instruction:
    return spelled_out(module, build, instruction, instruction.operands)


def spelled_out(
    module: Module,
    build: Builder,
    instruction: Instruction,
    operands: Sequence[Instruction],
    inside: Instruction | None = None,
    wanted: Instruction | None = None,
) -> Instruction:
    """The result of a select-and-scatter of `operands`.

    With `inside`, a pred of the dimensions of the operand, only those elements can be selected; with `wanted`, one of
    the dimensions of the source, only those are scattered.
    """
    operand, source, initial = operands
    attributes = instruction.attributes
    if not operand.shape.size:
        return operand
    start = build.broadcast(initial, (), operand.shape.dimensions)
    if not source.shape.size:
        return start
    kind, size = operand.shape.element_type, operand.shape.size
    places = build.reshape(build.iota(array("s64", (size,))), operand.shape.dimensions)
    if inside is not None:
        places = build.select(inside, places, build.splat(_NOWHERE, places.shape))
    picker = module.add(_picker(attributes["select"], kind, build))
    sizes = source.shape.dimensions
    chosen = build.add(
        "reduce-window", tuple_shape([array(kind, sizes), array("s64", sizes)]),
        [operand, places, build.scalar_constant(0, kind), build.scalar_constant(_NOWHERE, "s64")],
        {**{key: attributes[key] for key in ("window",) if key in attributes}, "to_apply": picker},
    )  # fmt: skip
    targets = build.gte(chosen, 1)
    if wanted is not None:
        targets = build.select(wanted, targets, build.splat(_NOWHERE, targets.shape))
    scattered = build.add(
        "scatter", array(kind, (size,)),
        [build.reshape(start, (size,)), build.reshape(targets, (prod(sizes), 1)),
         build.reshape(source, (prod(sizes),))],
        {"update_window_dims": (), "inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,),
         "index_vector_dim": 1, "to_apply": attributes["scatter"]},
    )  # fmt: skip
    return build.reshape(scattered, operand.shape.dimensions)


def _picker(select: Computation, kind: str, outer: Builder) -> Computation:
    """Of two values with places the one that `select` keeps, or else the one that has a place."""
    computation = Computation("selected")
    build = Builder(computation, like=outer.like)
    types = (kind, "s64", kind, "s64")
    left, left_place, right, right_place = (build.parameter(n, scalar(t)) for n, t in enumerate(types))
    nowhere = build.scalar_constant(_NOWHERE, "s64")
    call = build.call(select, [left, right])
    kept = inline_computation(call, select, [left, right])
    computation.erase(call)
    there = build.compare(left_place, nowhere, "NE")
    alone = build.compare(right_place, nowhere, "EQ")
    first = build.binary("and", there, build.binary("or", alone, kept))
    computation.root = build.tuple([build.select(first, left, right), build.select(first, left_place, right_place)])
    return computation
