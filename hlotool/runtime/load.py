"""Objects into memory: link them, resolve their imports, give addresses.

A linker (LLVM's JITLink under LLJIT) serves many libraries; every call of `load` makes one of its own in it.  What a
library leaves behind in its linker when it is gone (its name and symbols, 9 kB) goes with the linker, so a new one
takes over now and then, and an old one lives as long as its libraries.  JITLink puts the sections of an object side by
side and reaches everything else through stubs and a table, so that small-model code works wherever the libraries lie.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from hlotool.codegen.machine import host
from hlotool.runtime.parts import imports
from hlotool.runtime.target_machines import target_machine

if TYPE_CHECKING:
    from llvmlite import binding

__all__ = ["Library", "load"]

_LIBRARIES = 256
"""Of one linker; making one takes milliseconds."""

_numbers = itertools.count()
_lock = threading.Lock()


class Library:
    """Loaded code.  Addresses taken from it are good for as long as the library is referenced."""

    __slots__ = ("_addresses", "_linker", "_name", "_trackers")

    def __init__(self, linker: binding.orcjit.LLJIT, tracker: binding.ResourceTracker, name: str) -> None:
        self._linker = linker
        self._name = name
        self._trackers = [tracker]
        self._addresses: dict[str, int] = {}

    def address(self, name: str) -> int:
        """The address of function or variable `name`; KeyError when the library does not define it."""
        found = self._addresses.get(name)
        if found is None:
            with _lock:
                try:
                    tracker = self._linker.lookup(self._name, name)
                except RuntimeError as error:
                    raise KeyError(f"{name}: {error}") from None
                self._trackers.append(tracker)
                found = self._addresses[name] = int(tracker[name])
        return found


def load(objects: Sequence[bytes], symbols: Mapping[str, int] | None = None) -> Library:
    """Link `objects` into one library of this process.

    `symbols` gives the addresses of imports, and so do `hlotool.runtime.parts.imports`; what is neither defined there
    nor in the objects is looked for in the process (the C library).  Raises RuntimeError when an object is malformed or
    a symbol is defined twice; a symbol that is found nowhere is reported by `Library.address` of its user.
    """
    from llvmlite import binding

    with _lock:
        number = next(_numbers)
        if number % _LIBRARIES == 0:
            _linker.cache_clear()
        linker = _linker()
        builder = binding.JITLibraryBuilder()
        for data in objects:
            builder.add_object_img(data)
        for name, address in {**imports(), **(symbols or {})}.items():
            builder.import_symbol(name, address)
        builder.add_current_process()
        name = f"hlotool.{number}"
        return Library(linker, builder.link(linker, name), name)


@cache
def _linker() -> binding.orcjit.LLJIT:
    from llvmlite import binding

    # What the processor has is for those who make code: LLVM takes longer over its list than over all else here.
    plain = replace(host(), cpu="", features="")
    return binding.create_lljit_compiler(target_machine(plain, quick=True), use_jit_link=True, suppress_errors=True)
