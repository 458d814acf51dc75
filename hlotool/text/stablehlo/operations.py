"""The table of operations: each name, and what makes HLO of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass
from hlotool.text.lexer import Cursor
from hlotool.text.stablehlo import (
    calls,
    chlo,
    communication,
    contractions,
    control,
    dynamism,
    elementwise,
    formulas,
    parallel,
    quantised,
    reductions,
)
from hlotool.text.stablehlo.scope import Refusal, Scope
from hlotool.text.stablehlo.tree import Operation

__all__ = ["OPERATIONS", "Row", "check_name", "near", "public_name"]

Convert = Callable[[Scope, Operation], Sequence[Instruction]]


@dataclass(frozen=True, slots=True)
class Row:
    """An operation: `convert` makes its results.

    Quantised operands and results are those of floats (`floats`) where the operation computes with values, and the
    stored integers where it only moves them.  `regions` and `operands` are how many it has (None: any number).
    """

    convert: Convert
    operands: int | None = None
    regions: int = 0
    floats: bool = False


def _ends(scope: Scope, operation: Operation) -> Sequence[Instruction]:
    raise Refusal(f"{operation.name} stands at the end of a region")


OPERATIONS: dict[str, Row] = {}


def _add(dialect: str, rows: dict[str, tuple[Convert, int | None]], regions: int = 0, floats: bool = False) -> None:
    for name, (convert, operands) in rows.items():
        OPERATIONS[f"{dialect}.{name}"] = Row(convert, operands, regions, floats)


_BINARY = {
    "add", "and", "atan2", "complex", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor",
}  # fmt: skip

_add(
    "stablehlo",
    {
        **{
            name: (elementwise.elementwise(opcode), 2 if name in _BINARY else 1)
            for name, opcode in elementwise.SAME_NAME.items()
        },
        "compare": (elementwise.compare, 2),
        "select": (elementwise.select, 3),
        "clamp": (elementwise.clamp, 3),
        "convert": (elementwise.convert, 1),
        "reduce_precision": (elementwise.reduce_precision, 1),
        "dot": (contractions.dot, 2),
        "dot_general": (contractions.dot_general, 2),
        "convolution": (contractions.convolution, 2),
        "dynamic_conv": (dynamism.dynamic_conv, 3),
        "batch_norm_grad": (contractions.batch_norm, 5),
        "batch_norm_inference": (contractions.batch_norm, 5),
        "batch_norm_training": (contractions.batch_norm, 3),
        "cholesky": (contractions.cholesky, 1),
        "triangular_solve": (contractions.triangular_solve, 2),
        "fft": (contractions.fft, 1),
        "iota": (elementwise.iota, 0),
        "rng": (dynamism.rng, 3),
        "einsum": (contractions.einsum, 2),
        "unary_einsum": (contractions.einsum, 1),
        "dynamic_iota": (dynamism.dynamic_iota, 1),
    },
    floats=True,
)
_add(
    "stablehlo",
    {
        "bitcast_convert": (elementwise.bitcast_convert, 1),
        "constant": (elementwise.constant, 0),
        "broadcast": (elementwise.broadcast, 1),
        "broadcast_in_dim": (elementwise.broadcast_in_dim_operation, 1),
        "reshape": (elementwise.reshape, 1),
        "transpose": (elementwise.transpose, 1),
        "reverse": (elementwise.reverse, 1),
        "concatenate": (elementwise.concatenate, None),
        "pad": (elementwise.pad, 2),
        "slice": (elementwise.slice_, 1),
        "dynamic_slice": (elementwise.dynamic_slice, None),
        "dynamic_update_slice": (elementwise.dynamic_update_slice, None),
        "tuple": (elementwise.tuple_, None),
        "get_tuple_element": (elementwise.get_tuple_element, 1),
        "optimization_barrier": (elementwise.barrier, None),
        "gather": (reductions.gather, 2),
        "torch_index_select": (reductions.torch_index_select, 2),
        "rng_bit_generator": (contractions.rng_bit_generator, 1),
        "uniform_quantize": (quantised.uniform_quantize, 1),
        "uniform_dequantize": (quantised.uniform_dequantize, 1),
        "get_dimension_size": (dynamism.get_dimension_size, 1),
        "set_dimension_size": (dynamism.set_dimension_size, 2),
        "dynamic_reshape": (dynamism.dynamic_reshape, 2),
        "dynamic_broadcast_in_dim": (dynamism.dynamic_broadcast_in_dim, 2),
        "dynamic_pad": (dynamism.dynamic_pad, 5),
        "real_dynamic_slice": (dynamism.real_dynamic_slice, 4),
        "dynamic_gather": (dynamism.dynamic_gather, 3),
        "all_gather": (communication.all_gather, None),
        "all_to_all": (communication.all_to_all, None),
        "collective_broadcast": (communication.collective_broadcast, 1),
        "collective_permute": (communication.collective_permute, 1),
        "cross-replica-sum": (communication.cross_replica_sum, 1),
        "partition_id": (communication.identity, 0),
        "replica_id": (communication.identity, 0),
        "after_all": (communication.after_all, None),
        "create_token": (communication.after_all, 0),
        "infeed": (communication.infeed, 1),
        "outfeed": (communication.outfeed, None),
        "send": (communication.send, None),
        "recv": (communication.recv, 1),
        "async_done": (communication.async_done, 1),
        "custom_call": (calls.custom_call, None),
        "composite": (control.composite, None),
        "return": (_ends, None),
    },
)
_add(
    "stablehlo",
    {
        "reduce": (reductions.reduce, None),
        "reduce_window": (reductions.reduce_window, None),
        "map": (reductions.map_, None),
        "sort": (reductions.sort, None),
        "scatter": (reductions.scatter, None),
        "all_reduce": (communication.all_reduce, None),
        "reduce_scatter": (communication.reduce_scatter, None),
        "async_start": (communication.async_start, None),
    },
    regions=1,
)
_add(
    "stablehlo",
    {
        "select_and_scatter": (reductions.select_and_scatter, 3),
        "while": (control.while_, None),
        "if": (control.if_, 1),
    },
    regions=2,
)
_add("stablehlo", {"case": (control.case, 1)}, regions=-1)
_add("func", {"call": (control.call, None), "return": (_ends, None)})
_add(
    "chlo",
    {
        **{f"broadcast_{name}": (chlo.broadcasting(opcode), 2) for name, opcode in chlo.BROADCASTING.items()},
        "broadcast_compare": (chlo.broadcast_compare, 2),
        "broadcast_select": (chlo.broadcast_select, 3),
        "constant": (chlo.constant, 0),
        "constant_like": (chlo.constant_like, 1),
        "ragged_dot": (chlo.ragged_dot, 3),
        "top_k": (reductions.top_k, 1),
        "mulhi": (elementwise.elementwise("mulhi"), 2),
        "erf": (elementwise.elementwise("erf"), 1),
        "tan": (elementwise.elementwise("tan"), 1),
        **{name: (chlo.function(formula), arity) for name, (formula, arity) in formulas.FORMULAS.items()},
    },
    floats=True,
)
_add("chlo", {"scan": (chlo.scan, None)}, regions=1)
_add(
    "check",
    {
        **dict.fromkeys(
            ("eq", "almost_eq", "expect_eq", "expect_eq_const", "expect_almost_eq", "expect_almost_eq_const",
             "expect_close", "expect_close_const"),
            (calls.check, None),
        ),
        "expect_serialized_eq": (calls.check_file, None),
    },
)  # fmt: skip
_add("interpreter", {
    "print": (calls.same, 1), "probe": (calls.same, 1), "run_parallel": (parallel.run_parallel, None),
})  # fmt: skip
_add(
    "sdy",
    {
        "sharding_constraint": (calls.sharding_constraint, 1),
        "sharding_group": (calls.sharding_group, 1),
        "propagation_barrier": (calls.same, 1),
        "return": (_ends, None),
    },
)
_add("sdy", {"manual_computation": (calls.manual_computation, None)}, regions=1)

_DECLARED = ("builtin.module", "func.func", "sdy.mesh")


def public_name(name: str) -> str:
    """The name in StableHLO or CHLO of an operation of MHLO, which XLA has inside and converts its HLO to in part."""
    if not name.startswith("mhlo."):
        return name
    plain = name[5:].replace("topk", "top_k")
    found = (one for one in (f"stablehlo.{plain}", f"chlo.{plain}") if one in OPERATIONS)
    return next(found, name)


def check_name(cursor: Cursor, name: str, start: int, end: int) -> None:
    """A failure where there is no operation of this name."""
    if name not in OPERATIONS and name not in _DECLARED:
        raise cursor.fail(f"unknown operation '{name[:60]}'", start, end, near(name), code="HLO0108")


def near(name: str) -> str | None:
    """A hint for a name that there is not."""
    close = get_close_matches(name[:80], OPERATIONS, 1, 0.75)
    if close:
        return f"did you mean '{close[0]}'?"
    dialect = name.partition(".")[0]
    if dialect in ("mhlo", "vhlo"):
        return f"'{dialect}' is a form inside of compilers: StableHLO is what frameworks give"
    return "hlotool reads the dialects stablehlo, chlo, func, check and sdy"
