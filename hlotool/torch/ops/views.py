"""Operations that give the same elements in other shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hlotool.ir import Instruction
from hlotool.ir.shape import array
from hlotool.torch.lowering import Context, Refused, lowering, normal_dimensions
from hlotool.torch.ops.pieces import second_of
from hlotool.torch.places import memory_order

__all__ = ["window"]


@lowering(
    "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten._reshape_alias.default",
    "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default", "aten.view_copy.default",
    "aten.unflatten.int", "aten.flatten.using_ints", "aten.view_as.default",
    "aten.squeeze_copy.default", "aten.squeeze_copy.dim", "aten.squeeze_copy.dims", "aten.unsqueeze_copy.default",
)  # fmt: skip
def reshape(c: Context, self: Instruction, **_: object) -> Instruction:
    return c.builder.reshape(self, c.dimensions)


@lowering("aten.permute.default", "aten.permute_copy.default")
def permute(c: Context, self: Instruction, dims: Sequence[int]) -> Instruction:
    rank = len(self.shape.dimensions)
    return c.builder.transpose(self, normal_dimensions(dims, rank) if rank else ())


@lowering("aten.transpose.int", "aten.transpose_copy.int")
def transpose(c: Context, self: Instruction, dim0: int, dim1: int) -> Instruction:
    rank = len(self.shape.dimensions)
    if not rank:
        return self
    order = list(range(rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return c.builder.transpose(self, order)


@lowering("aten.t.default", "aten.t_copy.default")
def t(c: Context, self: Instruction) -> Instruction:
    rank = len(self.shape.dimensions)
    return c.builder.transpose(self, (1, 0)) if rank == 2 else self


@lowering("aten.expand.default", "aten.expand_copy.default")
def expand(c: Context, self: Instruction, size: Sequence[int], *, implicit: bool = False) -> Instruction:
    return c.expand(self, c.dimensions)


def window(
    c: Context, a: Instruction, dim: int, start: int, length: int, step: int = 1, keep: bool = True
) -> Instruction:
    """`length` elements of a dimension, every `step`-th from `start` on; without the dimension if not `keep`."""
    sizes = a.shape.dimensions
    starts, limits, steps = [0] * len(sizes), list(sizes), [1] * len(sizes)
    starts[dim], limits[dim], steps[dim] = start, start + (length - 1) * step + 1 if length else start, step
    found = a if (start, length, step) == (0, sizes[dim], 1) else c.builder.slice(a, starts, limits, steps)
    return found if keep else c.builder.reshape(found, [*sizes[:dim], *sizes[dim + 1 :]])


def _dimension(a: Instruction, dim: int) -> int:
    """`dim` counted from the front."""
    return dim + len(a.shape.dimensions) if dim < 0 else dim


@lowering("aten.select.int", "aten.select_copy.int")
def select(c: Context, self: Instruction, dim: int, index: int) -> Instruction:
    dim = _dimension(self, dim)
    return window(c, self, dim, index + self.shape.dimensions[dim] if index < 0 else index, 1, keep=False)


def bounds(size: int, start: int | None, end: int | None, step: int) -> tuple[int, int]:
    """Start and length of ``[start:end:step]``."""
    first, last, _ = slice(start, end).indices(size)
    return first, max(0, -(-(last - first) // step))


@lowering("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(
    c: Context, self: Instruction, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Instruction:
    dim = _dimension(self, dim)
    first, length = bounds(self.shape.dimensions[dim], start, end, step)
    return window(c, self, dim, first, length, step)


@lowering("aten.narrow.default", "aten.narrow_copy.default")
def narrow(c: Context, self: Instruction, dim: int, start: int, length: int) -> Instruction:
    dim = _dimension(self, dim)
    return window(c, self, dim, start + self.shape.dimensions[dim] if start < 0 else start, length)


def _pieces(c: Context, a: Instruction, dim: int, lengths: Sequence[int]) -> tuple[Instruction, ...]:
    found, start = [], 0
    for length in lengths:
        found.append(window(c, a, dim, start, length))
        start += length
    return tuple(found)


def _lengths(c: Context, dim: int) -> list[int]:
    """Of the pieces that PyTorch gives."""
    return [one[1][dim] for one in c.expected if one is not None]


@lowering(
    "aten.split.Tensor", "aten.split_copy.Tensor", "aten.split_with_sizes.default", "aten.chunk.default",
    "aten.split_with_sizes_copy.default",
)  # fmt: skip
def split(
    c: Context, self: Instruction, split_size: int = 0, dim: int = 0, split_sizes: Sequence[int] = (), chunks: int = 0
) -> tuple[Instruction, ...]:
    dim = _dimension(self, dim)
    return _pieces(c, self, dim, _lengths(c, dim))


@lowering("aten.unbind.int", "aten.unbind_copy.int")
def unbind(c: Context, self: Instruction, dim: int = 0) -> tuple[Instruction, ...]:
    dim = _dimension(self, dim)
    return tuple(window(c, self, dim, n, 1, keep=False) for n in range(self.shape.dimensions[dim]))


@lowering("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(c: Context, self: Instruction, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Instruction:
    """The two dimensions are made one whose pitch is the row's length and one more."""
    b, rank = c.builder, len(self.shape.dimensions)
    row, column = _dimension(self, dim1), _dimension(self, dim2)
    rest = [n for n in range(rank) if n not in (row, column)]
    a = b.transpose(self, [*rest, row, column])
    *outer, rows, columns = a.shape.dimensions
    length = c.dimensions[-1]
    if not length or 0 in outer:
        return c.full(0, c.type, c.dimensions)
    start = offset if offset >= 0 else -offset * columns
    flat = b.reshape(a, [*outer, rows * columns])
    return window(c, flat, len(outer), start, length, columns + 1)


@lowering("aten.unfold.default", "aten.unfold_copy.default")
def unfold(c: Context, self: Instruction, dimension: int, size: int, step: int) -> Instruction:
    b, rank = c.builder, len(self.shape.dimensions)
    if not rank:
        return b.reshape(self, c.dimensions)
    dim = _dimension(self, dimension)
    count = c.dimensions[dim]
    if not size:
        return c.full(0, c.type, c.dimensions)
    parts = [window(c, self, dim, n, count, step) for n in range(size)]
    if size > 64:
        raise Refused(f"windows of {size} elements")
    return b.concatenate([c.unsqueeze(part, [rank]) for part in parts], rank)


def _memory(c: Context, self: Instruction, size: Sequence[int], stride: Sequence[int], first: int) -> tuple[int, ...]:
    """The order of the dimensions in the memory of PyTorch's tensor, which has to be dense, and hold all elements."""
    strides = c.strides.get(self)
    order = None if strides is None else memory_order(self.shape.dimensions, strides)
    if order is None:
        raise Refused("memory of a tensor that is not dense")
    last = first + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if prod(size) and last >= prod(self.shape.dimensions):
        raise Refused("elements outside of the tensor")
    return order


def _places(c: Context, size: Sequence[int], stride: Sequence[int], first: int) -> Instruction:
    """Where elements are in memory."""
    b = c.builder
    places = c.full(first, "s64", size)
    for n, step in enumerate(stride):
        numbers = b.iota(array("s64", size), n)
        places = b.binary("add", places, b.binary("multiply", numbers, c.like(step, numbers)))
    return places


@lowering("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(
    c: Context, self: Instruction, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Instruction:
    """Elements by their places in memory."""
    first = storage_offset or 0
    order = _memory(c, self, size, stride, first)
    b = c.builder
    if not prod(size):
        return c.full(0, c.type, c.dimensions)
    flat = b.reshape(b.transpose(self, order), [prod(self.shape.dimensions)])
    dense = memory_order(size, stride)
    if dense is not None:
        piece = b.reshape(b.slice(flat, [first], [first + prod(size)]), [size[n] for n in dense])
        return b.transpose(piece, [dense.index(n) for n in range(len(dense))])
    return b.gather(
        flat, _places(c, size, stride, first),
        {
            "offset_dims": (), "collapsed_slice_dims": (0,), "start_index_map": (0,),
            "index_vector_dim": len(c.dimensions), "slice_sizes": (1,),
        },
    )  # fmt: skip


@lowering("aten.as_strided_scatter.default")
def as_strided_scatter(
    c: Context, self: Instruction, src: Instruction, size: Sequence[int], stride: Sequence[int],
    storage_offset: int | None = None,
) -> Instruction:  # fmt: skip
    """With the elements of `src` at their places in memory; where several have one place, the last one counts."""
    first, count = storage_offset or 0, prod(size)
    order = _memory(c, self, size, stride, first)
    if not count:
        return self
    b = c.builder
    lying = b.transpose(self, order)
    flat = b.reshape(lying, [prod(self.shape.dimensions)])
    attributes = {
        "update_window_dims": (), "inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1, "to_apply": second_of(c, c.type),
    }  # fmt: skip
    places = b.reshape(_places(c, size, stride, first), [count])
    made = b.add("scatter", None, (flat, places, b.reshape(src, [count])), attributes)
    made = b.reshape(made, lying.shape.dimensions)
    return b.transpose(made, [order.index(n) for n in range(len(order))])
