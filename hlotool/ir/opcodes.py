"""The opcode table: one row per HLO opcode.

Parser, printer, verifier, evaluator, cost model and drawings read it.  Rows of elementwise opcodes are made of those of
`ir.elementwise`.  What else a new opcode needs: ``hlotool/README.md``.  Facts: XLA's ``hlo_opcode.h`` and operation
semantics.
"""

from __future__ import annotations

from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "CALLING", "COMMON_ATTRIBUTES", "ELEMENTWISE", "NOTE", "OPCODES", "SPELLED", "UNKNOWN", "WRITTEN", "Attribute",
    "Opcode",
]  # fmt: skip

UNKNOWN = "?"
"""The opcode of instructions that can only be looked at: no text can have it.

`WRITTEN` among their attributes is the opcode as it is written, ``WRITTEN + "operands"`` what stands in the
parentheses where that is not a list of instructions; attributes without a known form are `Verbatim`.  `NOTE` among the
attributes of any instruction says what is wrong with it.
"""
WRITTEN = "?"
NOTE = "?note"



@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an opcode.

    `kind` names the form of its value in the text and its type in `Instruction.attributes`:

    ======================  =======================================  =================================
    kind                    text                                     value
    ======================  =======================================  =================================
    bool int float string   ``true`` ``5`` ``1e-5`` ``"x"``          bool, int, float, str
    ints                    ``{1,2}``                                tuple of int
    word                    ``EQ``                                   str, one of `choices`
    words                   ``{default,high}``                       tuple of str
    computation(s)          name, ``{body}``; ``{a, b}``             Computation; tuple of Computation
    window dim_labels       see ir.attributes                        Window, ConvDimensionNumbers
    padding slice                                                    tuple of PaddingDimension/SliceDimension
    literal                                                          Literal
    replica_groups          ``{{0,1}}``, ``[2,4]<=[8]``, a mesh     ReplicaGroups
    pairs                   ``{{0,1},{1,0}}``                        tuple of (int, int)
    shapes                  ``{f32[2]{0}, ...}``                     tuple of Shape
    shape                   ``f32[2]{0}``                            Shape
    aliasing                ``{{0}: (0, {1})}``                      tuple of Aliasing
    bools                   ``{true,false}``                         tuple of bool
    map                     ``{key="text", k2={json}}``              dict of str to str
    names                   ``{a, %b}``                              (control-predecessors only)
    config                  quoted string or JSON dictionary         str (JSON text starts with a brace)
    metadata                ``{op_name="..." ...}``                  Metadata
    verbatim                balanced text                            Verbatim
    ======================  =======================================  =================================
    """

    name: str
    kind: str
    required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opcode:
    """A row: `arity` is the number of operands, None when it varies.

    `group` is the drawing and statistics group.  `traits` is a subset of ``elementwise commutative side_effect
    data_movement collective async transcendental control reduction no_code inferable`` (inferable: the result shape
    may be left out of the text; of a broadcast only where it is the scalar itself).
    """

    name: str
    arity: int | None
    group: str
    attributes: tuple[Attribute, ...] = ()
    traits: frozenset[str] = frozenset()

    def attribute(self, name: str) -> Attribute | None:
        """The attribute `name` of this opcode or common to all."""
        for row in self.attributes:
            if row.name == name:
                return row
        return COMMON_ATTRIBUTES.get(name)


COMMON_ATTRIBUTES: dict[str, Attribute] = {
    a.name: a
    for a in (
        Attribute("parameter_replication", "bools"),
        Attribute("sharding", "verbatim"),
        Attribute("frontend_attributes", "map"),
        Attribute("statistics", "verbatim"),
        Attribute("control-predecessors", "names"),
        Attribute("origin", "verbatim"),
        Attribute("metadata", "metadata"),
        Attribute("backend_config", "config"),
    )
}

_RESULT_ACCURACY = Attribute("result_accuracy", "verbatim")
_GROUPS = Attribute("replica_groups", "replica_groups")
_CHANNEL = Attribute("channel_id", "int")
_CONSTRAIN = Attribute("constrain_layout", "bool")
_GLOBAL_IDS = Attribute("use_global_device_ids", "bool")
_TO_APPLY = Attribute("to_apply", "computation", required=True)
_DIMENSIONS = Attribute("dimensions", "ints", required=True)
_PRECISION = Attribute("operand_precision", "words", choices=("default", "high", "highest", "packed_nibble"))
_DOT = (
    Attribute("lhs_contracting_dims", "ints"),
    Attribute("rhs_contracting_dims", "ints"),
    Attribute("lhs_batch_dims", "ints"),
    Attribute("rhs_batch_dims", "ints"),
)
DOT_ALGORITHMS = (
    "dot_any_f8_any_f8_f32", "dot_any_f8_any_f8_f32_fast_accum", "dot_f16_f16_f16", "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16", "dot_bf16_bf16_f32", "dot_bf16_bf16_f32_x3", "dot_bf16_bf16_f32_x6", "dot_bf16_bf16_f32_x9",
    "dot_tf32_tf32_f32", "dot_tf32_tf32_f32_x3", "dot_f32_f32_f32", "dot_f64_f64_f64",
)
_ALGORITHM = Attribute("algorithm", "word", choices=DOT_ALGORITHMS)
_CONV = (
    Attribute("window", "window"),
    Attribute("dim_labels", "dim_labels", required=True),
    Attribute("feature_group_count", "int"),
    Attribute("batch_group_count", "int"),
    _PRECISION,
)
_CONV_KIND = Attribute("conv_kind", "word", choices=("unset", "fprop", "wgrad", "dgrad"))
_ALIASING = Attribute("output_to_operand_aliasing", "aliasing")
_ASYNC = (Attribute("calls", "computation"), Attribute("async_execution_thread", "string"))
_MODE = Attribute(
    "mode", "word", choices=("cross_replica", "cross_partition", "cross_replica_and_partition", "flattened_id")
)
_ALL_REDUCE = (_GROUPS, _CHANNEL, _CONSTRAIN, _GLOBAL_IDS, _MODE, _TO_APPLY)
_ALL_GATHER = (_GROUPS, _CHANNEL, _DIMENSIONS, _CONSTRAIN, _GLOBAL_IDS)
_PERMUTE = (
    _CHANNEL,
    Attribute("source_target_pairs", "pairs", required=True),
    Attribute("slice_sizes", "verbatim"),
)
_BATCH_NORM = (Attribute("epsilon", "float", required=True), Attribute("feature_index", "int", required=True))
_P2P = (_CHANNEL, Attribute("is_host_transfer", "bool"))
_GATHER = (
    Attribute("offset_dims", "ints", required=True),
    Attribute("collapsed_slice_dims", "ints", required=True),
    Attribute("start_index_map", "ints", required=True),
    Attribute("operand_batching_dims", "ints"),
    Attribute("start_indices_batching_dims", "ints"),
    Attribute("index_vector_dim", "int", required=True),
    Attribute("slice_sizes", "ints", required=True),
    Attribute("indices_are_sorted", "bool"),
)
_SCATTER = (
    Attribute("update_window_dims", "ints", required=True),
    Attribute("inserted_window_dims", "ints", required=True),
    Attribute("scatter_dims_to_operand_dims", "ints", required=True),
    Attribute("input_batching_dims", "ints"),
    Attribute("scatter_indices_batching_dims", "ints"),
    Attribute("index_vector_dim", "int", required=True),
    Attribute("indices_are_sorted", "bool"),
    Attribute("unique_indices", "bool"),
    _TO_APPLY,
)
_CUSTOM_CALL = (
    Attribute("window", "window"),
    Attribute("dim_labels", "dim_labels"),
    Attribute("feature_group_count", "int"),
    Attribute("batch_group_count", "int"),
    Attribute("custom_call_target", "string", required=True),
    Attribute("operand_layout_constraints", "shapes"),
    Attribute("custom_call_has_side_effect", "bool"),
    Attribute("to_apply", "computation"),
    Attribute("called_computations", "computations"),
    _ALIASING,
    Attribute("padding_type", "word", choices=("PADDING_INVALID", "PADDING_VALID", "PADDING_SAME")),
    Attribute("literal", "literal"),
    _PRECISION,
    Attribute("schedule", "word", choices=("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")),
    Attribute(
        "api_version",
        "word",
        choices=(
            "API_VERSION_UNSPECIFIED",
            "API_VERSION_ORIGINAL",
            "API_VERSION_STATUS_RETURNING",
            "API_VERSION_STATUS_RETURNING_UNIFIED",
            "API_VERSION_TYPED_FFI",
        ),
    ),
)

# fmt: off
OPCODES: dict[str, Opcode] = {}


def _add(names: str, arity: int | None, group: str, attributes: tuple[Attribute, ...] = (), traits: str = "") -> None:
    for name in names.split():
        OPCODES[name] = Opcode(name, arity, group, attributes, frozenset(traits.split()))


_ELEMENTWISE_ATTRIBUTES = {
    **{name: (_RESULT_ACCURACY,) for name, row in ELEMENTWISE_OPCODES.items() if row.arity == 1 and row.transcendental},
    "reduce-precision": (Attribute("exponent_bits", "int", True), Attribute("mantissa_bits", "int", True)),
    "compare": (
        Attribute("direction", "word", True, ("EQ", "NE", "GE", "GT", "LE", "LT")),
        Attribute("type", "word", choices=("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")),
    ),
}
for _name, _row in ELEMENTWISE_OPCODES.items():
    _traits = {
        "elementwise": True,
        "transcendental": _row.transcendental,
        "commutative": _row.commutative,
        "inferable": _row.result != "written",
    }
    _words = " ".join(trait for trait, has in _traits.items() if has)
    _add(_name, _row.arity, "elementwise", _ELEMENTWISE_ATTRIBUTES.get(_name, ()), _words)

_add("constant", 0, "constant", (Attribute("literal", "literal", True),))
_add("parameter", 0, "parameter", (Attribute("parameter_number", "int", True),))
_add("iota", 0, "constant", (Attribute("iota_dimension", "int", True),))
_add("partition-id replica-id", 0, "collective", traits="inferable")

_add("broadcast", 1, "broadcast", (_DIMENSIONS,), "data_movement inferable")
_add("reshape", 1, "data-movement", (Attribute("inferred_dimension", "int"),), "data_movement")
_add("bitcast", 1, "data-movement", (), "data_movement")
_add("transpose reverse", 1, "data-movement", (_DIMENSIONS,), "data_movement inferable")
_add("concatenate", None, "data-movement", (_DIMENSIONS,), "data_movement inferable")
_add("pad", 2, "data-movement", (Attribute("padding", "padding", True),), "data_movement inferable")
_add("slice", 1, "data-movement", (Attribute("slice", "slice", True),), "data_movement")
_add("dynamic-slice", None, "data-movement", (Attribute("dynamic_slice_sizes", "ints", True),), "data_movement")
_add("dynamic-update-slice", None, "data-movement", (), "data_movement")
_add("copy", 1, "data-movement", (), "data_movement inferable")
_add("copy-start", 1, "async", (Attribute("cross_program_prefetch_index", "int"),), "async")
_add("copy-done", 1, "async", (), "async")
_add("tuple", None, "tuple", (), "no_code inferable")
_add("get-tuple-element", 1, "tuple", (Attribute("index", "int", True),), "no_code inferable")

_add("reduce", None, "reduction", (_DIMENSIONS, _TO_APPLY), "reduction inferable")
_add("reduce-window", None, "reduction", (Attribute("window", "window"), _TO_APPLY), "reduction inferable")
_add(
    "select-and-scatter", 3, "reduction",
    (
        Attribute("window", "window"),
        Attribute("select", "computation", True),
        Attribute("scatter", "computation", True),
    ),
    "inferable",
)
_add("map", None, "reduction", (Attribute("dimensions", "ints"), _TO_APPLY), "inferable")

_add("dot", 2, "dot", (*_DOT, _PRECISION, _ALGORITHM), "inferable")
_add(
    "ragged-dot", 3, "dot",
    (*_DOT, _PRECISION, Attribute("lhs_ragged_dims", "ints"), Attribute("rhs_group_dims", "ints")), "inferable",
)
_add("scaled-dot", 4, "dot", (*_DOT, _PRECISION, _ALGORITHM), "inferable")
_add("convolution", 2, "dot", (*_CONV, _CONV_KIND), "inferable")

_add(
    "sort", None, "sort", (_DIMENSIONS, Attribute("is_stable", "bool"), _TO_APPLY), "inferable"
)
_add("topk", 1, "sort", (Attribute("k", "int", True), Attribute("largest", "bool")), "inferable")
_add("gather", 2, "gather", _GATHER, "inferable")
_add("scatter", None, "gather", _SCATTER, "inferable")

_add(
    "while", 1, "control",
    (Attribute("condition", "computation", True), Attribute("body", "computation", True)), "control inferable",
)
_add(
    "scan", None, "control",
    (
        _DIMENSIONS,
        Attribute("num_carries", "int", True),
        Attribute("is_reverse", "bool"),
        Attribute("is_associative", "bool"),
        _TO_APPLY,
    ),
    "inferable",
)
_add(
    "conditional", None, "control",
    (
        Attribute("true_computation", "computation"),
        Attribute("false_computation", "computation"),
        Attribute("branch_computations", "computations"),
    ),
    "control inferable",
)
_add("call", None, "control", (_TO_APPLY, Attribute("is_composite", "bool")), "control inferable")
_add(
    "fusion", None, "fusion",
    (
        Attribute("kind", "word", True, ("kLoop", "kInput", "kOutput", "kCustom")),
        _ALIASING,
        Attribute("calls", "computation", True),
    ),
)

_add("after-all", None, "token", (), "no_code inferable")
_add("add-dependency", 2, "token", (), "no_code inferable")
_add("opt-barrier", 1, "token", (), "no_code inferable")
_add("domain", 1, "token", (Attribute("domain", "verbatim", True),), "no_code inferable")

_add("rng", None, "rng", (Attribute("distribution", "word", True, ("rng_uniform", "rng_normal")),), "side_effect")
_add(
    "rng-bit-generator", 1, "rng",
    (Attribute("algorithm", "word", True, ("rng_default", "rng_three_fry", "rng_philox")),),
)
_add("rng-get-and-update-state", 0, "rng", (Attribute("delta", "int", True),), "side_effect")

_add("cholesky", 1, "linalg", (Attribute("lower", "bool"),), "inferable")
_add(
    "triangular-solve", 2, "linalg",
    (
        Attribute("left_side", "bool"),
        Attribute("lower", "bool"),
        Attribute("unit_diagonal", "bool"),
        Attribute("transpose_a", "word", choices=("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")),
    ),
    "inferable",
)
_add(
    "fft", 1, "linalg",
    (Attribute("fft_type", "word", True, ("FFT", "IFFT", "RFFT", "IRFFT")), Attribute("fft_length", "ints", True)),
    "inferable",
)
_add("batch-norm-training", 3, "reduction", _BATCH_NORM, "inferable")
_add("batch-norm-inference batch-norm-grad", 5, "reduction", _BATCH_NORM, "inferable")

_add("all-gather", None, "collective", _ALL_GATHER, "collective")
_add("all-gather-start", None, "collective", _ALL_GATHER, "collective async")
_add("all-gather-done", 1, "collective", (), "collective async")
_add("all-reduce", None, "collective", _ALL_REDUCE, "collective")
_add("all-reduce-start", None, "collective", _ALL_REDUCE, "collective async")
_add("all-reduce-done", 1, "collective", (), "collective async")
_add("reduce-scatter", None, "collective", (*_ALL_REDUCE, _DIMENSIONS), "collective")
_add("all-to-all", None, "collective", (_GROUPS, _CHANNEL, Attribute("dimensions", "ints"), _CONSTRAIN), "collective")
_add("ragged-all-to-all", 6, "collective", (_GROUPS, _CHANNEL, Attribute("dimensions", "ints")), "collective")
_add(
    "collective-broadcast", None, "collective",
    (_GROUPS, _CHANNEL), "collective",
)
_add("collective-permute", None, "collective", _PERMUTE, "collective")
_add("collective-permute-start", None, "collective", _PERMUTE, "collective async")
_add("collective-permute-done", 1, "collective", (), "collective async")
_add("async-start", None, "async", (_ALIASING, *_ASYNC), "async")
_add("async-update async-done", 1, "async", _ASYNC, "async")

_add("infeed", 1, "feed", (Attribute("infeed_config", "string"),), "side_effect")
_add("outfeed", 2, "feed", (Attribute("outfeed_config", "string"), Attribute("outfeed_shape", "shape")), "side_effect")
_add("send", 2, "feed", _P2P, "side_effect")
_add("send-done", 1, "feed", _P2P, "side_effect")
_add("recv", 1, "feed", _P2P, "side_effect")
_add("recv-done", 1, "feed", _P2P, "side_effect")

_add("dynamic-reshape", None, "dynamic", (), "data_movement")
_add("get-dimension-size", 1, "dynamic", (_DIMENSIONS,), "inferable")
_add("set-dimension-size", 2, "dynamic", (_DIMENSIONS,), "inferable")
_add("custom-call", None, "custom", _CUSTOM_CALL)
_add(
    UNKNOWN, None, "unknown",
    tuple(
        dict.fromkeys(
            Attribute(a.name, a.kind)
            for row in OPCODES.values() for a in row.attributes if a.kind in ("computation", "computations")
        )
    ),
    "side_effect",
)

ELEMENTWISE: frozenset[str] = frozenset(ELEMENTWISE_OPCODES)
"""Opcodes with this trait."""

CALLING: frozenset[str] = frozenset(
    row.name for row in OPCODES.values() if any(a.kind in ("computation", "computations") for a in row.attributes)
)
"""Opcodes whose instructions may call computations."""

SPELLED = {name: row for name, row in OPCODES.items() if name != UNKNOWN}
"""The opcodes that there are in HLO."""
