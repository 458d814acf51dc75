"""Shapes and layouts in text: ``f32[2,<=3]{1,0:T(8,128)S(1)}``, ``(s32[], pred[4])``, ``b(f32[2])``, ``token[]``."""

from __future__ import annotations

import re
from dataclasses import replace

from hlotool.ir import ELEMENT_TYPES, UNBOUNDED, Diagnostic, Layout, Shape, row_major, tuple_shape
from hlotool.ir.damage import POISON
from hlotool.ir.shape import is_countable
from hlotool.text.lexer import SPACE, Cursor, did_you_mean

__all__ = ["ARRAY", "read_known_shape", "read_shape"]

ARRAY = r"[a-z][a-z0-9_]*\[[^\[\](){}]*\](?:\{\s*[\d:][^{}]*\})?"
"""The text of an array shape; a brace after it begins a layout only before a number or a colon."""

_ARRAY = re.compile(ARRAY, re.ASCII)
_HEAD = re.compile(rf"([A-Za-z][A-Za-z0-9_]*){SPACE}\[", re.ASCII)
_DIMENSION = re.compile(r"(\??\s*<=\s*)?(-?\d+)|(\?)", re.ASCII)
_LAYOUT = re.compile(rf"{SPACE}\{{(?={SPACE}[\d:])")
_ONE = re.compile(r"\(\s*(\w+)\s*\)", re.ASCII)
_SPLIT = re.compile(r"\(\s*(\d+)\s*:\s*(\d+(?:\s*,\s*\d+)*)\s*\)", re.ASCII)
_LEVELS = re.compile(r"D\(\s*[DCS][+~]*\s*(?:,\s*[DCS][+~]*\s*)*\)")
_LEADERS = {"opaque_type": "opaque"}
_MOST_DIMENSIONS = 32  # what every version of NumPy that is supported can hold


def read_shape(cursor: Cursor) -> Shape:
    """The shape at the cursor.  Scalars always have a layout; other arrays have None where none is written."""
    start = cursor.skip()
    match = _ARRAY.match(cursor.text, start)
    if match is not None:
        known = cursor.shapes.get(match.group())
        if known is not None:
            cursor.position = match.end()
            return known
    if cursor.text.startswith("(", start):
        return _tuple(cursor)
    if cursor.text.startswith("b(", start):
        cursor.position = start + 2
        depth = cursor.depth
        cursor.deeper()
        begin = cursor.skip()
        inside = read_shape(cursor)
        if not inside.is_array and inside != POISON:
            message = f"a buffer holds an array, not {inside}"
            cursor.report(cursor.diagnostic(message, begin, cursor.position, code="HLO0110"))
            inside = POISON
        cursor.expect(")", "after the shape of a buffer")
        cursor.depth = depth
        return POISON if inside == POISON else Shape("buffer", elements=(inside,))
    before = len(cursor.diagnostics)
    shape = _array(cursor)
    if len(cursor.diagnostics) == before:
        cursor.shapes[cursor.text[start : cursor.position]] = shape
    return shape


def read_known_shape(cursor: Cursor) -> Shape | None:
    """The same; None where the text is only looked at and the shape has errors, which become notes."""
    before = len(cursor.diagnostics)
    shape = read_shape(cursor)
    return None if cursor.only_noted(before) else shape


def _tuple(cursor: Cursor) -> Shape:
    start, depth, before = cursor.position, cursor.depth, len(cursor.diagnostics)
    cursor.deeper()
    cursor.expect("(")
    elements: list[Shape] = []
    while not cursor.accept(")"):
        if elements:
            cursor.expect(",", "or ')' in a tuple shape")
        elements.append(read_shape(cursor))
    cursor.depth = depth
    if POISON in elements:
        return POISON
    shape = tuple_shape(elements)
    if len(cursor.diagnostics) == before:
        cursor.shapes[cursor.text[start : cursor.position]] = shape
    return shape


def _array(cursor: Cursor) -> Shape:
    head = _HEAD.match(cursor.text, cursor.position)
    if head is None:
        raise cursor.unexpected("a shape")
    name = _LEADERS.get(head.group(1), head.group(1))
    row = ELEMENT_TYPES.get(name)
    cursor.position = head.end()
    if row is not None and row.kind in ("token", "opaque"):
        cursor.expect("]", f"after {name}[")
        return Shape(name)
    known = row is not None and row.is_array
    if row is not None and not known and row.bits:
        message = f"{name} arrays need a newer ml_dtypes"
        cursor.report(cursor.diagnostic(message, head.start(1), head.end(1), code="HLO0110"))
    elif not known:
        cursor.report(_unknown_type(cursor, name, head.start(1)))
    before = len(cursor.diagnostics)
    dimensions, dynamic = _dimensions(cursor, head.start(1))
    if known and not is_countable(name, dimensions):
        message = "the shape has an exbibyte or more"
        cursor.report(cursor.diagnostic(message, head.start(1), cursor.position, code="HLO0112"))
    broken = not known or len(cursor.diagnostics) > before
    shape = Shape(name if known else "f32", dimensions, None, (), dynamic if any(dynamic) else ())
    if _LAYOUT.match(cursor.text, cursor.position):
        cursor.skip()
        layout = _layout(cursor, shape)
        return POISON if broken else shape.with_layout(layout)
    if broken:
        return POISON
    return shape if dimensions else shape.with_layout(row_major(0))


def _unknown_type(cursor: Cursor, name: str, start: int) -> Diagnostic:
    """What to say about an element type that does not exist."""
    familiar = {"i": "s", "int": "s", "uint": "u", "float": "f", "bfloat": "bf", "complex": "c"}
    stem = name.rstrip("0123456789").lower()
    guess = familiar.get(stem, stem) + name[len(stem) :]
    guess = {"i1": "pred", "bool": "pred", "boolean": "pred"}.get(name.lower(), guess)
    if guess in ELEMENT_TYPES:
        hint: str | None = f"did you mean '{guess}'?"
    else:
        same_width = [t for t in ELEMENT_TYPES if sorted(t) == sorted(name)]
        hint = f"did you mean '{same_width[0]}'?" if same_width else did_you_mean(name, ELEMENT_TYPES)
    return cursor.diagnostic(f"unknown element type '{name}'", start, start + len(name), hint, code="HLO0110")


def _dimensions(cursor: Cursor, start: int) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    sizes: list[int] = []
    dynamic: list[bool] = []
    while not cursor.accept("]"):
        if sizes:
            cursor.expect(",", "or ']' in a shape")
        match = cursor.match(_DIMENSION)
        if match is None:
            raise cursor.unexpected("a dimension")
        bounded, number, unbounded = match.groups()
        size = UNBOUNDED if unbounded else cursor.to_integer(number, match.start(2))
        if number is not None and size < 0:
            message = f"a dimension cannot be negative: {size}"
            cursor.report(cursor.diagnostic(message, match.start(2), match.end(2), code="HLO0111"))
        sizes.append(size)
        dynamic.append(bounded is not None or unbounded is not None)
    if len(sizes) > _MOST_DIMENSIONS:
        message = f"the shape has {len(sizes)} dimensions, more than {_MOST_DIMENSIONS}"
        cursor.report(cursor.diagnostic(message, start, cursor.position, code="HLO0112"))
    return tuple(sizes), tuple(dynamic)


def _layout(cursor: Cursor, shape: Shape) -> Layout:
    """The braces after an array: ``{1,0:T(8,128)(2,1)L(4)#(u32)*(u32)E(4)S(1)SC(0:2,4)M(8)}``."""
    start = cursor.position
    cursor.position += 1
    numbers: list[int] = []
    while not cursor.peek(":") and not cursor.peek("}"):
        if numbers:
            cursor.expect(",", "or '}' in a layout")
        numbers.append(cursor.integer("a dimension number"))
    order = tuple(numbers)
    layout = Layout(order)
    if cursor.accept(":"):
        layout = _tiling(cursor, layout)
    cursor.expect("}", "at the end of a layout")
    text = "".join(cursor.text[start : cursor.position].split())
    if len(order) != shape.rank:
        has = f"{shape.rank} dimension" + ("s" if shape.rank != 1 else "")
        given = f"{len(order)} number" + ("s" if len(order) != 1 else "")
        hint = f"did you mean '{{{','.join(map(str, reversed(range(shape.rank))))}}}'?"
        message = f"layout {text} has {given}, the shape has {has}"
        cursor.report(cursor.diagnostic(message, start, cursor.position, hint, code="HLO0113"))
        return row_major(shape.rank)
    if sorted(order) != list(range(shape.rank)):
        message = f"layout {text} is not a permutation of 0 to {shape.rank - 1}"
        cursor.report(cursor.diagnostic(message, start, cursor.position, code="HLO0113"))
        return row_major(shape.rank)
    return row_major(shape.rank) if layout == row_major(shape.rank) else layout


def _tiling(cursor: Cursor, layout: Layout) -> Layout:
    """What stands behind the colon of a layout, in the fixed order of the format."""
    cursor.match(_LEVELS)  # per-dimension level types of the former sparse support: read and dropped
    if cursor.accept("T"):
        tiles: list[tuple[int | None, ...]] = []
        while cursor.peek("("):
            tiles.append(_tile(cursor))
        if not tiles:
            raise cursor.unexpected("a tile such as (8,128)")
        layout = replace(layout, tiles=tuple(tiles))
    if cursor.accept("L"):
        layout = replace(layout, tail_padding_alignment=_number(cursor))
    if cursor.accept("#"):
        layout = replace(layout, index_type=_word(cursor))
    if cursor.accept("*"):
        layout = replace(layout, pointer_type=_word(cursor))
    if cursor.accept("E"):
        layout = replace(layout, element_size_bits=_natural(cursor, "a number of bits"))
    if cursor.peek("S(") and cursor.accept("S"):
        layout = replace(layout, memory_space=_number(cursor))
    if cursor.accept("SC"):
        splits: list[tuple[int, tuple[int, ...]]] = []
        while match := cursor.match(_SPLIT):
            indices = tuple(cursor.to_integer(p.strip(), match.start(2)) for p in match.group(2).split(","))
            splits.append((cursor.to_integer(match.group(1), match.start(1)), indices))
            dimension, last = splits[-1][0], 0
            for index in indices:
                if index <= last:
                    raise cursor.fail("the places of a split increase from 1 on", *match.span(2), code="HLO0113")
                last = index
            if dimension >= len(layout.minor_to_major):
                message = f"the layout has no dimension {dimension} to split"
                raise cursor.fail(message, *match.span(1), code="HLO0113")
        if not splits:
            raise cursor.unexpected("a split such as (0:2,4)")
        layout = replace(layout, splits=tuple(splits))
    if cursor.peek("P("):
        raise cursor.fail("physical shapes are not part of dense layouts", cursor.position, code="HLO0113")
    if cursor.accept("M"):
        layout = replace(layout, dynamic_metadata_bytes=_number(cursor))
    return layout


def _tile(cursor: Cursor) -> tuple[int | None, ...]:
    """``(8,128)``; ``*`` joins dimensions."""
    cursor.expect("(")
    sizes: list[int | None] = []
    while not cursor.accept(")"):
        if sizes:
            cursor.expect(",", "or ')' in a tile")
        if cursor.peek("-"):
            raise cursor.unexpected("the size of a tile")
        start = cursor.skip()
        sizes.append(None if cursor.accept("*") else cursor.integer("the size of a tile"))
        if sizes[-1] == 0:
            raise cursor.fail("a tile has at least one element", start, cursor.position, code="HLO0113")
    if not sizes:
        raise cursor.fail("a tile has no sizes", cursor.position - 2, cursor.position)
    return tuple(sizes)


def _number(cursor: Cursor) -> int:
    cursor.expect("(")
    value = cursor.integer()
    cursor.expect(")")
    return value


def _natural(cursor: Cursor, what: str) -> int:
    value, start = _number(cursor), cursor.position
    if value < 0:
        raise cursor.fail(f"{what} cannot be negative: {value}", start - len(f"({value})"), start, code="HLO0113")
    return value


def _word(cursor: Cursor) -> str:
    match = cursor.match(_ONE)
    if match is None or match.group(1) not in ELEMENT_TYPES:
        raise cursor.unexpected("an element type in parentheses")
    return match.group(1)
