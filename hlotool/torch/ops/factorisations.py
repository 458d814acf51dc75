"""Factorisations of matrices, and what is made of them: solutions, inverses, determinants, exponentials.

LU, QR, eigenvalues and singular values come from LAPACK through XLA's custom calls; all but symmetric eigenvalues and
singular values need SciPy's (``pip install "hlotool[lapack]"``).  Batch dimensions stand in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from math import factorial

import numpy as np

from hlotool.ir import Computation, Instruction
from hlotool.ir.builder import Builder
from hlotool.ir.shape import array, tuple_shape
from hlotool.ir.types import dtype_of
from hlotool.torch.lowering import Context, lowering
from hlotool.torch.ops.pieces import element, is_complex, narrow, sizes, spread
from hlotool.torch.ops.term import Term, repeat_while
from hlotool.torch.refusal import Refused

__all__: list[str] = []

_LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
_REAL = {"c64": "f32", "c128": "f64"}
_OF_NUMPY = ("syevd", "heevd", "gesdd")


def _called(
    c: Context, routine: str, operands: Sequence[Instruction], outputs: Sequence[tuple[str, tuple[int, ...]]],
    config: str = "",
) -> list[Instruction]:  # fmt: skip
    """The outputs of a LAPACK routine, whose dimensions are given without those of the batch."""
    kind, lead = element(operands[0]), sizes(operands[0])[:-2]
    if kind not in _LETTERS or not operands[0].shape.size:
        raise Refused(f"a factorisation of {kind}, or of a matrix without elements")
    if routine not in _OF_NUMPY and find_spec("scipy") is None:
        raise Refused(f'LAPACK\'s {routine} needs SciPy: pip install "hlotool[lapack]"')
    shape = tuple_shape([array(one, (*lead, *own)) for one, own in outputs])
    attributes = {
        "custom_call_target": f"lapack_{_LETTERS[kind]}{routine}_ffi", "api_version": "API_VERSION_TYPED_FFI",
        "frontend_attributes": {"num_batch_dims": str(len(lead))},
    }  # fmt: skip
    if config:
        attributes["backend_config"] = config
    call = c.builder.add("custom-call", shape, operands, attributes)
    return [c.builder.gte(call, n) for n in range(len(outputs))]


def _zeros(c: Context) -> list[Instruction]:
    """All results, of matrices without elements."""
    return [c.full(0, *one) for one in c.expected if one is not None]


def _real(kind: str) -> str:
    return _REAL.get(kind, kind)


def _triangle(c: Context, a: Instruction, upper: bool, unit: bool = False) -> Instruction:
    """One triangle of matrices, zero in the other one; with `unit` ones on the diagonal."""
    rank, b = len(sizes(a)), c.builder
    row, column = (b.iota(array("s32", sizes(a)), rank - n) for n in (2, 1))
    if unit:
        a = b.select(b.compare(row, column, "EQ"), c.like(1, a), a)
    return b.select(b.compare(row, column, "LE" if upper else "GE"), a, c.like(0, a))


def _swapped(c: Context, a: Instruction, conjugate: bool = True) -> Instruction:
    """The (conjugate) transpose of every matrix."""
    rank, b = len(sizes(a)), c.builder
    if conjugate and is_complex(element(a)):
        a = b.binary("complex", b.unary("real", a), b.unary("negate", b.unary("imag", a)))
    return b.transpose(a, (*range(rank - 2), rank - 1, rank - 2))


def _diagonal(c: Context, a: Instruction) -> Instruction:
    """The diagonals of square matrices."""
    rank, b = len(sizes(a)), c.builder
    row, column = (b.iota(array("s32", sizes(a)), rank - n) for n in (2, 1))
    return c.reduce(b.select(b.compare(row, column, "EQ"), a, c.like(0, a)), (rank - 1,), "add", 0)


def _identity(c: Context, kind: str, dimensions: Sequence[int]) -> Instruction:
    rank, b = len(dimensions), c.builder
    row, column = (b.iota(array("s32", dimensions), rank - n) for n in (2, 1))
    return c.convert(b.compare(row, column, "EQ"), kind)


def _product(c: Context, a: Instruction, other: Instruction) -> Instruction:
    rank = len(sizes(a))
    batch = tuple(range(rank - 2))
    return c.builder.dot(a, other, ((rank - 1,), (rank - 2,)), (batch, batch))


def _solved(
    c: Context, a: Instruction, right: Instruction, *, upper: bool, unit: bool = False, transpose: str = "NO_TRANSPOSE"
) -> Instruction:
    if not right.shape.size:
        raise Refused("a system without elements")
    attributes = {"left_side": True, "lower": not upper, "unit_diagonal": unit, "transpose_a": transpose}
    return c.builder.add("triangular-solve", None, (a, right), attributes)


# ---- Cholesky


@lowering("aten.linalg_cholesky_ex.default")
def cholesky_ex(
    c: Context, self: Instruction, *, upper: bool = False, check_errors: bool = False
) -> tuple[Instruction, Instruction]:
    """The factor, and the order of the first leading minor that is not positive, 0 if all are."""
    if check_errors:
        raise Refused("a factorisation that raises errors")
    if not self.shape.size:
        factor, info = _zeros(c)
        return factor, info
    outputs: list[tuple[str, tuple[int, ...]]] = [(element(self), sizes(self)[-2:]), ("s32", ())]
    factor, info = _called(c, "potrf", (self,), outputs, f"{{uplo = {ord('U' if upper else 'L')} : ui8}}")
    return _triangle(c, factor, upper), info


@lowering("aten.cholesky_solve.default", "aten._cholesky_solve_helper.default")
def cholesky_solve(
    c: Context, self: Instruction, input2: Instruction | None = None, upper: bool = False, A: Instruction | None = None  # noqa: N803
) -> Instruction:
    factor = input2 if input2 is not None else A
    assert factor is not None
    lead = c.dimensions[:-2]
    a, right = (c.expand(one, (*lead, *sizes(one)[-2:])) for one in (factor, self))
    return _by_factor(c, a, right, upper)


def _by_factor(c: Context, a: Instruction, right: Instruction, upper: bool) -> Instruction:
    first, second = ("ADJOINT", "NO_TRANSPOSE") if upper else ("NO_TRANSPOSE", "ADJOINT")
    return _solved(c, a, _solved(c, a, right, upper=upper, transpose=first), upper=upper, transpose=second)


@lowering("aten.cholesky_inverse.default")
def cholesky_inverse(c: Context, self: Instruction, upper: bool = False) -> Instruction:
    return _by_factor(c, self, _identity(c, element(self), sizes(self)), upper)


@lowering("aten.triangular_solve.default")
def triangular_solve(
    c: Context, self: Instruction, A: Instruction, upper: bool = True, transpose: bool = False,  # noqa: N803
    unitriangular: bool = False,
) -> tuple[Instruction, Instruction]:  # fmt: skip
    lead = c.dimensions[:-2]
    a, right = (c.expand(one, (*lead, *sizes(one)[-2:])) for one in (A, self))
    way = "TRANSPOSE" if transpose else "NO_TRANSPOSE"
    return _solved(c, a, right, upper=upper, unit=unitriangular, transpose=way), a


# ---- LU


def _lu(c: Context, a: Instruction) -> tuple[Instruction, Instruction, Instruction]:
    """Factors, pivots from 1, and LAPACK's info."""
    rows, columns = sizes(a)[-2:]
    found = _called(
        c, "getrf", (a,), [(element(a), (rows, columns)), ("s32", (min(rows, columns),)), ("s32", ())]
    )
    return found[0], found[1], found[2]


def _order(c: Context, pivots: Instruction, rows: int) -> Instruction:
    """The order of rows that exchanges by `pivots`, one after the other, make of 0, 1..."""
    *lead, count = sizes(pivots)
    batch = int(np.prod(lead))
    whole, own = array("s32", (batch, rows)), array("s32", (batch, count))
    shape = tuple_shape([array("s32", ()), whole, own])
    adder = c.reducer("add", "s32")

    def part(name: str) -> tuple[Builder, list[Instruction], Computation]:
        computation = Computation(name)
        b = Builder(computation)
        given = b.parameter(0, shape)
        return b, [b.gte(given, n) for n in range(3)], computation

    b, (step, _, _), condition = part("exchanges_left")
    condition.root = b.compare(step, b.constant(np.int32(count)), "LT")
    b, (step, order, given), body = part("exchange")
    zero = b.constant(np.int32(0))
    pivot = b.reshape(b.dynamic_slice(given, (zero, step), (batch, 1)), (batch,))
    place = b.iota(whole, 1)
    here = b.compare(place, b.broadcast(step, (), whole), "EQ")
    there = b.compare(place, b.broadcast(pivot, (0,), whole), "EQ")
    none = b.splat(0, whole)
    first, second = (
        b.broadcast(b.reduce(b.select(at, order, none), zero, (1,), adder), (0,), whole) for at in (here, there)
    )
    order = b.select(here, second, b.select(there, first, order))
    body.root = b.tuple((b.binary("add", step, b.constant(np.int32(1))), order, given))
    b = c.builder
    zeroed = b.binary("subtract", pivots, c.like(1, pivots))
    start = b.tuple((b.constant(np.int32(0)), b.iota(whole, 1), b.reshape(zeroed, (batch, count))))
    done = b.while_(start, c.own(condition), c.own(body))
    return b.reshape(b.gte(done, 1), (*lead, rows))


def _rows(c: Context, a: Instruction, order: Instruction) -> Instruction:
    """Rows of matrices in another order."""
    rank = len(sizes(a))
    lead = tuple(range(rank - 2))
    attributes = {
        "offset_dims": (rank - 1,), "collapsed_slice_dims": (rank - 2,), "start_index_map": (rank - 2,),
        "operand_batching_dims": lead, "start_indices_batching_dims": lead, "index_vector_dim": rank - 1,
        "slice_sizes": (*(1 for _ in lead), 1, sizes(a)[-1]),
    }  # fmt: skip
    return c.builder.gather(a, order, attributes)


def _permutation(c: Context, order: Instruction, kind: str) -> Instruction:
    """P with P L U = A: column j has its one in row ``order[j]``."""
    size, rank = sizes(order)[-1], len(sizes(order)) + 1
    wide = (*sizes(order), size)
    row = c.builder.iota(array("s32", wide), rank - 2)
    kept = (*range(rank - 2), rank - 1)
    return c.convert(c.builder.compare(row, spread(c, order, kept, wide), "EQ"), kind)


def _by_lu(
    c: Context, factors: Instruction, pivots: Instruction, right: Instruction, adjoint: bool = False
) -> Instruction:
    """The solution of A x = right, or of A^H x = right."""
    order = _order(c, pivots, sizes(factors)[-1])
    if not adjoint:
        lower = _solved(c, factors, _rows(c, right, order), upper=False, unit=True)
        return _solved(c, factors, lower, upper=True)
    upper = _solved(c, factors, right, upper=True, transpose="ADJOINT")
    both = _solved(c, factors, upper, upper=False, unit=True, transpose="ADJOINT")
    back = _permutation(c, order, "s32")  # [j, i] where order[i] is j: i is the place that j goes back to
    place = c.builder.iota(array("s32", sizes(back)), len(sizes(back)) - 1)
    where = c.reduce(c.builder.binary("multiply", back, place), (len(sizes(back)) - 1,), "add", 0)
    return _rows(c, both, where)


def _both_sides(
    c: Context, factors: Instruction, pivots: Instruction, right: Instruction, left: bool, adjoint: bool
) -> Instruction:
    """As `_by_lu`, or with the matrix on the other side of x."""
    if left:
        return _by_lu(c, factors, pivots, right, adjoint)
    return _swapped(c, _by_lu(c, factors, pivots, _swapped(c, right), not adjoint))


@lowering("aten.linalg_lu_factor_ex.default")
def lu_factor_ex(
    c: Context, A: Instruction, *, pivot: bool = True, check_errors: bool = False  # noqa: N803
) -> tuple[Instruction, Instruction, Instruction]:
    if not pivot or check_errors:
        raise Refused("LU without pivots, or that raises errors")
    factors, pivots, info = _lu(c, A) if A.shape.size else _zeros(c)
    return factors, pivots, info


def _unpacked(c: Context, factors: Instruction, order: Instruction) -> tuple[Instruction, Instruction, Instruction]:
    rank = len(sizes(factors))
    count = min(sizes(factors)[-2:])
    lower = _triangle(c, narrow(c, factors, rank - 1, 0, count), upper=False, unit=True)
    upper = _triangle(c, narrow(c, factors, rank - 2, 0, count), upper=True)
    return _permutation(c, order, element(factors)), lower, upper


@lowering("aten.linalg_lu.default")
def linalg_lu(
    c: Context, A: Instruction, *, pivot: bool = True  # noqa: N803
) -> tuple[Instruction, Instruction, Instruction]:
    if not pivot:
        raise Refused("LU without pivots")
    factors, pivots, _ = _lu(c, A)
    return _unpacked(c, factors, _order(c, pivots, sizes(A)[-2]))


@lowering("aten.lu_unpack.default")
def lu_unpack(
    c: Context, LU_data: Instruction, LU_pivots: Instruction, unpack_data: bool = True, unpack_pivots: bool = True  # noqa: N803
) -> tuple[Instruction, Instruction, Instruction]:
    if not LU_data.shape.size:
        raise Refused("matrices without elements")
    made = _unpacked(c, LU_data, _order(c, LU_pivots, sizes(LU_data)[-2]))
    wanted = (unpack_pivots, unpack_data, unpack_data)
    rows = [m if w else _nothing(c, n) for n, (m, w) in enumerate(zip(made, wanted, strict=True))]
    return rows[0], rows[1], rows[2]


def _nothing(c: Context, number: int) -> Instruction:
    """A result that was not asked for."""
    wanted = c.expected[number]
    assert wanted is not None
    return c.full(0, *wanted)


@lowering("aten.linalg_lu_solve.default")
def lu_solve(
    c: Context, LU: Instruction, pivots: Instruction, B: Instruction, *, left: bool = True, adjoint: bool = False  # noqa: N803
) -> Instruction:
    lead = c.dimensions[:-2]
    factors, right = (c.expand(one, (*lead, *sizes(one)[-2:])) for one in (LU, B))
    return _both_sides(c, factors, c.expand(pivots, (*lead, sizes(pivots)[-1])), right, left, adjoint)


def _turned(c: Context, a: Instruction) -> bool:
    """Whether PyTorch factors the transpose for a determinant, as it does of row-major matrices: its gradient relies on
    that."""
    if is_complex(element(a)):
        return False
    if c.strides.get(a) is None:
        raise Refused("a factorisation of memory of which not all is known")
    expected, step = [], 1
    for size in reversed(sizes(a)):
        expected.append(step)
        step *= size
    rows = zip(sizes(a), c.strides[a], reversed(expected), strict=True)
    return all(size == 1 or own == wanted for size, own, wanted in rows)


def _as_factored(c: Context, a: Instruction) -> tuple[Instruction, Instruction, Instruction]:
    return _lu(c, _swapped(c, a) if _turned(c, a) else a)


def _sign(c: Context, pivots: Instruction, kind: str) -> Instruction:
    """Of the permutation: minus one for each exchange."""
    b, along = c.builder, len(sizes(pivots)) - 1
    place = b.binary("add", b.iota(pivots.shape, along), c.like(1, pivots))
    moved = c.convert(b.compare(pivots, place, "NE"), "s32")
    odd = b.binary("and", c.reduce(moved, (along,), "add", 0), c.full(1, "s32", sizes(pivots)[:-1]))
    return c.convert(b.binary("subtract", c.like(1, odd), b.binary("multiply", odd, c.like(2, odd))), kind)


@lowering("aten._linalg_det.default")
def det(c: Context, A: Instruction) -> tuple[Instruction, Instruction, Instruction]:  # noqa: N803
    if not A.shape.size:
        _, factors, pivots = _zeros(c)
        return c.full(1, c.type, c.dimensions), factors, pivots
    factors, pivots, _ = _as_factored(c, A)
    heads = _diagonal(c, factors)
    product = c.reduce(heads, (len(sizes(heads)) - 1,), "multiply", 1)
    return c.builder.binary("multiply", product, _sign(c, pivots, element(A))), factors, pivots


@lowering("aten._linalg_slogdet.default")
def slogdet(c: Context, A: Instruction) -> tuple[Instruction, Instruction, Instruction, Instruction]:  # noqa: N803
    if not A.shape.size:
        _, logarithm, factors, pivots = _zeros(c)
        return c.full(1, c.type, c.dimensions), logarithm, factors, pivots
    factors, pivots, _ = _as_factored(c, A)
    b, heads = c.builder, _diagonal(c, factors)
    along, size = (len(sizes(heads)) - 1,), b.unary("abs", heads)
    if is_complex(element(heads)):
        signs = b.binary("divide", heads, c.convert(size, element(heads)))
        none = b.compare(size, c.like(0, size), "EQ")
        signs = b.select(none, c.like(0, signs), signs)
    else:
        signs = b.unary("sign", heads)
    sign = b.binary("multiply", c.reduce(signs, along, "multiply", 1), _sign(c, pivots, element(A)))
    return sign, c.reduce(b.unary("log", size), along, "add", 0), factors, pivots


@lowering("aten.linalg_inv_ex.default")
def inv_ex(c: Context, A: Instruction, *, check_errors: bool = False) -> tuple[Instruction, Instruction]:  # noqa: N803
    if check_errors:
        raise Refused("an inverse that raises errors")
    if not A.shape.size:
        inverse, info = _zeros(c)
        return inverse, info
    factors, pivots, info = _lu(c, A)
    return _by_lu(c, factors, pivots, _identity(c, element(A), sizes(A))), info


@lowering("aten._linalg_solve_ex.default")
def solve_ex(
    c: Context, A: Instruction, B: Instruction, *, left: bool = True, check_errors: bool = False  # noqa: N803
) -> tuple[Instruction, Instruction, Instruction, Instruction]:
    """Vectors where B has one dimension less than A, and its sizes."""
    if check_errors:
        raise Refused("a solution that raises errors")
    vector = len(sizes(B)) == 1 or sizes(B) == sizes(A)[:-1]
    right = c.unsqueeze(B, (len(sizes(B)),)) if vector else B
    factors, pivots, info = _lu(c, A)
    lead = c.dimensions[: len(c.dimensions) - (1 if vector else 2)]
    wide = [c.expand(one, (*lead, *sizes(one)[-2:])) for one in (factors, right)]
    made = _both_sides(c, wide[0], c.expand(pivots, (*lead, sizes(pivots)[-1])), wide[1], left, False)
    return c.builder.reshape(made, c.dimensions), factors, pivots, info


# ---- QR


def _reflectors(c: Context, a: Instruction) -> tuple[Instruction, Instruction]:
    rows, columns = sizes(a)[-2:]
    found = _called(c, "geqrf", (a,), [(element(a), (rows, columns)), (element(a), (min(rows, columns),))])
    return found[0], found[1]


def _orthogonal(c: Context, reflectors: Instruction, tau: Instruction) -> Instruction:
    routine = "ungqr" if is_complex(element(reflectors)) else "orgqr"
    return _called(c, routine, (reflectors, tau), [(element(reflectors), sizes(reflectors)[-2:])])[0]


@lowering("aten.linalg_qr.default")
def linalg_qr(c: Context, A: Instruction, mode: str = "reduced") -> tuple[Instruction, Instruction]:  # noqa: N803
    rank, (rows, columns) = len(sizes(A)), sizes(A)[-2:]
    reflectors, tau = _reflectors(c, A)
    count = rows if mode == "complete" else min(rows, columns)
    upper = _triangle(c, narrow(c, reflectors, rank - 2, 0, count), upper=True)
    if mode == "r":
        return _nothing(c, 0), upper
    if count > columns:
        padding = [(0, 0)] * (rank - 1) + [(0, count - columns)]
        reflectors = c.builder.pad(reflectors, c.full(0, element(A)), padding)
    return _orthogonal(c, narrow(c, reflectors, rank - 1, 0, count), tau), upper


@lowering("aten.geqrf.default")
def geqrf(c: Context, self: Instruction) -> tuple[Instruction, Instruction]:
    return _reflectors(c, self)


@lowering("aten.linalg_householder_product.default")
def householder_product(c: Context, input: Instruction, tau: Instruction) -> Instruction:
    if not tau.shape.size:
        raise Refused("a product of no reflectors")
    return _orthogonal(c, input, tau)


@lowering("aten.ormqr.default")
def ormqr(
    c: Context, self: Instruction, input2: Instruction, input3: Instruction, left: bool = True, transpose: bool = False
) -> Instruction:
    if not (input2.shape.size and input3.shape.size):
        raise Refused("a product of no reflectors")
    routine = "unmqr" if is_complex(element(self)) else "ormqr"
    config = f"{{left = {str(left).lower()}, transpose = {str(transpose).lower()}}}"
    return _called(c, routine, (self, input2, input3), [(element(input3), sizes(input3)[-2:])], config)[0]


# ---- eigenvalues and singular values


def _masked(c: Context, info: Instruction, *found: Instruction) -> list[Instruction]:
    """NaN where LAPACK did not get there."""
    good = c.builder.compare(info, c.like(0, info), "EQ")
    kept = range(len(sizes(info)))
    return [c.builder.select(spread(c, good, kept, sizes(one)), one, c.like(float("nan"), one)) for one in found]


@lowering("aten._linalg_eigh.default")
def eigh(
    c: Context, A: Instruction, UPLO: str = "L", compute_v: bool = True  # noqa: N803
) -> tuple[Instruction, Instruction]:
    kind, size = element(A), sizes(A)[-1]
    config = f"{{mode = {ord('V' if compute_v else 'N')} : ui8, uplo = {ord(UPLO.upper())} : ui8}}"
    outputs = [(kind, (size, size)), (_real(kind), (size,)), ("s32", ())]
    vectors, values, info = _called(c, "heevd" if is_complex(kind) else "syevd", (A,), outputs, config)
    values, vectors = _masked(c, info, values, vectors)
    return values, vectors if compute_v else _nothing(c, 1)


@lowering("aten.linalg_eig.default")
def eig(c: Context, self: Instruction) -> tuple[Instruction, Instruction]:
    """Of real matrices LAPACK gives the parts of the eigenvalues one by one."""
    kind, size = element(self), sizes(self)[-1]
    wide = c.type
    config = f"{{compute_left = {ord('N')} : ui8, compute_right = {ord('V')} : ui8}}"
    ends = [(wide, (size, size)), (wide, (size, size)), ("s32", ())]
    heads = [(kind, (size,))] * (1 if is_complex(kind) else 2)
    *parts, _, vectors, info = _called(c, "geev", (self,), [*heads, *ends], config)
    values = parts[0] if is_complex(kind) else c.builder.binary("complex", *parts)
    values, vectors = _masked(c, info, values, vectors)
    return values, vectors


@lowering("aten._linalg_svd.default")
def svd(
    c: Context, A: Instruction, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None  # noqa: N803
) -> tuple[Instruction, Instruction, Instruction]:
    u, s, vh = _singular(c, A, full_matrices)
    return (u, s, vh) if compute_uv else (_nothing(c, 0), s, _nothing(c, 2))


def _singular(c: Context, a: Instruction, full: bool) -> list[Instruction]:
    kind, (rows, columns) = element(a), sizes(a)[-2:]
    least = min(rows, columns)
    left, right = ((rows, rows), (columns, columns)) if full else ((rows, least), (least, columns))
    outputs = [(kind, (rows, columns)), (_real(kind), (least,)), (kind, left), (kind, right), ("s32", ())]
    _, s, u, vh, info = _called(c, "gesdd", (a,), outputs, f"{{mode = {ord('A' if full else 'S')} : ui8}}")
    return _masked(c, info, u, s, vh)


@lowering("aten.linalg_pinv.atol_rtol_tensor")
def pinv(
    c: Context, self: Instruction, *, atol: Instruction | None = None, rtol: Instruction | None = None,
    hermitian: bool = False,
) -> Instruction:  # fmt: skip
    """The singular values above both bounds are inverted, the others left out."""
    if hermitian:
        raise Refused("the pseudoinverse of a Hermitian matrix")
    b, (rows, columns) = c.builder, sizes(self)[-2:]
    u, s, vh = _singular(c, self, False)
    rank, kind = len(sizes(s)), element(s)
    lead = sizes(s)[:-1]

    def bound(given: Instruction | None, otherwise: float | Instruction) -> Instruction:
        return c.tensor(otherwise if given is None else given, kind, lead)

    absolute = bound(atol, 0.0)
    epsilon = float(np.finfo(dtype_of(kind)).eps) * max(rows, columns)
    usual: float | Instruction = epsilon
    if atol is not None:
        given = b.compare(absolute, c.like(0, absolute), "GT")
        usual = b.select(given, c.like(0, absolute), c.like(epsilon, absolute))
    relative = b.binary("multiply", bound(rtol, usual), c.reduce(s, (rank - 1,), "maximum", 0))
    limit = b.binary("maximum", absolute, relative)
    above = b.compare(s, spread(c, limit, range(rank - 1), sizes(s)), "GT")
    inverse = b.select(above, b.binary("divide", c.like(1, s), s), c.like(0, s))
    right = _swapped(c, u)
    kept = range(rank)
    scaled = b.binary("multiply", spread(c, c.convert(inverse, element(self)), kept, sizes(right)), right)
    return _product(c, _swapped(c, vh), scaled)


# ---- the exponential

_DEGREE, _LARGEST = 18, 1.0


@lowering("aten.linalg_matrix_exp.default")
def matrix_exp(c: Context, self: Instruction) -> Instruction:
    """Taylor's polynomial of the matrix halved until its norm is at most one, squared as often; in f64 on the way."""
    if element(self) not in _LETTERS or not self.shape.size:
        raise Refused(f"the exponential of {element(self)}, or of a matrix without elements")
    self = c.convert(self, {"f32": "f64", "c64": "c128"}.get(element(self), element(self)))
    kind, rank = element(self), len(sizes(self))
    b = c.builder
    norm = c.reduce(c.reduce(b.unary("abs", self), (rank - 2,), "add", 0), (rank - 2,), "maximum", 0)
    size = Term(c, norm).maximum(_LARGEST)
    halvings = (size.log() * (1 / float(np.log(2)))).call("ceil").maximum(0)
    wide = spread(c, halvings.value, range(rank - 2), sizes(self))
    scale = c.convert((Term(c, wide) * -float(np.log(2))).exp().value, kind)
    small = b.binary("multiply", self, scale)
    one = _identity(c, kind, sizes(self))
    made = b.binary("multiply", one, c.like(1 / factorial(_DEGREE), one))
    for n in range(_DEGREE - 1, -1, -1):
        made = b.binary("add", _product(c, made, small), b.binary("multiply", one, c.like(1 / factorial(n), one)))

    def goes_on(state: Sequence[Term]) -> Term:
        return state[1] > 0.5

    def step(state: Sequence[Term]) -> Sequence[Term]:
        matrix, left = state
        squared = Term(matrix.c, _product(matrix.c, matrix.value, matrix.value))
        return matrix.put(goes_on(state), squared), left - 1

    return c.convert(repeat_while([Term(c, made), Term(c, wide)], goes_on, step)[0].value, c.type)
