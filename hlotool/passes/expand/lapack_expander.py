"""Custom calls of LAPACK that instructions, or a short loop of them, can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any, ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate.backend_config import parse_backend_config
from hlotool.evaluate.lapack import TYPES, lies_by_columns
from hlotool.ir import Computation, Instruction, Module, Shape, array, dtype_of
from hlotool.ir.builder import Builder, binary_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.framework.graph import custom_call_target
from hlotool.passes.loops.counted_loop import counted_loop

__all__ = ["LapackExpander"]

_REAL = {"c64": "f32", "c128": "f64"}


@dataclass(frozen=True, slots=True)
class LapackExpander:
    """Replaces ``lapack_*potrf_ffi`` by cholesky, ``lapack_*trsm_ffi`` by triangular-solve, and ``lapack_*getrf_ffi``
    of matrices with at most `largest` rows and columns by a loop over columns, all matrices of a batch at once (Golub
    and Van Loan, Matrix Computations, 3.4).

    The library would be called from Python, matrix after matrix.  potrf is replaced where its ``info`` is only compared
    with zero: which leading minor is not positive, cholesky does not say.
    """

    name: ClassVar[str] = "lapack-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"custom-call"})
    largest: int = 32

    def run(self, module: Module, log: DecisionLog) -> bool:
        def instead(build: Builder, call: Instruction) -> Instruction | None:
            target = custom_call_target(call)
            rule = _RULES.get(target[len("lapack_") + 1 :]) if target.startswith("lapack_") else None
            takes = rule is not None and _has_matrices(call, target) and lies_by_columns(call)
            result = rule(self, module, build, call) if rule and takes else None
            if rule is not None and result is None:
                log.refuse("form", call, "LAPACK is called")
            return result

        return expand_each(module, log, self.opcodes, instead, "expand", custom_call_target, static=True)


def _has_matrices(call: Instruction, target: str) -> bool:
    """Whether all operands are matrices of the type that the target's name has, in one batch."""
    kind = TYPES.get(target[len("lapack_")])
    shapes = [operand.shape for operand in call.operands]
    if kind is None or not all(shape.is_array and shape.rank >= 2 for shape in shapes):
        return False
    batches = {shape.dimensions[:-2] for shape in shapes}
    return len(batches) == 1 and all(dtype_of(shape.element_type) == kind for shape in shapes)


def _is(shape: Shape, element_type: str, dimensions: Sequence[int]) -> bool:
    return shape.is_array and shape.element_type == element_type and shape.dimensions == tuple(dimensions)


def _letters(call: Instruction, **allowed: str) -> list[str] | None:
    """The letters of options, which the config has as numbers; None where one is missing or not `allowed`."""
    config = parse_backend_config(call.attributes.get("backend_config", ""))
    found = []
    for name, letters in allowed.items():
        value: Any = None if isinstance(config, str) else config.get(name)
        letter = chr(value) if isinstance(value, int) and 0 <= value < 128 else ""
        if not letter or letter not in letters:
            return None
        found.append(letter)
    return found


def _trsm(options: LapackExpander, module: Module, build: Builder, call: Instruction) -> Instruction | None:
    letters = _letters(call, side="LR", uplo="LU", trans_x="NTC", diag="NU")
    if letters is None or len(call.operands) != 2 or not call.shape.is_array:
        return None
    side, triangle, transposed, diagonal = letters
    (*_, rows, columns), (*_, height, width) = (operand.shape.dimensions for operand in call.operands)
    if not call.shape.compatible(call.operands[1].shape) or not rows == columns == (height if side == "L" else width):
        return None
    attributes = {
        "left_side": side == "L",
        "lower": triangle == "L",
        "unit_diagonal": diagonal == "U",
        "transpose_a": {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[transposed],
    }
    return build.add("triangular-solve", call.shape, call.operands, attributes)


def _potrf(options: LapackExpander, module: Module, build: Builder, call: Instruction) -> Instruction | None:
    letters = _letters(call, uplo="LU")
    if letters is None or len(call.operands) != 1 or len(call.shape.elements) != 2:
        return None
    (matrix,), (shape, info) = call.operands, call.shape.elements
    *batch, rows, columns = matrix.shape.dimensions
    if not shape.compatible(matrix.shape) or rows != columns or not _is(info, "s32", batch):
        return None
    if not shape.size or not _is_only_compared(call, 1):
        return None
    rank, kind, lower = shape.rank, shape.element_type, letters[0] == "L"
    real = _REAL.get(kind, kind)
    factor = build.add("cholesky", shape, (matrix,), {"lower": lower})
    row, column = (build.iota(array("s32", shape.dimensions), rank - 2 + axis) for axis in (0, 1))
    part = factor if kind == real else build.unary("real", factor)
    positive = build.compare(part, build.splat(0, part.shape), "GT")
    failed = build.binary("and", build.unary("not", positive), build.compare(row, column, "EQ"))
    either = module.add(binary_computation("or", "pred"))
    any_failed = build.reduce(failed, build.constant(False, "pred"), [rank - 2, rank - 1], either)
    inside = build.compare(row, column, "GE" if lower else "LE")
    return build.tuple([build.select(inside, factor, matrix), build.convert(any_failed, info.element_type)])


def _is_only_compared(call: Instruction, index: int) -> bool:
    """Whether all readers of a result compare it with zero for equality."""
    for user in call.users:
        if user.opcode != "get-tuple-element":
            return False
        if user.attributes["index"] != index:
            continue
        for reader in user.users:
            equality = reader.opcode == "compare" and reader.attributes["direction"] in ("EQ", "NE")
            if not equality or not any(map(_is_zero, reader.operands)):
                return False
        if user.is_root:
            return False
    return not call.is_root


def _is_zero(value: Instruction) -> bool:
    while value.opcode in ("broadcast", "reshape", "convert", "bitcast"):
        value = value.operands[0]
    return value.opcode == "constant" and not value.literal.elided and not value.literal.value().any()


def _getrf(options: LapackExpander, module: Module, build: Builder, call: Instruction) -> Instruction | None:
    if len(call.operands) != 1 or len(call.shape.elements) != 3:
        return None
    (matrix,), (shape, pivots, info) = call.operands, call.shape.elements
    *batch, rows, columns = matrix.shape.dimensions
    expected = _is(pivots, "s32", (*batch, min(rows, columns))) and _is(info, "s32", batch)
    if not expected or not shape.compatible(matrix.shape):
        return None
    if not 0 < min(rows, columns) <= max(rows, columns) <= options.largest or not shape.size:
        return None
    count = prod(batch)
    first = [
        build.reshape(matrix, (count, rows, columns)),
        build.splat(0, array("s32", (count, min(rows, columns)))),
        build.splat(0, array("s32", (count,))),
    ]
    step = _Column(module, count, rows, columns, shape.element_type)
    found = counted_loop(module, build, min(rows, columns), first, step)
    return build.tuple([build.reshape(one, wanted) for one, wanted in zip(found, (shape, pivots, info), strict=True)])


@dataclass(frozen=True, slots=True)
class _Column:
    """A step of the elimination with partial pivoting, of `count` matrices: the state is the matrices, the pivots,
    counted from 1, and for each matrix the first column whose pivot is zero, counted from 1, or 0."""

    module: Module
    count: int
    rows: int
    columns: int
    kind: str

    def __call__(self, build: Builder, number: Instruction, state: list[Instruction]) -> list[Instruction]:
        matrix, pivots, info = state
        count, rows, columns = self.count, self.rows, self.columns
        zero = build.scalar_constant(0, "s32")
        column = build.reshape(build.dynamic_slice(matrix, [zero, zero, number], (count, rows, 1)), (count, rows))
        old = build.reshape(build.dynamic_slice(matrix, [zero, number, zero], (count, 1, columns)), (count, columns))
        chosen = self._largest(build, column, number)
        new = self._row(build, matrix, chosen)
        pivot = build.reshape(build.dynamic_slice(new, [zero, number], (count, 1)), (count,))
        place = build.iota(array("s32", (count, rows)), 1)
        at, other = build.broadcast(number, (), (count, rows)), build.broadcast(chosen, (0,), (count, rows))
        is_zero = build.compare(pivot, build.splat(0, pivot.shape), "EQ")
        divisor = build.select(is_zero, build.splat(1, pivot.shape), pivot)
        head = build.reshape(build.dynamic_slice(column, [zero, number], (count, 1)), (count,))
        moved = build.select(build.compare(place, other, "EQ"), build.broadcast(head, (0,), (count, rows)), column)
        factor = build.binary("divide", moved, build.broadcast(divisor, (0,), (count, rows)))
        after = self._eliminated(build, matrix, (number, at, other), (old, new), factor)
        from_one = build.binary("add", chosen, build.splat(1, chosen.shape))
        pivots = build.dynamic_update_slice(pivots, build.reshape(from_one, (count, 1)), [zero, number])
        this = build.binary("add", build.broadcast(number, (), (count,)), build.splat(1, info.shape))
        is_first = build.binary("and", is_zero, build.compare(info, build.splat(0, info.shape), "EQ"))
        return [after, pivots, build.select(is_first, this, info)]

    def _largest(self, build: Builder, column: Instruction, number: Instruction) -> Instruction:
        """The row of the largest element from row `number` on, the first one of equals: s32[count].

        As BLAS looks for it: a NaN is never larger than what was found before it, and nothing larger than a NaN.
        """
        real = _REAL.get(self.kind, self.kind)
        size = build.unary("abs", column)
        if real != self.kind:  # as LAPACK compares complex numbers
            size = build.binary("add", *(build.unary("abs", build.unary(part, column)) for part in ("real", "imag")))
        place = build.iota(array("s32", size.shape.dimensions), 1)
        first = build.broadcast(number, (), place.shape.dimensions)
        is_nan = build.compare(size, size, "NE")
        nowhere = build.splat(-1, size.shape)
        instead = build.select(build.compare(place, first, "EQ"), build.splat(inf, size.shape), nowhere)
        size = build.select(is_nan, instead, size)
        live = build.compare(place, first, "GE")
        size = build.select(live, size, nowhere)
        starts = build.scalar_constant(-1, real), build.scalar_constant(0, "s32")
        reducer = self.module.add(_larger(real))
        both = build.add("reduce", None, (size, place, *starts), {"dimensions": (1,), "to_apply": reducer})
        return build.gte(both, 1)

    def _row(self, build: Builder, matrix: Instruction, chosen: Instruction) -> Instruction:
        """Row ``chosen[b]`` of matrix b: [count, columns]."""
        count, columns, zero = self.count, self.columns, build.scalar_constant(0, "s32")
        if count == 1:
            start = [zero, build.reshape(chosen, ()), zero]
            return build.reshape(build.dynamic_slice(matrix, start, (1, 1, columns)), (1, columns))
        attributes = {
            "offset_dims": (1,), "collapsed_slice_dims": (1,), "start_index_map": (1,), "index_vector_dim": 1,
            "slice_sizes": (1, 1, columns), "operand_batching_dims": (0,), "start_indices_batching_dims": (0,),
        }  # fmt: skip
        return build.gather(matrix, build.reshape(chosen, (count, 1)), attributes)

    def _eliminated(
        self,
        build: Builder,
        matrix: Instruction,
        places: tuple[Instruction, Instruction, Instruction],
        lines: tuple[Instruction, Instruction],
        factor: Instruction,
    ) -> Instruction:
        """The matrices with rows exchanged, the factors below the pivots, and their products with it taken off."""
        sizes = matrix.shape.dimensions
        number, at, other = places
        old, new = (build.broadcast(line, (0, 2), sizes) for line in lines)
        row, column = (build.iota(array("s32", sizes), axis) for axis in (1, 2))
        pivot_row, chosen_row = (build.broadcast(one, (0, 1), sizes) for one in (at, other))
        here = build.broadcast(number, (), sizes)
        exchanged = build.select(build.compare(row, chosen_row, "EQ"), old, matrix)
        exchanged = build.select(build.compare(row, pivot_row, "EQ"), new, exchanged)
        factors = build.broadcast(factor, (0, 1), sizes)
        rest = build.binary("subtract", exchanged, build.binary("multiply", factors, new))
        beside = build.select(build.compare(column, here, "EQ"), factors, exchanged)
        inner = build.select(build.compare(column, here, "GT"), rest, beside)
        return build.select(build.compare(row, here, "GT"), inner, exchanged)


def _larger(real: str) -> Computation:
    """(size, place) of the larger of two, the first of equals."""
    computation = Computation("larger")
    build = Builder(computation)
    kinds = (real, "s32", real, "s32")
    a, i, b, j = (build.parameter(number, array(kind)) for number, kind in enumerate(kinds))
    equal = build.binary("and", build.compare(a, b, "EQ"), build.compare(i, j, "LE"))
    first = build.binary("or", build.compare(a, b, "GT"), equal)
    computation.root = build.tuple([build.select(first, a, b), build.select(first, i, j)])
    return computation


_RULES: dict[str, Callable[[LapackExpander, Module, Builder, Instruction], Instruction | None]] = {
    "getrf_ffi": _getrf,
    "potrf_ffi": _potrf,
    "trsm_ffi": _trsm,
}
