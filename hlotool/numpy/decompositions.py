"""LU and QR decompositions of stacks of matrices, in HLO: loops over columns of narrow panels, products between panels.

LU is recursive by halves (Toledo, "Locality of reference in LU decomposition with partial pivoting", 1997).  QR is
LAPACK's geqrf: panels of Householder reflectors, each applied at once as I - V T V^H (Schreiber and Van Loan, "A
storage-efficient WY representation for products of Householder transformations", 1989).

The functions are bodies: a trace is active when they run.
"""

from __future__ import annotations

from typing import Any

import numpy

from hlotool.numpy import standard as np
from hlotool.numpy.array import Array
from hlotool.numpy.control import fori_loop
from hlotool.numpy.products import adjoint, multiply_matrices, triangular_solve

__all__ = ["lu", "qr"]

_PANEL = 32
_INDEX = numpy.int64


def lu(a: Array) -> tuple[Array, Array, Array]:
    """(factors, order, sign) of [..., m, n]: rows `order` of the matrix are L U, `sign` is that of the permutation.

    `factors` has U on and above its diagonal and the rest of L, whose diagonal is 1, below.  The pivot of a column is
    its largest element; of a column of zeros it is zero.
    """
    *_, rows, columns = a.shape
    if min(rows, columns) <= _PANEL:
        return _lu_panel(a)
    half = max(1, min(rows, columns) // (2 * _PANEL)) * _PANEL
    left, order, sign = lu(a[..., :half])
    right = _rows(a[..., half:], order)
    top = triangular_solve(left[..., :half, :], right[..., :half, :], lower=True, unit_diagonal=True)
    rest, lower_order, lower_sign = lu(right[..., half:, :] - multiply_matrices(left[..., half:, :], top))
    lower = np.concat([_rows(left[..., half:, :], lower_order), rest], axis=-1)
    upper = np.concat([left[..., :half, :], top], axis=-1)
    whole = np.concat([order[..., :half], np.take_along_axis(order[..., half:], lower_order, axis=-1)], axis=-1)
    return np.concat([upper, lower], axis=-2), whole, sign * lower_sign


def _rows(a: Array, order: Array) -> Array:
    return np.take_along_axis(a, np.broadcast_to(order[..., None], a.shape), axis=-2)


def _lu_panel(a: Array) -> tuple[Array, Array, Array]:
    """The same, column after column."""
    *batch, rows, columns = a.shape
    row, column = np.arange(rows), np.arange(columns)
    order = np.broadcast_to(row, (*batch, rows))
    sign = np.ones(tuple(batch), dtype=_real(a.dtype))

    def step(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        a, order, sign = state
        at_k = row == k
        values = np.sum(np.where(column == k, a, 0), axis=-1)
        pivot = np.argmax(np.where(row >= k, np.abs(values), -1), axis=-1)
        at_pivot = row == pivot[..., None]
        upper = np.sum(np.where(at_pivot[..., None], a, 0), axis=-2)
        moved = np.sum(np.where(at_k[:, None], a, 0), axis=-2)
        a = np.where(at_k[:, None], upper[..., None, :], np.where(at_pivot[..., None], moved[..., None, :], a))
        first = np.sum(np.where(at_pivot, order, 0), axis=-1)[..., None]
        second = np.sum(np.where(at_k, order, 0), axis=-1)[..., None]
        order = np.where(at_k, first, np.where(at_pivot, second, order))
        sign = np.where(pivot == k, sign, -sign)
        values = np.where(at_pivot, np.sum(np.where(at_k, values, 0), axis=-1)[..., None], values)
        head = np.sum(np.where(column == k, upper, 0), axis=-1)[..., None]
        factor = np.where(row > k, values / np.where(head == 0, 1, head), 0)
        right = np.where(column > k, upper, 0)
        below = (row > k)[:, None] & (column == k)
        a = np.where(below, factor[..., None], a - factor[..., None] * right[..., None, :])
        return a, order, sign

    found: tuple[Array, Array, Array] = fori_loop(0, min(rows, columns), step, (a, order, sign))
    return found


def qr(a: Array, complete: bool) -> tuple[Array, Array]:
    """Q and R of [..., m, n]; Q has m columns if `complete`, else min(m, n)."""
    *batch, rows, columns = a.shape
    count = min(rows, columns)
    panels = []
    upper: list[Array] = []
    rest = a
    for start in range(0, count, _PANEL):
        width = min(_PANEL, count - start)
        reflectors, triangle, factors = _qr_panel(rest[..., :width])
        panels.append((reflectors, triangle))
        trailing = rest[..., width:]
        trailing = trailing - _applied(reflectors, adjoint(triangle), trailing)
        finished = np.concat([factors[..., :width, :], trailing[..., :width, :]], axis=-1)
        upper.append(np.concat([np.zeros((*batch, width, start), dtype=a.dtype), finished], axis=-1))
        rest = trailing[..., width:, :]
    wanted = rows if complete else count
    if wanted > count:
        upper.append(np.zeros((*batch, wanted - count, columns), dtype=a.dtype))
    r = np.concat(upper, axis=-2) if upper else np.zeros((*batch, 0, columns), dtype=a.dtype)
    q = np.broadcast_to(np.eye(rows, wanted, dtype=a.dtype), (*batch, rows, wanted))
    for number in range(len(panels) - 1, -1, -1):
        reflectors, triangle = panels[number]
        start = number * _PANEL
        lower = q[..., start:, :]
        lower = lower - _applied(reflectors, triangle, lower)
        q = np.concat([q[..., :start, :], lower], axis=-2) if start else lower
    return q, r


def _applied(reflectors: Array, triangle: Array, a: Array) -> Array:
    """V T V^H a."""
    return multiply_matrices(reflectors, multiply_matrices(triangle, multiply_matrices(adjoint(reflectors), a)))


def _qr_panel(a: Array) -> tuple[Array, Array, Array]:
    """(V, T, R): I - V T^H V^H times `a` is R, whose part below the diagonal is zero."""
    *batch, rows, columns = a.shape
    row, column = np.arange(rows), np.arange(columns)
    is_complex = numpy.dtype(a.dtype).kind == "c"

    def step(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        a, reflectors, taus = state
        values = np.sum(np.where(column == k, a, 0), axis=-1)
        head = np.sum(np.where(row == k, values, 0), axis=-1)
        tail = np.where(row > k, values, 0)
        whole = np.where(row >= k, values, 0)
        norm = _norm(whole)
        real = np.real(head) if is_complex else head
        plain = np.all(tail == 0, axis=-1)
        if is_complex:
            plain = plain & (np.imag(head) == 0)
        after = np.astype(np.where(real >= 0, -norm, norm), a.dtype)
        safe = np.where(plain, 1, after)
        tau = np.where(plain, 0, (safe - head) / safe)
        divisor = np.where(plain, 1, head - safe)[..., None]
        vector = np.where(plain[..., None], 0, np.where(row == k, 1, tail / divisor))
        product = np.sum(np.conj(vector)[..., None] * a, axis=-2)
        product = np.where(column > k, product, 0)
        a = a - np.conj(tau)[..., None, None] * vector[..., None] * product[..., None, :]
        made = np.where(plain, head, safe)[..., None]
        a = np.where(column == k, np.where(row > k, 0, np.where(row == k, made, values))[..., None], a)
        reflectors = np.where(column == k, vector[..., None], reflectors)
        taus = np.where(column == k, tau[..., None], taus)
        return a, reflectors, taus

    state = (a, np.zeros(a.shape, dtype=a.dtype), np.zeros((*batch, columns), dtype=a.dtype))
    r, reflectors, taus = fori_loop(0, columns, step, state)
    # The inverse of T has 1/tau on its diagonal and V^H V above it; a reflector that does nothing is zero in V.
    inverse_tau = 1 / np.where(taus == 0, 1, taus)
    products = multiply_matrices(adjoint(reflectors), reflectors)
    on_diagonal = np.where(column[:, None] == column, inverse_tau[..., None], 0)
    inverse = np.where(column[:, None] < column, products, on_diagonal)
    identity = np.broadcast_to(np.eye(columns, dtype=a.dtype), inverse.shape)
    return reflectors, triangular_solve(inverse, identity, lower=False), r


def _norm(x: Array) -> Array:
    """Of vectors along the last axis, without overflow on the way."""
    size = np.abs(x)
    largest = np.max(size, axis=-1, keepdims=True)
    scale = np.where((largest > 0) & (largest < float("inf")), largest, 1)
    return np.sqrt(np.sum((size / scale) ** 2, axis=-1)) * scale[..., 0]


def _real(dtype: Any) -> Any:
    return numpy.empty(0, dtype).real.dtype
