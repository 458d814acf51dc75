"""Products that a library may have better code for: large ones of plain matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from hlotool.analysis.contraction import MatrixView, Strides, matrix_views
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.launches import Launch, Matrix, Multiply, Place
from hlotool.ir import Instruction, byte_size

__all__ = ["library_product"]

_LARGE: Annotated[int, Threshold("multiplications")] = 1 << 27
"""Of a product that is worth asking a library: those of 512 rows, columns and terms."""

_LEAST: Annotated[int, Threshold("rows, columns and terms")] = 64
"""Of each of them, in such a product."""

_MOST = 1 << 31
"""What libraries count up to."""

_TOTALS = {"f16": ("f16", "f32"), "bf16": ("bf16", "f32"), "f32": ("f32",), "f64": ("f64",)}
"""Types of results by those of both factors."""


def library_product(dot: Instruction, places: Sequence[Place], otherwise: Sequence[Launch]) -> Multiply | None:
    """The product `dot`, whose operands and result lie at `places`, as libraries take it; None where none would."""
    view = matrix_views(dot) if dot.opcode == "dot" else None
    if view is None or not _fits(view):
        return None
    factor, _, total, _ = view.types
    wide, narrow = byte_size(factor), byte_size(total)
    m, n, k = view.m, view.n, view.k
    batch, *_ = (*view.batch, 1)
    left = _matrix(places[0], view.lhs, view.lhs.row, view.lhs.terms, wide, m * k)
    right = _matrix(places[1], view.rhs, view.rhs.terms, (view.rhs.column,), wide, k * n)
    result = _matrix(places[2], view.out, view.out.row, (view.out.column,), narrow, m * n)
    if left is None or right is None or result is None or result.turned:
        return None
    tf32 = dot.attributes.get("algorithm") == "dot_tf32_tf32_f32"
    return Multiply(left, right, result, (batch, m, n, k), factor, total, tf32, tuple(otherwise), dot.name)


def _fits(view: MatrixView) -> bool:
    left, right, total, _ = view.types
    sizes = view.m, view.n, view.k
    batch, *more = (*view.batch, 1)
    work = batch * view.m * view.n * view.k
    panels = view.lhs.lines or view.rhs.lines or view.out.lines
    plain = left == right and total in _TOTALS.get(left, ()) and not panels and len(more) <= 1
    return plain and work >= _LARGE and min(sizes) >= _LEAST and max(*sizes, batch) < _MOST


def _matrix(
    place: Place, strides: Strides, rows: int | Sequence[int], columns: int | Sequence[int], size: int, whole: int
) -> Matrix | None:
    """The matrix whose rows and columns are so many bytes apart; None where neither lie side by side."""
    (row,), (column,) = ((apart,) if isinstance(apart, int) else tuple(apart) or (0,) for apart in (rows, columns))
    if size not in (row, column):
        return None
    turned = column != size
    pitch = (column if turned else row) // size
    apart = strides.batch[0] // size if strides.batch else whole
    return Matrix(place, turned, pitch, apart) if pitch < _MOST else None
