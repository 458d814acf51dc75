"""Reductions: sums, extremes and where they are, variances, norms."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf
from typing import Any

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, Number, lowering, normal_dimensions
from hlotool.torch.ops.pieces import (
    better_pair,
    count_along,
    dimension_of,
    element,
    highest,
    is_complex,
    is_float,
    lowest,
    positions,
    sizes,
    spread,
)
from hlotool.torch.refusal import Refused

__all__: list[str] = []

Dimensions = int | Sequence[int] | None


def _over(self: Instruction, dim: Dimensions) -> tuple[int, ...]:
    """The dimensions `dim`, ascending."""
    return tuple(sorted(set(normal_dimensions(dim, len(sizes(self))))))


def _added(c: Context, self: Instruction, over: Sequence[int], opcode: str, keepdim: bool) -> Instruction:
    """The sum or product in the type of the result, half floats in f32 on the way."""
    wide = c.computed(c.convert(self, c.type))
    return c.convert(c.reduce(wide, over, opcode, 0 if opcode == "add" else 1, keepdim), c.type)


@lowering("aten.sum.default", "aten.sum.dim_IntList")
def sum_(
    c: Context, self: Instruction, dim: Dimensions = None, keepdim: bool = False, *, dtype: Any = None
) -> Instruction:
    return _added(c, self, _over(self, dim), "add", keepdim)


@lowering("aten.prod.default", "aten.prod.dim_int")
def prod(
    c: Context, self: Instruction, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Instruction:
    return _added(c, self, _over(self, dim), "multiply", keepdim)


@lowering("aten.mean.default", "aten.mean.dim")
def mean(
    c: Context, self: Instruction, dim: Dimensions = None, keepdim: bool = False, *, dtype: Any = None
) -> Instruction:
    over = _over(self, dim)
    total = c.reduce(c.computed(c.convert(self, c.type)), over, "add", 0, keepdim)
    return c.convert(_divided(c, total, count_along(self, over)), c.type)


def _divided(c: Context, a: Instruction, by: float) -> Instruction:
    return c.builder.binary("divide", a, c.like(float(by), a))


def _need_elements(self: Instruction, over: Sequence[int]) -> None:
    """Refuses dimensions without elements, of which PyTorch says that nothing is the largest there."""
    if any(not sizes(self)[d] for d in over):
        raise Refused("the largest or smallest of no elements")


def _extreme(c: Context, self: Instruction, over: Sequence[int], largest: bool, keep: bool = False) -> Instruction:
    _need_elements(self, over)
    initial = (lowest if largest else highest)(element(self))
    return c.reduce(self, over, "maximum" if largest else "minimum", initial, keep)


@lowering("aten.amax.default", "aten.max.default")
def amax(c: Context, self: Instruction, dim: Dimensions = (), keepdim: bool = False) -> Instruction:
    return _extreme(c, self, _over(self, dim), True, keepdim)


@lowering("aten.amin.default", "aten.min.default")
def amin(c: Context, self: Instruction, dim: Dimensions = (), keepdim: bool = False) -> Instruction:
    return _extreme(c, self, _over(self, dim), False, keepdim)


@lowering("aten.aminmax.default")
def aminmax(
    c: Context, self: Instruction, *, dim: int | None = None, keepdim: bool = False
) -> tuple[Instruction, Instruction]:
    over = _over(self, dim)
    return _extreme(c, self, over, False, keepdim), _extreme(c, self, over, True, keepdim)


def _best(
    c: Context, self: Instruction, dim: int, keepdim: bool, largest: bool
) -> tuple[Instruction, Instruction]:
    """The extreme along a dimension, and the first place where it is."""
    if not sizes(self):
        return self, c.full(0, "s64")
    along = dimension_of(dim, len(sizes(self)))
    _need_elements(self, (along,))
    index = "s32" if sizes(self)[along] < 2**31 else "s64"
    value = c.convert(self, "u8") if element(self) == "pred" else self
    initial = (lowest if largest else highest)(element(value))
    pair = c.builder.reduce(
        (value, positions(c, sizes(self), along, index)),
        (c.full(initial, element(value)), c.full(2**31 - 1 if index == "s32" else 2**63 - 1, index)),
        (along,),
        better_pair(c, element(value), index, largest=largest),
    )
    found, place = c.convert(c.builder.gte(pair, 0), element(self)), c.convert(c.builder.gte(pair, 1), "s64")
    return (c.unsqueeze(found, (along,)), c.unsqueeze(place, (along,))) if keepdim else (found, place)


@lowering("aten.max.dim")
def max_dim(c: Context, self: Instruction, dim: int, keepdim: bool = False) -> tuple[Instruction, Instruction]:
    return _best(c, self, dim, keepdim, True)


@lowering("aten.min.dim")
def min_dim(c: Context, self: Instruction, dim: int, keepdim: bool = False) -> tuple[Instruction, Instruction]:
    return _best(c, self, dim, keepdim, False)


def _arg(c: Context, self: Instruction, dim: int | None, keepdim: bool, largest: bool) -> Instruction:
    if dim is not None:
        return _best(c, self, dim, keepdim, largest)[1]
    _, place = _best(c, c.builder.reshape(self, (self.shape.size,)), 0, False, largest)
    return c.builder.reshape(place, c.dimensions)


@lowering("aten.argmax.default")
def argmax(c: Context, self: Instruction, dim: int | None = None, keepdim: bool = False) -> Instruction:
    return _arg(c, self, dim, keepdim, True)


@lowering("aten.argmin.default")
def argmin(c: Context, self: Instruction, dim: int | None = None, keepdim: bool = False) -> Instruction:
    return _arg(c, self, dim, keepdim, False)


@lowering("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(c: Context, self: Instruction, dim: Dimensions = None, keepdim: bool = False) -> Instruction:
    return c.convert(c.reduce(c.convert(self, "pred"), _named(self, dim), "or", 0, keepdim), c.type)


@lowering("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_(c: Context, self: Instruction, dim: Dimensions = None, keepdim: bool = False) -> Instruction:
    return c.convert(c.reduce(c.convert(self, "pred"), _named(self, dim), "and", 1, keepdim), c.type)


def _named(self: Instruction, dim: Dimensions) -> tuple[int, ...]:
    """For any and all an empty list of dimensions is none of them."""
    return () if dim is not None and not isinstance(dim, int) and not len(dim) else _over(self, dim)


# ---- variances


def _moments(
    c: Context, self: Instruction, over: Sequence[int], correction: Number, keep: bool
) -> tuple[Instruction, Instruction]:
    """Variance (of complex numbers that of both parts) and mean, in the type that they are computed in."""
    if not is_float(element(self)) and not is_complex(element(self)):
        raise Refused(f"the variance of {element(self)}")
    wide, n = c.computed(self), count_along(self, over)
    average = _divided(c, c.reduce(wide, over, "add", 0, True), n)
    kept = [d for d in range(len(sizes(self))) if d not in over]
    shown = c.builder.reshape(average, [sizes(self)[d] for d in kept])
    away = c.builder.binary("subtract", wide, spread(c, shown, kept, sizes(self)))
    if is_complex(element(away)):
        parts = [c.builder.unary(part, away) for part in ("real", "imag")]
        squares = c.builder.binary("add", *(c.builder.binary("multiply", one, one) for one in parts))
    else:
        squares = c.builder.binary("multiply", away, away)
    assert not isinstance(correction, complex)
    variance = _divided(c, c.reduce(squares, over, "add", 0, keep), max(n - correction, 0))
    return variance, average if keep else shown


def _correction(correction: Number | None, unbiased: bool) -> Number:
    return int(unbiased) if correction is None else correction


_VARIANCES = ("default", "dim", "correction")


@lowering(*(f"aten.var.{one}" for one in _VARIANCES))
def var(
    c: Context, self: Instruction, dim: Dimensions = None, unbiased: bool = True, keepdim: bool = False, *,
    correction: Number | None = None,
) -> Instruction:  # fmt: skip
    return c.convert(_moments(c, self, _over(self, dim), _correction(correction, unbiased), keepdim)[0], c.type)


@lowering(*(f"aten.std.{one}" for one in _VARIANCES))
def std(
    c: Context, self: Instruction, dim: Dimensions = None, unbiased: bool = True, keepdim: bool = False, *,
    correction: Number | None = None,
) -> Instruction:  # fmt: skip
    variance, _ = _moments(c, self, _over(self, dim), _correction(correction, unbiased), keepdim)
    return c.convert(c.builder.unary("sqrt", variance), c.type)


@lowering(*(f"aten.var_mean.{one}" for one in _VARIANCES))
def var_mean(
    c: Context, self: Instruction, dim: Dimensions = None, unbiased: bool = True, keepdim: bool = False, *,
    correction: Number | None = None,
) -> tuple[Instruction, Instruction]:  # fmt: skip
    variance, average = _moments(c, self, _over(self, dim), _correction(correction, unbiased), keepdim)
    return c.convert(variance, c.type), c.convert(average, element(self))


@lowering(*(f"aten.std_mean.{one}" for one in _VARIANCES))
def std_mean(
    c: Context, self: Instruction, dim: Dimensions = None, unbiased: bool = True, keepdim: bool = False, *,
    correction: Number | None = None,
) -> tuple[Instruction, Instruction]:  # fmt: skip
    variance, average = _moments(c, self, _over(self, dim), _correction(correction, unbiased), keepdim)
    return c.convert(c.builder.unary("sqrt", variance), c.type), c.convert(average, element(self))


# ---- norms


@lowering("aten.logsumexp.default")
def logsumexp(c: Context, self: Instruction, dim: Dimensions, keepdim: bool = False) -> Instruction:
    over = _over(self, dim)
    wide = c.computed(c.convert(self, c.type))
    real = c.builder.unary("real", wide) if is_complex(c.type) else wide
    most = _extreme(c, real, over, True)
    finite = c.builder.compare(c.builder.unary("abs", most), c.like(float("inf"), most), "NE")
    most = c.convert(c.builder.select(finite, most, c.like(0, most)), element(wide))
    kept = [d for d in range(len(sizes(self))) if d not in over]
    away = c.builder.binary("subtract", wide, spread(c, most, kept, sizes(self)))
    total = c.reduce(c.builder.unary("exponential", away), over, "add", 0)
    found = c.builder.binary("add", c.builder.unary("log", total), most)
    return c.convert(c.unsqueeze(found, over) if keepdim else found, c.type)


def _norm(c: Context, self: Instruction, order: Number, over: Sequence[int], keepdim: bool) -> Instruction:
    """The norm of vectors: (sum of |x|^p)^(1/p), with the limits of p = 0 and infinity."""
    b = c.builder
    if is_complex(c.type):
        raise Refused("a norm with a complex type")
    wide = c.computed(self)
    size = wide if not (is_float(element(wide)) or is_complex(element(wide))) else b.unary("abs", wide)
    size = c.convert(size, element(c.computed(c.full(0, c.type))))
    p = float(order)  # type: ignore[arg-type]  # orders are real
    if isinf(p):
        initial = 0 if p > 0 else highest(element(size))
        found = c.reduce(size, over, "maximum" if p > 0 else "minimum", initial, keepdim)
    elif p == 0:
        found = c.reduce(c.convert(c.convert(size, "pred"), element(size)), over, "add", 0, keepdim)
    elif p == 1:
        found = c.reduce(size, over, "add", 0, keepdim)
    elif p == 2:
        found = b.unary("sqrt", c.reduce(b.binary("multiply", size, size), over, "add", 0, keepdim))
    else:
        total = c.reduce(b.binary("power", size, c.like(p, size)), over, "add", 0, keepdim)
        found = b.binary("power", total, c.like(1 / p, total))
    return c.convert(found, c.type)


@lowering("aten.linalg_vector_norm.default")
def linalg_vector_norm(
    c: Context, self: Instruction, ord: Number = 2, dim: Dimensions = None, keepdim: bool = False, *, dtype: Any = None
) -> Instruction:
    return _norm(c, c.convert(self, c.type) if _widens(c, self, dtype) else self, ord, _over(self, dim), keepdim)


def _widens(c: Context, self: Instruction, dtype: Any) -> bool:
    """Whether `dtype`, which is of the same kind, asks for another type."""
    return dtype is not None and not is_complex(element(self)) and element(self) != c.type
