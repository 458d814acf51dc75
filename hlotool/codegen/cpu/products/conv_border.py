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

import math
from collections.abc import Sequence
from functools import cache

from hlotool.codegen.cpu.products.conv_spec import ConvSpec
from hlotool.codegen.kernel import PLUMBING, Helper, Step, signature
from hlotool.codegen.llvm.addressing import Place, argument, load, offset, store, vector_type, when, widen
from hlotool.codegen.llvm.elements import Arithmetic, Element, arithmetic, element
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine

__all__ = ["emit_border", "emit_flag"]

_UNKNOWN, _FINITE, _NOT_FINITE = range(3)
"""What the flag says of the kernel."""

# The table: numbers of the whole convolution, then rows of one for each spatial dimension.  All strides are in bytes.
_WHOLE = (
    "lhs", "rhs", "start", "terms", "features", "rank", "images", "image", "made", "feature", "share",
    "a_image", "a_group", "a_feature", "b_output", "b_feature", "b_start", "weights", "flag_slot", "flag",
)
_SPATIAL = (
    "extent", "pixel", "stride", "padding", "kernel", "dilation", "holes", "size", "a_spatial", "b_spatial",
)


def emit_border(
    unit: Unit, name: str, spec: ConvSpec, slots: tuple[int, int], strides: Sequence[int], start: int, flag: Place
) -> str:
    """The call for the border rows of a product that makes part of `spec`'s result.

    The call is text, but for ``call void`` and the last arguments: see `gemm.Finish`.  The operands are in
    arguments `slots`.  `strides` are those of the result's batch, spatial dimensions and features in bytes; it is
    dense, and the product's part begins `start` bytes into it.  `flag` is what `emit_flag` clears.
    """
    left, right = element(spec.lhs), element(spec.rhs)
    table = f"border_{name}"
    numbers = _numbers(spec, left.bytes, right.bytes, slots, strides, start)
    numbers[_WHOLE.index("flag_slot")], numbers[_WHOLE.index("flag")] = flag.slot, flag.start
    unit.constant(table, f"[{len(numbers)} x i64] [{', '.join(f'i64 {number}' for number in numbers)}]")
    assert unit.machine is not None
    function, helper = _helper((spec.lhs, spec.rhs, spec.out, spec.accumulate), unit.machine)
    unit.use(helper)
    return f"@{function}(ptr %args, ptr @{table}, "


@cache
def _helper(types: tuple[str, str, str, str], machine: Machine) -> tuple[str, Helper]:
    """The function for convolutions with these types of operands, result and sums, and its name."""
    left, right, held = (element(kind) for kind in types[:3])
    how, own = arithmetic(types[3], machine), Unit(machine)
    function, look, fix = (f"convolution_{part}_{'_'.join(types)}" for part in ("border", "kernel", "element"))
    _emit_scan(own, function, look, fix, held, how)
    _emit_look(own, look, right, how)
    _emit_elements(own, fix, (left, right, held), how)
    declared = f"declare void @{function}(ptr, ptr, ptr, i64, i64, i64, i64, i64)"
    return function, Helper(own.declared, own.defined, declared)


def emit_flag(unit: Unit, name: str, flag: Place) -> Step:
    """Define step function `name`, which clears what is known about the kernel."""
    f = Function(unit, signature(name, plumbing=True))
    f.do(f"store i64 {_UNKNOWN}, ptr {argument(f, flag)}, align 8")
    f.finish()
    return Step(name, 1, 1.0)


def _numbers(
    spec: ConvSpec, left: int, right: int, slots: tuple[int, int], strides: Sequence[int], start: int
) -> list[int]:
    """The table; `left` and `right` are bytes of an element."""
    c_batch, *c_spatial, c_feature = strides
    features, images = spec.input_features // spec.feature_groups, spec.batch // spec.batch_groups
    by_feature = spec.feature_groups > 1
    last = [extent - 1 if back else 0 for extent, back in zip(spec.kernel, spec.reversal, strict=True)]
    whole = {
        "lhs": slots[0], "rhs": slots[1], "start": start,
        "terms": math.prod(spec.kernel) * features, "features": features, "rank": len(spec.input),
        "images": images, "image": c_batch, "made": spec.output_features, "feature": c_feature,
        "share": spec.output_features // spec.groups,
        "a_image": spec.lhs_batch * left,
        "a_group": (features * spec.lhs_feature if by_feature else images * spec.lhs_batch) * left,
        "a_feature": spec.lhs_feature * left, "b_output": spec.rhs_output * right, "b_feature": spec.rhs_input * right,
        "b_start": sum(at * stride for at, stride in zip(last, spec.rhs_spatial, strict=True)) * right,
        "weights": math.prod(spec.kernel) * features * spec.output_features * element(spec.rhs).components,
        "flag_slot": 0, "flag": 0,
    }
    spatial = [
        {
            "extent": spec.output[at], "pixel": c_spatial[at], "stride": spec.strides[at],
            "padding": spec.padding[at], "kernel": spec.kernel[at], "dilation": spec.window_dilation[at],
            "holes": spec.base_dilation[at], "size": spec.input[at], "a_spatial": spec.lhs_spatial[at] * left,
            "b_spatial": spec.rhs_spatial[at] * (-right if spec.reversal[at] else right),
        }
        for at in range(len(spec.input))
    ]
    return [whole[key] for key in _WHOLE] + [dimension[key] for dimension in spatial for key in _SPATIAL]


def _number(f: Function, key: str, dimension: str | None = None) -> str:
    """The number `key` of the table, of spatial dimension `dimension` where there is one for each."""
    if dimension is None:
        at = offset(f, "%table", 8 * _WHOLE.index(key))
    else:
        at = offset(f, "%table", f.let(f"mul i64 {dimension}, {8 * len(_SPATIAL)}"))
        at = offset(f, at, 8 * (len(_WHOLE) + _SPATIAL.index(key)))
    return f.let(f"load i64, ptr {at}")


def _emit_scan(unit: Unit, name: str, look: str, fix: str, held: Element, how: Arithmetic) -> None:
    """Define function `name`, with the arguments that `gemm.Finish` tells: call `fix` on what is a NaN, unless `look`
    finds that the kernel is finite.

    Rows of the border are few: LLVM may take the quick way.
    """
    f = Function(
        unit,
        f"void @{name}(ptr %args, ptr %table, ptr %c, i64 %place, i64 %rows, i64 %columns, i64 %pitch, "
        f"i64 %step) nounwind {PLUMBING}",
    )
    count = f.let(f"mul i64 %columns, {how.components}")
    counts, kind = vector_type("i32", how.lanes), vector_type(how.type, how.lanes)
    end = f.let(f"insertelement {counts} poison, i32 {f.let(f'trunc i64 {count} to i32')}, i64 0")
    end = f.let(f"shufflevector {counts} {end}, {counts} poison, {counts} zeroinitializer")
    numbers = ", ".join(f"i32 {lane}" for lane in range(how.lanes))
    flags = f"<{how.lanes} x i1>"
    row = f.begin_loop(0, "%rows", 1, [("ptr", "%c"), ("i64", "%place")])
    column = f.begin_loop(0, count, how.lanes, [("ptr", row.values[0]), (counts, f"<{numbers}>")])
    at, lanes = column.values
    inside = f.let(f"icmp slt {counts} {lanes}, {end}")
    found = _masked(f, at, inside, held, how)
    strange = f.let(f"fcmp uno {kind} {found}, {found}")
    strange = f.intrinsic("i1", f"llvm.vector.reduce.or.v{how.lanes}i1", [(flags, strange)])
    left = f.let(f"sub i64 {count}, {column.index}")

    def known() -> str:
        return f.let(f"load atomic i64, ptr {_flag(f)} monotonic, align 8")

    def again() -> None:
        unknown = f.let(f"icmp eq i64 {known()}, {_UNKNOWN}")
        when(f, unknown, lambda: f.do(f"call void @{look}(ptr %args, ptr %table)"))
        when(f, f.let(f"icmp eq i64 {known()}, {_NOT_FINITE}"), compute)

    def compute() -> None:
        place = f.let(f"add i64 {row.values[1]}, {f.let(f'mul i64 {column.index}, {held.size}')}")
        f.do(f"call void @{fix}(ptr %args, ptr %table, ptr {at}, i64 {place}, i64 {left})")

    when(f, strange, again)
    after = f.let(f"add {counts} {lanes}, splat (i32 {how.lanes})")
    f.end_loop(column, [offset(f, at, how.lanes * held.size), after])
    f.end_loop(row, [offset(f, row.values[0], "%pitch"), f.let(f"add i64 {row.values[1]}, %step")])
    f.finish()


def _emit_look(unit: Unit, name: str, held: Element, how: Arithmetic) -> None:
    """Define ``void @name(ptr %args, ptr %table)``: see whether the kernel, a dense array, is finite, and keep that.

    Rarely called, and waits for memory: LLVM may take the quick way.
    """
    f = Function(unit, f"internal void @{name}(ptr %args, ptr %table) nounwind {PLUMBING}")
    count, rhs = _number(f, "weights"), _number(f, "rhs")
    at = f.let(f"load ptr, ptr {f.let(f'getelementptr ptr, ptr %args, i64 {rhs}')}")
    some, done = "false", "0"
    for lanes in (how.lanes, 0):
        kind, scalars = vector_type(how.type, lanes), max(lanes, 1)
        trips = f.let(f"udiv i64 {f.let(f'sub i64 {count}, {done}')}, {scalars}")
        loop = f.begin_loop(0, trips, 1, [("ptr", at), (kind, "zeroinitializer" if lanes else "0.0")])
        value = load(f, loop.values[0], held, how, lanes)
        nothing = f.let(f"fsub {kind} {value}, {value}")  # or a NaN, and then the sum is one
        after = [offset(f, loop.values[0], scalars * held.size), f.let(f"fadd {kind} {loop.values[1]}, {nothing}")]
        at, strange = f.end_loop(loop, after)
        strange = f.let(f"fcmp uno {kind} {strange}, {strange}")
        if lanes:
            strange = f.intrinsic("i1", f"llvm.vector.reduce.or.v{lanes}i1", [(f"<{lanes} x i1>", strange)])
        some, done = f.let(f"or i1 {some}, {strange}"), f.let(f"mul i64 {trips}, {scalars}")
    state = f.let(f"select i1 {some}, i64 {_NOT_FINITE}, i64 {_FINITE}")
    f.do(f"store atomic i64 {state}, ptr {_flag(f)} monotonic, align 8")
    f.finish()


def _flag(f: Function) -> str:
    at = f.let(f"getelementptr ptr, ptr %args, i64 {_number(f, 'flag_slot')}")
    return offset(f, f.let(f"load ptr, ptr {at}"), _number(f, "flag"))


def _masked(f: Function, at: str, inside: str, held: Element, how: Arithmetic) -> str:
    """A vector of scalars from `at`, zeros where not `inside`."""
    short = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}.get(held.storage, held.storage)
    stored = vector_type(held.storage, how.lanes)
    found = f.intrinsic(stored, f"llvm.masked.load.v{how.lanes}{short}.p0", [
        ("ptr", at), (f"<{how.lanes} x i1>", inside), (stored, "zeroinitializer"),
    ])
    return widen(f, found, held, how, how.lanes)


def _emit_elements(unit: Unit, name: str, types: tuple[Element, Element, Element], how: Arithmetic) -> None:
    """Define ``void @name(ptr %args, ptr %table, ptr %from, i64 %place, i64 %left)``: elements, by the definition.

    They are those from %from to the end of a row, %left scalars on, but no more than a vector of them; they belong
    %place bytes into the product's part of the result.  A sum that is a NaN ends early, so that data full of them
    costs little.  Rarely called: LLVM may take the quick way.
    """
    left, right, held = types
    f = Function(
        unit,
        f"internal void @{name}(ptr %args, ptr %table, ptr %from, i64 %place, i64 %left) nounwind {PLUMBING}",
    )

    def calculate(operation: str, x: str, y: str) -> str:
        return f.let(f"{operation} i64 {x}, {y}")

    def moved(pointer: str, coordinate: str, stride: str) -> str:
        return offset(f, pointer, calculate("mul", coordinate, stride))

    sums = [f.let(f"alloca {how.type}") for _ in range(how.components)]
    tap, window, inside, a, b = (f.let(f"alloca {kind}") for kind in ("i64", "i64", "i1", "ptr", "ptr"))
    rank, features, share = (_number(f, key) for key in ("rank", "features", "share"))
    origins = f.let(f"alloca i64, i64 {rank}")
    lhs, rhs = (
        f.let(f"load ptr, ptr {f.let(f'getelementptr ptr, ptr %args, i64 {_number(f, slot)}')}")
        for slot in ("lhs", "rhs")
    )
    count = f.intrinsic("i64", "llvm.smin.i64", [("i64", "%left"), ("i64", str(how.lanes))])
    each = f.begin_loop(0, calculate("sdiv", count, str(how.components)), 1, [
        ("ptr", "%from"), ("i64", calculate("add", "%place", _number(f, "start"))),
    ])
    to, place = each.values

    def coordinate(stride: str, extent: str, dimension: str | None = None) -> str:
        at = calculate("udiv", place, _number(f, stride, dimension))
        return calculate("urem", at, _number(f, extent, dimension))

    feature = coordinate("feature", "made")
    first_a = moved(lhs, coordinate("image", "images"), _number(f, "a_image"))
    first_a = moved(first_a, calculate("udiv", feature, share), _number(f, "a_group"))
    first_b = offset(f, moved(rhs, feature, _number(f, "b_output")), _number(f, "b_start"))
    pixel = f.begin_loop(0, rank)
    at = calculate("mul", coordinate("pixel", "extent", pixel.index), _number(f, "stride", pixel.index))
    at = calculate("sub", at, _number(f, "padding", pixel.index))
    f.do(f"store i64 {at}, ptr {f.let(f'getelementptr i64, ptr {origins}, i64 {pixel.index}')}")
    f.end_loop(pixel)
    for total in sums:
        f.do(f"store {how.type} 0.0, ptr {total}")
    f.do(f"store i64 0, ptr {tap}")

    head, body, done = f.fresh("head"), f.fresh("body"), f.fresh("done")
    f.jump(head)
    f.label(head)
    now = f.let(f"load i64, ptr {tap}")
    values = [f.let(f"load {how.type}, ptr {total}") for total in sums]
    more = f.let(f"icmp slt i64 {now}, {_number(f, 'terms')}")
    number = f.let(f"fcmp ord {how.type} {values[0]}, {values[-1]}")
    f.branch(f.let(f"and i1 {more}, {number}"), body, done)
    f.label(body)
    f.do(f"store i64 {calculate('add', now, '1')}, ptr {tap}")
    f.do(f"store i64 {calculate('udiv', now, features)}, ptr {window}")
    deep = calculate("urem", now, features)
    f.do(f"store i1 true, ptr {inside}")
    f.do(f"store ptr {moved(first_a, deep, _number(f, 'a_feature'))}, ptr {a}")
    f.do(f"store ptr {moved(first_b, deep, _number(f, 'b_feature'))}, ptr {b}")
    inner = f.begin_loop(0, rank)
    at = calculate("sub", calculate("sub", rank, inner.index), "1")
    kernel, left_over = _number(f, "kernel", at), f.let(f"load i64, ptr {window}")
    index = calculate("urem", left_over, kernel)
    f.do(f"store i64 {calculate('udiv', left_over, kernel)}, ptr {window}")
    there = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr {origins}, i64 {at}')}")
    there = calculate("add", there, calculate("mul", index, _number(f, "dilation", at)))
    holes = _number(f, "holes", at)
    hit = f.let(f"icmp eq i64 {calculate('urem', there, holes)}, 0")
    there = calculate("udiv", there, holes)  # a negative place is a very large one
    size = _number(f, "size", at)
    hit = f.let(f"and i1 {hit}, {f.let(f'icmp ult i64 {there}, {size}')}")
    hit = f.let(f"and i1 {hit}, {f.let(f'load i1, ptr {inside}')}")
    f.do(f"store i1 {hit}, ptr {inside}")
    f.do(f"store ptr {moved(f.let(f'load ptr, ptr {a}'), there, _number(f, 'a_spatial', at))}, ptr {a}")
    f.do(f"store ptr {moved(f.let(f'load ptr, ptr {b}'), index, _number(f, 'b_spatial', at))}, ptr {b}")
    f.end_loop(inner)

    def multiply() -> None:
        x, y = (
            [load(f, offset(f, p, part * kept.size), kept, how, 0) for part in range(kept.components)]
            for p, kept in ((f.let(f"load ptr, ptr {a}"), left), (f.let(f"load ptr, ptr {b}"), right))
        )
        products = [[(x[0], y[0])]]
        if how.complex:
            products = [[(x[0], y[0]), (f.let(f"fneg {how.type} {x[1]}"), y[1])], [(x[0], y[1]), (x[1], y[0])]]
        for total, value, terms in zip(sums, values, products, strict=True):
            for factors in terms:
                arguments = [(how.type, operand) for operand in (*factors, value)]
                value = f.intrinsic(how.type, f"llvm.fmuladd.f{how.bits}", arguments)
            f.do(f"store {how.type} {value}, ptr {total}")

    when(f, f.let(f"load i1, ptr {inside}"), multiply)
    f.jump(head)
    f.label(done)
    for part, total in enumerate(sums):
        store(f, f.let(f"load {how.type}, ptr {total}"), offset(f, to, part * held.size), held, how, 0)
    f.end_loop(each, [offset(f, to, held.bytes), calculate("add", place, str(held.bytes))])
    f.finish()
