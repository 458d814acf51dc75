"""Texts that wait for LLVM, and native code that takes them one by one until there are no more.

A thread that runs this code never needs the interpreter's lock, so Python can go on writing texts while others are
compiled: between two calls of ctypes a thread would wait for the lock for milliseconds, and for its first one as well.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from llvmlite.binding import ffi

from hlotool.codegen.machine import host
from hlotool.runtime.cache import default_cache
from hlotool.runtime.load import Library, load
from hlotool.runtime.object_code import compiled
from hlotool.runtime.target_machines import Emitters

__all__ = ["Queue", "is_there"]

_CAPACITY = 1 << 12
"""Texts in one queue."""

_HEAD = 3
"""Words ahead of the texts: how many are taken, how many there are, whether there will be no more."""

_EACH = 3
"""Words of a text: where it is, whether it is for the quick emitter, and then the object."""


class Queue:
    """Texts, each in its own context, to be compiled by all threads that call `work`."""

    __slots__ = ("_code", "_texts", "_threads", "_words")

    def __init__(self) -> None:
        self._code = _code()
        self._threads: list[ctypes.Array[ctypes.c_size_t]] = []
        self._texts: list[bytes] = []  # LLVM reads them in place
        self._words = (ctypes.c_size_t * (_HEAD + _EACH * _CAPACITY))()

    def add(self, text: str, quick: bool) -> None:
        """Append a text, for the emitter that is `quick` or for the other."""
        self._texts.append(text.encode())
        place = _HEAD + _EACH * (len(self._texts) - 1)
        self._words[place] = ctypes.cast(ctypes.c_char_p(self._texts[-1]), ctypes.c_void_p).value or 0
        self._words[place + 1] = quick
        self._code.add(self._words)

    @property
    def is_full(self) -> bool:
        """Whether it takes no more texts."""
        return len(self._texts) == _CAPACITY

    def work(self, emitters: Emitters) -> None:
        """Compile with `emitters`, which no other thread uses, until the queue is closed and every text is taken."""
        self._code.work(self._words, *emitters)

    def start(self, emitters: Emitters) -> None:
        """Have a thread of its own do that, where the system gives one; it ends with `join`."""
        self._threads.append((ctypes.c_size_t * 4)())  # known ahead of its start: an interrupt may come after that
        self._code.start(self._threads[-1], self._words, *emitters)

    def join(self) -> None:
        """Wait for all threads, once the queue is closed."""
        for thread in self._threads:
            self._code.join(thread)

    def close(self, abandon: bool = False) -> None:
        """There will be no more texts; `abandon` those that nobody has begun with."""
        self._code.close(self._words, int(abandon))

    def objects(self) -> list[bytes | None]:
        """What the texts became, once everybody who worked is back; None for those that failed or were abandoned."""
        found: list[bytes | None] = []
        for number in range(len(self._texts)):
            place = _HEAD + _EACH * number + 2
            address, self._words[place] = self._words[place], 0
            if not address:
                found.append(None)
                continue
            memory = ctypes.cast(address, ffi.LLVMMemoryBufferRef)
            try:
                start, size = ffi.lib.LLVMPY_GetBufferStart(memory), ffi.lib.LLVMPY_GetBufferSize(memory)
                found.append(ctypes.string_at(start, size))
            finally:
                ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)
        return found


@dataclass(frozen=True, slots=True)
class _Code:
    """The native functions, and the library that they are in."""

    work: Callable[..., None]
    start: Callable[..., None]
    join: Callable[..., None]
    add: Callable[..., None]
    close: Callable[..., None]
    library: Library


@cache
def _code() -> _Code:
    machine = host()
    library = load(compiled([_TEXT], machine, cache=default_cache()), _symbols())
    words, emitter = ctypes.POINTER(ctypes.c_size_t), ffi.LLVMTargetMachineRef
    return _Code(
        ctypes.CFUNCTYPE(None, words, emitter, emitter)(library.address("hlo_compile_all")),
        ctypes.PYFUNCTYPE(None, words, words, emitter, emitter)(library.address("hlo_compile_start")),
        ctypes.CFUNCTYPE(None, words)(library.address("hlo_compile_join")),
        ctypes.PYFUNCTYPE(None, words)(library.address("hlo_compile_add")),
        ctypes.PYFUNCTYPE(None, words, ctypes.c_size_t)(library.address("hlo_compile_close")),
        library,
    )


@cache
def is_there() -> bool:
    """Whether every function that the native code calls can be found: LLVM's in llvmlite, the others in the system."""
    try:
        return os.name == "posix" and all(_symbols().values())
    except AttributeError:
        return False


def _symbols() -> dict[str, int]:
    """Where LLVM's functions are, without llvmlite's lock around them."""
    names = (line.partition("@")[2].partition("(")[0] for line in _TEXT.splitlines() if line.startswith("declare "))
    return {
        name: ctypes.cast(getattr(ffi.lib, name)._cfn, ctypes.c_void_p).value or 0
        for name in names
        if name.startswith("LLVMPY_")
    }


_TEXT = """declare ptr @LLVMPY_ContextCreate()
declare void @LLVMPY_ContextDispose(ptr)
declare ptr @LLVMPY_ParseAssembly(ptr, ptr, ptr)
declare i32 @LLVMPY_VerifyModule(ptr, ptr)
declare void @LLVMPY_DisposeModule(ptr)
declare ptr @LLVMPY_TargetMachineEmitToMemory(ptr, ptr, i32, ptr)
declare void @LLVMPY_DisposeString(ptr)
declare i32 @usleep(i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
define void @hlo_compile_start(ptr %thread, ptr %queue, ptr %usual, ptr %quick) nounwind {
entry:
  store ptr %queue, ptr %thread
  %second = getelementptr i64, ptr %thread, i64 1
  store ptr %usual, ptr %second
  %third = getelementptr i64, ptr %thread, i64 2
  store ptr %quick, ptr %third
  %handle = getelementptr i64, ptr %thread, i64 3
  %error = call i32 @pthread_create(ptr %handle, ptr null, ptr @work, ptr %thread)
  %made = icmp eq i32 %error, 0
  br i1 %made, label %leave, label %forget
forget:
  store i64 0, ptr %handle
  br label %leave
leave:
  ret void
}
define internal ptr @work(ptr %thread) nounwind {
  %queue = load ptr, ptr %thread
  %second = getelementptr i64, ptr %thread, i64 1
  %usual = load ptr, ptr %second
  %third = getelementptr i64, ptr %thread, i64 2
  %quick = load ptr, ptr %third
  call void @hlo_compile_all(ptr %queue, ptr %usual, ptr %quick)
  ret ptr null
}
define void @hlo_compile_join(ptr %thread) nounwind {
entry:
  %place = getelementptr i64, ptr %thread, i64 3
  %handle = load ptr, ptr %place
  %none = icmp eq ptr %handle, null
  br i1 %none, label %leave, label %wait
wait:
  %ignored = call i32 @pthread_join(ptr %handle, ptr null)
  store ptr null, ptr %place
  br label %leave
leave:
  ret void
}
define void @hlo_compile_add(ptr %queue) nounwind {
  %there = getelementptr i64, ptr %queue, i64 1
  %before = atomicrmw add ptr %there, i64 1 release
  ret void
}
define void @hlo_compile_close(ptr %queue, i64 %abandon) nounwind {
entry:
  %all = icmp eq i64 %abandon, 0
  br i1 %all, label %close, label %forget
forget:
  %there = getelementptr i64, ptr %queue, i64 1
  store atomic i64 0, ptr %there release, align 8
  br label %close
close:
  %closed = getelementptr i64, ptr %queue, i64 2
  store atomic i64 1, ptr %closed release, align 8
  ret void
}
define void @hlo_compile_all(ptr %queue, ptr %usual, ptr %quick) nounwind {
entry:
  %message = alloca ptr
  %there = getelementptr i64, ptr %queue, i64 1
  %closed = getelementptr i64, ptr %queue, i64 2
  %jobs = getelementptr i64, ptr %queue, i64 3
  br label %take
take:
  %number = atomicrmw add ptr %queue, i64 1 monotonic
  br label %look
look:
  %last = load atomic i64, ptr %closed acquire, align 8
  %count = load atomic i64, ptr %there acquire, align 8
  %given = icmp slt i64 %number, %count
  br i1 %given, label %work, label %wait
wait:
  %over = icmp ne i64 %last, 0
  br i1 %over, label %leave, label %sleep
sleep:
  %slept = call i32 @usleep(i32 50)
  br label %look
work:
  %job = getelementptr [3 x ptr], ptr %jobs, i64 %number
  %text = load ptr, ptr %job
  %kind = getelementptr i64, ptr %job, i64 1
  %hurry = load i64, ptr %kind
  %hurries = icmp ne i64 %hurry, 0
  %emitter = select i1 %hurries, ptr %quick, ptr %usual
  %context = call ptr @LLVMPY_ContextCreate()
  store ptr null, ptr %message
  %module = call ptr @LLVMPY_ParseAssembly(ptr %context, ptr %text, ptr %message)
  call void @forget(ptr %message)
  %parsed = icmp ne ptr %module, null
  br i1 %parsed, label %verify, label %end
verify:
  %wrong = call i32 @LLVMPY_VerifyModule(ptr %module, ptr %message)
  call void @forget(ptr %message)
  %right = icmp eq i32 %wrong, 0
  br i1 %right, label %emit, label %dispose
emit:
  %object = call ptr @LLVMPY_TargetMachineEmitToMemory(ptr %emitter, ptr %module, i32 1, ptr %message)
  call void @forget(ptr %message)
  %result = getelementptr ptr, ptr %job, i64 2
  store ptr %object, ptr %result
  br label %dispose
dispose:
  call void @LLVMPY_DisposeModule(ptr %module)
  br label %end
end:
  call void @LLVMPY_ContextDispose(ptr %context)
  br label %take
leave:
  ret void
}
define internal void @forget(ptr %message) nounwind {
  %text = load ptr, ptr %message
  %none = icmp eq ptr %text, null
  br i1 %none, label %end, label %dispose
dispose:
  call void @LLVMPY_DisposeString(ptr %text)
  store ptr null, ptr %message
  br label %end
end:
  ret void
}
"""
