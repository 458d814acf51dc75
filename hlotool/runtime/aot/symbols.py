"""The sizes of the functions in an object, by their names; of ELF, what its table of symbols says.

System V Application Binary Interface, chapter 4, Object Files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from hlotool.runtime.aot.symbols_by_place import coff_functions, mach_o_functions
from hlotool.runtime.aot.symbols_wasm import wasm_functions

__all__ = ["function_sizes"]

_SYMBOLS, _FUNCTION = 2, 2
"""The type of a section with symbols, and of a symbol that is a function."""


def function_sizes(data: bytes) -> dict[str, int]:
    """Bytes of code by function; nothing of what is no object for a system that libraries are for."""
    if data.startswith(b"\0asm"):
        return dict(wasm_functions(data))
    if data.startswith(b"\xcf\xfa\xed\xfe"):
        return dict(mach_o_functions(data))
    if data.startswith((b"\x64\x86", b"\x64\xaa")):
        return dict(coff_functions(data))
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
