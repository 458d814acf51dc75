"""``dense<...>`` of MLIR: nested lists, splats, hexadecimal bits and blobs, to literals and back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Literal, Shape, dtype_of
from hlotool.text.literals import integer_bounds

__all__ = ["DenseError", "dense_text", "from_blob", "read_dense"]

Array = np.ndarray[Any, Any]

_LETTERS = str.maketrans("", "", "[], \t\r\n()0123456789+-.eE")
_STRUCTURE = str.maketrans("", "", "0123456789+-.eE \t\r\n_xabcdfABCDFruslti")
_WORD = re.compile(r"-?0x[0-9a-fA-F]+|[-+]?[0-9]+(?:[.][0-9]*)?(?:[eE][-+]?[0-9]+)?|true|false")
_PAIR = re.compile(r"\(([^(),]*),([^(),]*)\)")
_PLAIN = str.maketrans("[](),", "     ")
_MOST = 1 << 28  # elements that a splat may stand for


class DenseError(ValueError):
    """What is wrong with a literal; `code` is of the catalogue of errors."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def read_dense(body: str, shape: Shape) -> Literal:
    """The literal of what stands between the angle brackets; DenseError where it does not fit."""
    if shape.size > _MOST:
        raise DenseError(f"a literal of {shape.size} elements is too large", "HLO0120")
    body = body.strip()
    kind = ELEMENT_TYPES[shape.element_type].kind
    if body.startswith('"'):
        text = body[1:-1]
        if not text.startswith("0x"):
            raise DenseError("expected hexadecimal digits after 0x", "HLO0123")
        try:
            return from_blob(bytes.fromhex(text[2:]), shape)
        except ValueError as error:
            if isinstance(error, DenseError):
                raise
            raise DenseError("these are not pairs of hexadecimal digits", "HLO0123") from None
    if not body:
        if shape.size:
            raise DenseError(f"{_elements(shape.size)} are missing", "HLO0122")
        return Literal(shape, np.zeros(shape.dimensions, dtype_of(shape.element_type)))
    if kind == "complex":
        return _complex(body, shape)
    splat = not body.startswith("[")
    values = _values(body, shape.element_type)
    if splat:
        if len(values) != 1:
            raise DenseError(f"expected a value of {shape.element_type}, found '{body[:40]}'", "HLO0123")
        return Literal(shape, _frozen(np.broadcast_to(values[0], shape.dimensions)))
    _check_structure(body.translate(_STRUCTURE), shape)
    if len(values) != shape.size:
        raise DenseError(f"the literal has {len(values)} elements, its shape {shape.size}", "HLO0122")
    return Literal(shape, values.reshape(shape.dimensions))


def _frozen(array: Array) -> Array:
    own = np.array(array)
    own.flags.writeable = False
    return own


def _elements(count: int) -> str:
    return f"{count} element{'s' * (count != 1)}"


def _check_structure(brackets: str, shape: Shape) -> None:
    """The brackets and commas are those of the shape."""
    wanted = ""
    for size in reversed(shape.dimensions):
        wanted = f"[{','.join([wanted] * size)}]"
    if brackets != wanted:
        depth = len(brackets) - len(brackets.lstrip("["))
        if depth != shape.rank:
            message = f"the literal is nested {depth} deep, its shape has {shape.rank} dimensions"
            raise DenseError(message, "HLO0121")
        commas, most = brackets.count(","), wanted.count(",")
        if commas != most:
            raise DenseError(f"the literal has {_elements(commas + 1)}, its shape {shape.size}", "HLO0122")
        raise DenseError(f"the brackets of the literal do not fit {shape}", "HLO0121")


def _values(body: str, element_type: str) -> Array:
    """All numbers of a text, in order."""
    kind, dtype = ELEMENT_TYPES[element_type].kind, dtype_of(element_type)
    if kind == "float" and not body.translate(_LETTERS):
        words = body.translate(_PLAIN).split()
        try:
            with np.errstate(all="ignore"):
                return np.array(words, np.float64).astype(dtype)
        except ValueError:
            pass
    if kind in ("signed", "unsigned") and not body.translate(_LETTERS) and not set(body) & set(".eE"):
        try:
            wide = np.array([int(word) for word in body.translate(_PLAIN).split()], object)
        except ValueError:
            wide = None
        if wide is not None:
            return _integers(wide, element_type)
    words = body.translate(_PLAIN).split()
    for word in words:
        if not _WORD.fullmatch(word):
            raise DenseError(f"'{word[:40]}' is no value of {element_type}", "HLO0123")
    return np.array([_one(word, element_type) for word in words], dtype)


def _integers(wide: Array, element_type: str) -> Array:
    low, high = integer_bounds(element_type)
    for value in wide:
        if not low <= value <= high:
            # MLIR takes the unsigned form of signed values
            if ELEMENT_TYPES[element_type].kind == "signed" and low <= value <= 2 * high + 1:
                continue
            raise DenseError(f"{str(value)[:40]} does not fit into {element_type}", "HLO0124")
    if len(wide) and max(wide) > high:
        wide = np.array([value - 2 * (high + 1) if value > high else value for value in wide], object)
    if abs(low) < 1 << 31 and dtype_of(element_type).kind == "V":
        return wide.astype(np.int32).astype(dtype_of(element_type))
    return wide.astype(dtype_of(element_type))


def _one(word: str, element_type: str) -> Any:
    kind, dtype = ELEMENT_TYPES[element_type].kind, dtype_of(element_type)
    if word in ("true", "false"):
        if kind != "pred":
            raise DenseError(f"'{word}' is no value of {element_type}", "HLO0123")
        return word == "true"
    if kind == "float":
        if word.lstrip("-").startswith("0x"):
            bits, size = int(word, 16), dtype.itemsize
            if word.startswith("-") or bits >= 1 << ELEMENT_TYPES[element_type].bits:
                raise DenseError(f"{word[:40]} does not fit into {element_type}", "HLO0124")
            return np.frombuffer(bits.to_bytes(size, "little"), dtype)[0]
        return np.float64(word).astype(dtype)
    if kind == "pred":
        if word not in ("0", "1"):
            raise DenseError(f"'{word[:40]}' is no value of pred", "HLO0123")
        return word == "1"
    try:
        number = int(word, 0) if len(word) < 400 else 1 << 70
    except ValueError:
        raise DenseError(f"'{word[:40]}' is no value of {element_type}", "HLO0123") from None
    return _integers(np.array([number], object), element_type)[0]


def _complex(body: str, shape: Shape) -> Literal:
    part = "f32" if shape.element_type == "c64" else "f64"
    pairs = _PAIR.findall(body)
    halves = [half.strip() for pair in pairs for half in pair]
    for half in halves:
        if not _WORD.fullmatch(half):
            raise DenseError(f"'{half[:40]}' is no value of {part}", "HLO0123")
    found = np.array([_one(half, part) for half in halves], dtype_of(part)).view(dtype_of(shape.element_type))
    if body.startswith("["):
        _check_structure(_PAIR.sub("", body).translate(_STRUCTURE), shape)
        if len(found) != shape.size:
            raise DenseError(f"the literal has {_elements(len(found))}, its shape {shape.size}", "HLO0122")
        return Literal(shape, found.reshape(shape.dimensions))
    if len(found) != 1 or not body.startswith("("):
        raise DenseError(f"expected a pair of numbers, found '{body[:40]}'", "HLO0123")
    return Literal(shape, _frozen(np.broadcast_to(found[0], shape.dimensions)))


def from_blob(data: bytes, shape: Shape) -> Literal:
    """The literal of raw little-endian elements, one of which may stand for all; types below a byte have one each."""
    dtype, count = dtype_of(shape.element_type), shape.size
    bits = ELEMENT_TYPES[shape.element_type].bits
    if len(data) == count * dtype.itemsize:
        flat = np.frombuffer(data, np.uint8 if bits < 8 else dtype)
    elif len(data) == dtype.itemsize:
        one = np.frombuffer(data, np.uint8 if bits < 8 else dtype)
        if shape.element_type == "pred":
            one = np.minimum(one, 1)  # older versions write all eight bits
        flat = np.broadcast_to(one, count)
    elif shape.element_type == "pred" and len(data) == (count + 7) // 8:
        flat = np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little")
    else:
        message = f"the blob has {len(data)} bytes, {shape} takes {count * dtype.itemsize}"
        raise DenseError(message, "HLO0122")
    if shape.element_type == "pred":
        if flat.size and flat.max() > 1:
            raise DenseError("a byte of the blob is neither 0 nor 1", "HLO0123")
        flat = flat.astype(np.bool_)
    elif bits < 8:
        flat = _narrow(flat, shape.element_type)
    return Literal(shape, _frozen(flat.reshape(shape.dimensions)))


def _narrow(flat: Array, element_type: str) -> Array:
    """Bytes whose low bits are elements."""
    row = ELEMENT_TYPES[element_type]
    low = flat & ((1 << row.bits) - 1)
    if row.kind == "float":
        return low.astype(np.uint8).view(dtype_of(element_type))
    wide = low.astype(np.int32)
    if row.kind == "signed":
        wide = np.where(wide >= 1 << (row.bits - 1), wide - (1 << row.bits), wide)
    return wide.astype(dtype_of(element_type))


# ---- writing

_LONG = 64  # elements from which on a literal is a blob


def dense_text(value: Literal) -> str:
    """``dense<...>`` of a literal, with the exact bits."""
    array = value.value()
    if value.elided:
        return "dense_resource<__elided__>"
    if not array.size:
        return "dense<>"
    if value.is_splat:
        return f"dense<{_word(array.reshape(-1)[0], value.shape.element_type)}>"
    if array.size > _LONG:
        return f'dense<"0x{_bytes(array, value.shape.element_type).hex().upper()}">'
    return f"dense<{_nested(array, value.shape.element_type)}>"


def _nested(array: Array, element_type: str) -> str:
    if not array.ndim:
        return _word(array[()], element_type)
    return f"[{', '.join(_nested(one, element_type) for one in array)}]"


def _word(value: Any, element_type: str) -> str:
    row = ELEMENT_TYPES[element_type]
    match row.kind:
        case "pred":
            return "true" if value else "false"
        case "complex":
            part = "f32" if element_type == "c64" else "f64"
            return f"({_word(value.real, part)},{_word(value.imag, part)})"
        case "float":
            number = float(value)
            text = f"{number:.6e}"
            if np.isfinite(number) and np.float64(text).astype(dtype_of(element_type)) == value:
                return text
            if np.isfinite(number):
                return f"{number:.16e}"
            bits = np.asarray(value, dtype_of(element_type)).tobytes()[::-1].hex().upper()
            return f"0x{bits}"
        case _:
            return str(int(value))


def _bytes(array: Array, element_type: str) -> bytes:
    row = ELEMENT_TYPES[element_type]
    if row.bits < 8 and row.kind in ("signed", "unsigned"):
        return (array.astype(np.int32) & 0xFF).astype(np.uint8).tobytes()
    return np.ascontiguousarray(array).tobytes()


