"""Partitioning of what is written as other operations first, as passes that expand it do: each of them is divided."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hlotool.ir import Computation, Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.passes.expand.batch_norm_expander import batch_norm
from hlotool.passes.expand.ragged_dot_decomposer import ragged_dot
from hlotool.passes.expand.scaled_dot_decomposer import scaled_dot
from hlotool.passes.expand.scan_expander import scan
from hlotool.passes.framework.graph import erase
from hlotool.passes.spmd.axes import Axes
from hlotool.passes.spmd.partitioner import Partitioner, Rule
from hlotool.passes.spmd.reshard import reshard
from hlotool.passes.spmd.values import Part, Value

__all__ = ["RULES"]

Expand = Callable[[Module, Builder, Instruction], Instruction]
"""(module, where to write, the instruction) -> what has its value."""


def _spelled_out(expand: Expand, p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    if not (i.shape.is_static and all(o.shape.is_static for o in i.operands)):
        return None
    body = Computation(p.work.module.unique_name(i.name))
    build = Builder(body, like=i)
    operands = [build.parameter(n, o.shape) for n, o in enumerate(i.operands)]
    attributes = {key: value for key, value in i.attributes.items() if key != "sharding"}
    one = build.add(i.opcode, i.shape, operands, attributes)
    body.root = expand(p.work.module, build, one)
    erase(one)
    return p.inlined(body, values)


def _scan(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Every device goes over all places of the dimension; others stay divided."""
    count = len(values) - i.attributes["num_carries"]
    given = [
        reshard(p, value, value.tiling.without(i.attributes["dimensions"]))
        if isinstance(value, Part) and n < count else value
        for n, value in enumerate(values)
    ]  # fmt: skip
    return _spelled_out(scan, p, i, given)


def _batch_norm(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Features are independent; where mean and variance are operands, everything is.  Where other dimensions are
    divided, too, it is written as reductions and arithmetic."""
    feature = i.attributes["feature_index"]
    rank = i.operands[0].shape.rank
    everything = i.opcode == "batch-norm-inference"
    large = tuple([d if everything or d == feature else None for d in range(rank)])
    operands = tuple([large if o.shape.rank == rank else (feature,) for o in i.operands])
    results = tuple([large if leaf.rank == rank else (feature,) for leaf in i.shape.leaves()])
    if rank == 1:
        return None
    given = values[0]
    assert isinstance(given, Part)
    if not everything and any(axis.count > 1 for d, axis in enumerate(given.tiling.axes) if d != feature):
        return _spelled_out(batch_norm, p, i, values)
    return p.divided(i, values, Axes(operands, results))


RULES: dict[str, Rule] = {
    "ragged-dot": partial(_spelled_out, ragged_dot),
    "scaled-dot": partial(_spelled_out, scaled_dot),
    "scan": _scan,
    **dict.fromkeys(("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), _batch_norm),
}
