"""Memory for arrays: aligned for vector code, and recycled.

A fresh 64 MB array costs several times the kernel that fills it, in page faults.  So output arrays and
arenas come from an allocator of our own, which keeps freed blocks by size class and hands them out
again.  NumPy lets an array carry the allocator that is to free it (NEP 49); the allocator is LLVM IR
(``native/allocator.ll``), and returning an array to it is what dropping the last reference to the array
does.  Nothing here can dangle: a block is reused only after NumPy has freed it.

Blocks are aligned to 64 bytes, those of a page or more to 4096, and those of 2 MB or more to 2 MB with huge
pages asked for (on Linux).  At most `limit` bytes of freed blocks are kept (``HLOTOOL_KEEP``, in MiB).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hlotool.codegen.kernel import PLUMBING
from hlotool.codegen.machine import Machine, host
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache import default_cache
from hlotool.runtime.load import Library, load
from hlotool.runtime.native_text import native_text
from hlotool.runtime.object_code import compiled, with_attributes
from hlotool.runtime.once import once
from hlotool.system import memory_bytes, system

__all__ = [
    "ALIGNMENT", "Allocator", "aligned", "allocator", "empty", "held_bytes", "kept_bytes", "numpy_function",
    "release_kept",
]  # fmt: skip

ALIGNMENT = 64
_PAGE = 4096
_HUGE = 2 << 20


def aligned(nbytes: int) -> npt.NDArray[np.uint8]:
    """`nbytes` fresh bytes that start at a multiple of 64 (of 4096 when there are that many)."""
    alignment = _PAGE if nbytes >= _PAGE else ALIGNMENT
    whole = np.empty(nbytes + alignment, np.uint8)
    # Not a slice: an empty slice would start anywhere.
    return np.ndarray((nbytes,), np.uint8, whole, -whole.ctypes.data % alignment)


def empty(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array with undefined content in recycled memory."""
    found = allocator()
    before = found.set_handler(found.handler)
    try:
        return np.empty(tuple(shape), dtype)
    finally:
        found.set_handler(before)


def held_bytes(nbytes: int) -> int:
    """Bytes that a process holds for a block of so many that are all written to: large ones are in huge pages, the last
    of which may reach to the end of the block's size class (four per power of two)."""
    if nbytes <= 1 << 20 or not _has_huge_pages():
        return nbytes
    quarter = 1 << ((nbytes - 1).bit_length() - 3)
    capacity = -(-nbytes // quarter) * quarter
    return nbytes if capacity < _HUGE else max(nbytes, min(capacity // _HUGE, -(-nbytes // _HUGE)) * _HUGE)


def _has_huge_pages() -> bool:
    """Whether the system gives huge pages to those who ask for them."""
    if system().portable:
        return False
    try:
        return "[never]" not in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return False


def kept_bytes() -> int:
    """Bytes of freed blocks waiting to be used again."""
    return ctypes.c_int64.from_address(allocator().library.address("kept")).value


def release_kept() -> None:
    """Give all freed blocks back to the system."""
    ctypes.CFUNCTYPE(None)(allocator().library.address("hlo_release"))()


class _SetHandler(Protocol):
    def __call__(self, handler: object, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Allocator:
    """The loaded allocator: its code, NumPy's handle on it, and how to make NumPy use it in this thread."""

    library: Library
    handler: object
    set_handler: _SetHandler
    block: ctypes.Array[ctypes.c_char]


@once
def allocator() -> Allocator:
    """The process's allocator; never unloaded, because arrays outlive everything else."""
    machine = host()
    library = load(compiled([_text(machine, _limit())], machine, cache=default_cache()))
    block = ctypes.create_string_buffer(_handler_block(library), 128 + 5 * 8)
    make_capsule = ctypes.pythonapi.PyCapsule_New
    make_capsule.restype, make_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    handler = make_capsule(ctypes.addressof(block), b"mem_handler", None)
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(numpy_function(304))
    return Allocator(library, handler, set_handler, block)


def numpy_function(index: int) -> int:
    """The address in slot `index` of NumPy's C API table (the slots are fixed by NumPy's ABI)."""
    core: Any = np.__dict__.get("_core") or np.core
    address: Callable[[object, None], int] = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]  # type: ignore[attr-defined]
    table = address(core._multiarray_umath._ARRAY_API, None)
    return int(ctypes.c_void_p.from_address(table + 8 * index).value or 0)


def _handler_block(library: Library) -> bytes:
    """NumPy's PyDataMem_Handler: a name of 127 characters, version 1, context, malloc, calloc, realloc, free."""
    functions = [library.address(f"hlo_{name}") for name in ("malloc", "calloc", "realloc", "free")]
    return b"hlotool".ljust(127, b"\0") + b"\1" + b"".join(n.to_bytes(8, "little") for n in (0, *functions))


def _limit() -> int:
    """Bytes of freed blocks to keep: ``HLOTOOL_KEEP`` MiB, else an eighth of the machine's memory up to 4 GiB."""
    text = os.environ.get("HLOTOOL_KEEP", "").strip()
    if text:
        if not text.isdecimal():
            raise ValueError(f"HLOTOOL_KEEP={text!r}: expected a number of MiB")
        return int(text) << 20
    total = memory_bytes() or 8 << 30
    # A power of two, so that the code is the same on machines of about the same size.
    return min(4 << 30, 1 << max(26, (total // 8).bit_length() - 1))


def _text(machine: Machine, limit: int) -> str:
    """The allocator's LLVM IR, for the quick emitter: code by the usual one is half a nanosecond quicker."""
    if system().portable:
        text = native_text("allocator", ADVISE="", LIMIT=limit)
    else:
        advise = "%advised = call i32 @madvise(ptr %data, i64 %capacity, i32 14)"
        text = "declare i32 @madvise(ptr, i64, i32)\n" + native_text("allocator", ADVISE=advise, LIMIT=limit)
    return with_attributes(text, PLUMBING)
