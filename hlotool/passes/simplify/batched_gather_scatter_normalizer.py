"""Batched gather and scatter normalizer: batching dimensions as indices."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module, array
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["BatchedGatherScatterNormalizer"]

_NAMES = {
    "gather": ("operand_batching_dims", "start_indices_batching_dims", "start_index_map", "collapsed_slice_dims"),
    "scatter": ("input_batching_dims", "scatter_indices_batching_dims", "scatter_dims_to_operand_dims",
                "inserted_window_dims"),
}  # fmt: skip
"""Opcode -> attributes: batching dimensions of the operand, of the indices, the index map, dimensions left out."""


@dataclass(frozen=True, slots=True)
class BatchedGatherScatterNormalizer:
    """Rewrites gathers and scatters with batching dimensions to such without: a column of indices for each.

    Indices narrower than 32 bits become s32 (s64 where they are u32), which the batch dimensions need.  Not in the
    default pipeline: the CPU kernels take batching dimensions as they are.
    """

    name: ClassVar[str] = "batched-gather-scatter-normalizer"
    opcodes: ClassVar[frozenset[str]] = frozenset({"gather", "scatter"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        reason = "batching dimensions are indices"
        return expand_each(module, log, self.opcodes, _normalized, "batching", reason, static=True)


def _normalized(build: Builder, instruction: Instruction) -> Instruction | None:
    names, attributes = _NAMES[instruction.opcode], dict(instruction.attributes)
    if not attributes.get(names[0]):
        return None
    of_operand, of_indices = attributes.pop(names[0]), attributes.pop(names[1])
    count = 1 if instruction.opcode == "gather" else (len(instruction.operands) - 1) // 2
    indices = _wide_enough(build, instruction.operands[count])
    vector = attributes["index_vector_dim"]
    sizes = list(indices.shape.dimensions)
    if vector == len(sizes):
        indices, sizes = build.reshape(indices, (*sizes, 1)), [*sizes, 1]
    column = array(indices.shape.element_type, [1 if d == vector else size for d, size in enumerate(sizes)])
    columns = [build.iota(column, dimension) for dimension in of_indices]
    joined = build.concatenate([*columns, indices], vector)
    attributes[names[2]] = (*of_operand, *attributes[names[2]])
    attributes[names[3]] = tuple(sorted({*attributes[names[3]], *of_operand}))
    operands = [*instruction.operands[:count], joined, *instruction.operands[count + 1 :]]
    return build.add(instruction.opcode, instruction.shape, operands, attributes)


def _wide_enough(build: Builder, indices: Instruction) -> Instruction:
    """Indices of a type that counts any dimension, and that holds the indices themselves."""
    row = ELEMENT_TYPES[indices.shape.element_type]
    if row.bits == 64 or row.name == "s32":
        return indices
    return build.convert(indices, "s64" if row.name == "u32" else "s32")
