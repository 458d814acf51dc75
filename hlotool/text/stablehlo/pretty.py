"""The forms that dialects have of their own for operations: what words stand for which attributes.

Most are lists of operands, words, and values with names, in any order: ``stablehlo.pad %0, %1, low = [0], high = [1]``.
`RENAMED` says which attribute a name stands for; the rest of the file, what has another form.
"""

from __future__ import annotations

import re
from typing import Any

from hlotool.text.lexer import Cursor
from hlotool.text.stablehlo.attributes import Reader, read_attribute, read_fields, read_list
from hlotool.text.stablehlo.tree import Attributes, Mark, Number

__all__ = ["RENAMED", "WORDS", "clause"]

RENAMED: dict[str, dict[str, str]] = {
    "stablehlo.broadcast": {"sizes": "broadcast_sizes"},
    "stablehlo.broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "stablehlo.dynamic_broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "stablehlo.transpose": {"dims": "permutation"},
    "stablehlo.reverse": {"dims": "dimensions"},
    "stablehlo.iota": {"dim": "iota_dimension"},
    "stablehlo.dynamic_iota": {"dim": "iota_dimension"},
    "stablehlo.concatenate": {"dim": "dimension"},
    "stablehlo.get_dimension_size": {"dim": "dimension"},
    "stablehlo.set_dimension_size": {"dim": "dimension"},
    "stablehlo.pad": {"low": "edge_padding_low", "high": "edge_padding_high", "interior": "interior_padding"},
    "stablehlo.dynamic_slice": {"sizes": "slice_sizes"},
    "stablehlo.fft": {"type": "fft_type", "length": "fft_length"},
    "stablehlo.rng": {"distribution": "rng_distribution"},
    "stablehlo.rng_bit_generator": {"algorithm": "rng_algorithm"},
    "stablehlo.einsum": {"config": "einsum_config"},
    "stablehlo.unary_einsum": {"config": "einsum_config"},
    "stablehlo.dot": {"precision": "precision_config"},
    "stablehlo.dot_general": {"precision": "precision_config"},
}
"""Operation -> word -> attribute."""

WORDS: dict[str, tuple[str, ...]] = {
    "stablehlo.compare": ("comparison_direction", "compare_type"),
    "chlo.broadcast_compare": ("comparison_direction", "compare_type"),
    "stablehlo.custom_call": ("call_target_name",),
    "stablehlo.composite": ("name",),
    "func.call": ("callee",),
    "sdy.sharding_constraint": ("sharding",),
}
"""Operation -> the attributes that its words, names and strings are, in order."""

_FORMAT = re.compile(r"e(\d{1,9})m(\d{1,9})")
_NUMBERS = re.compile(r"\[[^\[\]]*\]\s*x\s*\[[^\[\]]*\]\s*->\s*\[[^\[\]]*\]")
_RANGE = re.compile(r"(-?\d{1,18})\s*:\s*(-?\d{1,18})(?:\s*:\s*(-?\d{1,18}))?", re.ASCII)
_WINDOW = {
    "stride": "window_strides", "pad": "padding", "lhs_dilate": "lhs_dilation", "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}  # fmt: skip


def clause(reader: Reader, name: str, key: str, start: int, attributes: Attributes) -> None:
    """The value of ``key = ...`` of operation `name` into `attributes`."""
    cursor = reader.cursor
    if name == "stablehlo.dot_general" and key in ("batching_dims", "contracting_dims"):
        left = read_list(reader)
        cursor.expect("x", "between the dimensions of both operands")
        right = read_list(reader)
        numbers: dict[str, Any] = attributes.setdefault(
            "dot_dimension_numbers", Mark("stablehlo", "dot", {}, "")
        ).value
        kind = key.removesuffix("_dims") + "_dimensions"
        numbers[f"lhs_{kind}"], numbers[f"rhs_{kind}"] = left, right
    elif key == "algorithm" and name == "stablehlo.dot_general":
        attributes["algorithm"] = Mark("stablehlo", "dot_algorithm", read_fields(reader), "")
    elif key == "dim_numbers":
        found = cursor.match(_NUMBERS)
        if found is None:
            raise cursor.unexpected("dimension numbers such as [b, f, 0]x[o, i, 0]->[b, f, 0]")
        attributes["dimension_numbers"] = Mark("stablehlo", "conv", found.group(), "")
    elif key == "window":
        value = read_attribute(reader)
        for word, part in value.items() if isinstance(value, dict) else ():
            if word not in _WINDOW:
                raise cursor.fail(f"unknown part '{word}' of a window", start, cursor.position, code="HLO0136")
            attributes[_WINDOW[word]] = part
    elif key == "format":
        value = read_attribute(reader)
        found = _FORMAT.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise cursor.fail("a float format is written e5m10", start, cursor.position, code="HLO0131")
        attributes["exponent_bits"] = Number(int(found.group(1)), "i32")
        attributes["mantissa_bits"] = Number(int(found.group(2)), "i32")
    else:
        attributes[RENAMED.get(name, {}).get(key, key)] = read_attribute(reader)


def brackets(reader: Reader, name: str, attributes: Attributes) -> None:
    """What follows an operand in brackets: the ranges of a slice, the index of a tuple's element."""
    cursor = reader.cursor
    if name == "stablehlo.get_tuple_element":
        cursor.expect("[")
        attributes["index"] = Number(cursor.integer("an index"), "i32")
        cursor.expect("]")
        return
    if name != "stablehlo.slice":
        raise cursor.unexpected("an operand, an attribute, or ':'")
    rows: list[tuple[int, int, int]] = []
    cursor.expect("[")
    while not cursor.accept("]"):
        if rows:
            cursor.expect(",")
        found = cursor.match(_RANGE)
        if found is None:
            raise cursor.unexpected("a range such as 0:4:2")
        rows.append((int(found.group(1)), int(found.group(2)), int(found.group(3) or 1)))
    for number, key in enumerate(("start_indices", "limit_indices", "strides")):
        attributes[key] = tuple(row[number] for row in rows)


def words_into(name: str, words: list[tuple[Any, int, int]], cursor: Cursor, attributes: Attributes) -> None:
    """Words, names and strings to the attributes that they are."""
    keys = WORDS.get(name, ())
    for number, (word, start, end) in enumerate(words):
        if number >= len(keys):
            raise cursor.fail(f"unexpected '{str(word)[:40]}'", start, end)
        attributes[keys[number]] = word
