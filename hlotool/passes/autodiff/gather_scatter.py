"""Derivatives of gather and scatter: each is the transpose of the other.

A gather moves windows that stick out into the operand; a scatter leaves them out.  The transposes keep to that.

A scatter of several arrays, one that multiplies where indices may repeat, and any other that has no formula is
differentiated as the loop over its windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hlotool.analysis.reducers import opcodes
from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, array, literal
from hlotool.ir.builder import Builder, binary_computation
from hlotool.ir.shape import scalar
from hlotool.ir.types import dtype_of
from hlotool.passes.autodiff.expanded import in_simpler_opcodes
from hlotool.passes.autodiff.forward import Forward
from hlotool.passes.autodiff.movement import jointly
from hlotool.passes.autodiff.reductions import forward_as_call, reverse_as_call
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import Writer

__all__ = ["RULES"]


def _limits(at: Writer, indices: Instruction, limits: list[int], vector: int) -> Instruction:
    """The largest index of each component, in the shape of the indices."""
    element_type = indices.shape.element_type
    row = ELEMENT_TYPES[element_type]
    most = (1 << (row.bits - (row.kind == "signed"))) - 1
    values = [min(limit, most) for limit in limits]
    if vector == indices.shape.rank:
        return at.splat(values[0], indices.shape)
    column = at.build.constant(literal(np.array(values, dtype_of(element_type)), element_type))
    return at.build.broadcast(column, (vector,), indices.shape.dimensions)


def _gather(at: Reverse, gather: Instruction, cotangents: ByLeaf) -> None:
    operand, indices = gather.operands
    attributes, g = gather.attributes, cotangents[()]
    sizes = attributes["slice_sizes"]
    places = at.primal(indices)
    vector = attributes["index_vector_dim"]
    limits = [operand.shape.dimensions[d] - sizes[d] for d in attributes["start_index_map"]]
    if limits and places.shape.size:
        top = _limits(at, places, limits, vector)
        places = at.build.clamp(at.splat(0, places.shape), places, top)
    scatter: dict[str, Any] = {
        "update_window_dims": attributes["offset_dims"],
        "inserted_window_dims": attributes["collapsed_slice_dims"],
        "scatter_dims_to_operand_dims": attributes["start_index_map"],
        "index_vector_dim": vector,
        "to_apply": at.sum_computation(operand.shape.element_type),
    }
    for ours, theirs in (
        ("input_batching_dims", "operand_batching_dims"),
        ("scatter_indices_batching_dims", "start_indices_batching_dims"),
        ("indices_are_sorted", "indices_are_sorted"),
    ):
        if attributes.get(theirs):
            scatter[ours] = attributes[theirs]
    at.give_into(operand, lambda total: at.build.add("scatter", total.shape, (total, places, g), scatter))


# ---- scatter


def _is_assignment(scatter: Instruction) -> bool:
    """Whether updates take the places of elements."""
    reducer: Computation = scatter.attributes["to_apply"]
    return reducer.root.opcode == "parameter" and reducer.root.parameter_number == 1


_ONE_AFTER_THE_OTHER = "scatter-expander,tuple-simplifier,dce,map-inliner"


def _kind(scatter: Instruction) -> str:
    """What has a formula: a sum, an extreme, an assignment, a product without repeated indices; else ``other``."""
    if len(scatter.operands) != 3:
        return "other"
    if _is_assignment(scatter):
        return "assign"
    names = opcodes(scatter.attributes["to_apply"])
    if names in (("add",), ("maximum",), ("minimum",)):
        return names[0]
    return names[0] if names == ("multiply",) and scatter.attributes.get("unique_indices") else "other"


def _scattered(
    at: Writer, scatter: Instruction, total: Instruction, updates: Instruction, opcode: str | None = None
) -> Instruction:
    """The same scatter of other arrays; with `opcode`, which combines in another way."""
    attributes = dict(scatter.attributes)
    if opcode is not None:
        attributes["to_apply"] = at.module.add(binary_computation(opcode, total.shape.element_type))
    return at.build.add("scatter", total.shape, (total, at.primal(scatter.operands[1]), updates), attributes)


def _gathered(at: Writer, scatter: Instruction, whole: Instruction) -> Instruction:
    """What lies where the updates go."""
    attributes = scatter.attributes
    updates = scatter.operands[2].shape.dimensions
    inserted = attributes["inserted_window_dims"]
    batching = attributes.get("input_batching_dims", ())
    windows = iter([updates[d] for d in attributes["update_window_dims"]])
    sizes = [1 if d in inserted or d in batching else next(windows) for d in range(whole.shape.rank)]
    gather: dict[str, Any] = {
        "offset_dims": attributes["update_window_dims"],
        "collapsed_slice_dims": inserted,
        "start_index_map": attributes["scatter_dims_to_operand_dims"],
        "index_vector_dim": attributes["index_vector_dim"],
        "slice_sizes": tuple(sizes),
    }
    for ours, theirs in (
        ("operand_batching_dims", "input_batching_dims"),
        ("start_indices_batching_dims", "scatter_indices_batching_dims"),
        ("indices_are_sorted", "indices_are_sorted"),
    ):
        if attributes.get(theirs):
            gather[ours] = attributes[theirs]
    return at.build.gather(whole, at.primal(scatter.operands[1]), gather)


def _inside(at: Writer, scatter: Instruction) -> Instruction:
    """Which updates are not left out, in the shape of the updates."""
    operand, indices, updates = scatter.operands
    attributes = scatter.attributes
    vector, windows = attributes["index_vector_dim"], attributes["update_window_dims"]
    inserted, batching = attributes["inserted_window_dims"], attributes.get("input_batching_dims", ())
    whole = [d for d in range(operand.shape.rank) if d not in inserted and d not in batching]
    extent = {d: updates.shape.dimensions[w] for d, w in zip(whole, windows, strict=True)}
    limits = [operand.shape.dimensions[d] - extent.get(d, 1) for d in attributes["scatter_dims_to_operand_dims"]]
    if not limits:
        return at.build.splat(True, array("pred", updates.shape.dimensions))
    places = at.primal(indices)
    above = at.build.compare(places, at.splat(0, places.shape), "GE")
    below = at.build.compare(places, _limits(at, places, limits, vector), "LE")
    fits = at.build.binary("and", above, below)
    if vector < places.shape.rank:
        both = at.module.add(binary_computation("and", "pred"))
        fits = at.build.reduce(fits, at.build.scalar_constant(True, "pred"), (vector,), both)
    others = [d for d in range(updates.shape.rank) if d not in windows]
    return at.build.broadcast(fits, others, updates.shape.dimensions)


def _winners(at: Writer, scatter: Instruction) -> Instruction:
    """Which updates are in the result, where several may go to one place: each leaves its number."""
    operand, _, updates = scatter.operands
    count = updates.shape.size
    row = at.build.iota(array("s32", (count,)))
    numbers = at.build.reshape(row, updates.shape.dimensions)
    attributes = {**scatter.attributes, "to_apply": at.module.add(_second("s32"))}
    nobody = at.splat(-1, array("s32", operand.shape.dimensions))
    left = at.build.add("scatter", nobody.shape, (nobody, at.primal(scatter.operands[1]), numbers), attributes)
    return at.build.compare(_gathered(at, scatter, left), numbers, "EQ")


def _second(element_type: str) -> Computation:
    computation = Computation("second")
    build = Builder(computation)
    build.parameter(0, scalar(element_type))
    computation.root = build.parameter(1, scalar(element_type))
    return computation


def _masked(at: Writer, mask: Instruction, value: Instruction) -> Instruction:
    return at.build.select(mask, value, at.zeros(value.shape))


def _scatter_reverse(at: Reverse, scatter: Instruction, cotangents: ByLeaf) -> None:
    kind = _kind(scatter)
    if kind == "other":
        reverse_as_call(at, scatter, in_simpler_opcodes(at, scatter, _ONE_AFTER_THE_OTHER), cotangents)
        return
    g = cotangents[()]
    operand, _, updates = scatter.operands
    if not updates.shape.size:
        at.give(operand, g)
    elif kind in ("maximum", "minimum"):
        _extreme_reverse(at, scatter, g)
    elif kind == "add":
        at.give(operand, g)
        if at.wants(updates):
            at.give(updates, _masked(at, _inside(at, scatter), _gathered(at, scatter, g)))
    elif kind == "assign":
        if at.wants(operand):
            at.give(operand, _scattered(at, scatter, g, at.zeros(updates.shape)))
        if at.wants(updates):
            unique = scatter.attributes.get("unique_indices")
            mask = _inside(at, scatter) if unique else _winners(at, scatter)
            at.give(updates, _masked(at, mask, _gathered(at, scatter, g)))
    else:
        if at.wants(operand):
            at.give(operand, _scattered(at, scatter, g, at.primal(updates)))
        if at.wants(updates):
            product = at.build.binary("multiply", _gathered(at, scatter, g), _gathered(at, scatter, at.primal(operand)))
            at.give(updates, _masked(at, _inside(at, scatter), product))


def _chosen(at: Writer, scatter: Instruction) -> tuple[Instruction, Instruction, Instruction]:
    """Which elements, and which updates, are the result, and how many are at each place."""
    operand, _, updates = scatter.operands
    result = at.primal(scatter)
    stays = at.build.compare(at.primal(operand), result, "EQ")
    comes = at.build.compare(at.primal(updates), _gathered(at, scatter, result), "EQ")
    comes = at.build.binary("and", comes, _inside(at, scatter))
    element_type = operand.shape.element_type
    counted = at.build.convert(stays, element_type), at.build.convert(comes, element_type)
    return stays, comes, _scattered(at, scatter, *counted, "add")


def _extreme_reverse(at: Reverse, scatter: Instruction, g: Instruction) -> None:
    operand, _, updates = scatter.operands
    stays, comes, count = _chosen(at, scatter)
    share = at.build.binary("divide", g, count)
    at.give(operand, _masked(at, stays, share))
    if at.wants(updates):
        at.give(updates, _masked(at, comes, _gathered(at, scatter, share)))


_linear = jointly(lambda scatter: (0, 2))


def _scatter_forward(at: Forward, scatter: Instruction) -> ByLeaf:
    kind = _kind(scatter)
    if kind == "other":
        return forward_as_call(at, scatter, in_simpler_opcodes(at, scatter, _ONE_AFTER_THE_OTHER))
    if kind in ("add", "assign"):
        return _linear(at, scatter)
    operand, _, updates = scatter.operands
    moved, more = at.tangent_or_zeros(operand), at.tangent_or_zeros(updates)
    if kind == "multiply":
        kept = _scattered(at, scatter, moved, at.primal(updates))
        gained = at.build.binary("multiply", _gathered(at, scatter, at.primal(operand)), more)
        return {(): _scattered(at, scatter, kept, gained, "add")}
    stays, comes, count = _chosen(at, scatter)
    total = _scattered(at, scatter, _masked(at, stays, moved), _masked(at, comes, more), "add")
    return {(): at.build.binary("divide", total, count)}


RULES: dict[str, Rule] = {
    "gather": Rule(_gather, jointly(lambda gather: (0,))),
    "scatter": Rule(_scatter_reverse, _scatter_forward),
}
