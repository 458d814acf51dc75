"""Groups of devices in short forms: as a transposed iota, or over the axes of a mesh."""

from __future__ import annotations

import re
from itertools import pairwise
from math import prod

from hlotool.ir import ReplicaGroups
from hlotool.text.lexer import NAME, Cursor, SyntaxFailure

__all__ = ["read_compact_groups"]

_LIST = r"\d+(?:\s*,\s*\d+)*"
_IOTA = re.compile(rf"\[({_LIST})\]\s*<=\s*\[({_LIST})\](?:T\(({_LIST})\))?", re.ASCII)
_AXIS_NAME = rf"(?:'[^'\n]*'|{NAME})"  # older texts have no quotes
_AXIS = rf"{_AXIS_NAME}\s*=\s*\d+"
_PART = rf"{_AXIS_NAME}(?:\s*:\s*\(\s*\d+\s*\)\s*\d+)?"
_MESH = re.compile(
    rf"mesh\s*\[\s*({_AXIS}(?:\s*,\s*{_AXIS})*)\s*\]"
    rf"(?:\s*,\s*device_ids\s*=\s*\(\s*(?:\[({_LIST})\](?:T\(({_LIST})\))?|({_LIST}))\s*\))?"
    rf"\s*\{{\s*({_PART}(?:\s*,\s*{_PART})*)?\s*\}}",
    re.ASCII,
)
_ONE_AXIS = re.compile(rf"({_AXIS_NAME})\s*=\s*(\d+)", re.ASCII)
_ONE_PART = re.compile(rf"({_AXIS_NAME})(?:\s*:\s*\(\s*(\d+)\s*\)\s*(\d+))?", re.ASCII)
_MOST_DEVICES = 1 << 24


def read_compact_groups(cursor: Cursor) -> ReplicaGroups | None:
    """``[2,2]<=[4]``, ``[2,2]<=[2,2]T(1,0)`` or ``mesh['x'=2,'y'=2] {'x'}``; None where none of these comes next."""
    for pattern, read in ((_IOTA, _iota), (_MESH, _mesh)):
        match = cursor.match(pattern)
        if match is not None:
            return read(cursor, match)
    return None


def _iota(cursor: Cursor, match: re.Match[str]) -> ReplicaGroups:
    target, sizes, order = (_numbers(cursor, match, n) for n in (1, 2, 3))
    order = order or list(range(len(sizes)))
    if len(target) != 2 or prod(target) != prod(sizes) or sorted(order) != list(range(len(sizes))):
        raise _malformed(cursor, match, "the two lists do not fit each other")
    _limited(cursor, match, prod(sizes))
    return ReplicaGroups(_rows(_transposed_iota(sizes, order), target[1]), match.group())


def _mesh(cursor: Cursor, match: re.Match[str]) -> ReplicaGroups:
    """The devices of the mesh, row-major over its axes; those that differ only along the named axes, the first of
    which is the outermost, are a group.  A part ``'x':(p)s`` of an axis of n is the middle of its p by s by n/(p*s)."""
    axes = [(name.strip("'"), size) for name, size in _ONE_AXIS.findall(match.group(1))]
    sizes = {name: cursor.to_integer(size, match.start(1)) for name, size in axes}
    count = prod(sizes.values())
    if len(sizes) != len(axes) or count == 0:
        raise _malformed(cursor, match, "the axes of a mesh have different names and at least one device")
    _limited(cursor, match, count)
    devices = _mesh_devices(cursor, match, count)
    taken = _taken(cursor, match, sizes)
    pieces: list[int] = []  # sizes of what the cuts leave of the axes, in mesh order
    along: dict[int, list[int]] = {}  # the dimensions of `pieces` that each part is made of
    for name, size in sizes.items():
        parts = sorted((first, length, n) for n, (axis, first, length) in enumerate(taken) if axis == name)
        cuts = sorted({1, size, *(c for first, length, _ in parts for c in (first, first * length))})
        if any(b % a for a, b in pairwise(cuts)) or cuts[-1] != size:
            raise _malformed(cursor, match, f"the parts of axis '{name}' do not divide its {size} devices")
        if any(a * n > b for (a, n, _), (b, _, _) in pairwise(parts)):
            raise _malformed(cursor, match, f"parts of axis '{name}' overlap")
        for low, high in pairwise(cuts):
            for first, length, n in parts:
                if first <= low and high <= first * length:
                    along.setdefault(n, []).append(len(pieces))
            pieces.append(high // low)
    inside = [d for n in range(len(taken)) for d in along.get(n, ())]
    order = [d for d in range(len(pieces)) if d not in inside] + inside
    flat = [devices[place] for place in _transposed_iota(pieces, order)]
    return ReplicaGroups(_rows(flat, prod(pieces[d] for d in inside)), match.group())


def _mesh_devices(cursor: Cursor, match: re.Match[str], count: int) -> list[int]:
    shape, order, written = (_numbers(cursor, match, n) for n in (2, 3, 4))
    if not shape and not written:
        return list(range(count))
    order = order or list(range(len(shape)))
    if shape and (prod(shape) != count or sorted(order) != list(range(len(shape)))):
        raise _malformed(cursor, match, f"device_ids are not those of the {count} devices of the mesh")
    devices = written or _transposed_iota(shape, order)
    if sorted(devices) != list(range(count)):
        raise _malformed(cursor, match, f"device_ids are not those of the {count} devices of the mesh")
    return devices


def _taken(cursor: Cursor, match: re.Match[str], sizes: dict[str, int]) -> list[tuple[str, int, int]]:
    """(axis, product of what is before the part, size of the part) of every axis that is named."""
    found = []
    for written, before, size in _ONE_PART.findall(match.group(5) or ""):
        name = written.strip("'")
        if name not in sizes:
            raise _malformed(cursor, match, f"the mesh has no axis '{name}'")
        part = (1, sizes[name]) if not size else tuple(cursor.to_integer(t, match.start(5)) for t in (before, size))
        if 0 in part:
            raise _malformed(cursor, match, f"a part of axis '{name}' is empty")
        found.append((name, *part))
    return found


def _rows(flat: list[int], width: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(flat[n : n + width]) for n in range(0, len(flat), width)) if width else ()


def _transposed_iota(sizes: list[int], order: list[int]) -> list[int]:
    """``iota(prod(sizes)).reshape(sizes).transpose(order)``, flat."""
    strides = [1] * len(sizes)
    for index in reversed(range(len(sizes) - 1)):
        strides[index] = strides[index + 1] * sizes[index + 1]
    flat = [0]
    for dimension in order:
        flat = [base + step * strides[dimension] for base in flat for step in range(sizes[dimension])]
    return flat


def _numbers(cursor: Cursor, match: re.Match[str], group: int) -> list[int]:
    text = match.group(group)
    return [cursor.to_integer(part.strip(), match.start(group)) for part in text.split(",")] if text else []


def _limited(cursor: Cursor, match: re.Match[str], devices: int) -> None:
    if devices > _MOST_DEVICES:
        raise _malformed(cursor, match, "too many devices")


def _malformed(cursor: Cursor, match: re.Match[str], why: str) -> SyntaxFailure:
    return cursor.fail(f"replica_groups: {why}", match.start(), match.end(), code="HLO0139")
