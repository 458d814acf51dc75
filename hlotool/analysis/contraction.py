"""Dots as batches of matrix products: which dimensions collapse, and with what strides.

Strides are in elements of dense row-major arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from hlotool.ir import ELEMENT_TYPES, Instruction, Shape, byte_size

__all__ = [
    "PACKED_TYPES", "PANEL_BYTES", "DotDimensions", "MatrixView", "collapse", "dot_dimensions", "matrix_views",
    "panel_columns", "row_major_strides", "sum_type",
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


@dataclass(frozen=True, slots=True)
class MatrixView:
    """A dot as ``out[b, i, j] = sum over k of lhs[b, i, k] * rhs[b, k, j]``.

    `batch` are extents; each operand has batch strides and the strides of its two matrix dimensions.  With `panel` the
    columns of rhs lie in panels of `PANEL_BYTES`, so many elements apart.
    """

    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    lhs_batch: tuple[int, ...]
    lhs: tuple[int, int]  # (m, k)
    rhs_batch: tuple[int, ...]
    rhs: tuple[int, int]  # (k, n)
    out_batch: tuple[int, ...]
    out: tuple[int, int]  # (m, n)
    panel: int = 0


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
    return _strides(shape.dimensions)


def _strides(dimensions: _Dimensions) -> _Dimensions:
    strides, step = [], 1
    for size in reversed(dimensions):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def collapse(dimensions: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Merge (extent, stride) pairs, major first, into one; None when they are not evenly spaced."""
    merged: tuple[int, int] | None = None
    for extent, stride in reversed([d for d in dimensions if d[0] != 1]):
        if merged is None:
            merged = (extent, stride)
        elif stride == merged[0] * merged[1]:
            merged = (extent * merged[0], merged[1])
        else:
            return None
    return merged or (1, 1)


def matrix_views(dot: Instruction) -> MatrixView | None:
    """The view of `dot` over its row-major operands, or None when a group of dimensions does not collapse."""
    numbers = dot_dimensions(dot)
    lhs, rhs = dot.operands
    return _matrix_view(lhs.shape.dimensions, rhs.shape.dimensions, numbers, _panel(dot, numbers))


@lru_cache(maxsize=1024)
def _matrix_view(lhs: _Dimensions, rhs: _Dimensions, numbers: DotDimensions, panel: int) -> MatrixView | None:
    ls, rs = _strides(lhs), _strides(rhs)

    def group(sizes: _Dimensions, strides: _Dimensions, dims: _Dimensions) -> tuple[int, int] | None:
        return collapse([(sizes[d], strides[d]) for d in dims])

    m = group(lhs, ls, numbers.lhs_free)
    n = (rhs[0] * rhs[2], 1) if panel else group(rhs, rs, numbers.rhs_free)
    # Both operands walk the contracting dimensions in the order of the attribute; any common order will do.
    order = sorted(range(len(numbers.lhs_contracting)), key=lambda i: -ls[numbers.lhs_contracting[i]])
    lk = group(lhs, ls, tuple(numbers.lhs_contracting[i] for i in order))
    rk = group(rhs, rs, tuple(numbers.rhs_contracting[i] for i in order))
    if m is None or n is None or lk is None or rk is None:
        return None
    out_batch_strides, step = [], m[0] * n[0]
    extents = [lhs[d] for d in numbers.lhs_batch]
    for extent in reversed(extents):
        out_batch_strides.append(step)
        step *= extent
    out_batch_strides.reverse()
    kept = [i for i, extent in enumerate(extents) if extent != 1]
    return MatrixView(
        batch=tuple(extents[i] for i in kept),
        m=m[0],
        n=n[0],
        k=lk[0],
        lhs_batch=tuple(ls[numbers.lhs_batch[i]] for i in kept),
        lhs=(m[1], lk[1]),
        rhs_batch=tuple(rs[numbers.rhs_batch[i]] for i in kept),
        rhs=(rk[1], n[1]),
        out_batch=tuple(out_batch_strides[i] for i in kept),
        out=(n[0], 1),
        panel=panel,
    )


def panel_columns(element_type: str) -> int:
    """Columns of a panel of elements of this type."""
    return PANEL_BYTES // byte_size(element_type)


def _panel(dot: Instruction, numbers: DotDimensions) -> int:
    """Elements from one panel of the right operand to the next; 0 where it does not lie in panels."""
    rhs = dot.operands[1].shape
    if numbers.rhs_batch or numbers.rhs_contracting != (1,) or rhs.rank != 3 or rhs.dimensions[0] == 1:
        return 0
    kinds = {dot.shape.element_type, *(o.shape.element_type for o in dot.operands)}
    if len(kinds) > 1 or not kinds <= PACKED_TYPES or rhs.dimensions[2] != panel_columns(rhs.element_type):
        return 0
    return rhs.dimensions[1] * rhs.dimensions[2]
