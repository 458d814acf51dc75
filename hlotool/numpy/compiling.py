"""From what was traced to what runs: out of the cache where an earlier process compiled the same."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import Module
from hlotool.runtime.cache import default_cache
from hlotool.runtime.executable import Executable
from hlotool.runtime.recalled import Origin, compiled_or_recalled
from hlotool.text.digest import code_digest

__all__ = ["compile_or_recall"]


def compile_or_recall(module: Module, donate: Sequence[int] = ()) -> Executable:
    """The executable of a module, which may overwrite the arguments `donate`."""

    def compile_(module: Module) -> Executable:
        from hlotool.driver import compile_module  # not needed for programs from the cache

        return compile_module(module, donate=donate)

    if default_cache() is None:
        return compile_(module)
    parts = {"content": code_digest(module), "donate": str(tuple(donate))}
    return compiled_or_recalled(Origin(label=module.name, parts=parts, module=lambda: module, compile_=compile_))
