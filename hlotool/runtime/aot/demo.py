"""A page that runs a library for WebAssembly: one file, with the library and its weights in it, without any network."""

from __future__ import annotations

from base64 import b64encode
from html import escape

from hlotool.runtime.aot.interface import Interface
from hlotool.runtime.aot.javascript import replaced

__all__ = ["demo_page"]


def demo_page(interface: Interface, wrapper: str, library: bytes, weights: bytes, about: str) -> str:
    """The page for a linked `library` and its `weights` (none: empty), with its `wrapper` in JavaScript.

    An entry that makes a few numbers of one square image of floats is drawn for; others have a field for each argument.
    """
    title = ", ".join(dict.fromkeys(entry.source.module.name for entry in interface.entries))
    return replaced(
        "demo.html", TITLE=escape(title), ABOUT=escape(about), LIBRARY=b64encode(library).decode(),
        WEIGHTS=b64encode(weights).decode(), WRAPPER=wrapper,
    )  # fmt: skip
