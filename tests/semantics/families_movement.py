"""Draws of data movement: every placement of elements that the opcodes can express."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Layout, array, literal, scalar
from hlotool.ir.builder import Builder
from semantics.sample import CLASSES, TYPES, Sample, family
from semantics.values import Filler, anything, below, integer_range, small

__all__: list[str] = []

_WIDTHS = [(t, 8 if t == "pred" else ELEMENT_TYPES[t].bits) for t in TYPES]
_INDEX_TYPES = CLASSES["signed"] + CLASSES["unsigned"]


def _index_type(rng: Random) -> str:
    """Mostly what frameworks write, every other integer type now and then."""
    return rng.choice(("s32", "s64", rng.choice(_INDEX_TYPES)))


def _subset(rng: Random, count: int, most: int | None = None) -> list[int]:
    """Some of 0..count-1, ascending."""
    chosen = rng.randint(0, min(count, count if most is None else most))
    return sorted(rng.sample(range(count), chosen))


def _factors(rng: Random, size: int) -> tuple[int, ...]:
    """Dimensions of an array of `size` elements."""
    found: list[int] = []
    for _ in range(rng.randint(0, 3)):
        part = rng.choice([n for n in range(1, size + 1) if size % n == 0]) if size else rng.randint(0, 4)
        found.append(part)
        size = size // part if part else 1
    found.append(size)
    rng.shuffle(found)
    return tuple(found)


@family("broadcast", "all", ulps=0)
def _broadcast(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes(s.rng.choice((0, 1, 2, 2, 3, 4, 5)))
    places = _subset(s.rng, len(sizes))
    if s.rng.random() < 0.2:
        s.rng.shuffle(places)
    operand = s.operand(kind, [sizes[d] for d in places])
    return s.builder.broadcast(operand, places, sizes)


@family("reshape", "all", ulps=0)
def _reshape(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes()
    operand = s.operand(kind, sizes)
    target = _factors(s.rng, prod(sizes))
    if prod(sizes) == 1 and s.rng.random() < 0.5:
        target = (1,) * s.rng.randint(0, 3)
    return s.builder.reshape(operand, target)


@family("dynamic-reshape", "all", ulps=0)
def _static_dynamic_reshape(s: Sample, opcode: str, kind: str) -> Instruction:
    """To the sizes that it has: what it does below a bound is tried where dynamic shapes are."""
    sizes = s.sizes()
    target = _factors(s.rng, prod(sizes))
    counts = [s.builder.scalar_constant(n, "s32") for n in target]
    return s.builder.add(opcode, array(kind, target), (s.operand(kind, sizes), *counts))


@family("transpose", "all", ulps=0)
def _transpose(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes(s.rng.choice((0, 1, 2, 2, 3, 3, 4, 5)), most=s.rng.choice((200, 3000)))
    return s.builder.transpose(s.operand(kind, sizes), s.rng.sample(range(len(sizes)), len(sizes)))


@family("reverse", "all", ulps=0)
def _reverse(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes()
    dimensions = _subset(s.rng, len(sizes))
    s.rng.shuffle(dimensions)
    return s.builder.reverse(s.operand(kind, sizes), dimensions)


@family("concatenate", "all", ulps=0)
def _concatenate(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = list(s.sizes(s.rng.choice((1, 1, 2, 3, 4))))
    dimension = s.rng.randrange(len(sizes))
    operands: list[Instruction] = []
    for _ in range(s.rng.choice((1, 2, 2, 3, 5, 9))):
        if operands and s.rng.random() < 0.1:
            operands.append(s.rng.choice(operands))
            continue
        sizes[dimension] = s.rng.choice((0, 1, 1, 2, 3, 7, 8, 16, 17, 33))
        operands.append(s.operand(kind, sizes))
    return s.builder.concatenate(operands, dimension)


@family("pad", "all", ulps=0)
def _pad(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes(s.rng.choice((0, 1, 1, 2, 2, 3, 4)), most=80)
    padding = []
    for size in sizes:
        interior = s.rng.choice((0, 0, 1, 2, 3))
        dilated = size + max(size - 1, 0) * interior
        low = s.rng.choice((0, 0, 1, 2, 5, -1, -2, -s.rng.randint(0, dilated + 2), dilated + 3))
        least = -(dilated + low)
        high = max(least, s.rng.choice((0, 0, 1, 3, -1, -2, -s.rng.randint(0, dilated + 2), dilated + 1, least)))
        padding.append((low, high, interior))
    return s.builder.pad(s.operand(kind, sizes), s.operand(kind), padding)


@family("slice", "all", ulps=0)
def _slice(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes(most=400)
    starts = [s.rng.choice((0, 0, s.rng.randint(0, n))) for n in sizes]
    limits = [s.rng.choice((n, n, s.rng.randint(b, n))) for b, n in zip(starts, sizes, strict=True)]
    return s.builder.slice(s.operand(kind, sizes), starts, limits, [s.rng.choice((1, 1, 2, 3, 7, 100)) for _ in sizes])


def _starts(s: Sample, dimensions: Sequence[int], parts: Sequence[int]) -> list[Instruction]:
    """Start indices: a scalar for each dimension, a vector of all, or constants."""
    kind = _index_type(s.rng)
    if dimensions and s.rng.random() < 0.2:
        return [s.operand(kind, [len(dimensions)], below(max(dimensions)))]
    found = []
    for size, part in zip(dimensions, parts, strict=True):
        if s.rng.random() < 0.2:
            low, high = integer_range(kind)
            value = s.rng.choice((0, size - part, -1, size, low, high))
            found.append(s.builder.scalar_constant(np.clip(value, low, high), kind))
        else:
            found.append(s.operand(kind, (), below(size)))
    return found


@family("dynamic-slice", "all", ulps=0)
def _dynamic_slice(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes()
    parts = [s.rng.choice((n, 0 if s.rng.random() < 0.1 else min(1, n), s.rng.randint(0, n))) for n in sizes]
    operand = s.operand(kind, sizes)
    return s.builder.dynamic_slice(operand, _starts(s, sizes, parts), parts)


@family("dynamic-update-slice", "all", ulps=0)
def _dynamic_update_slice(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes()
    parts = [s.rng.choice((n, min(1, n), s.rng.randint(0, n))) for n in sizes]
    operand, update = s.operand(kind, sizes), s.operand(kind, parts)
    if s.rng.random() < 0.3:  # of a value that no one else reads, so that it may happen in place
        operand = s.builder.reverse(operand, range(len(sizes)))
    return s.builder.dynamic_update_slice(operand, update, _starts(s, sizes, parts))


@family("copy opt-barrier", "all", ulps=0)
def _copy(s: Sample, opcode: str, kind: str) -> Instruction:
    operand = s.operand(kind, s.sizes())
    order = s.rng.sample(range(operand.shape.rank), operand.shape.rank)
    shape = operand.shape.with_layout(Layout(tuple(order))) if opcode == "copy" else operand.shape
    return s.builder.add(opcode, shape, (operand,))


@family("iota", "signed unsigned narrow float complex", ulps=0)
def _iota(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes(s.rng.choice((1, 1, 2, 3)), most=s.rng.choice((200, 300)))
    return s.builder.iota(array(kind, sizes or (1,)), s.rng.randrange(max(1, len(sizes))))


@family("constant", "all", ulps=0)
def _constant(s: Sample, opcode: str, kind: str) -> Instruction:
    generator = np.random.default_rng(s.rng.getrandbits(32))
    values = anything(generator, kind, s.sizes())
    if s.rng.random() < 0.3 and values.size:
        values = np.full(values.shape, values.reshape(-1)[0])
    return s.builder.constant(literal(np.ascontiguousarray(values).reshape(values.shape), kind))


@family("parameter", "all", ulps=0)
def _parameter(s: Sample, opcode: str, kind: str) -> Instruction:
    return s.operand(kind, s.sizes())


@family("tuple get-tuple-element", "all", ulps=0)
def _tuple(s: Sample, opcode: str, kind: str) -> Instruction:
    b = s.builder
    parts = [s.operand(s.rng.choice((kind, "s32", "pred")), s.sizes()) for _ in range(s.rng.randint(0, 3))]
    parts.insert(s.rng.randint(0, len(parts)), s.operand(kind, s.sizes()))
    whole = b.tuple([*parts, b.tuple(parts), b.tuple([])])
    if opcode == "tuple":
        return whole
    return b.gte(b.gte(whole, len(parts)), s.rng.randrange(len(parts)))


@family("get-dimension-size set-dimension-size", "all", ulps=0)
def _sizes_of_static(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes(s.rng.choice((1, 2, 3)))
    operand = s.operand(kind, sizes)
    d = s.rng.randrange(len(sizes))
    if opcode == "get-dimension-size":
        return s.builder.add(opcode, None, (operand,), {"dimensions": (d,)})
    size = s.builder.scalar_constant(sizes[d], "s32")
    return s.builder.add(opcode, operand.shape, (operand, size), {"dimensions": (d,)})


@family("bitcast", "all", ulps=0)
def _bitcast(s: Sample, opcode: str, kind: str) -> Instruction:
    """Other dimensions, layouts on both sides, and element types of the same or another width."""
    sizes = s.sizes()
    operand = s.operand(kind, sizes)
    order = Layout(tuple(s.rng.sample(range(len(sizes)), len(sizes))))
    source = s.builder.add("copy", operand.shape.with_layout(order), (operand,))
    width = 8 if kind == "pred" else ELEMENT_TYPES[kind].bits
    other, own = s.rng.choice(((kind, width), (kind, width), s.rng.choice(_WIDTHS)))
    total = prod(sizes) * width
    if total % own:
        other, own = kind, width
    target = _factors(s.rng, total // own)
    if own == width and s.rng.random() < 0.3:
        target = tuple(s.rng.sample(sizes, len(sizes)))
    layout = Layout(tuple(s.rng.sample(range(len(target)), len(target))))
    return s.builder.bitcast(source, array(other, target).with_layout(layout))


def _places(rng: Random, count: int, among: int) -> list[int]:
    return sorted(rng.sample(range(among), count))


def _interleaved(outer: Sequence[int], inner: Sequence[int], places: Sequence[int]) -> list[int]:
    """`inner` at `places` of the result, `outer` elsewhere."""
    rest, window = iter(outer), iter(inner)
    return [next(window) if d in places else next(rest) for d in range(len(outer) + len(inner))]


def _index_arrays(
    s: Sample, batch: list[int], mapped: int, batching: Sequence[int]
) -> tuple[list[int], int, list[int], list[int]]:
    """(dimensions of the indices, index_vector_dim, their batching dimensions, sizes without the vector)."""
    outer = [*batch]
    spots: list[int] = []
    for size in batching:  # where among the batch dimensions each batching one stands
        at = s.rng.randint(0, len(outer))
        spots = [p + (p >= at) for p in spots]
        spots.append(at)
        outer.insert(at, size)
    if mapped == 1 and s.rng.random() < 0.4:
        return outer, len(outer), spots, outer
    vector = s.rng.randint(0, len(outer))
    return [*outer[:vector], mapped, *outer[vector:]], vector, [p + (p >= vector) for p in spots], outer


@family("gather", "all", ulps=0)
def _gather(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    sizes = s.sizes(rng.choice((0, 1, 1, 2, 2, 3, 4)), most=300)
    roles = [rng.choice(("window", "window", "collapsed", "batching")) for _ in sizes]
    batching = [d for d, role in enumerate(roles) if role == "batching"]
    collapsed = [d for d, role in enumerate(roles) if role == "collapsed"]
    parts = [
        rng.choice((n, min(1, n), rng.randint(0, n))) if role == "window" else min(1, n)
        for n, role in zip(sizes, roles, strict=True)
    ]
    free = [d for d in range(len(sizes)) if d not in batching]
    mapped = rng.sample(free, rng.choice((len(free), rng.randint(0, len(free)))))
    dims, vector, spots, outer = _index_arrays(
        s, list(s.sizes(rng.choice((0, 1, 1, 2)), most=24)), len(mapped), [sizes[d] for d in batching]
    )
    window = [parts[d] for d in range(len(sizes)) if roles[d] == "window"]
    offsets = _places(rng, len(window), len(window) + len(outer))
    attributes = {
        "offset_dims": tuple(offsets), "collapsed_slice_dims": tuple(collapsed), "start_index_map": tuple(mapped),
        "operand_batching_dims": tuple(batching), "start_indices_batching_dims": tuple(spots),
        "index_vector_dim": vector, "slice_sizes": tuple(parts), "indices_are_sorted": rng.random() < 0.2,
    }  # fmt: skip
    index_values = below(max((sizes[d] for d in mapped), default=1))
    return s.builder.gather(s.operand(kind, sizes), s.operand(_index_type(rng), dims, index_values), attributes)


def _combiner(s: Sample, kinds: Sequence[str]) -> tuple[Computation, bool]:
    """How scatter combines, and whether its values had better be small whole numbers (sums stay exact then)."""
    rng = s.rng
    shapes = [scalar(kind) for kind in (*kinds, *kinds)]
    count = len(kinds)
    way = rng.choice(("replace", "replace", "keep", "one", "one", "two", "crossed"))

    def body(b: Builder, p: list[Instruction]) -> Instruction:
        made = []
        for n, kind in enumerate(kinds):
            old, new = p[n], p[count + n]
            if way == "crossed" and kinds[-1 - n] == kind:
                new = p[2 * count - 1 - n]
            row = ELEMENT_TYPES[kind]
            exact: tuple[str, ...] = () if row.kind == "pred" else ("add", "multiply", "subtract")
            if row.is_integer or (row.is_float and way != "two"):  # of products, which may be -0 and 0
                exact = (*exact, "maximum", "minimum")
            if row.is_integer or row.kind == "pred":
                exact = (*exact, "and", "or", "xor")
            if way in ("replace", "keep"):
                made.append(new if way == "replace" else old)
            elif way == "two":
                inner = b.binary(rng.choice(exact), new, old)
                made.append(b.binary(rng.choice(exact), inner, rng.choice((old, new))))
            else:
                made.append(b.binary(rng.choice(exact), *rng.choice(((old, new), (new, old)))))
        return made[0] if count == 1 else b.tuple(made)

    return s.computation(shapes, body, "combine"), way not in ("replace", "keep")


@family("scatter", "all", ulps=0)
def _scatter(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    sizes = s.sizes(rng.choice((0, 1, 1, 2, 2, 3, 4)), most=200)
    roles = [rng.choice(("window", "window", "inserted", "batching")) for _ in sizes]
    batching = [d for d, role in enumerate(roles) if role == "batching"]
    inserted = [d for d, role in enumerate(roles) if role == "inserted"]
    free = [d for d in range(len(sizes)) if d not in batching]
    mapped = rng.sample(free, rng.choice((len(free), rng.randint(0, len(free)))))
    dims, vector, spots, outer = _index_arrays(
        s, list(s.sizes(rng.choice((0, 1, 1, 2)), most=24)), len(mapped), [sizes[d] for d in batching]
    )
    whole = [n for n, role in zip(sizes, roles, strict=True) if role == "window"]
    window = [rng.choice((n, min(1, n), rng.randint(0, n))) for n in whole]
    places = _places(rng, len(window), len(window) + len(outer))
    kinds = [kind] if rng.random() < 0.8 else [kind, *rng.choices((kind, "f32", "s32", "pred"), k=rng.randint(1, 2))]
    computation, exact = _combiner(s, kinds)
    values: Filler = small if exact else anything
    attributes = {
        "update_window_dims": tuple(places), "inserted_window_dims": tuple(inserted),
        "scatter_dims_to_operand_dims": tuple(mapped), "input_batching_dims": tuple(batching),
        "scatter_indices_batching_dims": tuple(spots), "index_vector_dim": vector,
        "indices_are_sorted": rng.random() < 0.2, "unique_indices": rng.random() < 0.2, "to_apply": computation,
    }  # fmt: skip
    operands = [s.operand(k, sizes, values) for k in kinds]
    if rng.random() < 0.3:
        operands = [s.builder.reverse(o, range(len(sizes))) for o in operands]
    indices = s.operand(_index_type(rng), dims, below(max((sizes[d] for d in mapped), default=1)))
    updates = [s.operand(k, _interleaved(outer, window, places), values) for k in kinds]
    return s.builder.add(opcode, None, (*operands, indices, *updates), attributes)
