"""LAPACK's custom calls on values with error bounds.

Triangular systems and the factors of Cholesky and LU have bounds, and so have eigenvalues of Hermitian matrices and
singular values.  Of everything else there may be several right answers (signs of vectors, their order where values lie
close together): it is undecided.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from hlotool.evaluate.bounds import Bounded, exact, growth, is_inexact, narrow, rounded
from hlotool.evaluate.custom_call import Leaf
from hlotool.evaluate.custom_calls import custom_call_of, is_registered, run_custom_call
from hlotool.evaluate.lapack import Routines
from hlotool.evaluate.truth_linalg import LINALG, SMALL, accurate, roundoff
from hlotool.evaluate.values import AnyArray, Operands, leaves_of, value_from_leaves
from hlotool.ir import ELEMENT_TYPES, Instruction, Shape

__all__ = ["lapack_rule"]

Rule: TypeAlias = Callable[[Instruction, Operands, Any], Any]


def lapack_rule(target: str) -> Rule | None:
    """The rule of a custom call's target; None where it is none of LAPACK's decompositions and solvers, or one that
    this process has registered a handler for."""
    if is_registered(target):
        return None
    if target in ("Eigh", "Qr", "ProductOfElementaryHouseholderReflectors"):
        return _values_of(1) if target == "Eigh" else _undecided_rule
    match = re.fullmatch(r"(?:lapack|blas)_[sdcz]([a-z0-9]+?)(_ffi)?", target)
    if match is None:
        return None
    return (_RULES.get(match[1]) if match[2] else None) or _undecided_rule


def _kinds(shape: Shape) -> list[str]:
    return [leaf.element_type for leaf in shape.leaves() if leaf.is_array]


def _in_double(instruction: Instruction, operands: Operands, context: Any) -> list[AnyArray]:
    """What the handler gives in f64 or c128."""
    call = custom_call_of(instruction, context.plain.apply)
    target = re.sub(r"^lapack_[sc]", lambda found: {"s": "lapack_d", "c": "lapack_z"}[found[0][-1]], call.target)
    call = replace(call, target=target, operands=_wider(call.operands), outputs=_wider(call.outputs), aliases={})
    given = []
    for value, (dtype, _) in zip(_leaves(operands), call.operands, strict=True):
        given.append(np.ascontiguousarray(value.value.astype(dtype)))
    return list(run_custom_call(given, call))


def _wider(leaves: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
    wider: dict[Any, Any] = {"float32": np.dtype(np.float64), "complex64": np.dtype(np.complex128)}
    return tuple((wider.get(dtype.name, dtype), sizes) for dtype, sizes in leaves)


def _leaves(operands: Operands) -> list[Any]:
    return [leaf for operand in operands for leaf in leaves_of(operand)]


def _together(instruction: Instruction, leaves: Any) -> Any:
    return value_from_leaves(instruction.shape, iter(leaves))


def _undecided(value: AnyArray) -> Bounded:
    return Bounded(value, np.full(value.shape, np.inf))


def _undecided_rule(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """The values of the declared types, of which nothing is known but that they are there."""
    call = custom_call_of(instruction, context.plain.apply)
    kinds = [kind for operand in instruction.operands for kind in _kinds(operand.shape)]
    given = [np.ascontiguousarray(narrow(leaf, kind)) for leaf, kind in zip(_leaves(operands), kinds, strict=True)]
    found = run_custom_call(given, call)
    made = [exact(value, kind) for value, kind in zip(found, _kinds(instruction.shape), strict=True)]
    return _together(instruction, [_undecided(value.value) for value in made])


def _as(opcode: str, shape: Shape, instruction: Instruction, attributes: dict[str, Any]) -> Instruction:
    made = Instruction(opcode, shape, (), attributes, instruction.name)
    made.operands = instruction.operands
    return made


def _trsm(instruction: Instruction, operands: Operands, context: Any) -> Any:
    options = Routines("s", custom_call_of(instruction, context.plain.apply))
    attributes = {
        "left_side": options.option("side", "LR") == "L",
        "lower": options.option("uplo", "LU") == "L",
        "unit_diagonal": options.option("diag", "NU") == "U",
        "transpose_a": ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")["NTC".index(options.option("trans_x", "NTC"))],
    }
    (shape,) = (leaf for leaf in instruction.shape.leaves() if leaf.is_array)
    solution = LINALG["triangular-solve"](_as("triangular-solve", shape, instruction, attributes), operands, context)
    return (solution,) if instruction.shape.is_tuple else solution


def _potrf(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """The factor in its triangle, the matrix in the other one.  Where the matrix may have no factor, nothing is
    known."""
    (matrix,) = operands
    lower = Routines("s", custom_call_of(instruction, context.plain.apply)).option("uplo", "LU") == "L"
    shape, flag = (leaf for leaf in instruction.shape.leaves() if leaf.is_array)
    factor = LINALG["cholesky"](_as("cholesky", shape, instruction, {"lower": lower}), operands, context)
    size = shape.dimensions[-1]
    inside = (np.tril if lower else np.triu)(np.ones((size, size), np.bool_))
    known = np.isfinite(np.where(inside, factor.errors(), 0)).all((-1, -2), keepdims=True)
    value = np.where(inside, factor.value, matrix.value)
    error = np.where(known, np.where(inside, factor.errors(), matrix.errors()), np.inf)
    info = np.zeros(tuple(flag.dimensions), np.int32)
    made = Bounded(value, error), Bounded(info, np.where(known.reshape(info.shape), 0.0, np.inf))
    return _together(instruction, made)


def _getrf(instruction: Instruction, operands: Operands, context: Any) -> Any:
    """LU factors with the pivots that they have in every correct computation; else nothing is known of a matrix."""
    (matrix,) = operands
    factors, pivots, info = _in_double(instruction, operands, context)
    kind = _kinds(instruction.shape)[0]
    rows, columns = factors.shape[-2:]
    spread = np.broadcast_to(matrix.errors(), matrix.shape).reshape(-1, rows, columns)
    made = [_lu_errors(*both, kind) for both in zip(
        factors.reshape(-1, rows, columns), pivots.reshape(len(spread), -1), spread, strict=True
    )] if factors.size else []  # fmt: skip
    error = np.array(made).reshape(factors.shape)
    unknown = ~np.isfinite(error).all((-1, -2))
    decided = np.where(unknown, np.inf, 0.0)
    results = (
        rounded(accurate(factors), error, kind),
        Bounded(pivots, np.broadcast_to(decided[..., None], pivots.shape).copy()),
        Bounded(info, np.broadcast_to(decided, info.shape).copy()),
    )
    return _together(instruction, results)


def _lu_errors(factors: AnyArray, pivots: AnyArray, spread: AnyArray, kind: str) -> AnyArray:
    """How far computed factors may be from those [m, n], for errors `spread` of the matrix; infinite where it is not
    known which pivots are chosen.

    Higham, theorem 9.3: ``|E| <= gamma |L| |U|``; the factors of ``A + E`` then differ by ``L tril(F)`` and
    ``triu(F) U`` to first order, ``F = L^-1 E U^-1`` (Stewart, "On the perturbation of LU, Cholesky, and QR
    factorizations", 1993); doubled for what follows it.
    """
    nothing = np.full(factors.shape, np.inf)
    rows, columns = factors.shape
    order = np.arange(rows)
    for place, pivot in enumerate(pivots):
        order[[place, pivot - 1]] = order[[pivot - 1, place]]
    count = min(rows, columns)
    lower = np.tril(factors[:, :count], -1) + np.eye(rows, count)
    upper = np.triu(factors[:count])
    if not np.isfinite(factors).all() or not np.diagonal(upper).all():
        return nothing
    gamma = growth(count + 2, roundoff(kind)) * (4 if ELEMENT_TYPES[kind].is_complex else 1)
    size_l, size_u = np.abs(lower), np.abs(upper)
    inverse_l, inverse_u = (np.abs(np.linalg.inv(square)) for square in (lower[:count], upper[:, :count]))
    moved = gamma * (size_l @ size_u) + spread[order]
    ratio = inverse_l @ moved[:count, :count] @ inverse_u
    if not count * np.max(ratio) < SMALL:
        return nothing
    of_l, of_u = np.zeros(lower.shape), np.zeros(upper.shape)
    of_u[:, :count] = 2 * np.triu(ratio) @ size_u[:, :count]
    of_l[:count] = 2 * size_l[:count] @ np.tril(ratio, -1)
    of_u[:, count:] = 2 * inverse_l @ (moved[:count, count:] + of_l[:count] @ size_u[:, count:])
    of_l[count:] = 2 * (moved[count:, :count] + size_l[count:] @ of_u[:, :count]) @ inverse_u
    # The candidates of step k are what is left of column k; the largest is the pivot in all computations.
    earlier = np.triu(upper, 1)[:, :count]
    magnitude = np.abs if not np.iscomplexobj(factors) else lambda x: np.abs(x.real) + np.abs(x.imag)
    candidates = magnitude(lower * np.diagonal(upper))
    doubt = of_l @ np.abs(earlier) + size_l @ np.triu(of_u, 1)[:, :count] + spread[order][:, :count]
    later = np.arange(count) > 0
    doubt = 2 * (doubt + later * gamma * (size_l @ np.abs(earlier) + candidates))
    chosen = np.diagonal(candidates) - np.diagonal(doubt)
    below = np.tril(np.ones(lower.shape, np.bool_), -1)
    if (below & (candidates + doubt > chosen)).any():
        return nothing
    made: AnyArray = np.concatenate([np.tril(of_l, -1), np.zeros((rows, columns - count))], axis=1)
    made[:count] += np.triu(of_u)
    return made


def _values_of(output: int) -> Rule:
    """Eigenvalues of a Hermitian matrix, or singular values, are that output: they move by no more than the matrix does
    in norm (Weyl), which is some n roundings; LAPACK Users' Guide, sections 4.7 and 4.9."""

    def rule(instruction: Instruction, operands: Operands, context: Any) -> Any:
        found = _in_double(instruction, operands, context)
        kinds = _kinds(instruction.shape)
        matrix = operands[0]
        made: list[Bounded] = []
        for number, (value, kind) in enumerate(zip(found, kinds, strict=True)):
            if number != output:
                made.append(_undecided(exact(value, kind).value))
                continue
            norm = np.sqrt((np.abs(accurate(matrix.value)) ** 2).sum((-1, -2)))
            moved = np.sqrt((np.broadcast_to(matrix.errors(), matrix.shape) ** 2).sum((-1, -2)))
            bound = growth(10 * max(matrix.shape[-2:]), roundoff(kind)) * norm + 2 * moved
            bound = np.where(np.isfinite(bound), bound, np.inf)
            made.append(rounded(accurate(value), np.broadcast_to(bound[..., None], value.shape).copy(), kind))
        info = [n for n, kind in enumerate(kinds) if not is_inexact(kind)]
        for number in info:  # of a finite matrix the iteration comes to an end
            if all(np.isfinite(leaf.errors()).all() and np.isfinite(leaf.value).all() for leaf in _leaves(operands)):
                made[number] = Bounded(found[number])
        return _together(instruction, made)

    return rule


_RULES: dict[str, Rule] = {
    "trsm": _trsm,
    "potrf": _potrf,
    "getrf": _getrf,
    **dict.fromkeys(("syevd", "heevd", "gesdd", "gesvd"), _values_of(1)),
}
"""By routine: what is not here is undecided."""
