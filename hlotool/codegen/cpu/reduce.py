"""Reducers: their neutral elements, one step of them, and the tree that folds a vector.

A reducer that is a single commutative operation starts from its neutral element, and the initial value enters once at
the end.  Any other one starts every accumulator from the initial value: reducer and initial value must form a monoid
(StableHLO specification, ``reduce``), so this changes nothing.  Sums and products of floats narrower than f32
are accumulated in f32 and rounded once, as XLA's CPU compiler does when it normalises their types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlotool.codegen.cpu.inline import emit_inline
from hlotool.codegen.cpu.math.elements import compute_type, is_low_precision
from hlotool.codegen.cpu.math.elementwise import Value, constant, emit_elementwise
from hlotool.codegen.llvm import Function
from hlotool.ir import ELEMENT_TYPES, Computation

__all__ = ["Reducer", "parts", "reducer", "unparts"]


@dataclass(frozen=True, slots=True)
class Reducer:
    """How to accumulate: `opcode` of a single operation (None: `computation` inline), `types` of accumulators."""

    computation: Computation
    opcode: str | None
    types: tuple[str, ...]  # of the accumulators
    results: tuple[str, ...]  # of the values reduced

    def neutral(self, lanes: int) -> list[Value] | None:
        """Constants that change nothing; None when not known."""
        if self.opcode is None:
            return None
        kind = "f32" if is_low_precision(self.types[0]) else self.types[0]  # 8-bit floats may lack infinities
        return [constant(kind, lanes, _neutral(self.opcode, kind))]

    def neutral_number(self) -> object:
        """The number in `neutral`, for a single operation."""
        assert self.opcode is not None
        return _neutral(self.opcode, "f32" if is_low_precision(self.types[0]) else self.types[0])

    def step(self, f: Function, accumulators: Sequence[Value], values: Sequence[Value], lanes: int) -> list[Value]:
        """The accumulators after `values` (compute values of `types`)."""
        if self.opcode is None:
            return emit_inline(f, self.computation, [*accumulators, *values], lanes)
        kind = self.types[0]
        return [emit_elementwise(f, self.opcode, {}, [kind, kind], kind, lanes, [accumulators[0], values[0]])]

    def fold(self, f: Function, copies: Sequence[Sequence[Value]], lanes: int) -> list[Value]:
        """Several vector accumulators to scalars: pairs of copies, then halves of the vector."""
        level = [list(c) for c in copies]
        while len(level) > 1:
            pairs = [
                self.step(f, level[k], level[k + 1], lanes) if k + 1 < len(level) else level[k]
                for k in range(0, len(level), 2)
            ]
            level = pairs
        values = level[0]
        while lanes > 1:
            half = lanes // 2
            low = [_part(f, t, lanes, v, 0) for t, v in zip(self.types, values, strict=True)]
            high = [_part(f, t, lanes, v, half) for t, v in zip(self.types, values, strict=True)]
            lanes = half
            values = self.step(f, low, high, lanes)
        return values

    def finish(self, f: Function, values: Sequence[Value], lanes: int) -> list[Value]:
        """Accumulators as values of the result types."""
        return [
            v if held == wanted else emit_elementwise(f, "convert", {}, [held], wanted, lanes, [v])
            for held, wanted, v in zip(self.types, self.results, values, strict=True)
        ]


def reducer(computation: Computation, types: Sequence[str]) -> Reducer:
    """The reducer of values of `types` by `computation`."""
    opcode = _single(computation) if len(types) == 1 else None
    held = tuple(types)
    if opcode in ("add", "multiply") and is_low_precision(types[0]):
        held = ("f32",)
    return Reducer(computation, opcode, held, tuple(types))


def _single(computation: Computation) -> str | None:
    """The opcode when `computation` is one commutative operation on its two parameters."""
    root = computation.root
    if root.opcode not in ("add", "multiply", "maximum", "minimum", "and", "or", "xor"):
        return None
    if {o.opcode for o in root.operands} != {"parameter"} or root.operands[0] is root.operands[1]:
        return None
    return root.opcode if root.shape.is_scalar else None


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
    kind, half = compute_type(element_type, lanes), lanes // 2

    def cut(part: str) -> str:
        if half == 1:
            return f.let(f"extractelement {kind} {part}, i64 {first}")
        order = ", ".join(f"i32 {k}" for k in range(first, first + half))
        return f.let(f"shufflevector {kind} {part}, {kind} poison, <{half} x i32> <{order}>")

    return cut(value) if isinstance(value, str) else (cut(value[0]), cut(value[1]))


def parts(types: Sequence[str], values: Sequence[Value], lanes: int) -> list[tuple[str, str]]:
    """(LLVM type, name) of every register that holds `values`; complex values take two."""
    flat = []
    for element_type, value in zip(types, values, strict=True):
        kind = compute_type(element_type, lanes)
        flat += [(kind, part) for part in ((value,) if isinstance(value, str) else value)]
    return flat


def unparts(types: Sequence[str], names: Sequence[str]) -> list[Value]:
    """The values again."""
    values: list[Value] = []
    left = list(names)
    for element_type in types:
        if ELEMENT_TYPES[element_type].is_complex:
            values.append((left.pop(0), left.pop(0)))
        else:
            values.append(left.pop(0))
    return values
