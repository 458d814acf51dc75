"""Reducers: their neutral elements, one step of them, and the tree that folds a vector.

A reducer of which each result is one commutative operation starts from neutral elements, and the initial value enters
once at the end.  One that chooses between its values (`hlotool.analysis.reducers`) starts every accumulator from the
initial value, which changes nothing; where it wants to know what came first, it must be given a result that tells.
Any other one has one accumulator, which takes the elements from the first to the last.  Sums and products of floats
narrower than f32 are accumulated in f32 and rounded once, as XLA's CPU compiler does when it normalises their types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlotool.analysis import reducers
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import compute_element, is_low_precision
from hlotool.codegen.llvm.math.elementwise import Value, constant, emit_elementwise
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.writer import Function
from hlotool.ir import ELEMENT_TYPES, Computation

__all__ = ["Reducer", "parts", "product_sum", "reducer", "unparts"]


@dataclass(frozen=True, slots=True)
class Reducer:
    """How to accumulate: each result by its one of `opcodes`, or (none given) by `computation` inline.

    `in_order`: elements must be taken from the first to the last.  Accumulators of different elements may be joined
    otherwise, in any order, or where `place` is given with the one on the left that has the lower value number `place`.
    """

    computation: Computation
    opcodes: tuple[str, ...]
    types: tuple[str, ...]  # of the accumulators
    results: tuple[str, ...]  # of the values reduced
    in_order: bool
    place: int | None = None

    def neutral(self, lanes: int) -> list[Value] | None:
        """Constants that change nothing; None when not known."""
        if not self.opcodes:
            return None
        numbers = zip(self.types, self.neutral_numbers(), strict=True)
        return [constant(_wide(kind), lanes, number) for kind, number in numbers]

    def neutral_numbers(self) -> list[object]:
        """The numbers in `neutral`, where there are opcodes."""
        return [_neutral(opcode, _wide(kind)) for opcode, kind in zip(self.opcodes, self.types, strict=True)]

    def step(self, f: Function, accumulators: Sequence[Value], values: Sequence[Value], lanes: int) -> list[Value]:
        """The accumulators after `values` (compute values of `types`)."""
        if not self.opcodes:
            return emit_inline(f, self.computation, [*accumulators, *values], lanes)
        return [
            emit_elementwise(f, opcode, {}, [kind, kind], kind, lanes, [a, b])
            for opcode, kind, a, b in zip(self.opcodes, self.types, accumulators, values, strict=True)
        ]

    def join(self, f: Function, left: Sequence[Value], right: Sequence[Value], lanes: int) -> list[Value]:
        """One lot of accumulators from two, of different elements."""
        if self.place is None:
            return self.step(f, left, right, lanes)
        kind = self.types[self.place]
        places = [left[self.place], right[self.place]]
        ahead = emit_elementwise(f, "compare", {"direction": "LE"}, [kind, kind], "pred", lanes, places)

        def either(yes: Sequence[Value], no: Sequence[Value]) -> list[Value]:
            return [
                emit_elementwise(f, "select", {}, ["pred", t, t], t, lanes, [ahead, a, b])
                for t, a, b in zip(self.types, yes, no, strict=True)
            ]

        return self.step(f, either(left, right), either(right, left), lanes)

    def fold(self, f: Function, copies: Sequence[Sequence[Value]], lanes: int) -> list[Value]:
        """Several vector accumulators to scalars: pairs of copies, then halves of the vector."""
        level = [list(c) for c in copies]
        while len(level) > 1:
            pairs = [
                self.join(f, level[k], level[k + 1], lanes) if k + 1 < len(level) else level[k]
                for k in range(0, len(level), 2)
            ]
            level = pairs
        values = level[0]
        while lanes > 1:
            half = lanes // 2
            low = [_part(f, t, lanes, v, 0) for t, v in zip(self.types, values, strict=True)]
            high = [_part(f, t, lanes, v, half) for t, v in zip(self.types, values, strict=True)]
            lanes = half
            values = self.join(f, low, high, lanes)
        return values

    def finish(self, f: Function, values: Sequence[Value], lanes: int) -> list[Value]:
        """Accumulators as values of the result types."""
        return [
            v if held == wanted else emit_elementwise(f, "convert", {}, [held], wanted, lanes, [v])
            for held, wanted, v in zip(self.types, self.results, values, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class ProductSum(Reducer):
    """The sum of products of pairs of values: multiplied and added at once where the processor can."""

    def neutral(self, lanes: int) -> list[Value]:
        return [constant(self.types[0], lanes, 0)]

    def step(self, f: Function, accumulators: Sequence[Value], values: Sequence[Value], lanes: int) -> list[Value]:
        """With one value that is a sum, to be added; else any number of pairs."""
        (kind,), (total,) = self.types, accumulators
        times, plus = ("and", "or") if kind == "pred" else ("multiply", "add")
        if len(values) == 1:
            return [emit_elementwise(f, plus, {}, [kind] * 2, kind, lanes, [total, *values])]
        for x, y in zip(values[::2], values[1::2], strict=True):
            if isinstance(total, str) and not ELEMENT_TYPES[kind].is_float:
                product = emit_elementwise(f, times, {}, [kind] * 2, kind, lanes, [x, y])
                total = emit_elementwise(f, plus, {}, [kind] * 2, kind, lanes, [total, product])
            else:
                total = _multiply_add(f, kind, lanes, x, y, total)
        return [total]


def _multiply_add(f: Function, kind: str, lanes: int, x: Value, y: Value, total: Value) -> Value:
    """``x * y + total`` of floats or complex numbers."""
    element = compute_element(kind)
    a, b, sums = [
        [Vector(f, element, lanes, part) for part in ((value,) if isinstance(value, str) else value)]
        for value in (x, y, total)
    ]
    if len(sums) == 1:
        return fma(a[0], b[0], sums[0]).name
    real, imaginary = fma(-a[1], b[1], fma(a[0], b[0], sums[0])), fma(a[1], b[0], fma(a[0], b[1], sums[1]))
    return real.name, imaginary.name


def product_sum(element_type: str) -> Reducer:
    """The sum of products of pairs of values of a type, which is also that of the sum."""
    return ProductSum(Computation("products"), (), (element_type,), (element_type,), False)


def reducer(computation: Computation, types: Sequence[str], rising: Sequence[int] = ()) -> Reducer:
    """The reducer of values of `types` by `computation`; those numbered in `rising` grow from element to element."""
    opcodes = reducers.opcodes(computation)
    if opcodes:
        held = tuple("f32" if _accumulates(o, t) else t for o, t in zip(opcodes, types, strict=True))
        return Reducer(computation, opcodes, held, tuple(types), False)
    choice = reducers.choice(computation)
    if choice is None:
        return Reducer(computation, (), tuple(types), tuple(types), True)
    place = None if choice.commutes else next((n for n in choice.places if n in rising), None)
    return Reducer(computation, (), tuple(types), tuple(types), not choice.commutes and place is None, place)


def _accumulates(opcode: str, element_type: str) -> bool:
    return opcode in ("add", "multiply") and is_low_precision(element_type)


def _wide(element_type: str) -> str:
    """Where a neutral element is a constant of: 8-bit floats may lack infinities."""
    return "f32" if is_low_precision(element_type) else element_type


def _neutral(opcode: str, element_type: str) -> object:
    row = ELEMENT_TYPES[element_type]
    match opcode:
        case "add":
            return -0.0 if row.is_float else complex(-0.0, -0.0) if row.is_complex else 0
        case "multiply":
            return 1
        case "or" | "xor":
            return 0
        case "and":
            return True if row.kind == "pred" else -1
    largest = opcode == "minimum"
    if row.is_float:
        return float("inf") if largest else float("-inf")
    if row.kind == "pred":
        return largest
    bits = row.bits
    if row.kind == "unsigned":
        return (1 << bits) - 1 if largest else 0
    return (1 << (bits - 1)) - 1 if largest else -(1 << (bits - 1))


def _part(f: Function, element_type: str, lanes: int, value: Value, first: int) -> Value:
    """The half of a vector that begins at lane `first`; a scalar when one lane is left."""
    half, kind = lanes // 2, compute_element(element_type)

    def cut(part: str) -> str:
        whole = Vector(f, kind, lanes, part)
        return (whole[first] if half == 1 else whole.shuffle(range(first, first + half))).name

    return cut(value) if isinstance(value, str) else (cut(value[0]), cut(value[1]))


def parts(f: Function, types: Sequence[str], values: Sequence[Value], lanes: int) -> list[Vector]:
    """Every register that holds `values`; complex values take two."""
    return [
        Vector(f, compute_element(element_type), lanes, part)
        for element_type, value in zip(types, values, strict=True)
        for part in ((value,) if isinstance(value, str) else value)
    ]


def unparts(types: Sequence[str], registers: Sequence[Vector]) -> list[Value]:
    """The values again."""
    left = iter([register.name for register in registers])
    return [(next(left), next(left)) if ELEMENT_TYPES[kind].is_complex else next(left) for kind in types]
