"""Shardings and original values: messages to their HLO text, which is how the IR keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.ir import Metadata, Shape
from hlotool.text.proto.message import Message

__all__ = ["iota_text", "mesh_groups_text", "origin_text", "read_metadata", "sharding_text"]


def _braces(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def iota_text(message: Message) -> str:
    """``<=[2,4]T(1,0)`` of the fields ``iota_reshape_dims`` and ``iota_transpose_perm``."""
    order = message.numbers("iota_transpose_perm")
    text = f"<=[{_braces(message.numbers('iota_reshape_dims'))}]"
    return text if list(order) == list(range(len(order))) else f"{text}T({_braces(order)})"


def sharding_text(message: Message) -> str:
    """An OpSharding as XLA prints it."""
    kind = message.word("type")
    if "named_sharding" in message:
        return f"{{{_named(message.message('named_sharding'))}}}"
    if kind == "TUPLE":
        return f"{{{', '.join(map(sharding_text, message.messages('tuple_shardings')))}}}"
    if kind == "MAXIMAL":
        devices = message.numbers("tile_assignment_devices")
        if len(devices) != 1:
            raise message.fail(f"a maximal sharding names one device, not {len(devices)}")
        text = f"maximal device={devices[0]}"
    elif kind == "OTHER":
        text = _tiles(message)
    elif kind in ("REPLICATED", "MANUAL", "UNKNOWN", "UNREDUCED"):
        text = kind.lower()
    else:
        raise message.fail(f"unknown kind of sharding {kind}")
    if message.flag("is_shard_group"):
        text += f" shard_{message.word('shard_group_type').lower()} {message.number('shard_group_id')}"
    notes = _notes(message)
    if notes:
        text += f" metadata={notes[0] if len(notes) == 1 else '{' + ', '.join(notes) + '}'}"
    return f"{{{text}}}"


def _notes(message: Message) -> list[str]:
    from hlotool.text.writers import write_metadata

    return [write_metadata(found) for one in message.messages("metadata") if (found := read_metadata(one))]


def mesh_groups_text(message: Message) -> str:
    """A MeshAxesReplicaGroupListProto as XLA prints it: ``mesh['x'=2,'y'=2] {'x'}``."""
    mesh = message.message("mesh")
    return f"{_mesh(mesh)} {{{','.join(_axes(mesh, message.messages('axes')))}}}"


def _named(message: Message) -> str:
    """A NamedShardingProto: ``mesh['x'=2,'y'=2], [{'x'}, {?}], unreduced={'y'}``."""
    mesh = message.message("mesh")
    if not mesh.messages("axes"):
        devices = mesh.numbers("device_ids")
        return f"maximal_mesh[device_id={devices[0]}]" if devices else "mesh[], replicated"
    parts = [_mesh(mesh)]
    dimensions = []
    for one in message.messages("dim_shardings"):
        axes = _axes(mesh, one.messages("axes")) + ([] if one.flag("is_closed") else ["?"])
        dimensions.append(f"{{{', '.join(axes)}}}")
    rest = [
        f"{word}={{{', '.join(axes)}}}"
        for word in ("replicated", "unreduced", "manual")
        if (axes := _axes(mesh, message.messages(f"{word}_axes")))
    ]
    if dimensions:
        parts.append(f"[{', '.join(dimensions)}]")
    elif not rest:
        parts.append("replicated")
    notes = _notes(message)
    return ", ".join([*parts, *rest, *([f"metadata={{{', '.join(notes)}}}"] if notes else [])])


def _mesh(message: Message) -> str:
    axes = [f"'{axis.text('name')}'={axis.number('size')}" for axis in message.messages("axes")]
    text = f"mesh[{','.join(axes)}]"
    iota, devices = message.message("iota_transform"), message.numbers("device_ids")
    order = iota.numbers("transpose_perm")
    if list(order) != list(range(len(order))):
        text += f", device_ids=([{_braces(iota.numbers('reshape_dims'))}]T({_braces(order)}))"
    elif devices:
        text += f", device_ids=({_braces(devices)})"
    return text


def _axes(mesh: Message, axes: Sequence[Message]) -> list[str]:
    """``'x'``, or ``'x':(2)4`` for the part of 4 after the first 2."""
    names = [axis.text("name") for axis in mesh.messages("axes")]
    found = []
    for axis in axes:
        number = axis.number("mesh_axis_index")
        if not 0 <= number < len(names):
            raise axis.fail(f"the mesh has no axis {number}")
        part = axis.message("sub_axis_info")
        inside = f":({part.number('pre_size')}){part.number('size')}" if part.values else ""
        found.append(f"'{names[number]}'{inside}")
    return found


def _tiles(message: Message) -> str:
    text = f"devices=[{_braces(message.numbers('tile_assignment_dimensions'))}]"
    if message.numbers("iota_reshape_dims"):
        text += iota_text(message)
    else:
        text += _braces(message.numbers("tile_assignment_devices"))
    last: list[str] = message.values.get("last_tile_dims", [])
    if message.flag("replicate_on_last_tile_dim"):
        text += " last_tile_dim_replicate"
    elif last:
        text += f" last_tile_dims={{{', '.join(word.lower() for word in last)}}}"
    return text


def read_metadata(message: Message) -> Metadata | None:
    """An OpMetadata; None where it says nothing."""
    if not message.values:
        return None
    kinds = message.values.get("profile_type", [])
    numbers = {"INVALID": 0, "WINDOW": 1, "FLAG": 2, "INTEGER": 3}
    found = Metadata(
        message.text("op_type"),
        message.text("op_name"),
        message.text("source_file"),
        message.number("source_line"),
        message.number("source_end_line"),
        message.number("source_column"),
        message.number("source_end_column"),
        f"{{{','.join(str(numbers.get(kind, kind)) for kind in kinds)}}}" if kinds else "",
        message.text("deduplicated_name"),
        message.text("scheduling_name"),
        message.number("stack_frame_id"),
        message.flag("preserve_layout"),
    )
    return None if found == Metadata() else found


def origin_text(message: Message, shape: Shape) -> str:
    """An OriginalValueProto as a tree in the form of `shape`, in braces."""
    if message.flag("is_synthetic_call"):
        return "{[synthetic_call]}"
    from hlotool.text.writers import write_string

    arrays = {e.numbers("shape_index"): e.message("original_array") for e in message.messages("elements")}

    def leaf(index: tuple[int, ...]) -> str:
        array = arrays.get(index)
        if array is None or not array.values:
            return "{}"
        inside = array.numbers("shape_index")
        return f"{{{write_string(array.text('instruction_name'))}{f' {{{_braces(inside)}}}' if inside else ''}}}"

    return f"{{{_tree(shape, (), leaf)}}}"


def _tree(shape: Shape, index: tuple[int, ...], leaf: Callable[[tuple[int, ...]], str]) -> str:
    if not shape.is_tuple:
        return leaf(index)
    return f"({', '.join(_tree(element, (*index, n), leaf) for n, element in enumerate(shape.elements))})"
