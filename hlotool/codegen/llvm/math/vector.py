"""Expressions over LLVM values: ``Vector`` writes one instruction per Python operator.

With it a polynomial kernel reads like its formula.  A `Vector` is a scalar when `lanes` is 1.  Python
numbers on either side of an operator become splat constants of the other operand's type.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from hlotool.codegen.llvm.writer import LIBRARY, Function, Unit

__all__ = [
    "BITS",
    "Number",
    "Vector",
    "constant_text",
    "exact_fma",
    "exponent_bias",
    "fma",
    "has_fma",
    "has_half",
    "has_scalef",
    "horner",
    "keeps_excess",
    "mantissa_bits",
    "outlined",
    "outlined_many",
    "product_error",
    "type_text",
    "where",
]

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "half": 16, "float": 32, "double": 64}
_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}

Number = int | float


def type_text(element: str, lanes: int) -> str:
    """The LLVM type: ``float`` for one lane, ``<n x float>`` for more."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def constant_text(element: str, lanes: int, value: Number) -> str:
    """An LLVM constant; floats round to nearest even first, integers wrap to the width."""
    if element in _SUFFIX:
        value = float(value)
        if element == "float":
            value = _to_single(value)
        elif element == "half":
            value = struct.unpack("<e", struct.pack("<e", value))[0]
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    elif element == "i1":
        text = "true" if value else "false"
    else:
        width = BITS[element]
        wrapped = int(value) & ((1 << width) - 1)
        text = str(wrapped - (1 << width) if wrapped >> (width - 1) else wrapped)
    return text if lanes == 1 else f"splat ({element} {text})"


def _to_single(value: float) -> float:
    try:
        result: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return result


def mantissa_bits(element: str) -> int:
    """Stored fraction bits of ``float`` or ``double``."""
    return {"float": 23, "double": 52}[element]


def exponent_bias(element: str) -> int:
    return {"float": 127, "double": 1023}[element]


class Vector:
    """The name of an LLVM value with its type, and the function it lives in."""

    __slots__ = ("element", "f", "lanes", "name")

    def __init__(self, f: Function, element: str, lanes: int, name: str) -> None:
        self.f = f
        self.element = element
        self.lanes = lanes
        self.name = name

    @property
    def type(self) -> str:
        return type_text(self.element, self.lanes)

    @property
    def suffix(self) -> str:
        """The type as intrinsic names mangle it, such as ``v16f32``."""
        element = _SUFFIX.get(self.element, self.element)
        return element if self.lanes == 1 else f"v{self.lanes}{element}"

    @property
    def is_float(self) -> bool:
        return self.element in _SUFFIX

    @property
    def is_constant(self) -> bool:
        return not self.name.startswith("%")

    def like(self, value: Number) -> Vector:
        """The constant `value` of this type."""
        return Vector(self.f, self.element, self.lanes, constant_text(self.element, self.lanes, value))

    def lift(self, value: Vector | Number) -> Vector:
        return value if isinstance(value, Vector) else self.like(value)

    def let(self, text: str, element: str | None = None) -> Vector:
        """Append instruction `text`; its value has this type, or `element` with the same lanes."""
        return Vector(self.f, element or self.element, self.lanes, self.f.let(text))

    def binary(self, float_op: str, integer_op: str, other: Vector | Number, swapped: bool = False) -> Vector:
        other = self.lift(other)
        left, right = (other, self) if swapped else (self, other)
        return self.let(f"{float_op if self.is_float else integer_op} {self.type} {left.name}, {right.name}")

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
        arguments = [(self.type, self.name), *((o.type, o.name) for o in others)]
        return Vector(
            self.f, self.element, self.lanes,
            self.f.intrinsic(self.type, f"llvm.{intrinsic}.{self.suffix}", arguments, flags),
        )  # fmt: skip

    def fabs(self) -> Vector:
        return self.call("fabs")

    def sqrt(self) -> Vector:
        return self.call("sqrt")

    def floor(self) -> Vector:
        return self.call("floor")

    def round_even(self) -> Vector:
        return self.call("roundeven")

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


def where(mask: Vector, yes: Vector | Number, no: Vector | Number) -> Vector:
    """``select``; at least one of `yes` and `no` must be a Vector."""
    if isinstance(yes, Vector):
        no = yes.lift(no)
    else:
        assert isinstance(no, Vector)
        yes = no.lift(yes)
    return yes.let(f"select {mask.type} {mask.name}, {yes.type} {yes.name}, {no.type} {no.name}")


def fma(a: Vector, b: Vector | Number, c: Vector | Number) -> Vector:
    """a * b + c: fused where the processor can, two roundings elsewhere."""
    return a.call("fmuladd", a.lift(b), a.lift(c))


def exact_fma(a: Vector, b: Vector | Number, c: Vector | Number) -> Vector:
    """a * b + c with one rounding everywhere (a slow library call on processors without FMA)."""
    return a.call("fma", a.lift(b), a.lift(c))


def product_error(a: Vector, b: Vector | Number, product: Vector) -> Vector:
    """a * b - product, exactly, for f64: by FMA, or by halves of the factors (Dekker, Numer. Math. 18, 1971)."""
    b = a.lift(b)
    if has_fma(a.f.unit):
        return exact_fma(a, b, -product)
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(x: Vector) -> tuple[Vector, Vector]:
    """x as a number of 26 bits plus one of 27."""
    high = (x.bits() & -(1 << 27)).as_float()
    return high, x - high


def horner(x: Vector, coefficients: Sequence[float]) -> Vector:
    """The polynomial c[0] + c[1] x + c[2] x^2 + ... of at least two coefficients."""
    *rest, last = coefficients
    result = x.like(last)
    for coefficient in reversed(rest):
        result = fma(x, result, coefficient) if result.is_constant else fma(result, x, coefficient)
    return result


def has_scalef(unit: Unit) -> bool:
    """Whether ``llvm.ldexp`` on vectors is one instruction (AVX-512)."""
    return unit.machine is not None and unit.machine.vector_bits == 512


def has_half(unit: Unit) -> bool:
    """Whether the processor converts between half and single precision by itself."""
    machine = unit.machine
    return machine is not None and (machine.vector_bits >= 256 or machine.architecture == "aarch64")


def has_fma(unit: Unit) -> bool:
    """Whether the processor is known to multiply and add with one rounding."""
    return has_half(unit)


def keeps_excess(unit: Unit, element_type: str) -> bool:
    """Whether values of this type may stay unrounded f32 in registers."""
    return unit.machine is not None and unit.machine.numerics.excess_precision and element_type in ("f16", "bf16")


def outlined(
    name: str, arguments: Sequence[Vector], body: Callable[[list[Vector]], Vector], cold: bool = False
) -> Vector:
    """Call internal function ``@<name>_<type>.hlo``, writing it into the unit on first use; see `outlined_many`."""
    return outlined_many(name, arguments, lambda inputs: [body(inputs)], cold=cold)[0]


def outlined_many(
    name: str,
    arguments: Sequence[Vector],
    body: Callable[[list[Vector]], Sequence[Vector]],
    count: int = 1,
    cold: bool = False,
) -> list[Vector]:
    """Call an internal function that returns `count` vectors, written into the unit on first use.

    The text is one of the library, which is keyed by name: units that are joined into one module keep a single copy.
    All results have the type of the first argument.  `cold` tells the register allocator that calls are rare.
    """
    first = arguments[0]
    f = first.f
    kind = _return_type(first.type, count)
    # A module may join units with and without a machine, whose texts differ.
    symbol = f"{name}_{first.suffix}{'' if f.unit.machine else '_portable'}{LIBRARY}"
    if symbol not in f.unit.library:
        inner = Function(f.unit, "")
        results = body([Vector(inner, a.element, a.lanes, f"%p{i}") for i, a in enumerate(arguments)])
        parameters = ", ".join(f"{a.type} %p{i}" for i, a in enumerate(arguments))
        value = results[0].name
        if count > 1:
            value = "poison"
            for i, r in enumerate(results):
                value = inner.let(f"insertvalue {kind} {value}, {r.type} {r.name}, {i}")
        inner.do(f"ret {kind} {value}")
        head = f"define internal {kind} @{symbol}({parameters}) nounwind{' cold' if cold else ''} {{"
        f.unit.library[symbol] = "\n".join([head, "entry:", *inner.lines, "}"])
    whole = f.let(f"call {kind} @{symbol}({', '.join(f'{a.type} {a.name}' for a in arguments)})")
    if count == 1:
        return [Vector(f, first.element, first.lanes, whole)]
    return [first.let(f"extractvalue {kind} {whole}, {i}") for i in range(count)]


def _return_type(type_name: str, count: int) -> str:
    return type_name if count == 1 else "{ " + ", ".join([type_name] * count) + " }"
