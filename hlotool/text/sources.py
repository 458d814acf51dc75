"""Where in the user's program an instruction comes from, as the metadata says: directly or through stack frames."""

from __future__ import annotations

import re
from functools import lru_cache

from hlotool.ir import Attribute, Diagnostic, Instruction, Location, Metadata, Module, StackFrames
from hlotool.text.header import read_stack_frames
from hlotool.text.lexer import Cursor, SyntaxFailure
from hlotool.text.values import READERS

__all__ = ["Sources", "split_lines", "with_source"]

_METADATA = re.compile(r"\bmetadata\s*=\s*(?=\{)")
_TABLES = re.compile(r"^FileNames\s*$", re.MULTILINE)
_LINE_END = re.compile(r"\r\n|\r|\n")
_LONGEST_LINE = 1 << 20  # characters in which metadata is looked for


class Sources:
    """Places in the program's own source, for the instructions of one module."""

    def __init__(self, module: Module) -> None:
        tables = module.stack_frames
        self._frames = _places(tables) if tables is not None else {}
        self._callers = _callers(tables) if tables is not None else {}

    def of(self, instruction: Instruction) -> Location | None:
        """Where `instruction` was written; None where the metadata does not say."""
        return _written(instruction.metadata, self._frames) if instruction.metadata is not None else None

    def stack(self, instruction: Instruction) -> tuple[tuple[str, Location], ...]:
        """The calls that led to where `instruction` was written, outermost first, as far as the metadata says: the
        function that it is in (empty where that is not known), and the place."""
        if instruction.metadata is None:
            return ()
        found: list[tuple[str, Location]] = []
        number, seen = instruction.metadata.stack_frame_id, set[int]()
        while number in self._frames and number not in seen:
            seen.add(number)
            function, caller = self._callers[number]
            found.append((function, self._frames[number]))
            number = caller
        written = self.of(instruction)
        return tuple(reversed(found)) if found or written is None else (("", written),)


def with_source(diagnostic: Diagnostic, text: str) -> Diagnostic:
    """The diagnostic with a note of where the program says what its line computes, if the metadata there tells.

    `text` is what was read, well-formed or not.
    """
    place = diagnostic.location
    lines = split_lines(text)
    if place is None or not 1 <= place.line <= len(lines):
        return diagnostic
    line = lines[place.line - 1]
    found = None if len(line) > _LONGEST_LINE else _METADATA.search(line)
    if found is None:
        return diagnostic
    cursor = Cursor(line, place.file)
    cursor.position = found.end()
    try:
        written = _written(READERS["metadata"](cursor, Attribute("metadata", "metadata")), _frames_of(text))
    except SyntaxFailure:
        return diagnostic
    if written is None:
        return diagnostic
    related = (*diagnostic.related, ("this is written here, says the metadata", written))
    return Diagnostic(
        diagnostic.message, place, diagnostic.hint, diagnostic.code, diagnostic.severity, related
    )  # fmt: skip


@lru_cache(maxsize=4)
def split_lines(text: str) -> list[str]:
    """The lines of a text without their ends (LF, CR LF or CR)."""
    return _LINE_END.split(text)


@lru_cache(maxsize=4)
def _frames_of(text: str) -> dict[int, Location]:
    """The places of the stack-frame tables of a text; none where they are malformed."""
    start = _TABLES.search(text)
    if start is None:
        return {}
    cursor = Cursor(text, "")
    cursor.position = start.start()
    try:
        tables = read_stack_frames(cursor)
    except SyntaxFailure:
        return {}
    return _places(tables) if tables is not None else {}


def _written(metadata: Metadata, frames: dict[int, Location]) -> Location | None:
    if not metadata.source_file:
        return frames.get(metadata.stack_frame_id)
    line, column = max(1, metadata.source_line), max(1, metadata.source_column)
    end_line, end_column = metadata.source_end_line or line, metadata.source_end_column or column
    return Location(metadata.source_file, line, column, end_line, end_column)


def _places(tables: StackFrames) -> dict[int, Location]:
    """Frame number -> place of its innermost call."""
    files = dict(tables.file_names)
    places: dict[int, Location] = {}
    for number, row in tables.file_locations:
        values = dict(row)
        line, column = max(1, values.get("line", 1)), max(1, values.get("column", 1))
        end_line, end_column = values.get("end_line", line), values.get("end_column", column)
        places[number] = Location(files.get(values.get("file_name_id", 0), ""), line, column, end_line, end_column)
    found = {number: places.get(dict(row).get("file_location_id", 0)) for number, row in tables.frames}
    return {number: place for number, place in found.items() if place is not None and place.file}


def _callers(tables: StackFrames) -> dict[int, tuple[str, int]]:
    """Frame number -> its function, and the number of the frame that called it, of which the text has one more (XLA
    counts from 0 there, with -1 for none)."""
    names = dict(tables.function_names)
    functions = {number: names.get(dict(row).get("function_name_id", 0), "") for number, row in tables.file_locations}
    found = {}
    for number, row in tables.frames:
        values = dict(row)
        function = functions.get(values.get("file_location_id", 0), "")
        found[number] = function, values.get("parent_frame_id", 0) - 1
    return found
