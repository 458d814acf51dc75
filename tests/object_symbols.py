"""The symbols of an object, for tests: what functions it has, how large they are, and what it asks others for.

ELF says how large a function is (System V Application Binary Interface, chapter 4, Object Files).  Mach-O (Apple's
``mach-o/loader.h`` and ``mach-o/nlist.h``) and COFF (Microsoft's PE Format) do not: there it reaches to the next symbol
of its section, or to the end of that.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

__all__ = ["Symbol", "symbols_of"]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol by the name that code in C has for it, and how many bytes it has if it `is_function`; it is defined
    elsewhere if it `is_asked`."""

    name: str
    is_function: bool
    is_asked: bool
    size: int = 0


def symbols_of(data: bytes) -> list[Symbol]:
    """The symbols of an object in ELF, Mach-O or COFF for 64 bits, in its order; nothing of what is none."""
    if data[:5] == b"\x7fELF\x02":
        return list(_elf(data))
    if data[:4] == b"\xcf\xfa\xed\xfe":
        return _mach_o(data)
    if data[:2] in (b"\x64\x86", b"\x64\xaa"):  # x86-64, aarch64
        return _coff(data)
    return []


_ELF_SYMBOLS, _ELF_FUNCTION = 2, 2
"""The type of a section with symbols, and of a symbol that is a function."""


def _elf(data: bytes) -> Iterator[Symbol]:
    order = "<" if data[5] == 1 else ">"
    (headers,) = struct.unpack_from(f"{order}Q", data, 40)
    size, count, _ = struct.unpack_from(f"{order}3H", data, 58)
    sections = [struct.unpack_from(f"{order}2I4Q2I2Q", data, headers + number * size) for number in range(count)]
    for section in sections:
        if section[1] == _ELF_SYMBOLS:
            strings = sections[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                name, info, _, index, _, length = struct.unpack_from(f"{order}I2BH2Q", data, at)
                if name:
                    yield Symbol(_text(data, strings + name), info & 15 == _ELF_FUNCTION, index == 0, length)


@dataclass(frozen=True, slots=True)
class _Place:
    """A symbol in a section, which it begins so many bytes behind `start` of; section 0 is elsewhere."""

    name: str
    section: int
    start: int
    is_function: bool


def _mach_o(data: bytes) -> list[Symbol]:
    segment, table, instructions, stabs, kind, defined = 0x19, 0x2, 0x80000400, 0xE0, 0x0E, 0x0E
    ends, has_code, places = [0], [False], list[_Place]()
    at = 32
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        command, length = struct.unpack_from("<2I", data, at)
        if command == segment:
            for number in range(struct.unpack_from("<I", data, at + 64)[0]):
                section = at + 72 + 80 * number
                address, size = struct.unpack_from("<2Q", data, section + 32)
                ends.append(address + size)
                has_code.append(bool(struct.unpack_from("<I", data, section + 64)[0] & instructions))
        elif command == table:
            first, count, strings, _ = struct.unpack_from("<4I", data, at + 8)
            for row in range(first, first + 16 * count, 16):
                name, sort, section, _, value = struct.unpack_from("<I2BHQ", data, row)
                text = _text(data, strings + name)
                if text.startswith("_") and not sort & stabs:  # others are labels of the assembler
                    here = section if sort & kind == defined else 0
                    places.append(_Place(text[1:], here, value, has_code[here]))
        at += length
    return _sized(places, ends)


def _coff(data: bytes) -> list[Symbol]:
    sections, _, first, count, optional = struct.unpack_from("<H3IH", data, 2)
    heads = [20 + optional + 40 * number for number in range(sections)]
    ends = [0, *(struct.unpack_from("<I", data, head + 16)[0] for head in heads)]
    strings, external, function = first + 18 * count, 2, 0x20
    places, row = list[_Place](), 0
    while row < count:
        at = first + 18 * row
        inside, value, section, sort, storage, more = struct.unpack_from("<8sIhH2B", data, at)
        offset = int.from_bytes(inside[4:], "little")
        name = inside.rstrip(b"\0").decode() if any(inside[:4]) else _text(data, strings + offset)
        if section > 0 or (section == 0 and storage == external and not value):
            places.append(_Place(name, section, value, sort == function))
        row += 1 + more
    return _sized([place for place in places if not place.name.startswith(".")], ends)


def _sized(places: Sequence[_Place], ends: Sequence[int]) -> list[Symbol]:
    """Symbols that reach to the next one of their section, or to the end of that."""
    starts = {section: [p.start for p in of] for section, of in _by_section(places)}

    def size(place: _Place) -> int:
        own = starts[place.section]
        following = bisect_right(own, place.start)
        return (own[following] if following < len(own) else ends[place.section]) - place.start

    return [Symbol(p.name, p.is_function, not p.section, size(p) if p.section and p.is_function else 0) for p in places]


def _by_section(places: Iterable[_Place]) -> Iterator[tuple[int, list[_Place]]]:
    ordered = sorted(places, key=lambda place: (place.section, place.start))
    return ((section, list(of)) for section, of in groupby(ordered, lambda place: place.section))


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
