"""Which passes and named pipelines there are.  Classes are imported when first asked for.

Other packages add passes with an entry point in the group ``hlotool.passes``: its name is the pass name, its value the
class.

Of the passes in XLA's CPU pipeline these have no counterpart, since there is nothing for them to do here:
conditional-canonicalizer, flattening of tuples and root sinking (branches and roots may have any shape);
reshape-decomposer, reduce-decomposer and shape canonicalisation (layouts are row-major, shapes are interned);
sub-byte normalisation and bitcast-dtypes-expander (kernels know small types); change-op-data-type and
all-reduce-promotion (products and sums are kept in f32); dot strength reduction (kernels for vectors) and scales moved
through products (they are fused with them, and moving one may overflow); while-loop-constant-sinking (in
while-loop-simplifier); small-while-loop-hoisting and parallel-task-assigner (code generation does that).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, get_type_hints

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import OPCODES, Module, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.steps import Pass
from hlotool.plugins import load_plugin, plugin_names

__all__ = [
    "PASSES", "PIPELINES", "WORKS_ON", "PassOption", "deferred_pass", "find_pass", "loaded_pass", "pass_help",
    "pass_names", "pass_options",
]  # fmt: skip

PASSES: dict[str, str] = {
    "algebraic-simplifier": "simplify.algebraic_simplifier:AlgebraicSimplifier",
    "all-gather-combiner": "collectives.all_gather_combiner:AllGatherCombiner",
    "all-reduce-combiner": "collectives.all_reduce_combiner:AllReduceCombiner",
    "all-reduce-reassociate": "collectives.all_reduce_reassociate:AllReduceReassociate",
    "all-to-all-decomposer": "collectives.all_to_all_decomposer:AllToAllDecomposer",
    "async-collective-creator": "collectives.async_collective_creator:AsyncCollectiveCreator",
    "async-to-sync": "collectives.async_to_sync:AsyncToSync",
    "batch-norm-expander": "expand.batch_norm_expander:BatchNormExpander",
    "batched-gather-scatter-normalizer": "simplify.batched_gather_scatter_normalizer:BatchedGatherScatterNormalizer",
    "bitcast-convert-reshaper": "expand.bitcast_convert_reshaper:BitcastConvertReshaper",
    "broadcast-canonicalizer": "expand.broadcast_canonicalizer:BroadcastCanonicalizer",
    "call-inliner": "simplify.call_inliner:CallInliner",
    "change-precision": "expand.change_precision:ChangePrecision",
    "cholesky-expander": "expand.cholesky_expander:CholeskyExpander",
    "comparison-expander": "expand.comparison_expander:ComparisonExpander",
    "computation-deduplicator": "simplify.computation_deduplicator:ComputationDeduplicator",
    "conditional-simplifier": "simplify.conditional_simplifier:ConditionalSimplifier",
    "conditional-to-select": "simplify.conditional_to_select:ConditionalToSelect",
    "constant-folding": "simplify.constant_folding:ConstantFolding",
    "convert-mover": "simplify.convert_mover:ConvertMover",
    "convolution-to-dot": "expand.convolution_to_dot:ConvolutionToDot",
    "convolution-group-converter": "expand.convolution_group_converter:ConvolutionGroupConverter",
    "copy-insertion": "layout.copy_insertion:CopyInsertion",
    "cse": "simplify.cse:CommonSubexpressionElimination",
    "custom-call-expander": "expand.custom_call_expander:CustomCallExpander",
    "dce": "simplify.dce:DeadCodeElimination",
    "dot-decomposer": "expand.dot_decomposer:DotDecomposer",
    "dynamic-entry": "dynamic.dynamic_padder:DynamicEntry",
    "dynamic-index-splitter": "expand.dynamic_index_splitter:DynamicIndexSplitter",
    "dynamic-padder": "dynamic.dynamic_padder:DynamicPadder",
    "element-loop-expander": "expand.element_loop_expander:ElementLoopExpander",
    "flatten-call-graph": "simplify.flatten_call_graph:FlattenCallGraph",
    "float-normalization": "expand.float_normalization:FloatNormalization",
    "fold-scales": "quantise.fold_scales:FoldScales",
    "fusion": "fuse.fusion:Fusion",
    "gather-expander": "expand.gather_expander:GatherExpander",
    "gather-simplifier": "simplify.gather_simplifier:GatherSimplifier",
    "grad": "autodiff.passes:Gradient",
    "integer-products": "quantise.integer_products:IntegerProducts",
    "jvp": "autodiff.passes:Jvp",
    "lapack-expander": "expand.lapack_expander:LapackExpander",
    "latency-hiding-scheduler": "layout.latency_hiding_scheduler:LatencyHidingScheduler",
    "layout-assignment": "layout.layout_assignment:LayoutAssignment",
    "library-call-expander": "expand.library_call_expander:LibraryCallExpander",
    "limit-reuse": "fuse.limit_reuse:LimitReuse",
    "logistic-expander": "expand.logistic_expander:LogisticExpander",
    "map-inliner": "simplify.map_inliner:MapInliner",
    "memory-scheduler": "layout.memory_scheduler:MemoryScheduler",
    "multi-output-fusion": "fuse.multi_output_fusion:MultiOutputFusion",
    "operand-upcaster": "expand.operand_upcaster:OperandUpcaster",
    "optimization-barrier-expander": "simplify.optimization_barrier_expander:OptimizationBarrierExpander",
    "product-expander": "expand.product_expander:ProductExpander",
    "product-packing": "fuse.product_packing:ProductPacking",
    "product-fusion": "fuse.product_fusion:ProductFusion",
    "product-prologue": "fuse.product_prologue:ProductPrologue",
    "ragged-dot-decomposer": "expand.ragged_dot_decomposer:RaggedDotDecomposer",
    "reduce-scatter-combiner": "collectives.reduce_scatter_combiner:ReduceScatterCombiner",
    "reduce-scatter-creator": "collectives.reduce_scatter_creator:ReduceScatterCreator",
    "reduce-window-rewriter": "expand.reduce_window_rewriter:ReduceWindowRewriter",
    "reduce-window-splitter": "expand.reduce_window_splitter:ReduceWindowSplitter",
    "reducer-upcaster": "expand.reducer_upcaster:ReducerUpcaster",
    "reshape-mover": "simplify.reshape_mover:ReshapeMover",
    "result-caster": "expand.result_caster:ResultCaster",
    "rng-bit-generator-expander": "expand.rng_bit_generator_expander:RngBitGeneratorExpander",
    "rng-expander": "expand.rng_expander:RngExpander",
    "scaled-dot-decomposer": "expand.scaled_dot_decomposer:ScaledDotDecomposer",
    "scan-expander": "expand.scan_expander:ScanExpander",
    "scatter-expander": "expand.scatter_expander:ScatterExpander",
    "scatter-simplifier": "simplify.scatter_simplifier:ScatterSimplifier",
    "select-and-scatter-expander": "expand.select_and_scatter_expander:SelectAndScatterExpander",
    "sharding-propagation": "sharding.sharding_propagation:ShardingPropagation",
    "sharding-remover": "simplify.sharding_remover:ShardingRemover",
    "simplify-fp-conversions": "simplify.simplify_fp_conversions:SimplifyFPConversions",
    "sort-simplifier": "simplify.sort_simplifier:SortSimplifier",
    "spmd-partitioner": "spmd.spmd_partitioner:SpmdPartitioner",
    "stochastic-convert-decomposer": "expand.stochastic_convert_decomposer:StochasticConvertDecomposer",
    "sub-byte-packing": "layout.sub_byte_packing:SubBytePacking",
    "topk-decomposer": "expand.topk_decomposer:TopkDecomposer",
    "topk-rewriter": "simplify.topk_rewriter:TopkRewriter",
    "transpose-folding": "layout.transpose_folding:TransposeFolding",
    "tree-reduction-rewriter": "expand.tree_reduction_rewriter:TreeReductionRewriter",
    "triangular-solve-expander": "expand.triangular_solve_expander:TriangularSolveExpander",
    "trivial-collective-remover": "collectives.trivial_collective_remover:TrivialCollectiveRemover",
    "tuple-simplifier": "simplify.tuple_simplifier:TupleSimplifier",
    "variadic-reduce-splitter": "expand.variadic_reduce_splitter:VariadicReduceSplitter",
    "vjp": "autodiff.passes:Vjp",
    "vmap": "batching.vmap:Vmap",
    "while-loop-all-reduce-code-motion": (
        "loops.while_loop_all_reduce_code_motion:WhileLoopAllReduceCodeMotion"
    ),
    "while-loop-collective-code-motion": (
        "loops.while_loop_collective_code_motion:WhileLoopCollectiveCodeMotion"
    ),
    "while-loop-dot-batching": "loops.while_loop_dot_batching:WhileLoopDotBatching",
    "while-loop-invariant-code-motion": "loops.while_loop_invariant_code_motion:WhileLoopInvariantCodeMotion",
    "while-loop-simplifier": "loops.while_loop_simplifier:WhileLoopSimplifier",
    "while-loop-unroller": "loops.while_loop_unroller:WhileLoopUnroller",
    "while-loop-trip-count-annotator": "loops.while_loop_trip_count_annotator:WhileLoopTripCountAnnotator",
    "zero-sized-hlo-elimination": "simplify.zero_sized_hlo_elimination:ZeroSizedHloElimination",
}
"""Pass name -> ``module:Class`` in `hlotool.passes`."""

WORKS_ON: dict[str, frozenset[str]] = {
    name: frozenset(opcodes.split())
    for name, opcodes in {
        "all-gather-combiner": "all-gather",
        "all-reduce-combiner": "all-reduce",
        "batch-norm-expander": "batch-norm-training batch-norm-inference batch-norm-grad",
        "bitcast-convert-reshaper": "bitcast-convert",
        "conditional-simplifier": "conditional",
        "conditional-to-select": "conditional",
        "convert-mover": "convert",
        "custom-call-expander": "custom-call",
        "convolution-to-dot": "convolution",
        "dot-decomposer": "dot",
        "element-loop-expander": "map reduce reduce-window scatter select-and-scatter sort",
        "lapack-expander": "custom-call",
        "library-call-expander": "custom-call",
        "limit-reuse": "compare",
        "map-inliner": "map",
        "optimization-barrier-expander": "opt-barrier",
        "product-expander": "dot convolution",
        "product-fusion": "convolution dot",
        "product-packing": "dot",
        "product-prologue": "dot",
        "ragged-dot-decomposer": "ragged-dot",
        "reduce-scatter-combiner": "reduce-scatter",
        "reduce-scatter-creator": "all-reduce",
        "reduce-window-splitter": "reduce-window",
        "reducer-upcaster": "reduce reduce-window scatter select-and-scatter",
        "scaled-dot-decomposer": "scaled-dot",
        "scan-expander": "scan",
        "sort-simplifier": "sort",
        "topk-rewriter": "sort",
        "transpose-folding": "dot",
        "tuple-simplifier": "tuple get-tuple-element",
        "variadic-reduce-splitter": "reduce",
        "while-loop-collective-code-motion": "while",
        "while-loop-dot-batching": "while",
        "while-loop-invariant-code-motion": "while",
        "while-loop-simplifier": "while",
        "while-loop-trip-count-annotator": "while",
        "while-loop-unroller": "while",
    }.items()
} | {
    "async-to-sync": frozenset(name for name, row in OPCODES.items() if "async" in row.traits),
    "trivial-collective-remover": frozenset(name for name, row in OPCODES.items() if row.group == "collective"),
}
"""The opcodes of passes that everybody's pipelines have with their usual options, and that need not be loaded where
none of them occurs."""

PIPELINES: dict[str, str] = {
    "none": "",
    "expand": (
        "library-call-expander,custom-call-expander,lapack-expander,batch-norm-expander,"
        "ragged-dot-decomposer,scaled-dot-decomposer,product-expander,scan-expander,"
        "bitcast-convert-reshaper,reducer-upcaster"
    ),
    "unfuse": "async-to-sync,trivial-collective-remover,dynamic-padder,layout-assignment,call-inliner{fusions=all}",
    "inline": "call-inliner,flatten-call-graph,sharding-remover,map-inliner,tuple-simplifier,dce",
    "simplify": (
        "inline,zero-sized-hlo-elimination,"
        "fixpoint(algebraic-simplifier,reshape-mover,convert-mover,constant-folding,tuple-simplifier,sort-simplifier,"
        "while-loop-simplifier,while-loop-unroller,conditional-simplifier,conditional-to-select,cse,dce),"
        "while-loop-invariant-code-motion,while-loop-dot-batching,"
        "fixpoint(tuple-simplifier,while-loop-simplifier,algebraic-simplifier,cse,dce)"
    ),
    "exchange": (  # every element is reduced in the order in which it was: the bits stay
        "while-loop-collective-code-motion,reduce-scatter-creator,"
        "all-reduce-combiner,all-gather-combiner,reduce-scatter-combiner"
    ),
    "overlap": (  # sums of floats that were exchanged apart are rounded in another order
        "all-reduce-reassociate,while-loop-all-reduce-code-motion,exchange,tuple-simplifier,dce,"
        "async-collective-creator,latency-hiding-scheduler"
    ),
    "settle": "tuple-simplifier,reshape-mover,algebraic-simplifier,while-loop-invariant-code-motion,cse,dce",
    "default": (
        "unfuse,expand,inline,simplify,variadic-reduce-splitter,tuple-simplifier,dce,"
        "exchange,topk-rewriter,reduce-window-splitter,"
        "convolution-to-dot,dot-decomposer,transpose-folding,product-packing,"
        "limit-reuse,while-loop-invariant-code-motion,cse,dce,"
        "while-loop-trip-count-annotator,fusion,multi-output-fusion,product-fusion,product-prologue,settle,"
        "sub-byte-packing,copy-insertion,dce,memory-scheduler,optimization-barrier-expander,tuple-simplifier,dce,"
        "computation-deduplicator"
    ),
    "O0": "",
    "O1": (
        "unfuse,expand,inline,zero-sized-hlo-elimination,algebraic-simplifier,tuple-simplifier,cse,dce,"
        "variadic-reduce-splitter,tuple-simplifier,dce,dot-decomposer,"
        "transpose-folding,dce,"
        "while-loop-trip-count-annotator,fusion,copy-insertion,optimization-barrier-expander,tuple-simplifier,dce,"
        "computation-deduplicator"
    ),
    "O2": "default",
    "O3": (
        "unfuse,expand,inline,simplify,constant-folding{max-elements=1048576,max-work=200000000},convert-mover{bf16},"
        "simplify,"
        "variadic-reduce-splitter,tuple-simplifier,dce,"
        "exchange,topk-rewriter,reduce-window-splitter,"
        "convolution-to-dot,dot-decomposer,transpose-folding,product-packing,"
        "limit-reuse,while-loop-invariant-code-motion,cse,dce,"
        "while-loop-trip-count-annotator,fusion{max-ops=1024},multi-output-fusion{max-ops=1024,max-outputs=16},"
        "product-fusion{max-ops=1024,max-outputs=16},product-prologue{max-ops=1024},settle,"
        "sub-byte-packing,copy-insertion,dce,memory-scheduler,optimization-barrier-expander,tuple-simplifier,dce,"
        "computation-deduplicator"
    ),
    "lowering": (
        "async-to-sync,trivial-collective-remover,dynamic-padder,dynamic-entry,layout-assignment,expand,"
        "call-inliner{fusions=foreign},element-loop-expander,flatten-call-graph,dot-decomposer,dce"
    ),
}
"""Pipeline name -> pipeline text."""


@dataclass(frozen=True, slots=True)
class PassOption:
    """One option of a pass: `name` as in pipeline text, `type` one of int float bool str."""

    name: str
    type: type
    default: Any


def pass_names() -> list[str]:
    """All pass names, built in and installed, sorted."""
    return sorted([*PASSES, *plugin_names("pass", PASSES)])


def find_pass(name: str) -> type[Pass]:
    """The class of the pass `name`; KeyError when there is none, UnsupportedError when it cannot be loaded."""
    target = PASSES.get(name)
    if target is not None:
        module, _, attribute = target.partition(":")
        found: type[Pass] = getattr(import_module(f"hlotool.passes.{module}"), attribute)
        return found
    loaded: type[Pass] = load_plugin("pass", name, type)
    if getattr(loaded, "name", None) != name or not hasattr(loaded, "run"):
        raise UnsupportedError(f"{loaded.__module__}.{loaded.__name__} is no pass called {name}")
    if fault := _fault(loaded):
        raise UnsupportedError(f"{loaded.__module__}.{loaded.__name__} is no pass: {fault}")
    return loaded


@cache
def deferred_pass(pass_name: str) -> type[Pass]:
    """A pass of `WORKS_ON` with its usual options, whose file is read when it first runs."""

    @dataclass(frozen=True, slots=True)
    class Deferred:
        name: ClassVar[str] = pass_name
        opcodes: ClassVar[frozenset[str]] = WORKS_ON[pass_name]

        def loaded(self) -> Pass:
            return find_pass(self.name)()

        def run(self, module: Module, log: DecisionLog) -> bool:
            return self.loaded().run(module, log)

    return Deferred


def loaded_pass(pass_: Pass) -> Pass:
    """The pass with its options, where that of a pipeline is one whose file is read later."""
    load: Callable[[], Pass] | None = getattr(pass_, "loaded", None)
    return pass_ if load is None else load()


def _fault(pass_class: type[Pass]) -> str:
    """Why a class of another package is no frozen dataclass whose fields are options; nothing where it is one."""
    known: Any = pass_class
    if "__dataclass_params__" not in vars(known) or not known.__dataclass_params__.frozen:
        return "it has to be a frozen dataclass, @dataclass(frozen=True, slots=True), whose fields are its options"
    try:
        options = pass_options(pass_class).values()
    except (NameError, TypeError, SyntaxError) as error:
        return f"the types of its fields are not known: {error}"
    kinds = (int, float, bool, str)
    wrong = [o.name for o in options if o.type not in kinds or not isinstance(o.default, o.type)]
    return f"option {wrong[0]} is no int, float, bool or str with a default" if wrong else ""


def pass_options(pass_class: type[Pass]) -> dict[str, PassOption]:
    """The options of a pass class by their name in pipeline text."""
    hints = get_type_hints(pass_class)
    rows = [
        PassOption(row.name.replace("_", "-"), hints[row.name], row.default)
        for row in fields(pass_class)  # type: ignore[arg-type]
    ]
    return {row.name: row for row in rows}


def pass_help(pass_class: type[Pass]) -> str:
    """The help of a pass: its docstring, dedented."""
    lines = (pass_class.__doc__ or "").strip().splitlines()
    return "\n".join(line.strip() for line in lines)
