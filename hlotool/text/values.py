"""Attribute values that need no names of the module: one reader per kind of ``ir.opcodes.Attribute``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hlotool.ir import (
    Aliasing,
    Attribute,
    Literal,
    Metadata,
    ReplicaGroups,
    Shape,
    Verbatim,
    tuple_shape,
)
from hlotool.text.groups import read_compact_groups
from hlotool.text.lexer import NAME, Cursor, SyntaxFailure, did_you_mean, unescape
from hlotool.text.literals import read_literal
from hlotool.text.shapes import read_shape
from hlotool.text.windows import read_dim_labels, read_padding, read_slice, read_window

__all__ = ["READERS", "read_aliasing", "read_map", "read_metadata", "read_sparsity"]

_INTS = re.compile(r"\{([\d,\s-]*)\}", re.ASCII)
_WORDS = re.compile(r"\{\s*([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)?\s*\}", re.ASCII)
_WORD = re.compile(NAME, re.ASCII)
_FLOAT = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|-?inf|-?nan", re.ASCII)
_KEY = re.compile(rf"({NAME})\s*=\s*", re.ASCII)
_META = re.compile(
    r'[\s,]*(\w+)\s*=\s*(?:"([^"\\]*(?:\\.[^"\\]*)*)"|(-?\d+)|(\{[^{}]*\}|[A-Za-z_]\w*))', re.ASCII | re.DOTALL
)
_META_KEY = re.compile(r"[\s,]*(\w+)\s*=", re.ASCII)
_META_TEXT = ("op_type", "op_name", "source_file", "profile_type", "deduplicated_name", "scheduling_name")
_META_NUMBER = (
    "source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id",
)  # fmt: skip


def _ints(cursor: Cursor, row: Attribute) -> tuple[int, ...]:
    match = _INTS.match(cursor.text, cursor.position) or _INTS.match(cursor.text, cursor.skip())
    if match is None:
        cursor.expect("{", f"at the start of the list of '{row.name}'")
        values: list[int] = []
        while not cursor.accept("}"):
            if values:
                cursor.expect(",", f"or '}}' in '{row.name}'")
            values.append(cursor.integer())
        return tuple(values)
    inside = match.group(1).strip()
    if not inside:
        cursor.position = match.end()
        return ()
    try:
        numbers = tuple([int(part) for part in inside.split(",")])
    except ValueError:
        numbers = (1 << 64,)
    if any(abs(number) >= 1 << 63 for number in numbers):
        raise cursor.fail(
            f"'{row.name}' wants a list of numbers such as {{0,1}}", match.start(), match.end(), code="HLO0130"
        )
    cursor.position = match.end()
    return numbers


def _int(cursor: Cursor, row: Attribute) -> int:
    if cursor.peek("{"):
        start = cursor.position
        raise cursor.fail(f"'{row.name}' wants one number, not a list", start, start + 1, code="HLO0130")
    return cursor.integer(f"the number of '{row.name}'")


def _bool(cursor: Cursor, row: Attribute) -> bool:
    match = _WORD.match(cursor.text, cursor.skip())
    if match is None or match.group() not in ("true", "false"):
        raise cursor.unexpected(f"true or false for '{row.name}'")
    cursor.position = match.end()
    return match.group() == "true"


def _float(cursor: Cursor, row: Attribute) -> float:
    match = cursor.match(_FLOAT)
    if match is None:
        raise cursor.unexpected(f"the number of '{row.name}'")
    return float(match.group())


def _string(cursor: Cursor, row: Attribute) -> str:
    return cursor.string()


def _check_choice(cursor: Cursor, row: Attribute, word: str, start: int) -> None:
    if row.choices and word not in row.choices:
        hint = _abbreviation(word, row.choices) or did_you_mean(word, row.choices)
        raise cursor.fail(
            f"'{word}' is no value of '{row.name}' ({' '.join(row.choices)})", start, start + len(word), hint,
            code="HLO0131",
        )  # fmt: skip


def _abbreviation(word: str, choices: tuple[str, ...]) -> str | None:
    """The comparison direction that `word` spells out (LESS is LT, GREATER_EQUAL is GE)."""
    initial = [c for c in choices if len(c) == 2 and c[0] == word[:1].upper() and len(word) > 2]
    if not initial:
        return None
    equal = "EQ" in word.upper() or word.upper().endswith("E")
    best = [c for c in initial if equal == c.endswith("E")] or initial
    return f"did you mean '{best[0]}'?"


def _word(cursor: Cursor, row: Attribute) -> str:
    match = _WORD.match(cursor.text, cursor.skip())
    if match is None:
        raise cursor.unexpected(f"a word for '{row.name}'")
    word = match.group().lower() if row.name == "distribution" else match.group()  # which XLA reads in any case
    _check_choice(cursor, row, word, match.start())
    cursor.position = match.end()
    return word


_LISTED = re.compile(r"[^\s,{}]+")


def _words(cursor: Cursor, row: Attribute) -> tuple[str, ...]:
    match = cursor.match(_WORDS)
    if match is None:
        raise cursor.unexpected(f"a list of words in braces for '{row.name}'")
    words: list[str] = []
    for one in _LISTED.finditer(match.group()):
        word = one.group()
        if row.name == "operand_precision" and word.lower() in row.choices:  # XLA reads these in any case
            word = word.lower()
        try:
            _check_choice(cursor, row, word, match.start() + one.start())
        except SyntaxFailure as failure:
            cursor.report(failure.diagnostic)
        words.append(word)
    return tuple(words)


def _groups(cursor: Cursor) -> tuple[tuple[int, ...], ...]:
    cursor.expect("{")
    found: list[tuple[int, ...]] = []
    while not cursor.accept("}"):
        if found:
            cursor.expect(",", "or '}'")
        found.append(_ints(cursor, _GROUP))
    return tuple(found)


_GROUP = Attribute("group", "ints")


def _replica_groups(cursor: Cursor, row: Attribute) -> ReplicaGroups:
    return read_compact_groups(cursor) or ReplicaGroups(_groups(cursor))


def _pairs(cursor: Cursor, row: Attribute) -> tuple[tuple[int, int], ...]:
    start = cursor.skip()
    groups = _groups(cursor)
    pairs = tuple((group[0], group[1]) for group in groups if len(group) == 2)
    if len(pairs) != len(groups):
        raise cursor.fail(
            f"'{row.name}' wants pairs such as {{{{0,1}},{{1,0}}}}", start, cursor.position, code="HLO0139"
        )
    return pairs


def _shape(cursor: Cursor, row: Attribute) -> Shape:
    return read_shape(cursor)


def _shapes(cursor: Cursor, row: Attribute) -> tuple[Shape, ...]:
    cursor.expect("{", f"at the start of '{row.name}'")
    found: list[Shape] = []
    while not cursor.accept("}"):
        if found:
            cursor.expect(",", "or '}' in a list of shapes")
        found.append(read_shape(cursor))
    return tuple(found)


def _literal(cursor: Cursor, row: Attribute) -> Literal:
    """A shape and its literal; of a tuple, in parentheses, those of its elements."""
    if not cursor.peek("("):
        return read_literal(cursor, read_shape(cursor))
    depth = cursor.depth
    cursor.deeper()
    cursor.expect("(")
    elements: list[Literal] = []
    while not cursor.accept(")"):
        if elements:
            cursor.expect(",", f"or ')' in '{row.name}'")
        elements.append(_literal(cursor, row))
    cursor.depth = depth
    return Literal(tuple_shape([element.shape for element in elements]), elements=tuple(elements))


def read_aliasing(cursor: Cursor, row: Attribute) -> tuple[Aliasing, ...]:
    """``{ {out}: (operand, {index}[, may-alias|must-alias]), ... }``."""
    cursor.expect("{", f"at the start of '{row.name}'")
    found: list[Aliasing] = []
    while not cursor.accept("}"):
        if found:
            cursor.expect(",", f"or '}}' in '{row.name}'")
        output = _ints(cursor, row)
        cursor.expect(":", "after an output index")
        cursor.expect("(", "before an operand number and its index")
        operand = cursor.integer("an operand number")
        cursor.expect(",", "after the operand number")
        index = _ints(cursor, row)
        kind = None
        if cursor.accept(","):
            kind = _word(cursor, _ALIAS_KIND)
        cursor.expect(")", "after an alias")
        found.append(Aliasing(output, operand, index, kind))
    return tuple(found)


_ALIAS_KIND = Attribute("alias kind", "word", choices=("may-alias", "must-alias"))


def _bools(cursor: Cursor, row: Attribute) -> tuple[bool, ...]:
    cursor.expect("{", f"at the start of '{row.name}'")
    found: list[bool] = []
    while not cursor.accept("}"):
        if found:
            cursor.expect(",", f"or '}}' in '{row.name}'")
        found.append(_bool(cursor, row))
    return tuple(found)


def read_map(cursor: Cursor, row: Attribute) -> dict[str, str]:
    """``{key="text", k2={json}}``; JSON text starts with its brace."""
    cursor.expect("{", f"at the start of '{row.name}'")
    found: dict[str, str] = {}
    while not cursor.accept("}"):
        if found:
            cursor.expect(",", f"or '}}' in '{row.name}'")
        key = cursor.match(_KEY)
        if key is None:
            raise cursor.unexpected(f"key=\"value\" in '{row.name}'")
        found[key.group(1)] = _config(cursor, row)
    return found


def _config(cursor: Cursor, row: Attribute) -> str:
    return cursor.balanced(row.name) if cursor.peek("{") else cursor.string()


def _metadata(cursor: Cursor, message: str, match: re.Match[str]) -> SyntaxFailure:
    """The failure for the value of a key that `match` is."""
    start = match.start() + match.group().index("=") + 1
    start += len(cursor.text[start : match.end()]) - len(cursor.text[start : match.end()].lstrip())
    return cursor.fail(f"metadata: {message}", start, match.end(), code="HLO0134")


def read_metadata(cursor: Cursor, row: Attribute | None = None) -> Metadata:
    """``{op_type="" op_name="" source_file="" source_line=1 ...}``; blanks or commas between items."""
    cursor.expect("{", "at the start of metadata")
    found: dict[str, Any] = {}
    text, position = cursor.text, cursor.position
    while match := _META.match(text, position):
        key, quoted, number, other = match.groups()
        if key in _META_TEXT:
            if quoted is None and (key != "profile_type" or other is None):
                raise _metadata(cursor, f"'{key}' wants a quoted string", match)
            found[key] = other if quoted is None else unescape(quoted)
        elif key == "preserve_layout":
            if other not in ("true", "false"):
                raise _metadata(cursor, f"'{key}' wants true or false", match)
            found[key] = other == "true"
        elif key in _META_NUMBER:
            if number is None:
                raise _metadata(cursor, f"'{key}' wants a number", match)
            found[key] = cursor.to_integer(number, match.start(3))
        else:
            hint = did_you_mean(key, (*_META_TEXT, *_META_NUMBER, "preserve_layout"))
            raise cursor.fail(f"metadata: unknown key '{key}'", match.start(1), match.end(1), hint, code="HLO0134")
        position = match.end()
    cursor.position = position
    key_only = _META_KEY.match(text, position)
    if key_only is not None:
        cursor.position = key_only.end()
        raise cursor.unexpected(f"the value of '{key_only.group(1)}'")
    cursor.expect("}", "at the end of metadata")
    return Metadata(**found)


def _verbatim(cursor: Cursor, row: Attribute) -> Verbatim:
    if cursor.text[cursor.skip() : cursor.position + 1] not in ("{", "[", "("):
        raise cursor.unexpected(f"the value of '{row.name}' in brackets")
    start = cursor.position
    value = cursor.balanced(row.name, lines=row.name == "origin_recovery_table")
    form = _FORMS.get(row.name)
    if form is not None and form[0].fullmatch(value) is None:
        raise cursor.fail(f"'{row.name}' wants a form such as {form[1]}", start, cursor.position)
    return Verbatim(value)


_LIMIT = rf"(?:atol|rtol|ulps)\s*=\s*(?:{_FLOAT.pattern})"
_DONOR = r"\(\s*\d+\s*,\s*\{\s*(?:\d+\s*(?:,\s*\d+\s*)*)?\}\s*\)"
_STATISTIC = rf"{NAME}\s*=\s*(?:{_FLOAT.pattern})"
_FORMS = {
    "result_accuracy": (
        re.compile(
            r"\{\s*(?:mode\s*=\s*(?:default|highest)|tolerance\s*=\s*\{"
            rf"\s*(?:{_LIMIT}\s*(?:,\s*{_LIMIT}\s*)*)?\}})\s*\}}", re.ASCII | re.IGNORECASE,
        ),
        "{mode=highest} or {tolerance={atol=0,rtol=1e-6,ulps=2}}",
    ),
    "buffer_donor": (re.compile(rf"\{{\s*(?:{_DONOR}\s*(?:,\s*{_DONOR}\s*)*)?\}}", re.ASCII), "{ (0, {}), (1, {0}) }"),
    "statistics": (
        re.compile(
            rf"\{{\s*(?:(?:visualizing_index\s*=\s*-?\d+|{_STATISTIC})\s*(?:,\s*{_STATISTIC}\s*)*)?\}}", re.ASCII
        ),
        "{visualizing_index=0,stat=1.5}",
    ),
}  # fmt: skip
"""What is kept as it is written and has a simple form: the form, and an example of it."""


def read_sparsity(cursor: Cursor, row: Attribute) -> tuple[tuple[int, int], ...]:
    """``L.1@2:4_R.0@2:4``: sides of a dot (0, 1), and the dimensions along which two in four elements are stored."""
    match = cursor.match(_SPARSITY)
    if match is None:
        raise cursor.unexpected(f"the value of '{row.name}', such as L.1@2:4")
    found = []
    for side, dimension, stored, of in _SPARSE_SIDE.findall(match.group()):
        if (stored, of) != ("2", "4"):
            raise cursor.fail(f"only 2:4 has a meaning in '{row.name}', not {stored}:{of}", match.start(), match.end())
        found.append(("LR".index(side), cursor.to_integer(dimension, match.start())))
    return tuple(found)


_SPARSE_SIDE = re.compile(r"([LR])\.(\d+)@(\d+):(\d+)", re.ASCII)
_SPARSITY = re.compile(rf"{_SPARSE_SIDE.pattern}(?:_{_SPARSE_SIDE.pattern})*", re.ASCII)

READERS: dict[str, Callable[[Cursor, Attribute], Any]] = {
    "aliasing": read_aliasing,
    "bool": _bool,
    "bools": _bools,
    "config": _config,
    "dim_labels": read_dim_labels,
    "float": _float,
    "int": _int,
    "ints": _ints,
    "literal": _literal,
    "map": read_map,
    "metadata": read_metadata,
    "padding": read_padding,
    "pairs": _pairs,
    "replica_groups": _replica_groups,
    "shape": _shape,
    "shapes": _shapes,
    "slice": read_slice,
    "string": _string,
    "verbatim": _verbatim,
    "window": read_window,
    "word": _word,
    "words": _words,
}
"""A reader per attribute kind; ``computation``, ``computations`` and ``names`` need the module and are the parser's."""
