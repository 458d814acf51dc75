"""Text of StableHLO to a module."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hlotool.ir import Location, Module, Shape
from hlotool.ir.collector import collector_paused
from hlotool.text.lexer import Cursor, SyntaxFailure
from hlotool.text.stablehlo.convert import convert_module, raise_diagnostics
from hlotool.text.stablehlo.locations import Locations
from hlotool.text.stablehlo.reader import aliases_of, read_top
from hlotool.text.stablehlo.tree import Block

__all__ = ["parse_stablehlo"]

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
    bad = _BAD_CHARACTER.search(text)
    if bad is not None:
        what = "the text has a NUL byte" if bad.group() == "\0" else "the text is not valid UTF-8"
        raise_diagnostics([cursor.diagnostic(what, bad.start(), bad.end(), code="HLO0107")])
    top = Block()
    with collector_paused():
        try:
            top = read_top(cursor)
        except SyntaxFailure as failure:
            if failure.diagnostic is not None and failure.diagnostic not in cursor.diagnostics:
                cursor.diagnostics.append(failure.diagnostic)
        except RecursionError:
            cursor.diagnostics.append(cursor.diagnostic("nested too deep", cursor.position, code="HLO0104"))
        locations = Locations(Cursor(text, file, first_line), aliases_of(cursor)[0])

        def place(start: int, end: int) -> Location:
            return cursor.location(start, end)

        return convert_module(top, place, locations.metadata, cursor.diagnostics, function, arguments)
