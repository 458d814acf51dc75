"""LLVM brought into memory on a thread of its own, while Python reads files.

The dynamic linker takes as long for llvmlite's library as Python for a hundred modules, and ctypes, which loads it,
keeps the interpreter's lock meanwhile.  The C library's own function is called without that lock; when llvmlite asks
for the same file, it is there, or the dynamic linker has it wait.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path

__all__ = ["begin", "load_llvm"]


def begin(make: Callable[[], object], name: str) -> threading.Thread:
    """The thread, called `name`, that calls `make`.  What that raises is not said: whoever needs what it makes calls
    it, too."""

    def quietly() -> None:
        with contextlib.suppress(Exception):
            make()

    thread = threading.Thread(target=quietly, name=name, daemon=True)
    thread.start()
    return thread


def load_llvm() -> None:
    """Load llvmlite, its library without the interpreter's lock, where the system has ``dlopen``."""
    import llvmlite
    from llvmlite.utils import get_library_name

    if hasattr(os, "RTLD_NOW"):
        path = Path(llvmlite.__file__).parent / "binding" / get_library_name()
        dlopen = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)(("dlopen", ctypes.CDLL(None)))
        dlopen(os.fsencode(path), os.RTLD_NOW)  # where it fails, llvmlite says why
    import llvmlite.binding
