"""Memory for arrays: aligned for vector code, and recycled.

A fresh 64 MB array costs several times the kernel that fills it, in page faults.  So output arrays and
arenas come from an allocator of our own, which keeps freed blocks by size class and hands them out
again.  NumPy lets an array carry the allocator that is to free it (NEP 49); the allocator is LLVM IR,
and returning an array to it is what dropping the last reference to the array does.  Nothing here can
dangle: a block is reused only after NumPy has freed it.

Blocks are aligned to 64 bytes, those of a page or more to 4096, and those of 2 MB or more to 2 MB with huge
pages asked for (on Linux).  At most `limit` bytes of freed blocks are kept (``HLOTOOL_KEEP``, in MiB).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hlotool.codegen.machine import Machine, host
from hlotool.runtime.cache import default_cache
from hlotool.runtime.load import Library, load
from hlotool.runtime.object_code import compiled

__all__ = ["ALIGNMENT", "Allocator", "aligned", "allocator", "empty", "kept_bytes", "numpy_function", "release_kept"]

ALIGNMENT = 64
_PAGE = 4096


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


@cache
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
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        total = 8 << 30
    # A power of two, so that the code is the same on machines of about the same size.
    return min(4 << 30, 1 << max(26, (total // 8).bit_length() - 1))


def _text(machine: Machine, limit: int) -> str:
    """The allocator's LLVM IR."""
    huge = ""
    declaration = ""
    if "linux" in machine.triple:
        declaration = "declare i32 @madvise(ptr, i64, i32)\n"
        huge = "%advised = call i32 @madvise(ptr %data, i64 %capacity, i32 14)"
    return declaration + _TEXT.replace("@HUGE", huge).replace("@LIMIT", str(limit))


# A block is [padding, header, data].  The header is the 64 bytes before the data: the address that malloc
# gave, the size class, the capacity.  Classes: four per power of two, from 64 bytes on; @classes holds
# the freed blocks of each, linked through their first word.
_TEXT = """
@classes = internal global [256 x ptr] zeroinitializer, align 64
@kept = global i64 0, align 64
@lock = internal global i32 0, align 64

declare noalias ptr @malloc(i64)
declare void @free(ptr)
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

; A thread holds this for a few instructions.
define internal void @acquire() nounwind {
entry:
  br label %try
try:
  %got = cmpxchg weak ptr @lock, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %got, 1
  br i1 %mine, label %done, label %try
done:
  ret void
}

define internal void @release() nounwind {
  store atomic i32 0, ptr @lock release, align 4
  ret void
}

; The class of a size: with e the exponent of size - 1, the top three bits of it say which quarter.
define internal i64 @class_of(i64 %size) nounwind {
  %least = call i64 @llvm.umax.i64(i64 %size, i64 64)
  %last = sub i64 %least, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %last, i1 true)
  %exponent = sub i64 63, %zeros
  %down = sub i64 %exponent, 2
  %quarters = lshr i64 %last, %down
  %quarter = and i64 %quarters, 3
  %four = shl i64 %exponent, 2
  %class = or i64 %four, %quarter
  ret i64 %class
}

define internal i64 @capacity_of(i64 %class) nounwind {
  %exponent = lshr i64 %class, 2
  %quarter = and i64 %class, 3
  %parts = add i64 %quarter, 5
  %down = sub i64 %exponent, 2
  %capacity = shl i64 %parts, %down
  ret i64 %capacity
}

define noalias ptr @hlo_malloc(ptr %context, i64 %size) nounwind {
entry:
  %absurd = icmp ugt i64 %size, 1152921504606846976
  br i1 %absurd, label %fail, label %look
fail:
  ret ptr null
look:
  %class = call i64 @class_of(i64 %size)
  %capacity = call i64 @capacity_of(i64 %class)
  %head = getelementptr ptr, ptr @classes, i64 %class
  call void @acquire()
  %first = load ptr, ptr %head
  %none = icmp eq ptr %first, null
  br i1 %none, label %fresh, label %reuse
reuse:
  %second = load ptr, ptr %first
  store ptr %second, ptr %head
  %kept = load i64, ptr @kept
  %less = sub i64 %kept, %capacity
  store i64 %less, ptr @kept
  call void @release()
  ret ptr %first
fresh:
  call void @release()
  %paged = icmp uge i64 %capacity, 4096
  %huge = icmp uge i64 %capacity, 2097152
  %small = select i1 %paged, i64 4096, i64 64
  %alignment = select i1 %huge, i64 2097152, i64 %small
  %more = add i64 %alignment, 64
  %whole = add i64 %capacity, %more
  %raw = call ptr @malloc(i64 %whole)
  %failed = icmp eq ptr %raw, null
  br i1 %failed, label %fail, label %place
place:
  ; the first multiple of the alignment that leaves 64 bytes for the header
  %address = ptrtoint ptr %raw to i64
  %above = add i64 %address, %more
  %past = sub i64 %above, 1
  %mask = sub i64 0, %alignment
  %start = and i64 %past, %mask
  %offset = sub i64 %start, %address
  %data = getelementptr i8, ptr %raw, i64 %offset
  %raw_at = getelementptr i8, ptr %data, i64 -64
  store ptr %raw, ptr %raw_at
  %class_at = getelementptr i8, ptr %data, i64 -56
  store i64 %class, ptr %class_at
  br i1 %huge, label %advise, label %done
advise:
  @HUGE
  br label %done
done:
  ret ptr %data
}

define void @hlo_free(ptr %context, ptr %data, i64 %size) nounwind {
entry:
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %leave, label %look
look:
  %class_at = getelementptr i8, ptr %data, i64 -56
  %class = load i64, ptr %class_at
  %capacity = call i64 @capacity_of(i64 %class)
  call void @acquire()
  %kept = load i64, ptr @kept
  %more = add i64 %kept, %capacity
  %full = icmp ugt i64 %more, @LIMIT
  br i1 %full, label %drop, label %keep
keep:
  store i64 %more, ptr @kept
  %head = getelementptr ptr, ptr @classes, i64 %class
  %first = load ptr, ptr %head
  store ptr %first, ptr %data
  store ptr %data, ptr %head
  call void @release()
  br label %leave
drop:
  call void @release()
  %raw_at = getelementptr i8, ptr %data, i64 -64
  %raw = load ptr, ptr %raw_at
  call void @free(ptr %raw)
  br label %leave
leave:
  ret void
}

define ptr @hlo_calloc(ptr %context, i64 %count, i64 %each) nounwind {
entry:
  %size = mul i64 %count, %each
  %data = call ptr @hlo_malloc(ptr %context, i64 %size)
  %failed = icmp eq ptr %data, null
  br i1 %failed, label %leave, label %clear
clear:
  %cleared = call ptr @memset(ptr %data, i32 0, i64 %size)
  br label %leave
leave:
  ret ptr %data
}

define ptr @hlo_realloc(ptr %context, ptr %data, i64 %size) nounwind {
entry:
  %moved = call ptr @hlo_malloc(ptr %context, i64 %size)
  %failed = icmp eq ptr %moved, null
  %nothing = icmp eq ptr %data, null
  %skip = or i1 %failed, %nothing
  br i1 %skip, label %leave, label %copy
copy:
  %class_at = getelementptr i8, ptr %data, i64 -56
  %class = load i64, ptr %class_at
  %capacity = call i64 @capacity_of(i64 %class)
  %length = call i64 @llvm.umin.i64(i64 %capacity, i64 %size)
  %copied = call ptr @memcpy(ptr %moved, ptr %data, i64 %length)
  call void @hlo_free(ptr %context, ptr %data, i64 0)
  br label %leave
leave:
  ret ptr %moved
}

define void @hlo_release() nounwind {
entry:
  br label %classes
classes:
  %class = phi i64 [ 0, %entry ], [ %following, %empty ]
  %head = getelementptr ptr, ptr @classes, i64 %class
  br label %blocks
blocks:
  call void @acquire()
  %data = load ptr, ptr %head
  %none = icmp eq ptr %data, null
  br i1 %none, label %empty, label %drop
drop:
  %second = load ptr, ptr %data
  store ptr %second, ptr %head
  %capacity = call i64 @capacity_of(i64 %class)
  %kept = load i64, ptr @kept
  %less = sub i64 %kept, %capacity
  store i64 %less, ptr @kept
  call void @release()
  %raw_at = getelementptr i8, ptr %data, i64 -64
  %raw = load ptr, ptr %raw_at
  call void @free(ptr %raw)
  br label %blocks
empty:
  call void @release()
  %following = add i64 %class, 1
  %more = icmp ult i64 %following, 256
  br i1 %more, label %classes, label %leave
leave:
  ret void
}
"""
