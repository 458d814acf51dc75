"""PJRT's C interface as it lies in memory: which functions there are, and where the fields of their arguments are.

``interface.txt`` has the facts.  A function takes the address of one structure, which begins with its size and a list
of extensions, and gives the address of an error, or null.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

__all__ = ["HEAD", "VERSION", "Structure", "functions", "layout", "make"]

VERSION = (0, 93)
HEAD = 16
"""Bytes of every structure before its fields."""

_KINDS: Mapping[str, tuple[Any, int]] = {
    "": (ctypes.c_uint64, 8),
    "i": (ctypes.c_int32, 4),
    "b": (ctypes.c_bool, 1),
    "f": (ctypes.c_float, 4),
}


class Field(NamedTuple):
    """Where a field lies, and as what."""

    offset: int
    kind: Any
    size: int


class Structure:
    """The structure called `name` at `address`: its fields are attributes."""

    __slots__ = ("_address", "_fields")

    def __init__(self, name: str, address: int) -> None:
        object.__setattr__(self, "_address", address)
        object.__setattr__(self, "_fields", layout(name))

    def __getattr__(self, name: str) -> Any:
        field = self._fields[name]
        return field.kind.from_address(self._address + field.offset).value

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._fields[name]
        if field.offset + field.size <= ctypes.c_uint64.from_address(self._address).value:  # else of an older caller
            field.kind.from_address(self._address + field.offset).value = value

    def text(self, name: str, size: str | None = None) -> bytes:
        """The bytes that a field points to, as many as the field `size` says."""
        return ctypes.string_at(getattr(self, name), getattr(self, size or f"{name}_size"))

    def words(self, name: str, count: int, kind: Any = ctypes.c_int64) -> list[int]:
        """The numbers of an array that a field points to."""
        return [] if count == 0 else [*(kind * count).from_address(getattr(self, name))]


def functions() -> tuple[str, ...]:
    """The names of all functions, in the order of the table."""
    return tuple(name for name in _facts() if not name.startswith("struct "))


@cache
def layout(name: str) -> Mapping[str, Field]:
    """The fields of the arguments of the function `name`, or of a structure that is none (``"struct Program"``)."""
    fields: dict[str, Field] = {}
    offset = HEAD
    for word in _facts()[name]:
        field, _, letter = word.partition(":")
        kind, size = _KINDS[letter]
        offset = -(-offset // size) * size
        fields[field] = Field(offset, kind, size)
        offset += size
    return fields


def make(name: str) -> tuple[ctypes.Array[ctypes.c_char], Structure]:
    """A structure of our own, and the memory that it lies in."""
    last = [*layout(name).values()][-1]
    size = last.offset + last.size
    memory = ctypes.create_string_buffer(-(-size // 8) * 8)
    ctypes.c_uint64.from_buffer(memory).value = size
    return memory, Structure(name, ctypes.addressof(memory))


@cache
def _facts() -> dict[str, list[str]]:
    """Name -> fields."""
    text = files("hlotool.jax.pjrt").joinpath("interface.txt").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    fields: list[str] = []
    for line in text.splitlines():
        if line.startswith(" "):
            fields += line.split()
        elif line and not line.startswith("#"):
            name, _, rest = line.partition("=")
            fields = found[name.strip()] = rest.split()
    return found
