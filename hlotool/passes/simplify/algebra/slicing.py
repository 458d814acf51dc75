"""Parts and joins: slice, dynamic-slice, dynamic-update-slice, concatenate, pad, gather."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import ELEMENT_TYPES, Instruction, PaddingDimension, Shape, SliceDimension, array
from hlotool.passes.framework.patterns import ELEMENTWISE, number
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rule
from hlotool.passes.simplify.algebra.movement import matching_dimensions

__all__ = ["RULES", "constant_start", "is_whole", "rows_of"]


def rows_of(instruction: Instruction) -> tuple[SliceDimension, ...]:
    rows: tuple[SliceDimension, ...] = instruction.attributes["slice"]
    return rows


def is_whole(row: SliceDimension, size: int) -> bool:
    return row.start == 0 and row.limit >= size and row.stride == 1


def _sub_slice(rewriter: Rewriter, shape: Shape, operand: Instruction, rows: Sequence[SliceDimension]) -> Instruction:
    """A slice of known result shape; `operand` itself when it is all of it."""
    if all(is_whole(row, size) for row, size in zip(rows, operand.shape.dimensions, strict=True)):
        return operand
    return rewriter.make("slice", shape, operand, slice=tuple(rows))


# ---- slice


@rule("slice(operand)")
def slice_all(instruction: Instruction, operand: Instruction) -> Rewritten:
    """A slice of everything is x."""
    return operand if operand.shape.compatible(instruction.shape) else None


@rule("slice(inner: slice(source))")
def slice_twice(instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """slice(slice(x)) is one slice."""
    if instruction.shape.size == 0:
        return None
    rows = []
    for outer, row, size in zip(rows_of(instruction), rows_of(inner), instruction.shape.dimensions, strict=True):
        start, stride = row.start + outer.start * row.stride, row.stride * outer.stride
        rows.append(SliceDimension(start, start + (size - 1) * stride + 1, stride))
    return rewriter.make("slice", instruction.shape, source, slice=tuple(rows))


@rule("slice(inner: concatenate(*joined))")
def slice_concatenate(
    instruction: Instruction, inner: Instruction, joined: list[Instruction], rewriter: Rewriter
) -> Rewritten:
    """A slice of a concatenation leaves out the parts that it does not touch."""
    dimension = inner.attributes["dimensions"][0]
    row = rows_of(instruction)[dimension]
    touched: list[Instruction] = []
    first = offset = 0
    for part in joined:
        size = part.shape.dimensions[dimension]
        if offset < row.limit and offset + size > row.start and size:
            if not touched:
                first = offset
            touched.append(part)
        offset += size
    if not touched or len(touched) == len(joined):
        return None
    rows = list(rows_of(instruction))
    rows[dimension] = SliceDimension(row.start - first, row.limit - first, row.stride)
    return _sub_slice(rewriter, instruction.shape, _joined(touched, dimension, inner, rewriter), rows)


def _joined(parts: Sequence[Instruction], dimension: int, model: Instruction, rewriter: Rewriter) -> Instruction:
    """The concatenation of `parts`; the part itself when there is one."""
    if len(parts) == 1:
        return parts[0]
    sizes = list(model.shape.dimensions)
    sizes[dimension] = sum(p.shape.dimensions[dimension] for p in parts)
    return rewriter.make("concatenate", array(model.shape.element_type, sizes), *parts, dimensions=(dimension,))


@rule("slice(inner: pad(source, value))")
def slice_pad(
    instruction: Instruction, inner: Instruction, source: Instruction, value: Instruction, rewriter: Rewriter
) -> Rewritten:
    """A slice of a pad that lies within the padded array is a slice of that array; within padding it is the value."""
    if instruction.shape.size == 0:
        return None
    rows, inside = [], True
    for row, pad, size in zip(rows_of(instruction), inner.attributes["padding"], source.shape.dimensions, strict=True):
        if row.limit <= pad.low or (pad.interior == 0 and row.start >= pad.low + size):
            return rewriter.broadcast(value, (), instruction.shape)
        inside &= pad.interior == 0 and row.start >= pad.low and row.limit <= pad.low + size
        rows.append(SliceDimension(row.start - pad.low, row.limit - pad.low, row.stride))
    return _sub_slice(rewriter, instruction.shape, source, rows) if inside else None


@rule("slice(inner: broadcast(source))")
def slice_broadcast(instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """slice(broadcast(x)) = broadcast(slice(x))."""
    dimensions = inner.attributes["dimensions"]
    rows = [rows_of(instruction)[d] for d in dimensions]
    sizes = [instruction.shape.dimensions[d] for d in dimensions]
    narrow = _sub_slice(rewriter, array(source.shape.element_type, sizes), source, rows)
    return rewriter.broadcast(narrow, dimensions, instruction.shape)


@rule("slice(inner: iota)")
def slice_iota(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """A slice of an iota that starts at 0 along it is a smaller iota."""
    row = rows_of(instruction)[inner.attributes["iota_dimension"]]
    return rewriter.make("iota", instruction.shape, **inner.attributes) if (row.start, row.stride) == (0, 1) else None


@rule("slice(inner: reshape(source))")
def slice_of_inserted_ones(
    instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter
) -> Rewritten:
    """slice(reshape(x)) where only dimensions of size 1 come or go is a reshape of a slice of x."""
    if instruction.shape.size == 0:
        return None
    matched = matching_dimensions(source.shape.dimensions, inner.shape.dimensions)
    if matched is None:
        return None
    rows = [
        rows_of(instruction)[matched[d]] if d in matched else SliceDimension(0, 1) for d in range(source.shape.rank)
    ]
    sizes = [instruction.shape.dimensions[matched[d]] if d in matched else 1 for d in range(source.shape.rank)]
    narrow = _sub_slice(rewriter, array(source.shape.element_type, sizes), source, rows)
    return rewriter.make("reshape", instruction.shape, narrow)


@rule(f"slice(inner: {ELEMENTWISE}|bitcast-convert)")
def slice_arithmetic(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """One element of arithmetic on arrays is arithmetic on one element of each, where nothing wants the whole."""
    if instruction.shape.size != 1 or not inner.shape.is_static or inner.is_root:
        return None
    if inner.opcode == "bitcast-convert" and inner.operands[0].shape.rank != inner.shape.rank:
        return None
    if len(inner.users) > inner.shape.size or any(u.opcode != "slice" or u.shape.size != 1 for u in inner.users):
        return None
    rows = rows_of(instruction)
    parts = {o: o if o.shape.rank < inner.shape.rank else rewriter.slice_rows(o, rows) for o in inner.operands}
    return rewriter.make(inner.opcode, instruction.shape, *(parts[o] for o in inner.operands), **inner.attributes)


# ---- dynamic-slice and dynamic-update-slice


def constant_start(indices: Sequence[Instruction], sizes: Sequence[int], within: Sequence[int]) -> list[int] | None:
    """Constant start indices, clamped as HLO does; None when one is not constant."""
    found = []
    for index, size, limit in zip(indices, sizes, within, strict=True):
        value = number(index)
        if size == limit:
            value = 0  # wherever it starts, it is clamped to the beginning
        if value is None or index.shape.dimensions:
            return None
        found.append(min(max(int(value.real), 0), limit - size))
    return found


@rule("dynamic-slice(operand, *indices)")
def dynamic_slice_constant(
    instruction: Instruction, operand: Instruction, indices: list[Instruction], rewriter: Rewriter
) -> Rewritten:
    """A dynamic-slice at constant indices is a slice; one as large as its operand is the operand."""
    sizes, within = instruction.shape.dimensions, operand.shape.dimensions
    if sizes == within:
        return operand
    if len(indices) != len(sizes):
        return None
    start = constant_start(indices, sizes, within)
    if start is None:
        return None
    rows = [SliceDimension(s, s + size) for s, size in zip(start, sizes, strict=True)]
    return rewriter.make("slice", instruction.shape, operand, slice=tuple(rows))


@rule("dynamic-slice(dynamic-update-slice(_, update, *written), *indices)")
def dynamic_slice_of_update(
    instruction: Instruction, update: Instruction, written: list[Instruction], indices: list[Instruction]
) -> Rewritten:
    """Reading back just what was written: dynamic-slice(dynamic-update-slice(x, u, i), i) = u."""
    return update if written == indices and update.shape.compatible(instruction.shape) else None


@rule("dynamic-update-slice(operand, update, *indices)")
def update_all(operand: Instruction, update: Instruction, indices: list[Instruction]) -> Rewritten:
    """An update as large as its operand is the update; an empty one, or one by what is there, is the operand."""
    if update.shape.compatible(operand.shape):
        return update
    if update.shape.size == 0:
        return operand
    unchanged = update.opcode == "dynamic-slice" and update.operands == [operand, *indices]
    return operand if unchanged else None


@rule("dynamic-update-slice(operand: broadcast(value), update, *indices)")
def update_of_broadcast(
    instruction: Instruction,
    operand: Instruction,
    value: Instruction,
    update: Instruction,
    indices: list[Instruction],
    rewriter: Rewriter,
) -> Rewritten:
    """An update of a broadcast scalar at constant indices is a pad."""
    if value.shape.dimensions or len(indices) != update.shape.rank:
        return None
    sizes, within = update.shape.dimensions, operand.shape.dimensions
    start = constant_start(indices, sizes, within)
    if start is None:
        return None
    rows = [PaddingDimension(s, limit - size - s) for s, size, limit in zip(start, sizes, within, strict=True)]
    return rewriter.make("pad", instruction.shape, update, value, padding=tuple(rows))


@rule("gather(operand, indices)")
def gather_one(instruction: Instruction, operand: Instruction, indices: Instruction, rewriter: Rewriter) -> Rewritten:
    """A gather of one slice is a reshape of a dynamic-slice."""
    attributes = instruction.attributes
    if attributes.get("operand_batching_dims") or operand.shape.size == 0 or instruction.shape.size == 0:
        return None
    index_map = attributes["start_index_map"]
    if indices.shape.size != len(index_map) or not index_map:
        return None
    flat = rewriter.reshape(indices, (len(index_map),))
    scalars = {}
    for position, dimension in enumerate(index_map):
        row = _sub_slice(
            rewriter, array(indices.shape.element_type, (1,)), flat, [SliceDimension(position, position + 1)]
        )
        scalars[dimension] = rewriter.reshape(row, ())
    zero = rewriter.scalar_constant(0, indices.shape.element_type)
    starts = [scalars.get(d, zero) for d in range(operand.shape.rank)]
    sizes = tuple(attributes["slice_sizes"])
    shape = array(operand.shape.element_type, sizes)
    part = rewriter.make("dynamic-slice", shape, operand, *starts, dynamic_slice_sizes=sizes)
    return rewriter.make("reshape", instruction.shape, part)


# ---- concatenate


@rule("concatenate(*operands)")
def concatenate_one(instruction: Instruction, operands: list[Instruction], rewriter: Rewriter) -> Rewritten:
    """Empty parts add nothing; a concatenation of one part is the part."""
    dimension = instruction.attributes["dimensions"][0]
    parts = [o for o in operands if o.shape.dimensions[dimension]] or operands[:1]
    if len(parts) == len(operands) and len(parts) > 1:
        return None
    return _joined(parts, dimension, instruction, rewriter)


@rule("concatenate(*operands)", reads="concatenate")
def concatenate_nested(instruction: Instruction, operands: list[Instruction], rewriter: Rewriter) -> Rewritten:
    """A concatenation read only by another along the same dimension is part of it."""
    parts: list[Instruction] = []
    for operand in operands:
        nested = operand.opcode == "concatenate" and len(operand.users) == 1 and operand.users[instruction] == 1
        if nested and operand.attributes["dimensions"] == instruction.attributes["dimensions"]:
            parts.extend(operand.operands)
        else:
            parts.append(operand)
    return rewriter.same(instruction, *parts) if len(parts) > len(operands) else None


@rule("concatenate(*operands)", reads="slice")
def concatenate_adjacent(instruction: Instruction, operands: list[Instruction], rewriter: Rewriter) -> Rewritten:
    """Adjacent slices of the same array are one slice."""
    dimension = instruction.attributes["dimensions"][0]
    parts: list[Instruction] = []
    for operand in operands:
        merged = _merged(parts[-1], operand, dimension, rewriter) if parts else None
        if merged is None:
            parts.append(operand)
        else:
            parts[-1] = merged
    return _joined(parts, dimension, instruction, rewriter) if len(parts) < len(operands) else None


def _merged(left: Instruction, right: Instruction, dimension: int, rewriter: Rewriter) -> Instruction | None:
    """The slice that two adjacent slices make up; None when they do not."""
    if left.opcode != "slice" or right.opcode != "slice" or left.operands[0] is not right.operands[0]:
        return None
    first, second = list(rows_of(left)), list(rows_of(right))
    low, high = first[dimension], second[dimension]
    first[dimension] = second[dimension] = SliceDimension(low.start, high.limit)
    if first != second or low.limit != high.start or (low.stride, high.stride) != (1, 1):
        return None
    sizes = list(left.shape.dimensions)
    sizes[dimension] += right.shape.dimensions[dimension]
    return _sub_slice(rewriter, array(left.shape.element_type, sizes), left.operands[0], first)


@rule("concatenate(left, right)", reads="broadcast")
def concatenate_padding(
    instruction: Instruction, left: Instruction, right: Instruction, rewriter: Rewriter
) -> Rewritten:
    """concatenate(broadcast(c), x) and concatenate(x, broadcast(c)) are pads of x, for a scalar c."""
    at_left, at_right = _is_scalar_broadcast(left), _is_scalar_broadcast(right)
    if at_left == at_right:
        if at_left and left.operands[0] is right.operands[0]:
            return rewriter.broadcast(left.operands[0], (), instruction.shape)
        return None
    dimension = instruction.attributes["dimensions"][0]
    source, filler = (right, left) if at_left else (left, right)
    amount = filler.shape.dimensions[dimension]
    rows = [PaddingDimension(0, 0)] * instruction.shape.rank
    rows[dimension] = PaddingDimension(amount, 0) if at_left else PaddingDimension(0, amount)
    return rewriter.make("pad", instruction.shape, source, filler.operands[0], padding=tuple(rows))


def _is_scalar_broadcast(instruction: Instruction) -> bool:
    return instruction.opcode == "broadcast" and not instruction.operands[0].shape.dimensions


# ---- pad


@rule("pad(operand, _)")
def pad_nothing(instruction: Instruction, operand: Instruction) -> Rewritten:
    """A pad by nothing is x (interior padding of a single element is nothing)."""
    rows = instruction.attributes["padding"]
    if any(row.low or row.high for row in rows) or not operand.shape.compatible(instruction.shape):
        return None
    return operand


@rule("pad(operand, _)")
def pad_negative(instruction: Instruction, operand: Instruction, rewriter: Rewriter) -> Rewritten:
    """A pad that only takes away is a slice."""
    rows = instruction.attributes["padding"]
    if any(row.low > 0 or row.high > 0 or row.interior for row in rows) or instruction.shape.size == 0:
        return None
    kept = [SliceDimension(-row.low, size + row.high) for row, size in zip(rows, operand.shape.dimensions, strict=True)]
    return _sub_slice(rewriter, instruction.shape, operand, kept)


@rule("pad(operand, value)")
def pad_same_value(instruction: Instruction, operand: Instruction, value: Instruction, rewriter: Rewriter) -> Rewritten:
    """A pad of an empty array, or of a broadcast of the padding value, is a broadcast of the value."""
    same = _is_scalar_broadcast(operand) and operand.operands[0] is value
    if not same and operand.shape.size:
        return None
    return rewriter.broadcast(value, (), instruction.shape) if instruction.shape.size else None


@rule("pad(inner: pad(source, value), value)")
def pad_twice(
    instruction: Instruction, inner: Instruction, source: Instruction, value: Instruction, rewriter: Rewriter
) -> Rewritten:
    """pad(pad(x)) with the same value, no negative amount and no interior padding is one pad."""
    pairs = list(zip(inner.attributes["padding"], instruction.attributes["padding"], strict=True))
    if any(min(a.low, a.high, b.low, b.high) < 0 or a.interior or b.interior for a, b in pairs):
        return None
    rows = [PaddingDimension(a.low + b.low, a.high + b.high) for a, b in pairs]
    return rewriter.make("pad", instruction.shape, source, value, padding=tuple(rows))


@rule("pad(operand, value)")
def pad_partly_negative(
    instruction: Instruction, operand: Instruction, value: Instruction, rewriter: Rewriter
) -> Rewritten:
    """A pad that also takes away is a pad of a slice."""
    rows = instruction.attributes["padding"]
    negative = any(row.low < 0 or row.high < 0 for row in rows)
    if not negative or any(row.interior for row in rows):
        return None
    kept = [
        SliceDimension(max(0, -row.low), size - max(0, -row.high))
        for row, size in zip(rows, operand.shape.dimensions, strict=True)
    ]
    if any(row.start >= row.limit for row in kept):
        return None
    left = [PaddingDimension(max(0, row.low), max(0, row.high)) for row in rows]
    narrow = rewriter.slice_rows(operand, kept)
    if not any(row.low or row.high for row in left):
        return narrow
    return rewriter.make("pad", instruction.shape, narrow, value, padding=tuple(left))


@rule("pad(operand, value)")
def pad_interior_of_one(
    instruction: Instruction, operand: Instruction, value: Instruction, rewriter: Rewriter
) -> Rewritten:
    """Between the elements of a dimension of size 1 there is nothing to pad."""
    rows = instruction.attributes["padding"]
    new = [
        PaddingDimension(row.low, row.high) if size <= 1 else row
        for row, size in zip(rows, operand.shape.dimensions, strict=True)
    ]
    return rewriter.make("pad", instruction.shape, operand, value, padding=tuple(new)) if new != list(rows) else None


@rule("slice(inner: reverse(source))")
def slice_reverse(instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """slice(reverse(x)) = reverse(slice(x)), fewer elements to reverse."""
    if instruction.shape.size == 0:
        return None
    reversed_dimensions = inner.attributes["dimensions"]
    rows = []
    for d, (row, size) in enumerate(zip(rows_of(instruction), inner.shape.dimensions, strict=True)):
        if d in reversed_dimensions:
            last = row.start + (instruction.shape.dimensions[d] - 1) * row.stride
            row = SliceDimension(size - 1 - last, size - row.start, row.stride)
        rows.append(row)
    narrow = _sub_slice(rewriter, instruction.shape, source, rows)
    return rewriter.make("reverse", instruction.shape, narrow, dimensions=reversed_dimensions)


@rule("slice(inner: transpose(source))")
def slice_transpose(instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """slice(transpose(x)) = transpose(slice(x)), where nothing else reads the larger transpose."""
    if len(inner.users) != 1:
        return None
    permutation = inner.attributes["dimensions"]
    rows = [rows_of(instruction)[permutation.index(d)] for d in range(instruction.shape.rank)]
    return rewriter.transpose(rewriter.slice_rows(source, rows), permutation)


@rule("slice(inner: iota)", types="integers")
def slice_iota_of_integers(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """A slice of an integer iota is start + stride * iota."""
    row_of_type = ELEMENT_TYPES[instruction.shape.element_type]
    if instruction.shape.size == 0:
        return None
    dimension = inner.attributes["iota_dimension"]
    row = rows_of(instruction)[dimension]
    if row.limit > 1 << (row_of_type.bits - (row_of_type.kind == "signed")):
        return None
    found = rewriter.make("iota", instruction.shape, iota_dimension=dimension)
    if row.stride != 1:
        found = rewriter.binary("multiply", found, rewriter.splat(row.stride, found.shape))
    return rewriter.binary("add", found, rewriter.splat(row.start, found.shape)) if row.start else found


@rule("concatenate(first: broadcast(source), *others)")
def concatenate_broadcasts(
    instruction: Instruction, first: Instruction, source: Instruction, others: list[Instruction], rewriter: Rewriter
) -> Rewritten:
    """Broadcasts of one array, joined along a dimension that the array does not have, are one broadcast."""
    dimensions = first.attributes["dimensions"]
    if instruction.attributes["dimensions"][0] in dimensions:
        return None
    for operand in others:
        if operand.opcode != "broadcast" or operand.operands[0] is not source:
            return None
        if operand.attributes["dimensions"] != dimensions:
            return None
    return rewriter.broadcast(source, dimensions, instruction.shape)


RULES: tuple[Rule, ...] = (
    slice_all, slice_twice, slice_concatenate, slice_pad, slice_broadcast, slice_iota, slice_of_inserted_ones,
    slice_arithmetic, dynamic_slice_constant, dynamic_slice_of_update, update_all, update_of_broadcast, gather_one,
    concatenate_one, concatenate_nested, concatenate_adjacent, concatenate_padding, pad_nothing, pad_negative,
    pad_same_value, pad_twice, pad_partly_negative, pad_interior_of_one, slice_reverse, slice_transpose,
    slice_iota_of_integers, concatenate_broadcasts,
)  # fmt: skip
