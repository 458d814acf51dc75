"""dot, ragged-dot, scaled-dot and convolution: any dimension numbers, windows, element types and algorithms.

Sums of integers are exact; where floats take part the values are small whole numbers mostly, whose sums are exact in
every order, and now and then normal numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from hlotool.ir import ConvDimensionNumbers, Instruction, Window, WindowDimension, array, dtype_of, element_type
from hlotool.ir.dot_algorithms import ALGORITHMS
from hlotool.ir.shape_inference import ShapeError, infer
from semantics.sample import TYPES, Sample, family
from semantics.values import Array, Filler, anything, modest, small, within

__all__: list[str] = []

_MOST = 60_000  # multiplications of an instruction


# ---- element types


def _types(sample: Sample, kind: str) -> tuple[str, str, str]:
    """(left, right, result): mostly equal, or a result of the same sort that is wider, else anything."""
    rng = sample.rng
    if rng.random() < 0.6:
        return kind, kind, kind
    row = element_type(kind)
    alike = [t for t in TYPES if element_type(t).kind == row.kind and element_type(t).bits >= row.bits]
    if rng.random() < 0.6:
        return kind, kind, rng.choice(alike)
    return kind, rng.choice(TYPES), rng.choice((kind, *TYPES))


def _exact(kinds: Sequence[str]) -> bool:
    """Whether products are integers, and sums wrap."""
    return not any(element_type(kind).is_float or element_type(kind).is_complex for kind in kinds)


def whole(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    """Numbers whose products have exact sums: -2 to 2, complex ones with both parts, powers of 2 without 0."""
    if kind == "f8e8m0fnu":
        return np.exp2(generator.integers(-1, 3, sizes)).astype(dtype_of(kind))
    if element_type(kind).is_complex:
        parts = generator.integers(-2, 3, (2, *sizes))
        return np.asarray(parts[0] + 1j * parts[1]).astype(dtype_of(kind))
    return small(generator, kind, sizes)


def _values(sample: Sample, kinds: Sequence[str]) -> Filler:
    if _exact(kinds):
        return anything
    floats = all(element_type(kind).is_float or element_type(kind).is_complex for kind in kinds)
    return modest if floats and "f8e8m0fnu" not in kinds and sample.rng.random() < 0.4 else whole


def _source(sample: Sample, kind: str, sizes: Sequence[int], values: Filler) -> Instruction:
    """An array of these sizes: an operand as it is, or seen through a transpose, slice, reverse or broadcast."""
    rng, build, sizes = sample.rng, sample.builder, tuple(sizes)
    rank, how = len(sizes), rng.random()
    if not rank or how < 0.7:
        return sample.operand(kind, sizes, values)
    d = rng.randrange(rank)
    if how < 0.8:
        order = rng.sample(range(rank), rank)
        stored = [0] * rank
        for at, place in enumerate(order):
            stored[place] = sizes[at]
        return build.transpose(sample.operand(kind, stored, values), order)
    if how < 0.87:
        return build.add("reverse", None, [sample.operand(kind, sizes, values)], {"dimensions": (d,)})
    if how < 0.94:
        kept = [at for at in range(rank) if at != d]
        return build.broadcast(sample.operand(kind, [sizes[at] for at in kept], values), kept, sizes)
    wide = [n + (at == d) * rng.randint(1, 3) for at, n in enumerate(sizes)]
    starts = [rng.randint(0, m - n) for m, n in zip(wide, sizes, strict=True)]
    limits = [start + n for start, n in zip(starts, sizes, strict=True)]
    return build.slice(sample.operand(kind, wide, values), starts, limits)


# ---- dot


def _length(sample: Sample, room: int) -> int:
    rng = sample.rng
    if rng.random() < 0.02:
        return 0
    some = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64, 65)
    return max(1, min(room, rng.choice((*some, rng.randint(1, 70)))))


def _groups(sample: Sample, counts: Sequence[int]) -> list[list[int]]:
    """Lengths of `counts` dimensions of several sorts, of at most `_MOST` elements together."""
    rng, room = sample.rng, _MOST
    made: list[list[int]] = [[0] * count for count in counts]
    places = [(group, at) for group, count in enumerate(counts) for at in range(count)]
    rng.shuffle(places)
    for group, at in places:
        made[group][at] = _length(sample, room)
        room //= max(1, made[group][at])
    return made


def _arranged(sample: Sample, groups: Sequence[Sequence[int]]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Dimensions of several sorts in any order: the sizes, and where each sort lies."""
    every = [(group, at) for group, sizes in enumerate(groups) for at in range(len(sizes))]
    order = list(every)
    if sample.rng.random() < 0.7:
        sample.rng.shuffle(order)
    where = [tuple(order.index((group, at)) for at in range(len(sizes))) for group, sizes in enumerate(groups)]
    return [groups[group][at] for group, at in order], where


def _dimensions(sample: Sample, most: int = 5) -> tuple[list[int], list[int], dict[str, Any]]:
    """Sizes of both operands, and the dimension numbers."""
    rng = sample.rng
    if rng.random() < 0.4:  # matrices
        counts = [0, 1, 1, 1]
    else:
        batch, contracted = rng.choice((0, 0, 1, 2)), rng.choice((0, 1, 1, 2))
        left = rng.randint(0, max(0, most - batch - contracted)) if rng.random() < 0.3 else rng.choice((0, 1, 1))
        right = rng.randint(0, max(0, most - batch - contracted)) if rng.random() < 0.3 else rng.choice((0, 1, 1))
        counts = [batch, contracted, left, right]
    batch_sizes, contracted_sizes, left_sizes, right_sizes = _groups(sample, counts)
    lhs, left_at = _arranged(sample, (batch_sizes, contracted_sizes, left_sizes))
    rhs, right_at = _arranged(sample, (batch_sizes, contracted_sizes, right_sizes))
    attributes: dict[str, Any] = {
        "lhs_contracting_dims": left_at[1], "rhs_contracting_dims": right_at[1],
        "lhs_batch_dims": left_at[0], "rhs_batch_dims": right_at[0],
    }  # fmt: skip
    return lhs, rhs, {name: dims for name, dims in attributes.items() if dims or name[4:] == "contracting_dims"}


def _precision(sample: Sample, attributes: dict[str, Any]) -> None:
    if sample.rng.random() < 0.2:
        attributes["operand_precision"] = tuple(sample.rng.choice(("default", "high", "highest")) for _ in range(2))


@family("dot", "all")
def dot(sample: Sample, opcode: str, kind: str) -> Instruction:
    rng = sample.rng
    kinds = _types(sample, kind)
    lhs, rhs, attributes = _dimensions(sample)
    _precision(sample, attributes)
    values = _values(sample, kinds)
    if element_type(kind).is_float and rng.random() < 0.15:
        attributes["algorithm"] = rng.choice(list(ALGORITHMS))
        values = whole  # one narrow number holds each
    operands = _source(sample, kinds[0], lhs, values), _source(sample, kinds[1], rhs, values)
    shape = infer("dot", [o.shape for o in operands], attributes).with_type(kinds[2])
    return sample.builder.add("dot", shape, operands, attributes)


@family("scaled-dot", "narrow float")
def scaled_dot(sample: Sample, opcode: str, kind: str) -> Instruction:
    rng = sample.rng
    floats = [t for t in TYPES if element_type(t).is_float]
    lhs, rhs, attributes = _dimensions(sample)
    types = kind, rng.choice((kind, *floats))
    operands = [sample.operand(t, sizes, whole) for t, sizes in zip(types, (lhs, rhs), strict=True)]
    for sizes in (lhs, rhs):
        scale = [rng.choice([n for n in range(1, size + 1) if size % n == 0] or [0]) for size in sizes]
        operands.append(sample.operand(rng.choice(floats), scale if rng.random() < 0.9 else (), whole))
    shape = infer("scaled-dot", [o.shape for o in operands], attributes)
    result = rng.choice(("f32", "bf16", "f16", "f64", kind, "s32"))
    return sample.builder.add("scaled-dot", shape.with_type(result), operands, attributes)


# ---- ragged-dot


@family("ragged-dot", "all")
def ragged_dot(sample: Sample, opcode: str, kind: str) -> Instruction:
    """Group sizes that add up to the ragged dimension, to less, to more, and negative ones."""
    rng = sample.rng
    mode, groups = rng.choice(("free", "free", "contracting", "batch")), rng.randint(1, 5)
    batches = int(mode == "batch") + rng.choice((0, 0, 1))
    counts = [batches, rng.choice((1, 1, 2)), rng.choice((1, 1, 2)), rng.choice((0, 1))]
    batch, contracted, left, right = _groups(sample, counts)
    lhs, left_at = _arranged(sample, (batch, contracted, left))
    rhs, right_at = _arranged(sample, (batch, contracted, right, [groups] if mode == "free" else []))
    pool = {"free": sorted(left_at[2]), "contracting": left_at[1], "batch": left_at[0]}[mode]
    at = rng.randrange(len(pool))
    attributes: dict[str, Any] = {
        "lhs_contracting_dims": left_at[1], "rhs_contracting_dims": right_at[1], "lhs_ragged_dims": (pool[at],)
    }
    if batch:
        attributes |= {"lhs_batch_dims": left_at[0], "rhs_batch_dims": right_at[0]}
    if mode == "free":
        attributes["rhs_group_dims"] = right_at[3]
    outer = [*(left_at[0] if mode != "batch" else ()), *pool[:at]]
    sizes = [*(lhs[d] for d in outer), groups] if rng.random() < 0.5 else [groups]
    kinds = _types(sample, kind)
    values = _values(sample, kinds)
    extent = lhs[pool[at]]
    counts_of = rng.choice([t for t in TYPES if element_type(t).is_integer])
    operands = [
        sample.operand(kinds[0], lhs, values), sample.operand(kinds[1], rhs, values),
        sample.operand(counts_of, sizes, within(-2 if rng.random() < 0.3 else 0, 2 * -(-extent // groups))),
    ]  # fmt: skip
    _precision(sample, attributes)
    shape = infer("ragged-dot", [o.shape for o in operands], attributes).with_type(kinds[2])
    return sample.builder.add("ragged-dot", shape, operands, attributes)


# ---- convolution


def _kernel_values(sample: Sample, kinds: Sequence[str], values: Filler) -> Filler:
    """Those of the kernel: now and then some of them are infinite or NaN, which padding must not meet."""
    real = all(element_type(kind).is_float and kind != "f8e8m0fnu" for kind in kinds)
    if not real or np.isfinite(np.asarray(np.nan).astype(dtype_of(kinds[1]))) or sample.rng.random() < 0.7:
        return values

    def strange(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
        made = values(generator, kind, sizes).copy()
        where = generator.random(sizes) < 0.1
        made[where] = generator.choice([np.inf, -np.inf, np.nan], sizes)[where].astype(made.dtype)
        return made

    return strange


@family("convolution", "all")
def convolution(sample: Sample, opcode: str, kind: str) -> Instruction:
    rng = sample.rng
    rank = rng.choice((0, 1, 1, 2, 2, 2, 3))
    groups, batches = rng.choice(((1, 1), (1, 1), (1, 1), (2, 1), (3, 1), (8, 1), (17, 1), (1, 2), (1, 3), (1, 5)))
    features = rng.choice((1, 1, 2, 3, 5, 8)) * groups
    made = rng.choice((1, 1, 2, 3, 5, 16, 17, 33)) * groups * batches
    batch = rng.choice((1, 2, 3)) * batches if rng.random() > 0.02 else 0
    window, base = [], []
    budget = max(1, _MOST // max(1, features // groups * made * batch))
    for _ in range(rank):
        size = min(rng.choice((1, 1, 2, 3, 4, 5)), budget)
        dilation, holes = (rng.choice((1, 1, 1, 2, 3)) for _ in range(2))
        most = max(1, round((budget // size) ** (1 / rank)))
        length = min(rng.choice((1, 2, 3, 5, 7, 9, 17, 31, 33)), most) if rng.random() > 0.02 else 0
        low, high = (rng.choice((0, 0, 0, 1, 1, 2, 3, -1, -2, length + 2)) for _ in range(2))
        one = WindowDimension(size, rng.choice((1, 1, 1, 2, 3)), low, high, holes, dilation, rng.random() < 0.25)
        window.append(one)
        base.append(length)
        budget = max(1, budget // max(1, size * length))
    orders = [rng.sample(range(rank + 2), rank + 2) if rng.random() < 0.6 else list(range(rank + 2)) for _ in range(3)]
    left, right, result = orders
    numbers = ConvDimensionNumbers(
        left[0], left[1], tuple(left[2:]), right[0], right[1], tuple(right[2:]), result[0], result[1], tuple(result[2:])
    )
    lhs, rhs = [0] * (rank + 2), [0] * (rank + 2)
    for place, size in zip(left, (batch, features, *base), strict=True):
        lhs[place] = size
    for place, size in zip(right, (features // groups, made, *(d.size for d in window)), strict=True):
        rhs[place] = size
    attributes: dict[str, Any] = {"dim_labels": numbers, "window": Window(tuple(window))}
    if groups > 1:
        attributes["feature_group_count"] = groups
    if batches > 1:
        attributes["batch_group_count"] = batches
    _precision(sample, attributes)
    kinds = _types(sample, kind)
    try:
        infer("convolution", [array(kinds[0], lhs), array(kinds[1], rhs)], attributes)
    except ShapeError:  # convolutions take only types of which one holds the other
        kinds = kind, kind, kinds[2]
    values = _values(sample, kinds)
    kernel = _source(sample, kinds[1], rhs, _kernel_values(sample, kinds, values))
    operands = _source(sample, kinds[0], lhs, values), kernel
    shape = infer("convolution", [o.shape for o in operands], attributes)
    assert prod(shape.dimensions) < 1 << 20
    return sample.builder.add("convolution", array(kinds[2], shape.dimensions), operands, attributes)
