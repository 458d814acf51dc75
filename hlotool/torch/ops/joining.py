"""Tensors put together of others: in rows, around, repeated, turned, and pieces put into them."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import Instruction
from hlotool.ir.shape import array
from hlotool.torch.lowering import Context, lowering, normal_dimensions
from hlotool.torch.ops.views import bounds, window

__all__: list[str] = []


@lowering("aten.cat.default", "aten.concat.default")
def cat(c: Context, tensors: Sequence[Instruction], dim: int = 0) -> Instruction:
    rank = len(c.dimensions)
    # PyTorch takes an empty vector beside anything.
    parts = [c.convert(a, c.type) for a in tensors if len(a.shape.dimensions) == rank]
    if not parts:
        return c.full(0, c.type, c.dimensions)
    return parts[0] if len(parts) == 1 else c.builder.concatenate(parts, dim % rank)


@lowering("aten.stack.default")
def stack(c: Context, tensors: Sequence[Instruction], dim: int = 0) -> Instruction:
    place = dim % len(c.dimensions)
    parts = [c.unsqueeze(c.convert(a, c.type), [place]) for a in tensors]
    return parts[0] if len(parts) == 1 else c.builder.concatenate(parts, place)


@lowering("aten.flip.default")
def flip(c: Context, self: Instruction, dims: Sequence[int]) -> Instruction:
    rank = len(self.shape.dimensions)
    return c.builder.reverse(self, normal_dimensions(dims, rank)) if rank and len(dims) else self


@lowering("aten.roll.default")
def roll(c: Context, self: Instruction, shifts: Sequence[int], dims: Sequence[int] = ()) -> Instruction:
    b, sizes = c.builder, self.shape.dimensions
    if 0 in sizes or not sizes:
        return self
    steps = [shifts] if isinstance(shifts, int) else list(shifts)
    if not dims:
        found = b.reshape(self, [_count(sizes)])
        return b.reshape(_rolled(c, found, 0, steps[0]), sizes)
    found = self
    for step, dim in zip(steps, normal_dimensions(dims, len(sizes)), strict=True):
        found = _rolled(c, found, dim, step)
    return found


def _count(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _rolled(c: Context, a: Instruction, dim: int, step: int) -> Instruction:
    size = a.shape.dimensions[dim]
    step %= size
    if not step:
        return a
    parts = (window(c, a, dim, size - step, step), window(c, a, dim, 0, size - step))
    return c.builder.concatenate(parts, dim)


@lowering("aten.repeat.default")
def repeat(c: Context, self: Instruction, repeats: Sequence[int]) -> Instruction:
    """Each dimension becomes one of repetitions and its own, which then are one."""
    sizes = (1,) * (len(repeats) - len(self.shape.dimensions)) + self.shape.dimensions
    pairs = [n for pair in zip(repeats, sizes, strict=True) for n in pair]
    own = [2 * n + 1 for n in range(len(sizes))]
    spread = c.builder.broadcast(c.builder.reshape(self, sizes), own, pairs)
    return c.builder.reshape(spread, c.dimensions)


# ---- pieces


@lowering("aten.slice_scatter.default")
def slice_scatter(
    c: Context, self: Instruction, src: Instruction, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Instruction:  # fmt: skip
    dim %= len(c.dimensions)
    first, length = bounds(c.dimensions[dim], start, end, step)
    if not length:
        return self
    return _with_piece(c, self, c.convert(src, c.type), dim, first, step)


@lowering("aten.select_scatter.default")
def select_scatter(c: Context, self: Instruction, src: Instruction, dim: int, index: int) -> Instruction:
    dim %= len(c.dimensions)
    piece = c.unsqueeze(c.convert(src, c.type), [dim])
    return _with_piece(c, self, piece, dim, index % c.dimensions[dim], 1)


def _with_piece(c: Context, a: Instruction, piece: Instruction, dim: int, first: int, step: int) -> Instruction:
    """`a` with a piece in the place of every `step`-th element of a dimension, from `first` on."""
    b, size, length = c.builder, c.dimensions[dim], piece.shape.dimensions[dim]
    if step == 1:
        if length == size:
            return piece
        starts = [c.full(first if n == dim else 0, "s32") for n in range(len(c.dimensions))]
        return b.dynamic_update_slice(a, piece, starts)
    after = size - first - ((length - 1) * step + 1)
    sides = [(first, after, step - 1) if n == dim else (0, 0, 0) for n in range(len(c.dimensions))]
    spread = b.pad(piece, c.full(0, c.type), sides)
    number = b.iota(array("s64", c.dimensions), dim)
    behind = b.binary("subtract", number, c.like(first, number))
    inside = b.binary("and", b.compare(behind, c.like(0, behind), "GE"), b.compare(
        b.binary("remainder", behind, c.like(step, behind)), c.like(0, behind), "EQ"
    ))  # fmt: skip
    return b.select(inside, spread, a)


@lowering("aten.diagonal_scatter.default")
def diagonal_scatter(
    c: Context, self: Instruction, src: Instruction, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Instruction:
    rank = len(c.dimensions)
    row, column = dim1 % rank, dim2 % rank
    rest = [n for n in range(rank) if n not in (row, column)]
    on = _diagonal_at(c, row, column, offset)
    spread = _along_row(c, c.convert(src, c.type), row, column, rest, offset)
    return c.builder.select(on, spread, self)


@lowering("aten.diag_embed.default")
def diag_embed(c: Context, self: Instruction, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Instruction:
    rank = len(c.dimensions)
    row, column = dim1 % rank, dim2 % rank
    rest = [n for n in range(rank) if n not in (row, column)]
    on = _diagonal_at(c, row, column, offset)
    spread = _along_row(c, self, row, column, rest, offset)
    return c.builder.select(on, spread, c.like(0, spread))


def _diagonal_at(c: Context, row: int, column: int, offset: int) -> Instruction:
    """Where the diagonal of two dimensions is."""
    b = c.builder
    down, right = (b.iota(array("s64", c.dimensions), n) for n in (row, column))
    return b.compare(b.binary("add", down, c.like(offset, down)), right, "EQ")


def _along_row(c: Context, a: Instruction, row: int, column: int, rest: Sequence[int], offset: int) -> Instruction:
    """A diagonal, whose elements are the last dimension, spread so that each stands in its row."""
    b, last = c.builder, len(a.shape.dimensions) - 1
    above = max(0, -offset)
    sides = [(0, 0)] * last + [(above, c.dimensions[row] - above - a.shape.dimensions[last])]
    padded = b.pad(a, c.full(0, c.type), sides)
    return b.broadcast(padded, [*rest, row], c.dimensions)
