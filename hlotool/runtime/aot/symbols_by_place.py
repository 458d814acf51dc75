"""The sizes of the functions in objects that say where functions begin, but not where they end: each reaches to the
next one in its section, or to the section's end, with what is between for alignment.

Mach-O (Apple, "OS X ABI Mach-O File Format Reference", and loader.h, nlist.h) and COFF (Microsoft, "PE Format").
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping

__all__ = ["coff_functions", "mach_o_functions"]

_SEGMENT, _SYMBOLS = 0x19, 2
"""Load commands of Mach-O: a segment of 64 bits with its sections, the table of symbols."""
_INSTRUCTIONS = 0x80000000
"""A flag of its sections: there is nothing but code."""
_TYPE, _DEBUGGING, _IN_SECTION = 0x0E, 0xE0, 0x0E
"""Of the type of its symbols: which bits say where they are defined, which that they are for debuggers; and: in a
section."""
_FUNCTION = 0x20
"""The type of COFF's symbols that are functions."""


def mach_o_functions(data: bytes) -> Iterator[tuple[str, int]]:
    """Of an object of 64 bits, little-endian."""
    ends, places, at = dict[int, int](), list[tuple[int, int, str]](), 32
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        command, size = struct.unpack_from("<2I", data, at)
        if command == _SEGMENT:
            (count,) = struct.unpack_from("<I", data, at + 64)
            for number in range(count):
                start, length = struct.unpack_from("<2Q", data, at + 72 + 80 * number + 32)
                (flags,) = struct.unpack_from("<I", data, at + 72 + 80 * number + 64)
                if flags & _INSTRUCTIONS:
                    ends[number + 1] = start + length
        elif command == _SYMBOLS:
            symbols, count, strings, _ = struct.unpack_from("<4I", data, at + 8)
            for number in range(count):
                name, kind, section, _, value = struct.unpack_from("<I2BHQ", data, symbols + 16 * number)
                label = _text(data, strings + name)  # those without a _ are the assembler's own
                if kind & _TYPE == _IN_SECTION and not kind & _DEBUGGING and label.startswith("_"):
                    places.append((section, value, label[1:]))
        at += size
    return _sizes(places, ends)


def coff_functions(data: bytes) -> Iterator[tuple[str, int]]:
    sections, _, symbols, count = struct.unpack_from("<H3I", data, 2)
    strings, places, at = symbols + 18 * count, list[tuple[int, int, str]](), symbols
    ends = {number + 1: struct.unpack_from("<I", data, 20 + 40 * number + 16)[0] for number in range(sections)}
    while at < strings:
        value, section, kind, _, more = struct.unpack_from("<IhH2B", data, at + 8)
        if kind == _FUNCTION and section > 0:
            zeros, place = struct.unpack_from("<2I", data, at)
            name = _text(data, strings + place) if zeros == 0 else data[at : at + 8].rstrip(b"\0").decode()
            places.append((section, value, name))
        at += 18 * (1 + more)
    return _sizes(places, ends)


def _sizes(places: Iterable[tuple[int, int, str]], ends: Mapping[int, int]) -> Iterator[tuple[str, int]]:
    """Of functions by section and address, in sections that end there."""
    ordered = sorted(place for place in places if place[0] in ends)
    following = dict(ends)
    begun: tuple[int, int] | None = None
    for section, address, name in reversed(ordered):
        if begun is not None and begun[0] == section and begun[1] > address:
            following[section] = begun[1]
        begun = (section, address)
        yield name, following[section] - address


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
