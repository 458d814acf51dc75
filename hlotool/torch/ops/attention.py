"""Scaled dot product attention, as the kernel of this processor computes it, and its gradient."""

from __future__ import annotations

from math import sqrt

from hlotool.ir import Instruction
from hlotool.ir.shape import array
from hlotool.torch.lowering import Context, lowering
from hlotool.torch.ops.pieces import element, sizes, spread
from hlotool.torch.refusal import Refused

__all__: list[str] = []

_BATCH = ((0, 1), (0, 1))


def _check(query: Instruction, key: Instruction, value: Instruction, dropout: float) -> None:
    if dropout:
        raise Refused("attention with dropout")
    batch, heads = sizes(query)[:2]
    for one in (key, value):
        if sizes(one)[0] != batch or (sizes(one)[1] and heads % sizes(one)[1]):
            raise Refused("attention whose queries are no multiple of its keys")
    if not (query.shape.size and key.shape.size and value.shape.size):
        raise Refused("attention without elements")


def _grouped(c: Context, a: Instruction, like: Instruction) -> Instruction:
    """Rows of query heads as more rows of the heads that `like` has, each of which serves several in a row."""
    if sizes(a)[1] == sizes(like)[1]:
        return a
    batch, heads = sizes(like)[:2]
    return c.builder.reshape(a, (batch, heads, sizes(a)[1] // heads * sizes(a)[2], sizes(a)[3]))


def _rows_with(
    c: Context, rows: Instruction, other: Instruction, along: tuple[int, int], kind: str | None = None
) -> Instruction:
    """For each row of each query head, its product with the keys or values of the head that serves it."""
    made = c.builder.dot(_grouped(c, rows, other), other, ((along[0],), (along[1],)), _BATCH, kind)
    due = (*sizes(rows)[:3], sizes(made)[3])
    return made if sizes(made) == due else c.builder.reshape(made, due)


def _sum_over_rows(c: Context, a: Instruction, b: Instruction, like: Instruction, kind: str) -> Instruction:
    """Products of two arrays of rows, summed over all rows of the query heads that a head of `like` serves."""
    return c.builder.dot(_grouped(c, a, like), _grouped(c, b, like), ((2,), (2,)), _BATCH, kind)


def _scores(
    c: Context, query: Instruction, key: Instruction, causal: bool, mask: Instruction | None, scale: float | None
) -> Instruction:
    """What softmax is taken of, [batch, heads, queries, keys], in the type that it is computed in."""
    b = c.builder
    kind = element(c.computed(query))
    made = _rows_with(c, query, key, (3, 3), kind)
    made = b.binary("multiply", made, c.like(1 / sqrt(sizes(query)[3]) if scale is None else scale, made))
    if mask is not None:
        if element(mask) == "pred":
            made = b.select(c.expand(mask, sizes(made)), made, c.like(float("-inf"), made))
        else:
            made = b.binary("add", made, c.tensor(mask, kind, sizes(made)))
    if causal:
        below = array("s32", sizes(made)[2:])
        seen = b.compare(b.iota(below, 0), b.iota(below, 1), "GE")
        made = b.select(spread(c, seen, (2, 3), sizes(made)), made, c.like(float("-inf"), made))
    return made


def _rows(c: Context, a: Instruction, like: Instruction) -> Instruction:
    """A number for every query, in the place of all keys."""
    return spread(c, a, (0, 1, 2), sizes(like))


@lowering("aten._scaled_dot_product_flash_attention_for_cpu.default")
def attention(
    c: Context, query: Instruction, key: Instruction, value: Instruction, dropout_p: float = 0.0,
    is_causal: bool = False, *, attn_mask: Instruction | None = None, scale: float | None = None,
) -> tuple[Instruction, Instruction]:  # fmt: skip
    """A query that sees no key gets zeros."""
    _check(query, key, value, dropout_p)
    b, scores = c.builder, _scores(c, query, key, is_causal, attn_mask, scale)
    most = c.reduce(scores, (3,), "maximum", float("-inf"))
    if attn_mask is not None:
        most = b.select(b.compare(most, c.like(float("-inf"), most), "EQ"), c.like(0, most), most)
    raised = b.unary("exponential", b.binary("subtract", scores, _rows(c, most, scores)))
    total = c.reduce(raised, (3,), "add", 0)
    by = total
    if attn_mask is not None:
        by = b.select(b.compare(total, c.like(0, total), "EQ"), c.like(1, total), total)
    weights = c.convert(b.binary("divide", raised, _rows(c, by, raised)), element(value))
    made = _rows_with(c, weights, value, (3, 2))
    wanted = c.expected[1]
    assert wanted is not None
    logs = b.binary("add", b.unary("log", total), most)
    return made, c.convert(logs, wanted[0])


@lowering("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def attention_backward(
    c: Context, grad_out: Instruction, query: Instruction, key: Instruction, value: Instruction, out: Instruction,
    logsumexp: Instruction, dropout_p: float, is_causal: bool, *, attn_mask: Instruction | None = None,
    scale: float | None = None,
) -> tuple[Instruction, Instruction, Instruction]:  # fmt: skip
    _check(query, key, value, dropout_p)
    b, kind = c.builder, element(query)
    scores = _scores(c, query, key, is_causal, attn_mask, scale)
    wide = element(scores)
    weights = b.unary("exponential", b.binary("subtract", scores, _rows(c, c.convert(logsumexp, wide), scores)))
    if attn_mask is not None:  # a query that sees nothing
        none = b.compare(scores, c.like(float("-inf"), scores), "EQ")
        weights = b.select(none, c.like(0, weights), weights)
    narrow = c.convert(weights, kind)
    by_value = _sum_over_rows(c, narrow, grad_out, value, wide)
    by_weights = _rows_with(c, grad_out, value, (3, 3), wide)
    shared = c.reduce(b.binary("multiply", c.convert(grad_out, wide), c.convert(out, wide)), (3,), "add", 0)
    inner = b.binary("multiply", weights, b.binary("subtract", by_weights, _rows(c, shared, by_weights)))
    inner = b.binary("multiply", inner, c.like(1 / sqrt(sizes(query)[3]) if scale is None else scale, inner))
    inner = c.convert(inner, kind)
    by_query = _rows_with(c, inner, key, (3, 2), wide)
    by_key = _sum_over_rows(c, inner, query, key, wide)
    return c.convert(by_query, kind), c.convert(by_key, kind), c.convert(by_value, kind)
