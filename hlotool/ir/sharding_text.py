"""Shardings as text: what they say, and what is wrong with them; instructions keep them as they are written.

Forms: ``{replicated}``, ``{manual}``, ``{unknown}``, ``{unreduced}``, ``{maximal device=1}``, tile assignments
``{devices=[2,2]0,1,2,3}`` and ``{devices=[2,2]<=[2,2]T(1,0)}``, the latter with ``last_tile_dim_replicate`` or
``last_tile_dims={manual, replicated}``; each with ``shard_as 1``, ``shard_like 1`` and ``metadata={...}``; and tuples
of these, ``{}`` for an empty one.  Shardings over named axes (``{mesh['x'=2], [{'x'}]}``) are read by
`hlotool.ir.sharding_axes`.
Facts: XLA's ``hlo_sharding.h`` and ``hlo_parser.cc``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from difflib import get_close_matches
from functools import lru_cache
from math import prod

from hlotool.ir.shape import Shape
from hlotool.ir.sharding_axes import ShardingValueError, axes_grid, read_axes
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "ReadSharding", "ShardingError", "over_axes", "read_one", "sharding_errors", "sharding_parts",
]  # fmt: skip

_WORDS = ("replicated", "maximal", "manual", "unknown", "unreduced")
_FLAGS = ("last_tile_dim_replicate",)
_GROUPS = ("shard_as", "shard_like")
_KEYS = ("devices", "device", "last_tile_dims", "metadata")
_SUBGROUPS = ("replicated", "manual", "unreduced", "maximal", "unknown")
_SKIP = re.compile(r"(?:[\s,]|/\*(?s:.*?)\*/)*")
_TOKEN = re.compile(r"([A-Za-z_]\w*)(\s*=\s*)?", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NUMBER = re.compile(r"-?\d+", re.ASCII)
_BLANKS = re.compile(r"(?:\s|/\*(?s:.*?)\*/)*")
_TILES = re.compile(r"\[([^\[\]{}]*)\]")
_IOTA = re.compile(r"\s*<=\s*\[([^\[\]{}]*)\](?:\s*T\s*\(([^(){}]*)\))?")
_LISTED = re.compile(r"\s*(-?\w+(?:\s*,\s*-?\w+)*)", re.ASCII)
_GROUP = re.compile(r"\{([^{}]*)\}")
_BALANCE = re.compile(r'[{}]|"(?:[^"\\]|\\.)*"', re.DOTALL)
_NEWER = re.compile(r"\s*\{\s*(?:maximal_)?mesh\b")  # shardings over named axes
_LONGEST = 1 << 22  # characters that are looked at

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ShardingError:
    """What is wrong in ``text[start:end]`` of a sharding; `misfit` when only with its instruction."""

    message: str
    start: int
    end: int
    hint: str | None = None
    misfit: bool = False


@dataclass(slots=True)
class ReadSharding:
    """A sharding of one array, as far as it is read."""

    words: list[tuple[str, Span]] = field(default_factory=list)
    tiles: list[int] | None = None
    tile_span: Span = (0, 0)
    devices: list[int] | None = None  # None: those of an iota, or none
    device_span: Span = (0, 0)
    count: int = 0
    replicate: Span | None = None
    iota: tuple[list[int], list[int]] | None = None  # the sizes of an iota, and the order of its transposition
    subgroups: list[str] = field(default_factory=list)
    subgroup_span: Span | None = None
    group: tuple[str, int] | None = None  # shard_as or shard_like, with its number
    metadata: str = ""
    whole: bool = True  # all parts could be read


@lru_cache(maxsize=256)
def sharding_errors(text: str, shape: Shape | None, devices: int | None = None) -> tuple[ShardingError, ...]:
    """All that is wrong with a sharding, alone and, where they are known, with a shape and a number of devices."""
    if len(text) > _LONGEST:
        return ()
    if not text.startswith("{"):
        return (ShardingError("a sharding stands in braces", 0, 1),)
    found: list[ShardingError] = []
    parts = sharding_parts(text)
    leaves = [*shape.leaves()] if shape is not None else []
    if parts is None:
        _check_one(text, 0, len(text), shape, devices, found)
        return tuple(found)
    if shape is not None and (not shape.is_tuple or len(parts) not in (len(leaves), len(leaves) or 1)):
        wanted = f"{len(leaves)} array{'' if len(leaves) == 1 else 's'}" if shape.is_tuple else "no tuple"
        message = f"the sharding is a tuple of {len(parts)}, the shape has {wanted}"
        found.append(ShardingError(message, 0, len(text), misfit=True))
        leaves = []
    for number, (start, end) in enumerate(parts):
        _check_one(text, start, end, leaves[number] if number < len(leaves) else None, devices, found)
    return tuple(found)


def over_axes(text: str) -> bool:
    """Whether a sharding is one over named axes."""
    return _NEWER.match(text) is not None


def sharding_parts(text: str) -> list[Span] | None:
    """The elements of a tuple of shardings; None where the text is one sharding."""
    first = _SKIP.match(text, text.find("{") + 1)
    if first is None or text[first.end() : first.end() + 1] not in ("{", "}"):
        return None
    found: list[Span] = []
    depth = begin = 0
    for match in _BALANCE.finditer(text):
        if match.group() == "{":
            depth += 1
            begin = match.start() if depth == 2 else begin
        elif match.group() == "}":
            depth -= 1
            if depth == 1:
                found.append((begin, match.end()))
    return found


def _near(word: str, words: tuple[str, ...]) -> str | None:
    close = get_close_matches(word, words, 1)
    return f"did you mean '{close[0]}'?" if close else None


def _check_one(
    text: str, start: int, end: int, shape: Shape | None, devices: int | None, found: list[ShardingError]
) -> None:
    if over_axes(text[start:end]):
        found += _axes_errors(text, start, end, shape, devices)
        return
    one = read_one(text, start, end, found)
    if not one.words and one.tiles is None and one.devices is None and one.whole:
        message = "the sharding says neither replicated, maximal, manual nor devices"
        found.append(ShardingError(message, start, end))
        return
    found += _contradictions(one)
    if one.devices is not None:
        found += _device_errors(text, one, devices)
    whole = one.words and one.words[0][0] == "maximal"
    if one.tiles is not None and not whole and shape is not None and shape.is_array:
        used = len(one.tiles) - len(one.subgroups) - (one.replicate is not None)
        if used != shape.rank and one.whole:
            message = f"the sharding has tiles along {used} dimension{'' if used == 1 else 's'}, the shape is {shape}"
            found.append(ShardingError(message, *one.tile_span, misfit=True))


def _axes_errors(
    text: str, start: int, end: int, shape: Shape | None, devices: int | None
) -> Iterator[ShardingError]:
    """What is wrong with a sharding over named axes."""
    try:
        read = read_axes(text[start:end])
        named = [read.device] if read.device is not None else axes_grid(read.mesh, read.dimensions, read.subgroups)[2]
    except ShardingValueError as error:
        yield ShardingError(str(error), start, end)
        return
    outside = [device for device in named if devices is not None and device >= devices]
    if outside:
        yield ShardingError(f"the sharding names device {outside[0]}, the program runs on {devices}", start, end)
    used = len(read.dimensions)
    if used and shape is not None and shape.is_array and used != shape.rank:
        message = f"the sharding has axes for {used} dimension{'' if used == 1 else 's'}, the shape is {shape}"
        yield ShardingError(message, start, end, misfit=True)


def read_one(text: str, start: int, end: int, found: list[ShardingError]) -> ReadSharding:
    one, position, seen = ReadSharding(), text.index("{", start) + 1, dict[str, Span]()
    while True:
        skipped = _SKIP.match(text, position, end - 1)
        position = skipped.end() if skipped else position
        if position >= end - 1:
            return one
        token = _TOKEN.match(text, position, end - 1)
        if token is None:
            stop = _next_blank(text, position, end - 1)
            found.append(ShardingError(f"unexpected '{text[position:stop][:40]}' in a sharding", position, stop))
            one.whole, position = False, stop
            continue
        word, span = token.group(1), token.span(1)
        known = _KEYS if token.group(2) else (*_WORDS, *_FLAGS, *_GROUPS)
        if word not in known:
            hint = _near(word, known) or _near(word, (*_WORDS, *_FLAGS, *_GROUPS, *_KEYS))
            hint = f"write '{word} 1', without '='" if word in _GROUPS else hint
            found.append(ShardingError(f"unknown sharding word '{word}'", *span, hint))
            one.whole = False
            position = _value_end(text, token.end(), end - 1) if token.group(2) else token.end()
            continue
        if word in seen:
            found.append(ShardingError(f"'{word}' is given twice in a sharding", *span))
        seen[word] = span
        position = token.end()
        if word in _WORDS:
            one.words.append((word, span))
        elif word in _FLAGS:
            one.replicate = span
        else:
            position = _read_value(text, word, position, end - 1, one, found)


def _next_blank(text: str, start: int, end: int) -> int:
    match = re.compile(r"[\s,]").search(text, start + 1, end)
    return match.start() if match else end


def _value_end(text: str, start: int, end: int) -> int:
    """Where the value of an unknown key ends: before a blank, brackets aside."""
    depth = 0
    for position in range(start, end):
        character = text[position]
        depth += (character in "{[(") - (character in "}])")
        if depth == 0 and character in " \t\n":
            return position
    return end


def _read_value(text: str, word: str, start: int, end: int, one: ReadSharding, found: list[ShardingError]) -> int:
    """What follows ``word=``, or a word with a number: into `one`, mistakes into `found`; where it ends."""
    if word == "metadata":
        stop = _value_end(text, start, end)
        if text[start : start + 1] != "{":
            found.append(ShardingError("the metadata of a sharding stand in braces", start, stop))
        one.metadata = text[start:stop]
        return stop
    if word == "last_tile_dims":
        return _read_subgroups(text, start, end, one, found)
    if word == "devices":
        return _read_tiles(text, start, end, one, found)
    blanks = _BLANKS.match(text, start, end)
    start = blanks.end() if blanks else start
    number = _NUMBER.match(text, start, end)
    if number is None:
        stop = _next_blank(text, start, end)
        found.append(ShardingError(f"'{word}' wants a number", start, max(stop, start + 1)))
        one.whole = False
        return stop
    if word == "device":
        one.devices, one.device_span, one.count = [_value(number.group())], number.span(), 1
    elif word in _GROUPS:
        one.group = word, _value(number.group())
    return number.end()


def _read_subgroups(text: str, start: int, end: int, one: ReadSharding, found: list[ShardingError]) -> int:
    group = _GROUP.match(text, start, end)
    if group is None:
        stop = _value_end(text, start, end)
        found.append(ShardingError("'last_tile_dims' wants a list such as {manual, replicated}", start, stop))
        one.whole = False
        return stop
    one.subgroup_span = group.span()
    for word in _entries(group.group(1), group.start(1)):
        name = text[slice(*word)]
        one.subgroups.append(name)
        if name not in _SUBGROUPS:
            hint = _near(name, _SUBGROUPS)
            found.append(ShardingError(f"'{name}' is no kind of a tile dimension", *word, hint))
    return group.end()


def _entries(inside: str, start: int) -> Iterator[Span]:
    """What commas separate, blanks aside."""
    position = start
    for part in inside.split(",") if inside.strip() else []:
        bare = part.strip()
        begin = position + len(part) - len(part.lstrip())
        yield begin, begin + max(len(bare), 1)
        position += len(part) + 1


def _numbers(text: str, inside: str, start: int, what: str, least: int, found: list[ShardingError]) -> list[int] | None:
    """The numbers of a list; None where one of them is none or too small, which is said."""
    values: list[int] | None = []
    for begin, end in _entries(inside, start):
        word = text[begin:end]
        if not _NUMBER.fullmatch(word) or _value(word) < least:
            fine = "a number" if not _NUMBER.fullmatch(word) else f"{least} or more"
            found.append(ShardingError(f"{what} must be {fine}, not '{word[:40]}'", begin, end))
            values = None
        elif values is not None:
            values.append(_value(word))
    return values


def _value(digits: str) -> int:
    return int(digits) if len(digits) < 20 else 1 << 62


def _read_tiles(text: str, start: int, end: int, one: ReadSharding, found: list[ShardingError]) -> int:
    """``[2,2]0,1,2,3`` or ``[2,2]<=[4]``."""
    tiles = _TILES.match(text, start, end)
    if tiles is None:
        stop = _value_end(text, start, end)
        found.append(ShardingError("'devices' wants tiles in brackets, such as [2,2]<=[4]", start, stop))
        one.whole = False
        return stop
    one.tile_span = tiles.span()
    one.tiles = _numbers(text, tiles.group(1), tiles.start(1), "a number of tiles", 1, found)
    iota = _IOTA.match(text, tiles.end(), end)
    if iota is not None:
        sizes = _numbers(text, iota.group(1), iota.start(1), "a size of the devices", 1, found)
        one.device_span = iota.start(1) - 1, iota.start(1) + len(iota.group(1)) + 1
        one.whole &= sizes is not None
        one.count = prod(sizes or ())
        if sizes is not None:
            one.iota = sizes, list(range(len(sizes)))
        if sizes is not None and iota.group(2) is not None:
            order = _numbers(text, iota.group(2), iota.start(2), "a dimension of the transposition", 0, found)
            if order is not None and sorted(order) != list(range(len(sizes))):
                message = f"T({iota.group(2)}) is not a permutation of 0 to {len(sizes) - 1}"
                found.append(ShardingError(message, *iota.span(2)))
            elif order is not None:
                one.iota = sizes, order
        _check_count(one, sizes is not None, found)
        return iota.end()
    listed = _LISTED.match(text, tiles.end(), end)
    if listed is None:
        found.append(ShardingError("the sharding has tiles but lists no devices", *tiles.span()))
        one.whole = False
        return tiles.end()
    one.device_span = listed.span(1)
    one.devices = _numbers(text, listed.group(1), listed.start(1), "a device", 0, found)
    one.count = len(listed.group(1).split(","))
    _check_count(one, True, found)
    one.whole &= one.devices is not None
    return listed.end()


def _check_count(one: ReadSharding, known: bool, found: list[ShardingError]) -> None:
    if one.tiles is not None and known and prod(one.tiles) != one.count:
        message = f"the sharding has {prod(one.tiles)} tiles but lists {one.count} devices"
        found.append(ShardingError(message, *one.device_span))
    one.whole &= one.tiles is not None


def _contradictions(one: ReadSharding) -> Iterator[ShardingError]:
    """Parts that do not go together."""
    for word, span in one.words[1:]:
        if word != one.words[0][0]:
            yield ShardingError(f"a sharding is not both {one.words[0][0]} and {word}", *span)
    word = one.words[0][0] if one.words else ""
    if word == "maximal" and one.tiles is not None and prod(one.tiles) == 1 and one.devices is not None:
        pass  # the device as the only tile
    elif word and one.tiles is not None:
        yield ShardingError(f"a {word} sharding has no tiles", *one.tile_span)
    elif word not in ("", "maximal") and one.devices is not None:
        yield ShardingError(f"a {word} sharding names no device", *one.device_span)
    elif word == "maximal" and one.devices is None and one.whole:
        yield ShardingError("a maximal sharding names its device: {maximal device=0}", *one.words[0][1])
    for name, flag in (("last_tile_dim_replicate", one.replicate), ("last_tile_dims", one.subgroup_span)):
        if flag is not None and one.tiles is None and one.whole:
            yield ShardingError(f"'{name}' needs tiles", *flag)
    if one.replicate is not None and one.subgroup_span is not None:
        yield ShardingError("last_tile_dim_replicate and last_tile_dims exclude each other", *one.subgroup_span)


def _device_errors(text: str, one: ReadSharding, devices: int | None) -> Iterator[ShardingError]:
    """Every device is one of the program's and stands once."""
    named: set[int] = set()
    places = _entries(text[slice(*one.device_span)], one.device_span[0])
    for number, place in zip(one.devices or (), places, strict=True):
        if number in named:
            yield ShardingError(f"device {number} is in the sharding twice", *place)
        elif number < 0 and one.tiles is not None:  # {maximal device=-1}: one that XLA reserves
            yield ShardingError(f"a device cannot be {number}", *place)
        elif devices is not None and number >= devices:
            yield ShardingError(f"the sharding names device {number}, the program runs on {devices}", *place)
        named.add(number)
