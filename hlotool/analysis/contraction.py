"""Dots as batches of matrix products: which dimensions collapse, and with what strides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hlotool.ir import ELEMENT_TYPES, Instruction, Shape, byte_size
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "PACKED_TYPES", "PANEL_BYTES", "DotDimensions", "MatrixView", "Strides", "dense_strides", "dot_dimensions",
    "matrix_views", "panel_columns", "row_major_strides", "sum_type",
]  # fmt: skip

PANEL_BYTES = 64
"""A right operand may lie in panels ``[n / w, k, w]`` with so many bytes in a row: a line of the caches."""

PACKED_TYPES = frozenset({"f32", "f64"})
"""Element types (of both operands and the result) of products that read panels."""


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """The dimension numbers of a dot; free dimensions are those neither batch nor contracting."""

    lhs_batch: tuple[int, ...]
    lhs_free: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    rhs_free: tuple[int, ...]
    rhs_contracting: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strides:
    """How a matrix of a product lies in memory: bytes from one item of the batch, one row and column of the result, and
    one term of the sum to the next, 0 for what it does not have.

    With `lines` columns lie in panels of `PANEL_BYTES`, so many bytes apart.
    """

    batch: tuple[int, ...] = ()
    row: int = 0
    column: int = 0
    terms: tuple[int, ...] = ()
    lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixView:
    """A dot as ``out[b, i, j] = sum over k of lhs[b, i, k] * rhs[b, k, j]``.

    `batch` are extents.  `types` are the element types of lhs, rhs and out, and the one that sums have: 16-bit floats
    are added up in f32 and rounded once, integers wrap in the type of out, pred is and/or.  Subnormal bf16 operands may
    count as zeros (the processor's instruction for pairs reads them so).
    """

    batch: tuple[int, ...] = ()
    m: int
    n: int
    k: int
    lhs: Strides
    rhs: Strides
    out: Strides
    types: tuple[str, str, str, str]


def sum_type(lhs: str, rhs: str, result: str) -> str:
    """The element type in which kernels add up the products of two element types for a result of a third.

    Floats in f32, where nothing asks for f64: an operand or result that f32 cannot hold, or a result that is no float,
    for which the last bit decides.  Integers in at least 32 bits; pred with `or`, if all is pred.
    """
    rows = [ELEMENT_TYPES[name] for name in (lhs, rhs, result)]
    if all(row.kind == "pred" for row in rows):
        return "pred"
    wide = any((row.bits == 64 and not row.is_complex) or row.bits == 128 for row in rows)
    if any(row.is_float or row.is_complex for row in rows):
        wide = wide or not (rows[2].is_float or rows[2].is_complex)
        return ("c128" if wide else "c64") if any(row.is_complex for row in rows) else "f64" if wide else "f32"
    return "s64" if rows[2].bits == 64 or rows[2].kind == "pred" else "s32"


def dot_dimensions(dot: Instruction) -> DotDimensions:
    """The dimension numbers of `dot`, missing attributes being empty."""
    get = dot.attributes.get
    lb, rb = tuple(get("lhs_batch_dims", ())), tuple(get("rhs_batch_dims", ()))
    lc, rc = tuple(get("lhs_contracting_dims", ())), tuple(get("rhs_contracting_dims", ()))
    return _dot_dimensions(dot.operands[0].shape.rank, lb, lc, dot.operands[1].shape.rank, rb, rc)


_Dimensions = tuple[int, ...]


@lru_cache(maxsize=1024)
def _dot_dimensions(
    lhs_rank: int, lb: _Dimensions, lc: _Dimensions, rhs_rank: int, rb: _Dimensions, rc: _Dimensions
) -> DotDimensions:
    lf = tuple(d for d in range(lhs_rank) if d not in lb and d not in lc)
    rf = tuple(d for d in range(rhs_rank) if d not in rb and d not in rc)
    return DotDimensions(lb, lf, lc, rb, rf, rc)


def row_major_strides(shape: Shape) -> tuple[int, ...]:
    """Element strides of a dense row-major array."""
    return dense_strides(shape.dimensions, 1)


def dense_strides(dimensions: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Strides in bytes of a dense row-major array whose elements have this size."""
    strides, step = [], size
    for extent in reversed(dimensions):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _collapse(dimensions: Sequence[tuple[int, int]], size: int) -> tuple[int, int] | None:
    """Merge (extent, stride) pairs, major first, into one; None when they are not evenly spaced.

    A single element is followed by others of its `size`.
    """
    merged: tuple[int, int] | None = None
    for extent, stride in reversed([d for d in dimensions if d[0] != 1]):
        if merged is None:
            merged = (extent, stride)
        elif stride == merged[0] * merged[1]:
            merged = (extent * merged[0], merged[1])
        else:
            return None
    return merged or (1, size)


def matrix_views(dot: Instruction) -> MatrixView | None:
    """The view of `dot` over its row-major operands, or None when a group of dimensions does not collapse."""
    numbers = dot_dimensions(dot)
    lhs, rhs = (operand.shape for operand in dot.operands)
    types = lhs.element_type, rhs.element_type, dot.shape.element_type
    return _matrix_view(lhs.dimensions, rhs.dimensions, numbers, _is_in_panels(dot, numbers), types)


@lru_cache(maxsize=1024)
def _matrix_view(
    lhs: _Dimensions, rhs: _Dimensions, numbers: DotDimensions, in_panels: bool, types: tuple[str, str, str]
) -> MatrixView | None:
    left, right, size = map(byte_size, types)
    ls, rs = dense_strides(lhs, left), dense_strides(rhs, right)

    def of_left(dimensions: _Dimensions) -> tuple[int, int] | None:
        return _collapse([(lhs[d], ls[d]) for d in dimensions], left)

    def of_right(dimensions: _Dimensions) -> tuple[int, int] | None:
        return _collapse([(rhs[d], rs[d]) for d in dimensions], right)

    m = of_left(numbers.lhs_free)
    n = (rhs[0] * rhs[2], right) if in_panels else of_right(numbers.rhs_free)
    # Both operands walk the contracting dimensions in the order of the attribute; any common order will do.
    order = sorted(range(len(numbers.lhs_contracting)), key=lambda i: -ls[numbers.lhs_contracting[i]])
    lk = of_left(tuple(numbers.lhs_contracting[i] for i in order))
    rk = of_right(tuple(numbers.rhs_contracting[i] for i in order))
    if m is None or n is None or lk is None or rk is None:
        return None
    extents = [lhs[d] for d in numbers.lhs_batch]
    out = [stride * m[0] * n[0] for stride in dense_strides(tuple(extents), size)]
    kept = [i for i, extent in enumerate(extents) if extent != 1]
    return MatrixView(
        batch=tuple(extents[i] for i in kept), m=m[0], n=n[0], k=lk[0], types=(*types, sum_type(*types)),
        lhs=Strides(batch=tuple(ls[numbers.lhs_batch[i]] for i in kept), row=m[1], terms=(lk[1],)),
        rhs=Strides(
            batch=tuple(rs[numbers.rhs_batch[i]] for i in kept), column=n[1], terms=(rk[1],),
            lines=rs[0] if in_panels else 0,
        ),
        out=Strides(batch=tuple(out[i] for i in kept), row=n[0] * size, column=size),
    )


def panel_columns(element_type: str) -> int:
    """Columns of a panel of elements of this type."""
    return PANEL_BYTES // byte_size(element_type)


def _is_in_panels(dot: Instruction, numbers: DotDimensions) -> bool:
    """Whether the right operand lies in panels."""
    rhs = dot.operands[1].shape
    if numbers.rhs_batch or numbers.rhs_contracting != (1,) or rhs.rank != 3 or rhs.dimensions[0] == 1:
        return False
    kinds = {dot.shape.element_type, *(o.shape.element_type for o in dot.operands)}
    return len(kinds) == 1 and kinds <= PACKED_TYPES and rhs.dimensions[2] == panel_columns(rhs.element_type)
