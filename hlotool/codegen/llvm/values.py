"""Typed LLVM values: Python operators on them write instructions.

An `Int` is an index or a size (i64), a `Bool` a condition (i1), a `Ptr` a place in memory, a `Vector` anything that is
computed with, in one lane or more.  What is known while the code is written stays an ``int`` or a ``bool`` of Python,
and arithmetic with it leaves no code where it has no effect: an `Index` and a `Truth` are either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, overload

from hlotool.codegen.llvm.types import BITS, FLOATS, Number, constant_text, mangled, type_text
from hlotool.codegen.llvm.writer import Function, Value

__all__ = [
    "Bool", "Index", "Int", "Ptr", "Struct", "Truth", "Value", "Vector", "choose", "constants", "either", "equal",
    "iota", "maximum", "minimum", "negated", "number", "operand", "plus", "where", "zeros",
]  # fmt: skip


_Same = TypeVar("_Same", "Ptr", "Vector")


class Int(Value):
    """A number of 64 bits, as indices and sizes are.  Quotients, remainders and shifts to the right are unsigned."""

    __slots__ = ()

    type = "i64"

    def _binary(self, word: str, other: Index) -> Int:
        return Int(self.f, self.f.let(f"{word} i64 {self.name}, {_text(other)}"))

    def __add__(self, other: Index) -> Int:
        return self if other == 0 else self._binary("add", other)

    def __radd__(self, other: int) -> Int:
        return self if other == 0 else self.let(f"add i64 {other}, {self.name}")

    def __sub__(self, other: Index) -> Int:
        return self if other == 0 else self._binary("sub", other)

    def __rsub__(self, other: int) -> Int:
        return self.let(f"sub i64 {other}, {self.name}")

    def __mul__(self, other: Index) -> Index:
        return 0 if other == 0 else self if other == 1 else self._binary("mul", other)

    def __rmul__(self, other: int) -> Index:
        return 0 if other == 0 else self if other == 1 else self.let(f"mul i64 {other}, {self.name}")

    def __floordiv__(self, other: Index) -> Int:
        return self if other == 1 else self._binary("udiv", other)

    def __mod__(self, other: Index) -> Index:
        return 0 if other == 1 else self._binary("urem", other)

    def __and__(self, other: Index) -> Int:
        return self._binary("and", other)

    def __or__(self, other: Index) -> Int:
        return self._binary("or", other)

    def __lshift__(self, other: Index) -> Int:
        return self._binary("shl", other)

    def __rshift__(self, other: Index) -> Int:
        return self._binary("lshr", other)

    def plus(self, other: Index) -> Int:
        """The sum, which does not overflow."""
        return self if other == 0 else self._binary("add nsw", other)

    def minus(self, other: Index) -> Int:
        """The difference, which does not overflow."""
        return self if other == 0 else self._binary("sub nsw", other)

    def times(self, other: Index) -> Index:
        """The product, which does not overflow."""
        return 0 if other == 0 else self if other == 1 else self._binary("mul nsw", other)

    def signed_quotient(self, other: Index) -> Int:
        """The quotient of numbers with signs, rounded to zero."""
        return self if other == 1 else self._binary("sdiv", other)

    def call(self, intrinsic: str, other: Index) -> Int:
        """``llvm.<intrinsic>.i64`` of this and another number."""
        return Int(self.f, self.f.intrinsic("i64", f"llvm.{intrinsic}.i64", [self, number(self.f, other)]))

    def at_most(self, limit: Index) -> Int:
        """The smaller of two numbers with signs, where LLVM takes its time; see `minimum`."""
        return self.call("smin", limit)

    def at_least(self, limit: Index) -> Int:
        """The larger of two numbers with signs, likewise."""
        return self.call("smax", limit)

    def compare(self, predicate: str, other: Index) -> Bool:
        """``icmp`` with an LLVM predicate (``slt``, ``uge``, ...)."""
        return Bool(self.f, self.f.let(f"icmp {predicate} i64 {self.name}, {_text(other)}"))

    def __lt__(self, other: Index) -> Bool:
        return self.compare("slt", other)

    def __le__(self, other: Index) -> Bool:
        return self.compare("sle", other)

    def __gt__(self, other: Index) -> Bool:
        return self.compare("sgt", other)

    def __ge__(self, other: Index) -> Bool:
        return self.compare("sge", other)

    def eq(self, other: Index) -> Bool:
        return self.compare("eq", other)

    def ne(self, other: Index) -> Bool:
        return self.compare("ne", other)

    def below(self, limit: Index) -> Bool:
        """0 <= self < limit."""
        return self.compare("ult", limit)

    def vector(self) -> Vector:
        """The same number to compute with."""
        return Vector(self.f, "i64", 1, self.name)


class Bool(Value):
    """A condition.  It has no truth while the code is written: ``if`` on it is a mistake, and an error."""

    __slots__ = ()

    type = "i1"

    def __bool__(self) -> bool:
        raise TypeError("a condition of the program is not known while its code is written")

    @overload
    def __and__(self, other: Bool) -> Bool: ...

    @overload
    def __and__(self, other: bool) -> Truth: ...

    def __and__(self, other: Truth) -> Truth:
        if isinstance(other, bool):
            return self if other else False
        return self.let(f"and i1 {self.name}, {other.name}")

    __rand__ = __and__

    def __or__(self, other: Truth) -> Truth:
        if isinstance(other, bool):
            return True if other else self
        return self.let(f"or i1 {self.name}, {other.name}")

    __ror__ = __or__

    def number(self) -> Int:
        """1 where it holds, else 0."""
        return Int(self.f, self.f.let(f"zext i1 {self.name} to i64"))

    def vector(self) -> Vector:
        """The same condition to compute with."""
        return Vector(self.f, "i1", 1, self.name)


class Ptr(Value):
    """A place in memory."""

    __slots__ = ()

    type = "ptr"

    def __add__(self, amount: Index) -> Ptr:
        """So many bytes further on."""
        return self.at("i8", amount)

    def at(self, kind: str, index: Index) -> Ptr:
        """So many elements of LLVM type `kind` further on."""
        amount = index.name if isinstance(index, Int) else index
        return self if amount == 0 else Ptr(self.f, self.f.let(f"getelementptr {kind}, ptr {self.name}, i64 {amount}"))

    def slot(self, number: Index) -> Ptr:
        """Slot `number` of the table of addresses here: each has eight bytes, whatever addresses have."""
        return self.at("i64", number)

    def at_each(self, kind: str, indices: Vector) -> Vector:
        """A vector of places: each so many elements of LLVM type `kind` further on."""
        text = f"getelementptr {kind}, ptr {self.name}, {operand(indices)}"
        return Vector(self.f, "ptr", indices.lanes, self.f.let(text))

    def field(self, struct: str, number: int) -> Ptr:
        """A field of LLVM type `struct`, which lies here."""
        return self.let(f"getelementptr {struct}, ptr {self.name}, i32 0, i32 {number}")

    def _load(self, kind: str, align: int) -> str:
        return self.f.let(f"load {kind}, ptr {self.name}" + (f", align {align}" if align else ""))

    def load(self, element: str, lanes: int = 1, align: int = 0) -> Vector:
        """What lies there; `align` is what the place is a multiple of (0: what is usual for the type)."""
        return Vector(self.f, element, lanes, self._load(type_text(element, lanes), align))

    def load_int(self, align: int = 0) -> Int:
        return Int(self.f, self._load("i64", align))

    def load_ptr(self, align: int = 0) -> Ptr:
        return Ptr(self.f, self._load("ptr", align))

    def store(self, value: Value | int, align: int = 0) -> None:
        """Write a value; an ``int`` has 64 bits."""
        self.f.do(f"store {operand(value)}, ptr {self.name}" + (f", align {align}" if align else ""))

    def load_bool(self) -> Bool:
        return Bool(self.f, self._load("i1", 0))

    def load_masked(self, element: str, mask: Vector, align: int = 0) -> Vector:
        """The lanes of `mask` of the vector that lies there; the others are not read, and give zero."""
        nothing, lanes = zeros(self.f, element, mask.lanes), mask.lanes
        few = self._leading(element, mask)
        if few == 1:
            return nothing.insert(0, self.load(element, align=align))
        if few:
            some = self.load(element, few, align)
            return some.shuffle([min(lane, few) for lane in range(lanes)], zeros(self.f, element, few))
        name = f"llvm.masked.load.{nothing.suffix}.p0"
        callee = self.f.unit.declare(nothing.type, name, ["ptr", mask.type, nothing.type])
        return nothing.let(f"call {nothing.type} {callee}({self._aligned(align)}, {operand(mask)}, {operand(nothing)})")

    def stream(self, value: Vector, align: int) -> None:
        """Write past the caches."""
        self.f.unit.declarations["!6400"] = "!6400 = !{i32 1}"
        self.f.do(f"store {operand(value)}, ptr {self.name}, align {align}, !nontemporal !6400")

    def store_masked(self, value: Vector, mask: Vector, align: int = 0) -> None:
        """Write the lanes of `mask`."""
        few = self._leading(value.element, mask)
        if few:
            # For the `freeze` see `memory.store_raw`.
            one = value.let(f"freeze {value.type} {value.name}")[0] if few == 1 else value.shuffle(range(few))
            self.store(one, align)
            return
        name = f"llvm.masked.store.{value.suffix}.p0"
        callee = self.f.unit.declare("void", name, [value.type, "ptr", mask.type])
        self.f.do(f"call void {callee}({operand(value)}, {self._aligned(align)}, {operand(mask)})")

    def _leading(self, element: str, mask: Vector) -> int:
        """How many lanes a constant mask of nothing but the first ones has, where they are read and written as a
        shorter vector: the processor has no masks for the type.  0 for any other."""
        if self.f.unit.instructions.has_masks(BITS.get(element, 64)) or not mask.name.startswith("<"):
            return 0
        lanes = [text in ("i1 true", "i1 1") for text in mask.name.strip("<>").split(", ")]
        return sum(lanes) if lanes == sorted(lanes, reverse=True) else 0

    def _aligned(self, align: int) -> str:
        return f"ptr align {align} {self.name}" if align else operand(self)

    def load_atomic(self) -> Int:
        """A number that other threads write at any time."""
        return Int(self.f, self.f.let(f"load atomic i64, ptr {self.name} monotonic, align 8"))

    def store_atomic(self, value: Index) -> None:
        """Write a number that other threads read at any time."""
        self.f.do(f"store atomic {operand(value)}, ptr {self.name} monotonic, align 8")

    def add_atomically(self, amount: Index) -> Int:
        """Add to the number that lies there, which other threads may do too; what it was before."""
        return Int(self.f, self.f.let(f"atomicrmw add ptr {self.name}, i64 {_text(amount)} seq_cst"))

    def combine_atomically(self, operation: str, value: Vector) -> None:
        """Combine an integer with the one that lies there, which others may do too, by one of LLVM's operations."""
        self.f.do(f"atomicrmw {operation} ptr {self.name}, {operand(value)} monotonic")

    def clear(self, size: Index) -> None:
        """Zero `size` bytes."""
        if size != 0:
            arguments = [self, zeros(self.f, "i8"), number(self.f, size), zeros(self.f, "i1")]
            self.f.intrinsic("void", "llvm.memset.p0.i64", arguments)

    def copy_from(self, source: Ptr, size: Index, may_overlap: bool = False) -> None:
        """Copy `size` bytes to here; those of `source` may be some of them where that is said."""
        name = f"llvm.{'memmove' if may_overlap else 'memcpy'}.p0.p0.i64"
        self.f.intrinsic("void", name, [self, source, number(self.f, size), zeros(self.f, "i1")])

    def fetch(self) -> None:
        """Ask for the line of the caches that lies here, which will be read soon; any address will do."""
        modes = (Vector(self.f, "i32", 1, mode) for mode in ("0", "3", "1"))
        self.f.intrinsic("void", "llvm.prefetch.p0", [self, *modes])

    def eq(self, other: Ptr) -> Bool:
        return Bool(self.f, self.f.let(f"icmp eq ptr {self.name}, {other.name}"))

    def ne(self, other: Ptr) -> Bool:
        return Bool(self.f, self.f.let(f"icmp ne ptr {self.name}, {other.name}"))

    def address(self) -> Int:
        """The place as a number."""
        return Int(self.f, self.f.let(f"ptrtoint ptr {self.name} to i64"))

    def minus(self, other: Ptr) -> Int:
        """Bytes from `other` to here."""
        return self.address() - other.address()


Index = int | Int
Truth = bool | Bool


class Vector(Value):
    """Anything that is computed with: `lanes` numbers of LLVM type `element`, a scalar where it is one."""

    __slots__ = ("element", "lanes", "type")

    def __init__(self, f: Function, element: str, lanes: int, name: str, kind: str = "") -> None:
        self.f = f
        self.element = element
        self.lanes = lanes
        self.name = name
        self.type = kind or type_text(element, lanes)

    @property
    def suffix(self) -> str:
        """The type as intrinsic names have it, such as ``v16f32``."""
        return mangled(self.element, self.lanes)

    @property
    def is_float(self) -> bool:
        return self.element in FLOATS

    @property
    def is_constant(self) -> bool:
        return not self.name.startswith("%")

    def named(self, name: str, f: Function | None = None) -> Vector:
        return Vector(f or self.f, self.element, self.lanes, name, self.type)

    def let(self, text: str, element: str = "") -> Vector:
        """Append instruction `text`; its value has this type, or `element` with the same lanes."""
        name = self.f.let(text)
        return Vector(self.f, element, self.lanes, name) if element else self.named(name)

    def like(self, value: Number) -> Vector:
        """The constant `value` of this type."""
        return self.named(constant_text(self.element, self.lanes, value))

    def lift(self, value: Vector | Number) -> Vector:
        return value if isinstance(value, Vector) else self.like(value)

    def binary(self, float_op: str, integer_op: str, other: Vector | Number, swapped: bool = False) -> Vector:
        word = float_op if self.element in FLOATS else integer_op
        other = other if isinstance(other, Vector) else self.like(other)
        left, right = (other, self) if swapped else (self, other)
        return self.named(self.f.let(f"{word} {self.type} {left.name}, {right.name}"))

    def __add__(self, other: Vector | Number) -> Vector:
        return self.binary("fadd", "add", other)

    __radd__ = __add__

    def __sub__(self, other: Vector | Number) -> Vector:
        return self.binary("fsub", "sub", other)

    def __rsub__(self, other: Number) -> Vector:
        return self.binary("fsub", "sub", other, swapped=True)

    def __mul__(self, other: Vector | Number) -> Vector:
        return self.binary("fmul", "mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Vector | Number) -> Vector:
        return self.binary("fdiv", "sdiv", other)

    def __rtruediv__(self, other: Number) -> Vector:
        return self.binary("fdiv", "sdiv", other, swapped=True)

    def __neg__(self) -> Vector:
        return self.let(f"fneg {self.type} {self.name}") if self.is_float else 0 - self

    def __and__(self, other: Vector | Number) -> Vector:
        return self.binary("and", "and", other)

    def __or__(self, other: Vector | Number) -> Vector:
        return self.binary("or", "or", other)

    def __xor__(self, other: Vector | Number) -> Vector:
        return self.binary("xor", "xor", other)

    def __invert__(self) -> Vector:
        return self ^ -1

    def shl(self, count: Vector | Number) -> Vector:
        return self.binary("shl", "shl", count)

    def lshr(self, count: Vector | Number) -> Vector:
        return self.binary("lshr", "lshr", count)

    def ashr(self, count: Vector | Number) -> Vector:
        return self.binary("ashr", "ashr", count)

    def urem(self, divisor: Vector | Number) -> Vector:
        """The remainder of numbers without signs."""
        return self.binary("urem", "urem", divisor)

    def compare(self, predicate: str, other: Vector | Number) -> Vector:
        """``fcmp``/``icmp`` with an LLVM predicate (``olt``, ``sge``, ...)."""
        word = "fcmp" if self.is_float else "icmp"
        return self.let(f"{word} {predicate} {self.type} {self.name}, {self.lift(other).name}", "i1")

    def lt(self, other: Vector | Number) -> Vector:
        return self.compare("olt" if self.is_float else "slt", other)

    def le(self, other: Vector | Number) -> Vector:
        return self.compare("ole" if self.is_float else "sle", other)

    def gt(self, other: Vector | Number) -> Vector:
        return self.compare("ogt" if self.is_float else "sgt", other)

    def ge(self, other: Vector | Number) -> Vector:
        return self.compare("oge" if self.is_float else "sge", other)

    def eq(self, other: Vector | Number) -> Vector:
        return self.compare("oeq" if self.is_float else "eq", other)

    def ne(self, other: Vector | Number) -> Vector:
        return self.compare("une" if self.is_float else "ne", other)

    def isnan(self) -> Vector:
        return self.compare("uno", 0.0)

    def call(self, intrinsic: str, *others: Vector, flags: str = "") -> Vector:
        """``llvm.<intrinsic>`` overloaded on this type, all operands of this type, with fast-math `flags`."""
        return self.named(self.f.intrinsic(self.type, f"llvm.{intrinsic}.{self.suffix}", [self, *others], flags))

    def reduce(self, operation: str) -> Vector:
        """All lanes in one, by ``llvm.vector.reduce.<operation>``."""
        name = f"llvm.vector.reduce.{operation}.{self.suffix}"
        return Vector(self.f, self.element, 1, self.f.intrinsic(self.element, name, [self]))

    def fabs(self) -> Vector:
        return self.call("fabs")

    def sqrt(self) -> Vector:
        return self.call("sqrt")

    def floor(self) -> Vector:
        return self.call("floor")

    def copysign(self, sign: Vector) -> Vector:
        return self.call("copysign", sign)

    def cast(self, word: str, element: str) -> Vector:
        """A conversion instruction such as ``fpext`` or ``sext`` to `element`."""
        if element == self.element:
            return self
        return self.let(f"{word} {self.type} {self.name} to {type_text(element, self.lanes)}", element)

    def bits(self) -> Vector:
        """The integer with the same bits."""
        return self.cast("bitcast", f"i{BITS[self.element]}")

    def as_float(self) -> Vector:
        """The float with the bits of this integer."""
        return self.cast("bitcast", {16: "half", 32: "float", 64: "double"}[BITS[self.element]])

    def packed(self) -> Vector:
        """Conditions as the bits of one integer, as if through memory: where high bytes come first, so do high bits.
        """
        text = f"bitcast {self.type} {self.name} to i{self.lanes}"
        return Vector(self.f, f"i{self.lanes}", 1, self.f.let(text))

    def mask(self) -> Vector:
        """Conditions as the bits of one integer, the first as its lowest."""
        return self.packed().call("bitreverse") if self.f.unit.is_big_endian else self.packed()

    def resize(self, element: str, signed: bool) -> Vector:
        """Truncate or extend an integer to integer type `element`."""
        if BITS[element] < BITS[self.element]:
            return self.cast("trunc", element)
        return self.cast("sext" if signed else "zext", element)

    def at_most(self, limit: Vector | Number) -> Vector:
        """min(self, limit) in one instruction; a NaN in self stays."""
        limit = self.lift(limit)
        return where(limit.compare("olt", self), limit, self)

    def at_least(self, limit: Vector | Number) -> Vector:
        """max(self, limit) in one instruction; a NaN in self stays."""
        limit = self.lift(limit)
        return where(limit.compare("ogt", self), limit, self)

    def index(self) -> Int:
        """The same number as an index; it has 64 bits and one lane."""
        return Int(self.f, self.name)

    def bit(self) -> Bool:
        """The same bit as a condition; it has one lane."""
        return Bool(self.f, self.name)

    def __getitem__(self, lane: Index) -> Vector:
        """A lane."""
        text = f"extractelement {self.type} {self.name}, i64 {_text(lane)}"
        return Vector(self.f, self.element, 1, self.f.let(text))

    def insert(self, lane: Index, value: Vector) -> Vector:
        """The same with another `value` in a lane."""
        return self.let(f"insertelement {self.type} {self.name}, {value.type} {value.name}, i64 {_text(lane)}")

    def shuffle(self, order: Sequence[int], other: Vector | None = None) -> Vector:
        """The lanes in `order` of this and of `other` in a row; -1 is any."""
        second = "poison" if other is None else other.name
        lanes = ", ".join([f"i32 {lane}" if lane >= 0 else "i32 poison" for lane in order])
        mask = f"<{len(order)} x i32> {f'<{lanes}>' if any(order) else 'zeroinitializer'}"
        text = f"shufflevector {self.type} {self.name}, {self.type} {second}, {mask}"
        return Vector(self.f, self.element, len(order), self.f.let(text))

    def spread(self, lanes: int) -> Vector:
        """A scalar in all lanes."""
        if lanes == 1:
            return self
        if self.is_constant:
            return Vector(self.f, self.element, lanes, f"splat ({self.element} {self.name})")
        all_of = Vector(self.f, self.element, lanes, "poison")
        first = self.f.let(f"insertelement {all_of.type} poison, {self.type} {self.name}, i64 0")
        order = f"<{lanes} x i32> zeroinitializer"
        return all_of.let(f"shufflevector {all_of.type} {first}, {all_of.type} poison, {order}")


def zeros(f: Function, element: str, lanes: int = 1) -> Vector:
    """The constant 0 in all lanes."""
    text = "zeroinitializer" if lanes > 1 else "0.0" if element in FLOATS else "false" if element == "i1" else "0"
    return Vector(f, element, lanes, text)


def iota(f: Function, element: str, lanes: int) -> Vector:
    """In each lane its number."""
    return Vector(f, element, lanes, f"<{', '.join(f'{element} {lane}' for lane in range(lanes))}>")


class Struct(Value):
    """Several vectors as one value, which functions give."""

    __slots__ = ("fields", "type")

    def __init__(self, f: Function, fields: Sequence[Vector], name: str) -> None:
        self.f = f
        self.fields = tuple(fields)  # of the types of its own, which they need not be
        self.type = "{ " + ", ".join(field.type for field in fields) + " }"
        self.name = name

    @staticmethod
    def of(fields: Sequence[Vector]) -> Struct:
        """The struct of these vectors."""
        whole = Struct(fields[0].f, fields, "poison")
        for number, field in enumerate(fields):
            text = f"insertvalue {whole.type} {whole.name}, {operand(field)}, {number}"
            whole = whole.named(whole.f.let(text))
        return whole

    def named(self, name: str, f: Function | None = None) -> Struct:
        return Struct(f or self.f, self.fields, name)

    def part(self, number: int) -> Vector:
        """A vector in it."""
        return self.fields[number].named(self.f.let(f"extractvalue {self.type} {self.name}, {number}"), self.f)

    def parts(self) -> list[Vector]:
        """The vectors in it."""
        return [self.part(number) for number in range(len(self.fields))]


def constants(f: Function, element: str, values: Sequence[Number]) -> Vector:
    """A vector of constants that may differ."""
    if len(values) == 1:
        return Vector(f, element, 1, constant_text(element, 1, values[0]))
    lanes = ", ".join(f"{element} {constant_text(element, 1, value)}" for value in values)
    return Vector(f, element, len(values), f"<{lanes}>")


def where(mask: Vector, yes: Vector | Number, no: Vector | Number) -> Vector:
    """``select``; at least one of `yes` and `no` must be a Vector."""
    if not isinstance(yes, Vector):
        assert isinstance(no, Vector)
        yes = no.like(yes)
    elif not isinstance(no, Vector):
        no = yes.like(no)
    return yes.let(f"select {mask.type} {mask.name}, {yes.type} {yes.name}, {no.type} {no.name}")


def choose(condition: Truth, yes: Index, no: Index) -> Index:
    """One of two numbers."""
    if isinstance(condition, bool):
        return yes if condition else no
    return Int(condition.f, condition.f.let(f"select i1 {condition.name}, i64 {_text(yes)}, i64 {_text(no)}"))


def either(condition: Truth, yes: _Same, no: _Same) -> _Same:
    """One of two values of the same type."""
    if isinstance(condition, bool):
        return yes if condition else no
    return yes.let(f"select i1 {condition.name}, {operand(yes)}, {operand(no)}")


def plus(a: Index, b: Index) -> Index:
    """The sum of two numbers, which does not overflow."""
    if isinstance(a, int):
        return a + b if isinstance(b, int) else b if a == 0 else b.let(f"add nsw i64 {a}, {b.name}")
    return a.plus(b)


def minimum(a: Index, b: Index) -> Index:
    """The smaller of two numbers, by what LLVM's quick way to instructions knows (see `kernel.PLUMBING`)."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else choose(a < b, a, b)


def maximum(a: Index, b: Index) -> Index:
    """The larger of two numbers, likewise."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else choose(a > b, a, b)


def equal(a: Index, b: Index) -> Truth:
    """Whether two numbers are the same."""
    if isinstance(a, int):
        return a == b if isinstance(b, int) else b.eq(a)
    return a.eq(b)


def negated(condition: Truth) -> Truth:
    """Whether it does not hold."""
    return not condition if isinstance(condition, bool) else condition.let(f"xor i1 {condition.name}, true")


def number(f: Function, value: Index) -> Int:
    """An index as a value, which loops can carry."""
    return Int(f, str(value)) if isinstance(value, int) else value


def operand(value: Value | int) -> str:
    """The type and the name of a value; an ``int`` has 64 bits, a ``bool`` is a condition."""
    if isinstance(value, Value):
        return f"{value.type} {value.name}"
    return f"i1 {str(value).lower()}" if isinstance(value, bool) else f"i64 {value}"


def _text(value: Index) -> str:
    return value.name if isinstance(value, Int) else str(value)

