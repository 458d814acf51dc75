"""How LLVM spells types, constants and the names of functions that take any type."""

from __future__ import annotations

import math
import struct
from functools import cache

__all__ = ["BITS", "FLOATS", "Number", "constant_text", "mangled", "type_text"]

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "half": 16, "float": 32, "double": 64}
FLOATS = {"half": "f16", "float": "f32", "double": "f64"}
"""Floating-point types, and their names in those of intrinsic functions."""

Number = int | float


@cache
def type_text(element: str, lanes: int) -> str:
    """The LLVM type: ``float`` for one lane, ``<n x float>`` for more."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def mangled(element: str, lanes: int) -> str:
    """The type as intrinsic names have it, such as ``v16f32``."""
    name = "p0" if element == "ptr" else FLOATS.get(element, element)
    return name if lanes == 1 else f"v{lanes}{name}"


def constant_text(element: str, lanes: int, value: Number) -> str:
    """An LLVM constant; floats round to nearest even first, integers wrap to the width."""
    if element in FLOATS:
        value = float(value)
        if element == "float":
            value = _to_single(value)
        elif element == "half":
            value = struct.unpack("<e", struct.pack("<e", value))[0]
        text = "0x" + struct.pack(">d", value).hex().upper()
    elif element == "i1":
        text = "true" if value else "false"
    else:
        half = 1 << int(element[1:]) - 1  # masks have any width
        text = str((int(value) + half) % (2 * half) - half)
    return text if lanes == 1 else f"splat ({element} {text})"


def _to_single(value: float) -> float:
    try:
        result: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return result
