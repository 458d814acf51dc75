"""The LAPACK custom calls of JAX as they were before XLA's FFI (``lapack_<kind><routine>``, ``blas_<kind>trsm``).

What is in the backend config now came as scalar operands ahead of the arrays, batches by their number of matrices, and
workspaces were outputs: these are zeros here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from hlotool.evaluate.custom_call import Array, CustomCall, Handler
from hlotool.evaluate.lapack import lapack_handler
from hlotool.ir import ExecutionError
from hlotool.lazy_dataclass import dataclass

__all__ = ["handler_before_ffi"]

Scalars: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Form:
    """The names of the scalar operands, how many arrays follow, at which outputs (of real and of complex numbers) the
    results of the call with FFI are, and its options."""

    scalars: str
    arrays: int
    outputs: tuple[int, ...]
    options: Callable[[Scalars], dict[str, int]] = lambda scalars: {}
    complex_outputs: tuple[int, ...] | None = None


def _uplo(scalars: Scalars) -> dict[str, int]:
    return {"uplo": ord("L" if scalars["lower"] else "U")}


def _side(scalars: Scalars) -> dict[str, int]:
    letters = {
        "side": "RL"[bool(scalars["left"])],
        "uplo": "UL"[bool(scalars["lower"])],
        "trans_x": "NTC"[scalars["trans"]],
        "diag": "NU"[bool(scalars["diag"])],
    }
    return {name: ord(letter) for name, letter in letters.items()}


def _vectors(scalars: Scalars) -> dict[str, int]:
    return {"mode": ord("N" if not scalars["compute_uv"] else "A" if scalars["full"] else "S")}


_REFLECTORS = _Form("batch m n k lwork", 2, (0,))
_EIGEN = _Form("lower batch n", 1, (0, 1, 2), lambda scalars: {"mode": ord("V"), **_uplo(scalars)})
_TRIDIAGONAL = _Form("n lower lda batch lwork", 1, (0, 1, 2, 3, 4), _uplo)

_FORMS: dict[str, _Form] = {
    "potrf": _Form("lower batch n", 1, (0, 1), _uplo),
    "getrf": _Form("batch m n", 1, (0, 1, 2)),
    "geqrf": _Form("batch m n lwork", 1, (0, 1)),
    "geqp3": _Form("batch m n lwork", 2, (0, 1, 2)),
    "orgqr": _REFLECTORS,
    "ungqr": _REFLECTORS,
    "gesdd": _Form("full compute_uv batch m n lwork", 1, (0, 1, 2, 3, 4), _vectors),
    "syevd": _EIGEN,
    "heevd": _EIGEN,
    "geev": _Form(
        "batch n left right", 1, (3, 4, 5, 6, 7),
        lambda scalars: {"compute_left": int(scalars["left"]), "compute_right": int(scalars["right"])}, (2, 3, 4, 5),
    ),
    "gees": _Form(
        "batch n mode sort", 1, (0, 3, 1, 2, 4, 5),
        lambda scalars: {"mode": int(scalars["mode"]), "sort": int(scalars["sort"])}, (0, 3, 2, 4, 5),
    ),
    "gehrd": _Form(
        "n low high lda batch lwork", 1, (0, 1, 2),
        lambda scalars: {"low": int(scalars["low"]), "high": int(scalars["high"])},
    ),
    "sytrd": _TRIDIAGONAL,
    "hetrd": _TRIDIAGONAL,
    "trsm": _Form("left lower trans diag m n batch alpha", 2, (0,), _side),
}  # fmt: skip


def handler_before_ffi(target: str) -> Handler | None:
    """The handler of a LAPACK target by its name of old; None when `target` is not one of those known here."""
    match = re.fullmatch(r"(lapack|blas)_([sdcz])([a-z0-9]+)", target)
    form = _FORMS.get(match[3]) if match else None
    if match is None or form is None or (match[1] == "blas") != (match[3] == "trsm"):
        return None
    made = lapack_handler(f"lapack_{match[2]}{match[3]}_ffi")
    if made is None:
        return None
    inner, places = made, form.outputs
    if match[2] in "cz" and form.complex_outputs is not None:
        places = form.complex_outputs
    names = form.scalars.split()

    def handler(inputs: tuple[Array, ...], call: CustomCall) -> tuple[Array, ...]:
        if len(inputs) != len(names) + form.arrays or len(call.outputs) <= max(places):
            raise ExecutionError(
                f"{call.target}: {len(inputs)} operands and {len(call.outputs)} outputs, expected {len(names)} scalars "
                f"({', '.join(names)}), {form.arrays} arrays and {max(places) + 1} outputs at least"
            )
        scalars = {name: array.item() for name, array in zip(names, inputs, strict=False)}
        arrays = list(inputs[len(names) :])
        if "alpha" in scalars:
            arrays[-1] = (scalars["alpha"] * arrays[-1]).astype(arrays[-1].dtype)
        given = replace(
            call, operands=call.operands[len(names) :], outputs=tuple(call.outputs[place] for place in places),
            backend_config=form.options(scalars),
        )  # fmt: skip
        results = [np.zeros(shape, dtype) for dtype, shape in call.outputs]
        for place, value in zip(places, inner(tuple(arrays), given), strict=True):
            results[place] = value
        return tuple(results)

    return handler
