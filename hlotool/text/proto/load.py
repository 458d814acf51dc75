"""Files in protocol-buffer form: which message they hold, and its module."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable

from hlotool.ir import Diagnostic, Literal, Location, Module, ParseError
from hlotool.lazy_dataclass import dataclass
from hlotool.text.proto.message import Message, ProtoFailure, parse_error
from hlotool.text.proto.module import build_module
from hlotool.text.proto.values import read_literal
from hlotool.text.proto.wire import decode

__all__ = ["Snapshot", "looks_binary", "looks_onnx", "looks_text", "read_binary", "read_text"]

_MODULE, _PROTO, _SNAPSHOT, _UNOPTIMIZED = "HloModuleProto", "HloProto", "HloSnapshot", "HloUnoptimizedSnapshot"
_FIRST_KEY = (
    r"(?a)\s*(?:#[^\n]*\s*)*(?:(hlo|hlo_module|arguments|result|partitions|computations)\s*:?\s*[{<]"
    r"\s*(?:#[^\n]*\s*)*(?:[a-z_0-9]+\s*:?\s*[{<]|[a-z_0-9]+\s*:(?!\s*[a-z0-9]+\[)|[}>])"
    r"|(name|entry_computation_name|execution_platform|id|entry_computation_id|version)\s*:\s*[\"'\d])"
)
_HOLDERS = {
    "hlo": _SNAPSHOT, "arguments": _SNAPSHOT, "result": _SNAPSHOT, "execution_platform": _SNAPSHOT,
    "hlo_module": _PROTO, "partitions": _UNOPTIMIZED, "version": _UNOPTIMIZED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A module and the values it was run with: `partitions` are argument lists (one where nothing is partitioned)."""

    module: Module
    partitions: tuple[tuple[Literal, ...], ...] = ()
    result: Literal | None = None
    platform: str = ""

    @property
    def arguments(self) -> tuple[Literal, ...]:
        """The arguments of the first partition."""
        return self.partitions[0] if self.partitions else ()


# ---- which message


def _fields(data: bytes, start: int, end: int) -> dict[int, tuple[int, int, int]]:
    """The first occurrence of every field: number -> (wire type, start, end); stops where the data is malformed."""
    found: dict[int, tuple[int, int, int]] = {}
    position = start
    while position < end:
        tag, position = _varint(data, position, end)
        begin = position
        wire = tag & 7
        if wire == 0:
            _, position = _varint(data, position, end)
        elif wire == 2:
            size, begin = _varint(data, position, end)
            position = begin + size
        elif wire in (1, 5):
            position += 8 if wire == 1 else 4
        else:
            break
        if tag >> 3 == 0 or begin > end:
            break
        found.setdefault(tag >> 3, (wire, begin, min(position, end)))
    return found


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        value |= (data[position] & 127) << shift
        shift += 7
        position += 1
        if data[position - 1] < 128:
            return value, position
    return 0, end + 1


def _is_module(data: bytes, start: int, end: int) -> bool:
    fields = _fields(data, start, end)
    if 3 not in fields or fields[3][0] != 2 or (1 in fields and fields[1][0] != 2):
        return False
    inside = _fields(data, *fields[3][1:])
    return 2 in inside and inside[2][0] == 2 and 2 in _fields(data, *inside[2][1:])


def _kind(data: bytes) -> str | None:
    """The type of message that `data` begins like; None when it is like none of them."""
    if _is_module(data, 0, len(data)):
        return _MODULE
    fields = _fields(data, 0, len(data))
    wire, start, end = fields.get(1, (0, 0, 0))
    if wire != 2:
        return None
    if _is_module(data, start, end):
        other = 2 in fields or (3 in fields and fields[3][0] == 0)
        return _UNOPTIMIZED if other else _PROTO
    inside = _fields(data, start, end).get(1, (0, 0, 0))
    return _SNAPSHOT if inside[0] == 2 and _is_module(data, inside[1], inside[2]) else None


def looks_binary(data: bytes) -> bool:
    """Whether the bytes begin like one of the messages."""
    return _kind(data) is not None


def looks_onnx(data: bytes) -> bool:
    """Whether `data` is a model in ONNX: it begins with a number, the version, and has a graph and operator sets."""
    if data[:1] != b"\x08":
        return False
    found = _fields(data, 0, len(data))
    return all(number in found and found[number][0] == 2 for number in (7, 8))


def looks_text(text: str) -> bool:
    """Whether the text begins like one of the messages in text form."""
    return re.match(_FIRST_KEY, text) is not None


# ---- reading


def read_binary(data: bytes, file: str) -> Snapshot:
    """A serialized message; ParseError with the file and the byte offset (as the column of line 1) where it is none."""

    def where(at: int) -> Location:
        return Location(file, 1, at + 1, 1, at + 1)

    kind = _kind(data)
    if kind is None:
        message = "this is no HloModuleProto, HloProto or HloSnapshot"
        what = "the file is empty" if not data else message
        raise ParseError(f"{file}: {what}", [Diagnostic(what, where(0), code="HLO0150")])
    return _read(lambda: decode(data, kind), where, lambda at: f" (byte {at})")


def read_text(text: str, file: str) -> Snapshot:
    """A message in text form; ParseError with line and column where it is none."""
    from hlotool.text.lexer import Cursor
    from hlotool.text.proto.textform import parse_text

    cursor = Cursor(text, file)

    def where(at: int) -> Location:
        return cursor.location(at, at + 1)

    match = re.match(_FIRST_KEY, text)
    kind = _HOLDERS.get((match[1] or match[2]) if match else "", _MODULE)

    def parse() -> Message:
        try:
            return parse_text(text, kind)
        except ProtoFailure as failure:
            if kind != _PROTO or "has no field" not in failure.message:
                raise
            return parse_text(text, _UNOPTIMIZED)

    return _read(parse, where, lambda at: "")


def _read(parse: Callable[[], Message], where: Callable[[int], Location], note: Callable[[int], str]) -> Snapshot:
    collecting = gc.isenabled()
    gc.disable()  # decoding only allocates: collections in between find nothing
    try:
        return _snapshot(parse(), where)
    except ProtoFailure as failure:
        failure.message += note(failure.at)
        raise parse_error(failure, where) from None
    except MemoryError:
        raise parse_error(ProtoFailure("not enough memory to read this message", 0), where) from None
    finally:
        if collecting:
            gc.enable()


def _snapshot(message: Message, where: Callable[[int], Location]) -> Snapshot:
    if message.name == _MODULE:
        return Snapshot(build_module(message, where))
    if message.name == _PROTO:
        return Snapshot(build_module(message.message("hlo_module"), where))
    if message.name == _UNOPTIMIZED:
        module = build_module(message.message("hlo_module"), where)
        return Snapshot(module, tuple(_arguments(part) for part in message.messages("partitions")))
    module = build_module(message.message("hlo").message("hlo_module"), where)
    result = read_literal(message.message("result")) if "result" in message else None
    return Snapshot(module, (_arguments(message),), result, message.text("execution_platform"))


def _arguments(message: Message) -> tuple[Literal, ...]:
    return tuple(map(read_literal, message.messages("arguments")))
