"""Elements of four bits, two in a byte, as they are read: the first of both is the low half.

A place is a byte and which half of it, 0 or 1.  A *code* has the bits of an element in its lowest four, and anything
above.
"""

from __future__ import annotations

from hlotool.codegen.llvm.math import lowprecision
from hlotool.codegen.llvm.math.elements import is_low_precision, is_signed, wrap
from hlotool.codegen.llvm.memory import first_lanes
from hlotool.codegen.llvm.values import Index, Ptr, Vector, constants
from hlotool.codegen.llvm.writer import Function

__all__ = ["codes_as", "load", "load_codes"]


def load(element_type: str, lanes: int, place: Ptr, half: Index, active: int) -> Vector:
    """`lanes` consecutive elements from a place, of which the first `active` are read."""
    if not _fits_words(place.f, lanes, half) or is_low_precision(element_type):
        return codes_as(element_type, load_codes(lanes, place, half, active))
    words, ups = _words(lanes, place, active), _ups(lanes)
    if is_signed(element_type):
        top = words.shl(constants(place.f, "i32", [28 - up for up in ups]))
        return top.ashr(28).resize("i8", signed=True)
    return (words.lshr(constants(place.f, "i32", ups)) & 15).resize("i8", signed=False)


def load_codes(lanes: int, place: Ptr, half: Index, active: int) -> Vector:
    """The codes of consecutive elements, as bytes or as words."""
    if lanes == 1:
        return place.load("i8", align=1).lshr(_shift(place.f, half, 1))
    if _fits_words(place.f, lanes, half):
        return _words(lanes, place, active).lshr(constants(place.f, "i32", _ups(lanes)))
    # Elements with even numbers are halves of one kind, the others of the other kind: those of the same bytes, or, if
    # the first element is a high half, of the next ones.
    count = lanes // 2
    even = odd = _bytes(place, count, -(-active // 2))
    if half != 0 and active > 1:
        odd = _bytes(place + half, count, active // 2)
    even, odd = even.lshr(_shift(place.f, half, count)), odd.lshr(_shift(place.f, 1 - half, count))
    if count == 1:
        return Vector(place.f, "i8", 2, "poison").insert(0, even).insert(1, odd)
    return even.shuffle([lane // 2 + lane % 2 * count for lane in range(lanes)], odd)


def codes_as(element_type: str, codes: Vector) -> Vector:
    """What codes stand for, in the compute type of an element type of four bits."""
    codes = codes.resize("i8", signed=False)
    if is_low_precision(element_type):
        return lowprecision.decode(codes & 15, element_type)
    return wrap(codes, element_type)


def _fits_words(f: Function, lanes: int, half: Index) -> bool:
    """Whether every lane can have all of the word that its element is in: it is then found by one shift, for each lane
    another.  Words have their first byte lowest, and vectors room for so many."""
    fits = f.unit.machine is not None and 32 * lanes <= f.unit.machine.vector_bits
    return fits and not lanes % 4 and isinstance(half, int) and half == 0 and not f.unit.is_big_endian


def _ups(lanes: int) -> list[int]:
    """The lowest bit of each lane's element in its word."""
    return [4 * (lane % 8) for lane in range(lanes)]


def _words(lanes: int, place: Ptr, active: int) -> Vector:
    """In each lane the word with its element: of eight elements, or of four if these are all."""
    count = lanes // 2
    found = _bytes(place, count, -(-active // 2))
    words = Vector(place.f, "i16" if count == 2 else "i32", max(1, count // 4), "")
    words = words.let(f"bitcast {found.type} {found.name} to {words.type}")
    if words.lanes == 1:
        return words.resize("i32", signed=False).spread(lanes)
    return words.shuffle([lane // 8 for lane in range(lanes)])


def _bytes(place: Ptr, count: int, active: int) -> Vector:
    """The first `active` of `count` bytes; the others are zeros."""
    mask = first_lanes(place.f, active, count)
    return place.load("i8", count, 1) if mask is None else place.load_masked("i8", mask, 1)


def _shift(f: Function, half: Index, lanes: int) -> Vector:
    """By how much a half of a byte is moved to its low one."""
    if isinstance(half, int):
        return constants(f, "i8", [4 * half] * lanes)
    return half.vector().resize("i8", signed=False).shl(2).spread(lanes)
