"""Element types of matrix products as the processor sees them, and the way between memory and arithmetic.

A product reads its operands in their *storage* type, multiplies and adds in the scalar of an
`Arithmetic`, and rounds once when the result is stored.

Where the processor multiplies bf16 numbers in pairs (AVX512-BF16), a *pair* of neighbours along the sum is an
element of its own, "bf16x2": 32 bits that travel as one float and that only `multiply_add` looks into.  Pairs of
integers of 16 bits ("s16x2") and four of 8 bits ("bytes x4") travel as an i32.
"""

from __future__ import annotations

from hlotool.codegen.llvm.math.lowprecision import decode, encode, round_result
from hlotool.codegen.llvm.types import FLOATS
from hlotool.codegen.llvm.values import Ptr, Vector, zeros
from hlotool.codegen.machine import Machine
from hlotool.ir import UnsupportedError
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "BYTES", "PAIR", "PAIR_OF_BF16X3", "PAIR_OF_SHORTS", "Arithmetic", "Element", "alternating", "arithmetic",
    "complex_sums", "element", "load", "multiplies_bf16x3", "multiplies_byte_tiles", "multiplies_bytes",
    "multiplies_pairs", "multiplies_shorts", "multiplies_tiles", "multiply_add", "narrow", "plus", "store",
    "sum_of_lanes", "surplus", "swapped", "widen",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Element:
    """An element in memory: `components` scalars (2 for complex) of LLVM type `storage`, `size` bytes each."""

    name: str
    kind: str  # "float", "signed", "unsigned" or "pred"
    storage: str
    size: int
    components: int = 1
    width: int = 0  # significant bits of a sub-byte integer, else 0

    @property
    def bytes(self) -> int:
        return self.size * self.components


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """How a product multiplies and adds: scalars of `type`, `lanes` of them in a vector register."""

    type: str  # "float", "double", "i32" or "i64"
    bits: int
    lanes: int
    boolean: bool = False
    complex: bool = False
    pairs: bool = False  # elements of the operands are pairs of bf16 or s16: two multiply-adds per lane
    bf16x3: bool = False  # these are pairs of f32 numbers, each in three bf16 numbers: see `bf16x3`
    bytes: tuple[str, ...] = ()  # elements of the operands are four of these types, s8 or u8, for the left and right
    flipped: bool = False  # numbers of the left operand had their top bits flipped, see `multiply_add`

    @property
    def components(self) -> int:
        return 2 if self.complex else 1

    @property
    def together(self) -> int:
        """Terms of a sum in an element of the operands."""
        return 4 if self.bytes else 2 if self.pairs else 1

    @property
    def columns(self) -> int:
        """Elements (complex numbers count once) in a vector register."""
        return self.lanes // self.components

    @property
    def element(self) -> Element:
        """The element whose memory form is this arithmetic's own."""
        if self.bytes:
            return BYTES
        if self.pairs:
            return PAIR_OF_BF16X3 if self.bf16x3 else PAIR if self.type == "float" else PAIR_OF_SHORTS
        names = {"float": ("f32", "c64"), "double": ("f64", "c128"), "i32": ("s32", ""), "i64": ("s64", "")}
        return element(names[self.type][self.components - 1])


PAIR = Element("bf16x2", "float", "float", 4)
PAIR_OF_SHORTS = Element("s16x2", "signed", "i32", 4)
BYTES = Element("bytes x4", "signed", "i32", 4)
PAIR_OF_BF16X3 = Element("bf16x2x3", "float", "float", 12)
_FLOATS = {"f16": ("i16", 2), "bf16": ("i16", 2), "f32": ("float", 4), "f64": ("double", 8)}
_COMPLEX = {"c64": ("float", 4), "c128": ("double", 8)}


def element(name: str) -> Element:
    """The element with HLO name `name`; 8-bit floats must have been converted by a pass before."""
    if name in _FLOATS:
        return Element(name, "float", *_FLOATS[name])
    if name in _COMPLEX:
        return Element(name, "float", *_COMPLEX[name], components=2)
    if name == "pred":
        return Element(name, "pred", "i8", 1)
    if name[:1] in ("s", "u") and name[1:] in ("1", "2", "4", "8", "16", "32", "64"):
        bits = int(name[1:])
        size = max(bits // 8, 1)
        kind = "signed" if name[0] == "s" else "unsigned"
        return Element(name, kind, f"i{size * 8}", size, width=bits if bits < 8 else 0)
    raise UnsupportedError(f"matrix product of element type {name}")


def arithmetic(accumulate: str, machine: Machine) -> Arithmetic:
    """The arithmetic that accumulates in HLO type `accumulate` (f32 for 16-bit floats, at least 32-bit integers)."""
    kind = element(accumulate)
    if kind.kind == "float":
        scalar, bits = ("double", 64) if kind.storage == "double" else ("float", 32)
    else:
        scalar, bits = ("i64", 64) if kind.size == 8 else ("i32", 32)
    lanes = max(2, machine.lanes(bits))
    boolean, components = kind.kind == "pred", kind.components
    return Arithmetic(type=scalar, bits=bits, lanes=lanes, boolean=boolean, complex=components == 2)


def multiplies_pairs(lhs: str, rhs: str, accumulate: str, machine: Machine) -> bool:
    """Whether `machine` has fast dot products of bf16 pairs, and they serve a product of these element types."""
    return machine.has_bf16_pairs and (lhs, rhs, accumulate) == ("bf16", "bf16", "f32")


def multiplies_shorts(lhs: str, rhs: str, accumulate: str, machine: Machine) -> bool:
    """Whether `machine` has dot products of pairs of s16, and numbers of these element types fit that.

    It adds up two products in 32 bits (the sum of two of the least numbers wraps as it should), while those of
    32 bits are multiplied one by one, and take longer.
    """
    fit = {lhs, rhs} <= {"s2", "u2", "s4", "u4", "s8", "u8", "s16"}
    return fit and accumulate == "s32" and machine.instructions.short_pairs


def multiplies_bytes(lhs: str, rhs: str, accumulate: str, machine: Machine) -> bool:
    """Whether `machine` has dot products of four bytes (VNNI), and they serve a product of these element types."""
    return machine.has_dot_bytes and _fit_bytes(lhs, rhs, accumulate)


def multiplies_byte_tiles(lhs: str, rhs: str, accumulate: str, machine: Machine) -> bool:
    """Whether `machine` multiplies tiles of bytes, and they serve a product of these element types."""
    return machine.has_byte_tiles and _fit_bytes(lhs, rhs, accumulate)


def _fit_bytes(lhs: str, rhs: str, accumulate: str) -> bool:
    return {lhs, rhs} <= {"s2", "u2", "s4", "u4", "s8", "u8"} and accumulate == "s32"


def multiplies_tiles(lhs: str, rhs: str, accumulate: str, machine: Machine) -> bool:
    """Whether `machine` multiplies tiles of bf16 pairs, and they serve a product of these element types."""
    return machine.has_tiles and (lhs, rhs, accumulate) == ("bf16", "bf16", "f32")


def multiplies_bf16x3(lhs: str, rhs: str, accumulate: str, machine: Machine) -> bool:
    """Whether `machine` multiplies such tiles, and numbers of these element types are sums of three bf16 numbers."""
    return machine.has_tiles and (lhs, rhs, accumulate) == ("f32", "f32", "f32")


def load(pointer: Ptr, source: Element, kind: str, lanes: int = 1, active: int = 0, align: int = 0) -> Vector:
    """Read `lanes` scalars and widen them to `kind`; lanes from `active` (if given) on are zero, not read."""
    align = align or source.size
    if active == 1 and lanes > 1:
        raw = zeros(pointer.f, source.storage, lanes).insert(0, pointer.load(source.storage, align=align))
    elif active and 2 * active == lanes:  # a smaller vector, for which no register holds a mask
        half = pointer.load(source.storage, active, align)
        raw = half.shuffle(range(lanes), zeros(pointer.f, source.storage, active))
    elif active and active < lanes:
        raw = pointer.load_masked(source.storage, _mask(pointer, active, lanes), align)
    else:
        raw = pointer.load(source.storage, lanes, align)
    return widen(raw, source, kind)


def store(value: Vector, pointer: Ptr, target: Element, active: int = 0) -> None:
    """Narrow `value` and write its first `active` lanes (all of them when not given)."""
    if active == 1 and value.lanes > 1:
        # One lane goes as a scalar: LLVM 22 makes a scalar of it too, but of the type before a truncation.  For the
        # `freeze` see `memory.store_raw`.
        value, active = value.let(f"freeze {value.type} {value.name}")[0], 0
    raw, lanes = narrow(value, target), value.lanes
    if active and active < lanes and 2 * active != lanes:
        pointer.store_masked(raw, _mask(pointer, active, lanes), target.size)
    else:
        pointer.store(raw.shuffle(range(active)) if active and active < lanes else raw, target.size)


def _mask(pointer: Ptr, active: int, lanes: int) -> Vector:
    """The constant mask that leaves the first `active` of `lanes` lanes on."""
    return Vector(pointer.f, "i1", lanes, "<" + ", ".join(f"i1 {int(lane < active)}" for lane in range(lanes)) + ">")


def widen(value: Vector, source: Element, kind: str) -> Vector:
    """Convert a value of `source`'s storage type to the type of an arithmetic."""
    if source.kind == "float":
        if kind not in FLOATS:
            raise UnsupportedError(f"integer matrix product of {source.name}")
        value = decode(value, source.name) if source.size == 2 else value
        return value.cast("fpext" if value.element == "float" else "fptrunc", kind)
    if source.width:  # the bits above the number may be anything
        value = _significant(value, source)
    if kind in FLOATS:
        return value.cast("sitofp" if source.kind == "signed" else "uitofp", kind)
    return value.resize(kind, source.kind == "signed")


def narrow(value: Vector, target: Element) -> Vector:
    """Convert an arithmetic value to `target`'s storage type: floats round to nearest even, integers wrap."""
    if target.kind == "float":
        if not value.is_float:
            raise UnsupportedError(f"integer matrix product stored as {target.name}")
        if target.size == 2:
            return encode(round_result(value.cast("fptrunc", "float"), target.name), target.name)
        return value.cast("fptrunc" if value.element == "double" else "fpext", target.storage)
    if value.is_float:
        raise UnsupportedError(f"float matrix product stored as {target.name}")
    value = value.resize(target.storage, target.kind == "signed")
    return _significant(value, target) if target.width else value


def _significant(value: Vector, element: Element) -> Vector:
    """The bits of a sub-byte integer, and above them copies of its sign, or zeros."""
    low, top = value & ((1 << element.width) - 1), 1 << (element.width - 1)
    return (low ^ top) - top if element.kind == "signed" else low


def multiply_add(arithmetic: Arithmetic, x: Vector, y: Vector, to: Vector) -> Vector:
    """`x * y + to`, fused where the processor can; `(x and y) or to` for booleans.

    Pairs of bf16 add both their products, in f32 with rounding to nearest; VDPBF16PS takes subnormal numbers
    for zeros, operands and sums alike.  Pairs of s16 add both theirs by PMADDWD.

    Bytes add four products by VPDPBUSD, which multiplies unsigned numbers by signed ones.  Where both operands are of
    one kind, the left one was `flipped` into the other: its numbers are 128 more, or less, than they were.  The sums
    are then too large by `surplus`.
    """
    f, lanes = x.f, x.lanes
    if arithmetic.bytes:
        first, second = (x, y) if arithmetic.bytes[0] == "u8" else (y, x)
        return x.named(f.intrinsic(x.type, f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", [to, first, second]))
    if arithmetic.pairs:
        halves = Vector(f, "bfloat" if x.is_float else "i16", 2 * lanes, "")
        both = [halves.let(f"bitcast {value.type} {value.name} to {halves.type}") for value in (x, y)]
        if x.is_float:
            return x.named(f.intrinsic(x.type, f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}", [to, *both]))
        return plus(arithmetic, x.named(f.intrinsic(x.type, f"llvm.x86.{_PAIRS_OF_SHORTS[lanes]}", both)), to)
    if x.is_float:
        return x.call("fmuladd", y, to)
    return plus(arithmetic, x & y if arithmetic.boolean else x * y, to)


def surplus(arithmetic: Arithmetic, y: Vector, to: Vector) -> Vector:
    """`to`, and what four more terms add to sums that are too large, because the left numbers were flipped."""
    return multiply_add(arithmetic, y.like(-0x7F7F7F80), y, to)


_PAIRS_OF_SHORTS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""LLVM's names of the sums of two products, by how many of them."""


def plus(arithmetic: Arithmetic, x: Vector, y: Vector) -> Vector:
    """The sum of two vectors (or, for booleans)."""
    return x | y if arithmetic.boolean else x + y


def sum_of_lanes(arithmetic: Arithmetic, value: Vector) -> Vector:
    """The sum of all lanes."""
    if not value.is_float:
        return value.reduce("or" if arithmetic.boolean else "add")
    start, name = Vector(value.f, value.element, 1, "-0.0"), f"llvm.vector.reduce.fadd.{value.suffix}"
    return start.named(value.f.intrinsic(start.type, name, [start, value], "reassoc"))


def alternating(value: Vector, even: str, odd: str) -> Vector:
    """The constant of the same type with one number in even lanes and one in odd ones, as LLVM writes them."""
    return value.named("<" + ", ".join(f"{value.element} {(even, odd)[lane % 2]}" for lane in range(value.lanes)) + ">")


def swapped(value: Vector) -> Vector:
    """The vector with real and imaginary parts exchanged."""
    return value.shuffle([lane ^ 1 for lane in range(value.lanes)])


def complex_sums(arithmetic: Arithmetic, by_real: Vector, by_imaginary: Vector) -> Vector:
    """From the sums of re(a) * b and im(a) * b over interleaved b: the interleaved complex sums."""
    return multiply_add(arithmetic, swapped(by_imaginary), alternating(by_real, "-1.0", "1.0"), by_real)
