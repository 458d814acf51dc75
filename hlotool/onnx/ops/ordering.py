"""Order: the greatest elements, elements without repetition, and boxes that do not overlap."""

from __future__ import annotations

from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.numpy.control import fori_loop
from hlotool.numpy.sorting import sorted_with
from hlotool.numpy.statistical import cumulative
from hlotool.onnx.lowering import Context, Refused, lowering, normal_axes
from hlotool.onnx.ops.indexing import bounded, compacted
from hlotool.onnx.ops.pieces import constant, number
from hlotool.onnx.ops.shapes import sliced

__all__: list[str] = []


@lowering("TopK")
def top_k(
    c: Context, x: Array, count: Array | None = None, *, axis: int = -1, largest: int = 1, sorted: int = 1,
    k: int | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    (place,) = normal_axes([axis], x.ndim)
    wanted = c.whole(count, "k") if count is not None else k
    if wanted is None or not 0 <= wanted <= x.shape[place]:
        raise Refused(f"the {wanted} first of {x.shape[place]} elements")
    sizes = [1] * x.ndim
    sizes[place] = x.shape[place]
    index = np.broadcast_to(constant(numpy.arange(x.shape[place]).reshape(sizes)), x.shape)
    values, places = sorted_with([x], [index], place, descending=bool(largest))
    return tuple(sliced(one, [(place, 0, wanted, 1)]) for one in (values, places))  # type: ignore[return-value]  # two


@lowering("Unique")
def unique(c: Context, x: Array, *, axis: int | None = None, sorted: int = 1) -> tuple[Array, ...]:
    """Rows sorted, of which the first of equal ones stay; how many, the program finds out."""
    if axis is None:
        rows = np.reshape(x, (-1, 1))
    else:
        (place,) = normal_axes([axis], x.ndim)
        rows = np.reshape(np.moveaxis(x, place, 0), (x.shape[place], -1))
    count, width = rows.shape
    if not count:
        raise Refused("an array without elements")
    index = constant(numpy.arange(count))
    columns = [rows[:, n] for n in range(width)]
    ordered = sorted_with(columns, [index], 0)
    columns, order = ordered[:-1], ordered[-1]
    first: Any = np.ones((1,), bool)
    if count > 1:
        differs = np.zeros((count - 1,), bool)
        for one in columns:
            differs = np.logical_or(differs, np.not_equal(one[1:], one[:-1]))
        first = np.concat([first, differs])
    number_of = cumulative(np.astype(first, numpy.int64), "add", 0, 0) - constant(1, numpy.int64)
    total = number_of[-1] + constant(1, numpy.int64)
    group = np.zeros((count,), numpy.int64).at[order].set(number_of)  # of each row, in the order of values
    starts = np.full((count,), count, dtype=numpy.int64).at[group].min(index)  # its first row
    counts = np.zeros((count,), numpy.int64).at[group].add(np.ones((count,), numpy.int64))
    if not sorted:  # groups in the order in which they are met
        rank = np.argsort(starts)
        new = np.zeros((count,), numpy.int64).at[rank].set(index)
        group, starts, counts = np.take(new, group), np.take(starts, rank), np.take(counts, rank)
    chosen = np.minimum(starts, number(count - 1, starts))
    if axis is None:
        values = bounded(np.take(np.reshape(x, (-1,)), chosen), total)
    else:
        values = bounded(np.take(x, chosen, axis=place), total, place)
    return (values, bounded(chosen, total), group, bounded(counts, total))[: len(c.wanted)]


@lowering("NonMaxSuppression")
def non_max_suppression(
    c: Context, boxes: Array, scores: Array, most: Array | None = None, overlap: Array | None = None,
    least: Array | None = None, *, center_point_box: int = 0,
) -> Array:  # fmt: skip
    """The best boxes of each batch and class, without those that overlap a better one too much."""
    batches, classes, count = scores.shape
    limit = 0 if most is None else int(c.static(np.reshape(most, ()), "the number of boxes"))
    limit = min(limit, count)
    if limit <= 0 or not batches * classes:
        return np.zeros((0, 3), numpy.int64)
    threshold = constant(0, "f4") if overlap is None else np.reshape(overlap, ())
    if center_point_box:
        half = boxes[..., 2:] / number(2, boxes)
        corners = np.concat([boxes[..., :2] - half, boxes[..., :2] + half], axis=-1)
    else:
        low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
        corners = np.concat([low, high], axis=-1)
    spread = np.reshape(np.broadcast_to(corners[:, None], (batches, classes, count, 4)), (-1, count, 4))
    sides = spread[..., 2:] - spread[..., :2]
    areas = sides[..., 0] * sides[..., 1]
    points = np.reshape(scores, (-1, count))
    alive = np.ones(points.shape, bool) if least is None else points > np.reshape(least, ())
    rows, lines = points.shape[0], constant(numpy.arange(points.shape[0]))
    worst = number(-numpy.inf, points)

    def step(turn: Any, state: Any) -> Any:
        alive, chosen, there = state
        best = np.argmax(np.where(alive, points, worst), axis=1)
        found = np.any(alive, axis=1)
        box = spread[lines, best]
        low = np.maximum(spread[..., :2], box[:, None, :2])
        high = np.minimum(spread[..., 2:], box[:, None, 2:])
        common = np.maximum(high - low, number(0, high))
        shared = common[..., 0] * common[..., 1]
        union = areas + areas[lines, best][:, None] - shared
        ratio = np.where(union > number(0, union), shared / union, number(0, union))
        alive = np.logical_and(alive, np.logical_not(ratio > threshold))
        alive = np.logical_and(alive, np.not_equal(constant(numpy.arange(count)), best[:, None]))
        return alive, chosen.at[:, turn].set(best), there.at[:, turn].set(found)

    begin = (alive, np.zeros((rows, limit), numpy.int64), np.zeros((rows, limit), bool))
    _, chosen, there = fori_loop(0, limit, step, begin)
    batch, class_ = numpy.divmod(numpy.arange(rows), classes)
    wide = [np.broadcast_to(constant(one.reshape(-1, 1)), chosen.shape) for one in (batch, class_)]
    found = np.reshape(np.stack([*wide, chosen], axis=-1), (-1, 3))
    places, total = compacted(np.reshape(there, (-1,)))
    return bounded(np.take(found, places, axis=0), total)
