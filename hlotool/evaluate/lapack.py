"""The LAPACK custom calls of JAX (``lapack_<kind><routine>_ffi``), served by SciPy's LAPACK.

Those that `hlotool.numpy` needs (syevd, heevd, gesdd) are served by the one that NumPy has, with SciPy and without.

Arrays come in logical order with batch dimensions in front; each routine below works on one matrix and returns
one value per output, in the order of the custom call's outputs.  Character options (uplo, side, mode...) are
integers in the backend config: the code of the letter.  An ``info`` output is LAPACK's; pivots count from 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Literal, TypeAlias

import numpy as np

from hlotool.evaluate.custom_call import Array, CustomCall, Handler
from hlotool.ir import ExecutionError, Instruction, UnsupportedError

__all__ = ["TYPES", "lapack_handler", "lies_by_columns"]

TYPES = {"s": "f4", "d": "f8", "c": "c8", "z": "c16"}
"""The types of numbers, by the letter that the names of routines have for them."""



class Routines:
    """SciPy's wrappers for one kind of number (``s d c z``), and the options of one custom call."""

    __slots__ = ("call", "kind")

    def __init__(self, kind: str, call: CustomCall) -> None:
        self.kind = kind
        self.call = call

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from scipy.linalg import blas, lapack

        return getattr(blas if name == "trsm" else lapack, self.kind + name)  # type: ignore[no-any-return]

    @property
    def is_complex(self) -> bool:
        return self.kind in "cz"

    def option(self, name: str, allowed: str) -> str:
        """The letter that option `name` of the call stands for; ExecutionError when it is none of `allowed`."""
        config = self.call.backend_config
        value = config.get(name) if not isinstance(config, str) else None
        letter = chr(value) if isinstance(value, int) and 0 <= value < 128 else str(value)
        if letter not in allowed:
            raise ExecutionError(f"{self.call.target}: option {name} is {value!r}, expected a letter of {allowed!r}")
        return letter

    def number(self, name: str) -> int:
        config = self.call.backend_config
        value = config.get(name) if not isinstance(config, str) else None
        if not isinstance(value, int):
            raise ExecutionError(f"{self.call.target}: option {name} is {value!r}, expected an integer")
        return value

    def flag(self, name: str) -> bool:
        config = self.call.backend_config
        value = config.get(name) if not isinstance(config, str) else None
        if not isinstance(value, bool):
            raise ExecutionError(f"{self.call.target}: option {name} is {value!r}, expected true or false")
        return value

    def workspace(self, query: str, *arguments: Any, **options: Any) -> int:
        """The workspace length that LAPACK's query says is best."""
        length = getattr(self, query)(*arguments, **options)[0]
        # The length comes back as a floating-point number, perhaps rounded down.
        return int(np.nextafter(np.float32(np.real(length)), np.float32(np.inf))) + 1


def lapack_handler(target: str) -> Handler | None:
    """The handler of a LAPACK target; None when `target` is not one of those known here."""
    match = re.fullmatch(r"lapack_([sdcz])([a-z0-9]+)_ffi", target)
    routine = _ROUTINES.get(match[2]) if match else None
    if match is None or routine is None:
        return None
    kind = match[1]
    if (match[2] in _REAL_ONLY and kind in "cz") or (match[2] in _COMPLEX_ONLY and kind in "sd"):
        return None

    def handler(inputs: tuple[Array, ...], call: CustomCall) -> tuple[Array, ...]:
        if match[2] not in _OF_NUMPY:
            _need_scipy(target)
        return _batched(routine, Routines(kind, call), inputs, 1 if match[2] == "gtsv" else 2)

    return handler


def lies_by_columns(call: Instruction) -> bool:
    """Whether the matrices that a LAPACK call takes lie as LAPACK has them, column by column, if it says how they lie.

    LAPACK looks at memory: of a matrix that lies by rows it would take the transposed one.
    """
    said = call.attributes.get("operand_layout_constraints")
    if not said:
        return True
    batch = said[0].rank - (1 if call.attributes["custom_call_target"].endswith("gtsv_ffi") else 2)
    order = (batch, batch + 1)
    return all(
        shape.layout is None or shape.layout.minor_to_major[:2] == order for shape in said if shape.rank == batch + 2
    )


def _batched(routine: Routine, routines: Routines, inputs: tuple[Array, ...], rank: int) -> tuple[Array, ...]:
    """Apply `routine` to every matrix of the batch; the first operand has `rank` dimensions that are not batch."""
    call = routines.call
    outputs = tuple(np.zeros(shape, dtype) for dtype, shape in call.outputs)
    _check_operands(routine, routines, inputs, rank)
    if inputs[0].size == 0 and routine is not _ormqr:  # of no reflectors it is its operand
        return outputs
    batch = inputs[0].shape[:-rank]
    for number, output in enumerate(outputs):
        if output.shape[: len(batch)] != batch:
            raise ExecutionError(f"{call.target}: output {number} has shape {output.shape}, expected {batch} in front")
    for index in np.ndindex(batch):
        values = routine(routines, *(array[index] for array in inputs))
        _check_outputs(call.target, [output[index] for output in outputs], values)
        for output, value in zip(outputs, values, strict=True):
            output[index] = value
    return outputs


def _check_operands(routine: Routine, routines: Routines, inputs: Sequence[Array], rank: int) -> None:
    """ExecutionError where operands are not those that `routine` takes: as many, of these types, in one batch."""
    target, count = routines.call.target, len(signature(routine).parameters) - 1
    if len(inputs) != count:
        raise ExecutionError(f"{target}: {len(inputs)} operands, expected {count}")
    if inputs[0].ndim < rank:
        raise ExecutionError(f"{target}: operand 0 has shape {inputs[0].shape}, expected {rank} dimensions+")
    batch = inputs[0].shape[:-rank]
    for number, array in enumerate(inputs):
        wanted = np.dtype("i4" if routine is _geqp3 and number == 1 else TYPES[routines.kind])
        if array.dtype != wanted:
            raise ExecutionError(f"{target}: operand {number} has type {array.dtype}, expected {wanted}")
        if array.shape[: len(batch)] != batch:
            raise ExecutionError(f"{target}: operand {number} has shape {array.shape}, expected {batch} in front")


def _check_outputs(target: str, outputs: Sequence[Any], values: Sequence[Any]) -> None:
    """ExecutionError where `outputs` do not hold what a routine gives; a number stands for what is not asked for."""
    if len(values) != len(outputs):
        raise ExecutionError(f"{target}: {len(outputs)} outputs, expected {len(values)}")
    for number, (output, value) in enumerate(zip(outputs, map(np.asarray, values), strict=True)):
        given = np.dtype("i4") if value.dtype.kind == "i" else value.dtype  # LAPACK's integers
        if value.ndim and (value.shape != output.shape or not np.can_cast(given, output.dtype)):
            has, wanted = f"{output.dtype}{[*output.shape]}", f"{given}{[*value.shape]}"
            raise ExecutionError(f"{target}: output {number} is {has} for each matrix, expected {wanted}")


def _need_scipy(target: str) -> None:
    try:
        import scipy.linalg.lapack  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(f'custom call {target!r} needs SciPy: pip install "hlotool[lapack]"') from error


Routine: TypeAlias = Callable[..., tuple[Any, ...]]


def _potrf(lapack: Routines, a: Array) -> tuple[Any, ...]:
    """Cholesky factor in one triangle, the other left as it was; info."""
    return tuple(lapack.potrf(a, lower=lapack.option("uplo", "LU") == "L", clean=0))


def _getrf(lapack: Routines, a: Array) -> tuple[Any, ...]:
    """LU factors, pivots from 1, info."""
    factors, pivots, info = lapack.getrf(a)
    return factors, pivots + 1, info


def _trsm(lapack: Routines, a: Array, b: Array) -> tuple[Any, ...]:
    """The solution x of op(a) x = b or x op(a) = b."""
    if b.size == 0:
        return (b,)
    solution = lapack.trsm(
        1.0, a, b,
        side=lapack.option("side", "LR") == "R",
        lower=lapack.option("uplo", "LU") == "L",
        trans_a="NTC".index(lapack.option("trans_x", "NTC")),
        diag=lapack.option("diag", "NU") == "U",
    )  # fmt: skip
    return (solution,)


def _geqrf(lapack: Routines, a: Array) -> tuple[Any, ...]:
    """R above reflectors, and the reflectors' factors tau."""
    factors, tau, _, _ = lapack.geqrf(a, lwork=lapack.workspace("geqrf_lwork", *a.shape))
    return factors, tau


def _geqp3(lapack: Routines, a: Array, pivots: Array) -> tuple[Any, ...]:
    """QR with column pivoting: factors, pivots from 1, tau.

    Columns whose pivots are not zero go in front, by exchanges, and are factored first as they come: SciPy's wrapper
    of geqp3 knows no such columns.
    """
    order, fixed = list(range(a.shape[1])), 0
    for column in map(int, np.flatnonzero(pivots)):
        order[column], order[fixed] = order[fixed], column
        fixed += 1
    factors, tau = np.array(a[:, order]), np.zeros(min(a.shape), a.dtype)
    first = min(fixed, len(tau))
    if first:
        factors[:, :fixed], tau[:first], *_ = lapack.geqrf(factors[:, :fixed])
        if fixed < len(order):
            name, adjoint = ("unmqr", "C") if lapack.is_complex else ("ormqr", "T")
            multiply, options = getattr(lapack, name), ("L", adjoint, factors[:, :first], tau[:first])
            length = int(np.real(multiply(*options, factors[:, fixed:], -1)[1][0]))
            factors[:, fixed:] = multiply(*options, factors[:, fixed:], max(1, length))[0]
    if fixed < len(tau):
        factors[fixed:, fixed:], chosen, tau[fixed:], *_ = lapack.geqp3(factors[fixed:, fixed:])
        factors[:fixed, fixed:] = factors[:fixed, fixed + chosen - 1]
        order[fixed:] = [order[fixed + number - 1] for number in chosen]
    return factors, np.array(order) + 1, tau


def _orgqr(lapack: Routines, a: Array, tau: Array) -> tuple[Any, ...]:
    """The orthogonal factor that geqrf's reflectors stand for."""
    rows, columns = a.shape
    if not tau.size <= columns <= rows:
        raise ExecutionError(f"{lapack.call.target}: no {tau.size} reflectors give a matrix of {rows}x{columns}")
    name = "ungqr" if lapack.is_complex else "orgqr"
    return (getattr(lapack, name)(a, tau, lwork=max(1, 32 * a.shape[1]))[0],)


def _ormqr(lapack: Routines, a: Array, tau: Array, c: Array) -> tuple[Any, ...]:
    """op(Q) c or c op(Q), with Q of geqrf's reflectors and op its (conjugate) transpose where that is asked for."""
    if not tau.size or not c.size:
        return (c,)
    name, adjoint = ("unmqr", "C") if lapack.is_complex else ("ormqr", "T")
    side = "L" if lapack.flag("left") else "R"
    options = side, adjoint if lapack.flag("transpose") else "N", a[:, : len(tau)], tau, c
    multiply = getattr(lapack, name)
    length = int(np.real(multiply(*options, -1)[1][0]))
    return (multiply(*options, max(1, length))[0],)


def _syevd(lapack: Routines, a: Array) -> tuple[Any, ...]:
    """Eigenvectors (the input where they are not asked for), eigenvalues, info."""
    wanted = lapack.option("mode", "VN") == "V"
    triangle: Literal["L", "U"] = "L" if lapack.option("uplo", "LU") == "L" else "U"
    try:
        if not wanted:
            return a, np.linalg.eigvalsh(a, triangle), 0
        values, vectors = np.linalg.eigh(a, triangle)
    except np.linalg.LinAlgError:
        return a, 0, 1
    return vectors, values, 0


def _gesdd(lapack: Routines, a: Array) -> tuple[Any, ...]:
    """The input, singular values, U and V^H (zero where not asked for), info."""
    mode = lapack.option("mode", "ASN")
    try:
        if mode == "N":
            return a, np.linalg.svd(a, compute_uv=False), 0, 0, 0
        u, s, vt = np.linalg.svd(a, full_matrices=mode == "A")
    except np.linalg.LinAlgError:
        return a, 0, 0, 0, 1
    return a, s, u, vt, 0


def _gesvd(lapack: Routines, a: Array) -> tuple[Any, ...]:
    """As gesdd, by the QR iteration."""
    mode = lapack.option("mode", "ASN")
    options = {"compute_uv": mode != "N", "full_matrices": mode == "A"}
    length = lapack.workspace("gesvd_lwork", *a.shape, **options)
    u, s, vt, info = lapack.gesvd(a, lwork=length, **options)
    return (a, s, u, vt, info) if mode != "N" else (a, s, 0, 0, info)


def _geev(lapack: Routines, a: Array) -> tuple[Any, ...]:
    """Eigenvalues (real and imaginary parts for real input), left and right eigenvectors, info."""
    left, right = (lapack.option(name, "VN") == "V" for name in ("compute_left", "compute_right"))
    if not left:
        return _geev_of_numpy(lapack, a, right)
    if not np.isfinite(a).all():  # LAPACK refuses it, and says so in four lines on stderr
        return _no_geev(lapack)
    _need_scipy(lapack.call.target)
    *values, vl, vr, info = lapack.geev(a, compute_vl=left, compute_vr=right)
    if not lapack.is_complex:
        vl, vr = (_paired(vectors, values[1]) if wanted else 0 for vectors, wanted in ((vl, left), (vr, right)))
    return (*values, vl if left else 0, vr if right else 0, info)


def _geev_of_numpy(lapack: Routines, a: Array, vectors: bool) -> tuple[Any, ...]:
    """Without left eigenvectors, NumPy's own LAPACK does it."""
    try:
        values, right = np.linalg.eig(a) if vectors else (np.linalg.eigvals(a), 0)
    except np.linalg.LinAlgError:
        return _no_geev(lapack)
    parts = (values,) if lapack.is_complex else (np.real(values), np.imag(values))
    return (*parts, 0, right, 0)


def _no_geev(lapack: Routines) -> tuple[Any, ...]:
    """What says by its info that there are no eigenvalues."""
    return (*(0,) * (1 if lapack.is_complex else 2), 0, 0, 1)


def _paired(vectors: Array, imaginary: Array) -> Array:
    """Complex eigenvectors from LAPACK's real form: columns j, j+1 of a conjugate pair are real and imaginary part."""
    result = vectors.astype(np.result_type(vectors.dtype, np.complex64))
    for column in np.flatnonzero(imaginary > 0):
        result[:, column] = vectors[:, column] + 1j * vectors[:, column + 1]
        result[:, column + 1] = result[:, column].conj()
    return result


def _gees(lapack: Routines, a: Array) -> tuple[Any, ...]:
    """Schur form, Schur vectors, eigenvalues (as in geev), number of selected ones (0), info."""
    lapack.option("sort", "N")
    wanted = lapack.option("mode", "VN") == "V"
    form, count, *values, vectors, _, info = lapack.gees(lambda *_: 0, a, compute_v=wanted, sort_t=0)
    return (form, vectors if wanted else 0, *values, count, info)


def _gehrd(lapack: Routines, a: Array) -> tuple[Any, ...]:
    """Hessenberg form above reflectors, tau, info."""
    return tuple(lapack.gehrd(a, lo=lapack.number("low") - 1, hi=lapack.number("high") - 1))


def _sytrd(lapack: Routines, a: Array) -> tuple[Any, ...]:
    """Tridiagonal form in a, its diagonal, off-diagonal, tau, info."""
    reduce = lapack.hetrd if lapack.is_complex else lapack.sytrd
    return tuple(reduce(a, lower=lapack.option("uplo", "LU") == "L"))


def _gtsv(lapack: Routines, dl: Array, d: Array, du: Array, b: Array) -> tuple[Any, ...]:
    """Tridiagonal solve: the three diagonals as they were, the solution, info.  dl[0] and du[-1] are not used."""
    beside = slice(1, None), slice(None, -1)
    if d.size == 1:  # SciPy wants something there, which is not used either
        beside = slice(None), slice(None)
    *_, solution, info = lapack.gtsv(dl[beside[0]], d, du[beside[1]], b)
    return dl, d, du, solution, info


_ROUTINES: dict[str, Routine] = {
    "potrf": _potrf, "getrf": _getrf, "trsm": _trsm, "geqrf": _geqrf, "geqp3": _geqp3,
    "orgqr": _orgqr, "ungqr": _orgqr, "syevd": _syevd, "heevd": _syevd, "gesdd": _gesdd,
    "gesvd": _gesvd, "ormqr": _ormqr, "unmqr": _ormqr, "geev": _geev,
    "gees": _gees, "gehrd": _gehrd, "sytrd": _sytrd, "hetrd": _sytrd, "gtsv": _gtsv,
}  # fmt: skip
_OF_NUMPY = frozenset({"syevd", "heevd", "gesdd"})
_REAL_ONLY = frozenset({"orgqr", "ormqr", "syevd", "sytrd"})
_COMPLEX_ONLY = frozenset({"ungqr", "unmqr", "heevd", "hetrd"})
