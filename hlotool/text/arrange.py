"""A copy of a module in the order and with the attributes that XLA's printer gives.

XLA prints computations and instructions in a post-order of its own (schedules aside), leaves out attributes that have
their default value, fills in row-major layouts, and makes instruction names unique in the whole module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hlotool.ir import (
    ELEMENT_TYPES,
    OPCODES,
    WRITTEN,
    Computation,
    Instruction,
    Module,
    ReplicaGroups,
    Shape,
    clone_module,
    row_major,
)

__all__ = ["DEFAULTS", "arrange", "post_order", "usual_attributes", "with_layouts"]

DEFAULTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        ("is_stable", "indices_are_sorted", "unique_indices", "constrain_layout", "use_global_device_ids", "lower",
         "custom_call_has_side_effect", "is_host_transfer", "is_reverse", "left_side", "unit_diagonal", "is_composite",
         "is_scheduled", "alias_passthrough_params"),
        (False,),
    ),
    **dict.fromkeys(("feature_group_count", "batch_group_count", "replica_count", "num_partitions"), (1,)),
    **dict.fromkeys(
        ("lhs_batch_dims", "rhs_batch_dims", "operand_batching_dims", "start_indices_batching_dims",
         "input_batching_dims", "scatter_indices_batching_dims", "output_to_operand_aliasing", "called_computations"),
        ((),),
    ),
    "schedule": ("SCHEDULE_NONE",),
    "api_version": ("API_VERSION_ORIGINAL",),
    "padding_type": ("PADDING_INVALID",),
    "conv_kind": ("unset",),
    "backend_config": ("",),
    "infeed_config": ("",),
    "outfeed_config": ("",),
    "frontend_attributes": ({},),
    "async_execution_thread": ("main",),
}  # fmt: skip
"""Values that XLA does not print."""

_COLLECTIVE = ("channel_id", "replica_groups", "constrain_layout")
_ORDER: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("all-gather", "all-gather-start"), (*_COLLECTIVE, "dimensions", "use_global_device_ids")),
    **dict.fromkeys(("all-reduce", "all-reduce-start"), (*_COLLECTIVE, "use_global_device_ids", "to_apply")),
    "reduce-scatter": (*_COLLECTIVE, "use_global_device_ids", "dimensions", "to_apply"),
    **dict.fromkeys(("all-to-all", "ragged-all-to-all", "collective-broadcast"), (*_COLLECTIVE, "dimensions")),
    **dict.fromkeys(
        ("dot", "ragged-dot", "scaled-dot"),
        ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims", "lhs_ragged_dims",
         "rhs_group_dims", "operand_precision", "algorithm"),
    ),
    "custom-call": (
        "window", "dim_labels", "feature_group_count", "batch_group_count", "operand_precision", "padding_type",
        "custom_call_target", "operand_layout_constraints", "custom_call_has_side_effect", "literal",
        "output_to_operand_aliasing", "schedule", "api_version", "called_computations",
    ),
    "outfeed": ("outfeed_shape", "outfeed_config"),
    **dict.fromkeys(
        ("async-start", "async-update", "async-done"),
        ("async_execution_thread", "output_to_operand_aliasing", "calls"),
    ),
}  # fmt: skip
"""Where the order of printing is not that of the opcode table."""

_LAYOUT = "entry_computation_layout"
_SUFFIX = re.compile(r"(.+)\.(\d{1,18})\Z", re.DOTALL)


def arrange(module: Module) -> Module:
    """The copy; callees stand before callers in it."""
    copy = clone_module(module)
    for computation in copy.computations.values():
        for instruction in computation:
            instruction.shape = with_layouts(instruction.shape)
            instruction.attributes = usual_attributes(instruction)
    _rename(copy)
    order = _computation_order(copy)
    if not copy.attributes.get("is_scheduled"):
        for computation in copy.computations.values():
            computation.reorder(post_order(computation))
    copy.computations = {computation.name: computation for computation in order}
    header = {k: v for k, v in copy.attributes.items() if v not in DEFAULTS.get(k, ())}
    parameters, result = header.get(_LAYOUT) or (tuple(p.shape for p in copy.entry.parameters), copy.entry.root.shape)
    if f"{WRITTEN}{_LAYOUT}" not in header:  # where it is known
        header[_LAYOUT] = tuple(map(with_layouts, parameters)), with_layouts(result)
    copy.attributes = header
    return copy


def with_layouts(shape: Shape) -> Shape:
    """The shape with row-major layouts where it has none."""
    if shape.elements:
        elements = tuple([with_layouts(element) for element in shape.elements])
        return shape if elements == shape.elements else Shape(shape.element_type, elements=elements)
    return shape.with_layout(row_major(shape.rank)) if shape.is_array and shape.layout is None else shape


# ---- attributes


def usual_attributes(instruction: Instruction) -> dict[str, Any]:
    """The attributes in XLA's order without defaults."""
    opcode = instruction.opcode
    values = {k: v for k, v in instruction.attributes.items() if not _is_default(instruction, k, v)}
    if opcode == "custom-call" and "to_apply" in values:
        values["called_computations"] = (values.pop("to_apply"),)
    if "frontend_attributes" in values:
        values["frontend_attributes"] = dict(sorted(values["frontend_attributes"].items()))
    rows = [row.name for row in OPCODES[opcode].attributes]
    if "replica_groups" in rows and "replica_groups" not in values:
        values["replica_groups"] = ReplicaGroups(())
    for name in ("operand_layout_constraints", "outfeed_shape"):
        if name in values:
            value = values[name]
            values[name] = with_layouts(value) if isinstance(value, Shape) else tuple(map(with_layouts, value))
    order = _ORDER.get(opcode, tuple(rows))
    return {name: values[name] for name in (*order, *values) if name in values}


def _is_default(instruction: Instruction, name: str, value: Any) -> bool:
    if name == "operand_precision":
        return all(word == "default" for word in value)
    if name == "type" and instruction.opcode == "compare" and instruction.operands:
        kind = ELEMENT_TYPES[instruction.operands[0].shape.element_type].kind
        return bool(value == {"float": "FLOAT", "complex": "FLOAT", "signed": "SIGNED"}.get(kind, "UNSIGNED"))
    if name == "channel_id":
        return bool(value <= 0)
    if name == "window":
        return not value.dimensions
    if name == "result_accuracy":
        return bool("".join(value.text.split()) == "{mode=default}")
    if name == "mode":
        return True  # XLA reads it and forgets it
    return value in DEFAULTS.get(name, ())


# ---- names


def _rename(module: Module) -> None:
    """Make instruction names unique in the module: the second ``x`` is ``x.1``."""
    used: dict[str, set[int]] = {}
    following: dict[str, int] = {}
    for computation in module.computations.values():
        for instruction in computation:
            match = _SUFFIX.match(instruction.name)
            stem, number = (match[1], int(match[2])) if match and str(int(match[2])) == match[2] else (
                instruction.name, 0)  # fmt: skip
            taken = used.setdefault(stem, set())
            if number in taken:
                number = following.get(stem, 0)
                while number in taken:
                    number += 1
                following[stem] = number + 1
                instruction.name = f"{stem}.{number}" if number else stem
            taken.add(number)


# ---- order


def _called(instruction: Instruction) -> list[Computation]:
    """Called computations in the order that XLA keeps them (the body of a loop before its condition)."""
    if instruction.opcode == "while":
        return [instruction.attributes["body"], instruction.attributes["condition"]]
    return instruction.called


def _computation_order(module: Module) -> list[Computation]:
    """Every computation after those that it calls; those that nothing calls in the order of the text."""
    callees = {c for instruction in module.instructions() for c in instruction.called}
    order: dict[Computation, None] = {}
    for computation in module.computations.values():
        if computation not in callees:
            order.update(dict.fromkeys(_embedded(computation)))
            order[computation] = None
    return list(order)


def _embedded(top: Computation) -> list[Computation]:
    """The computations below `top`, callees first, as a depth-first walk over the instructions finds them."""
    seen: set[Computation] = set()
    order: list[Computation] = []
    stack: list[tuple[Computation, Iterator[Instruction]]] = []
    for start in top:
        pending: Instruction | None = start
        while True:
            for callee in reversed(_called(pending)) if pending is not None else ():
                if callee not in seen:
                    seen.add(callee)
                    stack.append((callee, iter(callee)))
            if not stack:
                break
            pending = next(stack[-1][1], None)
            if pending is None:
                order.append(stack.pop()[0])
    return order


def post_order(computation: Computation) -> list[Instruction]:
    """Operands before users, the first operand first, starting from the instructions that nothing uses."""
    done: dict[Instruction, bool] = {}  # False while its operands are being visited
    order: list[Instruction] = []
    for start in computation:
        if start.users:
            continue
        stack = [start]
        while stack:
            instruction = stack[-1]
            state = done.get(instruction)
            if state is None:
                done[instruction] = False
                stack += [o for o in reversed(instruction.operands) if o not in done]
                stack += [b for b in instruction.control_predecessors if b not in done]
                continue
            stack.pop()
            if not state:
                done[instruction] = True
                order.append(instruction)
    return order
