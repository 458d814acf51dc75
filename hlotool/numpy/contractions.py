"""Products of matrices and vectors: the linear algebra of the main namespace."""

from __future__ import annotations

import operator
from typing import Any

import numpy

from hlotool.numpy.array import Array, concrete
from hlotool.numpy.axes import as_axes, as_axis
from hlotool.numpy.dtypes import DType, kind_of
from hlotool.numpy.elementwise import common_shape, conj, expand
from hlotool.numpy.errors import value_error
from hlotool.numpy.manipulation import permuted, with_shape
from hlotool.numpy.operation import as_arrays, convert, operation
from hlotool.numpy.trace import apply

__all__ = ["dot", "inner", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot", "vecmat"]


def contracted(a: Array, b: Array, over: tuple[Any, Any], batch: tuple[Any, Any] = ((), ())) -> Array:
    """A dot over pairs of dimensions; bools as NumPy has them, whether a product is true."""
    dtype: DType = a.dtype
    if kind_of(dtype) == "pred":
        a, b = (convert(one, numpy.dtype(numpy.int32)) for one in (a, b))
    attributes: dict[str, Any] = {"lhs_contracting_dims": tuple(over[0]), "rhs_contracting_dims": tuple(over[1])}
    if batch[0]:
        attributes |= {"lhs_batch_dims": tuple(batch[0]), "rhs_batch_dims": tuple(batch[1])}
    made = apply("dot", a, b, **attributes)
    if kind_of(dtype) != "pred":
        return made
    zero = expand(Array(numpy.zeros((), numpy.int32)), made.shape)
    return apply("compare", made, zero, direction="NE")


@operation("x1", "x2")
def matmul(x1: Any, x2: Any, /) -> Array:
    """Products of matrices in the last two dimensions; vectors are rows on the left, columns on the right."""
    a, b = as_arrays(x1, x2)
    if not a.ndim or not b.ndim:
        raise value_error("matmul is for arrays with dimensions: use multiply for single numbers")
    row, column = a.ndim == 1, b.ndim == 1
    inner_a, inner_b = a.shape[-1], b.shape[0 if column else -2]
    if inner_a != inner_b:
        raise value_error(f"matmul of shapes {a.shape} and {b.shape}: {inner_a} columns meet {inner_b} rows")
    if b.ndim <= 2:
        return contracted(a, b, ((a.ndim - 1,), (0,)))
    a = with_shape(a, (1, *a.shape)) if row else a
    lead_a, lead_b = a.shape[:-2], b.shape[:-2]
    try:
        lead = numpy.broadcast_shapes(lead_a, lead_b)
    except ValueError as error:
        raise value_error(f"matmul of shapes {a.shape} and {b.shape}: stacks do not fit together") from error
    a, b = expand(a, (*lead, *a.shape[-2:])), expand(b, (*lead, *b.shape[-2:]))
    rank = len(lead)
    axes = tuple(range(rank))
    made = contracted(a, b, ((rank + 1,), (rank,)), (axes, axes))
    return with_shape(made, (*lead, made.shape[-1])) if row else made


@operation("x1", "x2")
def _tensordot(x1: Any, x2: Any, first: Any, second: Any, /) -> Array:
    a, b = as_arrays(x1, x2)
    left, right = as_axes(first, a.ndim), as_axes(second, b.ndim)
    if len(left) != len(right) or any(a.shape[m] != b.shape[n] for m, n in zip(left, right, strict=True)):
        raise value_error(f"tensordot of shapes {a.shape} and {b.shape} over {left} and {right}: sizes differ")
    return contracted(a, b, (left, right))


def tensordot(x1: Any, x2: Any, /, axes: Any = 2) -> Array:
    """Sums of products over pairs of dimensions: the last and first `axes`, or those that two lists name."""
    if isinstance(axes, (tuple, list)):
        first, second = (one if isinstance(one, (tuple, list)) else (one,) for one in axes)
        return _tensordot(x1, x2, tuple(first), tuple(second))
    count = operator.index(axes)
    if count < 0:
        raise value_error(f"tensordot: axes is {count}, and cannot be negative")
    return _tensordot(x1, x2, tuple(range(-count, 0)), tuple(range(count)))


@operation("x1", "x2")
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """Sums of products of vectors along `axis`, counted from the end; the first ones are conjugated."""
    a, b = as_arrays(x1, x2)
    if not a.ndim or not b.ndim:
        raise value_error("vecdot is for arrays with dimensions")
    if axis >= 0:
        if a.ndim != b.ndim:
            raise value_error("vecdot of arrays with different numbers of dimensions: give the axis from the end (-1)")
        axis -= a.ndim
    m, n = as_axis(axis, a.ndim), as_axis(axis, b.ndim)
    if a.shape[m] != b.shape[n]:
        raise value_error(f"vecdot of shapes {a.shape} and {b.shape}: vectors have different lengths")
    if kind_of(a.dtype) == "complex":
        a = apply("complex", apply("real", a), apply("negate", apply("imag", a)))
    a = permuted(a, [*[k for k in range(a.ndim) if k != m], m])
    b = permuted(b, [*[k for k in range(b.ndim) if k != n], n])
    shape = common_shape((a, b))
    lead = tuple(range(len(shape) - 1))
    return contracted(expand(a, shape), expand(b, shape), ((len(lead),), (len(lead),)), (lead, lead))


def matvec(x1: Any, x2: Any, /) -> Array:
    """Products of matrices and vectors."""
    return matmul(_matrix("matvec", x1), _array(x2)[..., None])[..., 0]


def vecmat(x1: Any, x2: Any, /) -> Array:
    """Products of conjugate vectors and matrices."""
    return matmul(conj(_array(x1))[..., None, :], _matrix("vecmat", x2))[..., 0, :]


def _matrix(name: str, value: Any) -> Array:
    found = _array(value)
    if found.ndim < 2:
        raise value_error(f"{name} needs matrices, not an array of shape {found.shape}")
    return found


def _array(value: Any) -> Array:
    return value if isinstance(value, Array) else concrete(value)


@operation("x1", "x2")
def dot(x1: Any, x2: Any, /) -> Array:
    """NumPy's product: over the last dimension of one and the last but one of the other."""
    a, b = as_arrays(x1, x2)
    if not a.ndim or not b.ndim:
        return apply("multiply", expand(a, common_shape((a, b))), expand(b, common_shape((a, b))))
    return _tensordot(a, b, (-1,), (-2 if b.ndim > 1 else -1,))


@operation("x1", "x2")
def inner(x1: Any, x2: Any, /) -> Array:
    """Sums of products over the last dimensions."""
    a, b = as_arrays(x1, x2)
    return dot(a, b) if not a.ndim or not b.ndim else _tensordot(a, b, (-1,), (-1,))


@operation("x1", "x2")
def outer(x1: Any, x2: Any, /) -> Array:
    """The product of each element of one with each of the other."""
    a, b = (with_shape(one, (one.size,)) for one in as_arrays(x1, x2))
    return contracted(with_shape(a, (a.size, 1)), with_shape(b, (1, b.size)), ((1,), (0,)))


@operation("x1", "x2")
def vdot(x1: Any, x2: Any, /) -> Array:
    """The sum of the products of all elements, those of the first conjugated."""
    a, b = (with_shape(one, (one.size,)) for one in as_arrays(x1, x2))
    return vecdot(a, b)

