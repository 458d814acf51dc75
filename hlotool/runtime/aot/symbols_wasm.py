"""The sizes of the functions of WebAssembly: the bodies in the section of code (WebAssembly Core Specification, Binary
Format), with the names of a linked module's section ``name`` (there, Custom Sections), or of an object's section
``linking`` (WebAssembly Object File Linking, of the repository tool-conventions).
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["wasm_functions"]

_CUSTOM, _IMPORT, _CODE = 0, 2, 10
"""Sections."""
_SYMBOL_TABLE, _FUNCTION_NAMES = 8, 1
"""Parts of ``linking`` and of ``name``."""
_UNDEFINED, _OWN_NAME = 0x10, 0x40
"""Flags of a symbol: it is defined elsewhere; it has another name than what it imports."""
_SECTION_SYMBOL, _DATA_SYMBOL = 3, 1


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


def wasm_functions(data: bytes) -> Iterator[tuple[str, int]]:
    """Bytes of the body of each function that has a name."""
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
