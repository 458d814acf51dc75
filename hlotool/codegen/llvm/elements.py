"""Element types of matrix products as the processor sees them, and the way between memory and arithmetic.

A product reads its operands in their *storage* type, multiplies and adds in the scalar of an
`Arithmetic`, and rounds once when the result is stored.

Where the processor multiplies bf16 numbers in pairs (AVX512-BF16), a *pair* of neighbours along the sum is an
element of its own, "bf16x2": 32 bits that travel as one float and that only `multiply_add` looks into.  Pairs of
integers of 16 bits ("s16x2") travel as an i32.
"""

from __future__ import annotations

from dataclasses import dataclass

from hlotool.codegen.llvm.math.lowprecision import decode, encode, round_result
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.writer import Function
from hlotool.codegen.machine import Machine
from hlotool.ir import UnsupportedError

__all__ = [
    "PAIR",
    "PAIR_OF_BF16X3",
    "PAIR_OF_SHORTS",
    "Arithmetic",
    "Element",
    "arithmetic",
    "element",
    "has_tiles",
    "load",
    "multiplies_bf16x3",
    "multiplies_pairs",
    "multiplies_shorts",
    "multiplies_tiles",
    "narrow",
    "store",
    "vector_type",
    "widen",
]


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


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How a product multiplies and adds: scalars of `type`, `lanes` of them in a vector register."""

    type: str  # "float", "double", "i32" or "i64"
    bits: int
    lanes: int
    boolean: bool
    complex: bool
    pairs: bool = False  # elements of the operands are pairs of bf16 or s16: two multiply-adds per lane
    bf16x3: bool = False  # these are pairs of f32 numbers, each in three bf16 numbers: see `bf16x3`

    @property
    def components(self) -> int:
        return 2 if self.complex else 1

    @property
    def columns(self) -> int:
        """Elements (complex numbers count once) in a vector register."""
        return self.lanes // self.components

    @property
    def element(self) -> Element:
        """The element whose memory form is this arithmetic's own."""
        if self.pairs:
            return PAIR_OF_BF16X3 if self.bf16x3 else PAIR if self.type == "float" else PAIR_OF_SHORTS
        names = {"float": ("f32", "c64"), "double": ("f64", "c128"), "i32": ("s32", ""), "i64": ("s64", "")}
        return element(names[self.type][self.components - 1])


PAIR = Element("bf16x2", "float", "float", 4)
PAIR_OF_SHORTS = Element("s16x2", "signed", "i32", 4)
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
    return Arithmetic(scalar, bits, lanes, kind.kind == "pred", kind.components == 2)


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


def multiplies_tiles(lhs: str, rhs: str, accumulate: str, machine: Machine) -> bool:
    """Whether `machine` multiplies tiles of bf16 pairs, and they serve a product of these element types."""
    return has_tiles(machine) and (lhs, rhs, accumulate) == ("bf16", "bf16", "f32")


def multiplies_bf16x3(lhs: str, rhs: str, accumulate: str, machine: Machine) -> bool:
    """Whether `machine` multiplies such tiles, and numbers of these element types are sums of three bf16 numbers."""
    return has_tiles(machine) and (lhs, rhs, accumulate) == ("f32", "f32", "f32")


def has_tiles(machine: Machine) -> bool:
    """Whether `machine` has registers for tiles of bf16 pairs, and this process may use them."""
    return machine.has_tiles


def vector_type(scalar: str, lanes: int) -> str:
    """LLVM's vector of `lanes` scalars; 0 lanes is the scalar itself."""
    return f"<{lanes} x {scalar}>" if lanes else scalar


def _constant(value: str, scalar: str, lanes: int) -> str:
    return f"splat ({scalar} {value})" if lanes else value


def _suffix(scalar: str, lanes: int) -> str:
    short = {"float": "f32", "double": "f64"}.get(scalar, scalar)
    return f"v{lanes}{short}" if lanes else short


def mask(active: int, lanes: int) -> str:
    """The constant mask that leaves the first `active` of `lanes` lanes on."""
    return "<" + ", ".join(f"i1 {int(lane < active)}" for lane in range(lanes)) + ">"


def _first(count: int) -> str:
    """What takes the first `count` lanes of two vectors in a row."""
    return f"<{count} x i32> <" + ", ".join(f"i32 {lane}" for lane in range(count)) + ">"


def load(
    f: Function, pointer: str, source: Element, how: Arithmetic, lanes: int, active: int = 0, align: int = 0
) -> str:
    """Read `lanes` scalars (0: one scalar) and widen them; lanes from `active` (if given) on are zero, not read."""
    kind = vector_type(source.storage, lanes)
    align = align or source.size
    if active == 1 and lanes > 1:
        raw = f.let(f"load {source.storage}, ptr {pointer}, align {align}")
        raw = f.let(f"insertelement {kind} zeroinitializer, {source.storage} {raw}, i64 0")
    elif active and 2 * active == lanes:  # a smaller vector, for which no register holds a mask
        half = vector_type(source.storage, active)
        raw = f.let(f"load {half}, ptr {pointer}, align {align}")
        raw = f.let(f"shufflevector {half} {raw}, {half} zeroinitializer, {_first(lanes)}")
    elif active and active < lanes:
        name = f"llvm.masked.load.{_suffix(source.storage, lanes)}.p0"
        callee = f.unit.declare(kind, name, ["ptr", f"<{lanes} x i1>", kind])
        raw = f.let(
            f"call {kind} {callee}(ptr align {align} {pointer}, <{lanes} x i1> {mask(active, lanes)}, "
            f"{kind} zeroinitializer)"
        )
    else:
        raw = f.let(f"load {kind}, ptr {pointer}, align {align}")
    return widen(f, raw, source, how, lanes)


def store(
    f: Function, value: str, pointer: str, target: Element, how: Arithmetic, lanes: int, active: int = 0
) -> None:
    """Narrow `value` and write its first `active` lanes (all of them when not given)."""
    if active == 1 and lanes > 1:
        # One lane goes as a scalar: LLVM 22 makes a scalar of it too, but of the type before a truncation.  For the
        # `freeze` see `memory.store_vector`.
        kind = vector_type(how.type, lanes)
        value = f.let(f"extractelement {kind} {f.let(f'freeze {kind} {value}')}, i64 0")
        lanes = active = 0
    raw = narrow(f, value, target, how, lanes)
    kind = vector_type(target.storage, lanes)
    if active and 2 * active == lanes:
        raw = f.let(f"shufflevector {kind} {raw}, {kind} poison, {_first(active)}")
        f.do(f"store {vector_type(target.storage, active)} {raw}, ptr {pointer}, align {target.size}")
    elif active and active < lanes:
        name = f"llvm.masked.store.{_suffix(target.storage, lanes)}.p0"
        callee = f.unit.declare("void", name, [kind, "ptr", f"<{lanes} x i1>"])
        f.do(
            f"call void {callee}({kind} {raw}, ptr align {target.size} {pointer}, "
            f"<{lanes} x i1> {mask(active, lanes)})"
        )
    else:
        f.do(f"store {kind} {raw}, ptr {pointer}, align {target.size}")


def widen(f: Function, value: str, source: Element, how: Arithmetic, lanes: int) -> str:
    """Convert a value of `source`'s storage type to the arithmetic's type."""
    stored, wanted = vector_type(source.storage, lanes), vector_type(how.type, lanes)
    if source.kind == "float":
        if how.type not in ("float", "double"):
            raise UnsupportedError(f"integer matrix product of {source.name}")
        held = source.storage
        if source.size == 2:
            value, held = decode(Vector(f, held, max(1, lanes), value), source.name).name, "float"
        if held == how.type:
            return value
        return f.let(f"{'fpext' if held == 'float' else 'fptrunc'} {vector_type(held, lanes)} {value} to {wanted}")
    if source.width:  # the bits above the number may be anything
        by = _constant(str(8 - source.width), "i8", lanes)
        value = f.let(f"shl {stored} {value}, {by}")
        value = f.let(f"{'ashr' if source.kind == 'signed' else 'lshr'} {stored} {value}, {by}")
    if how.type in ("float", "double"):
        return f.let(f"{'si' if source.kind == 'signed' else 'ui'}tofp {stored} {value} to {wanted}")
    if source.storage == how.type:
        return value
    if source.size * 8 > how.bits:
        return f.let(f"trunc {stored} {value} to {wanted}")
    return f.let(f"{'s' if source.kind == 'signed' else 'z'}ext {stored} {value} to {wanted}")


def narrow(f: Function, value: str, target: Element, how: Arithmetic, lanes: int) -> str:
    """Convert an arithmetic value to `target`'s storage type: floats round to nearest even, integers wrap."""
    held, wanted = vector_type(how.type, lanes), vector_type(target.storage, lanes)
    if target.kind == "float":
        if how.type in ("i32", "i64"):
            raise UnsupportedError(f"integer matrix product stored as {target.name}")
        if target.size == 2:
            if how.type == "double":
                value = f.let(f"fptrunc {held} {value} to {vector_type('float', lanes)}")
            number = round_result(Vector(f, "float", max(1, lanes), value), target.name)
            return encode(number, target.name).name
        if target.storage == how.type:
            return value
        return f.let(f"{'fptrunc' if how.type == 'double' else 'fpext'} {held} {value} to {wanted}")
    if how.type in ("float", "double"):
        raise UnsupportedError(f"float matrix product stored as {target.name}")
    if target.storage == how.type:
        return value
    if target.size * 8 > how.bits:
        return f.let(f"{'s' if target.kind == 'signed' else 'z'}ext {held} {value} to {wanted}")
    value = f.let(f"trunc {held} {value} to {wanted}")
    if target.width:
        by = _constant(str(8 - target.width), "i8", lanes)
        value = f.let(f"shl {wanted} {value}, {by}")
        value = f.let(f"{'ashr' if target.kind == 'signed' else 'lshr'} {wanted} {value}, {by}")
    return value
