"""Sorting, the greatest elements, and what accumulates along a dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlotool.ir import Computation, Instruction
from hlotool.ir.attributes import Window, WindowDimension
from hlotool.ir.builder import Builder
from hlotool.ir.shape import scalar
from hlotool.torch.lowering import Context, Number, lowering
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
    spread,
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


# ---- medians and the most frequent


def _middle(c: Context, self: Instruction, along: int, ignore_nan: bool) -> tuple[Instruction, Instruction]:
    """The lower median along a dimension, and where it is; of elements with NaN that, unless NaN does not count."""
    size = sizes(self)[along]
    if not size:
        raise Refused("the median of nothing")
    values, places = _sorted(c, self, along, descending=False)
    if not is_float(element(self)):
        k = (size - 1) // 2
        found = narrow(c, values, along, k, k + 1), narrow(c, places, along, k, k + 1)
        return squeeze(c, found[0], (along,)), squeeze(c, found[1], (along,))
    b = c.builder
    numbers = c.reduce(c.convert(b.compare(self, self, "EQ"), "s32"), (along,), "add", 0)
    if ignore_nan:
        middle = b.binary("subtract", numbers, c.like(1, numbers))
        middle = b.binary("shift-right-logical", b.binary("maximum", middle, c.like(0, middle)), c.like(1, middle))
    else:  # NaN stand at the end
        whole = b.compare(numbers, c.like(size, numbers), "EQ")
        middle = b.select(whole, c.like((size - 1) // 2, numbers), numbers)
    kept = [d for d in range(len(sizes(self))) if d != along]
    there = b.compare(positions(c, sizes(self), along, "s32"), spread(c, middle, kept, sizes(self)), "EQ")
    picked = [
        c.reduce(b.select(there, one, c.like(0, one)), (along,), "add", 0) for one in (values, places)
    ]
    return picked[0], picked[1]


def _median(name: str, ignore_nan: bool) -> None:
    @lowering(f"aten.{name}.default")
    def whole(c: Context, self: Instruction) -> Instruction:
        if not self.shape.size:
            raise Refused("the median of nothing")
        return _middle(c, c.builder.reshape(self, (self.shape.size,)), 0, ignore_nan)[0]

    @lowering(f"aten.{name}.dim")
    def of_dimension(
        c: Context, self: Instruction, dim: int, keepdim: bool = False
    ) -> tuple[Instruction, Instruction]:
        if not sizes(self):
            return self, c.full(0, "s64")
        along = dimension_of(dim, len(sizes(self)))
        found, place = _middle(c, self, along, ignore_nan)
        return (c.unsqueeze(found, (along,)), c.unsqueeze(place, (along,))) if keepdim else (found, place)


_median("median", False)
_median("nanmedian", True)


@lowering("aten.mode.default")
def mode(c: Context, self: Instruction, dim: int = -1, keepdim: bool = False) -> tuple[Instruction, Instruction]:
    """The most frequent element, the smallest of several, and the last place where it is: the longest run in order."""
    if not sizes(self):
        return self, c.full(0, "s64")
    along = dimension_of(dim, len(sizes(self)))
    size = sizes(self)[along]
    if not size:
        raise Refused("the most frequent of nothing")
    b = c.builder
    values, places = _sorted(c, self, along, descending=False)
    before = b.concatenate([narrow(c, values, along, 0, 1), narrow(c, values, along, 0, size - 1)], along)
    place = positions(c, sizes(self), along, "s32")
    starts = b.select(b.compare(values, before, "NE"), place, c.like(0, place))
    began = _cumulative(c, (starts,), (c.full(0, "s32"),), along, c.reducer("maximum", "s32"))
    pair = b.reduce(
        (b.binary("subtract", place, began), place), (c.full(-1, "s32"), c.full(2**31 - 1, "s32")), (along,),
        better_pair(c, "s32", "s32", largest=True),
    )  # fmt: skip
    kept = [d for d in range(len(sizes(self))) if d != along]
    there = b.compare(place, spread(c, b.gte(pair, 1), kept, sizes(self)), "EQ")
    adders = ("or" if element(self) == "pred" else "add", "add")
    found = [
        c.reduce(b.select(there, one, c.like(0, one)), (along,), adder, 0, keepdim)
        for one, adder in zip((values, places), adders, strict=True)
    ]
    return found[0], found[1]


@lowering("aten.histc.default")
def histc(c: Context, self: Instruction, bins: int = 100, min: Number = 0, max: Number = 0) -> Instruction:
    """How many elements are in each of `bins` parts of equal size; ends that are equal are those of the elements."""
    if not is_float(c.type) or not self.shape.size:
        raise Refused("a histogram of integers, or of nothing")
    b = c.builder
    x = b.reshape(self, (self.shape.size,))
    low, high = c.full(min, c.type), c.full(max, c.type)
    if min == max:
        low = c.reduce(x, (0,), "minimum", highest(c.type))
        high = c.reduce(x, (0,), "maximum", lowest(c.type))
        same, one = b.compare(low, high, "EQ"), c.like(1, low)
        low, high = (b.select(same, b.binary(o, v, one), v) for o, v in (("subtract", low), ("add", high)))
    low, high = (spread(c, one, (), sizes(x)) for one in (low, high))
    share = b.binary("divide", b.binary("subtract", x, low), b.binary("subtract", high, low))
    place = c.convert(b.binary("multiply", share, c.like(bins, share)), "s32")
    place = b.binary("minimum", place, c.like(bins - 1, place))
    inside = b.binary("and", b.compare(x, low, "GE"), b.compare(x, high, "LE"))
    place = b.select(inside, place, c.like(bins, place))  # outside: dropped
    attributes = {
        "update_window_dims": (), "inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1, "to_apply": c.reducer("add", c.type),
    }  # fmt: skip
    return b.add("scatter", None, (c.full(0, c.type, (bins,)), place, c.like(1, x)), attributes)


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
    if not is_float(element(self)):
        raise Refused(f"logcumsumexp of {element(self)}")
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
