"""Linear algebra: ``hlotool.numpy.linalg``, the extension of the array API standard 2025.12 and more of NumPy's.

Solutions, inverses, determinants and QR are computed in HLO (`decompositions.py`), eigenvalues of Hermitian matrices
and singular values by the LAPACK that NumPy brings, through XLA's custom calls ``lapack_*_ffi``.  NumPy raises
LinAlgError of a singular or indefinite matrix; here the result has infinities or NaN, as in all compiled code.
Floats narrower than f32 are computed in f32.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy

from hlotool.ir import array, tuple_shape
from hlotool.ir.shape import Layout
from hlotool.numpy import standard as np
from hlotool.numpy.array import Array
from hlotool.numpy.axes import as_axis, reduced_axes
from hlotool.numpy.contractions import matmul, tensordot, vecdot
from hlotool.numpy.contractions import outer as outer_of_all
from hlotool.numpy.creation import diagonal_of
from hlotool.numpy.decompositions import lu
from hlotool.numpy.decompositions import qr as decompose
from hlotool.numpy.dtypes import DType, hlo_type, kind_of
from hlotool.numpy.errors import matrix_error, type_error, value_error
from hlotool.numpy.manipulation import matrix_transpose
from hlotool.numpy.operation import as_arrays, convert, operation
from hlotool.numpy.products import adjoint, factor, swap, triangular_solve
from hlotool.numpy.trace import apply, shape_of
from hlotool.numpy.types import finfo

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq",
    "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv",
    "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip


LinAlgError = numpy.linalg.LinAlgError


class EigResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    U: Any
    S: Any
    Vh: Any


# ---- factors


@operation("x")
def cholesky(x: Any, /, *, upper: bool = False) -> Array:
    """The factor of a positive definite Hermitian matrix, of which the lower (or `upper`) triangle is read."""
    (a,), narrow = _matrices("cholesky", x, square=True)
    if not a.size:
        return convert(a, narrow)
    return convert(adjoint(factor(adjoint(a))) if upper else factor(a), narrow)


@operation("x")
def qr(x: Any, /, mode: str = "reduced") -> QRResult | Array:
    """An orthogonal matrix and a triangular one whose product is `x`; with the mode "r" (NumPy's) the latter alone."""
    if mode not in ("reduced", "complete", "r"):
        raise value_error(f"mode {mode!r} of qr is not known", 'use "reduced", "complete" or "r"')
    (a,), narrow = _matrices("qr", x)
    q, r = decompose(a, mode == "complete")
    return convert(r, narrow) if mode == "r" else QRResult(convert(q, narrow), convert(r, narrow))


@operation("x")
def eigh(x: Any, /, UPLO: str = "L") -> EighResult:  # noqa: N803 # NumPy's name
    """Eigenvalues, in ascending order, and eigenvectors of Hermitian matrices, of which one triangle is read."""
    (a,), narrow = _matrices("eigh", x, square=True)
    a = _lower(a, UPLO)
    values, vectors = _eigen(a, vectors=True)
    return EighResult(convert(values, _real(narrow)), convert(vectors, narrow))


@operation("x")
def eigvalsh(x: Any, /, UPLO: str = "L") -> Array:  # noqa: N803 # NumPy's name
    """Eigenvalues of Hermitian matrices, in ascending order."""
    (a,), narrow = _matrices("eigvalsh", x, square=True)
    a = _lower(a, UPLO)
    return convert(_eigen(a, vectors=False)[0], _real(narrow))


@operation("x")
def eig(x: Any, /) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices: always complex numbers, in no particular order."""
    (a,), narrow = _matrices("eig", x, square=True)
    values, vectors = _general_eigen(a, vectors=True)
    return EigResult(convert(values, _complex(narrow)), convert(vectors, _complex(narrow)))


@operation("x")
def eigvals(x: Any, /) -> Array:
    """Eigenvalues of square matrices: always complex numbers, in no particular order."""
    (a,), narrow = _matrices("eigvals", x, square=True)
    return convert(_general_eigen(a, vectors=False)[0], _complex(narrow))


def svd(
    x: Any, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> SVDResult | Array:
    """U, singular values in descending order, and V^H; without `compute_uv` (NumPy's) the singular values alone.

    `hermitian` is accepted for NumPy's sake: it changes nothing.
    """
    return _svd(x, full_matrices) if compute_uv else svdvals(x)


@operation("x")
def _svd(x: Any, full_matrices: bool, /) -> SVDResult:
    (a,), narrow = _matrices("svd", x)
    u, s, vh = _singular(a, "A" if full_matrices else "S")
    return SVDResult(convert(u, narrow), convert(s, _real(narrow)), convert(vh, narrow))


@operation("x")
def svdvals(x: Any, /) -> Array:
    """Singular values, in descending order."""
    (a,), narrow = _matrices("svdvals", x)
    return convert(_singular(a, "N")[1], _real(narrow))


# ---- solutions


@operation("x1", "x2")
def solve(x1: Any, x2: Any, /) -> Array:
    """x with x1 x = x2; x2 is a vector (of one dimension) or a stack of matrices."""
    if getattr(x2, "ndim", 0) == 1:
        (a, b), narrow = _matrices("solve", x1, x2[:, None], square=True)
    else:
        (a, b), narrow = _matrices("solve", x1, x2, square=True)
    if a.shape[-1] != b.shape[-2]:
        raise value_error(f"solve of {x1.shape} and {x2.shape}: {a.shape[-1]} unknowns, {b.shape[-2]} equations")
    found = convert(_solved(a, b), narrow)
    return found[..., 0] if x2.ndim == 1 else found


def _solved(a: Array, b: Array) -> Array:
    lead = _lead(a, b)
    b = np.broadcast_to(b, (*lead, *b.shape[-2:]))
    if not b.size:
        return b
    factors, order, _ = lu(a)
    order = np.broadcast_to(order, (*lead, order.shape[-1]))
    ordered = np.take_along_axis(b, np.broadcast_to(order[..., None], b.shape), axis=-2)
    factors = np.broadcast_to(factors, (*lead, *factors.shape[-2:]))
    half = triangular_solve(factors, ordered, lower=True, unit_diagonal=True)
    return triangular_solve(factors, half, lower=False)


def _lead(a: Array, b: Array) -> tuple[int, ...]:
    """The dimensions of two stacks of matrices together."""
    try:
        return numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError as error:
        raise value_error(f"stacks of matrices of shapes {a.shape} and {b.shape} do not fit together") from error


@operation("a", "b")
def solve_triangular(a: Any, b: Any, /, *, lower: bool = False, unit_diagonal: bool = False) -> Array:
    """x with a x = b, of `a` one triangle."""
    vector = getattr(b, "ndim", 0) == 1
    (one, other), narrow = _matrices("solve_triangular", a, b[:, None] if vector else b, square=True)
    if one.shape[-1] != other.shape[-2]:
        raise value_error(f"solve_triangular of {a.shape} and {b.shape}: "
                          f"{one.shape[-1]} unknowns, {other.shape[-2]} equations")
    lead = _lead(one, other)
    one, other = (np.broadcast_to(each, (*lead, *each.shape[-2:])) for each in (one, other))
    found = convert(triangular_solve(one, other, lower=lower, unit_diagonal=unit_diagonal), narrow)
    return found[..., 0] if vector else found


@operation("x")
def inv(x: Any, /) -> Array:
    """The inverse matrix."""
    (a,), narrow = _matrices("inv", x, square=True)
    return convert(_solved(a, np.eye(a.shape[-1], dtype=a.dtype)), narrow)


@operation("x")
def det(x: Any, /) -> Array:
    """The determinant."""
    (a,), narrow = _matrices("det", x, square=True)
    if not a.shape[-1]:
        return np.ones(a.shape[:-2], dtype=narrow)
    factors, _, sign = lu(a)
    return convert(np.prod(diagonal_of(factors, 0), axis=-1) * np.astype(sign, a.dtype), narrow)


@operation("x")
def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its absolute value."""
    (a,), narrow = _matrices("slogdet", x, square=True)
    if not a.shape[-1]:
        lead = a.shape[:-2]
        return SlogdetResult(np.ones(lead, dtype=narrow), np.zeros(lead, dtype=_real(narrow)))
    factors, _, sign = lu(a)
    pivots = diagonal_of(factors, 0)
    size = np.abs(pivots)
    parts = np.where(size == 0, 0, pivots / np.where(size == 0, 1, size))
    signs = np.prod(parts, axis=-1) * np.astype(sign, a.dtype)
    return SlogdetResult(convert(signs, narrow), convert(np.sum(np.log(size), axis=-1), _real(narrow)))


@operation("x", "rtol")
def _pinv(x: Any, rtol: Any, /) -> Array:
    (a,), narrow = _matrices("pinv", x)
    if not a.size:
        return convert(adjoint(a), narrow)
    u, s, vh = _singular(a, "S")
    limit = _limit(s, rtol, a, narrow)
    kept = np.where(s > limit, 1 / np.where(s > limit, s, 1), 0)
    return convert(np.matmul(adjoint(vh) * np.astype(kept, a.dtype)[..., None, :], adjoint(u)), narrow)


def pinv(x: Any, /, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """The Moore-Penrose inverse; singular values up to `rtol` times the largest count as zero (max(M, N) eps).

    `rcond` is NumPy's other name for that.
    """
    return _pinv(x, rcond if rtol is None else rtol)


@operation("x", "tol", "rtol")
def _rank(x: Any, tol: Any, rtol: Any, /) -> Array:
    (a,), narrow = _matrices("matrix_rank", x)
    if not a.size:
        return np.zeros(a.shape[:-2], dtype=numpy.int64)
    s = _singular(a, "N")[1]
    limit = _limit(s, rtol, a, narrow) if tol is None else _level(tol)
    return np.sum(np.astype(s > limit, numpy.int64), axis=-1)


def matrix_rank(x: Any, /, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """How many singular values exceed `rtol` times the largest (max(M, N) eps), or `tol` (NumPy's)."""
    if getattr(x, "ndim", 2) < 2:
        return np.astype(np.any(x), numpy.int64)
    return _rank(x, tol, rtol)


def _limit(s: Array, rtol: Any, a: Array, dtype: DType) -> Array:
    largest = np.max(s, axis=-1, keepdims=True)
    if rtol is None:
        return largest * (max(a.shape[-2:]) * float(_epsilon(dtype)))
    return largest * _level(rtol)


def _level(value: Any) -> Array:
    """A bound for singular values; a Python number comes as one of the type of the matrix, which may be complex."""
    return np.real(np.asarray(value))[..., None]


def _lower(a: Array, triangle: str) -> Array:
    """Hermitian matrices by their lower triangles."""
    if triangle not in ("L", "U", "l", "u"):
        raise value_error(f"the triangle is 'L' or 'U', not {triangle!r}")
    return a if triangle in "Ll" else adjoint(a)


class LstsqResult(NamedTuple):
    x: Any
    residuals: Any
    rank: Any
    s: Any


@operation("a", "b")
def lstsq(a: Any, b: Any, rcond: float | None = None) -> LstsqResult:
    """The shortest x with the least |a x - b|.

    `residuals` are the squared lengths of a x - b, of every column; NumPy leaves them out where `a` has not full rank
    or has no more rows than columns, which a compiled function cannot.
    """
    vector = getattr(b, "ndim", 0) == 1
    (one, other), narrow = _matrices("lstsq", a, b[:, None] if vector else b)
    if one.ndim != 2 or other.ndim != 2 or one.shape[0] != other.shape[0]:
        raise value_error(f"lstsq of {a.shape} and {b.shape}: matrices with as many rows are expected")
    u, s, vh = _singular(one, "S")
    limit = _limit(s, rcond, one, narrow) if one.size else s
    used = s > limit
    inverse = np.astype(np.where(used, 1 / np.where(used, s, 1), 0), one.dtype)
    x = np.matmul(adjoint(vh), inverse[:, None] * np.matmul(adjoint(u), other))
    residuals = np.sum(np.abs(np.matmul(one, x) - other) ** 2, axis=0)
    x = x[:, 0] if vector else x
    rank = np.sum(np.astype(used, numpy.int64))
    real = _real(narrow)
    return LstsqResult(convert(x, narrow), convert(residuals, real), rank, convert(s, real))


# ---- products


@operation("x")
def matrix_power(x: Any, n: int, /) -> Array:
    """`x` times itself, `n` times; of a negative `n`, its inverse."""
    try:
        n = operator.index(n)
    except TypeError as error:
        raise type_error(f"the exponent {n!r} of matrix_power is no whole number") from error
    if n < 0 or kind_of(x.dtype) in ("float", "complex"):
        (a,), narrow = _matrices("matrix_power", x, square=True)
    else:
        a, narrow = x, x.dtype
        if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
            raise matrix_error(f"matrix_power needs square matrices, not an array of shape {a.shape}")
    if n < 0:
        a, n = _solved(a, np.eye(a.shape[-1], dtype=a.dtype)), -n
    if not n:
        return np.broadcast_to(np.eye(a.shape[-1], dtype=narrow), a.shape)
    result = None
    while n:
        if n & 1:
            result = a if result is None else np.matmul(result, a)
        n >>= 1
        a = np.matmul(a, a) if n else a
    assert result is not None
    return convert(result, narrow)


@operation("x1", "x2")
def outer(x1: Any, x2: Any, /) -> Array:
    """The product of each element of one vector with each of another."""
    a, b = as_arrays(x1, x2)
    if (a.ndim, b.ndim) != (1, 1):
        raise value_error(f"linalg.outer takes vectors, not arrays of shapes {a.shape} and {b.shape}",
                          "np.outer takes the elements of all arrays")
    return outer_of_all(a, b)


@operation("x1", "x2")
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of 3 elements along `axis`."""
    a, b = as_arrays(x1, x2)
    first, second = as_axis(axis, a.ndim), as_axis(axis, b.ndim)
    if a.shape[first] != 3 or b.shape[second] != 3:
        raise value_error(f"cross takes vectors of 3 elements, not {a.shape[first]} and {b.shape[second]}")
    a, b = np.moveaxis(a, first, -1), np.moveaxis(b, second, -1)
    (ax, ay, az), (bx, by, bz) = ([one[..., n] for n in range(3)] for one in (a, b))
    parts = np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)
    return np.moveaxis(parts, -1, axis if axis < 0 else parts.ndim - max(a.ndim, b.ndim) + axis)


@operation("arrays")
def multi_dot(arrays: Any) -> Array:
    """The product of several matrices, in the order that takes the fewest multiplications."""
    given = list(arrays)
    if len(given) < 2:
        raise value_error("multi_dot takes two arrays at least")
    first, last = given[0].ndim == 1, given[-1].ndim == 1
    given[0] = given[0][None, :] if first else given[0]
    given[-1] = given[-1][:, None] if last else given[-1]
    for one, other in pairwise(given):
        if one.ndim != 2 or other.ndim != 2 or one.shape[1] != other.shape[0]:
            raise value_error(f"multi_dot cannot multiply {one.shape} by {other.shape}")
    result = _chain(given, _splits([given[0].shape[0], *[one.shape[1] for one in given]]), 0, len(given) - 1)
    if first:
        result = result[0]
    return result[..., 0] if last else result


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to part each run of factors (dynamic programming)."""
    count = len(sizes) - 1
    costs = {(n, n): 0 for n in range(count)}
    found = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs[i, j], found[i, j] = min(
                (costs[i, k] + costs[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return found


def _chain(given: list[Array], splits: dict[tuple[int, int], int], i: int, j: int) -> Array:
    if i == j:
        return given[i]
    k = splits[i, j]
    return np.matmul(_chain(given, splits, i, k), _chain(given, splits, k + 1, j))


# ---- parts and norms


@operation("x")
def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The diagonal of the last two dimensions, or one `offset` columns to the right of it."""
    if x.ndim < 2:
        raise value_error(f"a diagonal needs two dimensions, not an array of shape {x.shape}")
    return diagonal_of(x, operator.index(offset))


@operation("x")
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum of a diagonal of the last two dimensions."""
    return np.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


@operation("x")
def vector_norm(
    x: Any, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """(sum |x|^ord)^(1/ord); the largest or least |x| for infinite `ord`, for 0 the count of what is not zero."""
    (a,), narrow = _inexact(x)
    axes = reduced_axes(axis, a.ndim)
    size = np.abs(a)
    if ord == math.inf:
        found = np.max(size, axis=axes, keepdims=keepdims, initial=0)
    elif ord == -math.inf:
        found = np.min(size, axis=axes, keepdims=keepdims)
    elif ord == 0:
        found = np.sum(np.astype(a != 0, size.dtype), axis=axes, keepdims=keepdims)
    elif ord == 1:
        found = np.sum(size, axis=axes, keepdims=keepdims)
    elif ord == 2:
        squares = size * size if kind_of(a.dtype) != "complex" else np.real(a) ** 2 + np.imag(a) ** 2
        found = np.sqrt(np.sum(squares, axis=axes, keepdims=keepdims))
    elif isinstance(ord, str):
        raise value_error(f"ord {ord!r} is no norm of vectors", "use a number, or np.inf")
    else:
        found = np.sum(size ** float(ord), axis=axes, keepdims=keepdims) ** (1 / float(ord))
    return convert(found, _real(narrow))


@operation("x")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Array:
    """The norm of matrices: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    (a,), narrow = _matrices("matrix_norm", x)
    if ord in ("fro", None):
        found = np.sqrt(np.sum(np.abs(a) ** 2, axis=(-2, -1)))
    elif ord in (2, -2, "nuc"):
        s = _singular(a, "N")[1]
        found = np.max(s, axis=-1, initial=0) if ord == 2 else (np.min if ord == -2 else np.sum)(s, axis=-1)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = np.sum(np.abs(a), axis=-2 if abs(ord) == 1 else -1)
        found = np.max(sums, axis=-1, initial=0) if ord > 0 else np.min(sums, axis=-1)
    else:
        raise value_error(f"ord {ord!r} is no norm of matrices", 'use "fro", "nuc", 1, -1, 2, -2, inf or -inf')
    found = convert(found, _real(narrow))
    return found[..., None, None] if keepdims else found


@operation("x")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """NumPy's: of vectors along one `axis`, of matrices along two; of the whole array by default."""
    if axis is None:
        if ord is None:
            return vector_norm(x, keepdims=keepdims)
        if x.ndim not in (1, 2):
            raise value_error("norm with ord takes a vector or a matrix, or an axis")
        axis = tuple(range(x.ndim))
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if len(axes) == 1:
        return vector_norm(x, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise value_error(f"norm along {len(axes)} axes: one or two are expected")
    first, second = (as_axis(one, x.ndim) for one in axes)
    found = matrix_norm(np.moveaxis(x, (first, second), (-2, -1)), ord="fro" if ord is None else ord)
    return np.expand_dims(found, tuple(sorted((first, second)))) if keepdims else found


@operation("x")
def cond(x: Any, p: Any = None) -> Array:
    """The condition number: the largest singular value by the least, or norm(x, p) norm(inv(x), p)."""
    (a,), narrow = _matrices("cond", x)
    if not a.shape[-1] * a.shape[-2]:
        raise matrix_error(f"cond of no elements: matrices of shape {a.shape[-2:]}")
    if p in (None, 2, -2):
        s = _singular(a, "N")[1]
        ratio = s[..., 0] / s[..., -1] if p != -2 else s[..., -1] / s[..., 0]
        return convert(ratio, _real(narrow))
    return convert(matrix_norm(a, ord=p) * matrix_norm(inv(a), ord=p), _real(narrow))


# ---- what the functions share


def _real(dtype: DType) -> DType:
    if kind_of(dtype) != "complex":
        return dtype
    return numpy.dtype(numpy.float32 if dtype.itemsize == 8 else numpy.float64)


def _epsilon(dtype: DType) -> float:
    return float(finfo(_real(dtype)).eps)


def _inexact(*values: Any) -> tuple[tuple[Array, ...], DType]:
    """`values` as floats of one type, f32 at least, and the type that the result has."""
    found = as_arrays(*values)
    dtype = found[0].dtype
    if kind_of(dtype) not in ("float", "complex"):
        dtype = numpy.dtype(numpy.float64)
    wide = dtype if dtype.itemsize >= 4 else numpy.dtype(numpy.float32)
    return tuple(convert(one, wide) for one in found), dtype


def _matrices(name: str, *values: Any, square: bool = False) -> tuple[tuple[Array, ...], DType]:
    found, narrow = _inexact(*values)
    for one in found:
        if one.ndim < 2:
            raise matrix_error(f"{name} needs matrices, not an array of shape {one.shape}")
    if square and found[0].shape[-1] != found[0].shape[-2]:
        raise matrix_error(f"{name} needs square matrices, not an array of shape {found[0].shape}")
    return found, narrow


_LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


def _called(
    routine: str, a: Array, outputs: Sequence[tuple[str, tuple[int, ...]]], config: str, keeps: bool = True
) -> list[Array]:
    """The outputs of a LAPACK custom call, NaN where it failed: matrices lie by columns, as LAPACK has them.

    The first one is what the input has become, if the routine `keeps` that.
    """
    lead = a.shape[:-2]
    kind = hlo_type(a.dtype)
    own = array(kind, a.shape, _by_columns(len(a.shape)))
    shapes = [own] if keeps else []
    for element_type, sizes in outputs:
        layout = _by_columns(len(lead) + 2) if len(sizes) == 2 else None
        shapes.append(array(element_type, (*lead, *sizes), layout))
    shapes.append(array("s32", lead))
    call = apply(
        "custom-call", a, shape=tuple_shape(shapes),
        custom_call_target=f"lapack_{_LETTERS[kind]}{routine}_ffi", operand_layout_constraints=(own,),
        api_version="API_VERSION_TYPED_FFI", frontend_attributes={"num_batch_dims": str(len(lead))},
        backend_config=config,
    )  # fmt: skip
    good = _part(call, len(shapes) - 1) == 0
    found = []
    for number in range(len(shapes) - 1):
        one = _part(call, number)
        mask = np.reshape(good, (*lead, *(1,) * (one.ndim - len(lead))))
        found.append(np.where(mask, one, math.nan))
    return found


def _part(call: Array, number: int) -> Array:
    part = apply("get-tuple-element", call, index=number)
    return apply("copy", part, shape=array(shape_of(part).element_type, part.shape))


def _by_columns(rank: int) -> Layout:
    return Layout((rank - 2, rank - 1, *range(rank - 3, -1, -1)))


def _eigen(a: Array, vectors: bool) -> tuple[Array, Array]:
    if not a.size:
        return np.zeros(a.shape[:-1], dtype=_real(a.dtype)), a
    routine = "heevd" if kind_of(a.dtype) == "complex" else "syevd"
    config = f"{{mode = {ord('V' if vectors else 'N')} : ui8, uplo = {ord('L')} : ui8}}"
    found, values = _called(routine, a, [(hlo_type(_real(a.dtype)), a.shape[-1:])], config)
    return values, found


def _complex(dtype: DType) -> DType:
    if kind_of(dtype) == "complex":
        return dtype
    return numpy.dtype(numpy.complex128 if dtype.itemsize == 8 else numpy.complex64)


def _general_eigen(a: Array, vectors: bool) -> tuple[Array, Array]:
    kind = _complex(a.dtype)
    if not a.size:
        return np.zeros(a.shape[:-1], dtype=kind), np.astype(a, kind)
    sizes, real = a.shape[-1:], kind_of(a.dtype) != "complex"
    each = (hlo_type(a.dtype), sizes)
    square = (hlo_type(kind), a.shape[-2:])
    config = f"{{compute_left = {ord('N')} : ui8, compute_right = {ord('V' if vectors else 'N')} : ui8}}"
    *parts, _, right = _called("geev", a, [*[each] * (2 if real else 1), square, square], config, keeps=False)
    return (apply("complex", parts[0], parts[1]) if real else parts[0]), right


def _singular(a: Array, mode: str) -> tuple[Array, Array, Array]:
    *lead, m, n = a.shape
    least, real = min(m, n), _real(a.dtype)
    if not a.size:
        u, vh = (np.eye(size, size if mode == "A" else least, dtype=a.dtype) for size in (m, n))
        wide = (*lead,)
        return (
            np.broadcast_to(u, (*wide, *u.shape)), np.zeros((*wide, least), dtype=real),
            np.broadcast_to(swap(vh), (*wide, *vh.shape[::-1])),
        )  # fmt: skip
    rows, columns = ((m, m), (n, n)) if mode == "A" else ((m, least), (least, n))
    kind = hlo_type(a.dtype)
    _, s, u, vh = _called(
        "gesdd", a, [(hlo_type(real), (least,)), (kind, rows), (kind, columns)], f"{{mode = {ord(mode)} : ui8}}"
    )
    return u, s, vh


# ---- tensors


@operation("a")
def tensorinv(a: Any, ind: int = 2) -> Array:
    """The inverse for products over the first `ind` dimensions."""
    count = operator.index(ind)
    if count <= 0:
        raise value_error(f"tensorinv: ind is positive, not {count}")
    shape = a.shape[count:] + a.shape[:count]
    size = math.prod(a.shape[count:])
    return np.reshape(inv(np.reshape(a, (size, -1))), shape)


@operation("a", "b")
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Array:
    """x with tensordot(a, x, x.ndim) = b."""
    if axes is not None:
        places = [as_axis(one, a.ndim) for one in axes]
        a = np.permute_dims(a, (*[n for n in range(a.ndim) if n not in places], *places))
    shape = a.shape[b.ndim :]
    if math.prod(shape) != b.size:
        raise value_error(f"tensorsolve of {a.shape} and {b.shape}: {math.prod(shape)} unknowns, {b.size} equations")
    found = solve(np.reshape(a, (b.size, -1)), np.reshape(b, (-1,)))
    return np.reshape(found, shape)
