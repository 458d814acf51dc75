"""A program as an archive that a linker takes: its objects, its constants, and what it calls of the runtime.

Steps run one after the other, and nobody stops them, unless ``hlo_parallel``, ``hlo_parallel_awake`` and ``hlo_poll``
are defined elsewhere; calls of Python (``hlo_host``) are left to whoever links it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence

from hlotool.codegen.machine import Machine
from hlotool.codegen.program import Program
from hlotool.runtime.native_text import native_text
from hlotool.runtime.object_code import object_of

__all__ = ["archive", "archive_of"]

_DEFINED = re.compile(
    r"^(?:define (?!internal|private)[^@\n]*+@([\w.$]+)\(|@([\w.$]+) = (?!internal|private|external))", re.MULTILINE
)


def archive_of(program: Program, objects: Sequence[bytes], machine: Machine) -> bytes:
    """The archive of `program`, of whose texts `objects` are, for `machine`; the same bytes every time.

    ``void NAME(void **frame)``, where NAME is the program's entry, takes the addresses of parameters, results,
    ``NAME_arena_bytes`` bytes aligned to 64, and ``NAME_constants``, then two words that are zero.
    """
    data = program.constants.tobytes()
    runtime = native_text(
        "alone", ENTRY=program.entry, ARENA=program.assignment.arena_bytes, SIZE=len(data),
        CONSTANTS="".join(f"\\{byte:02x}" for byte in data),
    )  # fmt: skip
    texts = [*program.texts, runtime]
    names = [[one or other for one, other in _DEFINED.findall(text)] for text in texts]
    made = [*objects, object_of(runtime, machine)]
    return archive({f"unit{number}.o": row for number, row in enumerate(zip(made, names, strict=True))})


def archive(objects: Mapping[str, tuple[bytes, Sequence[str]]]) -> bytes:
    """A Unix ``ar`` archive (System V form), with fixed dates and owners, of objects by name (of at most 15 letters),
    each with the names that it defines."""
    names = [row for _, row in objects.values()]
    count, strings = sum(map(len, names)), b"".join(name.encode() + b"\0" for row in names for name in row)
    offset = 8 + len(_member("/", bytes(4 + 4 * count + len(strings))))
    members, offsets = [], []
    for name, (data, row) in objects.items():
        members.append(_member(f"{name}/", data))
        offsets += [offset] * len(row)
        offset += len(members[-1])
    index = struct.pack(f">{count + 1}I", count, *offsets) + strings
    return b"".join([b"!<arch>\n", _member("/", index), *members])


def _member(name: str, data: bytes) -> bytes:
    header = f"{name:16}{0:<12}{0:<6}{0:<6}{'100644':8}{len(data):<10}`\n"
    return header.encode() + data + (b"\n" if len(data) % 2 else b"")
