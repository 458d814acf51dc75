"""Literals in text: ``5``, ``{1, 2}``, ``{ {1, 2}, {3, 4} }``, ``({1}, nan(0x7f))``, ``{...}``.

Regular arrays of numbers take a fast path in which NumPy converts all values at once; anything unusual (complex
numbers, NaN payloads, errors) goes through `_Slow`, which knows the place of every value.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from hlotool.ir import ELEMENT_TYPES, Literal, Shape, dtype_of, scalar
from hlotool.text.lexer import Cursor, SyntaxFailure

__all__ = ["integer_bounds", "mantissa_bits", "read_literal", "read_usual_literal"]

Array = np.ndarray[Any, Any]

_SCALAR = re.compile(r"[-+0-9.a-zA-Z(]", re.ASCII)  # what stands for every element of an array
_SIMPLE = re.compile(r"[-+0-9.eEinfatrus{},\s]*(?=\))", re.ASCII)
_COMMENT = re.compile(r"/\*(?s:.*?)\*/")
_ALLOWED = {  # characters, of which pred has either set
    "pred": (b"01{}, \t\n\r\f\v", b"truefals{}, \t\n\r\f\v"),
    "signed": (b"-0123456789{}, \t\n\r\f\v",),
    "unsigned": (b"-0123456789{}, \t\n\r\f\v",),
    "float": (b"-+0123456789.eEinfa{}, \t\n\r\f\v",),
}
_NOT_BRACES = bytes(set(range(256)) - set(b"{}"))
_BLANK_BRACES = str.maketrans("{,", "  ")
_VALUE = re.compile(
    r"(?:-?(?:nan\s*\(\s*0x([0-9a-fA-F]+)\s*\)|nan|inf|\.?\d[\d.eE]*(?:(?<=[eE])[-+]\d+)?)|true|false)(?![\w.])",
    re.ASCII,
)
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_FLOAT = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_COMMAS = re.compile(r"(?:[\s,]+|/\*(?s:.*?)\*/|//[^\r\n]*)*")
_EMPTY = re.compile(r"\{\s*\}")
_ELIDED = re.compile(r"\{\s*\.\.\.\s*\}")
_VALUE_END = re.compile(r"\([^(){}\r\n]*\)|[^\s,{}()]+(?:\([^(){}\r\n]*\))?")
_MOST_WRONG = 5  # values of one literal that are reported
_MOST_REPEATED = 1 << 28  # elements that one scalar stands for: printed, each is a word
_LONG_DIGITS = 400  # more digits than any number that fits; Python refuses to convert thousands


def integer_bounds(element_type: str) -> tuple[int, int]:
    """The least and greatest value of an integer type."""
    row = ELEMENT_TYPES[element_type]
    if row.kind == "signed":
        return -(1 << (row.bits - 1)), (1 << (row.bits - 1)) - 1
    return 0, (1 << row.bits) - 1


@lru_cache(maxsize=32)
def mantissa_bits(element_type: str) -> int:
    """Stored mantissa bits of a real float type."""
    info: Any = ml_dtypes.finfo
    return int(info(dtype_of(element_type)).nmant)


def read_literal(cursor: Cursor, shape: Shape) -> Literal:
    """The literal of `shape` at the cursor; every error has the place of the value that is wrong."""
    start = cursor.skip()
    if 0 in shape.dimensions and (empty := _EMPTY.match(cursor.text, start)):
        cursor.position = empty.end()
        return Literal(shape, _broadcast(cursor, np.zeros((), dtype_of(shape.element_type)), shape, start))
    elided = _ELIDED.match(cursor.text, start)
    if elided is not None and (shape.dimensions or shape.is_tuple):
        cursor.position = elided.end()
        return _elided(cursor, shape, start)
    if shape.is_tuple:
        return _tuple(cursor, shape)
    if shape.dimensions and shape.is_array and _SCALAR.match(cursor.text, start):
        value = read_literal(cursor, scalar(shape.element_type)).value()
        if shape.size > _MOST_REPEATED:
            hint = "use a broadcast of a scalar constant"
            raise cursor.fail(f"no literal of {shape} can be held", start, None, hint, code="HLO0120")
        return Literal(shape, _broadcast(cursor, value, shape, start))
    if not shape.is_array:
        raise cursor.fail(f"a constant cannot be a {shape.element_type}", start, code="HLO0120")
    fast = read_usual_literal(cursor, shape)
    return fast if fast is not None else _Slow(cursor, shape).read()


def _elided(cursor: Cursor, shape: Shape, start: int) -> Literal:
    """``{...}``: every array of the shape is unknown."""
    if shape.is_tuple:
        elements = tuple(_elided(cursor, element, start) for element in shape.elements)
        return Literal(shape, elements=elements, elided=True)
    if not shape.is_array:
        raise cursor.fail(f"a constant cannot be a {shape.element_type}", start, code="HLO0120")
    zero = np.zeros((), dtype_of(shape.element_type))
    return Literal(shape, _broadcast(cursor, zero, shape, start), elided=True)


def _broadcast(cursor: Cursor, value: Array, shape: Shape, start: int) -> Array:
    try:
        return np.broadcast_to(value, shape.dimensions)
    except ValueError:
        raise cursor.fail(f"no literal of {shape} can be held", start, code="HLO0120") from None


def _tuple(cursor: Cursor, shape: Shape) -> Literal:
    depth = cursor.depth
    cursor.deeper()
    cursor.expect("(", f"at the start of a literal of {shape}")
    elements: list[Literal] = []
    for index, element in enumerate(shape.elements):
        if index and not cursor.accept(","):
            raise cursor.unexpected(f"',' and element {index} of {len(shape.elements)}")
        elements.append(read_literal(cursor, element))
    cursor.accept(",")
    cursor.expect(")", f"after the {len(shape.elements)} elements of a tuple literal")
    cursor.depth = depth
    return Literal(shape, elements=tuple(elements))


# ---- the fast path


def read_usual_literal(cursor: Cursor, shape: Shape) -> Literal | None:
    """The literal if it is regular and all its values fit; None (cursor unmoved) otherwise."""
    kind = ELEMENT_TYPES[shape.element_type].kind
    start = cursor.position
    text = cursor.text
    if text[start : start + 1] == "{":
        end = _array_end(text, start, shape.rank)
    else:
        match = _SIMPLE.match(text, start)
        end = match.end() if match else -1
    if end < 0 or kind not in _ALLOWED:
        return None
    body = text[start:end]
    if "/*" in body:
        body = _COMMENT.sub(" ", body)
    characters = body.encode("utf-8", "surrogatepass")
    if all(characters.translate(None, allowed) for allowed in _ALLOWED[kind]):
        return None
    words = _regular(body, characters, shape.dimensions)
    if words is None:
        return None
    values = _convert(words, shape, kind, body)
    if values is None:
        return None
    cursor.position = end
    return Literal(shape, values)


def _array_end(text: str, start: int, rank: int) -> int:
    """The end of a brace-enclosed literal that has no quotes or parentheses before its end; -1 if there is none."""
    stop = text.find(")", start)
    if stop < 0:
        return -1
    closing = text.rfind("}", start, stop)
    return closing + 1 if closing >= 0 else -1


def _regular(body: str, characters: bytes, dimensions: tuple[int, ...]) -> list[str] | None:
    """The values of `body`, also given as bytes, if its braces have exactly the structure of `dimensions`."""
    if not dimensions:
        words = body.split()
        return words if len(words) == 1 and "{" not in body and "}" not in body and "," not in body else None
    expected = "{}"
    for size in reversed(dimensions[:-1]):
        expected = "{" + expected * size + "}"
    if 0 in dimensions or characters.translate(None, _NOT_BRACES).decode() != expected:
        return None
    words, width = [], dimensions[-1]
    for row in body.split("}"):
        outside, brace, inside = row.rpartition("{")
        values = inside.replace(",", " ").split()
        if values and (not brace or len(values) != width):
            return None
        if outside.translate(_BLANK_BRACES).split():
            return None  # a value before a brace
        words += values
    return words if len(words) == prod(dimensions) else None


def _convert(words: list[str], shape: Shape, kind: str, body: str) -> Array | None:
    """All values at once; None where one is malformed or out of range."""
    dtype = dtype_of(shape.element_type)
    if kind == "pred":
        known = {"0": False, "1": True, "false": False, "true": True}
        if not all(word in known for word in words):
            return None
        flat: Array = np.array([known[word] for word in words], dtype=np.bool_)
        return flat.reshape(shape.dimensions)
    try:
        if kind == "float":
            with np.errstate(all="ignore"):
                flat = np.array(list(map(float, words)), dtype=np.float64).astype(dtype)
                odd = int(np.count_nonzero(~np.isfinite(flat.astype(np.float64))))
            if odd != body.count("nan") + body.count("inf"):
                return None
        else:
            low, high = integer_bounds(shape.element_type)
            numbers = list(map(int, words))
            if min(numbers) < low or max(numbers) > high:
                return None
            flat = np.array(numbers, dtype=np.int64 if high < 1 << 63 else np.uint64).astype(dtype)
    except (ValueError, OverflowError):
        return None
    return flat.reshape(shape.dimensions)


# ---- the careful path


class _Slow:
    """Reads one array literal value by value, as bits, so that NaN payloads and complex parts stay exact."""

    def __init__(self, cursor: Cursor, shape: Shape) -> None:
        self.cursor = cursor
        self.shape = shape
        row = ELEMENT_TYPES[shape.element_type]
        self.kind = row.kind
        self.part = {"c64": "f32", "c128": "f64"}.get(shape.element_type, shape.element_type)
        self.wrong = 0
        self.values: list[Any] = []  # one-element arrays of the part type, or Python integers

    def read(self) -> Literal:
        cursor, shape = self.cursor, self.shape
        start = cursor.position
        self._level(0)
        try:
            if self.kind in ("float", "complex"):
                parts = np.array(self.values, dtype=dtype_of(self.part)).reshape(-1)
                flat = parts.view(dtype_of(shape.element_type))
            elif self.kind == "pred":
                flat = np.array(self.values, dtype=np.bool_)
            else:
                wide = np.uint64 if shape.element_type == "u64" else np.int64
                flat = np.array(self.values, dtype=wide).astype(dtype_of(shape.element_type))
            return Literal(shape, flat.reshape(shape.dimensions))
        except (ValueError, MemoryError):
            raise cursor.fail(f"no literal of {shape} can be held", start, code="HLO0120") from None

    def _level(self, level: int) -> None:
        """The part of the literal at nesting `level`; the rank bounds the recursion."""
        cursor, shape = self.cursor, self.shape
        start = cursor.skip()
        if level == shape.rank:
            if cursor.peek("{"):
                deep = f"a literal of {shape} is nested {shape.rank} deep"
                what = deep if level else "a scalar literal takes no braces"
                raise cursor.fail(what, start, start + 1, code="HLO0121")
            self._value()
            return
        if not cursor.accept("{"):
            raise cursor.fail(f"a literal of {shape} needs braces nested {shape.rank} deep", start, code="HLO0121")
        depth = cursor.depth
        cursor.deeper()
        size = shape.dimensions[level]
        what = "elements" if level == shape.rank - 1 else "rows"
        count = 0
        while True:
            match = _COMMAS.match(cursor.text, cursor.position)
            assert match is not None
            cursor.position = match.end()
            if cursor.accept("}"):
                break
            if cursor.position >= len(cursor.text):
                raise cursor.unexpected(f"'}}' at the end of a literal of {shape}")
            if count == size:
                where = cursor.position
                raise cursor.fail(
                    f"the literal has more than the {size} {what} of {shape}", where, where + 1, code="HLO0122"
                )
            self._level(level + 1)
            count += 1
        cursor.depth = depth
        if count < size:
            end = cursor.position
            raise cursor.fail(f"the literal has {count} {what}, {shape} needs {size}", end - 1, end, code="HLO0122")

    def _value(self) -> None:
        """One value; a wrong one is reported and stands for zero, the sixth in one literal ends the reading of it."""
        cursor = self.cursor
        start = cursor.skip()
        try:
            self._parts()
        except SyntaxFailure as failure:
            end = _VALUE_END.match(cursor.text, start)
            if failure.diagnostic is None or end is None or end.end() == start or self.wrong == _MOST_WRONG:
                raise
            self.wrong += 1
            cursor.report(failure.diagnostic)
            cursor.position = end.end()
            self.values += [0] * (2 if self.kind == "complex" else 1)

    def _parts(self) -> None:
        if self.kind != "complex":
            self.values.append(self._number())
            return
        cursor = self.cursor
        if cursor.accept("("):
            real = self._number()
            cursor.expect(",", "between the parts of a complex number")
            imaginary = self._number()
            cursor.expect(")", "after a complex number")
        else:
            real, imaginary = self._number(), np.zeros((), dtype_of(self.part))
        self.values += [real, imaginary]

    def _number(self) -> Any:
        """One number of the part type; range and form are checked."""
        cursor, part = self.cursor, self.part
        match = cursor.match(_VALUE)
        if match is None:
            raise cursor.unexpected(f"a value of {part}")
        text, start = match.group(), match.start()
        if self.kind == "pred":
            if text not in ("0", "1", "true", "false"):
                message = f"'{text[:40]}' is not a pred value (true or false)"
                raise cursor.fail(message, start, match.end(), code="HLO0123")
            return text in ("1", "true")
        if self.kind in ("float", "complex"):
            return self._float(text, match)
        if not _INTEGER.fullmatch(text):
            kind = "an integer" if _FLOAT.fullmatch(text) else f"an {part} value"
            raise cursor.fail(f"'{text[:40]}' is not {kind}; the type is {part}", start, match.end(), code="HLO0123")
        low, high = integer_bounds(part)
        value = int(text) if len(text) < _LONG_DIGITS else high + 1
        if part == "u64" and value == -1:
            value = high  # XLA reads -1 as all bits set
        if not low <= value <= high:
            raise cursor.fail(
                f"{text[:40]} is out of range for {part} ({low} to {high})", start, match.end(), code="HLO0124"
            )
        return value

    def _float(self, text: str, match: re.Match[str]) -> Array:
        cursor, part = self.cursor, self.part
        if "nan" in text:
            return _nan(cursor, part, text.startswith("-"), match.group(1), match.span())
        if not text.endswith("inf") and not _FLOAT.fullmatch(text):
            raise cursor.fail(f"'{text[:40]}' is not a value of {part}", match.start(), match.end(), code="HLO0123")
        with np.errstate(all="ignore"):
            value: Array = np.array(float(text), dtype=np.float64).astype(dtype_of(part))
            if not text.endswith("inf") and not np.isfinite(value.astype(np.float64)):
                raise cursor.fail(f"{text[:40]} is out of range for {part}", match.start(), match.end(), code="HLO0124")
        return value


def _nan(cursor: Cursor, part: str, negative: bool, payload: str | None, span: tuple[int, int]) -> Array:
    """A NaN of sign and payload, the whole mantissa; types with a single NaN have none to choose."""
    dtype = dtype_of(part)
    value: Array = np.array(float("-nan" if negative else "nan"), dtype=np.float64).astype(dtype)
    if payload is None:
        return value
    infinity = np.array(np.inf).astype(dtype)
    single = not np.isinf(infinity.astype(np.float64))
    chosen = int(payload, 16) if len(payload) <= 16 else 0
    if single or not 0 < chosen < 1 << mantissa_bits(part):
        raise cursor.fail(f"the NaN payload 0x{payload[:20]} does not fit {part}", *span, code="HLO0124")
    unsigned = np.dtype(f"u{dtype.itemsize}")
    exponent = int(infinity.view(unsigned)) | (int(negative) << (8 * dtype.itemsize - 1))
    return np.array(exponent | chosen, dtype=unsigned).view(dtype)
