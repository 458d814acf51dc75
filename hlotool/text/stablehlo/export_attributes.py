"""Opcodes as operations of StableHLO: their names and attributes, for those with one result and no regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.ir import ConvDimensionNumbers, Instruction, Verbatim, Window
from hlotool.ir.window import window_of
from hlotool.text.stablehlo.dense import dense_text
from hlotool.text.stablehlo.elementwise import SAME_NAME
from hlotool.text.stablehlo.tree import attribute_text, type_text

__all__ = [
    "Refused", "collective", "integers_text", "kept", "list_text", "named", "number_text", "padding_text", "table_text",
]  # fmt: skip

_TO_NAME = {opcode: name for name, opcode in SAME_NAME.items()}
_CHLO = {
    "erf", "tan", "asin", "acos", "asinh", "acosh", "atanh", "sinh", "cosh", "mulhi",
}  # fmt: skip
_PLAIN = {"tan"}
class Refused(Exception):  # noqa: N818 - a control-flow signal that never leaves this package
    """What StableHLO has no counterpart of."""


def kept(instruction: Instruction) -> dict[str, str]:
    """Sharding and frontend attributes, as attributes of the operation."""
    rows: dict[str, str] = {}
    sharding = instruction.attributes.get("sharding")
    if isinstance(sharding, Verbatim):
        rows["mhlo.sharding"] = attribute_text(sharding.text)
    frontend = instruction.attributes.get("frontend_attributes")
    if frontend and instruction.opcode not in ("call", "send", "recv", "send-done", "recv-done"):
        rows["mhlo.frontend_attributes"] = attribute_text(frontend)
    for key in ("statistics", "origin", "parameter_replication"):
        if key in instruction.attributes:
            raise Refused(f"it has the attribute {key}")
    if instruction.attributes.get("backend_config") and instruction.opcode != "custom-call":
        raise Refused("it has a backend configuration")
    return rows


def integers_text(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def list_text(values: Sequence[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


def named(instruction: Instruction) -> tuple[str, dict[str, str]]:
    """The name and attributes of an operation with one result and no regions."""
    opcode, values = instruction.opcode, instruction.attributes
    attributes: dict[str, str] = {}
    if "result_accuracy" in values:
        raise Refused("it has a result_accuracy")
    if opcode in _TO_NAME:
        return f"stablehlo.{_TO_NAME[opcode]}", attributes
    if opcode in _PLAIN:
        return f"stablehlo.{opcode}", attributes
    if opcode in _CHLO:
        kind = instruction.shape.element_type
        if opcode not in ("erf", "mulhi") and kind not in ("c64", "c128"):
            raise Refused(f"StableHLO has no {opcode}: chlo.{opcode} is another computation")
        return f"chlo.{opcode}", attributes
    found = _ATTRIBUTES.get(opcode)
    if found is None:
        raise Refused(f"StableHLO has no {opcode}")
    return found(instruction)


Named = tuple[str, dict[str, str]]


def _compare(one: Instruction) -> Named:
    kind = one.operands[0].shape.element_type
    default = "FLOAT" if kind[0] in "fbc" else "SIGNED" if kind[0] == "s" else "UNSIGNED"
    compared = one.attributes.get("type") or default
    return "stablehlo.compare", {
        "comparison_direction": f"#stablehlo<comparison_direction {one.attributes['direction']}>",
        "compare_type": f"#stablehlo<comparison_type {compared}>",
    }


def _constant(one: Instruction) -> Named:
    if one.shape.is_tuple:
        raise Refused("StableHLO has no constants of tuples")
    return "stablehlo.constant", {"value": f"{dense_text(one.literal)} : {type_text(one.shape)}"}


def _slice(one: Instruction) -> Named:
    rows = one.attributes["slice"]
    return "stablehlo.slice", {
        "start_indices": integers_text([r.start for r in rows]),
        "limit_indices": integers_text([r.limit for r in rows]),
        "strides": integers_text([r.stride for r in rows]),
    }  # fmt: skip


def _pad(one: Instruction) -> Named:
    rows = one.attributes["padding"]
    return "stablehlo.pad", {
        "edge_padding_low": integers_text([r.low for r in rows]),
        "edge_padding_high": integers_text([r.high for r in rows]),
        "interior_padding": integers_text([r.interior for r in rows]),
    }  # fmt: skip


def _precision(one: Instruction) -> dict[str, str]:
    words = one.attributes.get("operand_precision", ())
    rows = ", ".join(f"#stablehlo<precision {word.upper()}>" for word in words)
    return {"precision_config": f"[{rows}]"} if words else {}


def _dot(one: Instruction) -> Named:
    values = one.attributes
    rows = [
        f"{side}_{theirs}_dimensions = {list_text(values.get(f'{side}_{ours}_dims', ()))}"
        for ours, theirs in (("batch", "batching"), ("contracting", "contracting"))
        for side in ("lhs", "rhs")
        if values.get(f"{side}_{ours}_dims")
    ]
    attributes = {"dot_dimension_numbers": f"#stablehlo.dot<{', '.join(rows)}>"} | _precision(one)
    algorithm = values.get("algorithm")
    if algorithm is not None:
        attributes["algorithm"] = _algorithm(algorithm)
    return "stablehlo.dot_general", attributes


def _algorithm(name: str) -> str:
    parts = name.removeprefix("dot_").split("_")
    if "any" in parts:
        raise Refused(f"StableHLO has no algorithm for any type of eight bits ({name})")
    left, right, total, *rest = parts
    times = int(rest[0][1:]) if rest else 1
    count = {1: 1, 3: 2, 6: 3, 9: 3}[times] if left == "bf16" else 1
    return (
        f"#stablehlo.dot_algorithm<lhs_precision_type = {left}, rhs_precision_type = {right}, "
        f"accumulation_type = {total}, lhs_component_count = {count}, rhs_component_count = {count}, "
        f"num_primitive_operations = {times}, allow_imprecise_accumulation = false>"
    )


def _labels(labels: ConvDimensionNumbers) -> str:
    def row(first: tuple[int, str], second: tuple[int, str], spatial: Sequence[int]) -> str:
        places = {first[0]: first[1], second[0]: second[1]} | {d: str(n) for n, d in enumerate(spatial)}
        return f"[{', '.join(places[n] for n in range(len(places)))}]"

    return (
        f"#stablehlo.conv<{row((labels.input_batch, 'b'), (labels.input_feature, 'f'), labels.input_spatial)}"
        f"x{row((labels.kernel_input_feature, 'i'), (labels.kernel_output_feature, 'o'), labels.kernel_spatial)}"
        f"->{row((labels.output_batch, 'b'), (labels.output_feature, 'f'), labels.output_spatial)}>"
    )


def padding_text(window: Window) -> str:
    rows = window.dimensions
    if not rows:
        return "dense<> : tensor<0x2xi64>"
    inside = ", ".join(f"[{r.padding_low}, {r.padding_high}]" for r in rows)
    return f"dense<[{inside}]> : tensor<{len(rows)}x2xi64>"


def _convolution(one: Instruction) -> Named:
    labels = one.attributes["dim_labels"]
    window = window_of(one, len(labels.input_spatial))
    rows = window.dimensions
    return "stablehlo.convolution", {
        "dimension_numbers": _labels(labels),
        "batch_group_count": f"{one.attributes.get('batch_group_count', 1)} : i64",
        "feature_group_count": f"{one.attributes.get('feature_group_count', 1)} : i64",
        "window_strides": integers_text([r.stride for r in rows]),
        "lhs_dilation": integers_text([r.base_dilation for r in rows]),
        "rhs_dilation": integers_text([r.window_dilation for r in rows]),
        "window_reversal": f"array<i1: {', '.join(str(r.reversal).lower() for r in rows)}>" if rows else "array<i1>",
        "padding": padding_text(window),
    } | _precision(one)


def _gather(one: Instruction) -> Named:
    values = one.attributes
    keys = (
        "offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
        "start_index_map",
    )  # fmt: skip
    rows = [f"{key} = {list_text(values[key])}" for key in keys if values.get(key)]
    rows.append(f"index_vector_dim = {values['index_vector_dim']}")
    return "stablehlo.gather", {
        "dimension_numbers": f"#stablehlo.gather<{', '.join(rows)}>",
        "slice_sizes": integers_text(values["slice_sizes"]),
        "indices_are_sorted": str(bool(values.get("indices_are_sorted"))).lower(),
    }  # fmt: skip


def _triangular(one: Instruction) -> Named:
    values = one.attributes
    attributes = {key: str(bool(values.get(key))).lower() for key in ("left_side", "lower", "unit_diagonal")}
    attributes["transpose_a"] = f"#stablehlo<transpose {values.get('transpose_a', 'NO_TRANSPOSE')}>"
    return "stablehlo.triangular_solve", attributes


def table_text(rows: Sequence[Sequence[int]]) -> str:
    width = max(map(len, rows), default=0)
    if not width:
        return f"dense<> : tensor<{len(rows)}x0xi64>" if rows else "dense<> : tensor<0x0xi64>"
    inside = ", ".join(f"[{', '.join(map(str, (*row, *[-1] * (width - len(row)))))}]" for row in rows)
    return f"dense<[{inside}]> : tensor<{len(rows)}x{width}xi64>"


def collective(one: Instruction) -> dict[str, str]:
    values = one.attributes
    attributes: dict[str, str] = {}
    for key in ("constrain_layout", "mode"):
        if values.get(key):
            raise Refused(f"it has {key}")
    if "replica_groups" in values:
        attributes["replica_groups"] = table_text(values["replica_groups"].groups)
    elif one.opcode != "collective-permute":
        attributes["replica_groups"] = table_text(())
    if values.get("channel_id") is not None:
        attributes["channel_handle"] = f"#stablehlo.channel_handle<handle = {values['channel_id']}, type = 1>"
    if values.get("use_global_device_ids"):
        attributes["use_global_device_ids"] = ""
    return attributes


def number_text(value: float | int) -> str:
    return repr(float(value)) if "e" not in repr(float(value)) or "." in repr(float(value)) else f"{float(value):.17e}"


_ATTRIBUTES: dict[str, Callable[[Instruction], Named]] = {
    "compare": _compare,
    "select": lambda one: ("stablehlo.select", {}),
    "clamp": lambda one: ("stablehlo.clamp", {}),
    "convert": lambda one: ("stablehlo.convert", {}),
    "bitcast-convert": lambda one: ("stablehlo.bitcast_convert", {}),
    "reduce-precision": lambda one: (
        "stablehlo.reduce_precision",
        {key: f"{one.attributes[key]} : i32" for key in ("exponent_bits", "mantissa_bits")},
    ),
    "constant": _constant,
    "iota": lambda one: ("stablehlo.iota", {"iota_dimension": f"{one.attributes['iota_dimension']} : i64"}),
    "broadcast": lambda one: (
        "stablehlo.broadcast_in_dim", {"broadcast_dimensions": integers_text(one.attributes["dimensions"])},
    ),
    "reshape": lambda one: ("stablehlo.reshape", {}),
    "transpose": lambda one: ("stablehlo.transpose", {"permutation": integers_text(one.attributes["dimensions"])}),
    "reverse": lambda one: ("stablehlo.reverse", {"dimensions": integers_text(one.attributes["dimensions"])}),
    "concatenate": lambda one: ("stablehlo.concatenate", {"dimension": f"{one.attributes['dimensions'][0]} : i64"}),
    "pad": _pad,
    "slice": _slice,
    "dynamic-slice": lambda one: (
        "stablehlo.dynamic_slice", {"slice_sizes": integers_text(one.attributes["dynamic_slice_sizes"])},
    ),
    "dynamic-update-slice": lambda one: ("stablehlo.dynamic_update_slice", {}),
    "dot": _dot,
    "convolution": _convolution,
    "gather": _gather,
    "cholesky": lambda one: ("stablehlo.cholesky", {"lower": str(bool(one.attributes.get("lower"))).lower()}),
    "triangular-solve": _triangular,
    "fft": lambda one: (
        "stablehlo.fft",
        {
            "fft_type": f"#stablehlo<fft_type {one.attributes['fft_type']}>",
            "fft_length": integers_text(one.attributes["fft_length"]),
        },
    ),
    "tuple": lambda one: ("stablehlo.tuple", {}),
    "get-tuple-element": lambda one: ("stablehlo.get_tuple_element", {"index": f"{one.attributes['index']} : i32"}),
    "after-all": lambda one: (
        ("stablehlo.after_all", {}) if one.operands else ("stablehlo.create_token", {})
    ),
    "partition-id": lambda one: ("stablehlo.partition_id", {}),
    "replica-id": lambda one: ("stablehlo.replica_id", {}),
    "collective-broadcast": lambda one: ("stablehlo.collective_broadcast", collective(one)),
    "collective-permute": lambda one: (
        "stablehlo.collective_permute",
        collective(one) | {"source_target_pairs": _pairs(one)},
    ),
    "get-dimension-size": lambda one: (
        "stablehlo.get_dimension_size", {"dimension": f"{one.attributes['dimensions'][0]} : i64"},
    ),
    "set-dimension-size": lambda one: (
        "stablehlo.set_dimension_size", {"dimension": f"{one.attributes['dimensions'][0]} : i64"},
    ),
}  # fmt: skip
"""Opcode -> the operation and its attributes."""


def _pairs(one: Instruction) -> str:
    if "slice_sizes" in one.attributes:
        raise Refused("it permutes slices")
    pairs = one.attributes["source_target_pairs"]
    return table_text(pairs) if pairs else "dense<> : tensor<0x2xi64>"
