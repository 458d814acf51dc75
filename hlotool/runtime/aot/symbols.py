"""The sizes of the functions in an object, by their names.

Of ELF, what its table of symbols says (System V Application Binary Interface, chapter 4, Object Files).  Of
WebAssembly, the bodies in the section of code (WebAssembly Core Specification, chapter 5, Binary Format), with the names
of a linked module's section ``name`` (chapter 7, appendix), or of an object's section ``linking`` (WebAssembly Object
File Linking, of the repository tool-conventions).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

__all__ = ["function_sizes"]

_SYMBOLS, _FUNCTION = 2, 2
"""The type of a section with symbols, and of a symbol that is a function."""

_CUSTOM, _IMPORT, _CODE = 0, 2, 10
"""Sections of WebAssembly."""
_SYMBOL_TABLE, _FUNCTION_NAMES = 8, 1
"""Parts of ``linking`` and of ``name``."""
_UNDEFINED, _OWN_NAME = 0x10, 0x40
"""Flags of a symbol: it is defined elsewhere; it has another name than what it imports."""
_SECTION_SYMBOL, _DATA_SYMBOL = 3, 1


def function_sizes(data: bytes) -> dict[str, int]:
    """Bytes of code by function; nothing of what is neither an ELF of 64 bits nor WebAssembly."""
    if data[:8] == b"\0asm\1\0\0\0":
        return dict(_wasm_functions(data))
    if data[:5] != b"\x7fELF\x02":
        return {}
    order = "<" if data[5] == 1 else ">"
    (headers,) = struct.unpack_from(f"{order}Q", data, 40)
    size, count, _ = struct.unpack_from(f"{order}3H", data, 58)
    sections = [struct.unpack_from(f"{order}2I4Q2I2Q", data, headers + number * size) for number in range(count)]
    found: dict[str, int] = {}
    for section in sections:
        if section[1] == _SYMBOLS:
            strings = sections[section[6]][4]
            found.update(_functions(data, section[4], section[5], strings, order))
    return found


def _functions(data: bytes, start: int, size: int, strings: int, order: str) -> Iterator[tuple[str, int]]:
    for at in range(start, start + size, 24):
        name, info, _, section, _, length = struct.unpack_from(f"{order}I2BH2Q", data, at)
        if info & 15 == _FUNCTION and section:
            begin = strings + name
            yield data[begin : data.index(b"\0", begin)].decode(), length


# ---- WebAssembly


class _Reader:
    """Reads `data` from `at` to `end`."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def number(self) -> int:
        """An unsigned number in LEB128."""
        found = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def part(self) -> _Reader:
        """What follows, with its length before it."""
        size = self.number()
        found = _Reader(self.data, self.at, self.at + size)
        self.at += size
        return found

    def name(self) -> str:
        found = self.part()
        return self.data[found.at : found.end].decode()

    def parts(self) -> Iterator[tuple[int, _Reader]]:
        """All parts that follow, with their numbers."""
        while self.at < self.end:
            self.at += 1
            yield self.data[self.at - 1], self.part()


def _wasm_functions(data: bytes) -> Iterator[tuple[str, int]]:
    imports, bodies, names = 0, list[int](), dict[int, str]()
    for number, section in _Reader(data, 8, len(data)).parts():
        if number == _IMPORT:
            imports = sum(_imported_functions(section))
        elif number == _CODE:
            for _ in range(section.number()):
                body = section.part()
                bodies.append(body.end - body.at)
        elif number == _CUSTOM:
            called = section.name()
            if called == "name":
                names.update(_names(section))
            elif called == "linking":
                section.number()  # its version
                names.update(_symbols(section))
    for index, size in enumerate(bodies, imports):
        if index in names:
            yield names[index], size


def _imported_functions(section: _Reader) -> Iterator[bool]:
    """Of each import, whether it is a function."""
    for _ in range(section.number()):
        section.name(), section.name()
        kind = section.number()
        if kind == 0:  # its type
            section.number()
        elif kind == 3:  # a global variable: type, whether it changes
            section.at += 2
        else:  # memory, or a table, which has a type first
            section.at += kind == 1
            flags = section.number()
            section.number()
            if flags & 1:
                section.number()
        yield kind == 0


def _names(section: _Reader) -> Iterator[tuple[int, str]]:
    for number, part in section.parts():
        if number == _FUNCTION_NAMES:
            for _ in range(part.number()):
                yield part.number(), part.name()


def _symbols(section: _Reader) -> Iterator[tuple[int, str]]:
    """The functions among the symbols of an object."""
    for number, part in section.parts():
        if number != _SYMBOL_TABLE:
            continue
        for _ in range(part.number()):
            kind, flags = part.number(), part.number()
            is_defined = not flags & _UNDEFINED
            if kind == _SECTION_SYMBOL:
                part.number()
            elif kind == _DATA_SYMBOL:
                part.name()
                if is_defined:
                    part.number(), part.number(), part.number()
            else:
                index = part.number()
                if is_defined or flags & _OWN_NAME:
                    name = part.name()
                    if kind == 0 and is_defined:
                        yield index, name
