"""LU and QR decompositions of stacks of matrices, in HLO: loops over columns of narrow panels, products between panels.

LU is recursive by halves (Toledo, "Locality of reference in LU decomposition with partial pivoting", 1997).  QR is
LAPACK's geqrf: panels of Householder reflectors, each applied at once as I - V T V^H (Schreiber and Van Loan, "A
storage-efficient WY representation for products of Householder transformations", 1989).

What is compiled does not grow with the matrix: beyond `_SPELLED_OUT` columns each half is one loop over its panels,
which works on the whole half and leaves alone by masks what is finished.  The number of steps is known, so that loops
can be differentiated.  Halves keep that from being much more work.

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
_SPELLED_OUT = 2 * _PANEL
_INDEX = numpy.int64


def lu(a: Array) -> tuple[Array, Array, Array]:
    """(factors, order, sign) of [..., m, n]: rows `order` of the matrix are L U, `sign` is that of the permutation.

    `factors` has U on and above its diagonal and the rest of L, whose diagonal is 1, below.  The pivot of a column is
    its largest element; of a column of zeros it is zero.
    """
    *_, rows, columns = a.shape
    if min(rows, columns) <= _PANEL:
        return _lu_panel(a, 0, min(rows, columns))
    looped = min(rows, columns) > _SPELLED_OUT
    half = max(1, min(rows, columns) // (2 * _PANEL)) * _PANEL
    left, order, sign = (_lu_looped if looped else lu)(a[..., :half])
    right = _rows(a[..., half:], order)
    top = triangular_solve(left[..., :half, :], right[..., :half, :], lower=True, unit_diagonal=True)
    below = right[..., half:, :] - multiply_matrices(left[..., half:, :], top)
    rest, lower_order, lower_sign = (_lu_looped if looped else lu)(below)
    lower = np.concat([_rows(left[..., half:, :], lower_order), rest], axis=-1)
    upper = np.concat([left[..., :half, :], top], axis=-1)
    whole = np.concat([order[..., :half], np.take_along_axis(order[..., half:], lower_order, axis=-1)], axis=-1)
    return np.concat([upper, lower], axis=-2), whole, sign * lower_sign


def _rows(a: Array, order: Array) -> Array:
    return np.take_along_axis(a, np.broadcast_to(order[..., None], a.shape), axis=-2)


def _padded(a: Array, panels: int) -> Array:
    """With zeros below and beside, for so many panels.  Columns of zeros change nothing of others."""
    missing = [max(panels * _PANEL - size, 0) for size in a.shape[-2:]]
    for axis, count in zip((-2, -1), missing, strict=True):
        if count:
            shape = (*a.shape[:-2], count, a.shape[-1]) if axis == -2 else (*a.shape[:-1], count)
            a = np.concat([a, np.zeros(shape, dtype=a.dtype)], axis=axis)
    return a


def _lu_looped(a: Array) -> tuple[Array, Array, Array]:
    """The same, panel after panel in one loop."""
    *batch, rows, columns = a.shape
    count = min(rows, columns)
    panels = -(-count // _PANEL)
    padded = _padded(a, panels)
    *_, height, width = padded.shape
    row, column = np.arange(height), np.arange(width)
    zeros = (np.asarray(_INDEX(0)),) * len(batch)

    def step(p: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        a, order, sign = state
        first = np.astype(p, _INDEX) * _PANEL
        panel = np.dynamic_slice(a, (*zeros, np.asarray(_INDEX(0)), first), (*batch, height, _PANEL))
        panel, own, flips = _lu_panel(panel, first, _PANEL)
        a = _rows(a, own)
        block = np.dynamic_slice(panel, (*zeros, first, np.asarray(_INDEX(0))), (*batch, _PANEL, _PANEL))
        above = np.dynamic_slice(a, (*zeros, first, np.asarray(_INDEX(0))), (*batch, _PANEL, width))
        right = column >= first + _PANEL
        top = np.where(right, triangular_solve(block, above, lower=True, unit_diagonal=True), above)
        below = (row >= first + _PANEL)[:, None]
        product = multiply_matrices(np.where(below, panel, 0), np.where(right, top, 0))
        a = np.where(below & right, a - product, a)
        a = np.dynamic_update_slice(a, top, (*zeros, first, np.asarray(_INDEX(0))))
        a = np.dynamic_update_slice(a, panel, (*zeros, np.asarray(_INDEX(0)), first))
        return a, np.take_along_axis(order, own, axis=-1), sign * flips

    state = (padded, np.broadcast_to(row, (*batch, height)), np.ones(tuple(batch), dtype=_real(a.dtype)))
    factors, order, sign = fori_loop(0, panels, step, state)
    return factors[..., :rows, :columns], order[..., :rows], sign


def _lu_panel(a: Array, ahead: Any, count: int) -> tuple[Array, Array, Array]:
    """The same, column after column, of `count` columns; the first `ahead` rows are finished."""
    *batch, rows, columns = a.shape
    row, column = np.arange(rows), np.arange(columns)
    order = np.broadcast_to(row, (*batch, rows))
    sign = np.ones(tuple(batch), dtype=_real(a.dtype))

    def step(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        a, order, sign = state
        k = np.astype(k, _INDEX)
        place = k + ahead
        at_k = row == place
        values = np.sum(np.where(column == k, a, 0), axis=-1)
        pivot = np.argmax(np.where(row >= place, np.abs(values), -1), axis=-1)
        at_pivot = row == pivot[..., None]
        upper = np.sum(np.where(at_pivot[..., None], a, 0), axis=-2)
        moved = np.sum(np.where(at_k[:, None], a, 0), axis=-2)
        a = np.where(at_k[:, None], upper[..., None, :], np.where(at_pivot[..., None], moved[..., None, :], a))
        first = np.sum(np.where(at_pivot, order, 0), axis=-1)[..., None]
        second = np.sum(np.where(at_k, order, 0), axis=-1)[..., None]
        order = np.where(at_k, first, np.where(at_pivot, second, order))
        sign = np.where(pivot == place, sign, -sign)
        values = np.where(at_pivot, np.sum(np.where(at_k, values, 0), axis=-1)[..., None], values)
        head = np.sum(np.where(column == k, upper, 0), axis=-1)[..., None]
        factor = np.where(row > place, values / np.where(head == 0, 1, head), 0)
        right = np.where(column > k, upper, 0)
        below = (row > place)[:, None] & (column == k)
        a = np.where(below, factor[..., None], a - factor[..., None] * right[..., None, :])
        return a, order, sign

    found: tuple[Array, Array, Array] = fori_loop(0, count, step, (a, order, sign))
    return found


def qr(a: Array, complete: bool) -> tuple[Array, Array]:
    """Q and R of [..., m, n]; Q has m columns if `complete`, else min(m, n)."""
    *batch, rows, columns = a.shape
    count = min(rows, columns)
    if count > _SPELLED_OUT:
        return _qr_looped(a, rows if complete else count)
    panels = []
    upper: list[Array] = []
    rest = a
    for start in range(0, count, _PANEL):
        width = min(_PANEL, count - start)
        reflectors, triangle, factors = _qr_panel(rest[..., :width], 0, width)
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


def _qr_looped(a: Array, wanted: int) -> tuple[Array, Array]:
    """The same: two loops over panels for R, the second over what is left, and two for `wanted` columns of Q."""
    *batch, rows, columns = a.shape
    count = min(rows, columns)
    half = max(1, count // (2 * _PANEL)) * _PANEL
    left, first = _qr_half(a, half)
    right, second = _qr_half(left[..., half:, half:], count - half)
    below = np.concat([np.zeros((*batch, rows - half, half), dtype=a.dtype), right], axis=-1)
    r = np.concat([left[..., :half, :], below], axis=-2)[..., :wanted, :]
    q = np.broadcast_to(np.eye(rows, wanted, dtype=a.dtype), (*batch, rows, wanted))
    lower = _by_reflectors(second, q[..., half:, half:])
    beside = np.concat([np.zeros((*batch, rows - half, half), dtype=a.dtype), lower], axis=-1)
    return _by_reflectors(first, np.concat([q[..., :half, :], beside], axis=-2)), r


def _qr_half(a: Array, count: int) -> tuple[Array, tuple[Array, Array]]:
    """`a` with zeros below the diagonal of its first `count` columns; reflectors and triangles of all panels."""
    *batch, rows, columns = a.shape
    panels = -(-count // _PANEL)
    padded = _padded(a, panels)
    *_, height, width = padded.shape
    column = np.arange(width)
    zero = np.asarray(_INDEX(0))
    zeros = (zero,) * len(batch)

    def step(p: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        a, vectors, triangles = state
        first = np.astype(p, _INDEX) * _PANEL
        panel = np.dynamic_slice(a, (*zeros, zero, first), (*batch, height, _PANEL))
        reflectors, triangle, factors = _qr_panel(panel, first, _PANEL)
        a = np.where(column >= first + _PANEL, a - _applied(reflectors, adjoint(triangle), a), a)
        a = np.dynamic_update_slice(a, factors, (*zeros, zero, first))
        vectors = np.dynamic_update_slice(vectors, reflectors, (*zeros, zero, first))
        triangles = np.dynamic_update_slice(triangles, triangle, (*zeros, zero, first))
        return a, vectors, triangles

    state = (
        padded, np.zeros((*batch, height, panels * _PANEL), dtype=a.dtype),
        np.zeros((*batch, _PANEL, panels * _PANEL), dtype=a.dtype),
    )  # fmt: skip
    r, vectors, triangles = fori_loop(0, panels, step, state)
    return r[..., :rows, :columns], (vectors[..., :rows, :], triangles)


def _by_reflectors(held: tuple[Array, Array], q: Array) -> Array:
    """All reflectors of panels times `q`, the last ones first."""
    vectors, triangles = held
    *batch, rows, width = vectors.shape
    zero = np.asarray(_INDEX(0))
    zeros = (zero,) * len(batch)
    panels = width // _PANEL

    def step(p: Array, q: Array) -> Array:
        first = (panels - 1 - np.astype(p, _INDEX)) * _PANEL
        reflectors = np.dynamic_slice(vectors, (*zeros, zero, first), (*batch, rows, _PANEL))
        triangle = np.dynamic_slice(triangles, (*zeros, zero, first), (*batch, _PANEL, _PANEL))
        return q - _applied(reflectors, triangle, q)

    found: Array = fori_loop(0, panels, step, q)
    return found


def _applied(reflectors: Array, triangle: Array, a: Array) -> Array:
    """V T V^H a."""
    return multiply_matrices(reflectors, multiply_matrices(triangle, multiply_matrices(adjoint(reflectors), a)))


def _qr_panel(a: Array, ahead: Any, count: int) -> tuple[Array, Array, Array]:
    """(V, T, R): I - V T^H V^H times `a` is R, whose part below the diagonal is zero in the first `count` columns.

    The first `ahead` rows are finished: the diagonal begins below them.
    """
    *batch, rows, columns = a.shape
    row, column = np.arange(rows), np.arange(columns)
    is_complex = numpy.dtype(a.dtype).kind == "c"

    def step(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        a, reflectors, taus = state
        k = np.astype(k, _INDEX)
        place = k + ahead
        values = np.sum(np.where(column == k, a, 0), axis=-1)
        head = np.sum(np.where(row == place, values, 0), axis=-1)
        tail = np.where(row > place, values, 0)
        whole = np.where(row >= place, values, 0)
        norm = _norm(whole)
        real = np.real(head) if is_complex else head
        plain = np.all(tail == 0, axis=-1)
        if is_complex:
            plain = plain & (np.imag(head) == 0)
        after = np.astype(np.where(real >= 0, -norm, norm), a.dtype)
        safe = np.where(plain, 1, after)
        tau = np.where(plain, 0, (safe - head) / safe)
        divisor = np.where(plain, 1, head - safe)[..., None]
        vector = np.where(plain[..., None], 0, np.where(row == place, 1, tail / divisor))
        product = np.sum(np.conj(vector)[..., None] * a, axis=-2)
        product = np.where(column > k, product, 0)
        a = a - np.conj(tau)[..., None, None] * vector[..., None] * product[..., None, :]
        made = np.where(plain, head, safe)[..., None]
        a = np.where(column == k, np.where(row > place, 0, np.where(row == place, made, values))[..., None], a)
        reflectors = np.where(column == k, vector[..., None], reflectors)
        taus = np.where(column == k, tau[..., None], taus)
        return a, reflectors, taus

    state = (a, np.zeros(a.shape, dtype=a.dtype), np.zeros((*batch, columns), dtype=a.dtype))
    r, reflectors, taus = fori_loop(0, count, step, state)
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
