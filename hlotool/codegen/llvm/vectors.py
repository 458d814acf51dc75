"""Small pieces of vector code: spreading, dividing and rearranging lanes."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.codegen.llvm.math.elements import Value, compute_type
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.writer import Function

__all__ = ["broadcast_bit", "divide", "literal", "reversed_lanes", "spread", "transposed"]


def broadcast_bit(f: Function, bit: str, lanes: int) -> str:
    return spread(f, "i1", lanes, bit)


def spread(f: Function, kind: str, lanes: int, value: str) -> str:
    if lanes == 1:
        return value
    if not value.startswith("%"):
        return f"splat ({kind} {value})"
    wide = f"<{lanes} x {kind}>"
    first = f.let(f"insertelement {wide} poison, {kind} {value}, i64 0")
    return f.let(f"shufflevector {wide} {first}, {wide} poison, <{lanes} x i32> zeroinitializer")


def literal(kind: str, lanes: int, value: int) -> str:
    return str(value) if lanes == 1 else f"splat ({kind} {value})"


def divide(f: Function, kind: str, lanes: int, what: str, value: str, divisor: int, negative: bool) -> str:
    """Quotient or remainder by a positive constant, rounded down."""
    wide = kind if lanes == 1 else f"<{lanes} x {kind}>"
    if not value.startswith("%") and lanes == 1:
        return str(int(value) // divisor if what == "quotient" else int(value) % divisor)

    def number(n: int) -> str:
        return literal(kind, lanes, n)

    if divisor & (divisor - 1) == 0:
        if what == "remainder":
            return f.let(f"and {wide} {value}, {number(divisor - 1)}")
        return f.let(f"ashr {wide} {value}, {number(divisor.bit_length() - 1)}")
    if not negative:
        return f.let(f"{'udiv' if what == 'quotient' else 'urem'} {wide} {value}, {number(divisor)}")
    rest = f.let(f"srem {wide} {value}, {number(divisor)}")
    bits = "i1" if lanes == 1 else f"<{lanes} x i1>"
    below = f.let(f"icmp slt {wide} {rest}, {number(0)}")
    if what == "remainder":
        raised = f.let(f"add {wide} {rest}, {number(divisor)}")
        return f.let(f"select {bits} {below}, {wide} {raised}, {wide} {rest}")
    whole = f.let(f"sdiv {wide} {value}, {number(divisor)}")
    return f.let(f"add {wide} {whole}, {f.let(f'sext {bits} {below} to {wide}')}")


def transposed(rows: Sequence[Vector], lanes: int = 1) -> list[Vector]:
    """Transpose a square of vectors whose elements are `lanes` lanes each.

    Poison rows cost nothing.  All shuffles are ones that x86 and ARM have instructions for without tables of lanes, and
    LLVM finds those in half the time: rows of a group are interleaved within 128 bits, then 128 bits at a time dealt
    out among the groups.
    """
    size, rows = len(rows), list(rows)
    group = max(1, min(size, 128 // (lanes * max(8, BITS[rows[0].element]))))
    pieces = range(0, size, group)
    low = [at + k // 2 + k % 2 * size for at in pieces for k in range(group)]
    high = [lane + group // 2 for lane in low]
    for at in pieces:
        for _ in range(group.bit_length() - 1):
            pairs = zip(rows[at : at + group // 2], rows[at + group // 2 : at + group], strict=True)
            rows[at : at + group] = [_shuffled(x, y, order, lanes) for x, y in pairs for order in (low, high)]
    even = [half + at + k for half in (0, size) for at in pieces[::2] for k in range(group)]
    odd = [lane + group for lane in even]
    distance = group
    while distance < size:
        for k in range(size):
            if not k & distance:
                x, y = rows[k], rows[k + distance]
                rows[k], rows[k + distance] = _shuffled(x, y, even, lanes), _shuffled(x, y, odd, lanes)
        distance *= 2
    return rows


def _shuffled(x: Vector, y: Vector, order: Sequence[int], lanes: int) -> Vector:
    if x.name == y.name == "poison":
        return x
    return x.shuffle([at * lanes + lane for at in order for lane in range(lanes)], y)


def reversed_lanes(f: Function, element_type: str, lanes: int, value: Value) -> Value:
    kind = compute_type(element_type, lanes)
    order = ", ".join(f"i32 {k}" for k in range(lanes - 1, -1, -1))

    def turn(part: str) -> str:
        return f.let(f"shufflevector {kind} {part}, {kind} poison, <{lanes} x i32> <{order}>")

    return turn(value) if isinstance(value, str) else (turn(value[0]), turn(value[1]))
