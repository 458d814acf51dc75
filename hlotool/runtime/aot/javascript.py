"""The wrapper of a library in JavaScript, a module that runs its WebAssembly, and what TypeScript is told of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files

from hlotool.ir import InputError, element_type
from hlotool.runtime.aot.errors import CODES
from hlotool.runtime.aot.header import shape_words
from hlotool.runtime.aot.interface import ALIGNMENT, Array, Entry, Interface
from hlotool.runtime.aot.reflection import ABI

__all__ = ["javascript_wrapper", "replaced", "typescript_declarations"]

_OWN = ("about", "functions", "setWeights")
"""What a model has besides its entries."""

_WORDS = frozenset({
    "arguments", "debugger", "delete", "eval", "export", "extends", "finally", "function", "implements", "import", "in",
    "instanceof", "interface", "let", "new", "null", "package", "super", "switch", "this", "throw", "typeof",
    "undefined", "var", "void", "with", "yield",
})  # fmt: skip
"""Words that no parameter may have as its name, where other languages allow it."""

_BITS = {"s64": "BigInt64Array", "u64": "BigUint64Array"}


def replaced(name: str, **values: object) -> str:
    """The text of ``templates/<name>``, which is JavaScript or HTML, with `values` in place of ``@NAMES@``."""
    text = files("hlotool.runtime.aot").joinpath("templates", name).read_text(encoding="utf-8")
    return re.sub(r"@([A-Z]+)@", lambda found: str(values[found[1]]), text)


def javascript_wrapper(interface: Interface, about: str) -> str:
    """A module of JavaScript; InputError where an entry has the name of something else that a model has."""
    for entry in interface.entries:
        if entry.name in _OWN:
            raise InputError(f"entry {entry.name!r}: models in JavaScript have {', '.join(_OWN)} besides their entries")
    codes = json.dumps({name: number for number, name in enumerate(CODES)})
    return replaced(
        "wrapper.mjs", ABOUT=about, NAME=interface.name, ENTRY=interface.entries[0].name, ABI=ABI, ALIGNMENT=ALIGNMENT,
        CODES=codes,
    )  # fmt: skip


def typescript_declarations(interface: Interface, about: str) -> str:
    """The types of that module."""
    entries = "\n".join(_entry(entry) for entry in interface.entries)
    return replaced("wrapper.d.mts", ABOUT=about, ENTRIES=entries)


def _entry(entry: Entry) -> str:
    names = _names(array.identifier for array in entry.arguments)
    parameters = ", ".join(
        f"{name}: {_given(array)}" for name, array in zip(names, entry.arguments, strict=True)
    )
    results = [_array(array) for array in entry.results]
    result = results[0] if len(results) == 1 else f"[{', '.join(results)}]"
    return (
        f"  /** From {_words(entry.arguments)} to {_words(entry.results)}. */\n"
        f"  {entry.name}: Entry<({parameters}) => {result}>;"
    )


def _names(identifiers: Iterable[str]) -> list[str]:
    return [f"{name}_" if name in _WORDS else name for name in identifiers]


def _words(arrays: Sequence[Array]) -> str:
    return ", ".join(shape_words(array) for array in arrays) or "nothing"


def _given(array: Array) -> str:
    more = " | Uint16Array" if array.shape.element_type in ("f16", "bf16") else ""
    return f"{_array(array)}{more} | Numbers"


def _array(array: Array) -> str:
    """The typed array that an argument or result is."""
    name = array.shape.element_type
    kind = element_type(name)
    if name in _BITS:
        return _BITS[name]
    if kind.kind == "complex" or (kind.kind == "float" and kind.bits >= 16):
        return f"Float{max(32, kind.bits // (2 if kind.kind == 'complex' else 1))}Array"
    return f"{'Int' if kind.kind == 'signed' else 'Uint'}{max(8, kind.bits)}Array"
