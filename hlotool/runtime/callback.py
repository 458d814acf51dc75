"""From compiled code back into Python, and how an execution ends.

Three C functions, LLVM IR like the code that calls them (``native/callback.ll``):

* ``i64 hlo_host(ptr callable, ptr table)`` calls a Python object with the address of an argument table; it gives
  `COMPLETE` when that returned.  An exception, wherever it was raised, stays with the thread.  An odd address is one
  past that of a record, whose first word is a C function that does the work: ``i64 function(ptr record, ptr table)``.
* ``i32 hlo_poll(ptr status, ptr name)`` is for work that takes long (`hlotool.codegen.llvm.polling`): every few
  milliseconds a thread of Python's runs a little Python, in which a signal is handled and the time looked at.  Threads
  of the pool only look at the status.  It gives 1 when the execution is to end, -1 when it is too early to ask.
* ``void hlo_enter(ptr function, ptr frame)`` calls an entry function without the GIL.

Errors need no way of their own: the exception is set in the thread that called the code, which ends early (its status
is not `COMPLETE`) and returns to whoever called it from Python, where the exception goes on.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hlotool.codegen.llvm.status import COMPLETE, POLL, STOPPED
from hlotool.codegen.machine import host
from hlotool.ir import ExecutionError
from hlotool.runtime.cache import default_cache
from hlotool.runtime.load import Library, load
from hlotool.runtime.native_text import native_text
from hlotool.runtime.object_code import compiled
from hlotool.runtime.once import once
from hlotool.runtime.parts import part, python_function

if TYPE_CHECKING:  # a warm run needs no evaluator
    from hlotool.evaluate.devices import Device

__all__ = ["NAMES", "Shortcut", "current_device", "enter", "incomplete", "nested", "on_device", "set_aside", "symbols"]

NAMES = ("hlo_host", POLL)
"""Its functions that code calls."""

_NANOSECONDS = 20_000_000
"""Between two looks into Python."""

_DEEPEST = 50
"""Calls of compiled code inside of each other: each takes some of the stack, of which nobody knows how much is left."""


class _Thread(threading.local):
    device: Device | None = None
    depth = 0


_thread = _Thread()


@contextmanager
def on_device(device: Device) -> Iterator[None]:
    """Let this thread run emitted code as `device`."""
    before, _thread.device = _thread.device, device
    try:
        yield
    finally:
        _thread.device = before


def current_device() -> Device | None:
    """The device that this thread is, if it was said."""
    return _thread.device


@contextmanager
def nested() -> Iterator[None]:
    """A call out of compiled code; RecursionError where too many of them are inside of each other."""
    if _thread.depth >= _DEEPEST:
        raise RecursionError(f"executables call each other through custom calls, {_DEEPEST} deep")
    _thread.depth += 1
    try:
        yield
    finally:
        _thread.depth -= 1


class Shortcut:
    """A Python object as code calls it, which can be passed by: while `record` is the address of a record, that is
    called in its place.  `address` is what to give ``hlo_host``, good while this and the object are referenced."""

    __slots__ = ("_words", "address")

    def __init__(self, callable: Callable[[int], None]) -> None:
        self._words = (ctypes.c_uint64 * 3)(_library().address("hlo_shortcut"), id(callable), 0)
        self.address = ctypes.addressof(self._words) + 1

    @property
    def record(self) -> int:
        return int(self._words[2])

    @record.setter
    def record(self, address: int) -> None:
        self._words[2] = address


def incomplete() -> None:
    """Raise the error of an execution that ended early although nothing says why."""
    raise ExecutionError("the execution ended early")


def symbols() -> dict[str, int]:
    """What to give `load` for code that calls Python or takes long."""
    return {name: _library().address(name) for name in NAMES}


def set_aside(function: int) -> None:
    """Have Python be called by a C function, ``i64 aside(ptr function, ptr first, ptr second)``, which calls what it is
    given where Python can run: not everywhere where code runs that calls it (`hlotool.runtime.coroutines`)."""
    ctypes.c_uint64.from_address(_library().address("hlo_aside_at")).value = function


@once  # making a type of functions takes longer than a small program
def enter() -> Callable[[int, int], None]:
    """``hlo_enter`` for addresses of an entry function and its frame; it raises what was raised on the way."""
    function: Callable[[int, int], None] = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        _library().address("hlo_enter")
    )
    return function


def _look(name: int) -> None:
    """What a poll runs: the interpreter handles signals on the way, and the device knows the time."""
    device = _thread.device
    if device is not None:
        device.world.check(ctypes.string_at(name).decode() if name else "")


@once
def _library() -> Library:
    """Loaded once and never unloaded."""
    machine = host()
    names = (
        "Py_DecRef", "PyLong_FromVoidPtr", "PyObject_CallOneArg", "PyGILState_Ensure", "PyGILState_Release",
        "PyGILState_GetThisThreadState", "PyEval_SaveThread", "PyEval_RestoreThread",
    )  # fmt: skip
    text = native_text("callback", COMPLETE=COMPLETE, STOPPED=STOPPED, NANOSECONDS=_NANOSECONDS)
    text += part("clock", machine)
    imports = {name: python_function(name) for name in names}
    return load(compiled([text], machine, cache=default_cache()), {**imports, "hlo_look": id(_look)})
