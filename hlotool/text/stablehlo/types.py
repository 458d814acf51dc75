"""Types in text: ``tensor<2x?xf32, #stablehlo.bounds<?, 4>>``, ``tuple<...>``, ``!quant.uniform<...>``, functions."""

from __future__ import annotations

import re

from hlotool.ir import ELEMENT_TYPES, UNBOUNDED, Shape, array, token, tuple_shape
from hlotool.ir.shape import is_countable, row_major
from hlotool.text.lexer import Cursor, did_you_mean
from hlotool.text.literals import integer_bounds
from hlotool.text.stablehlo.tree import FunctionType, Quantisation, QuantisedShape

__all__ = ["ELEMENTS", "element_of", "read_function_type", "read_type", "starts_type"]

_NAMES = {
    **{f"i{n}": f"s{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"si{n}": f"s{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"ui{n}": f"u{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{name: name for name in ("f16", "bf16", "f32", "f64")},
    "i1": "pred", "index": "s64", "f4E2M1FN": "f4e2m1fn", "f8E3M4": "f8e3m4", "f8E4M3": "f8e4m3",
    "f8E4M3FN": "f8e4m3fn", "f8E4M3B11FNUZ": "f8e4m3b11fnuz", "f8E4M3FNUZ": "f8e4m3fnuz", "f8E5M2": "f8e5m2",
    "f8E5M2FNUZ": "f8e5m2fnuz", "f8E8M0FNU": "f8e8m0fnu",
}  # fmt: skip
ELEMENTS = {name: row for name, row in _NAMES.items() if ELEMENT_TYPES[row].is_array}
"""Element types of MLIR, and those of HLO."""

_USUAL = re.compile(r"tensor<((?:\d{1,18}x)*)([a-z]+[0-9]+(?:E\d\w*)?|index)>", re.ASCII)
_SIZES = re.compile(r"(?:(?:\d+|\?)x)*", re.ASCII)
_ELEMENT = re.compile(r"[a-zA-Z]\w*", re.ASCII)
_ANY = re.compile(r"[!A-Za-z][\w.]*", re.ASCII)
_REAL = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?", re.ASCII)
_ALIAS = re.compile(r"![A-Za-z_][\w$\-]*(?![\w.<])", re.ASCII)
_MOST_DIMENSIONS = 32
_NARROW = {"f6E2M3FN", "f6E3M2FN"}
_OTHERS = {"none", "f80", "f128", "tf32"}


def starts_type(cursor: Cursor) -> bool:
    """Whether a type comes next."""
    cursor.skip()
    found = _ANY.match(cursor.text, cursor.position)
    if found is None:
        return False
    word = found.group()
    return word[0] == "!" or word in ("tensor", "tuple", "complex", "vector", "memref") or word in ELEMENTS


def element_of(cursor: Cursor, name: str, start: int) -> str:
    """The element type of HLO for one of MLIR."""
    found = ELEMENTS.get(name)
    if found is None and name in _NARROW:
        raise cursor.fail(f"HLO has no counterpart of the type {name}", start, start + len(name), code="HLO0110")
    if found is None:
        hint = did_you_mean(name, ELEMENTS)
        raise cursor.fail(f"unknown element type '{name[:40]}'", start, start + len(name), hint, code="HLO0110")
    return found


def read_type(cursor: Cursor) -> Shape:
    """A type of a value, or an element type alone, which is that of a scalar."""
    text, start = cursor.text, cursor.skip()
    usual = _USUAL.match(text, start)
    if usual is not None:
        known = cursor.shapes.get(usual.group())
        if known is None:
            sizes = [int(size) for size in usual.group(1).split("x")[:-1]]
            known = _array(cursor, element_of(cursor, usual.group(2), usual.start(2)), sizes, [], start, usual.end())
            cursor.shapes[usual.group()] = known
        cursor.position = usual.end()
        return known
    alias = _ALIAS.match(text, start)
    if alias is not None and alias.group() in cursor.shapes:
        cursor.position = alias.end()
        return cursor.shapes[alias.group()]
    word = _ANY.match(text, start)
    if word is None:
        raise cursor.unexpected("a type")
    name = word.group()
    cursor.position = word.end()
    depth = cursor.depth
    cursor.deeper()
    found = _other(cursor, name, start)
    cursor.depth = depth
    return found


def _other(cursor: Cursor, name: str, start: int) -> Shape:
    if name == "tensor":
        return _tensor(cursor, start)
    if name == "tuple":
        cursor.expect("<")
        elements: list[Shape] = []
        while not cursor.accept(">"):
            if elements:
                cursor.expect(",")
            elements.append(read_type(cursor))
        return tuple_shape(elements)
    if name in ("!stablehlo.token", "!mhlo.token"):
        return token()
    if name in ("!stablehlo.future", "!mhlo.async_bundle"):
        cursor.expect("<")
        inside = [read_type(cursor)]
        while cursor.accept(","):
            inside.append(read_type(cursor))
        cursor.expect(">")
        return tuple_shape(inside)
    if name == "complex":
        cursor.position = start
        return array(_complex(cursor))
    if name in ELEMENTS:
        return array(ELEMENTS[name])
    if name in ("memref", "vector", "!quant.uniform") or name in _OTHERS:
        end = _past_angles(cursor)
        raise cursor.fail(f"HLO has no counterpart of the type {name}", start, end, code="HLO0110")
    hint = did_you_mean(name, ("tensor", "tuple", "complex", "!stablehlo.token", *ELEMENTS))
    raise cursor.fail(f"unknown type '{name[:40]}'", start, start + len(name), hint, code="HLO0110")


def _past_angles(cursor: Cursor) -> int:
    if cursor.peek("<"):
        end = cursor.text.find(">", cursor.position)
        return end + 1 if end >= 0 else cursor.position + 1
    return cursor.position


def _complex(cursor: Cursor) -> str:
    start = cursor.position
    cursor.expect("complex")
    cursor.expect("<")
    part = cursor.match(_ELEMENT)
    if part is None or part.group() not in ("f32", "f64"):
        raise cursor.fail("the parts of a complex number are f32 or f64", start, cursor.position + 1, code="HLO0110")
    cursor.expect(">")
    return "c64" if part.group() == "f32" else "c128"


def _tensor(cursor: Cursor, start: int) -> Shape:
    cursor.expect("<")
    text = cursor.text
    at = cursor.skip()
    if text.startswith("*", at):
        hint = "HLO has arrays of known rank only"
        raise cursor.fail("a tensor without a rank", start, _past_angles(cursor), hint, code="HLO0110")
    sizes_match = _SIZES.match(text, at)
    assert sizes_match is not None
    sizes = [UNBOUNDED if s == "?" else int(s[:20]) for s in sizes_match.group().split("x")[:-1]]
    cursor.position = sizes_match.end()
    if re.compile(r"-\d").match(text, cursor.position):
        raise cursor.fail("a dimension cannot be negative", cursor.position, code="HLO0111")
    quantisation: Quantisation | None = None
    if cursor.peek("!quant.uniform"):
        cursor.position += len("!quant.uniform")
        element, quantisation = _quantisation(cursor, sizes)
    elif cursor.peek("complex"):
        element = _complex(cursor)
    else:
        word = cursor.match(_ELEMENT)
        if word is None:
            raise cursor.unexpected("an element type")
        element = element_of(cursor, word.group(), word.start())
    bounds: list[int] = []
    if cursor.accept(","):
        bounds = _encoding(cursor, sizes)
    cursor.expect(">")
    found = _array(cursor, element, sizes, bounds, start, cursor.position)
    if quantisation is None:
        return found
    return QuantisedShape(found.element_type, found.dimensions, found.layout, (), found.dynamic, quantisation)


def _array(
    cursor: Cursor, element: str, sizes: list[int], bounds: list[int], start: int, end: int
) -> Shape:
    if len(sizes) > _MOST_DIMENSIONS:
        raise cursor.fail(f"an array has at most {_MOST_DIMENSIONS} dimensions", start, end, code="HLO0112")
    if bounds:
        dynamic = tuple(size == UNBOUNDED for size in sizes)
        sizes = [bound if size == UNBOUNDED else size for size, bound in zip(sizes, bounds, strict=True)]
    else:
        dynamic = tuple(size == UNBOUNDED for size in sizes) if UNBOUNDED in sizes else ()
    if not is_countable(element, sizes):
        raise cursor.fail("the array has an exbibyte or more", start, end, code="HLO0112")
    return Shape(element, tuple(sizes), row_major(len(sizes)), (), dynamic)


def _encoding(cursor: Cursor, sizes: list[int]) -> list[int]:
    """``#stablehlo.bounds<?, 4>``: the bounds of dynamic dimensions."""
    start = cursor.skip()
    for name in ("#stablehlo.bounds", "#stablehlo.type_extensions<bounds =", "#mhlo.type_extensions<bounds ="):
        if cursor.accept(name):
            break
    else:
        raise cursor.fail("unknown encoding of a tensor", start, code="HLO0110", hint="#stablehlo.bounds<?, 4>")
    opening, closing = ("<", ">") if name.endswith("bounds") else ("[", "]")
    cursor.expect(opening)
    bounds: list[int] = []
    while not cursor.accept(closing):
        if bounds:
            cursor.expect(",")
        bounds.append(UNBOUNDED if cursor.accept("?") else cursor.integer("a bound"))
    if closing == "]":
        cursor.expect(">")
    if len(bounds) != len(sizes):
        message = f"{len(bounds)} bounds for {len(sizes)} dimensions"
        raise cursor.fail(message, start, cursor.position, code="HLO0110")
    for size, bound in zip(sizes, bounds, strict=True):
        if size != UNBOUNDED and bound != UNBOUNDED:
            raise cursor.fail("only dynamic dimensions have bounds", start, cursor.position, code="HLO0110")
    return bounds


def _quantisation(cursor: Cursor, sizes: list[int]) -> tuple[str, Quantisation]:
    """``<i8<-127:127>:f32:1, {0.1:1, 0.2}>``."""
    start = cursor.position
    cursor.expect("<")
    word = cursor.match(_ELEMENT)
    if word is None:
        raise cursor.unexpected("a storage type")
    name = word.group()
    storage = element_of(cursor, f"ui{name[1:]}" if name[0] == "u" and name[1:].isdigit() else name, word.start())
    if ELEMENT_TYPES[storage].kind not in ("signed", "unsigned"):
        raise cursor.fail("quantised values are stored as integers", word.start(), word.end(), code="HLO0110")
    low, high = integer_bounds(storage)
    if cursor.accept("<"):
        low = cursor.integer("the least stored value")
        cursor.expect(":")
        high = cursor.integer("the greatest stored value")
        cursor.expect(">")
    cursor.expect(":")
    word = cursor.match(_ELEMENT)
    if word is None:
        raise cursor.unexpected("an expressed type")
    expressed = element_of(cursor, word.group(), word.start())
    if ELEMENT_TYPES[expressed].kind != "float":
        raise cursor.fail("quantised values express floats", word.start(), word.end(), code="HLO0110")
    axis: int | None = None
    if cursor.accept(":"):
        if cursor.peek("{"):
            raise cursor.fail("blockwise quantisation has no counterpart in StableHLO", start, code="HLO0110")
        axis = cursor.integer("the quantised dimension")
        if not 0 <= axis < len(sizes):
            raise cursor.fail(f"there is no dimension {axis} to quantise", start, cursor.position, code="HLO0110")
    cursor.expect(",")
    pairs: list[tuple[float, int]] = []
    if axis is not None:
        cursor.expect("{")
        while not cursor.accept("}"):
            if pairs:
                cursor.expect(",")
            pairs.append(_scale(cursor))
        if len(pairs) != sizes[axis] and sizes[axis] != UNBOUNDED:
            message = f"{len(pairs)} scales for a dimension of {sizes[axis]}"
            raise cursor.fail(message, start, cursor.position, code="HLO0110")
    else:
        pairs.append(_scale(cursor))
    cursor.expect(">")
    scales, zeros = tuple(s for s, _ in pairs), tuple(z for _, z in pairs)
    return storage, Quantisation(expressed, scales, zeros, low, high, axis)


def _scale(cursor: Cursor) -> tuple[float, int]:
    number = cursor.match(_REAL)
    if number is None:
        raise cursor.unexpected("a scale")
    zero = cursor.integer("a zero point") if cursor.accept(":") else 0
    return float(number.group()), zero


def read_types(cursor: Cursor) -> list[Shape]:
    """``(a, b)`` or one type."""
    if not cursor.accept("("):
        return [read_type(cursor)]
    found: list[Shape] = []
    while not cursor.accept(")"):
        if found:
            cursor.expect(",")
        found.append(read_type(cursor))
    return found


def read_function_type(cursor: Cursor) -> FunctionType:
    """``(a, b) -> c``."""
    operands = read_types(cursor)
    cursor.expect("->")
    return FunctionType(tuple(operands), tuple(read_types(cursor)))
