"""Draws of opcodes on arrays of dynamic size: bounds, and sizes that are only known at run time.

They are families of their own, not in `semantics.sample.FAMILIES`: truth mode does not know sizes of run time, and all
of these are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hlotool.ir import (
    ELEMENT_TYPES,
    ConvDimensionNumbers,
    Instruction,
    Layout,
    ReplicaGroups,
    Shape,
    Window,
    WindowDimension,
    array,
    dtype_of,
    scalar,
    tuple_shape,
)
from hlotool.ir.builder import Builder
from hlotool.ir.dynamic import PAD_TO_STATIC, SLICE_TO_DYNAMIC
from hlotool.ir.shape_inference import infer
from semantics.families_control import group_attributes, permute_pairs
from semantics.sample import Draw, Family, Sample, types_of
from semantics.values import Array, Filler, anything, below, modest, small, within

__all__ = ["DYNAMIC"]

DYNAMIC: list[Family] = []
"""Opcode by opcode."""

_NUMBERS = "signed unsigned narrow float complex"


def _way(opcodes: str, types: str, ulps: float) -> Callable[[Draw], Draw]:
    def register(draw: Draw) -> Draw:
        DYNAMIC.extend(Family(opcode, types_of(types), draw, ulps) for opcode in opcodes.split())
        return draw

    return register


def _sized(
    s: Sample, kind: str, sizes: Sequence[int], values: Filler = anything, among: Sequence[int] | None = None
) -> Instruction:
    """An array some of whose dimensions (of those in `among`) have a size at run time; now and then none."""
    result = s.operand(kind, sizes, values)
    chosen = list(range(len(sizes)) if among is None else among)
    for d in s.rng.sample(chosen, min(len(chosen), s.rng.choice((0, 1, 1, 1, 2, 3)))):
        result = _set(s.builder, result, d, s.operand("s32", (), below(sizes[d])))
    return result


def _set(b: Builder, value: Instruction, d: int, size: Instruction) -> Instruction:
    return b.add("set-dimension-size", None, (value, size), {"dimensions": (d,)})


def _flagged(shape: Shape, flags: Sequence[bool]) -> Shape:
    return replace(shape, dynamic=tuple(flags) if any(flags) else ())


def _dims(s: Sample, rank: int | None = None, most: int = 100) -> tuple[int, ...]:
    return s.sizes(s.rng.choice((1, 1, 2, 2, 3)) if rank is None else rank, most=most)


@_way("set-dimension-size get-dimension-size", "all", ulps=0)
def _set_get(s: Sample, opcode: str, kind: str) -> Instruction:
    """Sizes shrink and grow; grown elements are zeros."""
    sizes = _dims(s)
    value = _sized(s, kind, sizes)
    if s.rng.random() < 0.5:
        value = s.builder.reverse(value, [0])
    d = s.rng.randrange(len(sizes))
    value = _set(s.builder, value, d, s.operand("s32", (), below(sizes[d])))
    if opcode == "get-dimension-size":
        return s.builder.add(opcode, None, (value,), {"dimensions": (d,)})
    return value


@_way("add select compare copy map", _NUMBERS, ulps=0)
def _elementwise(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes, b = _dims(s), s.builder
    one, other = _sized(s, kind, sizes, small), _sized(s, kind, sizes, small)
    if opcode == "copy":
        return b.copy(one)
    if opcode == "select":
        which = s.operand("pred", ()) if s.rng.random() < 0.3 else _sized(s, "pred", sizes)
        return b.select(which, one, other)
    if opcode == "compare":
        return b.compare(one, other, "EQ")
    if opcode == "map":
        attributes = {"dimensions": tuple(range(len(sizes))), "to_apply": s.binary("add", kind)}
        return b.add("map", None, (one, other), attributes)
    return b.binary("add", one, other)


@_way("clamp", "signed unsigned narrow float", ulps=0)
def _clamp(s: Sample, opcode: str, kind: str) -> Instruction:
    low, high = (s.operand(kind, (), small) for _ in range(2))
    return s.builder.clamp(low, _sized(s, kind, _dims(s), small), high)


@_way("broadcast", "all", ulps=0)
def _broadcast(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = _dims(s)
    places = sorted(s.rng.sample(range(len(sizes)), s.rng.randint(1, len(sizes))))
    operand = _sized(s, kind, [sizes[d] for d in places])
    flags = [False] * len(sizes)
    for own, place in enumerate(places):
        flags[place] = bool(operand.shape.dynamic) and operand.shape.dynamic[own]
    return s.builder.broadcast(operand, places, _flagged(array(kind, sizes), flags))


@_way("transpose reverse", "all", ulps=0)
def _order(s: Sample, opcode: str, kind: str) -> Instruction:
    operand = _sized(s, kind, _dims(s))
    order = s.rng.sample(range(operand.shape.rank), operand.shape.rank)
    if opcode == "transpose":
        return s.builder.transpose(operand, order)
    return s.builder.reverse(operand, order[: s.rng.randint(0, len(order))])


@_way("reshape bitcast", "all", ulps=0)
def _reshape(s: Sample, opcode: str, kind: str) -> Instruction:
    """One dimension is dynamic; it is split, or merged with its neighbours, or keeps its place."""
    rng = s.rng
    before, after = list(s.sizes(rng.randint(0, 2), most=6)), list(s.sizes(rng.randint(0, 2), most=6))
    bound, outer, inner = rng.choice((0, 1, 2, 3, 4, 6)), rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2, 5))
    place = len(before)
    way = rng.choice(("same", "merge", "split", "outside"))
    if way == "merge":  # [outer, <=bound, inner] -> [<=all]
        sizes, d = [*before, outer, bound, inner, *after], place + 1
        target, free = [*before, outer * bound * inner, *after], place
    elif way == "split":  # [<=all] -> [outer, <=bound, inner]
        sizes, d = [*before, outer * bound * inner, *after], place
        target, free = [*before, outer, bound, inner, *after], place + 1
    elif way == "outside":
        sizes, d = [*before, bound, *after], place
        target, free = [*before, bound, 1, *after], place
    else:
        sizes, d = [*before, bound, *after], place
        target, free = [*sizes], place
    operand = _set(s.builder, s.operand(kind, sizes), d, s.operand("s32", (), below(sizes[d])))
    shape = _flagged(array(kind, target), [n == free for n in range(len(target))])
    attributes = {"inferred_dimension": free} if opcode == "reshape" and rng.random() < 0.3 else {}
    return s.builder.add(opcode, shape, (operand,), attributes)


@_way("dynamic-reshape", "all", ulps=0)
def _dynamic_reshape(s: Sample, opcode: str, kind: str) -> Instruction:
    operand = _sized(s, kind, s.sizes(s.rng.choice((1, 2, 3)), most=60, zero=False))
    total = operand.shape.size
    part = s.rng.choice([n for n in range(1, total + 1) if total % n == 0])
    target = s.rng.choice(([total], [part, total // part], [1, part, total // part]))
    counts = [s.operand("s32", (), below(n)) for n in target]
    return s.builder.add(opcode, _flagged(array(kind, target), [True] * len(target)), (operand, *counts))


@_way("concatenate", "all", ulps=0)
def _concatenate(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = list(_dims(s, most=40))
    d = s.rng.randrange(len(sizes))
    operands = []
    for _ in range(s.rng.randint(1, 4)):
        sizes[d] = s.rng.choice((0, 1, 2, 3, 8, 9))
        operands.append(_sized(s, kind, sizes))
    return s.builder.concatenate(operands, d)


@_way("pad", "all", ulps=0)
def _pad(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = _dims(s, most=60)
    padding = []
    for n in sizes:
        interior = s.rng.choice((0, 0, 1, 2))
        dilated = n + max(n - 1, 0) * interior
        low = s.rng.choice((0, 1, 3, -1, -2))
        padding.append((low, max(-dilated - low, s.rng.choice((0, 1, 3, -1, -2))), interior))
    return s.builder.pad(_sized(s, kind, sizes), s.operand(kind), padding)


@_way("slice dynamic-slice", "all", ulps=0)
def _slices(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes, rng = _dims(s), s.rng
    operand = _sized(s, kind, sizes)
    parts = [rng.choice((n, n, rng.randint(0, n))) for n in sizes]
    if opcode == "slice":
        return s.builder.slice(operand, [n - p for n, p in zip(sizes, parts, strict=True)], sizes)
    return s.builder.dynamic_slice(operand, [s.operand("s32", (), below(n)) for n in sizes], parts)


@_way("dynamic-update-slice", "all", ulps=0)
def _update(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = _dims(s)
    parts = [s.rng.choice((n, s.rng.randint(0, n))) for n in sizes]
    starts = [s.operand("s32", (), below(n)) for n in sizes]
    return s.builder.dynamic_update_slice(_sized(s, kind, sizes), _sized(s, kind, parts), starts)


@_way("gather", "all", ulps=0)
def _gather(s: Sample, opcode: str, kind: str) -> Instruction:
    """Rows of a matrix by number: the window, the rows and the index vectors may all have sizes."""
    rows, columns, count = (s.rng.choice((1, 2, 4, 7, 9)) for _ in range(3))
    width = s.rng.choice((columns, columns, s.rng.randint(0, columns)))
    operand = _sized(s, kind, (rows, columns))
    indices = _sized(s, s.rng.choice(("s32", "u8", "s64")), (count, 1), below(rows))
    attributes = {
        "offset_dims": (1,), "collapsed_slice_dims": (0,), "start_index_map": (0,), "index_vector_dim": 1,
        "slice_sizes": (1, width),
    }  # fmt: skip
    if s.rng.random() < 0.3:
        indices = _sized(s, "s32", (rows, 1), below(columns), among=[0])
        attributes |= {"collapsed_slice_dims": (), "operand_batching_dims": (0,), "start_indices_batching_dims": (0,),
                       "start_index_map": (1,)}  # fmt: skip
    return s.builder.gather(operand, indices, attributes)


@_way("scatter", _NUMBERS, ulps=0)
def _scatter(s: Sample, opcode: str, kind: str) -> Instruction:
    """Blocks of a matrix at places of one or two numbers, or none; all of it has sizes, the numbers too."""
    rng = s.rng
    rows, columns, count = (rng.choice((1, 2, 4, 7, 9)) for _ in range(3))
    numbers = rng.sample((0, 1), rng.randint(0, 2))
    operand = _sized(s, kind, (rows, columns), small)
    indices = _sized(s, rng.choice(("s32", "u8", "s64")), (count, len(numbers)), below(max(rows, columns)))
    dropped = rng.random() < 0.5
    width = rng.choice((columns, rng.randint(0, columns)))
    block = (width,) if dropped else (rng.choice((rows, rng.randint(0, rows))), width)
    updates = _sized(s, kind, (count, *block), small)
    attributes = {
        "update_window_dims": tuple(range(1, 1 + len(block))), "inserted_window_dims": (0,) if dropped else (),
        "scatter_dims_to_operand_dims": tuple(numbers), "index_vector_dim": 1, "to_apply": s.binary("add", kind),
    }  # fmt: skip
    return s.builder.add(opcode, None, (operand, indices, updates), attributes)


@_way("bitcast", "all", ulps=0)
def _layouts(s: Sample, opcode: str, kind: str) -> Instruction:
    """Arrays in other layouts, of other types of one width, or of another: then the bounds are what counts."""
    rng, b = s.rng, s.builder
    sizes = _dims(s, most=40)
    value = _sized(s, kind, sizes)
    flags = value.shape.dynamic or (False,) * len(sizes)
    order = rng.sample(range(len(sizes)), len(sizes))
    source = b.copy(value)
    source.shape = value.shape.with_layout(Layout(tuple(reversed(order))))
    width = 8 if kind == "pred" else ELEMENT_TYPES[kind].bits
    others = {8: ("s8", "u8", "pred"), 16: ("u16", "bf16"), 32: ("s32", "f32"), 64: ("u64", "c64")}.get(width, (kind,))
    other = rng.choice((kind, kind, *others, "u8" if width > 8 else kind))
    if other == "u8" and width > 8:
        row = sizes[order[-1]] * width // 8 if sizes else width // 8
        target = [*(sizes[d] for d in order[:-1]), row]
        return b.bitcast(source, _flagged(array(other, target), [True] * len(target)))
    target = [sizes[d] for d in order]  # as in memory; then in another order of its own
    own = rng.sample(range(len(sizes)), len(sizes))
    shape = _flagged(array(other, [target[d] for d in own]), [flags[order[d]] for d in own])
    minor_to_major = tuple(sorted(range(len(own)), key=lambda n: -own[n]))
    return b.bitcast(source, shape.with_layout(Layout(minor_to_major)))


@_way("bitcast-convert", "u8 u16", ulps=0)
def _parts_of_elements(s: Sample, opcode: str, kind: str) -> Instruction:
    """Parts that there are not are zeros."""
    value = _sized(s, kind, (*_dims(s), 2))
    wide = {"u8": ("u16", "f16"), "u16": ("u32", "f32")}[kind]
    flags = (value.shape.dynamic or (False,) * value.shape.rank)[:-1]
    shape = _flagged(array(s.rng.choice(wide), value.shape.dimensions[:-1]), flags)
    return s.builder.bitcast_convert(value, shape)


def _exact(kind: str) -> tuple[str, ...]:
    """Combiners whose results depend on no order, for small numbers."""
    row = ELEMENT_TYPES[kind]
    if row.is_complex:
        return ("add",)
    return ("maximum", "minimum") if row.is_float and row.bits <= 8 else ("maximum", "minimum", "add")


@_way("reduce", _NUMBERS, ulps=0)
def _reduce(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes, b = _dims(s, most=30), s.builder
    gone = sorted(s.rng.sample(range(len(sizes)), s.rng.randint(1, len(sizes))))
    real = not ELEMENT_TYPES[kind].is_complex
    if real and s.rng.random() < 0.4:  # the greatest and the first place where it stands
        return _argmax(s, kind, sizes, gone)
    name = s.rng.choice(_exact(kind))
    return b.reduce(_sized(s, kind, sizes, small), s.operand(kind, (), small), gone, s.binary(name, kind))


def _argmax(s: Sample, kind: str, sizes: Sequence[int], gone: Sequence[int]) -> Instruction:
    def body(b: Builder, p: list[Instruction]) -> Instruction:
        greater = b.compare(p[0], p[2], "GT")
        same = b.binary("and", b.compare(p[0], p[2], "EQ"), b.compare(p[1], p[3], "LT"))
        first = b.binary("or", greater, same)
        return b.tuple([b.select(first, p[0], p[2]), b.select(first, p[1], p[3])])

    kinds = [scalar(kind), scalar("s32")]
    computation = s.computation([*kinds, *kinds], body, "argmax")
    b = s.builder
    positions = s.operand("s32", sizes, below(100))
    initial = [s.operand(kind, (), small), s.operand("s32", (), below(5))]
    return b.reduce([_sized(s, kind, sizes, small), positions], initial, gone, computation)


@_way("reduce-window", _NUMBERS, ulps=0)
def _reduce_window(s: Sample, opcode: str, kind: str) -> Instruction:
    rng, sizes = s.rng, _dims(s, most=40)
    window = Window(
        tuple(
            WindowDimension(
                rng.choice((1, 2, 3)), rng.choice((1, 1, 2)), rng.choice((0, 1, -1)), rng.choice((0, 1, 2)),
                rng.choice((1, 1, 2)), rng.choice((1, 1, 2)),
            )
            for _ in sizes
        )
    )  # fmt: skip
    operand = _sized(s, kind, sizes, small)
    name = rng.choice(_exact(kind))
    attributes = {"window": window, "to_apply": s.binary(name, kind)}
    return s.builder.add(opcode, None, (operand, s.operand(kind, (), small)), attributes)


@_way("dot", "signed unsigned float complex", ulps=1)
def _dot(s: Sample, opcode: str, kind: str) -> Instruction:
    m, k, n, batch = (s.rng.choice((1, 2, 3, 5, 8)) for _ in range(4))
    a, b = _sized(s, kind, (batch, m, k), small), _sized(s, kind, (batch, k, n), small)
    return s.builder.dot(a, b, ((2,), (1,)), ((0,), (0,)))


@_way("ragged-dot", "pred signed unsigned narrow float complex", ulps=1)
def _ragged_dot(s: Sample, opcode: str, kind: str) -> Instruction:
    """All three modes; everything may have a size, the groups too."""
    rng = s.rng
    mode = rng.choice(("free", "free", "contracting", "batch"))
    batch, rows, inner, columns, groups = (rng.choice((1, 2, 3, 5)) for _ in range(5))
    left, right = _sized(s, kind, (batch, rows, inner), _ones_and_twos), (batch, inner, columns)
    attributes: dict[str, object] = {
        "lhs_batch_dims": (0,), "rhs_batch_dims": (0,), "lhs_contracting_dims": (2,), "rhs_contracting_dims": (1,),
        "lhs_ragged_dims": ({"free": 1, "contracting": 2, "batch": 0}[mode],),
    }  # fmt: skip
    if mode == "free":
        right, attributes["rhs_group_dims"] = (batch, inner, columns, groups), (3,)
    counts = (batch, groups) if mode != "batch" and rng.random() < 0.5 else (groups,)
    lengths = _sized(s, "s32", counts, within(0, 4))
    operands = [left, _sized(s, kind, right, _ones_and_twos), lengths]
    return s.builder.add(opcode, infer(opcode, [o.shape for o in operands], attributes), operands, attributes)


@_way("scaled-dot", "narrow float", ulps=1)
def _scaled_dot(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    rows, columns, inner = rng.choice((1, 2, 4, 6)), rng.choice((1, 2, 4, 6)), rng.choice((2, 4, 6, 12))
    operands = [_sized(s, kind, sizes, _ones_and_twos) for sizes in ((rows, inner), (inner, columns))]
    for operand in tuple(operands):
        counts = [rng.choice([c for c in range(1, n + 1) if n % c == 0]) for n in operand.shape.dimensions]
        operands.append(_sized(s, "f8e8m0fnu", () if rng.random() < 0.2 else counts, _ones_and_twos))
    attributes = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}
    return s.builder.add(opcode, infer(opcode, [o.shape for o in operands], attributes), operands, attributes)


def _ones_and_twos(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    return generator.choice([1, 2], sizes).astype(dtype_of(kind))


@_way("convolution", "float", ulps=1)
def _convolution(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    batch, features, outputs, length, size = (rng.choice((1, 2, 3, 5)) for _ in range(5))
    base = _sized(s, kind, (batch, length, features), small)
    kernel = _sized(s, kind, (size, features, outputs), small, among=[1, 2])
    window = WindowDimension(size, rng.choice((1, 2)), rng.choice((0, 1)), rng.choice((0, 1)), 1, rng.choice((1, 2)))
    labels = ConvDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))
    attributes = {"window": Window((window,)), "dim_labels": labels}
    result = s.builder.add(opcode, None, (base, kernel), attributes)
    ours, theirs = base.shape.dynamic or (False,) * 3, kernel.shape.dynamic or (False,) * 3
    result.shape = _flagged(result.shape, [ours[0], ours[1], theirs[2]])
    return result


@_way("convolution", "float", ulps=1)
def _groups(s: Sample, opcode: str, kind: str) -> Instruction:
    """Groups, and windows that are turned round, of any sizes."""
    rng = s.rng
    groups, batch, features, outputs, length, size = (rng.choice((1, 2, 3)) for _ in range(6))
    by_batch = rng.random() < 0.5
    bounds = (batch * groups if by_batch else batch, length, features if by_batch else features * groups)
    base = _sized(s, kind, bounds, small)
    kernel = _sized(s, kind, (size, features, outputs * groups), small)
    labels = ConvDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))
    low, high = rng.choice((0, 1)), rng.choice((0, 1))
    window = WindowDimension(size, 1, low, high, rng.choice((1, 2)), 1, rng.random() < 0.5)
    attributes = {
        "window": Window((window,)), "dim_labels": labels, f"{'batch' if by_batch else 'feature'}_group_count": groups,
    }  # fmt: skip
    result = s.builder.add(opcode, None, (base, kernel), attributes)
    result.shape = _flagged(result.shape, [True] * 3)
    return result


@_way("fft", "f32 f64 c64 c128", ulps=64)
def _fft(s: Sample, opcode: str, kind: str) -> Instruction:
    """Results have 256 added, and half as much for each part of complex ones: they are sums."""
    rng, b = s.rng, s.builder
    how = rng.choice(("FFT", "IFFT", "IRFFT")) if ELEMENT_TYPES[kind].is_complex else "RFFT"
    lengths = [rng.choice((1, 2, 3, 4, 5, 8, 12)) for _ in range(rng.choice((1, 1, 2)))]
    last = lengths[-1] // 2 + 1 if how == "IRFFT" else lengths[-1]
    operand = _sized(s, kind, (rng.choice((1, 2, 3)), *lengths[:-1], last), modest)
    result = b.add(opcode, None, (operand,), {"fft_type": how, "fft_length": tuple(lengths)})
    result.shape = _flagged(result.shape, [True] * result.shape.rank)
    shift = b.scalar_constant(256, result.shape.element_type)
    return b.binary("add", result, b.broadcast(shift, (), result.shape.dimensions))


@_way("topk", "signed unsigned narrow float", ulps=0)
def _topk(s: Sample, opcode: str, kind: str) -> Instruction:
    """Now and then fewer elements than are wanted."""
    operand = _sized(s, kind, _dims(s), anything)
    *batch, length = operand.shape.dimensions
    k = s.rng.randint(0, length)
    attributes = {"k": k, **s.rng.choice(({}, {"largest": True}, {"largest": False}))}
    flags = [*(operand.shape.dynamic or (False,) * operand.shape.rank)[:-1], False]
    sizes = (*batch, k)
    shape = tuple_shape([_flagged(array(one, sizes), flags) for one in (kind, "s32")])
    return s.builder.add(opcode, shape, (operand,), attributes)


@_way("select-and-scatter", "signed unsigned float", ulps=0)
def _select_and_scatter(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    sizes = _dims(s, most=60)
    rows = [
        WindowDimension(rng.choice((1, 2, 3)), rng.choice((1, 2)), rng.choice((0, 1, 2)), rng.choice((0, 1, 3)))
        for _ in sizes
    ]
    two = [scalar(kind), scalar(kind)]
    direction = rng.choice(("GE", "GT", "LE", "LT"))
    attributes = {
        "window": Window(tuple(rows)),
        "select": s.computation(two, lambda b, p: b.compare(p[0], p[1], direction), "select"),
        "scatter": s.binary("add", kind),
    }
    source = [row.output_size(n) for row, n in zip(rows, sizes, strict=True)]
    operand = _sized(s, kind, sizes, rng.choice((small, anything)))
    updates = _sized(s, kind, source, small)
    return s.builder.add(opcode, None, (operand, updates, s.operand(kind, (), small)), attributes)


@_way("copy-start async-start", "all", ulps=0)
def _in_flight(s: Sample, opcode: str, kind: str) -> Instruction:
    value, b = _sized(s, kind, _dims(s)), s.builder
    shape = value.shape
    if opcode == "copy-start":
        start = b.add(opcode, tuple_shape([shape, shape, scalar("u32")]), (value,))
        return b.add("copy-done", shape, (start,))
    body = s.computation([shape], lambda inner, p: inner.reverse(p[0], [0]), "reversed")
    start = b.add(opcode, tuple_shape([tuple_shape([shape]), shape, scalar("u32")]), (value,), {"calls": body})
    update = b.add("async-update", start.shape, (start,))
    return b.add("async-done", shape, (update,))


_DEVICES = "all-reduce all-gather reduce-scatter all-to-all collective-permute collective-broadcast"


@_way(f"{_DEVICES} all-reduce-start all-gather-start collective-permute-start", _NUMBERS, ulps=0)
def _collective(s: Sample, opcode: str, kind: str) -> Instruction:
    """Among several devices, with sizes that differ."""
    rng, b = s.rng, s.builder
    plain = opcode.removesuffix("-start")
    if plain == "collective-permute":
        attributes, count = permute_pairs(s), 1
    else:
        attributes, count = group_attributes(s, plain in ("all-reduce", "all-gather", "reduce-scatter"))
        if plain == "collective-broadcast":  # which must say who takes part
            attributes.setdefault("replica_groups", ReplicaGroups((tuple(range(count)),)))
    sizes = list(s.sizes(rng.choice((1, 2, 3)), most=12, zero=False))
    if plain == "all-to-all" and rng.random() < 0.4:
        parts = [_sized(s, kind, sizes) for _ in range(count)]
        flags = [any(p.shape.dynamic and p.shape.dynamic[d] for p in parts) for d in range(len(sizes))]
        shape = _flagged(array(kind, sizes), flags)
        return b.add(opcode, tuple_shape([shape] * count), parts, attributes)
    d = rng.randrange(len(sizes))
    bound = sizes[d]
    if plain in ("all-gather", "reduce-scatter", "all-to-all"):
        attributes["dimensions"] = (d,)
        sizes[d] *= 1 if plain == "all-gather" else count
    if plain in ("all-reduce", "reduce-scatter"):
        attributes["to_apply"] = s.binary("add", kind)
    operands = [_sized(s, kind, sizes) for _ in range(1 if plain == "all-to-all" else rng.choice((1, 2)))]
    sizes[d] = {"all-gather": bound * count, "reduce-scatter": bound}.get(plain, sizes[d])
    shapes = [_flagged(array(kind, sizes), o.shape.dynamic) for o in operands]
    shape, given = (one[0] if len(one) == 1 else tuple_shape(one) for one in (shapes, [o.shape for o in operands]))
    if opcode == plain:
        return b.add(opcode, shape, operands, attributes)
    pair = shape if plain == "all-reduce" else tuple_shape([given, shape])
    return b.add(f"{plain}-done", shape, (b.add(opcode, pair, operands, attributes),))


def _square(s: Sample) -> tuple[int, Callable[[Instruction, Sequence[int]], Instruction]]:
    """The bound of an order, and what gives dimensions of an array an order below it."""
    bound = s.rng.choice((1, 2, 3, 5, 8))
    order = s.operand("s32", (), below(bound))

    def cut(value: Instruction, dimensions: Sequence[int]) -> Instruction:
        for d in dimensions:
            value = _set(s.builder, value, d, order if s.rng.random() < 0.8 else s.operand("s32", (), below(bound)))
        return value

    return bound, cut


@_way("cholesky", "float", ulps=64)
def _cholesky(s: Sample, opcode: str, kind: str) -> Instruction:
    """Diagonally dominant matrices."""
    bound, cut = _square(s)
    dimensions = s.rng.choice(([1, 2], [1, 2], [1], [2]))
    matrix = cut(s.operand(kind, (s.rng.randint(0, 2), bound, bound), _dominant), dimensions)
    return s.builder.add(opcode, None, (matrix,), {"lower": s.rng.random() < 0.5})


@_way("triangular-solve", "float", ulps=64)
def _triangular_solve(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    bound, cut = _square(s)
    batch, count, left = rng.randint(1, 2), rng.choice((1, 2, 4)), rng.random() < 0.5
    matrix = cut(s.operand(kind, (batch, bound, bound), _dominant), rng.choice(([1, 2], [1, 2], [1], [2], [])))
    sizes = (batch, bound, count) if left else (batch, count, bound)
    right = cut(_sized(s, kind, sizes, small, among=[2 if left else 1]), [1 if left else 2][: rng.randint(0, 1)])
    attributes = {
        "left_side": left, "lower": rng.random() < 0.5, "unit_diagonal": rng.random() < 0.3,
        "transpose_a": rng.choice(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")),
    }  # fmt: skip
    return s.builder.add(opcode, None, (matrix, right), attributes)


def _dominant(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    """Matrices whose factors are well conditioned: twice the order on the diagonal, numbers between 0 and 1 beside."""
    order = sizes[-1]
    value = generator.integers(0, 5, sizes) / 4 + 2 * order * np.eye(order)
    return np.asarray(value).astype(dtype_of(kind))


@_way("batch-norm-training batch-norm-inference batch-norm-grad", "float", ulps=8)
def _batch_norm(s: Sample, opcode: str, kind: str) -> Instruction:
    """Results have 256 added: how far they may be off is a matter of what they are sums of."""
    rng, b = s.rng, s.builder
    sizes = _dims(s)
    feature = rng.randrange(len(sizes))

    def column(values: Filler) -> Instruction:
        return s.operand(kind, (sizes[feature],), values)

    operands: list[Instruction] = [_sized(s, kind, sizes, modest), column(modest)]
    if opcode == "batch-norm-grad":
        operands += [column(modest), column(_positive), _sized(s, kind, sizes, modest)]
    else:
        operands += [column(modest)]
        operands += [column(modest), column(_positive)] if opcode == "batch-norm-inference" else []
    attributes = {"epsilon": rng.choice((0.1, 1.0)), "feature_index": feature}
    result = s.builder.add(opcode, None, operands, attributes)
    flags = [o.shape.dynamic or (False,) * len(sizes) for o in operands if o.shape.rank == len(sizes)]
    own = [any(all_) for all_ in zip(*flags, strict=True)]
    data, vector = _flagged(array(kind, sizes), own), _flagged(array(kind, (sizes[feature],)), [own[feature]])
    result.shape = data if opcode == "batch-norm-inference" else tuple_shape([data, vector, vector])
    parts = [b.gte(result, n) for n in range(3)] if result.shape.is_tuple else [result]
    shift = b.scalar_constant(256, kind)
    return b.tuple([b.binary("add", part, b.broadcast(shift, (), part.shape.dimensions)) for part in parts])


def _positive(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    return np.asarray(generator.uniform(0.5, 2.0, sizes)).astype(dtype_of(kind))


@_way("sort", _NUMBERS.replace("complex", ""), ulps=0)
def _sort(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = _dims(s)
    d = s.rng.randrange(len(sizes))
    kinds = [kind, "s32"][: s.rng.randint(1, 2)]
    shapes = [scalar(k) for k in kinds for _ in range(2)]
    direction, how = s.rng.choice(("LT", "GT")), "TOTALORDER" if ELEMENT_TYPES[kind].is_float else None
    order = s.computation(shapes, lambda b, p: b.compare(p[0], p[1], direction, how), "before")
    operands = [_sized(s, k, sizes, small) for k in kinds]
    return s.builder.add(opcode, None, operands, {"dimensions": (d,), "is_stable": True, "to_apply": order})


@_way("while conditional call tuple", "all", ulps=0)
def _control(s: Sample, opcode: str, kind: str) -> Instruction:
    """A dynamic array goes through other computations, which reverse it, or change its size."""
    sizes, b = _dims(s, most=30), s.builder
    d = s.rng.randrange(len(sizes))
    value = _set(b, s.operand(kind, sizes), d, s.operand("s32", (), below(sizes[d])))
    count = s.operand("s32", (), lambda g, k, z: below(4)(g, k, z).clip(0, 4))
    state = b.tuple([value, count])
    if opcode == "tuple":
        return b.tuple([state, b.gte(state, 0)])

    def change(inner: Builder, p: list[Instruction]) -> Instruction:
        old, left = inner.gte(p[0], 0), inner.gte(p[0], 1)
        size = inner.add("get-dimension-size", None, (old,), {"dimensions": (d,)})
        size = inner.binary("subtract", size, inner.scalar_constant(1, "s32"))
        new = _set(inner, inner.reverse(old, range(len(sizes))), d, size)
        return inner.tuple([new, inner.binary("subtract", left, inner.scalar_constant(1, "s32"))])

    body = s.computation([state.shape], change, "change")
    if opcode == "call":
        return b.call(body, [state])
    if opcode == "conditional":
        other = s.computation([state.shape], lambda inner, p: p[0], "same")
        which = s.operand("pred", ())
        attributes = {"true_computation": body, "false_computation": other}
        return b.add(opcode, state.shape, (which, state, state), attributes)

    def more(inner: Builder, p: list[Instruction]) -> Instruction:
        return inner.compare(inner.gte(p[0], 1), inner.scalar_constant(0, "s32"), "GT")

    return b.while_(state, s.computation([state.shape], more, "more"), body)


@_way("custom-call", "all", ulps=0)
def _border(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes, b = _dims(s), s.builder
    value = _sized(s, kind, sizes)
    if value.shape.is_static:
        counts = [s.operand("s32", (), below(n)) for n in sizes]
        shape = _flagged(value.shape, [True] * len(sizes))
        return b.add(opcode, shape, (value, *counts), {"custom_call_target": SLICE_TO_DYNAMIC})
    shape = tuple_shape([array(kind, sizes), *(scalar("s32") for _ in sizes)])
    return b.add(opcode, shape, (value,), {"custom_call_target": PAD_TO_STATIC})
