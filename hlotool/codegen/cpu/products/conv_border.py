"""Results of a convolution whose windows reach beyond the input, where the kernel is not finite.

Padding takes no part in the sum, but tiles that do not leave it out (see `conv`) read it as zeros, and zero times an
infinity or a NaN of the kernel is a NaN.  Such a product always shows: the result is a NaN then.  So the tasks of a
convolution look through the pixels of the border when they have made them (few, and in cache).  The first to find a
NaN looks through the kernel; where that is not finite, what is not a number is computed once more, one multiply-add at
a time over the window elements that meet the input.

The functions are the same for all convolutions of the same types, which differ in a table of numbers: a program
holds them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hlotool.codegen.cpu.products.conv_spec import ConvSpec
from hlotool.codegen.cpu.products.product import Border
from hlotool.codegen.kernel import PLUMBING, Helper, Step, signature
from hlotool.codegen.llvm.arguments import Place, argument
from hlotool.codegen.llvm.control import Header, allocate, begin_loop, call, when
from hlotool.codegen.llvm.elements import Arithmetic, Element, arithmetic, element, load, store, widen
from hlotool.codegen.llvm.values import Bool, Index, Int, Ptr, Vector, choose, iota, number, zeros
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass

__all__ = ["emit_border", "emit_flag"]

_UNKNOWN, _FINITE, _NOT_FINITE = range(3)
"""What the flag says of the kernel."""

# The table: numbers of the whole convolution, then rows of one for each spatial dimension.  All strides are in bytes.
_WHOLE = (
    "lhs", "rhs", "start", "terms", "features", "rank", "images", "image", "outputs", "output", "share",
    "a_image", "a_group", "a_feature", "b_output", "b_feature", "b_start", "weights", "flag_slot", "flag",
)
_SPATIAL = (
    "extent", "pixel", "stride", "padding", "kernel", "dilation", "holes", "size", "a_spatial", "b_spatial",
)


def emit_border(
    unit: Unit, name: str, spec: ConvSpec, slots: tuple[int, int], strides: Sequence[int], start: int, flag: Place
) -> Border:
    """What sees to the border of a product that makes part of `spec`'s result.

    The operands are in arguments `slots`.  `strides` are those of the result's batch, spatial dimensions and features
    in bytes; it is dense, and the product's part begins `start` bytes into it.  `flag` is what `emit_flag` clears.
    """
    table, numbers = f"border_{name}", _numbers(spec, slots, strides, start, flag)
    unit.constant(table, f"[{len(numbers)} x i64] [{', '.join(f'i64 {number}' for number in numbers)}]")
    assert unit.machine is not None
    function, helper = _helper(spec.types, unit.machine)
    unit.use(helper)
    return Border(function, table)


@cache
def _helper(types: tuple[str, str, str, str], machine: Machine) -> tuple[str, Helper]:
    """The function for convolutions with these types of operands, result and sums, and its name."""
    left, right, stored = (element(kind) for kind in types[:3])
    sums, own = arithmetic(types[3], machine), Unit(machine)
    function, look, fix = (f"convolution_{part}_{'_'.join(types)}" for part in ("border", "kernel", "element"))
    _emit_scan(own, function, look, fix, stored, sums)
    _emit_look(own, look, right, sums)
    _emit_elements(own, fix, (left, right, stored), sums)
    return function, Helper(own.declared, own.defined, own.definitions[0].declaration)


def emit_flag(unit: Unit, name: str, flag: Place) -> Step:
    """Define step function `name`, which clears what is known about the kernel."""
    f = Function(unit, signature(name, plumbing=True))
    argument(f, flag).store(_UNKNOWN, align=8)
    f.finish()
    return Step(name, 1, 1.0)


def _numbers(
    spec: ConvSpec, slots: tuple[int, int], strides: Sequence[int], start: int, flag: Place
) -> list[int]:
    """The table, for `emit_border`."""
    c_batch, *c_spatial, c_feature = strides
    features, images, weights = spec.features, spec.result[0], spec.window * spec.features * spec.output_features
    whole = {
        "lhs": slots[0], "rhs": slots[1], "start": start,
        "terms": spec.window * features, "features": features, "rank": len(spec.spatial),
        "images": images, "image": c_batch, "outputs": spec.output_features, "output": c_feature,
        "share": spec.share, "a_image": spec.lhs_batch,
        "a_group": features * spec.lhs_feature if spec.feature_groups > 1 else images * spec.lhs_batch,
        "a_feature": spec.lhs_feature, "b_output": spec.rhs_output, "b_feature": spec.rhs_input,
        "b_start": spec.rhs_start, "weights": weights * element(spec.types[1]).components,
        "flag_slot": flag.slot, "flag": flag.start,
    }
    spatial = [
        {
            "extent": d.output, "pixel": pixel, "stride": d.stride, "padding": d.padding, "kernel": d.kernel,
            "dilation": d.window_dilation, "holes": d.base_dilation, "size": d.input, "a_spatial": d.lhs,
            "b_spatial": d.rhs,
        }
        for d, pixel in zip(spec.spatial, c_spatial, strict=True)
    ]
    return [whole[key] for key in _WHOLE] + [dimension[key] for dimension in spatial for key in _SPATIAL]


@dataclass(frozen=True, slots=True)
class _Table:
    """Numbers of the table of function `f`, by name: of the whole convolution, or of a spatial `dimension`."""

    f: Function
    dimension: Index | None = None

    def __getitem__(self, key: str) -> Int:
        table = Ptr(self.f, "%table")
        if self.dimension is None:
            return (table + 8 * _WHOLE.index(key)).load_int()
        row = table + self.dimension * (8 * len(_SPATIAL))
        return (row + 8 * (len(_WHOLE) + _SPATIAL.index(key))).load_int()

    def buffer(self, slot: str) -> Ptr:
        """The argument whose number is `slot`."""
        return Ptr(self.f, "%args").slot(self[slot]).load_ptr()

    def flag(self) -> Ptr:
        """What is known about the kernel."""
        return self.buffer("flag_slot") + self["flag"]


def _emit_scan(unit: Unit, name: str, look: str, fix: str, stored: Element, arithmetic: Arithmetic) -> None:
    """Define function `name`, with the arguments that `Border` gives: call `fix` on what is a NaN, unless `look` finds
    that the kernel is finite.

    Rows of the border are few: LLVM may take the quick way.
    """
    f = Function(
        unit,
        f"void @{name}(ptr %args, ptr %table, ptr %c, i64 %place, i64 %rows, i64 %columns, i64 %pitch, "
        f"i64 %step) nounwind {PLUMBING}",
    )
    args, table = Ptr(f, "%args"), Ptr(f, "%table")
    count = number(f, Int(f, "%columns") * arithmetic.components)
    end = count.vector().resize("i32", signed=False).spread(arithmetic.lanes)
    row = begin_loop(f, 0, Int(f, "%rows"), 1, Ptr(f, "%c"), Int(f, "%place"))
    first, row_place = row.values
    column = begin_loop(f, 0, count, arithmetic.lanes, first, iota(f, "i32", arithmetic.lanes))
    at, lanes = column.values
    result = widen(at.load_masked(stored.storage, lanes.lt(end)), stored, arithmetic.type)
    strange = result.compare("uno", result).reduce("or").bit()
    left = count - column.index

    def known() -> Int:
        return _Table(f).flag().load_atomic()

    def again() -> None:
        when(known().eq(_UNKNOWN), lambda: call(f, f"@{look}", args, table))
        when(known().eq(_NOT_FINITE), lambda: call(f, f"@{fix}", args, table, at, place(), left))

    def place() -> Int:
        return row_place + column.index * stored.size

    when(strange, again)
    lanes += arithmetic.lanes
    column.end(at + arithmetic.lanes * stored.size, lanes)
    row.end(first + Int(f, "%pitch"), row_place + Int(f, "%step"))
    f.finish()


def _emit_look(unit: Unit, name: str, stored: Element, arithmetic: Arithmetic) -> None:
    """Define ``void @name(ptr %args, ptr %table)``: see whether the kernel, a dense array, is finite, and keep that.

    Rarely called, and waits for memory: LLVM may take the quick way.
    """
    f = Function(unit, f"internal void @{name}(ptr %args, ptr %table) nounwind {PLUMBING}")
    table = _Table(f)
    count = table["weights"]
    at, some, done = table.buffer("rhs"), Vector(f, "i1", 1, "false"), Int(f, "0")
    for lanes in (arithmetic.lanes, 1):
        trips = (count - done) // lanes
        loop = begin_loop(f, 0, trips, 1, at, zeros(f, arithmetic.type, lanes))
        at, total = loop.values
        value = load(at, stored, arithmetic.type, lanes)
        nothing = value - value  # or a NaN, and then the sum is one
        at, total = loop.end(at + lanes * stored.size, total + nothing)
        strange = total.compare("uno", total)
        some |= strange if lanes == 1 else strange.reduce("or")
        done = number(f, trips * lanes)
    state = choose(some.bit(), _NOT_FINITE, _FINITE)
    table.flag().store_atomic(state)
    f.finish()


def _emit_elements(unit: Unit, name: str, types: tuple[Element, Element, Element], arithmetic: Arithmetic) -> None:
    """Define ``void @name(ptr %args, ptr %table, ptr %from, i64 %place, i64 %left)``: elements, by the definition.

    They are those from %from to the end of a row, %left scalars on, but no more than a vector of them; they belong
    %place bytes into the product's part of the result.  A sum that is a NaN ends early, so that data full of them
    costs little.  Rarely called: LLVM may take the quick way.
    """
    left, right, stored = types
    f = Function(
        unit,
        f"internal void @{name}(ptr %args, ptr %table, ptr %from, i64 %place, i64 %left) nounwind {PLUMBING}",
    )
    table, totals = _Table(f), [allocate(f, arithmetic.type) for _ in range(arithmetic.components)]
    rank, features, share = (table[key] for key in ("rank", "features", "share"))
    origins = allocate(f, "i64", rank)  # places of an element's window in the spatial dimensions
    lhs, rhs = table.buffer("lhs"), table.buffer("rhs")
    count = Int(f, "%left").at_most(arithmetic.lanes).signed_quotient(arithmetic.components)
    each = begin_loop(f, 0, count, 1, Ptr(f, "%from"), Int(f, "%place") + table["start"])
    to, place = each.values

    feature = _coordinate(place, table, "output", "outputs")
    first_a = lhs + _coordinate(place, table, "image", "images") * table["a_image"]
    first_a += feature // share * table["a_group"]
    first_b = rhs + feature * table["b_output"] + table["b_start"]
    pixel = begin_loop(f, 0, rank)
    spatial = _Table(f, pixel.index)
    origin = _coordinate(place, spatial, "pixel", "extent") * spatial["stride"] - spatial["padding"]
    origins.at("i64", pixel.index).store(origin)
    pixel.end()
    for total in totals:
        total.store(zeros(f, arithmetic.type))

    tap, body, done = Header(number(f, 0)), f.fresh("body"), f.fresh("done")
    values = [total.load(arithmetic.type) for total in totals]
    more = tap.value < table["terms"]
    f.branch((more & values[0].compare("ord", values[-1]).bit()).name, body, done)
    f.label(body)
    window, deep = tap.value // features, tap.value % features
    a, b = first_a + deep * table["a_feature"], first_b + deep * table["b_feature"]
    inside, a, b = _emit_term(rank, origins, number(f, window), a, b)
    when(inside, lambda: _emit_multiply_add([(a, left), (b, right)], totals, values))
    tap.again(tap.value + 1)
    f.label(done)
    for part, total in enumerate(totals):
        store(total.load(arithmetic.type), to + part * stored.size, stored)
    each.end(to + stored.bytes, place + stored.bytes)
    f.finish()


def _coordinate(place: Int, table: _Table, stride: str, extent: str) -> Int:
    """The coordinate of an element of the result, from the names of a dimension's stride and extent."""
    return number(place.f, place // table[stride] % table[extent])


def _emit_term(rank: Int, origins: Ptr, window: Int, a: Ptr, b: Ptr) -> tuple[Bool, Ptr, Ptr]:
    """Whether element number `window` of the window meets the input, and where the factors of a term are then.

    `a` and `b` is where they would be if all coordinates were zero.
    """
    f = rank.f
    loop = begin_loop(f, 0, rank, 1, window, Bool(f, "true"), a, b)
    left, inside, a, b = loop.values
    at = rank - loop.index - 1
    spatial = _Table(f, at)
    kernel, holes = spatial["kernel"], spatial["holes"]
    index = left % kernel
    place = origins.at("i64", at).load_int() + index * spatial["dilation"]
    inside &= number(f, place % holes).eq(0)
    place //= holes  # a negative place is a very large one
    inside &= place.below(spatial["size"])
    a, b = a + place * spatial["a_spatial"], b + index * spatial["b_spatial"]
    _, inside, a, b = loop.end(left // kernel, inside, a, b)
    return inside, a, b


def _emit_multiply_add(
    factors: Sequence[tuple[Ptr, Element]], totals: Sequence[Ptr], values: Sequence[Vector]
) -> None:
    """Add the product of two factors to `values` of the sums, and write those to `totals`; a complex sum has two."""
    x, y = (
        [load(place + part * kind.size, kind, values[0].element) for part in range(kind.components)]
        for place, kind in factors
    )
    products = [[(x[0], y[0])]]
    if len(totals) > 1:
        products = [[(x[0], y[0]), (-x[1], y[1])], [(x[0], y[1]), (x[1], y[0])]]
    for total, value, terms in zip(totals, values, products, strict=True):
        for one, other in terms:
            value = one.call("fmuladd", other, value)
        total.store(value)
