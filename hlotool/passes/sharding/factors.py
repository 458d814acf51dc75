"""Which dimensions of the operands and results of an operation run together: a rule for each opcode.

A rule gives links.  A link names, for operands and results, the factors that their dimensions are made of
(`hlotool.passes.sharding.projection`); a factor that two arrays have is cut in both alike.  In which order links are
followed is told by levels, as in GSPMD (Xu et al. 2021, arXiv:2105.04663, section 3.5): first what computes element by
element, both ways, and the way back through what adds dimensions; then products, reductions and movement; then the way
forward through what adds dimensions; last what would have to be moved anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from hlotool.analysis.contraction import dot_dimensions
from hlotool.evaluate.xla_annotations import IDENTITY_TARGETS
from hlotool.ir import Instruction, Shape
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.sharding.projection import Factors

__all__ = ["ACROSS", "BOUNDARIES", "CARRYING", "LEVELS", "RULES", "SILENT", "Link", "links_of", "reshape_factors"]

FIRST, USUAL, LATE, ACROSS = LEVELS = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What the dimensions of `operands` and of the leaves of the result have in common.

    None stands for an operand that has no part.  Along `mirrored` factors, the results begin where the operands end.
    `forward` and `backward` are the levels of the ways from operands to results and back; the ways between operands are
    `ACROSS`, the last.
    """

    operands: tuple[Factors | None, ...]
    results: tuple[Factors, ...]
    sizes: tuple[int, ...]
    mirrored: frozenset[int] = frozenset()
    forward: int = USUAL
    backward: int = USUAL


class _Factors:
    """Numbers factors."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def new(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def each(self, dimensions: Sequence[int]) -> list[int]:
        """A factor for every dimension."""
        return [self.new(size) for size in dimensions]


def _rows(factors: Sequence[int]) -> Factors:
    return tuple((factor,) for factor in factors)


def _link(
    factors: _Factors,
    operands: Sequence[Factors | None],
    results: Sequence[Factors],
    forward: int = USUAL,
    backward: int = USUAL,
) -> list[Link]:
    sizes = tuple(factors.sizes)
    return [Link(operands=tuple(operands), results=tuple(results), sizes=sizes, forward=forward, backward=backward)]


Rule = Callable[[Instruction], list[Link]]


# ---- element by element


def _elementwise(one: Instruction) -> list[Link]:
    """Scalars may stand beside arrays."""
    return _alike(one, FIRST)


def _movement_alike(one: Instruction) -> list[Link]:
    return _alike(one, USUAL)


def _alike(one: Instruction, level: int) -> list[Link]:
    leaves = [*one.shape.leaves()]
    model = next((leaf for leaf in leaves if leaf.is_array), None)
    if model is None:
        return []
    factors = _Factors()
    rows = _rows(factors.each(model.dimensions))
    operands = [rows if o.shape.is_array and o.shape.dimensions == model.dimensions else None for o in one.operands]
    results = [rows if leaf.dimensions == model.dimensions else _apart(factors, leaf) for leaf in leaves]
    return _link(factors, operands, results, level, level)


def _apart(factors: _Factors, shape: Shape) -> Factors:
    """Factors that nothing else has."""
    return _rows(factors.each(shape.dimensions))


def _leaf_by_leaf(one: Instruction) -> list[Link]:
    """The results are the operands, one by one: all-reduce, collective-permute."""
    leaves = [*one.shape.leaves()]
    if len(leaves) != len(one.operands) or any(
        leaf.dimensions != o.shape.dimensions for leaf, o in zip(leaves, one.operands, strict=True)
    ):
        return []
    factors = _Factors()
    rows = [_rows(factors.each(leaf.dimensions)) for leaf in leaves]
    return _link(factors, rows, rows, FIRST, FIRST)


def _bitcast_convert(one: Instruction) -> list[Link]:
    """Elements of another size have a dimension more, or less, the last."""
    a, b = one.operands[0].shape, one.shape
    shared = min(a.rank, b.rank)
    factors = _Factors()
    common = factors.each(a.dimensions[:shared])
    sides = [_rows([*common, *factors.each(side.dimensions[shared:])]) for side in (a, b)]
    return _link(factors, sides[:1], sides[1:], FIRST, FIRST)


def _custom_call(one: Instruction) -> list[Link]:
    target = one.attributes.get("custom_call_target")
    if target in BOUNDARIES:
        return []
    if target in IDENTITY_TARGETS and len(one.operands) == 1 and one.operands[0].shape.compatible(one.shape):
        return _elementwise(one)
    return _all_but_last(one) if target == "TopK" else []


BOUNDARIES = frozenset({"SPMDFullToShardShape", "SPMDShardToFullShape"})
"""Custom calls whose operand and result are an array and the parts of one: nothing follows for one from the other."""


# ---- movement


def _broadcast(one: Instruction) -> list[Link]:
    factors = _Factors()
    result = factors.each(one.shape.dimensions)
    operand = one.operands[0].shape
    rows = [
        (result[d],) if operand.dimensions[n] == one.shape.dimensions[d] else (factors.new(operand.dimensions[n]),)
        for n, d in enumerate(one.attributes["dimensions"])
    ]
    return _link(factors, [tuple(rows)], [_rows(result)], LATE, FIRST)


def _transpose(one: Instruction) -> list[Link]:
    factors = _Factors()
    operand = factors.each(one.operands[0].shape.dimensions)
    return _link(factors, [_rows(operand)], [_rows([operand[d] for d in one.attributes["dimensions"]])], FIRST, FIRST)


def reshape_factors(before: Sequence[int], after: Sequence[int]) -> tuple[Factors, Factors, tuple[int, ...]]:
    """The factors of both sides of a reshape, and their sizes."""
    factors = _Factors()
    sides: tuple[list[list[int]], list[list[int]]] = [[] for _ in before], [[] for _ in after]
    dimensions = (before, after)
    if 0 in before:
        return _rows(factors.each(before)), _rows(factors.each(after)), tuple(factors.sizes)
    place = [0, 0]
    left = [1, 1]  # what of the current dimension no factor has yet

    def take(side: int) -> bool:
        """Go to the next dimension of more than one element."""
        while left[side] == 1 and place[side] < len(dimensions[side]):
            left[side] = dimensions[side][place[side]]
            if left[side] == 1:
                sides[side][place[side]].append(factors.new(1))
            place[side] += 1
        return left[side] > 1

    while take(0) & take(1):
        common = gcd(left[0], left[1])
        if common > 1:
            shared = factors.new(common)
            for side in range(2):
                sides[side][place[side] - 1].append(shared)
                left[side] //= common
        if common == 1 or min(left) > 1:  # neither divides the other: nothing in common up to where both end
            products = [left[0], left[1]]
            for side in range(2):
                sides[side][place[side] - 1].append(factors.new(left[side]))
                left[side] = 1
            while products[0] != products[1]:
                side = int(products[1] < products[0])
                left[side] = 1
                if not take(side):
                    break
                sides[side][place[side] - 1].append(factors.new(left[side]))
                products[side] *= left[side]
                left[side] = 1
    rows = [tuple(tuple(row) for row in side) for side in sides]
    return rows[0], rows[1], tuple(factors.sizes)


def _reshape(one: Instruction) -> list[Link]:
    operand, result, sizes = reshape_factors(one.operands[0].shape.dimensions, one.shape.dimensions)
    return [Link(operands=(operand,), results=(result,), sizes=sizes, forward=FIRST, backward=FIRST)]


def _bitcast(one: Instruction) -> list[Link]:
    """A reshape, where both sides have elements of one size and lie row by row."""
    a, b = one.operands[0].shape, one.shape
    plain = all(shape.layout is None or shape.layout.is_row_major for shape in (a, b))
    return _reshape(one) if plain and a.size == b.size else []


def _reverse(one: Instruction) -> list[Link]:
    """A device reverses what it has, and has the part then that is as far from the other end."""
    rows = _rows(range(one.shape.rank))
    turned = frozenset(one.attributes["dimensions"])
    return [Link(operands=(rows,), results=(rows,), sizes=one.shape.dimensions, mirrored=turned)]


def _concatenate(one: Instruction) -> list[Link]:
    """First all dimensions but the one along which arrays stand side by side, late that one."""
    (dimension,) = one.attributes["dimensions"]
    factors = _Factors()
    result = factors.each(one.shape.dimensions)
    own = [factors.new(operand.shape.dimensions[dimension]) for operand in one.operands]
    apart = [_rows([*result[:dimension], factor, *result[dimension + 1 :]]) for factor in own]
    return [
        *_link(factors, apart, [_rows(result)]),
        *_link(factors, [_rows(result)] * len(one.operands), [_rows(result)], LATE, LATE),
    ]


def _pad(one: Instruction) -> list[Link]:
    """Along padded dimensions, too: neighbours exchange what is missing."""
    factors = _Factors()
    pairs = zip(one.operands[0].shape.dimensions, one.shape.dimensions, strict=True)
    rows = _rows(factors.each([max(pair) for pair in pairs]))
    return _link(factors, [rows, None], [rows])


def _slice(one: Instruction) -> list[Link]:
    """First the dimensions that are kept whole; late those that are cut less than in half, strides left out."""
    given = one.operands[0].shape.dimensions
    factors = _Factors()
    rows = factors.each(given)
    sizes = [*zip(rows, given, one.shape.dimensions, one.attributes["slice"], strict=True)]
    exact = [row if full == kept else factors.new(kept) for row, full, kept, _ in sizes]
    large = [row if 2 * (cut.limit - cut.start) > full else factors.new(kept) for row, full, kept, cut in sizes]
    found = _link(factors, [_rows(rows)], [_rows(exact)])
    return found if exact == large else [*found, *_link(factors, [_rows(rows)], [_rows(large)], LATE, LATE)]


def _dynamic_slice(one: Instruction) -> list[Link]:
    """The dimensions that are kept whole."""
    factors = _Factors()
    rows = factors.each(one.operands[0].shape.dimensions)
    pairs = zip(rows, one.operands[0].shape.dimensions, one.shape.dimensions, strict=True)
    part = [row if full == kept else factors.new(kept) for row, full, kept in pairs]
    return _link(factors, [_rows(rows), *[None] * (len(one.operands) - 1)], [_rows(part)])


def _dynamic_update_slice(one: Instruction) -> list[Link]:
    """The result is cut as what is updated; the update, along dimensions that it has whole."""
    factors = _Factors()
    rows = factors.each(one.shape.dimensions)
    pairs = zip(rows, one.shape.dimensions, one.operands[1].shape.dimensions, strict=True)
    part = [row if full == kept else factors.new(kept) for row, full, kept in pairs]
    rest: list[Factors | None] = [None] * (len(one.operands) - 2)
    return _link(factors, [_rows(rows), _rows(part), *rest], [_rows(rows)])


# ---- reductions


def _reduce(one: Instruction) -> list[Link]:
    factors = _Factors()
    rows = factors.each(one.operands[0].shape.dimensions)
    kept = [row for d, row in enumerate(rows) if d not in one.attributes["dimensions"]]
    count = len(one.operands) // 2
    operands: list[Factors | None] = [*[_rows(rows)] * count, *[None] * count]
    return _link(factors, operands, [_rows(kept)] * count)


def _reduce_window(one: Instruction) -> list[Link]:
    """Along windows, too: neighbours exchange halos."""
    count = len(one.operands) // 2
    leaves = [*one.shape.leaves()]
    factors = _Factors()
    pairs = zip(one.operands[0].shape.dimensions, leaves[0].dimensions, strict=True)
    rows = _rows(factors.each([min(pair) for pair in pairs]))
    return _link(factors, [*[rows] * count, *[None] * count], [rows] * len(leaves))


def _select_and_scatter(one: Instruction) -> list[Link]:
    factors = _Factors()
    pairs = zip(one.operands[0].shape.dimensions, one.operands[1].shape.dimensions, strict=True)
    rows = _rows(factors.each([min(pair) for pair in pairs]))
    return _link(factors, [rows, rows, None], [rows])


def _batch_norm(one: Instruction) -> list[Link]:
    feature = one.attributes["feature_index"]
    factors = _Factors()
    rows = factors.each(one.operands[0].shape.dimensions)
    large, small = _rows(rows), _rows([rows[feature]])
    kinds = {one.operands[0].shape.rank: large, 1: small}
    operands = [large, *(kinds.get(o.shape.rank) for o in one.operands[1:])]
    if one.operands[0].shape.rank == 1:
        operands = [large] * len(one.operands)
    leaves = [*one.shape.leaves()]
    return _link(factors, operands, [large, *[small] * (len(leaves) - 1)])


def _map(one: Instruction) -> list[Link]:
    return _elementwise(one)


# ---- products


def _dot(one: Instruction) -> list[Link]:
    """Batch and free dimensions are those of the result; operands are cut alike along what is summed over."""
    return _product(one, [])


def _product(one: Instruction, scales: Sequence[tuple[int, int]]) -> list[Link]:
    """A dot of the operands 0 and 1; the operand n of `scales` has dimensions of the operand m."""
    numbers = dot_dimensions(one)
    lhs, rhs = (operand.shape.dimensions for operand in one.operands[:2])
    factors = _Factors()
    left = factors.each(lhs)
    right = factors.each(rhs)
    for theirs, ours in zip(
        (*numbers.rhs_batch, *numbers.rhs_contracting), (*numbers.lhs_batch, *numbers.lhs_contracting), strict=True
    ):
        right[theirs] = left[ours]
    result = [*(left[d] for d in (*numbers.lhs_batch, *numbers.lhs_free)), *(right[d] for d in numbers.rhs_free)]
    operands: list[Factors | None] = [_rows(left), _rows(right), *[None] * (len(one.operands) - 2)]
    for place, model in scales:
        shape, rows = one.operands[place].shape, (left, right)[model]
        if shape.rank == len(rows):
            sizes = zip(rows, shape.dimensions, one.operands[model].shape.dimensions, strict=True)
            operands[place] = _rows([row if a == b else factors.new(a) for row, a, b in sizes])
    return _link(factors, operands, [_rows(result)])


def _scaled_dot(one: Instruction) -> list[Link]:
    """Scales have the dimensions of what they scale, where these have as many elements."""
    return _product(one, [(2, 0), (3, 1)])


def _ragged_dot(one: Instruction) -> list[Link]:
    """The free dimensions of the right operand, and those of the left that are not ragged."""
    numbers = dot_dimensions(one)
    ragged = {*one.attributes.get("lhs_ragged_dims", ())}
    groups = {*one.attributes.get("rhs_group_dims", ())}
    factors = _Factors()
    left = factors.each(one.operands[0].shape.dimensions)
    right = factors.each(one.operands[1].shape.dimensions)
    for theirs, ours in zip(
        (*numbers.rhs_batch, *numbers.rhs_contracting), (*numbers.lhs_batch, *numbers.lhs_contracting), strict=True
    ):
        if ours not in ragged:
            right[theirs] = left[ours]
    outer = [*(left[d] for d in (*numbers.lhs_batch, *numbers.lhs_free))]
    rows = [left[d] for d in ragged]
    outer = [factors.new(factors.sizes[row]) if row in rows else row for row in outer]
    inner = [right[d] for d in numbers.rhs_free if d not in groups]
    extra = one.shape.rank - len(outer) - len(inner)
    result = [*factors.each(one.shape.dimensions[: max(extra, 0)]), *outer, *inner]
    if len(result) != one.shape.rank:
        return []
    return _link(factors, [_rows(left), _rows(right), None], [_rows(result)])


def _convolution(one: Instruction) -> list[Link]:
    """Batch, features and space; groups are the major part of features (or of the batch)."""
    labels = one.attributes["dim_labels"]
    if labels.text is not None:
        return []
    lhs, rhs = (operand.shape.dimensions for operand in one.operands)
    out = one.shape.dimensions
    features = one.attributes.get("feature_group_count", 1)
    batches = one.attributes.get("batch_group_count", 1)
    factors = _Factors()
    groups = factors.new(max(features, batches))
    batch = factors.new(out[labels.output_batch])
    inner = factors.new(rhs[labels.kernel_input_feature])
    outer = factors.new(out[labels.output_feature] // max(features, batches))
    grouped = max(features, batches) > 1
    x: list[tuple[int, ...]] = [()] * len(lhs)
    w: list[tuple[int, ...]] = [()] * len(rhs)
    y: list[tuple[int, ...]] = [()] * len(out)
    x[labels.input_batch] = (groups, batch) if batches > 1 else (batch,)
    x[labels.input_feature] = (groups, inner) if features > 1 else (inner,)
    w[labels.kernel_input_feature] = (inner,)
    w[labels.kernel_output_feature] = (groups, outer) if grouped else (outer,)
    y[labels.output_batch] = (batch,)
    y[labels.output_feature] = (groups, outer) if grouped else (outer,)
    for a, k, b in zip(labels.input_spatial, labels.kernel_spatial, labels.output_spatial, strict=True):
        space = factors.new(min(lhs[a], out[b]))
        x[a], y[b], w[k] = (space,), (space,), (factors.new(rhs[k]),)
    return _link(factors, [tuple(x), tuple(w)], [tuple(y)])


# ---- indices


def _gather(one: Instruction) -> list[Link]:
    """Rows of indices are rows of the result; whole dimensions of the operand are dimensions of the result."""
    values = one.attributes
    operand, indices = (o.shape.dimensions for o in one.operands)
    factors = _Factors()
    source, places = factors.each(operand), factors.each(indices)
    batching = values.get("operand_batching_dims", ())
    for d, n in zip(batching, values.get("start_indices_batching_dims", ()), strict=True):
        source[d] = places[n]
    gone = {*values["collapsed_slice_dims"], *batching}
    kept = [d for d in range(len(operand)) if d not in gone]
    result = [-1] * one.shape.rank
    for place, d in zip(values["offset_dims"], kept, strict=True):
        whole = values["slice_sizes"][d] == operand[d]
        result[place] = source[d] if whole else factors.new(one.shape.dimensions[place])
    rows = [n for n in range(len(indices)) if n != values["index_vector_dim"]]
    for place, n in zip([p for p in range(one.shape.rank) if result[p] < 0], rows, strict=True):
        result[place] = places[n]
    return _link(factors, [_rows(source), _rows(places)], [_rows(result)])


def _scatter(one: Instruction) -> list[Link]:
    """Results are cut as operands; updates as indices by row, and as operands along what they have whole."""
    values = one.attributes
    count = len(one.operands) // 2
    operand, indices = one.operands[0].shape.dimensions, one.operands[count].shape.dimensions
    update = one.operands[count + 1].shape.dimensions
    factors = _Factors()
    source, places = factors.each(operand), factors.each(indices)
    batching = values.get("input_batching_dims", ())
    for d, n in zip(batching, values.get("scatter_indices_batching_dims", ()), strict=True):
        source[d] = places[n]
    gone = {*values["inserted_window_dims"], *batching}
    kept = [d for d in range(len(operand)) if d not in gone]
    rows = [-1] * len(update)
    for place, d in zip(values["update_window_dims"], kept, strict=True):
        rows[place] = source[d] if update[place] == operand[d] else factors.new(update[place])
    outer = [n for n in range(len(indices)) if n != values["index_vector_dim"]]
    for place, n in zip([p for p in range(len(update)) if rows[p] < 0], outer, strict=True):
        rows[place] = places[n]
    whole, part = _rows(source), _rows(rows)
    return _link(factors, [*[whole] * count, _rows(places), *[part] * count], [whole] * count)


# ---- all but some dimensions


def _except(one: Instruction, dimensions: Sequence[int], operands: int | None = None) -> list[Link]:
    """What is alike in all arrays but along some dimensions."""
    count = len(one.operands) if operands is None else operands
    leaves = [*one.shape.leaves()]
    factors = _Factors()
    model = one.operands[0].shape.dimensions
    shared = factors.each(model)

    def rows(shape: Shape) -> Factors:
        sizes = enumerate(shape.dimensions)
        return _rows([factors.new(size) if d in dimensions else shared[d] for d, size in sizes])

    alike = [o.shape if o.shape.is_array and o.shape.rank == len(model) else None for o in one.operands[:count]]
    given = [rows(shape) if shape is not None else None for shape in alike] + [None] * (len(one.operands) - count)
    return _link(factors, given, [rows(leaf) for leaf in leaves])


def _sort(one: Instruction) -> list[Link]:
    return _except(one, one.attributes["dimensions"])


def _all_but_last(one: Instruction) -> list[Link]:
    return _except(one, [one.operands[0].shape.rank - 1], 1)


def _cholesky(one: Instruction) -> list[Link]:
    rank = one.shape.rank
    return _except(one, [rank - 2, rank - 1])


def _triangular_solve(one: Instruction) -> list[Link]:
    """Batches; and the right sides, which are solved for one by one."""
    factors = _Factors()
    right = factors.each(one.shape.dimensions)
    matrix = [*right[:-2], *factors.each(one.operands[0].shape.dimensions[-2:])]
    solved = right[-2 if one.attributes.get("left_side", False) else -1]
    given = [factors.new(one.operands[1].shape.dimensions[d]) if f == solved else f for d, f in enumerate(right)]
    return _link(factors, [_rows(matrix), _rows(given)], [_rows(right)])


def _fft(one: Instruction) -> list[Link]:
    rank = one.shape.rank
    return _except(one, range(rank - len(one.attributes["fft_length"]), rank))


def _set_dimension_size(one: Instruction) -> list[Link]:
    (dimension,) = one.attributes["dimensions"]
    return _except(one, [dimension], 1)


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE_OPCODES, _elementwise),
    "copy": _elementwise,
    "domain": _elementwise,
    "map": _map,
    "bitcast-convert": _bitcast_convert,
    **dict.fromkeys(("all-reduce", "collective-permute", "collective-broadcast"), _leaf_by_leaf),
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "reverse": _reverse,
    "concatenate": _concatenate,
    "pad": _pad,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    **dict.fromkeys(("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), _batch_norm),
    "dot": _dot,
    "scaled-dot": _scaled_dot,
    "ragged-dot": _ragged_dot,
    "convolution": _convolution,
    "gather": _gather,
    "scatter": _scatter,
    "sort": _sort,
    "topk": _all_but_last,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    "fft": _fft,
    "set-dimension-size": _set_dimension_size,
    "custom-call": _custom_call,
}
"""Opcode -> its links."""

CARRYING = frozenset(
    {"tuple", "get-tuple-element", "while", "conditional", "call", "fusion", "opt-barrier", "add-dependency",
     "copy-start", "copy-done", "parameter"}
)  # fmt: skip
"""Opcodes that hand values on: `hlotool.passes.sharding.graph` knows where they come from and go to."""

SILENT = frozenset({
    "after-all", "all-gather", "all-gather-done", "all-gather-start", "all-reduce-done", "all-reduce-start",
    "all-to-all", "async-done", "async-start", "async-update", "collective-permute-done", "collective-permute-start",
    "constant", "dynamic-reshape", "get-dimension-size", "infeed", "iota", "outfeed", "partition-id",
    "ragged-all-to-all", "recv", "recv-done", "reduce-scatter", "replica-id", "rng", "rng-bit-generator",
    "rng-get-and-update-state", "scan", "send", "send-done",
})  # fmt: skip
"""Opcodes of which nothing follows for others: what they make has no operands that are cut alike (constants, iota,
random numbers), goes to or comes from elsewhere, or is a collective on parts of arrays."""


def links_of(one: Instruction) -> list[Link]:
    """The links of an instruction; none where shapes are not known or nothing follows."""
    rule = RULES.get(one.opcode)
    if rule is None or not one.shape.is_static or not all(operand.shape.is_static for operand in one.operands):
        return []
    return rule(one)
