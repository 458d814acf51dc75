"""Sorting, the greatest elements, and what accumulates along a dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.ir import Computation, Instruction
from hlotool.ir.attributes import Window, WindowDimension
from hlotool.ir.builder import Builder
from hlotool.ir.shape import scalar
from hlotool.torch.lowering import Context, lowering
from hlotool.torch.ops.pieces import (
    better_pair,
    dimension_of,
    element,
    highest,
    is_complex,
    is_float,
    lowest,
    narrow,
    positions,
    sizes,
    squeeze,
)
from hlotool.torch.refusal import Refused

__all__: list[str] = []


def _precedes(c: Context, element_type: str, index_type: str, descending: bool) -> Computation:
    """Whether the first of two (value, index) comes before the second: NaN is the greatest, equals stay in order."""
    computation = Computation(f"precedes_{element_type}")
    b = Builder(computation)
    first, second = b.parameter(0, scalar(element_type)), b.parameter(1, scalar(element_type))
    b.parameter(2, scalar(index_type))
    b.parameter(3, scalar(index_type))
    found = b.compare(first, second, "GT" if descending else "LT")
    if is_float(element_type):
        nan, other = (b.compare(one, one, "NE") for one in ((first, second) if descending else (second, first)))
        found = b.binary("or", found, b.binary("and", nan, b.unary("not", other)))
    computation.root = found
    return c.own(computation)


def _sorted(c: Context, self: Instruction, along: int, descending: bool) -> tuple[Instruction, Instruction]:
    """Elements in order, and where they were."""
    if is_complex(element(self)):
        raise Refused("an order of complex numbers")
    value = c.convert(self, "u8") if element(self) == "pred" else self
    index = "s32" if sizes(self)[along] < 2**31 else "s64"
    attributes = {
        "dimensions": (along,), "is_stable": True, "to_apply": _precedes(c, element(value), index, descending),
    }  # fmt: skip
    pair = c.builder.add("sort", None, (value, positions(c, sizes(self), along, index)), attributes)
    return c.convert(c.builder.gte(pair, 0), element(self)), c.convert(c.builder.gte(pair, 1), "s64")


@lowering("aten.sort.default", "aten.sort.stable")
def sort(
    c: Context, self: Instruction, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> tuple[Instruction, Instruction]:
    if not sizes(self):
        return self, c.full(0, "s64")
    return _sorted(c, self, dimension_of(dim, len(sizes(self))), descending)


@lowering("aten.topk.default")
def topk(
    c: Context, self: Instruction, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Instruction, Instruction]:
    if not sizes(self):
        if not k:
            raise Refused("no element of a scalar")
        return self, c.full(0, "s64")
    along = dimension_of(dim, len(sizes(self)))
    values, places = _sorted(c, self, along, largest)
    return narrow(c, values, along, 0, k), narrow(c, places, along, 0, k)


@lowering("aten.kthvalue.default")
def kthvalue(
    c: Context, self: Instruction, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[Instruction, Instruction]:
    if not sizes(self):
        return self, c.full(0, "s64")
    along = dimension_of(dim, len(sizes(self)))
    if not 1 <= k <= sizes(self)[along]:
        raise Refused(f"the {k}-th of {sizes(self)[along]} elements")
    found = [narrow(c, one, along, k - 1, k) for one in _sorted(c, self, along, descending=False)]
    one, place = found if keepdim else (squeeze(c, one, (along,)) for one in found)
    return one, place


# ---- along a dimension, element after element


def _cumulative(
    c: Context, arrays: Sequence[Instruction], initial: Sequence[Instruction], along: int, reducer: Computation
) -> Instruction:
    """`reducer` over every element and all before it."""
    rank, size = len(sizes(arrays[0])), sizes(arrays[0])[along]
    window = [WindowDimension(1)] * rank
    window[along] = WindowDimension(size, padding_low=size - 1)
    attributes = {"window": Window(tuple(window)), "to_apply": reducer}
    return c.builder.add("reduce-window", None, (*arrays, *initial), attributes)


def _one_by_one(c: Context, self: Instruction, dim: int, opcode: str) -> Instruction:
    wide = c.computed(c.convert(self, c.type))
    if not sizes(self) or not self.shape.size:
        return c.convert(wide, c.type)
    kind = element(wide)
    initial = c.full(0 if opcode == "add" else 1, kind)
    along = dimension_of(dim, len(sizes(self)))
    return c.convert(_cumulative(c, (wide,), (initial,), along, c.reducer(opcode, kind)), c.type)


@lowering("aten.cumsum.default")
def cumsum(c: Context, self: Instruction, dim: int, *, dtype: Any = None) -> Instruction:
    return _one_by_one(c, self, dim, "add")


@lowering("aten.cumprod.default")
def cumprod(c: Context, self: Instruction, dim: int, *, dtype: Any = None) -> Instruction:
    return _one_by_one(c, self, dim, "multiply")


def _extremes(c: Context, self: Instruction, dim: int, largest: bool) -> tuple[Instruction, Instruction]:
    """The greatest of all elements so far, and where the last of those was."""
    if not sizes(self) or not self.shape.size:
        return self, c.full(0, "s64", sizes(self))
    along = dimension_of(dim, len(sizes(self)))
    value = c.convert(self, "u8") if element(self) == "pred" else self
    index = "s32" if sizes(self)[along] < 2**31 else "s64"
    kind = element(value)
    pair = _cumulative(
        c,
        (value, positions(c, sizes(self), along, index)),
        (c.full((lowest if largest else highest)(kind), kind), c.full(-1, index)),
        along,
        better_pair(c, kind, index, largest=largest, last=True, last_nan=True),
    )
    return c.convert(c.builder.gte(pair, 0), element(self)), c.convert(c.builder.gte(pair, 1), "s64")


@lowering("aten.cummax.default")
def cummax(c: Context, self: Instruction, dim: int) -> tuple[Instruction, Instruction]:
    return _extremes(c, self, dim, largest=True)


@lowering("aten.cummin.default")
def cummin(c: Context, self: Instruction, dim: int) -> tuple[Instruction, Instruction]:
    return _extremes(c, self, dim, largest=False)


@lowering("aten.logcumsumexp.default")
def logcumsumexp(c: Context, self: Instruction, dim: int) -> Instruction:
    if is_complex(element(self)):
        raise Refused("logcumsumexp of complex numbers")
    if not sizes(self) or not self.shape.size:
        return self
    wide = c.computed(self)
    kind = element(wide)
    along = dimension_of(dim, len(sizes(self)))
    found = _cumulative(c, (wide,), (c.full(float("-inf"), kind),), along, _log_add_exp(c, kind))
    return c.convert(found, c.type)


def _log_add_exp(c: Context, element_type: str) -> Computation:
    """``log(exp(a) + exp(b))``; of equal infinities these."""
    computation = Computation(f"log_add_exp_{element_type}")
    b = Builder(computation)
    first, second = b.parameter(0, scalar(element_type)), b.parameter(1, scalar(element_type))
    most, least = b.binary("maximum", first, second), b.binary("minimum", first, second)
    away = b.unary("exponential", b.binary("subtract", least, most))
    made = b.binary("add", most, b.unary("log-plus-one", away))
    infinite = b.compare(b.unary("abs", most), b.scalar_constant(float("inf"), element_type), "EQ")
    same = b.binary("and", b.compare(first, second, "EQ"), infinite)
    computation.root = b.select(same, most, made)
    return c.own(computation)
