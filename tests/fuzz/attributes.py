"""Random values of the attributes that do not decide shapes, of metadata, and of module headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from fuzz.values import random_literal
from hlotool.ir import (
    Aliasing,
    Attribute,
    Computation,
    ConvDimensionNumbers,
    Metadata,
    ReplicaGroups,
    Shape,
    StackFrames,
    Verbatim,
    Window,
    WindowDimension,
    array,
    scalar,
    tuple_shape,
)

__all__ = ["COMMON", "NAMES", "OPTIONAL", "header", "metadata", "sharding", "stack_frames"]

_NAMES_TEXT = "x _ a-b A.B.c add ROOT ENTRY HloModule constant parameter true inf nan body tuple maximal e1 x1x2"
NAMES = _NAMES_TEXT.split()
_STRINGS = (
    "", "x", "jit(f)/while[body]/add", 'a"b', "back\\slash", "a\nb\tc", "\x00\x7f", "é😀", "{}", "/* no */ // no",
    "a, b=c",
)  # fmt: skip
_CONFIGS = (
    "text", "", '{"a":1}', '{"a":{"b":[1,2,{"c":"}"}]}}', "{}", "{not json}", "{unbalanced", 'q"uote', "{ \"x\" : [] }",
    "{\n}", "{}x", '{"a":"\\""}', "[1]",
)  # fmt: skip
_WHOLE = ("replicated", "manual", "unknown", "unreduced", "maximal device=3", "maximal device=0")
_SUBGROUPS = (
    ("", 0), ("", 0), (" last_tile_dim_replicate", 1), (" last_tile_dims={manual}", 1),
    (" last_tile_dims={manual, replicated}", 2), (" last_tile_dims={unreduced, manual}", 2),
)  # fmt: skip
_NOTES = (
    "", "", "", " shard_as 1", " shard_like 2", ' metadata={op_name="a}b"}',
    ' metadata={{op_name="a"}, {op_name="b"}}',
)  # fmt: skip
_NAMED = ("{mesh['x'=2,'y'=2], replicated}", "{maximal_mesh[device_id=3]}")
_DEVICES = 8


def _map(rng: Random) -> dict[str, str]:
    keys = rng.sample(("a", "_xla_compute_type", "mhlo.frontend", "k-1", "inlineable"), rng.randint(0, 3))
    return {key: rng.choice((*_CONFIGS, *_STRINGS)) for key in keys}


def _origin(rng: Random, shape: Shape) -> Verbatim:
    return Verbatim(rng.choice(('{"v1"}', '({"v1"}, {"v2" {1}})', "[synthetic_call]", '{{"a"}, {}}')))


COMMON: Mapping[str, Callable[[Random, Shape], Any]] = {
    "frontend_attributes": lambda rng, shape: _map(rng),
    "statistics": lambda rng, shape: Verbatim("{visualizing_index=0,a=1.5,b=-2e-3}"),
    "parameter_replication": lambda rng, shape: tuple(rng.random() < 0.5 for _ in shape.leaves()),
    "origin": _origin,
    "backend_config": lambda rng, shape: rng.choice(_CONFIGS),
}
"""Attributes that any instruction may have, with values for one of a shape."""


def sharding(rng: Random, shape: Shape) -> Verbatim:
    """One that fits the shape, for at most the devices of `header`: of each array of a tuple, or of all at once."""
    if shape.is_tuple and rng.random() < 0.7:
        return Verbatim(f"{{{', '.join(_sharding(rng, leaf) for leaf in shape.leaves())}}}")
    return Verbatim(_sharding(rng, shape))


def _sharding(rng: Random, shape: Shape) -> str:
    words, more = rng.choice(_SUBGROUPS)
    rank = more + (shape.rank if shape.is_array else 0)
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(_NAMED)
    if kind < 0.4 or not rank or not shape.is_array:
        return f"{{{rng.choice(_WHOLE)}{rng.choice(_NOTES)}}}"
    count = rng.choice((2, 4, _DEVICES))
    tiles = [1] * rank
    for _ in range(count.bit_length() - 1):
        tiles[rng.randrange(rank)] *= 2
    listed = ",".join(map(str, rng.sample(range(_DEVICES), count)))
    devices = rng.choice((listed, f"<=[{count}]", f"<=[2,{count // 2}]T(1,0)"))
    return f"{{devices=[{','.join(map(str, tiles))}]{devices}{words}{rng.choice(_NOTES)}}}"


def _groups(rng: Random, row: Attribute, count: int) -> ReplicaGroups:
    explicit = ReplicaGroups(rng.choice(((), ((0,),), ((0, 1), (2, 3)), ((2, 0, 1),))))
    iota = ReplicaGroups(((0, 1, 2, 3), (4, 5, 6, 7)), "[2,4]<=[8]")
    turned = ReplicaGroups(((0, 2), (1, 3)), "[2,2]<=[2,2]T(1,0)")
    return rng.choice((explicit, iota, turned))


def _window(rng: Random, row: Attribute, count: int) -> Window:
    return rng.choice((Window(), Window((WindowDimension(3, 2, 1, -1, 2, 1, True), WindowDimension(0)))))


def _word(rng: Random, row: Attribute, count: int) -> str:
    return rng.choice(row.choices or ("word", "PADDING_SAME"))


def _int(rng: Random, row: Attribute, count: int) -> int:
    return rng.choice((0, 1, 7, 1 << 40))


def _bool(rng: Random, row: Attribute, count: int) -> bool:
    return rng.random() < 0.5


def _string(rng: Random, row: Attribute, count: int) -> str:
    return rng.choice(_STRINGS)


def _aliasing(rng: Random, row: Attribute, count: int) -> tuple[Aliasing, ...]:
    return (Aliasing((), 0, ()),) if count else ()


def _literal(rng: Random, row: Attribute, count: int) -> Any:
    shape: Shape = rng.choice((scalar("f32"), array("s32", (2, 2)), tuple_shape([scalar("pred"), array("c64", (1,))])))
    return random_literal(rng, shape)


def _labels(rng: Random, row: Attribute, count: int) -> ConvDimensionNumbers:
    unknown = ConvDimensionNumbers(0, 1, (), 0, 1, (), 0, 1, (), "bf?_io?->bf?")
    return rng.choice((ConvDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,)), unknown))


def _accuracy(rng: Random, row: Attribute, count: int) -> Verbatim:
    return Verbatim(rng.choice(("{mode=highest}", "{mode=default}", "{tolerance={atol=0.5, rtol=1e-3, ulps=2}}")))


def _precision(rng: Random, row: Attribute, count: int) -> tuple[str, ...]:
    return tuple(rng.choice(row.choices) for _ in range(count))


OPTIONAL: Mapping[str, Callable[[Random, Attribute, int], Any]] = {
    "result_accuracy": _accuracy,
    "operand_precision": _precision,
    "algorithm": _word,
    "channel_id": _int,
    "replica_groups": _groups,
    "constrain_layout": _bool,
    "use_global_device_ids": _bool,
    "mode": _word,
    "is_stable": _bool,
    "is_composite": _bool,
    "largest": _bool,
    "indices_are_sorted": _bool,
    "unique_indices": _bool,
    "lower": _bool,
    "unit_diagonal": _bool,
    "transpose_a": _word,
    "cross_program_prefetch_index": _int,
    "inferred_dimension": _int,
    "is_host_transfer": _bool,
    "infeed_config": _string,
    "outfeed_config": _string,
    "fusion output_to_operand_aliasing": _aliasing,
    "custom-call window": _window,
    "custom-call dim_labels": _labels,
    "custom-call feature_group_count": _int,
    "custom-call batch_group_count": _int,
    "custom_call_has_side_effect": _bool,
    "padding_type": _word,
    "custom-call literal": _literal,
    "schedule": _word,
    "api_version": _word,
}
"""Makers of attributes that may be left out, by their name, or by opcode and name: (rng, row, number of operands)."""


def metadata(rng: Random) -> Metadata:
    """Of both forms: places, and numbers of stack frames."""
    words = ("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name")
    numbers = ("source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id")
    values: dict[str, Any] = {name: rng.choice(_STRINGS) for name in words}
    values |= {name: rng.choice((0, 1, 70_000)) for name in numbers}
    return Metadata(**values, profile_type=rng.choice(("", "{1}", "WINDOW")))


def stack_frames(rng: Random) -> StackFrames:
    """The tables of the newer form."""
    return StackFrames(
        ((1, rng.choice(_STRINGS)), (2, "b.py")),
        ((1, rng.choice(_STRINGS)),),
        ((1, (("file_name_id", 1), ("function_name_id", 1), ("line", 10), ("column", 4))),),
        ((1, (("file_location_id", 1), ("parent_frame_id", 1))),),
    )


def header(rng: Random, entry: Computation) -> dict[str, Any]:
    """Attributes of the header line that fit an entry computation."""
    parameters, root = entry.parameters, entry.root
    found: dict[str, Any] = {}
    outputs = [(n,) for n in range(len(root.shape.elements))] if root.shape.is_tuple else [()]
    leaves = list(root.shape.elements) if root.shape.is_tuple else [root.shape]
    pairs = [
        Aliasing(index, p.parameter_number, (), rng.choice(("may-alias", "must-alias", None)))
        for index, leaf in zip(outputs, leaves, strict=True)
        for p in parameters[:1]
        if p.shape.compatible(leaf)
    ]
    made: dict[str, Any] = {
        "is_scheduled": True,
        "input_output_alias": tuple(pairs[:1]),
        "buffer_donor": Verbatim("{ (0, {}) }"),
        "alias_passthrough_params": True,
        "entry_computation_layout": (tuple(p.shape for p in parameters), root.shape),
        "allow_spmd_sharding_propagation_to_parameters": Verbatim("{true,false}"),
        "allow_spmd_sharding_propagation_to_output": Verbatim("true"),
        "replica_count": 2,
        "num_partitions": _DEVICES,
        "frontend_attributes": _map(rng),
        "origin_recovery_table": Verbatim('{ {"old"} : {"new"} }'),
    }
    for name, value in made.items():
        if rng.random() < 0.2:
            found[name] = value
    return found
