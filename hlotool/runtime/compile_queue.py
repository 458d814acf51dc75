"""Texts that wait for LLVM, and native code that takes them one by one until there are no more.

A thread that runs this code never needs the interpreter's lock, so Python can go on writing texts while others are
compiled: between two calls of ctypes a thread would wait for the lock for milliseconds, and for its first one as well.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from hlotool.codegen.kernel import PLUMBING
from hlotool.codegen.machine import Machine, host
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache import default_cache
from hlotool.runtime.load import Library, load
from hlotool.runtime.native_text import native_text
from hlotool.runtime.object_code import compiled, with_attributes
from hlotool.runtime.once import once
from hlotool.runtime.parts import part
from hlotool.runtime.promotion import pass_functions
from hlotool.runtime.target_machines import Emitters

__all__ = ["Queue", "is_there"]

_CAPACITY = 1 << 12
"""Texts in one queue."""

_HEAD = 3
"""Words ahead of the texts: how many are taken, how many there are, whether there will be no more."""

_EACH = 4
"""Words of a text: where it is, whether it is for the quick emitter, whether for the passes, and then the object."""


class Queue:
    """Texts, each in its own context, to be compiled by all threads that call `work`."""

    __slots__ = ("_code", "_texts", "_threads", "_words")

    def __init__(self) -> None:
        self._code = _code()
        self._threads: list[ctypes.Array[ctypes.c_size_t]] = []
        self._texts: list[bytes] = []  # LLVM reads them in place
        self._words = (ctypes.c_size_t * (_HEAD + _EACH * _CAPACITY))()

    def add(self, text: str, quick: bool, promoted: bool) -> None:
        """Append a text, for the emitter that is `quick` or the other; the passes come first if it is `promoted`."""
        self._texts.append(text.encode())
        place = _HEAD + _EACH * (len(self._texts) - 1)
        self._words[place] = ctypes.cast(ctypes.c_char_p(self._texts[-1]), ctypes.c_void_p).value or 0
        self._words[place + 1] = quick
        self._words[place + 2] = promoted
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
        from llvmlite.binding import ffi

        found: list[bytes | None] = []
        for number in range(len(self._texts)):
            place = _HEAD + _EACH * number + 3
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


@once
def _code() -> _Code:
    from llvmlite.binding import ffi

    machine = host()
    text = with_attributes(_text() + _parts(machine), PLUMBING)
    library = load(compiled([text], machine, cache=default_cache()), _symbols())
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
    """Whether every function of LLVM's that the native code calls can be found in llvmlite."""
    try:
        return all(_symbols().values())
    except AttributeError:
        return False


def _text() -> str:
    passes = [f"void @{name}(ptr" for name in pass_functions()]
    return native_text(
        "compile_queue", declarations="\n".join(f"declare {name})" for name in dict.fromkeys(passes)),
        passes="\n".join(f"  call {name} %manager)" for name in passes),
    )  # fmt: skip


def _parts(machine: Machine) -> str:
    return part("nap", machine) + part("threads", machine)


def _symbols() -> dict[str, int]:
    """Where LLVM's functions are, without llvmlite's lock around them."""
    from llvmlite.binding import ffi

    lines = _text().splitlines()
    names = (line.partition("@")[2].partition("(")[0] for line in lines if line.startswith("declare "))
    return {
        name: ctypes.cast(getattr(ffi.lib, name)._cfn, ctypes.c_void_p).value or 0
        for name in names
        if name.startswith("LLVMPY_")
    }
