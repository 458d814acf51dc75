"""Shapes, layouts and literals from their messages."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from hlotool.ir import ELEMENT_TYPES, UNBOUNDED, Layout, Literal, Shape, dtype_of, row_major
from hlotool.ir.shape import is_countable
from hlotool.text.proto.message import Message

__all__ = ["read_literal", "read_shape"]

Array = np.ndarray[Any, Any]

_SMALLEST = -(1 << 63)  # how messages write an unbounded dimension, and '*' in a tile
_MOST_DIMENSIONS = 32  # what every version of NumPy that is supported can hold
_NAMES = {"OPAQUE_TYPE": "opaque"}
_PARTS = {"c64": "f32", "c128": "f64"}


def read_shape(message: Message) -> Shape:
    """A ShapeProto.  As in text, scalars always have a layout, other arrays where the message has one."""
    word = message.word("element_type")
    name = _NAMES.get(word, word.lower())
    row = ELEMENT_TYPES.get(name)
    if row is None:
        raise message.fail(f"unknown element type {word}")
    if name in ("tuple", "buffer"):
        elements = tuple([read_shape(one) for one in message.messages("tuple_shapes")])
        if name == "buffer" and len(elements) != 1:
            raise message.fail(f"a buffer shape has one element, not {len(elements)}")
        return Shape(name, elements=elements)
    if not row.is_array:
        if row.kind not in ("token", "opaque"):
            raise message.fail(f"{name} arrays need a newer ml_dtypes")
        return Shape(name)
    return _array(message, name)


def _array(message: Message, name: str) -> Shape:
    sizes = message.numbers("dimensions")
    if len(sizes) > _MOST_DIMENSIONS:
        raise message.fail(f"an array has at most {_MOST_DIMENSIONS} dimensions, not {len(sizes)}")
    dimensions = tuple([UNBOUNDED if size == _SMALLEST else size for size in sizes])
    if any(size < 0 and size != UNBOUNDED for size in dimensions) or not is_countable(name, dimensions):
        raise message.fail(f"{name}[{','.join(map(str, dimensions))}] is no shape")
    flags = message.numbers("is_dynamic_dimension")
    if flags and len(flags) != len(dimensions):
        raise message.fail(f"{len(flags)} dynamic flags for {len(dimensions)} dimensions")
    dynamic = tuple([bool(flag) for flag in flags])
    if "layout" in message:
        layout: Layout | None = _layout(message.message("layout"), len(dimensions))
    else:
        layout = None if dimensions else row_major(0)
    return Shape(name, dimensions, layout, (), dynamic if any(dynamic) else ())


@lru_cache(maxsize=512)
def _plain(minor_to_major: tuple[int, ...]) -> Layout:
    return Layout(minor_to_major)


def _layout(message: Message, rank: int) -> Layout:
    order = message.numbers("minor_to_major")
    if sorted(order) != list(range(rank)):
        raise message.fail(f"layout {{{','.join(map(str, order))}}} is not a permutation of {rank} dimensions")
    layout = _plain(order)
    if len(message.values) == 1 + ("tail_padding_alignment_in_elements" in message) and (
        message.number("tail_padding_alignment_in_elements") <= 1
    ):
        return layout
    tiles = [tuple(None if n == _SMALLEST else n for n in t.numbers("dimensions")) for t in message.messages("tiles")]
    splits = [(s.number("dimension"), s.numbers("split_indices")) for s in message.messages("split_configs")]
    return Layout(
        order,
        tuple(tiles),
        message.number("tail_padding_alignment_in_elements") or 1,
        _index_type(message, "index_primitive_type"),
        _index_type(message, "pointer_primitive_type"),
        message.number("element_size_in_bits"),
        message.number("memory_space"),
        tuple(splits),
        message.number("dynamic_shape_metadata_prefix_bytes"),
    )


def _index_type(message: Message, field: str) -> str | None:
    return message.word(field).lower() if message.values.get(field) in ("U8", "U16", "U32", "U64") else None


def read_literal(message: Message) -> Literal:
    """A LiteralProto; its values lie in the order of the shape's layout."""
    shape = read_shape(message.message("shape"))
    if shape.is_tuple:
        parts = message.messages("tuple_literals")
        if len(parts) != len(shape.elements):
            raise message.fail(f"{len(parts)} literals for the {len(shape.elements)} elements of {shape}")
        elements = tuple([read_literal(part) for part in parts])
        for literal, element in zip(elements, shape.elements, strict=True):
            if not literal.shape.compatible(element):
                raise message.fail(f"an element of a literal is {literal.shape}, the shape says {element}")
        return Literal(shape, elements=elements)
    if not shape.is_array:
        raise message.fail(f"a literal cannot be a {shape.element_type}")
    if any(size < 0 for size in shape.dimensions):
        raise message.fail(f"no literal of {shape} can be held")
    flat = _values(message, shape)
    try:
        if shape.layout is None or shape.layout.minor_to_major == row_major(shape.rank).minor_to_major:
            return Literal(shape, flat.reshape(shape.dimensions))
        major_first = shape.layout.minor_to_major[::-1]
        physical = flat.reshape([shape.dimensions[d] for d in major_first])
        return Literal(shape, np.ascontiguousarray(physical.transpose(np.argsort(major_first))))
    except (ValueError, MemoryError):
        raise message.fail(f"no literal of {shape} can be held") from None


def _values(message: Message, shape: Shape) -> Array:
    """All values of an array literal; the count is checked before anything is allocated."""
    name, size = shape.element_type, shape.size
    row = ELEMENT_TYPES[name]
    field = f"{name}s"
    if name == "s8" and field not in message and "u8s" in message:
        field = "u8s"  # how s8 was written once
    if name in ("pred", "s32", "s64", "u32", "u64"):
        numbers = message.values.get(field, [])
        _check(message, shape, len(numbers))
        return np.array(numbers, dtype=dtype_of(name))
    raw = message.data(field)
    width = row.bits // 8
    if row.bits >= 8:
        _check(message, shape, len(raw) // width, len(raw) % width != 0)
        wanted = dtype_of(_PARTS.get(name, name))
        return np.frombuffer(raw, wanted.newbyteorder("<") if wanted.isbuiltin == 1 else wanted).view(dtype_of(name))
    small = np.frombuffer(raw, np.uint8)
    if len(raw) != size and len(raw) == -(-size * row.bits // 8):
        shifts = np.arange(0, 8, row.bits, dtype=np.uint8)
        small = (small[:, None] >> shifts).reshape(-1)[:size]
    _check(message, shape, len(small))
    small = small & np.uint8((1 << row.bits) - 1)
    if row.kind == "float":
        return small.view(dtype_of(name))
    wide = small.astype(np.int16)
    if row.kind == "signed":
        wide -= (wide >> (row.bits - 1)) << row.bits
    return wide.astype(dtype_of(name))


def _check(message: Message, shape: Shape, count: int, odd: bool = False) -> None:
    if count != shape.size or odd:
        raise message.fail(f"the literal has {count} values, {shape} needs {shape.size}")
