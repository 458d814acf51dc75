"""Gather simplifier: every gather in one plain form."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, array
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["GatherSimplifier"]


@dataclass(frozen=True, slots=True)
class GatherSimplifier:
    """Rewrites gathers to take windows at the rows of a matrix of indices, one after the other.

    Indices become ``[windows, coordinates]``, coordinates are those of the first dimensions of the operand, no
    dimension of a window is left out, and the result has the windows first; transposes and reshapes do the rest.
    Batching dimensions stay for the batched-gather-scatter-normalizer.  For code generators that know this form only:
    not in the default pipeline.
    """

    name: ClassVar[str] = "gather-simplifier"
    opcodes: ClassVar[frozenset[str]] = frozenset({"gather"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, self.opcodes, _plain, "plain", "windows at rows of indices")


def _is_plain(gather: Instruction) -> bool:
    attributes, rank = gather.attributes, gather.operands[0].shape.rank
    return (
        gather.operands[1].shape.rank == 2
        and attributes["index_vector_dim"] == 1
        and tuple(attributes["start_index_map"]) == tuple(range(len(attributes["start_index_map"])))
        and not attributes["collapsed_slice_dims"]
        and tuple(attributes["offset_dims"]) == tuple(range(1, rank + 1))
    )


def _plain(build: Builder, gather: Instruction) -> Instruction | None:
    operand, indices = gather.operands
    attributes = gather.attributes
    if attributes.get("operand_batching_dims") or _is_plain(gather):
        return None
    if not (gather.shape.is_static and gather.shape.size and operand.shape.size):
        return None
    index_map, rank = list(attributes["start_index_map"]), operand.shape.rank
    order = [*index_map, *(d for d in range(rank) if d not in index_map)]
    windows = [attributes["slice_sizes"][d] for d in order]
    batch = list(indices.shape.dimensions)
    vector = attributes["index_vector_dim"]
    if vector < len(batch):
        indices = build.transpose(indices, [*(d for d in range(len(batch)) if d != vector), vector])
        del batch[vector]
    indices = build.reshape(indices, (prod(batch), len(index_map)))
    plain = {
        "offset_dims": tuple(range(1, rank + 1)),
        "collapsed_slice_dims": (),
        "start_index_map": tuple(range(len(index_map))),
        "index_vector_dim": 1,
        "slice_sizes": tuple(windows),
        "indices_are_sorted": bool(attributes.get("indices_are_sorted")),
    }
    shape = array(operand.shape.element_type, [prod(batch), *windows])
    taken = build.add("gather", shape, (build.transpose(operand, order), indices), plain)
    back = build.transpose(taken, [0, *(1 + order.index(d) for d in range(rank))])
    kept = [attributes["slice_sizes"][d] for d in range(rank) if d not in attributes["collapsed_slice_dims"]]
    spread = build.reshape(back, (*batch, *kept))
    offsets = list(attributes["offset_dims"])
    others = iter(range(len(batch)))
    places = [len(batch) + offsets.index(d) if d in offsets else next(others) for d in range(gather.shape.rank)]
    return build.transpose(spread, places)
