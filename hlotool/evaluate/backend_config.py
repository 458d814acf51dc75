"""The text of a backend config as Python values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["parse_backend_config"]


def parse_backend_config(text: str) -> Mapping[str, Any] | str:
    """A dictionary for JSON objects and for MLIR dictionaries such as ``{uplo = 76 : ui8}``; other text as it is."""
    body = text.strip()
    if not (body.startswith("{") and body.endswith("}")):
        return text
    try:
        found = json.loads(body)
    except ValueError:
        found = _mlir_dictionary(body)
    return text if found is None else dict(found)


def _mlir_dictionary(text: str) -> dict[str, Any] | None:
    """The entries of ``{name = value, ...}``; None when the text has another form."""
    entries: dict[str, Any] = {}
    for part in _split(text[1:-1]):
        if not part:
            continue
        match = re.fullmatch(r'(?:"((?:[^"\\]|\\.)*)"|([\w.$-]+))\s*(?:=\s*(.*))?', part, re.DOTALL)
        if match is None:
            return None
        value = match[3]
        entries[match[1] or match[2]] = True if value is None else _mlir_value(value.strip())
    return entries


def _mlir_value(text: str) -> Any:
    """Numbers, booleans, strings, arrays and dictionaries as Python values; any other attribute as its text."""
    if text in ("true", "false"):
        return text == "true"
    if match := re.fullmatch(r'"((?:[^"\\]|\\.)*)"', text, re.DOTALL):
        return match[1].replace('\\"', '"').replace("\\\\", "\\")
    if match := re.fullmatch(r"(-?\d+)\s*(?::\s*(?:[su]?i\d+|index))?", text):
        return int(match[1])
    if match := re.fullmatch(r"(-?\d+\.\d*(?:[eE][-+]?\d+)?|-?\d+[eE][-+]?\d+)\s*(?::\s*\w+)?", text):
        return float(match[1])
    if match := re.fullmatch(r"array<\w+(?::\s*(.*))?>", text, re.DOTALL):
        return tuple(_mlir_value(item) for item in _split(match[1] or "") if item)
    if text.startswith("[") and text.endswith("]"):
        return tuple(_mlir_value(item) for item in _split(text[1:-1]) if item)
    if text.startswith("{") and text.endswith("}"):
        inner = _mlir_dictionary(text)
        return text if inner is None else inner
    return text


def _split(text: str) -> list[str]:
    """Split at the commas that are outside of brackets and strings."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{(<]|[\]})>]|,', text):
        token = match[0]
        if token in "[{(<":
            depth += 1
        elif token in "]})>":
            depth -= 1
        elif token == "," and depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]
