"""What a library is, in itself: a block that any file which it becomes a part of can be searched for.

The block is a magic, the length of a text and how many numbers follow (32 bits each, little-endian); the text, which is
JSON; and the sizes of the functions that the text names, which are known when the code is there.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from hlotool.codegen.machine import Machine

__all__ = ["bytes_text", "metadata_block", "metadata_text", "read_metadata", "with_sizes"]

_SECTION = "hlotool"
_MAGIC = b"\x93hlotool library"
_HEAD = struct.Struct("<16s2I")


def metadata_block(about: Mapping[str, Any], functions: Sequence[str]) -> bytes:
    """The block for what is said `about` a library, with room for the sizes of its `functions`."""
    text = json.dumps({**about, "functions": list(functions)}, separators=(",", ":")).encode()
    return _HEAD.pack(_MAGIC, len(text), len(functions)) + text + bytes(4 * len(functions))


def metadata_text(machine: Machine, about: Mapping[str, Any], functions: Sequence[str]) -> str:
    """LLVM IR of the block: the constant ``@metadata``; in WebAssembly no part of memory, but a custom section."""
    block = metadata_block(about, functions)
    if machine.is_wasm:
        escaped = "\\" + block.hex("\\")
        return f'!wasm.custom_sections = !{{!0}}\n!0 = !{{!"{_SECTION}", !"{escaped}"}}'
    apple = "apple" in machine.triple or "darwin" in machine.triple
    section = f"__TEXT,__{_SECTION}" if apple else f".{_SECTION}"
    return (
        f'@metadata = internal constant {bytes_text(block)}, section "{section}"\n'
        '@llvm.used = appending global [1 x ptr] [ptr @metadata], section "llvm.metadata"'
    )


def bytes_text(data: bytes) -> str:
    """A constant of bytes, as LLVM IR."""
    return f'[{len(data)} x i8] c"' + ("\\" + data.hex("\\") if data else "") + '"'


def with_sizes(data: bytes, sizes: Mapping[str, int]) -> bytes:
    """An object whose block has the sizes of functions; unknown ones are zero."""
    start = data.index(_MAGIC)
    _, length, count = _HEAD.unpack_from(data, start)
    text = start + _HEAD.size
    names = json.loads(data[text : text + length])["functions"]
    table = struct.pack(f"<{count}I", *(sizes.get(name, 0) for name in names))
    end = text + length
    return data[:end] + table + data[end + len(table) :]


def read_metadata(data: bytes) -> list[dict[str, Any]]:
    """What the blocks in a file say, in order; their ``functions`` are sizes by name."""
    found = []
    start = data.find(_MAGIC)
    while start >= 0:
        _, length, count = _HEAD.unpack_from(data, start)
        text = start + _HEAD.size
        end = text + length
        if end + 4 * count <= len(data):
            try:
                about = json.loads(data[text:end])
                sizes = struct.unpack_from(f"<{count}I", data, end)
                found.append({**about, "functions": dict(zip(about["functions"], sizes, strict=True))})
            except (ValueError, KeyError, TypeError):
                pass  # the magic by accident, as in hlotool itself
        start = data.find(_MAGIC, start + 1)
    return found
