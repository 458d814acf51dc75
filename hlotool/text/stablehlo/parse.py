"""Text of StableHLO to a module."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hlotool.ir import Metadata, Module, Shape
from hlotool.ir.collector import collector_paused
from hlotool.text.lexer import Cursor, SyntaxFailure
from hlotool.text.stablehlo.convert import Part, convert_module, convert_tests, raise_diagnostics
from hlotool.text.stablehlo.locations import Locations
from hlotool.text.stablehlo.reader import aliases_of, read_top
from hlotool.text.stablehlo.tree import Block

__all__ = ["parse_stablehlo", "parse_tests"]

_BAD_CHARACTER = re.compile(r"[\x00\ud800-\udfff]")


def parse_stablehlo(
    text: str,
    file: str = "<text>",
    first_line: int = 1,
    function: str | None = None,
    arguments: Sequence[Shape] | None = None,
) -> Module:
    """The module that a text of StableHLO describes.

    The entry is `function`, else ``main``, else the only function that nobody calls; functions without arguments, as
    tests are, are called one after another.  `arguments` are shapes for an entry that leaves sizes open.  ParseError
    with all diagnostics where the text is wrong, UnsupportedError where HLO has no counterpart of what it says.
    """
    cursor = Cursor(text, file, first_line)
    with collector_paused():
        top = _read(cursor)
        return convert_module(top, cursor.location, _metadata(cursor), cursor.diagnostics, function, arguments)


def parse_tests(texts: Sequence[tuple[str, int]], file: str = "<text>") -> Module | None:
    """Several texts, with their first lines, as one program that runs all of theirs, one after another.

    So are the tests of StableHLO written.  None where a program takes arguments; errors as `parse_stablehlo` says.
    """
    parts: list[Part] = []
    with collector_paused():
        for text, first_line in texts:
            cursor = Cursor(text, file, first_line)
            parts.append((_read(cursor), cursor.location, _metadata(cursor), cursor.diagnostics))
        return convert_tests(parts)


def _read(cursor: Cursor) -> Block:
    """The operations of a text; errors are among the diagnostics of the cursor."""
    bad = _BAD_CHARACTER.search(cursor.text)
    if bad is not None:
        what = "the text has a NUL byte" if bad.group() == "\0" else "the text is not valid UTF-8"
        raise_diagnostics([cursor.diagnostic(what, bad.start(), bad.end(), code="HLO0107")])
    try:
        return read_top(cursor)
    except SyntaxFailure as failure:
        if failure.diagnostic is not None and failure.diagnostic not in cursor.diagnostics:
            cursor.diagnostics.append(failure.diagnostic)
    except RecursionError:
        cursor.diagnostics.append(cursor.diagnostic("nested too deep", cursor.position, code="HLO0104"))
    return Block()


def _metadata(cursor: Cursor) -> Callable[[int], Metadata | None]:
    """What reads the location at a place of the text."""
    own = Cursor(cursor.text, cursor.lines.file, cursor.lines.above + 1)
    return Locations(own, aliases_of(cursor)[0]).metadata
