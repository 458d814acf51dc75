"""Partitioning of custom calls, and of collectives that the program has itself.

A program may say itself what each device does, between ``SPMDFullToShardShape`` and ``SPMDShardToFullShape``: there it
has collectives of its own.
"""

from __future__ import annotations

import numpy as np

from hlotool.evaluate.xla_annotations import is_annotation, is_sink
from hlotool.ir import Computation, Instruction, Shape, Verbatim, dtype_of
from hlotool.ir.builder import Builder
from hlotool.ir.sharding import parse_sharding
from hlotool.passes.spmd.axes import Axes
from hlotool.passes.spmd.partitioner import Partitioner, Rule, attributes_of, refusal
from hlotool.passes.spmd.rules_topk import topk
from hlotool.passes.spmd.tiling import manual, replicated
from hlotool.passes.spmd.values import Part, Value, parts_of, rebuilt

__all__ = ["RULES"]

_BORDERS = frozenset({"SPMDFullToShardShape", "SPMDShardToFullShape"})

_FOR_ITSELF = frozenset({"xla_ffi_partitioned_python_cpu_callback"})
"""Each device does it with what it has, whatever the call's sharding says; they give no arrays."""


def _custom_call(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    target = i.attributes["custom_call_target"]
    if target in _BORDERS:
        return _border(p, i, values)
    if is_annotation(i):
        return values[0]
    if target == "TopK":
        return topk(p, i, values)
    if is_sink(i):
        made = p.emit(i, i.shape, [p.packed(value) for value in values])
        return p.unpacked(made, i.shape, iter([replicated(0, p.devices) for _ in i.shape.leaves()]))
    if target in _FOR_ITSELF and not any(leaf.is_array for leaf in i.shape.leaves()):
        return _for_itself(p, i, values)
    if any(part.tiling.is_manual for value in values for part in parts_of(value)):
        return None
    device = _only_device(i)
    if device is not None:
        return _on_one(p, i, values, device)
    if i.attributes.get("custom_call_has_side_effect"):
        raise refusal(i, "it has side effects, which every device would have")
    return None


def _for_itself(p: Partitioner, i: Instruction, values: list[Value]) -> Value:
    """Each device does it with its part of the operands; of dimensions with tiles of several sizes it gets all."""
    p.work.log.note("each-device", i, "each device does it with its part of the operands")
    made = p.emit(i, i.shape, [p.packed(_evenly(p, value)) for value in values])
    return p.unpacked(made, i.shape, iter([replicated(0, p.devices) for _ in i.shape.leaves()]))


def _evenly(p: Partitioner, value: Value) -> Value:
    """A value whose tiles have nothing behind its end."""
    parts = []
    for part in parts_of(value):
        sizes = zip(part.shape.dimensions, part.tiling.counts, strict=True) if part.shape.is_array else ()
        uneven = [d for d, (size, count) in enumerate(sizes) if size % count]
        parts.append(p.settled(part, part.shape, [part.tiling.without(uneven)]) if uneven else part)
    return parts[0] if isinstance(value, Part) else tuple(parts)


def _only_device(i: Instruction) -> int | None:
    """The one device that is to have the results, as that of a call of a function of Python."""
    written = i.attributes.get("sharding")
    read = parse_sharding(written.text) if isinstance(written, Verbatim) else ()
    found = {one.devices[:1] if one.kind == "maximal" else () for one in (read if isinstance(read, tuple) else [read])}
    return next(iter(found))[0] if len(found) == 1 and () not in found else None


def _on_one(p: Partitioner, i: Instruction, values: list[Value], device: int) -> Value:
    """One device does it; all others get the arrays that it gives."""
    p.work.log.note("one-device", i, f"device {device} does it, and sends all others what it gives")
    given = p.build.tuple([p.packed(p.whole(value)) for value in values])
    module = p.work.module
    here, elsewhere = (Computation(module.unique_name(f"{i.name}.{where}")) for where in ("here", "elsewhere"))
    one, other = Builder(here, like=i), Builder(elsewhere, like=i)
    row = one.parameter(0, given.shape)
    attributes = attributes_of(i)
    here.root = one.add("custom-call", i.shape, [one.gte(row, n) for n in range(len(values))], attributes, i.name)
    other.parameter(0, given.shape)
    elsewhere.root = _nothing(other, i.shape)
    flag = p.build.compare(p.table([int(d == device) for d in range(p.devices)]), p.zero("s32"), "NE")
    called = {"true_computation": module.add(here), "false_computation": module.add(elsewhere)}
    made = p.build.add("conditional", i.shape, [flag, given, given], called)
    order = (device, *(d for d in range(p.devices) if d != device))
    tilings = iter([replicated(leaf.rank if leaf.is_array else 0, p.devices) for leaf in i.shape.leaves()])
    parts = [
        Part(p.broadcast(part.local, order), part.shape, part.tiling) if part.shape.is_array else part
        for part in parts_of(p.unpacked(made, i.shape, tilings))
    ]
    return rebuilt(i.shape, iter(parts))


def _nothing(build: Builder, shape: Shape) -> Instruction:
    """A value of `shape` that nobody looks at."""
    if shape.is_tuple:
        return build.tuple([_nothing(build, element) for element in shape.elements])
    if shape.is_token:
        return build.add("after-all", shape)
    blank = build.constant(np.zeros((), dtype_of(shape.element_type)), shape.element_type)
    return build.broadcast(blank, (), shape.dimensions)


def _border(p: Partitioner, i: Instruction, values: list[Value]) -> Value:
    """What a device has stays as it is: it is the whole of an array of its own, or a part of one of all devices."""
    (given,) = values
    wanted = p.wanted(i)
    if wanted is None or not isinstance(given, Part):
        raise refusal(i, "it has no sharding")
    (tiling,) = wanted
    shape = tiling.local(i.shape)
    if not shape.compatible(given.local.shape):
        raise refusal(i, f"a device has {given.local.shape}, and {shape} of the result")
    return Part(given.local, i.shape, tiling)


def _owned(p: Partitioner, i: Instruction, values: list[Value]) -> list[Value]:
    """The operands of a collective among devices, as arrays of their own; refused where they are parts of ones of all.

    What does not depend on arguments is the same on all devices, and their own where the program says what each does.
    """
    among = i.attributes.get("channel_id") is not None
    if not among or any(part.tiling.is_manual for value in values for part in parts_of(value)):
        return values
    worlds = next((tiling.worlds for tiling in p.wanted(i) or () if tiling.is_manual), p.own_worlds)
    parts = [one for one in values if isinstance(one, Part) and not one.tiling.is_tiled]
    if worlds is None or len(parts) != len(values):
        raise refusal(i, "it is among devices, outside of what a program says for each of them")
    return [Part(one.local, one.shape, replicated(one.tiling.rank, p.devices, worlds)) for one in parts]


def _each(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    values = _owned(p, i, values)
    labels = [tuple(range(o.shape.rank)) for o in i.operands]
    if len({o.shape.dimensions for o in i.operands}) > 1:
        return None
    return p.divided(i, values, Axes(tuple(labels), tuple(labels)))


def _along(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """All dimensions but the one that is gathered or scattered."""
    values = _owned(p, i, values)
    gone = i.attributes.get("dimensions") or ()
    rank = i.operands[0].shape.rank
    labels = tuple([None if d in gone or not gone else d for d in range(rank)])
    if any(o.shape.rank != rank for o in i.operands):
        return None
    return p.divided(i, values, Axes((labels,) * len(values), (labels,) * len(list(i.shape.leaves()))))


def _partition_id(p: Partitioner, i: Instruction, values: list[Value]) -> Value:
    """Every device has another number."""
    return Part(p.emit(i, i.shape, []), i.shape, manual(0, p.devices))


RULES: dict[str, Rule] = {
    "custom-call": _custom_call,
    "partition-id": _partition_id,
    **dict.fromkeys(("all-reduce", "collective-permute", "collective-broadcast"), _each),
    **dict.fromkeys(("all-gather", "reduce-scatter", "all-to-all"), _along),
}
