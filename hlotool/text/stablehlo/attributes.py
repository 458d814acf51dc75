"""Attributes in text: numbers, strings, lists, dictionaries, ``dense``, ``array``, types, and those of dialects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from hlotool.ir import Literal
from hlotool.text.lexer import Cursor, unescape
from hlotool.text.stablehlo.dense import DenseError, from_blob, read_dense
from hlotool.text.stablehlo.tree import Mark, Number, Symbol
from hlotool.text.stablehlo.types import read_function_type, read_type, starts_type

__all__ = [
    "Aliases", "Reader", "Resources", "read_attribute", "read_dictionary", "read_fields", "read_list", "read_symbol",
    "skip_angles",
]  # fmt: skip

_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)", re.ASCII)
_WORD = re.compile(r"[A-Za-z_][\w$.\-]*", re.ASCII)
_KEY = re.compile(r'[A-Za-z_][\w$.\-]*|"[^"\\]*(?:\\.[^"\\]*)*"', re.ASCII)
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_HASH = re.compile(r"#([A-Za-z_][\w$\-]*)(?:\.([\w.$\-]+))?", re.ASCII)
_SYMBOL = re.compile(r'@(?:([A-Za-z_][\w$.\-]*)|("[^"\\]*(?:\\.[^"\\]*)*"))', re.ASCII)
_DENSE = re.compile(r'"[^"]*"|>')
_ANGLES = re.compile(r'->|[<>(){}\[\]]|"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALARS = re.compile(r"i\d+|ui\d+|si\d+|index|bf16|f\d+\w*", re.ASCII)
_DIMENSIONS = re.compile(r"\[([^\[\]]*)\]x\[([^\[\]]*)\]->\[([^\[\]]*)\]")
_PAIRS = {"<": ">", "(": ")", "{": "}", "[": "]"}

Aliases = dict[str, tuple[int, int]]
"""Names of ``#name = ...`` and where their values begin and end."""
Resources = dict[str, bytes]
"""Names of ``dense_resource`` and their bytes."""


class Reader:
    """A cursor, with what the names of attributes stand for."""

    __slots__ = ("aliases", "cursor", "known", "opening", "resources")

    def __init__(self, cursor: Cursor, aliases: Aliases, resources: Resources) -> None:
        self.cursor = cursor
        self.aliases = aliases
        self.resources = resources
        self.known: dict[str, Any] = {}
        self.opening: set[str] = set()  # aliases that are being read

    def alias(self, name: str, start: int) -> Any:
        """What ``#name`` stands for."""
        cursor = self.cursor
        if name in self.known:
            return self.known[name]
        place = self.aliases.get(name)
        if place is None or name in self.opening:
            why = "needs itself" if place else "is nowhere defined"
            raise cursor.fail(f"#{name} {why}", start, start + len(name) + 1, code="HLO0100")
        self.opening.add(name)
        before, cursor.position = cursor.position, place[0]
        value = read_attribute(self)
        cursor.position = before
        self.opening.discard(name)
        self.known[name] = value
        return value


def read_attribute(reader: Reader) -> Any:
    """One attribute."""
    cursor = reader.cursor
    text, start = cursor.text, cursor.skip()
    first = text[start : start + 1]
    if first == '"':
        return cursor.string()
    if first == "[":
        return read_list(reader)
    if first == "{":
        return read_dictionary(reader)
    if first == "@":
        return read_symbol(cursor)
    if first == "#":
        return _hash(reader)
    if first == "(":
        return read_function_type(cursor)
    if first == "<":  # of a kind that the place says
        return read_fields(reader)
    number = cursor.match(_NUMBER)
    if number is not None:
        return _number(cursor, number.group())
    if first == "!":
        return read_type(cursor)
    word = _WORD.match(text, start)
    if word is None:
        raise cursor.unexpected("an attribute")
    name = word.group()
    if name in ("true", "false", "unit"):
        cursor.position = word.end()
        return True if name == "unit" else name == "true"
    if name in ("dense", "dense_resource", "array", "loc", "distinct", "affine_map", "sparse"):
        depth = cursor.depth
        cursor.deeper()
        cursor.position = word.end()
        value: Any = _named(reader, name, start)
        cursor.depth = depth
        return value
    if starts_type(cursor):
        return read_type(cursor)
    cursor.position = word.end()
    return name


def _number(cursor: Cursor, text: str) -> Number:
    real = not text.lstrip("-").startswith("0x") and any(c in text for c in ".eE")
    type_ = "f64" if real else "i64"
    before = cursor.position
    if cursor.accept(":"):
        found = cursor.match(_SCALARS)
        if found is None:
            cursor.position = before  # the colon of the operation
        else:
            type_ = found.group()
    else:
        cursor.position = before  # the next line may be another operation
    if real:
        return Number(float(text), type_)
    value = int(text, 0) if text.lstrip("-").startswith("0x") else cursor.to_integer(text, cursor.position - len(text))
    if type_[0] in "fb" and not text.lstrip("-").startswith("0x"):
        return Number(float(value), type_)
    if type_[0] in "fb":
        name = {"f64": np.float64, "f32": np.float32, "f16": np.float16}.get(type_)
        width = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}.get(type_, 8)
        raw = (value & ((1 << (8 * width)) - 1)).to_bytes(width, "little")
        if name is None:
            raw, name = b"\0\0" + raw, np.float32
        return Number(float(np.frombuffer(raw, name)[0]), type_)
    return Number(value, type_)


def read_symbol(cursor: Cursor) -> Symbol:
    """``@name``, ``@"any text"``, ``@outer::@inner``."""
    parts: list[str] = []
    while True:
        found = cursor.match(_SYMBOL)
        if found is None:
            raise cursor.unexpected("a name that begins with @")
        parts.append(found.group(1) or unescape(found.group(2)[1:-1]))
        if not cursor.accept("::"):
            return Symbol("::".join(parts))


def read_list(reader: Reader) -> list[Any]:
    """``[a, b]``."""
    return [read_attribute(reader) for _ in _items(reader.cursor, "[", "]")]


def _items(cursor: Cursor, opening: str, closing: str) -> Iterator[None]:
    """One turn for each item between brackets, which are a level of nesting; commas stand between items."""
    depth = cursor.depth
    cursor.deeper()
    cursor.expect(opening)
    first = True
    while not cursor.accept(closing):
        if not first:
            cursor.expect(",", f"or '{closing}'")
        first = False
        yield
    cursor.depth = depth


def read_dictionary(reader: Reader) -> dict[str, Any]:
    """``{a = 1 : i64, b}``; ``b`` alone has the value None."""
    cursor = reader.cursor
    found: dict[str, Any] = {}
    for _ in _items(cursor, "{", "}"):
        key = cursor.match(_KEY)
        if key is None:
            raise cursor.unexpected("the name of an attribute")
        name = unescape(key.group()[1:-1]) if key.group()[0] == '"' else key.group()
        if name in found:
            raise cursor.fail(f"'{name}' is given twice", key.start(), key.end(), code="HLO0138")
        found[name] = read_attribute(reader) if cursor.accept("=") else None
    return found


def _named(reader: Reader, name: str, start: int) -> Any:
    cursor = reader.cursor
    if name == "loc":
        skip_angles(cursor, start)
        return None
    if name == "array":
        return _array(cursor, start)
    if name == "dense":
        return _dense(reader, start)
    if name == "dense_resource":
        return _resource(reader, start)
    raise cursor.fail(f"attributes of the kind '{name}' have no meaning here", start, start + len(name))


def _array(cursor: Cursor, start: int) -> tuple[Any, ...]:
    """``array<i64: 1, 2>``."""
    cursor.expect("<")
    kind = cursor.match(_SCALARS)
    if kind is None:
        raise cursor.unexpected("the type of the numbers")
    found: list[Any] = []
    if cursor.accept(":"):
        while not cursor.accept(">"):
            if found:
                cursor.expect(",")
            if cursor.accept("true") or cursor.accept("false"):
                found.append(cursor.text[: cursor.position].endswith("true"))
                continue
            number = cursor.match(_NUMBER)
            if number is None:
                raise cursor.unexpected("a number")
            real = any(c in number.group() for c in ".eE") and "x" not in number.group()
            found.append(float(number.group()) if real else int(number.group()[:30], 0))
    else:
        cursor.expect(">")
    return tuple(found)


def _dense(reader: Reader, start: int) -> Literal:
    cursor = reader.cursor
    cursor.expect("<")
    begin = cursor.position
    end = None
    for match in _DENSE.finditer(cursor.text, begin):
        if match.group() == ">":
            end = match.start()
            break
    if end is None or "tensor<" in cursor.text[begin : min(end, begin + 200)]:
        raise cursor.fail("'dense<' is not closed", start, cursor.line_end(start), code="HLO0106")
    body = cursor.text[begin:end]
    cursor.position = end + 1
    cursor.expect(":")
    at = cursor.skip()
    shape = read_type(cursor)
    if not shape.is_array or not shape.is_static:
        raise cursor.fail("a literal has a static array type", at, cursor.position, code="HLO0120")
    try:
        return read_dense(body, shape)
    except DenseError as error:
        raise cursor.fail(str(error), begin, end, code=error.code) from None


def _resource(reader: Reader, start: int) -> Literal:
    cursor = reader.cursor
    cursor.expect("<")
    key = cursor.match(_KEY)
    if key is None:
        raise cursor.unexpected("the name of a resource")
    name = unescape(key.group()[1:-1]) if key.group()[0] == '"' else key.group()
    cursor.expect(">")
    cursor.expect(":")
    shape = read_type(cursor)
    if name == "__elided__":
        return Literal(shape, elided=True)
    data = reader.resources.get(name)
    if data is None:
        hint = "dialect_resources at the end of the file have the bytes"
        raise cursor.fail(f"there is no resource '{name[:40]}'", key.start(), key.end(), hint)
    try:
        return from_blob(data, shape)
    except DenseError as error:
        raise cursor.fail(f"resource '{name[:40]}': {error}", key.start(), key.end(), code=error.code) from None


def skip_angles(cursor: Cursor, start: int) -> str:
    """Go past a balanced form in any brackets; its inside."""
    begin = cursor.skip()
    stack: list[str] = []
    for match in _ANGLES.finditer(cursor.text, begin):
        found = match.group()
        if found in _PAIRS:
            stack.append(_PAIRS[found])
        elif found[0] == '"' or found == "->":
            continue
        elif not stack or stack.pop() != found:
            raise cursor.fail(f"'{found}' closes nothing", match.start(), match.end(), code="HLO0106")
        if not stack:
            cursor.position = match.end()
            return cursor.text[begin + 1 : match.end() - 1]
    raise cursor.fail("a bracket is not closed", start, cursor.line_end(start), code="HLO0106")


def _hash(reader: Reader) -> Any:
    """``#alias``, ``#stablehlo<kind VALUE>``, ``#stablehlo.kind<...>``."""
    cursor = reader.cursor
    found = cursor.match(_HASH)
    if found is None:
        raise cursor.unexpected("the name of an attribute")
    dialect, kind = found.group(1), found.group(2)
    start = found.start()
    if kind is None and not cursor.text.startswith("<", cursor.position):
        return reader.alias(dialect, start)
    if kind is not None and not cursor.text.startswith("<", cursor.position):
        return reader.alias(f"{dialect}.{kind}", start) if f"{dialect}.{kind}" in reader.aliases else Mark(
            dialect, kind, None, found.group()
        )
    begin = cursor.position
    if kind is None:
        inside = skip_angles(cursor, start).strip()
        text = cursor.text[start : cursor.position]
        kind, _, rest = inside.partition(" ")
        if "<" in kind or not rest:
            kind, rest = re.split(r"[ <]", inside, maxsplit=1)[0], inside
        return Mark(dialect, kind, rest.strip(), text)
    if dialect == "sdy":
        inside = skip_angles(cursor, start)
        return Mark(dialect, kind, inside, cursor.text[start : cursor.position])
    if kind in ("conv", "axis_ref"):
        inside = skip_angles(cursor, start)
        return Mark(dialect, kind, inside, cursor.text[start : cursor.position])
    value: Any
    cursor.position = begin
    if re.compile(r"<\s*[\w.]+\s*=|<\s*>").match(cursor.text, begin):
        value = read_fields(reader)
    else:
        value = skip_angles(cursor, start).strip()
    return Mark(dialect, kind, value, cursor.text[start : cursor.position])


def read_fields(reader: Reader) -> dict[str, Any]:
    """``<a = [0], b = 1>``."""
    cursor = reader.cursor
    found: dict[str, Any] = {}
    for _ in _items(cursor, "<", ">"):
        key = cursor.match(_KEY)
        if key is None:
            raise cursor.unexpected("the name of a field")
        cursor.expect("=")
        at = cursor.skip()
        if cursor.text.startswith("<", at):
            found[key.group()] = read_fields(reader)
        else:
            found[key.group()] = read_attribute(reader)
    return found


