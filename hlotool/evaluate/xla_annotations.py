"""Custom calls of XLA's that say something of a value, and compute nothing."""

from __future__ import annotations

from hlotool.ir import Instruction

__all__ = ["IDENTITY_TARGETS", "SINK_TARGETS", "is_annotation", "is_sink"]

IDENTITY_TARGETS = frozenset({
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape", "LayoutConstraint", "annotate_device_placement",
    "xla.sdy.PropagationBarrier",
    "MoveToHost", "MoveToDevice", "PinToDevice", "PinToDeviceSram", "AssumeGatherIndicesInBound",
})  # fmt: skip
"""They return their operand, where its shape is that of the result."""


SINK_TARGETS = frozenset({"xla.sdy.ShardingGroup", "dce_sink"})
"""They give nothing: they tie values to a group of shardings, or keep them from being removed."""


def is_annotation(instruction: Instruction) -> bool:
    """Whether the instruction is a custom call that returns its operand."""
    return (
        instruction.opcode == "custom-call"
        and len(instruction.operands) == 1
        and instruction.attributes.get("custom_call_target") in IDENTITY_TARGETS
        and instruction.operands[0].shape.compatible(instruction.shape)
    )


def is_sink(instruction: Instruction) -> bool:
    """Whether the instruction is a custom call that does nothing and gives nothing."""
    return (
        instruction.opcode == "custom-call"
        and instruction.attributes.get("custom_call_target") in SINK_TARGETS
        and not any(leaf.is_array for leaf in instruction.shape.leaves())
    )
