"""Decompositions that XLA's own clients leave to its compiler as custom calls: ``Eigh``, ``Qr`` and the product of
Householder reflectors, as XLA's expanders define them (``eigh_expander``, ``qr_expander``, ``householder``).

Arrays may have leading dimensions, over which they are batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlotool.evaluate.custom_call import Array, CustomCall
from hlotool.ir import ExecutionError

__all__ = ["eigh", "householder_product", "qr"]


def eigh(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    """The eigenvectors [..., n, n] and the eigenvalues [..., n], ascending, of Hermitian matrices [..., n, n].

    The config is ``lower,sort,sweeps,tolerance``; the other triangle is not read.  NaN where there is no convergence.
    """
    first = str(call.backend_config).partition(",")[0].strip()
    if first not in ("", "0", "1"):
        raise ExecutionError(f"{call.name}: custom call {call.target!r} has the config {call.backend_config!r}")
    matrix = _computed(inputs[0])
    (vectors, _), (values, _) = call.outputs
    try:
        found = np.linalg.eigh(matrix, UPLO="U" if first == "0" else "L")
    except np.linalg.LinAlgError:
        found = np.linalg.eigh(np.zeros_like(matrix))
        found[0][...], found[1][...] = np.nan, np.nan
    return [found[1].astype(vectors), found[0].astype(values)]


def qr(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    """R above the diagonal with the Householder vectors below it [..., m, n], and their factors [..., min(m, n)].

    The form is that of LAPACK's ``geqrf``: ``H_k = 1 - tau_k v_k v_k^H``.
    """
    (packed, shape), (factors, counts) = call.outputs
    matrix = _computed(inputs[0]).reshape(-1, *shape[-2:])
    results = [np.linalg.qr(one, mode="raw") for one in matrix]
    both = np.zeros((len(results), *shape[-2:]), packed), np.zeros((len(results), *counts[-1:]), factors)
    for n, (transposed, tau) in enumerate(results):
        both[0][n], both[1][n] = transposed.T, tau
    return [both[0].reshape(shape), both[1].reshape(counts)]


def householder_product(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    """The first n columns of ``H_1 H_2 ...``, of vectors below the diagonal [..., m, n] and factors [..., k]."""
    ((element, shape),) = call.outputs
    packed, factors = _computed(inputs[0]), _computed(inputs[1])
    rows, columns = shape[-2:]
    product = np.broadcast_to(np.eye(rows, columns, dtype=packed.dtype), shape).copy()
    for k in reversed(range(min(factors.shape[-1], rows, columns))):
        vector = packed[..., :, k : k + 1].copy()
        vector[..., :k, :] = 0
        vector[..., k, :] = 1
        inner = np.swapaxes(vector.conj(), -1, -2) @ product
        product -= factors[..., k : k + 1, None] * vector * inner
    return [product.astype(element)]


def _computed(array: Array) -> Array:
    """Narrow floats in f32: LAPACK has no others."""
    return array if array.dtype in (np.float32, np.float64, np.complex64, np.complex128) else array.astype(np.float32)
