"""Operations between devices and with the host: collectives, tokens, feeds, sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.ir import Instruction, Literal, ReplicaGroups, Shape, array, token, tuple_shape
from hlotool.text.stablehlo.elementwise import result
from hlotool.text.stablehlo.mesh_axes import groups_along
from hlotool.text.stablehlo.scope import (
    Refusal,
    Scope,
    attribute,
    flag,
    integers,
    number,
    stored,
    text_of,
    unsupported,
)
from hlotool.text.stablehlo.tree import Mark, Number, Operation

__all__: list[str] = []


def _groups(scope: Scope, operation: Operation) -> ReplicaGroups:
    """``dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>``; -1 fills rows.  Or axes of a mesh."""
    value = attribute(operation, "replica_groups")
    if isinstance(value, Mark) and value.kind == "replica_group_mesh_axes":
        return groups_along(scope.program.functions, value)
    dimensions = value.shape.dimensions if isinstance(value, Literal) else ()
    flat = integers(operation, "replica_groups")
    if len(dimensions) != 2:
        raise Refusal("'replica_groups' is a table of two dimensions", code="HLO0139")
    rows, columns = dimensions
    table = [flat[n * columns : (n + 1) * columns] for n in range(rows)]
    return ReplicaGroups(tuple(tuple(one for one in row if one != -1) for row in table if columns))


def _channel(operation: Operation) -> int | None:
    """The number of the channel, None where there is none."""
    value = operation.attributes.get("channel_handle", operation.attributes.get("channel_id"))
    if isinstance(value, Mark) and isinstance(value.value, dict):
        value = value.value.get("handle")
    found = value.value if isinstance(value, Number) else None
    return int(found) if found else None


def _common(scope: Scope, operation: Operation, *, groups: bool = True) -> dict[str, Any]:
    values: dict[str, Any] = {}
    channel = _channel(operation)
    if channel is not None:
        values["channel_id"] = channel
    if groups:
        values["replica_groups"] = _groups(scope, operation)
    if flag(operation, "use_global_device_ids"):
        values["use_global_device_ids"] = True
    return values


def all_gather(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    shapes = [result(operation, n) for n in range(len(operation.results))]
    values = _common(scope, operation) | {"dimensions": (number(operation, "all_gather_dim"),)}
    return scope.spread("all-gather", shapes, scope.operands(operation), values)


def all_reduce(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    operands = scope.operands(operation)
    values = _common(scope, operation) | {"to_apply": scope.applied(operation)}
    return scope.spread("all-reduce", [one.shape for one in operands], operands, values)


def cross_replica_sum(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    adder = scope.program.binary("add", source.shape.element_type)
    values = {"replica_groups": _groups(scope, operation), "to_apply": adder}
    return [scope.builder.add("all-reduce", source.shape, (source,), values)]


def reduce_scatter(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    shapes = [result(operation, n) for n in range(len(operation.results))]
    values = _common(scope, operation)
    values |= {"dimensions": (number(operation, "scatter_dimension"),), "to_apply": scope.applied(operation)}
    return scope.spread("reduce-scatter", shapes, scope.operands(operation), values)


def all_to_all(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """HLO's splits and concatenates along the same dimension; else the pieces are moved before and after."""
    split, joined = number(operation, "split_dimension"), number(operation, "concat_dimension")
    count = number(operation, "split_count")
    values = _common(scope, operation)
    builder = scope.builder
    found: list[Instruction] = []
    for source in scope.operands(operation):
        shape = source.shape
        if not (0 <= split < shape.rank and 0 <= joined < shape.rank) or count < 1:
            raise Refusal(f"all_to_all of {shape} along dimensions {split} and {joined}")
        if split == joined:
            found.append(builder.add("all-to-all", shape, (source,), values | {"dimensions": (split,)}))
            continue
        sizes = list(shape.dimensions)
        if sizes[split] % count:
            raise Refusal(f"a dimension of {sizes[split]} cannot be split into {count}")
        pieces = [*sizes[:split], count, sizes[split] // count, *sizes[split + 1 :]]
        moved = builder.reshape(source, pieces)
        moved = builder.add("all-to-all", moved.shape, (moved,), values | {"dimensions": (split,)})
        order = [n for n in range(len(pieces)) if n != split]
        order.insert(joined, split)
        moved = builder.transpose(moved, order)
        sizes[split] //= count
        sizes[joined] *= count
        found.append(builder.reshape(moved, sizes))
    return found


def collective_broadcast(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    return [scope.builder.add("collective-broadcast", source.shape, (source,), _common(scope, operation))]


def collective_permute(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (source,) = scope.operands(operation)
    flat = integers(operation, "source_target_pairs")
    values = _common(scope, operation, groups=False)
    values["source_target_pairs"] = tuple(zip(flat[::2], flat[1::2], strict=False))
    return [scope.builder.add("collective-permute", source.shape, (source,), values)]


def identity(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """``partition_id`` and ``replica_id``."""
    name = operation.name.partition(".")[2].replace("_", "-")
    return [scope.builder.add(name, array("u32"))]


# ---- tokens and the host


def after_all(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    return [scope.builder.add("after-all", token(), scope.operands(operation))]


def infeed(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    shapes = [stored(one.type) for one in operation.results[:-1]]
    operands = scope.operands(operation)
    inside = tuple_shape(shapes)
    values: dict[str, Any] = {}
    if text_of(operation, "infeed_config", ""):
        values["infeed_config"] = text_of(operation, "infeed_config")
    together = scope.builder.add("infeed", tuple_shape((inside, token())), operands, values)
    arrays = scope.several(scope.builder.gte(together, 0), len(shapes))
    return [*arrays, scope.builder.gte(together, 1)]


def outfeed(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    *arrays, before = scope.operands(operation)
    together = scope.builder.tuple(arrays)
    values: dict[str, Any] = {"outfeed_shape": together.shape}
    if text_of(operation, "outfeed_config", ""):
        values["outfeed_config"] = text_of(operation, "outfeed_config")
    return [scope.builder.add("outfeed", token(), (together, before), values)]


def _transfer(operation: Operation) -> dict[str, Any]:
    values: dict[str, Any] = {}
    channel = _channel(operation)
    if channel is not None:
        values["channel_id"] = channel
    if flag(operation, "is_host_transfer"):
        values["is_host_transfer"] = True
    pairs = operation.attributes.get("source_target_pairs")
    if pairs is not None:
        flat = integers(operation, "source_target_pairs")
        rows = ",".join(f"{{{a},{b}}}" for a, b in zip(flat[::2], flat[1::2], strict=False))
        values["frontend_attributes"] = {"_xla_send_recv_source_target_pairs": f"{{{rows}}}"}
    return values


def send(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    *arrays, before = scope.operands(operation)
    data = arrays[0] if len(arrays) == 1 else scope.builder.tuple(arrays)
    values = _transfer(operation)
    shape = tuple_shape((data.shape, array("u32"), token()))
    sent = scope.builder.add("send", shape, (data, before), values)
    return [scope.builder.add("send-done", token(), (sent,), values)]


def recv(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (before,) = scope.operands(operation)
    shapes = [stored(one.type) for one in operation.results[:-1]]
    data = shapes[0] if len(shapes) == 1 else tuple_shape(shapes)
    values = _transfer(operation)
    got = scope.builder.add("recv", tuple_shape((data, array("u32"), token())), (before,), values)
    done = scope.builder.add("recv-done", tuple_shape((data, token())), (got,), values)
    found = scope.builder.gte(done, 0)
    arrays = [found] if len(shapes) == 1 else scope.several(found, len(shapes))
    return [*arrays, scope.builder.gte(done, 1)]




def async_start(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    """The operation of the region as what a thread of its own runs."""
    computation = scope.applied(operation)
    operands = scope.operands(operation)
    shape = tuple_shape((tuple_shape([one.shape for one in operands]), computation.root.shape, array("u32")))
    return [scope.builder.add("async-start", shape, operands, {"calls": computation})]


def async_done(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    (started,) = scope.operands(operation)
    if started.opcode != "async-start":
        raise unsupported("async_done of what no async_start of the same function began")
    computation = started.attributes["calls"]
    shape: Shape = computation.root.shape
    made = scope.builder.add("async-done", shape, (started,), {"calls": computation})
    count = len(operation.results)
    return [made] if count == 1 else scope.several(made, count)


