"""Elements by their indices: read, written, added up."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from hlotool.ir import Computation, Instruction
from hlotool.ir.attributes import Window, WindowDimension
from hlotool.ir.shape import array
from hlotool.ir.types import ELEMENT_TYPES
from hlotool.torch.lowering import Context, Number, Value, broadcast_dimensions, lowering
from hlotool.torch.ops.pieces import (
    dimension_of,
    element,
    highest,
    is_complex,
    is_float,
    lowest,
    positions,
    second_of,
    sizes,
    spread,
)
from hlotool.torch.refusal import Refused

__all__ = ["rows_at"]

Indices = Sequence[Instruction | None]


def _wrapped(c: Context, index: Instruction, size: int) -> Instruction:
    """Indices counted from the front, in a type that HLO likes best."""
    b = c.builder
    index = c.convert(index, "s32" if size < 2**31 else "s64")
    return b.select(b.compare(index, c.like(0, index), "LT"), b.binary("add", index, c.like(size, index)), index)


def _small(c: Context, index: Instruction, size: int) -> Instruction:
    """Indices that are not negative."""
    if not ELEMENT_TYPES[element(index)].is_integer:
        raise Refused(f"indices of type {element(index)}")
    return c.convert(index, "s32" if size < 2**31 else "s64")


# ---- rows: all of what lies at places of one dimension


def rows_at(c: Context, self: Instruction, along: int, index: Instruction) -> Instruction:
    """The places `index` (any dimensions) of a dimension, in whose stead the dimensions of `index` stand."""
    rank, inner = len(sizes(self)), len(sizes(index))
    windows = [size if d != along else 1 for d, size in enumerate(sizes(self))]
    attributes = {
        "offset_dims": tuple(d if d < along else d + inner - 1 for d in range(rank) if d != along),
        "collapsed_slice_dims": (along,), "start_index_map": (along,), "index_vector_dim": inner,
        "slice_sizes": tuple(windows),
    }  # fmt: skip
    return c.builder.gather(self, index, attributes)


def _need(self: Instruction, along: int, index: Instruction) -> None:
    if not sizes(self)[along] and index.shape.size:
        raise Refused("places of a dimension without elements")


@lowering("aten.index_select.default")
def index_select(c: Context, self: Instruction, dim: int, index: Instruction) -> Instruction:
    if not sizes(self):
        return self
    along = dimension_of(dim, len(sizes(self)))
    _need(self, along, index)
    flat = index if sizes(index) else c.unsqueeze(index, (0,))
    return rows_at(c, self, along, _small(c, flat, sizes(self)[along]))


@lowering("aten.embedding.default")
def embedding(
    c: Context, weight: Instruction, indices: Instruction, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Instruction:  # fmt: skip
    _need(weight, 0, indices)
    return rows_at(c, weight, 0, _small(c, indices, sizes(weight)[0]))


@lowering("aten.embedding_dense_backward.default")
def embedding_dense_backward(
    c: Context, grad_output: Instruction, indices: Instruction, num_weights: int, padding_idx: int,
    scale_grad_by_freq: bool,
) -> Instruction:  # fmt: skip
    b, count = c.builder, indices.shape.size
    grad = b.reshape(c.computed(grad_output), (count, sizes(grad_output)[-1]))
    index = b.reshape(_small(c, indices, num_weights), (count,))
    start = c.full(0, element(grad), (num_weights, sizes(grad)[1]))
    if scale_grad_by_freq:
        ones = c.full(1, element(grad), (count,))
        often = _into_rows(c, c.full(0, element(grad), (num_weights,)), 0, index, ones, "add")
        grad = b.binary("divide", grad, spread(c, rows_at(c, often, 0, index), (0,), sizes(grad)))
    if padding_idx >= 0:
        padding = b.compare(index, c.like(padding_idx, index), "EQ")
        grad = b.select(spread(c, padding, (0,), sizes(grad)), c.like(0, grad), grad)
    return c.convert(_into_rows(c, start, 0, index, grad, "add"), c.type)


def _into_rows(
    c: Context, self: Instruction, along: int, index: Instruction, rows: Instruction, opcode: str | None
) -> Instruction:
    """`rows` put to (or with `opcode` combined with) the places `index`, a vector, of a dimension."""
    rank = len(sizes(self))
    attributes = {
        "update_window_dims": tuple(d for d in range(rank) if d != along), "inserted_window_dims": (along,),
        "scatter_dims_to_operand_dims": (along,), "index_vector_dim": 1,
        "to_apply": _combination(c, opcode, element(self)),
    }  # fmt: skip
    return c.builder.add("scatter", None, (self, index, rows), attributes)


def _combination(c: Context, opcode: str | None, element_type: str) -> Computation:
    """What scatter does with an old and a new element: the new one alone where no opcode is given."""
    return second_of(c, element_type) if opcode is None else c.reducer(opcode, element_type)


@lowering("aten.index_add.default")
def index_add(
    c: Context, self: Instruction, dim: int, index: Instruction, source: Instruction, *, alpha: Number = 1
) -> Instruction:
    rows = source if alpha == 1 else c.builder.binary("multiply", source, c.like(alpha, source))
    return _onto_rows(c, self, dim, index, rows, "or" if element(self) == "pred" else "add")


@lowering("aten.index_copy.default")
def index_copy(c: Context, self: Instruction, dim: int, index: Instruction, source: Instruction) -> Instruction:
    return _onto_rows(c, self, dim, index, source, None)


def _onto_rows(
    c: Context, self: Instruction, dim: int, index: Instruction, rows: Instruction, opcode: str | None
) -> Instruction:
    whole = self if sizes(self) else c.unsqueeze(self, (0,))
    if len(sizes(rows)) < len(sizes(whole)):
        rows = c.builder.reshape(rows, (*sizes(rows), *[1] * (len(sizes(whole)) - len(sizes(rows)))))
    along = dimension_of(dim, len(sizes(whole)))
    places = _small(c, index if sizes(index) else c.unsqueeze(index, (0,)), sizes(whole)[along])
    _need(whole, along, places)
    made = _into_rows(c, whole, along, places, rows, opcode)
    return made if made.shape.dimensions == c.dimensions else c.builder.reshape(made, c.dimensions)


# ---- elements: an index each, along one dimension


def _element_batching(rank: int, along: int, read: bool) -> dict[str, Any]:
    """Attributes of gather and scatter where all dimensions but one advance together."""
    rest = tuple(d for d in range(rank) if d != along)
    if read:
        return {
            "offset_dims": (), "collapsed_slice_dims": (along,), "start_index_map": (along,),
            "operand_batching_dims": rest, "start_indices_batching_dims": rest, "index_vector_dim": rank,
            "slice_sizes": (1,) * rank,
        }  # fmt: skip
    return {
        "update_window_dims": (), "inserted_window_dims": (along,), "scatter_dims_to_operand_dims": (along,),
        "input_batching_dims": rest, "scatter_indices_batching_dims": rest, "index_vector_dim": rank,
    }


def _corner(c: Context, a: Instruction, wanted: Sequence[int], along: int) -> Instruction:
    """The first elements of every dimension but `along`, as many as `wanted` has."""
    limits = [have if d == along else want for d, (have, want) in enumerate(zip(sizes(a), wanted, strict=True))]
    return a if tuple(limits) == sizes(a) else c.builder.slice(a, [0] * len(limits), limits)


@lowering("aten.gather.default")
def gather(c: Context, self: Instruction, dim: int, index: Instruction, *, sparse_grad: bool = False) -> Instruction:
    b = c.builder
    if not index.shape.size:
        return c.full(0, c.type, c.dimensions)
    whole = self if sizes(self) else c.unsqueeze(self, (0,))
    places = index if sizes(index) else c.unsqueeze(index, (0,))
    along = dimension_of(dim, len(sizes(whole)))
    _need(whole, along, index)
    whole = _corner(c, whole, sizes(places), along)
    found = b.gather(
        whole, _small(c, places, sizes(whole)[along]), _element_batching(len(sizes(whole)), along, read=True)
    )
    return found if sizes(found) == c.dimensions else b.reshape(found, c.dimensions)


def _scatter(
    c: Context, self: Instruction, dim: int, index: Instruction, source: Instruction, opcode: str | None
) -> Instruction:
    """`source` (as large as `index`) put to or combined with elements of `self`."""
    b = c.builder
    if not index.shape.size:
        return self
    whole, places, rows = (one if sizes(one) else c.unsqueeze(one, (0,)) for one in (self, index, source))
    rank = len(sizes(whole))
    along = dimension_of(dim, rank)
    _need(whole, along, index)
    attributes: dict[str, Any] = {"to_apply": _combination(c, opcode, element(whole))}
    places = _small(c, places, max(sizes(whole)))
    if all(have == want for d, (have, want) in enumerate(zip(sizes(whole), sizes(places), strict=True)) if d != along):
        attributes |= _element_batching(rank, along, read=False)
    else:  # not all of the other dimensions: their places are indices, too
        every = [
            places if d == along else positions(c, sizes(places), d, element(places)) for d in range(rank)
        ]
        places = b.concatenate([c.unsqueeze(one, (rank,)) for one in every], rank)
        attributes |= {
            "update_window_dims": (), "inserted_window_dims": tuple(range(rank)),
            "scatter_dims_to_operand_dims": tuple(range(rank)), "index_vector_dim": rank,
        }  # fmt: skip
    made = b.add("scatter", None, (whole, places, rows), attributes)
    return made if sizes(made) == sizes(self) else b.reshape(made, sizes(self))


def _source(c: Context, source: Instruction, index: Instruction) -> Instruction:
    """The part of `source` that has an index."""
    return source if sizes(source) == sizes(index) else c.builder.slice(source, [0] * len(sizes(index)), sizes(index))


@lowering("aten.scatter.src")
def scatter_src(c: Context, self: Instruction, dim: int, index: Instruction, src: Instruction) -> Instruction:
    return _scatter(c, self, dim, index, _source(c, src, index), None) if index.shape.size else self


@lowering("aten.scatter.value")
def scatter_value(c: Context, self: Instruction, dim: int, index: Instruction, value: Value) -> Instruction:
    return _scatter(c, self, dim, index, c.tensor(value, element(self), sizes(index)), None)


@lowering("aten.scatter_add.default")
def scatter_add(c: Context, self: Instruction, dim: int, index: Instruction, src: Instruction) -> Instruction:
    if not index.shape.size:
        return self
    opcode = "or" if element(self) == "pred" else "add"
    return _scatter(c, self, dim, index, _source(c, src, index), opcode)


_REDUCERS = {
    "sum": "add", "add": "add", "prod": "multiply", "multiply": "multiply", "amax": "maximum", "amin": "minimum",
    "mean": "add",
}  # fmt: skip


@lowering("aten.scatter_reduce.two", "aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter_reduce(
    c: Context, self: Instruction, dim: int, index: Instruction, src: Instruction | None = None, reduce: str = "sum", *,
    include_self: bool = True, value: Value = 0,
) -> Instruction:  # fmt: skip
    if not index.shape.size:
        return self
    b, kind = c.builder, element(self)
    if (is_complex(kind) and _REDUCERS[reduce] not in ("add", "multiply")) or (kind == "pred" and reduce == "mean"):
        raise Refused(f"{reduce} of {kind}")
    source = c.tensor(value, kind, sizes(index)) if src is None else _source(c, src, index)
    opcode = _REDUCERS[reduce]
    if kind == "pred":
        opcode = "or" if opcode in ("add", "maximum") else "and"
    start = self
    if not include_self:
        nothing = {"add": 0, "multiply": 1, "maximum": lowest(kind), "minimum": highest(kind), "or": 0, "and": 1}
        initial = nothing[opcode]
        start = _scatter(c, self, dim, index, c.full(initial, kind, sizes(index)), None)
    made = _scatter(c, start, dim, index, source, opcode)
    if reduce != "mean":
        return made
    counts = c.full(1 if include_self else 0, kind, sizes(self))
    counts = _scatter(c, counts, dim, index, c.full(1, kind, sizes(index)), "add")
    if is_complex(kind):
        none = b.compare(counts, c.like(0, counts), "EQ")
        return b.binary("divide", made, b.select(none, c.like(1, counts), counts))
    counts = b.binary("maximum", counts, c.like(1, counts))
    if is_float(kind):
        return b.binary("divide", made, counts)
    quotient = b.binary("divide", made, counts)  # towards zero, where PyTorch rounds down
    if kind.startswith("u"):
        return quotient
    zero = c.like(0, made)
    inexact = b.compare(b.binary("remainder", made, counts), zero, "NE")
    low = b.binary("and", inexact, b.compare(made, zero, "LT"))
    return b.binary("subtract", quotient, c.convert(low, kind))


# ---- tensors of indices, one for each of several dimensions


def _advanced(c: Context, self: Instruction, indices: Indices) -> tuple[list[int], Instruction, tuple[int, ...], int]:
    """The indexed dimensions, their indices [..., dimension], what these broadcast to, and where that stands."""
    if any(one is not None and element(one) in ("pred", "u8") for one in indices):
        raise Refused("an index that is a mask: the size of the result depends on it")
    where = [d for d, one in enumerate(indices) if one is not None]
    given = [one for one in indices if one is not None]
    wanted = broadcast_dimensions(sizes(one) for one in given)
    if prod(wanted):
        for d in where:
            if not sizes(self)[d]:
                raise Refused("places of a dimension without elements")
    wide = "s32" if max(sizes(self), default=0) < 2**31 else "s64"
    each = [
        c.unsqueeze(c.expand(c.convert(_wrapped(c, one, sizes(self)[d]), wide), wanted), (len(wanted),))
        for d, one in zip(where, given, strict=True)
    ]
    together = c.builder.concatenate(each, len(wanted)) if len(each) > 1 else each[0]
    adjacent = where == list(range(where[0], where[-1] + 1))
    return where, together, wanted, where[0] if adjacent else 0


@lowering("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index_tensor(c: Context, self: Instruction, indices: Indices) -> Instruction:
    if all(one is None for one in indices):
        return self
    where, together, wanted, at = _advanced(c, self, indices)
    if not prod(c.dimensions):
        return c.full(0, c.type, c.dimensions)
    rest = [d for d in range(len(sizes(self))) if d not in where]
    rank = len(wanted) + len(rest)
    attributes = {
        "offset_dims": tuple(d for d in range(rank) if not at <= d < at + len(wanted)),
        "collapsed_slice_dims": tuple(where), "start_index_map": tuple(where), "index_vector_dim": len(wanted),
        "slice_sizes": tuple(1 if d in where else size for d, size in enumerate(sizes(self))),
    }  # fmt: skip
    return c.builder.gather(self, together, attributes)


@lowering("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    c: Context, self: Instruction, indices: Indices, values: Instruction, accumulate: bool = False
) -> Instruction:
    b, kind = c.builder, element(self)
    if all(one is None for one in indices):
        rows = c.expand(values, sizes(self))
        return b.binary("or" if kind == "pred" else "add", self, rows) if accumulate else rows
    given = [one for one in indices if one is not None]
    if all(element(one) in ("pred", "u8") for one in given):
        return _put_masked(c, self, indices, values, accumulate)
    where, together, wanted, at = _advanced(c, self, indices)
    rest = [d for d in range(len(sizes(self))) if d not in where]
    if not prod(wanted) or not self.shape.size:
        return self
    rank = len(wanted) + len(rest)
    window = tuple(d for d in range(rank) if not at <= d < at + len(wanted))
    own, outer = iter([sizes(self)[d] for d in rest]), iter(wanted)
    rows = c.expand(values, [next(own) if d in window else next(outer) for d in range(rank)])
    opcode = ("or" if kind == "pred" else "add") if accumulate else None
    attributes = {
        "update_window_dims": window, "inserted_window_dims": tuple(where),
        "scatter_dims_to_operand_dims": tuple(where), "index_vector_dim": len(wanted),
        "to_apply": _combination(c, opcode, kind),
    }  # fmt: skip
    return b.add("scatter", None, (self, together, rows), attributes)


def _put_masked(c: Context, self: Instruction, indices: Indices, values: Instruction, accumulate: bool) -> Instruction:
    """The same values put wherever a mask says: a choice for every element."""
    given = [one for one in indices if one is not None]
    at = next(n for n, one in enumerate(indices) if one is not None)
    masked = len(sizes(given[0]))
    rank = len(sizes(self)) - masked + 1  # of the values: the dimensions under the mask are one
    own = (1,) * (rank - len(sizes(values))) + sizes(values) if values.shape.size != 1 else (1,) * rank
    if len(given) != 1 or len(own) != rank or own[at] != 1:
        raise Refused("an index that is a mask: the size of the result depends on it")
    b, mask = c.builder, c.convert(given[0], "pred")
    one = c.expand(b.reshape(values, (*own[:at], *[1] * masked, *own[at + 1 :])), sizes(self))
    if accumulate:
        one = b.binary("or" if element(self) == "pred" else "add", self, one)
    return b.select(spread(c, mask, range(at, at + masked), sizes(self)), one, self)


# ---- sorted sequences


@lowering("aten.bucketize.Tensor", "aten.searchsorted.Tensor")
def searchsorted(
    c: Context, self: Instruction, boundaries: Instruction | None = None, sorted_sequence: Instruction | None = None, *,
    out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Instruction | None = None,
) -> Instruction:  # fmt: skip
    """A binary search for every element, in as many steps as the sequence needs, without a loop."""
    b = c.builder
    sequence = boundaries if sorted_sequence is None else sorted_sequence
    assert sequence is not None
    right = right or side == "right"
    if sorter is not None:
        raise Refused("searchsorted with a sorter")
    length = sizes(sequence)[-1] if sizes(sequence) else 1
    rows = len(sizes(sequence)) > 1
    kind = c.promote(sequence, self)
    sequence, values = c.convert(sequence, kind), c.convert(self, kind)
    if not length or not self.shape.size:
        return c.full(0, c.type, c.dimensions)
    rank = len(sizes(self))
    shape = array("s32", sizes(self))
    low, high = b.splat(0, shape), b.splat(length, shape)
    for _ in range(length.bit_length()):
        middle = b.binary("shift-right-logical", b.binary("add", low, high), c.like(1, low))
        safe = b.binary("minimum", middle, c.like(length - 1, middle))
        if rows:
            there = b.gather(sequence, safe, _element_batching(rank, rank - 1, read=True))
        else:
            there = rows_at(c, sequence, 0, safe)
        open_ = b.compare(low, high, "LT")
        before = b.unary("not", b.compare(there, values, "GT" if right else "GE"))  # so is NaN
        go = b.binary("and", open_, before)
        stay = b.binary("and", open_, b.unary("not", before))
        low = b.select(go, b.binary("add", middle, c.like(1, middle)), low)
        high = b.select(stay, middle, high)
    return c.convert(low, c.type)



@lowering("aten.masked_scatter.default")
def masked_scatter(c: Context, self: Instruction, mask: Instruction, source: Instruction) -> Instruction:
    """The elements that a mask names, in order, are those of `source` from the first one on."""
    b, dimensions = c.builder, c.dimensions
    whole, chosen = c.expand(self, dimensions), c.expand(c.convert(mask, "pred"), dimensions)
    if not whole.shape.size or not source.shape.size:
        return whole
    if max(whole.shape.size, source.shape.size) >= 2**31:
        raise Refused("masked_scatter of more than 2^31 elements")
    size = whole.shape.size
    ones = b.reshape(c.convert(chosen, "s32"), (size,))
    window = Window((WindowDimension(size, padding_low=size - 1),))
    attributes = {"window": window, "to_apply": c.reducer("add", "s32")}
    number = b.add("reduce-window", None, (ones, c.full(0, "s32")), attributes)
    place = b.binary("maximum", b.binary("subtract", number, c.like(1, number)), c.like(0, number))
    taken = b.reshape(rows_at(c, b.reshape(source, (source.shape.size,)), 0, place), dimensions)
    return b.select(chosen, taken, whole)


@lowering("aten.masked_scatter_backward.default")
def masked_scatter_backward(
    c: Context, grad_output: Instruction, mask: Instruction, sizes: Sequence[int]
) -> Instruction:
    """The gradients of the elements that a mask names, in order, and zeros behind them."""
    b, size, count = c.builder, grad_output.shape.size, prod(sizes)
    if not size or not count:
        return c.full(0, c.type, sizes)
    chosen = b.reshape(c.expand(c.convert(mask, "pred"), grad_output.shape.dimensions), (size,))
    ones = c.convert(chosen, "s32")
    window = Window((WindowDimension(size, padding_low=size - 1),))
    number = b.add(
        "reduce-window", None, (ones, c.full(0, "s32")), {"window": window, "to_apply": c.reducer("add", "s32")}
    )
    place = b.select(chosen, b.binary("subtract", number, c.like(1, number)), c.like(count, number))  # else dropped
    rows = b.reshape(grad_output, (size,))
    return b.reshape(_into_rows(c, c.full(0, c.type, (count,)), 0, place, rows, None), sizes)


@lowering("aten.put.default")
def put(
    c: Context, self: Instruction, index: Instruction, source: Instruction, accumulate: bool = False
) -> Instruction:
    """Elements by their numbers in all of the tensor."""
    b, size = c.builder, self.shape.size
    if not index.shape.size or not size:
        return self
    places = b.reshape(_wrapped(c, index, size), (index.shape.size,))
    opcode = ("or" if element(self) == "pred" else "add") if accumulate else None
    rows = b.reshape(source, (index.shape.size,))
    return b.reshape(_into_rows(c, b.reshape(self, (size,)), 0, places, rows, opcode), self.shape.dimensions)


@lowering("aten.index_reduce.default")
def index_reduce(
    c: Context, self: Instruction, dim: int, index: Instruction, source: Instruction, reduce: str, *,
    include_self: bool = True,
) -> Instruction:  # fmt: skip
    """Rows combined with those at places of a dimension: elements whose index is that of their row."""
    if not index.shape.size or not source.shape.size:
        return self
    whole, rows, places = (one if sizes(one) else c.unsqueeze(one, (0,)) for one in (self, source, index))
    along = dimension_of(dim, len(sizes(whole)))
    every = spread(c, places, (along,), sizes(rows))
    found = scatter_reduce(c, whole, along, every, rows, reduce, include_self=include_self)
    assert isinstance(found, Instruction)
    return c.builder.reshape(found, c.dimensions)


@lowering("aten.nonzero_static.default")
def nonzero_static(c: Context, self: Instruction, *, size: int, fill_value: int = -1) -> Instruction:
    """Where the first `size` elements are that are not zero; rows behind the last one have `fill_value`."""
    b, rank, count = c.builder, len(sizes(self)), self.shape.size
    start = c.full(fill_value, "s64", (size, rank))
    if not rank or not count:
        return start
    chosen = b.reshape(c.convert(self, "pred"), (count,))
    ones = c.convert(chosen, "s32")
    window = Window((WindowDimension(count, padding_low=count - 1),))
    number = b.add(
        "reduce-window", None, (ones, c.full(0, "s32")), {"window": window, "to_apply": c.reducer("add", "s32")}
    )
    place = b.select(chosen, b.binary("subtract", number, c.like(1, number)), c.like(size, number))  # else dropped
    where = [c.unsqueeze(b.reshape(positions(c, sizes(self), d), (count,)), (1,)) for d in range(rank)]
    rows = b.concatenate(where, 1) if rank > 1 else where[0]
    return _into_rows(c, start, 0, place, rows, None)
