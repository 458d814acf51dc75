"""Formulas over LLVM vectors that choose by what the processor has, and functions for those that are long."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.codegen.llvm.control import Callee
from hlotool.codegen.llvm.types import Number
from hlotool.codegen.llvm.values import Bool, Struct, Vector, operand
from hlotool.codegen.llvm.writer import LIBRARY, Function, Unit

__all__ = [
    "any_lane", "exact_fma", "exponent_bias", "flushes", "fma", "horner", "keeps_excess", "mantissa_bits", "outlined",
    "outlined_many", "product_error", "signed_zero",
]  # fmt: skip


def mantissa_bits(element: str) -> int:
    """Stored fraction bits of ``float`` or ``double``."""
    return {"float": 23, "double": 52}[element]


def exponent_bias(element: str) -> int:
    return {"float": 127, "double": 1023}[element]


def fma(a: Vector, b: Vector | Number, c: Vector | Number) -> Vector:
    """a * b + c: fused where the processor can, two roundings elsewhere."""
    return a.call("fmuladd", a.lift(b), a.lift(c))


def exact_fma(a: Vector, b: Vector | Number, c: Vector | Number) -> Vector:
    """a * b + c with one rounding everywhere (a slow library call on processors without FMA)."""
    return a.call("fma", a.lift(b), a.lift(c))


def product_error(a: Vector, b: Vector | Number, product: Vector) -> Vector:
    """a * b - product, exactly, for f64: by FMA, or by halves of the factors (Dekker, Numer. Math. 18, 1971)."""
    b = a.lift(b)
    if a.f.unit.instructions.fma:
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


def any_lane(mask: Vector) -> Bool:
    """Whether any lane of `mask` is set."""
    return mask.bit() if mask.lanes == 1 else mask.packed().ne(0).bit()


def keeps_excess(unit: Unit, element_type: str) -> bool:
    """Whether values of this type may stay unrounded f32 in registers."""
    return unit.machine is not None and unit.machine.numerics.excess_precision and element_type in ("f16", "bf16")


def flushes(unit: Unit) -> bool:
    """Whether arithmetic takes subnormal numbers for zeros."""
    return unit.machine is not None and unit.machine.numerics.flush_denormals


def signed_zero(x: Vector) -> Vector:
    """Zero with the sign of x: what a function gives that keeps zeros, also for what is flushed and compares equal."""
    return x.like(0.0).copysign(x)


def outlined(name: str, arguments: Sequence[Vector], body: Callable[..., Vector], cold: bool = False) -> Vector:
    """Call internal function ``@<name>_<type>.hlo``, writing it into the unit on first use; see `outlined_many`."""
    return outlined_many(name, arguments, lambda *inputs: [body(*inputs)], cold=cold)[0]


def outlined_many(
    name: str, arguments: Sequence[Vector], body: Callable[..., Sequence[Vector]], count: int = 1, cold: bool = False
) -> list[Vector]:
    """Call an internal function that returns `count` vectors, written into the unit on first use.

    The text is one of the library, which is keyed by name: units that are joined into one module keep a single copy.
    All results have the type of the first argument.  `cold` tells the register allocator that calls are rare.
    """
    first = arguments[0]
    f = first.f
    # A module may join units with and without a machine, whose texts differ.
    symbol = f"{name}_{first.suffix}{'' if f.unit.machine else '_portable'}{LIBRARY}"
    if symbol not in f.unit.library:
        inner = Function(f.unit, "")
        parameters = [argument.named(f"%p{i}", inner) for i, argument in enumerate(arguments)]
        results = body(*parameters)
        returned = results[0] if count == 1 else Struct.of(results)
        inner.leave(operand(returned))
        taken = ", ".join(map(operand, parameters))
        head = f"define internal {returned.type} @{symbol}({taken}) nounwind{' cold' if cold else ''} {{"
        f.unit.library[symbol] = "\n".join([head, "entry:", *inner.lines, "}"])
    if count == 1:
        return [Callee(f"@{symbol}", first)(f, *arguments)]
    return Callee(f"@{symbol}", Struct(f, [first] * count, ""))(f, *arguments).parts()
