"""The messages of HLO in protocol-buffer form: field numbers, names and kinds, and the names of enumeration values.

Facts of XLA's ``hlo.proto`` and ``xla_data.proto``.  A row is ``number name kind``; a star after the kind marks a
repeated field.  Kinds are the scalar types of protocol buffers, ``enum:NAME``, the name of a message, or ``skip`` for
fields whose contents are of no use here.  Names of enumeration values may differ from HLO text (``ALG_DOT_F32_...``).
"""

from __future__ import annotations

from functools import cache

from hlotool.lazy_dataclass import dataclass

__all__ = ["Field", "enum_names", "enum_numbers", "fields_by_name", "fields_by_number"]

_MESSAGES = """
HloInstructionProto: 1 name string; 2 opcode string; 3 shape ShapeProto; 7 metadata OpMetadata;
    8 literal LiteralProto; 9 parameter_number int64; 11 fusion_kind string; 13 tuple_index int64;
    14 dimensions int64*; 15 window Window; 16 convolution_dimension_numbers ConvolutionDimensionNumbers;
    17 slice_dimensions HloInstructionProto.SliceDimensions*; 18 exponent_bits int32; 19 mantissa_bits int32;
    20 dynamic_slice_sizes int64*; 21 padding_config PaddingConfig; 22 outfeed_config bytes;
    23 distribution enum:RandomDistribution; 24 epsilon float; 25 feature_index int64; 26 channel_id int64;
    27 infeed_config bytes; 28 custom_call_target string; 29 outfeed_shape ShapeProto;
    30 dot_dimension_numbers DotDimensionNumbers; 31 fft_type enum:FftType; 32 fft_length int64*;
    33 gather_dimension_numbers GatherDimensionNumbers; 34 gather_slice_sizes int64*; 35 id int64;
    36 operand_ids int64*; 37 control_predecessor_ids int64*; 38 called_computation_ids int64*;
    40 sharding OpSharding; 43 backend_config bytes; 45 all_reduce_id int64; 47 is_host_transfer bool;
    48 scatter_dimension_numbers ScatterDimensionNumbers; 49 replica_groups ReplicaGroup*;
    50 feature_group_count int64; 51 precision_config PrecisionConfig; 52 source_target_pairs SourceTarget*;
    54 domain_entry_sharding OpSharding; 55 domain_exit_sharding OpSharding; 56 constrain_layout bool;
    57 operand_shapes_with_layout ShapeProto*; 58 batch_group_count int64;
    59 triangular_solve_options TriangularSolveOptions; 60 is_stable bool;
    61 parameter_replication ParameterReplication; 62 cholesky_options CholeskyOptions;
    63 comparison_direction string; 65 custom_call_has_side_effect bool; 66 delta int64; 67 indices_are_sorted bool;
    68 frontend_attributes FrontendAttributes; 69 unique_indices bool; 70 rng_algorithm enum:RandomAlgorithm;
    71 use_global_device_ids bool; 72 comparison_type string; 73 is_cross_program_prefetch bool;
    74 output_operand_aliasing OutputOperandAliasing*; 75 padding_type enum:PaddingType;
    76 custom_call_schedule enum:CustomCallSchedule; 77 custom_call_api_version enum:CustomCallApiVersion;
    79 async_execution_thread string; 80 cross_program_prefetch_index int32; 81 k int64;
    82 statistics_viz StatisticsViz; 85 largest bool; 87 collective_device_list CollectiveDeviceListProto;
    88 original_value OriginalValueProto; 89 is_composite bool;
    90 ragged_dot_dimension_numbers RaggedDotDimensionNumbers; 91 result_accuracy ResultAccuracy;
    92 iota_collective_device_list IotaReplicaGroupListProto;
    93 mesh_axes_replica_group_list MeshAxesReplicaGroupListProto; 94 is_reverse bool; 95 num_carries int64;
    96 is_associative enum:TriState; 97 conv_kind enum:ConvolutionKind; 98 sparsity_config skip;
    99 backend_config_payload Payload
HloInstructionProto.SliceDimensions: 1 start int64; 2 limit int64; 3 stride int64
HloComputationProto: 1 name string; 2 instructions HloInstructionProto*; 4 program_shape ProgramShapeProto;
    5 id int64; 6 root_id int64; 7 is_fusion_computation bool; 8 execution_thread string
HloScheduleProto: 1 sequences HloScheduleProto.SequencesEntry*
HloScheduleProto.InstructionSequence: 1 instruction_ids int64*
HloScheduleProto.SequencesEntry: 1 key int64; 2 value HloScheduleProto.InstructionSequence
HloInputOutputAliasProto: 1 entries HloInputOutputAliasProto.AliasEntryProto*
HloInputOutputAliasProto.AliasEntryProto: 1 output_shape_index int64*; 2 parameter_number int64;
    3 parameter_shape_index int64*; 4 kind enum:Kind
HloBufferDonorProto: 1 entries HloBufferDonorProto.BufferDonorEntryProto*
HloBufferDonorProto.BufferDonorEntryProto: 1 parameter_number int64; 2 parameter_shape_index int64*
StackFrameIndexProto: 1 file_names string*; 2 function_names string*;
    3 file_locations StackFrameIndexProto.FileLocation*; 4 stack_frames StackFrameIndexProto.StackFrame*
StackFrameIndexProto.FileLocation: 1 file_name_id int32; 2 function_name_id int32; 3 line int32; 4 column int32;
    5 end_line int32; 6 end_column int32
StackFrameIndexProto.StackFrame: 1 file_location_id int32; 2 parent_frame_id int32
HloModuleProto: 1 name string; 2 entry_computation_name string; 3 computations HloComputationProto*;
    4 host_program_shape ProgramShapeProto; 5 id int64; 6 entry_computation_id int64; 7 schedule HloScheduleProto;
    8 input_output_alias HloInputOutputAliasProto; 10 cross_program_prefetches skip*; 11 is_dynamic bool;
    12 spmd_output_sharding OpSharding; 13 profile_info skip*; 14 spmd_parameters_shardings OpSharding*;
    15 device_assignment skip; 16 use_auto_spmd_partitioning bool; 17 stack_frame_index StackFrameIndexProto;
    18 buffer_donor HloBufferDonorProto; 19 frontend_attributes FrontendAttributes;
    20 original_value_recovery_table OriginalValueRecoveryTableProto; 21 device_type string; 22 payloads bytes*;
    23 pjrt_id int64
HloProto: 1 hlo_module HloModuleProto; 3 buffer_assignment skip
HloSnapshot: 1 hlo HloProto; 2 arguments LiteralProto*; 3 result LiteralProto; 4 execution_platform string
HloInputs: 1 arguments LiteralProto*; 2 arguments_descriptors HloInputs.LiteralDescriptor*
HloInputs.LiteralDescriptor: 1 version int32; 2 argument_size_bytes uint64
HloUnoptimizedSnapshot: 1 hlo_module HloModuleProto; 2 partitions HloInputs*; 3 version int32
OriginalValueRecoveryTableProto: 1 entries OriginalValueRecoveryTableProto.Entry*
OriginalValueRecoveryTableProto.Entry: 1 old_original_array OriginalArrayProto;
    2 new_original_array OriginalArrayProto; 3 recovery_module HloModuleProto
PaddingConfig: 1 dimensions PaddingConfig.PaddingConfigDimension*
PaddingConfig.PaddingConfigDimension: 1 edge_padding_low int64; 2 edge_padding_high int64; 3 interior_padding int64
TileProto: 1 dimensions int64*
SplitConfigProto: 1 dimension int64; 2 split_indices int64*
LayoutProto: 1 minor_to_major int64*; 6 tiles TileProto*; 7 element_size_in_bits int64; 8 memory_space int64;
    9 dim_level_types enum:DimLevelType*; 10 physical_shape ShapeProto; 11 index_primitive_type enum:PrimitiveType;
    12 pointer_primitive_type enum:PrimitiveType; 13 dim_unique bool*; 14 dim_ordered bool*;
    15 dynamic_shape_metadata_prefix_bytes int64; 16 tail_padding_alignment_in_elements int64;
    17 split_configs SplitConfigProto*
ShapeProto: 2 element_type enum:PrimitiveType; 3 dimensions int64*; 4 tuple_shapes ShapeProto*; 5 layout LayoutProto;
    6 is_dynamic_dimension bool*
ProgramShapeProto: 1 parameters ShapeProto*; 2 result ShapeProto; 3 parameter_names string*
OpMetadata: 1 op_type string; 2 op_name string; 3 source_file string; 4 source_line int32;
    5 profile_type enum:ProfileType*; 8 size_of_generated_code_in_bytes int64;
    9 size_of_memory_working_set_in_bytes int64; 10 profile_info OpMetadata.ProfileInfo; 12 deduplicated_name string;
    13 preserve_layout bool; 15 stack_frame_id int32; 16 scheduling_name string; 17 source_end_line int32;
    18 source_column int32; 19 source_end_column int32; 20 metadata_payload Payload
OpMetadata.ProfileInfo: 1 profile_type enum:ProfileType*; 2 relative_speedup double;
    3 profile_source enum:ProfileSource; 4 compilation_event enum:CompilationEvent;
    5 profile_generation_strategy enum:ProfileGenerationStrategy
LiteralProto: 1 shape ShapeProto; 2 preds bool*; 3 u8s bytes; 4 s32s int32*; 5 s64s int64*; 6 u32s uint32*;
    7 u64s uint64*; 8 f32s float*; 9 f64s double*; 10 tuple_literals LiteralProto*; 11 f16s bytes; 12 c64s float*;
    13 bf16s bytes; 14 sparse_indices int64*; 15 s8s bytes; 16 u16s bytes; 17 s16s bytes; 18 c128s double*;
    19 f8e5m2s bytes; 20 f8e4m3fns bytes; 21 s4s bytes; 22 u4s bytes; 23 f8e4m3b11fnuzs bytes; 24 f8e5m2fnuzs bytes;
    25 f8e4m3fnuzs bytes; 26 s2s bytes; 27 u2s bytes; 28 f8e4m3s bytes; 29 f8e3m4s bytes; 30 s1s bytes; 31 u1s bytes;
    32 f4e2m1fns bytes; 33 f8e8m0fnus bytes; 34 dynamic_sizes int32*; 35 f6e3m2fns bytes; 36 f6e2m3fns bytes
WindowDimension: 1 size int64; 2 stride int64; 3 padding_low int64; 4 padding_high int64; 5 window_dilation int64;
    6 base_dilation int64; 7 window_reversal bool
Window: 1 dimensions WindowDimension*
GatherDimensionNumbers: 1 offset_dims int64*; 2 collapsed_slice_dims int64*; 3 start_index_map int64*;
    4 index_vector_dim int64; 5 operand_batching_dims int64*; 6 start_indices_batching_dims int64*
ScatterDimensionNumbers: 1 update_window_dims int64*; 2 inserted_window_dims int64*;
    3 scatter_dims_to_operand_dims int64*; 4 index_vector_dim int64; 5 input_batching_dims int64*;
    6 scatter_indices_batching_dims int64*
ConvolutionDimensionNumbers: 3 kernel_input_feature_dimension int64; 4 kernel_output_feature_dimension int64;
    6 kernel_spatial_dimensions int64*; 7 input_batch_dimension int64; 8 input_feature_dimension int64;
    9 output_batch_dimension int64; 10 output_feature_dimension int64; 11 input_spatial_dimensions int64*;
    12 output_spatial_dimensions int64*
DotDimensionNumbers: 1 lhs_contracting_dimensions int64*; 2 rhs_contracting_dimensions int64*;
    3 lhs_batch_dimensions int64*; 4 rhs_batch_dimensions int64*
RaggedDotDimensionNumbers: 1 dot_dimension_numbers DotDimensionNumbers; 2 lhs_ragged_dimensions int64*;
    3 rhs_group_dimensions int64*
TriangularSolveOptions: 1 left_side bool; 2 lower bool; 3 unit_diagonal bool;
    4 transpose_a enum:TriangularSolveOptions.Transpose
CholeskyOptions: 1 lower bool
FrontendAttributes: 1 map FrontendAttributes.MapEntry*
FrontendAttributes.MapEntry: 1 key string; 2 value string
Statistic: 1 stat_name string; 2 stat_val double
StatisticsViz: 1 stat_index_to_visualize int64; 2 statistics Statistic*
MeshProto: 1 axes MeshProto.MeshAxis*; 2 device_ids int64*; 3 iota_transform MeshProto.IotaTransform
MeshProto.MeshAxis: 1 name string; 2 size int64
MeshProto.IotaTransform: 1 reshape_dims int64*; 2 transpose_perm int64*
AxisRefProto: 1 mesh_axis_index int64; 2 sub_axis_info AxisRefProto.SubAxis
AxisRefProto.SubAxis: 1 pre_size int64; 2 size int64
NamedShardingProto: 2 mesh MeshProto; 3 dim_shardings NamedShardingProto.DimensionSharding*;
    4 replicated_axes AxisRefProto*; 5 unreduced_axes AxisRefProto*; 6 metadata OpMetadata*;
    7 manual_axes AxisRefProto*
NamedShardingProto.DimensionSharding: 1 axes AxisRefProto*; 2 is_closed bool
OpSharding: 1 type enum:OpSharding.Type; 2 tile_shape ShapeProto; 3 tile_assignment_dimensions int64*;
    4 tile_assignment_devices int64*; 5 tuple_shardings OpSharding*; 6 replicate_on_last_tile_dim bool;
    7 metadata OpMetadata*; 8 last_tile_dims enum:OpSharding.Type*; 9 iota_reshape_dims int64*;
    10 iota_transpose_perm int32*; 11 is_shard_group bool; 12 shard_group_id int64;
    13 shard_group_type enum:OpSharding.ShardGroupType; 14 named_sharding NamedShardingProto
ReplicaGroup: 1 replica_ids int64*
MeshAxesReplicaGroupListProto: 1 mesh MeshProto; 2 axes AxisRefProto*
IotaReplicaGroupListProto: 1 num_replica_groups int64; 2 num_devices_per_group int64; 3 iota_reshape_dims int64*;
    4 iota_transpose_perm int32*
CollectiveDeviceListProto: 1 replica_groups ReplicaGroup*; 2 iota_replica_group_list IotaReplicaGroupListProto
SourceTarget: 1 source int64; 2 target int64
ResultAccuracy: 1 mode enum:ResultAccuracy.Mode; 2 tolerance ResultAccuracy.Tolerance
ResultAccuracy.Tolerance: 1 atol double; 2 rtol double; 3 ulps int64
PrecisionConfig: 1 operand_precision enum:PrecisionConfig.Precision*; 2 algorithm enum:PrecisionConfig.Algorithm
ParameterReplication: 1 replicated_at_leaf_buffers bool*
OutputOperandAliasing: 1 output_shape_index int64*; 2 operand_index int64; 3 operand_shape_index int64*
OriginalArrayProto: 1 instruction_name string; 2 shape_index int64*
OriginalValueElementProto: 1 shape_index int64*; 2 original_array OriginalArrayProto
OriginalValueProto: 1 elements OriginalValueElementProto*; 2 is_synthetic_call bool
Payload: 1 value bytes; 2 id int64
"""

_ENUMS = """
CompilationEvent: 0 COMPILATION_EVENT_UNKNOWN_EVENT; 1 COMPILATION_EVENT_FIRST_COMPILATION;
    2 COMPILATION_EVENT_RECOMPILATION
ConvolutionKind: 0 CONVOLUTION_KIND_UNSET; 1 CONVOLUTION_KIND_FPROP; 2 CONVOLUTION_KIND_DGRAD;
    3 CONVOLUTION_KIND_WGRAD
CustomCallApiVersion: 0 API_VERSION_UNSPECIFIED; 1 API_VERSION_ORIGINAL; 2 API_VERSION_STATUS_RETURNING;
    3 API_VERSION_STATUS_RETURNING_UNIFIED; 4 API_VERSION_TYPED_FFI
CustomCallSchedule: 0 SCHEDULE_NONE; 1 SCHEDULE_LATEST; 2 SCHEDULE_EARLIEST
DimLevelType: 0 DIM_DENSE; 1 DIM_COMPRESSED; 2 DIM_SINGLETON; 3 DIM_LOOSE_COMPRESSED
FftType: 0 FFT; 1 IFFT; 2 RFFT; 3 IRFFT
Kind: 0 UNDEFINED_ALIAS; 1 MAY_ALIAS; 2 MUST_ALIAS
OpSharding.ShardGroupType: 0 AS; 1 LIKE
OpSharding.Type: 0 REPLICATED; 1 MAXIMAL; 2 TUPLE; 3 OTHER; 4 MANUAL; 5 UNKNOWN; 6 UNREDUCED
PaddingType: 0 PADDING_INVALID; 1 PADDING_VALID; 2 PADDING_SAME
PrecisionConfig.Algorithm: 0 ALG_UNSET; 1 ALG_DOT_ANY_F8_ANY_F8_F32; 2 ALG_DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM;
    3 ALG_DOT_F16_F16_F16; 4 ALG_DOT_F16_F16_F32; 5 ALG_DOT_BF16_BF16_BF16; 6 ALG_DOT_BF16_BF16_F32;
    7 ALG_DOT_BF16_BF16_F32_X3; 8 ALG_DOT_BF16_BF16_F32_X6; 9 ALG_DOT_TF32_TF32_F32; 10 ALG_DOT_TF32_TF32_F32_X3;
    11 ALG_DOT_F32_F32_F32; 12 ALG_DOT_F64_F64_F64; 13 ALG_DOT_BF16_BF16_F32_X9
PrecisionConfig.Precision: 0 DEFAULT; 1 HIGH; 2 HIGHEST
PrimitiveType: 0 PRIMITIVE_TYPE_INVALID; 1 PRED; 30 S1; 26 S2; 21 S4; 2 S8; 3 S16; 4 S32; 5 S64; 31 U1; 27 U2; 22 U4;
    6 U8; 7 U16; 8 U32; 9 U64; 10 F16; 11 F32; 16 BF16; 12 F64; 19 F8E5M2; 28 F8E4M3; 20 F8E4M3FN; 23 F8E4M3B11FNUZ;
    29 F8E3M4; 24 F8E5M2FNUZ; 25 F8E4M3FNUZ; 32 F4E2M1FN; 33 F8E8M0FNU; 35 F6E3M2FN; 36 F6E2M3FN; 15 C64; 18 C128;
    13 TUPLE; 14 OPAQUE_TYPE; 17 TOKEN; 34 BUFFER
ProfileGenerationStrategy: 0 PROFILE_GENERATION_STRATEGY_UNKNOWN; 1 PROFILE_GENERATION_STRATEGY_GA;
    2 PROFILE_GENERATION_STRATEGY_FANTA; 3 PROFILE_GENERATION_STRATEGY_CFO; 4 PROFILE_GENERATION_STRATEGY_EXHAUSTIVE;
    5 PROFILE_GENERATION_STRATEGY_LCM_GNN; 6 PROFILE_GENERATION_STRATEGY_LCM_MOE
ProfileSource: 0 PROFILE_SOURCE_UNKNOWN_SOURCE; 1 PROFILE_SOURCE_EMBEDDED; 2 PROFILE_SOURCE_REMOTE
ProfileType: 0 INVALID; 1 WINDOW; 2 FLAG; 3 INTEGER
RandomAlgorithm: 0 RNG_DEFAULT; 1 RNG_THREE_FRY; 2 RNG_PHILOX
RandomDistribution: 0 RNG_INVALID; 1 RNG_UNIFORM; 2 RNG_NORMAL
ResultAccuracy.Mode: 0 DEFAULT; 1 HIGHEST
TriState: 0 TRI_STATE_UNSPECIFIED; 1 TRI_STATE_TRUE; 2 TRI_STATE_FALSE
TriangularSolveOptions.Transpose: 0 TRANSPOSE_INVALID; 1 NO_TRANSPOSE; 2 TRANSPOSE; 3 ADJOINT
"""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: `message` is the message type of message fields, `enum` the enumeration of enumeration fields."""

    number: int
    name: str
    kind: str
    repeated: bool
    message: str = ""
    enum: str = ""


def _rows(table: str) -> dict[str, list[list[str]]]:
    """``Title: a b c; d e f`` (lines that begin with a blank go on) as title -> rows of words."""
    found: dict[str, list[list[str]]] = {}
    for block in table.strip().replace("\n    ", " ").split("\n"):
        title, _, rows = block.partition(":")
        found[title] = [row.split() for row in rows.split(";")]
    return found


@cache
def _messages() -> dict[str, tuple[Field, ...]]:
    return {title: tuple(_field(*row) for row in rows) for title, rows in _rows(_MESSAGES).items()}


def _field(number: str, name: str, kind: str) -> Field:
    repeated = kind.endswith("*")
    kind = kind.rstrip("*")
    if kind.startswith("enum:"):
        return Field(int(number), name, "enum", repeated, enum=kind.removeprefix("enum:"))
    if kind[0].isupper():
        return Field(int(number), name, "message", repeated, message=kind)
    return Field(int(number), name, kind, repeated)


@cache
def fields_by_number(message: str) -> dict[int, Field]:
    """The fields of a message type by number."""
    return {field.number: field for field in _messages()[message]}


@cache
def fields_by_name(message: str) -> dict[str, Field]:
    """The fields of a message type by name."""
    return {field.name: field for field in _messages()[message]}


@cache
def enum_names(enum: str) -> dict[int, str]:
    """The names of an enumeration by number."""
    return {int(number): name for number, name in _rows(_ENUMS)[enum]}


@cache
def enum_numbers(enum: str) -> dict[str, int]:
    """The numbers of an enumeration by name."""
    return {name: number for number, name in enum_names(enum).items()}
