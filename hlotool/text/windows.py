"""Windows, dimension labels, paddings and slices: the attribute values of convolutions and data movement."""

from __future__ import annotations

import re

from hlotool.ir import Attribute, ConvDimensionNumbers, PaddingDimension, SliceDimension, Window, WindowDimension
from hlotool.text.lexer import NAME, Cursor, did_you_mean

__all__ = ["read_dim_labels", "read_padding", "read_slice", "read_window"]

_SIZES = re.compile(r"-?\d+(?:x-?\d+)*", re.ASCII)
_PADS = re.compile(r"-?\d+_-?\d+(?:_-?\d+)?(?:x-?\d+_-?\d+(?:_-?\d+)?)*", re.ASCII)
_NOTHING = re.compile(r"[ \t]*(?:[,\r\n})/]|\Z)")
_KEY = re.compile(rf"({NAME})\s*=\s*", re.ASCII)
_DIM_LABELS = re.compile(r"[0-9bfio?]*_[0-9bfio?]*->[0-9bfio?]*", re.ASCII)
_LABEL_PART = re.compile(r"[0-9bf?]{2,}_[0-9io?]{2,}->[0-9bf?]{2,}", re.ASCII)
_RANGE = re.compile(r"\[\s*(-?\d+)\s*:\s*(-?\d+)\s*(?::\s*(-?\d+)\s*)?\]", re.ASCII)


def read_window(cursor: Cursor, row: Attribute) -> Window:
    """``{size=3x3 stride=2x2 pad=0_1x0_1 lhs_dilate=.. rhs_dilate=.. rhs_reversal=..}``, keys in any order."""
    start = cursor.skip()
    cursor.expect("{", "at the start of a window")
    found: dict[str, tuple[list[int], list[tuple[int, int]], int, int]] = {}
    known = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")
    while not cursor.accept("}"):
        key = cursor.match(_KEY)
        if key is None:
            raise cursor.unexpected(f"one of {', '.join(known)} in a window")
        name = key.group(1)
        if name not in known or name in found:
            message = f"window: '{name}' is given twice" if name in found else f"window: unknown key '{name}'"
            raise cursor.fail(message, key.start(1), key.end(1), did_you_mean(name, known), code="HLO0132")
        value = cursor.match(_PADS if name == "pad" else _SIZES)
        if value is None:
            raise cursor.unexpected(f"numbers joined by x for '{name}'")
        pads, numbers = [], []
        for part in value.group().split("x"):
            both = [cursor.to_integer(p, value.start()) for p in part.split("_")]
            if name == "pad" and len(both) != 2:
                raise cursor.fail("window: a pad is low_high", value.start(), value.end(), code="HLO0132")
            if name == "pad":
                pads.append((both[0], both[1]))
            else:
                numbers.append(both[0])
        found[name] = (numbers, pads, value.start(), value.end())
        cursor.accept(",")
    if "size" not in found:
        if not found:
            return Window()
        raise cursor.fail("a window needs 'size'", start + 1, cursor.position - 1, code="HLO0132")
    size = found["size"][0]
    for name, (numbers, pads, begin, end) in found.items():
        if len(numbers or pads) != len(size):
            count = len(numbers or pads)
            entries = f"{count} entr{'y' if count == 1 else 'ies'}"
            raise cursor.fail(f"window: '{name}' has {entries}, 'size' has {len(size)}", begin, end, code="HLO0132")
        least = 1 if name in ("stride", "lhs_dilate", "rhs_dilate") else 0
        if any(number < least for number in numbers):
            raise cursor.fail(f"window: '{name}' must be at least {least}", begin, end, code="HLO0132")
    return Window(tuple(_window_dimension(found, index) for index in range(len(size))))


def _window_dimension(
    found: dict[str, tuple[list[int], list[tuple[int, int]], int, int]], index: int
) -> WindowDimension:
    def one(name: str, default: int) -> int:
        return found[name][0][index] if name in found else default

    low, high = found["pad"][1][index] if "pad" in found else (0, 0)
    dilation = one("lhs_dilate", 1), one("rhs_dilate", 1)
    return WindowDimension(one("size", 0), one("stride", 1), low, high, *dilation, bool(one("rhs_reversal", 0)))


def read_dim_labels(cursor: Cursor, row: Attribute) -> ConvDimensionNumbers:
    match = cursor.match(_DIM_LABELS)
    if match is None or not _LABEL_PART.fullmatch(match.group()):
        raise cursor.fail(
            "dim_labels wants a form such as b01f_01io->b01f", match.start() if match else cursor.position,
            match.end() if match else None, code="HLO0133",
        )  # fmt: skip
    text = match.group()
    parts = text.replace("->", "_").split("_")

    def problem(message: str) -> Exception:
        return cursor.fail(f"dim_labels: {message}", match.start(), match.end(), code="HLO0133")

    places: list[tuple[int, int, tuple[int, ...]]] = []
    for part, letters, what in zip(parts, ("bf", "io", "bf"), ("input", "kernel", "output"), strict=True):
        for letter in letters:
            if part.count(letter) != 1:
                raise problem(f"the {what} part needs '{letter}' exactly once")
        spatial = [c for c in part if c.isdigit()]
        for digit in sorted(set(spatial)):
            if spatial.count(digit) > 1:
                raise problem(f"spatial dimension {digit} stands twice in the {what} part")
        if sorted(spatial) != [str(n) for n in range(len(spatial))]:
            raise problem(f"the spatial dimensions of the {what} part are not 0 to {len(spatial) - 1}")
        order = tuple(part.index(str(n)) for n in range(len(spatial)))
        places.append((part.index(letters[0]), part.index(letters[1]), order))
    counts = [len(spatial) for _, _, spatial in places]
    for what, count in zip(("kernel", "output"), counts[1:], strict=True):
        if count != counts[0]:
            raise problem(f"the {what} has {count} spatial dimensions, the input has {counts[0]}")
    return ConvDimensionNumbers(*places[0], *places[1], *places[2], text if "?" in text else None)


def read_padding(cursor: Cursor, row: Attribute) -> tuple[PaddingDimension, ...]:
    if _NOTHING.match(cursor.text, cursor.position):
        return ()  # the padding of a scalar has no text
    match = cursor.match(_PADS)
    if match is None:
        raise cursor.unexpected("a padding such as 0_1x2_3_1")
    found = []
    for part in match.group().split("x"):
        low, high, *interior = [cursor.to_integer(p, match.start()) for p in part.split("_")]
        found.append(PaddingDimension(low, high, interior[0] if interior else 0))
    return tuple(found)


def read_slice(cursor: Cursor, row: Attribute) -> tuple[SliceDimension, ...]:
    cursor.expect("{", "at the start of a slice")
    found: list[SliceDimension] = []
    while not cursor.accept("}"):
        if found:
            cursor.expect(",", "or '}' in a slice")
        match = cursor.match(_RANGE)
        if match is None:
            raise cursor.unexpected("a range such as [0:10:2]")
        start, limit = (cursor.to_integer(match.group(n), match.start(n)) for n in (1, 2))
        stride = cursor.to_integer(match.group(3), match.start(3)) if match.group(3) else 1
        found.append(SliceDimension(start, limit, stride))
    return tuple(found)
