"""The table of functions that JAX is given, and how Python functions become entries of it.

A Python function of the table takes the `Structure` of its arguments and raises what goes wrong; the error that JAX
gets says so with one of PJRT's codes.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from hlotool.ir import HloError, InputError, UnsupportedError
from hlotool.jax.pjrt.interface import HEAD, VERSION, Structure, functions
from hlotool.jax.pjrt.native import CODES, NATIVE, error, pointer, provide, python_pointer

__all__ = ["Function", "InterruptedRunError", "PjrtError", "callback", "called_with", "capsule", "error_of"]

Function: TypeAlias = Callable[[Structure], None]

_NAME = b"pjrt_c_api"  # the capsule only points to it
_kept: list[object] = []


class PjrtError(Exception):
    """An error with one of the codes of `CODES`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class InterruptedRunError(Exception):
    """Ctrl-C in an execution, after which there are results all the same, of undefined contents: see ``execute.ll``."""


def error_of(caught: BaseException | None = None) -> int:
    """The error that JAX gets for an exception, in words of Python's where it is none of ours."""
    try:
        if caught is None:
            return error(CODES["internal"], "the execution ended early")
        if isinstance(caught, InterruptedRunError):
            return error(CODES["interrupted"], "")
        if isinstance(caught, KeyboardInterrupt):  # whoever called this sees to it that it is raised again
            return error(CODES["cancelled"], "interrupted")
        if isinstance(caught.__cause__, PjrtError):  # it is complete: the program has nothing to add
            caught = caught.__cause__
        text = str(caught)
        if not isinstance(caught, (HloError, PjrtError, MemoryError)):
            text = f"{type(caught).__name__}: {text}"
        return error(_code(caught), text)
    except MemoryError:
        return error(CODES["resource exhausted"], "out of memory")


def _code(caught: BaseException) -> int:
    if isinstance(caught, PjrtError):
        return CODES[caught.code]
    if isinstance(caught, MemoryError):
        return CODES["resource exhausted"]
    if isinstance(caught, UnsupportedError):
        return CODES["unimplemented"]
    return CODES["invalid argument" if isinstance(caught, InputError) else "internal"]


def called_with(name: str, function: Function) -> Callable[[int], int]:
    """`function`, of the address of the arguments of the function `name` of the table; it gives that of an error."""

    def called(arguments: int) -> int:
        try:
            function(Structure(name, arguments))
        except BaseException as caught:
            return error_of(caught)
        return 0

    return called


def callback(name: str, function: Function) -> int:
    """The address of a C function that calls `function` with the arguments of the function `name` of the table."""
    return python_pointer(called_with(name, function))


def _address(function: Callable[..., Any], kind: Any) -> int:
    made = kind(function)
    _kept.append(made)
    return int(ctypes.cast(made, ctypes.c_void_p).value or 0)


def _missing(name: str) -> Function:
    def missing(arguments: Structure) -> None:
        raise PjrtError("unimplemented", f"PJRT_{name} is not implemented by hlotool")

    return missing


_SLOW = {
    "slow_from_host": "Client_BufferFromHostBuffer",
    "slow_to_host": "Buffer_ToHostBuffer",
}
"""Functions of Python's behind native ones."""

_IDLE = frozenset({"Client_UpdateGlobalProcessInfo"})
"""Functions that have nothing to do, which jaxlib calls from threads of its own (`jax.distributed`) until the process
ends, and ends it where they fail."""


@cache
def capsule(answers: Callable[[], Mapping[str, Function]], extensions: Callable[[], int]) -> object:
    """The table, as JAX wants it: `answers` has its Python functions, `extensions` the address of a list of them."""
    given = dict(answers())
    for slow, name in _SLOW.items():
        function = called_with(name, given.pop(slow))
        provide(slow, function, id(function))
    memory = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint64)
    exhausted = CODES["resource exhausted"]
    no_memory = _address(lambda size: error(exhausted, f"Out of memory allocating {size} bytes."), memory)
    provide("out_of_memory", None, no_memory)
    provide("failed", error_of, id(error_of))
    names = functions()
    words = [0, extensions(), 24, 0, (VERSION[1] << 32) | VERSION[0]]
    for name in names:
        native = name if name in NATIVE else "Event_Error" if name in _IDLE else ""  # which says that all is well
        words.append(pointer(native) if native else callback(name, given.get(name) or _missing(name)))
    words[0] = 8 * len(words)
    assert HEAD == 16
    table = (ctypes.c_uint64 * len(words))(*words)
    _kept.append(table)
    _guard(table, len(words) - len(names), names)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.addressof(table), _NAME, None)


def _guard(table: ctypes.Array[ctypes.c_uint64], start: int, names: tuple[str, ...]) -> None:
    """Where no Python code can run any more, what ends objects does nothing: at the end of the process."""
    places = [start + number for number, name in enumerate(names) if name.endswith("_Destroy") and name not in NATIVE]

    def end() -> None:
        for place in places:
            table[place] = pointer("Event_Error")

    atexit.register(end)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _refuse(table, start, names))


def _refuse(table: ctypes.Array[ctypes.c_uint64], start: int, names: tuple[str, ...]) -> None:
    """In a child that was forked off: threads and their locks are those of the parent."""

    message = (
        "this process was forked from one that uses JAX with hlotool, whose threads it has not: start processes with "
        "the method 'spawn' or 'forkserver'"
    )
    address = python_pointer(lambda arguments: error(CODES["failed precondition"], message))
    for name in ("LoadedExecutable_Execute", "Client_Compile", "Client_Create"):
        table[start + names.index(name)] = address

    def refuse(*arguments: object, **options: object) -> None:
        raise RuntimeError(message)

    from jax._src import compiler
    from jax._src.interpreters import mlir

    # JAX would wait for its own threads, before anything of ours is called.
    mlir.lower_jaxpr_to_module = compiler.compile_or_get_cached = refuse
