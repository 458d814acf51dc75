"""A name for all that the code of a module depends on, to look for it in the cache."""

from __future__ import annotations

from hashlib import sha256

from hlotool.ir import Module
from hlotool.text.printer import PrintOptions, print_module

__all__ = ["code_digest"]

_WRITTEN = PrintOptions(metadata=False, elide_above=16)


def code_digest(module: Module) -> str:
    """SHA-256, in hexadecimal, of the text of a module and of what its constants hold; metadata makes no difference.

    Constants are taken as they lie in memory, which is much quicker than to write them out.
    """
    found = sha256(print_module(module, _WRITTEN).encode("utf-8", "surrogateescape"))
    for instruction in module.instructions():
        literal = instruction.attributes.get("literal")
        for leaf in () if literal is None else literal.leaves():
            found.update(b"elided" if leaf.elided else leaf.array.tobytes())
    return found.hexdigest()
