"""The wire format of protocol buffers: bytes to messages, driven by the field table.

Format: the Protocol Buffers encoding guide.  Fields that the table does not have, and fields of another wire type
than the table says, are passed over, as every protocol-buffer library does.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from hlotool.text.proto.fields import Field, enum_names, fields_by_number
from hlotool.text.proto.message import DEEPEST, Message, ProtoFailure

__all__ = ["decode"]

_VARINT, _FIXED64, _BYTES, _START, _END, _FIXED32 = range(6)
_WIRE = {
    "int32": _VARINT, "int64": _VARINT, "uint32": _VARINT, "uint64": _VARINT, "bool": _VARINT, "enum": _VARINT,
    "float": _FIXED32, "double": _FIXED64, "string": _BYTES, "bytes": _BYTES, "message": _BYTES,
}  # fmt: skip
_FEW = 64  # bytes of packed numbers below which a plain loop is faster than NumPy


def decode(data: bytes, name: str) -> Message:
    """The message of type `name` that `data` holds; ProtoFailure with the offset where it is malformed."""
    return _message(data, 0, len(data), name, 0)


def _message(data: bytes, position: int, end: int, name: str, depth: int) -> Message:
    if depth > DEEPEST:
        raise ProtoFailure(f"messages are nested more than {DEEPEST} deep", position)
    message = Message(name, position)
    fields = fields_by_number(name)
    values = message.values
    while position < end:
        start = position
        tag, position = _varint(data, position, end)
        wire = tag & 7
        field = fields.get(tag >> 3)
        if tag >> 3 == 0 or wire in (_END, 6, 7):
            raise ProtoFailure(f"byte 0x{data[start]:02x} starts no field of {name}", start)
        if field is None or not _fits(field, wire):
            position = _skip(data, position, end, wire, start, depth)
        elif wire == _VARINT:
            number, position = _varint(data, position, end)
            _put(values, field, _integer(field, number))
        elif wire == _BYTES:
            size, position = _varint(data, position, end)
            if size > end - position:
                raise ProtoFailure(
                    f"{name}.{field.name} claims {size} bytes, {end - position} are left (is the file cut off?)", start
                )
            _put_bytes(data, position, position + size, field, values, depth)
            position += size
        else:
            size = 4 if wire == _FIXED32 else 8
            if size > end - position:
                raise ProtoFailure(f"the data ends inside {name}.{field.name}", start)
            raw = data[position : position + size]
            if field.repeated:
                values.setdefault(field.name, bytearray()).extend(raw)
            else:
                values[field.name] = struct.unpack("<f" if size == 4 else "<d", raw)[0]
            position += size
    return message


def _fits(field: Field, wire: int) -> bool:
    """Whether a field may come in this wire type: its own, or packed."""
    own = _WIRE.get(field.kind)
    return wire == own or (field.repeated and wire == _BYTES and own is not None)


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """An integer of up to ten bytes, and the offset after it."""
    start = position
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
    raise ProtoFailure("the data ends inside a number" if shift < 70 else "a number has more than ten bytes", start)


def _skip(data: bytes, position: int, end: int, wire: int, start: int, depth: int) -> int:
    """Go past the value of an unknown field; groups may nest."""
    open_groups = 0
    while True:
        if wire == _VARINT:
            position = _varint(data, position, end)[1]
        elif wire == _BYTES:
            size, position = _varint(data, position, end)
            position += size
        elif wire == _START:
            open_groups += 1
        elif wire == _END:
            open_groups -= 1
        elif wire in (_FIXED32, _FIXED64):
            position += 4 if wire == _FIXED32 else 8
        else:
            raise ProtoFailure(f"byte 0x{data[start]:02x} starts no field", start)
        if position > end or (open_groups and position == end) or open_groups < 0 or depth + open_groups > DEEPEST:
            raise ProtoFailure("the data ends inside a field (is the file cut off?)", start)
        if not open_groups:
            return position
        tag, position = _varint(data, position, end)
        wire = tag & 7


def _put(values: dict[str, Any], field: Field, value: Any) -> None:
    if field.repeated:
        values.setdefault(field.name, []).append(value)
    else:
        values[field.name] = value


def _put_bytes(data: bytes, start: int, end: int, field: Field, values: dict[str, Any], depth: int) -> None:
    """A length-delimited value: a string, a message, or packed numbers."""
    if field.kind == "message":
        value = _message(data, start, end, field.message, depth + 1)
        known = values.get(field.name)
        if not field.repeated and isinstance(known, Message):
            known.values.update(value.values)  # a field given twice is merged
        else:
            _put(values, field, value)
    elif field.kind == "string":
        _put(values, field, data[start:end].decode("utf-8", "surrogateescape"))
    elif field.kind == "bytes":
        _put(values, field, data[start:end])
    elif field.kind in ("float", "double"):
        if (end - start) % (4 if field.kind == "float" else 8):
            raise ProtoFailure(f"{field.name}: {end - start} bytes are no whole number of values", start)
        values.setdefault(field.name, bytearray()).extend(data[start:end])
    else:
        values.setdefault(field.name, []).extend(_packed(data, start, end, field))


def _packed(data: bytes, start: int, end: int, field: Field) -> list[Any]:
    if end - start < _FEW:
        found = []
        while start < end:
            number, start = _varint(data, start, end)
            found.append(_integer(field, number))
        return found
    raw = np.frombuffer(data, np.uint8, end - start, start)
    stops = np.flatnonzero(raw < 128)
    if not stops.size or stops[-1] != raw.size - 1:
        raise ProtoFailure("the data ends inside a number", start)
    starts = np.concatenate([[0], stops[:-1] + 1])
    places = np.arange(raw.size) - np.repeat(starts, stops - starts + 1)
    if int(places.max()) > 9:
        raise ProtoFailure("a number has more than ten bytes", start)
    numbers = np.bitwise_or.reduceat((raw & np.uint8(127)).astype(np.uint64) << (7 * places).astype(np.uint64), starts)
    return [_integer(field, number) for number in numbers.tolist()]


def _integer(field: Field, number: int) -> Any:
    """The value of a varint: two's complement of the field's width, a flag, or the name of an enumeration value."""
    kind = field.kind
    if kind == "int64":
        return number - (1 << 64) if number >> 63 else number
    if kind == "int32":
        number &= 0xFFFFFFFF
        return number - (1 << 32) if number >> 31 else number
    if kind == "bool":
        return number != 0
    if kind == "enum":
        return enum_names(field.enum).get(number, str(number))
    return number & 0xFFFFFFFF if kind == "uint32" else number
