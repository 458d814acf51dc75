"""Files of other tools that end up where HLO is expected: what they are, by how they begin, and how to get HLO.

Nothing here begins as HLO does, in text or as a message: the first field of HLO's messages is never a number, and no
text of HLO begins with ``module @``, a brace, ``#`` or ``;``.  Text of MLIR is found here, too, and read elsewhere.
"""

from __future__ import annotations

import re

from hlotool.ir import Diagnostic, Location, ParseError

__all__ = ["FOREIGN", "bytecode_in", "is_mlir", "refuse_foreign_bytes", "refuse_foreign_text"]

FOREIGN = "HLO0003"
"""The code of the error."""

_FROM_JAX = "jax.jit(f).lower(*arguments).as_text('hlo')"
_FROM_MODEL = f"hlotool reads what XLA compiles: run the model in JAX, and take {_FROM_JAX}"
_FROM_CODE = "this has been compiled already: hlotool takes the HLO that it was made from"

_COMMENTS = r"\s*+(?://[^\n]*+\n\s*+)*+"
_FUNCTION = r"(?:func\.)?func\s+(?:\w+\s+)*+@"
_MLIR = re.compile(
    rf"{_COMMENTS}(?:module\s*(?:@|attributes\s*\{{|\{{{_COMMENTS}(?:{_FUNCTION}|sdy\.))|{_FUNCTION}"
    r"|#\w+\s*=|!\w+\s*=|\"(?:builtin\.module|func\.func)\"\s*[(<])"
)
_TEXTS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"\s*\{\s*lambda\b"), "a jaxpr", f"HLO is what {_FROM_JAX} gives"),
    (
        re.compile(
            r"\s*+(?:; ModuleID|(?:;[^\n]*+\n\s*+)*+"
            r"(?:(?:source_filename|target (?:datalayout|triple))\s*=|(?:define|declare)\s[^\n@]*+@))"
        ),
        "LLVM IR", _FROM_CODE,
    ),
    (re.compile(r"\s*+(?:#[^\n]*+\n\s*+)*+\.(?:text|file|section|globl|intel_syntax)\b"), "assembly", _FROM_CODE),
)  # fmt: skip
"""How a text begins, what it is, and what to do."""

_BYTECODE = b"ML\xefR"
_SHORTEST = 16  # bytes of a FlatBuffer with anything in it
_BYTES: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (re.compile(rb"BC\xc0\xde|\xde\xc0\x17\x0b"), "LLVM bitcode", _FROM_CODE),
    (re.compile(rb"\x7fELF|!<arch>\n|\xcf\xfa\xed\xfe|MZ.\x00"), "compiled code", _FROM_CODE),
    (re.compile(rb".\x00\x00\x00TFL3", re.DOTALL), "a TensorFlow Lite model", _FROM_MODEL),
    (re.compile(rb"PK\x03\x04"), "a zip archive, as PyTorch's .pt and .pt2, Keras models and .npz are", _FROM_MODEL),
    (re.compile(rb"\x89HDF\r\n"), "HDF5, as Keras models are", _FROM_MODEL),
    (re.compile(rb"\x93NUMPY"), "a NumPy array", "arrays are for --input NAME=@FILE.npy and --inputs FILE.npz"),
    # A message that begins with a number: the version of ONNX's format, or of TensorFlow's.
    (re.compile(rb"\x08[\x01-\x7f][\x12\x1a\x22\x2a\x32\x3a\x42]"), "an ONNX or TensorFlow model", _FROM_MODEL),
)  # fmt: skip
"""How a file begins, what it is, and what to do."""


def refuse_foreign_bytes(data: bytes, file: str) -> None:
    """ParseError where `data` is of another tool."""
    for pattern, what, hint in _BYTES:
        if pattern.match(data):
            raise _error(what, hint, file, 1, 1)


def bytecode_in(data: bytes) -> bytes | None:
    """The bytecode of MLIR that a file is, or that a file of `jax.export` (a FlatBuffer) holds; None where none is."""
    if data.startswith(_BYTECODE):
        return data
    if len(data) < _SHORTEST or data[2:4] != b"\0\0":  # offsets to the root of a FlatBuffer are small
        return None
    start = data.find(_BYTECODE)
    length = int.from_bytes(data[start - 4 : start], "little") if start >= 4 else 0
    return data[start : start + length] if len(_BYTECODE) <= length <= len(data) - start else None


def is_mlir(text: str) -> bool:
    """Whether a text begins as MLIR does, of which StableHLO is a dialect."""
    return _MLIR.match(text) is not None


def refuse_foreign_text(text: str, file: str, first_line: int = 1) -> None:
    """ParseError where `text` is in another language."""
    for pattern, what, hint in _TEXTS:
        found = pattern.match(text)
        if found is not None:
            line = first_line + text.count("\n", 0, found.end())
            start = text.rfind("\n", 0, found.end()) + 1
            raise _error(what, hint, file, line, found.end() - start)


def _error(what: str, hint: str, file: str, line: int, length: int) -> ParseError:
    message = f"this is {what}, not HLO"
    place = Location(file, line, 1, line, 1 + max(1, length))
    return ParseError(f"{file}:{line}:1: {message}", [Diagnostic(message, place, hint, FOREIGN)])
