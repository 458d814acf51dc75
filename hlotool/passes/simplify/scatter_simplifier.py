"""Scatter simplifier: every scatter in one plain form."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["ScatterSimplifier"]

_KEPT = ("indices_are_sorted", "unique_indices", "to_apply")


@dataclass(frozen=True, slots=True)
class ScatterSimplifier:
    """Rewrites scatters to take their windows, one after the other, at the rows of a matrix of indices.

    Indices become ``[windows, coordinates]``, coordinates are those of the first dimensions of the operands, windows
    have all dimensions of the operands, and updates have the windows first; transposes and reshapes do the rest.
    Windows keep their order.  Batching dimensions stay for the batched-gather-scatter-normalizer.  For code generators
    that know this form only: not in the default pipeline.
    """

    name: ClassVar[str] = "scatter-simplifier"
    opcodes: ClassVar[frozenset[str]] = frozenset({"scatter"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, self.opcodes, _plain, "plain", "windows at rows of indices")


def _is_plain(scatter: Instruction) -> bool:
    attributes, rank = scatter.attributes, scatter.operands[0].shape.rank
    index_map = attributes["scatter_dims_to_operand_dims"]
    return (
        scatter.operands[len(scatter.operands) // 2].shape.rank == 2
        and attributes["index_vector_dim"] == 1
        and tuple(index_map) == tuple(range(len(index_map)))
        and not attributes["inserted_window_dims"]
        and tuple(attributes["update_window_dims"]) == tuple(range(1, rank + 1))
    )


def _plain(build: Builder, scatter: Instruction) -> Instruction | None:
    count = len(scatter.operands) // 2
    attributes = scatter.attributes
    if attributes.get("input_batching_dims") or _is_plain(scatter):
        return None
    if not all(shape.is_static and shape.size for shape in scatter.shape.leaves()):
        return None  # of an empty array, a dimension left out may have no elements
    arrays, indices, updates = scatter.operands[:count], scatter.operands[count], scatter.operands[count + 1 :]
    index_map, rank = list(attributes["scatter_dims_to_operand_dims"]), arrays[0].shape.rank
    order = [*index_map, *(d for d in range(rank) if d not in index_map)]
    back = [order.index(d) for d in range(rank)]
    vector, batch = attributes["index_vector_dim"], list(indices.shape.dimensions)
    if vector < len(batch):
        indices = build.transpose(indices, [*(d for d in range(len(batch)) if d != vector), vector])
        del batch[vector]
    windows_of = list(attributes["update_window_dims"])
    others = [d for d in range(updates[0].shape.rank) if d not in windows_of]
    sizes = iter([updates[0].shape.dimensions[d] for d in windows_of])
    window = [1 if d in attributes["inserted_window_dims"] else next(sizes) for d in range(rank)]
    indices = build.reshape(indices, (prod(batch), len(index_map)))
    moved = []
    for update in updates:
        spread = build.reshape(build.transpose(update, [*others, *windows_of]), (prod(batch), *window))
        moved.append(build.transpose(spread, [0, *(1 + d for d in order)]))
    plain = {
        "update_window_dims": tuple(range(1, rank + 1)),
        "inserted_window_dims": (),
        "scatter_dims_to_operand_dims": tuple(range(len(index_map))),
        "index_vector_dim": 1,
    }
    plain |= {name: attributes[name] for name in _KEPT if name in attributes}
    turned = [build.transpose(one, order) for one in arrays]
    shapes = [one.shape for one in turned]
    shape = shapes[0] if scatter.shape.is_array else tuple_shape(shapes)
    done = build.add("scatter", shape, (*turned, indices, *moved), plain)
    if scatter.shape.is_array:
        return build.transpose(done, back)
    return build.tuple([build.transpose(build.gte(done, number), back) for number in range(count)])
