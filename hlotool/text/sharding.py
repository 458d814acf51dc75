"""Checks of sharding text.  Shardings are kept as they are written; this only finds mistakes in the known forms."""

from __future__ import annotations

import re
from math import prod

from hlotool.ir import Attribute, Verbatim
from hlotool.text.lexer import Cursor, did_you_mean

__all__ = ["read_sharding"]

_WORDS = ("replicated", "maximal", "manual", "unknown", "unreduced", "devices")
_LONE = re.compile(r"([A-Za-z_]\w*)(?=\s*(?:\}|\s[a-z_]))", re.ASCII)
_NUMBERS = r"\d+(?:\s*,\s*\d+)*"
_DEVICES = re.compile(rf"devices=\[({_NUMBERS})\]\s*(?:<=\s*\[({_NUMBERS})\]|({_NUMBERS}))", re.ASCII)
_LONGEST = 1 << 22  # characters of device lists that are looked at


def read_sharding(cursor: Cursor, row: Attribute) -> Verbatim:
    """``{replicated}``, ``{devices=[2,2]<=[4]}``, ``{{manual}, {maximal device=1}}``...: the exact text."""
    start = cursor.skip()
    value = Verbatim(cursor.balanced(row.name))
    end = cursor.position
    for match in re.finditer(r"\{\s*", cursor.text[start:end]):
        inside = start + match.end()
        if _within(cursor.text, start, inside):
            continue
        word = _LONE.match(cursor.text, inside, end)
        if word is not None and word.group(1) not in _WORDS:
            hint = did_you_mean(word.group(1), _WORDS)
            raise cursor.fail(f"unknown sharding word '{word.group(1)}'", *word.span(1), hint, code="HLO0137")
        devices = _DEVICES.match(cursor.text, inside, end)
        if devices is not None and devices.end() - devices.start() < _LONGEST:
            _check_devices(cursor, devices)
    return value


def _within(text: str, start: int, position: int) -> bool:
    """Whether a brace opens the list of a named suffix (``last_tile_dims={``, ``metadata={``)."""
    return text[max(start, position - 40) : position].rstrip().removesuffix("{").rstrip().endswith("=")


def _check_devices(cursor: Cursor, match: re.Match[str]) -> None:
    tiles = prod(_numbers(match.group(1)))
    listed = prod(_numbers(match.group(2))) if match.group(2) else len(_numbers(match.group(3)))
    if tiles != listed:
        group = 2 if match.group(2) else 3
        message = f"the sharding has {tiles} tiles but lists {listed} devices"
        raise cursor.fail(message, *match.span(group), code="HLO0137")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if len(part) < 20]
