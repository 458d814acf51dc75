"""Files: what form they have (text of HLO or StableHLO, bytecode of MLIR, protocol buffers in binary or text form, gzip
of these), and their modules.

Text may hold several modules separated by lines ``// -----``, and its lines may begin with the prefixes of log
files; places in messages are those of the file as it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from hlotool.ir import Diagnostic, InputError, Location, Module, ParseError, Shape
from hlotool.ir.given import kind_of
from hlotool.lazy_dataclass import dataclass
from hlotool.text.foreign import bytecode_in, is_mlir, refuse_foreign_bytes
from hlotool.text.lexer import SPACE
from hlotool.text.parser import parse
from hlotool.text.proto.load import Snapshot, looks_binary, looks_onnx, looks_text, read_binary, read_text

__all__ = [
    "READERS",
    "SEPARATOR",
    "Snapshot",
    "Source",
    "each_module",
    "import_modules",
    "load",
    "load_all",
    "load_snapshot",
    "one_module",
    "open_source",
    "parse_all",
    "pieces",
    "read_modules",
    "read_snapshot",
    "without_log_prefixes",
]

SEPARATOR = "// -----"
"""The line between the modules of one text."""

READERS: dict[str, str] = {"onnx": "hlotool.onnx.reading", "bytecode": "hlotool.harness.bytecode"}
"""Forms that rooms above this one make modules of: their module, which is loaded when there is such a file.

Its function ``read(source, **given)`` gives the module; `given` is what the command that reads the file knows of it.
"""

_SEPARATOR = re.compile(r"^[ \t]*//[ \t]?-{5,}[ \t]*(?:\r\n|\r|\n|\Z)", re.MULTILINE)
_LAST = re.compile(r"[ \t]*//[ \t]?-{5,}[ \t]*(?:\r\n|\r|\n)\Z")
_NOTHING = re.compile(rf"{SPACE}\Z")
_LINE_END = re.compile(r"\r\n|\r|\n")
_LOG_PREFIX = re.compile(
    r"^(?:[IWEF]\d{4,8} \d\d:\d\d:\d\d(?:\.\d+)?\s+\d+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?: [IWEF])"
    r" [^\s:\]]+:\d+\] ?",
    re.MULTILINE | re.ASCII,
)
_BINARY_NAMES = (".pb", ".binpb", ".hlo_pb", ".hlo_proto")
_TEXT_NAMES = (".pbtxt", ".pb.txt", ".textproto", ".txtpb", ".prototxt")
_GZIP = b"\x1f\x8b"
_LARGEST = 1 << 30  # bytes that a compressed file may hold


@dataclass(frozen=True, slots=True)
class Source:
    """What a file holds: `text` is None for binary messages, `form` one of ``hlo stablehlo binary prototext``, or of
    `READERS`.

    `digest` is the SHA-256 of the file as it is.
    """

    name: str
    form: str
    data: bytes = b""
    text: str | None = None
    digest: str = ""

    @property
    def is_message(self) -> bool:
        """Whether it is a protocol buffer, in binary or text form."""
        return self.form in ("binary", "prototext")

    @property
    def holds_one(self) -> bool:
        """Whether its form has room for one module alone."""
        return self.is_message or self.form in READERS


def open_source(path: str | Path) -> Source:
    """Read the file at `path` (``-`` is standard input) and find its form; ParseError where it cannot be read."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"expected the path of a file, not {kind_of(path)}")
    name = "<stdin>" if str(path) == "-" else str(path)
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ParseError(f"cannot read {name}: {reason}") from error
    lower, digest = name.lower(), hashlib.sha256(data).hexdigest()
    if data[:2] == _GZIP:
        data, lower = _inflate(data, name), lower.removesuffix(".gz")
    if lower.endswith(".onnx") or looks_onnx(data):
        return Source(name, "onnx", data, digest=digest)
    bytecode = bytecode_in(data)
    if bytecode is not None:
        return Source(name, "bytecode", bytecode, digest=digest)
    refuse_foreign_bytes(data, name)
    if lower.endswith(_BINARY_NAMES) or looks_binary(data):
        return Source(name, "binary", data, digest=digest)
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    form = "prototext" if lower.endswith(_TEXT_NAMES) or looks_text(text) else "stablehlo" if is_mlir(text) else "hlo"
    return Source(name, form, b"", text, digest)


def _inflate(data: bytes, name: str) -> bytes:
    """The content of a gzip file, of bounded size."""
    unpacker = zlib.decompressobj(31)
    try:
        found = unpacker.decompress(data, _LARGEST)
    except zlib.error as error:
        raise _broken(f"the gzip data is damaged ({error})", name) from None
    if unpacker.unconsumed_tail:
        raise _broken("the gzip file holds more than 1 GiB", name)
    if not unpacker.eof:
        raise _broken("the gzip file is cut off", name)
    return found


def _broken(message: str, name: str) -> ParseError:
    place = Location(name, 1, 1, 1, 1)
    return ParseError(f"{name}: {message}", [Diagnostic(message, place, code="HLO0001")])


def read_modules(source: Source, notes: list[Diagnostic] | None = None) -> list[Module]:
    """All modules of a file, one where it is a message; ParseError with all errors of all of them.

    For `notes` see `hlotool.text.parser.parse`.
    """
    if source.holds_one:
        return [read_snapshot(source).module]
    return parse_all(source.text or "", source.name, notes)


def import_modules(source: Source, **given: Any) -> list[Module]:
    """All modules of a file as `read_modules` gives them, with what is `given` for its form.

    For StableHLO these are `function`, the entry, and `arguments`, the shapes of its arguments; for the forms of
    `READERS` see there.  Other forms take none.
    """
    if source.form in READERS:
        return [read_snapshot(source, **given).module]
    if source.form == "stablehlo":
        return _imported(source, **given)
    return read_modules(source)


def _imported(
    source: Source, function: str | None = None, arguments: Sequence[Shape] | None = None
) -> list[Module]:
    from hlotool.text.stablehlo.parse import parse_stablehlo

    return [
        parse_stablehlo(without_log_prefixes(piece), source.name, line, function, arguments)
        for piece, line in pieces(source.text or "")
    ]


def read_snapshot(source: Source, **given: Any) -> Snapshot:
    """The module of a file with the values it was run with (none where the file is not a snapshot).

    `given` is for what reads models that are not HLO (`READERS`).
    """
    if source.form in READERS:
        return Snapshot(import_module(READERS[source.form]).read(source, **given))
    if source.form == "binary":
        return read_binary(source.data, source.name)
    if source.form == "prototext":
        return read_text(source.text or "", source.name)
    return Snapshot(one_module(source))


def one_module(source: Source, notes: list[Diagnostic] | None = None) -> Module:
    """The only module of a file; ParseError where there are more.  For `notes` see `hlotool.text.parser.parse`.

    Programs of StableHLO without arguments, as its tests are, make one module that runs them one after another.
    """
    if source.holds_one:
        return read_snapshot(source).module
    found = pieces(source.text or "")
    if len(found) > 1 and source.form == "stablehlo":
        from hlotool.text.stablehlo.parse import parse_tests

        tests = parse_tests([(without_log_prefixes(piece), line) for piece, line in found], source.name)
        if tests is not None:
            return tests
    if len(found) > 1:
        line = found[1][1]
        message = f"the file holds {len(found)} modules separated by '{SEPARATOR}', where one is needed"
        hint = f"the second begins in line {line}; hlotool verify, fmt, opt and hash take several"
        place = Location(source.name, line, 1, line, 1)
        raise ParseError(f"{source.name}:{line}:1: {message}", [Diagnostic(message, place, hint, "HLO0002")])
    return _parse(*found[0], source.name, notes)


def parse_all(text: str, file: str = "<text>", notes: list[Diagnostic] | None = None) -> list[Module]:
    """The modules of a text in which lines ``// -----`` separate them; ParseError with all errors of all of them."""
    found = list(_parsed(text, file, notes))
    errors = [one for one in found if isinstance(one, ParseError)]
    if errors:
        diagnostics = [diagnostic for error in errors for diagnostic in error.diagnostics]
        raise errors[0] if len(errors) == 1 else ParseError(errors[0].message, diagnostics)
    return [one for one in found if isinstance(one, Module)]


def each_module(source: Source) -> Iterator[Module | ParseError]:
    """The modules of a file, and for those that cannot be read why."""
    if not source.holds_one:
        yield from _parsed(source.text or "", source.name)
        return
    try:
        yield read_snapshot(source).module
    except ParseError as error:
        yield error


def _parsed(text: str, file: str, notes: list[Diagnostic] | None = None) -> Iterator[Module | ParseError]:
    for piece, line in pieces(text):
        try:
            yield _parse(piece, line, file, notes)
        except ParseError as error:
            yield error


def pieces(text: str) -> list[tuple[str, int]]:
    """The parts of a text, one module each, and their first lines.

    What holds comments alone is no part: it belongs to the next one, at the end to the last.
    """
    starts = [0]
    for match in _SEPARATOR.finditer(text):
        if not _NOTHING.match(text[starts[-1] : match.start()]):
            starts.append(match.end())
    if len(starts) > 1 and _NOTHING.match(text[starts[-1] :]):
        starts.pop()
    found: list[tuple[str, int]] = []
    line = 1
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = text[start:end]
        found.append((_LAST.sub("", piece) if end < len(text) else piece, line))
        line += len(_LINE_END.findall(piece))
    return found


def without_log_prefixes(text: str) -> str:
    """The text with blanks in the place of the prefixes that log files put before lines: columns stay as they are."""
    return _LOG_PREFIX.sub(lambda match: " " * len(match.group()), text) if _LOG_PREFIX.search(text) else text


def _parse(piece: str, line: int, file: str, notes: list[Diagnostic] | None = None) -> Module:
    """One module; log prefixes are left out."""
    module = parse(without_log_prefixes(piece), file, line, notes)
    if module.source is not None:
        module.source = "\n" * (line - 1) + piece  # so that places found in it later have the lines of the file
    return module


def load(path: str | Path) -> Module:
    """The module in the file at `path`; ``-`` is standard input.  HloError, naming the file, where it holds none."""
    return one_module(open_source(path))


def load_all(path: str | Path) -> list[Module]:
    """All modules in the file at `path`."""
    return read_modules(open_source(path))


def load_snapshot(path: str | Path) -> Snapshot:
    """The module in the file at `path` with the arguments and results that a snapshot holds."""
    return read_snapshot(open_source(path))
