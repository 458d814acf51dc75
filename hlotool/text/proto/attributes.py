"""The attributes of an instruction from its message: the typed values that the parser of HLO text gives.

One function per group of opcodes; each writes into the dictionary in the order in which XLA prints, and leaves out
what XLA leaves out because it is the default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlotool.ir import (
    ELEMENT_TYPES,
    Aliasing,
    Attribute,
    Computation,
    ConvDimensionNumbers,
    Instruction,
    PaddingDimension,
    ReplicaGroups,
    Shape,
    SliceDimension,
    Verbatim,
    Window,
    WindowDimension,
)
from hlotool.text.proto.message import Message, ProtoFailure
from hlotool.text.proto.sharding import iota_text, mesh_groups_text, origin_text, sharding_text
from hlotool.text.proto.values import read_literal, read_shape

__all__ = ["read_aliasing", "read_attributes", "read_map"]

Values = dict[str, Any]
Called = list[Computation]

_COLLECTIVE_GROUPS = Attribute("replica_groups", "replica_groups")


def read_attributes(message: Message, opcode: str, shape: Shape, operands: list[Instruction], called: Called) -> Values:
    """All attributes of an instruction, its called computations among them; ProtoFailure where one is malformed."""
    values: Values = {}
    read = _READERS.get(opcode)
    if read is not None:
        read(message, values, operands)
    _calls(message, opcode, values, operands, called)
    _common(message, shape, values)
    return values


def _common(message: Message, shape: Shape, values: Values) -> None:
    if "result_accuracy" in message and message.message("result_accuracy").values:
        accuracy = message.message("result_accuracy")
        if "tolerance" in accuracy:
            limits = accuracy.message("tolerance")
            inside = f"atol={limits.real('atol'):g},rtol={limits.real('rtol'):g},ulps={limits.number('ulps')}"
            values["result_accuracy"] = Verbatim(f"{{tolerance={{{inside}}}}}")
        elif accuracy.word("mode") != "DEFAULT":
            values["result_accuracy"] = Verbatim(f"{{mode={accuracy.word('mode').lower()}}}")
    if "sharding" in message:
        values["sharding"] = Verbatim(sharding_text(message.message("sharding")))
    attributes = read_map(message.message("frontend_attributes"))
    if attributes:
        values["frontend_attributes"] = attributes
    statistics = message.message("statistics_viz")
    if statistics.messages("statistics"):
        rows = [f"{s.text('stat_name')}={s.real('stat_val'):g}" for s in statistics.messages("statistics")]
        index = statistics.number("stat_index_to_visualize")
        values["statistics"] = Verbatim(f"{{visualizing_index={index},{','.join(rows)}}}")
    replication = message.message("parameter_replication").numbers("replicated_at_leaf_buffers")
    if replication:
        values["parameter_replication"] = tuple(map(bool, replication))
    if "original_value" in message:
        values["origin"] = Verbatim(origin_text(message.message("original_value"), shape))
    if message.data("backend_config"):
        values["backend_config"] = message.data("backend_config").decode("utf-8", "surrogateescape")


def read_map(message: Message) -> dict[str, str]:
    """FrontendAttributes, sorted by key as XLA prints them."""
    rows = {row.text("key"): row.text("value") for row in message.messages("map")}
    return dict(sorted(rows.items()))


def read_aliasing(rows: list[Message]) -> tuple[Aliasing, ...]:
    """A list of OutputOperandAliasing."""
    return tuple(
        Aliasing(r.numbers("output_shape_index"), r.number("operand_index"), r.numbers("operand_shape_index"))
        for r in rows
    )


# ---- called computations


def _calls(message: Message, opcode: str, values: Values, operands: list[Instruction], called: Called) -> None:
    names = _CALLS.get(opcode)
    if opcode == "conditional":
        predicate = bool(operands) and operands[0].shape.element_type == "pred"
        if predicate and len(called) == 2:
            values["true_computation"], values["false_computation"] = called
        else:
            values["branch_computations"] = tuple(called)
    elif opcode == "custom-call":
        if called:
            values["called_computations"] = tuple(called)
    elif names is not None and len(called) == len(names):
        values.update(sorted(zip(names, called, strict=True), key=lambda pair: _CALL_ORDER.index(pair[0])))
    elif called or (names is not None and opcode not in ("async-update", "async-done")):
        raise message.fail(f"{opcode} calls {len(names or ())} computations, not {len(called)}")
    if opcode == "call" and message.flag("is_composite"):
        values["is_composite"] = True


_CALLS: dict[str, tuple[str, ...]] = {
    "while": ("body", "condition"),
    "select-and-scatter": ("select", "scatter"),
    "fusion": ("calls",),
    "async-start": ("calls",),
    "async-update": ("calls",),
    "async-done": ("calls",),
    **dict.fromkeys(("all-reduce", "all-reduce-start", "reduce-scatter", "call", "map"), ("to_apply",)),
    **dict.fromkeys(("reduce", "reduce-window", "scan", "scatter", "sort"), ("to_apply",)),
}
"""Attribute names of the called computations, in the order of the message."""

_CALL_ORDER = ("condition", "body", "select", "scatter", "to_apply", "calls")
"""The same names in the order of the text."""


# ---- one function per form


def _window(message: Message, values: Values, operands: list[Instruction]) -> None:
    dimensions = tuple(
        WindowDimension(
            d.number("size"),
            d.number("stride"),
            d.number("padding_low"),
            d.number("padding_high"),
            d.number("base_dilation"),
            d.number("window_dilation"),
            d.flag("window_reversal"),
        )
        for d in message.message("window").messages("dimensions")
    )
    if dimensions:
        values["window"] = Window(dimensions)


def _precision(message: Message, values: Values) -> None:
    words = message.message("precision_config").values.get("operand_precision", [])
    if any(word != "DEFAULT" for word in words):
        values["operand_precision"] = tuple(word.lower() for word in words)


def _convolution(message: Message, values: Values, operands: list[Instruction]) -> None:
    _window(message, values, operands)
    if "convolution_dimension_numbers" in message:
        values["dim_labels"] = _dim_labels(message.message("convolution_dimension_numbers"))
    for name in ("feature_group_count", "batch_group_count"):
        if message.number(name) not in (0, 1):
            values[name] = message.number(name)
    if message.word("conv_kind") != "CONVOLUTION_KIND_UNSET":
        values["conv_kind"] = message.word("conv_kind").removeprefix("CONVOLUTION_KIND_").lower()
    _precision(message, values)


def _dim_labels(message: Message) -> ConvDimensionNumbers:
    labels = ConvDimensionNumbers(
        message.number("input_batch_dimension"),
        message.number("input_feature_dimension"),
        message.numbers("input_spatial_dimensions"),
        message.number("kernel_input_feature_dimension"),
        message.number("kernel_output_feature_dimension"),
        message.numbers("kernel_spatial_dimensions"),
        message.number("output_batch_dimension"),
        message.number("output_feature_dimension"),
        message.numbers("output_spatial_dimensions"),
    )
    for part in (
        (labels.input_batch, labels.input_feature, *labels.input_spatial),
        (labels.kernel_input_feature, labels.kernel_output_feature, *labels.kernel_spatial),
        (labels.output_batch, labels.output_feature, *labels.output_spatial),
    ):
        if sorted(part) != list(range(len(part))):
            raise message.fail("the dimension numbers of a convolution do not name every dimension once")
    return labels


def _custom_call(message: Message, values: Values, operands: list[Instruction]) -> None:
    _convolution(message, values, operands)
    if message.word("padding_type") != "PADDING_INVALID":
        values["padding_type"] = message.word("padding_type")
    values["custom_call_target"] = message.text("custom_call_target")
    if message.flag("constrain_layout"):
        values["operand_layout_constraints"] = tuple(map(read_shape, message.messages("operand_shapes_with_layout")))
    if message.flag("custom_call_has_side_effect"):
        values["custom_call_has_side_effect"] = True
    if "literal" in message:
        values["literal"] = read_literal(message.message("literal"))
    _aliasing(message, values)
    if message.word("custom_call_schedule") != "SCHEDULE_NONE":
        values["schedule"] = message.word("custom_call_schedule")
    if message.word("custom_call_api_version") not in ("API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL"):
        values["api_version"] = message.word("custom_call_api_version")


def _aliasing(message: Message, values: Values) -> None:
    if message.messages("output_operand_aliasing"):
        values["output_to_operand_aliasing"] = read_aliasing(message.messages("output_operand_aliasing"))


def _fusion(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["kind"] = message.text("fusion_kind")
    _aliasing(message, values)


def _dot(message: Message, values: Values, operands: list[Instruction]) -> None:
    ragged = message.message("ragged_dot_dimension_numbers")
    numbers = ragged.message("dot_dimension_numbers") if ragged.values else message.message("dot_dimension_numbers")
    for side in ("lhs", "rhs"):
        if numbers.numbers(f"{side}_batch_dimensions"):
            values[f"{side}_batch_dims"] = numbers.numbers(f"{side}_batch_dimensions")
        values[f"{side}_contracting_dims"] = numbers.numbers(f"{side}_contracting_dimensions")
    if ragged.values:
        values["lhs_ragged_dims"] = ragged.numbers("lhs_ragged_dimensions")
        if ragged.numbers("rhs_group_dimensions"):
            values["rhs_group_dims"] = ragged.numbers("rhs_group_dimensions")
    _precision(message, values)
    algorithm = message.message("precision_config").word("algorithm")
    if algorithm != "ALG_UNSET":
        values["algorithm"] = algorithm.lower().removeprefix("alg_")


def _gather(message: Message, values: Values, operands: list[Instruction]) -> None:
    numbers = message.message("gather_dimension_numbers")
    for name in ("offset_dims", "collapsed_slice_dims", "start_index_map"):
        values[name] = numbers.numbers(name)
    for name in ("operand_batching_dims", "start_indices_batching_dims"):
        if numbers.numbers(name):
            values[name] = numbers.numbers(name)
    values["index_vector_dim"] = numbers.number("index_vector_dim")
    values["slice_sizes"] = message.numbers("gather_slice_sizes")
    if message.flag("indices_are_sorted"):
        values["indices_are_sorted"] = True


def _scatter(message: Message, values: Values, operands: list[Instruction]) -> None:
    numbers = message.message("scatter_dimension_numbers")
    for name in ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"):
        values[name] = numbers.numbers(name)
    for name in ("input_batching_dims", "scatter_indices_batching_dims"):
        if numbers.numbers(name):
            values[name] = numbers.numbers(name)
    values["index_vector_dim"] = numbers.number("index_vector_dim")
    for name in ("indices_are_sorted", "unique_indices"):
        if message.flag(name):
            values[name] = True


def _collective(message: Message, values: Values, operands: list[Instruction]) -> None:
    opcode = message.text("opcode")
    channel = message.number("channel_id") or message.number("all_reduce_id")
    if channel > 0:
        values["channel_id"] = channel
    values["replica_groups"] = _groups(message)
    dimensions = message.numbers("dimensions")
    if message.flag("constrain_layout"):
        values["constrain_layout"] = True
    if dimensions and opcode != "reduce-scatter":
        values["dimensions"] = dimensions
    if message.flag("use_global_device_ids"):
        values["use_global_device_ids"] = True
    if dimensions and opcode == "reduce-scatter":
        values["dimensions"] = dimensions


def _groups(message: Message) -> ReplicaGroups:
    devices = message.message("collective_device_list")
    iota = message.message("iota_collective_device_list")
    iota = iota if iota.values else devices.message("iota_replica_group_list")
    mesh = message.message("mesh_axes_replica_group_list")
    if not iota.values and not mesh.values:
        rows = devices.messages("replica_groups") or message.messages("replica_groups")
        return ReplicaGroups(tuple(row.numbers("replica_ids") for row in rows))
    at, text = mesh.at, mesh_groups_text(mesh)
    if iota.values:
        counts = f"{iota.number('num_replica_groups')},{iota.number('num_devices_per_group')}"
        at, text = iota.at, f"[{counts}]{iota_text(iota)}"
    from hlotool.text.lexer import Cursor, SyntaxFailure
    from hlotool.text.values import READERS  # what a file in text needs, and few protos do

    try:
        found: ReplicaGroups = READERS["replica_groups"](Cursor(text, ""), _COLLECTIVE_GROUPS)
    except SyntaxFailure as failure:
        raise ProtoFailure(str(failure), at) from None
    return found


def _permute(message: Message, values: Values, operands: list[Instruction]) -> None:
    if message.number("channel_id") > 0:
        values["channel_id"] = message.number("channel_id")
    pairs = message.messages("source_target_pairs")
    values["source_target_pairs"] = tuple((p.number("source"), p.number("target")) for p in pairs)


def _point_to_point(message: Message, values: Values, operands: list[Instruction]) -> None:
    if message.number("channel_id") > 0:
        values["channel_id"] = message.number("channel_id")
    if message.flag("is_host_transfer"):
        values["is_host_transfer"] = True


def _compare(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["direction"] = message.text("comparison_direction")
    kind = ELEMENT_TYPES[operands[0].shape.element_type].kind if operands else "float"
    usual = {"float": "FLOAT", "complex": "FLOAT", "signed": "SIGNED"}.get(kind, "UNSIGNED")
    if message.text("comparison_type") not in ("", usual):
        values["type"] = message.text("comparison_type")


def _slice(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["slice"] = tuple(
        SliceDimension(d.number("start"), d.number("limit"), d.number("stride") or 1)
        for d in message.messages("slice_dimensions")
    )


def _pad(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["padding"] = tuple(
        PaddingDimension(d.number("edge_padding_low"), d.number("edge_padding_high"), d.number("interior_padding"))
        for d in message.message("padding_config").messages("dimensions")
    )


def _triangular_solve(message: Message, values: Values, operands: list[Instruction]) -> None:
    options = message.message("triangular_solve_options")
    for name in ("left_side", "lower", "unit_diagonal"):
        if options.flag(name):
            values[name] = True
    if options.word("transpose_a") != "TRANSPOSE_INVALID":
        values["transpose_a"] = options.word("transpose_a")


def _cholesky(message: Message, values: Values, operands: list[Instruction]) -> None:
    if message.message("cholesky_options").flag("lower"):
        values["lower"] = True


def _batch_norm(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["epsilon"] = float(str(np.float32(message.real("epsilon"))))  # the shortest decimal, as in text
    values["feature_index"] = message.number("feature_index")


def _feeds(message: Message, values: Values, operands: list[Instruction]) -> None:
    opcode = message.text("opcode")
    if opcode == "outfeed" and "outfeed_shape" in message:
        values["outfeed_shape"] = read_shape(message.message("outfeed_shape"))
    if message.data(f"{opcode}_config"):
        values[f"{opcode}_config"] = message.data(f"{opcode}_config").decode("utf-8", "surrogateescape")


def _domain(message: Message, values: Values, operands: list[Instruction]) -> None:
    # The entry of the message is the side of the operand, which the text calls exit.
    entry, leave = (sharding_text(message.message(f"domain_{side}_sharding")) for side in ("exit", "entry"))
    values["domain"] = Verbatim(f'{{kind="sharding", entry={entry}, exit={leave}}}')


def _async(message: Message, values: Values, operands: list[Instruction]) -> None:
    if message.text("async_execution_thread") not in ("", "main"):
        values["async_execution_thread"] = message.text("async_execution_thread")
    if message.text("opcode") == "async-start":
        _aliasing(message, values)


def _sort(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["dimensions"] = message.numbers("dimensions")
    if message.flag("is_stable"):
        values["is_stable"] = True


def _reshape(message: Message, values: Values, operands: list[Instruction]) -> None:
    if message.numbers("dimensions"):
        values["inferred_dimension"] = message.numbers("dimensions")[0]


def _copy_start(message: Message, values: Values, operands: list[Instruction]) -> None:
    if "cross_program_prefetch_index" in message:
        values["cross_program_prefetch_index"] = message.number("cross_program_prefetch_index")


def _iota(message: Message, values: Values, operands: list[Instruction]) -> None:
    if len(message.numbers("dimensions")) != 1:
        raise message.fail("iota has one dimension")
    values["iota_dimension"] = message.numbers("dimensions")[0]


def _constant(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["literal"] = read_literal(message.message("literal"))


def _parameter(message: Message, values: Values, operands: list[Instruction]) -> None:
    if not 0 <= message.number("parameter_number") < 1 << 31:
        raise message.fail("a parameter number cannot be negative or huge")
    values["parameter_number"] = message.number("parameter_number")


def _rng(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["distribution"] = message.word("distribution").lower()


def _rng_bits(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["algorithm"] = message.word("rng_algorithm").lower()


def _fft(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["fft_type"] = message.word("fft_type")
    values["fft_length"] = message.numbers("fft_length")


def _topk(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["k"] = message.number("k")
    values["largest"] = message.flag("largest")


def _scan(message: Message, values: Values, operands: list[Instruction]) -> None:
    values["dimensions"] = message.numbers("dimensions")
    values["num_carries"] = message.number("num_carries")
    if message.flag("is_reverse"):
        values["is_reverse"] = True
    values["is_associative"] = message.word("is_associative") == "TRI_STATE_TRUE"


def _plain(*names: tuple[str, str]) -> Callable[[Message, Values, list[Instruction]], None]:
    """A reader of integers and lists of integers: (attribute, field) pairs, lists where the field repeats."""

    def read(message: Message, values: Values, operands: list[Instruction]) -> None:
        for name, field in names:
            lists = field in ("dimensions", "dynamic_slice_sizes")
            values[name] = message.numbers(field) if lists else message.number(field)

    return read


_DIMENSIONS = _plain(("dimensions", "dimensions"))

_READERS: dict[str, Callable[[Message, Values, list[Instruction]], None]] = {
    "parameter": _parameter,
    "constant": _constant,
    "iota": _iota,
    "compare": _compare,
    "slice": _slice,
    "pad": _pad,
    "sort": _sort,
    "topk": _topk,
    "scan": _scan,
    "reshape": _reshape,
    "fft": _fft,
    "rng": _rng,
    "rng-bit-generator": _rng_bits,
    "rng-get-and-update-state": _plain(("delta", "delta")),
    "reduce-precision": _plain(("exponent_bits", "exponent_bits"), ("mantissa_bits", "mantissa_bits")),
    "get-tuple-element": _plain(("index", "tuple_index")),
    "dynamic-slice": _plain(("dynamic_slice_sizes", "dynamic_slice_sizes")),
    "reduce-window": _window,
    "select-and-scatter": _window,
    "convolution": _convolution,
    "custom-call": _custom_call,
    "fusion": _fusion,
    "gather": _gather,
    "scatter": _scatter,
    "triangular-solve": _triangular_solve,
    "cholesky": _cholesky,
    "copy-start": _copy_start,
    "domain": _domain,
    "infeed": _feeds,
    "outfeed": _feeds,
    "collective-permute": _permute,
    "collective-permute-start": _permute,
    **dict.fromkeys(("dot", "ragged-dot", "scaled-dot"), _dot),
    **dict.fromkeys(("async-start", "async-update", "async-done"), _async),
    **dict.fromkeys(("send", "send-done", "recv", "recv-done"), _point_to_point),
    **dict.fromkeys(("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), _batch_norm),
    **dict.fromkeys(
        ("all-gather", "all-gather-start", "all-reduce", "all-reduce-start", "reduce-scatter", "all-to-all",
         "ragged-all-to-all", "collective-broadcast"),
        _collective,
    ),
    **dict.fromkeys(
        ("broadcast", "concatenate", "map", "reduce", "reverse", "transpose", "get-dimension-size",
         "set-dimension-size"),
        _DIMENSIONS,
    ),
}  # fmt: skip
