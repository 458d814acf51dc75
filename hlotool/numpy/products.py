"""Products and solutions of stacks of matrices, as HLO has them.

The functions are bodies: a trace is active when they run, and operands have one type.
"""

from __future__ import annotations

from hlotool.ir import array
from hlotool.numpy.array import Array
from hlotool.numpy.contractions import contracted
from hlotool.numpy.dtypes import kind_of
from hlotool.numpy.elementwise import expand
from hlotool.numpy.trace import apply, shape_of

__all__ = ["adjoint", "conjugate", "factor", "multiply_matrices", "swap", "triangular_solve"]


def multiply_matrices(a: Array, b: Array) -> Array:
    """a @ b of stacks of matrices with the same batch dimensions."""
    lead = tuple(range(a.ndim - 2))
    return contracted(a, b, ((a.ndim - 1,), (a.ndim - 2,)), (lead, lead))


def swap(a: Array) -> Array:
    """With the last two dimensions exchanged."""
    return apply("transpose", a, dimensions=(*range(a.ndim - 2), a.ndim - 1, a.ndim - 2))


def conjugate(a: Array) -> Array:
    if kind_of(a.dtype) != "complex":
        return a
    return apply("complex", apply("real", a), apply("negate", apply("imag", a)))


def adjoint(a: Array) -> Array:
    return conjugate(swap(a))


def triangular_solve(a: Array, b: Array, *, lower: bool, unit_diagonal: bool = False) -> Array:
    """x with a x = b, of stacks of matrices of which one triangle counts."""
    lead = max(a.shape[:-2], b.shape[:-2], key=len)
    if a.shape[:-2] != lead:
        a = expand(a, (*lead, *a.shape[-2:]))
    if b.shape[:-2] != lead:
        b = expand(b, (*lead, *b.shape[-2:]))
    return apply(
        "triangular-solve", a, b,
        left_side=True, lower=lower, unit_diagonal=unit_diagonal, transpose_a="NO_TRANSPOSE",
    )  # fmt: skip


def factor(a: Array) -> Array:
    """The lower Cholesky factor, with zeros above; NaN where a matrix is not positive definite."""
    made = apply("cholesky", a, lower=True)
    shape = array("s32", a.shape)
    row, column = (apply("iota", shape=shape, iota_dimension=a.ndim - 2 + axis) for axis in (0, 1))
    zero = apply("broadcast", Array(a.dtype.type(0)), shape=shape_of(a), dimensions=())
    return apply("select", apply("compare", row, column, direction="GE"), made, zero)

