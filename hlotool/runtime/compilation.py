"""The texts of one program on their way to objects: from the cache, from other programs of the process, from LLVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TypeAlias

from hlotool.codegen.machine import Machine
from hlotool.runtime.cache import Cache, code_key, objects_of, pack, unpack
from hlotool.runtime.cache_key import Key
from hlotool.runtime.compile import Compiler, compile_units

__all__ = ["Compilation", "Library"]

Library: TypeAlias = Callable[[Machine], tuple[str, ...]]
"""The texts of functions that all programs for a machine may call."""


class Compilation:
    """Texts on their way to objects, taken from `cache` where they are there, as `Compiler` makes them where not.

    What is in the `library` of the target a process compiles once.  To be left as a context.
    """

    __slots__ = ("_cache", "_compiler", "_keys", "_library", "_machine", "_objects")

    def __init__(self, machine: Machine, library: Library, threads: int = 1, cache: Cache | None = None) -> None:
        self._machine, self._library, self._cache = machine, library, cache
        self._compiler = Compiler(machine, threads)
        self._keys: list[Key] = []
        self._objects: list[bytes | None] = []

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, *exception: object) -> None:
        self._compiler.__exit__(*exception)

    def begin(self, text: str) -> None:
        """Have `text` compiled; the threads that there are to spare begin with it."""
        if not self._found(text):
            self._compiler.add(text)

    def finish(self, texts: Sequence[str], library: Sequence[str] = ()) -> list[bytes]:
        """The objects of `texts`, of which the first have begun, in order, and of those in `library`, which other
        programs have too."""
        kept = _kept(self._library, self._machine, self._cache) if library else {}
        new = [text for text in library if text not in kept]
        late = [*texts[len(self._objects) :], *new]
        for text in late[:-1]:
            self.begin(text)
        made = iter(self._compiler.finish([text for text in late[-1:] if not self._found(text)]))
        objects = [next(made) if found is None else found for found in self._objects]
        if self._cache is not None:
            for key, found, data in zip(self._keys, self._objects, objects, strict=True):
                if found is None:
                    self._cache.put(key.digest, pack([data]), key.about_bytes())
        kept.update(zip(new, objects[len(texts) :], strict=True))
        return [*objects[: len(texts)], *(kept[text] for text in library)]

    def _found(self, text: str) -> bool:
        found = None
        if self._cache is not None:
            self._keys.append(code_key([text], self._machine))
            found = self._cache.get(self._keys[-1].digest)
        self._objects.append(None if found is None else unpack(found)[0])
        return found is not None


@cache
def _kept(library: Library, machine: Machine, directory: Cache | None) -> dict[str, bytes]:
    """The objects of library texts that this process has; those that need long come from `directory`."""
    texts = library(machine)
    if not texts:
        return {}
    objects = objects_of(texts, machine, directory, partial(compile_units, machine=machine, threads=2))
    return dict(zip(texts, objects, strict=True))
