"""Reducers: their neutral elements, one step of them, and the tree that folds a vector.

A reducer of which each result is one commutative operation starts from neutral elements, and the initial value enters
once at the end.  One that chooses between its values (`hlotool.analysis.reducers`) starts every accumulator from the
initial value, which changes nothing; where it wants to know what came first, it must be given a result that tells.
Any other one has one accumulator, which takes the elements from the first to the last.  Sums and products of floats
narrower than f32 are accumulated in f32 and rounded once, as XLA's CPU compiler does when it normalises their types.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.analysis import reducers
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import Register, constant, is_low_precision, joined, parts
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.writer import Function
from hlotool.ir import ELEMENT_TYPES, Computation
from hlotool.lazy_dataclass import dataclass

__all__ = ["Reducer", "product_sum", "reducer"]


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

    def neutral(self, f: Function, lanes: int) -> list[Register] | None:
        """Constants that change nothing; None when not known."""
        if not self.opcodes:
            return None
        numbers = zip(self.types, self.neutral_numbers(), strict=True)
        return [constant(f, _wide(kind), lanes, number) for kind, number in numbers]

    def neutral_numbers(self) -> list[object]:
        """The numbers in `neutral`, where there are opcodes."""
        return [_neutral(opcode, _wide(kind)) for opcode, kind in zip(self.opcodes, self.types, strict=True)]

    def step(self, accumulators: Sequence[Register], values: Sequence[Register]) -> list[Register]:
        """The accumulators after `values`, of `types`."""
        if not self.opcodes:
            first = parts(accumulators[0])[0]
            return emit_inline(first.f, self.computation, [*accumulators, *values], first.lanes)
        return [
            emit_elementwise(opcode, {}, [kind, kind], kind, [a, b])
            for opcode, kind, a, b in zip(self.opcodes, self.types, accumulators, values, strict=True)
        ]

    def join(self, left: Sequence[Register], right: Sequence[Register]) -> list[Register]:
        """One lot of accumulators from two, of different elements."""
        if self.place is None:
            return self.step(left, right)
        kind = self.types[self.place]
        places = [left[self.place], right[self.place]]
        ahead = emit_elementwise("compare", {"direction": "LE"}, [kind, kind], "pred", places)

        def either(yes: Sequence[Register], no: Sequence[Register]) -> list[Register]:
            return [
                emit_elementwise("select", {}, ["pred", t, t], t, [ahead, a, b])
                for t, a, b in zip(self.types, yes, no, strict=True)
            ]

        return self.step(either(left, right), either(right, left))

    def fold(self, copies: Sequence[Sequence[Register]]) -> list[Register]:
        """Several vector accumulators to scalars: pairs of copies, then halves of the vector."""
        level = [list(c) for c in copies]
        while len(level) > 1:
            pairs = [
                self.join(level[k], level[k + 1]) if k + 1 < len(level) else level[k]
                for k in range(0, len(level), 2)
            ]
            level = pairs
        (values,) = level
        lanes = parts(values[0])[0].lanes
        while lanes > 1:
            lanes //= 2
            low, high = ([_half(value, first) for value in values] for first in (0, lanes))
            values = self.join(low, high)
        return values

    def finish(self, values: Sequence[Register]) -> list[Register]:
        """Accumulators as values of the result types."""
        return [
            v if kind == wanted else emit_elementwise("convert", {}, [kind], wanted, [v])
            for kind, wanted, v in zip(self.types, self.results, values, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class ProductSum(Reducer):
    """The sum of products of pairs of values: multiplied and added at once where the processor can."""

    def neutral(self, f: Function, lanes: int) -> list[Register]:
        return [constant(f, self.types[0], lanes, 0)]

    def step(self, accumulators: Sequence[Register], values: Sequence[Register]) -> list[Register]:
        """With one value that is a sum, to be added; else any number of pairs."""
        (kind,), (total,) = self.types, accumulators
        times, plus = ("and", "or") if kind == "pred" else ("multiply", "add")
        if len(values) == 1:
            return [emit_elementwise(plus, {}, [kind] * 2, kind, [total, *values])]
        for x, y in zip(values[::2], values[1::2], strict=True):
            if isinstance(total, Vector) and not ELEMENT_TYPES[kind].is_float:
                product = emit_elementwise(times, {}, [kind] * 2, kind, [x, y])
                total = emit_elementwise(plus, {}, [kind] * 2, kind, [total, product])
            else:
                total = _multiply_add(x, y, total)
        return [total]


def _multiply_add(x: Register, y: Register, total: Register) -> Register:
    """``x * y + total`` of floats or complex numbers."""
    a, b, sums = parts(x), parts(y), parts(total)
    if len(sums) == 1:
        return fma(a[0], b[0], sums[0])
    return fma(-a[1], b[1], fma(a[0], b[0], sums[0])), fma(a[1], b[0], fma(a[0], b[1], sums[1]))


def product_sum(element_type: str) -> Reducer:
    """The sum of products of pairs of values of a type, which is also that of the sum."""
    return ProductSum(Computation("products"), (), (element_type,), (element_type,), False)


def reducer(computation: Computation, types: Sequence[str], rising: Sequence[int] = ()) -> Reducer:
    """The reducer of values of `types` by `computation`; those numbered in `rising` grow from element to element."""
    opcodes = reducers.opcodes(computation)
    if opcodes:
        wide = [opcode in ("add", "multiply") and is_low_precision(t) for opcode, t in zip(opcodes, types, strict=True)]
        kinds = tuple("f32" if widened else t for widened, t in zip(wide, types, strict=True))
        return Reducer(computation, opcodes, kinds, tuple(types), False)
    choice = reducers.choice(computation)
    if choice is None:
        return Reducer(computation, (), tuple(types), tuple(types), True)
    place = None if choice.commutes else next((n for n in choice.places if n in rising), None)
    return Reducer(computation, (), tuple(types), tuple(types), not choice.commutes and place is None, place)


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


def _half(register: Register, first: int) -> Register:
    """The half of a vector that begins at lane `first`; a scalar when one lane is left."""
    half = parts(register)[0].lanes // 2
    return joined([p[first] if half == 1 else p.shuffle(range(first, first + half)) for p in parts(register)])
